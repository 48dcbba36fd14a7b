"""Passive forces of joints: damping, dry friction and springs, and gravity compensation, as the robot's file gives them.

    tau_p = - B v - f u / sqrt(u^2 + s^2) - K (q - rest)

Dry friction opposes the velocity u, smoothly below the speed s. In forward dynamics u = v: a joint at rest has none, where the
simulation solves for the force that keeps it still. Inverse dynamics knows more, u = v + AHEAD a: at rest it is the friction of
the motion that begins, which breaks the joint away.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.dynamics.posture import posture_forces
from condyle.robot.joints import Prismatic, Revolute
from condyle.robot.model import Model
from condyle.robot.spatial import Array
from condyle.tape.scalar import constant

AHEAD = 2e-3  # s: inverse dynamics looks so far ahead for the direction of dry friction
FRICTION_SPEED = 1e-4  # rad/s or m/s: above ten times this, dry friction is within 0.5 % of its full size


def passive_forces(model: Model, q: Array, v: Array, friction_speed: Any = FRICTION_SPEED, opposed: Array | None = None) -> Array:
    """tau_p, (nv,), MuJoCo's qfrc_passive and dry friction; `opposed`: the velocity u that friction opposes, v by default."""
    tau = posture_forces(model, q)
    for link in model.links:
        if link.kind.nv > 1 and link.damping:
            tau[link.v] = tau[link.v] - v[link.v] * link.damping
    for link in _with_forces(model):
        k = link.v.start
        if constant(link.stiffness) != 0.0:
            tau[k] = tau[k] + (link.rest - q[link.q.start]) * link.stiffness
        if constant(link.damping) != 0.0:
            tau[k] = tau[k] - link.damping * v[k]
        if constant(link.friction) != 0.0:
            u = (v if opposed is None else opposed)[k]
            tau[k] = tau[k] - link.friction * (u / np.sqrt(u * u + friction_speed * friction_speed))
    return tau


def passive_force_derivatives(model: Model, u: Array, friction_speed: Any = FRICTION_SPEED) -> tuple[Array, Array, Array]:
    """(dtau_p/dq, dtau_p/dv of damping, dtau_p/du of friction), the diagonals, (nv,): a force depends on its own joint alone.

    Without `posture_forces`, which depend on all joints.
    """
    by_q, by_v, by_u = (np.zeros(model.nv, dtype=object) for _ in range(3))
    for link in model.links:
        if link.kind.nv > 1 and link.damping:
            by_v[link.v] = -link.damping
    for link in _with_forces(model):
        k = link.v.start
        by_q[k], by_v[k] = -link.stiffness, -link.damping
        if constant(link.friction) != 0.0:
            s2 = friction_speed * friction_speed
            square = u[k] * u[k] + s2
            by_u[k] = -link.friction * (s2 / (square * np.sqrt(square)))
    return by_q, by_v, by_u


def _with_forces(model: Model) -> list[Any]:
    """Links whose joint has a passive force, or a traced one."""
    hinges = [link for link in model.links if isinstance(link.kind, Revolute | Prismatic)]
    return [link for link in hinges if any(constant(x) != 0.0 for x in (link.stiffness, link.damping, link.friction))]
