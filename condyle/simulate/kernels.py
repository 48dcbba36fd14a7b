"""The functions of a world, traced: states and controls in, packed states and derivatives out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from condyle.dynamics import energy
from condyle.robot.spatial import Array
from condyle.simulate.hessian import weighted_hessian
from condyle.simulate.integrate import moved, slope
from condyle.simulate.setup import Setup
from condyle.simulate.solver import LIMIT
from condyle.simulate.step import Inputs, contact_impulses, spring_energy
from condyle.simulate.tied import full_state
from condyle.tape.array import where
from condyle.tape.function import Function
from condyle.tape.loop import loop, scan
from condyle.tape.trace import trace
from condyle.tape.trace_cache import cached_trace, trace_key


def unpacked(setup: Setup, x: Array, u: Array, wrenches: Array | None) -> Inputs:
    """The parts of a packed state; time is counted in steps of the physics, so that it is exact."""
    nq, nv = setup.nq, setup.world.nv
    t = x[nq + nv] * setup.world.h if setup.world.timed else 0.0
    return Inputs(x[:nq], x[nq : nq + nv], u, t, wrenches)


def packed(setup: Setup, x: Array, q: Array, v: Array) -> Array:
    """The next state, one tick later."""
    return np.concatenate([q, v, x[-1:] + 1.0] if setup.world.timed else [q, v])


def substep(setup: Setup, x: Array, u: Array, wrenches: Array | None) -> tuple[Array, Any]:
    """(the next packed state, the residual) of one step of the physics."""
    after = moved(setup.world, unpacked(setup, x, u, wrenches), setup.integrator)
    return packed(setup, x, after.q, after.v), after.residual


def checked_step(setup: Setup, x: Array, u: Array, wrenches: Array | None, worst: Any) -> tuple[Array, Any]:
    """(the next state, the worst residual so far): a state that cannot go on, now or before, stays as it is."""

    def body(_: Any, state: Any) -> Any:
        now, worst = state
        after, residual = substep(setup, now, u, wrenches)
        # x - x is zero for numbers, and NaN for what is not finite
        finite = sum((a - a for a in (*now, *u, *after, *([] if wrenches is None else wrenches.ravel()))), 0.0)
        worst = np.maximum(worst, where(finite == 0.0, residual, np.inf))
        return where(worst <= LIMIT, after, now), worst

    if setup.substeps == 1:
        new: tuple[Array, Any] = body(0, (x, worst))
        return new
    kept: tuple[Array, Any] = loop(body, (x, worst), setup.substeps)
    return kept


def step(setup: Setup, x: Array, u: Array, wrenches: Array | None = None) -> Any:
    after, residual = checked_step(setup, x, u, wrenches, 0.0)
    return {"x1": after, "residual": residual}


def rollout(setup: Setup, x: Array, us: Array, worst: Any, wrenches: Array | None = None) -> Any:
    def body(_: Any, state: Any, u: Any) -> Any:
        after, residual = checked_step(setup, state[0], u, wrenches, state[1])
        return (after, residual), after

    (_, residual), xs = scan(body, (x, worst), us)
    return {"xs": xs, "residual": residual}


def slopes(setup: Setup, x: Array, u: Array, wrenches: Array | None = None) -> Any:
    found = slope(setup.world, unpacked(setup, x, u, wrenches), setup.integrator)
    return {"A": found.A, "B": found.B} if setup.world.nu else {"A": found.A}


def chained(setup: Setup, whole: Array, A: Array, B: Array) -> Any:
    """The derivatives of two steps: A whole, with B added to the columns of the controls."""
    added = np.hstack([np.zeros((len(A), len(A))), B[:, : setup.world.nu]])

    def body(_: Any, state: Any, row: Any) -> Any:
        return state, row[0] @ whole + row[1]

    _, out = scan(body, np.zeros(1), (A, added))
    return {"whole": out}


def forces(setup: Setup, x: Array, u: Array, wrenches: Array | None = None) -> Any:
    return {"forces": contact_impulses(setup.world, unpacked(setup, x, u, wrenches)) * (1.0 / setup.world.h)}


def total_energy(setup: Setup, x: Array) -> Any:
    now = unpacked(setup, x, np.zeros(0), None)
    model = setup.world.model
    q, v = full_state(setup.world, now.q, now.v)
    return {"energy": energy.kinetic_energy(model, q, v) + energy.potential_energy(model, q) + spring_energy(setup.world, q)}


def hessian(setup: Setup, x: Array, u: Array, weight: Array, wrenches: Array | None = None) -> Any:
    return {"H": weighted_hessian(setup.world, unpacked(setup, x, u, wrenches), weight, setup.integrator)}


KERNELS: dict[str, Callable[..., Any]] = {
    "step": step,
    "rollout": rollout,
    "slopes": slopes,
    "chained": chained,
    "forces": forces,
    "energy": total_energy,
    "hessian": hessian,
}


def compiled(setup: Setup, name: str, **shapes: Any) -> Function:
    """One of the kernels for arrays of these shapes; a world seen before is not traced again."""

    def traced(**arrays: Any) -> Any:
        return KERNELS[name](setup, **arrays)

    traced.__name__ = name
    key = f"{trace_key(KERNELS[name], setup)} {setup.world.key()} {setup.integrator} {setup.substeps} {name} {shapes!r}"
    return Function(cached_trace(key, partial(trace, traced, **shapes)))
