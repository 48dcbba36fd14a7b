"""Airframes: a robot with a free base and rotors, the numbers of each rotor, and the whole as one body at zero gimbal angles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from condyle.dynamics.energy import center_of_mass, composite_inertias
from condyle.dynamics.kinematics import frame_pose
from condyle.errors import RobotError
from condyle.multibody.robot import Robot, load
from condyle.robot import library
from condyle.robot.joints import Free, Revolute
from condyle.robot.model import Link, Model
from condyle.robot.names import nearest
from condyle.robot.rotor import FIND, changed, rotor_problems
from condyle.robot.rotor import RotorData as RotorData

Array = np.ndarray

FRAMES = ("thrust", "rotor", "prop", "propeller")  # how thrust frames are called, the first of these that there are
LARGEST = 2.5  # the largest thrust over that of hovering, for rotors with no limit
GRAVITY = 9.81  # m/s^2


@dataclass(frozen=True)
class Airframe:
    """A robot with a free base and rotors. Positions and inertia are in the axes of the base, with the gimbals at zero.

    The order of commands is that of `rotors` (thrusts, N), then that of `gimbals` (angles, rad).
    """

    robot: Robot
    rotors: tuple[RotorData, ...]
    name: str

    @property
    def n(self) -> int:
        """The number of rotors."""
        return len(self.rotors)

    @property
    def gimbals(self) -> tuple[str, ...]:
        """The joints that tilt rotors, in the order of the rotors; two rotors may share one."""
        return tuple(dict.fromkeys(rotor.gimbal for rotor in self.rotors if rotor.gimbal is not None))

    @property
    def nu(self) -> int:
        """Entries of a command: thrusts, then gimbal angles."""
        return self.n + len(self.gimbals)

    @property
    def mass(self) -> float:
        """The mass of the whole, kg."""
        return self.robot.mass

    @cached_property
    def center_of_mass(self) -> Array:
        """The centre of mass from the origin of the base, m: (3,)."""
        return np.asarray(center_of_mass(self._model, self._model.neutral()), dtype=float)

    @cached_property
    def inertia(self) -> Array:
        """The inertia about the centre of mass, kg m^2: (3, 3)."""
        return np.asarray(composite_inertias(self._model, self._model.neutral())[0].I_com, dtype=float)

    @cached_property
    def positions(self) -> Array:
        """The thrust frames from the centre of mass, m: (n, 3)."""
        places: Array = np.array([self._pose(rotor.frame).p for rotor in self.rotors], dtype=float)
        return np.asarray(places - self.center_of_mass)

    @cached_property
    def thrust_axes(self) -> Array:
        """The direction of each thrust: (n, 3)."""
        return np.array([self._pose(rotor.frame).R[:, 2] for rotor in self.rotors], dtype=float)

    @cached_property
    def gimbal_axes(self) -> Array:
        """The axis about which each rotor tilts, right-handed; zero where it is fixed: (n, 3)."""
        axes = np.zeros((self.n, 3))
        for k, rotor in enumerate(self.rotors):
            if rotor.gimbal is not None:
                link = _moved_by(self._model, rotor.gimbal)
                axes[k] = self._pose(link.name).R @ np.array(link.axes[0].angular, dtype=float)
        return axes

    @cached_property
    def gimbal_of(self) -> tuple[int | None, ...]:
        """The number of each rotor's gimbal, None where it is fixed: (n,)."""
        return tuple(None if rotor.gimbal is None else self.gimbals.index(rotor.gimbal) for rotor in self.rotors)

    @cached_property
    def gimbal_limits(self) -> Array:
        """The least and largest angle of each gimbal, rad: (gimbals, 2)."""
        limits = [_moved_by(self._model, name).limits for name in self.gimbals]
        found = [[-np.pi if l.lower is None else l.lower, np.pi if l.upper is None else l.upper] for l in limits]
        return np.array(found, dtype=float).reshape(-1, 2)

    @cached_property
    def servo_lags(self) -> Array:
        """The time constant of each gimbal's servo, s: (gimbals,)."""
        return np.array([next(r.servo_lag for r in self.rotors if r.gimbal == name) for name in self.gimbals], dtype=float)

    @property
    def thrust_limits(self) -> Array:
        """The least and largest thrust of each rotor, N: (n, 2)."""
        return np.array([rotor.thrust for rotor in self.rotors], dtype=float)

    @property
    def lags(self) -> Array:
        """The thrust lag of each rotor, s: (n,)."""
        return np.array([rotor.lag for rotor in self.rotors], dtype=float)

    def hover_thrust(self, gravity: float = GRAVITY) -> float:
        """mass * gravity / rotors: the thrust of each rotor that carries its share of the weight, N."""
        return self.mass * gravity / self.n

    @property
    def _model(self) -> Model:
        return self.robot.model

    def _pose(self, frame: str) -> Any:
        return frame_pose(self._model, self._model.neutral(), frame)

    def __repr__(self) -> str:
        return f"<airframe {self.name}: {self.n} rotors, {len(self.gimbals)} gimbals, {self.mass:.6g} kg>"


