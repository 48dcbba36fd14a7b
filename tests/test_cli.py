"""The command line: what it prints, what it writes, and how it refuses."""

import ctypes
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from command_line import CliRunner

import condyle as cd
from condyle.commands.cli import app
from condyle.constraints.reduced_dynamics import ROBOT_FUNCTIONS

SCREEN = {"COLUMNS": "120", "NO_COLOR": "1"}


def condyle(*arguments):
    """The command in this process: loading the package takes longer than most commands."""
    return CliRunner().invoke(app, list(arguments), env=SCREEN)


def test_wrong_use_is_one_sentence_and_exit_code_2(tmp_path):
    # as it is typed, in a process of its own
    (tmp_path / "file").write_text("")
    for arguments in (["demo", "--out", str(tmp_path / "file")], ["demo", "pidgo", "--out", str(tmp_path)]):
        command = [sys.executable, "-m", "condyle", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **SCREEN}, timeout=300)
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert done.stderr.startswith("condyle: ") and len(done.stderr.strip().splitlines()) == 1
    assert condyle("nosuch").exit_code == 2


# ---- robots

BAD = """<robot name="bad">
  <link name="base"/>
  <link name="arm"/>
  <joint name="swing" type="revolute"><parent link="base"/><child link="nosuch"/><axis xyz="0 0 0"/></joint>
</robot>
"""


# an inertia that no body has
SUSPICIOUS = """<robot name="arm"><link name="base"/><link name="rod"><inertial><mass value="1"/><origin xyz="0 0 -0.3"/>
<inertia ixx="1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="swing" type="revolute"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="50" velocity="5"/></joint></robot>"""


def refused(*arguments):
    """What a command says that ends with exit code 2 and no traceback."""
    done = condyle(*arguments)
    assert done.exit_code == 2 and "Traceback" not in done.stderr and done.stderr.startswith("condyle: ")
    return done.stderr


def test_info_shows_the_tree_the_totals_and_the_frames():
    done = condyle("info", "birotor")
    assert done.exit_code == 0, done.stderr
    joint = next(line for line in done.stdout.splitlines() if "tilt_2" in line)
    for word in ("revolute x", "[-1.57, 1.57] rad", "3 rad/s", "6.6 N m", "gimbal_2", "0.25097 kg"):
        assert word in joint
    assert "1.44442 kg in 3 moving links; nq 9, nv 8; gravity (0, 0, -9.81) m/s^2" in done.stdout
    assert "flight_controller" in done.stdout
    assert "Kept as written" in done.stdout and "principal moments" in done.stdout, "notes come with advice"


def test_info_says_what_to_type_next(tmp_path):
    (tmp_path / "arm.urdf").write_text(SUSPICIOUS)
    lines = condyle("info", str(tmp_path / "arm.urdf")).stdout.splitlines()
    at = next(k for k, line in enumerate(lines) if line.startswith("Next:"))
    typed = [line.removeprefix("Next:").strip() for line in lines[at:]]
    assert [words.split()[1] for words in typed] == ["doctor", "view", "sim"] and typed[2].endswith("-o arm.cdl")
    assert condyle(*typed[2].split()[1:-1], str(tmp_path / "arm.cdl"), "--seconds", "0.1").exit_code == 0, "and it works"


def test_info_takes_base_and_arguments(tmp_path):
    assert "nq 12, nv 12" in condyle("info", "ur3", "--base", "euler").stdout
    (tmp_path / "arm.xacro").write_text(
        """<robot name="arm" xmlns:xacro="http://ros.org/wiki/xacro"><xacro:arg name="weight" default="1"/>
        <link name="base"/><link name="rod"><inertial><mass value="$(arg weight)"/>
        <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
        <joint name="swing" type="continuous"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/></joint></robot>"""
    )
    assert "2.5 kg in 1 moving link;" in condyle("info", str(tmp_path / "arm.xacro"), "--arg", "weight:=2.5").stdout
    assert "name:=value" in refused("info", "ur3", "--arg", "weight=2.5")


def test_info_as_json_is_the_robot():
    found = json.loads(condyle("info", "pidog", "--json").stdout)
    robot = cd.load("pidog")
    assert (found["nq"], found["nv"], found["mass"]) == (robot.nq, robot.nv, robot.mass)
    assert [joint["name"] for joint in found["joints"]] == robot.joint_names
    assert [frame["name"] for frame in found["frames"]] == robot.frame_names
    assert sum(joint["mass"] for joint in found["joints"]) == robot.mass
    assert found["report"] == robot.report


