"""Splines over the intervals of a horizon: how a few knots become a value for every interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SPLINES = ("hold", "linear", "cubic")


@dataclass(frozen=True)
class Basis:
    """value_k = sum_a weights[k, a] knot[first[k] + a] for each of N intervals.

    `first`: None if every interval has a knot of its own. `start`: the first interval with the value of interval k, which is k
    itself except where values repeat. `repeats`: whether the value is that of one knot.
    """

    knots: int
    first: np.ndarray | None
    start: np.ndarray
    weights: np.ndarray
    repeats: bool = False


def repeated_basis(repeats: Sequence[bool]) -> Basis:
    """One knot for each block of intervals; `repeats`: whether an interval keeps the value of the one before."""
    block = np.cumsum([not r for r in repeats]) - 1
    start = np.array([int(np.flatnonzero(block == b)[0]) for b in block], dtype=float)
    return Basis(int(block[-1]) + 1, block.astype(float), start, np.ones((len(block), 1)), repeats=True)


def basis(N: int, knots: int, spline: str) -> Basis:
    """Knots at equal distances from the first interval to the last; "cubic" is that of Catmull and Rom (1974)."""
    each = np.arange(N, dtype=float)
    if knots == N:
        return Basis(N, None, each, np.ones((N, 1)), repeats=True)
    if spline == "hold" or knots == 1:
        return Basis(knots, np.floor(each * knots / N), each, np.ones((N, 1)), repeats=True)
    place = each * (knots - 1) / max(N - 1, 1)
    left = np.minimum(np.floor(place), knots - 2).astype(int)
    t = place - left
    if spline == "linear":
        taps, reach = np.stack([1.0 - t, t], axis=1), 0
    else:
        taps = 0.5 * np.stack([-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, -(t**2) + t**3], axis=1)
        reach = 1
    # beyond the ends the last knot counts again
    dense = np.zeros((N, knots))
    for k in range(N):
        for a in range(taps.shape[1]):
            dense[k, min(max(left[k] - reach + a, 0), knots - 1)] += taps[k, a]
    width = min(taps.shape[1], knots)
    first = np.clip(left - reach, 0, knots - width)
    weights = np.stack([dense[k, f : f + width] for k, f in enumerate(first)])
    return Basis(knots, first.astype(float), each, weights)
