"""Messages of ROS 2 (Jazzy) without a ROS installation: their types, their CDR bytes, and those that describe a robot's state.

Types, codec and type hashes are those of `rosbags`. A message is an object of `message_class("sensor_msgs/msg/JointState")`, with
NumPy arrays for sequences of numbers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from condyle.errors import ConnectError, require
from condyle.multibody.robot import Robot
from condyle.robot.joints import Ball, Free, Prismatic, Revolute
from condyle.robot.model import Link
from condyle.robot.names import nearest
from condyle.robot.to_urdf import WORLD, fixed_frames, root_of

Message = Any  # of a class that `message_class` gives

JOINT_STATE, CLOCK, TF, STRING = (
    "sensor_msgs/msg/JointState",
    "rosgraph_msgs/msg/Clock",
    "tf2_msgs/msg/TFMessage",
    "std_msgs/msg/String",
)
WRENCH, NUMBERS = "geometry_msgs/msg/WrenchStamped", "std_msgs/msg/Float64MultiArray"
TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"

# the services of std_srvs, which the type store of rosbags does not have: request, reply
SERVICES = {
    "std_srvs/srv/Empty": ("", ""),
    "std_srvs/srv/Trigger": ("", "bool success\nstring message"),
    "std_srvs/srv/SetBool": ("bool data", "bool success\nstring message"),
}


@cache
def typestore() -> Any:
    """The message types of ROS 2 Jazzy, with requests and replies of std_srvs as std_srvs/srv/Trigger_Request and so on."""
    typesys = require("rosbags.typesys", "ros2", "messages of ROS 2")
    store = typesys.get_typestore(typesys.Stores.ROS2_JAZZY)
    found = {}
    for service, texts in SERVICES.items():
        for part, text in zip(("Request", "Response"), texts, strict=True):
            # an empty struct is not allowed in IDL: ROS 2 puts this member into it
            lines = text or "uint8 structure_needs_at_least_one_member"
            ((_, definition),) = typesys.get_types_from_msg(lines, f"{service}_{part}").items()
            found[f"{service}_{part}"] = definition
    store.register(found)
    return store


def message_class(name: str) -> Any:
    """The class of a message type, such as "sensor_msgs/msg/JointState"; its arguments are the fields by name."""
    types = typestore().types
    if name not in types:
        raise ConnectError(f"ROS 2 Jazzy has no message type '{name!s:.80}'{nearest(str(name), list(types))}")
    return types[name]


def encoded(message: Message) -> bytes:
    """The message in CDR, little-endian, with the four bytes of its header: what is on the wire and in a bag."""
    return bytes(typestore().serialize_cdr(message, message.__msgtype__, little_endian=True))


def decoded(data: bytes, name: str) -> Message:
    """The message of type `name` in these CDR bytes; a ConnectError if it is not one."""
    try:
        return typestore().deserialize_cdr(data, name)
    except Exception as error:  # whatever the codec raises for wrong bytes
        raise ConnectError(f"{len(data)} bytes are not a message of type {name}: {error!s:.100}") from None


def type_hash(name: str) -> str:
    """The hash of a message type, RIHS01_ and 64 hexadecimal digits: sha256 of its description as JSON (REP 2016)."""
    return str(typestore().hash_rihs01(name))


# ---- time


def stamp(nanoseconds: int) -> Message:
    """builtin_interfaces/msg/Time of a time in ns, which is not negative."""
    return message_class("builtin_interfaces/msg/Time")(*divmod(nanoseconds, 1_000_000_000))


def nanoseconds(time: Message) -> int:
    """The time of a builtin_interfaces/msg/Time, or Duration, in ns."""
    return int(time.sec) * 1_000_000_000 + int(time.nanosec)


def header(now: int, frame: str = "") -> Message:
    """std_msgs/msg/Header at a time in ns."""
    return message_class("std_msgs/msg/Header")(stamp(now), frame)


# ---- the state of a robot


class RobotMessages:
    """The messages that describe the state of a robot: joint states, transforms between its frames, measured wrenches.

    Joint states have the joints with one coordinate, those that follow others too. /tf has the moving links, each in the link
    that carries it, /tf_static all frames that are fixed to one; "world" is the inertial frame. `motors`: the joint of each
    entry of u.
    """

    def __init__(self, robot: Robot, motors: list[str]) -> None:
        self.robot, self.model = robot, robot.model
        links = [link for link in self.model.links if link.kind.nv == 1 and not link.base]
        self.joints = [link.joint for link in links]
        self._at_q = np.array([link.q.start for link in links], dtype=int)
        self._at_v = np.array([link.v.start for link in links], dtype=int)
        # which entry of u a joint has; -1: no motor
        self._at_u = np.array([motors.index(name) if name in motors else -1 for name in self.joints], dtype=int)
        self.root = root_of(self.model)
        self._parents = [self.model.links[link.parent].name if link.parent >= 0 else WORLD for link in self.model.links]
        vector, quaternion = message_class("geometry_msgs/msg/Vector3"), message_class("geometry_msgs/msg/Quaternion")
        self._vector, self._quaternion = vector, quaternion
        self._transform = message_class("geometry_msgs/msg/Transform")
        self._stamped = message_class("geometry_msgs/msg/TransformStamped")

    def full(self, q: Any, v: Any) -> tuple[np.ndarray, np.ndarray]:
        """All coordinates and velocities of one state, or a batch; of a robot without constraints, these."""
        if self.robot.coordinate_map.identity:
            return np.asarray(q, dtype=float), np.asarray(v, dtype=float)
        lifted = self.robot.lift(q, v)
        return lifted[0], lifted[1]

    def joint_state(self, now: int, q: np.ndarray, v: np.ndarray, u: np.ndarray | None) -> Message:
        """sensor_msgs/msg/JointState of all coordinates q and v; without u, as in the last state of a run, effort is empty."""
        effort = np.zeros(0)
        if u is not None:
            effort = np.where(self._at_u >= 0, np.append(u, 0.0)[self._at_u], 0.0)
        return message_class(JOINT_STATE)(header(now), self.joints, q[self._at_q], v[self._at_v], effort)

    def transforms(self, now: int, q: np.ndarray) -> Message:
        """tf2_msgs/msg/TFMessage of the moving links: the pose of each in the link that carries it, at all coordinates q."""
        moved = []
        for link, parent in zip(self.model.links, self._parents, strict=True):
            moved.append(self._placed(now, parent, link.name, *link_pose(link, q[link.q])))
        return message_class(TF)(moved)

    def static_transforms(self, now: int = 0) -> Message:
        """tf2_msgs/msg/TFMessage of the frames that are fixed to links, and of the root in the world."""
        fixed = []
        if self.root != WORLD and self.root not in [link.name for link in self.model.links]:
            fixed.append(self._placed(now, WORLD, self.root, np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0])))
        for frame in fixed_frames(self.model):
            parent = self.model.links[frame.link].name if frame.link >= 0 else self.root
            if frame.name != WORLD:
                p, R = np.asarray(frame.pose.p, dtype=float), np.asarray(frame.pose.R, dtype=float)
                fixed.append(self._placed(now, parent, frame.name, p, quaternion_of(R)))
        return message_class(TF)(fixed)

    def wrench(self, now: int, frame: str, six: Any) -> Message:
        """geometry_msgs/msg/WrenchStamped: force, then torque, in the axes of a frame."""
        values = [float(value) for value in six]
        wrench = message_class("geometry_msgs/msg/Wrench")(self._vector(*values[:3]), self._vector(*values[3:]))
        return message_class(WRENCH)(header(now, frame), wrench)

    def _placed(self, now: int, parent: str, child: str, p: np.ndarray, q: np.ndarray) -> Message:
        pose = self._transform(self._vector(*p.tolist()), self._quaternion(*q.tolist()))
        return self._stamped(header(now, parent), child, pose)


def clock(now: int) -> Message:
    """rosgraph_msgs/msg/Clock at a time in ns."""
    return message_class(CLOCK)(stamp(now))


def text(data: str) -> Message:
    """std_msgs/msg/String."""
    return message_class(STRING)(data)


def numbers(data: Any) -> Message:
    """std_msgs/msg/Float64MultiArray, as commands of ros2_control's forward controllers: a list without a layout."""
    layout = message_class("std_msgs/msg/MultiArrayLayout")([], 0)
    return message_class(NUMBERS)(layout, np.asarray(data, dtype=float).ravel())


