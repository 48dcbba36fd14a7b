"""Solutions of equations, differentiated as solutions: the iteration that finds them is not recorded for derivatives.

    F(x, theta) = 0        dx = -(dF/dx)^-1 (dF/dtheta) dtheta          the implicit function theorem

The Jacobian dF/dx is taken in forward mode where the derivative is recorded. Forward mode solves with it once per direction,
reverse mode with its transpose once per output. The rule is made of operations on x and theta, so any order follows from it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np

from condyle.errors import TraceError
from condyle.tape.array import assemble
from condyle.tape.derive import jacobian_at_zero
from condyle.tape.linalg.partial_pivoting import solve as solve_dense
from condyle.tape.linalg.rule import with_rule
from condyle.tape.loop import loop
from condyle.tape.pytree import flatten, same_shape
from condyle.tape.scalar import caller

LinearSolve = Callable[[Any, Any], Any]


def implicit(
    solve: Callable[..., Any], residual: Callable[..., Any], *, linear_solve: LinearSolve = solve_dense
) -> Callable[..., Any]:
    """x(*theta) = solve(*theta), with the derivatives of the x that makes residual(x, *theta) zero.

    x and each theta are arrays, numbers, or tuples, lists and dicts of them; the residual has as many entries as x. What `solve`
    and `residual` use of the trace must be passed as theta. `linear_solve(J, r)` gives J^-1 r for J = d residual / d x, columns
    in the order of the entries of x; by default it is condyle.linalg.solve.

        root = cd.implicit(lambda a: newton(a), lambda x, a: x * x - a)
    """

    def rule(theta: Any, x: Any, tangents: Any) -> Any:
        entries, rebuild, _ = flatten(x)
        values, rebuild_theta, _ = flatten(theta)
        moves, _, _ = flatten(tangents)
        n = len(entries)

        def moved(d: Any) -> dict[str, Any]:
            # along x entry by entry, and along the tangents of theta: one more direction
            near = rebuild([a + b for a, b in zip(entries, d[:n], strict=True)])
            there = rebuild_theta([a + d[n] * b for a, b in zip(values, moves, strict=True)])
            found, _, _ = flatten(residual(near, *there))
            if len(found) != n:
                raise TraceError(f"{caller()}: the residual must have as many entries as the solution, {n}; it has {len(found)}")
            return {"F": assemble(found, (n,))}

        F = jacobian_at_zero(moved, n + 1)["F"]
        dx, _, _ = flatten(linear_solve(F[:, :n], -F[:, n]))
        return rebuild(dx)

    solution = with_rule(solve, rule)

    @wraps(solve)
    def call(*theta: Any, **named: Any) -> Any:
        return solution(*(signature(solve).bind(*theta, **named).args if named else theta))

    return call


def fixed_point(f: Callable[..., Any], x0: Any, *theta: Any, tolerance: float = 1e-12, limit: int = 1000) -> Any:
    """The x with x = f(x, *theta), by iteration from x0 on; differentiated as such:  dx = (1 - df/dx)^-1 (df/dtheta) dtheta.

    Each lane iterates until no entry changes by more than `tolerance` (1 + |entry|), or is NaN, and `limit` times at most. x is
    an array, a number, or a tuple, list or dict of them. Its derivatives by x0 are zero.
    """
    shape = flatten(x0)[2]

    def iterate(x0: Any, *theta: Any) -> Any:
        def body(i: Any, state: Any) -> Any:
            old, _, _ = flatten(state[0])
            x = f(state[0], *theta)
            new, _, new_shape = flatten(x)
            same_shape("what a fixed point is iterated on", shape, new_shape)
            excess = [abs(b - a) - tolerance * (1.0 + abs(b)) for a, b in zip(old, new, strict=True)]
            return x, np.max(assemble(excess, (len(excess),)))

        # a comparison with NaN is false, so a lane that is NaN is done
        x, _ = loop(body, (x0, 1.0), limit, until=lambda state: ~(state[1] > 0.0))
        return x

    def residual(x: Any, x0: Any, *theta: Any) -> Any:
        here, there = flatten(x)[0], flatten(f(x, *theta))[0]
        return assemble([b - a for a, b in zip(here, there, strict=True)], (len(here),))

    return implicit(iterate, residual)(x0, *theta)
