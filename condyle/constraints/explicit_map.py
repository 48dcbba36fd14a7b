"""Constraints that a user writes down: q = gamma(y), and where only velocities obey them, v = T(y) w."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.constraints.coordinate_map import Configurations, ConstraintMap, CoordinateMap
from condyle.constraints.loop_residuals import with_model
from condyle.constraints.reduced_coordinates import floats, listed, scalar_coordinates, velocity_names
from condyle.dynamics.manifold import difference
from condyle.dynamics.solve import cholesky_solve
from condyle.errors import RobotError
from condyle.robot import ordered
from condyle.robot.model import Model
from condyle.robot.spatial import Array
from condyle.tape.derive import derivative_at_zero, jacobian_at_zero
from condyle.tape.function import Function
from condyle.tape.scalar import constant
from condyle.tape.trace import trace

ROUNDING = 1e-13  # of the largest singular value: what is smaller counts as zero

NEAR = 1e-9  # how well gamma and the velocities must agree, relative
PROBES = 5  # configurations at which they are compared


@dataclass(frozen=True)
class Explicit(ConstraintMap):
    """The constraint of a traced function gamma(model, y), and of T(model, y) where rolling makes it more than its derivative."""

    below: Model
    reduced: Model
    gamma: Callable[[Model, Array], Array]
    map: Callable[[Model, Array], Array] | None
    velocities: tuple[str, ...]
    start: np.ndarray
    hash: str = ""
    reaction_names: tuple[str, ...] = ()
    contacts: Callable[[Model, Array], Array] | None = None  # reaction rows, where they are known
    holonomic: bool = True
    trouble: str = ""  # what is wrong where the velocities are not finite

    @property
    def velocity_names(self) -> list[str]:
        """The names of the reduced velocities."""
        return list(self.velocities)

    def configuration(self, model: Model, lower: CoordinateMap, y: Array) -> Array:
        """x = gamma(y)."""
        return np.array(self.gamma(model, y), dtype=object)

    def differential(self, at: Configurations, y: Array) -> Array:
        """G = dgamma/dy in the tangent spaces."""
        x = at.c[-1]

        def change(d: Array) -> Any:
            return {"x": difference(self.below, x, np.array(self.gamma(at.model, y + d), dtype=object))}

        return jacobian_at_zero(change, self.reduced.nv)["x"]

    def drift(self, at: Configurations, y: Array, v: Array, drifts: Array | None) -> Array:
        """(dG/dt) v: the derivative of G v along v."""

        def speed(t: Any) -> Any:
            there = y + v * t
            moved = Configurations(at.model, [*at.c[:-1], np.array(self.gamma(at.model, there), dtype=object)], at.G, at.total)
            return {"v": self.differential(moved, there) @ v}

        return derivative_at_zero(speed)["v"]

    def velocity(self, at: Configurations, y: Array, G: Array) -> tuple[Array, Array | None]:
        """(T, rates of y): T given, or G; the rates E solve G E = T."""
        if self.map is None:
            return G, None
        T = np.array(self.map(at.model, y), dtype=object)
        rows = [row for j in range(self.reduced.nv) if (row := _row_that_is(G, j)) is not None]
        if len(rows) == self.reduced.nv:
            return T, T[rows]
        return T, cholesky_solve(G.T @ G, G.T @ T)

    def reaction_rows(self, at: Configurations) -> Array:
        """The directions given as `contacts`, one row each; RobotError if none were given."""
        if self.contacts is not None:
            return self.contacts(at.model, at.q)
        raise RobotError(
            f"robot '{self.below.name}': a constraint given as gamma(y) has no forces with names; constraint_forces "
            "gives them along all coordinates"
        )

    def summary(self) -> str:
        """What it constrains, in half a sentence."""
        names = [link.joint for link in self.reduced.links]
        return f"all {self.below.nq} coordinates are given by {listed(names)}, and all velocities by {listed(self.velocities)}"


def explicit(
    below: Model,
    gamma: Callable[..., Any],
    velocity: Callable[..., Any] | None,
    names: Sequence[str] | None,
    start: Any,
    velocities: Sequence[str] | None,
    reduced: Model | None = None,
) -> Explicit:
    """The constraint of a user's functions, checked: shapes, finite numbers, and velocities that stay on gamma."""
    begin = _start(below, start, names)
    names = [f"y{k}" for k in range(len(begin))] if names is None else list(names)
    reduced = scalar_coordinates(below.name, names) if reduced is None else reduced
    full_gamma = with_model(gamma, "gamma", "y")
    full_map = None if velocity is None else with_model(velocity, "velocity", "y")
    tape = trace(lambda y: {"q": np.array(full_gamma(below, y), dtype=object)}, y=reduced.nq)
    hash, k, shape = tape.hash, reduced.nv, tape.outputs[0].shape
    if shape != (below.nq,):
        raise RobotError(
            f"robot '{below.name}': gamma(y) must give {below.nq} numbers, one for each entry of q; it gives the shape {shape}"
        )
    if full_map is not None:
        tape = trace(lambda y: {"T": np.array(full_map(below, y), dtype=object)}, y=reduced.nq)
        shape = tape.outputs[0].shape
        if len(shape) != 2 or shape[0] != below.nv or not 0 < shape[1] <= reduced.nv:
            raise RobotError(
                f"robot '{below.name}': velocity(y) must give a matrix of {below.nv} rows, one for each entry of v, and "
                f"at most {reduced.nv} columns; it gives the shape {shape}"
            )
        hash, k = hash + tape.hash, shape[1]
    given = list(velocities or (velocity_names(reduced) if k == reduced.nv else [f"w{i}" for i in range(k)]))
    if len(given) != k:
        raise RobotError(f"robot '{below.name}': there are {k} velocities, and {len(given)} names for them; give one each")
    constraint = Explicit(below, reduced, full_gamma, full_map, tuple(given), begin, hash)
    rates, same = _checked(constraint)
    # velocities that are those of gamma say nothing new
    return replace(constraint, holonomic=rates, map=None if same else full_map)


