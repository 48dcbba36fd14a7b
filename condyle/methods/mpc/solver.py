"""Solvers as compiled functions: a state and the last plan in, a control and the next plan out. Nothing is kept between calls.

    solver = problem.rti()
    plan = solver.start(x)
    found = solver(x, plan, reference=r)        # found.u, found.plan, found.status, ...

`solver.function` is the condyle.Function: batch it, export it, differentiate it, call it inside of another trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from condyle.errors import ControlError, ShapeError
from condyle.methods.mpc.problem import Problem
from condyle.tape.array import isfinite, where
from condyle.tape.cache import shared_cache
from condyle.tape.compose import any_traced
from condyle.tape.device import beside, host, joined, on_device, repeated
from condyle.tape.function import Function
from condyle.tape.layout import weight
from condyle.tape.loop import map_rows, scan
from condyle.tape.parameter import Parameter
from condyle.tape.passes import lower
from condyle.tape.table import Table, empty_table, table
from condyle.tape.trace_cache import traced_function

CONVERGED, STOPPED, FAILED = 0.0, 1.0, 2.0
SENTENCES = {
    0: "converged",
    1: "stopped at its limit of iterations",
    2: "failed: a number is not finite; the last plan is kept",
}
LANES_INSIDE = 9000  # operations of a kernel of one lane: of a longer one whose loops run across lanes, LLVM makes no end
RESIDUALS = ("stationarity", "dynamics", "inequality", "complementarity")

Plan = dict[str, Any]


@dataclass(frozen=True)
class Solution:
    """What a solver found, for one state or a batch.

    `u`: the first control. `plan`: trajectory and multipliers, for the next call. `status`: 0 converged, 1 stopped at the limit
    of iterations, 2 failed, and then u and plan are those of the last plan. `residuals`: of the optimality conditions, by name.
    """

    u: Any
    plan: Plan
    status: Any
    iterations: Any
    residuals: dict[str, Any]
    cost: Any
    nx: int

    @property
    def states(self) -> Any:
        """The predicted states (..., N + 1, nx)."""
        return self.plan["states"][..., : self.nx]

    @property
    def controls(self) -> Any:
        """The planned controls (..., N, nu); with move blocking those that act, which are a part of the next states."""
        states = self.plan.get("states")
        return self.plan["controls"] if states is None or states.shape[-1] == self.nx else states[..., 1:, self.nx :]

    @property
    def ok(self) -> Any:
        """Whether the plan is a new one: converged, or stopped at the limit of iterations."""
        return self.status < FAILED

    @property
    def message(self) -> str:
        """One sentence about the worst status; it waits for a GPU."""
        worst = int(np.max(host(self.status)))
        if worst != STOPPED:
            return f"the solver {SENTENCES[worst]}"
        exceeded = float(np.max(host(self.residuals.get("inequality", 0.0))))
        if exceeded > 1e-3:
            return (
                f"the solver {SENTENCES[worst]}, with bounds exceeded by {exceeded:.3g}: hard bounds may be impossible to meet, "
                "so make those of states soft; or their functions are curved, and sqp(hessian='exact') converges"
            )
        name, value = max(((k, float(np.max(host(v)))) for k, v in self.residuals.items()), key=lambda pair: pair[1])
        return f"the solver {SENTENCES[worst]}; the largest residual is {name}, {value:.2g}"


class Solver:
    """A problem with a method. Subclasses define `plan_shapes`, `initial_plan` and `record`, what is traced."""

    def __init__(self, problem: Problem, *, name: str) -> None:
        self.problem, self.name = problem, name

    # ---- what a method defines

    @property
    def plan_shapes(self) -> dict[str, tuple[int, ...]]:
        """The arrays of a plan: "states" (N + 1, nx), "controls" (N, nu), and what else is carried from call to call."""
        raise NotImplementedError

    def initial_plan(self, x: np.ndarray, controls: np.ndarray) -> Plan:
        """The arrays of a plan that stays at x (..., nx), with controls (..., N, nu)."""
        raise NotImplementedError

    def record(self, x0: Any, plan: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        """Inside of a trace: {"u", "status", "iterations", "cost", the residuals, and the arrays of the next plan}."""
        raise NotImplementedError

    differentiable = False  # whether there is a form of its own whose derivatives are those of the solution

    def record_differentiable(self, x0: Any, plan: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        """Inside of a trace: the same outputs, with the derivatives of the solution."""
        raise NotImplementedError

    # ---- what users call

    @property
    def data(self) -> dict[str, Parameter]:
        """All that may be given with a solve, with defaults."""
        return self.problem.data

    @cached_property
    def function(self) -> Function:
        """The compiled function of x0 and the arrays of a plan, with the data of the problem as parameters."""
        return self._function()

    @cached_property
    def _one_state(self) -> Function:
        """The function with its lanes inside of one problem, columns of matrices and stages, where LLVM can compile that."""
        tape = self.function.tape
        stored = shared_cache().found(f"weight {tape.hash}", lambda: str(weight(lower(tape, "f64").block)).encode())
        return self.function.on("cpu", lanes=1) if int(stored) <= LANES_INSIDE else self.function

    def compile(self) -> None:
        """Compile the kernel for one state now, and not with the first call."""
        self._one_state.kernel().compile_for(1)

    def start(self, x: Any, u: Any = None) -> Plan:
        """A plan that stays at the state x (..., nx): where a first solve starts.

        `u`: the control (..., nu) of all stages, zero by default; or with one axis more than x, the controls (..., N, nu).
        """
        x = x if on_device((x,)) else np.asarray(x, dtype=float)
        N, nu = self.problem.N, self.problem.nu
        if tuple(x.shape[-1:]) != (self.problem.nx_given,):
            raise ShapeError(f"start: x has shape {tuple(x.shape)}, expected (..., {self.problem.nx_given})")
        u = beside(x, np.zeros(nu) if u is None else u)
        lead, staged = tuple(x.shape[:-1]), u.ndim > x.ndim
        wanted = (*lead, N, nu) if staged else (*lead, nu)
        if u.ndim < 1 or tuple(u.shape) != wanted[-u.ndim :]:
            raise ShapeError(
                f"start: u has shape {tuple(u.shape)}; for x of shape {tuple(x.shape)} it is one control, ({nu},), "
                f"one for each x, {(*lead, nu)}, or those of all stages, {(*lead, N, nu)}"
            )
        controls = u if staged else repeated(repeated(u, (*lead, nu))[..., None, :], (*lead, N, nu))
        x = repeated(beside(u, x), x.shape)
        return self.initial_plan(x if self.problem.repeats is None else joined([x, controls[..., 0, :]], -1), controls)

    def __call__(self, x: Any, plan: Mapping[str, Any] | None = None, **data: Any) -> Solution:
        """Solve from the state x and the last plan, `start(x)` by default; `data`: of the problem, what is not the default."""
        return self.solution(self.outputs(x, plan, **data))

    def outputs(self, x: Any, plan: Mapping[str, Any] | None = None, **data: Any) -> Any:
        """What the compiled function gives, which a solution is made of."""
        arrays = self._plan_arrays(x, plan)
        if not any_traced((x, *arrays)):
            data = {name: self._checked(name, value) for name, value in data.items()}
        call = self.function
        if np.ndim(x) == 1 and not any_traced((x, *arrays)) and not on_device((x, *arrays, *data.values())):
            call = self._one_state
        return call(x, *arrays, **data)

    def _plan_arrays(self, x: Any, plan: Mapping[str, Any] | None) -> list[Any]:
        if plan is None:
            if any_traced((x,)):
                raise ControlError(f"inside of a trace {self.name} needs a plan; {self.name}.start(x) of numbers makes one")
            plan = self.start(x)
        missing = [name for name in self.plan_shapes if name not in plan]
        if missing:
            raise ControlError(f"the plan has no '{missing[0]}'; plans are made by {self.name}.start(x) and by the solver itself")
        return [plan[name] for name in self.plan_shapes]

    def solution(self, found: Any) -> Solution:
        """The outputs of the function as a solution."""
        return Solution(
            found.u,
            {name: getattr(found, name) for name in self.plan_shapes},
            as_integers(found.status),
            as_integers(found.iterations),
            {name: getattr(found, name) for name in RESIDUALS if hasattr(found, name)},
            found.cost,
            self.problem.nx_given,
        )

    def shifted(self, plan: Plan) -> Plan:
        """The plan one interval later: each array moved up by one stage, the last one repeated."""
        N = self.problem.N
        moved = {}
        for name, shape in self.plan_shapes.items():
            array: Any = plan[name] if on_device((plan[name],)) else np.asarray(plan[name])
            if shape and shape[0] in (N, N + 1) and len(shape) > 1:
                within: Any = (slice(None),) * (len(shape) - 1)
                parts = [array[(..., rows, *within)] for rows in (slice(1, None), slice(shape[0] - 1, None))]
                array = joined(parts, array.ndim - len(shape))
            moved[name] = array
        return moved

    def first_state(self, x0: Any, plan: dict[str, Any]) -> Any:
        """The first state of the problem; where it has the control before, any control: the first interval repeats none."""
        return x0 if self.problem.repeats is None else np.concatenate([x0, plan["controls"][0]])

    def _function(self) -> Function:
        shapes: dict[str, Any] = {"x0": self.problem.nx_given, **self.plan_shapes}

        def traced(x0: Any, **plan: Any) -> dict[str, Any]:
            return self.record(self.first_state(x0, plan), plan, self.problem.values())

        def solution(x0: Any, **plan: Any) -> dict[str, Any]:
            return self.record_differentiable(self.first_state(x0, plan), plan, self.problem.values())

        traced.__name__ = self.name
        tape = traced_function(traced, shapes)
        if not self.differentiable:
            return Function(tape, label=self.name)
        return Function(tape, differentiable=lambda: traced_function(solution, shapes), label=self.name)

    def _checked(self, name: str, value: Any) -> Any:
        """The value of one datum, in its full shape: one reference or bound may stand for all stages."""
        data = self.data
        if name not in data:
            known = ", ".join(data) or "none"
            raise ControlError(f"the problem has no data '{name}'; it has {known}")
        shape, there = data[name].shape, on_device((value,))
        try:
            array = value if there else np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            raise ControlError(f"{name} must be an array of numbers of shape {shape}, got {value!r:.60}") from None
        if len(shape) in (1, 2) and tuple(array.shape) == shape[1:]:
            array = repeated(array, shape)
        given = tuple(array.shape)
        if given[len(given) - len(shape) :] != shape:
            raise ShapeError(f"{name} has shape {given}, expected {shape}, or a batch (..., {', '.join(map(str, shape))})")
        if there:
            return array  # nothing waits for its numbers
        if name in ("lower", "upper", "terminal_lower", "terminal_upper"):
            self._check_bounds(name, array)
        elif not np.isfinite(array).all():
            raise ControlError(f"{name} must be finite; got a NaN or an infinite entry")
        return array

    def _check_bounds(self, name: str, array: np.ndarray) -> None:
        if np.isnan(array).any():
            raise ControlError(f"{name} has a NaN; an infinite bound is no bound")
        h = self.problem.terminal_constraints if name.startswith("terminal") else self.problem.constraints
        default = h.upper if name.endswith("upper") else h.lower
        free = ~np.isfinite(default) & np.isfinite(array).reshape(-1, h.rows).any(axis=0)
        if free.any():
            row = h.names[int(np.flatnonzero(free)[0])]
            raise ControlError(
                f"{name}: '{row}' has no such bound in the problem; give it one there, large if it matters later only"
            )

    def trace_data(self) -> tuple[Any, ...]:
        """All that a trace which uses the solver depends on."""
        return type(self).__name__, self.name, self.problem, *self.options()

    def options(self) -> tuple[Any, ...]:
        """Options of the method, by value."""
        return ()

    def __getstate__(self) -> dict[str, Any]:
        """Problem and options; compiled functions come again from the cache."""
        cached = {name for kind in type(self).__mro__ for name, value in vars(kind).items() if isinstance(value, cached_property)}
        return {name: value for name, value in vars(self).items() if name not in cached}

    def __repr__(self) -> str:
        return f"<{self.name} of {self.problem!r}>"


def as_integers(numbers: Any) -> Any:
    """Numbers as integers; traced ones, and those on a GPU, as they are."""
    if any_traced((numbers,)) or on_device((numbers,)):
        return numbers
    found = np.asarray(numbers).astype(int)
    return found if found.ndim else int(found)


# ---- inside of a trace


def keep_if_failed(x0: Any, found: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """The results, or the last plan where the state, the new control or the trajectory is not finite."""
    start = sum(x0, 0.0) + sum(found["u"], 0.0)
    total = scan(lambda _, total, row: (total + sum(row, 0.0), None), start, table(found["states"]))[0]
    total = scan(lambda _, total, row: (total + sum(row, 0.0), None), total, table(found["controls"]))[0]
    ok = isfinite(total) & (found["status"] < FAILED)
    kept = {}
    for name, old in plan.items():
        new = found[name]
        if isinstance(new, Table):
            kept[name] = map_rows(lambda a, b: where(ok, a, b), new, table(old)).shaped(new.shape)
        else:
            kept[name] = where(ok, new, old)
    u = where(ok, found["u"], plan["controls"][0])
    return found | kept | {"u": u, "status": where(ok, found["status"], FAILED)}


def path_table(rows: Table, last: Any) -> Table:
    """A table (N + 1, n) of N rows and a last one."""
    N, n = rows.shape

    def body(k: Any, found: Table, row: Any) -> Any:
        for i in range(n):
            found = found.with_entry(row[i], 0, i, k)
        return found, None

    found: Table = scan(body, empty_table((N + 1, n)), rows)[0]
    for i in range(n):
        found = found.with_entry(last[i], N, i)
    return found
