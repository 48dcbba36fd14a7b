"""The actuators of a compiled MJCF model, and what they add to the joints they drive.

A fixed tendon, a linear combination of joints, is a transmission; its limits act, its springs, damping and friction do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from types import ModuleType
from typing import Any

import numpy as np

from condyle.robot.actuator import ActuatorSpec
from condyle.robot.description import TendonSpec


@dataclass
class Motors:
    """What the actuators of a joint add to it, by joint number."""

    effort: dict[int, float] = field(default_factory=dict)
    armature: dict[int, float] = field(default_factory=dict)
    damping: dict[int, float] = field(default_factory=dict)


def motors(mujoco: ModuleType, model: Any) -> Motors:
    """The effort limit, rotor inertia and damping of each joint with one coordinate.

    The effort limit is |gear| * (largest force) summed over the joint's actuators, and never more than its own actuatorfrcrange;
    there is none if an actuator has none. Rotor inertia and damping count gear^2 times.
    """
    out, limits = Motors(), dict[int, float]()
    names, sites = [str(j) for j in range(model.njnt)], [str(s) for s in range(model.nsite)]
    for i, actuator in _compiled(mujoco, model, names, sites):
        for name, gear in actuator.joints:
            joint = int(name)
            limits[joint] = limits.get(joint, 0.0) + abs(gear) * actuator.largest_force
            for values, given in ((out.armature, "actuator_armature"), (out.damping, "actuator_damping")):
                value = float(getattr(model, given, np.zeros(i + 1))[i])
                if value != 0.0 and len(actuator.joints) == 1:
                    values[joint] = values.get(joint, 0.0) + gear * gear * value
    for joint in range(model.njnt):
        if (own := actuator_range(model, joint)) is not None:
            limits[joint] = min(limits.get(joint, inf), max(map(abs, own)))
    out.effort = {joint: limit for joint, limit in limits.items() if isfinite(limit)}
    return out


def actuator_range(model: Any, joint: int) -> tuple[float, float] | None:
    """actuatorfrcrange of a joint: the range of the sum of its actuators' forces."""
    if not model.jnt_actfrclimited[joint]:
        return None
    low, high = model.jnt_actfrcrange[joint]
    return float(low), float(high)


def actuators(mujoco: ModuleType, model: Any, joints: Sequence[str], sites: Sequence[str]) -> tuple[ActuatorSpec, ...]:
    """One actuator for each entry of MuJoCo's ctrl; `joints` and `sites`: the names by number."""
    return tuple(actuator for _, actuator in _compiled(mujoco, model, joints, sites))


def tendons(model: Any, joints: Sequence[str]) -> tuple[TendonSpec, ...]:
    """The fixed tendons with limits; `joints`: the names by number."""
    out = []
    for tendon in range(model.ntendon):
        coefficients: dict[str, float] = {}
        for joint, coefficient in _fixed_tendon(model, tendon):
            coefficients[joints[joint]] = coefficients.get(joints[joint], 0.0) + coefficient
        pairs = tuple((joint, coefficient) for joint, coefficient in coefficients.items() if coefficient != 0.0)
        if pairs and model.tendon_limited[tendon]:
            lower, upper = (float(limit) for limit in model.tendon_range[tendon])
            out.append(TendonSpec(model.tendon(tendon).name or f"tendon{tendon}", pairs, lower, upper))
    return tuple(out)


def unsupported(mujoco: ModuleType, model: Any, found: Sequence[ActuatorSpec]) -> dict[str, list[str]]:
    """What cannot be simulated of actuators and tendons, with the names of those concerned."""
    reasons: dict[str, list[str]] = {}
    for actuator in found:
        if actuator.unsupported:
            reasons.setdefault(f"actuators whose control has no effect, {actuator.unsupported}", []).append(actuator.name)
    delays = getattr(model, "actuator_delay", np.zeros(0))
    delayed = [model.actuator(i).name or str(i) for i in range(len(delays)) if delays[i] > 0.0]
    if delayed:
        reasons["delays of actuators (condyle.blocks.Delay delays a control)"] = delayed
    for tendon in range(model.ntendon):
        name = model.tendon(tendon).name or f"tendon{tendon}"
        if not _fixed_tendon(model, tendon):
            reasons.setdefault("tendons that are no linear combination of joints", []).append(name)
        elif any(np.any(getattr(model, f"tendon_{own}")[tendon]) for own in ("stiffness", "damping", "frictionloss")):
            reasons.setdefault("springs, damping and friction of tendons", []).append(name)
    return reasons


def _compiled(mujoco: ModuleType, model: Any, joints: Sequence[str], sites: Sequence[str]) -> Iterator[tuple[int, ActuatorSpec]]:
    """(actuator number, spec) for each entry of ctrl; an actuator with several controls has several, none of them supported."""
    count = getattr(model, "nactuator", model.nu)
    given = [model.actuator(i).name for i in range(count)]
    for i, own in enumerate(given):
        name = own or f"actuator{i}"
        while not own and name in given:
            name += "_"
        first = int(model.actuator_ctrladr[i]) if hasattr(model, "actuator_ctrladr") else i
        several = int(model.actuator_ctrlnum[i]) if hasattr(model, "actuator_ctrlnum") else 1
        if several == 1:
            yield i, _actuator(mujoco, model, i, first, name, joints, sites)
        else:
            for k in range(several):
                yield i, ActuatorSpec(f"{name}.{k}", unsupported="of more than one control each")


