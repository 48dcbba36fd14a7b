"""A constrained robot in a world: the full equations and laws, brought down to the velocities that remain by T^T.

A robot without constraints is the same with T = 1, which costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.constraints.coordinate_map import EvaluatedMap
from condyle.constraints.reduced_dynamics import congruence
from condyle.dynamics.manifold import integrate, integrate_derivatives
from condyle.robot.spatial import Array
from condyle.simulate.move import moved_on, moved_on_slopes, turning, turning_slope
from condyle.simulate.solver import Bounded
from condyle.simulate.world import World
from condyle.tape.local_derivatives import jacobian_at_zero
from condyle.tape.scalar import constant


@dataclass(frozen=True)
class Tied:
    """Where a configuration of the world stands among all coordinates."""

    q: Array
    place: EvaluatedMap | None

    @staticmethod
    def at(world: World, y: Array) -> Tied:
        if world.coordinate_map is None:
            return Tied(y, None)
        place = world.coordinate_map.at(world.model, y)
        return Tied(place.q, place)

    def up(self, w: Array) -> Array:
        """T w."""
        return w if self.place is None else self.place.T @ w

    def down(self, force: Array) -> Array:
        """T^T force, of a vector or of columns."""
        return force if self.place is None else self.place.T.T @ force

    def acceleration(self, rate: Array, w: Array) -> Array:
        """T rate + Tdot w."""
        return rate if self.place is None else self.place.T @ rate + self.place.drift(w)

    def matrix(self, M: Array) -> Array:
        """T^T M T."""
        return M if self.place is None else congruence(self.place.T, M)

    def law(self, law: Bounded) -> Bounded:
        """A law along the velocities that remain."""
        if self.place is None:
            return law
        rows = self.place.T[list(law.path)]
        columns = tuple(c for c in range(rows.shape[1]) if any(constant(x) != 0.0 for x in rows[:, c]))
        if law.J is None and len(columns) == 1 and constant(rows[0, columns[0]]) == 1.0:
            return Bounded(law.law, columns, None, None, law.reach, law.mass, law.least, law.idle)
        J = rows[:, list(columns)] if law.J is None else law.J @ rows[:, list(columns)]
        return Bounded(law.law, columns, J, law.C, law.reach, law.mass, law.least, law.idle)

    def rate(self, w: Array) -> Array:
        """How fast y changes, in its tangent space."""
        return w if self.place is None else self.place.rate(w)

    def rate_slopes(self, world: World, w: Array) -> tuple[Array | None, Array | None]:
        """The derivatives of `rate` by y and by w; None, None where it is w itself."""
        place = self.place
        if place is None or place.E is None:
            return None, None
        return jacobian_at_zero(lambda d: {"r": place.moved(d).rate(w)}, world.nd)["r"], place.E


def turns(world: World, w: Array) -> Array:
    """What turning axes add to the acceleration; coordinates that only velocities tie have none."""
    return turning(world.reduced, w) if world.holonomic else np.zeros(world.nv)


def turns_slope(world: World, w: Array) -> Array:
    return turning_slope(world.reduced, w) if world.holonomic else np.zeros((world.nv, world.nv))


def advanced(world: World, y: Array, w: Array) -> tuple[Array, Array]:
    """(y, w) after moving on for one step at w."""
    if world.holonomic:
        return moved_on(world.reduced, y, w, world.h)
    return integrate(world.reduced, y, Tied.at(world, y).rate(w) * world.h), w


def advanced_slopes(world: World, y: Array, w: Array) -> tuple[Array, Array, Array]:
    """Its derivatives in the tangent space: (y by y, y by w, w by w)."""
    if world.holonomic:
        return moved_on_slopes(world.reduced, w, world.h)
    tied = Tied.at(world, y)
    by_y, by_w = tied.rate_slopes(world, w)
    assert by_y is not None and by_w is not None
    y_by_y, by_step = integrate_derivatives(world.reduced, tied.rate(w) * world.h)
    return y_by_y + by_step @ by_y * world.h, by_step @ by_w * world.h, np.eye(world.nv).astype(object)


def full_state(world: World, y: Array, w: Array) -> tuple[Array, Array]:
    """(q, v) of all coordinates."""
    tied = Tied.at(world, y)
    return tied.q, tied.up(w)


def any_slopes(world: World, place: EvaluatedMap, w: Array, after: Array, rate: Array, force: Array) -> dict[str, Any]:
    """How velocity before and after, acceleration, and T^T force (held) depend on y, in its tangent space."""

    def displaced(d: Array) -> Any:
        there = place.moved(d)
        acceleration = there.T @ rate + there.drift(w)
        return {"v": there.T @ w, "after": there.T @ after, "a": acceleration, "tau": there.T.T @ force}

    return jacobian_at_zero(displaced, world.nd)
