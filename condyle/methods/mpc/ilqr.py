"""Iterative LQR: differential dynamic programming with Gauss-Newton costs and bounds on the controls (Tassa et al. 2014).

    backward   du = k0 + K dx minimises the quadratic model of each stage, within lower - u <= du <= upper - u
    forward    u_k = u_k + alpha k0 + K (x (-) x_k) for all step lengths alpha at once; the best one is kept

All stages are linearised in one loop, all step lengths simulated in another, and the columns of a stage's matrices are a third:
in a kernel for one state their iterations are the lanes of vectors.

A plan need not follow the dynamics: gaps c_k = step(x_k, u_k) (-) x_{k+1} enter the backward pass. While there are any, every
second step length is one of multiple shooting, x_{k+1} (+) alpha dx_{k+1} with the states of the linear model, which keeps the
part 1 - alpha of the gaps (Giftthaler et al. 2018); the others are simulated and close all gaps. So a first plan of random
controls, whose simulation would fall over, is a start like another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.mpc.box_qp import BoxSolution, solve_box, unbounded
from condyle.methods.mpc.problem import Problem
from condyle.methods.mpc.riccati import inside, plus
from condyle.methods.mpc.solver import CONVERGED, STOPPED, Plan, Solver, keep_if_failed
from condyle.tape.array import array, isfinite, where
from condyle.tape.device import repeated
from condyle.tape.loop import loop, map_rows, scan
from condyle.tape.scalar import constant
from condyle.tape.table import Table, empty_table, table, zeros_table

LEAST, RAISED, MOST = 1e-8, 1e-5, 1e10  # regularisation: zero below, at least this where it rises, and given up above
DECREASE = 1e-4  # of the cost, relative to what the quadratic model predicts
INCREASE, MOST_INCREASE = 2.0, 10.0  # of the cost, with which a step may close all gaps, or a part of them
STUCK = 1e4  # regularisation, above which it may do so at any cost
RELAXED = 0.003  # of the gaps of the first plan, above which controls of the model may exceed their bounds
STALLED = 0.98  # of the gaps before a step: where so much is left, controls are bounded from then on
SHORT, LONG = 0.1, 0.4  # step lengths: the regularisation rises below the one, and falls above the other
LANES = 8  # columns that a vector may hold
CONTROL = 1e-3  # regularisation of controls, relative to that of states


@dataclass(frozen=True)
class Model:
    """The quadratic model along a trajectory: [A B] (N, n, s), H, gaps c, gradients g, and the end."""

    AB: Table
    H: Table  # (N, entries), of the lower triangle
    H_entries: list[tuple[int, int]]  # row and column of each; the others are numbers in all stages
    H_numbers: list[tuple[int, int, float]]  # those of them that are not zero
    c: Table
    g: Table
    H_end: Any
    g_end: Any
    cost: Any
    gap: Any  # sum of absolute values of c


@dataclass(frozen=True)
class Step:
    """What the backward pass finds: gains K by columns, k0 (N, m), and sums over the stages."""

    K: Table
    k0: Table
    first: Any  # -sum Qu k0
    second: Any  # sum k0 Quu k0
    stationarity: Any  # the largest gradient of a free control
    weights: Table  # of gaps in the merit function (n, 1)
    penalty: Any  # of the gaps
    relaxed: Any  # whether controls were not bounded


@dataclass(frozen=True)
class StepLength:
    """A step length without gaps, one with gaps, and whether it is then one that keeps a part of them (1 or 0)."""

    simulated: float
    with_gaps: float
    keeps: float


class ILQR(Solver):
    """iLQR until it converges, in one call.

    `iterations`: at most. It ends before when the decrease of the cost that the model predicts is at most `tolerance`
    (1 + |cost|). `line_search`: how many step lengths 1, 1/2, 1/4, ... are simulated side by side. `regularization`: the weight
    of squared changes of states that is added to the model at first; it rises where no step, or a short one, decreases the cost,
    and falls where a long one does.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        iterations: int = 100,
        tolerance: float = 1e-9,
        line_search: int = 8,
        regularization: float = 0.0,
    ) -> None:
        super().__init__(problem, name="ilqr")
        for name, value, least in (("iterations", iterations, 1), ("line_search", line_search, 2)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise ControlError(f"{name} must be a whole number from {least} up, got {value!r:.40}")
        for name, size in (("tolerance", tolerance), ("regularization", regularization)):
            if not isinstance(size, (int, float)) or not 0.0 <= size < MOST:
                raise ControlError(f"{name} must be a number from 0 to {MOST:g}, got {size!r:.40}")
        self.iterations, self.tolerance = int(iterations), float(tolerance)
        self.line_search, self.regularization = int(line_search), float(regularization)
        self.control_rows = _control_bounds(problem)

    def options(self) -> tuple[Any, ...]:
        """Options of the method, by value."""
        return self.iterations, self.tolerance, self.line_search, self.regularization

    @property
    def plan_shapes(self) -> dict[str, tuple[int, ...]]:
        """States and controls."""
        return {"states": (self.problem.N + 1, self.problem.nx), "controls": (self.problem.N, self.problem.nu)}

    def initial_plan(self, x: np.ndarray, controls: np.ndarray) -> Plan:
        """States at x."""
        lead, N = x.shape[:-1], self.problem.N
        return {"states": repeated(x[..., None, :], (*lead, N + 1, x.shape[-1])), "controls": controls}

    # ---- what is traced

    def record(self, x0: Any, plan: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        """All iterations."""
        start = {
            "states": table(plan["states"]), "controls": table(plan["controls"]),
            "mu": self.regularization, "factor": 1.0, "cost": 0.0, "expected": np.inf, "stationarity": np.inf,
            "gap": np.inf, "first_gap": 0.0, "iterations": 0.0,
        }  # fmt: skip

        def small(state: Any) -> Any:
            return state["expected"] <= self.tolerance * (1.0 + abs(state["cost"]))

        def done(state: Any) -> Any:
            return (small(state) & (state["gap"] == 0.0)) | (state["mu"] > MOST)

        def body(_: Any, state: Any) -> Any:
            return self._iteration(x0, state, values, done(state))

        state = loop(body, start, self.iterations, until=done, body_keeps_tables=True)
        results = {
            "u": state["controls"][0], "states": state["states"], "controls": state["controls"],
            "status": where(small(state) & (state["gap"] == 0.0), CONVERGED, STOPPED),
            "iterations": state["iterations"], "cost": state["cost"], "stationarity": state["stationarity"],
            "dynamics": state["gap"],
        }  # fmt: skip
        return keep_if_failed(x0, results, plan)

    def _iteration(self, x0: Any, state: Any, values: dict[str, Any], done: Any) -> dict[str, Any]:
        xs, us, mu = state["states"], state["controls"], state["mu"]
        model = self._model(xs, us, state, values)
        first_gap = where(state["iterations"] > 0.0, state["first_gap"], model.gap)
        relaxed = model.gap > RELAXED * first_gap
        step = self._backward(model, us, mu, relaxed, values)
        paths, controls, sums = self._forward(x0, xs, us, model, step, values)

        # the step length of the least cost; while there are gaps, of the least merit, or a simulated one of moderate cost
        gaps = model.gap > 0.0
        limit = where(mu > STUCK, np.inf, model.cost + (INCREASE - 1.0) * abs(model.cost))
        most = model.cost + (MOST_INCREASE - 1.0) * abs(model.cost)
        best: Any = 0.0
        least: Any = np.inf
        alpha: Any = 1.0
        keeps: Any = 0.0
        for j, length in enumerate(self._step_lengths()):
            cost = sums.entry(j, 0)
            merit = sums.entry(j, 1) if length.keeps else cost
            value = where(gaps & ~(cost <= (most if length.keeps else limit)), np.inf, merit)
            better = value < least
            best, least = where(better, float(j), best), where(better, value, least)
            alpha = where(better, where(gaps, length.with_gaps, length.simulated), alpha)
            keeps = where(better, length.keeps, keeps)
        closes = ~gaps | (keeps < 0.5)
        expected = alpha * step.first - 0.5 * alpha * alpha * step.second
        accepted = (~gaps & (model.cost - least >= DECREASE * expected)) | (gaps & closes & isfinite(least))
        accepted = accepted | (gaps & ~closes & (least < model.cost + step.penalty))
        # at the optimum nothing decreases: rounding decides, and the step is as good as the plan
        full = step.first - 0.5 * step.second
        full = where(isfinite(full), full, np.inf)  # not positive definite: more regularisation is needed
        tiny = full <= self.tolerance * (1.0 + abs(model.cost))

        moved = self._selected(xs, us, x0, paths, controls, best, accepted & ~done)
        raised, lowered = np.maximum(2.0, 2.0 * state["factor"]), np.minimum(0.5, 0.5 * state["factor"])
        long, short = accepted & (alpha >= LONG), ~accepted | (alpha < SHORT)
        factor = where(long, lowered, where(short, raised, state["factor"]))
        scaled = mu * factor
        mu = where(long, where(scaled >= LEAST, scaled, 0.0), where(short, np.maximum(scaled, RAISED), mu))
        gap = where(accepted, where(closes, 0.0, sums[best][2]), model.gap)
        return {
            "states": moved[0], "controls": moved[1],
            "mu": where(tiny & ~gaps, state["mu"], mu), "factor": factor,
            "cost": where(accepted, sums[best][0], model.cost), "expected": full, "stationarity": step.stationarity,
            "gap": gap, "first_gap": where(accepted & (gap > STALLED * model.gap), np.inf, first_gap),
            "iterations": state["iterations"] + 1.0,
        }  # fmt: skip

    def _step_lengths(self) -> list[StepLength]:
        """1, 1/2, 1/4, ...; while there are gaps each one twice, closing all gaps, and keeping a part of them."""
        return [StepLength(0.5**j, 0.5 ** (j // 2), float(j % 2)) for j in range(self.line_search)]

    def _model(self, xs: Table, us: Table, state: dict[str, Any], values: dict[str, Any]) -> Model:
        """The quadratic model along a trajectory; all stages in one loop."""
        problem, N = self.problem, self.problem.N

        def stage(k: Any, none: Any, u: Any) -> Any:
            x, p = xs[k], problem.p(values, k)
            r = values["reference"][k] if problem.nr else None
            h = values["dt"][k] if problem.intervals is not None else None
            _, A, B = problem.dynamics.linearized(x, u, p, h)
            g, H = problem.stage_cost.quadratic(x, u, r, p, values.get("weights"))
            cost = problem.stage_cost.value(x, u, r, p, values.get("weights"))
            lower = [(i, j) for i in range(len(H)) for j in range(i + 1)]
            numbers = {(i, j): constant(H[i, j]) for i, j in lower}
            entries.extend(at for at in lower if numbers[at] is None)
            known.extend((*at, value) for at, value in numbers.items() if value)
            packed = array([H[at] for at in entries])
            return none, {"AB": np.concatenate([A, B], axis=1), "H": packed, "g": g, "cost": array([cost])}

        entries: list[tuple[int, int]] = []
        known: list[tuple[int, int, float]] = []
        _, rows = scan(stage, (), us)
        # a plan that was simulated has no gaps
        c = loop(
            lambda zero, _: self._gaps(xs, us, zero, values), zeros_table((N, problem.ndx)), 1,
            until=lambda _: state["gap"] == 0.0,
        )  # fmt: skip
        end, r, p = xs[N], values["reference"][N] if problem.nr else None, problem.p(values, N)
        g_end, H_end = problem.terminal_cost.quadratic(end, None, r, p, values.get("terminal_weights"))
        start = problem.terminal_cost.value(end, None, r, p, values.get("terminal_weights"))
        cost, _ = scan(lambda _, total, row: (total + row[0], None), start, rows["cost"])
        gap, _ = scan(lambda _, total, c: (total + sum(abs(c), 0.0), None), 0.0, c)
        return Model(rows["AB"], rows["H"], entries, known, c, rows["g"], H_end, g_end, cost, gap)

    def _gaps(self, xs: Table, us: Table, zero: Any, values: dict[str, Any]) -> Table:
        """step(x_k, u_k) (-) x_{k+1} of all stages (N, n)."""
        problem = self.problem

        def stage(k: Any, none: Any, u: Any) -> Any:
            h = values["dt"][k] if problem.intervals is not None else None
            x1 = problem.dynamics.step(xs[k + zero], u, problem.p(values, k), h)
            return none, array(problem.states.difference(xs[k + 1.0], x1))

        return scan(stage, (), us)[1]  # type: ignore[no-any-return]

    def _backward(self, model: Model, us: Table, mu: Any, relaxed: Any, values: dict[str, Any]) -> Step:
        """The minimum of the model, and the cost-to-go P, p from stage to stage."""
        N, n, m = self.problem.N, self.problem.ndx, self.problem.nu
        s = n + m
        P, p = empty_table((n, n)), empty_table((n, 1))
        for j, i in np.ndindex(n, n):
            P = P.with_entry(model.H_end[i, j], j, i)
        for i in range(n):
            p = p.with_entry(model.g_end[i], i, 0)
        H = zeros_table((s, s))
        for i, j, number in model.H_numbers:
            H = H.with_entry(number, j, i).with_entry(number, i, j)
        start = {
            "P": P, "p": p, "K": empty_table((N * n, m)), "AB": empty_table((s, n)), "H": H,
            "W": empty_table((s, s)), "w": empty_table((s, 1)), "v": empty_table((s, 1)),
            "weights": zeros_table((n, 1)), "first": 0.0, "second": 0.0, "stationarity": 0.0,
        }  # fmt: skip
        bounds = {name: table(values[name]) for name in ("lower", "upper")} if self.control_rows else {}
        # W is symmetric: of the second half of its columns, the upper rows are not needed
        half = LANES * (s // (2 * LANES))
        halves = [(0, half), (half, s)] if half else [(0, s)]

        def stage(k: Any, state: Any, row: Any) -> Any:
            P, p, c = state["P"], state["p"], row["c"]
            # the matrices of this stage by columns, close together
            AB, H = state["AB"], state["H"]
            for l, i in np.ndindex(n, s):
                AB = AB.with_entry(model.AB.entry(0, l * s + i, k), i, l)
            for at, (i, j) in enumerate(model.H_entries):
                entry = model.H.entry(0, at, k)
                H = H.with_entry(entry, j, i) if i == j else H.with_entry(entry, j, i).with_entry(entry, i, j)

            def left(l: int, i: int, j: Any) -> Any:
                number = model.AB.constant(l * s + i)
                return AB.entry(i, l, inside(j)) if number is None else number

            def symmetric(i: int, l: int, zero: Any) -> Any:
                return P.entry(min(i, l), max(i, l), zero)

            def pulled(zero: Any, _: Any) -> Any:
                """(P + mu) c, if there are gaps."""
                return array([plus(mu * c[i], [symmetric(i, l, zero) for l in range(n)], list(c)) for i in range(n)])

            y = loop(pulled, array(np.zeros(n)), 1, until=lambda _: model.gap == 0.0)
            pull = [p.entry(i, 0) + y[i] for i in range(n)]
            v = state["v"]
            for i in range(s):
                v = v.with_entry(row["g"][i], i, 0)

            def gradient(j: Any, w: Table) -> Table:
                column = [AB.entry(0, l, j) for l in range(n)]
                return w.with_entry(plus(v.entry(0, 0, j), pull, column), 0, 0, j)

            def product(first: int) -> Callable[[Any, Table], Table]:
                def columns(j: Any, W: Table) -> Table:
                    """Column first + j of H + [A B]^T (P + mu) [A B], from row `first` on."""
                    column = [AB.entry(first, i, j) for i in range(n)]
                    y = [plus(mu * column[i], [symmetric(i, l, inside(j)) for l in range(n)], column) for i in range(n)]
                    for i in range(first, s):
                        W = W.with_entry(plus(H.entry(first, i, j), [left(l, i, j) for l in range(n)], y), first, i, j)
                    return W

                return columns

            w, W = loop(gradient, state["w"], s), state["W"]
            for first, last in halves:
                W = loop(product(first), W, last - first)
            Quu = np.zeros((m, m), dtype=object)
            for i in range(m):
                for j in range(i + 1):
                    Quu[i, j] = W.entry(n + j, n + i) + (CONTROL * mu if i == j else 0.0)
            Qu = [w.entry(n + i, 0) for i in range(m)]
            box = self._stage_minimum(Quu, Qu, row["u"], {name: t[k] for name, t in bounds.items()}, relaxed)
            du = list(box.d)

            def update(first: int) -> Callable[[Any, Any], Any]:
                def columns(j: Any, state: Any) -> Any:
                    """Of column first + j: gains, P = Qxx + Qxu K, and p = Qx + Qxu k0."""
                    K, P, p = state
                    Qux = [W.entry(first, n + i, j) for i in range(m)]
                    gain = box.gains(Qux)
                    for i in range(m):
                        K = K.with_entry(gain[i], first, i, k * float(n) + j)
                    for i in range(first, n):
                        line = [W.entry(i, n + l, inside(j)) for l in range(m)]
                        P = P.with_entry(plus(W.entry(first, i, j), line, gain), first, i, j)
                    return K, P, p.with_entry(plus(w.entry(first, 0, j), du, Qux), first, 0, j)

                return columns

            updated = state["K"], P, p
            for first, last in halves:
                if first < n:
                    updated = loop(update(first), updated, min(last, n) - first)
            K, P, p = updated
            weights = state["weights"]
            for i in range(n):
                weights = weights.with_entry(weights.entry(i, 0) + abs(p.entry(i, 0)), i, 0)
            curved = [plus(0.0, du, [Quu[max(i, j), min(i, j)] for j in range(m)]) for i in range(m)]
            worst = np.max(abs(array([f * x for f, x in zip(box.free, Qu, strict=True)])))
            return {
                "P": P, "p": p, "K": K, "AB": AB, "H": H, "W": W, "w": w, "v": v, "weights": weights,
                "first": state["first"] - sum((a * b for a, b in zip(Qu, du, strict=True)), 0.0),
                "second": state["second"] + sum((a * b for a, b in zip(du, curved, strict=True)), 0.0),
                "stationarity": np.maximum(state["stationarity"], worst),
            }, array(du)  # fmt: skip

        end, k0 = scan(stage, start, {"c": model.c, "g": model.g, "u": us}, reverse=True)
        # an exact penalty needs the multipliers of the gaps, which are about p: twice their mean
        weights = map_rows(lambda row: (2.0 / N) * row, end["weights"])
        penalty, _ = scan(
            lambda _, total, c: (plus(total, [weights.entry(i, 0) for i in range(n)], list(abs(c))), None), 0.0, model.c
        )
        return Step(end["K"], k0, end["first"], end["second"], end["stationarity"], weights, penalty, relaxed)

    def _stage_minimum(self, Quu: Any, Qu: list[Any], u: Any, bounds: dict[str, Any], relaxed: Any) -> BoxSolution:
        if not self.control_rows:
            return unbounded(Quu, Qu)
        low, high = self._limits(bounds)
        # a plan outside of the bounds is brought back by the forward pass: here it stays where it is
        low = [where(relaxed, -np.inf, np.minimum(a - b, 0.0)) for a, b in zip(low, u, strict=True)]
        high = [where(relaxed, np.inf, np.maximum(a - b, 0.0)) for a, b in zip(high, u, strict=True)]
        return solve_box(Quu, Qu, low, high)

    def _limits(self, bounds: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        """(lower, upper) of the controls of a stage."""
        low: list[Any] = [-np.inf] * self.problem.nu
        high: list[Any] = [np.inf] * self.problem.nu
        for entry, row in self.control_rows.items():
            low[entry], high[entry] = bounds["lower"][row], bounds["upper"][row]
        return low, high

    def _forward(
        self, x0: Any, xs: Table, us: Table, model: Model, step: Step, values: dict[str, Any]
    ) -> tuple[Table, Table, Table]:
        """(following states and controls of all step lengths, row k L + j for length j; their costs, merits and gaps (L, 3))."""
        problem = self.problem
        N, n, m, L = problem.N, problem.ndx, problem.nu, self.line_search
        gaps = model.gap > 0.0
        lengths = empty_table((L, 2))
        here = empty_table((L, problem.nx))
        for j, length in enumerate(self._step_lengths()):
            lengths = lengths.with_entry(where(gaps, length.with_gaps, length.simulated), j, 0)
            lengths = lengths.with_entry(where(gaps, length.keeps, 0.0), j, 1)
            for i in range(problem.nx):
                here = here.with_entry(x0[i], j, i)
        start = {
            "x": here, "sums": zeros_table((L, 3)), "paths": empty_table((N * L, problem.nx)),
            "controls": empty_table((N * L, m)), "dx": array(problem.states.difference(xs[0], x0)),
        }  # fmt: skip
        weights = [step.weights.entry(i, 0) for i in range(n)]

        def stage(k: Any, state: Any, row: Any) -> Any:
            p, following = problem.p(values, k), xs[k + 1.0]
            r = values["reference"][k] if problem.nr else None
            h = values["dt"][k] if problem.intervals is not None else None
            low, high = self._limits({name: values[name][k] for name in ("lower", "upper")}) if self.control_rows else ([], [])

            def control(alpha: Any, dx: list[Any]) -> list[Any]:
                K = [[step.K.entry(l, i, k * float(n)) for l in range(n)] for i in range(m)]
                return [plus(row["u"][i] + alpha * row["k0"][i], dx, K[i]) for i in range(m)]

            def bounded(u: list[Any]) -> list[Any]:
                return [np.minimum(np.maximum(a, b), c) for a, b, c in zip(u, low, high, strict=True)] if self.control_rows else u

            # the linear model, at the full step
            du = control(1.0, list(state["dx"]))
            du = [where(step.relaxed, a, b) - c for a, b, c in zip(du, bounded(du), row["u"], strict=True)]
            z = [*state["dx"], *du]

            def following_change(i: int, zero: Any) -> Any:
                numbers = [model.AB.constant(i * (n + m) + j) for j in range(n + m)]
                entries = [model.AB.entry(0, i * (n + m) + j, k + zero) if a is None else a for j, a in enumerate(numbers)]
                return plus(row["c"][i], entries, z)

            # once, or not at all
            dx = loop(
                lambda i, _: array([following_change(l, i) for l in range(n)]), array(np.zeros(n)), 1, until=lambda _: ~gaps
            )

            def one(j: Any, state: Any, here: Any) -> Any:
                paths, controls = state
                x, (alpha, keeps) = here["x"], here["length"]
                u = array(bounded(control(alpha, list(problem.states.difference(row["x"], x)))))
                cost = problem.stage_cost.value(x, u, r, p, values.get("weights"))
                simulated = array(problem.dynamics.step(x, u, p, h))
                linear = array(problem.states.retract(following, alpha * dx))
                kept = keeps > 0.5
                gap = where(kept, abs(array(problem.states.difference(linear, simulated))), 0.0)
                x1 = where(kept, linear, simulated)
                for i in range(problem.nx):
                    paths = paths.with_entry(x1[i], 0, i, k * float(L) + j)
                for i in range(m):
                    controls = controls.with_entry(u[i], 0, i, k * float(L) + j)
                merit = plus(cost, weights, list(gap))
                return (paths, controls), {"x": x1, "sums": here["sums"] + array([cost, merit, sum(gap, 0.0)])}

            rows = {"x": state["x"], "sums": state["sums"], "length": lengths}
            (paths, controls), after = scan(one, (state["paths"], state["controls"]), rows)
            return {"x": after["x"], "sums": after["sums"], "paths": paths, "controls": controls, "dx": dx}, None

        # the first N states are where the controls act
        scanned = {"x": map_rows(lambda x: x, _first_rows(xs, N)), "u": us, "k0": step.k0, "c": model.c}
        end = scan(stage, start, scanned)[0]
        r, p = values["reference"][N] if problem.nr else None, problem.p(values, N)

        def final(x: Any, sums: Any) -> Any:
            cost = problem.terminal_cost.value(x, None, r, p, values.get("terminal_weights"))
            return sums + array([cost, cost, 0.0])

        return end["paths"], end["controls"], map_rows(final, end["x"], end["sums"])

    def _selected(
        self, xs: Table, us: Table, x0: Any, paths: Table, controls: Table, best: Any, taken: Any
    ) -> tuple[Table, Table]:
        """The trajectory of one step length, where it is taken."""
        L = self.line_search

        def stage(k: Any, state: Any, _: Any) -> Any:
            xs, us = state
            at = k * float(L) + best
            x, u = paths[at], controls[at]
            old_x, old_u = before_x[k + 1.0], before_u[k]
            for i in range(self.problem.nx):
                xs = xs.with_entry(where(taken, x[i], old_x[i]), 1, i, k)
            for i in range(self.problem.nu):
                us = us.with_entry(where(taken, u[i], old_u[i]), 0, i, k)
            return (xs, us), None

        before_x, before_u = xs, us
        new_x, new_u = empty_table(xs.shape), empty_table(us.shape)
        first = before_x[0]
        for i in range(self.problem.nx):
            new_x = new_x.with_entry(where(taken, x0[i], first[i]), 0, i)
        return scan(stage, (new_x, new_u), count=self.problem.N)[0]  # type: ignore[no-any-return]


def _first_rows(rows: Table, count: int) -> Table:
    return scan(lambda k, _, __: (_, rows[k]), (), count=count)[1]  # type: ignore[no-any-return]


def _control_bounds(problem: Problem) -> dict[int, int]:
    """Which row of the constraints bounds each control; anything else that is bounded is an error."""
    h, end = problem.constraints, problem.terminal_constraints
    rows = {entry: row for row, space, entry in h.picks if space == 1}
    other = [name for row, name in enumerate(h.names) if row not in rows.values()] + list(end.names)
    if other:
        raise ControlError(
            f"ilqr takes bounds on controls, and '{other[0]}' is something else; "
            "put it into the cost, for instance the square of what exceeds it, or use problem.sqp() or problem.rti()"
        )
    soft = [h.names[side.row] for side in h.sides if np.isfinite(side.l2)]
    if soft:
        raise ControlError(f"ilqr holds bounds on controls exactly; leave out soft= of '{soft[0]}'")
    if problem.repeats is not None:
        raise ControlError("ilqr has a control of its own in every interval; leave out move_blocking=, or use problem.sqp()")
    return rows