def _start(below: Model, start: Any, names: Sequence[str] | None) -> np.ndarray:
    if start is None and names is None:
        raise RobotError(f"robot '{below.name}': embed needs to know how many coordinates remain; name them: names=['x', 'phi']")
    begin = np.zeros(len(names)) if start is None and names is not None else floats(below, "start", start)
    if begin.ndim != 1 or not np.all(np.isfinite(begin)) or (names is not None and len(names) != len(begin)):
        raise RobotError(f"robot '{below.name}': start must be one finite number for each coordinate that remains; got {begin}")
    return begin


def _row_that_is(G: Array, j: int) -> int | None:
    """The row of G that is exactly the unit vector j: the coordinate y_j itself."""
    for i in range(len(G)):
        if all(constant(G[i, k]) == (1.0 if k == j else 0.0) for k in range(G.shape[1])):
            return i
    return None


def _checked(constraint: Explicit) -> tuple[bool, bool]:
    """(whether the velocities are the rates of y, whether T is the derivative of gamma), seen at some configurations.

    Gamma must be finite near its start, and T must lead along it; what gamma holds fixed may turn, as a wheel does.
    """
    below, reduced = constraint.below, constraint.reduced

    def both(y: Array) -> Any:
        x = constraint.configuration(below, CoordinateMap(below), y)
        at = Configurations.of(below, x)
        G = constraint.differential(at, y)
        T, E = constraint.velocity(at, y, G)
        E = np.eye(reduced.nv) if E is None else E
        return {"x": x, "G": G, "T": T, "E": E, "along": G @ E}

    function = Function(trace(both, y=reduced.nq), "reference")
    rng = np.random.default_rng(0)
    rates = same = reduced.nv == len(constraint.velocities)
    for k in range(PROBES):
        y = constraint.start + (0.0 if k == 0 else 0.3) * rng.standard_normal(reduced.nq)
        x, G, T, E, along = function(y)
        if not all(np.all(np.isfinite(a)) for a in (x, G, T, E)):
            if k:
                continue
            raise RobotError(
                f"robot '{below.name}': gamma, its derivative or the velocities are not finite at y = {y}; "
                "start elsewhere, with start=..."
            )
        if constraint.map is None:
            if ordered.rank(G, ROUNDING) < reduced.nv:
                raise RobotError(
                    f"robot '{below.name}': gamma moves nothing along some of its "
                    f"{reduced.nv} coordinates at y = {y}: its derivative has the rank "
                    f"{ordered.rank(G, ROUNDING)}; use fewer coordinates, or start elsewhere with start=..."
                )
            continue
        fixed = ~np.any(np.abs(G) > 0.0, axis=1)
        off = np.abs(along - T)[~fixed]
        if off.size and np.max(off) > NEAR * max(1.0, float(np.max(np.abs(T)))):
            row = int(np.flatnonzero(~fixed)[np.argmax(np.max(off, axis=1))])
            raise RobotError(
                f"robot '{below.name}': velocity(y) leads off gamma(y) by {np.max(off):.2g} in the velocity of "
                f"'{velocity_names(below)[row]}' at y = {y}; both must describe the same motion"
            )
        rates = rates and bool(np.allclose(E, np.eye(len(E)), rtol=0.0, atol=NEAR))
        same = same and rates and bool(np.allclose(T, G, rtol=NEAR, atol=NEAR))
    return rates, same
