"""Forward dynamics by the articulated-body algorithm."""

from __future__ import annotations

import numpy as np

from condyle.dynamics.articulated import Articulated
from condyle.dynamics.bias import angular_velocities, bias_acceleration, gyroscopic
from condyle.dynamics.rnea import Wrenches
from condyle.dynamics.solve import cholesky_solve
from condyle.robot.model import Link, Model
from condyle.robot.spatial import Array, Force, Motion


def forward_dynamics(model: Model, q: Array, v: Array, tau: Array, wrenches: Wrenches | None = None) -> Array:
    """Joint accelerations that the forces `tau` produce (Featherstone 2008, table 7.1)."""
    w = angular_velocities(model, q, v)
    n = len(model.links)

    # outward: the force each link needs to turn as it does
    I = [Articulated.rigid(link.inertia) for link in model.links]
    F = [gyroscopic(link.inertia, w[i]) for i, link in model.outward()]
    c = [
        bias_acceleration(link, link.pose(q), v, w[link.parent] if link.parent >= 0 else None, w[i])
        for i, link in model.outward()
    ]
    if wrenches:
        for i, wrench in wrenches.items():
            F[i] = F[i] - wrench

    # inward: what is left of each inertia and force when its joint gives way
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
            if len(S) == 1 and not _armature(link):
                left = left.without(S[0])
            force = F[i] + left @ c[i]
            for f, x in zip(U[i], answer, strict=True):
                force = force + f * x
            I[link.parent] = I[link.parent] + left.seen_from(link.kind.pose(q[link.q])).seen_from(link.placement)
            F[link.parent] = F[link.parent] + X @ force

    # outward: how each joint gives way
    a = np.zeros(model.nv, dtype=object)
    A: list[Motion] = []
    world = Motion(-np.array(model.gravity), np.zeros(3))
    for i, link in model.outward():
        A_i = link.pose(q).carry(A[link.parent] if link.parent >= 0 else world) + c[i]
        right = np.array([u_k - f.linear @ A_i.linear - f.angular @ A_i.angular for u_k, f in zip(u[i], U[i], strict=True)])
        a[link.v] = cholesky_solve(D[i], right)
        A.append(A_i + link.velocity(a))
    return a


def _armature(link: Link) -> bool:
    return not (isinstance(link.armature, (float, int)) and link.armature == 0.0)


def _by_inverse(D: Array, U: list[Force], u: Array) -> tuple[list[Force], Array]:
    """(U D^-1, D^-1 u)."""
    if len(U) == 1:
        inverse = 1.0 / D[0, 0]
        return [U[0] * inverse], u * inverse
    stacked = np.array([f.vector() for f in U])  # D is symmetric: the rows of D^-1 U^T
    rows = cholesky_solve(D, np.column_stack([stacked, u]))
    return [Force.of(row[:6]) for row in rows], rows[:, 6]
