"""Exact Hessians of the Lagrangian of a problem, in place of those of Gauss and Newton.

L_k(dx, du) = l(x (+) dx, u + du) + pi . (step(x (+) dx, u + du) (-) x_{k+1}) + signed multipliers . h(x (+) dx, u + du)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from condyle.methods.mpc.cost import symmetric
from condyle.methods.mpc.interior_point import first_factors
from condyle.methods.mpc.kkt import multipliers
from condyle.methods.mpc.problem import Problem
from condyle.methods.mpc.program import QP
from condyle.methods.mpc.riccati import row_after_row
from condyle.methods.mpc.space import no_change
from condyle.tape.array import array, isfinite, where
from condyle.tape.linearize import linearize
from condyle.tape.loop import map_rows, scan
from condyle.tape.table import Table


def with_exact_hessians(
    problem: Problem,
    values: dict[str, Any],
    qp: QP,
    trajectory: tuple[Table, Table],
    pi: Table,
    duals: Any,
    duals_end: Any,
) -> QP:
    """The quadratic program with the Hessians of the Lagrangian, for costates pi (N, n) and multipliers of the sides."""
    xs, us = trajectory
    n = problem.ndx

    def stage(k: Any, _: Any, row: Any) -> Any:
        x, u, following, p = xs[k], row["u"], xs[k + 1.0], problem.p(values, k)
        r = values["reference"][k] if problem.nr else None
        h = values["dt"][k] if problem.intervals is not None else None

        def lagrangian(d: Any) -> Any:
            there, control = problem.states.retract(x, d[:n]), u + d[n:]
            total = problem.stage_cost.value(there, control, r, p, values.get("weights"))
            after = problem.dynamics.step(there, control, p, h)
            total = total + row["pi"] @ problem.states.difference(following, after)
            if qp.sides.count:
                signed = multipliers(qp.sides, row["duals"], row["active"])
                rows = qp.sides.rows(problem.constraints.values(there, control, p))
                total = total + sum((a * b for a, b in zip(signed, rows, strict=True)), 0.0)
            return total

        return _, _hessian(lagrangian, n + problem.nu)

    rows = {"u": us, "pi": pi} | ({"duals": duals, "active": qp.active} if qp.sides.count else {})
    _, H = scan(stage, (), rows)
    x_end, r_end = xs[problem.N], values["reference"][problem.N] if problem.nr else None

    p_end = problem.p(values, problem.N)

    def at_end(d: Any) -> Any:
        there = problem.states.retract(x_end, d)
        total = problem.terminal_cost.value(there, None, r_end, p_end, values.get("terminal_weights"))
        if qp.sides_end.count:
            signed = multipliers(qp.sides_end, duals_end, qp.active_end)
            found = qp.sides_end.rows(problem.terminal_constraints.values(there, None, p_end))
            total = total + sum((a * b for a, b in zip(signed, found, strict=True)), 0.0)
        return total

    H_end = _hessian(at_end, n)
    return replace(qp, H=H, flat=row_after_row(H), H_end=H_end)


def chosen(condition: Any, a: QP, b: QP) -> QP:
    """The program with the Hessians of a where the condition holds, else of b."""
    H = map_rows(lambda a, b: where(condition, a, b), a.H, b.H)
    return replace(a, H=H, flat=row_after_row(H), H_end=where(condition, a.H_end, b.H_end))


def _hessian(function: Callable[[Any], Any], size: int) -> Any:
    """Second derivatives of a scalar at the change 0."""
    return symmetric(linearize(lambda d: linearize(lambda d: array([function(d)]), d)[1][0], no_change(size))[1])


def has_minimum(qp: QP, duals: Any, duals_end: Any) -> Any:
    """Whether the first system of the interior-point method has a minimum: all pivots of the recursion are above zero."""
    L = first_factors(qp, duals, duals_end).L
    total, _ = scan(lambda _, total, row: (total + sum(row, 0.0), None), 0.0, L)
    return isfinite(total)  # the root of a negative pivot is not a number
