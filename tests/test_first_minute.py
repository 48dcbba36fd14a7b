"""The first minute with a robot of one's own: from --help to a robot that moves, and advice after every mistake."""

import contextlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
from command_line import CliRunner

import condyle as cd
from condyle.commands.cli import app

MINE = """<robot name="mine">
  <link name="base"/>
  <link name="upper">
    <inertial>
      <origin xyz="0 0 -0.2"/><mass value="1"/>
      <inertia ixx="0.014" ixy="0" ixz="0" iyy="0.014" iyz="0" izz="0.001"/>
    </inertial>
    <visual><origin xyz="0 0 -0.2"/><geometry><cylinder radius="0.03" length="0.4"/></geometry></visual>
  </link>
  <link name="lower">
    <inertial>
      <origin xyz="0 0 -0.2"/><mass value="1"/>
      <inertia ixx="0.014" ixy="0" ixz="0" iyy="0.014" iyz="0" izz="0.001"/>
    </inertial>
    <visual><origin xyz="0 0 -0.2"/><geometry><cylinder radius="0.02" length="0.4"/></geometry></visual>
  </link>
  <joint name="shoulder" type="revolute">
    <parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" effort="20" velocity="5"/>
  </joint>
  <joint name="elbow" type="revolute">
    <parent link="upper"/><child link="lower"/><origin xyz="0 0 -0.4"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" effort="10" velocity="5"/>
  </joint>
</robot>
"""
INERTIAL = MINE[MINE.index("    <inertial>") : MINE.index("    <visual>")]
CYLINDER = '<cylinder radius="0.03" length="0.4"/>'

# words that say what to do
ADVICE = re.compile(
    r"did you mean|there are |give |write |add |try |use |put |condyle doctor|--\w+|: (use|save|delete|make)", re.IGNORECASE
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my.urdf").write_text(MINE)
    return tmp_path


def environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}


def typed(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command as it is typed, in a process of its own."""
    command = [sys.executable, "-m", "condyle.commands.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment(), timeout=300)


def condyle(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in this process: loading the package takes longer than most commands."""
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "100", "NO_COLOR": "1"})
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def refused(folder: Path, *arguments: str) -> str:
    """The error of a command: one sentence with advice."""
    before = sorted(folder.rglob("*"))
    done = condyle(folder, *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr and "Warning" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1 and lines[0].startswith("condyle: "), done.stderr
    assert len(lines[0]) > 30 and ADVICE.search(lines[0]), lines[0]
    assert sorted(folder.rglob("*")) == before, "nothing is left behind"
    return lines[0]


# ---- commands that work


def test_three_commands_to_a_robot_that_moves(folder):
    helped = typed(folder, "--help")
    assert helped.returncode == 0
    for verb in ("doctor", "sim", "view"):
        assert re.search(rf"\b{verb}\b", helped.stdout), f"--help names {verb}"
    examined = typed(folder, "doctor", "my.urdf")
    assert examined.returncode == 0 and "loads" in examined.stdout and "2 degrees of freedom" in examined.stdout, examined.stdout
    moved = typed(folder, "sim", "my.urdf", "--controller", "swing", "--seconds", "0.5", "--out", "run.cdl")
    assert moved.returncode == 0, moved.stderr
    run = cd.read_run(folder / "run.cdl")
    assert np.ptp(run.x[:, :2], axis=0).min() > 1e-3, "both joints move"
    assert run.check().identical


def test_a_broken_robot_is_fixed_and_moves_in_three_commands(folder):
    broken = (
        MINE.replace(INERTIAL, "", 1)
        .replace('link="lower"', 'link="lowr"')
        .replace('lower="-2" upper="2"', 'lower="2" upper="-2"', 1)
    )
    (folder / "my.urdf").write_text(broken)
    assert condyle(folder, "doctor", "my.urdf").returncode == 2, "errors remain while nothing is fixed"
    fixed = condyle(folder, "doctor", "my.urdf", "--fix")
    assert fixed.returncode == 1 and "my.fixed.urdf" in fixed.stdout, fixed.stdout + fixed.stderr
    moved = condyle(
        folder, "sim", "my.fixed.urdf", "--passive", "--seconds", "0.3", "--joint", "shoulder=0.5", "--out", "run.cdl"
    )
    assert moved.returncode == 0, moved.stderr
    run = cd.read_run(folder / "run.cdl")
    assert abs(run.x[-1, 0] - run.x[0, 0]) > 1e-2, "it falls"
    assert (folder / "my.urdf").read_text() == broken


def test_the_viewer_shows_ones_own_robot(folder):
    pytest.importorskip("viser")
    command = [sys.executable, "-m", "condyle.commands.cli", "view", "my.urdf", "--port", "0"]
    with open(folder / "said", "w+") as said:
        child = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, cwd=folder, env=environment())
        try:
            end, address = time.monotonic() + 120.0, None
            while address is None and time.monotonic() < end and child.poll() is None:
                time.sleep(0.2)
                address = re.search(r"http://127\.0\.0\.1:\d+", (folder / "said").read_text())
            assert address is not None, (folder / "said").read_text()
            with urlopen(address[0], timeout=30) as page:
                assert page.status == 200 and b"<html" in page.read().lower()
        finally:
            child.terminate()
            child.wait(timeout=30)


