"""The terms of  M(q) a + C(q, v) v + g(q) = tau  one by one."""

from __future__ import annotations

import numpy as np

from condyle.dynamics.coriolis_operator import CoriolisOperator
from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.energy import composite_inertias
from condyle.dynamics.kinematics import velocities
from condyle.dynamics.rnea import inverse_dynamics
from condyle.dynamics.tree_solve import tree_factor
from condyle.robot.model import Model
from condyle.robot.spatial import Array


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
    """M(q)^-1, symmetric, nv x nv."""
    return tree_factor(model, mass_matrix(model, q)).inverse_matrix()
