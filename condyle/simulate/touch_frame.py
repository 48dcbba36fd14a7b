"""The ground under a contact point: its axes, how deep the point is, and where it touches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.robot.spatial import Array, Motion, Pose, cross, vector
from condyle.simulate.points import ContactPoint
from condyle.simulate.world import World


@dataclass(frozen=True)
class Surface:
    """The ground under a contact point, in the frame F: axes (normal, two tangents) as rows, the depth, the point's arm."""

    C: Array
    depth: Any
    arm: Array  # from the sphere's centre to where it touches


def surface(world: World, point: ContactPoint, X_0F: Pose, centre: Array) -> Surface:
    """The ground under a sphere with this centre."""
    assert world.ground is not None
    distance, n = world.ground.distance(X_0F.R @ centre + X_0F.p)
    t1, t2 = tangents(n)
    C = np.array([X_0F.R.T @ n, X_0F.R.T @ t1, X_0F.R.T @ t2])
    return Surface(C, point.radius - distance, C[0] * -point.radius)


def tangents(n: Array) -> tuple[Array, Array]:
    """Two unit vectors that make a right-handed frame with n, smooth except straight down (Duff and others 2017)."""
    a = 1.0 / (1.0 + n[2]) if not _straight_down(n) else 0.0
    b = -(n[0] * n[1] * a)
    return vector(1.0 - n[0] * n[0] * a, b, -n[0]), vector(b, 1.0 - n[1] * n[1] * a, -n[1])


def _straight_down(n: Array) -> bool:
    return isinstance(n[2], float) and n[2] < -1.0 + 1e-9


def at(motion: Motion, point: Array) -> Array:
    """The velocity of the point that a motion carries."""
    return motion.linear + cross(motion.angular, point)
