"""The compiled functions behind AcadosOcpSolver: one iteration, the cost, and the multipliers of the dynamics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from condyle.apps.compat.acados_problem import BoundedValue, Formulation, Group, Term, no_cost
from condyle.errors import ControlError
from condyle.methods.mpc.constraints import Constraints, Side
from condyle.methods.mpc.kkt import costates
from condyle.methods.mpc.linearization import quadratic_program
from condyle.methods.mpc.merit import plan_cost
from condyle.methods.mpc.problem import Problem, ocp
from condyle.methods.mpc.sqp import RealTimeIteration, Shooting, SQPIteration
from condyle.tape.array import array
from condyle.tape.function import Function, function
from condyle.tape.table import table


@dataclass(frozen=True)
class Structure:
    """What a compiled solver depends on, beside the description: rows and sides of the bounds, and which W are not diagonal."""

    rows: tuple[BoundedValue, ...]
    rows_end: tuple[BoundedValue, ...]
    full: tuple[bool, ...]


def structure_and_data(formulation: Formulation) -> tuple[Structure, dict[str, np.ndarray]]:
    """The structure, and all numbers as data of a solver's call."""
    N, numbers, groups = formulation.N, formulation.numbers, formulation.groups
    stage_groups, end_groups = split(groups, N)
    rows, lower, upper = formulation.rows(stage_groups, range(N))
    rows_end, lower_end, upper_end = formulation.rows(end_groups, range(N, N + 1))
    data: dict[str, np.ndarray] = {"dt": np.append(numbers.steps, 1.0)[:, None]}
    if formulation.np:
        data["p"] = numbers.p
    full = []
    for i, term in enumerate(formulation.terms):
        scaling = numbers.scaling
        if term.value is no_cost:
            continue
        if not term.ny:
            scale = np.array([scaling[k] if term.first <= k <= term.last else 0.0 for k in range(N + 1)])
            data[f"scale{i}"] = scale[:, None]
            continue
        full.append(formulation.full_weights(term))
        size = term.ny**2 if full[-1] else term.ny
        yref, W = np.zeros((N + 1, term.ny)), np.zeros((N + 1, size))
        for k in range(term.first, term.last + 1):
            yref[k], W[k] = numbers.yref[k], factor(scaling[k] * numbers.W[k], full[-1], k)
        data |= {f"yref{i}": yref, f"W{i}": W}
    data |= {"lower": lower, "upper": upper} if rows else {}
    data |= {"terminal_lower": lower_end[0], "terminal_upper": upper_end[0]} if rows_end else {}
    return Structure(rows, rows_end, tuple(full)), data


def split(groups: list[Group], N: int) -> tuple[list[Group], list[Group]]:
    """(groups of the stages, groups of the end)."""
    return [g for g in groups if g.first < N], [g for g in groups if g.first == N]


def factor(W: np.ndarray, full: bool, k: int) -> np.ndarray:
    """F with F^T F = W: a square root of the diagonal, or a matrix row after row."""
    if not full:
        w = np.diag(W)
        if (w < 0.0).any():
            raise ControlError(f"W of stage {k} has the negative weight {w.min():g}; weights of squares are zero or more")
        return np.sqrt(w)
    if not np.allclose(W, W.T, rtol=1e-9, atol=1e-12 * np.abs(W).max()):
        raise ControlError(f"W of stage {k} is not symmetric; use (W + W.T) / 2")
    w, V = np.linalg.eigh(W)
    if w.min() < -1e-9 * max(np.abs(w).max(), 1e-300):
        raise ControlError(f"W of stage {k} has the negative eigenvalue {w.min():g}; a least-squares cost needs none")
    return np.ravel(np.sqrt(np.maximum(w, 0.0))[:, None] * V.T)


