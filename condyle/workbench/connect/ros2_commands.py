"""Commands of ROS 2 topics as references of a loop: efforts, positions, trajectories and wrenches.

The loop of `commanded_loop` has a reference for each, so that a recorded run holds all commands and repeats without ROS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condyle.blocks.force_sensors import ForceTorque
from condyle.closed_loop.block import Block
from condyle.closed_loop.loop import Loop
from condyle.errors import ConnectError
from condyle.methods.control.controllers import PDController, motors
from condyle.multibody.robot import Robot
from condyle.robot.joints import Free
from condyle.robot.names import nearest
from condyle.simulate.simulation import Simulation
from condyle.workbench.runs.bags import MEASURED
from condyle.workbench.runs.ros2_messages import Message, nanoseconds

SENSOR = MEASURED[0].partition(".")[0]  # the name of the force-torque sensor in the loop
REFERENCES = ("effort", "position", "velocity", "active", "wrench")


class LastTick(Block):
    """y(t) = u(t - dt): what a signal was in the tick before, zero at first."""

    def __init__(self, size: int, **options: Any) -> None:
        super().__init__(**options)
        self.state("value", np.zeros(size))

    def step(self, state: dict[str, Any], u: Any) -> tuple[Any, dict[str, Any]]:
        """The input of the tick before."""
        return state["value"], {"value": u}


def sensor_frame(robot: Robot) -> str | None:
    """Where an arm's force-torque sensor is and wrenches act: the frame of the last link farthest from it; None for others."""
    links = robot.model.links
    if not links or not robot.coordinate_map.identity or robot.model.base_coordinates:
        return None
    if isinstance(links[-1].kind, Free) or any(link.parent != i - 1 for i, link in enumerate(links)):
        return None
    frames = [frame for frame in robot.model.frames if frame.link == len(links) - 1 and not frame.name.startswith("joint:")]
    return max(frames, key=lambda frame: float(np.linalg.norm(frame.pose.p))).name


def commanded_loop(simulation: Simulation, *, frame: str | None = None, gains: tuple[Any, Any] | None = None) -> Loop:
    """The loop of a robot that topics command:  u = effort + active * (P (position - q) + D (velocity - v) + g).

    References effort and active (nu,), position and velocity of the motors (n,), and wrench (6,): force, then torque, on the
    robot at the frame, in world axes. P and D by default hold each joint against gravity (`Motors.gains`), and act implicitly,
    so that they are stable for any dt; g are the gravity forces of a robot on a fixed base. With a frame that a joint carries
    (by default the tip of an arm), "ft_sensor.force" and "ft_sensor.torque" are what a force-torque sensor there measures.
    """
    robot = simulation.robot
    at = motors(simulation)
    chosen = sensor_frame(robot) if frame is None else frame
    if chosen is not None and chosen not in robot.frame_names:
        raise ConnectError(f"robot '{robot.name}' has no frame '{chosen!s:.60}'{nearest(str(chosen), robot.frame_names)}")
    P, D = at.gains() if gains is None else gains
    owner = None if chosen is None else robot.model.frame(chosen).link
    measures = (
        owner is not None and owner >= 0 and not isinstance(robot.model.links[owner].kind, Free) and robot.coordinate_map.identity
    )
    sensor = ForceTorque(chosen, name=SENSOR) if chosen is not None and measures else None
    last = LastTick(6, name="last_wrench")

    def control(x: Any, effort: Any, position: Any, velocity: Any, active: Any, wrench: Any) -> dict[str, Any]:
        drive = PDController(simulation, at, P, D, lambda t: (position, velocity), gravity=not at.standing)
        out: dict[str, Any] = {"u": effort + active * drive(x)["u"]}
        if chosen is None:
            return out | {"unused_wrench": wrench}
        if sensor is not None:
            sensor(x, {chosen: last(wrench)})
        return out | {"wrenches": {chosen: wrench}}

    n = len(at.names)
    return Loop(simulation, control, effort=simulation.nu, position=n, velocity=n, active=simulation.nu, wrench=6)


