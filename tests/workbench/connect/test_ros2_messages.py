"""Messages of ROS 2: their bytes are those of two codecs, their hashes those of ROS, their numbers those of the robot."""

import hashlib
import json
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import condyle as cd
from condyle.errors import ConnectError
from condyle.robot.joints import rotation_of
from condyle.workbench.connect.ros2_node import unwrapped, wrapped
from condyle.workbench.connect.ros2_wire import HEADER, dds_type_name, idl_struct
from condyle.workbench.runs.ros2_messages import (
    CLOCK,
    JOINT_STATE,
    NUMBERS,
    SERVICES,
    STRING,
    TF,
    TRAJECTORY,
    WRENCH,
    RobotMessages,
    decoded,
    encoded,
    message_class,
    nanoseconds,
    quaternion_of,
    stamp,
    type_hash,
    typestore,
)

USED = [JOINT_STATE, CLOCK, TF, STRING, WRENCH, NUMBERS, TRAJECTORY, "rmw_dds_common/msg/ParticipantEntitiesInfo"]
PARTS = [f"{service}_{part}" for service in SERVICES for part in ("Request", "Response")]

# hashes that ROS 2 Jazzy itself prints (ros2 topic info --verbose)
KNOWN = {
    JOINT_STATE: "RIHS01_a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e",
    STRING: "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18",
}

INTEGERS = {"int8": (8, 1), "int16": (16, 1), "int32": (32, 1), "int64": (64, 1), "char": (8, 0)}
INTEGERS |= {"uint8": (8, 0), "uint16": (16, 0), "uint32": (32, 0), "uint64": (64, 0), "byte": (8, 0)}
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


def field_values(description: Any) -> Any:
    """Random values of a field, as rosbags describes it; each a pair (for rosbags, for cyclonedds)."""
    kind, what = int(description[0]), description[1]
    if kind == 1:
        name = what[0]
        if name == "string":
            return TEXT.map(lambda text: (text, text))
        if name == "bool":
            return st.booleans().map(lambda value: (value, value))
        if name in INTEGERS:
            bits, signed = INTEGERS[name]
            return st.integers(-(1 << bits - 1) if signed else 0, (1 << bits - signed) - 1).map(lambda value: (value, value))
        return st.floats(width=32 if name == "float32" else 64, allow_nan=False).map(lambda value: (value, value))
    if kind == 2:
        return message_values(what)
    element, count = what
    size = {"min_size": count, "max_size": count} if kind == 3 else {"max_size": 4}
    rows = st.lists(field_values(element), **size)
    dtype = {"char": "uint8", "byte": "uint8"}.get(element[1][0], element[1][0]) if int(element[0]) == 1 else "string"
    return rows.map(lambda pairs: _sequence([a for a, _ in pairs], [b for _, b in pairs], dtype))


def _sequence(mine: list[Any], theirs: list[Any], dtype: str) -> tuple[Any, list[Any]]:
    return (mine if dtype in ("string", "bool") else np.array(mine, dtype=dtype)), theirs


def message_values(name: str) -> Any:
    """Random messages of a type: (that of rosbags, that of cyclonedds)."""
    fields = typestore().fielddefs[name][1]
    values = st.tuples(*(field_values(description) for _, description in fields))
    mine, theirs = message_class(name), idl_struct(name, False)
    return values.map(lambda pairs: (mine(*(a for a, _ in pairs)), theirs(*(b for _, b in pairs))))


@pytest.mark.parametrize("name", [*USED, *PARTS])
def test_bytes_of_both_codecs(name: str) -> None:
    """What rosbags encodes is what cyclonedds encodes from its own struct, and both decode it."""

    @given(message_values(name))
    def check(pair: tuple[Any, Any]) -> None:
        mine, theirs = pair
        data = encoded(mine)
        assert data == theirs.serialize(use_version_2=False)
        assert encoded(decoded(data, name)) == data
        assert idl_struct(name, False).deserialize(data).serialize(use_version_2=False) == data

    check()


@given(st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1), st.booleans(), TEXT)
def test_bytes_of_replies(guid: int, sequence: int, success: bool, text: str) -> None:
    """guid and sequence number in front of a reply, as the struct of rmw_cyclonedds_cpp has them."""
    kind = "std_srvs/srv/Trigger_Response"
    theirs = idl_struct(kind, True)(**dict(zip(HEADER, (guid, sequence), strict=True)), success=success, message=text)
    identity = guid.to_bytes(8, "little") + sequence.to_bytes(8, "little", signed=True)
    data = wrapped(identity, message_class(kind)(success, text))
    assert data == theirs.serialize(use_version_2=False)
    again, message = unwrapped(data, kind)
    assert again == identity and (message.success, message.message) == (success, text)


