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
from condyle.simulate.backward import backward_step, backward_step_derivatives
from condyle.simulate.move import moved_on, moved_on_slopes, turning, turning_slope
from condyle.simulate.step import Inputs, next_velocity
from condyle.simulate.step_derivatives import next_velocity_derivatives
from condyle.simulate.world import World
from condyle.tape.derive import jacobian
from condyle.tape.loop import scan
from condyle.tape.replay import replayed
from condyle.tape.trace import trace

# one row for each stage: how far into the step it is, starting from the one before, and its weight
TABLES: dict[str, Array] = {
    "rk2": np.array([[0.0, 0.0], [0.5, 1.0]]),
    "rk4": np.array([[0.0, 1 / 6], [0.5, 1 / 3], [0.5, 1 / 3], [1.0, 1 / 6]]),
}


@dataclass(frozen=True)
class Moved:
    """The state after one step of the physics, and the largest residual on the way."""

    q: Array
    v: Array
    residual: Any


@dataclass(frozen=True)
class Slope:
    """d(q, v)/d(q, v) and d(q, v)/du of a step, in the tangent space: (2 nv, 2 nv) and (2 nv, nu)."""

    A: Array
    B: Array


def moved(world: World, x: Inputs, integrator: str) -> Moved:
    """One step of the physics."""
    model, h = world.model, world.h
    if integrator == "semi_implicit_euler":
        solution = next_velocity(world, x)
        return Moved(*moved_on(model, x.q, solution.v, h), solution.residual)
    if integrator == "backward_euler":
        end = backward_step(world, x)
        return Moved(integrate(model, x.q, end.v * h), end.v, end.residual)
    if integrator == "explicit_euler":
        solution = next_velocity(world, x)
        return Moved(integrate(model, x.q, x.v * h), solution.v - turning(model, x.v) * h, solution.residual)
    zero = np.zeros(model.nv)

    def body(_: Any, state: Any, row: Any) -> Any:
        at, dv = stage(world, x, row[0], state["rate"], state["a"])
        solution = next_velocity(world, at)
        rate, a = tangent_rate(model, dv, at.v), (solution.v - at.v) * (1.0 / h) - turning(model, at.v)
        sums = {"dq": state["dq"] + rate * (h * row[1]), "dv": state["dv"] + a * (h * row[1])}
        return {"rate": rate, "a": a, **sums, "residual": np.maximum(state["residual"], solution.residual)}, ()

    start = {"rate": zero, "a": zero, "dq": zero, "dv": zero, "residual": 0.0}
    end, _ = scan(body, start, TABLES[integrator])
    return Moved(integrate(model, x.q, end["dq"]), x.v + end["dv"], end["residual"])


def stage(world: World, x: Inputs, node: Any, rate: Array, a: Array) -> tuple[Inputs, Array]:
    """(the state at a stage, the tangent vector that leads there)."""
    step = node * world.h
    dq = rate * step
    return Inputs(integrate(world.model, x.q, dq), x.v + a * step, x.u, x.t + step, x.wrenches), dq


def slope(world: World, x: Inputs, integrator: str) -> Slope:
    """The derivatives of one step of the physics."""
    model, h, n = world.model, world.h, world.model.nv
    width = 2 * n + world.nu
    if integrator == "backward_euler":
        _, A, B = backward_step_derivatives(world, x)
        return Slope(A, B)
    if integrator in ("semi_implicit_euler", "explicit_euler"):
        answer = next_velocity_derivatives(world, x)
        of_v = np.column_stack([answer.by_q, answer.by_v, answer.by_u])
        if integrator == "semi_implicit_euler":
            q_by_q, q_by_v, v_by_v = moved_on_slopes(model, answer.solution.v, h)
            of_q, of_v = q_by_v @ of_v, v_by_v @ of_v
        else:
            q_by_q, by_dv = integrate_derivatives(model, x.v * h)
            of_q = np.hstack([np.zeros((n, n)), by_dv * h, np.zeros((n, world.nu))])
            of_v[:, n : 2 * n] = of_v[:, n : 2 * n] - turning_slope(model, x.v) * h
        of_q[:, :n] = of_q[:, :n] + q_by_q
        return _split(np.vstack([of_q, of_v]), n)
    start_q, start_v, none = np.zeros((n, width)), np.zeros((n, width)), np.zeros((n, width))
    start_q[:, :n], start_v[:, n : 2 * n] = np.eye(n), np.eye(n)

    def body(_: Any, state: Any, row: Any) -> Any:
        at, dv = stage(world, x, row[0], state["rate"], state["a"])
        # how the stage's own state moves with the state at the start
        step = row[0] * h
        of_dv, at_v = state["of_rate"] * step, start_v + state["of_a"] * step
        by_q, by_dv = integrate_derivatives(model, dv)
        at_q = by_q @ start_q + by_dv @ of_dv
        answer = next_velocity_derivatives(world, at)
        of_next = answer.by_q @ at_q + answer.by_v @ at_v
        of_next[:, 2 * n :] = of_next[:, 2 * n :] + answer.by_u
        rate, a = tangent_rate(model, dv, at.v), (answer.solution.v - at.v) * (1.0 / h) - turning(model, at.v)
        of_rate = rate_slope(world, dv, at.v, of_dv, at_v)
        of_a = (of_next - at_v) * (1.0 / h) - turning_slope(model, at.v) @ at_v
        w = h * row[1]
        sums = {"dq": state["dq"] + rate * w, "of_dq": state["of_dq"] + of_rate * w, "of_v": state["of_v"] + of_a * w}
        return {"rate": rate, "a": a, "of_rate": of_rate, "of_a": of_a, **sums}, ()

    zero = np.zeros(n)
    start = {"rate": zero, "a": zero, "of_rate": none, "of_a": none, "dq": zero, "of_dq": none, "of_v": none}
    end, _ = scan(body, start, TABLES[integrator])
    by_q, by_dv = integrate_derivatives(model, end["dq"])
    return _split(np.vstack([by_q @ start_q + by_dv @ end["of_dq"], start_v + end["of_v"]]), n)


def _split(whole: Array, n: int) -> Slope:
    return Slope(whole[:, : 2 * n], whole[:, 2 * n :])


def rate_slope(world: World, dv: Array, v: Array, of_dv: Array, of_v: Array) -> Array:
    """The derivative of tangent_rate(dv, v) along the columns of its arguments' derivatives."""
    model = world.model

    def rate(dv: Array, v: Array) -> Any:
        return {"rate": tangent_rate(model, dv, v)}

    tape = jacobian(trace(rate, dv=model.nv, v=model.nv), "rate", mode="forward")
    found = replayed(tape, [*dv, *v])
    by_dv, by_v = (found[f"drate_d{name}"].reshape(model.nv, model.nv) for name in ("dv", "v"))
    out: Array = by_dv @ of_dv + by_v @ of_v
    return out
