"""Coordinate maps: constraints without multipliers, as a map from the reduced coordinates y to all coordinates q.

    q = gamma(y),   v = T(y) w,   dv/dt = T dw/dt + Tdot w

A map is a composition of constraints, each from its own reduced coordinates to those of the constraint below; the lowest gives
the robot's. The identity, without any constraint, is the map of a free robot. Every constraint has its differential at given
configurations as a function of the configurations above and below it: no derivative ever goes through the search for a
configuration, and each further one is that of an explicit function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.constraints.reduced_coordinates import key_text, velocity_names
from condyle.dynamics.manifold import integrate
from condyle.robot.model import Model
from condyle.robot.spatial import Array
from condyle.tape.derive import derivative_at_zero, jacobian_at_zero


class ConstraintMap:
    """One constraint: a map from the configurations of `reduced` to those of `below`, and its velocities."""

    below: Model  # the coordinates that are mapped to
    reduced: Model  # the reduced coordinates, as joints without mass
    start: np.ndarray  # the reduced configuration that takes the place of zero
    holonomic: bool = True  # whether the reduced velocities are the rates of the reduced coordinates

    @property
    def velocity_names(self) -> list[str]:
        """One name for each reduced velocity."""
        return velocity_names(self.reduced)

    @property
    def passive(self) -> set[str]:
        """Joints that follow others and have no motor of their own."""
        return set()

    def configuration(self, model: Model, lower: CoordinateMap, y: Array) -> Array:
        """x: the configuration below; `lower` maps x to q."""
        raise NotImplementedError

    def differential(self, at: Configurations, y: Array) -> Array:
        """G = dx/dy in the tangent spaces, (below.nv, reduced.nv)."""
        raise NotImplementedError

    def drift(self, at: Configurations, y: Array, v: Array, drifts: Array | None) -> Array:
        """(dG/dt) v: the acceleration below at constant v; `drifts`: what the maps below add to that of q, None for zero."""
        return np.zeros(self.below.nv, dtype=object)

    def velocity(self, at: Configurations, y: Array, G: Array) -> tuple[Array, Array | None]:
        """(velocities below, rates of y), each by the reduced velocities; rates None: they are the reduced velocities."""
        return G, None

    @property
    def reaction_names(self) -> Sequence[str]:
        """Names of the constraint forces."""
        raise NotImplementedError

    def reaction_rows(self, at: Configurations) -> Array:
        """The directions of the constraint forces along all coordinates of the robot, one row each."""
        raise NotImplementedError

    def summary(self) -> str:
        """What it constrains, in half a sentence."""
        raise NotImplementedError


@dataclass(frozen=True)
class Configurations:
    """Configurations from the robot's own, c[0] = q, up to c[-1], with the differentials between them."""

    model: Model
    c: list[Array]
    G: list[Array]  # the differential of each constraint
    total: Array | None  # their product: dq by c[-1] in the tangent spaces; None is the identity

    @staticmethod
    def of(model: Model, q: Array) -> Configurations:
        """The robot's own configuration alone."""
        return Configurations(model, [q], [], None)

    @property
    def q(self) -> Array:
        """The configuration of the robot."""
        return self.c[0]

    def extended(self, y: Array, G: Array) -> Configurations:
        """With the configuration of one constraint more."""
        return Configurations(self.model, [*self.c, y], [*self.G, G], G if self.total is None else self.total @ G)


@dataclass(frozen=True)
class EvaluatedMap:
    """A coordinate map at one configuration: v = T w, dy/dt = E w. None stands for the identity, which costs nothing."""

    coordinate_map: CoordinateMap
    at: Configurations
    T: Array | None
    E: Array | None

    @property
    def q(self) -> Array:
        """The configuration of the robot."""
        return self.at.q

    @property
    def reduced_q(self) -> Array:
        """The configuration of the reduced coordinates."""
        return self.at.c[-1]

    @property
    def dq_dy(self) -> Array:
        """dq/dy in the tangent spaces."""
        assert self.at.total is not None
        return self.at.total

    def lift(self, w: Array) -> Array:
        """T w: the velocities of all coordinates."""
        return w if self.T is None else self.T @ w

    def project(self, force: Array) -> Array:
        """T^T force: the part of forces along the reduced velocities; a vector, or columns."""
        return force if self.T is None else self.T.T @ force

    def pull_back(self, J: Array) -> Array:
        """J T: a Jacobian by all velocities, as one by the reduced velocities."""
        return J if self.T is None else J @ self.T

    def congruence(self, M: Array) -> Array:
        """T^T M T for a symmetric M, each entry computed once."""
        if self.T is None:
            return M
        T, MT = self.T, M @ self.T
        out = np.zeros((T.shape[1], T.shape[1]), dtype=object)
        for i in range(len(out)):
            for j in range(i + 1):
                out[i, j] = out[j, i] = T[:, i] @ MT[:, j]
        return out

    def acceleration(self, rate: Array, w: Array) -> Array:
        """T rate + Tdot w: the accelerations of all coordinates for dw/dt = rate."""
        return rate if self.T is None else self.T @ rate + self.drift(w)

    def rate(self, w: Array) -> Array:
        """dy/dt in the tangent space."""
        return w if self.E is None else self.E @ w

    def rate_derivatives(self, w: Array) -> tuple[Array | None, Array | None]:
        """The derivatives of `rate` by y and by w; None, None where the rate is w."""
        if self.E is None:
            return None, None
        return jacobian_at_zero(lambda d: {"r": self.moved(d).rate(w)}, self.coordinate_map.reduced.nv)["r"], self.E

    def moved(self, d: Array) -> EvaluatedMap:
        """The map at a configuration a small d away, right to first order; d is in the tangent space of y."""
        constraints, c = self.coordinate_map.constraints, list(self.at.c)
        c[-1] = integrate(self.coordinate_map.reduced, c[-1], d)
        for i in reversed(range(len(constraints))):
            d = self.at.G[i] @ d
            c[i] = integrate(constraints[i].below, c[i], d)
        return self.coordinate_map.evaluate(self.at.model, c)

    def drift(self, w: Array) -> Array:
        """Tdot w: the acceleration of all coordinates at constant w."""
        if self.E is not None:
            step = self.rate(w)
            return derivative_at_zero(lambda t: {"v": self.moved(step * t).lift(w)})["v"]
        speeds = [w]
        for G in reversed(self.at.G):
            speeds.insert(0, G @ speeds[0])
        at, total = Configurations.of(self.at.model, self.at.c[0]), None
        for i, constraint in enumerate(self.coordinate_map.constraints):
            own = constraint.drift(at, self.at.c[i + 1], speeds[i + 1], total)
            in_q = own if at.total is None else at.total @ own
            total = in_q if total is None else total + in_q
            at = at.extended(self.at.c[i + 1], self.at.G[i])
        assert total is not None
        return total

    def map_rate(self, w: Array) -> Array:
        """Tdot."""
        step = self.rate(w)
        return derivative_at_zero(lambda t: {"T": self.moved(step * t).T})["T"]


