"""Wheels that roll without slipping: in the plane on flat ground or a curve, and in space on flat ground."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.constraints.assembly import RANK, assembled, determinants
from condyle.constraints.block_triangular import Block, Solved, blocks_of
from condyle.constraints.continuation import with_guess
from condyle.constraints.coordinate_map import Configurations, ConstraintMap, CoordinateMap
from condyle.constraints.explicit_map import Explicit, explicit
from condyle.constraints.loop_residuals import Condition
from condyle.constraints.loops import SINGULAR
from condyle.constraints.reduced_coordinates import following, listed, reduced_model, velocity_names
from condyle.dynamics.kinematics import ancestors, axes, poses
from condyle.errors import RobotError
from condyle.robot import ordered
from condyle.robot.edit import only
from condyle.robot.joints import Prismatic, Revolute
from condyle.robot.model import Model
from condyle.robot.spatial import Array, cross, product, vector
from condyle.tape.array import where
from condyle.tape.derive import derivative_at_zero, jacobian_at_zero
from condyle.tape.function import Function
from condyle.tape.scalar import constant
from condyle.tape.trace import trace

UP = np.array([0.0, 0.0, 1.0])
FLAT = 1e-9  # how far an axis may lean out of the plane


@dataclass(frozen=True)
class Wheel:
    """A disc about the axis of a hinge, through the hinge's origin."""

    link: int
    joint: str
    radius: float

    @staticmethod
    def of(model: Model, joint: str, radius: float) -> Wheel:
        """The wheel on a revolute joint; RobotError for another joint, or a radius that is not positive."""
        i = only(model, joint)
        kind = model.links[i].kind
        if not isinstance(kind, Revolute):
            raise RobotError(f"robot '{model.name}': joint '{joint}' does not turn about an axis, so no wheel is on it")
        if not isinstance(radius, int | float | np.number) or not (np.isfinite(radius) and radius > 0.0):
            raise RobotError(f"robot '{model.name}': the radius of wheel '{joint}' must be a positive number, got {radius!r}")
        return Wheel(i, joint, float(radius))

    def center(self, model: Model, q: Array) -> Array:
        """The position of the wheel's center in the world."""
        return poses(model, q)[self.link].p

    def axle(self, model: Model, q: Array) -> Array:
        """The axis, in the world."""
        kind = model.links[self.link].kind
        assert isinstance(kind, Revolute)
        # the axis is the same on both sides of the hinge: the wheel's own angle does not enter
        still = np.array(q, dtype=object)
        still[model.links[self.link].q] = 0.0
        return poses(model, still)[self.link].R @ np.array(kind.axis)

    def height(self, model: Model, q: Array) -> Any:
        """How high the disc's lowest point is above z = 0."""
        a = self.axle(model, q)
        lean = np.sqrt(1.0 - a[2] * a[2]) if not _level(a) else 1.0
        return self.center(model, q)[2] - self.radius * lean

    def directions(self, model: Model, q: Array) -> tuple[Array, Array, Array]:
        """(forward, sideways, from the centre to the lowest point), in the world; forward is where a positive spin rolls."""
        a = self.axle(model, q)
        if _level(a):
            return cross(a, UP), vector(a[0], a[1], 0.0), UP * -self.radius
        across = 1.0 / np.sqrt(1.0 - a[2] * a[2])
        forward = cross(a, UP) * across
        return forward, vector(a[0], a[1], 0.0) * across, cross(a, forward) * self.radius

    def contact_rows(self, model: Model, q: Array) -> Array:
        """The velocity of the lowest point along (up, forward, sideways) by v, (3, nv)."""
        X = poses(model, q)
        S = axes(model, X)
        forward, sideways, arm = self.directions(model, q)
        point = self.center(model, q) + arm
        J = np.zeros((3, model.nv), dtype=object)
        for i in ancestors(model, self.link):
            for k in range(model.links[i].v.start, model.links[i].v.stop):
                J[:, k] = S[k].linear + cross(S[k].angular, point)
        return np.array([J[2], forward @ J, sideways @ J])


def _level(a: Array) -> bool:
    return constant(a[2]) == 0.0


# ---- in the plane


