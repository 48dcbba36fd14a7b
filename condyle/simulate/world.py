"""A World: everything a step depends on besides state and control, with the scales derived from the robot."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from condyle.constraints.coordinate_map import CoordinateMap, EvaluatedMap
from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.energy import total_mass
from condyle.dynamics.kinematics import ancestors, poses
from condyle.dynamics.solve import ancestor_dofs, cholesky_solve, filled, pattern_factor
from condyle.errors import SimulationError
from condyle.robot.joints import Ball, Prismatic, Revolute
from condyle.robot.model import Link, Model, digest
from condyle.robot.parameters import Parameters
from condyle.robot.spatial import Array, cross, length, product
from condyle.simulate.contact_table import Layout
from condyle.simulate.points import ContactPoint
from condyle.simulate.terrain import Ground
from condyle.tape.array import assemble, where
from condyle.tape.function import Function
from condyle.tape.graph import Graph
from condyle.tape.precision import by_precision
from condyle.tape.scalar import Scalar, constant
from condyle.tape.table import current, is_recording, recording
from condyle.tape.trace import trace

EARTH = 9.81  # gravity for the scales of a model that has none
LISTED = 8  # feet, one on a link, that have code of their own in a kernel at most: for so few it is faster
STANDING = 4  # number of contacts that share the weight in the depth at rest
IMPACT = 1e-5  # smoothing of impacts relative to their energy: limits the range of numbers in a step
SMOOTHING_SINGLE = 1e-5  # the least smoothing in float32


@dataclass(frozen=True)
class JointForces:
    """Passive forces and limits of one joint coordinate. The constant zero, or None: none. Numbers may be traced."""

    damping: Any = 0.0
    spring: Any = 0.0
    rest: Any = 0.0
    friction: Any = 0.0
    lower: Any = None
    upper: Any = None
    effort: Any = None
    # of a motor: force + K (target - q - h v) - B v with the velocity v after the step, within its effort
    drive_force: Any = 0.0
    drive_force_rate: Any = 0.0  # its change per s since the start of the tick, for drives without a bound
    drive_inertia: Any = 0.0  # added to the joint's own: so large that the drive's force prescribes the acceleration
    drive_stiffness: Any = 0.0
    drive_damping: Any = 0.0
    drive_target: Any = 0.0
    drive_effort: Any = None
    inertia: Any = 1.0  # M_jj where every joint is at zero
    load: Any = 1.0  # g sqrt(inertia * mass beyond): scale of gravity's force in the joint
    depth: Any = 0.01  # penetration of the limit under that load

    @property
    def driven(self) -> bool:
        """Whether the joint has a drive; its numbers may be traced."""
        return self.drive_yields or constant(self.drive_force) != 0.0 or constant(self.drive_force_rate) != 0.0

    @property
    def drive_yields(self) -> bool:
        """Whether the force of the drive depends on the motion."""
        return constant(self.drive_stiffness) != 0.0 or constant(self.drive_damping) != 0.0


@dataclass(frozen=True)
class Tendon:
    """A linear combination of joints with limits: its length is offset + coefficients . q[positions]."""

    forces: JointForces  # with the limits, and the scales of the combination
    path: tuple[int, ...]  # velocity coordinates
    positions: tuple[int, ...]
    coefficients: tuple[float, ...]
    offset: float

    def length(self, q: Array) -> Any:
        """offset + coefficients . q[positions]."""
        return sum((q[k] * c for k, c in zip(self.positions, self.coefficients, strict=True)), self.offset)

    def rate(self, v: Array) -> Any:
        """d(length)/dt."""
        return sum((v[k] * c for k, c in zip(self.path, self.coefficients, strict=True)), 0.0)


@dataclass(frozen=True)
class World:
    """A robot in its world. `h`: the time step of the physics, s. Numbers may be traced, see parameters.py."""

    model: Model
    coordinate_map: CoordinateMap  # of a constrained robot; the identity for a free one
    h: Any
    ground: Ground | None = None
    points: tuple[ContactPoint, ...] = ()
    pyramid: int = 0  # friction directions; 0 is the round cone
    power: int = 3  # strength grows with this power of the depth
    depth: Any = 1e-3
    on_surface: bool = (
        False  # contact begins `depth` above the surface, so that a body at rest stands on it, and its depth is held
    )
    smoothing: Any = 1e-3
    recovery_time: Any = None  # of contacts deeper than at rest, s; None: they stay as deep as they are
    given_stiffness: float | None = None  # N / m^power; None: from the depth at rest
    joints: tuple[JointForces, ...] = ()
    tendon_limits: bool = True
    actuated: tuple[int, ...] = ()
    wrenches: tuple[tuple[str, str], ...] = ()  # (frame, reference) of the wrenches given with each step
    force: Callable[..., Any] | None = None  # a further force (model, q, v, t) -> joint forces
    force_key: str = ""
    timed: bool = False
    implicit: bool = True  # springs and damping act with the velocity after the step
    tolerance: float = 1e-3  # of the solver, as solver.py measures it
    substeps: int = 1  # steps of the physics in one step: dt = substeps * h
    since: Any = 0.0  # the time at which a tick begins, s
    known: Parameters | None = field(default=None, repr=False, compare=False)  # parameters, where some of them are traced

    @property
    def reduced(self) -> Model:
        """The coordinates of a state."""
        return self.coordinate_map.reduced

    @property
    def nd(self) -> int:
        """Entries of a small change of configuration."""
        return self.reduced.nv

    @property
    def nv(self) -> int:
        """Entries of a velocity: nd, or fewer where only velocities are constrained."""
        return self.coordinate_map.nv

    @property
    def holonomic(self) -> bool:
        """Whether velocities are the rates of the coordinates."""
        return self.coordinate_map.holonomic

    def at(self, y: Array) -> EvaluatedMap:
        """The coordinate map at a configuration of the world."""
        return self.coordinate_map.at(self.model, y)

    @cached_property
    def start(self) -> tuple[Array, Array]:
        """(q, T) where the robot begins: every joint at zero, or as its constraint has it."""
        return start_of(self.model, self.coordinate_map)

    @cached_property
    def ancestor_dofs(self) -> list[list[int]]:
        """The pattern of the matrices of a step, as tree_solve.py has it."""
        if not self.coordinate_map.identity:
            return filled(_pattern(self))
        tree = ancestor_dofs(self.model)
        if all(i in tree[k] for tendon in self.tendons for k in tendon.path for i in tendon.path if i < k):
            return tree
        pattern = np.array([[i == k or i in tree[k] or k in tree[i] for i in range(len(tree))] for k in range(len(tree))])
        for tendon in self.tendons:
            pattern[np.ix_(tendon.path, tendon.path)] = True
        return filled(pattern)

    @cached_property
    def tendons(self) -> tuple[Tendon, ...]:
        """The tendons whose limits act."""
        links = {link.joint: link for link in self.model.links}
        out = []
        for spec in self.model.tendons if self.tendon_limits else ():
            moved, c = [links[name] for name, _ in spec.joints], [coefficient for _, coefficient in spec.joints]
            path = tuple(link.v.start for link in moved)
            own = [self.joints[k] for k in path]
            # as if each joint moved alone
            mobility = sum((c_k * c_k / joint.inertia for c_k, joint in zip(c, own, strict=True)), 0.0)
            acceleration = sum((abs(c_k) * joint.load / joint.inertia for c_k, joint in zip(c, own, strict=True)), 0.0)
            depth = sum((abs(c_k) * joint.depth for c_k, joint in zip(c, own, strict=True)), 0.0)
            forces = JointForces(
                lower=spec.lower, upper=spec.upper, inertia=1.0 / mobility, load=acceleration / mobility, depth=depth
            )
            out.append(Tendon(forces, path, tuple(link.q.start for link in moved), tuple(c), spec.offset))
        return tuple(out)

    def limited(self, k: int) -> JointForces:
        """The limits of joint coordinate k; of a tendon, counted on after the coordinates."""
        return self.joints[k] if k < len(self.joints) else self.tendons[k - len(self.joints)].forces

    @property
    def gravity(self) -> Any:
        """The magnitude of gravity, EARTH where the model has none, m/s^2."""
        return magnitude_of_gravity(self.model)

    @property
    def nominal_load(self) -> Any:
        """The mass supported by one contact at rest, kg."""
        return total_mass(self.model) / min(max(len(self.points), 1), STANDING)

    @property
    def stiffness(self) -> Any:
        """k of the largest normal force k depth^power, N/m^power: at `depth`, two thirds of it support the whole robot."""
        if self.given_stiffness is not None:
            return self.given_stiffness
        load = total_mass(self.model) if self.on_surface else self.nominal_load
        return 1.5 * load * self.gravity / math.prod([self.depth] * self.power)

    @property
    def margin(self) -> Any:
        """The height above the surface at which contact begins, m."""
        return self.depth if self.on_surface else 0.0

    @property
    def least_smoothing(self) -> Any:
        """The smoothing; in float32 at least SMOOTHING_SINGLE, below which rounding errors are larger than it."""
        return np.maximum(self.smoothing, by_precision(0.0, SMOOTHING_SINGLE))

    @property
    def contact_smoothing(self) -> Any:
        """kappa of a contact at rest, J."""
        return self.least_smoothing * self.nominal_load * ((self.gravity * self.h) * (self.gravity * self.h))

    def effective_smoothing(self, least: Any) -> Any:
        """The `smoothing` of contacts at rest whose kappa is at least `least`, J."""
        return self.least_smoothing * np.maximum(least / self.contact_smoothing, 1.0)

    @cached_property
    def point_table(self) -> Layout | None:
        """The points that a step treats in a table, see contact_table.py: all but a few feet; None if there are none."""
        if self.ground is None or self.pyramid:
            return None
        feet = {k: point.link for k, point in enumerate(self.points) if not point.secondary}
        few = len(feet) <= LISTED and len(set(feet.values())) == len(feet)
        tabled = {k: point.link for k, point in enumerate(self.points) if k not in feet or not few}
        return Layout.of(self.model, tabled) if tabled else None

    @property
    def listed_points(self) -> list[int]:
        """The points that a step treats one by one."""
        layout = self.point_table
        return [k for k in range(len(self.points)) if layout is None or k not in layout.points]

    @cached_property
    def effective_masses(self) -> tuple[Any, ...]:
        """The effective mass at each contact point, 3 / trace(J M^-1 J^T) with every joint at zero, kg.

        The points of a link in a table have that of the first of them: it is a scale.
        """
        model, layout = self.model, self.point_table
        q, T = self.start
        M = _seen_by(T, mass_matrix(model, q))
        M = M + np.eye(len(M)) * (1e-12 * sum(np.diag(M)))  # regularised where it is singular
        # of numbers all entries, in the order of a full matrix; of traced ones those of the tree
        solve = cholesky_solve if M.dtype == float else (lambda M, b: pattern_factor(self.ancestor_dofs, M).solve(b))
        X = poses(model, q)
        first = (
            {} if layout is None else {k: layout.points_of(n)[0] for n in range(len(layout.links)) for k in layout.points_of(n)}
        )
        out: list[Any] = []
        for index, point in enumerate(self.points):
            if first.get(index, index) < index:
                out.append(out[first[index]])
                continue
            centre = X[point.link].point(np.array(point.position))
            J = np.zeros((3, model.nv), dtype=object)
            for i in ancestors(model, point.link):
                for k, axis in enumerate(model.links[i].axes):
                    motion = X[i] @ axis
                    J[:, model.links[i].v.start + k] = motion.linear + cross(motion.angular, centre)
            J = product(untraced(J), T)
            out.append(3.0 / sum(np.diag(product(J, untraced(solve(M, J.T))))))
        return tuple(out)

    @cached_property
    def inverse_inertia_diagonal(self) -> Array:
        """Approximately 1 / M_kk of each coordinate, averaged over the axes of a free base."""
        inverse = untraced([1.0 / joint.inertia for joint in self.joints])
        if not self.coordinate_map.identity:
            q, T = self.start
            inverse = 1.0 / np.diag(_seen_by(T, mass_matrix(self.model, q)))
        for link in self.reduced.links if self.holonomic else ():
            if link.kind.nv == 6:
                for k in (link.v.start, link.v.start + 3):
                    inverse[k : k + 3] = sum(inverse[k : k + 3]) / 3.0
        return inverse

    @property
    def nu(self) -> int:
        """Entries of a control."""
        return len(self.actuated)

    # ---- arithmetic that sums over coordinates, of which a FoldedWorld has fewer

    @property
    def trunk(self) -> int:
        """Coordinates, the first ones, of the whole robot, where the others are those of each limb; 0 where none are."""
        return 0

    def limbs_along(self, path: Sequence[int]) -> int:
        """The number of limbs, each of which has such a path of coordinates; 0 for one of the whole robot."""
        return 0

    @property
    def plain(self) -> World:
        """The world of all coordinates: this one, unless it is folded."""
        return self

    def times(self, M: Array, x: Array) -> Array:
        """M x."""
        return M @ x

    def dot(self, a: Array, b: Array) -> Any:
        """a . b."""
        return a @ b

    def over_coordinates(self, of: Callable[[list[Any]], Any], terms: list[Any]) -> Any:
        """of(terms), one for each coordinate, where of(a + b) = of(a) + of(b)."""
        return of(terms)

    def key(self) -> str:
        """A text that differs whenever a step of this world may."""
        ground = "" if self.ground is None else self.ground.key()
        points = "\n".join(point.key() for point in self.points)
        law = (self.h, self.pyramid, self.power, self.depth, self.on_surface, self.smoothing, self.given_stiffness)
        rest = (law, self.recovery_time, self.joints, self.actuated, self.implicit, self.tolerance, self.tendons)
        forces = f"{self.wrenches!r} {self.force_key} {self.timed}"
        return f"{digest(self.model)} {self.coordinate_map.key()} {ground} {points} {rest!r} {forces}"


def joint_forces(
    model: Model,
    coordinate_map: CoordinateMap,
    *,
    limits: bool,
    friction: bool,
    damping: bool,
    efforts: bool,
    depth: float,
    limit_depth: float,
    springs: bool = True,
) -> tuple[JointForces, ...]:
    """The passive forces and limits of the model's joints, per velocity coordinate, with the scales of inertia and load."""
    joints = []
    for _, link in model.outward():
        for _ in range(link.v.start, link.v.stop):
            forces = JointForces()
            if not isinstance(link.kind, Revolute | Prismatic):
                dry = friction and isinstance(link.kind, Ball)
                forces = replace(forces, damping=link.damping if damping else 0.0, friction=link.friction if dry else 0.0)
            else:
                forces = _of_joint(forces, link, limits, friction, damping, efforts)
                if springs and link.stiffness:
                    forces = replace(forces, spring=link.stiffness, rest=link.rest)
                forces = replace(forces, depth=limit_depth if isinstance(link.kind, Revolute) else depth)
            joints.append(forces)
    return with_joint_scales(model, coordinate_map, joints)


