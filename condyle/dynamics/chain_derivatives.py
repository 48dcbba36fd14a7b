"""Derivatives of the forward dynamics of a long chain, by recursion: O(n^2) operations; solves with the mass matrix take O(n^3).

The right-hand sides of derivatives.py are simple. Column k is a force on the link of coordinate k, which all joints towards the
base feel; for the joints beyond, it is a uniform acceleration Q of all links beyond, and a term in three numbers w. So each
column is a force at its link, found once, and the response of joint j to it is a row of six numbers that is carried from link to
link: outward for forces, inward for accelerations (Featherstone 2008, table 7.1). The response of a link to a force on itself is
the inverse inertia of the whole chain seen there (Wensing, Featherstone and Orin 2012).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.dynamics.coriolis import CoriolisOperator
from condyle.dynamics.derivatives import Motions, accelerations, composite, forces, motions, relative_motions
from condyle.robot.model import Model
from condyle.robot.spatial import Array, Inertia, skew

LONG = 14  # coordinates from which the recursion has fewer operations


def is_long_chain(model: Model) -> bool:
    """Whether every link is followed by at most one, and there are many."""
    return model.nv >= LONG and all(link.parent == i - 1 for i, link in model.outward())


@dataclass(frozen=True)
class Articulated:
    """Per coordinate: the axis S, the force U = IA S, U / D, 1 / D with D = S . U; per link the articulated inertia IA, 6 x 6."""

    S: list[Array]
    U: list[Array]
    U_D: list[Array]
    inverse: list[Array]
    IA: list[Array]


def matrix(I: Inertia) -> Array:
    """The inertia as a 6 x 6 matrix."""
    H = skew(I.h)
    return np.block([[np.eye(3) * I.mass, -H], [H, I.I]]).astype(object)


def articulated(model: Model, m: Motions) -> Articulated:
    """The articulated inertias of a chain in one frame, from its tip to its base."""
    n = model.nv
    S = [axis.vector() for axis in m.S]
    U, U_D, inverse = [np.zeros(6)] * n, [np.zeros(6)] * n, [np.array(0.0)] * n
    IA = [np.zeros((6, 6))] * len(model.links)
    beyond = np.zeros((6, 6), dtype=object)
    for i, link in model.inward():
        beyond = IA[i] = beyond + matrix(m.inertia[i])
        for d in reversed(range(link.v.start, link.v.stop)):
            U[d] = beyond @ S[d]
            inverse[d] = 1.0 / (S[d] @ U[d] + link.armature)
            U_D[d] = U[d] * inverse[d]
            beyond = beyond - np.outer(U[d], U_D[d])
    return Articulated(S, U, U_D, inverse, IA)


def forward_dynamics_derivatives(model: Model, q: Array, v: Array, tau: Array) -> tuple[Array, Array, Array]:
    """(da/dq, da/dv, da/dtau), each nv x nv, of a chain: every link is the parent of at most one."""
    n, links = model.nv, model.links
    m = motions(model, q, v)
    x = articulated(model, m)
    S, U, U_D, inverse = x.S, x.U, x.U_D, x.inverse
    link_of = [i for i, link in model.outward() for _ in range(link.v.start, link.v.stop)]
    own = [range(link.v.start, link.v.stop) for link in links]
    a = _accelerations(model, m, x, v, tau)

    # what the derivatives of the joint forces are made of (derivatives.py)
    A = accelerations(model, m, v, a)
    F = composite(model, forces(model, m, A))
    B = composite(model, [CoriolisOperator.of(I_i, V_i) for I_i, V_i in zip(m.inertia, m.V, strict=True)])
    Q, W = relative_motions(model, m, A)
    turn = [B[i].transposed(m.S[k]).angular * 2.0 for k, i in enumerate(link_of)]

    # inward: the force on each link, and the forces of the joints, for a unit of w beyond it
    force_of_w = [np.zeros((6, 3))] * len(links)
    joint_of_w = [np.zeros(3)] * n
    total = np.zeros((6, 3), dtype=object)
    for i, _ in model.inward():
        force_of_w[i] = total - 2.0 * _matrix(B[i])
        for d in reversed(own[i]):
            joint_of_w[d] = turn[d] - S[d] @ total
            total = total + np.outer(U_D[d], joint_of_w[d])

    # outward: the inverse inertia of the whole chain at each link, rows of the inverse mass matrix, and each column's force there
    omega = np.zeros((6, 6), dtype=object)
    rows: list[Array] = []
    results = np.zeros((2, n, n), dtype=object)
    minv = np.zeros((n, n), dtype=object)
    moved: list[tuple[Array, Array]] = []  # (acceleration, w) beyond the link, for each coordinate and both derivatives
    for i, _ in model.outward():
        for k in own[i]:
            for which, (motion, w) in enumerate(((Q[k], m.P[k].angular), (W[k], m.S[k].angular))):
                force = x.IA[i] @ motion.vector() - force_of_w[i] @ w
                u: dict[int, Array] = {}
                for d in reversed(own[i]):
                    u[d] = -(S[d] @ force)
                    force = force + U_D[d] * u[d]
                if which == 0:
                    force = force + m.S[k].cross(F[i]).vector()
                for j, row in enumerate(rows):
                    results[which, j, k] = row @ force
                acceleration = -(omega @ force)
                for d in own[i]:
                    results[which, d, k] = (u[d] - U[d] @ acceleration) * inverse[d]
                    acceleration = acceleration + S[d] * results[which, d, k]
                moved.append((acceleration + motion.vector(), w))
        for d in own[i]:
            for j, row in enumerate(rows):
                minv[j, d] = minv[d, j] = row @ U_D[d]
                rows[j] = row - S[d] * minv[j, d]
            z = omega @ U_D[d]
            minv[d, d] = (1.0 + U[d] @ z) * inverse[d]
            step = S[d] * minv[d, d] - z
            omega = omega + np.outer(S[d], step) - np.outer(z, S[d])
            rows.append(-step)

    # the joints beyond: rows that are carried inward
    for j in range(n):
        row, of_w = -U_D[j], -joint_of_w[j] * inverse[j]
        for d in reversed(range(j)):
            if link_of[d] != link_of[j] and d == own[link_of[d]].stop - 1:
                for k in own[link_of[d]]:
                    for which in range(2):
                        acceleration, w = moved[2 * k + which]
                        results[which, j, k] = row @ acceleration + of_w @ w
            s = row @ S[d]
            row, of_w = row - U_D[d] * s, of_w - joint_of_w[d] * (s * inverse[d])
    return results[0], results[1], minv


def _accelerations(model: Model, m: Motions, x: Articulated, v: Array, tau: Array) -> Array:
    """a, by the articulated-body algorithm."""
    bias = composite(model, forces(model, m, accelerations(model, m, v, None)))
    u: dict[int, Array] = {}
    force = np.zeros(6)
    for i, link in model.inward():
        for d in reversed(range(link.v.start, link.v.stop)):
            u[d] = tau[d] - m.S[d].dot(bias[i]) - x.S[d] @ force
            force = force + x.U_D[d] * u[d]
    a = np.zeros(model.nv, dtype=object)
    acceleration = np.zeros(6)
    for d in range(model.nv):
        a[d] = (u[d] - x.U[d] @ acceleration) * x.inverse[d]
        acceleration = acceleration + x.S[d] * a[d]
    return a


def _matrix(B: CoriolisOperator) -> Array:
    """B as a 6 x 3 matrix: it takes only the angular part of an axis."""
    return np.concatenate([-skew(B.p), np.eye(3) * np.trace(B.N) - B.N]).astype(object)
