"""Inverse dynamics with contact: the joint forces behind a motion, and the contact forces that a known velocity calls for.

Forward, all bounded forces of a step depend on each other through the mass matrix (solver.py). Once the velocity is known each
law is independent, and a few Newton steps in one unknown give its impulse (`local_impulse`). The same balance of forces
(`required_forces`) serves three problems:

    impulse level   which tau gives a step the acceleration a                      after = v + h a, before = v
    limiting force  which tau gives a now, the forces those of the velocity now    after = before = v
    backward Euler  which tau ends a step at (q1, v1)                              after = v1, before = v, all at q1
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.derivatives import inverse_dynamics_derivatives
from condyle.dynamics.rnea import inverse_dynamics
from condyle.dynamics.solve import tree_factor
from condyle.errors import SimulationError
from condyle.robot.joints import Free
from condyle.robot.model import Model
from condyle.robot.spatial import Array, vector
from condyle.simulate.constraint_list import Constraint
from condyle.simulate.contact_frame import from_ground_axes, ground_axes, matrix_to_ground_axes, to_ground_axes
from condyle.simulate.contacts import contact_constraints, joint_constraints, position
from condyle.simulate.friction_cone import Cone, Iterate, Polytope, largest
from condyle.simulate.integrate_pose import (
    in_axes_after,
    transport_acceleration,
    transport_acceleration_jacobian,
)
from condyle.simulate.step import Inputs, external
from condyle.simulate.step_derivatives import add_constraint_derivatives, add_external
from condyle.simulate.world import World
from condyle.tape.array import stop_gradient, where
from condyle.tape.loop import loop
from condyle.tape.scalar import constant

STEPS = 24  # of Newton, at most; 4 to 8 are taken in float64
ORDERS = 2  # derivatives of a local impulse that the tape's own rules get right


# ---- one law by itself


def local_impulse(law: Any, u: Array) -> tuple[Array, Any]:
    """(y, s) with  dual(u) = kappa gradient(y, s),  s = slack(y): the impulse of a law at the velocity u after the step.

    The root is found on values without derivatives; Newton steps of zero length then carry the derivatives, up to ORDERS.
    """
    if isinstance(law, Cone):
        return _cone(law, u)
    return _interval(law, u) if law.E.shape[1] == 1 else _polytope(law, u)


def _cone(law: Cone, u: Array) -> tuple[Array, Any]:
    """With x = y/s along the normal and w = 1/x:  w + sqrt((1 + w)^2 + alpha^2) - x = beta, convex and falling in x."""
    scaled = law.dual(u) * law.per
    beta, across = scaled[0], scaled[1:]
    alpha2 = across @ across
    b, alpha = stop_gradient(beta), np.sqrt(stop_gradient(alpha2))
    # the roots without friction and without the 1 + w are both to the left of it, and one is near
    start = np.maximum(_root(alpha - b, 1.0), _root(1.0 - b, 2.0))

    def error(x: Any) -> Any:
        # sqrt(a^2 + alpha^2) = alpha + a^2 / (...), so that a large alpha and beta cancel without loss
        w = 1.0 / x
        far = (1.0 + w) * (1.0 + w) / (np.sqrt((1.0 + w) * (1.0 + w) + alpha * alpha) + alpha)
        return (far + (alpha - b)) + (w - x)

    def derivative(x: Any, square: Any) -> Any:
        w = 1.0 / x
        return -1.0 - w * w * (1.0 + (1.0 + w) / np.sqrt((1.0 + w) * (1.0 + w) + square))

    x = _newton_from_left(start, error, lambda x: derivative(x, alpha * alpha))
    for _ in range(ORDERS):
        w = 1.0 / x
        residual = (w + np.sqrt((1.0 + w) * (1.0 + w) + alpha2) - x) - beta
        x = x - (residual - stop_gradient(residual)) / derivative(x, alpha2)
    y, s = 1.0 / (1.0 + 1.0 / x), 1.0 / (1.0 + x)
    return vector(y, *(across * (-(y * y) / (1.0 + np.sqrt(1.0 + alpha2 * (y * y)))))), s


def _interval(law: Polytope, u: Array) -> tuple[Array, Any]:
    """With x = y/s:  1/x - x = beta."""
    beta = law.dual(u)[0] * law.per
    x = _root(-stop_gradient(beta), 1.0)
    for _ in range(ORDERS):
        residual = (1.0 / x - x) - beta
        x = x + (residual - stop_gradient(residual)) / (1.0 + 1.0 / (x * x))
    return np.array([1.0 / (1.0 + 1.0 / x)], dtype=object), 1.0 / (1.0 + x)


def _polytope(law: Polytope, u: Array) -> tuple[Array, Any]:
    """y_i = 1/(beta_i + W), s = 1/W: with all beta and 0 counted from the smallest, x = W + smallest is between 1 and n + 1."""
    beta = law.dual(u) * law.per
    b = [*stop_gradient(beta), 0.0]
    smallest = -largest([-x for x in b])
    offsets = [x - smallest for x in b]

    def total(x: Any) -> Any:
        return sum((1.0 / (offset + x) for offset in offsets[1:]), 1.0 / (offsets[0] + x)) - 1.0

    def derivative(x: Any) -> Any:
        return -sum((1.0 / ((offset + x) * (offset + x)) for offset in offsets[1:]), 1.0 / ((offsets[0] + x) * (offsets[0] + x)))

    x = _newton_from_left(1.0, total, derivative)
    fractions: list[Any] = []
    for _ in range(ORDERS + 1):
        fractions = [1.0 / ((beta_i - smallest) + x) for beta_i in (*beta, 0.0)]
        residual = sum(fractions[1:], fractions[0]) - 1.0
        squares = [y * y for y in fractions]
        x = x + (residual - stop_gradient(residual)) / sum(squares[1:], squares[0])
    return np.array(fractions[:-1], dtype=object), fractions[-1]


def _root(b: Any, a: float) -> Any:
    """x > 0 with  x^2 - b x - a = 0, whose inverse is the w of  a w^2 + b w - 1 = 0."""
    t = abs(b) + np.sqrt(b * b + 4.0 * a)
    return where(b > 0.0, 0.5 * t, 2.0 * a / t)


def _newton_from_left(start: Any, error: Any, derivative: Any) -> Any:
    """The root of a falling convex function by Newton's method from the left: iterates increase until rounding stops them."""

    def body(_: Any, state: Any) -> Any:
        x, _ = state
        return x - error(x) / derivative(x), x

    return stop_gradient(loop(body, (start, 0.0), STEPS, until=lambda state: state[0] <= state[1])[0])


