"""Optimal control problems: dynamics, costs and bounds over a horizon of N intervals.

    min  sum_k l(x_k, u_k, r_k) + l_N(x_N, r_N)    x_{k+1} = step(x_k, u_k),    lower <= h(x_k, u_k) <= upper

`condyle.ocp` makes a problem out of Python functions; its methods make solvers, each compiled into one kernel.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError, require_importable
from condyle.methods.mpc.constraints import NO_CONSTRAINTS, Constraints, constraints, output_sizes
from condyle.methods.mpc.cost import Cost
from condyle.methods.mpc.dynamics import INTEGRATORS, Dynamics
from condyle.methods.mpc.move_blocking import REPEATS, blocked_constraints, blocked_cost, blocked_dynamics
from condyle.methods.mpc.space import Space, space, space_of_loop, space_of_world
from condyle.simulate.simulation import Simulation
from condyle.tape.parameter import Parameter, parameter
from condyle.tape.table import table
from condyle.tape.trace import trace

MOST_STAGES = 2000


def ocp(
    dynamics: Any,
    /,
    *,
    N: int,
    x: Any = None,
    u: Any = None,
    dt: Any = None,
    integrator: str | None = None,
    substeps: int = 1,
    residual: Callable[..., Any] | None = None,
    weights: Any = None,
    terminal_residual: Callable[..., Any] | None = None,
    terminal_weights: Any = None,
    cost: Callable[..., Any] | None = None,
    terminal_cost: Callable[..., Any] | None = None,
    reference: Any = None,
    parameters: Mapping[str, Any] | None = None,
    stage_parameters: Mapping[str, Any] | None = None,
    bounds: Mapping[str, Any] | None = None,
    terminal_bounds: Mapping[str, Any] | None = None,
    constraints: Callable[..., Any] | None = None,
    terminal_constraints: Callable[..., Any] | None = None,
    soft: Mapping[str, Any] | None = None,
    move_blocking: Sequence[int] | None = None,
) -> Problem:
    """An optimal control problem over N intervals.

    `dynamics`: a Simulation; a closed loop, whose references are the controls; or a function (x, u) or (x, u, p) that returns the
    next state, or, if `dt` is given, the derivative of the state, which is integrated by `integrator` ("rk4" by default,
    "midpoint", "euler") with `substeps`. `dt`: the length of an interval, or N of them. `x`, `u`: sizes, or {name: size} of named
    parts; a part of x may be condyle.methods.mpc.quaternion().

    Costs: `residual(x, u, r, p)` with `weights`, half their weighted square, and a scalar `cost(x, u, r, p)`; r and p may be left
    out. At the end `terminal_residual(x, r, p)` and `terminal_cost(x, r, p)`. `reference`: the size of r, or its default values.
    `parameters`: {name: default} of p["name"]; `stage_parameters`: {name: default (n,) or (N + 1, n)} of those with a value (n,)
    for each stage. All of them can be given anew with each solve, and none is compiled in. A parameter with the name of one of
    the simulation is that one: "gravity", or "ground_friction" for "ground.friction".

    `bounds`: {name: b} for |part| <= b, or {name: (low, high)} of parts of x and u, and of what `constraints(x, u, p)` returns, a
    dict of arrays or one array called "constraints". Bounds of states hold from the second state on, to the last one;
    `terminal_bounds` and `terminal_constraints(x, p)` are for the last one. `soft`: {name: l2} or {name: (l1, l2)}, the weights
    of slacks, of equalities too. `move_blocking`: for how many intervals each control stays, N in all.
    """
    arguments = as_given(locals())
    if isinstance(N, bool) or not isinstance(N, (int, np.integer)) or not 1 <= N <= MOST_STAGES:
        raise ControlError(f"a horizon has N intervals, a whole number from 1 to {MOST_STAGES}; got N={N!r:.40}")
    made = _dynamics(dynamics, x, u, dt, integrator, substeps)
    states, controls = made.states, made.controls
    given = {name: parameter(name, value) for name, value in (parameters or {}).items()}
    given |= {name: parameter(name, _per_stage(name, value, int(N))) for name, value in (stage_parameters or {}).items()}
    nr, r_default = _reference(reference, int(N))
    stage = Cost(states, controls, _adapted("residual", residual, 2, nr), _adapted("cost", cost, 2, nr), np.zeros(0))
    final = Cost(
        states, None, _adapted("terminal_residual", terminal_residual, 1, nr), _adapted("terminal_cost", terminal_cost, 1, nr),
        np.zeros(0),
    )  # fmt: skip
    if all(each is None for each in (residual, cost, terminal_residual, terminal_cost)):
        raise ControlError(
            "a problem needs a cost: residual=f(x, u) with weights, cost=f(x, u) with one number, or one at the end"
        )
    repeats, staged = _blocking(move_blocking, int(N)), tuple(stage_parameters or ())
    if repeats is not None:
        made = blocked_dynamics(made)
        stage, final = blocked_cost(stage, made), blocked_cost(final, made)
        given[REPEATS] = parameter(REPEATS, np.array([*repeats, False], dtype=float)[:, None])
        staged += (REPEATS,)
    problem = Problem(
        int(N),
        made,
        given,
        nr,
        r_default,
        _intervals(dt, int(N)),
        stage,
        final,
        NO_CONSTRAINTS,
        NO_CONSTRAINTS,
        repeats,
        staged,
        arguments,
    )
    return _completed(problem, weights, terminal_weights, bounds, terminal_bounds, constraints, terminal_constraints, soft)


@dataclass(frozen=True)
class Problem:
    """What is to be solved; `condyle.ocp` makes it. x is a state (nx,), changes of it have ndx entries, u is a control (nu,)."""

    N: int
    dynamics: Dynamics
    parameters: dict[str, Parameter]
    nr: int
    reference_default: np.ndarray
    intervals: np.ndarray | None
    stage_cost: Cost
    terminal_cost: Cost
    constraints: Constraints
    terminal_constraints: Constraints
    repeats: tuple[bool, ...] | None  # whether each interval keeps the control of the one before
    staged: tuple[str, ...]  # parameters with a value for each stage
    arguments: dict[str, Any]  # of `ocp`

    @property
    def states(self) -> Space:
        """The space of states."""
        return self.dynamics.states

    @property
    def nx(self) -> int:
        """Numbers of a state."""
        return self.states.size

    @property
    def nx_given(self) -> int:
        """Numbers of the state that a solver is given: without the control before, which move blocking adds."""
        return self.nx - (self.nu if self.repeats is not None else 0)

    @property
    def ndx(self) -> int:
        """Dimensions of a change of state."""
        return self.states.tangent

    @property
    def nu(self) -> int:
        """Numbers of a control."""
        return self.dynamics.controls.size

    @cached_property
    def data(self) -> dict[str, Parameter]:
        """All that may be given with a solve, with defaults: reference, weights, bounds, dt, and parameters of the problem."""
        N, h, end = self.N, self.constraints, self.terminal_constraints
        found: dict[str, Any] = {}
        if self.nr:
            found["reference"] = self.reference_default
        if self.stage_cost.weights.size:
            found["weights"] = self.stage_cost.weights
        if self.terminal_cost.weights.size:
            found["terminal_weights"] = self.terminal_cost.weights
        if h.rows:
            found |= {"lower": np.tile(h.lower, (N, 1)), "upper": np.tile(h.upper, (N, 1))}
        if end.rows:
            found |= {"terminal_lower": end.lower, "terminal_upper": end.upper}
        if self.intervals is not None:
            found["dt"] = self.intervals
        return {name: parameter(name, value) for name, value in found.items()} | self.parameters

    def trace_data(self) -> tuple[Any, ...]:
        """All that a trace which uses the problem depends on."""
        return *(getattr(self, name) for name in self.__dataclass_fields__ if name != "arguments"), self.data

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles and copies hold the arguments of `ocp`."""
        require_importable("the optimal control problem", *self.arguments.values())
        options = dict(self.arguments)
        return partial(ocp, options.pop("dynamics"), **options), ()

    # ---- the problem inside of a trace

    def values(self) -> dict[str, Any]:
        """The data as it is now, traced values of the function being traced; what differs from stage to stage as tables."""
        per_stage = {"reference", "lower", "upper", "dt", *self.staged}
        found = {name: p.resolve() for name, p in self.data.items()}
        return {name: table(value) if name in per_stage else value for name, value in found.items()}

    def p(self, values: Mapping[str, Any], k: Any = 0) -> dict[str, Any]:
        """The parameters of the problem in stage k, as its functions take them."""
        return {name: values[name][k] if name in self.staged else values[name] for name in self.parameters}

    # ---- solvers

    def rti(self, **options: Any) -> Any:
        """The real-time iteration: one Gauss-Newton step from the last plan, see condyle.methods.mpc.sqp.RealTimeIteration."""
        from condyle.methods.mpc.sqp import RealTimeIteration

        return RealTimeIteration(self, **options)

    def sqp(self, **options: Any) -> Any:
        """Sequential quadratic programming until it converges, see condyle.methods.mpc.sqp.SQP."""
        from condyle.methods.mpc.sqp import SQP

        return SQP(self, **options)

    def ilqr(self, **options: Any) -> Any:
        """Iterative LQR with bounds on the controls until it converges, see condyle.methods.mpc.ilqr.ILQR."""
        from condyle.methods.mpc.ilqr import ILQR

        return ILQR(self, **options)

    def mppi(self, **options: Any) -> Any:
        """Model-predictive path integral control, see condyle.methods.mpc.sampling.MPPI."""
        from condyle.methods.mpc.sampling import MPPI

        return MPPI(self, **options)

    def predictive_sampling(self, **options: Any) -> Any:
        """The best of many rollouts with noise, see condyle.methods.mpc.sampling.PredictiveSampling."""
        from condyle.methods.mpc.sampling import PredictiveSampling

        return PredictiveSampling(self, **options)

    def __repr__(self) -> str:
        bounds = len(self.constraints.sides)
        return f"<optimal control problem: {self.N} intervals, nx {self.nx}, nu {self.nu}, {bounds} bounds in each>"


