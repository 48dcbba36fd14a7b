"""Bags of ROS 2: a run as rosbag2 writes it (MCAP, CDR messages, metadata.yaml), and joint states read from bags and logs.

write_bag(run, "swing_bag")              # ros2 bag play swing_bag; ros2 bag info swing_bag
log = read_joint_states("swing_bag")     # log.t, log.names, log.position, log.velocity, log.effort
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from condyle.atomic_write import READ_ADVICE, WRITE_ADVICE, PathLike
from condyle.errors import CondyleError, FileError, RobotError, require
from condyle.robot.names import nearest
from condyle.robot.to_urdf import to_urdf
from condyle.workbench.runs.ros2_messages import (
    CLOCK,
    JOINT_STATE,
    STRING,
    TF,
    WRENCH,
    RobotMessages,
    clock,
    encoded,
    nanoseconds,
    text,
    typestore,
)
from condyle.workbench.runs.run import Run

VERSION = 9  # of metadata.yaml, that of Jazzy
TF_RATE = 50.0  # Hz
MEASURED = ("ft_sensor.force", "ft_sensor.torque")  # signals that become /wrench: force and torque in the sensor's axes
STATES = "/joint_states"
MCAP_MAGIC = b"\x89MCAP0\r\n"
MOST_NUMBERS = 1 << 30  # of a log


# ---- write


def write_bag(
    run: Run, path: PathLike, *, description: str | None = None, tf_rate: float = TF_RATE, overwrite: bool = False
) -> None:
    """None; the folder `path` is a bag of the run, complete or not there at all.

    /joint_states, /clock and, if the run has them, /wrench (geometry_msgs/msg/WrenchStamped: measured by the loop's "ft_sensor",
    or else what acted at the first frame with wrenches) at every state; /tf at most at `tf_rate`; /robot_description and
    /tf_static once. `description`: the URDF text, by default written from the model. Times are those of the simulation, from 0
    on.
    """
    robot = run.robot
    messages = RobotMessages(robot, [str(row[0]).partition(".")[2] for row in run.about["columns"]["u"]])
    if description is None:
        with suppress(RobotError):  # a robot that URDF cannot describe has no such topic
            description = to_urdf(robot.model)
    target = Path(os.path.realpath(path))
    if target.exists() and not overwrite:
        raise FileError(f"{path} exists already: give another name, or overwrite=True to replace it.")
    if target.exists() and not (target / "metadata.yaml").is_file():
        raise FileError(f"{path} is not a bag, so it is not replaced: give another name.")
    temporary = target.parent / f"condyle-{os.getpid()}-{secrets.token_hex(8)}" / target.name
    try:
        temporary.parent.mkdir()
        _write(run, messages, description, temporary, tf_rate)
        if target.exists():
            shutil.rmtree(target)
        temporary.replace(target)
    except OSError as error:
        raise FileError(f"{path} cannot be written ({error.strerror or error}): {WRITE_ADVICE}.") from error
    finally:
        shutil.rmtree(temporary.parent, ignore_errors=True)


def _write(run: Run, messages: RobotMessages, description: str | None, folder: Path, tf_rate: float) -> None:
    rosbag2 = require("rosbags.rosbag2", "ros2", "bags of ROS 2")
    with rosbag2.Writer(folder, version=VERSION, storage_plugin=rosbag2.StoragePlugin.MCAP) as bag:
        bag.set_custom_data("condyle_run", run.hash)
        bag.set_custom_data("robot", str(run.about["robot"]))
        kinds = {
            "/tf_static": TF,
            "/robot_description": STRING,
            STATES: JOINT_STATE,
            "/clock": CLOCK,
            "/tf": TF,
            "/wrench": WRENCH,
        }
        wrench = wrench_rows(run)
        left_out = {"/robot_description": description is None, "/wrench": wrench is None}
        topics = {
            topic: bag.add_connection(topic, kind, typestore=typestore(), offered_qos_profiles=[_qos(topic)])
            for topic, kind in kinds.items()
            if not left_out.get(topic)
        }
        bag.write(topics["/tf_static"], 0, encoded(messages.static_transforms()))
        if description is not None:
            bag.write(topics["/robot_description"], 0, encoded(text(description)))
        q, v = messages.full(run.q, run.v)
        every = max(1, round(1.0 / max(tf_rate, 1e-9) / run.dt))
        for k, t in enumerate(run.t.tolist()):
            now = round(t * 1e9)
            bag.write(topics["/clock"], now, encoded(clock(now)))
            bag.write(topics[STATES], now, encoded(messages.joint_state(now, q[k], v[k], run.u[k] if k < run.steps else None)))
            if k % every == 0:
                bag.write(topics["/tf"], now, encoded(messages.transforms(now, q[k])))
            if wrench is not None and k < run.steps:
                bag.write(topics["/wrench"], now, encoded(messages.wrench(now, wrench[0], wrench[1][k])))


def wrench_rows(run: Run) -> tuple[str, np.ndarray] | None:
    """(frame_id, (T, 6)) of the wrench of a run: the measured one in its sensor's frame, or the one that acted, in world axes."""
    frames = [str(name) for name in run.about["columns"]["wrenches"]]
    if all(name in run.extras for name in MEASURED):
        return (frames[0] if frames else "ft_sensor"), np.concatenate([run.extras[name] for name in MEASURED], axis=1)
    return ("world", run.wrenches[:, 0]) if frames else None


