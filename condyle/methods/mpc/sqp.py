"""Multiple shooting: the real-time iteration (Diehl et al. 2005), and sequential quadratic programming until it converges."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.mpc.barrier import Sides
from condyle.methods.mpc.interior_point import first_factors, solve_qp
from condyle.methods.mpc.kkt import costates, program_stationarity, residuals
from condyle.methods.mpc.linearization import quadratic_program
from condyle.methods.mpc.merit import line_search, plan_cost, slack_costs_predicted
from condyle.methods.mpc.phases import Packing
from condyle.methods.mpc.problem import Problem
from condyle.methods.mpc.program import QP, QPSolution
from condyle.methods.mpc.riccati import Factors
from condyle.methods.mpc.second_order import chosen, has_minimum, with_exact_hessians
from condyle.methods.mpc.sensitivity import constant_solution, constant_table, constants, correction
from condyle.methods.mpc.solver import CONVERGED, FAILED, RESIDUALS, STOPPED, Plan, Solver, keep_if_failed, path_table
from condyle.tape.array import array, isfinite, stop_gradient, where
from condyle.tape.device import beside, repeated
from condyle.tape.function import Function, function
from condyle.tape.loop import loop, map_rows, scan
from condyle.tape.table import Table, table, zeros_table

HESSIANS = ("gauss_newton", "exact")
STALLS = 0.9  # of the residuals before, from which on the next program is solved to a tighter tolerance
TIGHTER, TIGHTEST = 0.1, 1e-4
SEARCH = ("nu", "qp_tolerance", "before")  # what iterations hand on beside the plan: weight, tolerance, largest residual
LAST = ("step_length", "qp_iterations", "qp_solved")  # of the last iteration


class Shooting(Solver):
    """What both methods share: plans with slacks and multipliers, and the step that a quadratic program gives."""

    def __init__(self, problem: Problem, name: str, qp_iterations: int, qp_tolerance: float, warm: float) -> None:
        super().__init__(problem, name=name)
        self.qp_iterations = _count("qp_iterations", qp_iterations)
        self.qp_tolerance, self.warm = _positive("qp_tolerance", qp_tolerance), _positive("warm", warm)
        self.sides, self.sides_end = Sides(problem.constraints.sides), Sides(problem.terminal_constraints.sides)

    @property
    def plan_shapes(self) -> dict[str, tuple[int, ...]]:
        """States, controls, and slacks and multipliers of the sides."""
        N, p = self.problem.N, self.problem
        shapes: dict[str, tuple[int, ...]] = {"states": (N + 1, p.nx), "controls": (N, p.nu)}
        shapes |= {"duals": (N, self.sides.size)} if self.sides.count else {}
        return shapes | ({"duals_end": (self.sides_end.size,)} if self.sides_end.count else {})

    def initial_plan(self, x: np.ndarray, controls: np.ndarray) -> Plan:
        """States at x, slacks and multipliers one."""
        lead, N = x.shape[:-1], self.problem.N
        plan = {
            "states": repeated(x[..., None, :], (*lead, N + 1, x.shape[-1])),
            "controls": controls,
        }
        if self.sides.count:
            plan["duals"] = repeated(beside(x, self.sides.start()), (*lead, N, self.sides.size))
        if self.sides_end.count:
            plan["duals_end"] = repeated(beside(x, self.sides_end.start()), (*lead, self.sides_end.size))
        return plan

    # ---- inside of a trace

    def warmed(self, plan: dict[str, Any], qp: QP) -> tuple[Any, Any]:
        """Slacks and multipliers to start a quadratic program with."""
        duals: Any = ()
        if self.sides.count:
            duals = map_rows(lambda dual, d: self.sides.warm(dual, d, self.warm), table(plan["duals"]), qp.d)
        return duals, self.sides_end.warm(plan["duals_end"], qp.d_end, self.warm) if self.sides_end.count else ()

    def solved(self, qp: QP, x0: Any, plan: dict[str, Any], factors: Factors | None = None, tolerance: Any = None) -> QPSolution:
        """The solution of the quadratic program from the multipliers of the plan; x0 is the change of the first state."""
        limits: dict[str, Any] = {
            "iterations": self.qp_iterations,
            "tolerance": self.qp_tolerance if tolerance is None else tolerance,
        }
        return solve_qp(qp, x0, *self.warmed(plan, qp), **limits, factors=factors)

    def is_solved(self, found: QPSolution) -> Any:
        """Whether a quadratic program was solved; not if a number is not finite."""
        return (array([found.mu, found.infeasibility, found.stationarity]) <= self.qp_tolerance).all()

    def fails(self, found: QPSolution) -> Any:
        """Whether a number of the program itself is not finite."""
        return ~isfinite(found.mu + found.infeasibility + found.stationarity)

    def lost(self, found: QPSolution) -> Any:
        """Whether a quadratic program ended unsolved, as bounds may contradict each other: its multipliers may be anything."""
        return np.logical_not(self.is_solved(found)) & (found.mu > 1.0)

    def moved(self, xs: Table, us: Table, found: QPSolution, alpha: Any = 1.0) -> tuple[Table, Table]:
        """(states, controls) after a step along the solution."""
        states, n = self.problem.states, self.problem.ndx
        controls = map_rows(lambda z, u: u + alpha * z[n:], found.z, us)
        rows = scan(lambda k, _, z: (_, states.retract(xs[k], alpha * z[:n])), (), found.z)[1]
        return path_table(rows, states.retract(xs[self.problem.N], alpha * found.end)), controls

    def multipliers_of(self, found: QPSolution) -> dict[str, Any]:
        """The arrays of a plan beside states and controls."""
        given = {"duals": found.duals} if self.sides.count else {}
        return given | ({"duals_end": found.duals_end} if self.sides_end.count else {})


class RealTimeIteration(Shooting):
    """One Gauss-Newton step from the last plan, its quadratic program solved by interior points from the last multipliers.

    `qp_iterations`: of the interior-point method, at most; it ends before when the mean product of slacks and multipliers is
    below `qp_tolerance`. `warm`: the least slack and multiplier that a solve starts with. Residuals are those of the plan that
    was given, with the new multipliers.
    """

    def __init__(self, problem: Problem, *, qp_iterations: int = 15, qp_tolerance: float = 1e-6, warm: float = 1e-3) -> None:
        super().__init__(problem, "rti", qp_iterations, qp_tolerance, warm)

    def options(self) -> tuple[Any, ...]:
        """Options of the method, by value."""
        return self.qp_iterations, self.qp_tolerance, self.warm

    def record(self, x0: Any, plan: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        """One iteration."""
        xs, us = table(plan["states"]), table(plan["controls"])
        qp = quadratic_program(self.problem, values, xs, us)
        start = self.problem.states.difference(xs[0], x0)
        found = self.solved(qp, start, plan)
        return keep_if_failed(x0, self.results(qp, start, xs, us, found, values), plan)

    @cached_property
    def phases(self) -> tuple[Function, Function]:
        """prepare(*plan, **data), and feedback(x0, *left, *plan) with what the first one left; plans as arrays of `plan_shapes`.

        Together they are the same iteration. The first one does all that the state is not needed for, as the first factorisation;
        residuals are those of the quadratic program.
        """
        problem, packing = self.problem, Packing(self.sides, self.sides_end)
        sizes: dict[str, tuple[int, ...]] = {}

        def prepare(**plan: Any) -> dict[str, Any]:
            qp = quadratic_program(problem, problem.values(), table(plan["states"]), table(plan["controls"]))
            left = packing.pack(qp, first_factors(qp, *self.warmed(plan, qp)))
            sizes.update({name: np.shape(x) for name, x in left.items()})
            return left

        def feedback(x0: Any, **given: Any) -> dict[str, Any]:
            plan = {name: given[name] for name in self.plan_shapes}
            x0 = self.first_state(x0, plan)
            xs, us = table(plan["states"]), table(plan["controls"])
            program, factors = packing.unpack(given)
            found = self.solved(program, problem.states.difference(xs[0], x0), plan, factors)
            # what a control needs, and no more: the other residuals can wait
            return keep_if_failed(x0, self.step_results(xs, us, found), plan)

        first = function(prepare, cache=False, **self.plan_shapes)
        second = function(feedback, cache=False, x0=problem.nx_given, **sizes, **self.plan_shapes)
        return first.on("cpu", lanes=1), second.on("cpu", lanes=1)

    differentiable = True

    def record_differentiable(self, x0: Any, plan: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        """The same iteration, its quadratic program differentiated as one that is solved."""
        tables = {name: table(plan[name]) for name in ("states", "controls")}
        fixed, data = constants(plan), constants(values)
        xs, us = (constant_table(x) for x in tables.values())
        at = quadratic_program(self.problem, data, xs, us)
        start = self.problem.states.difference(xs[0], stop_gradient(x0))
        found = constant_solution(self.solved(at, start, fixed))
        qp = quadratic_program(self.problem, values, *tables.values())
        moved = self.problem.states.difference(tables["states"][0], x0)
        dz, d_end = correction(qp, at, moved, found)
        found = replace(found, z=map_rows(lambda a, b: a + b, found.z, dz), end=found.end + d_end)
        return keep_if_failed(x0, self.results(at, start, tables["states"], tables["controls"], found, values), plan)

    def results(self, qp: QP, start: Any, xs: Table, us: Table, found: QPSolution, values: dict[str, Any]) -> dict[str, Any]:
        """The outputs of an iteration."""
        here, new = residuals(qp, start, found.duals, found.duals_end), self.step_results(xs, us, found)
        return new | {"cost": plan_cost(self.problem, values, new["states"], new["controls"]), **here}

    def step_results(self, xs: Table, us: Table, found: QPSolution) -> dict[str, Any]:
        """Those that are there after the quadratic program: its own residuals, and not those of the problem."""
        states, controls = self.moved(xs, us, found)
        done = self.is_solved(found)
        return {
            "u": controls[0],
            "states": states,
            "controls": controls,
            "status": where(self.fails(found), FAILED, where(done, CONVERGED, STOPPED)),
            "iterations": found.iterations,
            "inequality": found.infeasibility,
            "complementarity": found.mu,
            **self.multipliers_of(found),
        }


class SQP(Shooting):
    """Sequential quadratic programming with a line search, until all residuals are below `tolerance`.

    `hessian`: "gauss_newton", or "exact", that of the Lagrangian where it has a minimum.
    `line_search`: how many step lengths 1, 1/2, 1/4, ... are tried at once; 1 takes full steps.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        iterations: int = 100,
        tolerance: float = 1e-6,
        hessian: str = "gauss_newton",
        line_search: int = 8,
        qp_iterations: int = 30,
        qp_tolerance: float | None = None,
        warm: float = 1e-2,
    ) -> None:
        tolerance = _positive("tolerance", tolerance)
        super().__init__(problem, "sqp", qp_iterations, 0.01 * tolerance if qp_tolerance is None else qp_tolerance, warm)
        if hessian not in HESSIANS:
            raise ControlError(f"hessian must be one of {', '.join(HESSIANS)}, got {hessian!r:.40}")
        self.iterations, self.tolerance, self.hessian = _count("iterations", iterations), tolerance, hessian
        self.lengths = _count("line_search", line_search)

    def options(self) -> tuple[Any, ...]:
        """Options of the method, by value."""
        return (
            self.iterations, self.tolerance, self.hessian, self.lengths, self.qp_iterations, self.qp_tolerance, self.warm,
        )  # fmt: skip

    def record(self, x0: Any, plan: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        """Iterations until the residuals are small."""
        arrays = {name: table(value) if len(self.plan_shapes[name]) > 1 else value for name, value in plan.items()}
        search: Any = arrays.pop("search") if "search" in arrays else self.first_search()
        begin = {"plan": arrays, "iterations": 0.0, "worst": 1e30} | dict(zip(SEARCH, search, strict=True))
        begin |= dict.fromkeys((*RESIDUALS, *LAST, "failed"), 0.0)

        def done(state: Any) -> Any:
            return state["worst"] <= self.tolerance

        def ends(state: Any) -> Any:
            return done(state) | (state["failed"] > 0.5)

        state = loop(lambda i, state: self._iteration(x0, state, values), begin, self.iterations, until=ends)
        found = {
            **state["plan"],
            "u": state["plan"]["controls"][0],
            "status": where(state["failed"] > 0.5, FAILED, where(done(state), CONVERGED, STOPPED)),
            "cost": plan_cost(self.problem, values, state["plan"]["states"], state["plan"]["controls"]),
            **{name: state[name] for name in ("iterations", *RESIDUALS, *LAST)},
        }
        if "search" in plan:
            found["search"] = array([state[name] for name in SEARCH])
        return keep_if_failed(x0, found, plan)

    differentiable = True

    def record_differentiable(self, x0: Any, plan: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        """The same plan, with the derivatives of the solution by the state and the data; those by the last plan are zero."""
        problem, data = self.problem, constants(values)
        found = constants(self.record(stop_gradient(x0), constants(plan), data))
        xs, us = found["states"], found["controls"]
        duals, duals_end = found.get("duals", ()), found.get("duals_end", ())
        at = quadratic_program(problem, data, xs, us)
        pi, _, _ = costates(at, duals, duals_end)
        at = with_exact_hessians(problem, data, at, (xs, us), pi, duals, duals_end)
        start = problem.states.difference(xs[0], x0)
        zero = zeros_table((problem.N, problem.ndx + problem.nu)), np.zeros(problem.ndx)
        here = QPSolution(*zero, duals, duals_end, 0.0, 0.0, 0.0, 0.0, 0.0)
        dz, d_end = correction(quadratic_program(problem, values, xs, us), at, start, here)
        states, controls = self.moved(xs, us, replace(here, z=dz, end=d_end))
        cost = plan_cost(problem, values, states, controls)
        return keep_if_failed(x0, found | {"states": states, "controls": controls, "u": controls[0], "cost": cost}, plan)

    def first_search(self) -> np.ndarray:
        """What the first iteration begins with beside a plan."""
        return np.array([1e-3, self.qp_tolerance, 1e30])

    def _iteration(self, x0: Any, state: Any, values: dict[str, Any]) -> Any:
        plan, problem = state["plan"], self.problem
        xs, us = plan["states"], plan["controls"]
        qp = quadratic_program(problem, values, xs, us)
        start = problem.states.difference(xs[0], x0)
        duals, duals_end = plan.get("duals"), plan.get("duals_end")
        here = residuals(qp, start, duals, duals_end)
        if self.hessian == "exact":
            pi, _, _ = costates(qp, duals, duals_end)
            exact = with_exact_hessians(problem, values, qp, (xs, us), pi, duals, duals_end)
            found = self._solved_with_either(exact, qp, start, state)
        else:
            found = self.solved(qp, start, plan, tolerance=state["qp_tolerance"])
            # costates of a long unstable trajectory overflow
            own, of_program = here["stationarity"], program_stationarity(qp, found)
            here["stationarity"] = where(own <= of_program, own, of_program)
        relative = {name: 1.0 / qp.scale[0] for name in ("stationarity", "complementarity")}
        worst = np.max(array([relative.get(name, 1.0) * value for name, value in here.items()]))
        alpha: Any = 1.0
        nu = state["nu"]
        if self.lengths > 1:
            step = found.z, found.end
            predicted = found.cost + slack_costs_predicted(qp, *step)
            alpha, weight = line_search(problem, values, x0, (xs, us), step, predicted, nu, self.lengths)
            nu = where(self.lost(found), nu, weight)
        # what programs leave within their own tolerances may be more than residuals may be: of feasible plans, which stay
        stalls = (worst > STALLS * state["before"]) & (here["dynamics"] <= self.tolerance)
        tighter, least = TIGHTER * state["qp_tolerance"], TIGHTEST * self.qp_tolerance
        # at the solution the plan stays as it is
        alpha = where(worst <= self.tolerance, 0.0, alpha)
        states, controls = self.moved(xs, us, found, alpha)
        kept = self._multipliers(plan, found, alpha)
        return {
            "plan": {"states": states, "controls": controls, **kept},
            "iterations": state["iterations"] + 1.0,
            "worst": worst,
            "nu": nu,
            "qp_tolerance": where(stalls, np.maximum(tighter, least), self.qp_tolerance),
            "before": worst,
            **here,
            "step_length": alpha,
            "qp_iterations": found.iterations,
            "qp_solved": where(self.is_solved(found), 1.0, 0.0),
            "failed": where(self.fails(found), 1.0, 0.0),
        }

    def _solved_with_either(self, exact: QP, gauss_newton: QP, start: Any, state: dict[str, Any]) -> QPSolution:
        """The solution with exact Hessians where they have a minimum, to begin with and to the end, else with the others."""
        plan, tolerance = state["plan"], state["qp_tolerance"]
        convex = has_minimum(exact, *self.warmed(plan, exact))

        def attempt(i: Any, _: dict[str, Any]) -> dict[str, Any]:
            qp = chosen(convex & (i < 0.5), exact, gauss_newton)
            found = self.solved(qp, start, plan, tolerance=tolerance)
            done = where(self.is_solved(found), 1.0, 0.0)  # a number: a loop ends where a condition compares NaN
            return {name: done if name == "done" else getattr(found, name) for name in begin}

        N, n = self.problem.N, self.problem.ndx
        begin = {"z": zeros_table((N, n + self.problem.nu)), "end": array(np.zeros(n))}
        begin |= {name: table(plan[name]) if name == "duals" else plan[name] for name in ("duals", "duals_end") if name in plan}
        begin |= {"mu": np.inf, "infeasibility": np.inf, "stationarity": np.inf, "iterations": 0.0, "cost": np.inf, "done": 0.0}
        found = loop(attempt, begin, 2, until=lambda state: state["done"] > 0.5)
        del found["done"]
        return QPSolution(**{"duals": (), "duals_end": ()} | found)

    def _multipliers(self, plan: dict[str, Any], found: QPSolution, alpha: Any) -> dict[str, Any]:
        """Slacks and multipliers after a step: those of the quadratic program by as much."""
        new, lost = self.multipliers_of(found), self.lost(found)
        first = {"duals": self.sides.start(), "duals_end": self.sides_end.start()}

        def moved(name: str, a: Any, b: Any) -> Any:
            return where(lost, first[name], a + alpha * (b - a))

        return {
            name: map_rows(lambda a, b, name=name: moved(name, a, b), plan[name], value)
            if isinstance(value, Table)
            else moved(name, plan[name], value)
            for name, value in new.items()
        }


class SQPIteration(SQP):
    """One iteration of sequential quadratic programming per call; its plan hands on what a line search remembers."""

    def __init__(self, problem: Problem, **options: Any) -> None:
        super().__init__(problem, iterations=1, **options)

    @property
    def plan_shapes(self) -> dict[str, tuple[int, ...]]:
        """States, controls, slacks and multipliers, and the memory of the search."""
        return super().plan_shapes | {"search": (len(SEARCH),)}

    def initial_plan(self, x: np.ndarray, controls: np.ndarray) -> Plan:
        """A plan with the memory of a first iteration."""
        search = repeated(beside(x, self.first_search()), (*x.shape[:-1], len(SEARCH)))
        return super().initial_plan(x, controls) | {"search": search}


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= 10_000:
        raise ControlError(f"{name} must be a whole number from 1 to 10000, got {value!r:.40}")
    return int(value)


def _positive(name: str, value: Any) -> float:
    if not isinstance(value, (int, float)) or not np.isfinite(value) or value <= 0.0:
        raise ControlError(f"{name} must be a finite number above zero, got {value!r:.40}")
    return float(value)
