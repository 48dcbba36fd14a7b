"""Small quadratic programs with bounds on every variable, by projected Newton steps (Bertsekas 1982; Tassa et al. 2014).

    min  d^T Q d / 2 + q^T d,    low <= d <= high

A variable at a bound that the gradient pushes against is clamped; the others take a Newton step, which is projected onto the box.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.methods.mpc.riccati import cholesky, plus, substituted
from condyle.tape.array import array, where
from condyle.tape.loop import loop

ITERATIONS = 30
HALVINGS = 8  # of a step that does not decrease the cost
TOLERANCE = 1e-12  # of the gradient of the free variables, relative to the largest entry of q


@dataclass(frozen=True)
class BoxSolution:
    """The minimum `d`, which variables are `free` (1 or 0), and the factor of Q over them, with reciprocals of its diagonal."""

    d: Any
    free: Any
    L: Any
    inverse: list[Any]

    def gains(self, columns: list[Any]) -> list[Any]:
        """-Q^-1 b over the free variables, zero for the others."""
        masked = [f * b for f, b in zip(self.free, columns, strict=True)]
        return [-x for x in substituted(self.L, self.inverse, masked)]


def unbounded(Q: Any, q: Any) -> BoxSolution:
    """The solution without bounds."""
    L, inverse = cholesky(array(Q))
    return BoxSolution(array([-x for x in substituted(L, inverse, list(q))]), np.ones(len(q)), L, inverse)


def solve_box(Q: Any, q: Any, low: Any, high: Any) -> BoxSolution:
    """The solution within bounds that contain 0; all entries finite or infinite, Q positive definite by its lower triangle."""
    m = len(q)
    full = np.empty((m, m), dtype=object)
    for i, j in np.ndindex(m, m):
        full[i, j] = Q[max(i, j), min(i, j)]
    scale = TOLERANCE * np.maximum(np.max(abs(array(q))), 1e-300)

    def gradient(d: Any) -> list[Any]:
        return [plus(q[i], list(d), list(full[i])) for i in range(m)]

    def value(d: Any, g: Any) -> Any:
        return sum((0.5 * d[i] * (g[i] + q[i]) for i in range(m)), 0.0)

    def free_of(d: Any, g: Any) -> list[Any]:
        clamped = [((d[i] <= low[i]) & (g[i] > 0.0)) | ((d[i] >= high[i]) & (g[i] < 0.0)) for i in range(m)]
        return [where(c, 0.0, 1.0) for c in clamped]

    def factored(free: list[Any]) -> tuple[Any, list[Any]]:
        """The factor of Q with the rows and columns of clamped variables replaced by those of the identity."""
        masked = np.zeros((m, m), dtype=object)
        for i in range(m):
            for j in range(i):
                masked[i, j] = free[i] * free[j] * Q[i, j]
            masked[i, i] = where(free[i] > 0.5, Q[i, i], 1.0)
        return cholesky(array(masked))

    def residual(d: Any) -> Any:
        g = gradient(d)
        return np.max(abs(array([f * x for f, x in zip(free_of(d, g), g, strict=True)])))

    def body(_: Any, state: Any) -> Any:
        d = state["d"]
        g = gradient(d)
        free = free_of(d, g)
        L, inverse = factored(free)
        step = [-x for x in substituted(L, inverse, [f * x for f, x in zip(free, g, strict=True)])]
        cost = value(d, g)

        def projected(alpha: Any) -> Any:
            return array([np.minimum(np.maximum(a + alpha * b, l), h) for a, b, l, h in zip(d, step, low, high, strict=True)])

        def enough(alpha: Any) -> Any:
            found = projected(alpha)
            slope = sum((x * (b - a) for x, a, b in zip(g, d, found, strict=True)), 0.0)
            return value(found, gradient(found)) <= cost + 0.1 * slope

        alpha = loop(lambda _, alpha: 0.5 * alpha, 1.0, HALVINGS, until=enough)
        found = projected(alpha)
        return {"d": found, "residual": residual(found)}

    start = {"d": np.zeros(m), "residual": residual(np.zeros(m))}
    d = loop(body, start, ITERATIONS, until=lambda state: state["residual"] <= scale)["d"]
    free = free_of(d, gradient(d))
    return BoxSolution(d, array(free), *factored(free))
