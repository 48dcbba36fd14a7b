"""Quadratic programs over stages by Mehrotra's predictor-corrector method (Mehrotra 1992) with a Riccati recursion.

    min  sum_k  z_k^T H_k z_k / 2 + g_k^T z_k  +  x_N^T H_N x_N / 2 + g_N^T x_N
    x_{k+1} = A_k x_k + B_k u_k + c_k,  x_0 given,    sign C_k z_k <= d_k for each side,  and for x_N

Every iteration factors once and solves twice. It ends when the mean of the products s l is at most `tolerance` and the sides are
met; a lane that is done costs nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.mpc.barrier import Sides
from condyle.mpc.riccati import Stages, factor, solve
from condyle.tape.array import array, isfinite, where
from condyle.tape.loop import loop, map_rows, scan
from condyle.tape.scalar import constant
from condyle.tape.table import Table, zeros_table


@dataclass(frozen=True)
class QP:
    """A quadratic program: tables over the stages, and arrays of the end.

    `H` (N, s, s), its entries one after the other `flat`, `g` (N, s), `C` (N, rows, s) and `d`, `active` (N, sides) of the sides;
    `H_end` (n, n), `g_end` (n,), `C_end` (rows, n), `d_end`, `active_end` (sides,).
    """

    system: Stages
    H: Table
    flat: Table
    g: Table
    C: Table | None
    d: Table | None
    active: Table | None
    H_end: Any
    g_end: Any
    C_end: Any
    d_end: Any
    active_end: Any
    sides: Sides
    sides_end: Sides


@dataclass(frozen=True)
class QPSolution:
    """z (N, n + m), x_N, slacks and multipliers, the mean product mu, what the sides lack, the number of iterations,
    and the change of the cost that is predicted, without slacks."""

    z: Any
    end: Any
    duals: Any
    duals_end: Any
    mu: Any
    infeasibility: Any
    iterations: Any
    cost: Any


def solve_qp(qp: QP, x0: Any, duals: Any, duals_end: Any, *, iterations: int, tolerance: float) -> QPSolution:
    """The solution from the slacks and multipliers given, in at most so many iterations."""
    N, n, m = qp.system.sizes
    if not qp.sides.count and not qp.sides_end.count:
        factors = factor(qp.system, qp.flat, qp.H_end)
        z, end = solve(qp.system, factors, qp.g, qp.g_end, x0)
        return QPSolution(z, end, duals, duals_end, 0.0, 0.0, 1.0, _cost(qp, z, end))
    pairs = _pairs(qp)
    mu, infeasibility = _mean_product(qp, duals, duals_end, pairs), _infeasibility(qp, duals, duals_end, x0)
    start = {
        "z": zeros_table((N, n + m)), "end": np.zeros(n), "duals": duals, "duals_end": duals_end, "H": qp.flat,
        "mu": mu, "infeasibility": infeasibility, "iterations": 0.0, "open": _open(mu, infeasibility, tolerance),
    }  # fmt: skip

    def done(state: Any) -> Any:
        return state["open"] < 0.5

    def body(i: Any, state: Any) -> Any:
        # tables of lanes that are done stay as they are; those of H are used in this iteration only
        return _iteration(qp, x0, state, pairs, tolerance, done(state))

    state = loop(body, start, iterations, until=done, body_keeps_tables=True)
    found = {k: state[k] for k in ("z", "end", "duals", "duals_end", "mu", "infeasibility", "iterations")}
    return QPSolution(**found, cost=_cost(qp, state["z"], state["end"]))


def _open(mu: Any, infeasibility: Any, tolerance: float) -> Any:
    """1 while there is something to do: not at the solution, nor for a lane that is not finite; else 0."""
    more = ((mu > tolerance) | (infeasibility > tolerance)) & isfinite(mu + infeasibility)
    return where(more, 1.0, 0.0)


def _cost(qp: QP, z: Any, end: Any) -> Any:
    """The change of the cost that the program predicts, without slacks."""
    total = end @ (qp.g_end + 0.5 * (qp.H_end @ end))
    return scan(lambda _, total, row: (total + row[0] @ (row[1] + 0.5 * (row[2] @ row[0])), None), total, (z, qp.g, qp.H))[0]


def _iteration(qp: QP, x0: Any, state: Any, pairs: Any, tolerance: float, done: Any) -> Any:
    duals, duals_end, mu = state["duals"], state["duals_end"], state["mu"]
    zero_end = np.zeros(_products(qp.sides_end))

    H, H_end = _stiffened(qp, state["H"], _stiffness(qp, duals, duals_end))
    factors = factor(qp.system, H, H_end)

    def solved(_: Any, pass_: Any) -> Any:
        """A pass with what s l should become: 0 for the predictor, and then what its changes say for the corrector."""
        goal, goal_end = pass_["goal"], pass_["goal_end"]
        springs = _springs(qp, duals, duals_end, goal, goal_end)
        z, end = solve(qp.system, factors, *_gradients(qp, springs), x0)
        changes = _changes(qp, duals, duals_end, springs, z, end, goal, goal_end)
        alpha = _step_length(qp, duals, duals_end, changes)
        ratio = _mean_product_after(qp, duals, duals_end, changes, alpha, pairs) / mu
        target = np.maximum(ratio * ratio * ratio * mu, 0.1 * tolerance)
        goal, goal_end = _corrections(qp, changes, target)
        change, change_end = (() if x is None else x for x in changes)
        return {
            "goal": goal,
            "goal_end": goal_end,
            "z": z,
            "end": end,
            "alpha": alpha,
            "change": change,
            "change_end": change_end,
        }

    first = {
        "goal": zeros_table((qp.system.sizes[0], _products(qp.sides))) if qp.sides.count else (),
        "goal_end": zero_end,
        "z": state["z"],
        "end": state["end"],
        "alpha": 1.0,
        "change": duals,
        "change_end": duals_end,
    }
    found = loop(solved, first, 2)
    z, end, alpha = found["z"], found["end"], found["alpha"]
    changes = (found["change"] if qp.sides.count else None, found["change_end"])

    duals = _moved(duals, changes[0], alpha, done)
    duals_end = duals_end + alpha * changes[1] if qp.sides_end.count else duals_end
    mu, infeasibility = _mean_product(qp, duals, duals_end, pairs), (1.0 - alpha) * state["infeasibility"]
    return {
        "z": map_rows(lambda a, b: where(done, a, a + alpha * (b - a)), state["z"], z),
        "end": state["end"] + alpha * (end - state["end"]),
        "duals": duals,
        "duals_end": duals_end,
        "H": H,
        "mu": mu,
        "infeasibility": infeasibility,
        "iterations": state["iterations"] + 1.0,
        "open": _open(mu, infeasibility, tolerance),
    }


def _products(sides: Sides) -> int:
    return sides.count + len(sides.with_l1)


def _stiffness(qp: QP, duals: Any, duals_end: Any) -> Any:
    """The stiffness of all sides, a table and a list, without their forces."""
    sides = qp.sides
    none, none_end = np.zeros(_products(sides)), np.zeros(_products(qp.sides_end))
    found = None
    if sides.count:
        found = map_rows(lambda dual, d, active: array(sides.springs(dual, d, active, none)[0]), duals, qp.d, qp.active)
    end = qp.sides_end.springs(duals_end, qp.d_end, qp.active_end, none_end)[0] if qp.sides_end.count else []
    return found, end


def _springs(qp: QP, duals: Any, duals_end: Any, mu: Any, mu_end: Any) -> Any:
    """(stiffness and force of all sides: tables, and arrays of the end)."""
    sides, found = qp.sides, None
    if sides.count:
        assert qp.d is not None and qp.active is not None

        def stage(dual: Any, d: Any, active: Any, mu: Any) -> Any:
            stiffness, force = sides.springs(dual, d, active, mu)
            return {"stiffness": array(stiffness), "force": array(force)}

        found = map_rows(stage, duals, qp.d, qp.active, mu)
    end = qp.sides_end.springs(duals_end, qp.d_end, qp.active_end, mu_end) if qp.sides_end.count else ([], [])
    return found, end


def hessian_with_springs(qp: QP, duals: Any, duals_end: Any) -> tuple[Table, Any]:
    """(all entries of the Hessians, Hessian of the end) with the springs that the sides are at these slacks and multipliers."""
    return _stiffened(qp, qp.flat, _stiffness(qp, duals, duals_end))


def _stiffened(qp: QP, H: Table, stiffness: Any) -> tuple[Table, Any]:
    """(all entries of the Hessians with the springs of the sides, the Hessian of the end with them)."""
    _, n, m = qp.system.sizes
    s = n + m
    found, stiffness_end = stiffness
    H_end = qp.H_end if not qp.sides_end.count else qp.H_end + sum_of_squares(qp.sides_end, qp.C_end, stiffness_end)
    if found is None:
        return H, H_end
    assert qp.C is not None

    def stage(k: Any, H: Table, row: Any) -> Any:
        added = sum_of_squares(qp.sides, row["C"], row["stiffness"])
        for i, j in np.ndindex(s, s):
            if constant(added[i, j]) != 0.0:
                H = H.with_entry(row["H"][i, j] + added[i, j], i * s + j, 0, k * float(s * s))
        return H, None

    return scan(stage, H, {"H": qp.H, "C": qp.C, "stiffness": found})[0], H_end


def sum_of_squares(sides: Sides, C: Any, stiffness: Any) -> Any:
    """C^T diag(stiffness) C, summed over the sides of each row first."""
    total: dict[int, Any] = {}
    for side, k in zip(sides.sides, stiffness, strict=True):
        total[side.row] = total[side.row] + k if side.row in total else k
    width = C.shape[1]
    found = np.zeros((width, width), dtype=object)
    for row, k in total.items():
        columns = [j for j in range(width) if constant(C[row, j]) != 0.0]
        for i in columns:
            for j in columns:
                if j <= i:
                    found[i, j] = found[i, j] + C[row, i] * (k * C[row, j])
    for i in range(width):
        found[:i, i] = found[i, :i]
    return array(found)


def _gradients(qp: QP, springs: Any) -> tuple[Table, Any]:
    """(g (N, s), p_N) with the forces of the sides."""
    found, (_, force_end) = springs
    g_end = qp.g_end if not qp.sides_end.count else qp.g_end + pulled(qp.sides_end, qp.C_end, force_end)
    if found is None:
        return qp.g, g_end
    return map_rows(lambda g, C, force: g + pulled(qp.sides, C, force), qp.g, qp.C, found["force"]), g_end


def pulled(sides: Sides, C: Any, force: Any) -> Any:
    """C^T force, with the signs of the sides."""
    total: dict[int, Any] = {}
    for side, f in zip(sides.sides, force, strict=True):
        signed = f if side.sign > 0.0 else -f
        total[side.row] = total[side.row] + signed if side.row in total else signed
    found = np.zeros(C.shape[1], dtype=object)
    for row, f in total.items():
        for j in range(C.shape[1]):
            if constant(C[row, j]) != 0.0:
                found[j] = found[j] + C[row, j] * f
    return array(found)


def side_values(sides: Sides, C: Any, z: Any) -> list[Any]:
    """a^T z of each side."""
    rows = {side.row for side in sides.sides}
    values = {r: sum((C[r, j] * z[j] for j in range(C.shape[1]) if constant(C[r, j]) != 0.0), 0.0) for r in sorted(rows)}
    return sides.rows(values)


def _changes(qp: QP, duals: Any, duals_end: Any, springs: Any, z: Any, end: Any, mu: Any, mu_end: Any) -> tuple[Any, Any]:
    """Changes of slacks and multipliers for the primal target."""
    sides, (found, (stiffness, force)) = qp.sides, springs
    at_end = None
    if qp.sides_end.count:
        values = side_values(qp.sides_end, qp.C_end, end)
        at_end = qp.sides_end.step(duals_end, stiffness, force, values, qp.active_end, mu_end)
    if found is None:
        return None, at_end

    def stage(dual: Any, k: Any, f: Any, C: Any, z: Any, active: Any, mu: Any) -> Any:
        return sides.step(dual, k, f, side_values(sides, C, z), active, mu)

    return map_rows(stage, duals, found["stiffness"], found["force"], qp.C, z, qp.active, mu), at_end


def _corrections(qp: QP, changes: Any, target: Any) -> tuple[Any, Any]:
    """What the products s l should become, less the product of the predictor's changes."""

    def each(sides: Sides, change: Any) -> Any:
        found = sides.split(change)
        pairs = [(ds, dl) for ds, dl, _, _ in found] + [(found[b][2], found[b][3]) for b in sides.with_l1]
        return array([target - a * b for a, b in pairs])

    at_end = each(qp.sides_end, changes[1]) if qp.sides_end.count else np.zeros(0)
    return (() if changes[0] is None else map_rows(lambda change: each(qp.sides, change), changes[0])), at_end


