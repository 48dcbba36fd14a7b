"""Smooth paths: a spline near a path of lines, with small second derivatives, that keeps the clearance.

    min  sum_k |q_{k+1} - q_k|^2 N  +  sum_k |q_{k+1} - 2 q_k + q_{k-1}|^2 N^3 c  +  w sum_{k, i} max(0, clearance + pad -
    d_i(q_k))^2

over the N - 1 inner points, by Gauss-Newton steps with the exact derivatives of the distances, Levenberg's damping where a step
does not lower the cost, and growing w. The spline through the points is certified (`Clearance.curve_free`); if it is not free,
the points are taken closer to the lines, and then more of them.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from condyle.methods.planning.certify import Clearance
from condyle.methods.planning.paths import PiecewisePolynomial, spline
from condyle.methods.planning.shortcut import length

Array = np.ndarray

BENDING = 0.003  # c: the weight of second differences over that of first ones
ITERATIONS = 12  # Gauss-Newton steps for each weight
WEIGHTS = (1e2, 1e4)  # of the clearance, 1/m^2 over the mean square of the path's motion
PAD = 0.004  # m, that points keep beyond the clearance, so that the curve between them does


def resampled(points: Array, count: int, weights: Array) -> Array:
    """`count` + 1 points of a polygon, equally far from each other along it."""
    ends = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0) * weights, axis=1))])
    at = np.linspace(0.0, ends[-1], count + 1)
    return np.stack([np.interp(at, ends, column) for column in points.T], axis=1)


def smooth(
    space: Clearance, path: Array, *, points: int = 32, lower: Array, upper: Array
) -> tuple[PiecewisePolynomial, Array] | None:
    """(spline, its points) with the ends of a free path of lines (k, nv), certified free; None if none is found."""
    path = np.asarray(path, dtype=float)
    for count in (points, 2 * points, 4 * points):
        first = resampled(path, count, space.weights)
        best = np.clip(_optimised(space, first), lower, upper)
        # from the optimum back to the lines, of which a dense spline is as free as they are
        for part in (1.0, 0.7, 0.4, 0.2, 0.0):
            chosen = first + part * (best - first)
            curve = spline(chosen)
            if space.curve_free(curve):
                return curve, chosen
    dense = _dense(path)
    curve = spline(dense)
    return (curve, dense) if space.curve_free(curve) else None


def _dense(path: Array) -> Array:
    """Points of the lines, close together towards their ends, so that the spline leaves them at the corners alone."""
    s = np.concatenate([np.geomspace(1e-4, 0.5, 16), 1.0 - np.geomspace(1e-4, 0.5, 16)[::-1][1:]])
    parts = [path[:1]]
    for a, b in pairwise(path):
        parts.append(np.concatenate([a + s[:, None] * (b - a), b[None]]))
    return np.concatenate(parts)


def _differences(count: int) -> tuple[Array, Array]:
    """(first, second) difference matrices over the inner points, as (rows, count + 1)."""
    first = np.diff(np.eye(count + 1), axis=0)
    return first, np.diff(first, axis=0)


def _optimised(space: Clearance, q: Array) -> Array:
    count, n = len(q) - 1, q.shape[1]
    first, second = _differences(count)
    scale = 1.0 / max(length(q, space.weights) ** 2, 1e-12)
    # one joint's quadratic form; joints are weighted as in the search
    K = count * first.T @ first + BENDING * count**3 * second.T @ second
    metric = space.weights**2
    inner = slice(1, count)
    wanted = space.clearance + PAD

    def short(points: Array) -> Array:
        d: Array = np.maximum(wanted - space.all_distances(points[inner]), 0.0)
        return d

    def cost(points: Array, w: float) -> float:
        shape = float(np.sum(metric * np.einsum("kj,kl,lj->j", points, K, points)))
        return scale * shape + w * float(np.sum(short(points) ** 2))

    for w in WEIGHTS:
        damping, value = 1e-3, cost(q, w)
        for _ in range(ITERATIONS):
            d, J = space.with_jacobian(q[inner])
            r = np.maximum(wanted - d, 0.0)
            active = J * (r > 0.0)[..., None]
            gradient = scale * (K @ q * metric)[inner] - w * np.einsum("ki,kij->kj", r, active)
            blocks = w * np.einsum("kia,kib->kab", active, active)
            H = np.einsum("kl,ab->kalb", scale * K[inner, inner], np.diag(metric))
            index = np.arange(count - 1)
            H[index, :, index, :] += blocks
            H = H.reshape((count - 1) * n, -1)
            diagonal = np.diag(H).copy()
            for _ in range(4):
                step = -np.linalg.solve(H + np.diag(damping * diagonal), gradient.ravel()).reshape(count - 1, n)
                candidate = q.copy()
                candidate[inner] += step
                lower = cost(candidate, w)
                if lower < value:
                    break
                damping *= 10.0
            else:
                break
            gain, q, value, damping = value - lower, candidate, lower, max(0.2 * damping, 1e-9)
            if gain < 1e-4 * value:
                break
    return q