@dataclass(frozen=True)
class PlanarWheel:
    """A wheel under a robot that moves in the x-z plane, with what its geometry needs to know."""

    wheel: Wheel
    x: int  # links of the base's slides
    z: int
    senses: dict[int, float]  # +1 or -1: how each hinge that carries the wheel turns about +y
    ground: Callable[[Any], Any] | None  # the height of the ground by x; None: zero

    @staticmethod
    def of(model: Model, wheel: Wheel, ground: Callable[[Any], Any] | None) -> PlanarWheel:
        """The wheel with the slides of its base; RobotError if the base is not planar, or a joint leaves the plane."""
        who = f"robot '{model.name}': wheel '{wheel.joint}'"
        x, z = model.base_link("x"), model.base_link("z")
        if x is None or z is None:
            raise RobotError(
                f"{who} in the plane needs the base planar (slides along x and z): load the robot with base='planar'"
            )
        X, senses = poses(model, model.neutral()), {}
        for i in ancestors(model, wheel.link):
            kind = model.links[i].kind
            if isinstance(kind, Prismatic):
                leaves = abs(float(product(X[i].R, np.array(kind.axis))[1])) > FLAT
            else:
                axis = (
                    np.asarray(product(X[i].R, np.array(kind.axis)), dtype=float) if isinstance(kind, Revolute) else np.zeros(3)
                )
                leaves = abs(abs(axis[1]) - 1.0) > FLAT
                senses[i] = float(np.sign(axis[1]))
            if leaves:
                raise RobotError(f"{who}: joint '{model.links[i].joint}' leaves the x-z plane, so it does not roll in it")
        return PlanarWheel(wheel, x, z, senses, ground)

    def flat(self, model: Model, x: Array) -> Array:
        """x with the base's height and the wheel's angle set so that it rolls on z = 0, angle zero with its centre at x = 0."""
        own = model.links[self.wheel.link].q.start
        out = np.array(x, dtype=object)
        out[model.links[self.z].q], out[own] = 0.0, 0.0
        center = self.wheel.center(model, out)
        out[model.links[self.z].q.start] = self.wheel.radius - center[2]
        angle = sum((out[model.links[i].q.start] * s for i, s in self.senses.items() if i != self.wheel.link), 0.0)
        out[own] = (center[0] * (1.0 / self.wheel.radius) - angle) * self.senses[self.wheel.link]
        return out

    def grade(self, s: Any) -> Any:
        """The derivative of the ground's height by x."""
        assert self.ground is not None
        height = self.ground
        return derivative_at_zero(lambda t: {"z": np.array([height(s + t)], dtype=object)})["z"][0]

    def curve_center(self, s: Any) -> Array:
        """The wheel's centre when it touches the curve at x = s."""
        assert self.ground is not None
        grade = self.grade(s)
        length = 1.0 / np.sqrt(grade * grade + 1.0)
        return vector(s - self.wheel.radius * (grade * length), 0.0, self.ground(s) + self.wheel.radius * length)

    def on_curve(self, model: Model, x: Array) -> Array:
        """x, whose entry for the base's x is the s of the contact, with the base where the wheel touches the curve there."""
        s = x[model.links[self.x].q.start]
        out = np.array(x, dtype=object)
        out[model.links[self.x].q], out[model.links[self.z].q] = 0.0, 0.0
        center, at = self.wheel.center(model, out), self.curve_center(s)
        out[model.links[self.x].q.start], out[model.links[self.z].q.start] = at[0] - center[0], at[2] - center[2]
        return out

    def curve_spin(self, s: Any) -> Any:
        """How fast the wheel turns about +y for ds/dt = 1: the speed of its centre along the curve, over its radius.

        Not a number where the wheel is too large for the hollow it is in.
        """
        grade = self.grade(s)
        velocity = derivative_at_zero(lambda t: {"c": self.curve_center(s + t)})["c"]
        speed = (velocity[0] + velocity[2] * grade) / np.sqrt(grade * grade + 1.0)
        return where(speed > 0.0, speed, np.nan) * (1.0 / self.wheel.radius)


CONTACT = ("normal", "forward", "side")