def test_a_wrong_robot_is_refused_in_sentences(tmp_path):
    (tmp_path / "bad.urdf").write_text(BAD)
    missing = refused("info", str(tmp_path / "nosuch.urdf"))
    assert "there is no such file" in missing and len(missing.splitlines()) == 1
    assert "did you mean 'ur3'" in refused("info", "urr3")
    assert "fixed, free, planar, euler" in refused("info", "ur3", "--base", "flying")
    assert "wrist_1_joint" in refused("export", "ur3", "--lock", "nosuch", "--c", str(tmp_path / "out.c"))
    assert not (tmp_path / "out.c").exists()
    head, *problems = refused("info", str(tmp_path / "bad.urdf")).splitlines()
    assert head == f"condyle: {len(problems)} problems" and len(problems) >= 2
    assert all("bad.urdf:4: joint 'swing'" in problem for problem in problems), "every problem of the file, with its place"


@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_exported_c_gives_the_bits_of_the_reference(tmp_path, precision):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source, header = tmp_path / "out.c", tmp_path / "out.h"
    single = ["--float32"] if precision == "f32" else []
    files = ["--c", str(source), "--header", str(header), *single]
    done = condyle("export", "double_pendulum", "--kernel", "forward_dynamics", *files)
    assert done.exit_code == 0, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.c", "out.h"], "no temporary files are left"
    library = tmp_path / "out.so"
    (tmp_path / "use.c").write_text('#include "out.h"\nvoid *use(void) { return (void *)forward_dynamics; }\n')
    flags = ["-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, source, tmp_path / "use.c", "-o", library, "-lm"], check=True)
    c = ctypes.CDLL(str(library)).forward_dynamics
    c.argtypes, c.restype = [ctypes.c_void_p] * 4, None
    dtype = np.float32 if precision == "f32" else np.float64
    rows = np.random.default_rng(1).normal(size=(3, 20, 2)).astype(dtype)
    a = np.empty((20, 2), dtype)
    for k in range(20):
        c(*[x[k].ctypes.data for x in rows], a[k].ctypes.data)
    wanted = cd.load("double_pendulum").function("forward_dynamics").on("reference")(*rows)
    assert a.tobytes() == wanted.tobytes()


def test_export_overwrites_only_with_force(tmp_path):
    target = tmp_path / "out.c"
    target.write_text("mine")
    arguments = ["export", "pendulum", "--kernel", "mass_matrix", "--c", str(target)]
    assert "--force" in refused(*arguments)
    assert target.read_text() == "mine"
    assert condyle(*arguments, "--force").exit_code == 0
    assert "mass_matrix" in target.read_text()
    assert "did you mean 'mass_matrix'" in refused("export", "pendulum", "--kernel", "mas_matrix", "--c", str(tmp_path / "x.c"))
    assert "two names" in refused("export", "pendulum", "--c", str(tmp_path / "x.c"), "--header", str(tmp_path / "x.c"))
    assert "is a folder" in refused("export", "pendulum", "--c", str(tmp_path))


def test_every_kernel_can_be_exported(tmp_path):
    from condyle.commands.export import export_c

    robot = cd.load("cartpole")
    for name in ROBOT_FUNCTIONS:
        export_c(robot, name, tmp_path / f"{name}.c", None, single=False, force=False)
        assert f"void {name}(" in (tmp_path / f"{name}.c").read_text()


def test_bench_measures_a_robot():
    done = condyle("bench", "double_pendulum", "--batch", "8", "--seconds", "0", "--json")
    assert done.exit_code == 0, done.stderr
    (robot,) = json.loads(done.stdout)["robots"]
    assert set(robot["functions"]) <= set(ROBOT_FUNCTIONS) and robot["functions"]["forward_dynamics"]["batch_ns"] > 0.0
    first = robot["first_result_s"]
    assert first["compiled"] > 0.0 and first["cached"] > 0.0
    assert "nothing to measure" in refused("bench", "pendulum", "--lock", "swing")


@pytest.mark.slow
def test_the_table_of_bench_has_a_row_for_each_function():
    done = condyle("bench", "pendulum", "--batch", "4", "--seconds", "0")
    assert "forward dynamics" in done.stdout and "from the cache" in done.stdout
