"""Embeddings: a constraint as a map from the coordinates that remain, y, to all coordinates, q.

    q = gamma(y),   v = T(y) w,   dv/dt = T dw/dt + Tdot w

A map is made of constraints, each from its own coordinates to those of the layer below; the lowest gives the robot's. Every layer
knows its differential at a configuration that has been found, as a function of the configurations above and below it. So no
derivative ever goes through the search for a configuration, and each further one is that of an explicit function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from condyle.dynamics.manifold import integrate
from condyle.robot.model import Model
from condyle.robot.spatial import Array
from condyle.tape.local_derivatives import derivative_at_zero


class ConstraintMap(Protocol):
    """A map from the configurations of `reduced` to those of `below`, and its velocities."""

    @property
    def reduced(self) -> Model:
        """The coordinates that remain."""

    @property
    def below(self) -> Model:
        """Those they are mapped to."""

    @property
    def start(self) -> np.ndarray:
        """The configuration it begins with, instead of zero."""

    @property
    def velocity_names(self) -> list[str]:
        """One name for each velocity that remains."""

    @property
    def holonomic(self) -> bool:
        """Whether the velocities that remain are the rates of the coordinates that remain."""

    @property
    def passive(self) -> set[str]:
        """Joints that follow others and have no motor of their own."""

    def up(self, model: Model, lower: CoordinateMap, y: Array) -> Array:
        """x: the configuration below."""

    def differential(self, at: Configurations, y: Array) -> Array:
        """dx/dy in the tangent spaces, (below.nv, reduced.nv)."""

    def drift(self, at: Configurations, y: Array, v: Array, drifts: Array | None) -> Array:
        """(dG/dt) v: the acceleration below at constant v; `drifts`: what the maps below add to that of q, None for zero."""

    def velocity(self, at: Configurations, y: Array, G: Array) -> tuple[Array, Array | None]:
        """(velocities below, rates of y), each by the velocities that remain; G is the differential. Rates None: they are y's."""

    @property
    def reaction_names(self) -> Sequence[str]:
        """Names of the forces by which the constraint is held."""

    def reaction_rows(self, at: Configurations) -> Array:
        """Their directions along all coordinates of the robot, one row each."""

    def summary(self) -> str:
        """What it ties, in half a sentence."""

    def key(self) -> str:
        """A text that differs whenever the map may."""


@dataclass(frozen=True)
class Configurations:
    """Configurations from the robot's own, c[0] = q, up to c[-1], with what has been found of the maps between them."""

    model: Model
    c: list[Array]
    G: list[Array]  # the differential of each layer
    total: Array | None  # their product: dq by the highest configuration; None is the identity

    @property
    def q(self) -> Array:
        return self.c[0]

    def extended(self, y: Array, G: Array) -> Configurations:
        """One layer more."""
        return Configurations(self.model, [*self.c, y], [*self.G, G], G if self.total is None else self.total @ G)


@dataclass(frozen=True)
class EvaluatedMap:
    """A configuration of the constrained robot: all of `found`, the map T of velocities, and the rates E of y (None: 1)."""

    coordinate_map: CoordinateMap
    found: Configurations
    T: Array
    E: Array | None

    @property
    def q(self) -> Array:
        return self.found.q

    @property
    def dq_dy(self) -> Array:
        """dq/dy in the tangent spaces."""
        assert self.found.total is not None
        return self.found.total

    def rate(self, w: Array) -> Array:
        """dy/dt in the tangent space."""
        return w if self.E is None else self.E @ w

    def moved(self, d: Array) -> EvaluatedMap:
        """The place a small d further, right to first order in d; d is in the tangent space of y."""
        constraints, c = self.coordinate_map.constraints, list(self.found.c)
        c[-1] = integrate(self.coordinate_map.reduced, c[-1], d)
        for i in reversed(range(len(constraints))):
            d = self.found.G[i] @ d
            c[i] = integrate(constraints[i].below, c[i], d)
        return self.coordinate_map.place(self.found.model, c)

    def drift(self, w: Array) -> Array:
        """Tdot w: the acceleration of all coordinates while w stays as it is."""
        constraints, found = self.coordinate_map.constraints, self.found
        if self.E is not None:
            step = self.rate(w)
            return derivative_at_zero(lambda t: {"v": self.moved(step * t).T @ w})["v"]
        speeds = [w]
        for G in reversed(found.G):
            speeds.insert(0, G @ speeds[0])
        at, total = Configurations(found.model, found.c[:1], [], None), None
        for i, layer in enumerate(constraints):
            own = layer.drift(at, found.c[i + 1], speeds[i + 1], total)
            carried = own if at.total is None else at.total @ own
            total = carried if total is None else total + carried
            at = at.extended(found.c[i + 1], found.G[i])
        assert total is not None
        return total

    def map_rate(self, w: Array) -> Array:
        """Tdot."""
        step = self.rate(w)
        return derivative_at_zero(lambda t: {"T": self.moved(step * t).T})["T"]