def planar_roll(model: Model, wheel: Wheel, ground: Callable[[Any], Any] | None) -> Explicit:
    """The constraint of one wheel under a planar robot."""
    planar = PlanarWheel.of(model, wheel, ground)
    others = [i for i in range(len(model.links)) if i not in (planar.z, wheel.link)]
    if several := [model.links[i].joint for i in others if model.links[i].kind.nq != 1]:
        raise RobotError(
            f"robot '{model.name}': joint '{several[0]}' has several coordinates; over a wheel in the plane each joint has one"
        )
    names = [f"{wheel.joint}.{axis}" for axis in CONTACT[:2]]
    if ground is None:
        reduced = reduced_model(model.name, [model.links[i] for i in others])
        constraint = explicit(model, _filled(planar.flat, others), None, [k.joint for k in reduced.links], None, None, reduced)
        return replace(constraint, reaction_names=tuple(names), contacts=lambda m, q: wheel.contact_rows(m, q)[:2])
    if not callable(ground):
        raise RobotError(
            f"robot '{model.name}': the ground under a wheel is a function of x, written with NumPy; got {ground!r:.40}"
        )
    kept = [*others, wheel.link]
    reduced = reduced_model(model.name, [model.links[i] for i in kept])
    gamma = _filled(planar.on_curve, kept)

    def velocity(m: Model, y: Array) -> Array:
        n = len(others)

        def moved(d: Array) -> Any:
            there = np.array(y, dtype=object)
            there[:n] = there[:n] + d
            return {"q": gamma(m, there)}

        T = jacobian_at_zero(moved, n)["q"]
        spin = planar.curve_spin(y[others.index(planar.x)])
        for column, i in enumerate(others):
            turn = spin if i == planar.x else -planar.senses.get(i, 0.0)
            T[m.links[wheel.link].v.start, column] = turn * planar.senses[wheel.link]
        return T

    joints = [k.joint for k in reduced.links]
    constraint = explicit(model, gamma, velocity, joints, None, joints[:-1], reduced)

    def contacts(m: Model, q: Array) -> Array:
        raise RobotError(
            f"robot '{m.name}': the forces of wheel '{wheel.joint}' on a curve are given along all coordinates, "
            "by constraint_forces"
        )

    trouble = f"wheel '{wheel.joint}' is too large for the hollow of the ground that it is in"
    return replace(constraint, reaction_names=tuple(names), contacts=contacts, trouble=trouble)


def _filled(complete: Callable[[Model, Array], Array], kept: list[int]) -> Callable[[Model, Array], Array]:
    """gamma(model, y): the coordinates of the joints `kept`, and the rest completed."""

    def gamma(model: Model, y: Array) -> Array:
        x = np.zeros(model.nq, dtype=object)
        for entry, i in zip(y, kept, strict=True):
            x[model.links[i].q.start] = entry
        return complete(model, x)

    return gamma


# ---- in space


@dataclass(frozen=True)
class Rolling(ConstraintMap):
    """Wheels that neither slip nor slide: the coordinates are those below, with fewer velocities."""

    below: Model
    wheels: tuple[Wheel, ...]
    rows: tuple[int, ...]  # of (forward, side) of all wheels, those that are independent
    blocks: list[Block]  # of conditions that are solved together
    scales: np.ndarray  # their determinants at the start
    dependent: tuple[int, ...]  # velocities that follow
    start: np.ndarray

    holonomic = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "reduced", self.below)

    @property
    def free(self) -> list[int]:
        """Indices of the velocities that remain."""
        return [k for k in range(self.below.nv) if k not in self.dependent]

    @property
    def velocity_names(self) -> list[str]:
        """The names of the velocities that remain."""
        names = velocity_names(self.below)
        return [names[k] for k in self.free]

    def configuration(self, model: Model, lower: CoordinateMap, y: Array) -> Array:
        """x = y: rolling constrains velocities only."""
        return y

    def differential(self, at: Configurations, y: Array) -> Array:
        """The identity."""
        return np.eye(self.below.nv).astype(object)

    def velocity(self, at: Configurations, y: Array, G: Array) -> tuple[Array, Array | None]:
        """(T, T): velocities below that do not slide, and the same as rates of y."""
        A = sliding_rows(self.wheels, at)[list(self.rows)]
        T = np.zeros((self.below.nv, len(self.free)), dtype=object)
        T[self.free, np.arange(len(self.free))] = 1.0
        found = Solved.of(A[:, list(self.dependent)], self.blocks)
        weakest: Any = np.inf
        for determinant, scale in zip(found.determinants, self.scales, strict=True):
            weakest = np.minimum(determinant * (1.0 / scale), weakest)
        # where the velocities that remain do not fix the others, those are not numbers
        T[list(self.dependent)] = where(weakest >= SINGULAR, -found.solve(A[:, self.free]), np.nan)
        return T, T

    @property
    def reaction_names(self) -> list[str]:
        """Names of the constraint forces: wheel and axis."""
        names = [f"{wheel.joint}.{axis}" for wheel in self.wheels for axis in CONTACT[1:]]
        return [names[r] for r in self.rows]

    def reaction_rows(self, at: Configurations) -> Array:
        """The directions of the contact forces along all coordinates of the robot, one row each."""
        return np.vstack([w.contact_rows(at.model, at.q)[1:] for w in self.wheels])[list(self.rows)]

    def summary(self) -> str:
        """What it constrains, in half a sentence."""
        names = velocity_names(self.below)
        wheels, follow = [wheel.joint for wheel in self.wheels], [names[k] for k in self.dependent]
        return f"wheels {listed(wheels)} roll without slipping; {following(follow)}"


