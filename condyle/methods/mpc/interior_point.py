"""Quadratic programs over stages by Mehrotra's predictor-corrector method (Mehrotra 1992) with a Riccati recursion.

    min  sum_k  z_k^T H_k z_k / 2 + g_k^T z_k  +  x_N^T H_N x_N / 2 + g_N^T x_N
    x_{k+1} = A_k x_k + B_k u_k + c_k,  x_0 given,    sign C_k z_k <= d_k for each side,  and for x_N

Every iteration factors once and solves twice. Dynamics, sides and stationarity are linear, so a step of length alpha leaves the
part 1 - alpha of what they lack. It ends when the mean of the products s l, the most that dynamics and sides lack, and what
stationarity lacks relative to the gradient, are at most `tolerance`; a lane that is done costs nothing more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.methods.mpc.barrier import TO_BOUNDARY, Sides
from condyle.methods.mpc.kkt import stationarity_at_zero
from condyle.methods.mpc.program import QP, QPSolution, pulled, side_values
from condyle.methods.mpc.riccati import Factors, factor, solve
from condyle.tape.array import array, isfinite, where
from condyle.tape.loop import loop, map_rows, scan
from condyle.tape.scalar import constant
from condyle.tape.table import Table, empty_table, zeros_table


def first_factors(qp: QP, duals: Any, duals_end: Any) -> Factors:
    """The factors of the first iteration from these slacks and multipliers: the state is not needed for them."""
    H, H_end = hessian_with_springs(qp, duals, duals_end)
    return factor(qp.system, H, H_end)


def solve_qp(
    qp: QP, x0: Any, duals: Any, duals_end: Any, *, iterations: int, tolerance: Any, factors: Factors | None = None
) -> QPSolution:
    """The solution from the slacks and multipliers given, in at most so many iterations. `factors`: those of the first one."""
    N, n, m = qp.system.sizes
    if not qp.sides.count and not qp.sides_end.count:
        known = first_factors(qp, duals, duals_end) if factors is None else factors
        z, end = solve(qp.system, known, qp.g, qp.g_end, x0)
        return QPSolution(z, end, duals, duals_end, 0.0, 0.0, 0.0, 1.0, _cost(qp, z, end))
    pairs = _pairs(qp)
    mu, infeasibility = _mean_product(qp, duals, duals_end, pairs), _infeasibility(qp, duals, duals_end, x0)
    stationarity = stationarity_at_zero(qp, duals, duals_end)
    limits = tolerance * qp.scale[0], tolerance
    start = {
        "z": zeros_table((N, n + m)), "end": np.zeros(n), "duals": duals, "duals_end": duals_end, "H": qp.flat,
        "mu": mu, "infeasibility": infeasibility, "stationarity": stationarity, "iterations": 0.0,
        "open": _open(mu, infeasibility, stationarity, *limits),
        # memory of one iteration
        "target": zeros_table((N, n + m)),
        "goal": zeros_table((N, _products(qp.sides))) if qp.sides.count else (),
        "change": zeros_table((N, qp.sides.size)) if qp.sides.count else (),
    }  # fmt: skip
    if factors is not None:
        start["factors"] = {"K": factors.K, "L": factors.L, "Pc": factors.Pc}

    def done(state: Any) -> Any:
        return state["open"] < 0.5

    def body(i: Any, state: Any) -> Any:
        # tables of lanes that are done stay as they are; those of H and of the memory are used in this iteration only
        return _iteration(qp, x0, i, state, pairs, limits, done(state))

    state = loop(body, start, iterations, until=done, body_keeps_tables=True)
    found = {k: state[k] for k in ("z", "end", "duals", "duals_end", "infeasibility", "stationarity", "iterations")}
    return QPSolution(**found, mu=state["mu"] / qp.scale[0], cost=_cost(qp, state["z"], state["end"]))


def _open(mu: Any, infeasibility: Any, stationarity: Any, of_products: Any, of_others: Any) -> Any:
    """1 while there is something to do: not at the solution, nor for a lane that is not finite; else 0."""
    linear = np.maximum(infeasibility, stationarity)
    more = ((mu > of_products) | (linear > of_others)) & isfinite(mu + linear)
    return where(more, 1.0, 0.0)


def _cost(qp: QP, z: Any, end: Any) -> Any:
    """The change of the cost that the program predicts, without slacks."""
    total = end @ (qp.g_end + 0.5 * (qp.H_end @ end))
    return scan(lambda _, total, row: (total + row[0] @ (row[1] + 0.5 * (row[2] @ row[0])), None), total, (z, qp.g, qp.H))[0]


def _iteration(qp: QP, x0: Any, i: Any, state: Any, pairs: Any, limits: tuple[Any, float], done: Any) -> Any:
    duals, duals_end, mu = state["duals"], state["duals_end"], state["mu"]
    springs = _springs(qp, duals, duals_end)
    H, factors = _factored(qp, i, state, springs)

    def solved(p: Any, now: Any) -> Any:
        """A pass with what s l should become: 0 for the predictor, and then what its changes say for the corrector."""
        goal_end = now["goal_end"]
        forces, g, forces_end, g_end = _forces(qp, duals, duals_end, springs, p, now["goal"], goal_end)
        z, end = solve(qp.system, factors, g, g_end, x0, now["z"])
        change, change_end = now["change"], now["change_end"]
        largest: Any = 0.0
        if qp.sides_end.count:
            by, k = springs[1]
            values = side_values(qp.sides_end, qp.C_end, end)
            change_end = qp.sides_end.step(duals_end, by, k, forces_end, values, qp.active_end, goal_end)
            largest = qp.sides_end.decrease(by, change_end)
        if qp.sides.count:
            change, largest = _changes(qp, duals, springs[0], forces, z, p, now["goal"], change, largest)
        # equalities at the end alone do not limit a step
        alpha = 1.0 if constant(largest) == 0.0 else where(largest > TO_BOUNDARY, TO_BOUNDARY / largest, 1.0)
        mu_after = _mean_product_after(qp, duals, duals_end, (change, change_end), alpha, pairs)
        ratio = mu_after / mu
        target = np.maximum(ratio * ratio * ratio * mu, 0.1 * limits[0])
        goal, goal_end = _corrections(qp, (change, change_end), target, now["goal"])
        return {
            "goal": goal,
            "goal_end": goal_end,
            "z": z,
            "end": end,
            "alpha": alpha,
            "mu": mu_after,
            "change": change,
            "change_end": change_end,
        }

    first = {
        "goal": state["goal"],
        "goal_end": np.zeros(_products(qp.sides_end)),
        "z": state["target"],
        "end": state["end"],
        "alpha": 1.0,
        "mu": mu,
        "change": state["change"],
        "change_end": duals_end,
    }
    found = loop(solved, first, 2)
    # where numbers leave the range of rounding, the last iterate is the best there is
    fails = ~isfinite(found["mu"] + found["alpha"] + sum(found["end"], 0.0))
    z, end, alpha = found["z"], found["end"], where(fails, 0.0, found["alpha"])
    mu, done = where(fails, mu, found["mu"]), done | fails
    infeasibility, stationarity = ((1.0 - alpha) * state[name] for name in ("infeasibility", "stationarity"))
    return {
        "z": map_rows(lambda a, b: where(done, a, a + alpha * (b - a)), state["z"], z),
        "end": where(fails, state["end"], state["end"] + alpha * (end - state["end"])),
        "duals": _moved(duals, found["change"], alpha, done) if qp.sides.count else duals,
        "duals_end": where(fails, duals_end, duals_end + alpha * found["change_end"]) if qp.sides_end.count else duals_end,
        "H": H,
        "mu": mu,
        "infeasibility": infeasibility,
        "stationarity": stationarity,
        "iterations": state["iterations"] + 1.0,
        "open": where(fails, 0.0, _open(mu, infeasibility, stationarity, *limits)),
        "target": z,
        "goal": found["goal"],
        "change": found["change"],
        **({"factors": {"K": factors.K, "L": factors.L, "Pc": factors.Pc}} if "factors" in state else {}),
    }


def _factored(qp: QP, i: Any, state: Any, springs: Any) -> tuple[Table, Factors]:
    """(Hessians with springs, factors) of iteration i; those that are given serve the first one."""
    if "factors" not in state:
        H, H_end = _stiffened(qp, state["H"], springs)
        return H, factor(qp.system, H, H_end)

    def again(_: Any, kept: Any) -> Any:
        H, H_end = _stiffened(qp, kept["H"], springs)
        found = factor(qp.system, H, H_end, Factors(kept["K"], kept["L"], kept["Pc"]))
        return {"H": H, "K": found.K, "L": found.L, "Pc": found.Pc, "given": kept["given"]}

    first = {"H": state["H"], **state["factors"], "given": where(i < 0.5, 1.0, 0.0)}
    kept = loop(again, first, 1, until=lambda kept: kept["given"] > 0.5, body_keeps_tables=True)
    return kept["H"], Factors(kept["K"], kept["L"], kept["Pc"])


def _products(sides: Sides) -> int:
    return sides.count + len(sides.with_l1)


def _springs(qp: QP, duals: Any, duals_end: Any) -> Any:
    """What all passes of an iteration need of the sides: reciprocals and stiffness, as tables, and those of the end."""

    def stage(dual: Any, active: Any) -> Any:
        by = qp.sides.reciprocals(dual)
        return {"by": by, "stiffness": array(qp.sides.stiffness(dual, by, active))}

    end: Any = ([], [])
    if qp.sides_end.count:
        by = qp.sides_end.reciprocals(duals_end)
        end = by, qp.sides_end.stiffness(duals_end, by, qp.active_end)
    return map_rows(stage, duals, qp.active) if qp.sides.count else None, end


def hessian_with_springs(qp: QP, duals: Any, duals_end: Any) -> tuple[Table, Any]:
    """(all entries of the Hessians, Hessian of the end) with the springs that the sides are at these slacks and multipliers."""
    return _stiffened(qp, qp.flat, _springs(qp, duals, duals_end))


def _stiffened(qp: QP, H: Table, springs: Any) -> tuple[Table, Any]:
    """(all entries of the Hessians with the springs of the sides, the Hessian of the end with them)."""
    _, n, m = qp.system.sizes
    s = n + m
    found, (_, stiffness_end) = springs
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

    return scan(stage, H, {"H": qp.H, "C": qp.C, "stiffness": found["stiffness"]})[0], H_end


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


def _forces(qp: QP, duals: Any, duals_end: Any, springs: Any, p: Any, goal: Any, goal_end: Any) -> tuple[Any, ...]:
    """(forces of the sides, gradients g with them; forces of the end, gradient of the end with them) in pass p."""
    found, (by, stiffness) = springs
    forces_end: Any = []
    g_end = qp.g_end
    if qp.sides_end.count:
        forces_end = qp.sides_end.forces(duals_end, by, stiffness, qp.d_end, qp.active_end, goal_end)
        g_end = g_end + pulled(qp.sides_end, qp.C_end, forces_end)
    if found is None:
        return None, qp.g, forces_end, g_end

    def stage(k: Any, _: Any, row: Any) -> Any:
        force = qp.sides.forces(row["dual"], row["by"], row["stiffness"], row["d"], row["active"], _of_pass(p, row["goal"]))
        return _, {"force": array(force), "g": row["g"] + pulled(qp.sides, row["C"], force)}

    rows = {"dual": duals, **found, "d": qp.d, "active": qp.active, "goal": goal, "g": qp.g, "C": qp.C}
    _, both = scan(stage, (), rows)
    return both["force"], both["g"], forces_end, g_end


def _of_pass(p: Any, goal: Any) -> Any:
    """What the products should become in pass p: zero in the first one."""
    return where(p < 0.5, np.zeros(len(goal)), goal)


def _changes(
    qp: QP, duals: Any, springs: Any, forces: Any, z: Any, p: Any, goal: Any, into: Table, largest: Any
) -> tuple[Table, Any]:
    """(changes of slacks and multipliers for the primal target, the largest decrease of all that are positive)."""
    sides = qp.sides

    def stage(k: Any, state: Any, row: Any) -> Any:
        change, decrease = state
        values = side_values(sides, row["C"], row["z"])
        step = sides.step(row["dual"], row["by"], row["stiffness"], row["force"], values, row["active"], _of_pass(p, row["goal"]))
        decrease = decrease.with_entry(sides.decrease(row["by"], step), 0, 0, k)
        return (_row_set(change, k, step), decrease), None

    rows = {"dual": duals, **springs, "force": forces, "C": qp.C, "z": z, "active": qp.active, "goal": goal}
    (change, decrease), _ = scan(stage, (into, empty_table((qp.system.sizes[0], 1))), rows)
    return change, scan(lambda _, most, row: (np.maximum(most, row[0]), None), largest, decrease)[0]


def _row_set(rows: Table, k: Any, values: Any) -> Table:
    for c, value in enumerate(values):
        rows = rows.with_entry(value, 0, c, k)
    return rows


def _corrections(qp: QP, changes: Any, target: Any, into: Any) -> tuple[Any, Any]:
    """What the products s l should become, less the product of the predictor's changes."""

    def each(sides: Sides, change: Any) -> Any:
        found = sides.split(change)
        pairs = [(ds, dl) for ds, dl, _, _ in found] + [(found[b][2], found[b][3]) for b in sides.with_l1]
        return array([target - a * b for a, b in pairs])

    at_end = each(qp.sides_end, changes[1]) if qp.sides_end.count else np.zeros(0)
    if not qp.sides.count:
        return (), at_end
    return scan(lambda k, goal, change: (_row_set(goal, k, each(qp.sides, change)), None), into, changes[0])[0], at_end


def _moved(duals: Any, changes: Any, alpha: Any, done: Any) -> Any:
    return map_rows(lambda dual, change: where(done, dual, dual + alpha * change), duals, changes)


def _pairs(qp: QP) -> Any:
    """The number of products s l of all stages."""
    total: Any = qp.sides_end.pairs(qp.active_end) if qp.sides_end.count else 0.0
    if qp.sides.count:
        total = scan(lambda _, total, active: (total + qp.sides.pairs(active), None), total, qp.active)[0]
    return where(total > 1.0, total, 1.0) if constant(total) is None else max(float(total), 1.0)


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
