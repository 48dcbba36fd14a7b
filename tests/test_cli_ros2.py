"""The command `ros2` and `export --bag`: what they print and write, and how they refuse."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import CliRunner

from condyle.commands.cli import app
from condyle.workbench.runs.bags import read_joint_states
from condyle.workbench.runs.run import read_run

DOMAIN = ["--domain", str(1 + os.getpid() % 100), "--namespace", f"/c{os.getpid()}"]


def condyle(*arguments: str) -> Any:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.mark.slow
def test_a_run_in_real_time_is_recorded_and_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = condyle(
        "ros2", "double_pendulum", *DOMAIN, "--seconds", "0.2", "--rate", "50", "-o", "run.cdl", "--bag", "now_bag", "--json"
    )
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["steps"], found["states"], found["commands"], found["mode"]) == (100, 10, 0, "realtime")
    run = read_run("run.cdl")
    assert run.steps == 100 and run.check()
    assert "condyle view two.cdl" in condyle("ros2", "double_pendulum", *DOMAIN, "--seconds", "0.02", "-o", "two.cdl").stdout
    assert "run_bag: 100 steps as a bag of ROS 2" in condyle("export", "run.cdl", "--bag").stdout
    for folder in ("now_bag", "run_bag"):
        assert len(read_joint_states(folder).t) == 101
    topics = yaml.safe_load(Path("now_bag/metadata.yaml").read_text())["rosbag2_bagfile_information"]["topics_with_message_count"]
    assert {row["topic_metadata"]["name"] for row in topics} >= {"/joint_states", "/wrench", "/tf", "/robot_description"}
    assert "run_bag exists already" in condyle("export", "run.cdl", "--bag").stderr
    assert condyle("export", "run.cdl", "--bag", "--force").exit_code == 0
    for words in (["-o", "run.cdl"], ["--bag", "now_bag"]):
        assert "exists already" in condyle("ros2", "double_pendulum", *DOMAIN, *words).stderr


def test_the_text_of_a_urdf_file_is_sent(tmp_path: Path) -> None:
    text = """<robot name="arm"><!-- a comment of its author --><link name="base"/><link name="tip"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="swing" type="continuous">
    <parent link="base"/><child link="tip"/><axis xyz="0 1 0"/></joint></robot>"""
    (tmp_path / "arm.urdf").write_text(text)
    done = condyle("ros2", str(tmp_path / "arm.urdf"), *DOMAIN, "--seconds", "0.01", "--bag", str(tmp_path / "bag"))
    assert done.exit_code == 0, done.stderr
    from rosbags.highlevel import AnyReader

    with AnyReader([tmp_path / "bag"]) as reader:
        (connection,) = [each for each in reader.connections if each.topic == "/robot_description"]
        ((_, _, data),) = reader.messages([connection])
        message: Any = reader.deserialize(data, connection.msgtype)
    assert message.data == text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--lockstep", "--connect-time", "0.2"], "no program gave a first command within 0.2 s"),
        (["--domain", "200"], "domain must be a whole number from 0 to 101, got 200"),
        (["--interface", "nosuch0"], "cannot use the network interface 'nosuch0'"),
        (["--rate", "1e6"], "--rate must be above zero and at most 500 Hz"),
        (["--seconds", "-1"], "give from 1 to"),
        (["--frame", "hand"], "has no frame 'hand'"),
        (["-o", "run.csv"], "does not end in .cdl: try -o run.cdl"),
        (["--name", "my node"], "the name of a node has letters"),
    ],
)
def test_wrong_input_is_one_sentence(arguments: list[str], sentence: str) -> None:
    done = condyle("ros2", "double_pendulum", *DOMAIN, *arguments)
    assert done.exit_code == 2 and sentence in done.stderr and "Traceback" not in done.stderr
