"""The doctor: each problem is found in its line, each fix gives a robot that loads, nothing else in the file changes."""

import difflib
import json
import re
import runpy
from pathlib import Path

import numpy as np
import published
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markers import slow_except
from workbench.doctor.arm import FORE_INERTIAL, GOOD, LIMIT, UPPER_INERTIAL, fixed, line, look

from condyle.commands.doctor import examine, exit_code, facts, show
from condyle.errors import CondyleError, FileError, RobotError
from condyle.robot.load import load_model
from condyle.robot.xml import read_xml
from condyle.workbench.doctor.diagnose import FAILS, LOADS, NOT_SIMULABLE, WARNINGS, diagnose
from condyle.workbench.doctor.edits import SourceText
from condyle.workbench.doctor.fixes import admissible, nearest_body

HOSTILE = runpy.run_path(str(Path(__file__).parents[2] / "robot" / "test_hostile.py"))
URDF, XACRO = HOSTILE["URDF"], HOSTILE["XACRO"]


def changed(before: str, after: str) -> list[str]:
    """The lines that were taken out or put in."""
    lines = difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True))
    return [each for each in lines if each[0] in "+-"]


def test_a_correct_robot_has_no_findings(tmp_path):
    found = look(tmp_path, GOOD)
    assert found.verdict == LOADS and found.findings == () and found.corrected is None and exit_code(found) == 0
    assert found.summary["degrees_of_freedom"] == 2 and found.summary["mass"] == 2.0
    np.testing.assert_allclose(found.summary["extent"], [0.06, 0.06, 0.4], atol=1e-15)


