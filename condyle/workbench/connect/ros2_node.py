"""A node of ROS 2 over Cyclone DDS: publishers, subscriptions, services and clients, without a ROS installation.

    with Ros2Node("condyle") as node:
        states = node.publisher("/joint_states", "sensor_msgs/msg/JointState")
        states.publish(message)

Nothing is called back: messages are taken when the owner asks for them, so no thread of ours exists.
"""

from __future__ import annotations

import re
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np

from condyle.errors import ConnectError, require
from condyle.workbench.connect.ros2_wire import (
    DEFAULT,
    LATCHED,
    LOOPBACK,
    SERVICE,
    Profile,
    checked_name,
    configuration,
    domain_of,
    quality,
    topic_name,
    type_data,
    wire_type,
)
from condyle.workbench.runs.ros2_messages import SERVICES, Message, decoded, encoded, message_class

MOST = 256  # messages taken at once
CDR = b"\x00\x01\x00\x00"  # the header of little-endian XCDR1
GRAPH = "rmw_dds_common/msg/ParticipantEntitiesInfo"

# one configuration per domain and process: Cyclone DDS takes it when the first participant of a domain is created
_domains: dict[int, tuple[Any, str, int]] = {}
# cyclonedds builds the description of a type when it is used first, which two threads must not do at once
_creation = threading.RLock()


