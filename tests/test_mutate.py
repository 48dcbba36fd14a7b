"""The faults that scripts/mutate.py draws: each changes one place, the draw is repeatable, and the table keeps its notes."""

import ast
from pathlib import Path

import pytest
from mutate import FOLDERS, KINDS, Fault, Outcome, attempt, draw, faults, leaves_a_program, notes_of, outcomes_in, table

SOURCE = """\
def f(x: tuple[0], y=1):
    "1 + 2 < 3"
    if x[0] < -y:
        raise ValueError(f"{x[0] + 1}")
    return (x[0] + 2.5) * x[1 - y]  # 1 + 1
"""


def changed(kind: str) -> list[str]:
    found = [fault for fault in faults("f.py", SOURCE) if fault.kind == kind]
    assert all(leaves_a_program(fault, SOURCE) for fault in found)
    return [fault.apply(SOURCE).splitlines()[fault.line - 1].strip() for fault in found]


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("sign", ["if x[0] < y:", "return (x[0] - 2.5) * x[1 - y]  # 1 + 1", "return (x[0] + 2.5) * x[1 + y]  # 1 + 1"]),
        ("comparison", ["if x[0] <= -y:"]),
        (
            "index",
            ["if x[1] < -y:", "return (x[1] + 2.5) * x[1 - y]  # 1 + 1", "return (x[0] + 2.5) * x[2 - y]  # 1 + 1"],
        ),
        ("constant", ["def f(x: tuple[0], y=2):", "return (x[0] + 5.0) * x[1 - y]  # 1 + 1"]),
        (
            "missing term",
            ["return (x[0]) * x[1 - y]  # 1 + 1", "return (x[0] + 2.5) * x[1]  # 1 + 1", "return x[0] + 2.5  # 1 + 1"],
        ),
    ],
)
def test_faults_of_a_kind(kind: str, lines: list[str]) -> None:
    assert sorted(changed(kind)) == sorted(lines)


def test_the_draw_is_repeatable_and_in_turn() -> None:
    drawn = draw(3, 10)
    assert drawn == draw(3, 10) != draw(4, 10)
    assert [Path(fault.file).parts[1] for fault in drawn] == [FOLDERS[k % len(FOLDERS)] for k in range(10)]
    assert [fault.kind for fault in drawn] == [KINDS[k % len(KINDS)] for k in range(10)]


def test_nothing_else_of_a_long_file_changes() -> None:
    source = (Path(__file__).parents[1] / "condyle" / "tape" / "elementary.py").read_text()
    for fault in list(faults("x.py", source))[::25]:
        result = fault.apply(source)
        assert result[: fault.start] == source[: fault.start] and result.endswith(source[fault.end :])
        ast.parse(result)


def test_the_table_keeps_its_notes(tmp_path: Path) -> None:
    fault = Fault("condyle/a.py", 3, "sign", 0, 1, "-")
    outcomes = [
        Outcome(fault, "a + b", "a - b", "", 1.0),
        Outcome(Fault("condyle/b.py", 9, "sign", 0, 1, ""), "x | y", "x", "t::u", 1.0),
    ]
    text = table(outcomes, 1, {"condyle/a.py:3": "changes nothing"})
    assert text.startswith("# 1 of 2 faults") and "| t::u |" in text
    assert notes_of(text)["condyle/a.py:3"] == "changes nothing" and notes_of(text)["condyle/b.py:9"] == ""
    assert outcomes_in(tmp_path / "nosuch") == {}


@pytest.mark.slow
@pytest.mark.parametrize(("test", "failed"), [("assert f(1) == 2", "tests/a/test_f.py::test_f"), ("assert f(1) >= 1", "")])
def test_a_fault_is_tried(tmp_path: Path, test: str, failed: str) -> None:
    source = "def f(x):\n    return x + 1\n"
    (tmp_path / "p" / "a").mkdir(parents=True)
    (tmp_path / "tests" / "a").mkdir(parents=True)
    (tmp_path / "p" / "a" / "f.py").write_text(source)
    (tmp_path / "tests" / "a" / "test_f.py").write_text(
        f"import sys\nsys.path.insert(0, 'p/a')\nfrom f import f\n\ndef test_f():\n    {test}\n"
    )
    fault = next(fault for fault in faults("p/a/f.py", source) if fault.kind == "missing term")
    for complete in (False, True):
        outcome = attempt(fault, tmp_path, 1, 100.0, complete)
        assert (outcome.before, outcome.after, outcome.complete) == ("return x + 1", "return x", complete)
        assert outcome.failed == failed
    assert (tmp_path / "p" / "a" / "f.py").read_text() == source
