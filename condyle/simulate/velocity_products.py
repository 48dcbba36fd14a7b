"""Velocity products, which are explicit in a step, limited where the time step is too long for them.

Centrifugal, Coriolis and gyroscopic forces b do no work, but a step that takes them at its start,  v - h M^-1 b,  adds the energy
1/2 h^2 b^T M^-1 b. While that is a small part of the kinetic energy, it is the error of the integrator. Where the products change
the velocity by a third or more in one step, the robot would spin faster with every step until its numbers overflow. With

    r = h^2 sum_k b_k^2 / M_kk / (v^T M v + w),     u = max(r / LARGEST - 1, 0),     lost = u^3 / (1 + u^2 + u^3)

a step loses the fraction `lost` of the momentum M v - h b. It is exactly zero up to r = LARGEST, and twice differentiable in the
state. Contact sees the same M as always. The translation of a free base, free fall included, does not count and stays. On a fixed
base b includes gravity, and w is so large that gravity alone does not reach LARGEST.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.dynamics.energy import total_mass
from condyle.robot.spatial import Array, product, skew
from condyle.simulate.integrate_pose import free_links
from condyle.simulate.world import World

LARGEST = 0.1  # the largest r that a step does not limit: the squared relative change of the velocity
OF_GRAVITY = 0.25  # r of gravity alone, at most, relative to LARGEST


@dataclass(frozen=True)
class VelocityProducts:
    """M v - h b of the motion without free fall, and the fractions of it that a step loses and keeps.

    `M`: with the implicit damping and springs, in reduced velocities. `v`: the velocity before the step without the linear
    velocity of a free base and what gravity adds to it.
    """

    M: Array
    v: Array
    momentum: Array
    lost: Any
    kept: Any


def velocity_products(world: World, M: Array, bias: Array, q: Array, v: Array) -> VelocityProducts:
    """How much a step loses of the momentum that M and the bias force leave."""
    if not limits_products(world):
        return VelocityProducts(M, np.zeros(world.nv), np.zeros(world.nv), 0.0, 1.0)
    v, fall = without_translation(world, v), free_fall(world, q)
    momentum, bias = world.times(M, v), bias + world.times(M, fall)
    change = world.over_coordinates(quotients, [(b * b, M[k, k]) for k, b in enumerate(bias)])
    ratio = change * (world.h * world.h / LARGEST) / (world.dot(v, momentum) + weight_energy(world.plain))
    u = np.maximum(ratio - 1.0, 0.0)
    most = 1.0 + u * u
    cube = u * u * u
    inverse = 1.0 / (most + cube)
    return VelocityProducts(M, v - fall * world.h, momentum - bias * world.h, cube * inverse, most * inverse)


def quotients(terms: list[tuple[Any, Any]]) -> Any:
    """The sum of a / b over all (a, b), two with one division, which costs as much as many products."""
    pairs = zip(terms[::2], [*terms[1::2], (0.0, 1.0)], strict=False)
    return sum(((a * d + c * b) / (b * d) for (a, b), (c, d) in pairs), 0.0)


def limits_products(world: World) -> bool:
    """Whether a step limits them: not of a single joint, which has none, and not in Runge-Kutta stages, which are accurate."""
    return world.implicit and world.model.nv > 1


def without_translation(world: World, v: Array) -> Array:
    """The velocity with the linear part of every free joint zero."""
    out = np.array(v, dtype=object)
    for link in free_links(world):
        out[link.v.start : link.v.start + 3] = 0.0
    return out


def free_fall(world: World, q: Array) -> Array:
    """The acceleration of free bases by gravity, in their own axes: M times it is the gravity force on all they carry."""
    out = np.zeros(world.nv, dtype=object)
    for link in free_links(world):
        if link.parent < 0:
            out[link.v.start : link.v.start + 3] = product(link.pose(q).R.T, np.array(world.model.gravity))
    return out


def free_fall_jacobian(world: World, q: Array) -> Array:
    """Its derivative by the configuration, in the tangent space."""
    out, fall = np.zeros((world.nv, world.nd), dtype=object), free_fall(world, q)
    for link in free_links(world):
        if link.parent < 0:
            k = link.v.start
            out[k : k + 3, k + 3 : k + 6] = skew(fall[k : k + 3])
    return out


def weight_energy(world: World) -> Any:
    """w: the most that h^2 sum_k g_k^2 / M_kk can be, free fall of the mass beyond each joint, over OF_GRAVITY LARGEST."""
    beyond = [link.inertia.mass for link in world.model.links]
    for i, link in world.model.inward():
        if link.parent >= 0:
            beyond[link.parent] = beyond[link.parent] + beyond[i]
    if world.coordinate_map.identity:
        mass = sum((beyond[i] * link.kind.nv for i, link in world.model.outward()), 0.0)
    else:
        mass = total_mass(world.model) * world.nv
    speed = world.gravity * world.h
    return mass * (speed * speed * (1.0 / (OF_GRAVITY * LARGEST)))
