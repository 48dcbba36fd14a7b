"""PiDog's servos: what reaches them of a command, and the torque they answer with.

A command travels as a pulse every 20 ms, 500 to 2500 us for -90 to 90 degrees, in whole counts of 20 ms / 4095: 0.44 degrees. The
servo drives its motor in proportion to the angle that is missing, with all it has beyond BAND; and a motor's torque falls evenly
with its speed, to nothing at full speed:

    torque = EFFORT (clip((command - q) / BAND, -1, 1) - v / SPEED)

The first part is the control of a step; the second is the damping of the model's joints, which the simulation treats implicitly.
A joint that is free to move follows as a lag of BAND / SPEED = 7.5 ms, never faster than SPEED, and one that is held gives
way by BAND times the part of EFFORT that it carries.

BAND = 3 degrees is a gain of 4.1 N m/rad, so that the whole torque is asked for at seven counts of the command. A gain of 150
would be used up at 1.4 milliradians, a fifth of one count: a switch, not a servo. With 5 degrees the feet hang lower, and the dog
stumbles over them where friction is 0.8; with 3 it walks from 0.3 to 1.
"""

from __future__ import annotations

from math import radians
from typing import Any

import numpy as np

from condyle.robot.library.pidog import EFFORT, SPEED

Array = np.ndarray

PERIOD = 0.020  # s between pulses
COUNTS = 4095  # in a period
SHORTEST, LONGEST = 500.0, 2500.0  # us, for -90 and 90 degrees
BAND = radians(3.0)  # rad: what is missing when the servo begins to do all it can
GAIN = EFFORT / BAND  # N m/rad
LAG = BAND / SPEED  # s


def counts(degrees: Any) -> Array:
    """The pulse for an angle, in whole counts, the nearest; angles beyond +-90 degrees give the longest or shortest pulse."""
    angle = np.clip(np.asarray(degrees, dtype=float), -90.0, 90.0)
    pulse = SHORTEST + (angle + 90.0) / 180.0 * (LONGEST - SHORTEST)
    whole: Array = np.rint(pulse * COUNTS / (1e6 * PERIOD))
    return whole


def heard(degrees: Any) -> Array:
    """What the servo takes a command for, degrees: the angle of its pulse."""
    pulse = counts(degrees) * (1e6 * PERIOD) / COUNTS
    return (pulse - SHORTEST) / (LONGEST - SHORTEST) * 180.0 - 90.0


def drive(command: Array, q: Array, effort: Any = EFFORT) -> Array:
    """The torque at rest, N m, for a command and the joints' angles, rad."""
    u: Array = effort * np.clip((command - q) / BAND, -1.0, 1.0)
    return u
