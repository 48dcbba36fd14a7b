"""Sequential quadratic programming: the real-time iteration, one Gauss-Newton step from the last plan (Diehl et al. 2005)."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.mpc.barrier import Sides
from condyle.mpc.interior_point import QP, solve_qp
from condyle.mpc.linearization import quadratic_program
from condyle.mpc.problem import Problem
from condyle.mpc.solver import CONVERGED, STOPPED, Plan, Solver, keep_if_failed, path_table
from condyle.tape.array import where
from condyle.tape.loop import map_rows, scan
from condyle.tape.table import Table, table


class RealTimeIteration(Solver):
    """One Gauss-Newton step of multiple shooting, its quadratic program solved by interior points from the last multipliers.

    `iterations`: of the interior-point method, at most; it ends before when the mean product of slacks and multipliers is below
    `tolerance`. `warm`: the least slack and multiplier that a solve starts with.
    """

    def __init__(self, problem: Problem, *, iterations: int = 12, tolerance: float = 1e-6, warm: float = 1e-2) -> None:
        super().__init__(problem, name="rti")
        self.iterations, self.tolerance, self.warm = iterations, tolerance, warm
        self.sides, self.sides_end = Sides(problem.constraints.sides), Sides(problem.terminal_constraints.sides)

    def options(self) -> tuple[Any, ...]:
        """Options of the method, by value."""
        return self.iterations, self.tolerance, self.warm

    @property
    def plan_shapes(self) -> dict[str, tuple[int, ...]]:
        """States, controls, and slacks and multipliers of the sides."""
        N, p = self.problem.N, self.problem
        shapes: dict[str, tuple[int, ...]] = {"states": (N + 1, p.nx), "controls": (N, p.nu)}
        if self.sides.count:
            shapes["duals"] = (N, self.sides.size)
        if self.sides_end.count:
            shapes["duals_end"] = (self.sides_end.size,)
        return shapes

    def initial_plan(self, x: np.ndarray, u: np.ndarray) -> Plan:
        """States at x, controls u, slacks and multipliers one."""
        lead, N = x.shape[:-1], self.problem.N
        plan = {
            "states": np.broadcast_to(x[..., None, :], (*lead, N + 1, x.shape[-1])).copy(),
            "controls": np.broadcast_to(u[..., None, :], (*lead, N, u.shape[-1])).copy(),
        }
        if self.sides.count:
            plan["duals"] = np.broadcast_to(self.sides.start(), (*lead, N, self.sides.size)).copy()
        if self.sides_end.count:
            plan["duals_end"] = np.broadcast_to(self.sides_end.start(), (*lead, self.sides_end.size)).copy()
        return plan

    def record(self, x0: Any, plan: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        """One iteration."""
        xs, us = table(plan["states"]), table(plan["controls"])
        qp = quadratic_program(self.problem, values, xs, us)
        return keep_if_failed(x0, self._step(qp, xs, us, x0, plan), plan)

    def _step(self, qp: QP, xs: Table, us: Table, x0: Any, plan: dict[str, Any]) -> dict[str, Any]:
        """The plan after the solution of its quadratic program."""
        states, n, N = self.problem.states, self.problem.ndx, self.problem.N
        duals = map_rows(lambda d: self.sides.warm(d, self.warm), table(plan["duals"])) if self.sides.count else None
        duals_end = self.sides_end.warm(plan["duals_end"], self.warm) if self.sides_end.count else None
        start = states.difference(xs[0], x0)
        found = solve_qp(qp, start, duals, duals_end, iterations=self.iterations, tolerance=self.tolerance)
        controls = map_rows(lambda z, u: u + z[n:], found.z, us)
        rows = scan(lambda k, _, z: (_, states.retract(xs[k], z[:n])), (), found.z)[1]
        done = (found.mu <= self.tolerance) & (found.infeasibility <= self.tolerance)
        results = {
            "u": controls[0],
            "states": path_table(rows, states.retract(xs[N], found.end)),
            "controls": controls,
            "status": where(done, CONVERGED, STOPPED),
            "iterations": found.iterations,
            "inequality": found.infeasibility,
            "complementarity": found.mu,
            "cost": 0.0,
        }
        results |= {"duals": found.duals} if self.sides.count else {}
        return results | ({"duals_end": found.duals_end} if self.sides_end.count else {})
