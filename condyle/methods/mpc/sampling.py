"""Sampling model-predictive control: MPPI (Williams et al. 2017) and predictive sampling (Howell et al. 2022).

Each sample rolls out the last plan with noise on its controls and sums up its cost inside of the kernel; one number per sample
leaves it. Noise is a function of (seed, sample, tick, knot), see condyle.random, so it is made again where it is needed, and
plans have the same bits whatever the threads and lanes. A sample that is not finite, or whose simulation does not converge, has
no weight. Bounds on controls clip; those on states, and of functions, cost as soft ones do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.mpc.constraints import Constraints, Side
from condyle.methods.mpc.problem import Problem
from condyle.methods.mpc.solver import CONVERGED, FAILED, Plan, Solution, Solver, as_integers
from condyle.methods.mpc.splines import SPLINES, Basis, basis, repeated_basis
from condyle.tape import random
from condyle.tape.array import array, isfinite, where
from condyle.tape.compose import any_traced
from condyle.tape.device import DTYPES, beside, cast, on_device, placed_alike, precision_of, repeated
from condyle.tape.function import Function, function
from condyle.tape.loop import loop, scan
from condyle.tape.parameter import Parameter, parameter
from condyle.tape.table import Table, table
from condyle.tape.trace import Rows

MOST_SAMPLES = 2**20


@dataclass(frozen=True)
class SampledSolution(Solution):
    """The solution of a sampling method. `cost`: the least one of all samples; status 0, or 2 if no sample was finite.

    `nominal_cost`: of the last plan, which is sample 0. `finite`: how many samples have a finite cost. `effective`: how many
    samples the new plan is made of, (sum w)^2 / sum w^2.
    """

    nominal_cost: Any = None
    finite: Any = None
    effective: Any = None


class Sampling(Solver):
    """What sampling methods share: the rollouts, and a plan of controls and of a tick, which counts the draws of noise.

    `rollout`: the compiled function (x0, controls, tick, sample) -> cost, called with all samples as its batch, on all threads.
    `update`: (controls, tick, costs) -> the next plan. `function` holds both in one kernel, with a loop over the samples.

    `samples`: rollouts of each draw. `noise`: standard deviation of the controls, one number or one per control. `knots`: how
    many points of a `spline` ("hold", "linear", "cubic") make the noise of a horizon; one for each control by default.
    `iterations`: draws of each call. `penalty`: weight of the square of what hard bounds of states and functions are exceeded by.
    `precision`: of the rollouts, "float64" or "float32", which is faster; the update is in that of state and plan. `threads`: for
    the rollouts, all by default. `noise` and `seed` may be given with each solve, too.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        name: str,
        samples: int,
        noise: Any,
        knots: int | None,
        spline: str,
        iterations: int,
        seed: int,
        penalty: float,
        precision: str,
        threads: int | None,
    ) -> None:
        super().__init__(problem, name=name)
        if precision not in ("float64", "float32"):
            raise ControlError(f"precision must be 'float64' or 'float32', got {precision!r:.40}")
        self.precision = np.dtype(precision)
        self.samples = _integer("samples", samples, 2, MOST_SAMPLES)
        self.iterations = _integer("iterations", iterations, 1, 1000)
        self.knots = None if knots is None else _integer("knots", knots, 1, problem.N)
        if spline not in SPLINES:
            raise ControlError(f"spline must be one of {', '.join(SPLINES)}, got {spline!r:.40}")
        if self.knots is not None and problem.repeats is not None:
            raise ControlError(
                "knots: the problem has move_blocking, which says where the controls change; leave out one of both"
            )
        if not isinstance(penalty, (int, float)) or not (np.isfinite(penalty) and penalty >= 0.0):
            raise ControlError(f"penalty must be a finite number that is not negative, got {penalty!r:.40}")
        self.spline, self.penalty, self.threads = spline, float(penalty), threads
        self.seed = _integer("seed", seed, 0, 2**53)
        self.noise = _deviations(noise, problem.nu)
        taken = [name for name in self.own_data if name in problem.data]
        if taken:
            raise ControlError(f"the problem has a parameter '{taken[0]}', which is the name of an option of {name}; rename it")

    def options(self) -> tuple[Any, ...]:
        """Options of the method, by value."""
        return self.samples, self.iterations, self.knots, self.spline, self.penalty, self.own_data

    @property
    def own_data(self) -> dict[str, Parameter]:
        """What of the method may be given with a solve."""
        return {"noise": parameter("noise", self.noise), "seed": parameter("seed", self.seed)}

    @cached_property
    def data(self) -> dict[str, Parameter]:
        """All that may be given with a solve."""
        return self.problem.data | self.own_data

    @property
    def plan_shapes(self) -> dict[str, tuple[int, ...]]:
        """Controls, and the number of draws so far."""
        return {"controls": (self.problem.N, self.problem.nu), "tick": ()}

    def initial_plan(self, x: np.ndarray, controls: np.ndarray) -> Plan:
        """The controls, and no draw."""
        return {"controls": controls, "tick": repeated(beside(controls, 0.0), x.shape[:-1])}

    @cached_property
    def basis(self) -> Basis:
        """How knots of noise become noise of controls."""
        if self.problem.repeats is not None:
            return repeated_basis(self.problem.repeats)
        return basis(self.problem.N, self.knots or self.problem.N, self.spline)

    # ---- what users call

    def __call__(self, x: Any, plan: Mapping[str, Any] | None = None, **data: Any) -> Solution:
        """`iterations` updates of the plan, `start(x)` by default, from the state x; `data`: what is not the default."""
        arrays = self._plan_arrays(x, plan)
        if any_traced((x, *arrays)):
            return self.solution(self.function(x, *arrays, **data))
        given = {name: self._checked(name, value) for name, value in data.items()}
        both = {"x0": x, **dict(zip(self.plan_shapes, arrays, strict=True)), **given}
        both = placed_alike({name: v if on_device((v,)) else np.asarray(v) for name, v in both.items()})
        precision = "f32" if all(precision_of(both[name]) == "f32" for name in ("x0", "controls")) else "f64"
        x, controls, tick, *rest = [cast(value, precision) for value in both.values()]
        given = dict(zip(given, rest, strict=True))
        # one more batch axis: the samples
        inner = "f32" if self.precision == np.float32 else precision
        axes = {name: (..., None, *[slice(None)] * len(self.data[name].shape)) for name in given}
        spread = {name: cast(v[axes[name]], inner) for name, v in given.items()}
        samples = np.arange(self.samples, dtype=DTYPES[inner])
        rollout, one = self.rollout, x.ndim == 1 and precision == "f64" and not on_device((x,))
        update = self._update_one if one else self.update
        for _ in range(self.iterations):
            moved = [cast(a, inner) for a in (x[..., None, :], controls[..., None, :, :], tick[..., None])]
            costs = rollout(*moved, samples, **{k: v for k, v in spread.items() if k in rollout.parameters})
            used = {k: v for k, v in given.items() if k in update.parameters}
            found = update(controls, tick, cast(costs, precision), **used)
            controls, tick = found.controls, cast(found.tick, precision)
        return self.solution(found)

    def solution(self, found: Any) -> Solution:
        """The outputs of the function as a solution."""
        plan = {"controls": found.controls, "tick": found.tick}
        own = {name: getattr(found, name) for name in ("nominal_cost", "finite", "effective")}
        return SampledSolution(
            found.u, plan, as_integers(found.status), as_integers(found.iterations), {}, found.cost, self.problem.nx_given, **own
        )

    def trajectory(self, x: Any, plan: Mapping[str, Any], **data: Any) -> Any:
        """The states (..., N + 1, nx) that a plan predicts from the state x."""
        given = {name: self._checked(name, value) for name, value in data.items()}
        return self._trajectory(x, plan["controls"], **given)[..., : self.problem.nx_given]

    def compile(self) -> None:
        """Compile the kernels for one state now, and not with the first call."""
        self.rollout.kernel("f32" if self.precision == np.float32 else "f64").compile_for(self.samples)
        self._update_one.kernel().compile_for(1)

    @cached_property
    def rollout(self) -> Function:
        """(x0, controls, tick, sample) -> cost of a sample; not finite for one that fails."""

        def rollout(x0: Any, controls: Any, tick: Any, sample: Any) -> dict[str, Any]:
            x = self.first_state(x0, {"controls": controls})
            return {"cost": self._cost(x, controls, tick, sample, self._values())}

        shapes: dict[str, Any] = {"controls": Rows(self.problem.N, self.problem.nu), "tick": (), "sample": ()}
        return function(rollout, x0=self.problem.nx_given, **shapes).on("cpu", threads=self.threads)

    @cached_property
    def update(self) -> Function:
        """(controls, tick, costs) -> u, the next controls and tick, status and cost."""

        def update(controls: Any, tick: Any, costs: Any) -> dict[str, Any]:
            return self._updated(table(controls), tick, costs, self._values())

        shapes: dict[str, Any] = {"controls": Rows(self.problem.N, self.problem.nu), "tick": (), "costs": Rows(self.samples)}
        return function(update, **shapes)

    @cached_property
    def _update_one(self) -> Function:
        return self.update.on("cpu", lanes=1)

    @cached_property
    def _trajectory(self) -> Function:
        p = self.problem

        def trajectory(x0: Any, controls: Any) -> dict[str, Any]:
            from condyle.methods.mpc.solver import path_table

            values = self._values()

            def body(k: Any, x: Any, u: Any) -> Any:
                return p.dynamics.step(x, u, p.p(values, k), self._interval(values, k)), x

            last, rows = scan(body, self.first_state(x0, {"controls": controls}), controls)
            return {"states": path_table(rows, last)}

        return function(trajectory, x0=p.nx_given, controls=Rows(p.N, p.nu))

    # ---- inside of a trace

    def record(self, x0: Any, plan: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        """All in one kernel."""
        values = self._values()
        controls, tick = table(plan["controls"]), plan["tick"]

        def once(controls: Table, tick: Any) -> dict[str, Any]:
            def sample(s: Any, _: Any, __: Any) -> Any:
                return _, array([self._cost(x0, controls, tick, s, values)])

            costs = scan(sample, (), count=self.samples)[1].shaped((self.samples,))
            return self._updated(controls, tick, costs, values)

        if self.iterations == 1:
            return once(controls, tick)
        start: dict[str, Any] = dict.fromkeys(("status", "cost", "nominal_cost", "finite", "effective", "iterations"), 0.0)
        start |= {"u": np.zeros(self.problem.nu), "controls": controls, "tick": tick}

        def draw(_: Any, state: dict[str, Any]) -> dict[str, Any]:
            found = once(state["controls"], state["tick"])
            return {name: found[name] for name in state}

        found: dict[str, Any] = loop(draw, start, self.iterations)
        return found

    def _values(self) -> dict[str, Any]:
        return self.problem.values() | {name: p.resolve() for name, p in self.own_data.items()}

    def _interval(self, values: dict[str, Any], k: Any) -> Any:
        return table(values["dt"])[k] if self.problem.intervals is not None else None

    def _noise(self, tick: Any, sample: Any, knot: Any, seed: Any) -> Any:
        """The normal numbers of a knot; none for sample 0, which is the last plan as it is."""
        z = random.normal(seed, sample, tick, knot, shape=self.problem.nu)
        return array([where(sample > 0.5, e, 0.0) for e in z])

    def _cost(self, x0: Any, controls: Table, tick: Any, sample: Any, values: dict[str, Any]) -> Any:
        """The cost of one sample, infinite if its simulation does not converge or ends at a state that is not finite."""
        problem, seed = self.problem, values["seed"]
        stages = {name: table(values[name]) for name in ("reference", "lower", "upper") if name in values}
        each = self.basis.first is None
        knots = None if each else scan(lambda j, _, __: (_, self._noise(tick, sample, j, seed)), (), count=self.basis.knots)[1]

        def stage(k: Any, state: Any, row: Any) -> Any:
            x, total, failed = state
            p = problem.p(values, k)
            e = self._noise(tick, sample, k, seed) if each else self._between(knots, row)
            base = row[0] if problem.repeats is None else controls[row[1][1]]
            r = stages["reference"][k] if problem.nr else None
            low, high = (stages["lower"][k], stages["upper"][k]) if problem.constraints.rows else (None, None)
            u = self._clipped(base + values["noise"] * e, low, high)
            total = total + problem.stage_cost.value(x, u, r, p, values.get("weights"))
            total = total + self._exceeded(problem.constraints, x, u, p, low, high, np.minimum(k, 1.0))
            x1, ok = problem.dynamics.checked_step(x, u, p, self._interval(values, k))
            return (x1, total, where(ok, failed, 1.0) if ok is not True else failed), None

        (x, total, failed), _ = scan(stage, (x0, 0.0, 0.0), self._rows(controls))
        r, p = stages["reference"][problem.N] if problem.nr else None, problem.p(values, problem.N)
        total = total + problem.terminal_cost.value(x, None, r, p, values.get("terminal_weights"))
        low, high = values.get("terminal_lower"), values.get("terminal_upper")
        total = total + self._exceeded(problem.terminal_constraints, x, None, p, low, high, 1.0)
        # a sum is finite only if all its terms are
        return where((failed < 0.5) & isfinite(sum(x, 0.0)), total, np.inf)

    def _rows(self, controls: Table) -> tuple[Any, ...]:
        """What a stage reads: its control, and (first knot, first interval with this control, weights of the knots)."""
        if self.basis.first is None:
            return (controls,)
        places = np.stack([self.basis.first, self.basis.start], axis=1)
        return (controls, np.concatenate([places, self.basis.weights], axis=1))

    def _between(self, knots: Any, row: Any) -> Any:
        """Noise of a stage out of the knots around it."""
        e: Any = 0.0
        for tap in range(self.basis.weights.shape[1]):
            z = knots[row[1][0] + float(tap)]
            e = z if self.basis.repeats else e + row[1][2 + tap] * z
        return e

    def _clipped(self, u: Any, low: Any, high: Any) -> Any:
        """The control within its bounds."""
        u = list(u)
        for row, space, entry in self.problem.constraints.picks:
            if space == 1:
                u[entry] = np.minimum(np.maximum(u[entry], low[row]), high[row])
        return array(u)

    def _exceeded(self, h: Constraints, x: Any, u: Any, p: Any, low: Any, high: Any, later: Any) -> Any:
        """What the sides cost; `later`: 0 in the first stage, where there is nothing to decide about the state."""
        clipped = {row for row, space, _ in h.picks if space == 1}
        sides = [side for side in h.sides if side.row not in clipped]
        if not sides:
            return 0.0
        values, total = h.values(x, u, p), 0.0
        for side in sides:
            cost = self._side_cost(side, values[side.row], high[side.row] if side.sign > 0.0 else low[side.row])
            total = total + (later * cost if side.of_state else cost)
        return total

    def _side_cost(self, side: Side, value: Any, bound: Any) -> Any:
        if side.equality:
            return (0.5 * self.penalty) * (value - bound) ** 2
        e = np.maximum(value - bound if side.sign > 0.0 else bound - value, 0.0)
        return (side.l1 + (0.5 * (self.penalty if np.isinf(side.l2) else side.l2)) * e) * e

    def _updated(self, controls: Table, tick: Any, costs: Table, values: dict[str, Any]) -> dict[str, Any]:
        """The next plan, from the costs of all samples."""
        problem, N = self.problem, self.problem.N
        each = self.basis.first is None

        def smallest(s: Any, state: Any, cost: Any) -> Any:
            least, best, finite = state
            better = isfinite(cost) & (cost < least)
            return (where(better, cost, least), where(better, s, best), finite + where(isfinite(cost), 1.0, 0.0)), None

        (least, best, finite), _ = scan(smallest, (np.inf, 0.0, 0.0), costs)
        ok = finite > 0.5
        changes, effective = self._changes(tick, costs, least, best, values)
        bounds = {name: table(values[name]) for name in ("lower", "upper")} if problem.constraints.rows else {}

        def stage(k: Any, _: Any, row: Any) -> Any:
            e = changes[k] if each else self._between(changes, row)
            base = row[0] if problem.repeats is None else controls[row[1][1]]
            low, high = (bounds["lower"][k], bounds["upper"][k]) if bounds else (None, None)
            return _, where(ok, self._clipped(base + values["noise"] * e, low, high), row[0])

        new = scan(stage, (), self._rows(controls))[1].shaped((N, problem.nu))
        return {
            "u": new[0],
            "controls": new,
            "tick": tick + 1.0,
            "status": where(ok, CONVERGED, FAILED),
            "iterations": float(self.iterations),
            "cost": least,
            "nominal_cost": costs[0],
            "finite": finite,
            "effective": effective,
        }

    def _changes(self, tick: Any, costs: Table, least: Any, best: Any, values: dict[str, Any]) -> tuple[Table, Any]:
        """(the change of the plan at each knot, in standard deviations; how many samples it is made of)."""
        raise NotImplementedError


class PredictiveSampling(Sampling):
    """The best sample becomes the plan (Howell et al. 2022); the last plan is among them, so the cost never grows."""

    def __init__(
        self,
        problem: Problem,
        *,
        samples: int = 256,
        noise: Any = 1.0,
        knots: int | None = None,
        spline: str = "linear",
        iterations: int = 1,
        seed: int = 0,
        penalty: float = 1e4,
        precision: str = "float64",
        threads: int | None = None,
    ) -> None:
        super().__init__(
            problem, name="predictive_sampling", samples=samples, noise=noise, knots=knots, spline=spline,
            iterations=iterations, seed=seed, penalty=penalty, precision=precision, threads=threads,
        )  # fmt: skip

    def _changes(self, tick: Any, costs: Table, least: Any, best: Any, values: dict[str, Any]) -> tuple[Table, Any]:
        noise = scan(lambda j, _, __: (_, self._noise(tick, best, j, values["seed"])), (), count=self.basis.knots)[1]
        return noise, 1.0


class MPPI(Sampling):
    """Model-predictive path integral control: the mean of the samples, weighted by exp(-(cost - least cost) / temperature).

    `temperature`: in units of the cost; it may be given with each solve. `elites`: how many of the best samples have a weight,
    all by default.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        samples: int = 1024,
        temperature: float = 1.0,
        noise: Any = 1.0,
        knots: int | None = None,
        spline: str = "linear",
        elites: int | None = None,
        iterations: int = 1,
        seed: int = 0,
        penalty: float = 1e4,
        precision: str = "float64",
        threads: int | None = None,
    ) -> None:
        if not isinstance(temperature, (int, float)) or not (np.isfinite(temperature) and temperature > 0.0):
            raise ControlError(f"temperature must be finite and above zero, got {temperature!r:.40}")
        self.temperature = float(temperature)
        super().__init__(
            problem, name="mppi", samples=samples, noise=noise, knots=knots, spline=spline, iterations=iterations, seed=seed,
            penalty=penalty, precision=precision, threads=threads,
        )  # fmt: skip
        self.elites = None if elites is None else _integer("elites", elites, 1, self.samples)

    def options(self) -> tuple[Any, ...]:
        """Options of the method, by value."""
        return *super().options(), self.elites

    @property
    def own_data(self) -> dict[str, Parameter]:
        """What of the method may be given with a solve."""
        return super().own_data | {"temperature": parameter("temperature", self.temperature)}

    def _checked(self, name: str, value: Any) -> Any:
        array = super()._checked(name, value)
        if name == "temperature" and not (array > 0.0).all():
            raise ControlError(f"temperature must be above zero, got {value!r:.40}")
        return array

    def _changes(self, tick: Any, costs: Table, least: Any, best: Any, values: dict[str, Any]) -> tuple[Table, Any]:
        scale = -1.0 / values["temperature"]
        nu, seed = self.problem.nu, values["seed"]

        def weight(s: Any, _: Any, cost: Any) -> Any:
            chosen = isfinite(cost)
            if self.elites is not None:
                chosen = chosen & (_rank(s, cost, costs) < float(self.elites))
            return _, where(chosen, np.exp(where(chosen, (cost - least) * scale, 0.0)), 0.0)

        weights = scan(weight, (), costs)[1].shaped((self.samples,))
        sums, _ = scan(lambda _, state, w: ((state[0] + w, state[1] + w * w), None), (0.0, 0.0), weights)
        total = np.maximum(sums[0], 1e-300)

        def knot(j: Any, _: Any, __: Any) -> Any:
            # samples in their order, so that the sum has one value
            def add(s: Any, mean: Any, w: Any) -> Any:
                return mean + (w / total) * self._noise(tick, s, j, seed), None

            return _, scan(add, array(np.zeros(nu)), weights)[0]

        changes = scan(knot, (), count=self.basis.knots)[1]
        return changes, sums[0] * sums[0] / np.maximum(sums[1], 1e-300)


def _rank(s: Any, cost: Any, costs: Table) -> Any:
    """How many samples are better than sample s: of equal costs, those before it."""

    def count(t: Any, found: Any, other: Any) -> Any:
        before = (other < cost) | ((other <= cost) & (t < s))
        return found + where(before & isfinite(other), 1.0, 0.0), None

    return scan(count, 0.0, costs)[0]


def _integer(name: str, given: Any, least: int, most: int) -> int:
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or not least <= given <= most:
        raise ControlError(f"{name} must be a whole number from {least} to {most}, got {given!r:.40}")
    return int(given)


def _deviations(given: Any, nu: int) -> np.ndarray:
    try:
        found = np.broadcast_to(np.asarray(given, dtype=float), (nu,)).copy()
    except (TypeError, ValueError):
        raise ControlError(f"noise is a standard deviation, or one for each of the {nu} controls, got {given!r:.60}") from None
    if not np.isfinite(found).all() or (found < 0.0).any():
        raise ControlError(f"noise must be finite and not negative, got {given!r:.60}")
    return found
