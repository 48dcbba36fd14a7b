"""What an airframe must have to be flown: joints that only tilt rotors, a thrust for the weight, and torques about every axis."""

from __future__ import annotations

import numpy as np

from condyle.apps.flight.airframe import Airframe
from condyle.apps.flight.allocation import Allocation
from condyle.apps.flight.single_body import single_body
from condyle.dynamics.kinematics import ancestors
from condyle.errors import ControlError

TILTS = 0.1  # sine of the angle between a gimbal's axis and the thrust, below which it does not tilt it
SHARE = 0.01  # of the weight that rotors may fail to carry while level
LEVEL = np.array([1.0, 0.0, 0.0, 0.0])


def require_flyable(frame: Airframe) -> None:
    """ControlError that says why an airframe cannot be flown by the controllers here, if it cannot."""
    problems = [*_link_joints(frame), *([] if frame.n == 0 else _lift(frame))]
    if problems:
        raise ControlError(f"'{frame.name}' cannot be flown: {'; '.join(problems)}")


def _link_joints(frame: Airframe) -> list[str]:
    """Joints that move links rather than one rotor: nothing holds them."""
    model, links = frame.robot.model, {link.joint: i for i, link in frame.robot.model.outward()}
    carried = {rotor.frame: {*ancestors(model, model.frame(rotor.frame).link)} for rotor in frame.rotors}
    loose = [link.joint for link in model.links if not link.base and link.joint not in frame.gimbals]
    for k, rotor in enumerate(frame.rotors):
        if rotor.gimbal is None or rotor.gimbal in loose:
            continue
        others = [
            other.frame for other in frame.rotors if other.gimbal != rotor.gimbal and links[rotor.gimbal] in carried[other.frame]
        ]
        sine = float(np.linalg.norm(np.cross(frame.gimbal_axes[k], frame.thrust_axes[k])))
        if others or sine < TILTS:
            loose.append(rotor.gimbal)
    if not loose:
        return []
    loose.sort(key=lambda name: links[name])
    names = ", ".join(f"'{name}'" for name in loose[:4]) + (f" and {len(loose) - 4} more" if len(loose) > 4 else "")
    return [
        f"joints that are no gimbals of one rotor, and that no controller here holds: {names}; lock them, as in "
        "cd.flight.airframe(cd.load(FILE, 'free').lock([...])), or make them fixed"
    ]


def _lift(frame: Airframe) -> list[str]:
    """Whether it hovers level, within the limits of its thrusts and gimbals."""
    weight = frame.mass * float(np.linalg.norm(frame.robot.model.gravity))
    if not weight > 0.0:
        return []
    largest = float(np.sum(frame.thrust_limits[:, 1]))
    if largest <= weight:
        return [f"its rotors give {largest:.4g} N together, and it weighs {weight:.4g} N: check thrust limits and masses"]
    body = single_body(frame, weight / frame.mass)
    allocation = Allocation(body)
    try:
        _ = allocation.lift_and_torque
    except ControlError as error:
        return [str(error)]
    if (part := allocation.hover_error(LEVEL)) > SHARE:
        return [f"level, its rotors carry {1.0 - part:.0%} of its weight without turning it: check positions and thrust axes"]
    thrusts, angles = (np.asarray(found, dtype=float) for found in allocation.hover(LEVEL))
    needed = [f"rotor '{rotor.frame}' gives {f:.4g} N" for rotor, f in zip(frame.rotors, thrusts, strict=True)]
    needed += [f"gimbal '{name}' is at {a:.3g} rad" for name, a in zip(frame.gimbals, angles, strict=True)]
    limits = np.concatenate([frame.thrust_limits, frame.gimbal_limits])
    beyond = np.maximum(limits[:, 0] - [*thrusts, *angles], [*thrusts, *angles] - limits[:, 1])
    k = int(np.argmax(beyond))
    return [f"to hover level, {needed[k]}, with limits {limits[k, 0]:.4g} and {limits[k, 1]:.4g}"] if beyond[k] > 1e-9 else []
