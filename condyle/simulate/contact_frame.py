"""Frames of the ground: under each contact point, and for a free base on flat ground.

On flat ground the solver's base velocity is given along the ground's axes. A point at r on a body with velocity (v, w) in these
axes moves at v - [r] w, so the contact's own axes need no rotation inside the solver's loop. The change of coordinates is
orthogonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.dynamics.kinematics import root_poses
from condyle.robot.joints import Free
from condyle.robot.spatial import Array, Motion, Pose, cross, product, vector
from condyle.simulate.points import ContactPoint
from condyle.simulate.terrain import Plane, Slope
from condyle.simulate.world import World


@dataclass(frozen=True)
class Surface:
    """The ground under a contact point, in the frame F: axes (normal, two tangents) as rows, the depth below where
    contact begins, the point's arm."""

    C: Array
    depth: Any
    arm: Array  # from the sphere's centre to where it contact_constraints


def surface(world: World, point: ContactPoint, X_0F: Pose, centre: Array) -> Surface:
    """The ground under the sphere of a contact point, with this centre."""
    return surface_under(world, point.radius, X_0F, centre)


def surface_under(world: World, radius: Any, X_0F: Pose, centre: Array) -> Surface:
    """The ground under a sphere with this centre and radius."""
    assert world.ground is not None
    distance, n = world.ground.distance(X_0F.point(centre))
    C = np.array([product(X_0F.R.T, axis) for axis in (n, *tangents(n))])
    return Surface(C, (radius + world.margin) - distance, C[0] * -radius)


def tangents(n: Array) -> tuple[Array, Array]:
    """Two unit vectors that make a right-handed frame with n, smooth except straight down (Duff and others 2017)."""
    a = 1.0 / (1.0 + n[2]) if not _straight_down(n) else 0.0
    b = -(n[0] * n[1] * a)
    return vector(1.0 - n[0] * n[0] * a, b, -n[0]), vector(b, 1.0 - n[1] * n[1] * a, -n[1])


def _straight_down(n: Array) -> bool:
    return isinstance(n[2], float) and n[2] < -1.0 + 1e-9


def point_velocity(motion: Motion, point: Array) -> Array:
    """The velocity of the point that a motion carries."""
    return motion.linear + cross(motion.angular, point)


def ground_axes(world: World, q: Array) -> Array | None:
    """Rows (normal, two tangents) of flat ground, in the axes of a free base; None where there is no such ground or base."""
    links = world.model.links
    if not isinstance(world.ground, Plane | Slope) or not isinstance(links[0].kind, Free):
        return None
    if not isinstance(world.reduced.links[0].kind, Free):
        return None
    if sum(link.parent < 0 for link in links) != 1:
        return None
    _, n = world.ground.distance(np.zeros(3))
    X_0F, _ = root_poses(world.model, q)
    return product(np.array([n, *tangents(n)]), X_0F.R)


def to_ground_axes(C: Array | None, v: Array) -> Array:
    """A velocity or impulse with the base's part in the ground's axes."""
    if C is None:
        return v
    out = np.array(v, dtype=object)
    out[0:3], out[3:6] = C @ v[0:3], C @ v[3:6]
    return out


def from_ground_axes(C: Array | None, v: Array) -> Array:
    """The inverse of `to_ground_axes`."""
    return to_ground_axes(None if C is None else C.T, v)


def matrix_to_ground_axes(C: Array | None, M: Array) -> Array:
    """A symmetric matrix of the joints, likewise."""
    if C is None:
        return M
    out = np.array(M, dtype=object)
    for a in (0, 3):
        for b in (0, 3):
            if b <= a:
                block = C @ M[a : a + 3, b : b + 3] @ C.T
                out[a : a + 3, b : b + 3], out[b : b + 3, a : a + 3] = block, block.T
        side = C @ M[a : a + 3, 6:]
        out[a : a + 3, 6:], out[6:, a : a + 3] = side, side.T
    for i in range(6):
        for j in range(i):
            out[j, i] = out[i, j]
    return out
