"""What the doctor reports and leaves alone: two fixes that contradict each other, words that mean something else, guesses."""

import pytest
from workbench.doctor.arm import GOOD, UPPER_INERTIAL, fixed, look

from condyle.commands.doctor import examine
from condyle.errors import FileError
from condyle.workbench.doctor.diagnose import LOADS, WARNINGS
from condyle.workbench.doctor.spelling import edit_distance, misspelt


def joint_with(limit: str) -> str:
    return GOOD.replace('<limit lower="-1.5" upper="1.5" effort="20" velocity="3"/>', limit)


@pytest.mark.parametrize(
    "limit",
    [
        '<limit lowr="-1.5" uper="1.5" effort="20" velocity="3"/>',
        '<limit lowr="-1.5" upper="1.5" effort="20" velocity="3"/>',
        '<limt lower="-1.5" upper="1.5" effort="20" velocity="3"/>',
        '<limit Lower="-1.5" upepr="1.5" efort="20" velosity="3"/>',
    ],
)
def test_a_misspelt_limit_is_not_also_taken_away(limit, tmp_path):
    """The words are corrected first: no second fix may add, or make needless, what is there under a wrong name."""
    found = look(tmp_path, joint_with(limit))
    assert {each.rule for each in found.findings if each.fixable} <= {"unknown-attribute", "unknown-element"}
    assert found.verdict_after == LOADS and 'type="continuous"' not in found.corrected
    link = fixed(tmp_path, found).links[0]
    assert (link.limits.lower, link.limits.upper, link.limits.effort, link.limits.velocity) == (-1.5, 1.5, 20.0, 3.0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('<robot name="arm"', '<robot nam="arm"'),
        ('<joint name="elbow"', '<joint nme="elbow"'),
        ("<inertial>", "<inertal>"),
        ("<mass value", "<mass vale"),
    ],
)
def test_what_is_misspelt_is_not_added_again(before, after, tmp_path):
    text = GOOD.replace(before, after).replace("</inertial>", "</inertal>" if "inertal" in after else "</inertial>")
    found = look(tmp_path, text)
    assert found.corrected.partition("<!-- condyle")[0] == GOOD and found.verdict_after == LOADS


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('<origin xyz="0 0 0.3"/>', '<origin xyz="0 0 0.3" rpy_deg="0 0 90"/>'),
        ('lower="-1.5" upper="1.5"', 'lower_deg="-90" upper_deg="90"'),
        ('damping="0.1"', 'damping_ratio="0.7"'),
        ('damping="0.1"', 'damping_coeff="7" friction_loss="0.1"'),
        ('lower="-1.5" upper="1.5"', 'lower="-1.5" upper_mm="1500"'),
        ('<cylinder radius="0.03" length="0.3"/>', '<cylinder radius="0.03" length="0.3" radius2="1"/>'),
        ("<dynamics", '<dynamics_old damping="3"/><dynamics'),
    ],
)
def test_another_word_is_reported_and_left(before, after, tmp_path):
    """A known word with something added means something else, often in another unit: renaming it would make another robot."""
    text = GOOD.replace(before, after)
    found = look(tmp_path, text)
    assert found.verdict in (LOADS, WARNINGS) and found.corrected is None, found.fixed
    assert any("_" in each.what or "radius2" in each.what for each in found.findings)


@pytest.mark.parametrize(
    ("word", "meant"),
    [("velocty", "velocity"), ("Velocity", "velocity"), ("velcoity", "velocity"), ("effrot", "effort"), ("lowr", "lower"),
     ("uppper", "upper"), ("efforts", "effort"), ("lower_deg", ""), ("lowerm", ""), ("mlower", ""), ("uper2", ""), ("low", ""),
     ("effort_", ""), ("", ""), ("speed", ""), ("e" * 500, "")],
)  # fmt: skip
def test_slips_of_the_pen(word, meant):
    assert misspelt(word, ("lower", "upper", "effort", "velocity")) == meant


def test_edit_distance():
    apart = [("", "abc", 3), ("abc", "abc", 0), ("abc", "acb", 1), ("abc", "ab", 1), ("abc", "axc", 1), ("ypr", "rpy", 2)]
    assert all(edit_distance(a, b) == edit_distance(b, a) == n for a, b, n in apart)


def test_a_part_that_can_do_without_a_mass_gets_none(tmp_path):
    """A link without mass between two joints is common: it is reported, and 1000 kg are not given to its picture."""
    picture = '<visual><geometry><box size="1 1 1"/></geometry></visual>'
    text = GOOD.replace(UPPER_INERTIAL, "").replace('<link name="base"/>', f'<link name="base">{picture}</link>')
    found = look(tmp_path, text)
    assert [each.rule for each in found.findings if each.severity == "warning"] == ["no-mass"] and found.corrected is None


@pytest.mark.parametrize(
    ("written", "corrected"), [("1,5", "1.5"), ("0,234", "0.234"), ("1,2345", "1.2345"), ("1,234", None), ("-12,345", None)]
)
def test_a_comma_that_may_be_of_thousands_is_left(written, corrected, tmp_path):
    found = look(tmp_path, GOOD.replace('lower="-2"', f'lower="{written}"').replace('upper="2"', 'upper="20000"'))
    finding = next(each for each in found.findings if each.rule == "number")
    if corrected is None:
        assert not finding.fixable and found.corrected is None
        point, digits = written.replace(",", "."), written.replace(",", "")
        assert finding.advice == f"Write {point} or {digits}, whichever it is."
    else:
        assert f'lower="{corrected}"' in found.corrected


def test_the_corrected_file_says_what_was_assumed(tmp_path):
    evil = GOOD.replace('name="arm"', 'name="a--b"').replace('value="1.5"', 'value="-1.5"').replace('effort="20"', 'effort="-20"')
    for text in (evil, evil.replace("\n", ""), evil.replace("\n", "\r\n")):
        found = look(tmp_path, text, "a--b.urdf")
        account = found.corrected.partition("<!-- condyle doctor corrected a- -b.urdf:")[2]
        assert (
            "has the negative mass -1.5 kg -> writes value=" in account and "effort -20 is negative -> writes effort=" in account
        )
        assert fixed(tmp_path, found).nv == 2


def test_a_link_that_leads_out_is_not_written_through(tmp_path):
    path = tmp_path / "in" / "arm.urdf"
    path.parent.mkdir()
    path.write_text(GOOD.replace('value="1.5"', 'value="-1.5"'))
    (tmp_path / "in" / "arm.fixed.urdf").symlink_to(tmp_path / "elsewhere.txt")
    with pytest.raises(FileError, match="exists already"):
        examine(path, fix=True)
    assert not (tmp_path / "elsewhere.txt").exists()
