"""Integrators in acados' words: explicit (ERK) and implicit (IRK) Runge-Kutta methods, and discrete dynamics; AcadosSimSolver."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np

from condyle.apps.compat.acados_description import AcadosModel, AcadosOcp, AcadosSim, is_empty
from condyle.apps.compat.casadi_functions import expression_function, is_expression
from condyle.errors import ControlError, ShapeError
from condyle.methods.mpc.dynamics import INTEGRATORS
from condyle.tape.array import array, where
from condyle.tape.function import Function, function
from condyle.tape.implicit import implicit
from condyle.tape.linalg import solve
from condyle.tape.linalg.dispatch import plus_dot
from condyle.tape.linalg.gauss_jordan import eliminated
from condyle.tape.linalg.rule import with_rule
from condyle.tape.linearize import linearize
from condyle.tape.loop import loop, scan
from condyle.tape.table import Table

EXPLICIT = {1: "euler", 2: "midpoint", 4: "rk4"}  # and 3, Kutta's method of third order
NEWTON_TOLERANCE, NEWTON_ITERATIONS = 1e-12, 30
NEWTON_CONVERGED = 1e-8  # the last change, relative; a step whose equations are not solved has no result
STRAIGHT = 32  # equations of an implicit step up to which straight code is quicker, and compiles in seconds

Step = Callable[[Any, Any, Any, Any], Any]


def model_function(model: AcadosModel, name: str, symbols: str = "x u p") -> Callable[..., Any]:
    """What an attribute of a model says, as a function of its symbols (x, u, p) that returns an array."""
    value = getattr(model, name)
    wanted = symbols.split()
    if is_expression(value):
        return _Expression(expression_function(f"model.{name}", [getattr(model, each) for each in wanted], value))
    if not callable(value):
        raise ControlError(
            f"model.{name} is a CasADi expression or a Python function of ({', '.join(wanted)}), got {type(value).__name__}"
        )
    return _Called(value, _arguments(name, value, wanted))


class _Expression:
    """The only output of a replayed expression, as a vector."""

    def __init__(self, replay: Any) -> None:
        self.replay = replay

    def __call__(self, *args: Any) -> Any:
        return array(np.ravel(self.replay(*args)[0], order="F"))


class _Called:
    """A user's function with the first of the arguments, as many as it takes."""

    def __init__(self, function: Callable[..., Any], count: int) -> None:
        self.function, self.count = function, count

    def __call__(self, *args: Any) -> Any:
        return array(np.ravel(np.asarray(self.function(*args[: self.count]), dtype=object)))


def _arguments(name: str, function: Callable[..., Any], wanted: list[str]) -> int:
    try:
        taken = [p for p in signature(function).parameters.values() if p.default is p.empty]
    except (TypeError, ValueError):
        return len(wanted)
    least = len(wanted) - 1
    if not least <= len(taken) <= len(wanted):
        raise ControlError(f"model.{name} takes ({', '.join(wanted[:-1])}) or ({', '.join(wanted)}); this one takes {len(taken)}")
    return len(taken)


def step_of(model: AcadosModel, kind: str, *, stages: Any, steps: Any, nodes: str = "GAUSS_LEGENDRE") -> Step:
    """x1 = step(x, u, p, h) by the integrator of this kind: "ERK", "IRK" (with these nodes) or "DISCRETE"."""
    if isinstance(steps, np.ndarray) or isinstance(stages, np.ndarray):
        if len(set(np.ravel(steps))) > 1 or len(set(np.ravel(stages))) > 1:
            raise ControlError(
                "solver_options: the numbers of stages and steps of the integrator must be the same in all intervals"
            )
        stages, steps = int(np.ravel(stages)[0]), int(np.ravel(steps)[0])
    if kind == "DISCRETE":
        if is_empty(model.disc_dyn_expr):
            raise ControlError("model.disc_dyn_expr is needed for integrator_type 'DISCRETE': the next state")
        return Discrete(model_function(model, "disc_dyn_expr"), model.sizes[0])
    if kind == "ERK":
        if is_empty(model.f_expl_expr):
            raise ControlError("model.f_expl_expr is needed for integrator_type 'ERK': the derivative of the state")
        if stages not in (*EXPLICIT, 3):
            raise ControlError(f"an ERK method has 1 to 4 stages, got {stages!r:.20}")
        return Explicit(model_function(model, "f_expl_expr"), model.sizes[0], int(stages), int(steps))
    if is_empty(model.f_expl_expr) and is_empty(model.f_impl_expr):
        raise ControlError("model.f_impl_expr or f_expl_expr is needed for integrator_type 'IRK'")
    if is_empty(model.f_expl_expr):
        residual = model_function(model, "f_impl_expr", "x xdot u p")
    else:
        residual = _Defect(model_function(model, "f_expl_expr"))
    return Implicit(residual, model.sizes[0], int(stages), int(steps), nodes)


