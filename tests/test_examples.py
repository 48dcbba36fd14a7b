"""Every example runs to its end without a word on stderr, and the last thing it prints is what it checked."""

import os
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
PACKAGES = {26: "rsl_rl", 27: "stable_baselines3"}  # of extras that not every installation has
UNSEEN = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)  # Python does not show them


def test_examples_are_numbered_from_one() -> None:
    assert [int(path.name.partition("_")[0]) for path in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))
    assert len(EXAMPLES) >= 5


def check_printed(name: str, out: str, errors: str) -> None:
    """The last line says what was checked, and nothing else was said."""
    assert not errors, f"{name} wrote to stderr: {errors}"
    last = out.strip().splitlines()[-1]
    assert last.startswith("checked: "), f"the last line of {name} says what it checked, but it is: {last}"


@pytest.mark.docs
def test_an_example_in_a_process_of_its_own(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, EXAMPLES[0]]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    check_printed(EXAMPLES[0].name, done.stdout, done.stderr)


@pytest.mark.docs
@pytest.mark.parametrize("path", EXAMPLES[1:], ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if (number := int(path.name.partition("_")[0])) in PACKAGES:
        pytest.importorskip(PACKAGES[number])
    # in this process: loading the package takes longer than many of them
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    with warnings.catch_warnings(record=True) as caught:
        runpy.run_path(str(path), run_name="__main__")
    assert [str(each.message) for each in caught if not issubclass(each.category, UNSEEN)] == []
    check_printed(path.name, *capsys.readouterr())
