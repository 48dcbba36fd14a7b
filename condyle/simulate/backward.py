"""Backward Euler, contact included:

    M(q1) (v1 - v) / h + c(q1, v1) - J(q1)^T f(q1, v1) = tau,     q1 = q moved by h v1

Newton's method on v1, from the semi-implicit solution, with the exact Jacobian; a step that does not decrease the error, in the
energy norm, is halved. Contact is nearly a step function of the velocity, so a continuation starts with a large smoothing and
reduces it stage by stage. The Jacobian is not symmetric, but it has the pattern of the tree, as the mass matrix has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.manifold import integrate, integrate_derivatives
from condyle.dynamics.solve import ancestor_dofs, tree_factor
from condyle.robot.spatial import Array
from condyle.simulate.friction_cone import largest
from condyle.simulate.inverse import ForceBalance, ForceJacobians, constraints_at, required_force_jacobians, required_forces
from condyle.simulate.step import Inputs, augmented, contact_impulses, motors, next_velocity
from condyle.simulate.step_derivatives import gates
from condyle.simulate.world import World
from condyle.tape.array import stop_gradient, where
from condyle.tape.derive import jacobian, trace_inside
from condyle.tape.inline import inline
from condyle.tape.loop import loop
from condyle.tape.tape import Tape

STEPS = 200  # of Newton at most, halved ones included
SOFTEST = 1e5  # initial smoothing, as a multiple of the final one
HARDER = 0.1  # the smoothing of one stage over that of the one before
NEAR = 1e-3  # the relative correction at which a stage ends


def backward_residual(world: World, q1: Array, v1: Array, v: Array, tau: Array) -> Array:
    """M(q1) (v1 - v) / h + c(q1, v1) - J^T f(q1, v1) - tau, (nv,): zero for a step of backward Euler."""
    return required_forces(world, ForceBalance.of_end(world, q1, v1, v)) - tau


def backward_residual_derivatives(world: World, q1: Array, v1: Array, v: Array) -> tuple[Array, Array, Array]:
    """Its derivatives by q1 (in the tangent space), v1 and v, each (nv, nv)."""
    return _derivatives(world, required_force_jacobians(world, ForceBalance.of_end(world, q1, v1, v)))


def _derivatives(world: World, s: ForceJacobians) -> tuple[Array, Array, Array]:
    per = s.by_a * (1.0 / world.h)
    return s.by_q, s.by_v + s.by_after + per, s.by_before - per


@dataclass(frozen=True)
class BackwardSolution:
    """The velocity at the end of a step, and the last relative Newton correction."""

    v: Array
    residual: Any


def backward_step(world: World, x: Inputs) -> BackwardSolution:
    """The velocity after one step of backward Euler."""
    weight = tree_factor(world.model, augmented(world, mass_matrix(world.model, x.q)))
    both = _error_tapes(world)

    def body(_: Any, state: Any) -> Any:
        v, step, part, energy, correction, soft = state
        trial = v + step * part
        r, H = _errors(world, both, x, trial, soft)
        new = r @ weight.solve(r)
        # false for NaN
        better = new < energy
        ahead = -tree_lu(world, H).solve(r)
        size = largest([abs(s) for s in ahead]) / (largest([abs(s) for s in trial]) + world.gravity * world.h)
        # near the solution, the next stage; its first iterate is accepted as it is
        on = better & (part >= 1.0) & (size <= NEAR) & (soft > 1.0)
        return (
            where(better, trial, v),
            where(better, ahead, step),
            where(better, 1.0, 0.5 * part),
            where(on, np.inf, where(better, new, energy)),
            where(on, np.inf, where(better, size, correction)),
            where(on, np.maximum(soft * HARDER, 1.0), soft),
        )

    start = next_velocity(world, x).v
    state = (start, start * 0.0, 1.0, np.inf, np.inf, SOFTEST)
    enough = min(1e-12, 100.0 * world.tolerance)
    v, step, _, _, correction, _ = loop(body, state, STEPS, until=lambda state: state[4] <= enough)
    return BackwardSolution(where(correction <= enough, v + step, v), correction)


def backward_impulses(world: World, x: Inputs, v1: Array) -> Array:
    """The impulse on the robot at each contact point in a step that ends at the velocity v1, world axes, N s: (contacts, 3)."""
    end = _end(world, x, v1)
    constraints, iterates, _ = constraints_at(world, end)
    listed = zip(range(len(world.points)), constraints, iterates, strict=False)
    return contact_impulses(world, end.q, {k: b.law.impulse(iterate["y"]) for k, b, iterate in listed})


def _error_tapes(world: World) -> tuple[Tape, Tape, list[Any]]:
    """(h R, its derivative by v1, their last arguments) with the smoothing of contact and joints scaled by an input."""
    model, count = world.model, max(len(world.wrenches), 1)

    def error(v1: Array, q: Array, v: Array, u: Array, t: Array, wrenches: Array, soft: Array) -> Any:
        softer = replace(world, smoothing=soft[0] * world.smoothing)
        x = Inputs(q, v, u[: world.nu], t[0], wrenches)
        return {"r": (required_forces(softer, _end(softer, x, v1)) - motors(world, x.u)) * world.h}

    sizes: dict[str, Any] = {
        "v1": model.nv,
        "q": model.nq,
        "v": model.nv,
        "u": max(world.nu, 1),
        "t": 1,
        "wrenches": (count, 6),
        "soft": 1,
    }
    tape, around = trace_inside(error, **sizes)
    return tape, jacobian(tape, "r", "v1", mode="forward"), around


def _errors(world: World, both: tuple[Tape, Tape, list[Any]], x: Inputs, v1: Array, soft: Any) -> tuple[Array, Array]:
    count, n = max(len(world.wrenches), 1), world.model.nv
    u = x.u if world.nu else np.zeros(1)
    wrenches = np.zeros((count, 6)) if x.wrenches is None else x.wrenches
    flat = [*v1, *x.q, *x.v, *u, x.t, *np.ravel(wrenches), soft, *both[2]]
    return inline(both[0], flat)["r"], inline(both[1], flat)["dr_dv1"].reshape(n, n)


def _end(world: World, x: Inputs, v1: Array) -> ForceBalance:
    q1 = integrate(world.model, x.q, v1 * world.h)
    return ForceBalance.of_end(world, q1, v1, x.v, x.t + world.h, x.wrenches)


def backward_step_derivatives(world: World, x: Inputs) -> tuple[BackwardSolution, Array, Array]:
    """(the velocity, A, B): d(q1, v1) = A d(q, v) + B du in the tangent space, (2 nv, 2 nv) and (2 nv, nu)."""
    n, h = world.model.nv, world.h
    end = backward_step(world, x)
    by_q1, by_v1, by_v = (d * h for d in _derivatives(world, required_force_jacobians(world, _end(world, x, end.v))))
    by_q, by_dv = integrate_derivatives(world.model, end.v * h)
    factor = tree_lu(world, by_v1 + by_q1 @ by_dv * h)
    of_v = -factor.solve(np.column_stack([by_q1 @ by_q, by_v, gates(world, x.u) * -h]))
    of_q = (by_dv * h) @ of_v
    of_q[:, :n] = of_q[:, :n] + by_q
    stacked = np.vstack([of_q, of_v])
    return end, stacked[:, : 2 * n], stacked[:, 2 * n :]


def differentiable_backward_step(world: World, x: Inputs) -> tuple[Array, Any]:
    """(the velocity, the residual); tape derivatives are right to second order: two steps with a constant Jacobian."""
    solution = backward_step(world, x)
    v = stop_gradient(solution.v)
    _, H = _errors(world, _error_tapes(world), x, v, 1.0)
    factor = tree_lu(world, stop_gradient(H))
    for _ in range(2):
        v = v - factor.solve((required_forces(world, _end(world, x, v)) - motors(world, x.u)) * world.h)
    return v, stop_gradient(solution.residual)


@dataclass(frozen=True)
class TreeLU:
    """H = U D L, from the tips inward: L unit lower, U unit upper triangular, `inverse` = 1/D, each with the tree's pattern."""

    L: Array
    U: Array
    inverse: Array
    ancestor_dofs: list[list[int]]

    def solve(self, b: Array) -> Array:
        """H^-1 b for a vector or the columns of a matrix."""
        x = np.array(b, dtype=object)
        for k in reversed(range(len(x))):
            for i in self.ancestor_dofs[k]:
                x[i] = x[i] - self.U[i, k] * x[k]
        for k in range(len(x)):
            x[k] = x[k] * self.inverse[k]
            for i in self.ancestor_dofs[k]:
                x[k] = x[k] - self.L[k, i] * x[i]
        return x


def tree_lu(world: World, H: Array) -> TreeLU:
    """The factors of a matrix with the tree's pattern, or a full one where a user's force may couple what the tree does not."""
    n = world.model.nv
    dense = world.force is not None
    dofs = [list(range(k))[::-1] for k in range(n)] if dense else ancestor_dofs(world.model)
    H = np.array(H, dtype=object)
    L, U = np.zeros((n, n), dtype=object), np.zeros((n, n), dtype=object)
    inverse = np.zeros(n, dtype=object)
    for k in reversed(range(n)):
        inverse[k] = 1.0 / H[k, k]
        for i in dofs[k]:
            L[k, i], U[i, k] = H[k, i] * inverse[k], H[i, k] * inverse[k]
        for i in dofs[k]:
            for j in dofs[k]:
                H[i, j] = H[i, j] - U[i, k] * H[k, j]
    return TreeLU(L, U, inverse, dofs)
