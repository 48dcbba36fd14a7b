"""The lab sheets: every notebook runs to its end, has no outputs in the repository, and its checks need the answers."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

SHEETS = sorted((Path(__file__).resolve().parent.parent / "examples" / "lab_sheets").glob("*.ipynb"))
each_sheet = pytest.mark.parametrize("path", SHEETS, ids=lambda path: path.stem)


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return found


def is_solution(cell: dict[str, Any]) -> bool:
    return "solution" in cell["metadata"].get("tags", ())


def run(path: Path, *, solutions: bool = True) -> None:
    """Run the code cells in order in one namespace, as a notebook does."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    try:
        for number, cell in enumerate(cells(path)):
            if cell["cell_type"] == "code" and (solutions or not is_solution(cell)):
                exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), namespace)
    finally:
        sys.modules["matplotlib.pyplot"].close("all")


def test_there_are_six() -> None:
    assert [path.name[0] for path in SHEETS] == list("123456")


@pytest.mark.docs
@each_sheet
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(path)


@pytest.mark.docs
def test_checks_need_the_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NameError, match="energy"):
        run(SHEETS[0], solutions=False)


@each_sheet
def test_exercises_have_hidden_solutions_and_no_outputs(path: Path) -> None:
    found = cells(path)
    text = "".join("".join(cell["source"]) for cell in found if cell["cell_type"] == "markdown")
    solutions = [number for number, cell in enumerate(found) if is_solution(cell)]
    assert len(solutions) == text.count("**Exercise") >= 3
    assert "**Questions.**" in text and "**You will see**" in text
    for number in solutions:
        assert found[number]["metadata"]["jupyter"]["source_hidden"]
        assert "assert" in "".join("".join(cell["source"]) for cell in found[number + 1 : number + 3]), f"cell {number}"
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in found)
