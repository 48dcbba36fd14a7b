"""A simulated robot on topics of ROS 2, with a second process that declares its types itself (ros2_peer.py)."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.errors import ConnectError
from condyle.workbench.connect.ros2_bridge import Ros2Bridge, ros2_control
from condyle.workbench.connect.ros2_commands import JointCommands, commanded_loop
from condyle.workbench.connect.ros2_node import Ros2Node
from condyle.workbench.connect.ros2_wire import LATCHED, Profile, configuration, domain_of
from condyle.workbench.connect.transport import Exchange, Requests
from condyle.workbench.runs.ros2_messages import (
    JOINT_STATE,
    NUMBERS,
    STRING,
    TF,
    WRENCH,
    header,
    message_class,
    numbers,
    stamp,
    type_hash,
)

PEER = Path(__file__).with_name("ros2_peer.py")
# ports follow from the domain, and other test processes run beside this one: names differ, too
DOMAIN, SPACE = 1 + os.getpid() % 100, f"/p{os.getpid()}"
LONG = 60.0  # s: what a loaded computer may take for anything here
DT, EVERY = 0.002, 2


@pytest.fixture(scope="module")
def world() -> cd.Simulation:
    return cd.Simulation(cd.load("double_pendulum"), dt=DT)


@pytest.fixture(scope="module")
def loop(world: cd.Simulation) -> cd.Loop:
    return commanded_loop(world)


@contextmanager
def peer(*words: Any) -> Iterator[Any]:
    """A second process that is ready; afterwards `.found` is the JSON that it printed."""
    process = subprocess.Popen([sys.executable, str(PEER), *map(str, words)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process
        process.found = json.loads(process.communicate(timeout=LONG)[0].splitlines()[-1])  # type: ignore[attr-defined]
    finally:
        process.kill()
        process.communicate()


def ready(process: Any) -> None:
    assert process.stdout.readline() == "ready\n"


def until(condition: Any) -> None:
    """None, when the condition is true; an AssertionError after LONG seconds."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


# ---- topics


def test_a_second_process_receives_every_message() -> None:
    """500 joint states at 1 kHz, reliable."""
    count = 500
    with Ros2Node(domain=DOMAIN) as node, peer("receive", DOMAIN, f"{SPACE}/joint_states", count) as process:
        states = node.publisher(f"{SPACE}/joint_states", JOINT_STATE, Profile(depth=1000))
        ready(process)
        until(lambda: states.subscribers)
        kind, begin = message_class(JOINT_STATE), time.monotonic()
        for k in range(count):
            time.sleep(max(begin + 1e-3 * k - time.monotonic(), 0.0))
            states.publish(kind(header(k), ["a"], np.array([time.monotonic()]), np.zeros(1), np.zeros(1)))
        assert states.acknowledged(LONG)
    assert (process.found["received"], process.found["different"], process.found["in_order"]) == (count, count, True)


def test_what_discovery_says() -> None:
    """Names of topic and type, the type hash in USER_DATA, and the quality of service, as another participant sees them."""
    from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication
    from cyclonedds.domain import DomainParticipant
    from cyclonedds.qos import Policy

    with Ros2Node(domain=DOMAIN) as node:
        node.publisher(f"{SPACE}/joint_states", JOINT_STATE)
        node.publisher(f"{SPACE}/robot_description", STRING, LATCHED)
        node.service(f"{SPACE}/reset", "std_srvs/srv/Trigger")
        other = DomainParticipant(DOMAIN)
        reader, found = BuiltinDataReader(other, BuiltinTopicDcpsPublication), {}

        def all_found() -> bool:
            found.update({each.topic_name: each for each in reader.take(100) if hasattr(each, "topic_name")})
            return {f"rt{SPACE}/joint_states", f"rt{SPACE}/robot_description", f"rr{SPACE}/resetReply"} <= set(found)

        until(all_found)
        states, text, reply = (
            found[name] for name in (f"rt{SPACE}/joint_states", f"rt{SPACE}/robot_description", f"rr{SPACE}/resetReply")
        )
        assert states.type_name == "sensor_msgs::msg::dds_::JointState_" and text.type_name == "std_msgs::msg::dds_::String_"
        assert reply.type_name == "std_srvs::srv::dds_::Trigger_Response_"
        assert states.qos[Policy.Userdata].data == f"typehash={type_hash(JOINT_STATE)};".encode()
        assert states.qos[Policy.Reliability].max_blocking_time and states.qos[Policy.Durability] == Policy.Durability.Volatile
        assert text.qos[Policy.Durability] == Policy.Durability.TransientLocal
        assert reply.qos[Policy.Userdata].data.startswith(b"serviceid=")


