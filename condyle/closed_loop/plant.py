"""The robot inside of a loop: its state as the loop's function sees it, and its step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from condyle.closed_loop.episode import Draw
from condyle.closed_loop.tick import Tick
from condyle.dynamics import kinematics
from condyle.errors import ControlError
from condyle.robot.joints import Free, rotation_of
from condyle.robot.model import Model
from condyle.robot.names import nearest
from condyle.robot.spatial import Array, Motion, Pose, cross, product
from condyle.simulate.contacts import position
from condyle.simulate.integrate import integrate_alone
from condyle.simulate.law_residuals import law_residuals
from condyle.simulate.parameters import parameterized
from condyle.simulate.step import Inputs
from condyle.simulate.world import World
from condyle.tape.array import array
from condyle.tape.loop import loop, scan

ACCELERATION, FORCES = "acceleration", "contact_forces"
SMOOTHING = "smoothing"


class Clock:
    """The state of a loop without a robot: the time."""

    def __init__(self, tick: Tick) -> None:
        self._tick = tick

    @property
    def t(self) -> Any:
        """The time, s."""
        return self._tick.t

    @property
    def tick(self) -> Any:
        """Ticks since the start."""
        return self._tick.count

    @property
    def dt(self) -> Any:
        """The length of a tick, s."""
        return self._tick.h


class Plant(Clock):
    """The state of the robot at the start of a tick: q, v, the time t in s, and what sensors measure.

    `world` and `model` hold the parameters of the call. For a constrained robot q and v are the reduced coordinates, and `full_q`
    and `full_v` those of the model.
    """

    def __init__(self, tick: Tick, world: World, q: Array, v: Array) -> None:
        super().__init__(tick)
        self.world, self.q, self.v = world, q, v

    def with_state(self, q: Array, v: Array) -> Plant:
        """The robot with another configuration and velocity, such as measured ones."""
        return Plant(self._tick, self.world, q, v)

    @property
    def model(self) -> Model:
        """The robot's links, frames and inertias."""
        return self.world.model

    @property
    def episode(self) -> Draw:
        """Random numbers that stay the same during an episode: x.episode.uniform(0.5, 1.5) for a random mass or friction."""
        return Draw(self._tick.seed, self._tick.robot, 0.0) if self._tick.episode is None else self._tick.episode

    @cached_property
    def _at(self) -> Any:
        return self.world.at(self.q)

    @property
    def full_q(self) -> Array:
        """The configuration of the model."""
        return self._at.q

    @property
    def full_v(self) -> Array:
        """The velocity of the model."""
        return self._at.lift(self.v)

    @property
    def motor_positions(self) -> Array:
        """The position of each actuated joint, in the order of the controls: (nu,)."""
        q = self.full_q
        return array([q[position(self.world, k)] for k in self.world.actuated])

    @property
    def motor_velocities(self) -> Array:
        """The velocity of each actuated joint coordinate: (nu,)."""
        v = self.full_v
        return array([v[k] for k in self.world.actuated])

    # ---- of the solve that was made in the last tick

    @property
    def acceleration(self) -> Array:
        """The mean acceleration over the last tick, (nv,), zero at first; for a free joint in body axes, as in Pinocchio."""
        return self._tick.state(ACCELERATION, np.zeros(self.world.nv))

    @property
    def contact_forces(self) -> Array:
        """The force of the ground on each contact point over the last tick, world axes, N: (contacts, 3), zero at first."""
        if not self.world.points:
            return np.zeros((0, 3))
        return self._tick.state(FORCES, np.zeros((len(self.world.points), 3)))

    # ---- frames

    def frame_pose(self, frame: str) -> Pose:
        """The pose of a frame in the world, with R and p."""
        return kinematics.frame_pose(self.model, self.full_q, frame)

    def frame_velocity(self, frame: str, reference: str = "world_aligned") -> Motion:
        """The velocity of a frame, with `linear` and `angular`; references as in `Robot.frame_velocity`."""
        return kinematics.frame_velocity(self.model, self.full_q, self.full_v, frame, reference)

    def frame_acceleration(self, frame: str, reference: str = "world_aligned") -> Motion:
        """The classical acceleration of a frame over the last tick, without gravity."""
        a = self._at.acceleration(self.acceleration, self.v)
        return kinematics.frame_acceleration(self.model, self.full_q, self.full_v, a, frame, reference)


@dataclass(frozen=True)
class Commands:
    """What a loop's function gives the robot for one tick; `signals`: further outputs by name."""

    u: Array
    wrenches: dict[tuple[str, str], Array]  # (frame, axes) -> six numbers
    parameters: dict[str, Any]  # parameters of the world for this tick
    signals: dict[str, Any]


def commands(world: World, found: Any) -> Commands:
    """The commands in what a loop's function returned: controls, or a dict with "u", "wrenches", "parameters" and outputs."""
    given = dict(found) if isinstance(found, Mapping) else {"u": found}
    u, wrenches, parameters = given.pop("u", None), given.pop("wrenches", None) or {}, given.pop("parameters", None) or {}
    controls = np.zeros(world.nu) if u is None else np.asarray(array(u), dtype=object).ravel()
    if len(controls) != world.nu:
        raise ControlError(
            f"the loop's function gives {len(controls)} controls, and the robot has {world.nu} motors; return u, or a dict with "
            "'u', 'wrenches', 'parameters' and further outputs"
        )
    return Commands(controls, _wrenches(world, wrenches), dict(parameters), given)


