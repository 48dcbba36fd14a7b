"""Derivatives of inverse and forward dynamics, in the tangent space, by recursion along the tree.

All in one inertial frame (Singh, Russo and Wensing 2022): with S the joint axes, and for the body beyond joint i its inertia
I, force F, and the map B of coriolis.py, every pair of joints i beyond j gives

    dtau_i/dq_j = S_i . (2 B P_j + I Q_j)        dtau_j/dq_i = S_j . (2 B P_i + I Q_i + S_i x* F)
    dtau_i/dv_j = S_i . (2 B S_j + I (P_j + T_j))  dtau_j/dv_i = S_j . (2 B S_i + I (P_i + T_i))

where P = V_parent x S, Q = A_parent x S + V_parent x P, T = V x S. The frame coincides at this instant with the first link,
so the joint that carries the whole robot costs almost nothing and accuracy does not suffer far from the world's origin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.dynamics.coriolis import CoriolisOperator
from condyle.dynamics.folded_model import folded_model
from condyle.dynamics.kinematics import ancestors, axes, root_poses
from condyle.dynamics.limb_solve import LimbFactor
from condyle.dynamics.limbs import Limbs, find_limbs, joined
from condyle.dynamics.solve import TreeFactor, ancestor_dofs, pattern_factor
from condyle.robot.model import Model
from condyle.robot.spatial import Array, Force, Inertia, Motion, product
from condyle.tape.table import is_recording


@dataclass(frozen=True)
class Motions:
    """Everything that moves, in the inertial frame: per link its inertia and velocity V; per coordinate S, P and T."""

    inertia: list[Inertia]
    V: list[Motion]
    S: list[Motion]
    P: list[Motion]
    T: list[Motion]
    gravity: Array


def motions(model: Model, q: Array, v: Array) -> Motions:
    """Poses, inertias, velocities and axes of all links in the frame of the first link, or of the world if there are several."""
    X_0F, X = root_poses(model, q)
    S = axes(model, X)
    gravity = product(X_0F.R.T, np.array(model.gravity))
    V: list[Motion] = []
    P: list[Motion] = []
    T: list[Motion] = []
    for _, link in model.outward():
        own = S[link.v]
        V_p = V[link.parent] if link.parent >= 0 else Motion.zero()
        V_i = V_p
        for k, axis in enumerate(own):
            V_i = V_i + axis * v[link.v.start + k]
        V.append(V_i)
        P += [V_p.cross(axis) for axis in own]
        T += [V_i.cross(axis) for axis in own] if len(own) > 1 else [V_p.cross(axis) for axis in own]
    inertia = [link.inertia.seen_from(X[i]) for i, link in model.outward()]
    return Motions(inertia, V, S, P, T, gravity)


def accelerations(model: Model, m: Motions, v: Array, a: Array | None) -> list[Motion]:
    """The acceleration of every link, gravity included as an upward one; joint accelerations zero if `a` is None."""
    A: list[Motion] = []
    for _, link in model.outward():
        A_i = A[link.parent] if link.parent >= 0 else Motion(-m.gravity, np.zeros(3))
        for k in range(link.v.start, link.v.stop):
            A_i = A_i + m.T[k] * v[k]
            if a is not None:
                A_i = A_i + m.S[k] * a[k]
        A.append(A_i)
    return A


def forces(model: Model, m: Motions, A: list[Motion]) -> list[Force]:
    """The force each body alone needs, F = I A + V x* I V."""
    return [I @ A[i] + m.V[i].cross(I @ m.V[i]) for i, I in enumerate(m.inertia)]


def composite(model: Model, parts: list) -> list:  # type: ignore[type-arg]
    """For each link the sum over itself and everything beyond it."""
    total = list(parts)
    for i, link in model.inward():
        if link.parent >= 0:
            total[link.parent] = total[link.parent] + joined(link, total[i])
    return total


def inverse_dynamics_derivatives(model: Model, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
    """(dtau/dq, dtau/dv, dtau/da), each nv x nv."""
    m = motions(model, q, v)
    return *_by_q_and_v(model, m, v, a), mass_matrix_of(model, m)


def forward_dynamics_derivatives(model: Model, q: Array, v: Array, tau: Array) -> tuple[Array, Array, Array]:
    """(da/dq, da/dv, da/dtau), each nv x nv:  -M^-1 dtau/dq, -M^-1 dtau/dv, M^-1, at the acceleration that tau produces."""
    limbs = find_limbs(ancestor_dofs(model)) if is_recording() else None
    folded = None if limbs is None else folded_model(model, limbs)
    if limbs is None or folded is None:
        L, dq, dv = _solve_for_derivatives(model, q, v, tau)
        return L.solve(dq, negative=True), L.solve(dv, negative=True), L.inverse_matrix()
    state = folded.configuration(q), limbs.fold(v), limbs.fold(tau)
    L, dq, dv = _solve_for_derivatives(folded.model, *state, limbs)
    B = LimbFactor.of(L)
    return B.solve_matrix(dq, negative=True), B.solve_matrix(dv, negative=True), B.inverse_matrix()


def _solve_for_derivatives(
    model: Model, q: Array, v: Array, tau: Array, limbs: Limbs | None = None
) -> tuple[TreeFactor, Array, Array]:
    """(factors of M, dtau/dq, dtau/dv) at the acceleration that tau produces."""
    m = motions(model, q, v)
    L = pattern_factor(ancestor_dofs(model), mass_matrix_of(model, m), limbs)
    F = composite(model, forces(model, m, accelerations(model, m, v, None)))
    bias = np.array([m.S[k].dot(F[i]) for i, link in model.outward() for k in range(link.v.start, link.v.stop)])
    return L, *_by_q_and_v(model, m, v, L.solve(tau - bias))


def mass_matrix_of(model: Model, m: Motions) -> Array:
    """M(q), (nv, nv), from motions already computed (composite rigid bodies, Featherstone 2008, table 6.2)."""
    I = composite(model, m.inertia)
    M = np.zeros((model.nv, model.nv), dtype=object)
    for i, link in model.outward():
        path = [k for j in ancestors(model, i) for k in range(model.links[j].v.start, model.links[j].v.stop)]
        for row in range(link.v.start, link.v.stop):
            F = I[i] @ m.S[row]
            for column in path:
                if column <= row:
                    M[row, column] = M[column, row] = m.S[column].dot(F)
            M[row, row] = M[row, row] + link.armature
    return M


def relative_motions(model: Model, m: Motions, A: list[Motion]) -> tuple[list[Motion], list[Motion]]:
    """(Q, P + T) of every coordinate, given the accelerations of the links."""
    Q: list[Motion] = []
    for k, i in enumerate([i for i, link in model.outward() for _ in range(link.v.start, link.v.stop)]):
        p = model.links[i].parent
        V_p, A_p = (m.V[p], A[p]) if p >= 0 else (Motion.zero(), Motion(-m.gravity, np.zeros(3)))
        Q.append(A_p.cross(m.S[k]) + V_p.cross(m.P[k]))
    return Q, [P + T for P, T in zip(m.P, m.T, strict=True)]


def _by_q_and_v(model: Model, m: Motions, v: Array, a: Array) -> tuple[Array, Array]:
    """(dtau/dq, dtau/dv)."""
    A = accelerations(model, m, v, a)
    I = composite(model, m.inertia)
    F = composite(model, forces(model, m, A))
    B = composite(model, [CoriolisOperator.of(I_i, V_i) for I_i, V_i in zip(m.inertia, m.V, strict=True)])
    link_of = [i for i, link in model.outward() for _ in range(link.v.start, link.v.stop)]
    Q, W = relative_motions(model, m, A)
    momentum = [I[i] @ m.S[k] for k, i in enumerate(link_of)]
    turn = [B[i].transposed(m.S[k]).angular * 2.0 for k, i in enumerate(link_of)]
    ancestors_of = ancestor_dofs(model)
    dq, dv = np.zeros((model.nv, model.nv), dtype=object), np.zeros((model.nv, model.nv), dtype=object)
    for k, i in enumerate(link_of):
        own = range(model.links[i].v.start, model.links[i].v.stop)
        by_q = (B[i] @ m.P[k]) * 2.0 + I[i] @ Q[k]
        by_v = (B[i] @ m.S[k]) * 2.0 + I[i] @ W[k]
        for j in own:
            dq[j, k], dv[j, k] = m.S[j].dot(by_q), m.S[j].dot(by_v)
        # the force also turns with joint k, as seen by the joints that carry it
        by_q = by_q + m.S[k].cross(F[i])
        for j in [j for j in ancestors_of[k] if j not in own]:
            dq[j, k], dv[j, k] = m.S[j].dot(by_q), m.S[j].dot(by_v)
        # the joints beyond it move with it
        for j in range(own.stop, model.nv):
            if k in ancestors_of[j]:
                dq[j, k] = product(turn[j], m.P[k].angular) + Q[k].dot(momentum[j])
                dv[j, k] = product(turn[j], m.S[k].angular) + W[k].dot(momentum[j])
    return dq, dv