def _qos(topic: str) -> Any:
    """The quality of service that a publisher of the topic offers, as `ros2 bag record` notes it."""
    of = require("rosbags.interfaces", "ros2", "bags of ROS 2")
    latched = topic in ("/tf_static", "/robot_description")
    durability = of.QosDurability.TRANSIENT_LOCAL if latched else of.QosDurability.VOLATILE
    # what rmw gives for "not set"
    infinite, depth = of.QosTime(9223372036, 854775807), 1 if latched else 100 if topic == "/tf" else 10
    kept, sure, alive = of.QosHistory.KEEP_LAST, of.QosReliability.RELIABLE, of.QosLiveliness.AUTOMATIC
    return of.Qos(kept, depth, sure, durability, infinite, infinite, alive, infinite, False)


# ---- read


@dataclass(frozen=True)
class JointLog:
    """Joint states over time: t, s, (T,); names (n,); position, velocity, effort (T, n), nan where a message has none.

    In a log of Condyle effort k acts from state k to the next, and the last one is nan.
    """

    t: np.ndarray
    names: tuple[str, ...]
    position: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray

    def ordered(self, joints: Sequence[str]) -> JointLog:
        """The log of these joints, in this order; a FileError if one is not in it."""
        for name in joints:
            if name not in self.names:
                raise FileError(f"the log has no joint '{name!s:.60}'{nearest(str(name), list(self.names))}")
        at = [self.names.index(name) for name in joints]
        return JointLog(self.t, tuple(joints), self.position[:, at], self.velocity[:, at], self.effort[:, at])


Sampled = tuple[float, Sequence[str], Any, Any, Any]  # t, names, position, velocity, effort


def read_joint_states(path: PathLike, topic: str = STATES) -> JointLog:
    """The joint states in a bag of ROS 2 (a folder, or an .mcap or .db3 file), or in an MCAP log that `export_run` wrote.

    Times are those of the headers, or when a message was recorded where a header has none. Every message must name the same
    joints, in any order; a FileError for anything else.
    """
    source = Path(path)
    try:
        if not source.exists():
            raise FileError(f"{path} does not exist: give a bag of ROS 2 or an .mcap log.")
        if source.is_dir() and not (source / "metadata.yaml").is_file():
            raise FileError(f"{path} is not a bag or log with joint states: the folder has no metadata.yaml.")
        rows = _json_rows(source, topic) if _is_json_log(source) else _bag_rows(source, topic)
        return _log(rows, f"{path}, topic {topic}")
    except (CondyleError, MemoryError):
        raise
    except OSError as error:
        raise FileError(f"{path} cannot be read ({error.strerror or error}): {READ_ADVICE}.") from error
    except Exception as error:  # whatever a package raises for a damaged file
        raise FileError(f"{path} is not a bag or log with joint states: {error!s:.200}.") from None