# ---- poses with quaternions (x, y, z, w)


def link_pose(link: Link, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(position, quaternion) of a link in the one that carries it, at its own coordinates q."""
    R, p = np.asarray(link.placement.R, dtype=float), np.asarray(link.placement.p, dtype=float)
    turned = quaternion_of(R)
    if isinstance(link.kind, Revolute):
        half = 0.5 * float(q[0])
        return p, product(turned, np.append(np.array(link.kind.axis) * np.sin(half), np.cos(half)))
    if isinstance(link.kind, Prismatic):
        return p + R @ np.array(link.kind.axis) * float(q[0]), turned
    if isinstance(link.kind, Ball):
        return p, product(turned, np.asarray(q, dtype=float))
    assert isinstance(link.kind, Free)
    return p + R @ np.asarray(q[:3], dtype=float), product(turned, np.asarray(q[3:7], dtype=float))


def quaternion_of(R: np.ndarray) -> np.ndarray:
    """The unit quaternion (x, y, z, w) of a rotation, w not negative (Shepperd 1978: from its largest entry)."""
    squares = np.array([1.0 + R[0, 0] - R[1, 1] - R[2, 2], 1.0 - R[0, 0] + R[1, 1] - R[2, 2], 1.0 - R[0, 0] - R[1, 1] + R[2, 2]])
    squares = np.append(squares, 1.0 + R[0, 0] + R[1, 1] + R[2, 2])
    k = int(np.argmax(squares))
    outer = np.array(
        [
            [squares[0], R[0, 1] + R[1, 0], R[0, 2] + R[2, 0], R[2, 1] - R[1, 2]],
            [R[0, 1] + R[1, 0], squares[1], R[1, 2] + R[2, 1], R[0, 2] - R[2, 0]],
            [R[0, 2] + R[2, 0], R[1, 2] + R[2, 1], squares[2], R[1, 0] - R[0, 1]],
            [R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], squares[3]],
        ]
    )
    q = outer[k] / (2.0 * np.sqrt(squares[k]))
    return np.asarray((-q if q[3] < 0.0 else q) + 0.0)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a b: the rotation b, then a, as quaternions (x, y, z, w)."""
    x, y, z, w = a.tolist()
    i, j, k, r = b.tolist()
    return np.array(
        [
            w * i + x * r + y * k - z * j,
            w * j - x * k + y * r + z * i,
            w * k + x * j - y * i + z * r,
            w * r - x * i - y * j - z * k,
        ]
    )
