"""PiDog's legs as in its manufacturer's library: millimetres and degrees.

In the plane of a leg, from the hip, y backward and z down; legs in the order LF, RF, LH, RH. The servos of the right side (odd
index) are mounted mirrored, so their angles are negated. With k = 42 the upper and l = 76 the lower leg,

    u = sqrt(y^2 + z^2),   beta = acos((l^2 + k^2 - u^2) / (2 l k)),   alpha = acos((k^2 + u^2 - l^2) / (2 k u)) + atan2(y, z)
    leg = alpha,   foot = beta - 90

alpha is the angle of the upper leg from straight down, beta that in the knee.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.robot.library.pidog import LEGS as MODEL_LEGS

Array = np.ndarray

UPPER, LOWER = 42.0, 76.0  # mm
LEGS = ("LF", "RF", "LH", "RH")
SIDES = np.array([1.0, -1.0, 1.0, -1.0])  # of LEGS: the sign of a servo's angle
JOINTS = tuple(f"{leg}_{joint}" for leg in MODEL_LEGS for joint in ("hip", "knee"))  # of the model, in the servos' order
FEET = tuple(f"{leg}_foot" for leg in MODEL_LEGS)


def leg_angles(foot: Any) -> Array:
    """(alpha, beta), degrees, (..., 2), that bring a left leg's foot to (y, z), mm; a place out of reach gives the nearest
    stretch, or the nearest fold, in its direction: cosines are clamped to [-1, 1]."""
    foot = np.asarray(foot, dtype=float)
    y, z = foot[..., 0], foot[..., 1]
    u2 = y * y + z * z
    u = np.sqrt(u2)
    in_knee = (LOWER**2 + UPPER**2 - u2) / (2.0 * LOWER * UPPER)
    at_hip = (UPPER**2 + u2 - LOWER**2) / np.where(u > 0.0, 2.0 * UPPER * u, 1.0)
    beta = np.arccos(np.clip(in_knee, -1.0, 1.0))
    alpha = np.arccos(np.clip(at_hip, -1.0, 1.0)) + np.arctan2(y, z)
    angles: Array = np.degrees(np.stack([alpha, beta], axis=-1))
    return angles


def foot_position(angles: Any) -> Array:
    """(y, z), mm, of a left leg's foot for (alpha, beta), degrees: the knee at 42 (sin alpha, cos alpha), and from there the
    shin at alpha - (180 - beta)."""
    alpha, beta = np.moveaxis(np.radians(np.asarray(angles, dtype=float)), -1, 0)
    shin = alpha - (np.pi - beta)
    y = UPPER * np.sin(alpha) + LOWER * np.sin(shin)
    z = UPPER * np.cos(alpha) + LOWER * np.cos(shin)
    return np.stack([y, z], axis=-1)


def servo_angles(feet: Any) -> Array:
    """Eight servo angles, degrees, (..., 8) as leg, foot of LF, RF, LH, RH, for four feet (..., 4, 2), mm."""
    angles = leg_angles(feet)
    angles[..., 1] -= 90.0
    angles *= SIDES[:, None]
    return angles.reshape(*angles.shape[:-2], 8)


def feet_of(angles: Any) -> Array:
    """Four feet (..., 4, 2), mm, for eight servo angles (..., 8), degrees: the inverse of servo_angles."""
    angles = np.asarray(angles, dtype=float)
    pairs = angles.reshape(*angles.shape[:-1], 4, 2) * SIDES[:, None]
    return foot_position(pairs + np.array([0.0, 90.0]))