def airframe(
    source: str | PathLike[str] | Robot | Airframe,
    *,
    rotors: Sequence[str | RotorData] | None = None,
    gravity: float = GRAVITY,
    **numbers: Any,
) -> Airframe:
    """The airframe of a built-in name ("birotor", "trirotor", "quadrotor", "hexarotor"), a robot file, or a robot.

    `rotors`: names of the thrust frames, whose z axes are the directions of thrust, or RotorData. By default those that the file
    names in <rotor> elements, else the frames called thrust_*, rotor_* or prop_*. `gravity` in m/s^2, of a robot that is loaded
    here. Other keywords are numbers of RotorData, one for all rotors or one for each: drag=0.0172, thrust=(0, 18), direction=(1,
    -1). A rotor tilts with the nearest revolute joint above its frame; joints that only spin a propeller are locked.
    """
    if isinstance(source, Airframe):
        rotors = source.rotors if rotors is None else rotors
        source = source.robot
    robot = source if isinstance(source, Robot) else _loaded(source, (0.0, 0.0, -gravity))
    if not robot.model.links or not isinstance(robot.model.links[0].kind, Free):
        raise RobotError([f"robot '{robot.name}' has no free base, so it cannot fly: load it with base='free'"])
    chosen = tuple(RotorData(r) if isinstance(r, str) else r for r in rotors) if rotors is not None else robot.model.rotors
    chosen = chosen or _found(robot)
    robot, chosen = _without_spin(robot, chosen)
    made = [_placed(robot, changed(rotor, each)) for rotor, each in zip(chosen, _for_each(chosen, numbers), strict=True)]
    largest = LARGEST * robot.mass * GRAVITY / len(made)
    made = [replace(rotor, thrust=(0.0, largest)) if tuple(rotor.thrust) == (0.0, 0.0) else rotor for rotor in made]
    if problems := [problem for rotor in made for problem in rotor_problems(rotor)]:
        raise RobotError(problems)
    return Airframe(robot, tuple(made), robot.name)


def _loaded(source: Any, gravity: tuple[float, float, float]) -> Robot:
    """The robot with the base that it is meant for, or its own free joint; else with a free base."""
    robot = load(source, None, gravity)
    if (isinstance(source, str) and library.knows(source)) or (robot.model.links and isinstance(robot.model.links[0].kind, Free)):
        return robot
    return load(source, "free", gravity)


def _found(robot: Robot) -> tuple[RotorData, ...]:
    """The rotors at frames that are called like one; neighbours around the vehicle spin in opposite directions."""
    for word in FRAMES:
        pattern = re.compile(rf"(?i)^(?:.*(?:/|__))?{word}[_-]?[a-z0-9]*$")
        frames = [f for f in robot.model.frames if pattern.match(f.name) and "joint" not in f.name.lower()]
        if frames:
            places = [frame_pose(robot.model, robot.model.neutral(), frame.name).p for frame in frames]
            around = np.argsort(np.argsort([float(np.arctan2(p[1], p[0])) for p in places]))
            return tuple(
                RotorData(f.name, direction=1.0 - 2.0 * abs(int(k - around[0]) % 2)) for f, k in zip(frames, around, strict=True)
            )
    raise RobotError(
        [
            f"robot '{robot.name}' has no thrust frames: an airframe needs one for each rotor, with z along the thrust; name "
            "them thrust_1, thrust_2, ..., or give their names as rotors=[...]"
        ]
    )


def _moved_by(model: Model, joint: str) -> Link:
    for link in model.links:
        if link.joint == joint:
            return link
    raise RobotError([f"robot '{model.name}' has no joint '{joint!s:.60}'{nearest(joint, [link.joint for link in model.links])}"])


def _above(model: Model, frame: str) -> Link | None:
    """The nearest link above a frame that a revolute joint moves."""
    i = model.frame(frame).link
    while i >= 0 and not isinstance(model.links[i].kind, Revolute):
        i = model.links[i].parent
    return model.links[i] if i >= 0 else None


def _without_spin(robot: Robot, rotors: Sequence[RotorData]) -> tuple[Robot, tuple[RotorData, ...]]:
    """The robot with joints locked that have no limits and turn about the thrust: the spin of a rotor has no coordinate."""
    model, spins = robot.model, []
    for rotor in rotors:
        link = _above(model, rotor.frame)
        if link is None or link.limits.lower is not None:
            continue
        along = model.frame(rotor.frame).pose.R[:, 2] @ np.array(link.axes[0].angular, dtype=float)
        if model.links[model.frame(rotor.frame).link] is link and abs(along) > 0.99:
            spins.append(link.joint)
    return (robot.lock(spins) if spins else robot), tuple(rotors)


def _placed(robot: Robot, rotor: RotorData) -> RotorData:
    """The rotor with its gimbal."""
    model = robot.model
    model.frame(rotor.frame)
    if rotor.gimbal != FIND:
        link = None if rotor.gimbal is None else _moved_by(model, rotor.gimbal)
        if link is not None and not isinstance(link.kind, Revolute):
            raise RobotError([f"rotor '{rotor.frame}': joint '{rotor.gimbal}' does not turn, so it is no gimbal"])
        return rotor
    link = _above(model, rotor.frame)
    return replace(rotor, gimbal=None if link is None else link.joint)


def _for_each(rotors: Sequence[RotorData], numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """The numbers of each rotor: a list with one entry for each rotor, else the same for all."""
    out: list[dict[str, Any]] = [{} for _ in rotors]
    for name, value in numbers.items():
        several = isinstance(value, (list, tuple, np.ndarray)) and not (name == "thrust" and np.ndim(value) == 1)
        if several and len(value) != len(rotors):
            raise RobotError([f"{name} must be one number, or {len(rotors)} for the {len(rotors)} rotors; got {len(value)}"])
        for k, given in enumerate(out):
            given[name] = value[k] if several else value
    for given in out:
        if "thrust" in given and np.ndim(given["thrust"]) == 1:
            given["thrust"] = tuple(float(x) for x in given["thrust"])
        for name, x in given.items():
            if isinstance(x, (np.floating, np.integer)):
                given[name] = x.item()
    return out
