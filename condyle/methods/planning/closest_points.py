"""Signed distances and witness points of spheres, capsules, boxes and half-spaces, for any scalar.

A sphere is a capsule whose segment is one point. Vectors have their three components first: (3,) of traced scalars, or (3, n) of
numbers. Parameters of witness points are constants to derivatives: at the optimum the distance does not depend on them to first
order, so that first derivatives are exact, and second derivatives lack the motion of the witness points.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from condyle.robot.spatial import Array
from condyle.tape.array import select, stop_gradient


class Closest(NamedTuple):
    """The signed distance of b from a, the unit normal from a to b, and the witness points on the surfaces of a and b.

    point_b - point_a = distance * normal. The normal is zero where it is not defined.
    """

    distance: Any
    normal: Array
    point_a: Array
    point_b: Array


def dot(a: Array, b: Array) -> Any:
    """The scalar product of vectors with components first, summed from first to last."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: Array, b: Array) -> Array:
    return _components([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def clip(x: Any) -> Any:
    """x within [0, 1]."""
    return np.minimum(np.maximum(x, 0.0), 1.0)


def ratio(a: Any, b: Any) -> Any:
    """a / b, and zero where b is not positive."""
    ok = b > 0.0
    return select(ok, a / select(ok, b, 1.0), 0.0)


def length_and_direction(x: Array) -> tuple[Any, Array]:
    """(|x|, x / |x|), both zero for the zero vector."""
    squared = dot(x, x)
    ok = squared > 0.0
    root = np.sqrt(select(ok, squared, 1.0))
    # a NaN stays one
    return select(ok, root, squared), x * select(ok, 1.0 / root, 0.0)


def rounded(distance: Any, normal: Array, p_a: Array, p_b: Array, r_a: Any, r_b: Any) -> Closest:
    """The result of two shapes from that of their cores, which the radii extend."""
    return Closest(distance - r_a - r_b, normal, p_a + normal * r_a, p_b - normal * r_b)


def segment_segment(a0: Array, a1: Array, b0: Array, b1: Array) -> tuple[Any, Any]:
    """(s, t) of the closest points a0 + s (a1 - a0) and b0 + t (b1 - b0)  (Ericson 2005, section 5.1.9).

    Of parallel segments, one of the closest pairs; segments may be points. Cross products in place of differences of products of
    scalar products keep nearly parallel segments exact: the error of s is that of rounding over their angle, not over its square.
    """
    u, v, w = a1 - a0, b1 - b0, a0 - b0
    uu, vv, uv, uw, vw = dot(u, u), dot(v, v), dot(u, v), dot(u, w), dot(v, w)
    across = _cross(u, v)
    s = clip(ratio(dot(across, _cross(v, w)), dot(across, across)))
    t = clip(ratio(uv * s + vw, vv))
    # where t was clipped s changes, and where it was not s stays
    return clip(ratio(uv * t - uw, uu)), t


def capsule_capsule(a0: Array, a1: Array, r_a: Any, b0: Array, b1: Array, r_b: Any) -> Closest:
    """Of two capsules, given by the ends of their segments and their radii. When they overlap, minus the penetration depth."""
    s, t = (stop_gradient(x) for x in segment_segment(a0, a1, b0, b1))
    p_a, p_b = a0 + (a1 - a0) * s, b0 + (b1 - b0) * t
    distance, normal = length_and_direction(p_b - p_a)
    return rounded(distance, normal, p_a, p_b, r_a, r_b)


def capsule_plane(a0: Array, a1: Array, r_a: Any, p: Array, n: Array) -> Closest:
    """Of a capsule and the half-space below the plane through p with the unit normal n. When they overlap, minus the depth."""
    first = dot(n, a0 - p) <= dot(n, a1 - p)
    p_a = select(first, a0, a1)
    distance = dot(n, p_a - p)
    return rounded(distance, -n, p_a, p_a - n * distance, r_a, 0.0)


def box_plane(R: Array, c: Array, half: Array, p: Array, n: Array) -> Closest:
    """Of a box with rotation R (3, 3, ...), centre c and half sizes, and the half-space below a plane."""
    corner = c
    for k in range(3):
        axis = R[:, k]
        corner = corner + axis * select(dot(axis, n) > 0.0, -half[k], half[k])
    distance = dot(n, corner - p)
    return Closest(distance, -n, corner, corner - n * distance)


def capsule_box(a0: Array, a1: Array, r_a: Any, R: Array, c: Array, half: Array) -> Closest:
    """Of a capsule and a box with rotation R (3, 3, ...), centre c and half sizes.

    When they overlap, minus the penetration depth: also where the segment itself enters the box, as the least depth along the
    normals of the Minkowski sum of box and segment (the axes of the box, and their cross products with the segment).
    """
    x0, x1 = (_components([dot(R[:, k], a - c) for k in range(3)]) for a in (a0, a1))
    t = stop_gradient(_closest_to_box(x0, x1, half))
    x = x0 + (x1 - x0) * t
    nearest = _components([np.minimum(np.maximum(x[k], -half[k]), half[k]) for k in range(3)])
    apart, outward = length_and_direction(x - nearest)
    depth, inside_normal, deepest = _depth_in_box(x0, x1, half)
    inside = apart <= 0.0
    distance = select(inside, -depth, apart)
    outward = select(inside, inside_normal, outward)
    p_a = select(inside, deepest, x)
    # back to the world, where the normal goes from the capsule to the box
    to_world = [_components([R[i, 0] * y[0] + R[i, 1] * y[1] + R[i, 2] * y[2] for i in range(3)]) for y in (outward, p_a)]
    normal, point = -to_world[0], to_world[1] + c
    return rounded(distance, normal, point, point + normal * distance, r_a, 0.0)


def _closest_to_box(x0: Array, x1: Array, half: Array) -> Any:
    """t of the point x0 + t (x1 - x0) closest to the box about the origin.

    The squared distance is convex in t, with a derivative that is linear between the t at which the segment crosses the planes of
    the faces. Of these and the ends, the last with derivative <= 0 and the first with derivative >= 0 bracket the minimum.
    """
    u = x1 - x0

    def derivative(t: Any) -> Any:
        total = 0.0
        for k in range(3):
            x = x0[k] + u[k] * t
            total = total + u[k] * (x - np.minimum(np.maximum(x, -half[k]), half[k]))
        return total

    low, high = 0.0 * u[0], 0.0 * u[0] + 1.0
    f_low, f_high = derivative(low), derivative(high)
    outside_low, outside_high = f_low >= 0.0, f_high <= 0.0
    for k in range(3):
        moves = u[k] * u[k] > 0.0
        inverse = select(moves, 1.0 / select(moves, u[k], 1.0), 0.0)
        for face in (-half[k], half[k]):
            t = clip((face - x0[k]) * inverse)
            f = derivative(t)
            below, above = (f <= 0.0) & (t > low), (f >= 0.0) & (t < high)
            low, f_low = select(below, t, low), select(below, f, f_low)
            high, f_high = select(above, t, high), select(above, f, f_high)
    rise = f_high - f_low
    between = low + (high - low) * select(rise > 0.0, ratio(-f_low, rise), 0.5)
    # the derivative does not change its sign on the segment: an end is closest, but for f = 0 at both, where all are
    flat = outside_low & outside_high
    return select(flat, between, select(outside_low & (f_low > 0.0), 0.0, select(outside_high & (f_high < 0.0), 1.0, between)))


def _depth_in_box(x0: Array, x1: Array, half: Array) -> tuple[Any, Array, Array]:
    """(depth, outward normal, deepest point) of a segment that meets the box about the origin."""
    u = x1 - x0
    best: tuple[Any, Array, Array] | None = None
    for k in range(3):
        # a face: the segment leaves through it when its deeper end does
        low_first = x0[k] <= x1[k]
        low, high = select(low_first, x0, x1), select(low_first, x1, x0)
        up, down = half[k] - low[k], half[k] + high[k]
        unit = np.eye(3)[k].reshape((3,) + (1,) * (np.ndim(u) - 1))
        rising = up <= down
        sign = select(rising, 1.0, -1.0)
        best = _less(best, (select(rising, up, down), unit * sign, select(rising, low, high)))
    for k in range(3):
        # an edge along axis k against the segment: n = e_k x u / |e_k x u|, on the side on which the segment is
        i, j = (k + 1) % 3, (k + 2) % 3
        squared = u[i] * u[i] + u[j] * u[j]
        ok = squared > 1e-24 * dot(u, u)
        scale = select(ok, 1.0 / np.sqrt(select(ok, squared, 1.0)), 0.0)
        n_i, n_j = -u[j] * scale, u[i] * scale
        across = n_i * x0[i] + n_j * x0[j]
        sign = select(across >= 0.0, 1.0, -1.0)
        n_i, n_j = n_i * sign, n_j * sign
        v_i, v_j = select(n_i >= 0.0, half[i], -half[i]), select(n_j >= 0.0, half[j], -half[j])
        depth = select(ok, n_i * v_i + n_j * v_j - across * sign, np.inf)
        t = stop_gradient(clip((u[i] * (v_i - x0[i]) + u[j] * (v_j - x0[j])) * scale * scale))
        entries: list[Any] = [0.0, 0.0, 0.0]
        entries[k], entries[i], entries[j] = 0.0 * n_i, n_i, n_j
        best = _less(best, (depth, _components(entries), x0 + u * t))
    assert best is not None
    return best


def _less(best: Any, other: Any) -> Any:
    if best is None:
        return other
    less = other[0] < best[0]
    return tuple(select(less, b, a) for a, b in zip(best, other, strict=True))


def _components(entries: list[Any]) -> Array:
    """A vector with components first from its three components."""
    if all(isinstance(x, float | int) or (isinstance(x, np.ndarray) and x.dtype.kind == "f") for x in entries):
        return np.stack(np.broadcast_arrays(*entries))
    out = np.empty(3, dtype=object)
    out[:] = entries
    return out