def sliding_rows(wheels: Sequence[Wheel], at: Configurations) -> Array:
    """(forward, side) velocities of all lowest points, by the velocities of the highest configuration found."""
    rows = np.vstack([wheel.contact_rows(at.model, at.q)[1:] for wheel in wheels])
    return rows if at.total is None else rows @ at.total


def rolling(
    model: Model, lower: CoordinateMap, wheels: tuple[Wheel, ...], independent: Sequence[str] | None
) -> list[ConstraintMap]:
    """The constraints of wheels in space: each on the ground z = 0, and none sliding."""
    conditions = tuple(Condition.of(model, f"{w.joint}.normal", w.height) for w in wheels)
    below, x0 = lower.reduced, lower.start
    for link in below.links:
        if link.base == "z":
            x0[link.q.start] = max(w.radius for w in wheels) - min(0.0, *[_lowest(model, lower, w, x0) for w in wheels])
    mechanism, loops = assembled(model, lower, conditions, x0, None, _supports(below, len(wheels)))
    loops = with_guess(mechanism, loops)
    return [loops, _rolling_layer(model, lower.extended(loops), wheels, independent)]


def _supports(below: Model, wheels: int) -> list[str] | None:
    """The joints that hold the wheels on the ground: the base's height and roll, and its pitch for three wheels or more."""
    order = [below.links[i].joint for motion in ("z", "roll", "pitch") if (i := below.base_link(motion)) is not None]
    return order[: max(min(wheels, 3), 1)] if len(order) >= min(wheels, 3) else None


def _lowest(model: Model, lower: CoordinateMap, wheel: Wheel, x: np.ndarray) -> float:
    function = Function(trace(lambda x: {"h": wheel.center(model, lower.configurations(model, x)[0])}, x=len(x)), "reference")
    return float(function(x)[2])


def _rolling_layer(
    model: Model, standing: CoordinateMap, wheels: tuple[Wheel, ...], independent: Sequence[str] | None
) -> Rolling:
    below, start = standing.reduced, standing.constraints[-1].start

    def slides(x: Array) -> Any:
        return {"A": sliding_rows(wheels, standing.differentials(model, standing.configurations(model, x)))}

    function = Function(trace(slides, x=below.nq), "reference")
    rng = np.random.default_rng(5)
    A = np.asarray(function(start), dtype=float)
    rows: list[int] = []
    for r in range(len(A)):
        if np.sum(ordered.singular_values(A[[*rows, r]]) > RANK * np.max(np.abs(A))) > len(rows):
            rows.append(r)
    names = velocity_names(below)
    unknown = [n for n in independent or () if n not in names]
    if unknown:
        raise RobotError(f"robot '{model.name}': there is no velocity '{unknown[0]}'; there are {', '.join(names)}")
    kept = {names.index(n) for n in independent} if independent else set()
    # the base's own velocities follow from the wheels', which are never singular
    wanted = [k for k in range(len(names)) if k not in kept and k in below.base_coordinates]
    wanted += [k for k in range(len(names)) if k not in kept and k not in wanted]
    dependent: list[int] = []
    for k in wanted:
        values = ordered.singular_values(A[np.ix_(rows, [*dependent, k])])
        if len(dependent) < len(rows) and values[-1] > 1e-3 * values[0]:
            dependent.append(k)
    if len(dependent) < len(rows):
        raise RobotError(
            f"robot '{model.name}': its wheels have {len(rows)} conditions of rolling, and the velocities that may follow "
            f"can meet only {len(dependent)} of them; name fewer in independent="
        )
    dependent.sort()
    near = [np.asarray(function(start + 0.3 * rng.standard_normal(below.nq)), dtype=float) for _ in range(3)]
    pattern = np.any([a[np.ix_(rows, dependent)] != 0.0 for a in (A, *near)], axis=0)
    blocks = blocks_of(pattern)
    scales = determinants(A[np.ix_(rows, dependent)], blocks)
    return Rolling(below, wheels, tuple(rows), blocks, scales, tuple(dependent), start)