class Ros2Node:
    """A participant of a DDS domain, which ROS 2 nodes see as the node `name` with its topics and services.

    `domain`: by default ROS_DOMAIN_ID, or 0. `interface`: by default loopback, so that nothing leaves the computer; the name of a
    network interface opens it to that network, "environment" leaves it to CYCLONEDDS_URI.
    """

    def __init__(self, name: str = "condyle", *, domain: int | None = None, interface: str = LOOPBACK) -> None:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ConnectError(f"the name of a node has letters, digits and _, and does not begin with a digit; got {name!r:.40}")
        self.name, self.domain, self.interface = name, domain_of(domain), interface
        core, domains = (require(f"cyclonedds.{module}", "ros2", "topics of ROS 2") for module in ("core", "domain"))
        policy = require("cyclonedds.qos", "ros2", "topics of ROS 2")
        config = configuration(interface)
        self._errors = core.DDSException
        self._closed = False
        self._entities: list[Any] = []  # in the order in which they were made
        _open_domain(self.domain, interface, config, domains.Domain, core.DDSException)
        try:
            self.participant = domains.DomainParticipant(self.domain, policy.Qos(policy.Policy.Userdata(b"enclave=/;")))
        except BaseException as error:
            _close_domain(self.domain)
            if isinstance(error, core.DDSException):
                raise ConnectError(
                    f"no participant of DDS domain {self.domain} on interface '{interface}': {error!s:.150}"
                ) from None
            raise
        self._waitset = core.WaitSet(self.participant)
        self._services = 0
        self._writers: list[Any] = []
        self._readers: list[Any] = []
        try:
            with self._creating("ros_discovery_info"):
                self._graph = Publisher(self, "ros_discovery_info", GRAPH, LATCHED, announced=False)
        except BaseException:
            self.close()
            raise

    # ---- what a node has

    def publisher(self, name: str, kind: str, profile: Profile = DEFAULT) -> Publisher:
        """The publisher of messages of type `kind` on the topic `name`."""
        with self._creating(name):
            made = Publisher(self, topic_name(name), kind, profile)
            self._announce()
        return made

    def subscription(self, name: str, kind: str, profile: Profile = DEFAULT) -> Subscription:
        """The subscription to messages of type `kind` on the topic `name`."""
        with self._creating(name):
            made = Subscription(self, topic_name(name), kind, profile)
            self._announce()
        return made

    def service(self, name: str, kind: str) -> Service:
        """The server of a service, such as "/reset" of "std_srvs/srv/Trigger"."""
        with self._creating(name):
            made = Service(self, name, kind)
            self._announce()
        return made

    def client(self, name: str, kind: str) -> Client:
        """The client of a service."""
        with self._creating(name):
            made = Client(self, name, kind)
            self._announce()
        return made

    def wait(self, seconds: float) -> None:
        """None, when a message or request has come that was not taken, or after some seconds."""
        if seconds > 0.0:
            self._waitset.wait(int(min(seconds, 3600.0) * 1e9))

    # ---- inside

    @contextmanager
    def _creating(self, what: str) -> Iterator[None]:
        """Entities are made inside by one thread at a time; what Cyclone DDS refuses is a ConnectError."""
        with _creation:
            try:
                yield
            except self._errors as error:
                raise ConnectError(f"'{what}' cannot be made in DDS domain {self.domain}: {error!s:.150}") from None

    def _topic(self, name: str, kind: str, request: bool) -> Any:
        topic = require("cyclonedds.topic", "ros2", "topics of ROS 2").Topic(self.participant, name, wire_type(kind, request))
        self._entities.append(topic)
        return topic

    def _writer(
        self, name: str, kind: str, profile: Profile, user: str = "", *, request: bool = False, announced: bool = True
    ) -> Any:
        pub = require("cyclonedds.pub", "ros2", "topics of ROS 2")
        made = pub.DataWriter(self.participant, self._topic(name, kind, request), quality(profile, user + type_data(kind)))
        self._entities.append(made)
        if announced:
            self._writers.append(made)
        return made

    def _reader(self, name: str, kind: str, profile: Profile, user: str = "", *, request: bool = False) -> Any:
        core, sub = (require(f"cyclonedds.{module}", "ros2", "topics of ROS 2") for module in ("core", "sub"))
        made = sub.DataReader(self.participant, self._topic(name, kind, request), quality(profile, user + type_data(kind)))
        states = core.ViewState.Any | core.InstanceState.Alive | core.SampleState.NotRead
        condition = core.ReadCondition(made, states)
        self._waitset.attach(condition)
        self._entities += [made, condition]
        self._readers.append(made)
        return made

    def _identifier(self) -> str:
        """The id of a service or client, as rmw_cyclonedds_cpp writes it: 16 bytes in hexadecimal with dots between."""
        self._services += 1
        data = self.participant.guid.bytes[:12] + struct.pack(">I", self._services)
        return ".".join(f"{byte:x}" for byte in data)

    def _announce(self) -> None:
        """None; other nodes know the name of this one, and which topics and services are its own."""
        gid = message_class("rmw_dds_common/msg/Gid")
        of = [[gid(np.frombuffer(each.guid.bytes, np.uint8)) for each in found] for found in (self._readers, self._writers)]
        node = message_class("rmw_dds_common/msg/NodeEntitiesInfo")("/", self.name, *of)
        self._graph.publish(message_class(GRAPH)(gid(np.frombuffer(self.participant.guid.bytes, np.uint8)), [node]))

    # ---- the end

    def close(self) -> None:
        """None; all entities and the participant are deleted, and others see it at once. Does nothing the second time."""
        if self._closed:
            return
        self._closed = True
        for entity in [self._waitset, *reversed(self._entities), self.participant]:
            entity.__del__()  # cyclonedds deletes there, once
        self._entities.clear()
        _close_domain(self.domain)

    def __enter__(self) -> Ros2Node:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Publisher:
    """Publishes messages on a topic."""

    def __init__(self, node: Ros2Node, topic: str, kind: str, profile: Profile, *, announced: bool = True) -> None:
        self.topic, self.kind = topic, kind
        self._node, self._wire = node, wire_type(kind, False)
        self._writer = node._writer(topic, kind, profile, announced=announced)

    def publish(self, message: Message) -> None:
        """None; the message is sent."""
        self.publish_bytes(encoded(message))

    def publish_bytes(self, data: bytes) -> None:
        """None; a message that is encoded already is sent."""
        try:
            self._writer.write(self._wire(data))
        except self._node._errors as error:
            raise ConnectError(f"a message on {self.topic} cannot be sent: {error!s:.100}") from None

    @property
    def subscribers(self) -> int:
        """How many subscriptions are matched."""
        return len(self._writer.get_matched_subscriptions())

    def acknowledged(self, seconds: float) -> bool:
        """Whether all reliable subscribers have got everything, after at most some seconds."""
        return bool(self._writer.wait_for_acks(int(seconds * 1e9)))


class Subscription:
    """Takes messages of a topic."""

    def __init__(self, node: Ros2Node, topic: str, kind: str, profile: Profile) -> None:
        self.topic, self.kind = topic, kind
        self._reader = node._reader(topic, kind, profile)

    def take(self) -> list[Message]:
        """The messages that have come since the last call, oldest first; what is no message of the type is a ConnectError."""
        return [decoded(data, self.kind) for data in self.take_bytes()]

    def take_bytes(self) -> list[bytes]:
        """The same, encoded."""
        return _taken(self._reader)

    @property
    def publishers(self) -> int:
        """How many publishers are matched."""
        return len(self._reader.get_matched_publications())


class Service:
    """Serves requests of a service, in the encoding of rmw_cyclonedds_cpp."""

    def __init__(self, node: Ros2Node, name: str, kind: str) -> None:
        self.name, self.kind = checked_name(name), checked_service(kind)
        user = f"serviceid={node._identifier()};"
        self._reply = wire_type(f"{kind}_Response", True)
        self._writer = node._writer(f"rr{name}Reply", f"{kind}_Response", SERVICE, user, request=True)
        self._reader = node._reader(f"rq{name}Request", f"{kind}_Request", SERVICE, user, request=True)

    def take(self) -> list[tuple[bytes, Message]]:
        """(identity, request) of all requests that have come since the last call; others than this type's are left out."""
        found = []
        for data in _taken(self._reader):
            try:
                found.append(unwrapped(data, f"{self.kind}_Request"))
            except ConnectError:
                continue
        return found

    def reply(self, identity: bytes, **fields: Any) -> None:
        """None; the reply to the request with this identity is sent."""
        self._writer.write(self._reply(wrapped(identity, response(self.kind, fields))))


