"""Bags of ROS 2: what rosbags reads is what the run has, metadata are as rosbag2 needs them, and wrong files get one sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import StoragePlugin, Writer
from workbench.runs.small import swing

import condyle as cd
from condyle.workbench.runs.bags import read_joint_states, write_bag
from condyle.workbench.runs.ros2_messages import (
    JOINT_STATE,
    TF,
    encoded,
    header,
    message_class,
    nanoseconds,
    type_hash,
    typestore,
)
from condyle.workbench.runs.run import Run

STEPS = 25
TOPICS = {"/clock": STEPS + 1, "/joint_states": STEPS + 1, "/robot_description": 1, "/tf": 3, "/tf_static": 1, "/wrench": STEPS}


@pytest.fixture(scope="module")
def run() -> Run:
    return swing(STEPS)


@pytest.fixture(scope="module")
def bag(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bags") / "swing_bag"
    write_bag(run, path)
    return path


def test_every_message_has_the_numbers_of_the_run(run: Run, bag: Path) -> None:
    """Read by rosbags with the definitions in the bag itself, not with ours."""
    counts = dict.fromkeys(TOPICS, 0)
    with AnyReader([bag]) as reader:
        for connection, when, data in reader.messages():
            message: Any = reader.deserialize(data, connection.msgtype)
            k = counts[connection.topic]
            counts[connection.topic] += 1
            if connection.topic == "/joint_states":
                assert when == nanoseconds(message.header.stamp) == round(run.t[k] * 1e9)
                assert message.position.tobytes() == run.q[k].tobytes() and message.velocity.tobytes() == run.v[k].tobytes()
                assert message.effort.tobytes() == (run.u[k] if k < run.steps else np.zeros(0)).tobytes()
            elif connection.topic == "/wrench":
                force = message.wrench.force
                assert message.header.frame_id == "world" and [force.x, force.y, force.z] == run.wrenches[k, 0, :3].tolist()
            elif connection.topic == "/clock":
                assert nanoseconds(message.clock) == when
            elif connection.topic == "/robot_description":
                assert message.data.startswith("<?xml") and '<robot name="double_pendulum">' in message.data
    assert counts == TOPICS


def test_metadata_are_those_of_rosbag2(run: Run, bag: Path, tmp_path: Path) -> None:
    """As the writer of rosbags makes them: version 9, one MCAP file, counts, hashes and quality of service."""
    found = yaml.safe_load((bag / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    with Writer(tmp_path / "other", version=9, storage_plugin=StoragePlugin.MCAP) as other:
        connection = other.add_connection("/joint_states", JOINT_STATE, typestore=typestore())
        other.write(connection, 0, b"\0\1\0\0")
    expected = yaml.safe_load((tmp_path / "other" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert set(found) == set(expected)
    for key in ("version", "storage_identifier", "compression_format", "compression_mode", "ros_distro"):
        assert found[key] == expected[key]
    assert found["relative_file_paths"] == ["swing_bag.mcap"] and (bag / "swing_bag.mcap").is_file()
    assert found["duration"]["nanoseconds"] == round(run.seconds * 1e9) and found["message_count"] == sum(TOPICS.values())
    assert found["custom_data"] == {"condyle_run": run.hash, "robot": "double_pendulum"}
    topics = {row["topic_metadata"]["name"]: row for row in found["topics_with_message_count"]}
    assert {name: row["message_count"] for name, row in topics.items()} == TOPICS
    data = topics["/joint_states"]["topic_metadata"]
    theirs = expected["topics_with_message_count"][0]["topic_metadata"]
    assert {**data, "offered_qos_profiles": []} == theirs
    assert data["type_description_hash"] == type_hash(JOINT_STATE)
    for name, durability in (
        ("/joint_states", "volatile"),
        ("/tf_static", "transient_local"),
        ("/robot_description", "transient_local"),
    ):
        (qos,) = topics[name]["topic_metadata"]["offered_qos_profiles"]
        assert (qos["reliability"], qos["durability"], qos["history"]) == ("reliable", durability, "keep_last")


def test_the_mcap_file_is_one_of_ros_2(bag: Path) -> None:
    from mcap.reader import make_reader

    with open(bag / "swing_bag.mcap", "rb") as stream:
        reader = make_reader(stream, validate_crcs=True)
        assert reader.get_header().profile == "ros2"
        summary = reader.get_summary()
        assert summary is not None
        assert {schema.encoding for schema in summary.schemas.values()} == {"ros2msg"}
        assert {channel.message_encoding for channel in summary.channels.values()} == {"cdr"}
        tf = next(schema for schema in summary.schemas.values() if schema.name == TF)
        assert tf.data.decode().startswith("geometry_msgs/TransformStamped[] transforms\n====")
        assert all("offered_qos_profiles" in channel.metadata for channel in summary.channels.values())


@pytest.mark.parametrize("source", ["folder", "file", "json"])
def test_joint_states_come_back(source: str, run: Run, bag: Path, tmp_path: Path) -> None:
    path = {"folder": bag, "file": bag / "swing_bag.mcap", "json": tmp_path / "log.mcap"}[source]
    if source == "json":
        cd.export_run(run, path)
    log = read_joint_states(path)
    assert log.names == ("shoulder", "elbow")
    assert log.position.tobytes() == run.q.tobytes() and log.velocity.tobytes() == run.v.tobytes()
    assert log.effort[:-1].tobytes() == run.u.tobytes() and np.isnan(log.effort[-1]).all()
    assert np.allclose(log.t, run.t, rtol=0.0, atol=1e-15)
    turned = log.ordered(["elbow", "shoulder"])
    assert np.array_equal(turned.position, log.position[:, ::-1])
    with pytest.raises(cd.FileError, match=r"no joint 'elbo' \(did you mean 'elbow'\?\)"):
        log.ordered(["elbo"])


def test_a_measured_wrench_is_in_the_axes_of_its_sensor(tmp_path: Path) -> None:
    """A run of a loop with a force-torque sensor called ft_sensor."""
    robot = cd.load("double_pendulum")
    world = cd.Simulation(robot, 0.01)
    sensor = cd.blocks.ForceTorque("tip", name="ft_sensor")
    loop = cd.Loop(world, lambda x: {"u": 0.0 * sensor(x)["force"][:2], "wrenches": {"tip": np.ones(6)}})
    with cd.Recorder(loop, loop.state([0.3, 0.2]), record=["ft_sensor.force", "ft_sensor.torque"]) as recorder:
        recorder.rollout(None, 5)
    assert recorder.run is not None
    cd.export_run(recorder.run, tmp_path / "bag", "bag")
    with AnyReader([tmp_path / "bag"]) as reader:
        (connection,) = [each for each in reader.connections if each.topic == "/wrench"]
        found: list[Any] = [reader.deserialize(data, connection.msgtype) for _, _, data in reader.messages([connection])]
    assert [each.wrench.force.z for each in found] == recorder.run.extras["ft_sensor.force"][:, 2].tolist()
    assert found[0].header.frame_id == "tip"


def written(path: Path, rows: list[tuple[int, list[str], list[float]]]) -> Path:
    """A bag with joint states as another program might write them: (ns, names, positions)."""
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as bag:
        connection = bag.add_connection("/joint_states", JOINT_STATE, typestore=typestore())
        for when, names, position in rows:
            message = message_class(JOINT_STATE)(header(when), names, np.array(position), np.zeros(0), np.zeros(0))
            bag.write(connection, when, encoded(message))
    return path


def test_bags_of_other_programs(tmp_path: Path) -> None:
    """Joints in another order are sorted; velocities that are missing are nan; times may repeat but not go back."""
    log = read_joint_states(written(tmp_path / "a", [(7, ["x", "y"], [1.0, 2.0]), (9, ["y", "x"], [4.0, 3.0])]))
    assert log.names == ("x", "y") and log.position.tolist() == [[1.0, 2.0], [3.0, 4.0]] and np.isnan(log.velocity).all()
    assert log.t.tolist() == [7e-9, 9e-9]
    wrong: dict[str, list[tuple[int, list[str], list[float]]]] = {
        "message 1 names the joints x, z, the first x, y": [(1, ["x", "y"], [1.0, 2.0]), (2, ["x", "z"], [1.0, 2.0])],
        "message 0 has 1 numbers for 2 joints": [(1, ["x", "y"], [1.0])],
        "message 0 names the joints none": [(1, [], [])],
        "no joint states": [],
    }
    for number, (sentence, rows) in enumerate(wrong.items()):
        path = written(tmp_path / f"wrong{number}", rows)
        with pytest.raises(cd.FileError, match=sentence):
            read_joint_states(path)
    path = written(tmp_path / "back", [(5, ["x"], [1.0]), (6, ["x"], [1.0])])
    data = (path / "back.mcap").read_bytes()
    at = data.rindex(b"\x00\x01\x00\x00" + bytes(4) + (6).to_bytes(4, "little"))  # the stamp in the second message
    (path / "back.mcap").write_bytes(data[: at + 8] + (3).to_bytes(4, "little") + data[at + 12 :])
    with pytest.raises(cd.FileError, match="message 1 is older than the one before it"):
        read_joint_states(path)


def test_files_that_are_no_bags(run: Run, bag: Path, tmp_path: Path) -> None:
    (tmp_path / "text.mcap").write_text("not a log")
    (tmp_path / "cut.mcap").write_bytes((bag / "swing_bag.mcap").read_bytes()[:500])
    (tmp_path / "folder").mkdir()
    for name in ("text.mcap", "cut.mcap", "folder"):
        with pytest.raises(cd.FileError, match="is not a bag or log with joint states"):
            read_joint_states(tmp_path / name)
    with pytest.raises(cd.FileError, match="does not exist"):
        read_joint_states(tmp_path / "nothing")
    with pytest.raises(cd.FileError, match=r"no topic '/joint_state' \(did you mean '/joint_states'\?\)"):
        read_joint_states(bag, "/joint_state")
    with pytest.raises(cd.FileError, match="has messages of type tf2_msgs/msg/TFMessage"):
        read_joint_states(bag, "/tf")
    with pytest.raises(cd.FileError, match="exists already"):
        write_bag(run, bag)
    with pytest.raises(cd.FileError, match="is not a bag, so it is not replaced"):
        write_bag(run, tmp_path / "folder", overwrite=True)
    with pytest.raises(cd.FileError, match="cannot be written"):
        write_bag(run, tmp_path / "no" / "such" / "folder")
    assert not [each for each in tmp_path.iterdir() if each.name.startswith("condyle-")]
    write_bag(run, bag, overwrite=True)
    assert len(read_joint_states(bag).t) == STEPS + 1
