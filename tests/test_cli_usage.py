"""Command lines that cannot be read, and what is worth a word: one sentence each, with what to type instead."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from command_line import CliRunner

import condyle as cd
from condyle.commands.app import usage_text
from condyle.commands.cli import app
from condyle.commands.hints import file_hints, ground_hints, shell_command
from condyle.commands.scene import Origin, Scene, initial_configuration, push_frame
from condyle.tape.host_info import program

# a body on two legs; the names are those of its feet
BIPED = """<robot name="biped"><link name="pelvis">{body}</link>{legs}</robot>"""
INERTIAL = '<inertial><mass value="1"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>'
BOX = '<collision><origin xyz="0 0 {z}"/><geometry><box size="0.1 0.1 0.1"/></geometry></collision>'
LEG = """<link name="{foot}">{inertial}{box}</link>
<joint name="{name}_hip" type="revolute"><parent link="pelvis"/><child link="{foot}"/>
<origin xyz="0 {y} {z}"/><axis xyz="0 1 0"/><limit lower="{low}" upper="2" effort="50" velocity="9"/></joint>"""


def biped(feet=("l_foot", "r_foot"), z=-0.2, low=-2.0):
    def leg(name, foot, y):
        return LEG.format(name=name, foot=foot, inertial=INERTIAL, box=BOX.format(z=-0.3), y=y, z=z, low=low)

    legs = leg("l", feet[0], 0.1) + leg("r", feet[1], -0.1)
    return BIPED.format(body=INERTIAL + BOX.format(z=0.0), legs=legs)


def condyle(*arguments, **environment):
    done = CliRunner().invoke(app, [str(word) for word in arguments], env={"COLUMNS": "80", **environment}, prog_name="condyle")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def refused(*arguments):
    """What a command says that ends with exit code 2, in one sentence and no box."""
    done = condyle(*arguments)
    assert done.exit_code == 2 and done.stderr.startswith("condyle: ") and len(done.stderr.splitlines()) == 1, done.stderr
    assert not done.stdout and "─" not in done.stderr
    return done.stderr


# ---- words that cannot be read


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sim"], r"sim needs ROBOT, and none was given: try \S+ sim my.urdf --controller swing -o run.cdl"),
        (["view"], r"view needs ROBOT\|RUN, and none was given: try \S+ view ur3"),
        (["completion"], r"completion needs SHELL"),
        (["sim", "ur3", "--heigth", "1"], r"sim has no option --heigth \(did you mean '--height'\?\)"),
        (["sim", "ur3", "-q"], r"sim has no option -q;"),
        (["sim", "ur3", "--push", "1", "2"], r"--push needs 3 values: write --push X Y Z;"),
        (["sim", "ur3", "--push", "a", "0", "0"], r"--push needs a number, got 'a';"),
        (["sim", "ur3", "--seconds"], r"--seconds needs a value"),
        (["sim", "ur3", "--seconds", "abc"], r"--seconds needs a number, got 'abc';"),
        (["sim", "ur3", "--seed", "1.5"], r"--seed needs a whole number, got '1.5';"),
        (["sim", "ur3", "--seed", "-1"], r"--seed must be at least 0, got '-1';"),
        (["view", "ur3", "--port", "99999"], r"--port must be at most 65535, got '99999';"),
        (["sim", "ur3", "--json=3"], r"--json takes no value"),
        (["replay", "a.cdl", "b.cdl", "c.cdl"], r"replay does not take 'b.cdl c.cdl': leave it out, or try \S+ replay run.cdl"),
    ],
)
def test_words_that_cannot_be_read_are_one_sentence(words, said):
    found = refused(*words)
    assert re.search(said, found), found
    assert found.endswith(f"{words[0]} --help\n")


def test_a_verb_or_option_that_nobody_knows():
    assert "there is no command 'simm' (did you mean 'sim'?)" in refused("simm", "ur3")
    assert "condyle has no option --nosuch" in refused("--nosuch")
    assert refused("x" * 5000).count("x") < 100


def test_errors_of_other_readers_of_command_lines_are_sentences_too():
    class UsageError(Exception):
        exit_code, message = 2, "Something else is wrong."

    assert usage_text(UsageError(), None, "sim", "").startswith("something else is wrong; ")


@pytest.mark.slow
@pytest.mark.parametrize("words", [["sim", "--help"], []])
def test_a_reader_that_leaves_a_help_is_no_error(words):
    child = subprocess.Popen([sys.executable, "-m", "condyle", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    child.stdout.close()  # as `| head` does
    assert child.wait(timeout=60) == 141
    assert child.stderr.read() == ""
    child.stderr.close()


# ---- what is given in place of a robot


def test_a_run_a_folder_and_other_spellings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert condyle("sim", "Pendulum", "--seconds", "0.01", "-o", "a b.cdl").exit_code == 0
    for verb in ("sim", "info", "gradcheck"):
        assert "a b.cdl is a run, not a robot" in refused(verb, "a b.cdl") and "view 'a b.cdl'" in refused(verb, "a b.cdl")
    assert "replay 'a b.cdl' --check" in refused("doctor", "a b.cdl")
    (tmp_path / "mine").mkdir()
    assert "mine is a folder, not a robot: give a file in it" in refused("sim", "mine")
    (tmp_path / "mine" / "arm.urdf").write_text(biped())
    assert "give a file, as mine/arm.urdf" in refused("info", "mine")
    (tmp_path / "pidog").mkdir()
    assert condyle("info", "pidog").exit_code == 0, "a built-in name is no folder"
    assert "not a run: give a file that condyle sim -o" in refused("replay", "mine/arm.urdf")


def test_names_are_known_however_they_are_written():
    assert condyle("sim", "wheeled-pendulum", "-c", "balance", "--seconds", "0.01").exit_code == 0
    for name in ("UR3", "Arm", "wheeled-pendulum", "Two_Wheeled", "CHAIN:3"):
        assert condyle("info", name, "--json").exit_code == 0, name
    assert "did you mean 'pidog'" in refused("info", "pidogg")
    from condyle.apps.demos.registry import DEMOS, find

    for name in ("wheeled_pendulum", "Wheeled-Pendulum", "UR3", "PiDog"):
        assert find(name).name in DEMOS
    with pytest.raises(cd.CondyleError, match="there is no demo"):
        find("ur4")


# ---- numbers


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("option", ["--seconds", "--dt", "--height", "--noise"])
def test_numbers_that_are_none_are_named(option, value):
    said = refused("sim", "pidog", f"{option}={value}")
    assert f"{option} must be a finite number, got {value}" in said and f"try {option}" in said


def test_numbers_out_of_reach_are_named():
    assert "--push must be three finite numbers" in refused("sim", "pidog", "--push", "0", "nan", "0")
    assert "--dt must be above zero, got 0" in refused("sim", "pidog", "--dt", "0")
    assert "--dt must be above zero, got -1" in refused("sim", "pidog", "--dt=-1")
    assert "--seconds must be above zero, got -1" in refused("sim", "pidog", "--seconds=-1")
    assert "1 to 10,000,000" in refused("sim", "pidog", "--seconds", "1e300")
    assert "note: a time step of 0.1 s" in condyle("sim", "pendulum", "--dt", "0.1").stderr


def test_a_joint_beyond_its_limits_is_named_with_them(tmp_path):
    path = tmp_path / "biped.urdf"
    path.write_text(biped(low=0.5))
    assert "--joint r_hip=9: 9 is beyond the limits of 'r_hip': give a value from 0.5 to 2" in refused(
        "sim", path, "--joint", "r_hip=9"
    )
    assert "beyond the limits of 'l_hip'" in refused("sim", path, "--joint", "*=0.1")
    robot = cd.load(path)
    assert initial_configuration(robot, []).tolist() == [0.5, 0.5], "zero is beyond the limits: the nearer end"
    assert initial_configuration(robot, ["r_hip=1.5"]).tolist() == [0.5, 1.5]
    assert condyle("sim", path, "--seconds", "0.01").exit_code == 0


# ---- a base that should move


@pytest.mark.parametrize("feet", [("l_foot", "r_foot"), ("left", "right"), ("LToe", "RToe"), ("wheel_1", "wheel_2")])
def test_a_robot_that_stands_gets_a_hint_that_its_base_is_fixed(tmp_path, feet):
    path = tmp_path / "biped.urdf"
    path.write_text(biped(feet))
    assert file_hints(Origin(str(path))).fixed_in_air and not file_hints(Origin(str(path), "fixed")).fixed_in_air
    if feet[0] != "l_foot":
        return
    note = "note: the base is fixed in the air; --base free lets it stand on the ground\n"
    done = condyle("sim", path, "--seconds", "0.01", "--json")
    assert done.stderr == note and json.loads(done.stdout)["notes"] == [note[6:-1]] and json.loads(done.stdout)["base"]["fixed"]
    info = condyle("info", path)
    assert info.stderr == note and "--base free --controller hold" in info.stdout
    for base in ("free", "fixed"):
        assert condyle("sim", path, "--base", base, "--seconds", "0.01").stderr == ""
    assert "base │" in condyle("sim", path, "--seconds", "0.01").stdout.replace("  ", "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (biped(("a", "b"), z=0.6), "arms that reach up"),
        (biped(("torsoLeft", "torsoRight"), z=0.6), "no sole"),
        (biped().replace("pelvis", "world"), "the file says that it is fixed to the world"),
    ],
)
def test_a_robot_that_does_not_stand_is_left_alone(tmp_path, text, why):
    (tmp_path / "robot.urdf").write_text(text)
    assert not file_hints(Origin(str(tmp_path / "robot.urdf"))).fixed_in_air, why


def test_what_a_fixed_base_cannot_do_is_refused_with_a_cure(tmp_path):
    path = tmp_path / "biped.urdf"
    path.write_text(biped())
    for words in (["--height", "1"], ["--push", "1", "0", "0"]):
        said = refused("sim", path, *words)
        assert words[0] in said and "--base free" in said
    assert "--live" in refused("sim", path, "--push", "1", "0", "0")
    assert "--ground none" in refused("sim", "pidog", "--height", "1", "--ground", "none")
    pushed = json.loads(condyle("sim", "cartpole", "--push", "10", "0", "0", "--seconds", "0.3", "--json").stdout)
    assert pushed["base"]["position"][0] > 0.1, "a cart on a rail can be pushed"


def test_an_arm_is_pushed_at_its_tip(tmp_path):
    def pd_control(*words):
        done = condyle("sim", "ur3", "-c", "hold", "--seconds", "0.2", *words, "-o", tmp_path / f"{len(words)}.cdl")
        assert done.exit_code == 0, done.stderr
        return cd.read_run(tmp_path / f"{len(words)}.cdl")

    still, pushed = pd_control(), pd_control("--push", "0", "20", "0")
    assert pushed.about["columns"]["wrenches"] == ["tool"] and np.abs(pushed.q - still.q).max() > 1e-3
    assert push_frame(cd.load("double_pendulum")) == "tip" and push_frame(cd.load("pidog")) == "torso"


# ---- what is worth a word


def test_warnings_about_a_file_are_one_line(tmp_path):
    path = tmp_path / "my arm.urdf"
    mesh = '<visual><geometry><mesh filename="package://mine/arm.stl"/></geometry></visual></link>'
    path.write_text(biped(("a", "b"), z=0.6).replace("</link>", mesh))
    for verb in ("info", "sim"):
        said = condyle(verb, path, *["--seconds", "0.01"] * (verb == "sim")).stderr
        assert re.fullmatch(r"note: 1 warning about its file: \S+ doctor '.*/my arm.urdf'\n", said), said
    assert condyle("sim", "pendulum", "--seconds", "0.01").stderr == ""


def test_a_robot_below_the_ground_gets_a_hint(tmp_path):
    path = tmp_path / "biped.urdf"
    path.write_text(biped().replace('<box size="0.1 0.1 0.1"/>', '<sphere radius="0.05"/>'))
    fallen = ("sim", path, "--base", "free", "--seconds", "2", "--joint", "*=1.2", "--passive")
    said = condyle(*fallen, "--contacts", "l_foot", "--contacts", "r_foot").stderr
    between, below = said.splitlines()
    assert re.fullmatch(
        r"note: links stick out between the contact points: 'pelvis' by \d+ mm; .* --contacts pelvis --contacts auto", between
    )
    assert re.fullmatch(r"note: pelvis is [\d.]+ m below the ground, .* --contacts auto lets the whole robot touch it", below)
    assert condyle(*fallen, "--contacts", "*").stderr == condyle(*fallen).stderr == ""
    # by hand: the body's sphere with its center a metre below
    simulation = Scene(Origin(str(path), "free")).simulation()
    q = simulation.robot.neutral()
    for z, words in ((-1.0, ["r_foot is 1.5 m below"]), (0.7, [])):
        q[2] = z
        found = ground_hints(simulation, simulation.state(q, np.zeros(simulation.robot.nv)))
        assert len(found) == len(words) and all(map(str.startswith, found, words)), found
    below = simulation.state(q - 5.0 * np.eye(len(q))[2], np.zeros(simulation.robot.nv))
    assert ground_hints(Scene(Origin(str(path), "free"), ground="none").simulation(), below) == []


def test_ctrl_c_without_a_file_says_that_nothing_is_kept(tmp_path, monkeypatch):
    rollout = cd.Recorder.rollout

    def interrupted(self, *args, **options):
        # in the middle of a block of ticks, which is finished
        signal.raise_signal(signal.SIGINT)
        return rollout(self, *args, **options)

    monkeypatch.setattr(cd.Recorder, "rollout", interrupted)
    done = condyle("sim", "pendulum")
    assert done.exit_code == 130
    assert done.stderr == "condyle: interrupted after 64 steps, nothing was recorded: -o run.cdl keeps a run\n"
    done = condyle("sim", "pendulum", "-o", tmp_path / "run.cdl")
    assert (
        done.stderr == "condyle: interrupted after 64 steps, which are kept\n" and cd.read_run(tmp_path / "run.cdl").steps == 64
    )


@pytest.mark.slow
def test_next_commands_can_be_typed(tmp_path):
    assert shell_command("view", "a b.cdl") == f"{program()} view 'a b.cdl'"
    here = {
        **os.environ,
        "PATH": os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if not shutil.which("condyle", path=p)),
    }
    words = [sys.executable, "-m", "condyle", "sim", "pendulum", "--seconds", "0.01", "-o", "my run.cdl"]
    done = subprocess.run(words, cwd=tmp_path, env=here, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    typed = done.stdout.partition("Next:")[2].strip().splitlines()
    again = subprocess.run(["sh", "-c", typed[-1]], cwd=tmp_path, env=here, capture_output=True, text=True, timeout=120)
    assert again.returncode == 0 and "bit-identical" in again.stdout, again.stderr
