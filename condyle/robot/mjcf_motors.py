"""The actuators of a compiled MJCF model, as far as they are joint data: effort limits, and the rotor's inertia and damping."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite
from types import ModuleType
from typing import Any

import numpy as np

from condyle.robot.report import Report


@dataclass
class Motors:
    """What the actuators of a joint add to it, by joint number."""

    effort: dict[int, float] = field(default_factory=dict)
    armature: dict[int, float] = field(default_factory=dict)
    damping: dict[int, float] = field(default_factory=dict)


def motors(mujoco: ModuleType, model: Any, joints: list[str], report: Report, file: str) -> Motors:
    """The joint data of all actuators. What they are driven by is noted: here, a joint is driven by its effort.

    A joint's effort limit is |gear| * (largest force) summed over its actuators, and never more than its own
    actuatorfrcrange; there is none if an actuator has none. Rotor inertia and damping count gear^2 times.
    """
    out, scalar = Motors(), (mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE)
    limits: dict[int, float] = {}
    for i in range(getattr(model, "nactuator", model.nu)):
        name = f"actuator '{model.actuator(i).name or i}'"
        joint, gear = int(model.actuator_trnid[i, 0]), float(model.actuator_gear[i, 0])
        on_joint = int(model.actuator_trntype[i]) in (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)
        if not on_joint or int(model.jnt_type[joint]) not in scalar:
            report.ignored(file, f"{name}: it does not drive a hinge or a slide")
            continue
        bound = _bound(mujoco, model, i)
        limits[joint] = limits.get(joint, 0.0) + abs(gear) * bound
        for values, given in ((out.armature, "actuator_armature"), (out.damping, "actuator_damping")):
            if (value := float(getattr(model, given, np.zeros(i + 1))[i])) != 0.0:
                values[joint] = values.get(joint, 0.0) + gear * gear * value
        limit = f"limit {abs(gear) * bound:g}" if isfinite(bound) else "without limit"
        what = f"{name} on joint '{joints[joint]}', gear {gear:g}, {limit}"
        law = "" if _is_motor(mujoco, model, i) else ", with its control law (a servo or activation)"
        report.ignored(file, f"{what}{law}: the joint is driven by its effort")
    for joint in range(model.njnt):
        if model.jnt_actfrclimited[joint]:
            limits[joint] = min(limits.get(joint, inf), float(np.abs(model.jnt_actfrcrange[joint]).max()))
    out.effort = {joint: limit for joint, limit in limits.items() if isfinite(limit)}
    return out


def _is_motor(mujoco: ModuleType, model: Any, i: int) -> bool:
    """Whether force = gain * control, perhaps filtered."""
    dynamics = mujoco.mjtDyn
    return (
        int(model.actuator_gaintype[i]) == mujoco.mjtGain.mjGAIN_FIXED
        and int(model.actuator_biastype[i]) == mujoco.mjtBias.mjBIAS_NONE
        and int(model.actuator_dyntype[i]) in (dynamics.mjDYN_NONE, dynamics.mjDYN_FILTER, dynamics.mjDYN_FILTEREXACT)
    )


def _bound(mujoco: ModuleType, model: Any, i: int) -> float:
    """The largest force of an actuator before its gear; the larger side where the range is lopsided."""
    bound = inf
    if model.actuator_forcelimited[i]:
        bound = float(np.abs(model.actuator_forcerange[i]).max())
    control = int(model.actuator_ctrladr[i]) if hasattr(model, "actuator_ctrladr") else i
    if _is_motor(mujoco, model, i) and model.actuator_ctrllimited[control]:
        bound = min(bound, abs(float(model.actuator_gainprm[i, 0])) * float(np.abs(model.actuator_ctrlrange[control]).max()))
    return bound
