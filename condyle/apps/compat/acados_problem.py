"""From acados' description to an optimal control problem of condyle.methods.mpc, and its numbers stage by stage.

The cost of stage k < N is multiplied by its time step (or cost_scaling[k]), slacks included; the last one by 1. Of a
least-squares cost, 1/2 |y - yref|_W^2, the weights W are given to the compiled solver as a factor F with F^T F = scaling W.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.apps.compat.acados_description import NO_BOUND, AcadosOcp, is_empty
from condyle.apps.compat.acados_integrators import model_function, parameter_values, step_of
from condyle.apps.compat.casadi_functions import is_expression
from condyle.errors import ControlError, ShapeError
from condyle.tape.array import array

COSTS = ("LINEAR_LS", "NONLINEAR_LS", "EXTERNAL")


@dataclass(frozen=True)
class Term:
    """A cost: y(x, u, p) of a least-squares cost with ny entries, or a number if ny is 0; of stages first to last."""

    value: Callable[..., Any]
    ny: int
    first: int
    last: int


@dataclass(frozen=True)
class Group:
    """Bounds of one kind: l{name} <= values <= u{name} in the stages first to last.

    `entries`: of x (space 0) or u (1); else `value` is a function. `slacks`: (entry, place in zl, zu, Zl, Zu of
    the first stage, and of others).
    """

    field: str
    space: int | None
    entries: tuple[int, ...]
    value: Callable[..., Any] | None
    first: int
    last: int
    slacks: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class BoundedValue:
    """One bounded value: its group and entry, whether both bounds are one, and (sign, l1, l2) of its sides."""

    group: int
    entry: int
    equality: bool
    sides: tuple[tuple[float, float, float], ...]


class Numbers:
    """All numbers of a problem, stage by stage; what the solver's set methods change."""

    def __init__(self, N: int, steps: np.ndarray, scaling: np.ndarray, p: np.ndarray) -> None:
        self.N, self.steps, self.scaling = N, steps, scaling
        self.p = np.tile(p, (N + 1, 1))
        self.yref: list[np.ndarray] = [np.zeros(0)] * (N + 1)
        self.W: list[np.ndarray] = [np.zeros((0, 0))] * (N + 1)
        self.bounds: list[dict[str, np.ndarray]] = [{} for _ in range(N + 1)]
        self.slack_weights: list[dict[str, np.ndarray]] = [{} for _ in range(N + 1)]