def with_joint_scales(model: Model, coordinate_map: CoordinateMap, joints: Sequence[JointForces]) -> tuple[JointForces, ...]:
    """The joints with the inertia and the load that the model gives them."""
    inertias = _inertias(model, coordinate_map)
    beyond = [link.inertia.mass for link in model.links]
    for i, link in model.inward():
        if link.parent >= 0:
            beyond[link.parent] = beyond[link.parent] + beyond[i]
    g = magnitude_of_gravity(model)
    out = []
    for i, link in model.outward():
        for k in range(link.v.start, link.v.stop):
            load = g * np.sqrt(np.maximum(inertias[k], 0.0) * beyond[i])
            out.append(replace(joints[k], inertia=_nonzero(inertias[k]), load=_nonzero(load)))
    return tuple(out)


def magnitude_of_gravity(model: Model) -> Any:
    """The magnitude of gravity, EARTH where the model has none, m/s^2."""
    g = np.array(model.gravity)
    if g.dtype == float:
        return length(g) or EARTH
    square = g @ g
    return np.sqrt(where(square > 0.0, square, EARTH * EARTH))


def untraced(values: Any) -> Array:
    """The values as an array of floats where all are numbers, else of traced values."""
    entries = np.asarray(values, dtype=object)
    return entries if any(isinstance(x, Scalar) for x in entries.flat) else entries.astype(float)