# (name: what is replaced, by what; the kind, the severity, a word of the line it is in; whether the fix leaves nothing)
CASES: dict[str, tuple[str, str, str, str, str, bool]] = {
    "decimal comma": ('value="1.5"', 'value="1,5"', "number", "error", "1,5", True),
    "commas": ('xyz="0 0 0.3"', 'xyz="0, 0, 0.3"', "number", "error", "0, 0, 0.3", True),
    "units": ('length="0.3"', 'length="300mm"', "number", "error", "300mm", True),
    "degrees written": ('upper="1.5"', 'upper="90deg"', "number", "error", "90deg", True),
    "no alpha": ('rgba="0 0 1 1"', 'rgba="0 0 1"', "color", "warning", "rgba", False),
    "endless effort": ('effort="20"', 'effort="inf"', "number", "error", '"inf"', False),
    "nan": ('value="1.5"', 'value="nan"', "number", "error", "nan", False),
    "misspelt element": ('<origin xyz="0 0 0.3"/>', '<origion xyz="0 0 0.3"/>', "unknown-element", "warning", "origion", True),
    "misspelt link": ('<link name="base"/>', '<lnk name="base"/>', "unknown-element", "error", "<lnk", True),
    "misspelt attribute": ('velocity="3"', 'velocty="3"', "unknown-attribute", "warning", "velocty", True),
    "robot misspelt": ("robot", "robott", "root-name", "error", "<robott", True),
    "no name": (' name="arm"', "", "robot-name", "hint", "<robot", True),
    "joint without name": (' name="elbow"', "", "joint-name", "error", '<joint type="revolute"', True),
    "hinge": ('name="elbow" type="revolute"', 'name="elbow" type="hinge"', "joint-type", "error", "hinge", True),
    "type misspelt": ('name="elbow" type="revolute"', 'name="elbow" type="revolut"', "joint-type", "error", "revolut\"", True),
    "type unknown": ('name="elbow" type="revolute"', 'name="elbow" type="xyz"', "joint-type", "error", '"xyz"', False),
    "axis long": ('<axis xyz="0 1 0"/>', '<axis xyz="0 3 4"/>', "axis-length", "warning", "0 3 4", True),
    "axis zero": ('<axis xyz="0 1 0"/>', '<axis xyz="0 0 0"/>', "axis-zero", "error", "0 0 0\"/>\n    <limit", False),
    "no limit": (LIMIT, "", "limit-missing", "warning", '"shoulder"', True),
    "no ends": (' lower="-1.5" upper="1.5"', "", "limit-missing", "warning", 'effort="20"', True),
    "one end": (' lower="-1.5"', "", "limit-end", "warning", 'upper="1.5"', True),
    "ends exchanged": ('lower="-1.5" upper="1.5"', 'lower="1.5" upper="-1.5"', "limit-order", "error", 'lower="1.5"', True),
    "ends equal": ('lower="-1.5" upper="1.5"', 'lower="1" upper="1"', "limit-equal", "warning", 'lower="1"', False),
    "ends in degrees": ('lower="-1.5" upper="1.5"', 'lower="-90" upper="90"', "limit-degrees", "warning", "-90", False),
    "rpy in degrees": ('<origin xyz="0 0 0.3"/>', '<origin xyz="0 0 0.3" rpy="0 0 90"/>', "rpy-degrees", "warning", "90", False),
    "continuous with ends": ('name="elbow" type="revolute"', 'name="elbow" type="continuous"', "limit-unused", "warning",
                             'lower="-2"', False),
    "no effort": (' effort="20"', "", "effort-missing", "hint", 'lower="-1.5"', False),
    "effort zero": ('effort="20"', 'effort="0"', "effort-zero", "warning", 'effort="0"', False),
    "effort negative": ('effort="20"', 'effort="-20"', "negative", "error", "-20", True),
    "damping negative": ('damping="0.1"', 'damping="-0.1"', "negative", "error", "-0.1", True),
    "parent misspelt": ('<parent link="upper"/>', '<parent link="uper"/>', "no-such-link", "error", "uper", True),
    "child in capitals": ('<child link="fore"/>', '<child link="Fore"/>', "no-such-link", "error", "Fore", True),
    "child unlike": ('<child link="fore"/>', '<child link="zzzzz"/>', "no-such-link", "error", "zzzzz", False),
    "mimic misspelt": ('<dynamics damping="0.1"/>', '<mimic joint="sholder"/>', "mimic-nobody", "error", "sholder", True),
    "mimic nobody": ('<dynamics damping="0.1"/>', '<mimic joint="zzz"/>', "mimic-nobody", "error", "zzz", False),
    "mimic itself": ('<dynamics damping="0.1"/>', '<mimic joint="elbow"/>', "mimic-itself", "error", "mimic", True),
    "joint twice": ('name="elbow"', 'name="shoulder"', "joint-twice", "error",
                    'name="shoulder" type="revolute">\n    <parent link="u', True),
    "link copied": ('  <link name="base"/>\n', '  <link name="base"/>\n  <link name="base" />\n', "link-twice", "error",
                    'base" />', True),
    "mass negative": ('value="1.5"', 'value="-1.5"', "mass-negative", "error", "-1.5", True),
    "moment negative": ('ixx="0.012"', 'ixx="-0.012"', "inertia-impossible", "error", "-0.012", True),
    "moment too large": ('izz="0.001"/>\n    </inertial>\n    <visual>',
                         'izz="1"/>\n    </inertial>\n    <visual>', "inertia-impossible", "warning", 'izz="1"', True),
    "product too large": ('ixy="0"', 'ixy="5"', "inertia-impossible", "error", 'ixy="5"', True),
    "no mass element": ('      <mass value="1.5"/>\n', "", "inertial-part", "warning", "<inertial>", True),
    "no moments": ('      <inertia ixx="0.012" ixy="0" ixz="0" iyy="0.012" iyz="0" izz="0.001"/>\n', "", "inertial-part",
                   "warning", "<inertial>", True),
    "no izz": (' izz="0.001"', "", "inertial-part", "error", "<inertial>", True),
    "no inertial": (UPPER_INERTIAL, "", "no-mass", "warning", '<link name="upper"', False),
    "mass zero": ('value="0.5"', 'value="0"', "no-mass", "warning", 'value="0"', False),
    "moments zero": ('ixx="0.002" ixy="0" ixz="0" iyy="0.002" iyz="0" izz="0.001"',
                     'ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"', "no-inertia", "error", 'ixx="0"', True),
    "axis twice": ('    <axis xyz="0 1 0"/>\n',
                   '    <axis xyz="0 1 0"/>\n    <axis  xyz="0 1 0"/>\n', "part-twice", "warning",
                   "<axis  ", True),
    "other axis": ('    <axis xyz="0 1 0"/>\n',
                   '    <axis xyz="0 1 0"/>\n    <axis xyz="1 0 0"/>\n', "part-twice", "warning", "1 0 0",
                   False),
    "box negative": ('size="0.06 0.06 0.3"', 'size="0.06 -0.06 0.3"', "size-negative", "error", "-0.06", True),
    "radius zero": ('radius="0.03"', 'radius="0"', "size-zero", "warning", 'radius="0"', False),
    "no geometry": ('      <geometry><cylinder radius="0.03" length="0.3"/></geometry>\n', "", "no-shape", "warning",
                    "<visual>", True),
    "no color": ('<material name="blue"/>', '<material name="red"/>', "no-color", "hint", '"red"', True),
    "mesh gone": ('<cylinder radius="0.03" length="0.3"/>', '<mesh filename="upper.stl"/>', "mesh-missing", "warning",
                  "upper.stl", True),
    "mesh of the web": ('<cylinder radius="0.03" length="0.3"/>', '<mesh filename="http://a/b.stl"/>', "mesh-missing", "error",
                        "http", True),
    "mesh of a package": ('<cylinder radius="0.03" length="0.3"/>', '<mesh filename="package://arm_x/b.stl"/>', "mesh-missing",
                          "warning", "package", False),
    "inertia in kg mm2": ('ixx="0.012" ixy="0" ixz="0" iyy="0.012" iyz="0" izz="0.001"',
                          'ixx="12000" ixy="0" ixz="0" iyy="12000" iyz="0" izz="1000"', "inertia-large", "hint", "12000", False),
    "mass in grams": ('value="1.5"', 'value="1500"', "mass-large", "hint", "1500", False),
    "com far out": ('<origin xyz="0 0 0.15" rpy="0 0 0"/>', '<origin xyz="0 0 150" rpy="0 0 0"/>', "com-outside", "hint", "150",
                    False),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_problem_is_found_in_its_line_and_fixed(case, tmp_path):
    old, new, kind, severity, at, complete = CASES[case]
    assert old in GOOD
    text = GOOD.replace(old, new) if case == "robot misspelt" else GOOD.replace(old, new, 1)
    found = look(tmp_path, text)
    ours = [each for each in found.findings if each.rule == kind]
    assert ours, [each.what for each in found.findings]
    finding = ours[0]
    assert finding.severity == severity and finding.where == f"{tmp_path / 'arm.urdf'}:{line(text, at)}", (
        finding,
        line(text, at),
    )
    assert finding.what and finding.advice.endswith(".") and finding.what.isprintable()
    assert (found.verdict == FAILS) == refused(tmp_path / "arm.urdf")
    if complete:
        assert finding.fixable and found.corrected is not None
        assert [each for each in found.remains if each.severity != "hint"] == [], found.remains
        assert fixed(tmp_path, found).nv == 2
        assert exit_code(found) == (0 if severity == "hint" else 1)
    else:
        assert any(each.rule == kind for each in found.remains) or case == "endless effort"


def test_nothing_but_the_wrong_lines_changes(tmp_path):
    text = GOOD.replace('velocity="3"', 'velocty="3"', 1).replace('value="1.5"', "value='1,5'").replace("\n", "\r\n")
    found = look(tmp_path, text)
    assert changed(text, found.corrected.partition("<!-- condyle")[0]) == [
        "-       <mass value='1,5'/>\r\n",
        "+       <mass value='1.5'/>\r\n",
        '-     <limit lower="-1.5" upper="1.5" effort="20" velocty="3"/>\r\n',
        '+     <limit lower="-1.5" upper="1.5" effort="20" velocity="3"/>\r\n',
    ]


def test_estimated_inertia_is_that_of_the_solid_shape(tmp_path):
    shape = GOOD[GOOD.index("    <collision>") : GOOD.index("  </link>")]
    found = look(tmp_path, GOOD.replace(FORE_INERTIAL, shape))
    link = fixed(tmp_path, found).links[1]
    m = 1000.0 * 0.06 * 0.06 * 0.3
    np.testing.assert_allclose(link.inertia.mass, m, rtol=1e-9)
    np.testing.assert_allclose(link.inertia.com, [0.0, 0.0, 0.15], rtol=1e-9, atol=1e-12)
    moments = m / 12.0 * np.array([0.06**2 + 0.3**2, 0.06**2 + 0.3**2, 2 * 0.06**2])
    np.testing.assert_allclose(np.diag(link.inertia.I_com), moments, rtol=1e-6)
    assert "<!-- condyle doctor: estimated from the collision shape at 1000 kg/m3 -->" in found.corrected


def test_a_mass_that_is_written_is_kept(tmp_path):
    found = look(tmp_path, GOOD.replace(' izz="0.001"', "", 1))
    link = fixed(tmp_path, found).links[0]
    assert link.inertia.mass == 1.5
    np.testing.assert_allclose(link.inertia.I_com[2, 2], 1.5 / 12.0 * 2 * 0.06**2, rtol=1e-9)


def test_a_joint_that_moves_nothing_loads_but_cannot_be_simulated(tmp_path):
    joint = '<joint name="j" type="continuous"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/></joint>'
    bare = f'<robot name="r"><link name="a"/><link name="b"/>{joint}</robot>'
    found = look(tmp_path, bare)
    assert found.verdict == NOT_SIMULABLE and exit_code(found) == 1 and found.verdict_after == LOADS
    np.testing.assert_allclose(fixed(tmp_path, found).links[0].inertia.mass, 1000 * 4 / 3 * np.pi * 0.03**3, rtol=1e-9)
    assert "\n" not in found.corrected.strip(), "a file of one line stays one"


def test_two_links_of_one_name_are_renamed(tmp_path):
    text = GOOD.replace("name='fore'", "name='upper'").replace('<child link="fore"/>', '<child link="upper"/>')
    text = text.replace('<parent link="upper"/>', '<parent link="base"/>')
    found = look(tmp_path, text)
    assert [link.name for link in fixed(tmp_path, found).links] == ["upper_2", "upper"]
    assert found.verdict_after == LOADS


def test_several_roots_and_cycles_are_reported_and_left(tmp_path):
    lonely = GOOD.replace("</robot>", '<link name="lonely"/></robot>')
    ring = GOOD.replace("</robot>", '<joint name="k" type="fixed"><parent link="fore"/><child link="base"/></joint></robot>')
    for text, word in ((lonely, "2 roots"), (ring, "cycle")):
        found = look(tmp_path, text)
        errors = [each for each in found.findings if each.severity == "error"]
        assert len(errors) == 1 and word in errors[0].what and not errors[0].fixable and exit_code(found) == 2
        assert "Correct it in this line" not in errors[0].advice


# ---- meshes


def stl(size: float) -> bytes:
    """A binary STL: a tetrahedron of this size."""
    corners = np.array([[0, 0, 0], [size, 0, 0], [0, size, 0], [0, 0, size]], dtype="<f4")
    faces = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
    body = b"".join(np.zeros(3, "<f4").tobytes() + corners[list(face)].tobytes() + b"\0\0" for face in faces)
    return bytes(80) + len(faces).to_bytes(4, "little") + body


def with_mesh(name: str, attributes: str = "") -> str:
    return GOOD.replace('<cylinder radius="0.03" length="0.3"/>', f'<mesh filename="{name}"{attributes}/>')


@pytest.mark.parametrize(
    ("written", "there", "corrected"),
    [
        ("upper.stl", "meshes/upper.stl", "meshes/upper.stl"),
        ("meshes/Upper.STL", "meshes/upper.stl", "meshes/upper.stl"),
        ("meshes\\upper.stl", "meshes/upper.stl", "meshes/upper.stl"),
        ("package://arm_description/meshes/upper.stl", "meshes/upper.stl", "meshes/upper.stl"),
        ("/home/somebody/upper.stl", "visual/upper.stl", "visual/upper.stl"),
        ("../../../../etc/upper.stl", "meshes/upper.stl", "meshes/upper.stl"),
        ("visual/upper.stl", "deep/visual/upper.stl", "deep/visual/upper.stl"),
    ],
)
def test_a_mesh_elsewhere_is_found(written, there, corrected, tmp_path):
    own = tmp_path / "own"
    (own / there).parent.mkdir(parents=True)
    (own / there).write_bytes(stl(0.1))
    found = look(own, with_mesh(written))
    assert f'filename="{corrected}"' in found.corrected and found.verdict_after == LOADS
    assert fixed(own, found).links[0].visuals[0].mesh == own / there


def test_a_package_beside_is_named(tmp_path):
    (tmp_path / "arm_x" / "meshes").mkdir(parents=True)
    (tmp_path / "arm_x" / "meshes" / "b.stl").write_bytes(stl(0.1))
    beside = tmp_path / "work" / "urdf"
    beside.mkdir(parents=True)
    assert look(beside, with_mesh("package://arm_x/meshes/b.stl")).findings == ()
    own = tmp_path / "code" / "work" / "urdf"
    own.mkdir(parents=True)
    found = look(own, with_mesh("package://arm_x/meshes/b.stl"))
    assert f"--package-dir {tmp_path}" in found.findings[0].advice and found.corrected is None
    assert look(own, with_mesh("package://arm_x/meshes/b.stl"), package_dirs=[tmp_path]).findings == ()


def test_millimetres(tmp_path):
    (tmp_path / "upper.stl").write_bytes(stl(300.0))
    found = look(tmp_path, with_mesh("upper.stl"))
    assert found.findings[0].rule == "mesh-millimetres" and 'scale="0.001 0.001 0.001"' in found.corrected
    assert look(tmp_path, with_mesh("upper.stl", ' scale="0.001 0.001 0.001"')).findings == ()


def test_a_mesh_nowhere_becomes_a_box_of_the_links_size(tmp_path):
    found = look(tmp_path, with_mesh("upper.stl"))
    assert '<box size="0.06 0.06 0.3"/></geometry>\n      <material' in found.corrected


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "secret.stl").write_bytes(stl(0.1))
    (own / "upper.stl").symlink_to(tmp_path / "secret.stl")
    found = look(own, with_mesh("nosuch/upper.stl"))
    assert "secret" not in found.corrected and "<box" in found.corrected