class Formulation:
    """A description as functions: dynamics, cost terms and groups of bounds; `problem` makes a Problem for given numbers."""

    def __init__(self, description: AcadosOcp) -> None:
        self.description, model = description, description.model
        options = description.solver_options
        self.nx, self.nu, self.np = model.sizes
        if not self.nx or not self.nu:
            raise ControlError("model.x and model.u are needed: CasADi symbols, or sizes")
        self.N, steps = time_grid(description)
        scaling = np.append(steps, 1.0) if options.cost_scaling is None else np.asarray(options.cost_scaling, dtype=float)
        if scaling.shape != (self.N + 1,):
            raise ShapeError(f"solver_options.cost_scaling has {self.N + 1} entries, one for each node; got {scaling.shape}")
        self.numbers = Numbers(self.N, steps, scaling, parameter_values(description))
        self.lm = float(options.levenberg_marquardt or 0.0)
        self.step = step_of(
            model, options.integrator_type, stages=options.sim_method_num_stages, steps=options.sim_method_num_steps,
            nodes=options.collocation_type,
        )  # fmt: skip
        self.terms = self._terms()
        self.groups = self._groups()

    # ---- costs

    def _terms(self) -> list[Term]:
        cost, N = self.description.cost, self.N
        stage = self._term("", 1, N - 1)
        if cost.cost_type_0 is None or self._same_first():
            stage = replace(stage, first=0)
        terms = [stage] if stage.first == 0 else [self._term("_0", 0, 0), stage]
        terms.append(self._term("_e", N, N))
        for term in terms:
            for k in range(term.first, term.last + 1):
                own = "_e" if k == N else "_0" if k == 0 and cost.cost_type_0 is not None else ""
                if term.ny:
                    self.numbers.yref[k] = _array(f"cost.yref{own}", getattr(cost, f"yref{own}"), (term.ny,), zeros=True)
                    self.numbers.W[k] = _array(f"cost.W{own}", getattr(cost, f"W{own}"), (term.ny, term.ny))
        if not any(term.ny for term in terms) and all(term.value is no_cost for term in terms):
            raise ControlError("the problem has no cost; give cost.W with Vx and Vu, or model.cost_y_expr or cost_expr_ext_cost")
        return terms

    def _term(self, suffix: str, first: int, last: int) -> Term:
        cost, model = self.description.cost, self.description.model
        kind, symbols = getattr(cost, f"cost_type{suffix}"), "x p" if suffix == "_e" else "x u p"
        if kind not in COSTS:
            raise ControlError(f"cost.cost_type{suffix} is one of {', '.join(COSTS)}; {kind!r:.60} is not supported")
        if kind == "LINEAR_LS":
            Vx, Vu = getattr(cost, f"Vx{suffix}"), None if suffix == "_e" else getattr(cost, f"Vu{suffix}")
            if is_empty(Vx) and is_empty(Vu):
                return Term(no_cost, 0, first, last)
            rows = len(np.asarray(Vu if is_empty(Vx) else Vx))
            Vx = _array(f"cost.Vx{suffix}", Vx, (rows, self.nx), zeros=True)
            Vu = _array(f"cost.Vu{suffix}", Vu, (rows, self.nu), zeros=True)
            return Term(_Linear(Vx, None if suffix == "_e" else Vu), rows, first, last)
        name = f"cost_y_expr{suffix}" if kind == "NONLINEAR_LS" else f"cost_expr_ext_cost{suffix}"
        if is_empty(getattr(model, name)):
            if suffix == "_e":
                return Term(no_cost, 0, first, last)
            raise ControlError(f"model.{name} is needed for cost.cost_type{suffix} = '{kind}'")
        value = model_function(model, name, symbols)
        size = 0 if kind == "EXTERNAL" else self._size(value, suffix == "_e")
        return Term(value, size, first, last)

    def _same_first(self) -> bool:
        """Whether the first node has the cost function of the others, with perhaps other weights."""
        cost, model = self.description.cost, self.description.model
        if cost.cost_type_0 != cost.cost_type:
            return False
        if cost.cost_type == "LINEAR_LS":
            return all(np.array_equal(getattr(cost, f"{V}_0"), getattr(cost, V)) for V in ("Vx", "Vu"))
        name = "cost_y_expr" if cost.cost_type == "NONLINEAR_LS" else "cost_expr_ext_cost"
        return _same(getattr(model, f"{name}_0"), getattr(model, name))

    def _size(self, value: Callable[..., Any], end: bool) -> int:
        from condyle.tape.trace import trace

        found = [0]

        def probe(**given: Any) -> dict[str, Any]:
            p = given.get("p", np.zeros(0))
            found[0] = len(value(given["x"], p) if end else value(given["x"], given["u"], p))
            return {"x": given["x"]}

        trace(probe, x=self.nx, u=self.nu, **({"p": self.np} if self.np else {}))
        return found[0]

    # ---- bounds

    def _groups(self) -> list[Group]:
        """Bounds of single entries first; those of the last node have the stage N."""
        given, model, N = self.description.constraints, self.description.model, self.N
        places = {"first": 0, "middle": 0, "end": 0}  # slacks of these stages so far
        groups = []
        for field, suffix, stages in (("bu", "", (0, N - 1)), ("bx", "", (1, N - 1)), ("bx", "_e", (N, N))):
            entries = getattr(given, f"idx{field}{suffix}")
            if is_empty(entries):
                continue
            entries = tuple(int(i) for i in np.ravel(entries))
            space = 1 if field == "bu" else 0
            if any(not 0 <= i < (self.nx, self.nu)[space] for i in entries):
                raise ControlError(f"constraints.idx{field}{suffix} counts entries of {'xu'[space]} from 0, got {list(entries)}")
            groups.append(self._group(field, suffix, space, entries, None, stages, places))
        for field, suffix, stages in (
            ("g", "", (0, N - 1)), ("h", "_0", (0, 0)), ("h", "", (1, N - 1)), ("g", "_e", (N, N)), ("h", "_e", (N, N)),
        ):  # fmt: skip
            if field == "g":
                if is_empty(getattr(given, f"C{suffix}")):
                    continue
                C = np.atleast_2d(np.asarray(getattr(given, f"C{suffix}"), dtype=float))
                D = None if suffix else _array("constraints.D", given.D, (len(C), self.nu), zeros=True)
                value: Callable[..., Any] = _Linear(_array(f"constraints.C{suffix}", C, (len(C), self.nx)), D)
                size = len(C)
            elif is_empty(getattr(model, f"con_h_expr{suffix}")):
                continue
            else:
                value = model_function(model, f"con_h_expr{suffix}", "x p" if suffix == "_e" else "x u p")
                size = self._size(value, suffix == "_e")
            groups.append(self._group(field, suffix, None, tuple(range(size)), value, stages, places))
        for k in range(N + 1):
            self._set_slack_weights(k, places["first" if k == 0 else "end" if k == N else "middle"])
        return groups

    def _group(
        self,
        field: str,
        suffix: str,
        space: int | None,
        entries: Any,
        value: Any,
        stages: tuple[int, int],
        places: dict[str, int],
    ) -> Group:
        given, size = self.description.constraints, len(entries)
        for bound in ("l", "u"):
            name = f"{bound}{field}{suffix}"
            limits = _array(f"constraints.{name}", getattr(given, name), (size,))
            for k in range(stages[0], stages[1] + 1):
                self.numbers.bounds[k][f"{bound}{field}"] = limits
        index: Any = getattr(given, f"idxs{field}{suffix}", None)
        soft = [] if is_empty(index) else [int(i) for i in np.ravel(index)]
        for name in (f"ls{field}{suffix}", f"us{field}{suffix}"):
            allowed: Any = getattr(given, name, None)
            if not is_empty(allowed) and np.any(np.asarray(allowed, dtype=float) != 0.0):
                raise ControlError(
                    f"constraints.{name}: bounds of slacks other than zero are not supported; move lower or upper bounds"
                )
        # a slack's place among those of its stage: in the first one there are no bounds of states
        kinds = (
            ["end"]
            if stages[0] == self.N
            else ["first"] * (stages[0] == 0) + ["middle"] * (stages[1] > 0 or field in ("bu", "g"))
        )
        slacks = tuple((i, places["first"] + j, places[kinds[-1]] + j) for j, i in enumerate(soft))
        for kind in kinds:
            places[kind] += len(soft)
        return Group(field, space, entries, value, *stages, slacks)

    def _set_slack_weights(self, k: int, size: int) -> None:
        cost = self.description.cost
        suffix = "_e" if k == self.N else ""
        for name in ("zl", "zu", "Zl", "Zu"):
            value = (
                getattr(cost, f"{name}_0") if k == 0 and getattr(cost, f"{name}_0") is not None else getattr(cost, name + suffix)
            )
            if size == 0:
                self.numbers.slack_weights[k][name] = np.zeros(0)
                continue
            value = np.zeros(size) if is_empty(value) else np.asarray(value, dtype=float)
            value = np.diag(value) if value.ndim == 2 else value.ravel()
            if len(value) < size or (k > 0 and len(value) != size):
                raise ShapeError(f"cost.{name}{suffix} has {len(value)} entries; there are {size} slacks in stage {k}")
            self.numbers.slack_weights[k][name] = value[:size]

    # ---- rows, and what the compiled solver depends on

    def rows(self, groups: list[Group], stages: range) -> tuple[tuple[BoundedValue, ...], np.ndarray, np.ndarray]:
        """(rows, lower, upper (stages, rows)): infinite where a stage has no such bound."""
        rows: list[BoundedValue] = []
        lowers: list[np.ndarray] = []
        uppers: list[np.ndarray] = []
        for g, group in enumerate(groups):
            for j in range(len(group.entries)):
                low, high = np.full(len(stages), -np.inf), np.full(len(stages), np.inf)
                for n, k in enumerate(stages):
                    if group.first <= k <= group.last:
                        low[n], high[n] = (self.numbers.bounds[k][f"{side}{group.field}"][j] for side in "lu")
                low, high = np.where(low <= -NO_BOUND, -np.inf, low), np.where(high >= NO_BOUND, np.inf, high)
                if (low > high).any():
                    k = stages[int(np.argmax(low > high))]
                    raise ControlError(
                        f"stage {k}: l{group.field}[{j}] = {low[low > high][0]:g} is above u{group.field}[{j}]; exchange them"
                    )
                place = next(((first, later) for i, first, later in group.slacks if i == j), None)
                fixed = (low == high) & (place is None)
                for equality in (True, False):
                    a, b = np.where(fixed == equality, low, -np.inf), np.where(fixed == equality, high, np.inf)
                    sides = self._sides(group, place, a, b)
                    if sides:
                        rows.append(BoundedValue(g, j, equality, sides))
                        lowers.append(a)
                        uppers.append(b)
        none = np.zeros((len(stages), 0))
        return tuple(rows), np.stack(lowers, axis=1) if rows else none, np.stack(uppers, axis=1) if rows else none

    def _sides(
        self, group: Group, place: tuple[int, int] | None, low: np.ndarray, high: np.ndarray
    ) -> tuple[tuple[float, float, float], ...]:
        found = []
        for sign, bound, letter in ((1.0, high, "u"), (-1.0, low, "l")):
            if not np.isfinite(bound).any():
                continue
            l1, l2 = 0.0, np.inf
            if place is not None:
                l1, l2 = (self._weight(f"{z}{letter}", group, place) for z in "zZ")
                if l1 <= 0.0 and l2 <= 0.0:
                    continue  # a slack that costs nothing
            found.append((sign, l1, l2))
        return tuple(found)

    def _weight(self, name: str, group: Group, place: tuple[int, int]) -> float:
        stages = range(group.first, group.last + 1)
        values = np.array([self.numbers.scaling[k] * self.numbers.slack_weights[k][name][place[min(k, 1)]] for k in stages])
        if not np.allclose(values, values[0], rtol=1e-9, atol=0.0):
            raise ControlError(
                f"the weights {name} of a slack, with the time steps, must be the same in all stages; "
                "use equal time steps, or cost_scaling with equal entries"
            )
        return float(values[0])

    def full_weights(self, term: Term) -> bool:
        """Whether some W of a term has entries beside its diagonal."""
        return any(np.any(np.diag(np.diag(W)) != W) for W in self.numbers.W[term.first : term.last + 1])


