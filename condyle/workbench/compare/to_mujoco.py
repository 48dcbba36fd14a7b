"""A model as MuJoCo has it: the same links, joints and inertias, so that both compute one thing."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.errors import CondyleError, require
from condyle.robot.joints import Ball, Free, Prismatic, Revolute
from condyle.robot.model import Link, Model


def mujoco_spec(model: Model) -> Any:
    """mujoco.MjSpec of the same robot, bodies and joints named as our links and joints; nothing to touch, and no motors."""
    mujoco = require("mujoco", "mjcf", "a model in MuJoCo")
    spec = mujoco.MjSpec()
    spec.option.gravity = model.gravity
    kinds = {Revolute: "HINGE", Prismatic: "SLIDE", Ball: "BALL", Free: "FREE"}
    bodies: list[Any] = []
    for _, link in model.outward():
        if isinstance(link.kind, Free) and (link.parent >= 0 or not _identity(link)):
            raise CondyleError("MuJoCo has free joints only right below the world")
        if link.inertia.mass <= 0.0:
            raise CondyleError(f"MuJoCo wants a mass on every link, and '{link.name}' has none")
        quaternion = np.zeros(4)
        mujoco.mju_mat2Quat(quaternion, np.asarray(link.placement.R, dtype=float).ravel())
        parent = bodies[link.parent] if link.parent >= 0 else spec.worldbody
        body = parent.add_body(name=link.name, pos=np.asarray(link.placement.p, dtype=float), quat=quaternion)
        I = link.inertia
        about = np.asarray(I.I_com, dtype=float)
        body.explicitinertial, body.mass, body.ipos = True, I.mass, np.asarray(I.com, dtype=float)
        body.fullinertia = [about[0, 0], about[1, 1], about[2, 2], about[0, 1], about[0, 2], about[1, 2]]
        options = {"axis": link.kind.axis} if isinstance(link.kind, Revolute | Prismatic) else {}
        kind = getattr(mujoco.mjtJoint, f"mjJNT_{kinds[type(link.kind)]}")
        body.add_joint(name=link.joint, type=kind, armature=link.armature, **options)
        bodies.append(body)
    return spec


def mujoco_compiled(spec: Any) -> Any:
    """mujoco.MjModel of a spec."""
    try:
        return spec.compile()
    except ValueError as error:
        raise CondyleError(f"MuJoCo refuses this robot ({str(error).splitlines()[0]})") from None


def _identity(link: Link) -> bool:
    return np.array_equal(link.placement.R, np.eye(3)) and not np.any(link.placement.p)