def _wrenches(world: World, given: Any) -> dict[tuple[str, str], Array]:
    if not isinstance(given, Mapping):
        raise ControlError(f"'wrenches' must be a dict {{frame: six numbers}}, got {type(given).__name__}")
    found: dict[tuple[str, str], Array] = {}
    names = [frame.name for frame in world.model.frames]
    for frame, value in given.items():
        if frame not in names:
            raise ControlError(
                f"'wrenches' names the frame '{frame!s:.60}', which the robot does not have{nearest(frame, names)}"
            )
        several = isinstance(value, list) and bool(value) and isinstance(value[0], (tuple, list, np.ndarray))
        for one in value if several else [value]:
            axes = "world_aligned"
            if isinstance(one, tuple) and len(one) == 2 and isinstance(one[1], str):
                one, axes = one
            six = np.asarray(array(one), dtype=object).ravel()
            if len(six) != 6 or axes not in ("world_aligned", "local"):
                raise ControlError(
                    f"the wrench at '{frame}' must be six numbers, force then torque, or (six numbers, 'local'); got "
                    f"{len(six)} numbers in axes {axes!r:.40}"
                )
            found[frame, axes] = found[frame, axes] + six if (frame, axes) in found else six
    return found


@dataclass(frozen=True)
class PlantStep:
    """The robot after a tick: configuration, velocity, residual of the solver, mean acceleration and contact forces.

    `smoothing`: the largest with which a step of the tick was solved, as `Status.smoothing` has it.
    """

    q: Array
    v: Array
    residual: Any
    acceleration: Array
    contact_forces: Array
    smoothing: Any


def commanded_world(world: World, t: Any, given: Commands) -> tuple[World, Array, Array | None]:
    """The world, the controls and the wrenches of a tick under these commands."""
    frames = tuple(given.wrenches)
    world = parameterized(replace(world, wrenches=frames, since=t), given.parameters)
    six = np.array(list(given.wrenches.values()), dtype=object) if frames else None
    # a robot without motors has one idle control
    return world, given.u if world.nu else np.zeros(1), six


def plant_laws(world: World, integrator: str, substeps: int, q: Array, v: Array, t: Any, given: Commands) -> Any:
    """The residuals of all laws in each step of the physics of a tick, (substeps, laws)."""
    world, u, six = commanded_world(world, t, given)

    if substeps == 1:
        return array([law_residuals(world, Inputs(q, v, u, t, six))])

    def body(i: Any, state: Any, _: Any) -> Any:
        x = Inputs(state[0], state[1], u, t + i * world.h, six)
        end = integrate_alone(world, x, integrator)
        return (end.q, end.v), law_residuals(world, x)

    return scan(body, (q, v), count=substeps)[1]


def plant_step(world: World, integrator: str, substeps: int, q: Array, v: Array, t: Any, given: Commands) -> PlantStep:
    """One tick of the robot: `substeps` steps of the physics under constant commands."""
    world, u, six = commanded_world(world, t, given)

    def one(q: Array, v: Array, t: Any) -> tuple[Any, ...]:
        end = integrate_alone(world, Inputs(q, v, u, t, six), integrator)
        return end.q, end.v, end.residual, end.contact_impulses * (1.0 / world.h), end.least_smoothing

    def over(q1: Array, v1: Array) -> Array:
        return mean_acceleration(world, world.h * float(substeps), (q, v), (q1, v1))

    if substeps == 1:
        q1, v1, residual, forces, least = one(q, v, t)
        return PlantStep(q1, v1, residual, over(q1, v1), forces, world.effective_smoothing(least))
    points = len(world.points)

    def body(i: Any, state: Any) -> Any:
        end = one(state["q"], state["v"], t + i * world.h)
        n = 1.0 / substeps
        return {
            "q": end[0],
            "v": end[1],
            "residual": np.maximum(state["residual"], end[2]),
            "f": state["f"] + end[3] * n if points else state["f"],
            "least": np.maximum(state["least"], end[4]),
        }

    start = {"q": q, "v": v, "residual": 0.0, "f": np.zeros((max(points, 1), 3)), "least": 0.0}
    end = loop(body, start, substeps)
    forces = end["f"] if points else np.zeros((0, 3))
    acceleration, smoothing = over(end["q"], end["v"]), world.effective_smoothing(end["least"])
    return PlantStep(end["q"], end["v"], end["residual"], acceleration, forces, smoothing)


def mean_acceleration(world: World, dt: Any, before: tuple[Array, Array], after: tuple[Array, Array]) -> Array:
    """The mean acceleration between two states (q, v), in the axes and for the velocity of the second one: (nv,).

    Of a free joint it is  R_1^T (R_1 v_1 - R_0 v_0) / dt - w_1 x v_1,  so that its classical acceleration at the second state is
    the change of its velocity in the world per time, exactly, however the body turns.
    """
    (q0, v0), (q1, v1) = before, after
    a = (v1 - v0) * (1.0 / dt)
    for link in world.reduced.links if world.holonomic else ():
        if isinstance(link.kind, Free):
            quaternion, linear = slice(link.q.start + 3, link.q.stop), slice(link.v.start, link.v.start + 3)
            R_10 = product(rotation_of(q1[quaternion]).T, rotation_of(q0[quaternion]))
            w_1 = v1[linear.stop : link.v.stop]
            a[linear] = (v1[linear] - product(R_10, v0[linear])) * (1.0 / dt) - cross(w_1, v1[linear])
    return a
