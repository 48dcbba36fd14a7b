"""Velocity-dependent terms: bias accelerations, gyroscopic forces and the Coriolis matrix.

Bias accelerations are those of each link's origin, so linear velocities never enter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.dynamics.energy import composite_inertias
from condyle.dynamics.kinematics import velocities
from condyle.robot.model import Link, Model
from condyle.robot.spatial import Array, Force, Inertia, Motion, Pose, cross, product


def cross_squared(w: Array) -> Array:
    """[w]^2, with [w]^2 r = w x (w x r)."""
    xx, yy, zz = w[0] * w[0], w[1] * w[1], w[2] * w[2]
    xy, xz, yz = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    return np.array([[-(yy + zz), xy, xz], [xy, -(xx + zz), yz], [xz, yz, -(xx + yy)]])


def angular_velocities(model: Model, q: Array, v: Array) -> list[Array]:
    """The angular velocity of every link, in its own axes."""
    w: list[Array] = []
    for _, link in model.outward():
        wJ = link.velocity(v).angular
        w.append(product(link.pose(q).R.T, w[link.parent]) + wJ if link.parent >= 0 else wJ)
    return w


def bias_acceleration(link: Link, X: Pose, v: Array, w_parent: Array | None, w: Array) -> Motion:
    """The acceleration of a link when neither its parent nor its joint accelerates.

    With r the link's origin in the parent and (vJ, wJ) the joint's motion in the link:
    linear  R^T [w_p]^2 r + (2 w - wJ) x vJ,  angular  w x wJ.
    """
    J = link.velocity(v)
    linear = cross(w + w - J.angular, J.linear)
    if w_parent is not None:
        linear = linear + product(X.R.T, product(cross_squared(w_parent), X.p))
    return Motion(linear, cross(w, J.angular))


def gyroscopic(I: Inertia, w: Array) -> Force:
    """The force it takes to keep a body turning at w with its origin at rest:  ([w]^2 h, w x I w)."""
    return Force(product(cross_squared(w), I.h), cross(w, product(I.I, w)))


@dataclass(frozen=True)
class CoriolisOperator:
    """B of moving bodies: the forces that act on them because they move while a joint's axis turns them.

    A particle at r that moves at r' has, for the axis (v, w), the velocity v + w x r, which r' changes at the rate w x r'. Summed
    as forces at the origin,  B = sum dm [1; [r]] [0, -[r']],  so only  p = sum dm r'  and  N = sum dm r' r^T  matter. In the
    paper B is  1/2 ((V x*) I - I (V x) + (I V) x~*);  for a rigid body it is the same matrix with the zeros taken out.
    """

    p: Array
    N: Array

    @staticmethod
    def of(I: Inertia, V: Motion) -> CoriolisOperator:
        """A rigid body moving at V:  p = m v + w x h,  N = v h^T + [w] sum dm r r^T."""
        second = np.eye(3) * (0.5 * np.trace(I.I)) - I.I
        spin = np.array([cross(V.angular, second[:, k]) for k in range(3)]).T
        return CoriolisOperator((I @ V).linear, np.outer(V.linear, I.h) + spin)

    def __add__(self, other: CoriolisOperator) -> CoriolisOperator:
        return CoriolisOperator(self.p + other.p, self.N + other.N)

    def seen_from(self, X_ab: Pose) -> CoriolisOperator:
        """Given in b, as seen from a; velocities stay those in the world."""
        p = product(X_ab.R, self.p)
        return CoriolisOperator(p, product(product(X_ab.R, self.N), X_ab.R.T) + np.outer(p, X_ab.p))

    def __matmul__(self, axis: Motion) -> Force:
        """B S."""
        return Force(-cross(self.p, axis.angular), np.trace(self.N) * axis.angular - product(self.N, axis.angular))

    def transposed(self, axis: Motion) -> Force:
        """B^T S."""
        angular = np.trace(self.N) * axis.angular - product(self.N.T, axis.angular)
        return Force(np.zeros(3), angular + cross(self.p, axis.linear))


def coriolis_matrix(model: Model, q: Array, v: Array) -> Array:
    """C(q, v), nv x nv, with C v = bias - gravity and dM/dt - 2 C skew-symmetric (Echeandia and Wensing 2021).

    With S the axes of the joints, S' = V x S their rates, and I, B of everything beyond the outer of joints i and j,

        C_ij = S_i . (I S'_j + B S_j)

    which sums  J_i^T (d/dt J_j) dm  over all particles, J being the Jacobian of a particle.
    """
    V, I = velocities(model, q, v), composite_inertias(model, q)
    rates = [[V[i].cross(S) for S in link.axes] for i, link in model.outward()]
    B = [CoriolisOperator.of(link.inertia, V[i]) for i, link in model.outward()]
    C = np.zeros((model.nv, model.nv), dtype=object)
    for j, link in model.inward():
        if link.parent >= 0:
            B[link.parent] = B[link.parent] + B[j].seen_from(link.pose(q))
        for k, (S, rate) in enumerate(zip(link.axes, rates[j], strict=True)):
            at = link.v.start + k
            by_rate, by_axis, by_turn = I[j] @ rate + B[j] @ S, I[j] @ S, B[j].transposed(S)
            for m, S_m in enumerate(link.axes):
                C[link.v.start + m, at] = S_m.dot(by_rate)
            # the same forces act on the joints towards the base
            i = j
            while model.links[i].parent >= 0:
                X, i = model.links[i].pose(q), model.links[i].parent
                by_rate, by_axis, by_turn = X @ by_rate, X @ by_axis, X @ by_turn
                for m, (S_m, rate_m) in enumerate(zip(model.links[i].axes, rates[i], strict=True)):
                    C[model.links[i].v.start + m, at] = S_m.dot(by_rate)
                    C[at, model.links[i].v.start + m] = rate_m.dot(by_axis) + S_m.dot(by_turn)
    return C
