"""Every example runs to its end in a process of its own, and the last thing it prints is what it checked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))


def test_examples_are_numbered_from_one() -> None:
    assert [int(path.name.partition("_")[0]) for path in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, path], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, f"{path.name} wrote to stderr: {done.stderr}"
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith("checked: "), f"the last line of {path.name} says what it checked, but it is: {last}"
