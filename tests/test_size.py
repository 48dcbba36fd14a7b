"""The rules of scripts/check_size.py: what a file counts for, and what is said of a storey beyond its budget."""

import subprocess
from pathlib import Path

import check_size
import pytest
from check_size import Size, storey


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("condyle/tape/ops.py", "core"),
        ("condyle/errors.py", "core"),
        ("condyle/methods/mpc/sqp.py", "methods"),
        ("condyle/commands/app.py", "commands"),
        ("scripts/check_size.py", "scripts"),
        ("tests/tape/test_ops.py", "tests"),
    ],
)
def test_what_a_file_counts_for(path: str, kind: str) -> None:
    assert storey(Path(path)) == kind


def test_a_storey_beyond_its_budget_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_size, "sizes", lambda: {"commands": Size(34, 5000, 3000)})
    monkeypatch.setitem(check_size.BUDGET, "commands", Size(34, 5000, 3000))
    assert not list(check_size.check_size())
    monkeypatch.setitem(check_size.BUDGET, "commands", Size(33, 5000, 3000))
    (fault,) = check_size.check_size()
    assert fault.startswith("commands has 34 files") and "merge before adding" in fault


def test_a_file_is_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "condyle" / "apps").mkdir(parents=True)
    (tmp_path / "condyle" / "apps" / "a.py").write_text("def f(x):\n    # a comment\n    return x\n")
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(check_size, "ROOT", tmp_path)
    assert check_size.sizes()["apps"] == Size(1, 3, 2) and check_size.sizes()["core"] == Size(0, 0, 0)