def _nonzero(x: Any) -> Any:
    """x, or 1 where it is the constant zero."""
    return x if isinstance(x, Scalar) else float(x) or 1.0


def start_of(model: Model, coordinate_map: CoordinateMap) -> tuple[Array, Array]:
    """(q, T) where a robot begins."""
    if coordinate_map.identity:
        return model.written(), np.eye(model.nv)
    placements = [*[link.placement for link in model.links], *[frame.pose for frame in model.frames]]
    traced = [x for X in placements for x in (*X.R.flat, *X.p) if isinstance(x, Scalar)]
    if traced:
        # recorded where the geometry belongs, outside of the loops around
        with recording(max((x.graph for x in traced), key=lambda graph: graph.depth)):
            evaluated = coordinate_map.at(model, coordinate_map.start)
        return evaluated.q, evaluated.T

    def at(y: Array) -> Any:
        evaluated = coordinate_map.at_start().at(model, y)
        return {"q": evaluated.q, "T": evaluated.T}

    q, T = Function(trace(at, y=coordinate_map.reduced.nq), "reference")(coordinate_map.start)
    if not np.all(np.isfinite(T)):
        raise SimulationError(f"robot '{model.name}': its constraint cannot be met where it begins; start it elsewhere")
    return q, T


def _inertias(model: Model, coordinate_map: CoordinateMap) -> Array:
    """The inertia of each joint at the start: M_kk, or 1 / (T M^-1 T^T)_kk of a constrained robot."""
    q, T = start_of(model, coordinate_map)
    M = untraced(mass_matrix(model, q))
    if coordinate_map.identity:
        return np.diag(M)
    mobility = np.diag(product(T, untraced(cholesky_solve(_seen_by(T, M), T.T))))
    if mobility.dtype == object:
        pairs = zip(mobility, np.diag(M), strict=True)
        return np.array([where(m > 0.0, 1.0 / where(m > 0.0, m, 1.0), M_kk) for m, M_kk in pairs], dtype=object)
    return np.where(mobility > 0.0, 1.0 / np.where(mobility > 0.0, mobility, 1.0), np.diag(M))


