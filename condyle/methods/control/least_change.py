"""The least change that meets soft inequalities: a small quadratic program inside a kernel, by Mehrotra's method.

    min  |z|^2 / 2 + sum_i w_i t_i      G z + t >= h,  t >= 0

n is that of an arm's joints, rows may be many. A row is exceeded by t_i only where its multiplier would be larger than its
weight w_i (an exact penalty), so that the program has a solution for any rows, and rows of small weight give way first. On the
central path s l = mu and t (w - l) = mu for s = G z + t - h and the multipliers l. With D = 1 / (s / l + t / (w - l)) Newton's
step is

    (I + G^T D G) dz = -z + G^T (l + D r),    dl = D (r - G dz)

Rows are tables, so that the length of the code does not depend on their number. z = 0 that meets all rows is the solution at
once, exactly; else the loop ends for a lane when mu and the residual are below the tolerance (Mehrotra 1992; Nocedal and Wright
2006, 16.6).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from condyle.tape import linalg
from condyle.tape.array import array, where
from condyle.tape.loop import loop, map_rows, scan
from condyle.tape.table import Table

ITERATIONS = 40
TOLERANCE = 1e-9  # of mu and of the residual, with the largest violation as the unit
FAR = 100.0  # rows farther away are as near as this, in the same unit: the change is never that large
START = 50.0  # mu at the start: rows that must give way need large multipliers from the start, the others lose two iterations
TO_BOUNDARY = 0.995  # how far a step may go towards s, l, t or w - l = 0


class Rows(NamedTuple):
    """Rows of one weight: `g` (m, n) of length 1 or 0 each, `h` (m,). The weight is in the unit of the largest violation."""

    g: Table
    h: Table
    weight: float


class LeastChange(NamedTuple):
    """The solution z (n,) and the number of iterations."""

    z: Any
    iterations: Any


def least_change(parts: Sequence[Rows]) -> LeastChange:
    """The z of least length that meets the rows of all parts; zero, exactly, where that meets them."""
    n = parts[0].g.shape[1]
    worst: Any = 0.0
    for part in parts:
        worst = scan(lambda _, most, row: (np.maximum(most, row), None), worst, part.h)[0]
    changes = worst > 0.0
    unit = where(changes, worst, 1.0)
    inverse = 1.0 / unit
    scaled = [part._replace(h=map_rows(lambda h: np.maximum(h * inverse, -FAR), part.h)) for part in parts]
    duals = [map_rows(lambda h, w=part.weight: _start(h, w), part.h) for part in scaled]
    count = 2.0 * sum(len(part.h) for part in parts)
    start = {"z": np.zeros(n), "duals": duals, "mu": START, "residual": 1.0, "iterations": 0.0}

    def done(state: Any) -> Any:
        return ~changes | ((state["mu"] <= TOLERANCE) & (state["residual"] <= TOLERANCE))

    def body(_: Any, state: Any) -> Any:
        return _iteration(scaled, state, count, done(state))

    state = loop(body, start, ITERATIONS, until=done, body_keeps_tables=True)
    z = where(changes, state["z"] * unit, 0.0)
    return LeastChange(z, state["iterations"])


def _start(h: Any, weight: float) -> Any:
    """(s, l, t) with t (w - l) = START, s l = START where that leaves w - l positive, and s as far as the row is away."""
    s = np.maximum(-h, 1.0)
    l = np.minimum(START / s, 0.5 * weight)
    return array([s, l, START / (weight - l)])


def _direction(row: Any, weight: float, z: Any, dz: Any, mu: Any, corrections: Any) -> Any:
    """(ds, dl, dt) of a row for a step dz, towards s l = mu and t y = mu less the corrections."""
    g, h, (s, l, t) = row
    y = weight - l
    goal_s, goal_t = mu - corrections[0], mu - corrections[1]
    by_l, by_y = 1.0 / l, 1.0 / y
    D = 1.0 / (s * by_l + t * by_y)
    dl = D * (_residual(g, h, z, goal_s * by_l, goal_t * by_y) - g @ dz)
    return goal_s * by_l - s - s * by_l * dl, dl, goal_t * by_y - t + t * by_y * dl


def _residual(g: Any, h: Any, z: Any, of_s: Any, of_t: Any) -> Any:
    """r of a row."""
    return h - g @ z + of_s - of_t


def _iteration(parts: Sequence[Rows], state: Any, count: float, done: Any) -> Any:
    z, duals, mu = state["z"], state["duals"], state["mu"]
    n = len(z)

    # the matrix, and the right side of the predictor, towards mu = 0
    lower = [(i, j) for i in range(n) for j in range(i + 1)]
    sums: Any = {"A": array([1.0 if i == j else 0.0 for i, j in lower]), "b": -z}

    def assembled(_: Any, sums: Any, row: Any, w: float) -> Any:
        g, h, (s, l, t) = row
        D = 1.0 / (s / l + t / (w - l))
        scaled = g * D
        A = array([a + scaled[i] * g[j] for a, (i, j) in zip(sums["A"], lower, strict=True)])
        return {"A": A, "b": sums["b"] + g * l + scaled * _residual(g, h, z, 0.0, 0.0)}, None

    for part, dual in zip(parts, duals, strict=True):
        sums = scan(partial(assembled, w=part.weight), sums, (part.g, part.h, dual))[0]
    A = np.zeros((n, n), dtype=object)
    for a, (i, j) in zip(sums["A"], lower, strict=True):
        A[i, j] = A[j, i] = a
    L = linalg.cholesky(array(A))
    predicted = linalg.cholesky_solve(L, sums["b"])

    # how far the predictor goes, and mu there
    zero = (0.0, 0.0)
    ahead: Any = {"most": 0.0, "linear": 0.0, "square": 0.0}

    def looked(_: Any, ahead: Any, row: Any, w: float) -> Any:
        _, _, (s, l, t) = row
        y = w - l
        ds, dl, dt = _direction(row, w, z, predicted, 0.0, zero)
        return {
            "most": np.maximum(ahead["most"], _decrease(s, l, t, y, ds, dl, dt)),
            "linear": ahead["linear"] + (s * dl + l * ds) + (y * dt - t * dl),
            "square": ahead["square"] + ds * dl - dt * dl,
        }, None

    for part, dual in zip(parts, duals, strict=True):
        ahead = scan(partial(looked, w=part.weight), ahead, (part.g, part.h, dual))[0]
    alpha = _step_length(ahead["most"], 1.0)
    mu_ahead = mu + alpha * (ahead["linear"] + alpha * ahead["square"]) * (1.0 / count)
    ratio = mu_ahead / mu
    goal = np.maximum(ratio * ratio * ratio * mu, 0.1 * TOLERANCE)

    # the corrector, with what the products of the predictor's changes add
    def corrected(_: Any, b: Any, row: Any, w: float) -> Any:
        g, h, (s, l, t) = row
        ds, dl, dt = _direction(row, w, z, predicted, 0.0, zero)
        by_l, by_y = 1.0 / l, 1.0 / (w - l)
        D = 1.0 / (s * by_l + t * by_y)
        products = array([ds * dl, -dt * dl])
        r = _residual(g, h, z, (goal - products[0]) * by_l, (goal - products[1]) * by_y)
        return b + g * (l + D * r), products

    b, products = -z, []
    for part, dual in zip(parts, duals, strict=True):
        b, written = scan(partial(corrected, w=part.weight), b, (part.g, part.h, dual))
        products.append(written)
    dz = linalg.cholesky_solve(L, b)
    most: Any = 0.0
    changes = []
    for part, dual, each in zip(parts, duals, products, strict=True):

        def stepped(_: Any, most: Any, row: Any, w: float = part.weight) -> Any:
            g, h, dual, product = row
            s, l, t = dual
            ds, dl, dt = _direction((g, h, dual), w, z, dz, goal, product)
            return np.maximum(most, _decrease(s, l, t, w - l, ds, dl, dt)), array([ds, dl, dt])

        most, written = scan(stepped, most, (part.g, part.h, dual, each))
        changes.append(written)
    alpha = _step_length(most, TO_BOUNDARY)
    after, total = [], 0.0
    for part, dual, change in zip(parts, duals, changes, strict=True):

        def moved(_: Any, total: Any, row: Any, w: float = part.weight) -> Any:
            old, change = row
            new = old + alpha * change
            return total + new[0] * new[1] + new[2] * (w - new[1]), where(done, old, new)

        total, written = scan(moved, total, (dual, change))
        after.append(written)
    return {
        "z": z + alpha * dz,
        "duals": after,
        "mu": total * (1.0 / count),
        "residual": (1.0 - alpha) * state["residual"],
        "iterations": state["iterations"] + 1.0,
    }


def _decrease(s: Any, l: Any, t: Any, y: Any, ds: Any, dl: Any, dt: Any) -> Any:
    """The largest relative decrease of s, l, t and y = w - l."""
    return np.maximum(np.maximum(-ds / s, -dl / l), np.maximum(-dt / t, dl / y))


def _step_length(most: Any, part: float) -> Any:
    return where(most > part, part / most, 1.0)
