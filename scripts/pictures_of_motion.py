"""The picture of the page about motion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from picture_style import BLUE, FAINT, GREEN, ORANGE, RED, VIOLET, labelled, save, sheet

import condyle as cd
from condyle.methods.planning.profiles import jerk_limited, quintic, trapezoidal
from condyle.methods.planning.time_optimal import time_optimal

WAYPOINTS = [[0.0, -1.57, 1.57, -1.57, 0.0, 0.0], [0.8, -1.0, 1.2, -1.2, 0.5, 0.3], [1.2, -1.4, 1.8, -2.0, 0.2, 1.0]]
TORQUE = np.array([3.0, 16.0, 8.0, 1.5, 1.0, 0.5])  # N m


def motion(path: Path) -> None:
    """Speed and acceleration of three profiles, and the torques of a time-optimal path as parts of their limits."""
    figure = sheet("One joint by three profiles, and six joints as fast as their torques allow", 12.0, 3.8)
    left, middle, right = figure.subplots(1, 3)
    limits = {"speed": 2.16, "acceleration": 2.0}
    moves = {
        "quintic": (quintic([0.0], [4.0], **limits), BLUE),
        "trapezoidal": (trapezoidal([0.0], [4.0], **limits), ORANGE),
        "jerk-limited": (jerk_limited([0.0], [4.0], jerk=8.0, **limits), GREEN),
    }
    for name, (move, color) in moves.items():
        t = np.linspace(0.0, move.duration, 800)
        _, v, a = move.at(t)
        left.plot(t, v[:, 0], color=color, lw=1.5, label=f"{name}, {move.duration:.2f} s")
        middle.plot(t, a[:, 0], color=color, lw=1.5)
    left.axhline(2.16, color=FAINT, lw=0.8, ls="--")
    left.set_ylim(0.0, 3.3)
    left.legend(frameon=False, fontsize=10, loc="upper left")
    for sign in (-1.0, 1.0):
        middle.axhline(2.0 * sign, color=FAINT, lw=0.8, ls="--")
        right.axhline(sign, color=FAINT, lw=0.8, ls="--")
    labelled(left, "Speed, at most 2.16", "time, s", "rad/s")
    labelled(middle, "Acceleration, at most 2", "time, s", "rad/s^2")
    robot = cd.load("ur3")
    fastest = time_optimal(WAYPOINTS, robot=robot, torque=TORQUE, grid=3000)
    t = np.linspace(0.0, fastest.duration, 1500)
    q, v, a = fastest.at(t)
    tau = robot.inverse_dynamics(q, v, a) / TORQUE
    for k, (name, color) in enumerate(zip(("pan", "lift", "elbow", "wrist 1"), (BLUE, RED, GREEN, VIOLET), strict=True)):
        right.plot(t, tau[:, k], color=color, lw=1.3, label=name)
    right.plot(t, np.max(np.abs(v) / robot.velocity_limits, axis=1), color=FAINT, lw=1.3, ls=":", label="largest speed")
    right.set_ylim(-1.15, 2.0)
    right.legend(frameon=False, fontsize=9, loc="upper left", ncols=3)
    labelled(right, "UR3, time-optimal: torque / limit", "time, s", "of the limit")
    save(figure, path)