# ---- other files


def test_xacro_is_examined_and_its_fix_is_the_expanded_file(tmp_path):
    text = GOOD.replace(
        '<robot name="arm">', '<robot name="arm" xmlns:xacro="http://ros.org/wiki/xacro"><xacro:arg name="m" default="-1"/>'
    )
    text = text.replace('value="1.5"', 'value="$(arg m)"')
    found = look(tmp_path, text, "arm.urdf.xacro")
    assert found.format == "xacro" and found.findings[0].where.endswith(f"arm.urdf.xacro:{line(text, '$(arg m)')}")
    assert fixed(tmp_path, found).links[0].inertia.mass == 1.0
    assert look(tmp_path, text, "arm.urdf.xacro", xacro_args={"m": "2"}).findings == ()
    wrong = look(tmp_path, text, "arm.urdf")
    assert any(each.rule == "xacro" for each in wrong.findings) and fixed(tmp_path, wrong).nv == 2


def test_mjcf_is_reported_only(tmp_path):
    pytest.importorskip("mujoco")
    found = look(tmp_path, "<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>", "m.xml")
    assert found.format == "MJCF" and found.verdict in (LOADS, WARNINGS) and found.corrected is None
    assert look(tmp_path, "<mujoco><worldbody><body><joint type='x'/></body></worldbody></mujoco>", "m.xml").verdict == FAILS


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"), (b"hello", "broken"), (b"<sdf/>", "SDF"), (b"<html/>", "no URDF"), (GOOD[:700].encode(), "broken"),
        (bytes(range(256)), "UTF-8"), (b"<robot name='r'/>", "no <link>"),
    ],
)  # fmt: skip
def test_what_is_no_robot_gets_a_sentence(content, word, tmp_path):
    path = tmp_path / "a.urdf"
    path.write_bytes(content)
    found = examine(path, fix=True)
    assert found.verdict == FAILS and exit_code(found) == 2 and any(word in each.what for each in found.findings)
    assert [p.name for p in tmp_path.iterdir()] == ["a.urdf"], "nothing is written where nothing is fixed"


