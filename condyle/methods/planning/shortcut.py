"""Shorter paths: straight lines between random points of a path replace what is between them, where they are free."""

from __future__ import annotations

import numpy as np

from condyle.methods.planning.certify import Clearance

Array = np.ndarray

BATCH = 16


def length(points: Array, weights: Array | float = 1.0) -> float:
    """The length of the polygon through points (k, nv), of joints with these weights; rad without."""
    return float(np.sum(np.linalg.norm(np.diff(points, axis=0) * weights, axis=1)))


def shortcut(space: Clearance, path: Array, rng: np.random.Generator, *, attempts: int = 200) -> Array:
    """A path of certified lines with the same ends, not longer than `path` (k, nv) in the metric of `space`.

    Each of `attempts` lines joins two random points of the path (Geraerts and Overmars 2007); a batch is certified in one call,
    and the free line that saves most is taken.
    """
    points = np.asarray(path, dtype=float)
    for _ in range(-(-attempts // BATCH)):
        if len(points) < 3:
            break
        ends = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0) * space.weights, axis=1))])
        at = np.sort(rng.uniform(0.0, ends[-1], (BATCH, 2)), axis=1)
        # some lines join corners, which removes them for good
        corners = np.sort(rng.integers(0, len(points), (BATCH // 2, 2)), axis=1)
        at[: BATCH // 2] = ends[corners]
        pieces = np.clip(np.searchsorted(ends, at, side="right") - 1, 0, len(points) - 2)
        span = np.maximum(ends[pieces + 1] - ends[pieces], 1e-300)
        q = points[pieces] + ((at - ends[pieces]) / span)[..., None] * (points[pieces + 1] - points[pieces])
        saved = (at[:, 1] - at[:, 0]) - np.linalg.norm((q[:, 1] - q[:, 0]) * space.weights, axis=1)
        useful = np.flatnonzero((pieces[:, 1] > pieces[:, 0]) & (saved > 1e-6 * ends[-1]))
        if not len(useful):
            continue
        free = space.edges_free(q[useful, 0], q[useful, 1])
        if np.any(free):
            k = useful[free][int(np.argmax(saved[useful[free]]))]
            i, j = pieces[k]
            points = _without_repeats(np.concatenate([points[: i + 1], q[k], points[j + 1 :]]))
    return points


def _without_repeats(points: Array) -> Array:
    """Points that differ from the one before; the ends stay."""
    keep = np.concatenate([[True], np.linalg.norm(np.diff(points, axis=0), axis=1) > 1e-9])
    last = points[-1]
    kept: Array = points[keep].copy()
    kept[-1] = last
    return kept