def _actuator(
    mujoco: ModuleType, model: Any, i: int, control: int, name: str, joints: Sequence[str], sites: Sequence[str]
) -> ActuatorSpec:
    reason = _unsupported(mujoco, model, i)
    ctrlrange = _range(model.actuator_ctrllimited[control], model.actuator_ctrlrange[control])
    if model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL:
        ctrlrange = None
    if reason:
        return ActuatorSpec(name, ctrlrange=ctrlrange, unsupported=reason)
    transmissions, gear = mujoco.mjtTrn, tuple(float(x) for x in model.actuator_gear[i])
    kind, target, other = transmissions(int(model.actuator_trntype[i])), *(int(x) for x in model.actuator_trnid[i])
    forcerange = _range(model.actuator_forcelimited[i], model.actuator_forcerange[i])
    driven: dict[str, Any] = {"joints": ()}
    if kind == transmissions.mjTRN_SITE:
        driven |= {"site": sites[target], "refsite": sites[other] if other >= 0 else "", "wrench": gear}
    elif kind == transmissions.mjTRN_TENDON:
        driven["joints"] = tuple((joints[j], coefficient * gear[0]) for j, coefficient in _fixed_tendon(model, target))
        own = _range(model.tendon_actfrclimited[target], model.tendon_actfrcrange[target])
        if own is not None:
            low, high = forcerange or own
            forcerange = max(low, own[0]), min(high, own[1])
    else:
        driven["joints"] = ((joints[target], gear[0]),)
    dynamics = mujoco.mjtDyn(int(model.actuator_dyntype[i])).name.removeprefix("mjDYN_").lower()
    fixed = int(model.actuator_gaintype[i]) == mujoco.mjtGain.mjGAIN_FIXED
    biased = int(model.actuator_biastype[i]) == mujoco.mjtBias.mjBIAS_AFFINE
    gain, bias = _three(model.actuator_gainprm[i]), _three(model.actuator_biasprm[i])
    return ActuatorSpec(
        name,
        **driven,
        gain=(gain[0], 0.0, 0.0) if fixed else gain,
        bias=bias if biased else (0.0, 0.0, 0.0),
        dynamics=dynamics,
        timeconst=float(model.actuator_dynprm[i, 0]) if dynamics.startswith("filter") else 0.0,
        ctrlrange=ctrlrange,
        forcerange=forcerange,
        actrange=_range(model.actuator_actlimited[i], model.actuator_actrange[i]),
        actearly=bool(model.actuator_actearly[i]),
    )


def _unsupported(mujoco: ModuleType, model: Any, i: int) -> str:
    """Why actuator i cannot be simulated; "" if it can."""
    transmissions, joint_types = mujoco.mjtTrn, mujoco.mjtJoint
    kind, target = transmissions(int(model.actuator_trntype[i])), int(model.actuator_trnid[i, 0])
    if model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_ACTUATION:
        return "because the file disables actuation"
    if 0 <= (group := int(model.actuator_group[i])) < 31 and model.opt.disableactuator >> group & 1:
        return "because the file disables their group"
    if getattr(model, "actuator_plugin", np.full(i + 1, -1))[i] >= 0:
        return "computed by a plugin"
    supported = {"dyntype": ("NONE", "INTEGRATOR", "FILTER", "FILTEREXACT"), "gaintype": ("FIXED", "AFFINE")}
    supported["biastype"] = ("NONE", "AFFINE")
    for column, known in supported.items():
        enum = {"dyntype": mujoco.mjtDyn, "gaintype": mujoco.mjtGain, "biastype": mujoco.mjtBias}[column]
        law = enum(int(getattr(model, f"actuator_{column}")[i])).name.partition("_")[2]
        if law not in known:
            return f"of {column} {law.lower()}"
    if kind in (transmissions.mjTRN_JOINT, transmissions.mjTRN_JOINTINPARENT):
        scalar = (joint_types.mjJNT_SLIDE, joint_types.mjJNT_HINGE)
        return "" if int(model.jnt_type[target]) in scalar else "on ball or free joints"
    if kind == transmissions.mjTRN_TENDON:
        if not _fixed_tendon(model, target):
            return "pulling tendons that are no linear combination of joints"
        shared = [k for k in range(len(model.actuator_trnid)) if int(model.actuator_trnid[k, 0]) == target]
        shared = [k for k in shared if int(model.actuator_trntype[k]) == transmissions.mjTRN_TENDON]
        if model.tendon_actfrclimited[target] and len(shared) > 1:
            return "sharing a tendon with actuatorfrcrange"
        return ""
    return "" if kind == transmissions.mjTRN_SITE else f"with a transmission by {kind.name.partition('_')[2].lower()}"


def _fixed_tendon(model: Any, tendon: int) -> list[tuple[int, float]]:
    """(joint, coefficient) of a fixed tendon; empty for one that follows a path in space."""
    wraps = range(int(model.tendon_adr[tendon]), int(model.tendon_adr[tendon]) + int(model.tendon_num[tendon]))
    if any(int(model.wrap_type[k]) != 1 for k in wraps):  # mjWRAP_JOINT
        return []
    return [(int(model.wrap_objid[k]), float(model.wrap_prm[k])) for k in wraps]


def _three(values: Any) -> tuple[float, float, float]:
    return float(values[0]), float(values[1]), float(values[2])


def _range(limited: Any, values: Any) -> tuple[float, float] | None:
    return (float(values[0]), float(values[1])) if limited else None
