"""Passive forces of the whole posture: gravity compensation of links, and springs of ball joints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from condyle.dynamics.energy import potential_energy
from condyle.dynamics.rnea import gravity_forces
from condyle.dynamics.rotations import quaternion_log
from condyle.robot.joints import Ball
from condyle.robot.model import NOT_COMPENSATED, Link, Model
from condyle.robot.spatial import Array, Inertia


def has_posture_forces(model: Model) -> bool:
    """Whether `posture_forces` are other than zero."""
    return bool(_compensated(model)) or bool(_ball_springs(model))


def posture_forces(model: Model, q: Array) -> Array:
    """Gravity compensation, and springs of ball joints, -K times the rotation vector from rest: (nv,)."""
    compensated = _compensated(model)
    tau = np.array(gravity_forces(compensated, q), dtype=object) if compensated else np.zeros(model.nv, dtype=object)
    for link in _ball_springs(model):
        tau[link.v] = tau[link.v] - quaternion_log(q[link.q]) * link.stiffness
    return tau


def posture_energy(model: Model, q: Array) -> Any:
    """The potential energy of `posture_forces`, J."""
    compensated = _compensated(model)
    total: Any = -potential_energy(compensated, q) if compensated else 0.0
    for link in _ball_springs(model):
        w = quaternion_log(q[link.q])
        total = total + 0.5 * link.stiffness * (w @ w)
    return total


def _ball_springs(model: Model) -> list[Link]:
    return [link for link in model.links if isinstance(link.kind, Ball) and link.stiffness]


def _compensated(model: Model) -> Model | None:
    """A robot of the compensated masses alone: what holds it at rest are the forces of the compensation. None without any."""
    if all(link.compensated == NOT_COMPENSATED for link in model.links):
        return None
    links = []
    for link in model.links:
        mass, *h = link.compensated
        links.append(replace(link, inertia=Inertia(mass, np.array(h), np.zeros((3, 3))), armature=0.0))
    return replace(model, links=tuple(links))
