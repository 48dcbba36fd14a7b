"""The terms of  M(q) a + C(q, v) v + g(q) = tau  one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.energy import composite_inertias
from condyle.dynamics.kinematics import velocities
from condyle.dynamics.rnea import inverse_dynamics
from condyle.dynamics.solve import factor
from condyle.robot.model import Model
from condyle.robot.spatial import Array, Force, Inertia, Motion, Pose, cross


def gravity_forces(model: Model, q: Array) -> Array:
    """g(q): the joint forces that hold the robot at rest."""
    rest = np.zeros(model.nv)
    return inverse_dynamics(model, q, rest, rest)


def bias_forces(model: Model, q: Array, v: Array) -> Array:
    """C(q, v) v + g(q): the joint forces that let the robot move on without accelerating."""
    return inverse_dynamics(model, q, v, np.zeros(model.nv))


def coriolis_matrix(model: Model, q: Array, v: Array) -> Array:
    """C(q, v), nv x nv, with C v = bias - gravity and dM/dt - 2 C skew-symmetric (Echeandia and Wensing 2021).

    With S the axes of the joints, S' = V x S their rates, and I, B of everything beyond the outer of joints i and j,

        C_ij = S_i . (I S'_j + B S_j)

    which sums  J_i^T (d/dt J_j) dm  over all particles, J being the Jacobian of a particle.
    """
    V, I = velocities(model, q, v), composite_inertias(model, q)
    rates = [[V[i].cross(S) for S in link.axes] for i, link in model.outward()]
    B = [Turning.of(link.inertia, V[i]) for i, link in model.outward()]
    C = np.zeros((model.nv, model.nv), dtype=object)
    for j, link in model.inward():
        if link.parent >= 0:
            B[link.parent] = B[link.parent] + B[j].seen_from(link.pose(q))
        for k, (S, rate) in enumerate(zip(link.axes, rates[j], strict=True)):
            at = link.v.start + k
            by_rate, by_axis, by_turn = I[j] @ rate + B[j] @ S, I[j] @ S, B[j].transposed(S)
            for m, S_m in enumerate(link.axes):
                C[link.v.start + m, at] = S_m.dot(by_rate)
            # the joints that carry it feel the same forces
            i = j
            while model.links[i].parent >= 0:
                X, i = model.links[i].pose(q), model.links[i].parent
                by_rate, by_axis, by_turn = X @ by_rate, X @ by_axis, X @ by_turn
                for m, (S_m, rate_m) in enumerate(zip(model.links[i].axes, rates[i], strict=True)):
                    C[model.links[i].v.start + m, at] = S_m.dot(by_rate)
                    C[at, model.links[i].v.start + m] = rate_m.dot(by_axis) + S_m.dot(by_turn)
    return C


def inverse_mass_matrix(model: Model, q: Array) -> Array:
    """M(q)^-1, symmetric, nv x nv, from the factors of M taken from the tips inward.

    In that order the factors have no entries that M has not (Featherstone 2008, section 6.5): joints on different branches
    stay apart, and their terms, being zero, cost nothing.
    """
    outer_first = slice(None, None, -1)
    L, d_inverse = factor(mass_matrix(model, q)[outer_first, outer_first])
    n = model.nv
    Y = np.zeros((n, n), dtype=object)  # L^-1
    for i in range(n):
        Y[i, i] = 1.0
        for j in range(i):
            Y[i, j] = -sum((L[i, k] * Y[k, j] for k in range(j, i)), 0.0)
    scaled = d_inverse[:, None] * Y
    inverse = np.zeros((n, n), dtype=object)
    for i in range(n):
        for j in range(i + 1):
            inverse[i, j] = inverse[j, i] = sum((Y[k, i] * scaled[k, j] for k in range(i, n)), 0.0)
    return inverse[outer_first, outer_first]


@dataclass(frozen=True)
class Turning:
    """B of moving bodies: the forces that act on them because they move while a joint's axis turns them.

    A particle at r that moves at r' has, for the axis (v, w), the velocity v + w x r, which r' changes at the rate w x r'. Summed
    as forces at the origin,  B = sum dm [1; [r]] [0, -[r']],  so only  p = sum dm r'  and  N = sum dm r' r^T  matter. In the
    paper B is  1/2 ((V x*) I - I (V x) + (I V) x~*);  for a rigid body it is the same matrix with the zeros taken out.
    """

    p: Array
    N: Array

    @staticmethod
    def of(I: Inertia, V: Motion) -> Turning:
        """A rigid body moving at V:  p = m v + w x h,  N = v h^T + [w] sum dm r r^T."""
        second = np.eye(3) * (0.5 * np.trace(I.I)) - I.I
        spin = np.array([cross(V.angular, second[:, k]) for k in range(3)]).T
        return Turning((I @ V).linear, np.outer(V.linear, I.h) + spin)

    def __add__(self, other: Turning) -> Turning:
        return Turning(self.p + other.p, self.N + other.N)

    def seen_from(self, X_ab: Pose) -> Turning:
        """Given in b, as seen from a; velocities stay those in the world."""
        p = X_ab.R @ self.p
        return Turning(p, X_ab.R @ self.N @ X_ab.R.T + np.outer(p, X_ab.p))

    def __matmul__(self, axis: Motion) -> Force:
        """B S."""
        return Force(-cross(self.p, axis.angular), np.trace(self.N) * axis.angular - self.N @ axis.angular)

    def transposed(self, axis: Motion) -> Force:
        """B^T S."""
        turned = np.trace(self.N) * axis.angular - self.N.T @ axis.angular
        return Force(np.zeros(3), turned + cross(self.p, axis.linear))


__all__ = ["Turning", "bias_forces", "coriolis_matrix", "gravity_forces", "inverse_mass_matrix"]