def test_names_on_the_wire() -> None:
    assert dds_type_name(JOINT_STATE) == "sensor_msgs::msg::dds_::JointState_"
    assert idl_struct(TF, False).__idl_typename__ == "tf2_msgs.msg.dds_.TFMessage_"
    assert idl_struct(PARTS[0], True).__idl_typename__ == "std_srvs.srv.dds_.Empty_Request_"


@pytest.mark.parametrize("name", KNOWN)
def test_hashes_of_ros(name: str) -> None:
    assert type_hash(name) == KNOWN[name]


def test_hash_by_its_definition() -> None:
    """sha256 of the description as JSON (REP 2016), written here by hand for a request."""
    field = {"type_id": 15, "capacity": 0, "string_capacity": 0, "nested_type_name": ""}
    described = {"type_name": "std_srvs/srv/SetBool_Request", "fields": [{"name": "data", "type": field}]}
    text = json.dumps({"type_description": described, "referenced_type_descriptions": []})
    assert type_hash("std_srvs/srv/SetBool_Request") == f"RIHS01_{hashlib.sha256(text.encode()).hexdigest()}"


def test_times() -> None:
    assert (stamp(3_000_000_007).sec, stamp(3_000_000_007).nanosec) == (3, 7)
    assert nanoseconds(stamp(12_345_678_901)) == 12_345_678_901


def test_wrong_bytes_are_refused() -> None:
    data = encoded(message_class(JOINT_STATE)(message_class("std_msgs/msg/Header")(stamp(0), ""), ["a"], *[np.ones(1)] * 3))
    for wrong in (b"", data[:-9], b"\x07\x07\x00\x00" + data[4:], data[:20] + b"\xff" * 8 + data[28:]):
        with pytest.raises(ConnectError, match="not a message of type sensor_msgs/msg/JointState"):
            decoded(wrong, JOINT_STATE)
    with pytest.raises(ConnectError, match=r"no message type 'sensor_msgs/msg/JointStates' \(did you mean"):
        message_class("sensor_msgs/msg/JointStates")


@given(st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=4).filter(lambda q: np.linalg.norm(q) > 0.1))
def test_quaternions(q: list[float]) -> None:
    unit = np.array(q) / np.linalg.norm(q)
    found = quaternion_of(np.asarray(rotation_of(unit), dtype=float))
    assert found[3] >= 0.0 and min(np.abs(found - unit).max(), np.abs(found + unit).max()) < 1e-14


@pytest.mark.parametrize("name", ["ur3", "pidog", "wheeled_pendulum"])
def test_transforms_lead_from_the_world_to_every_frame(name: str) -> None:
    """The product of /tf and /tf_static along the tree is the pose of each frame."""
    robot = cd.load(name)
    messages = RobotMessages(robot, [])
    q = robot.random_configuration(np.random.default_rng(1))
    full, _ = messages.full(q, np.zeros(robot.nv))
    sent = [*messages.static_transforms().transforms, *messages.transforms(0, full).transforms]
    parents = {each.child_frame_id: each for each in sent}
    assert len(parents) == len(sent), "a frame with two parents"

    def pose(frame: str) -> tuple[np.ndarray, np.ndarray]:
        if frame == "world":
            return np.eye(3), np.zeros(3)
        t = parents[frame].transform
        R, p = pose(parents[frame].header.frame_id)
        here = np.asarray(rotation_of([t.rotation.x, t.rotation.y, t.rotation.z, t.rotation.w]), dtype=float)
        return R @ here, p + R @ np.array([t.translation.x, t.translation.y, t.translation.z])

    frame_pose = partial(robot.frame_pose, q)
    for frame in [robot.model.links[-1].name, *list(parents)[:3]]:
        if frame in robot.frame_names:
            (R, p), (S, r) = pose(frame), frame_pose(frame)
            assert np.abs(R - S).max() < 1e-14 and np.abs(p - r).max() < 1e-14


def test_joint_states_have_names_and_efforts() -> None:
    robot = cd.load("ur3")
    motors = list(reversed(robot.joint_names))
    messages = RobotMessages(robot, motors)
    q, v, u = np.arange(6.0), -np.arange(6.0), 10.0 + np.arange(6.0)
    found = messages.joint_state(5, q, v, u)
    assert found.name == robot.joint_names and nanoseconds(found.header.stamp) == 5
    assert np.array_equal(found.position, q) and np.array_equal(found.velocity, v) and np.array_equal(found.effort, u[::-1])
    assert messages.joint_state(5, q, v, None).effort.size == 0
