"""Iterative LQR: differential dynamic programming with Gauss-Newton costs and bounds on the controls (Tassa et al. 2014).

    backward   du = k0 + K dx minimises the quadratic model of each stage, within lower - u <= du <= upper - u
    forward    u_k = u_k + alpha k0 + K (x (-) x_k) for all step lengths alpha at once; the one of the least cost is kept

All stages are linearised in one loop, all step lengths simulated in another, and the columns of a stage's matrices are a third:
in a kernel for one state their iterations are the lanes of vectors. A plan need not follow the dynamics: the gaps of its states
enter the backward pass, and the forward pass closes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.mpc.box_qp import BoxSolution, solve_box, unbounded
from condyle.mpc.problem import Problem
from condyle.mpc.riccati import inside, plus
from condyle.mpc.solver import CONVERGED, STOPPED, Plan, Solver, keep_if_failed
from condyle.tape.array import array, isfinite, where
from condyle.tape.loop import loop, map_rows, scan
from condyle.tape.scalar import constant
from condyle.tape.table import Table, empty_table, table, zeros_table

LEAST, MOST = 1e-8, 1e10  # regularisation: zero below the one, given up above the other
DECREASE = 1e-4  # of the cost, relative to what the quadratic model predicts
GAP = 1e-9  # of states to the dynamics, below which costs before and after an iteration can be compared


@dataclass(frozen=True)
class Model:
    """The quadratic model along a trajectory: [A B] and H by columns (row k s + j), gaps c, gradients g, and the end."""

    AB: Table
    H: Table
    c: Table
    g: Table
    H_end: Any
    g_end: Any
    cost: Any
    gap: Any
    known: dict[tuple[int, int], float]  # entries of [A B] that are numbers in all stages

    def entry(self, k: Any, i: int, j: int) -> Any:
        """[A B][i, j] of stage k."""
        return self.known[i, j] if (i, j) in self.known else self.AB.entry(j, i, k * float(self.H.columns))


class ILQR(Solver):
    """iLQR until it converges, in one call.

    `iterations`: at most. It ends before when the decrease of the cost that the model predicts is at most `tolerance`
    (1 + |cost|). `line_search`: how many step lengths 1, 1/2, 1/4, ... are simulated side by side. `regularization`: what is
    added to the diagonals of the cost-to-go and of the controls' Hessian at first; it rises where no step decreases the cost, and
    falls where one does.
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

    def initial_plan(self, x: np.ndarray, u: np.ndarray) -> Plan:
        """States at x, controls u."""
        lead, N = x.shape[:-1], self.problem.N
        return {
            "states": np.broadcast_to(x[..., None, :], (*lead, N + 1, x.shape[-1])).copy(),
            "controls": np.broadcast_to(u[..., None, :], (*lead, N, u.shape[-1])).copy(),
        }

    # ---- what is traced

    def record(self, x0: Any, plan: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        """All iterations."""
        N, s = self.problem.N, self.problem.ndx + self.problem.nu
        start = {
            "states": table(plan["states"]), "controls": table(plan["controls"]),
            "c": self._gaps(table(plan["states"]), table(plan["controls"]), values),
            "AB": zeros_table((N * s, self.problem.ndx)), "H": zeros_table((N * s, s)),
            "mu": self.regularization, "factor": 1.0, "cost": 0.0, "expected": np.inf, "stationarity": np.inf, "gap": np.inf,
            "iterations": 0.0,
        }  # fmt: skip

        def done(state: Any) -> Any:
            small = state["expected"] <= self.tolerance * (1.0 + abs(state["cost"]))
            return (small & (state["gap"] <= GAP)) | (state["mu"] > MOST)

        def body(_: Any, state: Any) -> Any:
            return self._iteration(x0, state, values, done(state))

        state = loop(body, start, self.iterations, until=done, body_keeps_tables=True)
        results = {
            "u": state["controls"][0], "states": state["states"], "controls": state["controls"],
            "status": where(state["expected"] <= self.tolerance * (1.0 + abs(state["cost"])), CONVERGED, STOPPED),
            "iterations": state["iterations"], "cost": state["cost"], "stationarity": state["stationarity"],
            "dynamics": state["gap"],
        }  # fmt: skip
        return keep_if_failed(x0, results, plan)

    def _iteration(self, x0: Any, state: Any, values: dict[str, Any], done: Any) -> dict[str, Any]:
        xs, us, mu = state["states"], state["controls"], state["mu"]
        model = self._model(xs, us, state, values)
        K, k0, first, second, stationarity = self._backward(model, us, mu, values)
        paths, controls, costs = self._forward(x0, xs, us, K, k0, values)

        # the step length of the least cost
        alphas = self._step_lengths()
        best: Any = 0.0
        least: Any = np.inf
        alpha: Any = 1.0
        for j in range(self.line_search):
            cost = costs.entry(j, 0)
            better = cost < least
            best, least, alpha = where(better, float(j), best), where(better, cost, least), where(better, alphas[j], alpha)
        expected = alpha * first - 0.5 * alpha * alpha * second
        followed = model.gap <= GAP
        accepted = (followed & (model.cost - least >= DECREASE * expected)) | (~followed & isfinite(least))
        # at the optimum nothing decreases: rounding decides, and the step is as good as the plan
        full = first - 0.5 * second
        full = where(isfinite(full), full, np.inf)  # not positive definite: more regularisation is needed
        tiny = full <= self.tolerance * (1.0 + abs(model.cost))
        taken = accepted & ~done

        moved = self._selected(xs, us, x0, paths, controls, best, taken)
        raised, lowered = np.maximum(2.0, 2.0 * state["factor"]), np.minimum(0.5, 0.5 * state["factor"])
        factor = where(accepted, lowered, raised)
        scaled = mu * factor
        mu = where(accepted, where(scaled >= LEAST, scaled, 0.0), np.maximum(scaled, LEAST))
        return {
            "states": moved[0], "controls": moved[1],
            "c": map_rows(lambda c: where(accepted, 0.0, c), model.c).shaped(model.c.shape), "AB": model.AB, "H": model.H,
            "mu": where(tiny & followed, state["mu"], mu), "factor": factor,
            "cost": where(accepted, least, model.cost), "expected": full, "stationarity": stationarity,
            "gap": where(accepted, 0.0, model.gap), "iterations": state["iterations"] + 1.0,
        }  # fmt: skip

    def _step_lengths(self) -> list[float]:
        return [0.5**j for j in range(self.line_search)]

    def _gaps(self, xs: Table, us: Table, values: dict[str, Any]) -> Table:
        """What leads from the states of a plan to those that its controls lead to (N, n); an accepted step closes all gaps."""
        problem = self.problem
        dt = table(values["dt"]) if problem.intervals is not None else None

        def stage(k: Any, _: Any, u: Any) -> Any:
            x1 = problem.dynamics.step(xs[k], u, problem.p(values, k), None if dt is None else dt[k])
            return _, array(problem.states.difference(xs[k + 1.0], x1))

        return scan(stage, (), us)[1]  # type: ignore[no-any-return]

    def _model(self, xs: Table, us: Table, state: dict[str, Any], values: dict[str, Any]) -> Model:
        """The quadratic model along a trajectory; all stages in one loop."""
        problem = self.problem
        N, n, m = problem.N, problem.ndx, problem.nu
        s = n + m
        known: dict[tuple[int, int], float] = {}

        def stage(k: Any, state: Any, u: Any) -> Any:
            AB, H = state
            x, p = xs[k], problem.p(values, k)
            r = values["reference"][k] if problem.nr else None
            h = values["dt"][k] if problem.intervals is not None else None
            _, A, B = problem.dynamics.linearized(x, u, p, h)
            g, second = problem.stage_cost.quadratic(x, u, r, p, values.get("weights"))
            cost = problem.stage_cost.value(x, u, r, p, values.get("weights"))
            joined = np.concatenate([A, B], axis=1)
            for i, j in np.ndindex(n, s):
                number = constant(joined[i, j])
                if number is not None:
                    known[i, j] = number
                if number != 0.0:
                    AB = AB.with_entry(joined[i, j], j, i, k * float(s))
            for i, j in np.ndindex(s, s):
                if constant(second[i, j]) != 0.0:
                    H = H.with_entry(second[i, j], j, i, k * float(s))
            return (AB, H), {"g": g, "cost": array([cost])}

        (AB, H), rows = scan(stage, (state["AB"], state["H"]), us)
        end, r, p = xs[N], values["reference"][N] if problem.nr else None, problem.p(values, N)
        g_end, H_end = problem.terminal_cost.quadratic(end, None, r, p, values.get("terminal_weights"))
        start = problem.terminal_cost.value(end, None, r, p, values.get("terminal_weights"))
        cost, _ = scan(lambda _, total, row: (total + row[0], None), start, rows["cost"])
        gap, _ = scan(lambda _, most, c: (np.maximum(most, np.max(abs(c))), None), 0.0, state["c"])
        return Model(AB, H, state["c"], rows["g"], H_end, g_end, cost, gap, known)

    def _backward(self, model: Model, us: Table, mu: Any, values: dict[str, Any]) -> tuple[Table, Table, Any, Any, Any]:
        """(K by columns, k0 (N, m), -sum Qu k0, sum k0 Quu k0, the largest gradient of a free control)."""
        N, n, m = self.problem.N, self.problem.ndx, self.problem.nu
        s = n + m
        P, p = empty_table((n, n)), empty_table((n, 1))
        for j, i in np.ndindex(n, n):
            P = P.with_entry(model.H_end[i, j], j, i)
        for i in range(n):
            p = p.with_entry(model.g_end[i], i, 0)
        start = {
            "P": P, "p": p, "K": empty_table((N * n, m)), "W": empty_table((s, s)), "w": empty_table((s, 1)),
            "y": empty_table((n, 1)), "v": empty_table((s, 1)), "first": 0.0, "second": 0.0, "stationarity": 0.0,
        }  # fmt: skip
        bounds = {name: table(values[name]) for name in ("lower", "upper")} if self.control_rows else {}

        def stage(k: Any, state: Any, row: Any) -> Any:
            P, p, c = state["P"], state["p"], row["c"]

            def pulled(i: Any, y: Table) -> Table:
                """Entry i of p + (P + mu) c."""
                total = plus(p.entry(0, 0, i), list(c), [P.entry(0, l, i) for l in range(n)])
                return y.with_entry(total, 0, 0, i)

            y = loop(pulled, state["y"], n) if self._has_gaps(c) else p
            pull = [y.entry(i, 0) + mu * c[i] for i in range(n)]
            v = state["v"]
            for i in range(s):
                v = v.with_entry(row["g"][i], i, 0)

            def gradient(j: Any, w: Table) -> Table:
                column = [model.AB.entry(0, l, k * float(s) + j) for l in range(n)]
                return w.with_entry(plus(v.entry(0, 0, j), pull, column), 0, 0, j)

            def product(j: Any, W: Table) -> Table:
                """Column j of H + [A B]^T (P + mu) [A B]."""
                column = [model.AB.entry(0, i, k * float(s) + j) for i in range(n)]
                y = [plus(mu * column[i], [P.entry(min(i, l), max(i, l), inside(j)) for l in range(n)], column) for i in range(n)]
                for i in range(s):
                    line = [model.entry(k, l, i) for l in range(n)]
                    W = W.with_entry(plus(model.H.entry(0, i, k * float(s) + j), line, y), 0, i, j)
                return W

            w, W = loop(gradient, state["w"], s), loop(product, state["W"], s)
            Quu = np.zeros((m, m), dtype=object)
            for i in range(m):
                for j in range(i + 1):
                    Quu[i, j] = W.entry(n + j, n + i) + (mu if i == j else 0.0)
            Qu = [w.entry(n + i, 0) for i in range(m)]
            box = self._stage_minimum(Quu, Qu, row["u"], {name: t[k] for name, t in bounds.items()})
            du = list(box.d)

            def update(j: Any, state: Any) -> Any:
                """Column j of the gains and of P = Qxx + Qxu K, and entry j of p = Qx + Qxu k0."""
                K, P, p = state
                Qux = [W.entry(0, n + i, j) for i in range(m)]
                gain = box.gains(Qux)
                for i in range(m):
                    K = K.with_entry(gain[i], 0, i, k * float(n) + j)
                for i in range(n):
                    P = P.with_entry(plus(W.entry(0, i, j), [W.entry(i, n + l, inside(j)) for l in range(m)], gain), 0, i, j)
                return K, P, p.with_entry(plus(w.entry(0, 0, j), du, Qux), 0, 0, j)

            K, P, p = loop(update, (state["K"], P, p), n)
            curved = [plus(0.0, du, [Quu[max(i, j), min(i, j)] for j in range(m)]) for i in range(m)]
            worst = np.max(abs(array([f * x for f, x in zip(box.free, Qu, strict=True)])))
            return {
                "P": P, "p": p, "K": K, "W": W, "w": w, "y": y, "v": v,
                "first": state["first"] - sum((a * b for a, b in zip(Qu, du, strict=True)), 0.0),
                "second": state["second"] + sum((a * b for a, b in zip(du, curved, strict=True)), 0.0),
                "stationarity": np.maximum(state["stationarity"], worst),
            }, array(du)  # fmt: skip

        end, k0 = scan(stage, start, {"c": model.c, "g": model.g, "u": us}, reverse=True)
        return end["K"], k0, end["first"], end["second"], end["stationarity"]

    @staticmethod
    def _has_gaps(c: Any) -> bool:
        return any(constant(x) != 0.0 for x in c)

    def _stage_minimum(self, Quu: Any, Qu: list[Any], u: Any, bounds: dict[str, Any]) -> BoxSolution:
        if not self.control_rows:
            return unbounded(Quu, Qu)
        low, high = self._limits(bounds)
        # a plan outside of the bounds is brought back by the forward pass: here it stays where it is
        low = [np.minimum(a - b, 0.0) for a, b in zip(low, u, strict=True)]
        high = [np.maximum(a - b, 0.0) for a, b in zip(high, u, strict=True)]
        return solve_box(Quu, Qu, low, high)

    def _limits(self, bounds: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        """(lower, upper) of the controls of a stage."""
        low: list[Any] = [-np.inf] * self.problem.nu
        high: list[Any] = [np.inf] * self.problem.nu
        for entry, row in self.control_rows.items():
            low[entry], high[entry] = bounds["lower"][row], bounds["upper"][row]
        return low, high

    def _forward(self, x0: Any, xs: Table, us: Table, K: Table, k0: Table, values: dict[str, Any]) -> tuple[Table, Table, Table]:
        """(following states and controls of all step lengths, row k L + j for length j, and their costs (L, 1))."""
        problem = self.problem
        N, n, L = problem.N, problem.ndx, self.line_search
        alphas = table(np.array(self._step_lengths())[:, None])
        here = empty_table((L, problem.nx))
        for j, i in np.ndindex(L, problem.nx):
            here = here.with_entry(x0[i], j, i)
        start = {
            "x": here, "cost": zeros_table((L, 1)), "paths": empty_table((N * L, problem.nx)),
            "controls": empty_table((N * L, problem.nu)),
        }  # fmt: skip

        def stage(k: Any, state: Any, row: Any) -> Any:
            p = problem.p(values, k)
            r = values["reference"][k] if problem.nr else None
            h = values["dt"][k] if problem.intervals is not None else None
            low, high = self._limits({name: values[name][k] for name in ("lower", "upper")}) if self.control_rows else ([], [])

            def one(j: Any, state: Any, here: Any) -> Any:
                paths, controls = state
                x, cost, alpha = here["x"], here["cost"][0], here["alpha"][0]
                dx = list(problem.states.difference(row["x"], x))
                u = [
                    plus(row["u"][i] + alpha * row["k0"][i], dx, [K.entry(l, i, k * float(n)) for l in range(n)])
                    for i in range(problem.nu)
                ]
                if self.control_rows:
                    u = [np.minimum(np.maximum(a, b), c) for a, b, c in zip(u, low, high, strict=True)]
                control = array(u)
                cost = cost + problem.stage_cost.value(x, control, r, p, values.get("weights"))
                x1 = problem.dynamics.step(x, control, p, h)
                for i in range(problem.nx):
                    paths = paths.with_entry(x1[i], 0, i, k * float(L) + j)
                for i in range(problem.nu):
                    controls = controls.with_entry(u[i], 0, i, k * float(L) + j)
                return (paths, controls), {"x": array(x1), "cost": array([cost])}

            rows = {"x": state["x"], "cost": state["cost"], "alpha": alphas}
            (paths, controls), after = scan(one, (state["paths"], state["controls"]), rows)
            return {"x": after["x"], "cost": after["cost"], "paths": paths, "controls": controls}, None

        # the first N states are where the controls act
        scanned = {"x": map_rows(lambda x: x, _first_rows(xs, N)), "u": us, "k0": k0}
        end = scan(stage, start, scanned)[0]
        r, p = values["reference"][N] if problem.nr else None, problem.p(values, N)

        def final(x: Any, cost: Any) -> Any:
            return array([cost[0] + problem.terminal_cost.value(x, None, r, p, values.get("terminal_weights"))])

        return end["paths"], end["controls"], map_rows(final, end["x"], end["cost"])

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