def test_utf_16_is_written_as_utf_8(tmp_path):
    (tmp_path / "a.urdf").write_bytes(GOOD.replace('<?xml version="1.0"?>\n', "").encode("utf-16"))
    found = examine(tmp_path / "a.urdf", fix=True)
    assert found.findings[0].rule == "encoding" and load_model(tmp_path / "a.fixed.urdf").nv == 2


# ---- the command


def test_the_corrected_file_lies_beside_and_the_original_is_untouched(tmp_path):
    text = GOOD.replace('value="1.5"', 'value="-1.5"')
    path = tmp_path / "arm.urdf"
    path.write_text(text)
    assert exit_code(examine(path)) == 2 and [p.name for p in tmp_path.iterdir()] == ["arm.urdf"]
    found = examine(path, fix=True)
    assert path.read_text() == text and found.written == tmp_path / "arm.fixed.urdf" and exit_code(found) == 1
    account = "arm.urdf:\n  line 9: link 'upper' has the negative mass -1.5 kg -> writes value=\"1.5\"\n-->\n"
    assert found.written.read_text() == f"{GOOD}<!-- condyle doctor corrected {account}"
    assert exit_code(examine(found.written)) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["arm.fixed.urdf", "arm.urdf"], "no temporary files are left"
    found.written.write_text("mine")
    with pytest.raises(FileError, match="--force"):
        examine(path, fix=True)
    assert found.written.read_text() == "mine"
    assert examine(path, fix=True, force=True).written.read_text().startswith(GOOD)


