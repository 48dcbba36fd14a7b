"""Backward Euler, contact included:

    M(q1) a1 + c(q1, v1) - J(q1)^T f(q1, v1) = tau,     q1 = q moved by h v1,     a1 = (v1 - v) / h

with v1 and v in the axes of q1; for the linear velocity of a free joint a1 = (v1 - v) / h - w1 x v1 there (integrate_pose.py).
The rows of a free base's translation are a balance of momentum instead, (P(q1, v1) - P(q, v)) / h = forces, so that a robot in
flight keeps its linear momentum exactly, however its limbs move.

Newton's method on v1, from the semi-implicit solution, with the exact Jacobian; a step that does not decrease the error, in the
energy norm, is halved. Contact is nearly a step function of the velocity, so a continuation starts with a large smoothing and
reduces it stage by stage; where a stage finds no step that decreases the error, it begins again at the solution of the one
before, with a smaller reduction. The Jacobian is not symmetric, but it has the pattern of the tree, as the mass matrix has. The
unknown is v1 in the axes of q, as of the other Euler methods.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.derivatives import inverse_dynamics_derivatives
from condyle.dynamics.manifold import integrate, velocity_of_rate
from condyle.dynamics.solve import tree_factor
from condyle.robot.spatial import Array
from condyle.simulate.friction_cone import largest
from condyle.simulate.integrate_pose import moved
from condyle.simulate.inverse import (
    ForceBalance,
    StartOfStep,
    constraints_at,
    required_force_jacobians,
    required_forces,
    weightless,
)
from condyle.simulate.step import Inputs, NextVelocity, augmented, contact_impulses, motors, next_velocity
from condyle.simulate.step_derivatives import VelocityDerivatives, gates
from condyle.simulate.world import World
from condyle.tape.array import stop_gradient, where
from condyle.tape.derive import jacobian, jacobian_at_zero, trace_inside
from condyle.tape.inline import inline
from condyle.tape.loop import loop
from condyle.tape.tape import Tape

STEPS = 200  # of Newton at most, halved ones included
SOFTEST = 1e5  # initial smoothing, as a multiple of the final one; more where it is not soft enough
HARDER = 0.1  # the smoothing of one stage over that of the one before, at least
NEAR = 1e-5  # the relative correction at which a stage ends
SHORTEST = 0.125  # part of a Newton step; where it does not decrease the error either, the stage is too hard


def backward_residual(world: World, q1: Array, v1: Array, start: StartOfStep, tau: Array) -> Array:
    """M(q1) a1 + c(q1, v1) - J^T f(q1, v1) - tau, (nv,): zero for a step of backward Euler; v1 in the axes of q1."""
    return required_forces(world, ForceBalance.of_end(world, q1, v1, start)) - tau


@dataclass(frozen=True)
class ResidualJacobians:
    """Derivatives of `backward_residual`, each (nv, nv): by q1 (in the tangent space), v1, and v and momentum of the start."""

    by_q1: Array
    by_v1: Array
    by_v: Array
    by_momentum: Array


def backward_residual_derivatives(world: World, end: ForceBalance, start: StartOfStep) -> ResidualJacobians:
    """The derivatives at the end of a step from `start`."""
    s, n, v1 = required_force_jacobians(world, end), world.model.nv, end.v

    def motion(d: Array) -> dict[str, Array]:
        at = ForceBalance.of_end(world, end.q, v1 + d[:n], StartOfStep(start.v + d[n : 2 * n], start.momentum + d[2 * n :]))
        return {"a": at.a, "before": at.before, "momentum": at.momentum}

    by = jacobian_at_zero(motion, 3 * n)
    chained = s.by_a @ by["a"] + s.by_before @ by["before"] + s.by_momentum @ by["momentum"]
    return ResidualJacobians(s.by_q, s.by_v + s.by_after + chained[:, :n], chained[:, n : 2 * n], chained[:, 2 * n :])


@dataclass(frozen=True)
class BackwardSolution:
    """The velocity at the end of a step, in the axes at its start, and the last relative Newton correction."""

    v: Array
    residual: Any


def backward_step(world: World, x: Inputs) -> BackwardSolution:
    """The velocity after one step of backward Euler."""
    weight = tree_factor(world.model, augmented(world, mass_matrix(world.model, x.q)))
    both = _error_tapes(world)

    def body(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        soft, part = state["soft"], state["part"]
        trial = state["v"] + state["step"] * part
        r, H = _errors(world, both, x, trial, soft)
        energy = r @ weight.solve(r)
        # false for NaN
        better = energy < state["energy"]
        ahead = -tree_lu(world, H).solve(r)
        size = largest([abs(s) for s in ahead]) / (largest([abs(s) for s in trial]) + world.gravity * world.h)
        # near the solution the next stage begins; where no step decreases the error, the last one again, with a smaller reduction
        on = better & (size <= NEAR) & (soft > 1.0)
        back = ~better & (part <= SHORTEST)
        anew, factor = on | back, state["factor"]
        factor = where(on, np.maximum(factor * factor, HARDER), where(back, np.sqrt(factor), factor))
        held, solved = where(on, trial, state["held"]), where(on, soft, state["solved"])
        # before any stage was solved, a softer one
        following = where(solved < np.inf, np.maximum(solved * factor, 1.0), soft / HARDER)
        return {
            "v": where(back, held, where(better, trial, state["v"])),
            "step": where(back, still, where(better, ahead, state["step"])),
            "part": where(better | back, 1.0, 0.5 * part),
            "energy": where(anew, np.inf, where(better, energy, state["energy"])),
            "correction": where(anew, np.inf, where(better, size, state["correction"])),
            "soft": where(anew, following, soft),
            "held": held,
            "solved": solved,
            "factor": factor,
        }

    start, still = next_velocity(world, x).v, np.zeros(world.model.nv)
    stage = {"soft": SOFTEST, "held": start, "solved": np.inf, "factor": HARDER}
    state = {"v": start, "step": still, "part": 1.0, "energy": np.inf, "correction": np.inf, **stage}
    enough = min(1e-12, 100.0 * world.tolerance)
    end = loop(body, state, STEPS, until=lambda state: state["correction"] <= enough)
    v, correction = end["v"], end["correction"]
    return BackwardSolution(where(correction <= enough, v + end["step"], v), correction)


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


def _end(world: World, x: Inputs, v: Array) -> ForceBalance:
    """The balance at the end of a step along the velocity v, in the axes at its start."""
    q1, v1 = moved(world, x.q, v * world.h, v)
    return ForceBalance.of_end(world, q1, v1, StartOfStep.of(world, x.q, x.v), x.t + world.h, x.wrenches)


def backward_velocity_derivatives(world: World, x: Inputs) -> VelocityDerivatives:
    """The velocity after a step, in the axes at its start, and how it depends on the state and the controls."""
    n, h = world.model.nv, world.h
    v = backward_step(world, x).v
    R = backward_residual_derivatives(world, _end(world, x, v), StartOfStep.of(world, x.q, x.v))

    def reached(d: Array) -> dict[str, Array]:
        q1, v1 = moved(world, integrate(world.model, x.q, d[:n]), (v + d[n:]) * h, v + d[n:])
        here = stop_gradient(q1)
        return {"q": velocity_of_rate(world.model, here, q1 - here), "v": v1}

    by = jacobian_at_zero(reached, 2 * n)
    along = (R.by_q1 @ by["q"] + R.by_v1 @ by["v"]) * h
    momentum_by_q, _, M = inverse_dynamics_derivatives(weightless(world.model), x.q, np.zeros(n), x.v)
    of_q = along[:, :n] + R.by_momentum @ momentum_by_q * h
    of_v = (R.by_v + R.by_momentum @ M) * h
    dv = -tree_lu(world, along[:, n:]).solve(np.column_stack([of_q, of_v, gates(world, x.u) * -h]))
    return VelocityDerivatives(v, (v - x.v) * (1.0 / h), dv[:, :n], dv[:, n : 2 * n], dv[:, 2 * n :])


def backward_velocity(world: World, x: Inputs) -> NextVelocity:
    """The velocity after a step; tape derivatives are right to second order: two steps with a constant Jacobian."""
    solution = backward_step(world, x)
    v = stop_gradient(solution.v)
    _, H = _errors(world, _error_tapes(world), x, v, 1.0)
    factor = tree_lu(world, stop_gradient(H))
    for _ in range(2):
        v = v - factor.solve((required_forces(world, _end(world, x, v)) - motors(world, x.u)) * world.h)
    a = (v - x.v) * (1.0 / world.h)
    return NextVelocity(v, a, backward_impulses(world, x, v), stop_gradient(solution.residual))


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
    dofs = [list(range(k))[::-1] for k in range(n)] if dense else world.ancestor_dofs
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
