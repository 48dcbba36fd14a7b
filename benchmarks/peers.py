"""The same robot in Pinocchio and in MuJoCo, joint by joint from our model, so that all three compute one thing."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.errors import CondyleError
from condyle.robot.conventions import a_from_mujoco, q_to_mujoco, v_to_mujoco
from condyle.robot.joints import Ball, Free, Prismatic, Revolute
from condyle.robot.model import Link, Model

AXES = np.eye(3)


def pinocchio_twin(model: Model) -> Any:
    """pin.Model of the same robot; axes of the frame get Pinocchio's faster joints."""
    import pinocchio as pin

    twin = pin.Model()
    twin.gravity = pin.Motion(np.array(model.gravity), np.zeros(3))
    for _, link in model.outward():
        place = pin.SE3(np.asarray(link.placement.R, dtype=float), np.asarray(link.placement.p, dtype=float))
        joint = twin.addJoint(link.parent + 1, _joint(pin, link), place, link.joint)
        I = link.inertia
        body = pin.Inertia(I.mass, I.com, I.I_com) if I.mass > 0.0 else pin.Inertia.Zero()
        twin.appendBodyToJoint(joint, body, pin.SE3.Identity())
    twin.armature = np.concatenate([np.full(link.kind.nv, link.armature) for link in model.links])
    return twin


def _joint(pin: Any, link: Link) -> Any:
    kind = link.kind
    if isinstance(kind, Ball):
        return pin.JointModelSpherical()
    if isinstance(kind, Free):
        return pin.JointModelFreeFlyer()
    axis = np.array(kind.axis)
    word, letter = ("Revolute", "R") if isinstance(kind, Revolute) else ("Prismatic", "P")
    for name, unit in zip("XYZ", AXES, strict=True):
        if np.array_equal(axis, unit):
            return getattr(pin, f"JointModel{letter}{name}")()
    return getattr(pin, f"JointModel{word}Unaligned")(axis)


def mujoco_twin(model: Model) -> Any:
    """mujoco.MjModel of the same robot: no shapes, no contact, and a step so short that a passive fall stays tame."""
    spec = mujoco_spec(model)
    spec.option.timestep = 1e-4
    return mujoco_compiled(spec)


def mujoco_spec(model: Model) -> Any:
    """mujoco.MjSpec of the same robot, bodies and joints named as our links and joints; nothing to touch, and no motors."""
    import mujoco

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


def mujoco_acceleration(model: Model, twin: Any, data: Any, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Our a by mj_forward, for one state."""
    import mujoco

    data.qpos, data.qvel = q_to_mujoco(model, q), v_to_mujoco(model, q, v)
    data.qfrc_applied = v_to_mujoco(model, q, tau)
    mujoco.mj_forward(twin, data)
    return a_from_mujoco(model, q, v, data.qacc)