@dataclass(frozen=True)
class CoordinateMap:
    """Layers from the robot's coordinates upward."""

    constraints: tuple[ConstraintMap, ...] = ()

    @property
    def reduced(self) -> Model:
        """The coordinates that remain."""
        return self.constraints[-1].reduced

    @property
    def nv(self) -> int:
        """The velocities that remain."""
        return len(self.constraints[-1].velocity_names)

    @property
    def holonomic(self) -> bool:
        """Whether the velocities are those of the coordinates."""
        return self.constraints[-1].holonomic

    @property
    def passive(self) -> set[str]:
        return {name for layer in self.constraints for name in layer.passive}

    def lifted(self, model: Model, y: Array) -> list[Array]:
        """The configurations of all constraints, q first."""
        c = [y]
        for i in reversed(range(len(self.constraints))):
            c.insert(0, self.constraints[i].up(model, CoordinateMap(self.constraints[:i]), c[0]))
        return c

    def found(self, model: Model, c: list[Array]) -> Configurations:
        """The differentials at configurations that belong together."""
        at = Configurations(model, [c[0]], [], None)
        for layer, y in zip(self.constraints, c[1:], strict=True):
            at = at.extended(y, layer.differential(at, y))
        return at

    def place(self, model: Model, c: list[Array]) -> EvaluatedMap:
        """Everything at configurations that belong together."""
        below, top = CoordinateMap(self.constraints[:-1]), self.constraints[-1]
        at = below.found(model, c[:-1])
        G = top.differential(at, c[-1])
        T, E = top.velocity(at, c[-1], G)
        return EvaluatedMap(self, at.extended(c[-1], G), T if at.total is None else at.total @ T, E)

    def at(self, model: Model, y: Array) -> EvaluatedMap:
        """Everything at y."""
        return self.place(model, self.lifted(model, y))

    def differentiable(self) -> CoordinateMap:
        """The same map, with tapes whose first and second derivatives are right."""
        return CoordinateMap(
            tuple(layer.differentiable() if hasattr(layer, "differentiable") else layer for layer in self.constraints)
        )

    def with_iterations(self) -> CoordinateMap:
        """The same map, for robots whose lengths are others than those it was made with."""
        return CoordinateMap(
            tuple(layer.with_iterations() if hasattr(layer, "with_iterations") else layer for layer in self.constraints)
        )

    def key(self) -> str:
        """A text that differs whenever the map may."""
        return hashlib.sha256(
            "\n".join(f"{type(layer).__name__} {layer.key()}" for layer in self.constraints).encode()
        ).hexdigest()


def listed(names: Sequence[str], most: int = 8) -> str:
    """The names in one line, the first ones of many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def following(names: Sequence[str]) -> str:
    """The subject of a sentence, and its verb."""
    return f"{listed(names)} follow{'s' * (len(names) == 1)}"


def named(values: dict[str, Any]) -> str:
    """Numbers and arrays as a text with all their digits, for keys."""
    parts = []
    for name, value in values.items():
        parts.append(f"{name}={value.tolist()!r}" if isinstance(value, np.ndarray) else f"{name}={value!r}")
    return " ".join(parts)
