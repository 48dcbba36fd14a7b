"""The compiled functions of a world: states and controls in, packed states and derivatives out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from condyle.dynamics import energy
from condyle.dynamics.kinematics import poses
from condyle.robot.spatial import Array
from condyle.simulate.config import EULER
from condyle.simulate.folded_world import folded
from condyle.simulate.hessian import weighted_hessian
from condyle.simulate.integrate import StepResult, integrate_alone, step_jacobian
from condyle.simulate.law_residuals import law_residuals
from condyle.simulate.parameters import parameterized
from condyle.simulate.solver import Solution, limit
from condyle.simulate.step import Inputs, next_velocity, spring_energy
from condyle.simulate.world import World
from condyle.tape.array import array, isfinite, where
from condyle.tape.function import Function
from condyle.tape.loop import loop, scan
from condyle.tape.pytree import flatten
from condyle.tape.scalar import Scalar
from condyle.tape.trace import trace, trace_values
from condyle.tape.trace_cache import cached_trace, trace_key


@dataclass(frozen=True)
class Stepper:
    """A world with its integrator; `substeps` steps of the physics make one step."""

    world: World
    integrator: str
    substeps: int

    @property
    def nq(self) -> int:
        """Entries of a configuration."""
        return self.world.reduced.nq

    @property
    def nx(self) -> int:
        """Entries of a packed state: q, v, and the count of physics steps if forces depend on time."""
        return self.nq + self.world.nv + self.world.timed

    @property
    def gives_state(self) -> bool:
        """Whether the kernel of derivatives also gives the state: where both need the same solution, or the next substep it."""
        return self.integrator in EULER or self.substeps > 1


def unpacked(stepper: Stepper, x: Array, u: Array, wrenches: Array | None) -> Inputs:
    """The parts of a packed state; time is counted in steps of the physics, so that it is exact."""
    nq, nv = stepper.nq, stepper.world.nv
    t = x[nq + nv] * stepper.world.h if stepper.world.timed else 0.0
    return Inputs(x[:nq], x[nq : nq + nv], u, t, wrenches)


def packed(stepper: Stepper, x: Array, q: Array, v: Array) -> Array:
    """The next state, one tick later."""
    return np.concatenate([q, v, x[-1:] + 1.0] if stepper.world.timed else [q, v])


def substep(stepper: Stepper, x: Array, u: Array, wrenches: Array | None, worst: Any) -> tuple[Array, Any, StepResult]:
    """(the next state, the worst residual so far, the rest) of one step of the physics; see `checked_step`."""
    begin = unpacked(stepper, x, u, wrenches)
    if isinstance(worst, Scalar):
        # NaN ends the solver at once: a state that stays as it is costs little in all further steps
        speed = where(worst <= limit(), begin.v[0], np.nan)
        begin = replace(begin, v=np.concatenate([[speed], begin.v[1:]]))
    end = integrate_alone(stepper.world, begin, stepper.integrator)
    after = packed(stepper, x, end.q, end.v)
    outside = [] if wrenches is None else wrenches.ravel()
    other = folded(stepper.world)
    # a sum is finite only if all its terms are
    if other is None:
        total = sum((*x, *u, *after, *outside), 0.0)
    else:
        before, moved = other.state(x), other.state(after)
        total = sum(outside, other.sum([*before, *other.controls(u), *moved]))
    residual = np.maximum(worst, where(isfinite(total), end.residual, np.inf))
    # that of the step from which on a state stays as it is
    worst = where(worst <= limit(), residual, worst) if isinstance(worst, Scalar) else residual
    if other is None:
        return where(worst <= limit(), after, x), worst, end
    return other.whole_state(where(worst <= limit(), moved, before)), worst, end


def checked_step(stepper: Stepper, x: Array, u: Array, wrenches: Array | None, worst: Any) -> tuple[Array, Any]:
    """(the next state, the worst residual so far): a state that is not finite or does not converge stays as it is."""

    def body(_: Any, state: Any) -> Any:
        return substep(stepper, state[0], u, wrenches, state[1])[:2]

    if stepper.substeps == 1:
        new: tuple[Array, Any] = body(0, (x, worst))
        return new
    kept: tuple[Array, Any] = loop(body, (x, worst), stepper.substeps)
    return kept


def step(stepper: Stepper, x: Array, u: Array, wrenches: Array | None = None) -> Any:
    """The state after one step, and the largest residual."""
    after, residual = checked_step(stepper, x, u, wrenches, 0.0)
    return {"x1": after, "residual": residual}


def rollout(stepper: Stepper, x: Array, us: Any, wrenches: Array | None = None) -> Any:
    """The states after each step under the controls us, an array or a table, and the largest residual."""

    def body(_: Any, state: Any, u: Any) -> Any:
        after, residual = checked_step(stepper, state[0], u, wrenches, state[1])
        return (after, residual), after

    (_, residual), xs = scan(body, (x, 0.0), us)
    return {"xs": xs, "residual": residual}


def smoothing(stepper: Stepper, x: Array, us: Any, wrenches: Array | None = None) -> Any:
    """The largest smoothing that a step of a rollout is solved with, and the largest residual."""
    least = stepper.world.effective_smoothing(0.0)

    def body(state: Any, u: Any) -> Any:
        x, worst, largest = state
        after, residual, end = substep(stepper, x, u, wrenches, worst)
        used = np.maximum(largest, stepper.world.effective_smoothing(end.least_smoothing))
        # steps of a state that stays as it is count no more
        return after, residual, where(worst <= limit(), used, largest)

    def tick(_: Any, state: Any, u: Any) -> Any:
        if stepper.substeps == 1:
            return body(state, u), ()
        return loop(lambda _, state: body(state, u), state, stepper.substeps), ()

    (_, residual, largest), _ = scan(tick, (x, 0.0, least), us)
    return {"residual": residual, "smoothing": largest}


def jacobians(stepper: Stepper, x: Array, u: Array, wrenches: Array | None = None) -> Any:
    """A and B of one step of the physics; before them, if `gives_state`, the state after it and the residual."""
    solution: Solution | None = None
    end: dict[str, Any] = {}
    if stepper.gives_state:
        end, solution = _solved_step(stepper, x, u, wrenches)
    found = step_jacobian(stepper.world, unpacked(stepper, x, u, wrenches), stepper.integrator, solution)
    return end | ({"A": found.A, "B": found.B} if stepper.world.nu else {"A": found.A})


def inlined_jacobians(stepper: Stepper, x: Array, u: Array, wrenches: Array | None = None) -> Any:
    """A and B of one step of the physics alone, for a trace that has the state from elsewhere or needs none."""
    found = step_jacobian(stepper.world, unpacked(stepper, x, u, wrenches), stepper.integrator)
    return {"A": found.A, "B": found.B} if stepper.world.nu else {"A": found.A}


def _solved_step(stepper: Stepper, x: Array, u: Array, wrenches: Array | None) -> tuple[dict[str, Any], Solution | None]:
    """({"x1": ..., "residual": ...}, the solution of an Euler method) of one step of the physics.

    In a loop, which is a kernel of its own on a GPU (partition.py).
    """
    rebuild: Any = None

    def body(_: Any, state: Any, u: Any) -> Any:
        nonlocal rebuild
        after, worst, solved = substep(stepper, state[0], u, wrenches, state[1])
        found = solved.solution
        if found is None:
            return (after, worst), None
        leaves, rebuild, _ = flatten((found.dv, found.iterates, found.points or ()))
        return (after, worst), array(leaves)

    (after, worst), row = scan(body, (x, 0.0), array([u]))
    end = {"x1": after, "residual": worst}
    if rebuild is None:
        return end, None
    dv, iterates, points = rebuild(list(row[0]))
    return end, Solution(dv, iterates, worst, points or None)


def chained(stepper: Stepper, total: Array, A: Array, B: Array) -> Any:
    """The derivatives of two steps: A total, with B added to the columns of the controls."""
    added = np.hstack([np.zeros((len(A), len(A))), B[:, : stepper.world.nu]])

    def body(_: Any, state: Any, row: Any) -> Any:
        return state, row[0] @ total + row[1]

    _, out = scan(body, np.zeros(1), (A, added))
    return {"total": out}


def forces(stepper: Stepper, x: Array, u: Array, wrenches: Array | None = None) -> Any:
    """The force of the ground on each contact point, world axes."""
    found = next_velocity(stepper.world, unpacked(stepper, x, u, wrenches))
    return {"forces": found.contact_impulses * (1.0 / stepper.world.h)}


def step_laws(stepper: Stepper, x: Array, u: Array, wrenches: Array | None = None) -> Any:
    """The residual of each law of a step, see law_residuals.py."""
    return {"laws": law_residuals(stepper.world, unpacked(stepper, x, u, wrenches))}


def centers(stepper: Stepper, x: Array) -> Any:
    """The centres of the contact points in the world."""
    world = stepper.world
    X = poses(world.model, world.at(x[: stepper.nq]).q)
    return {"centers": np.array([X[point.link].point(np.array(point.position)) for point in world.points])}


def total_energy(stepper: Stepper, x: Array) -> Any:
    """Kinetic energy + potential energy + energy of the springs."""
    now = unpacked(stepper, x, np.zeros(0), None)
    model = stepper.world.model
    at = stepper.world.at(now.q)
    q, v = at.q, at.lift(now.v)
    return {"energy": energy.kinetic_energy(model, q, v) + energy.potential_energy(model, q) + spring_energy(stepper.world, q)}


def hessian(stepper: Stepper, x: Array, u: Array, weight: Array, wrenches: Array | None = None) -> Any:
    """Second derivatives of weight . (next state)."""
    return {"H": weighted_hessian(stepper.world, unpacked(stepper, x, u, wrenches), weight, stepper.integrator)}


KERNELS: dict[str, Callable[..., Any]] = {
    "step": step,
    "rollout": rollout,
    "smoothing": smoothing,
    "inlined_step": step,
    "inlined_rollout": rollout,
    "jacobians": jacobians,
    "inlined_jacobians": inlined_jacobians,
    "chained": chained,
    "forces": forces,
    "laws": step_laws,
    "centers": centers,
    "energy": total_energy,
    "hessian": hessian,
}
INLINED = ("inlined_step", "inlined_rollout")  # recorded with derivative rules: their tapes are differentiated


def compiled(stepper: Stepper, name: str, parameters: Mapping[str, str] = MappingProxyType({}), /, **shapes: Any) -> Function:
    """One of the kernels for arrays of these shapes; a world seen before is not traced again.

    `parameters`: {input: parameter of the world}, for those of the arrays that are parameters.
    """

    def traced(**arrays: Any) -> Any:
        given = {parameter: arrays.pop(port) for port, parameter in parameters.items()}
        return KERNELS[name](replace(stepper, world=parameterized(stepper.world, given)), **arrays)

    traced.__name__ = name
    source = trace_key(KERNELS[name], parameterized, stepper)
    numbers = f"{stepper.integrator} {stepper.substeps} {name} {shapes!r} {dict(parameters)!r}"
    record = trace if name in INLINED else trace_values
    return Function(cached_trace(f"{source} {stepper.world.key()} {numbers}", partial(record, traced, **shapes)))
