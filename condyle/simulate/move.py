"""Moving a configuration with the velocity after a step, which is given in axes that stand still during the step.

A free joint's velocity is in the body's axes, and those turn. The step therefore solves for the velocity v in the axes of the
configuration q it starts from: a body in flight then keeps its velocity in the world exactly, however it spins. At the end it
is written in the new body axes.
"""

from __future__ import annotations

import numpy as np

from condyle.dynamics.manifold import integrate, integrate_derivatives
from condyle.dynamics.rotations import quaternion_exp
from condyle.robot.joints import Free, rotation_of
from condyle.robot.model import Model
from condyle.robot.spatial import Array, cross, skew
from condyle.simulate.world import World


def turning(model: Model, v: Array) -> Array:
    """w x v for the linear part of every free joint, zero elsewhere: what its turning axes add to the acceleration."""
    out = np.zeros(model.nv, dtype=object)
    for link in model.links:
        if isinstance(link.kind, Free):
            linear, angular = v[link.v][:3], v[link.v][3:]
            out[link.v.start : link.v.start + 3] = cross(angular, linear)
    return out


def turning_slope(model: Model, v: Array) -> Array:
    """The derivative of `turning` by v."""
    out = np.zeros((model.nv, model.nv), dtype=object)
    for link in model.links:
        if isinstance(link.kind, Free):
            k = link.v.start
            out[k : k + 3, k : k + 3], out[k : k + 3, k + 3 : k + 6] = skew(v[k + 3 : k + 6]), -skew(v[k : k + 3])
    return out


def moved_on(model: Model, q: Array, v: Array, h: float) -> tuple[Array, Array]:
    """(configuration, velocity in its axes) after moving for h at the velocity v in the axes of q."""
    after, v_after = integrate(model, q, v * h), np.array(v, dtype=object)
    for link in model.links:
        if isinstance(link.kind, Free):
            k, linear, angular = link.q.start, v[link.v][:3], v[link.v][3:]
            after[k : k + 3] = q[k : k + 3] + rotation_of(q[k + 3 : k + 7]) @ (linear * h)
            v_after[link.v.start : link.v.start + 3] = rotation_of(quaternion_exp(angular * h)).T @ linear
    return after, v_after


def moved_on_slopes(model: Model, v: Array, h: float) -> tuple[Array, Array, Array]:
    """Derivatives of `moved_on` in the tangent space: (q by q, q by v, v by v)."""
    q_by_q, by_dv = integrate_derivatives(model, v * h)
    q_by_v, v_by_v = by_dv * h, np.eye(model.nv).astype(object)
    for link in model.links:
        if isinstance(link.kind, Free):
            k = link.v.start
            linear, angular = slice(k, k + 3), slice(k + 3, k + 6)
            back = rotation_of(quaternion_exp(v[angular] * h)).T
            turn = q_by_v[angular, angular]  # how the rotation answers to the angular velocity, times h
            q_by_q[linear, linear], q_by_q[linear, angular] = back, (back @ skew(v[linear])) * -h
            q_by_v[linear, linear], q_by_v[linear, angular] = back * h, np.zeros((3, 3))
            v_by_v[linear, linear], v_by_v[linear, angular] = back, skew(back @ v[linear]) @ turn
    return q_by_q, q_by_v, v_by_v


def turns(world: World, w: Array) -> Array:
    """`turning` of the world's coordinates; zero where only velocities are constrained."""
    return turning(world.reduced, w) if world.holonomic else np.zeros(world.nv)


def turns_slope(world: World, w: Array) -> Array:
    """The derivative of `turns` by w."""
    return turning_slope(world.reduced, w) if world.holonomic else np.zeros((world.nv, world.nv))


def advanced(world: World, y: Array, w: Array) -> tuple[Array, Array]:
    """(y, w) after moving on for one step at w."""
    if world.holonomic:
        return moved_on(world.reduced, y, w, world.h)
    return integrate(world.reduced, y, world.at(y).rate(w) * world.h), w


def advanced_slopes(world: World, y: Array, w: Array) -> tuple[Array, Array, Array]:
    """Its derivatives in the tangent space: (y by y, y by w, w by w)."""
    if world.holonomic:
        return moved_on_slopes(world.reduced, w, world.h)
    here = world.at(y)
    by_y, by_w = here.rate_derivatives(w)
    assert by_y is not None and by_w is not None
    y_by_y, by_step = integrate_derivatives(world.reduced, here.rate(w) * world.h)
    return y_by_y + by_step @ by_y * world.h, by_step @ by_w * world.h, np.eye(world.nv).astype(object)