class Kernels:
    """A problem of one structure, compiled where it is used first."""

    def __init__(self, formulation: Formulation, structure: Structure, data: dict[str, np.ndarray]) -> None:
        self.formulation, self.structure = formulation, structure
        options = formulation.description.solver_options
        self.problem = make_problem(formulation, structure, data)
        tolerance = 0.01 * tolerances(options).min()
        iterations = int(options.qp_solver_iter_max)
        lengths = line_search(options)
        self.solver: Shooting
        if options.nlp_solver_type == "SQP_RTI" and options.hessian_approx == "GAUSS_NEWTON" and lengths == 1:
            self.solver = RealTimeIteration(self.problem, qp_iterations=iterations, qp_tolerance=float(tolerance))
        else:
            self.solver = SQPIteration(
                self.problem, tolerance=float(100.0 * tolerance), qp_tolerance=float(tolerance), qp_iterations=iterations,
                hessian=options.hessian_approx.lower(), line_search=lengths,
            )  # fmt: skip

    @cached_property
    def cost(self) -> Function:
        """The cost of a plan, with that of slacks."""
        problem = self.problem

        def cost(states: Any, controls: Any) -> dict[str, Any]:
            return {"cost": plan_cost(problem, problem.values(), table(states), table(controls))}

        return function(cost, states=(problem.N + 1, problem.nx), controls=(problem.N, problem.nu))

    @cached_property
    def costates(self) -> Function:
        """The multipliers at a plan: pi (N, nx) of the dynamics, and `first` of the first state."""

        def multipliers(**plan: Any) -> dict[str, Any]:
            qp = quadratic_program(self.problem, self.problem.values(), table(plan["states"]), table(plan["controls"]))
            duals = table(plan["duals"]) if "duals" in plan else ()
            pi, _, first = costates(qp, duals, plan.get("duals_end", ()))
            return {"pi": pi, "first": first}

        shapes: dict[str, Any] = {name: shape for name, shape in self.solver.plan_shapes.items() if name != "search"}
        return function(multipliers, **shapes)


def line_search(options: Any) -> int:
    """How many step lengths 1, 1/2, 1/4, ... there are down to the smallest one."""
    if options.globalization != "MERIT_BACKTRACKING":
        return 1
    least = options.globalization_alpha_min or options.alpha_min
    return 8 if not least else int(np.clip(2 + np.floor(np.log2(1.0 / least)), 2, 32))


def tolerances(options: Any) -> np.ndarray:
    """Those of stationarity, dynamics, inequalities and complementarity."""
    if options.tol is not None:
        return np.full(4, float(options.tol))
    return np.array([float(getattr(options, f"nlp_solver_tol_{name}")) for name in ("stat", "eq", "ineq", "comp")])


# ---- the problem


def make_problem(formulation: Formulation, structure: Structure, data: dict[str, np.ndarray]) -> Problem:
    """The Problem of condyle.methods.mpc."""
    N, step, terms = formulation.N, formulation.step, formulation.terms
    numbered = list(enumerate(terms))
    stage, end = [each for each in numbered if each[1].first < N], [each for each in numbered if each[1].first == N]
    staged = {name: value for name, value in data.items() if not name.endswith(("lower", "upper"))}
    if formulation.lm:
        staged["center"] = np.zeros((N + 1, formulation.nx + formulation.nu))
    residual, external = _Residual(tuple(stage), structure.full, formulation.lm), _External(tuple(stage))
    residual_end = _Residual(tuple(end), structure.full[sum(bool(t.ny) for _, t in stage) :], formulation.lm)
    external_end = _External(tuple(end))
    sizes = [r.size(formulation.nx, n) for r, n in ((residual, formulation.nu), (residual_end, 0))]
    made = ocp(
        lambda x, u, p: step(x, u, p.get("p", np.zeros(0)), p["dt"][0]),
        N=N,
        x=formulation.nx,
        u=formulation.nu,
        residual=residual.of_stage if sizes[0] else None,
        weights=np.ones(sizes[0]) if sizes[0] else None,
        cost=external.of_stage if external.terms or not sizes[0] else None,
        terminal_residual=residual_end.of_end if sizes[1] else None,
        terminal_weights=np.ones(sizes[1]) if sizes[1] else None,
        terminal_cost=external_end.of_end if external_end.terms else None,
        stage_parameters=staged,
    )
    groups, groups_end = split(formulation.groups, N)
    return replace(
        made,
        constraints=_constraints(groups, structure.rows, data.get("lower"), data.get("upper")),
        terminal_constraints=_constraints(groups_end, structure.rows_end, data.get("terminal_lower"), data.get("terminal_upper")),
    )