@dataclass(frozen=True)
class CoordinateMap:
    """Constraints from the robot's coordinates upward; none for a free robot. `full` is the model of all coordinates."""

    full: Model
    constraints: tuple[ConstraintMap, ...] = ()

    @property
    def identity(self) -> bool:
        """Whether nothing is constrained: y = q and w = v."""
        return not self.constraints

    @property
    def reduced(self) -> Model:
        """The reduced coordinates, as joints; of the identity, the model itself."""
        return self.constraints[-1].reduced if self.constraints else self.full

    @property
    def nv(self) -> int:
        """The number of reduced velocities."""
        return len(self.velocity_names)

    @property
    def velocity_names(self) -> list[str]:
        """One name for each reduced velocity."""
        return self.constraints[-1].velocity_names if self.constraints else velocity_names(self.full)

    @property
    def start(self) -> np.ndarray:
        """The configuration that takes the place of zero."""
        return self.constraints[-1].start.copy() if self.constraints else self.full.written()

    @property
    def holonomic(self) -> bool:
        """Whether the reduced velocities are the rates of the reduced coordinates."""
        return not self.constraints or self.constraints[-1].holonomic

    @property
    def passive(self) -> set[str]:
        """Joints that follow others and have no motor of their own."""
        return {name for constraint in self.constraints for name in constraint.passive}

    def first(self, count: int) -> CoordinateMap:
        """The map of the lowest `count` constraints; negative: without the highest."""
        return CoordinateMap(self.full, self.constraints[:count])

    def extended(self, *constraints: ConstraintMap) -> CoordinateMap:
        """The map with further constraints above."""
        return CoordinateMap(self.full, (*self.constraints, *constraints))

    def configurations(self, model: Model, y: Array) -> list[Array]:
        """The configurations of all constraints, q first and y last."""
        c = [y]
        for i in reversed(range(len(self.constraints))):
            c.insert(0, self.constraints[i].configuration(model, self.first(i), c[0]))
        return c

    def differentials(self, model: Model, c: list[Array]) -> Configurations:
        """The differentials at configurations that belong together."""
        at = Configurations.of(model, c[0])
        for constraint, y in zip(self.constraints, c[1:], strict=True):
            at = at.extended(y, constraint.differential(at, y))
        return at

    def evaluate(self, model: Model, c: list[Array]) -> EvaluatedMap:
        """The map at configurations that belong together."""
        if not self.constraints:
            return EvaluatedMap(self, Configurations.of(model, c[0]), None, None)
        top, at = self.constraints[-1], self.first(-1).differentials(model, c[:-1])
        G = top.differential(at, c[-1])
        T, E = top.velocity(at, c[-1], G)
        return EvaluatedMap(self, at.extended(c[-1], G), T if at.total is None else at.total @ T, E)

    def at(self, model: Model, y: Array) -> EvaluatedMap:
        """The map at y."""
        return self.evaluate(model, self.configurations(model, y))

    def at_start(self) -> CoordinateMap:
        """The same map near where it begins, with less work."""
        return self._adapted("at_start")

    def with_iterations(self) -> CoordinateMap:
        """The same map, with iterations enough for robots of other lengths than those it was made with."""
        return self._adapted("with_iterations")

    def for_precision(self, bits: int) -> CoordinateMap:
        """The same map, with the iterations that numbers of so many bits take."""
        return self._adapted("for_precision", bits)

    def _adapted(self, method: str, *arguments: Any) -> CoordinateMap:
        """With the constraints that are solved by iteration changed by one of their methods; the others have none."""
        changed = [getattr(c, method)(*arguments) if hasattr(c, method) else c for c in self.constraints]
        return CoordinateMap(self.full, tuple(changed))

    def key(self) -> str:
        """A text that differs whenever the map may; empty for the identity."""
        parts = [f"{type(constraint).__name__} {key_text(constraint)}" for constraint in self.constraints]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest() if parts else ""