@dataclass(frozen=True)
class _Linear:
    """Vx x + Vu u."""

    Vx: np.ndarray
    Vu: np.ndarray | None

    def __call__(self, x: Any, *rest: Any) -> Any:
        found = array(self.Vx @ x)
        return found if self.Vu is None else found + array(self.Vu @ rest[0])


def no_cost(*_: Any) -> Any:
    """Zero: where a description leaves a cost out."""
    return array(np.zeros(1))


def _same(a: Any, b: Any) -> bool:
    """Whether two attributes of a model are one function."""
    if a is b:
        return True
    if is_expression(a) and is_expression(b) and type(a) is type(b) and a.shape == b.shape:
        import casadi

        return bool(casadi.is_equal(a, b, 1000))
    return False


def _array(name: str, value: Any, shape: tuple[int, ...], *, zeros: bool = False) -> np.ndarray:
    """Numbers of a given shape."""
    if zeros and is_empty(value):
        return np.zeros(shape)
    try:
        found = np.asarray([] if value is None else value, dtype=float)
    except (TypeError, ValueError):
        raise ControlError(f"{name} must be an array of numbers of shape {shape}, got {value!r:.60}") from None
    if len(shape) == 1:
        found = np.atleast_1d(found).ravel()
    if found.shape != shape:
        raise ShapeError(f"{name} has shape {found.shape}, expected {shape}")
    if np.isnan(found).any():
        raise ControlError(f"{name} has a NaN; an entry of size 1e10 or more is no bound")
    return found


def time_grid(description: AcadosOcp) -> tuple[int, np.ndarray]:
    """(N, the lengths of the intervals)."""
    options = description.solver_options
    N = options.N_horizon if options.N_horizon is not None else description.dims.N
    if N is None or isinstance(N, bool) or not isinstance(N, (int, np.integer)) or N < 1:
        raise ControlError(f"solver_options.N_horizon is needed: the number of intervals, 1 or more; got {N!r:.40}")
    if not is_empty(options.shooting_nodes):
        steps = np.diff(np.asarray(options.shooting_nodes, dtype=float))
    elif not is_empty(options.time_steps):
        steps = np.asarray(options.time_steps, dtype=float).ravel()
    elif options.tf is None:
        raise ControlError("solver_options.tf is needed: the length of the horizon in seconds")
    else:
        steps = np.full(int(N), float(options.tf) / int(N))
    if steps.shape != (N,) or not (steps > 0.0).all():
        raise ControlError(f"solver_options.time_steps are N = {N} positive numbers, got {steps.shape} of them: {steps!r:.60}")
    return int(N), steps