def _seen_by(T: Array, M: Array) -> Array:
    """T^T M T, in the coordinates that remain."""
    return product(product(T.T, untraced(M)), T)


def _pattern(world: World) -> np.ndarray:
    """Which entries of the mass matrix of a constrained robot may be other than zero, those coupled by any contact included."""
    model = world.model
    found: list[np.ndarray] = []

    def look(y: Array) -> Any:
        T = world.at(y).T
        assert T is not None
        touched = np.array([[constant(x) != 0.0 for x in row] for row in T])
        # coordinates that one body's motion depends on are coupled by its inertia and by its contacts
        pattern = np.eye(T.shape[1], dtype=bool)
        for i in range(len(model.links)):
            path = [k for j in ancestors(model, i) for k in range(model.links[j].v.start, model.links[j].v.stop)]
            moved = np.any(touched[path], axis=0)
            pattern |= np.outer(moved, moved)
        for tendon in world.tendons:
            moved = np.any(touched[list(tendon.path)], axis=0)
            pattern |= np.outer(moved, moved)
        found.append(pattern)
        return {"y": y}

    if is_recording():
        # geometry may be traced
        with recording(Graph(parent=current())) as graph:
            look(assemble([Scalar(graph, graph.param()) for _ in range(world.reduced.nq)], (world.reduced.nq,)))
    else:
        trace(look, y=world.reduced.nq)
    return found[0]


def _of_joint(forces: JointForces, link: Link, limits: bool, friction: bool, damping: bool, efforts: bool) -> JointForces:
    lower, upper = (link.limits.lower, link.limits.upper) if limits else (None, None)
    return replace(
        forces,
        damping=link.damping if damping else 0.0,
        friction=link.friction if friction else 0.0,
        lower=None if lower is None or not np.isfinite(lower) else float(lower),
        upper=None if upper is None or not np.isfinite(upper) else float(upper),
        effort=float(link.limits.effort) if efforts and link.limits.effort else None,
    )
