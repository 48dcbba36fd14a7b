"""ROS 2 (Jazzy) as it is on the wire of DDS: names of topics and types, quality of service, and the network it uses.

A topic /joint_states of sensor_msgs/msg/JointState is the DDS topic rt/joint_states of type sensor_msgs::msg::dds_::JointState_,
final, in XCDR1, and its USER_DATA is typehash=RIHS01_...; A service /reset of std_srvs/srv/Trigger is a pair of topics,
rq/resetRequest and rr/resetReply, in the encoding of rmw_cyclonedds_cpp: guid (uint64) and sequence number (int64) of the
request come before its fields, and before those of the reply. rmw_fastrtps_cpp sends the two in the sample identity instead, so
its services do not match.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from condyle.errors import ConnectError, require
from condyle.workbench.runs.ros2_messages import message_class, type_hash, typestore

LOOPBACK = "lo"
ENVIRONMENT = "environment"  # as an interface: what CYCLONEDDS_URI says
LAST_DOMAIN = 101  # whose ports are below those that Linux gives to clients
PARTICIPANTS = 32  # per computer, as rmw_cyclonedds_cpp has it for ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST
NAME = re.compile(r"(/[A-Za-z_][A-Za-z0-9_]*)+")
HEADER = ("request_guid", "request_sequence")  # of requests and replies, before their own fields


@dataclass(frozen=True)
class Profile:
    """Quality of service: reliable or best effort, the last `depth` messages kept, and whether late subscribers get them.

    depth=0 keeps all: a writer then waits for its slowest reader.
    """

    depth: int = 10
    reliable: bool = True
    transient_local: bool = False


DEFAULT = Profile()  # of rclcpp and rclpy
LATCHED = Profile(1, transient_local=True)  # /robot_description, /tf_static
DYNAMIC_TF = Profile(100)
SERVICE = Profile(10)


# ---- names


def topic_name(name: str) -> str:
    """The DDS topic of a ROS topic: rt/joint_states of /joint_states."""
    return f"rt{checked_name(name)}"


def checked_name(name: str) -> str:
    """A full name of a topic or service: /, then words of letters, digits and _ with / between; a ConnectError for others."""
    if not isinstance(name, str) or not NAME.fullmatch(name) or "__" in name:
        raise ConnectError(
            f"a topic or service needs a full name of letters, digits and single _, as /joint_states; got {name!r:.80}"
        )
    return name


def dds_type_name(name: str) -> str:
    """sensor_msgs::msg::dds_::JointState_ of sensor_msgs/msg/JointState."""
    package, kind, word = name.split("/")
    return f"{package}::{kind}::dds_::{word}_"


# ---- types


@cache
def idl_struct(name: str, request: bool) -> Any:
    """The cyclonedds IdlStruct of a message type; with `request` of one in a service, which begins with the header."""
    idl, types = (require(module, "ros2", "topics of ROS 2") for module in ("cyclonedds.idl", "cyclonedds.idl.types"))
    message_class(name)
    fields = {HEADER[0]: types.uint64, HEADER[1]: types.int64} if request else {}
    fields |= {field: _idl_field(description, types) for field, description in typestore().fielddefs[name][1]}
    return idl.make_idl_struct(name.rpartition("/")[2] + "_", dds_type_name(name).replace("::", "."), fields)


def _idl_field(description: Any, types: Any) -> Any:
    """The cyclonedds type of a field, from the description of rosbags: (kind, what), kinds 1 to 4."""
    kind, what = int(description[0]), description[1]
    if kind == 1:
        name, bound = what
        if name == "string":
            return types.bounded_str[bound] if bound else str
        words = {"bool": bool, "byte": types.byte, "char": types.uint8, "octet": types.byte}
        return words.get(name) or getattr(types, name)
    if kind == 2:
        return idl_struct(what, False)
    element, count = _idl_field(what[0], types), what[1]
    if kind == 3:
        return types.array[element, count]
    return types.sequence[element, count] if count else types.sequence[element]


@cache
def wire_type(name: str, request: bool) -> Any:
    """The type of a DDS topic whose samples are CDR bytes: `wire_type(name, False)(data)`, and `.data` of what was read.

    To DDS it is the IdlStruct; its bytes are those that rosbags encodes, which tests compare with those of the IdlStruct.
    """
    declared = idl_struct(name, request)

    def initial(self: Any, data: bytes) -> None:
        self.data = data

    def serialize(self: Any, **_: Any) -> bytes:
        return bytes(self.data)

    members = {"__init__": initial, "serialize": serialize, "deserialize": classmethod(lambda cls, data, **_: cls(bytes(data)))}
    made: Any = type(declared.__name__, (declared,), members)
    made.__idl__ = declared.__idl__  # not a struct that inherits from the other
    return made


# ---- quality of service


def quality(profile: Profile, user_data: str) -> Any:
    """The cyclonedds Qos of a profile, with a text in USER_DATA."""
    qos = require("cyclonedds.qos", "ros2", "topics of ROS 2")
    policy = qos.Policy
    reliability = policy.Reliability.Reliable(max_blocking_time=10**9) if profile.reliable else policy.Reliability.BestEffort
    return qos.Qos(
        reliability,
        policy.Durability.TransientLocal if profile.transient_local else policy.Durability.Volatile,
        policy.History.KeepLast(profile.depth) if profile.depth else policy.History.KeepAll,
        policy.DataRepresentation(use_cdrv0_representation=True, use_xcdrv2_representation=False),
        policy.Userdata(user_data.encode()),
    )


def type_data(name: str) -> str:
    """The USER_DATA of a topic of this type, as rmw_dds_common writes it."""
    return f"typehash={type_hash(name)};"


# ---- the network


def domain_of(domain: int | None) -> int:
    """The DDS domain: the one that is given, or ROS_DOMAIN_ID, or 0."""
    given = os.environ.get("ROS_DOMAIN_ID", "").strip() if domain is None else domain
    try:
        found = int(given or 0)
    except ValueError:
        found = -1
    if not 0 <= found <= LAST_DOMAIN:
        where = "ROS_DOMAIN_ID" if domain is None else "domain"
        raise ConnectError(f"{where} must be a whole number from 0 to {LAST_DOMAIN}, got {given!r:.40}")
    return found


def configuration(interface: str) -> str | None:
    """The configuration of Cyclone DDS for one network interface; None for ENVIRONMENT, where CYCLONEDDS_URI decides.

    On the loopback interface nothing leaves the computer: no multicast, and discovery asks the other participants on 127.0.0.1,
    as rmw_cyclonedds_cpp does for ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST.
    """
    if interface == ENVIRONMENT:
        return None
    if not isinstance(interface, str) or not re.fullmatch(r"[A-Za-z0-9_.:-]{1,32}", interface):
        raise ConnectError(f"interface must be the name of a network interface, such as lo or eth0; got {interface!r:.40}")
    chosen = f'<Interfaces><NetworkInterface name="{interface}"/></Interfaces>'
    if interface != LOOPBACK:
        return f"<CycloneDDS><Domain><General>{chosen}</General></Domain></CycloneDDS>"
    index = f"<ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>{PARTICIPANTS}</MaxAutoParticipantIndex>"
    return (
        f"<CycloneDDS><Domain><General>{chosen}<AllowMulticast>false</AllowMulticast></General>"
        f'<Discovery>{index}<Peers><Peer address="127.0.0.1"/></Peers></Discovery></Domain></CycloneDDS>'
    )
