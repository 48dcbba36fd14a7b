"""Second derivatives of a step: converge with held values, then two steps of Newton that are differentiated.

Newton's error squares with each step, so two of them from the solution have the right derivatives up to the third. Everything
else is the tape's own: the gradient in reverse, and its derivative along one direction after the other, in a loop.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from condyle.dynamics.manifold import difference, integrate, tangent_rate
from condyle.dynamics.solve import pattern_factor
from condyle.robot.spatial import Array
from condyle.simulate.backward import backward_impulses, differentiable_backward_step
from condyle.simulate.contact_frame import from_ground_axes
from condyle.simulate.integrate import TABLES, StepResult, stage
from condyle.simulate.integrate_pose import integrate_pose, transport_acceleration
from condyle.simulate.solver import solve
from condyle.simulate.step import Inputs, NextVelocity, ended, problem
from condyle.simulate.world import World
from condyle.tape.array import stop_gradient
from condyle.tape.derive import jvp, trace_inside, vjp
from condyle.tape.inline import inline
from condyle.tape.loop import scan


def differentiable_velocity(world: World, x: Inputs) -> NextVelocity:
    """The velocity after a step, in a form whose tape derivatives are right to second order."""
    now = problem(world, x)
    solution = solve(world.ancestor_dofs, now.M, now.p, now.v, now.constraints, world.inverse_inertia_diagonal, world.tolerance)
    total = stop_gradient(solution.dv)
    ys = [stop_gradient(iterate["y"]) for iterate in solution.iterates]
    for _ in range(2):
        v = now.v + total
        r, H = now.M @ total - now.p, np.array(now.M, dtype=object)
        inner = []
        for b, y in zip(now.constraints, ys, strict=True):
            s = b.law.slack(y)
            compliance = b.law.compliance(y, s)
            rho = b.law.kappa * b.law.gradient(y, s) - b.law.dual(b.velocity(v), y)
            inner.append((compliance, rho))
            b.add_impulse(b.law.impulse(y), r, -1.0)
            b.add_impulse(b.law.impulse_change(compliance @ rho), r, -1.0)
            b.add_stiffness(b.law.stiffness(compliance), H)
        dv = pattern_factor(world.ancestor_dofs, H).solve(-r)
        ys = [
            y + Q @ (rho - b.law.dual_change(b.velocity(dv))) for b, y, (Q, rho) in zip(now.constraints, ys, inner, strict=True)
        ]
        total = total + dv
    iterates = [{"y": y} for y in ys]
    return ended(world, x, now, from_ground_axes(now.rotation, total), iterates, stop_gradient(solution.residual))


def differentiable_step(world: World, x: Inputs, integrator: str) -> StepResult:
    """One step of the physics, likewise."""
    reduced, h = world.reduced, world.h
    if integrator == "backward_euler":
        v, residual = differentiable_backward_step(world, x)
        a, impulses = (v - x.v) * (1.0 / h), backward_impulses(world, x, v)
        return StepResult(integrate(reduced, x.q, v * h), v, residual, a, impulses)
    if integrator in ("semi_implicit_euler", "explicit_euler"):
        after = differentiable_velocity(world, x)
        if integrator == "semi_implicit_euler":
            q, v = integrate_pose(world, x.q, after.v)
        else:
            q = integrate(reduced, x.q, world.at(x.q).rate(x.v) * h)
            v = after.v - transport_acceleration(world, x.v) * h
        return StepResult(q, v, after.residual, after.acceleration, after.contact_impulses)
    worst: Any = 0.0
    rate, a, dq, change = np.zeros(world.nd), np.zeros(world.nv), np.zeros(world.nd), np.zeros(world.nv)
    impulses = np.zeros((len(world.points), 3))
    for node, weight in TABLES[integrator]:
        at, dv = stage(world, x, node, rate, a)
        rate = tangent_rate(reduced, dv, world.at(at.q).rate(at.v))
        after = differentiable_velocity(world, at)
        a, worst = after.acceleration, np.maximum(worst, after.residual)
        dq, change = dq + rate * (h * weight), change + a * (h * weight)
        impulses = impulses + after.contact_impulses * weight
    return StepResult(integrate(reduced, x.q, dq), x.v + change, worst, change * (1.0 / h), impulses)


def weighted_hessian(world: World, x: Inputs, weight: Array, integrator: str) -> Any:
    """Second derivatives of  weight . (next state)  by (q, v, u) in the tangent space: (ndx + nu, ndx + nu)."""
    world = replace(world, coordinate_map=world.coordinate_map.differentiable())
    reduced, nd, nu = world.reduced, world.nd, world.nu
    n = nd + world.nv
    size = n + nu
    count = max(len(world.wrenches), 1)

    def objective(d: Array, q: Array, v: Array, u: Array, t: Array, wrenches: Array, weight: Array) -> Any:
        at = Inputs(integrate(reduced, q, d[:nd]), v + d[nd:n], u + d[n:], t[0], wrenches)
        after = differentiable_step(world, at, integrator)
        return {"f": weight[:nd] @ difference(reduced, stop_gradient(after.q), after.q) + weight[nd:] @ after.v}

    sizes: dict[str, Any] = {"d": size, "q": reduced.nq, "v": world.nv, "u": max(nu, 1), "t": 1, "wrenches": (count, 6)}
    sizes["weight"] = n
    tape, around = trace_inside(objective, **sizes)
    gradient = vjp(tape, "d")
    along = jvp(gradient, "d")
    wrenches = np.zeros((count, 6)) if x.wrenches is None else x.wrenches
    u = x.u if nu else np.zeros(1)
    rest = [*np.zeros(size), *x.q, *x.v, *u, x.t, *np.ravel(wrenches), *weight, *around]

    def body(_: Any, state: Any, direction: Any) -> Any:
        return state, inline(along, [*rest, 1.0, *direction])["d_gradient_tangent"]

    _, rows = scan(body, np.zeros(1), np.eye(size))
    return rows
