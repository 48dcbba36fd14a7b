"""Integrators on the manifold: semi-implicit and explicit Euler, and Runge-Kutta methods of two and four stages.

Contact enters all of them as the acceleration  (v+ - v) / h  that the step's optimum gives, a smooth function of the state. In
the Runge-Kutta methods the configuration moves by a tangent vector whose rate is that of the velocity (Munthe-Kaas 1999), so
rotations keep the method's order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from condyle.dynamics.limb_solve import Places
from condyle.dynamics.manifold import integrate, tangent_rate, velocity_of_rate
from condyle.robot.spatial import Array
from condyle.simulate.backward import backward_impulses, backward_step_derivatives, differentiable_backward_step
from condyle.simulate.config import EULER
from condyle.simulate.folded_derivatives import (
    FoldedVelocityDerivatives,
    folded_for_derivatives,
    folded_inputs,
    folded_velocity_derivatives,
)
from condyle.simulate.folded_world import FoldedWorld, folded
from condyle.simulate.integrate_pose import integrate_pose, transport_acceleration
from condyle.simulate.solver import Solution
from condyle.simulate.step import Inputs, NextVelocity, next_velocity
from condyle.simulate.step_derivatives import VelocityDerivatives, next_velocity_derivatives
from condyle.simulate.world import World
from condyle.tape.array import stop_gradient
from condyle.tape.derive import jacobian_at_zero
from condyle.tape.loop import scan

# one row for each stage: how far into the step it is, starting from the one before, and its weight
TABLES: dict[str, Array] = {
    "rk2": np.array([[0.0, 0.0], [0.5, 1.0]]),
    "rk4": np.array([[0.0, 1 / 6], [0.5, 1 / 3], [0.5, 1 / 3], [1.0, 1 / 6]]),
}


@dataclass(frozen=True)
class StepResult:
    """The state after one step of the physics, and the largest residual on the way.

    `acceleration`: the mean over the step, in body axes, (nv,). `contact_impulses`: on the robot, world axes, N s, (contacts, 3).
    """

    q: Array
    v: Array
    residual: Any
    acceleration: Array
    contact_impulses: Array
    solution: Solution | None = None  # of the one velocity that an Euler method solves for


@dataclass(frozen=True)
class StepJacobian:
    """d(q, v)/d(q, v) and d(q, v)/du of a step, in the tangent space: (ndx, ndx) and (ndx, nu)."""

    A: Array
    B: Array


def integrate_step(
    world: World, x: Inputs, integrator: str, velocity: Callable[[Inputs], NextVelocity] | None = None
) -> StepResult:
    """One step of the physics. `velocity`: the velocity after a step from a state, `next_velocity` by default."""
    velocity = velocity or partial(next_velocity, world)
    reduced, h = world.reduced, world.h
    if integrator == "semi_implicit_euler":
        after = velocity(x)
        q, v = moved_pose(world, x.q, after.v)
        return StepResult(q, v, after.residual, after.acceleration, after.contact_impulses, after.solution)
    if integrator == "backward_euler":
        v, residual = differentiable_backward_step(world, x)
        q = integrate(reduced, x.q, v * h)
        return StepResult(q, v, residual, (v - x.v) * (1.0 / h), backward_impulses(world, x, v))
    if integrator == "explicit_euler":
        after = velocity(x)
        q = integrate(reduced, x.q, world.at(x.q).rate(x.v) * h)
        v = after.v - transport_acceleration(world, x.v) * h
        return StepResult(q, v, after.residual, after.acceleration, after.contact_impulses, after.solution)

    def body(_: Any, state: Any, row: Any) -> Any:
        at, dq = stage(world, x, row[0], state["rate"], state["a"])
        after = velocity(at)
        rate, a = tangent_rate(reduced, dq, world.at(at.q).rate(at.v)), after.acceleration
        sums = {"dq": state["dq"] + rate * (h * row[1]), "dv": state["dv"] + a * (h * row[1])}
        impulses = state["impulses"] + after.contact_impulses * row[1]
        worst = np.maximum(state["residual"], after.residual)
        return {"rate": rate, "a": a, **sums, "impulses": impulses, "residual": worst}, ()

    still, zero, none = np.zeros(world.nd), np.zeros(world.nv), np.zeros((len(world.points), 3))
    start = {"rate": still, "a": zero, "dq": still, "dv": zero, "impulses": none, "residual": 0.0}
    end, _ = scan(body, start, TABLES[integrator])
    q, v = integrate(reduced, x.q, end["dq"]), x.v + end["dv"]
    return StepResult(q, v, end["residual"], end["dv"] * (1.0 / h), end["impulses"])


def moved_pose(world: World, q: Array, v: Array) -> tuple[Array, Array]:
    """`integrate_pose`, of one limb that stands for all where there are limbs."""
    other = folded(world)
    if other is None:
        return integrate_pose(world, q, v)
    after, v_after = integrate_pose(other, other.configuration(q), other.limbs.fold(v))
    return other.all_coordinates(after), other.limbs.unfold(v_after)


def stage(world: World, x: Inputs, node: Any, rate: Array, a: Array) -> tuple[Inputs, Array]:
    """(the state at a stage, the tangent vector that leads there)."""
    step = node * world.h
    dq = rate * step
    return Inputs(integrate(world.reduced, x.q, dq), x.v + a * step, x.u, x.t + step, x.wrenches), dq


def step_jacobian(world: World, x: Inputs, integrator: str, solution: Solution | None = None) -> StepJacobian:
    """The derivatives of one step of the physics: those of `integrate_step`, with the velocity's by structured recursions.

    `solution`: that of the step, of an Euler method, if it is known already.
    """
    if integrator == "backward_euler":
        _, A, B = backward_step_derivatives(world, x)
        return StepJacobian(A, B)
    n = world.nd + world.nv
    if integrator not in EULER:
        J = _derivatives(world, x, integrator, lambda at, _: linearized_velocity(world, at), n + world.nu)
        return StepJacobian(J[:, :n], J[:, n:])
    # one velocity is solved for: what the step does with it is sparse, and its own derivatives are multiplied once
    if (other := folded_for_derivatives(world)) is not None:
        return _folded_jacobian(other, x, integrator, solution)
    found = next_velocity_derivatives(world, x, solution)
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
    outer = replace(world, coordinate_map=world.coordinate_map.differentiable())

    def moved(d: Array) -> dict[str, Any]:
        u = x.u + d[n:] if integrator not in EULER and world.nu else x.u
        at = replace(x, q=integrate(reduced, x.q, d[:nd]), v=x.v + d[nd:n], u=u)
        after = integrate_step(outer, at, integrator, lambda at: velocity(at, d[n:]))
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
    turning = transport_acceleration(world, x.v) - transport_acceleration(world, here.v)
    a = found.acceleration + ((change - dv) * (1.0 / world.h) - turning)
    return NextVelocity(found.v + change, a, np.zeros((len(world.points), 3)), 0.0)
