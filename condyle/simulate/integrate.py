"""Integrators on the manifold: semi-implicit and explicit Euler, and Runge-Kutta methods of two and four stages.

Contact enters all of them as the acceleration  (v+ - v) / h  that the step's optimum gives, a smooth function of the state. In
the Runge-Kutta methods the configuration moves by a tangent vector whose rate is that of the velocity (Munthe-Kaas 1999), so
rotations keep the method's order. The linear velocity of a free joint is integrated in axes that do not turn (integrate_pose.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from condyle.dynamics.limb_solve import Places
from condyle.dynamics.manifold import integrate, velocity_of_rate
from condyle.dynamics.rnea import inverse_dynamics
from condyle.robot.spatial import Array
from condyle.simulate.backward import backward_velocity, backward_velocity_derivatives
from condyle.simulate.folded_derivatives import (
    FoldedVelocityDerivatives,
    folded_for_derivatives,
    folded_inputs,
    folded_velocity_derivatives,
)
from condyle.simulate.folded_world import FoldedWorld, folded
from condyle.simulate.integrate_pose import (
    displacement_rate,
    in_axes_after,
    in_axes_before,
    moved,
    transport_acceleration,
)
from condyle.simulate.inverse import base_translations, momentum, weightless
from condyle.simulate.solver import Solution
from condyle.simulate.step import Inputs, NextVelocity, next_velocity
from condyle.simulate.step_derivatives import VelocityDerivatives, next_velocity_derivatives
from condyle.simulate.world import World
from condyle.tape.array import stop_gradient
from condyle.tape.derive import jacobian_at_zero
from condyle.tape.loop import scan
from condyle.tape.subroutine import subroutine

# one row for each stage: how far into the step it is, starting from the one before, and its weight
TABLES: dict[str, Array] = {
    "rk2": np.array([[0.0, 0.0], [0.5, 1.0]]),
    "rk4": np.array([[0.0, 1 / 6], [0.5, 1 / 3], [0.5, 1 / 3], [1.0, 1 / 6]]),
}


@dataclass(frozen=True)
class StepResult:
    """The state after one step of the physics, and the largest residual on the way.

    `acceleration`: the change of velocity per time, in the axes at the start of the step, (nv,). `contact_impulses`: on the
    robot, world axes, N s, (contacts, 3).
    """

    q: Array
    v: Array
    residual: Any
    acceleration: Array
    contact_impulses: Array
    solution: Solution | None = None  # of the one velocity that an Euler method solves for
    least_smoothing: Any = 0.0  # the largest on the way of the least smoothing of the laws, J; see solver.py


@dataclass(frozen=True)
class StepJacobian:
    """d(q, v)/d(q, v) and d(q, v)/du of a step, in the tangent space: (ndx, ndx) and (ndx, nu)."""

    A: Array
    B: Array


def integrate_step(
    world: World, x: Inputs, integrator: str, velocity: Callable[[Inputs], NextVelocity] | None = None
) -> StepResult:
    """One step of the physics. `velocity`: the velocity after a step from a state, `next_velocity` by default."""
    velocity = velocity or partial(backward_velocity if integrator == "backward_euler" else next_velocity, world)
    h = world.h
    if integrator not in TABLES:
        after = velocity(x)
        q, v = displaced(world, x.q, x.v if integrator == "explicit_euler" else after.v, after.v)
        solution, least = after.solution, after.least_smoothing
        return StepResult(q, v, after.residual, after.acceleration, after.contact_impulses, solution, least)

    def body(_: Any, state: Any, row: Any) -> Any:
        at, dq, v = stage(world, x, row[0], state["rate"], state["a"])
        after = velocity(at)
        rate = displacement_rate(world, dq, world.at(at.q).rate(at.v), v)
        a = in_axes_before(world, dq, after.acceleration)
        sums = {"dq": state["dq"] + rate * (h * row[1]), "dv": state["dv"] + a * (h * row[1])}
        impulses = state["impulses"] + after.contact_impulses * row[1]
        worst = np.maximum(state["residual"], after.residual)
        least = np.maximum(state["smoothing"], after.least_smoothing)
        new = {"rate": rate, "a": a, **sums, "impulses": impulses, "residual": worst, "smoothing": least}
        if bases:
            force = momentum_rate(world, at, after.acceleration)
            new["momentum"] = state["momentum"] + in_axes_before(world, dq, force) * (h * row[1])
        return new, ()

    still, zero, none = np.zeros(world.nd), np.zeros(world.nv), np.zeros((len(world.points), 3))
    start = {"rate": still, "a": zero, "dq": still, "dv": zero, "impulses": none, "residual": 0.0, "smoothing": 0.0}
    bases = base_translations(world) if world.coordinate_map.identity else []
    if bases:
        start["momentum"] = momentum(world, x.q, x.v)
    end, _ = scan(body, start, TABLES[integrator])
    q, v = moved(world, x.q, end["dq"], x.v + end["dv"])
    if not bases:
        return StepResult(q, v, end["residual"], end["dv"] * (1.0 / h), end["impulses"], None, end["smoothing"])
    # what forces gave each free base, whatever the joints did meanwhile: velocities at the stages have it to the method's order
    left = in_axes_after(world, end["dq"], end["momentum"]) - momentum(world, q, v)
    for base, mass in bases:
        v[base] = v[base] + left[base] * (1.0 / mass)
    a = (in_axes_before(world, end["dq"], v) - x.v) * (1.0 / h)
    return StepResult(q, v, end["residual"], a, end["impulses"], None, end["smoothing"])


def integrate_alone(world: World, x: Inputs, integrator: str) -> StepResult:
    """`integrate_step` as a subroutine: its bits do not depend on what is computed around it, nor on what is read of it."""

    def step(q: Array, v: Array, u: Array, t: Any, wrenches: Any) -> Any:
        end = integrate_step(world, Inputs(q, v, u, t, wrenches if len(wrenches) else None), integrator)
        solved = end.solution
        unknowns = () if solved is None else (solved.dv, solved.iterates, solved.points or ())
        return end.q, end.v, end.residual, end.acceleration, end.contact_impulses, unknowns, end.least_smoothing

    wrenches = () if x.wrenches is None else x.wrenches
    q, v, residual, acceleration, impulses, unknowns, least = subroutine(step)(x.q, x.v, x.u, x.t, wrenches)
    solution = None
    if unknowns:
        dv, iterates, points = unknowns
        solution = Solution(dv, iterates, residual, points or None, least)
    return StepResult(q, v, residual, acceleration, impulses, solution, least)


def momentum_rate(world: World, x: Inputs, a: Array) -> Array:
    """M dv/dt and velocity products at the acceleration a, in axes that do not turn: the force on each free base, in its rows."""
    return inverse_dynamics(weightless(world.model), x.q, x.v, a - transport_acceleration(world, x.v))


def displaced(world: World, q: Array, rate: Array, v: Array) -> tuple[Array, Array]:
    """`moved` along the velocity `rate` for a step, of one limb that stands for all where there are limbs."""
    if not world.holonomic:
        return moved(world, q, world.at(q).rate(rate) * world.h, v)
    other = folded(world)
    if other is None:
        return moved(world, q, rate * world.h, v)
    fold = other.limbs.fold
    after, v_after = moved(other, other.configuration(q), fold(rate) * world.h, fold(v))
    return other.all_coordinates(after), other.limbs.unfold(v_after)


def stage(world: World, x: Inputs, node: Any, rate: Array, a: Array) -> tuple[Inputs, Array, Array]:
    """(the state at a stage, the displacement that leads there, the velocity there in the axes at the start)."""
    step = node * world.h
    dq, v = rate * step, x.v + a * step
    there, v_there = moved(world, x.q, dq, v)
    return Inputs(there, v_there, x.u, x.t + step, x.wrenches), dq, v


def step_jacobian(world: World, x: Inputs, integrator: str, solution: Solution | None = None) -> StepJacobian:
    """The derivatives of one step of the physics: those of `integrate_step`, with the velocity's by structured recursions.

    `solution`: that of the step, of an Euler method at the state itself, if it is known already.
    """
    n = world.nd + world.nv
    if integrator in TABLES:
        J = _derivatives(world, x, integrator, lambda at, _: linearized_velocity(world, at), n + world.nu)
        return StepJacobian(J[:, :n], J[:, n:])
    # one velocity is solved for: what the step does with it is sparse, and its own derivatives are multiplied once
    backward = integrator == "backward_euler"
    if not backward and (other := folded_for_derivatives(world)) is not None:
        return _folded_jacobian(other, x, integrator, solution)
    found = backward_velocity_derivatives(world, x) if backward else next_velocity_derivatives(world, x, solution)
    J = _derivatives(world, x, integrator, _known_velocity(world, found), n + world.nv)
    A = J[:, :n] + J[:, n:] @ np.hstack([found.by_q, found.by_v])
    return StepJacobian(A, J[:, n:] @ found.by_u if world.nu else np.zeros((n, 0)))


def _folded_jacobian(world: FoldedWorld, x: Inputs, integrator: str, solution: Solution | None) -> StepJacobian:
    """The same with one limb that stands for all."""
    found, limbs = folded_velocity_derivatives(world, x, solution), world.limbs
    n, t, all_of = 2 * world.nv, world.trunk, np.arange(3 * world.nv).reshape(3, world.nv)
    J = _derivatives(world, folded_inputs(world, x), integrator, _known_velocity(world, found), n + world.nv)
    rows, own = all_of[:2, :t].ravel(), all_of[:2, t:].ravel()
    by = found.columns.times(J[np.ix_(rows, all_of[2, :t])], J[np.ix_(own, all_of[2, t:])])
    # what the state does by itself, within the whole robot and within a limb
    by.trunk[:, : len(rows)] = by.trunk[:, : len(rows)] + J[np.ix_(rows, rows)]
    by.own[:, by.width : by.width + len(own)] = by.own[:, by.width : by.width + len(own)] + J[np.ix_(own, own)]
    A, B = [by.part(slice(None, len(rows)), slice(None, len(own))), by.part(slice(len(rows), None), slice(len(own), None))]
    states, place = Places.of(limbs, 2), {k: j for j, k in enumerate(world.of.actuated)}
    of_all = [place[limbs.trunk[k]] for k in world.actuated if k < t]
    of_limb = [[place[limb[k - t]] for k in world.actuated if k >= t] for limb in limbs.limbs]
    return StepJacobian(A.unfolded(states, states), B.unfolded(states, Places(of_all, of_limb)))


def _known_velocity(
    world: World, found: VelocityDerivatives | FoldedVelocityDerivatives
) -> Callable[[Inputs, Array], NextVelocity]:
    """The velocity after a step that is known already, changed by d."""

    def velocity(at: Inputs, d: Array) -> NextVelocity:
        return NextVelocity(found.v + d, found.acceleration, np.zeros((len(world.points), 3)), 0.0)

    return velocity


def _derivatives(world: World, x: Inputs, integrator: str, velocity: Callable[[Inputs, Array], NextVelocity], size: int) -> Array:
    """The derivatives of a step, in the tangent space, by q, v and what follows in d: controls, or changes of the velocity."""
    reduced, nd, n = world.reduced, world.nd, world.nd + world.nv

    def moved(d: Array) -> dict[str, Any]:
        u = x.u + d[n:] if integrator in TABLES and world.nu else x.u
        at = replace(x, q=integrate(reduced, x.q, d[:nd]), v=x.v + d[nd:n], u=u)
        after = integrate_step(world, at, integrator, lambda at: velocity(at, d[n:]))
        end = stop_gradient(after.q)
        return {"change": np.concatenate([velocity_of_rate(reduced, end, after.q - end), after.v])}

    return jacobian_at_zero(moved, size, one_limb=True)["change"]


def linearized_velocity(world: World, x: Inputs) -> NextVelocity:
    """`next_velocity` in a form whose first derivatives by q, v and u are the matrices of `next_velocity_derivatives`."""
    here = replace(x, q=stop_gradient(x.q), v=stop_gradient(x.v), u=stop_gradient(x.u))
    found = next_velocity_derivatives(world, here)
    dq, dv = velocity_of_rate(world.reduced, here.q, x.q - here.q), x.v - here.v
    change = found.by_q @ dq + found.by_v @ dv
    if world.nu:
        change = change + found.by_u @ (x.u - here.u)
    a = found.acceleration + (change - dv) * (1.0 / world.h)
    return NextVelocity(found.v + change, a, np.zeros((len(world.points), 3)), 0.0)
