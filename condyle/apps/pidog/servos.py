"""PiDog's servos: pulses, speed limits and torque.

A command is a pulse every 20 ms, 500 to 2500 us for -90 to 90 degrees, in whole counts of 20 ms / 4095: 0.44 degrees. The servo's
torque is proportional to its error up to BAND, and decreases linearly with its speed, to zero at full speed:

    torque = EFFORT (clip((command - q) / BAND, -1, 1) - v / SPEED)

The first part is the control of a step; the second is the damping of the model's joints, which the simulation treats implicitly.
BAND = 3 degrees is a gain of 4.1 N m/rad: saturated at seven counts. A gain of 150 would saturate at a fifth of one count; with
5 degrees the feet hang lower, and the robot stumbles over them where friction is 0.8; with 3 it walks from 0.3 to 1.
"""

from __future__ import annotations

from math import radians
from typing import Any

import numpy as np

from condyle.apps.pidog.kinematics import JOINTS
from condyle.robot.library.pidog import EFFORT

Array = np.ndarray

HEAD, TAIL = ("head_yaw", "head_roll", "head_pitch"), ("tail_wag",)
SERVOS = (*JOINTS, *HEAD, *TAIL)  # the joints of all twelve servos
FASTEST = {"legs": 428.0, "head": 300.0, "tail": 500.0}  # degrees/s: no command is faster
TICK = 0.010  # s between two commands
PERIOD = 0.020  # s between pulses
COUNTS = 4095  # in a period
SHORTEST, LONGEST = 500.0, 2500.0  # us, for -90 and 90 degrees
BAND = radians(3.0)  # rad: the error at which the servo saturates


def counts(degrees: Any) -> Array:
    """The pulse for an angle, in whole counts, the nearest; angles beyond +-90 degrees give the longest or shortest pulse."""
    angle = np.clip(np.asarray(degrees, dtype=float), -90.0, 90.0)
    pulse = SHORTEST + (angle + 90.0) / 180.0 * (LONGEST - SHORTEST)
    found: Array = np.rint(pulse * COUNTS / (1e6 * PERIOD))
    return found


def quantized(degrees: Any) -> Array:
    """The angle of a command's pulse, degrees."""
    pulse = counts(degrees) * (1e6 * PERIOD) / COUNTS
    return (pulse - SHORTEST) / (LONGEST - SHORTEST) * 180.0 - 90.0


def servo_torque(command: Array, q: Array, effort: Any = EFFORT) -> Array:
    """EFFORT clip((command - q) / BAND, -1, 1), N m, for commands and joint angles, rad."""
    u: Array = effort * np.minimum(np.maximum((command - q) / BAND, -1.0), 1.0)
    return u
