"""Rotors of a flying robot, as data: where the thrust acts, how it spins, its limits and lags, and the servo that tilts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from condyle.errors import RobotError
from condyle.robot.names import nearest

FIND = "auto"  # gimbal: the nearest moving revolute joint above the frame


@dataclass(frozen=True)
class RotorData:
    """One rotor: thrust f along the z axis of `frame`, with the torque -direction * drag * f about that axis.

    `gimbal`: the joint that tilts it, None if it is fixed to the body. The servo follows its command with the time constant
    `servo_lag`. `thrust_coefficient` k gives the speed w of a thrust, f = k w^2.
    """

    frame: str
    gimbal: str | None = FIND
    direction: float = 1.0  # +1: right-handed about the z axis of the frame, counter-clockwise seen from above; -1: the other way
    drag: float = 0.016  # m, torque per thrust
    thrust: tuple[float, float] = (0.0, 0.0)  # N, least and largest; (0, 0): not known
    lag: float = 0.0  # s, of the thrust; 0: none
    servo_lag: float = 0.1  # s, of the gimbal's angle
    servo_effort: float | None = None  # N m, of a servo in torque form; None: that of the joint
    servo_speed: float | None = None  # rad/s; None: no limit
    spin_inertia: float = 0.0  # kg m^2, about the axis
    thrust_coefficient: float = 1e-5  # N s^2
    thrust_rate: float | None = None  # N/s, of the speed controller; None: no limit
    radius: float = 0.1  # m
    flapping: float = 0.0  # s/m, tilt of the thrust per speed across the axis
    hub_stiffness: float = 0.0  # N m/rad, torque on the hub per tilt of the blades


NUMBERS = tuple(field.name for field in fields(RotorData) if field.name not in ("frame", "gimbal", "thrust"))
POSITIVE = ("servo_lag", "thrust_coefficient", "radius", "servo_effort", "servo_speed", "thrust_rate")
NOT_NEGATIVE = ("drag", "lag", "spin_inertia", "flapping", "hub_stiffness")


def changed(rotor: RotorData, values: Mapping[str, Any]) -> RotorData:
    """The rotor with other numbers, or an error that names what there is."""
    for name in values:
        if name not in (*NUMBERS, "gimbal", "thrust", "thrust_min", "thrust_max"):
            raise RobotError(
                [f"rotor '{rotor.frame}' has no number '{name!s:.60}'{nearest(name, (*NUMBERS, 'thrust', 'gimbal'))}"]
            )
    given = dict(values)
    low, high = given.pop("thrust_min", rotor.thrust[0]), given.pop("thrust_max", rotor.thrust[1])
    if "thrust" in given:
        try:
            low, high = given.pop("thrust")
        except (TypeError, ValueError):
            raise RobotError([f"rotor '{rotor.frame}': thrust is (least, largest) in N, got {values['thrust']!r:.60}"]) from None
    return replace(rotor, thrust=(low, high), **given)


def rotor_problems(rotor: RotorData) -> list[str]:
    """Sentences about numbers of a rotor that make no sense."""
    where, found = f"rotor '{rotor.frame}'", []
    for name in NUMBERS:
        value = getattr(rotor, name)
        if value is None and name in ("servo_effort", "servo_speed", "thrust_rate"):
            continue
        if not _number(value) or not np.isfinite(value):
            found.append(f"{where}: {name} must be a finite number, got {value!r:.40}")
        elif name == "servo_lag" and value <= 0.0:
            found.append(
                f"{where}: a servo with zero lag would move its gimbal at once, with an infinite torque; servo_lag must be "
                f"greater than 0 s, got {value:g}: write 0.001 for a fast one"
            )
        elif name in POSITIVE and value <= 0.0:
            found.append(f"{where}: {name} must be greater than 0, got {value:g}")
        elif name in NOT_NEGATIVE and value < 0.0:
            found.append(f"{where}: {name} must be at least 0, got {value:g}")
        elif name == "direction" and value not in (1, -1):
            found.append(f"{where}: direction must be 1 (counter-clockwise seen from above) or -1, got {value:g}")
    low, high = rotor.thrust
    if not all(_number(x) and not np.isnan(x) for x in (low, high)) or np.isinf([low, high]).any():
        found.append(f"{where}: thrust must be (least, largest) in N, got {rotor.thrust!r:.60}")
    elif low < 0.0 or high < 0.0:
        found.append(
            f"{where}: the thrust limits are {low:g} and {high:g} N, and a rotor does not pull backwards: let them be 0 or more, "
            "and turn the frame if its thrust points the other way"
        )
    elif low >= high:
        found.append(f"{where}: the least thrust {low:g} N is not below the largest, {high:g} N: exchange them")
    return found


def _number(value: Any) -> bool:
    return isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool)
