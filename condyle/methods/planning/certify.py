"""Lines and splines in joint space that keep a clearance, certified between samples (conservative advancement).

The distance of pair i changes by at most  m_i = sum_j R_ij |dq_j|  between two configurations (`lever_arms`). With its values
at both ends of an interval it is nowhere below

    (d_a + d_b - m_i) / 2

so that an interval is free when this is at least the clearance for all pairs; others are halved, all of a batch in one call of
the compiled distances. What is still open when m_i is below `resolution` counts as not free.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.planning.motion_bound import lever_arms
from condyle.methods.planning.paths import PiecewisePolynomial
from condyle.methods.planning.robot_distances import RobotDistances

Array = np.ndarray

RESOLUTION = 1e-3  # m, of motion, below which an interval that is not certified counts as not free
SPACING = 0.08  # m, of motion between the samples that are looked at first
DENSE = 20  # samples of each piece of a spline to begin with


class Clearance:
    """Whether a robot is at least `clearance` away, m, from everything that `distances` knows.

    `poses`: (obstacles, 4, 4), of distances with moving=True. `evaluations` counts the configurations whose distances were
    computed.
    """

    def __init__(
        self, distances: RobotDistances, clearance: float = 0.01, *, poses: Any = None, resolution: float = RESOLUTION
    ) -> None:
        if not isinstance(distances, RobotDistances):
            raise ControlError(f"a plan needs the robot_distances of its robot, got {type(distances).__name__}")
        if not (np.isfinite(clearance) and np.isfinite(resolution) and resolution > 0.0):
            raise ControlError(f"clearance and resolution are finite numbers of metres, got {clearance!r} and {resolution!r}")
        if distances.moving != (poses is not None):
            raise ControlError(
                "distances with moving=True need poses= of the obstacles" if distances.moving else "poses= need moving=True"
            )
        self.distances, self.clearance, self.resolution = distances, float(clearance), float(resolution)
        self.poses = None if poses is None else np.asarray(poses, dtype=float)
        self.R = lever_arms(distances)
        # the metric of the search: how far each joint moves the robot, with a floor for joints that move nothing but themselves
        arms = self.R.max(axis=0)
        self.weights = np.maximum(arms, 0.1 * max(float(arms.max()), 1e-9))
        self.evaluations = 0

    def all_distances(self, q: Array) -> Array:
        """d (..., pairs)."""
        self.evaluations += int(np.prod(q.shape[:-1]))
        if self.poses is None:
            return np.asarray(self.distances(q))
        return np.asarray(self.distances(q, np.broadcast_to(self.poses, (*q.shape[:-1], *self.poses.shape))))

    def with_jacobian(self, q: Array) -> tuple[Array, Array]:
        """(d (..., pairs), dd/dq (..., pairs, nv))."""
        self.evaluations += int(np.prod(q.shape[:-1]))
        poses = () if self.poses is None else (np.broadcast_to(self.poses, (*q.shape[:-1], *self.poses.shape)),)
        d, J = self.distances.with_jacobian(q, *poses)
        return np.asarray(d), np.asarray(J)

    def free(self, q: Array) -> Array:
        """Whether each configuration keeps the clearance, (...)."""
        kept: Array = np.all(self.all_distances(q) >= self.clearance, axis=-1)
        return kept

    def closest(self, q: Array) -> tuple[tuple[str, str], float]:
        """(names, distance) of the closest pair at one configuration."""
        d = self.all_distances(np.asarray(q, dtype=float))
        k = int(np.argmin(d))
        return self.distances.names[k], float(d[k])

    def motion(self, dq: Array) -> Array:
        """The bound of what any pair moves by a change dq (..., nv), m."""
        most: Array = np.max(np.abs(dq) @ self.R.T, axis=-1)
        return most

    # ---- lines

    def edges_free(self, a: Array, b: Array) -> Array:
        """Whether each straight line from a (E, nv) to b (E, nv) is certified to keep the clearance, (E,)."""
        a, b = np.atleast_2d(a), np.atleast_2d(b)
        counts = np.maximum(np.ceil(self.motion(b - a) / SPACING).astype(int), 1)
        # all samples of all edges in one array, those of an edge one after the other
        edge = np.repeat(np.arange(len(a)), counts + 1)
        begin = np.concatenate([[0], np.cumsum(counts + 1)[:-1]])
        s = (np.arange(len(edge)) - begin[edge]) / counts[edge]
        q = a[edge] + s[:, None] * (b - a)[edge]
        d = self.all_distances(q)
        free: Array = np.ones(len(a), dtype=bool)
        free[edge[np.any(d < self.clearance, axis=1)]] = False
        left = np.flatnonzero((edge[1:] == edge[:-1]) & free[edge[:-1]])
        return self._refined(free, edge[left], (q[left], q[left + 1]), (d[left], d[left + 1]))

    def _refined(self, free: Array, edge: Array, q: tuple[Array, Array], d: tuple[Array, Array]) -> Array:
        """`free` after its intervals are halved until they are certified, or found not to be."""
        while len(edge):
            moved = np.abs(q[1] - q[0]) @ self.R.T
            certain = np.all(d[0] + d[1] - moved >= 2.0 * self.clearance, axis=1)
            free[edge[~certain & (np.max(moved, axis=1) < self.resolution)]] = False
            go = ~certain & free[edge]
            if not np.any(go):
                break
            edge, (qa, qb), (da, db) = edge[go], (each[go] for each in q), (each[go] for each in d)
            middle = 0.5 * (qa + qb)
            dm = self.all_distances(middle)
            free[edge[np.any(dm < self.clearance, axis=1)]] = False
            edge = np.concatenate([edge, edge])
            q = np.concatenate([qa, middle]), np.concatenate([middle, qb])
            d = np.concatenate([da, dm]), np.concatenate([dm, db])
            keep = free[edge]
            edge, q, d = edge[keep], (q[0][keep], q[1][keep]), (d[0][keep], d[1][keep])
        return free

    def path_free(self, points: Array) -> bool:
        """Whether the polygon through points (k, nv) keeps the clearance."""
        return bool(np.all(self.edges_free(points[:-1], points[1:])))

    # ---- curves

    def curve_free(self, curve: PiecewisePolynomial) -> bool:
        """Whether a spline keeps the clearance, certified: |q'| on an interval is at most its value in the middle, plus half the

        length of the interval times the largest |q''|, which is linear on each piece.
        """
        knots = curve.knots
        s = np.unique(np.concatenate([np.linspace(a, b, DENSE + 1) for a, b in pairwise(knots)]))
        low, high = s[:-1], s[1:]
        d = self.all_distances(curve.at(s).position)
        d_low, d_high = d[:-1], d[1:]
        if np.any(d < self.clearance):
            return False
        while len(low):
            middle, width = 0.5 * (low + high), (high - low)[:, None]
            q, first, second = curve.at(middle)
            # the ends of an interval belong to the piece of its middle
            bend = np.maximum(
                np.abs(curve.at(low + 1e-9 * (high - low)).second), np.abs(curve.at(high - 1e-9 * (high - low)).second)
            )
            moved = (np.abs(first) + 0.5 * width * np.maximum(bend, np.abs(second))) * width @ self.R.T
            certain = np.all(d_low + d_high - moved >= 2.0 * self.clearance, axis=1)
            if np.any(~certain & (np.max(moved, axis=1) < self.resolution)):
                return False
            go = ~certain
            dm = self.all_distances(q[go])
            if np.any(dm < self.clearance):
                return False
            low, high = np.concatenate([low[go], middle[go]]), np.concatenate([middle[go], high[go]])
            d_low, d_high = np.concatenate([d_low[go], dm]), np.concatenate([dm, d_high[go]])
        return True
