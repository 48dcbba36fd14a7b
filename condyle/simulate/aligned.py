"""Coordinates for the solver in which contacts are sparse: a free base that moves along the axes of flat ground.

A point at r on a body with velocity (v, w) in these axes moves at v - [r] w: the contact's own axes need no rotation inside
the loop. The change of coordinates is orthogonal, so nothing is lost by it.
"""

from __future__ import annotations

import numpy as np

from condyle.dynamics.kinematics import root_poses
from condyle.robot.joints import Free
from condyle.robot.spatial import Array
from condyle.simulate.terrain import Plane, Slope
from condyle.simulate.touch_frame import tangents
from condyle.simulate.world import World


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
    return np.array([n, *tangents(n)]) @ X_0F.R


def turned(C: Array | None, v: Array) -> Array:
    """A velocity or impulse with the base's part in the ground's axes."""
    if C is None:
        return v
    out = np.array(v, dtype=object)
    out[0:3], out[3:6] = C @ v[0:3], C @ v[3:6]
    return out


def turned_back(C: Array | None, v: Array) -> Array:
    """The inverse of `turned`."""
    return turned(None if C is None else C.T, v)


def turned_matrix(C: Array | None, M: Array) -> Array:
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