class Client:
    """Calls a service, in the encoding of rmw_cyclonedds_cpp."""

    def __init__(self, node: Ros2Node, name: str, kind: str) -> None:
        self.name, self.kind = checked_name(name), checked_service(kind)
        self._node, self._sequence = node, 0
        user = f"clientid={node._identifier()};"
        self._request = wire_type(f"{kind}_Request", True)
        self._writer = node._writer(f"rq{name}Request", f"{kind}_Request", SERVICE, user, request=True)
        self._reader = node._reader(f"rr{name}Reply", f"{kind}_Response", SERVICE, user, request=True)
        self._guid = self._writer.get_instance_handle() % (1 << 64)

    @property
    def available(self) -> bool:
        """Whether a server is matched."""
        return bool(self._writer.get_matched_subscriptions()) and bool(self._reader.get_matched_publications())

    def call(self, seconds: float = 5.0, **fields: Any) -> Message:
        """The reply to a request with these fields; a ConnectError if no server replies in so many seconds."""
        end = time.monotonic() + seconds
        while not self.available:
            if time.monotonic() > end:
                raise ConnectError(f"no server of {self.name} within {seconds:g} s: start it, and look at domain and interface")
            time.sleep(0.01)
        self._sequence += 1
        identity = struct.pack("<Qq", self._guid, self._sequence)
        kind = message_class(f"{self.kind}_Request")
        self._writer.write(self._request(wrapped(identity, kind(**fields) if fields else _empty(kind))))
        while True:
            for data in _taken(self._reader):
                if data[4:20] == identity:  # replies to other clients come here, too
                    return unwrapped(data, f"{self.kind}_Response")[1]
            if time.monotonic() > end:
                raise ConnectError(f"{self.name} did not reply within {seconds:g} s")
            self._node.wait(min(0.1, max(end - time.monotonic(), 0.0)))


# ---- requests and replies


def checked_service(kind: str) -> str:
    """A type of service that is known."""
    if kind not in SERVICES:
        raise ConnectError(f"the service type must be one of {', '.join(SERVICES)}; got {kind!r:.60}")
    return kind


def wrapped(identity: bytes, message: Message) -> bytes:
    """A request or reply: the CDR header, guid and sequence number, then the message, whose alignment 16 bytes do not change."""
    return CDR + identity + encoded(message)[4:]


def unwrapped(data: bytes, kind: str) -> tuple[bytes, Message]:
    """(identity, message) of a request or reply; a ConnectError if it is not one of this type."""
    if len(data) < 20 or data[:2] != CDR[:2]:
        raise ConnectError(f"{len(data)} bytes are not a request or reply of type {kind}")
    return bytes(data[4:20]), decoded(CDR + data[20:], kind)


def response(kind: str, fields: dict[str, Any]) -> Message:
    """The reply of a service with these fields; of std_srvs/srv/Empty without any."""
    found = message_class(f"{kind}_Response")
    return found(**fields) if SERVICES[kind][1] else _empty(found)


def _empty(kind: Any) -> Message:
    return kind(structure_needs_at_least_one_member=0)


# ---- inside


def _taken(reader: Any) -> list[bytes]:
    found: list[bytes] = []
    while True:
        samples: Sequence[Any] = reader.take(MOST)
        found += [sample.data for sample in samples if hasattr(sample, "data")]
        if len(samples) < MOST:
            return found


def _open_domain(number: int, interface: str, config: str | None, make: Any, error: Any) -> None:
    """None; the domain has this configuration in this process, which all its nodes share."""
    with _creation:
        entity, known, nodes = _domains.get(number, (None, interface, 0))
        if known != interface:
            raise ConnectError(
                f"domain {number} is open on interface '{known}' in this process: close that node, or take another domain"
            )
        if not nodes and config is not None:
            try:
                entity = make(number, config)
            except error as reason:
                raise ConnectError(
                    f"DDS domain {number} cannot use the network interface '{interface}': {reason!s:.150}"
                ) from None
        _domains[number] = (entity, interface, nodes + 1)


def _close_domain(number: int) -> None:
    with _creation:
        entity, interface, nodes = _domains[number]
        if nodes > 1:
            _domains[number] = (entity, interface, nodes - 1)
            return
        del _domains[number]
        if entity is not None:
            entity.__del__()