def test_what_is_shown_and_what_scripts_get(tmp_path):
    from rich.console import Console

    path = tmp_path / "arm.urdf"
    path.write_text(GOOD.replace('value="1.5"', 'value="-1.5"').replace('"elbow"', '"[red]elbow[/red]"').replace(LIMIT, ""))
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    show(examine(path, fix=True), console)
    text = console.export_text()
    for word in (
        "does not load",
        f"line {line(GOOD, '1.5')}",
        "negative mass",
        "Done: --fix writes",
        "arm.fixed.urdf: loads",
        "2 kg",
    ):
        assert word in text, text
    data = json.loads(json.dumps(facts(examine(path))))
    assert data["verdict"] == FAILS and data["exit_code"] == 2 and data["counts"] == {"error": 1, "warning": 1, "hint": 0}
    assert data["findings"][0]["line"] == line(GOOD, "1.5") and data["findings"][0]["fixable"] is True


def test_files_that_are_not_there(tmp_path):
    (tmp_path / "robot.urdf").write_text(GOOD)
    for path, word in (
        (tmp_path / "robto.urdf", "did you mean"),
        (tmp_path, "folder"),
        (Path("ur3"), "built-in"),
        (Path("no"), "no such"),
    ):
        with pytest.raises(RobotError, match=word) as caught:
            examine(path)
        assert len(caught.value.problems) == 1 and "\n" not in str(caught.value)