def _checked(value: Any, size: int, what: str) -> Any:
    if np.shape(value) != (size,):
        raise ControlError(
            f"{what} must have as many entries as the state, {size}; it has {np.size(np.asarray(value, dtype=object))}"
        )
    return value


class Discrete:
    """The next state as the model gives it."""

    def __init__(self, following: Callable[..., Any], size: int) -> None:
        self.following, self.size = following, size

    def __call__(self, x: Any, u: Any, p: Any, h: Any) -> Any:
        """x1."""
        return _checked(self.following(x, u, p), self.size, "model.disc_dyn_expr")


class Explicit:
    """Runge-Kutta methods of 1 to 4 stages, each of the order of its stages."""

    def __init__(self, derivative: Callable[..., Any], size: int, stages: int, steps: int) -> None:
        self.derivative, self.size, self.stages, self.steps = derivative, size, stages, steps

    def __call__(self, x: Any, u: Any, p: Any, h: Any) -> Any:
        """x1, with the control u all along."""
        return _repeated(lambda x: self._step(x, u, p, h * (1.0 / self.steps)), x, self.steps)

    def _step(self, x: Any, u: Any, p: Any, h: Any) -> Any:
        def f(x: Any) -> Any:
            return _checked(self.derivative(x, u, p), self.size, "model.f_expl_expr")

        if self.stages == 3:
            k1 = f(x)
            k2 = f(x + (0.5 * h) * k1)
            k3 = f(x + h * (2.0 * k2 - k1))
            return x + (h / 6.0) * (k1 + 4.0 * k2 + k3)

        def stage(_: Any, state: Any, row: Any) -> Any:
            k = f(state[0])
            return (x + (h * row[0]) * k, state[1] + (h * row[1]) * k), None

        return scan(stage, (x, x), INTEGRATORS[EXPLICIT[self.stages]])[0][1]


class _Defect:
    """f(x, u, p) - xdot."""

    def __init__(self, derivative: Callable[..., Any]) -> None:
        self.derivative = derivative

    def __call__(self, x: Any, xdot: Any, u: Any, p: Any) -> Any:
        return self.derivative(x, u, p) - xdot


class Implicit:
    """Collocation at the nodes of Gauss-Legendre (order 2 s) or Radau IIA (2 s - 1); its equations are solved by Newton's
    method and differentiated as solved."""

    def __init__(self, residual: Callable[..., Any], size: int, stages: int, steps: int, nodes: str) -> None:
        self.residual, self.size, self.stages, self.steps = residual, size, stages, steps
        self.A, self.b = collocation(nodes, stages)

    def __call__(self, x: Any, u: Any, p: Any, h: Any) -> Any:
        """x1, with the control u all along."""
        return _repeated(lambda x: self._step(x, u, p, h * (1.0 / self.steps)), x, self.steps)

    def _step(self, x: Any, u: Any, p: Any, h: Any) -> Any:
        straight = self.stages * self.size <= STRAIGHT
        rates = implicit(self._newton, self._equations) if straight else with_rule(self._rolled_newton, self._rule)
        return x + h * (self.b @ rates(x, u, p, h).reshape(self.stages, self.size))

    def _newton(self, x: Any, u: Any, p: Any, h: Any) -> Any:
        def change(K: Any) -> Any:
            F, J = linearize(lambda K: self._equations(K, x, u, p, h), K)
            return solve(J, F)

        return self._iterated(change)

    def _equations(self, K: Any, x: Any, u: Any, p: Any, h: Any) -> Any:
        """F(x + h A K, K) of all stages."""
        rates = K.reshape(self.stages, self.size)
        points = x + h * (self.A @ rates)
        each = [self.residual(at, rate, u, p) for at, rate in zip(points, rates, strict=True)]
        return np.concatenate([_checked(value, self.size, "model.f_impl_expr") for value in each])

    def _iterated(self, change: Callable[[Any], Any]) -> Any:
        """K by Newton's method, whose steps are -change(K); NaN if it does not converge."""

        def newton(_: Any, state: Any) -> Any:
            step = change(state["K"])
            return {"K": state["K"] - step, "change": np.max(abs(step) / (1.0 + abs(state["K"])))}

        start = {"K": array(np.zeros(self.stages * self.size)), "change": 1.0}
        end = loop(newton, start, NEWTON_ITERATIONS, until=lambda state: ~(state["change"] > NEWTON_TOLERANCE))
        return where(end["change"] <= NEWTON_CONVERGED, end["K"], np.full(self.stages * self.size, np.nan))

    # ---- many equations: stages and elimination as loops

    def _system(self, K: Any, x: Any, u: Any, p: Any, h: Any, *, by_data: bool) -> Table:
        """[J R] of the equations F(x + h A K, K) of all stages: J by K, and R is F, or its Jacobian by (x, u, p, h)."""
        rates = K.reshape(self.stages, self.size)
        data = [each for each in (u, p) if by_data and len(each)]

        def residual(at: Any, rate: Any, *rest: Any) -> Any:
            given = iter(rest)
            controls, parameters = (next(given) if by_data and len(each) else each for each in (u, p))
            return _checked(self.residual(at, rate, controls, parameters), self.size, "model.f_impl_expr")

        def stage(_: Any, state: Any, row: Any) -> Any:
            slope = array([plus_dot(0.0, row["A"], column) for column in rates.T])
            F, by_x, by_rate, *by_rest = linearize(residual, x + h * slope, row["rate"], *data)
            J = [(h * a) * by_x + d * by_rate for a, d in zip(row["A"], row["own"], strict=True)]
            R = [by_x, *by_rest, (by_x @ slope)[:, None]] if by_data else [F[:, None]]
            return state, np.concatenate([*J, *R], axis=1)

        rows: Table = scan(stage, (), {"A": self.A, "own": np.eye(self.stages), "rate": rates})[1]
        return rows.reshape(self.stages * self.size, rows.shape[2])

    def _rule(self, theta: Any, K: Any, tangents: Any) -> Any:
        """dK = -J^-1 R (dx, du, dp, dh)."""
        by_data = eliminated(self._system(K, *theta, by_data=True))
        moves = np.concatenate([np.ravel(np.asarray(each, dtype=object)) for each in tangents])
        return array([-plus_dot(0.0, by_data[i][: len(moves)], moves) for i in range(len(K))])

    def _rolled_newton(self, x: Any, u: Any, p: Any, h: Any) -> Any:
        def change(K: Any) -> Any:
            found = eliminated(self._system(K, x, u, p, h, by_data=False))
            return array([found.entry(i, 0) for i in range(found.rows)])

        return self._iterated(change)


