"""The quadratic program of a problem along a trajectory: linearised dynamics and constraints, quadratic costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.methods.mpc.barrier import Sides
from condyle.methods.mpc.problem import Problem
from condyle.methods.mpc.program import QP, cost_scale
from condyle.methods.mpc.riccati import row_after_row, stages
from condyle.methods.mpc.space import no_change
from condyle.tape.array import array, isfinite, where
from condyle.tape.linearize import linearize
from condyle.tape.loop import scan
from condyle.tape.table import Table


def quadratic_program(problem: Problem, values: dict[str, Any], states: Table, controls: Table) -> QP:
    """The Gauss-Newton program in changes (dx, du) of the trajectory states (N + 1, nx), controls (N, nu)."""
    sides, sides_end = Sides(problem.constraints.sides), Sides(problem.terminal_constraints.sides)

    def stage(k: Any, _: Any, u: Any) -> Any:
        p = problem.p(values, k)
        x, following = states[k], states[k + 1.0]
        r = values["reference"][k] if problem.nr else None
        h = values["dt"][k] if problem.intervals is not None else None
        c, A, B = problem.dynamics.gap(x, u, following, p, h)
        g, H = problem.stage_cost.quadratic(x, u, r, p, values.get("weights"))
        out = {"AB": np.concatenate([A, B], axis=1), "c": c, "g": g, "H": H}
        if sides.count:
            lower, upper = values["lower"][k], values["upper"][k]
            value, C = _linearized_constraints(problem, x, u, p)
            d = sides.distances(value, lower, upper)
            # in the first stage there is nothing to decide about the state
            later = [np.minimum(k, 1.0) if side.of_state else 1.0 for side in sides.sides]
            active = array([where(isfinite(a), b, 0.0) for a, b in zip(d, later, strict=True)])
            out |= {"C": C, "d": array([where(a > 0.5, b, 1.0) for a, b in zip(active, d, strict=True)]), "active": active}
        return _, out

    _, rows = scan(stage, (), controls)
    end, p = states[problem.N], problem.p(values, problem.N)
    r_end = values["reference"][problem.N] if problem.nr else None
    g_end, H_end = problem.terminal_cost.quadratic(end, None, r_end, p, values.get("terminal_weights"))
    C_end: Any = None
    d_end: Any = None
    active_end: Any = None
    if sides_end.count:
        value, C_end = _linearized_constraints(problem, end, None, p)
        d = sides_end.distances(value, values["terminal_lower"], values["terminal_upper"])
        active_end = array([where(isfinite(a), 1.0, 0.0) for a in d])
        d_end = array([where(a > 0.5, b, 1.0) for a, b in zip(active_end, d, strict=True)])
    return QP(
        stages(rows["AB"], rows["c"]),
        rows["H"],
        row_after_row(rows["H"]),
        rows["g"],
        rows.get("C"),
        rows.get("d"),
        rows.get("active"),
        H_end,
        g_end,
        C_end,
        d_end,
        active_end,
        cost_scale(rows["H"], H_end),
        sides,
        sides_end,
    )


def _linearized_constraints(problem: Problem, x: Any, u: Any, p: Any) -> tuple[Any, Any]:
    """(h, its Jacobian by (dx, du)) of a stage, or of the end if there is no u."""
    zero = no_change(problem.ndx)
    retract = problem.states.retract
    if u is None:
        end = problem.terminal_constraints
        return linearize(lambda d: end.values(retract(x, d), None, p), zero)
    h = problem.constraints
    value, by_x, by_u = linearize(lambda d, u: h.values(retract(x, d), u, p), zero, u)
    return value, np.concatenate([by_x, by_u], axis=1)