def test_the_node_is_named_and_its_topics_are_its_own() -> None:
    """ros_discovery_info, from which `ros2 node list` and `ros2 node info` are made."""
    kind = "rmw_dds_common/msg/ParticipantEntitiesInfo"
    with Ros2Node("arm", domain=DOMAIN) as node, Ros2Node("other", domain=DOMAIN) as other:
        states = node.publisher(f"{SPACE}/joint_states", JOINT_STATE)
        from condyle.workbench.connect.ros2_node import Subscription

        graph, found = Subscription(other, "ros_discovery_info", kind, Profile(10, transient_local=True)), []

        def announced() -> bool:
            found.extend(
                entry for message in graph.take() for entry in message.node_entities_info_seq if entry.node_name == "arm"
            )
            return bool(found)

        until(announced)
        (gid,) = found[-1].writer_gid_seq
        assert bytes(gid.data) == states._writer.guid.bytes and len(found[-1].reader_gid_seq) == 0


def test_late_subscribers_get_the_description_and_static_frames(loop: cd.Loop) -> None:
    control = ros2_control(loop, every=EVERY, domain=DOMAIN, namespace=SPACE)
    bridge = control.transport
    bridge.open(control.exchange, Requests())
    try:
        with Ros2Node("late", domain=DOMAIN) as node:
            text, tf = (
                node.subscription(f"{SPACE}/robot_description", STRING, LATCHED),
                node.subscription("/tf_static", TF, LATCHED),
            )
            found: dict[str, list[Any]] = {"text": [], "tf": []}

            def both() -> bool:
                found["text"] += text.take()
                found["tf"] += tf.take()
                return all(found.values())

            until(both)
        assert '<robot name="double_pendulum">' in found["text"][0].data
        assert "tip" in [each.child_frame_id for message in found["tf"] for each in message.transforms]
    finally:
        bridge.close("")
        bridge.close("")


# ---- runs


@pytest.mark.parametrize("kind", ["joint", "effort"])
def test_lockstep_repeats_and_equals_the_same_loop(kind: str, loop: cd.Loop) -> None:
    """A controller in another process gives the bits of the same efforts computed here, from the recorded states."""
    control = ros2_control(loop, mode="lockstep", every=EVERY, domain=DOMAIN, namespace=SPACE, timeout=LONG, connect_time=LONG)
    x0, hashes = loop.state([0.3, -0.2]), []
    for _ in range(2):
        with peer("control", DOMAIN, SPACE, kind) as process:
            ready(process)
            run = control.run(x0, 60)
        hashes.append(run.hash)
        assert process.found["answered"] >= 30
    assert hashes[0] == hashes[1]
    assert run.check(loop).identical
    before = run.v[:-1:EVERY]
    assert np.array_equal(run.extras["effort"][::EVERY], 0.25 - 0.5 * before) and not run.extras["active"].any()
    assert control.transport.rejections == 0