def collocation(kind: str, stages: int) -> tuple[np.ndarray, np.ndarray]:
    """(A, b) of collocation: integrals of Lagrange's polynomials over the nodes on [0, 1]."""
    if not 1 <= stages <= 9:
        raise ControlError(f"an IRK method has 1 to 9 stages, got {stages!r:.20}")
    P = np.polynomial.Legendre.basis(stages)
    nodes = P if kind == "GAUSS_LEGENDRE" else P - np.polynomial.Legendre.basis(stages - 1)  # Radau IIA: the last one is 1
    c = 0.5 * (np.sort(nodes.roots().real) + 1.0)
    powers = np.arange(1, stages + 1)
    # sum_j a_ij c_j^(k-1) = c_i^k / k, and the same for b at the end; rounded, so that no processor matters
    V = np.vander(c, stages, increasing=True).T
    A, b = np.linalg.solve(V, (c[:, None] ** powers / powers).T).T, np.linalg.solve(V, 1.0 / powers)
    return np.round(A, 15), np.round(b, 15)


def _repeated(once: Callable[[Any], Any], x: Any, steps: int) -> Any:
    return once(x) if steps == 1 else scan(lambda _, x, __: (once(x), None), x, count=steps)[0]


class AcadosSimSolver:
    """An integrator with derivatives: set x, u, p and T, solve, get x, S_forw, Sx and Su."""

    def __init__(
        self, acados_sim: AcadosSim | AcadosOcp, json_file: str = "", generate: bool = True, build: bool = True, **_: Any
    ) -> None:
        options = acados_sim.solver_options
        self.acados_sim, self.model_name = acados_sim, acados_sim.model.name
        prefix = "" if isinstance(acados_sim, AcadosSim) else "sim_method_"
        stages, steps = getattr(options, f"{prefix}num_stages"), getattr(options, f"{prefix}num_steps")
        T = options.T if isinstance(acados_sim, AcadosSim) else _interval(acados_sim)
        if T is None and options.integrator_type != "DISCRETE":
            raise ControlError("solver_options.T is needed: the length of the interval of the simulation, in seconds")
        self.T = 1.0 if T is None else float(T)
        self.nx, self.nu, self.np = nx, nu, np_ = acados_sim.model.sizes
        for name, size in {"nx": nx, "nu": nu, "np": np_}.items():
            setattr(acados_sim.dims, name, size)
        self._step = step_of(
            acados_sim.model, options.integrator_type, stages=stages, steps=steps, nodes=options.collocation_type
        )
        p = parameter_values(acados_sim)
        self._values: dict[str, np.ndarray] = {"x": np.zeros(nx), "u": np.zeros(nu), "p": p, "seed_adj": np.ones(nx)}
        self._found: dict[str, Any] = {"x": np.zeros(nx), "Sx": np.eye(nx), "Su": np.zeros((nx, nu)), "time_tot": 0.0}

    @cached_property
    def function(self) -> Function:
        """(x, u, p, T) to the next state and its Jacobians: a condyle.Function, for batches, export and derivatives."""
        step = self._step

        def simulate(**given: Any) -> dict[str, Any]:
            u, p = given.get("u", np.zeros(0)), given.get("p", np.zeros(0))
            if "u" not in given:
                x1, Sx = linearize(lambda x: step(x, u, p, given["T"]), given["x"])
                return {"x_next": x1, "Sx": Sx}
            x1, Sx, Su = linearize(lambda x, u: step(x, u, p, given["T"]), given["x"], u)
            return {"x_next": x1, "Sx": Sx, "Su": Su}

        shapes: dict[str, Any] = {"x": self.nx, "u": self.nu, "p": self.np}
        return function(simulate, **{name: size for name, size in shapes.items() if size}, T=())

    def set(self, field_: str, value_: Any) -> None:
        """Set x, u, p, T, or seed_adj."""
        if field_ in ("xdot", "z"):
            return  # guesses of implicit integrators
        if field_ == "T":
            self.T = float(np.asarray(value_, dtype=float).ravel()[0])
            return
        if field_ not in self._values:
            raise ControlError(f"AcadosSimSolver.set: there is no '{field_}'; there are T, {', '.join(self._values)}")
        value = np.atleast_1d(np.asarray(value_, dtype=float)).ravel()
        if value.shape != self._values[field_].shape:
            raise ShapeError(f"AcadosSimSolver.set: '{field_}' has {len(self._values[field_])} entries, got {len(value)}")
        self._values[field_] = value

    def solve(self) -> int:
        """Integrate over T; 0, or 1 if a number is not finite, as where Newton's method of IRK does not converge."""
        given = {name: self._values[name] for name in ("x", "u", "p") if len(self._values[name])}
        self.function.kernel()  # compile before the clock starts
        start = time.perf_counter()
        found = self.function(**given, T=self.T)
        Su = found.Su if self.nu else np.zeros((self.nx, 0))
        self._found = {"x": found.x_next, "Sx": found.Sx, "Su": Su, "time_tot": time.perf_counter() - start}
        return 0 if np.isfinite(found.x_next).all() else 1

    def get(self, field_: str) -> Any:
        """The next state x, or its derivatives: S_forw = (Sx, Su) by x and u, S_adj = S_forw^T seed_adj; or time_tot."""
        if field_ in ("Sx", "Su", "x", "time_tot"):
            return np.copy(self._found[field_])[()]
        if field_ in ("S_forw", "S_adj"):
            S = np.concatenate([self._found["Sx"], self._found["Su"]], axis=1)
            return S if field_ == "S_forw" else S.T @ self._values["seed_adj"]
        if field_ in ("u", "p"):
            return self._values[field_].copy()
        if field_ in ("CPUtime", "ADtime", "LAtime", "time_ad", "time_la"):
            return self._found["time_tot"] if field_ == "CPUtime" else 0.0
        raise ControlError(
            f"AcadosSimSolver.get: '{field_}' is not supported; there are x, u, p, S_forw, Sx, Su, S_adj, time_tot"
        )

    def simulate(self, x: Any = None, u: Any = None, z: Any = None, xdot: Any = None, p: Any = None) -> np.ndarray:
        """The state after T from x with u and p; those that are not given stay as they are."""
        for name, value in {"x": x, "u": u, "p": p}.items():
            if value is not None:
                self.set(name, value)
        if self.solve() != 0:
            raise ControlError(
                f"AcadosSimSolver.simulate: the next state of '{self.model_name}' is not finite: x, u or p is wrong, or the "
                "equations of an IRK step were not solved by Newton's method; more steps are easier to solve"
            )
        next_state: np.ndarray = self.get("x")
        return next_state

    @classmethod
    def generate(cls, *_: Any, **__: Any) -> None:
        """Nothing: the first solve compiles."""

    build = generate


def _interval(ocp: AcadosOcp) -> Any:
    options = ocp.solver_options
    if options.Tsim is not None:
        return options.Tsim
    if options.time_steps is not None and len(options.time_steps):
        return options.time_steps[0]
    N = options.N_horizon or ocp.dims.N
    return None if options.tf is None or not N else options.tf / N


def parameter_values(description: AcadosSim | AcadosOcp) -> np.ndarray:
    """The parameters p as numbers; as many as the model has."""
    wanted = description.model.sizes[2]
    given = np.asarray(description.parameter_values, dtype=float).ravel()
    if len(given) != wanted:
        raise ShapeError(f"parameter_values has {len(given)} entries, and model.p has {wanted}; they must be as many")
    return given
