"""The picture of the page about the control of drones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from picture_style import BLUE, FAINT, GREEN, ORANGE, VIOLET, labelled, save, sheet

import condyle as cd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

COLORS = {"nmpc": BLUE, "nmpc, offset-free": GREEN, "geometric": ORANGE, "indi": VIOLET}


def flight_control(path: Path) -> None:
    """The standard scenario under NMPC, and four controllers on a circle in gusts."""
    from benchmarks.flight_control import DT, EVERY, GUST, setup

    figure = sheet("A birotor, as a multibody with noise on its state, under its controllers", 12.0, 7.0)
    (position, attitude), (rotors, circle) = figure.subplots(2, 2)
    flight = setup("birotor")
    times = EVERY * DT * np.arange(1200)
    rows = flight.control.references(cd.flight.standard_scenario(), times)
    for gust, style in ((np.zeros(3), "-"), (np.array(GUST), ":")):
        out = flight.fly(flight.start(), rows, gust=gust, record=["control.output", "vehicle.angles"], seed=1)
        x, u = out["state"], out["control.output"]
        for k, color in enumerate((BLUE, ORANGE, GREEN)):
            label = None if gust.any() else "xyz"[k]
            position.plot(times, x[:, k], color=color, lw=1.4, ls=style, label=label)
        if gust.any():
            continue
        position.plot(times, rows[:, :3], color=FAINT, lw=0.8)
        roll, pitch, yaw = angles(x[:, 6:10])
        for value, name, color in ((roll, "roll", BLUE), (pitch, "pitch", ORANGE), (yaw, "yaw", GREEN)):
            attitude.plot(times, value, color=color, lw=1.4, label=name)
        for value in angles(rows[:, 6:10]):
            attitude.plot(times, value, color=FAINT, lw=0.8)
        rotors.plot(times, u[:, 0], color=BLUE, lw=1.0, label="thrust 1, N")
        rotors.plot(times, u[:, 1], color=ORANGE, lw=1.0, label="thrust 2, N")
        for k, color in enumerate((BLUE, ORANGE)):
            rotors.plot(times, 20.0 * out["vehicle.angles"][:, k], color=color, lw=1.0, ls="--", label=f"20 angle {k + 1}, rad")
    labelled(position, "The standard scenario; dotted: gusts of 3 m/s along x", "time, s", "m")
    labelled(attitude, "Wanted at 2 s: 30, 60, 90 degrees; reached: yaw 72.4", "time, s", "deg")
    labelled(rotors, "Thrusts and gimbals, calm", "time, s", "")
    for ax in (position, attitude, rotors):
        ax.legend(frameon=False, fontsize=9)
    controllers(circle, setup, times, np.array(GUST))
    save(figure, path)


def controllers(ax: Any, setup: Any, times: np.ndarray, gust: np.ndarray) -> None:
    """A circle in gusts."""
    path = cd.flight.Circle(center=(0.0, 0.0, 1.0), radius=0.8, period=6.0, turns=1.5, ramp=1.5, begin=0.5)
    target = path.sample(times).position[:, 0]
    for name, color in COLORS.items():
        flight = setup("birotor", name, "trajectory")
        x = flight.fly(flight.start(target[0]), flight.control.references(path, times), gust=gust, seed=1)["state"]
        ax.plot(times, np.linalg.norm(x[:, :3] - target, axis=-1), color=color, lw=1.3, label=name)
    ax.legend(frameon=False, fontsize=9)
    labelled(ax, "Distance from a circle of 0.8 m in 6 s, gusts of 3 m/s", "time, s", "m")


def angles(q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Roll, pitch and yaw in degrees of quaternions w, x, y, z."""
    w, x, y, z = np.moveaxis(q, -1, 0)
    roll = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = np.arcsin(np.clip(2 * (w * y - z * x), -1.0, 1.0))
    yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return np.degrees(roll), np.degrees(pitch), np.degrees(yaw)
