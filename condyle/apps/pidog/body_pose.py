"""PiDog's body posed above feet that stay on the ground: roll, pitch, yaw, height and a shift forward, by the legs' kinematics.

    posed = body_pose(roll=8.0, height=85.0)
    posed.angles                  # eight servo angles, degrees
    posed.slide                   # mm that each foot has to slide sideways, because a leg has no joint for it

Hips are at (+-58.5, +-49) mm, and a foot moves only in the plane of its leg. So pitch, height and the shift forward are exact.
Roll is exact but for feet that spread by 1 / cos(roll): the body moves sideways by height tan(roll) with it, and a shift to the
side alone is not possible. Yaw is made by feet of one side forward and of the other backward; front feet have to slide
58.5 sin(yaw) mm to one side and hind feet to the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.apps.pidog.kinematics import LEGS, LOWER, UPPER, servo_angles
from condyle.errors import CondyleError
from condyle.robot.library.pidog import HIP_X, HIP_Y
from condyle.robot.library.pidog import LEGS as MODEL_LEGS

Array = np.ndarray

HIPS = 1e3 * np.array([[front * HIP_X, left * HIP_Y] for front, left in MODEL_LEGS.values()])  # mm: forward, left
HEIGHT = 92.0  # mm: of the body's middle above the feet's centres
AHEAD = 5.0  # mm: of the feet before their hips
LIMIT = 90.0  # degrees: of a servo


@dataclass(frozen=True)
class BodyPose:
    """Feet (4, 2) in the planes of their legs, mm, as in kinematics; eight servo angles, degrees; slide of each foot, mm left."""

    feet: Array
    angles: Array
    slide: Array


def body_pose(
    *, roll: float = 0.0, pitch: float = 0.0, yaw: float = 0.0, height: float = HEIGHT, forward: float = 0.0
) -> BodyPose:
    """The legs for a body turned by roll, pitch (nose down) and yaw (left), degrees, at this height and shift, mm.

    A pose out of reach is an error, which names the leg and how much of the way is possible.
    """
    wanted = np.array([roll, pitch, yaw, height, forward], dtype=float)
    if not np.all(np.isfinite(wanted)):
        raise CondyleError(f"roll, pitch, yaw, height and forward must be finite numbers, got {wanted.tolist()}")
    neutral = np.array([0.0, 0.0, 0.0, HEIGHT, 0.0])
    problem = _unreachable(wanted)
    if problem:
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if _unreachable(neutral + middle * (wanted - neutral)) else (middle, high)
        most = neutral + low * (wanted - neutral)
        names = ("roll", "pitch", "yaw", "height", "forward")
        reach = ", ".join(f"{n} {x:.1f}" for n, x, z in zip(names, most, wanted - neutral, strict=True) if z != 0.0)
        raise CondyleError(f"{problem}; in this direction the legs reach {reach}")
    feet, slide = _feet(wanted)
    return BodyPose(feet, servo_angles(feet), slide)


def _feet(pose: Array) -> tuple[Array, Array]:
    """Feet in the planes of their legs, and how far left of it each would have to be."""
    roll, pitch, yaw = np.radians(pose[:3])
    height, forward = pose[3:]
    cr, sr, cp, sp, cy, sy = np.cos(roll), np.sin(roll), np.cos(pitch), np.sin(pitch), np.cos(yaw), np.sin(yaw)
    R = (
        np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
        @ np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
        @ np.array([[1.0, 0.0, 0.0], [0.0, cr, -sr], [0.0, sr, cr]])
    )
    # where the feet stand, and the body's middle above them, moved sideways with a roll
    ground = np.column_stack([HIPS[:, 0] + AHEAD, HIPS[:, 1], np.zeros(4)])
    middle = np.array([forward, -height * np.tan(roll), height])
    seen = (ground - middle) @ R
    x, y = seen[:, 0], HIPS[:, 1]
    z = -(height + R[2, 0] * x + R[2, 1] * y) / R[2, 2]  # the ground below, in the plane of the leg
    return np.column_stack([HIPS[:, 0] - x, -z]), seen[:, 1] - y


def _unreachable(pose: Array) -> str:
    """Which leg cannot do it, and why; empty if all can."""
    if np.abs(pose[:3]).max() >= 80.0:
        return "the body turns by less than 80 degrees about each axis"
    feet, _ = _feet(pose)
    far = np.hypot(feet[:, 0], feet[:, 1])
    angles = servo_angles(feet).reshape(4, 2)
    for leg, distance, pair in zip(LEGS, far, np.abs(angles), strict=True):
        if not LOWER - UPPER <= distance <= LOWER + UPPER:
            return f"the foot of {leg} would be {distance:.1f} mm from its hip, and legs reach from 34 to 118 mm"
        if pair.max() > LIMIT:
            return f"a servo of {leg} would need {pair.max():.1f} degrees, and turns by at most 90"
    return ""