# ---- the balance of forces


@dataclass(frozen=True)
class StartOfStep:
    """The velocity v before a step and the momentum M v, zero where no base is free."""

    v: Array
    momentum: Array

    @staticmethod
    def of(world: World, q: Array, v: Array) -> StartOfStep:
        """That of a state."""
        return StartOfStep(v, momentum(world, q, v) if base_translations(world) else np.zeros(len(v)))

    def seen_from(self, world: World, v1: Array) -> StartOfStep:
        """In the axes at the end of a step along v1, in those axes."""
        dq = v1 * world.h
        return StartOfStep(in_axes_after(world, dq, self.v), in_axes_after(world, dq, self.momentum))


def weightless(model: Model) -> Model:
    """The robot without gravity."""
    return replace(model, gravity=(0.0, 0.0, 0.0))


def momentum(world: World, q: Array, v: Array) -> Array:
    """M v, which has linear momentum in the rows of `base_translations`, in the axes of the base."""
    return inverse_dynamics(weightless(world.model), q, np.zeros(len(v)), v)


def base_translations(world: World) -> list[tuple[slice, Any]]:
    """(the linear velocity, the mass of all that it carries) of each base that moves freely."""
    model = world.model
    beyond = [link.inertia.mass for link in model.links]
    for i, link in model.inward():
        if link.parent >= 0:
            beyond[link.parent] = beyond[link.parent] + beyond[i]
    free = [i for i, link in model.outward() if link.parent < 0 and isinstance(link.kind, Free)]
    return [(slice(model.links[i].v.start, model.links[i].v.start + 3), beyond[i]) for i in free]