# ---- from what the user gave


def as_given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, without the changes that the caller may make to them afterwards."""
    return {name: deepcopy(value) if isinstance(value, (dict, list, np.ndarray)) else value for name, value in arguments.items()}


def _dynamics(given: Any, x: Any, u: Any, dt: Any, integrator: str | None, substeps: int, *, decides: bool = True) -> Dynamics:
    """The dynamics that a user gave; `decides`: whether their controls are what is looked for, so there have to be some."""
    if isinstance(substeps, bool) or not isinstance(substeps, (int, np.integer)) or substeps < 1:
        raise ControlError(f"substeps must be a whole number from 1 up, got {substeps!r:.40}")
    if isinstance(given, Simulation):
        if x is not None or u is not None or dt is not None or integrator is not None:
            raise ControlError("a simulation has its own state, controls and dt; leave out x, u, dt and integrator")
        if not given.nu and decides:
            raise ControlError(
                "the simulation has no actuated joints, so nothing to decide; write a function (x, u) around its step, like "
                "lambda x, u: world.step(x, wrenches={frame: ...})"
            )
        controls = space("u", given.nu, "u") if given.nu else Space(())
        return Dynamics(space_of_world(given), controls, given.step, None, int(substeps), given)
    if isinstance(given, Loop):
        return _loop_dynamics(given, int(substeps), x is None and u is None and dt is None and integrator is None, decides)
    if not callable(given):
        raise ControlError(
            f"the dynamics are a function (x, u), a condyle.Simulation or a condyle.Loop, got {type(given).__name__}"
        )
    if x is None or u is None:
        raise ControlError("the dynamics need the sizes of state and control: x=4, u=1, or {name: size} of their parts")
    if dt is None and integrator is not None:
        raise ControlError(f"integrator='{integrator}' needs dt, the length of an interval in seconds")
    chosen = None if dt is None else integrator or "rk4"
    if chosen is not None and chosen not in INTEGRATORS:
        raise ControlError(f"integrator must be one of {', '.join(INTEGRATORS)}, got {integrator!r:.40}")
    controls = space("u", u, "u")
    if any(p.retract is not None for p in controls.parts):
        raise ControlError("u: controls are plain numbers; a quaternion can be a part of the state")
    return Dynamics(space("x", x, "x"), controls, _with_optional("dynamics", given, 2, 3), chosen, int(substeps))


def _loop_dynamics(loop: Loop, substeps: int, alone: bool, decides: bool) -> Dynamics:
    """The ticks of a closed loop, whose references are the controls."""
    if not alone:
        raise ControlError("a loop has its own state, references and dt; leave out x, u, dt and integrator")
    sizes = {name: math.prod(shape) for name, shape in loop.inputs.items()}
    if not sizes and decides:
        raise ControlError("a loop without references has nothing to decide; its references are the controls of a problem")
    controls = space("u", sizes, "u") if sizes else Space(())
    places = controls.slices()

    def tick(x: Any, u: Any, _: Any) -> Any:
        return loop.step(x, {name: u[own].reshape(loop.inputs[name]) for name, (own, _) in places.items()})

    return Dynamics(space_of_loop(loop), controls, tick, None, substeps)


def _intervals(dt: Any, N: int) -> np.ndarray | None:
    if dt is None:
        return None
    try:
        found = np.broadcast_to(np.asarray(dt, dtype=float), (N,)).copy()
    except (TypeError, ValueError):
        raise ControlError(f"dt must be the length of an interval in seconds, or N={N} of them, got {dt!r:.60}") from None
    if not (np.isfinite(found).all() and (found > 0.0).all()):
        raise ControlError(f"dt must be finite and above zero, got {dt!r:.60}")
    return found


def _reference(given: Any, N: int) -> tuple[int, np.ndarray]:
    """(size of a stage's reference, default (N + 1, size))."""
    if given is None:
        return 0, np.zeros((N + 1, 0))
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        if given < 1:
            raise ControlError(f"reference: its size must be 1 or more, got {given}")
        return int(given), np.zeros((N + 1, int(given)))
    try:
        array = np.asarray(given, dtype=float)
        full = np.broadcast_to(array, (N + 1, array.shape[-1])).copy()
    except (TypeError, ValueError, IndexError):
        raise ControlError(f"reference is the size of r, one r for all stages, or {N + 1} of them, got {given!r:.60}") from None
    return full.shape[1], full


def _per_stage(name: str, given: Any, N: int) -> np.ndarray:
    try:
        array = np.asarray(given, dtype=float)
        return np.broadcast_to(array, (N + 1, array.shape[-1])).copy()
    except (TypeError, ValueError, IndexError):
        raise ControlError(
            f"stage_parameters: '{name}' is an array for all stages, or {N + 1} of them, got {given!r:.60}"
        ) from None


def _blocking(given: Sequence[int] | None, N: int) -> tuple[bool, ...] | None:
    if given is None:
        return None
    sizes = list(given)
    if not all(isinstance(k, (int, np.integer)) and k >= 1 for k in sizes) or sum(sizes) != N:
        raise ControlError(f"move_blocking says for how many intervals each control stays, N={N} in all; got {given!r:.60}")
    return tuple(k > 0 for size in sizes for k in range(size))


def _adapted(name: str, function: Callable[..., Any] | None, first: int, nr: int) -> Callable[..., Any] | None:
    """The function with all of (x, u, r, p), or (x, r, p): users may leave out p, and r where there is none."""
    if function is None:
        return None
    full = _with_optional(name, function, first, first + (2 if nr else 1))
    return full if nr else lambda *args: full(*args[:first], args[-1])


def _with_optional(name: str, function: Callable[..., Any], least: int, most: int) -> Callable[..., Any]:
    """The function called with as many of the arguments as it takes."""
    try:
        taken = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    except (TypeError, ValueError):
        return function
    if any(p.kind is p.VAR_POSITIONAL for p in taken):
        return function
    count = len(taken)
    order = {2: "(x, u), then r, then p", 1: "(x), then r, then p"}[least]
    if not least <= count <= most:
        raise ControlError(
            f"{name} takes {least} to {most} arguments, {order}; this one takes {count}; r exists if reference= is given"
        )
    return lambda *args: function(*args[:count])


def _completed(
    problem: Problem,
    weights: Any,
    terminal_weights: Any,
    bounds: Any,
    terminal_bounds: Any,
    function: Callable[..., Any] | None,
    terminal_function: Callable[..., Any] | None,
    soft: Any,
) -> Problem:
    """The problem with weights and constraints, whose sizes are found by running its functions once."""
    from dataclasses import replace

    states, controls = problem.states, problem.dynamics.controls
    h = None if function is None else _with_optional("constraints", function, 2, 3)
    h_end = None if terminal_function is None else _with_optional("terminal_constraints", terminal_function, 1, 2)
    if problem.repeats is not None:
        h, h_end = (blocked_constraints(f, problem.nx_given, end=f is h_end) for f in (h, h_end))
    sizes = _sizes(problem, h, h_end)
    own = {k: v for k, v in (bounds or {}).items()}
    soft = dict(soft or {})
    # bounds of states hold for the last one, too, unless it has its own
    names = {p.name for p in states.parts}
    at_end = {k: v for k, v in own.items() if k in names} | dict(terminal_bounds or {})
    bounded, bounded_end = {*own, *sizes["h"]}, {*at_end, *sizes["h_end"]}
    unknown = [k for k in soft if k not in bounded | bounded_end]
    if unknown:
        known = ", ".join(sorted(bounded | bounded_end)) or "none"
        raise ControlError(f"soft: there are no bounds on '{unknown[0]}'; bounded are {known}")
    stage, end = (
        constraints(states, inputs, function, size, bounds, {k: v for k, v in soft.items() if k in taken}, what=what)
        for inputs, function, size, bounds, taken, what in (
            (controls, h, sizes["h"], own, bounded, "bounds"),
            (None, h_end, sizes["h_end"], at_end, bounded_end, "terminal_bounds"),
        )
    )
    return replace(
        problem,
        constraints=stage,
        terminal_constraints=end,
        stage_cost=replace(problem.stage_cost, weights=_weights("weights", weights, sizes["residual"])),
        terminal_cost=replace(
            problem.terminal_cost, weights=_weights("terminal_weights", terminal_weights, sizes["residual_end"])
        ),
    )


def _sizes(problem: Problem, h: Any, h_end: Any) -> dict[str, Any]:
    """Sizes of what the user's functions return, from one trace of them."""
    found: dict[str, Any] = {"h": {}, "h_end": {}, "residual": 0, "residual_end": 0}

    def probe(**given: Any) -> dict[str, Any]:
        p = {name: each.resolve()[0] if name in problem.staged else each.resolve() for name, each in problem.parameters.items()}
        x, u, r = given["x"], given["u"], given.get("r")
        if problem.stage_cost.residual is not None:
            found["residual"] = np.size(np.asarray(problem.stage_cost.residual(x, u, r, p), dtype=object))
        if problem.terminal_cost.residual is not None:
            found["residual_end"] = np.size(np.asarray(problem.terminal_cost.residual(x, r, p), dtype=object))
        if h is not None:
            found["h"] = output_sizes(h(x, u, p))
        if h_end is not None:
            found["h_end"] = output_sizes(h_end(x, p))
        return {"x": x}

    trace(probe, x=problem.nx, u=problem.nu, **({"r": problem.nr} if problem.nr else {}))
    return found


def _weights(name: str, given: Any, size: int) -> np.ndarray:
    if not size:
        if given is not None:
            raise ControlError(f"{name} belong to a residual, and there is none")
        return np.zeros(0)
    try:
        found = np.broadcast_to(np.asarray(1.0 if given is None else given, dtype=float), (size,)).copy()
    except (TypeError, ValueError):
        raise ControlError(
            f"{name} must be one number per entry of the residual, {size}; got an array of shape {np.shape(given)}"
        ) from None
    if not np.isfinite(found).all() or (found < 0.0).any():
        raise ControlError(f"{name} must be finite and not negative, got {given!r:.60}")
    return found