def _step_length(qp: QP, duals: Any, duals_end: Any, changes: Any) -> Any:
    alpha: Any = qp.sides_end.step_length(duals_end, changes[1]) if qp.sides_end.count else 1.0
    if changes[0] is None:
        return alpha
    lengths = map_rows(lambda dual, change: array([qp.sides.step_length(dual, change)]), duals, changes[0])
    return scan(lambda _, alpha, row: (np.minimum(alpha, row[0]), None), alpha, lengths)[0]


def _moved(duals: Any, changes: Any, alpha: Any, done: Any) -> Any:
    if changes is None:
        return duals
    return map_rows(lambda dual, change: where(done, dual, dual + alpha * change), duals, changes)


def _pairs(qp: QP) -> Any:
    """The number of products s l of all stages."""
    total: Any = qp.sides_end.pairs(qp.active_end) if qp.sides_end.count else 0.0
    if qp.sides.count:
        total = scan(lambda _, total, active: (total + qp.sides.pairs(active), None), total, qp.active)[0]
    return np.maximum(total, 1.0)


def _mean_product(qp: QP, duals: Any, duals_end: Any, pairs: Any) -> Any:
    total: Any = sum(qp.sides_end.products(duals_end, qp.active_end), 0.0) if qp.sides_end.count else 0.0
    if qp.sides.count:
        each = map_rows(lambda dual, active: array([sum(qp.sides.products(dual, active), 0.0)]), duals, qp.active)
        total = scan(lambda _, total, row: (total + row[0], None), total, each)[0]
    return total / pairs


