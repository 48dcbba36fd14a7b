"""Cubic B-splines that interpolate: coefficients from values, and the weights of all coefficients at a point.

B(t) = (max(2 - |t|, 0)^3 - 4 max(1 - |t|, 0)^3) / 6 is the spline over one knot. Before the first knot and after the last
one the border's coefficient repeats, so that the spline is constant from one knot outside on.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def coefficients(values: np.ndarray) -> np.ndarray:
    """c with (c[i-1] + 4 c[i] + c[i+1]) / 6 = values[i] along the first axis, the border's repeated; at least two values.

    Elimination for three diagonals, row by row: no library decides the last digits.
    """
    n = len(values)
    diagonal = np.full(n, 4.0)
    diagonal[0] = diagonal[-1] = 5.0
    c = 6.0 * values
    for i in range(1, n):
        diagonal[i] = diagonal[i] - 1.0 / diagonal[i - 1]
        c[i] = c[i] - c[i - 1] / diagonal[i - 1]
    c[-1] = c[-1] / diagonal[-1]
    for i in reversed(range(n - 1)):
        c[i] = (c[i] - c[i + 1]) / diagonal[i]
    return c


def axis_weights(t: Any, n: int) -> tuple[list[Any], list[Any]]:
    """(weights, their derivatives by t) of the n coefficients at t, a number, an array or a traced scalar; knots at 0 ... n-1."""
    # where the spline is constant, any point will do
    t = np.minimum(np.maximum(t, -1.0), float(n))
    bumps = [_bump(t - float(i)) for i in range(-2, n + 2)]
    values, slopes = ([b[k] for b in bumps] for k in (0, 1))
    return _folded(values), _folded(slopes)


def _folded(x: list[Any]) -> list[Any]:
    """The two knots outside counted with the border on either side."""
    return [x[0] + x[1] + x[2], *x[3:-3], x[-3] + x[-2] + x[-1]]


def _bump(t: Any) -> tuple[Any, Any]:
    """(B(t), B'(t))."""
    size = abs(t)
    outer, inner = np.maximum(2.0 - size, 0.0), np.maximum(1.0 - size, 0.0)
    value = (outer * outer * outer - 4.0 * (inner * inner * inner)) / 6.0
    fall = 0.5 * (outer * outer) - 2.0 * (inner * inner)
    return value, np.where(t < 0.0, fall, -fall)
