"""PiDog's poses as in its manufacturer's library: servo degrees, leg and foot of LF, RF, LH, RH."""

from __future__ import annotations

import numpy as np

from condyle.apps.pidog.kinematics import servo_angles
from condyle.errors import CondyleError
from condyle.robot.names import nearest

Array = np.ndarray

STAND = np.array([[-15.0, 95.0], [-15.0, 95.0], [5.0, 90.0], [5.0, 90.0]])  # feet (y, z), mm

POSES = {
    "stand": tuple(float(angle) for angle in servo_angles(STAND)),
    "sit": (30.0, 60.0, -30.0, -60.0, 80.0, -45.0, -80.0, 45.0),
    "half sit": (25.0, 25.0, -25.0, -25.0, 64.0, -45.0, -64.0, 45.0),
    "sit to stand": (25.0, 25.0, -25.0, -25.0, 70.0, -25.0, -70.0, 25.0),
    "lie": (45.0, -45.0, -45.0, 45.0, 45.0, -45.0, -45.0, 45.0),
    "lie, hands out": (-60.0, 60.0, 60.0, -60.0, 45.0, -45.0, -45.0, 45.0),
    "stretch": (-80.0, 70.0, 80.0, -70.0, -20.0, 64.0, 20.0, -64.0),
    "push-up A": (90.0, -30.0, -90.0, 30.0, 80.0, 70.0, -80.0, -70.0),
    "push-up B": (45.0, 35.0, -45.0, -35.0, 80.0, 70.0, -80.0, -70.0),
}


def pose_angles(pose: str = "stand") -> Array:
    """The eight servo angles of a pose, degrees."""
    if pose not in POSES:
        raise CondyleError(f"PiDog has no pose '{pose}'{nearest(pose, list(POSES))}")
    return np.array(POSES[pose])