def test_services_pause_and_reset_a_run(loop: cd.Loop) -> None:
    """From a second process, in real time; nobody commands, so the robot holds its position."""
    control = ros2_control(loop, every=5, domain=DOMAIN, namespace=SPACE)
    replies: list[Any] = []

    def ask() -> None:
        with peer("call", DOMAIN, SPACE) as process:
            ready(process)
        replies.append(process.found["replies"])
        until(lambda: len(control.runs) == 1)  # the first run ends with the reset
        control.requests.stop("that is all")

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    run = control.run(loop.state([0.3, -0.2]))
    thread.join(LONG)
    assert replies == [[[True, "paused"], [True, "running"], [True, "the next run begins with the initial state"]]]
    assert len(control.runs) == 2 and control.ended == "that is all"
    assert np.abs(run.q - [0.3, -0.2]).max() < 0.05 and run.extras["active"].all()


def test_in_real_time_the_latest_command_acts(loop: cd.Loop) -> None:
    """A position command moves the robot; what cannot be used is ignored and explained."""
    control = ros2_control(loop, every=5, domain=DOMAIN, namespace=SPACE)

    def command() -> None:
        with Ros2Node("commander", domain=DOMAIN) as node:
            positions = node.publisher(f"{SPACE}/position_controller/commands", NUMBERS)
            wrenches = node.publisher(f"{SPACE}/apply_wrench", WRENCH)
            until(lambda: positions.subscribers and wrenches.subscribers)
            end = time.monotonic() + LONG
            # a subscription may be matched on this side only: send until it acts
            while control.transport.received < 2 or control.transport.rejections < 2:
                assert time.monotonic() < end
                positions.publish(numbers([0.5, 0.1]))
                positions.publish(numbers([0.5]))
                time.sleep(0.02)
            assert positions.acknowledged(LONG)
        time.sleep(0.5)
        control.requests.stop("that is all")

    thread = threading.Thread(target=command, daemon=True)
    thread.start()
    run = control.run(loop.state([0.3, -0.2]))
    thread.join(LONG)
    assert np.array_equal(run.extras["position"][-1], [0.5, 0.1]) and np.abs(run.q[-1] - [0.5, 0.1]).max() < 0.05
    assert "position commands must be 2 finite numbers, for shoulder, elbow; got 1" in control.transport.rejected[-1]
    assert run.check(loop).identical


def test_a_loop_of_ones_own(world: cd.Simulation) -> None:
    """Its references are Float64MultiArray on /NAME/commands; a controller that does not come is a ConnectError."""
    own = cd.Loop(world, lambda x, target: 60.0 * (target - x.q) - 12.0 * x.v, target=2)
    control = ros2_control(own, mode="lockstep", every=5, domain=DOMAIN, namespace=SPACE, connect_time=0.3)
    with pytest.raises(ConnectError, match=r"no program gave a first command within 0\.3 s"):
        control.run(own.state(), 10)
    control.connect_time, control.timeout = LONG, LONG

    def command() -> None:
        with Ros2Node("commander", domain=DOMAIN) as node:
            states = node.subscription(f"{SPACE}/joint_states", JOINT_STATE)
            targets = node.publisher(f"{SPACE}/target/commands", NUMBERS)
            answered, end = 0, time.monotonic() + LONG
            while answered < 4 and time.monotonic() < end:
                node.wait(0.1)
                for _ in states.take():
                    targets.publish(numbers([0.1, 0.2]))
                    answered += 1
            targets.acknowledged(LONG)

    thread = threading.Thread(target=command, daemon=True)
    thread.start()
    run = control.run(own.state(), 20)
    thread.join(LONG)
    assert np.array_equal(run.extras["target"], np.tile([0.1, 0.2], (20, 1)))