def test_strict_takes_warnings_for_errors(tmp_path):
    (tmp_path / "a.urdf").write_text(GOOD.replace('effort="20"', 'effort="0"'))
    assert exit_code(examine(tmp_path / "a.urdf")) == 1
    assert exit_code(examine(tmp_path / "a.urdf", strict=True)) == 2


# ---- all kinds of files


ROBOTS = [
    path for path in published.URDFS if path.stem in ("panda", "ur5_robot", "talos_reduced", "go2", "xarm7", "anymal", "romeo")
]


@pytest.mark.skipif(not published.URDFS, reason="example-robot-data is not installed")
@pytest.mark.parametrize("path", ROBOTS, ids=published.name)
def test_published_robots_load(path):
    found = diagnose(path, package_dirs=published.PACKAGE_DIRS, fix=True)
    stuck = path.stem == "romeo"  # its hands move nothing
    assert found.verdict in ((NOT_SIMULABLE,) if stuck else (LOADS, WARNINGS))
    assert stuck or not [each for each in found.findings if each.severity == "error"]
    model = load_model(path, package_dirs=published.PACKAGE_DIRS)
    assert found.summary["degrees_of_freedom"] == sum(link.kind.nv for link in model.links if link.mimic is None)


# those that take long to write down are looked at in test_hostile.py
QUICK = [what for what, text in URDF.items() if len(text) < 1_000_000]


@pytest.mark.parametrize(
    "what",
    slow_except(
        [what for what in QUICK if what not in ("all joints broken", "all parents wrong")],
        [*QUICK, "deep", "many elements", "huge attribute", "too many links"],
    ),
)
def test_hostile_files_get_sentences(what, tmp_path):
    text = URDF[what]
    path = tmp_path / "bad.urdf"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    judge(path)


@pytest.mark.parametrize("what", list(XACRO)[::4])
def test_hostile_xacro_gets_sentences(what, tmp_path):
    (tmp_path / "bad.xacro").write_text(XACRO[what])
    judge(tmp_path / "bad.xacro")


