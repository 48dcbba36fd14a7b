"""Integrators on the manifold: semi-implicit and explicit Euler, and Runge-Kutta methods of two and four stages.

Contact enters all of them as the acceleration  (v+ - v) / h  that the step's optimum gives, a smooth function of the state. In
the Runge-Kutta methods the configuration moves by a tangent vector whose rate is that of the velocity (Munthe-Kaas 1999), so
rotations keep the method's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.dynamics.manifold import integrate, integrate_derivatives, tangent_rate
from condyle.robot.spatial import Array
from condyle.simulate.backward import backward_impulses, backward_step_derivatives, differentiable_backward_step
from condyle.simulate.integrate_pose import (
    integrate_pose,
    integrate_pose_jacobian,
    transport_acceleration,
    transport_acceleration_jacobian,
)
from condyle.simulate.step import Inputs, next_velocity
from condyle.simulate.step_derivatives import next_velocity_derivatives
from condyle.simulate.world import World
from condyle.tape.derive import jacobian
from condyle.tape.inline import inline
from condyle.tape.loop import scan
from condyle.tape.trace import trace

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


@dataclass(frozen=True)
class StepJacobian:
    """d(q, v)/d(q, v) and d(q, v)/du of a step, in the tangent space: (ndx, ndx) and (ndx, nu)."""

    A: Array
    B: Array


def integrate_step(world: World, x: Inputs, integrator: str) -> StepResult:
    """One step of the physics."""
    reduced, h = world.reduced, world.h
    if integrator == "semi_implicit_euler":
        after = next_velocity(world, x)
        q, v = integrate_pose(world, x.q, after.v)
        return StepResult(q, v, after.residual, after.acceleration, after.contact_impulses)
    if integrator == "backward_euler":
        v, residual = differentiable_backward_step(world, x)
        q = integrate(reduced, x.q, v * h)
        return StepResult(q, v, residual, (v - x.v) * (1.0 / h), backward_impulses(world, x, v))
    if integrator == "explicit_euler":
        after = next_velocity(world, x)
        q = integrate(reduced, x.q, world.at(x.q).rate(x.v) * h)
        v = after.v - transport_acceleration(world, x.v) * h
        return StepResult(q, v, after.residual, after.acceleration, after.contact_impulses)

    def body(_: Any, state: Any, row: Any) -> Any:
        at, dq = stage(world, x, row[0], state["rate"], state["a"])
        after = next_velocity(world, at)
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


def stage(world: World, x: Inputs, node: Any, rate: Array, a: Array) -> tuple[Inputs, Array]:
    """(the state at a stage, the tangent vector that leads there)."""
    step = node * world.h
    dq = rate * step
    return Inputs(integrate(world.reduced, x.q, dq), x.v + a * step, x.u, x.t + step, x.wrenches), dq


def step_jacobian(world: World, x: Inputs, integrator: str) -> StepJacobian:
    """The derivatives of one step of the physics."""
    reduced, h, nd, nv = world.reduced, world.h, world.nd, world.nv
    width = nd + nv + world.nu
    if integrator == "backward_euler":
        _, A, B = backward_step_derivatives(world, x)
        return StepJacobian(A, B)
    if integrator in ("semi_implicit_euler", "explicit_euler"):
        answer = next_velocity_derivatives(world, x)
        of_v = np.column_stack([answer.by_q, answer.by_v, answer.by_u])
        if integrator == "semi_implicit_euler":
            q_by_q, q_by_v, v_by_v = integrate_pose_jacobian(world, x.q, answer.v)
            of_q, of_v = q_by_v @ of_v, v_by_v @ of_v
        else:
            q_by_q, of_q = _explicit_jacobian(world, x)
            of_v[:, nd : nd + nv] = of_v[:, nd : nd + nv] - transport_acceleration_jacobian(world, x.v) * h
        of_q[:, :nd] = of_q[:, :nd] + q_by_q
        return _split(np.vstack([of_q, of_v]), nd + nv)
    start_q, start_v = np.zeros((nd, width)), np.zeros((nv, width))
    start_q[:, :nd], start_v[:, nd : nd + nv] = np.eye(nd), np.eye(nv)

    def body(_: Any, state: Any, row: Any) -> Any:
        at, dq = stage(world, x, row[0], state["rate"], state["a"])
        # how the stage's own state moves with the state at the start
        step = row[0] * h
        of_dq, at_v = state["of_rate"] * step, start_v + state["of_a"] * step
        by_q, by_dv = integrate_derivatives(reduced, dq)
        at_q = by_q @ start_q + by_dv @ of_dq
        answer = next_velocity_derivatives(world, at)
        of_next = answer.by_q @ at_q + answer.by_v @ at_v
        of_next[:, nd + nv :] = of_next[:, nd + nv :] + answer.by_u
        here = world.at(at.q)
        moving, by_y, by_w = here.rate(at.v), *here.rate_derivatives(at.v)
        rate, a = tangent_rate(reduced, dq, moving), answer.acceleration
        of_moving = at_v if by_y is None or by_w is None else by_y @ at_q + by_w @ at_v
        of_rate = tangent_rate_jacobian(world, dq, moving, of_dq, of_moving)
        of_a = (of_next - at_v) * (1.0 / h) - transport_acceleration_jacobian(world, at.v) @ at_v
        w = h * row[1]
        sums = {"dq": state["dq"] + rate * w, "of_dq": state["of_dq"] + of_rate * w, "of_v": state["of_v"] + of_a * w}
        return {"rate": rate, "a": a, "of_rate": of_rate, "of_a": of_a, **sums}, ()

    still, zero = np.zeros(nd), np.zeros(nv)
    of_still, of_zero = np.zeros((nd, width)), np.zeros((nv, width))
    start = {"rate": still, "a": zero, "of_rate": of_still, "of_a": of_zero, "dq": still, "of_dq": of_still, "of_v": of_zero}
    end, _ = scan(body, start, TABLES[integrator])
    by_q, by_dv = integrate_derivatives(reduced, end["dq"])
    return _split(np.vstack([by_q @ start_q + by_dv @ end["of_dq"], start_v + end["of_v"]]), nd + nv)


def _explicit_jacobian(world: World, x: Inputs) -> tuple[Array, Array]:
    """Explicit Euler's new configuration: (by the old one alone, by everything through the rate)."""
    here = world.at(x.q)
    q_by_q, by_dq = integrate_derivatives(world.reduced, here.rate(x.v) * world.h)
    by_y, by_w = here.rate_derivatives(x.v)
    of_q = np.zeros((world.nd, world.nd + world.nv + world.nu), dtype=object)
    of_q[:, world.nd : world.nd + world.nv] = by_dq * world.h if by_w is None else by_dq @ by_w * world.h
    if by_y is not None:
        of_q[:, : world.nd] = by_dq @ by_y * world.h
    return q_by_q, of_q


def _split(stacked: Array, n: int) -> StepJacobian:
    return StepJacobian(stacked[:, :n], stacked[:, n:])


def tangent_rate_jacobian(world: World, dv: Array, v: Array, of_dv: Array, of_v: Array) -> Array:
    """The derivative of tangent_rate(dv, v) along the columns of its arguments' derivatives."""
    reduced = world.reduced

    def rate(dv: Array, v: Array) -> Any:
        return {"rate": tangent_rate(reduced, dv, v)}

    tape = jacobian(trace(rate, dv=reduced.nv, v=reduced.nv), "rate", mode="forward")
    found = inline(tape, [*dv, *v])
    by_dv, by_v = (found[f"drate_d{name}"].reshape(reduced.nv, reduced.nv) for name in ("dv", "v"))
    out: Array = by_dv @ of_dv + by_v @ of_v
    return out