@dataclass(frozen=True)
class ForceBalance:
    """A balance of forces: configuration, velocity and acceleration, and the velocities that constraints and damping depend on.

    `ahead`: springs act at q + ahead * after, s.
    """

    q: Array
    v: Array
    a: Array
    after: Array
    before: Array
    ahead: float = 0.0
    t: Any = 0.0
    wrenches: Array | None = None
    momentum: Array | None = None  # M v before a step, in the axes at its end, whose base rows are linear momentum

    @staticmethod
    def of_step(world: World, q: Array, v: Array, a: Array) -> ForceBalance:
        """The step from (q, v) with the acceleration a, to the velocity v + h a in the inertial frame of integrate_pose.py."""
        return ForceBalance(q, v, a, v + (a + transport_acceleration(world, v)) * world.h, v, world.h if world.implicit else 0.0)

    @staticmethod
    def of_now(q: Array, v: Array, a: Array) -> ForceBalance:
        """The balance at the present velocity."""
        return ForceBalance(q, v, a, v, v)

    @staticmethod
    def of_end(
        world: World, q1: Array, v1: Array, start: StartOfStep, t: Any = 0.0, wrenches: Array | None = None
    ) -> ForceBalance:
        """The end of a step from `start`; v1 in the axes of q1."""
        end = start.seen_from(world, v1)
        a = (v1 - end.v) * (1.0 / world.h) - transport_acceleration(world, v1)
        return ForceBalance(q1, v1, a, v1, end.v, 0.0, t, wrenches, end.momentum)

    @property
    def inputs(self) -> Inputs:
        """The arguments of the external forces."""
        return Inputs(self.q, self.v, np.zeros(0), self.t, self.wrenches)


def constraints_at(world: World, at: ForceBalance) -> tuple[list[Constraint], list[Iterate], Array | None]:
    """(the constraints, the unknowns of each, the rotation to the ground's axes)."""
    constraints = [*contact_constraints(world, at.q, at.before), *joint_constraints(world, at.q, at.before)]
    rotation = ground_axes(world, at.q) if constraints else None
    after = to_ground_axes(rotation, at.after)
    iterates = [dict(zip(("y", "s"), local_impulse(b.law, b.velocity(after)), strict=True)) for b in constraints]
    return constraints, iterates, rotation


def required_forces(world: World, at: ForceBalance) -> Array:
    """tau = M a + c + B after + K (q + ahead after - rest) - J^T lambda(after) / h - external forces, (nv,).

    Where the integrator treats damping explicitly, it is B v.
    """
    if any(joint.driven for joint in world.joints):
        raise SimulationError(
            "backward_euler and inverse dynamics with contact know no drives of joints, which an implicit PD controller uses; "
            "take another integrator, such as semi_implicit_euler"
        )
    tau = inverse_dynamics(world.model, at.q, at.v, at.a)
    if at.momentum is not None:
        # what flies freely keeps its momentum exactly: M v changes by the impulse of the forces
        impulsive = inverse_dynamics(world.model, at.q, np.zeros(len(at.v)), at.v * (1.0 / world.h)) - at.momentum * (
            1.0 / world.h
        )
        for base, _ in base_translations(world):
            tau[base] = impulsive[base]
    tau = tau - external(world, at.inputs)
    for k, joint in enumerate(world.joints):
        tau[k] = tau[k] + joint.damping * (at.after if world.implicit else at.v)[k]
        if constant(joint.spring) != 0.0:
            tau[k] = tau[k] + (at.q[position(world, k)] - joint.rest + at.after[k] * at.ahead) * joint.spring
    constraints, iterates, rotation = constraints_at(world, at)
    if not constraints:
        return tau
    impulse = np.zeros(world.model.nv, dtype=object)
    for b, iterate in zip(constraints, iterates, strict=True):
        b.add_impulse(b.law.impulse(iterate["y"]), impulse)
    return tau - from_ground_axes(rotation, impulse) * (1.0 / world.h)


@dataclass(frozen=True)
class ForceJacobians:
    """Derivatives of `required_forces`, each (nv, nv): by q (in the tangent space), v, a, after, before and momentum."""

    by_q: Array
    by_v: Array
    by_a: Array
    by_after: Array
    by_before: Array
    by_momentum: Array