def judge(path: Path) -> None:
    """The doctor says something, agrees with the loader, writes nothing but its file, and that is what it says it is."""
    found = examine(path, fix=True, force=True)
    names = {p.name for p in path.parent.iterdir()}
    assert names <= {path.name, "bad.fixed.urdf"} and ("bad.fixed.urdf" in names) == (found.corrected is not None)
    for finding in (*found.findings, *found.remains):
        assert finding.advice and len(finding.what) < 700 and finding.what.isprintable() and "\n" not in finding.advice, finding
    assert (found.verdict == FAILS) == refused(path)
    if found.written is not None:
        assert (found.verdict_after == FAILS) == refused(found.written)
    json.dumps(facts(found))


def refused(path: Path) -> bool:
    try:
        load_model(path)
    except CondyleError:
        return True
    return False


TOKENS = [match.span() for match in re.finditer(r'[\w.-]+="[^"]*"|[\w.-]+|/?>|"', GOOD)]
words = st.sampled_from(
    ["", "0", "-1", "1e9", "nan", "upper", "fore", "x", "0 0 0", "1,5", 'a="1"', "<", "&", "é", "<link/>", "fixed"]
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(TOKENS), words, st.sampled_from(["replace", "delete", "double", "swap"])),
        min_size=1,
        max_size=4,
    )
)
def test_the_doctor_never_fails_on_a_damaged_file(tmp_path, damages):
    text = GOOD
    for (start, end), word, how in sorted(damages, reverse=True):
        piece = text[start:end]
        new = {"replace": word, "delete": "", "double": piece + " " + piece, "swap": piece[:1] + piece[1:][::-1]}[how]
        text = text[:start] + new + text[end:]
    path = tmp_path / "bad.urdf"
    path.write_bytes(text.encode())
    (tmp_path / "bad.fixed.urdf").unlink(missing_ok=True)
    judge(path)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-10, 10), min_size=6, max_size=6))
def test_the_nearest_body_can_exist(entries):
    xx, xy, xz, yy, yz, zz = entries
    I = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    near, _ = nearest_body(I)
    if np.abs(near).max() > 1e-9:
        assert admissible(near, 1e-9)
    if admissible(I, -1e-3) and np.linalg.eigvalsh(I)[0] > 1e-3:
        np.testing.assert_allclose(near, I, atol=1e-4)


def test_text_of_all_kinds_is_edited_in_its_place(tmp_path):
    odd = '<link name = "a>b" /><!-- <link/> --><gazebo><![CDATA[<link name="z">]]></gazebo>'
    text = "\ufeff" + GOOD.replace('<link name="base"/>', f'<link name="base"/>{odd}').replace('value="1.5"', "value = '1,5'")
    text = text.replace("</robot>", '<joint name="k" type="weld"><parent link="base"/><child link="a&gt;b"/></joint></robot>')
    found = look(tmp_path, text)
    assert found.verdict_after == LOADS
    assert found.corrected.partition("<!-- condyle")[0] == text.replace("'1,5'", "'1.5'").replace('"weld"', '"fixed"')


def test_a_point_gets_the_moments_of_its_shape(tmp_path):
    text = GOOD.replace('ixx="0.012" ixy="0" ixz="0" iyy="0.012" iyz="0" izz="0.001"', 'ixx="0" iyy="0" izz="0"')
    found = look(tmp_path, text)
    assert [each.rule for each in found.findings] == ["inertia-zero"], "its centre is off the axis, so it can be simulated"
    body = fixed(tmp_path, found).links[0].inertia
    assert body.mass == 1.5
    np.testing.assert_allclose(body.I_com[0, 0], 1.5 / 12.0 * (0.06**2 + 0.3**2), rtol=1e-8)


def test_edits_that_overlap_wait():
    text = "<robot><a x='1'/><b/></robot>"
    root = read_xml(text, "f")
    page = SourceText(text, root)
    a = root.children[0]
    groups = [page.set(a, "x", "2"), page.drop(a), page.set(a, "y", "3") + page.rename(root.children[1], "c")]
    assert page.corrected(groups) == ("<robot><a x='2' y=\"3\"/><c/></robot>", [0, 2])
    assert page.corrected([page.inside(root, ["<z/>"])])[0] == "<robot><a x='1'/><b/><z/></robot>"
