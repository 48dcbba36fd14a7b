"""Mass, centre of mass, momentum and energy of the whole robot. What is fixed to the world does not count."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.dynamics.kinematics import poses, velocities
from condyle.robot.model import Model
from condyle.robot.spatial import Array, Force, Inertia, cross, product


def total_mass(model: Model) -> Any:
    """The mass of all moving links, kg."""
    return sum((link.inertia.mass for link in model.links), 0.0)


def kinetic_energy(model: Model, q: Array, v: Array) -> Any:
    """T = 1/2 v^T M(q) v, joules: every link moving as it does, and the armature of every joint."""
    T = 0.0
    for (_, link), V in zip(model.outward(), velocities(model, q, v), strict=True):
        T = T + V.dot(link.inertia @ V)
        for v_k in v[link.v]:
            T = T + link.armature * (v_k * v_k)
    return 0.5 * T


def potential_energy(model: Model, q: Array) -> Any:
    """V = -sum m g . c, joules: zero when the centre of mass is level with the world's origin."""
    _, h = _moments(model, q)
    return -product(np.array(model.gravity), h)


def center_of_mass(model: Model, q: Array) -> Array:
    """Where the centre of mass is, in the world, m."""
    mass, h = _moments(model, q)
    return h / mass


def _moments(model: Model, q: Array) -> tuple[Any, Array]:
    """(mass, mass * centre of mass) of the robot, in the world: carried inward, so that no pose in the world is needed."""
    mass = [link.inertia.mass for link in model.links]
    h = [link.inertia.h for link in model.links]
    total, at = 0.0, np.zeros(3)
    for i, link in model.inward():
        X = link.pose(q)
        here = product(X.R, h[i]) + mass[i] * X.p
        if link.parent >= 0:
            mass[link.parent] = mass[link.parent] + mass[i]
            h[link.parent] = h[link.parent] + here
        else:
            total, at = total + mass[i], at + here
    return total, at


def com_jacobian(model: Model, q: Array) -> Array:
    """J with (velocity of the centre of mass) = J v, 3 x nv, in world axes.

    A unit speed of one joint gives everything beyond it a linear momentum; over the whole mass, that is its column.
    """
    I, X, per_mass = composite_inertias(model, q), poses(model, q), 1.0 / total_mass(model)
    J = np.zeros((3, model.nv), dtype=object)
    for i, link in model.outward():
        for k, S in enumerate(link.axes):
            J[:, link.v.start + k] = product(X[i].R, (I[i] @ S).linear * per_mass)
    return J


def momentum(model: Model, q: Array, v: Array) -> Array:
    """h = A_g(q) v: linear momentum, then angular momentum about the centre of mass, in world axes; kg m/s and kg m^2/s.

    The armature stands for rotors whose spin is not modelled, so it carries no momentum here.
    """
    F = [link.inertia @ V for link, V in zip(model.links, velocities(model, q, v), strict=True)]
    total = Force.zero()
    for i, link in model.inward():
        in_parent = link.pose(q) @ F[i]
        if link.parent >= 0:
            F[link.parent] = F[link.parent] + in_parent
        else:
            total = total + in_parent
    return about(center_of_mass(model, q), total).vector()


def centroidal_map(model: Model, q: Array) -> Array:
    """A_g with `momentum` = A_g v, 6 x nv (Orin, Goswami and Lee 2013)."""
    I, X, c = composite_inertias(model, q), poses(model, q), center_of_mass(model, q)
    A = np.zeros((6, model.nv), dtype=object)
    for i, link in model.outward():
        for k, S in enumerate(link.axes):
            A[:, link.v.start + k] = about(c, X[i] @ (I[i] @ S)).vector()
    return A


def about(point: Array, force: Force) -> Force:
    """A force or momentum given about the origin, about another point; same axes."""
    return Force(force.linear, force.angular - cross(point, force.linear))


def composite_inertias(model: Model, q: Array) -> list[Inertia]:
    """Each link and everything beyond it as one rigid body, in the link's frame."""
    I = [link.inertia for link in model.links]
    for i, link in model.inward():
        if link.parent >= 0:
            I[link.parent] = I[link.parent] + I[i].seen_from(link.pose(q))
    return I
