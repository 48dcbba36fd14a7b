"""Integrators on the manifold: semi-implicit Euler, and the explicit Runge-Kutta methods of one to four stages.

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
from condyle.simulate.laws import largest
from condyle.simulate.local import replayed
from condyle.simulate.step import Inputs, next_velocity
from condyle.simulate.step_derivatives import next_velocity_derivatives
from condyle.simulate.world import World
from condyle.tape.derive import jacobian
from condyle.tape.trace import trace

# nodes and weights: each stage starts from the one before
TABLES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "explicit_euler": ((0.0,), (1.0,)),
    "rk2": ((0.0, 0.5), (0.0, 1.0)),
    "rk4": ((0.0, 0.5, 0.5, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
}
INTEGRATORS = ("semi_implicit_euler", *TABLES, "backward_euler")


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
        return Moved(integrate(model, x.q, solution.v * h), solution.v, solution.residual)
    nodes, weights = TABLES[integrator]
    rates: list[tuple[Array, Array]] = []
    residuals = []
    for node in nodes:
        at, dv = stage(world, x, node, rates)
        solution = next_velocity(world, at)
        residuals.append(solution.residual)
        rates.append((tangent_rate(model, dv, at.v) if node else at.v, (solution.v - at.v) * (1.0 / h)))
    dq, change = weighted(rates, [h * w for w in weights])
    return Moved(integrate(model, x.q, dq), x.v + change, largest(residuals))


def stage(world: World, x: Inputs, node: float, rates: list[tuple[Array, Array]]) -> tuple[Inputs, Array]:
    """(the state at a stage, the tangent vector that leads there)."""
    if not rates:
        return x, np.zeros(world.model.nv)
    dq, change = (r * (world.h * node) for r in rates[-1])
    return Inputs(integrate(world.model, x.q, dq), x.v + change, x.u, x.t + node * world.h, x.wrenches), dq


def weighted(rates: list[tuple[Array, Array]], weights: list[float]) -> tuple[Array, Array]:
    """The weighted sums of both parts."""
    first, second = (rates[0][k] * weights[0] for k in (0, 1))
    for rate, w in zip(rates[1:], weights[1:], strict=True):
        first, second = first + rate[0] * w, second + rate[1] * w
    return first, second


def slope(world: World, x: Inputs, integrator: str) -> Slope:
    """The derivatives of one step of the physics."""
    model, h, n = world.model, world.h, world.model.nv
    if integrator == "semi_implicit_euler":
        answer = next_velocity_derivatives(world, x)
        by_q, by_dv = integrate_derivatives(model, answer.solution.v * h)
        of_v = np.column_stack([answer.by_q, answer.by_v, answer.by_u])
        of_q = (by_dv * h) @ of_v
        of_q[:, :n] = of_q[:, :n] + by_q
        whole = np.vstack([of_q, of_v])
        return Slope(whole[:, : 2 * n], whole[:, 2 * n :])
    nodes, weights = TABLES[integrator]
    width = 2 * n + world.nu
    start_q, start_v = np.zeros((n, width)), np.zeros((n, width))
    start_q[:, :n], start_v[:, n : 2 * n] = np.eye(n), np.eye(n)
    rates: list[tuple[Array, Array]] = []
    slopes: list[tuple[Array, Array]] = []
    for node in nodes:
        at, dv = stage(world, x, node, rates)
        # how the stage's own state moves with the state at the start
        at_q, at_v, of_dv = start_q, start_v, None
        if rates:
            of_dv, change = (s * (h * node) for s in slopes[-1])
            by_q, by_dv = integrate_derivatives(model, dv)
            at_q, at_v = by_q @ start_q + by_dv @ of_dv, start_v + change
        answer = next_velocity_derivatives(world, at)
        of_next = answer.by_q @ at_q + answer.by_v @ at_v
        of_next[:, 2 * n :] = of_next[:, 2 * n :] + answer.by_u
        rate, of_rate = (tangent_rate(model, dv, at.v), rate_slope(world, dv, at.v, of_dv, at_v)) if rates else (at.v, at_v)
        rates.append((rate, (answer.solution.v - at.v) * (1.0 / h)))
        slopes.append((of_rate, (of_next - at_v) * (1.0 / h)))
    dq, _ = weighted(rates, [h * w for w in weights])
    of_dq, of_v = weighted(slopes, [h * w for w in weights])
    by_q, by_dv = integrate_derivatives(model, dq)
    whole = np.vstack([by_q @ start_q + by_dv @ of_dq, start_v + of_v])
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