# ---- commands that fail


def test_a_file_that_is_not_there(folder):
    for verb in ("doctor", "sim", "info"):
        assert "nosuch.urdf" in refused(folder, verb, "nosuch.urdf")
    assert "did you mean my.urdf" in refused(folder, "doctor", "mx.urdf")


def test_a_file_that_is_not_there_for_the_viewer(folder):
    pytest.importorskip("viser")
    assert "nosuch.urdf" in refused(folder, "view", "nosuch.urdf")


def test_a_wrong_joint_name_names_the_right_ones(folder):
    said = refused(folder, "sim", "my.urdf", "--joint", "nosuch=1")
    assert "shoulder" in said and "elbow" in said
    assert "did you mean 'elbow'" in refused(folder, "sim", "my.urdf", "--joint", "elbw=1")
    assert "elbow" in refused(folder, "sim", "my.urdf", "--joint", "elbow=much")


def test_no_inertia(folder):
    (folder / "my.urdf").write_text(MINE.replace(INERTIAL, ""))
    said = refused(folder, "sim", "my.urdf", "--seconds", "0.1")
    assert "my.urdf:" in said and "doctor" in said, "the line, and the command that fixes it"
    examined = condyle(folder, "doctor", "my.urdf")
    assert examined.returncode == 2 and "cannot be simulated" in examined.stdout and "--fix" in examined.stdout


def test_missing_meshes_do_not_stop_the_physics(folder):
    (folder / "my.urdf").write_text(MINE.replace(CYLINDER, '<mesh filename="package://mine/upper.stl"/>'))
    examined = condyle(folder, "doctor", "my.urdf")
    assert examined.returncode == 1 and "--package-dir" in examined.stdout, examined.stdout
    moved = condyle(folder, "sim", "my.urdf", "--seconds", "0.05")
    assert moved.returncode == 0 and "Traceback" not in moved.stderr


def test_a_mesh_that_may_not_be_read_is_one_sentence(folder):
    (folder / "my.urdf").write_text(MINE.replace(CYLINDER, '<mesh filename="http://example.org/upper.stl"/>'))
    assert "package://" in refused(folder, "sim", "my.urdf")


def test_a_misspelt_link_is_one_sentence(folder):
    (folder / "my.urdf").write_text(MINE.replace('<child link="lower"/>', '<child link="lowwer"/>'))
    assert "did you mean 'lower'" in refused(folder, "sim", "my.urdf")
    assert "did you mean 'lower'" in refused(folder, "info", "my.urdf")


def test_what_is_no_robot_is_one_sentence(folder):
    (folder / "my.urdf").write_text("solid upper\nendsolid")
    done = typed(folder, "sim", "my.urdf")
    assert done.returncode == 2 and done.stderr.startswith("condyle: my.urdf:1: ") and "Traceback" not in done.stderr
    assert condyle(folder, "doctor", "my.urdf").returncode == 2
