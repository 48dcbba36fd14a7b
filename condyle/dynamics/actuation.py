"""The forces of a robot's own actuators: lengths of transmissions, forces along them, and what these are in the joints."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.dynamics.kinematics import frame_pose, frame_velocity, wrench_forces
from condyle.dynamics.rotations import quaternion_log, quaternion_of
from condyle.robot.actuator import ActuatorSpec, clipped
from condyle.robot.model import Link, Model
from condyle.robot.spatial import Array, cross, product

Wrench = tuple[tuple[str, str], Array]  # ((frame, axes), force and torque)


def joint_links(model: Model) -> dict[str, Link]:
    """Joints with one coordinate, by name."""
    return {link.joint: link for link in model.links if link.kind.nv == 1}


def transmission(model: Model, q: Array, v: Array, actuator: ActuatorSpec) -> tuple[Any, Any]:
    """(length, velocity) of an actuator's transmission."""
    if not actuator.site:
        links = joint_links(model)
        length = sum((gear * q[links[joint].q.start] for joint, gear in actuator.joints), start=actuator.offset)
        return length, sum((gear * v[links[joint].v.start] for joint, gear in actuator.joints), start=0.0)
    gear = np.array(actuator.wrench)
    if not actuator.refsite:
        return 0.0, gear @ frame_velocity(model, q, v, actuator.site, "local").vector()
    X_0s, X_0r = frame_pose(model, q, actuator.site), frame_pose(model, q, actuator.refsite)
    R_0r, p_rs = X_0r.R, X_0s.p - X_0r.p
    V_s, V_r = (frame_velocity(model, q, v, name) for name in (actuator.site, actuator.refsite))
    length = gear[:3] @ product(R_0r.T, p_rs)
    if np.any(gear[3:]):
        length = length + gear[3:] @ quaternion_log(quaternion_of(product(R_0r.T, X_0s.R)))
    # of the site as it moves in the axes of the reference site
    linear = V_s.linear - V_r.linear - cross(V_r.angular, p_rs)
    angular = V_s.angular - V_r.angular
    return length, gear[:3] @ product(R_0r.T, linear) + gear[3:] @ product(R_0r.T, angular)


def site_wrenches(model: Model, q: Array, actuator: ActuatorSpec, force: Any) -> list[Wrench]:
    """The wrenches by which an actuator at a site acts: on the site, and on its reference site the reaction."""
    six = np.array([gear * force for gear in actuator.wrench], dtype=object)
    if not actuator.refsite:
        return [((actuator.site, "local"), six)]
    X_0s, X_0r = frame_pose(model, q, actuator.site), frame_pose(model, q, actuator.refsite)
    f, t = product(X_0r.R, six[:3]), product(X_0r.R, six[3:])
    back = np.concatenate([-f, -t - cross(X_0s.p - X_0r.p, f)])
    return [((actuator.site, "world_aligned"), np.concatenate([f, t])), ((actuator.refsite, "world_aligned"), back)]


def actuator_forces(model: Model, q: Array, v: Array, a: Array) -> Array:
    """The force of each actuator within its limits, (nu,); a: its input, a control within its range or an activation."""
    found = np.zeros(len(model.actuators), dtype=object)
    for k, actuator in enumerate(model.actuators):
        if not actuator.unsupported:
            length, velocity = transmission(model, q, v, actuator)
            f0, f1, f2 = actuator.law(a[k])
            found[k] = clipped(f0 + f1 * length + f2 * velocity, actuator.forcerange)
    return found


def actuator_joint_forces(model: Model, q: Array, v: Array, a: Array) -> Array:
    """The joint forces of all actuators, (nv,), each joint's within its range (MuJoCo's qfrc_actuator)."""
    tau, links = np.zeros(model.nv, dtype=object), joint_links(model)
    forces, wrenches = actuator_forces(model, q, v, a), list[Wrench]()
    for actuator, force in zip(model.actuators, forces, strict=True):
        for joint, gear in actuator.joints if not actuator.unsupported else ():
            tau[links[joint].v.start] = tau[links[joint].v.start] + gear * force
        if actuator.site:
            wrenches += site_wrenches(model, q, actuator, force)
    if wrenches:
        tau = tau + wrench_forces(model, q, [where for where, _ in wrenches], [six for _, six in wrenches])
    for link in links.values():
        tau[link.v.start] = clipped(tau[link.v.start], link.actuator_range)
    return tau