def test_a_bag_plays(loop: cd.Loop, tmp_path: Path) -> None:
    """The bytes in a bag of a run, published as `ros2 bag play` does, are received as they are."""
    from rosbags.highlevel import AnyReader

    with cd.Recorder(loop, loop.state([0.3, -0.2]), record=["ft_sensor.force", "ft_sensor.torque"]) as recorder:
        recorder.rollout({name: np.zeros(shape) for name, shape in loop.inputs.items()}, 20)
    assert recorder.run is not None
    cd.export_run(recorder.run, tmp_path / "bag", "bag")
    sent: dict[str, list[bytes]] = {}
    received: dict[str, list[bytes]] = {}
    with (
        AnyReader([tmp_path / "bag"]) as bag,
        Ros2Node("player", domain=DOMAIN) as player,
        Ros2Node("other", domain=DOMAIN) as other,
    ):
        kinds = {each.topic: each.msgtype for each in bag.connections}
        assert set(kinds) == {"/clock", "/joint_states", "/robot_description", "/tf", "/tf_static", "/wrench"}
        profile = Profile(100, transient_local=True)
        writers = {name: player.publisher(f"{SPACE}/bag{name}", kind, profile) for name, kind in kinds.items()}
        readers = {name: other.subscription(f"{SPACE}/bag{name}", kind, profile) for name, kind in kinds.items()}
        for connection, _, data in bag.messages():
            writers[connection.topic].publish_bytes(bytes(data))
            sent.setdefault(connection.topic, []).append(bytes(data))

        def all_received() -> bool:
            for name, reader in readers.items():
                received.setdefault(name, []).extend(reader.take_bytes())
            return all(len(received[name]) == len(sent[name]) for name in sent)

        until(all_received)
    # DDS pads to whole words
    assert {name: [data.ljust(-(-len(data) // 4) * 4, b"\0") for data in rows] for name, rows in sent.items()} == received


# ---- commands


def joint_state(names: list[str], position: Any = (), velocity: Any = (), effort: Any = ()) -> Any:
    return message_class(JOINT_STATE)(header(0), names, *(np.array(part, dtype=float) for part in (position, velocity, effort)))


def test_what_each_command_means(world: cd.Simulation) -> None:
    commands = JointCommands(world)
    commands.begin(np.array([0.3, -0.2]))
    assert {name: value.tolist() for name, value in commands.at(0.0, 0.1).items()} == {
        "effort": [0.0, 0.0],
        "position": [0.3, -0.2],
        "velocity": [0.0, 0.0],
        "active": [1.0, 1.0],
        "wrench": [0.0] * 6,
    }
    commands.effort(numbers([1.0, 2.0]))
    assert commands.values["active"].tolist() == [0.0, 0.0] and commands.values["effort"].tolist() == [1.0, 2.0]
    commands.joint_state(joint_state(["elbow"], position=[0.7], effort=[0.1]))
    assert commands.values["active"].tolist() == [0.0, 1.0] and commands.values["effort"].tolist() == [1.0, 0.1]
    assert commands.values["position"].tolist() == [0.3, 0.7]
    commands.joint_state(joint_state(["shoulder"], velocity=[2.0]))
    assert commands.at(0.0, 0.1)["position"].tolist() == [0.5, 0.7] and commands.at(0.1, 0.1)["position"].tolist() == [0.7, 0.7]
    commands.position(numbers([0.0, 0.1]))
    found = commands.at(0.2, 0.1)
    assert found["active"].tolist() == [1.0, 1.0] and found["position"].tolist() == [0.0, 0.1] and not found["velocity"].any()


def test_a_trajectory_is_cubic_between_its_points(world: cd.Simulation) -> None:
    from scipy.interpolate import CubicHermiteSpline

    duration, point = message_class("builtin_interfaces/msg/Duration"), message_class("trajectory_msgs/msg/JointTrajectoryPoint")
    rng = np.random.default_rng(2)
    times, positions, velocities = [0.5, 1.25, 2.0], rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    velocities[-1] = 0.0
    names = ["elbow", "shoulder"]  # not the order of the motors
    points = [
        point(p[::-1].copy(), v[::-1].copy(), np.zeros(0), np.zeros(0), duration(int(t), round(t % 1 * 1e9)))
        for t, p, v in zip(times, positions, velocities, strict=True)
    ]
    commands, q0 = JointCommands(world), np.array([0.3, -0.2])
    commands.begin(q0)
    kind = message_class("trajectory_msgs/msg/JointTrajectory")
    commands.trajectory(kind(header(0), names, points), 1.0, q0)
    spline = CubicHermiteSpline([1.0, *(1.0 + np.array(times))], [q0, *positions], [np.zeros(2), *velocities])
    for t in (1.0, 1.2, 1.5, 2.0, 2.9):
        found = commands.at(t, 0.01)
        assert np.allclose(found["position"], spline(t), atol=1e-14) and np.allclose(found["velocity"], spline(t, 1), atol=1e-13)
    assert commands.at(9.0, 0.01)["position"].tolist() == positions[-1].tolist()
    with pytest.raises(ConnectError, match="must name every motor's joint once"):
        commands.trajectory(kind(header(0), names[:1], points), 1.0, q0)
    with pytest.raises(ConnectError, match="times of a trajectory's points must increase"):
        commands.trajectory(kind(header(0), names, points[::-1]), 1.0, q0)


def test_commands_that_cannot_be_used_change_nothing(world: cd.Simulation) -> None:
    commands = JointCommands(world)
    commands.begin(np.array([0.3, -0.2]))
    commands.frame = "tip"
    vector, wrench = message_class("geometry_msgs/msg/Vector3"), message_class("geometry_msgs/msg/Wrench")

    def push(frame: str, force: float = 1.0) -> Any:
        return message_class(WRENCH)(header(0, frame), wrench(vector(force, 0.0, 0.0), vector(0.0, 0.0, 0.0)))

    wrong = [
        (lambda: commands.effort(numbers([1.0])), "effort commands must be 2 finite numbers"),
        (lambda: commands.position(numbers([1.0, np.nan])), "position commands must be 2 finite numbers"),
        (
            lambda: commands.joint_state(joint_state(["elbo"], [1.0])),
            r"joint 'elbo', which has no motor \(did you mean 'elbow'\?\)",
        ),
        (lambda: commands.joint_state(joint_state(["elbow"], [1.0, 2.0])), "names 1 joints and has 2 numbers of position"),
        (lambda: commands.joint_state(joint_state(["elbow"])), "names no joint, or has no numbers"),
        (lambda: commands.wrench(push("elbow"), lambda: np.eye(3)), "must have frame_id 'world' or 'tip', got 'elbow'"),
        (lambda: commands.wrench(push("world", np.inf), lambda: np.eye(3)), "must be finite"),
    ]
    before = commands.at(0.0, 0.1)
    for call, sentence in wrong:
        with pytest.raises(ConnectError, match=sentence):
            call()
    after = commands.at(0.0, 0.1)
    assert all(np.array_equal(after[name], before[name]) for name in before)
    quarter = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    commands.wrench(push("tip"), lambda: quarter)
    assert commands.values["wrench"].tolist() == [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]


def test_the_sensor_measures_weight_and_pushes(world: cd.Simulation, loop: cd.Loop) -> None:
    """A robot that holds still: the wrench at its tip is that of the last link's weight and of what pushes it."""
    q, push = np.array([0.4, 0.3]), np.array([0.3, 0.0, -0.2, 0.0, 0.0, 0.0])
    given = {"effort": np.zeros(2), "position": q, "velocity": np.zeros(2), "active": np.ones(2)}
    measured = []
    for wrench in (np.zeros(6), push):
        out = loop.rollout(loop.state(q), {**given, "wrench": wrench}, 3000, record=["ft_sensor.force", "q"], every=3000)
        R, _ = world.robot.frame_pose(out["q"][-1], "tip")
        measured.append(R @ out["ft_sensor.force"][-1])
    weight = world.robot.model.links[-1].inertia.mass * 9.81
    assert np.abs(measured[0] - [0.0, 0.0, -weight]).max() < 1e-6
    assert np.abs(measured[1] - measured[0] - push[:3]).max() < 1e-6


# ---- errors


def test_names_domains_and_interfaces(monkeypatch: pytest.MonkeyPatch, loop: cd.Loop) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", "42")
    assert (domain_of(None), domain_of(3)) == (42, 3)
    monkeypatch.setenv("ROS_DOMAIN_ID", "many")
    with pytest.raises(ConnectError, match="ROS_DOMAIN_ID must be a whole number from 0 to 101, got 'many'"):
        domain_of(None)
    local = configuration("lo")
    assert local is not None and "<AllowMulticast>false" in local and configuration("environment") is None
    with pytest.raises(ConnectError, match="interface must be the name"):
        configuration('lo"/><x')
    with pytest.raises(ConnectError, match="cannot use the network interface 'nosuch0'"):
        Ros2Node(domain=DOMAIN, interface="nosuch0")
    with pytest.raises(ConnectError, match="the name of a node has letters"):
        Ros2Node("my arm", domain=DOMAIN)
    with Ros2Node(domain=DOMAIN) as node:
        with pytest.raises(ConnectError, match=r"needs a full name .* got 'joint_states'"):
            node.publisher("joint_states", JOINT_STATE)
        with pytest.raises(ConnectError, match="no message type"):
            node.publisher("/joint_states", "sensor_msgs/JointState")
        with pytest.raises(ConnectError, match="service type must be one of"):
            node.service("/reset", "std_srvs/srv/Reset")
        with pytest.raises(ConnectError, match="is open on interface 'lo' in this process"):
            Ros2Node(domain=DOMAIN, interface="environment")
        with pytest.raises(ConnectError, match=r"no server of /nobody within 0\.1 s"):
            node.client("/nobody", "std_srvs/srv/Empty").call(0.1)
    with pytest.raises(ConnectError, match=r"has no frame 'tool' \(did you mean|has no frame 'tool'"):
        commanded_loop(cd.Simulation(cd.load("double_pendulum")), frame="tool")
    with pytest.raises(ConnectError, match="needs a full name"):
        Ros2Bridge(loop, namespace="left arm")


def test_commands_with_another_stamp_do_not_answer(loop: cd.Loop) -> None:
    """In lock-step a stamped command answers the state of its stamp alone."""
    control = ros2_control(loop, mode="lockstep", every=EVERY, domain=DOMAIN, namespace=SPACE)
    bridge, requests = control.transport, Requests()
    bridge.open(control.exchange, requests)
    try:
        with Ros2Node("commander", domain=DOMAIN) as node:
            states, commands = (
                node.subscription(f"{SPACE}/joint_states", JOINT_STATE),
                node.publisher(f"{SPACE}/joint_commands", JOINT_STATE),
            )
            signals = {name: np.zeros(shape) for name, shape in control.exchange.signals.items()}
            until(lambda: commands.subscribers and states.publishers)
            assert bridge.exchange(0, signals, time.monotonic() + 0.05) is None
            until(lambda: bool(states.take()))
            early = joint_state(["elbow"], effort=[1.0])
            early.header.stamp = stamp(round(4 * DT * 1e9))
            commands.publish(early)
            assert commands.acknowledged(LONG)
            until(lambda: bridge.exchange(2, signals, time.monotonic() + 0.05) is None and bridge.rejections == 1)
            assert "a command answers the state at 0.008 s, and the present one is at 0.004 s" in bridge.rejected[-1]
            answer = joint_state(["elbow"], effort=[2.0])
            answer.header.stamp = stamp(round(2 * DT * 1e9))
            commands.publish(answer)
            command = bridge.exchange(2, signals, time.monotonic() + LONG)
            assert command is not None and command.tick == 2 and command.values["effort"].tolist() == [0.0, 2.0]
            requests.stop()
            assert bridge.exchange(4, signals, time.monotonic() + LONG) is None
    finally:
        bridge.close("")
    assert isinstance(control.exchange, Exchange)