class JointCommands:
    """The present command of a robot, from the messages that come: what each reference of `commanded_loop` is.

    Until a first command the robot holds the position that it begins with. Efforts on /effort_controller/commands end position
    control of all joints, positions on /position_controller/commands begin it; a JointState commands the joints that it names. A
    message that cannot be used is a ConnectError and changes nothing.
    """

    def __init__(self, simulation: Simulation) -> None:
        at = motors(simulation)
        self.simulation, self.names, self._at = simulation, list(at.names), at
        self.efforts = list(simulation.control_names)
        self.values: dict[str, np.ndarray] = {}
        self.frame: str | None = None
        self._points: list[tuple[float, np.ndarray, np.ndarray]] = []  # of a trajectory: time, s, position, velocity
        self._moving = np.zeros(len(self.names))  # velocities that joints follow without a position

    def begin(self, q: np.ndarray) -> None:
        """None; the robot holds the configuration q, and nothing pushes it."""
        n, nu = len(self.names), self.simulation.nu
        self.values = {"effort": np.zeros(nu), "position": np.array(q[self._at.at_q]), "velocity": np.zeros(n)}
        self.values |= {"active": np.zeros(nu), "wrench": np.zeros(6)}
        self.values["active"][self._at.at_u] = 1.0
        self._points, self._moving = [], np.zeros(n)

    def at(self, t: float, period: float) -> dict[str, np.ndarray]:
        """The command at time t, s, for the next period: trajectories and velocities move on."""
        if self._points:
            self.values["position"], self.values["velocity"] = self._on_trajectory(t)
        elif self._moving.any():
            self.values["position"] = self.values["position"] + period * self._moving
        return {name: np.array(value) for name, value in self.values.items()}

    # ---- messages

    def effort(self, message: Message) -> None:
        """std_msgs/msg/Float64MultiArray: the effort of every motor, N m or N."""
        self.values["effort"] = _numbers(message.data, len(self.efforts), "effort commands", self.efforts)
        self.values["active"] = np.zeros(self.simulation.nu)
        self._stop()

    def position(self, message: Message) -> None:
        """std_msgs/msg/Float64MultiArray: the position of every motor's joint, rad or m."""
        self.values["position"] = _numbers(message.data, len(self.names), "position commands", self.names)
        self._hold()

    def joint_state(self, message: Message) -> None:
        """sensor_msgs/msg/JointState: position, velocity and effort of the joints that it names; each list may be empty.

        With positions (and velocities) they are followed, and efforts added; with velocities alone positions move by them; with
        efforts alone there is no position control.
        """
        at = [self._joint(name) for name in message.name]
        parts = {key: np.asarray(getattr(message, key), dtype=float) for key in ("position", "velocity", "effort")}
        for key, part in parts.items():
            if len(part) not in (0, len(at)) or not np.isfinite(part).all():
                raise ConnectError(
                    f"a command names {len(at)} joints and has {len(part)} numbers of {key}, or one that is not finite"
                )
        if not at or not any(map(len, parts.values())):
            raise ConnectError("a command names no joint, or has no numbers")
        self._stop(at)
        columns = self._at.at_u[at]
        self.values["active"][columns] = float(bool(len(parts["position"]) or len(parts["velocity"])))
        self.values["effort"][columns] = parts["effort"] if len(parts["effort"]) else 0.0
        if len(parts["position"]):
            self.values["position"][at] = parts["position"]
            self.values["velocity"][at] = parts["velocity"] if len(parts["velocity"]) else 0.0
        elif len(parts["velocity"]):
            self.values["velocity"][at] = self._moving[at] = parts["velocity"]

    def trajectory(self, message: Message, t: float, q: np.ndarray) -> None:
        """trajectory_msgs/msg/JointTrajectory, followed from time t, s, and configuration q on: cubic between its points."""
        at = [self._joint(name) for name in message.joint_names]
        if sorted(at) != list(range(len(self.names))):
            raise ConnectError(f"a trajectory must name every motor's joint once: {', '.join(self.names)}")
        order = np.argsort(at)
        points = [(t, np.array(q[self._at.at_q]), np.zeros(len(at)))]
        for point in message.points:
            when = t + 1e-9 * nanoseconds(point.time_from_start)
            if when < points[-1][0] or (when == points[-1][0] and len(points) > 1):
                raise ConnectError("the times of a trajectory's points must increase")
            row = _numbers(point.positions, len(at), "positions of a trajectory's point", self.names)[order]
            given = len(point.velocities) > 0
            rate = _numbers(point.velocities, len(at), "velocities of a trajectory's point", self.names)[order] if given else None
            points.append((when, row, np.zeros(len(at)) if rate is None else rate))
        if len(points) < 2:
            raise ConnectError("a trajectory has no points")
        self._hold()
        self._points = points

    def wrench(self, message: Message, rotation: Callable[[], np.ndarray]) -> None:
        """geometry_msgs/msg/WrenchStamped on the robot at its sensor frame, in axes of the world, or of that frame."""
        if self.frame is None:
            raise ConnectError(f"robot '{self.simulation.robot.name}' has no frame that wrenches act on")
        f, m = message.wrench.force, message.wrench.torque
        six = np.array([f.x, f.y, f.z, m.x, m.y, m.z], dtype=float)
        if not np.isfinite(six).all():
            raise ConnectError("a wrench must be finite numbers")
        axes = message.header.frame_id
        if axes not in ("", "world", self.frame):
            raise ConnectError(f"a wrench must have frame_id 'world' or '{self.frame}', got {axes!r:.60}")
        if axes == self.frame:
            R = rotation()
            six = np.concatenate([R @ six[:3], R @ six[3:]])
        self.values["wrench"] = six

    # ---- inside

    def _joint(self, name: str) -> int:
        if name not in self.names:
            raise ConnectError(f"a command names joint '{name!s:.60}', which has no motor{nearest(str(name), self.names)}")
        return self.names.index(name)

    def _stop(self, at: Any = slice(None)) -> None:
        """None; these joints follow no trajectory and no velocity."""
        if self._points:
            self._points = []
            self.values["velocity"] = np.zeros(len(self.names))
        self._moving[at] = 0.0
        self.values["velocity"][at] = 0.0

    def _hold(self) -> None:
        """None; all joints are under position control, at rest."""
        self._stop()
        self.values["effort"] = np.zeros(self.simulation.nu)
        self.values["active"] = np.zeros(self.simulation.nu)
        self.values["active"][self._at.at_u] = 1.0

    def _on_trajectory(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """(position, velocity) at time t: cubic Hermite between two points, at rest after the last."""
        times = [point[0] for point in self._points]
        k = int(np.searchsorted(times, t, side="right"))
        if k >= len(times):
            return self._points[-1][1], np.zeros(len(self.names))
        (t0, p0, v0), (t1, p1, v1) = self._points[max(k - 1, 0)], self._points[max(k, 1)]
        h = t1 - t0
        s = (t - t0) / h
        p = (2 * s**3 - 3 * s**2 + 1) * p0 + (s**3 - 2 * s**2 + s) * h * v0 + (3 * s**2 - 2 * s**3) * p1 + (s**3 - s**2) * h * v1
        v = (6 * s**2 - 6 * s) / h * (p0 - p1) + (3 * s**2 - 4 * s + 1) * v0 + (3 * s**2 - 2 * s) * v1
        return p, v


def _numbers(values: Any, size: int, what: str, names: list[str]) -> np.ndarray:
    found = np.array(values, dtype=float)
    if found.shape != (size,) or not np.isfinite(found).all():
        raise ConnectError(f"{what} must be {size} finite numbers, for {', '.join(names)}; got {found.size}")
    return found
