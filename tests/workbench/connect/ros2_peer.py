"""A second process on the topics of ROS 2, written with cyclonedds alone: its types are declared here, as idlc would from ROS.

python ros2_peer.py receive DOMAIN TOPIC COUNT      counts joint states
python ros2_peer.py control DOMAIN NAMESPACE KIND   answers every joint state by a damping effort: KIND joint (stamped) or effort
python ros2_peer.py call DOMAIN NAMESPACE           pauses, resumes and resets a bridge by its services
Each prints "ready", does its work, prints JSON, and ends after at most LONGEST seconds.
"""

import json
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import float64, int32, int64, sequence, uint8, uint32, uint64
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

LONGEST = 60.0  # s
CONFIGURATION = """<CycloneDDS><Domain><General><Interfaces><NetworkInterface name="lo"/></Interfaces>
<AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>
<MaxAutoParticipantIndex>32</MaxAutoParticipantIndex><Peers><Peer address="127.0.0.1"/></Peers></Discovery>
</Domain></CycloneDDS>"""


@dataclass
class Time(IdlStruct, typename="builtin_interfaces.msg.dds_.Time_"):
    sec: int32 = 0
    nanosec: uint32 = 0


@dataclass
class Header(IdlStruct, typename="std_msgs.msg.dds_.Header_"):
    stamp: Time = field(default_factory=Time)
    frame_id: str = ""


@dataclass
class JointState(IdlStruct, typename="sensor_msgs.msg.dds_.JointState_"):
    header: Header
    name: sequence[str]
    position: sequence[float64]
    velocity: sequence[float64]
    effort: sequence[float64]


@dataclass
class Dimension(IdlStruct, typename="std_msgs.msg.dds_.MultiArrayDimension_"):
    label: str
    size: uint32
    stride: uint32


@dataclass
class Layout(IdlStruct, typename="std_msgs.msg.dds_.MultiArrayLayout_"):
    dim: sequence[Dimension] = field(default_factory=list)
    data_offset: uint32 = 0


@dataclass
class Numbers(IdlStruct, typename="std_msgs.msg.dds_.Float64MultiArray_"):
    layout: Layout
    data: sequence[float64]


@dataclass
class TriggerRequest(IdlStruct, typename="std_srvs.srv.dds_.Trigger_Request_"):
    request_guid: uint64
    request_sequence: int64
    structure_needs_at_least_one_member: uint8 = 0


@dataclass
class TriggerResponse(IdlStruct, typename="std_srvs.srv.dds_.Trigger_Response_"):
    request_guid: uint64
    request_sequence: int64
    success: bool
    message: str


@dataclass
class SetBoolRequest(IdlStruct, typename="std_srvs.srv.dds_.SetBool_Request_"):
    request_guid: uint64
    request_sequence: int64
    data: bool


@dataclass
class SetBoolResponse(IdlStruct, typename="std_srvs.srv.dds_.SetBool_Response_"):
    request_guid: uint64
    request_sequence: int64
    success: bool
    message: str


def qos(*history: Any) -> Qos:
    """As rclpy has it by default: reliable, volatile, the last ten."""
    chosen = history or (Policy.History.KeepLast(10),)
    return Qos(Policy.Reliability.Reliable(max_blocking_time=10**9), Policy.Durability.Volatile, *chosen)


class Peer:
    """A participant with a wait for new messages."""

    def __init__(self, domain: int) -> None:
        self.domain, self.participant = Domain(domain, CONFIGURATION), DomainParticipant(domain)
        self.waitset = WaitSet(self.participant)
        self.end = time.monotonic() + LONGEST

    def reader(self, name: str, kind: type, *history: Any) -> DataReader:
        made = DataReader(self.participant, Topic(self.participant, name, kind), qos(*history))
        self.waitset.attach(ReadCondition(made, ViewState.Any | InstanceState.Alive | SampleState.NotRead))
        return made

    def writer(self, name: str, kind: type) -> DataWriter:
        return DataWriter(self.participant, Topic(self.participant, name, kind), qos())

    def messages(self, reader: DataReader) -> Any:
        """Messages as they come, until the time is over; None now and then."""
        while time.monotonic() < self.end:
            found = [sample for sample in reader.take(256) if hasattr(sample, "header") or hasattr(sample, "request_guid")]
            yield from found
            if not found:
                self.waitset.wait(10**8)
                yield None


def receive(peer: Peer, topic: str, count: str) -> dict[str, Any]:
    reader = peer.reader(f"rt{topic}", JointState, Policy.History.KeepAll)
    print("ready", flush=True)
    stamps, latest, delays = [], time.monotonic(), []
    for message in peer.messages(reader):
        if message is None:
            # nothing for some seconds after the last: the others are lost
            if stamps and time.monotonic() - latest > 5.0:
                break
            continue
        latest = time.monotonic()
        stamps.append(message.header.stamp.nanosec)
        delays.append(latest - message.position[0])
        if len(stamps) == int(count):
            break
    in_order = stamps == sorted(stamps)
    return {"received": len(stamps), "different": len(set(stamps)), "in_order": in_order, "delays": sorted(delays)}


def control(peer: Peer, namespace: str, kind: str) -> dict[str, Any]:
    states = peer.reader(f"rt{namespace}/joint_states", JointState, Policy.History.KeepAll)
    topic = {"joint": "/joint_commands", "effort": "/effort_controller/commands"}[kind]
    commands = peer.writer(f"rt{namespace}{topic}", JointState if kind == "joint" else Numbers)
    print("ready", flush=True)
    answered, empty = 0, 0
    for message in peer.messages(states):
        if message is None:
            empty += 1
            if answered and not states.get_matched_publications():
                break
            continue
        efforts = [0.25 - 0.5 * v for v in message.velocity]
        if kind == "joint":
            commands.write(JointState(message.header, message.name, [], [], efforts))
        else:
            commands.write(Numbers(Layout(), efforts))
        answered += 1
    return {"answered": answered}


def call(peer: Peer, namespace: str) -> dict[str, Any]:
    def client(name: str, request: type, response: type) -> Any:
        writer, reader = peer.writer(f"rq{name}Request", request), peer.reader(f"rr{name}Reply", response)
        while not (writer.get_matched_subscriptions() and reader.get_matched_publications()):
            if time.monotonic() > peer.end:
                raise SystemExit("no server")
            time.sleep(0.01)

        def answer(number: int, **fields: Any) -> list[Any]:
            writer.write(request(1234567890123456789, number, **fields))
            for reply in peer.messages(reader):
                if reply is not None and (reply.request_guid, reply.request_sequence) == (1234567890123456789, number):
                    return [reply.success, reply.message]
            raise SystemExit("no reply")

        return answer

    pause = client(f"{namespace}/condyle/pause", SetBoolRequest, SetBoolResponse)
    reset = client(f"{namespace}/condyle/reset", TriggerRequest, TriggerResponse)
    print("ready", flush=True)
    return {"replies": [pause(1, data=True), pause(2, data=False), reset(7)]}


if __name__ == "__main__":
    what, number, *rest = sys.argv[1:]
    print(json.dumps({"receive": receive, "control": control, "call": call}[what](Peer(int(number)), *rest)), flush=True)
