"""The line search of sequential quadratic programming: all step lengths at once, by an exact penalty function.

    phi(a) = sum of costs at (x (+) a dx, u + a du) + nu (sum of |dynamics| + sum of what hard sides are exceeded by)

Costs of slacks count with the costs. The first step length of 1, 1/2, 1/4, ... whose phi falls by ARMIJO of what is predicted is
taken, or else the shortest one at which phi is finite; none, if there is no such one and phi was finite before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from condyle.methods.mpc.barrier import Sides
from condyle.methods.mpc.problem import Problem
from condyle.methods.mpc.program import QP, side_values
from condyle.tape.array import array, isfinite, where
from condyle.tape.loop import map_rows, scan
from condyle.tape.table import Table, table

ARMIJO = 1e-4
FEASIBLE = 1e-8  # violations in all up to which constraints are met: what is predicted there is no reason to weigh them more
ROUNDING = 1e-10  # of phi, relative: where it falls by no more, a full step is right


class Search(NamedTuple):
    """The step length, and the weight nu of the constraints."""

    alpha: Any
    nu: Any


def line_search(
    problem: Problem,
    values: dict[str, Any],
    x0: Any,
    trajectory: tuple[Table, Table],
    step: tuple[Table, Any],
    predicted: Any,
    nu: Any,
    lengths: int,
) -> Search:
    """The step length from a trajectory (states, controls) along the step (z, x_N) of its quadratic program.

    `predicted`: the change of the cost that the program predicts, with those of slacks. nu grows to where the step is one of
    descent (Nocedal and Wright 2006, eq. 18.36).
    """
    candidates = np.array([[0.0], *[[0.5**k] for k in range(lengths)]])
    found = map_rows(lambda row: merit(problem, values, x0, *trajectory, *step, row[0]), table(candidates))
    cost0, penalty0 = found[0, 0], found[0, 1]
    nu = np.maximum(nu, where(penalty0 > FEASIBLE, 2.0 * predicted / penalty0, 0.0))
    fall = predicted - nu * penalty0
    most = cost0 + nu * penalty0
    most = most + ROUNDING * (1.0 + abs(most))
    finite = [isfinite(found[k, 0] + found[k, 1]) for k in range(1, lengths + 1)]
    alpha: Any = where(isfinite(most), 0.0, 1.0)
    for k in range(lengths):
        alpha = where(finite[k], 0.5**k, alpha)
    for k in reversed(range(lengths)):
        enough = found[k + 1, 0] + nu * found[k + 1, 1] <= most + ARMIJO * 0.5**k * fall
        alpha = where(enough & finite[k], 0.5**k, alpha)
    return Search(alpha, nu)


def merit(problem: Problem, values: dict[str, Any], x0: Any, xs: Table, us: Table, z: Table, end: Any, alpha: Any) -> Any:
    """(cost, sum of violations) at a step length."""
    states, n, N = problem.states, problem.ndx, problem.N

    def state_at(k: Any, z: Any) -> Any:
        return states.retract(xs[k], alpha * z)

    def stage(k: Any, total: Any, row: Any) -> Any:
        cost, penalty, x = total
        u = row["u"] + alpha * row["z"][n:]
        h = values["dt"][k] if problem.intervals is not None else None
        soft, hard = _of_stage(problem, values, k, x, u)
        cost, penalty = cost + soft, penalty + hard
        following = state_at(k + 1.0, array([end_or(z, end, k, i, N) for i in range(n)]))
        gap = states.difference(following, problem.dynamics.step(x, u, problem.p(values, k), h))
        return (cost, penalty + np.sum(abs(array(gap))), following), None

    x = states.retract(xs[0], alpha * z[0][:n])
    penalty = np.sum(abs(array(states.difference(x, x0))))
    (cost, penalty, x), _ = scan(stage, (0.0, penalty, x), {"u": us, "z": z})
    soft, hard = _of_end(problem, values, x)
    return array([cost + soft, penalty + hard])


def plan_cost(problem: Problem, values: dict[str, Any], xs: Table, us: Table) -> Any:
    """The cost of a trajectory (states, controls), with the costs of slacks."""
    start = _of_end(problem, values, xs[problem.N])[0]
    return scan(lambda k, total, u: (total + _of_stage(problem, values, k, xs[k], u)[0], None), start, us)[0]


def _of_stage(problem: Problem, values: dict[str, Any], k: Any, x: Any, u: Any) -> tuple[Any, Any]:
    """(cost of stage k with that of slacks, sum of what hard sides are exceeded by)."""
    sides, p = Sides(problem.constraints.sides), problem.p(values, k)
    r = values["reference"][k] if problem.nr else None
    cost = problem.stage_cost.value(x, u, r, p, values.get("weights"))
    if not sides.count:
        return cost, 0.0
    d = sides.distances(problem.constraints.values(x, u, p), values["lower"][k], values["upper"][k])
    soft, hard = _exceeded(sides, d, [np.minimum(k, 1.0) if side.of_state else 1.0 for side in sides.sides])
    return cost + soft, hard


def _of_end(problem: Problem, values: dict[str, Any], x: Any) -> tuple[Any, Any]:
    """The same of the end."""
    N, sides = problem.N, Sides(problem.terminal_constraints.sides)
    r, p = values["reference"][N] if problem.nr else None, problem.p(values, N)
    cost = problem.terminal_cost.value(x, None, r, p, values.get("terminal_weights"))
    if not sides.count:
        return cost, 0.0
    h = problem.terminal_constraints.values(x, None, p)
    d = sides.distances(h, values["terminal_lower"], values["terminal_upper"])
    soft, hard = _exceeded(sides, d, [1.0] * sides.count)
    return cost + soft, hard


def slack_costs_predicted(qp: QP, z: Table, end: Any) -> Any:
    """The change of the costs of slacks that a quadratic program predicts for its solution (z, x_N)."""

    def change(sides: Sides, C: Any, d: Any, active: Any, z: Any) -> Any:
        after = [a - b for a, b in zip(d, side_values(sides, C, z), strict=True)]
        here = [where(each > 0.5, 1.0, 0.0) for each in active]
        return _exceeded(sides, after, here)[0] - _exceeded(sides, d, here)[0]

    total: Any = 0.0
    if any(np.isfinite(side.l2) for side in qp.sides_end.sides):
        total = change(qp.sides_end, qp.C_end, qp.d_end, qp.active_end, end)
    if any(np.isfinite(side.l2) for side in qp.sides.sides):
        rows = (qp.C, qp.d, qp.active, z)
        total = scan(lambda _, total, row: (total + change(qp.sides, *row), None), total, rows)[0]
    return total


def end_or(z: Table, end: Any, k: Any, i: int, N: int) -> Any:
    """Entry i of the change of state k + 1, which is the last one after the last stage."""
    return where(k < N - 1.5, z[k + 1.0, i], end[i]) if N > 1 else end[i]


def _exceeded(sides: Sides, d: Any, counted: list[Any]) -> tuple[Any, Any]:
    """(costs of the slacks of soft sides, sum of what hard sides are exceeded by)."""
    soft: Any = 0.0
    hard: Any = 0.0
    for side, distance, one in zip(sides.sides, d, counted, strict=True):
        e = one * (where(isfinite(distance), abs(distance), 0.0) if side.equality else np.maximum(-distance, 0.0))
        if np.isinf(side.l2):
            hard = hard + e
        else:
            soft = soft + e * (side.l1 + 0.5 * side.l2 * e)
    return soft, hard
