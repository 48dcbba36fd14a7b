"""Optimality conditions of a problem at a trajectory, from its quadratic program and the multipliers of the sides.

The costates follow from the stationarity by the states, backward:  pi_k = g_x + A^T pi_{k+1} + C_x^T l.  What remains is the
stationarity by the controls, g_u + B^T pi_{k+1} + C_u^T l, the gradient of the Lagrangian in reduced form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.methods.mpc.barrier import Sides
from condyle.methods.mpc.program import QP, QPSolution, pulled
from condyle.tape.array import array, where
from condyle.tape.loop import map_rows, scan
from condyle.tape.table import Table


def multipliers(sides: Sides, dual: Any, active: Any) -> list[Any]:
    """The multiplier of each side, zero for those that are not active."""
    return [where(active[b] > 0.5, l, 0.0) for b, (_, l, _, _) in enumerate(sides.split(dual))]


def costates(qp: QP, duals: Any, duals_end: Any, z: Table | None = None, end: Any = None) -> tuple[Table, Any, Any]:
    """(costates pi_{k+1} of the stages (N, n), largest stationarity by the controls, costate pi_0 of the first state).

    At the trajectory itself, or at z, x_N of the program if they are given.
    """
    _, n, _ = qp.system.sizes
    last = qp.g_end if end is None else qp.g_end + qp.H_end @ end
    if qp.sides_end.count:
        last = last + pulled(qp.sides_end, qp.C_end, multipliers(qp.sides_end, duals_end, qp.active_end))

    def stage(k: Any, state: Any, row: Any) -> Any:
        pi, worst = state
        gradient = row["g"] if z is None else row["g"] + row["H"] @ row["z"]
        if qp.sides.count:
            gradient = gradient + pulled(qp.sides, row["C"], multipliers(qp.sides, row["duals"], row["active"]))
        A, B = qp.system.split(row["AB"])
        by_x, by_u = gradient[:n] + A.T @ pi, gradient[n:] + B.T @ pi
        worst = np.maximum(worst, np.max(abs(array(by_u))))
        return (array(by_x), worst), array(pi)

    rows: dict[str, Any] = {"AB": qp.system.AB, "g": qp.g}
    rows |= {} if z is None else {"z": z, "H": qp.H}
    rows |= {"C": qp.C, "duals": duals, "active": qp.active} if qp.sides.count else {}
    (first, worst), written = scan(stage, (array(last), 0.0), rows, reverse=True)
    return written, worst, first


def stationarity_at_zero(qp: QP, duals: Any, duals_end: Any) -> Any:
    """What the stationarity of a program lacks at z = 0, relative to its largest gradient or, if that is more, the cost's scale.

    With the costates of the recursion above, or with none where that is less: those of a long unstable trajectory overflow. The
    linear costs of slacks belong to it,  l1 + l2 e = l + m.
    """

    def worst(sides: Sides, g: Any, C: Any, dual: Any, active: Any) -> Any:
        """The largest entries of the gradient with the sides, of the gradient, and of what the slacks lack."""
        most = np.max(abs(array(g)))
        if not sides.count:
            return array([most, most, 0.0])
        held = g + pulled(sides, C, multipliers(sides, dual, active))
        slacks = [
            where(active[b] > 0.5, abs(side.l1 + side.l2 * e - l - m), 0.0)
            for b, (side, (_, l, e, m)) in enumerate(zip(sides.sides, sides.split(dual), strict=True))
            if b in sides.with_l1
        ]
        return array([np.max(abs(array(held))), most, np.max(array([0.0, *slacks]))])

    rows = (qp.g, qp.C, duals, qp.active) if qp.sides.count else (qp.g,)
    each = map_rows(lambda g, C=None, dual=None, active=None: worst(qp.sides, g, C, dual, active), *rows)
    last = worst(qp.sides_end, qp.g_end, qp.C_end, duals_end, qp.active_end)
    alone, gradient, slacks = scan(lambda _, most, row: (np.maximum(most, row), None), last, each)[0]
    _, reduced, _ = costates(qp, duals, duals_end)
    return np.maximum(where(reduced <= alone, reduced, alone), slacks) / np.maximum(gradient, qp.scale[0])


def residuals(qp: QP, x0: Any, duals: Any, duals_end: Any) -> dict[str, Any]:
    """The largest violation of each optimality condition at the trajectory of the program."""
    _, stationarity, _ = costates(qp, duals, duals_end)
    gap = scan(lambda _, worst, c: (np.maximum(worst, np.max(abs(c))), None), np.max(abs(array(x0))), qp.system.c)[0]
    inequality: Any = 0.0
    products: Any = 0.0
    if qp.sides_end.count:
        inequality = violation(qp.sides_end, duals_end, qp.d_end, qp.active_end)
        products = _largest_product(qp.sides_end, duals_end, qp.active_end)
    if qp.sides.count:

        def stage(_: Any, state: Any, row: Any) -> Any:
            dual, d, active = row
            return (
                np.maximum(state[0], violation(qp.sides, dual, d, active)),
                np.maximum(state[1], _largest_product(qp.sides, dual, active)),
            ), None

        inequality, products = scan(stage, (inequality, products), (duals, qp.d, qp.active))[0]
    return {"stationarity": stationarity, "dynamics": gap, "inequality": inequality, "complementarity": products}


def program_stationarity(qp: QP, found: QPSolution) -> Any:
    """The largest gradient of the Lagrangian at the trajectory with the multipliers of the program's solution: |H z|.

    Those of the recursion above grow like the trajectory's unstable modes, and over hundreds of stages their rounding does too.
    """
    last = np.max(abs(array(qp.H_end @ found.end)))
    return scan(lambda _, worst, row: (np.maximum(worst, np.max(abs(array(row[0] @ row[1])))), None), last, (qp.H, found.z))[0]


def violation(sides: Sides, dual: Any, d: Any, active: Any) -> Any:
    """The most that a side is exceeded, beyond its slack if it is soft."""
    worst: Any = 0.0
    for b, (side, (_, l, e, _)) in enumerate(zip(sides.sides, sides.split(dual), strict=True)):
        allowed = e if e is not None else 0.0 if np.isinf(side.l2) else l * (1.0 / side.l2)
        lacking = abs(d[b]) if side.equality else -d[b] - allowed
        worst = np.maximum(worst, where(active[b] > 0.5, lacking, 0.0))
    return worst


def _largest_product(sides: Sides, dual: Any, active: Any) -> Any:
    return np.max(array([0.0, *sides.products(dual, active)]))
