"""A simulated robot on topics of ROS 2: states out, commands in, reset and pause as services, in real time or in lock-step.

    simulation = cd.Simulation(cd.load("ur3"), dt=0.001)
    control = ros2_control(simulation, mode="realtime", every=2)
    run = control.run(control.loop.state(q), 10_000, "run.cdl")

The bridge is a transport of `condyle.workbench.connect.external.ExternalControl`, which steps the loop and records every command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from condyle.closed_loop.loop import Loop
from condyle.errors import ConnectError, RobotError
from condyle.multibody.robot import Robot
from condyle.robot.to_urdf import to_urdf
from condyle.simulate.simulation import Simulation
from condyle.workbench.connect.external import ExternalControl
from condyle.workbench.connect.ros2_commands import REFERENCES, JointCommands, commanded_loop, sensor_frame
from condyle.workbench.connect.ros2_node import Publisher, Ros2Node, Service, Subscription
from condyle.workbench.connect.ros2_wire import DYNAMIC_TF, LATCHED, LOOPBACK, Profile, checked_name
from condyle.workbench.connect.transport import LOCKSTEP, Command, Exchange, Requests, Transport
from condyle.workbench.runs.bags import MEASURED
from condyle.workbench.runs.loops import plant
from condyle.workbench.runs.ros2_messages import (
    CLOCK,
    JOINT_STATE,
    NUMBERS,
    STRING,
    TF,
    TRAJECTORY,
    WRENCH,
    Message,
    RobotMessages,
    clock,
    decoded,
    nanoseconds,
    text,
)

TF_RATE = 50.0  # Hz
REPEAT = 0.25  # s after which a first state is sent again, while nobody has answered
SETTLE = 1.0  # s in which answers to such repetitions are awaited and discarded
MOST_REJECTED = 20  # reasons that are kept

# topics of commands, and what answers a state in lock-step
TOPICS = {
    "effort": "/effort_controller/commands",
    "position": "/position_controller/commands",
    "joint": "/joint_commands",
    "trajectory": "/joint_trajectory_controller/joint_trajectory",
    "wrench": "/apply_wrench",
}
KINDS = {"effort": NUMBERS, "position": NUMBERS, "joint": JOINT_STATE, "trajectory": TRAJECTORY, "wrench": WRENCH}
ANSWERS = ("effort", "position", "joint")


class Ros2Bridge(Transport):
    """The topics and services of one robot, which take the place of a program that commands its loop.

    `loop`: one of `commanded_loop`, or any other, whose commanded references are then std_msgs/msg/Float64MultiArray on
    /NAME/commands. `frame`: where the wrench is measured and acts. `description`: the URDF text, by default written from the
    model. `namespace`, such as /left, comes before all names but /clock, /tf and /tf_static. `profile`: the quality of service
    of /joint_states and of commands. In lock-step a state is answered by the next effort or position command, or by a JointState
    on /joint_commands with the state's stamp; one with another stamp is ignored. In real time the latest command acts. What
    cannot be used is ignored, counted in `rejections` and explained in `rejected`.
    """

    def __init__(
        self,
        loop: Loop,
        *,
        name: str = "condyle",
        namespace: str = "",
        domain: int | None = None,
        interface: str = LOOPBACK,
        frame: str | None = None,
        description: str | None = None,
        profile: Profile | None = None,
        tf_rate: float = TF_RATE,
    ) -> None:
        self.loop, self.simulation = loop, plant(loop)
        self.name, self.domain, self.interface = name, domain, interface
        self.namespace = checked_name(namespace) if namespace else ""
        self.profile, self.tf_rate = profile or Profile(), float(tf_rate)
        robot = self.simulation.robot
        self.messages = RobotMessages(robot, list(self.simulation.control_names))
        self.description = _written(robot) if description is None else description
        self.joint_control = tuple(loop.inputs) == REFERENCES
        self.commands = list(loop.inputs)
        self.signals = [name for name in MEASURED if name in loop.plan.signals]
        self.joints = JointCommands(self.simulation) if self.joint_control else None
        self.frame = sensor_frame(robot) if frame is None else frame
        if self.joints is not None:
            self.joints.frame = self.frame
        self.rejections, self.rejected, self.sent, self.received = 0, list[str](), 0, 0
        self.node: Ros2Node | None = None
        self._values: dict[str, np.ndarray] = {}
        self._latest: tuple[int, np.ndarray] = (0, np.zeros(0))  # tick and coordinates of the last state
        self._last_tick = -1

    # ---- a transport

    def open(self, exchange: Exchange, requests: Requests) -> None:
        """None; the node exists from now on, with /robot_description and /tf_static."""
        self._exchange, self._requests = exchange, requests
        self.node = node = Ros2Node(self.name, domain=self.domain, interface=self.interface)
        own = self.namespace
        try:
            self._states = node.publisher(f"{own}/joint_states", JOINT_STATE, self.profile)
            self._clock = node.publisher("/clock", CLOCK)
            self._tf = node.publisher("/tf", TF, DYNAMIC_TF)
            self._wrench: Publisher | None = node.publisher(f"{own}/wrench", WRENCH) if self.signals else None
            latched = [("/tf_static", TF, self.messages.static_transforms())]
            if self.description:
                latched.append((f"{own}/robot_description", STRING, text(self.description)))
            for topic, kind, message in latched:
                node.publisher(topic, kind, LATCHED).publish(message)
            self._inputs: dict[str, Subscription] = {}
            if self.joint_control:
                self._inputs = {name: node.subscription(own + topic, KINDS[name], self.profile) for name, topic in TOPICS.items()}
            else:
                self._inputs = {
                    name: node.subscription(f"{own}/{name}/commands", NUMBERS, self.profile) for name in exchange.commands
                }
            self._services = self._make_services(node)
            self._tf_every = max(1, round(1.0 / max(self.tf_rate, 1e-9) / exchange.period))
        except BaseException:
            self.close("")
            raise

    def exchange(self, tick: int, signals: Mapping[str, np.ndarray], deadline: float) -> Command | None:
        """The command for a tick; its state is published first."""
        lockstep = self._exchange.mode == LOCKSTEP
        if tick == 0 or self._last_tick < 0:
            self._restart(signals)
            if lockstep:
                self._wait_for_controller(deadline)
        now = self._time(tick)
        if tick != self._last_tick or tick == 0:
            self._publish(tick, now, signals)
        self._last_tick = tick
        if not lockstep:
            # commands that echo stamps answer every state: they are waited for, the others come when they come
            answered = self._take(tick)
            while self._stamped and answered < tick and not self._requests.urgent and (rest := deadline - time.monotonic()) > 0.0:
                self._wait(rest)
                answered = max(answered, self._take(tick))
            return self._command(tick, tick if not self._stamped else answered)
        published = time.monotonic()
        while True:
            if self._take(tick) == tick:
                self._settle()
                return self._command(tick, tick)
            if self._requests.urgent or self._requests.paused or (rest := deadline - time.monotonic()) <= 0.0:
                return None
            self._wait(min(rest, REPEAT))
            if self.received == 0 and time.monotonic() - published > REPEAT:
                # a subscription may be matched on one side only when the first state is sent
                self._states.publish(self._state(tick, now, signals))
                published = time.monotonic()
                self._repeated += 1

    def check(self) -> None:
        """None; requests of services are served, while a run is paused."""
        self._serve()

    def close(self, reason: str) -> None:
        """None; the node is gone."""
        node, self.node = self.node, None
        if node is not None:
            node.close()
        self._last_tick = -1

    # ---- states

    def _restart(self, signals: Mapping[str, np.ndarray]) -> None:
        """None; the robot holds its first configuration until a command comes."""
        for subscription in self._inputs.values():
            subscription.take_bytes()
        self._stamped, self._repeated, self._last_tick = False, 0, -1
        self.received = 0
        if self.joints is not None:
            self.joints.begin(np.asarray(signals["q"]))
        else:
            self._values = {name: np.zeros(shape) for name, shape in self._exchange.commands.items()}

    def _publish(self, tick: int, now: int, signals: Mapping[str, np.ndarray]) -> None:
        self._clock.publish(clock(now))
        self._states.publish(self._state(tick, now, signals))
        if self._wrench is not None and self.frame is not None:
            six = np.concatenate([signals[name] for name in self.signals])
            self._wrench.publish(self.messages.wrench(now, self.frame, six))
        if (tick // self._exchange.every) % self._tf_every == 0:
            self._tf.publish(self.messages.transforms(now, self._latest[1]))
        self.sent += 1

    def _state(self, tick: int, now: int, signals: Mapping[str, np.ndarray]) -> Message:
        q, v = self.messages.full(signals["q"], signals["v"])
        self._latest = tick, q
        return self.messages.joint_state(now, q, v, np.asarray(signals["u"]) if "u" in signals else None)

    def _time(self, tick: int) -> int:
        return round(tick * self._exchange.dt * 1e9)

    # ---- commands

    def _wait(self, seconds: float) -> None:
        assert self.node is not None
        self.node.wait(seconds)
        self._serve()

    def _wait_for_controller(self, deadline: float) -> None:
        """None, when somebody gets the states and can send commands, or at the deadline."""
        while not (self._states.subscribers and any(self._inputs[name].publishers for name in self._answers())):
            if self._requests.urgent or (rest := deadline - time.monotonic()) <= 0.0:
                return
            self._serve()
            time.sleep(min(rest, 0.01))

    def _settle(self) -> None:
        """None; answers to a state that was sent more than once are discarded, but for the first."""
        end = time.monotonic() + SETTLE
        while self._repeated > 0 and (rest := end - time.monotonic()) > 0.0:
            self._wait(rest)
            self._repeated -= sum(len(self._inputs[name].take_bytes()) for name in self._answers())
        self._repeated = 0

    def _answers(self) -> tuple[str, ...]:
        return ANSWERS if self.joint_control else tuple(self._inputs)

    def _take(self, tick: int) -> int:
        """The tick that the messages which have come answer, -1 if none does; they are part of the command from now on."""
        self._serve()
        answered = -1
        for name, subscription in self._inputs.items():
            for data in subscription.take_bytes():
                try:
                    answered = max(answered, self._apply(name, subscription, data, tick))
                except ConnectError as error:
                    self.rejections += 1
                    self.rejected = [*self.rejected, str(error)][-MOST_REJECTED:]
        return answered

    def _apply(self, name: str, subscription: Subscription, data: bytes, tick: int) -> int:
        """The tick that a message answers; -1 for one that answers none."""
        message = decoded(data, subscription.kind)
        joints = self.joints
        if joints is None:
            self._values |= self._exchange.checked({name: message.data}, self._values)
        elif name == "trajectory":
            joints.trajectory(message, tick * self._exchange.dt, self._reduced())
            return -1
        elif name == "wrench":
            joints.wrench(message, self._rotation)
            return -1
        elif name == "joint":
            when = nanoseconds(message.header.stamp)
            answered = tick if when == self._time(tick) else round(when * 1e-9 / self._exchange.dt)
            stamped = when != 0 or tick == 0
            if stamped and self._exchange.mode == LOCKSTEP and answered != tick:
                raise ConnectError(
                    f"a command answers the state at {when * 1e-9:g} s, and the present one is at {tick * self._exchange.dt:g} s"
                )
            joints.joint_state(message)
            self._stamped = self._stamped or when != 0
            self.received += 1
            return answered if stamped else tick
        else:
            (joints.effort if name == "effort" else joints.position)(message)
        self.received += 1
        return tick

    def _command(self, tick: int, answered: int) -> Command:
        if self.joints is None:
            return Command(answered, {name: np.array(value) for name, value in self._values.items()})
        return Command(answered, self.joints.at(tick * self._exchange.dt, self._exchange.period))

    def _reduced(self) -> np.ndarray:
        """The coordinates of the simulation at the last state."""
        q = self._latest[1]
        if self.simulation.robot.coordinate_map.identity:
            return q
        raise ConnectError("trajectories are for robots without constraints")

    def _rotation(self) -> np.ndarray:
        assert self.frame is not None
        R, _ = self.simulation.robot.frame_pose(self._reduced(), self.frame)
        return np.asarray(R)

    # ---- services

    def _make_services(self, node: Ros2Node) -> list[tuple[Service, Callable[[Message], dict[str, Any]]]]:
        requests = self._requests

        def reset(_: Message) -> dict[str, Any]:
            requests.reset()
            return {"success": True, "message": "the next run begins with the initial state"}

        def hold(message: Message) -> dict[str, Any]:
            (requests.pause if message.data else requests.resume)()
            return {"success": True, "message": "paused" if message.data else "running"}

        def pause(_: Message) -> dict[str, Any]:
            requests.pause()
            return {}

        def resume(_: Message) -> dict[str, Any]:
            requests.resume()
            return {}

        own = self.namespace
        return [
            (node.service(f"{own}/{self.name}/reset", "std_srvs/srv/Trigger"), reset),
            (node.service(f"{own}/{self.name}/pause", "std_srvs/srv/SetBool"), hold),
            (node.service(f"{own}/reset_simulation", "std_srvs/srv/Empty"), reset),
            (node.service(f"{own}/pause_physics", "std_srvs/srv/Empty"), pause),
            (node.service(f"{own}/unpause_physics", "std_srvs/srv/Empty"), resume),
        ]

    def _serve(self) -> None:
        """None; requests that have come are answered."""
        for service, handle in self._services:
            for identity, request in service.take():
                service.reply(identity, **handle(request))


def _written(robot: Robot) -> str:
    """The URDF text of a robot; empty for one that URDF cannot describe, which then has no /robot_description."""
    try:
        return to_urdf(robot.model)
    except RobotError:
        return ""


def ros2_control(
    simulation: Simulation | Loop,
    *,
    mode: str = "realtime",
    every: int = 1,
    frame: str | None = None,
    gains: tuple[Any, Any] | None = None,
    timeout: float = 10.0,
    connect_time: float = 60.0,
    **options: Any,
) -> ExternalControl:
    """A simulation, or a loop, under commands of ROS 2 topics: `.run(x0, steps, path)` runs and records it.

    `every`: ticks from one state to the next. `frame` and `gains` as in `commanded_loop`, `timeout` and `connect_time`, s, as in
    ExternalControl, other options as in Ros2Bridge, which is `.transport`.
    """
    loop = commanded_loop(simulation, frame=frame, gains=gains) if isinstance(simulation, Simulation) else simulation
    bridge = Ros2Bridge(loop, frame=frame, **options)
    return ExternalControl(
        loop,
        bridge,
        command=bridge.commands,
        mode=mode,
        every=every,
        signals=bridge.signals,
        timeout=timeout,
        connect_time=connect_time,
        urdf=bridge.description,
    )
