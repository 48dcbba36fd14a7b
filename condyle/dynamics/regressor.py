"""Inverse dynamics is linear in the masses: the matrix that multiplies them, for identification."""

from __future__ import annotations

import numpy as np

from condyle.dynamics.coriolis import angular_velocities, bias_acceleration, cross_squared
from condyle.robot.model import Model
from condyle.robot.spatial import Array, Motion, cross, product, skew

# of each link: mass, mass * centre of mass, and the inertia about the origin of the link's frame
PARAMETERS = ("m", "mcx", "mcy", "mcz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")


def inertial_parameters(model: Model) -> Array:
    """pi: the numbers of `PARAMETERS` for every link, 10 n_links; kg, kg m, kg m^2."""
    return np.concatenate(
        [
            [I.mass, *I.h, I.I[0, 0], I.I[0, 1], I.I[1, 1], I.I[0, 2], I.I[1, 2], I.I[2, 2]]
            for I in (k.inertia for k in model.links)
        ]
    )


def inverse_dynamics_regressor(model: Model, q: Array, v: Array, a: Array) -> Array:
    """Y with  inverse_dynamics = Y pi + armature a,  nv x 10 n_links, pi as in `inertial_parameters` (Atkeson and others 1986).

    The order of the parameters is that of Pinocchio's computeJointTorqueRegressor.
    """
    w = angular_velocities(model, q, v)
    A: list[Motion] = []
    axes: list[dict[int, Motion]] = []  # per link: the axes of all joints that move it, by velocity, in its frame
    world = Motion(-np.array(model.gravity), np.zeros(3))
    Y = np.zeros((model.nv, 10 * len(model.links)), dtype=object)
    for i, link in model.outward():
        X, p = link.pose(q), link.parent
        bias = bias_acceleration(link, X, v, w[p] if p >= 0 else None, w[i])
        A.append(X.carry(A[p] if p >= 0 else world) + link.velocity(a) + bias)
        axes.append({row: X.carry(S) for row, S in axes[p].items()} if p >= 0 else {})
        axes[i].update({link.v.start + k: S for k, S in enumerate(link.axes)})
        for row, S in axes[i].items():
            Y[row, 10 * i : 10 * (i + 1)] = _row(S, A[i], w[i])
    return Y


def _row(S: Motion, A: Motion, w: Array) -> Array:
    """S . F as a row over the ten parameters:  F = (m a + D h, h x a + I w' + w x I w),  D = [w'] + [w]^2."""
    D = skew(A.angular) + cross_squared(w)
    # S . (I w' + w x I w) = w'^T I s + w^T I (s x w), s the angular part of S
    on_inertia = by_inertia(A.angular, S.angular) + by_inertia(w, cross(S.angular, w))
    return np.concatenate([[product(S.linear, A.linear)], product(S.linear, D) + cross(A.linear, S.angular), on_inertia])


def by_inertia(x: Array, y: Array) -> Array:
    """x^T I y as a row over (Ixx, Ixy, Iyy, Ixz, Iyz, Izz)."""
    xy, xz, yz = x[0] * y[1] + x[1] * y[0], x[0] * y[2] + x[2] * y[0], x[1] * y[2] + x[2] * y[1]
    return np.array([x[0] * y[0], xy, x[1] * y[1], xz, yz, x[2] * y[2]])