@dataclass(frozen=True)
class _Residual:
    """F (y - yref) of all least-squares terms, and the step from the last iterate of a Levenberg-Marquardt term."""

    terms: tuple[tuple[int, Term], ...]
    full: tuple[bool, ...]
    lm: float

    def size(self, nx: int, nu: int) -> int:
        return sum(term.ny for _, term in self.terms) + (nx + nu if self.lm else 0)

    def of_stage(self, x: Any, u: Any, p: Any) -> Any:
        return self._all(p, (x, u), np.concatenate([x, u]))

    def of_end(self, x: Any, p: Any) -> Any:
        return self._all(p, (x,), x)

    def _all(self, p: Any, at: tuple[Any, ...], z: Any) -> Any:
        found = []
        squares = [each for each in self.terms if each[1].ny]
        for (i, term), full in zip(squares, self.full, strict=False):
            e = term.value(*at, p.get("p", np.zeros(0))) - p[f"yref{i}"]
            F = p[f"W{i}"]
            found.append(F.reshape(term.ny, term.ny) @ e if full else F * e)
        if self.lm:
            # no gradient at the iterate, and lm times the time step on the diagonal of the Hessian
            found.append(np.sqrt(self.lm * p["dt"][0]) * (z - p["center"][: len(z)]))
        return array(np.concatenate(found))


@dataclass(frozen=True)
class _External:
    """The sum of the external costs, each times its scaling."""

    all_terms: tuple[tuple[int, Term], ...]

    @property
    def terms(self) -> list[tuple[int, Term]]:
        return [each for each in self.all_terms if not each[1].ny and each[1].value is not no_cost]

    def of_stage(self, x: Any, u: Any, p: Any) -> Any:
        return self._sum(p, x, u)

    def of_end(self, x: Any, p: Any) -> Any:
        return self._sum(p, x)

    def _sum(self, p: Any, *at: Any) -> Any:
        return sum((p[f"scale{i}"][0] * term.value(*at, p.get("p", np.zeros(0)))[0] for i, term in self.terms), 0.0 * at[0][0])


def _constraints(groups: list[Group], rows: tuple[BoundedValue, ...], lower: Any, upper: Any) -> Constraints:
    """The rows as constraints of a stage, or of the end."""
    picks, sides = [], []
    for k, row in enumerate(rows):
        group = groups[row.group]
        if group.space is not None:
            picks.append((k, group.space, group.entries[row.entry]))
        for sign, l1, l2 in row.sides[:1] if row.equality else row.sides:
            sides.append(Side(k, 1.0 if row.equality else sign, l1, l2, row.equality, group.space == 0))
    chosen = _Values(tuple(groups), tuple((row.group, row.entry) for row in rows if groups[row.group].space is None))
    names = tuple(f"{groups[row.group].field}[{row.entry}]" for row in rows)
    low, high = (_first_finite(bounds, len(rows)) for bounds in (lower, upper))
    return Constraints(names, tuple(picks), chosen if chosen.entries else None, (), low, high, tuple(sides))


@dataclass(frozen=True)
class _Values:
    """Entries of the functions of groups."""

    groups: tuple[Group, ...]
    entries: tuple[tuple[int, int], ...]

    def __call__(self, *args: Any) -> Any:
        *at, p = args
        parameters = p.get("p", np.zeros(0))
        values: dict[int, Any] = {}
        for g in dict.fromkeys(g for g, _ in self.entries):
            value = self.groups[g].value
            assert value is not None
            values[g] = value(*at, parameters)
        return array([values[g][entry] for g, entry in self.entries])


def _first_finite(bounds: Any, rows: int) -> np.ndarray:
    """One finite bound of each row that has some: which sides there are, not how far."""
    if not rows:
        return np.zeros(0)
    table_ = np.atleast_2d(bounds)
    picked = np.argmax(np.isfinite(table_), axis=0)
    return np.asarray(table_[picked, np.arange(rows)])