def _mean_product_after(qp: QP, duals: Any, duals_end: Any, changes: Any, alpha: Any, pairs: Any) -> Any:
    end = duals_end + alpha * changes[1] if qp.sides_end.count else duals_end
    total: Any = sum(qp.sides_end.products(end, qp.active_end), 0.0) if qp.sides_end.count else 0.0
    if qp.sides.count:

        def stage(dual: Any, change: Any, active: Any) -> Any:
            return array([sum(qp.sides.products(dual + alpha * change, active), 0.0)])

        each = map_rows(stage, duals, changes[0], qp.active)
        total = scan(lambda _, total, row: (total + row[0], None), total, each)[0]
    return total / pairs


def _infeasibility(qp: QP, duals: Any, duals_end: Any, x0: Any) -> Any:
    """The most that dynamics, |c|, the first state, |x0|, and the sides, |d - s + e|, lack at z = 0."""

    def worst(sides: Sides, dual: Any, d: Any, active: Any) -> Any:
        found: Any = 0.0
        for b, (side, (s, l, e, _)) in enumerate(zip(sides.sides, sides.split(dual), strict=True)):
            slack = 0.0 if side.equality else s
            allowed = e if e is not None else 0.0 if np.isinf(side.l2) else l * (1.0 / side.l2)
            found = np.maximum(found, where(active[b] > 0.5, abs(d[b] - slack + allowed), 0.0))
        return found

    most: Any = np.max(abs(array(x0)))
    if qp.sides_end.count:
        most = np.maximum(most, worst(qp.sides_end, duals_end, qp.d_end, qp.active_end))
    each = map_rows(lambda c: array([np.max(abs(array(c)))]), qp.system.c)
    if qp.sides.count:
        each = map_rows(
            lambda most, dual, d, active: array([np.maximum(most[0], worst(qp.sides, dual, d, active))]),
            each, duals, qp.d, qp.active,
        )  # fmt: skip
    return scan(lambda _, most, row: (np.maximum(most, row[0]), None), most, each)[0]
