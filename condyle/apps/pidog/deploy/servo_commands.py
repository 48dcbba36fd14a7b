"""The controller of a loop around a program outside: the action is the servo angles, what is seen is the IMU's sample.

It has the functions of condyle/apps/pidog/controller.py, so that `training_robot.dog_loop` puts it between the same IMU and
the same servos as in training.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.apps.pidog.kinematics import JOINTS

ACTION = list(JOINTS)  # rad
NUMBERS: dict[str, Any] = {}


def initial() -> dict[str, Any]:
    """No state."""
    return {}


def observe(
    numbers: dict[str, Any], state: dict[str, Any], rate: Any, acceleration: Any, command: Any
) -> tuple[Any, dict[str, Any]]:
    """(rate, acceleration), six numbers."""
    return np.concatenate([rate, acceleration]), state


def act(numbers: dict[str, Any], state: dict[str, Any], action: Any) -> tuple[Any, dict[str, Any]]:
    """The action."""
    return action, state