def required_force_jacobians(world: World, at: ForceBalance) -> ForceJacobians:
    """The derivatives of `required_forces`."""
    n, h = world.model.nv, world.h
    per = 1.0 / h
    by_q, by_v, by_a = inverse_dynamics_derivatives(world.model, at.q, at.v, at.a)
    by_momentum = np.zeros((n, n), dtype=object)
    if at.momentum is not None:
        impulsive, _, M = inverse_dynamics_derivatives(world.model, at.q, np.zeros(len(at.v)), at.v * per)
        for base, _ in base_translations(world):
            by_q[base], by_v[base], by_a[base] = impulsive[base], M[base] * per, 0.0
            by_momentum[base, base] = -per * np.eye(3)
    # the terms added below are impulses: multiplied by h
    of_q, of_v, of_before = (np.zeros((n, n), dtype=object) for _ in range(3))
    add_external(world, at.inputs, of_q, of_v)
    constraints, iterates, rotation = constraints_at(world, at)
    x = Inputs(at.q, at.before, np.zeros(0), at.t, at.wrenches)
    add_constraint_derivatives(world, x, constraints, at.after, iterates, of_q, of_before)
    of_after = np.zeros((n, n), dtype=object)
    after = to_ground_axes(rotation, at.after)
    for b, iterate in zip(constraints, iterates, strict=True):
        b.add_stiffness(b.law.stiffness(b.law.compliance(iterate["y"], iterate["s"], b.velocity(after))), of_after)
    of_after = matrix_to_ground_axes(None if rotation is None else rotation.T, of_after)
    for k, joint in enumerate(world.joints):
        of_q[k, k] = of_q[k, k] + h * joint.spring
        of_after[k, k] = of_after[k, k] + h * at.ahead * joint.spring
        damped = of_after if world.implicit else of_v
        damped[k, k] = damped[k, k] + h * joint.damping
    return ForceJacobians(by_q + of_q * per, by_v + of_v * per, by_a, of_after * per, of_before * per, by_momentum)


# ---- impulse level: one step


def inverse_step(world: World, q: Array, v: Array, a: Array) -> Array:
    """The joint forces, (nv,), with which the step from (q, v) has the acceleration a."""
    return required_forces(world, ForceBalance.of_step(world, q, v, a))


def inverse_step_derivatives(world: World, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
    """Its derivatives by q, v and a, each (nv, nv)."""
    s = required_force_jacobians(world, ForceBalance.of_step(world, q, v, a))
    of_v = np.eye(world.model.nv) + transport_acceleration_jacobian(world, v) * world.h
    return s.by_q, s.by_v + s.by_after @ of_v + s.by_before, s.by_a + s.by_after * world.h


# ---- limiting force: this instant


def limiting_inverse(world: World, q: Array, v: Array, a: Array) -> Array:
    """The joint forces, (nv,), that give the acceleration a while contact acts as the velocity v asks for."""
    return required_forces(world, ForceBalance.of_now(q, v, a))


def limiting_inverse_derivatives(world: World, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
    """Its derivatives by q, v and a, each (nv, nv)."""
    s = required_force_jacobians(world, ForceBalance.of_now(q, v, a))
    return s.by_q, s.by_v + s.by_after + s.by_before, s.by_a


def limiting_forward(world: World, q: Array, v: Array, tau: Array) -> Array:
    """The acceleration, (nv,), that the joint forces tau give: the inverse of `limiting_inverse` in a."""
    left = tau - required_forces(world, ForceBalance.of_now(q, v, np.zeros(world.model.nv)))
    return tree_factor(world.model, mass_matrix(world.model, q)).solve(left)


def limiting_forward_derivatives(world: World, q: Array, v: Array, tau: Array) -> tuple[Array, Array, Array, Array]:
    """(a, its derivatives by q, v and tau)."""
    a = limiting_forward(world, q, v, tau)
    by_q, by_v, M = limiting_inverse_derivatives(world, q, v, a)
    factor = tree_factor(world.model, M)
    return a, -factor.solve(by_q), -factor.solve(by_v), factor.inverse_matrix()
