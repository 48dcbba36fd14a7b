"""Inverse dynamics by the recursive Newton-Euler algorithm."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from condyle.dynamics.coriolis import angular_velocities, bias_acceleration, gyroscopic
from condyle.dynamics.limbs import joined
from condyle.robot.model import Model
from condyle.robot.spatial import Array, Force, Motion

Wrenches = Mapping[int, Force]  # link -> force on it, in its own frame


def inverse_dynamics(model: Model, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None) -> Array:
    """Joint forces that produce the acceleration `a`:  tau = M(q) a + c(q, v)  (Featherstone 2008, table 5.1)."""
    F = transmitted_forces(model, q, v, a, wrenches)
    tau = np.zeros(model.nv, dtype=object)
    for i, link in model.inward():
        for k, S in enumerate(link.axes):
            tau[link.v.start + k] = S.dot(F[i]) + link.armature * a[link.v.start + k]
    return tau


def transmitted_forces(model: Model, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None) -> list[Force]:
    """The force that each link receives through its joint at the acceleration `a`, in its own frame."""
    w = angular_velocities(model, q, v)
    A: list[Motion] = []
    F: list[Force] = []
    world = Motion(-np.array(model.gravity), np.zeros(3))

    # outward: how each link accelerates, and the force it takes to move it so
    for i, link in model.outward():
        X = link.pose(q)
        p = link.parent
        bias = bias_acceleration(link, X, v, w[p] if p >= 0 else None, w[i])
        A.append(X.carry(A[p] if p >= 0 else world) + link.velocity(a) + bias)
        F.append(link.inertia @ A[i] + gyroscopic(link.inertia, w[i]))
        if wrenches and i in wrenches:
            F[i] = F[i] - wrenches[i]

    # inward: each joint carries its own link and everything beyond it
    for i, link in model.inward():
        if link.parent >= 0:
            F[link.parent] = F[link.parent] + joined(link, link.pose(q) @ F[i])
    return F


def gravity_forces(model: Model, q: Array) -> Array:
    """g(q): the joint forces that hold the robot at rest."""
    rest = np.zeros(model.nv)
    return inverse_dynamics(model, q, rest, rest)


def bias_forces(model: Model, q: Array, v: Array) -> Array:
    """C(q, v) v + g(q): the joint forces that let the robot move on without accelerating."""
    return inverse_dynamics(model, q, v, np.zeros(model.nv))
