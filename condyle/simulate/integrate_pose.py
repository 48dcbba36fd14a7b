"""The configuration after a step, from the velocity after it, which is given in an inertial frame.

A free joint's velocity is in body axes, which rotate. The step therefore solves for the velocity v in the axes that the body has
at the start, so that a body in flight keeps its velocity in the world exactly, however it spins. At the end v is expressed in
the new body axes.
"""

from __future__ import annotations

import numpy as np

from condyle.dynamics.manifold import integrate
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


def integrate_pose(world: World, q: Array, v: Array) -> tuple[Array, Array]:
    """(configuration, velocity in its axes) after one step at the velocity v in the axes of q."""
    h = world.h
    if not world.holonomic:
        return integrate(world.reduced, q, world.at(q).rate(v) * h), v
    after, v_after = integrate(world.reduced, q, v * h), np.array(v, dtype=object)
    for link in free_links(world):
        k, linear, angular = link.q.start, v[link.v][:3], v[link.v][3:]
        after[k : k + 3] = q[k : k + 3] + rotation_of(q[k + 3 : k + 7]) @ (linear * h)
        v_after[link.v.start : link.v.start + 3] = rotation_of(quaternion_exp(angular * h)).T @ linear
    return after, v_after


def free_links(world: World) -> list[Link]:
    """The free joints of the state; none where the velocities are not rates of the coordinates."""
    return [link for link in world.reduced.links if isinstance(link.kind, Free)] if world.holonomic else []
