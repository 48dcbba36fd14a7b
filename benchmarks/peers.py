"""The same robot in Pinocchio and in MuJoCo, joint by joint from our model, so that all three compute one thing."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.robot.conventions import a_from_mujoco, q_to_mujoco, v_to_mujoco
from condyle.robot.joints import Ball, Free, Revolute
from condyle.robot.model import Link, Model
from condyle.workbench.compare.to_mujoco import mujoco_compiled, mujoco_spec

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


def mujoco_acceleration(model: Model, twin: Any, data: Any, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Our a by mj_forward, for one state."""
    import mujoco

    data.qpos, data.qvel = q_to_mujoco(model, q), v_to_mujoco(model, q, v)
    data.qfrc_applied = v_to_mujoco(model, q, tau)
    mujoco.mj_forward(twin, data)
    return a_from_mujoco(model, q, v, data.qacc)
