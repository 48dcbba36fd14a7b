"""Forward dynamics by the articulated-body algorithm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.dynamics.coriolis import angular_velocities, bias_acceleration, gyroscopic
from condyle.dynamics.rnea import Wrenches
from condyle.dynamics.solve import cholesky_solve
from condyle.robot.model import Model
from condyle.robot.spatial import Array, Force, Inertia, Motion, Pose, product, skew, symmetric
from condyle.tape.scalar import constant


@dataclass(frozen=True)
class Articulated:
    """F = (M v + H w, H^T v + J w), with symmetric M and J."""

    M: Array
    H: Array
    J: Array

    @staticmethod
    def rigid(I: Inertia) -> Articulated:
        """A body alone."""
        return Articulated(np.eye(3) * I.mass, -skew(I.h), I.I)

    def __add__(self, other: Articulated) -> Articulated:
        return Articulated(self.M + other.M, self.H + other.H, self.J + other.J)

    def __matmul__(self, motion: Motion) -> Force:
        v, w = motion.linear, motion.angular
        return Force(product(self.M, v) + product(self.H, w), product(self.H.T, v) + product(self.J, w))

    def less(self, U: Force, scaled: Force) -> Articulated:
        """self - U scaled^T, which is symmetric when `scaled` is a multiple of U, or a sum of such."""
        return Articulated(
            symmetric(self.M - np.outer(U.linear, scaled.linear)),
            self.H - np.outer(U.linear, scaled.angular),
            symmetric(self.J - np.outer(U.angular, scaled.angular)),
        )

    def without(self, axis: Motion) -> Articulated:
        """With the zeros that a free joint leaves written out: along an axis of the frame it takes no force at all."""
        M, H, J = np.array(self.M, dtype=object), np.array(self.H, dtype=object), np.array(self.J, dtype=object)
        for k in range(3):
            if np.array_equal(np.abs(axis.vector()), np.eye(6)[3 + k]):
                H[:, k] = J[k, :] = J[:, k] = 0.0
            elif np.array_equal(np.abs(axis.vector()), np.eye(6)[k]):
                M[k, :] = M[:, k] = H[k, :] = 0.0
        return Articulated(M, H, J)

    def seen_from(self, X_ab: Pose) -> Articulated:
        """This inertia, given in b, as seen from a: turned, then moved."""
        M, H, J = rotated(self.M, X_ab.R), rotated(self.H, X_ab.R), rotated(self.J, X_ab.R)
        P = skew(X_ab.p)
        moved = H - product(M, P)
        return Articulated(symmetric(M), moved, symmetric(J - product(H.T, P) + product(P, moved)))


def rotated(A: Array, R: Array) -> Array:
    """R A R^T; in half the operations when R turns about an axis of the frame."""
    plane = _plane(R)
    if plane is None:
        return product(product(R, A), R.T)
    i, j, k = plane
    c, s = R[i, i], R[j, i]
    cs, ss, cc = c * s, s * s, c * c
    # in the plane the sum of the diagonal and the difference across it do not change
    m, p = A[i, i] - A[j, j], A[i, j] + A[j, i]
    t, u = cc * m - cs * p, cs * m - ss * p
    B = np.zeros((3, 3), dtype=object)
    B[i, i], B[j, j], B[k, k] = A[j, j] + t, A[i, i] - t, A[k, k]
    B[i, j], B[j, i] = A[i, j] + u, A[j, i] + u
    B[i, k], B[j, k] = c * A[i, k] - s * A[j, k], s * A[i, k] + c * A[j, k]
    B[k, i], B[k, j] = c * A[k, i] - s * A[k, j], s * A[k, i] + c * A[k, j]
    return B


def _plane(R: Array) -> tuple[int, int, int] | None:
    """(i, j, k) when R is a rotation from axis i to axis j that leaves axis k alone."""
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        if constant(R[k, k]) == 1.0 and all(constant(x) == 0.0 for x in (R[i, k], R[j, k], R[k, i], R[k, j])):
            return i, j, k
    return None


def forward_dynamics(model: Model, q: Array, v: Array, tau: Array, wrenches: Wrenches | None = None) -> Array:
    """Joint accelerations that the forces `tau` produce (Featherstone 2008, table 7.1)."""
    w = angular_velocities(model, q, v)
    n = len(model.links)

    # outward: gyroscopic forces and bias accelerations
    I = [Articulated.rigid(link.inertia) for link in model.links]
    F = [gyroscopic(link.inertia, w[i]) for i, link in model.outward()]
    c = [
        bias_acceleration(link, link.pose(q), v, w[link.parent] if link.parent >= 0 else None, w[i])
        for i, link in model.outward()
    ]
    if wrenches:
        for i, wrench in wrenches.items():
            F[i] = F[i] - wrench

    # inward: the inertia and force of each link and everything beyond it, its joint free to move
    U: list[list[Force]] = [[] for _ in range(n)]
    D: list[Array] = [None] * n
    u: list[Array] = [None] * n
    for i, link in model.inward():
        S = link.axes
        U[i] = [I[i] @ s for s in S]
        D[i] = np.array([[s.dot(f) for f in U[i]] for s in S]) + np.eye(len(S)) * link.armature
        u[i] = np.array([tau[link.v.start + k] - s.dot(F[i]) for k, s in enumerate(S)])
        if link.parent >= 0:
            X = link.pose(q)
            scaled, answer = _by_inverse(D[i], U[i], u[i])
            left = I[i]
            for f, g in zip(U[i], scaled, strict=True):
                left = left.less(f, g)
            if len(S) == 1 and constant(link.armature) == 0.0:
                left = left.without(S[0])
            force = F[i] + left @ c[i]
            for f, x in zip(U[i], answer, strict=True):
                force = force + f * x
            I[link.parent] = I[link.parent] + left.seen_from(link.kind.pose(q[link.q])).seen_from(link.placement)
            F[link.parent] = F[link.parent] + X @ force

    # outward: the acceleration of each joint
    a = np.zeros(model.nv, dtype=object)
    A: list[Motion] = []
    world = Motion(-np.array(model.gravity), np.zeros(3))
    for i, link in model.outward():
        A_i = link.pose(q).carry(A[link.parent] if link.parent >= 0 else world) + c[i]
        pull = [(product(f.linear, A_i.linear), product(f.angular, A_i.angular)) for f in U[i]]
        right = np.array([u_k - linear - angular for u_k, (linear, angular) in zip(u[i], pull, strict=True)])
        a[link.v] = cholesky_solve(D[i], right)
        A.append(A_i + link.velocity(a))
    return a


def _by_inverse(D: Array, U: list[Force], u: Array) -> tuple[list[Force], Array]:
    """(U D^-1, D^-1 u)."""
    if len(U) == 1:
        inverse = 1.0 / D[0, 0]
        return [U[0] * inverse], u * inverse
    stacked = np.array([f.vector() for f in U])  # D is symmetric: the rows of D^-1 U^T
    rows = cholesky_solve(D, np.column_stack([stacked, u]))
    return [Force.of(row[:6]) for row in rows], rows[:, 6]
