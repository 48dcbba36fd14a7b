"""Experiments as TOML text: the starting file with its comments, and any experiment as `Experiment.data()` has it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

STARTING_FILE = """\
# An experiment with an arm: `condyle lab run {name}` runs it, `condyle lab sweep` and `condyle tune` vary its numbers.
# SI units: rad, N m, s, kg. Lines that begin with # are off.
title = "{title}"
duration = 3.0                   # s
warm_up = 0.0                    # s before it, in which the reference holds and nothing is counted
seed = 1                         # of all random numbers
# record = ["sensors.position"]  # further signals to keep

[robot]
name = "ur3"                     # a built-in or published robot, or a URDF, xacro or MJCF file
q = [0.0, -1.2, 1.2, -1.5, -1.5, 0.3]
# tool = "tool"                  # the frame of the tool

# [robot.payload]                # a body at the tool
# mass = 0.5
# known = false                  # whether the controller's model has it

[rates]                          # Hz; each must divide the one above
physics = 4000
control = 1000
planner = 50

[controller]                     # pid, computed_torque, joint_impedance, passivity, adaptive, lqr, operational_space, ...
name = "computed_torque"
kp = 900.0                       # 1/s^2; one number, or one for each joint
kd = 60.0

[reference]                      # hold, step, sine, point_to_point, table; of the tool: line, circle, spline
kind = "point_to_point"
waypoints = [[0.5, -1.0, 1.0, -1.4, -1.3, 0.5], [0.0, -1.2, 1.2, -1.5, -1.5, 0.3]]
profile = "quintic"              # trapezoidal, jerk_limited
acceleration = 2.0

[friction]                       # of the joints; the controller does not know it
coulomb = [0.2, 0.2, 0.1, 0.02, 0.02, 0.01]
viscous = 0.01

# [flexibility]                  # motors behind springs
# stiffness = 2000.0
# motor_inertia = 0.2

[sensors]                        # encoders, read at the rate of the controller
position_noise = 1e-4
# counts = 8192
# delay = 0.002
# dropout = 0.01

[actuators]
effort = 60.0                    # N m
# delay = 0.001
# lag = 0.002

[[wrenches]]                     # what pushes the arm: pulse, sine or random
name = "push"
kind = "pulse"
wrench = [0.0, 20.0, 0.0, 0.0, 0.0, 0.0]
start = 1.2
duration = 0.1

# [plant]                        # what the controller's model does not know
# "wrist_3.mass" = 0.5
"""

BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(data: Mapping[str, Any]) -> str:
    """Plain data as TOML: numbers with the shortest decimals of the same bits."""
    lines: list[str] = []
    _table(dict(data), "", lines)
    return "\n".join(lines).strip() + "\n"


def _table(data: Mapping[str, Any], where: str, lines: list[str]) -> None:
    inner = {key: value for key, value in data.items() if isinstance(value, Mapping)}
    lists = {key: value for key, value in data.items() if _is_tables(value)}
    for key, value in data.items():
        if key not in inner and key not in lists:
            lines.append(f"{_key(key)} = {_value(value)}")
    for key, value in inner.items():
        name = f"{where}{_key(key)}"
        lines += ["", f"[{name}]"]
        _table(value, f"{name}.", lines)
    for key, rows in lists.items():
        for row in rows:
            name = f"{where}{_key(key)}"
            lines += ["", f"[[{name}]]"]
            _table(row, f"{name}.", lines)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _key(key: str) -> str:
    return key if BARE.fullmatch(key) else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(each) for each in value)}]"
    raise TypeError(f"TOML has no {type(value).__name__}")
