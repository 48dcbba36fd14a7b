"""The command line: what it prints, what it writes, and how it refuses."""

import json
import os
import subprocess
import sys


def condyle(*arguments, cwd=None):
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "condyle.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=300)


def test_demo_passes_all_its_checks_and_writes_its_files(tmp_path):
    done = condyle("demo", "--out", str(tmp_path / "shown"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout and done.stdout.count("ok") > 8
    assert (tmp_path / "shown" / "demo.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    numbers = json.loads((tmp_path / "shown" / "demo.json").read_text())
    assert numbers, "the numbers of the table, for scripts"
    assert sorted(p.name for p in (tmp_path / "shown").iterdir()) == ["demo.json", "demo.png"], "no temporary files are left"


def test_version_tells_the_machine():
    done = condyle("--version")
    assert done.returncode == 0
    for word in ("condyle", "llvm", "cpu", "threads", "cache"):
        assert word in done.stdout


def test_help_has_examples():
    for arguments in (["--help"], ["demo", "--help"], ["version", "--help"]):
        done = condyle(*arguments)
        assert done.returncode == 0 and "Example" in done.stdout


def test_wrong_use_is_one_sentence_and_exit_code_2(tmp_path):
    (tmp_path / "file").write_text("")
    for arguments in (["demo", "--lanes", "3"], ["demo", "--out", str(tmp_path / "file")]):
        done = condyle(*arguments)
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert done.stderr.startswith("condyle: ") and len(done.stderr.strip().splitlines()) == 1
    assert condyle("nosuch").returncode == 2
