"""The configuration after a step, and velocities in an inertial frame.

A free joint's velocity is in body axes, which rotate. Every integrator therefore works with its linear velocity in the axes that
the body has at the start of the step, and moves its position along a straight line, so that a body in flight keeps its velocity
in the world exactly, however it spins. At the end the velocity is expressed in the new body axes.
"""

from __future__ import annotations

import numpy as np

from condyle.dynamics.manifold import integrate, tangent_rate
from condyle.dynamics.rotations import quaternion_exp
from condyle.robot.joints import Free, rotation_of
from condyle.robot.model import Link
from condyle.robot.spatial import Array, cross, skew
from condyle.simulate.world import World


def transport_acceleration(world: World, v: Array) -> Array:
    """w x v for the linear part of every free joint, zero elsewhere: the difference of the accelerations in the two frames."""
    out = np.zeros(world.nv, dtype=object) if world.holonomic else np.zeros(world.nv)
    for link in free_links(world):
        linear, angular = v[link.v][:3], v[link.v][3:]
        out[link.v.start : link.v.start + 3] = cross(angular, linear)
    return out


def transport_acceleration_jacobian(world: World, v: Array) -> Array:
    """Its derivative by v."""
    out = np.zeros((world.nv, world.nv), dtype=object) if world.holonomic else np.zeros((world.nv, world.nv))
    for link in free_links(world):
        k = link.v.start
        out[k : k + 3, k : k + 3], out[k : k + 3, k + 3 : k + 6] = skew(v[k + 3 : k + 6]), -skew(v[k : k + 3])
    return out


def moved(world: World, q: Array, dq: Array, v: Array) -> tuple[Array, Array]:
    """(q moved by dq, v in the axes there), of a displacement and a velocity in the axes of q; free joints move straight."""
    after = integrate(world.reduced, q, dq)
    for link in free_links(world):
        k, linear = link.q.start, dq[link.v][:3]
        after[k : k + 3] = q[k : k + 3] + rotation_of(q[k + 3 : k + 7]) @ linear
    return after, in_axes_after(world, dq, v)


def in_axes_after(world: World, dq: Array, v: Array) -> Array:
    """v in the axes after the displacement dq, of a velocity in the axes before it."""
    out = np.array(v, dtype=object)
    for link in free_links(world):
        out[link.v][:3] = rotation_of(quaternion_exp(dq[link.v][3:])).T @ v[link.v][:3]
    return out


def in_axes_before(world: World, dq: Array, v: Array) -> Array:
    """v in the axes before the displacement dq, of a velocity in the axes after it."""
    out = np.array(v, dtype=object)
    for link in free_links(world):
        out[link.v][:3] = rotation_of(quaternion_exp(dq[link.v][3:])) @ v[link.v][:3]
    return out


def displacement_rate(world: World, dq: Array, rate: Array, v: Array) -> Array:
    """How fast the displacement dq changes at `rate`, the velocity in the axes after it; `v`: in the axes before it."""
    out = tangent_rate(world.reduced, dq, rate)
    for link in free_links(world):
        out[link.v][:3] = v[link.v][:3]
    return out


def free_links(world: World) -> list[Link]:
    """The free joints of the state; none where the velocities are not rates of the coordinates."""
    return [link for link in world.reduced.links if isinstance(link.kind, Free)] if world.holonomic else []