def _log(rows: Iterable[Sampled], where: str) -> JointLog:
    names: tuple[str, ...] = ()
    order: dict[tuple[str, ...], list[int]] = {}
    t, columns = list[float](), (list[np.ndarray](), list[np.ndarray](), list[np.ndarray]())
    for k, (time, found, *parts) in enumerate(rows):
        joints = tuple(found)
        names = names or joints
        if joints not in order:
            if sorted(joints) != sorted(names) or len(set(joints)) != len(joints) or not joints:
                named = ", ".join(joints)[:80] or "none"
                raise FileError(f"{where}: message {k} names the joints {named}, the first {', '.join(names)[:80]}.")
            order[joints] = [joints.index(name) for name in names]
        if (len(t) + 1) * (3 * len(names) + 1) > MOST_NUMBERS:
            raise FileError(f"{where} has more than {MOST_NUMBERS:,} numbers.")
        t.append(float(time))
        for column, part in zip(columns, parts, strict=True):
            numbers = np.asarray(part, dtype=float)
            if numbers.shape not in ((0,), (len(names),)):
                raise FileError(f"{where}: message {k} has {numbers.size} numbers for {len(names)} joints.")
            column.append(numbers[order[joints]] if numbers.size else np.full(len(names), np.nan))
    if not t:
        raise FileError(f"{where}: there are no joint states.")
    times = np.array(t)
    if np.any(np.diff(times) < 0.0):
        raise FileError(f"{where}: message {int(np.argmax(np.diff(times) < 0.0)) + 1} is older than the one before it.")
    return JointLog(times, names, *(np.array(column) for column in columns))


def _bag_rows(path: Path, topic: str) -> Iterator[Sampled]:
    highlevel = require("rosbags.highlevel", "ros2", "bags of ROS 2")
    with highlevel.AnyReader([path], default_typestore=typestore()) as reader:
        chosen = [connection for connection in reader.connections if connection.topic == topic]
        if not chosen:
            known = sorted({connection.topic for connection in reader.connections})
            raise FileError(f"{path} has no topic '{topic}'{nearest(topic, known)}; it has {', '.join(known)[:200] or 'none'}.")
        if any(connection.msgtype != JOINT_STATE for connection in chosen):
            raise FileError(f"{path}: topic {topic} has messages of type {chosen[0].msgtype}, not {JOINT_STATE}.")
        for connection, recorded, data in reader.messages(connections=chosen):
            message: Any = reader.deserialize(data, connection.msgtype)
            when = nanoseconds(message.header.stamp) or recorded
            yield when / 1e9, message.name, message.position, message.velocity, message.effort


def _is_json_log(path: Path) -> bool:
    """Whether this is an MCAP file without the profile of ROS 2, as `export_run` writes it."""
    if not path.is_file():
        return False
    with open(path, "rb") as stream:
        start = stream.read(64)
    # magic, the opcode of the header, its length, and then the length of the profile
    return start.startswith(MCAP_MAGIC) and start[17:21] == bytes(4)


def _json_rows(path: Path, topic: str) -> Iterator[Sampled]:
    reading = require("mcap.reader", "export", "MCAP logs")
    with open(path, "rb") as stream:
        for _, channel, message in reading.make_reader(stream, validate_crcs=True).iter_messages(topics=[topic]):
            if channel.message_encoding != "json":
                raise FileError(f"{path}: topic {topic} has messages in {channel.message_encoding!r:.20}, not JSON.")
            data = json.loads(message.data)
            velocities, positions, efforts = data["velocities"], data["positions"], data["efforts"]
            # joints with one coordinate have the same name in both
            names = [name for name in velocities if name in positions]
            effort = [efforts.get(name, 0.0) for name in names] if efforts else []
            yield float(data["time"]), names, [positions[name] for name in names], [velocities[name] for name in names], effort
