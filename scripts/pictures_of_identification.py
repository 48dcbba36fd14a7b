"""The picture of the page about identification."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

import numpy as np
from picture_style import BLUE, FAINT, GREEN, INK, ORANGE, RED, VIOLET, labelled, save_image, sheet
from PIL import Image

import condyle as cd
from condyle.methods.identify import excitation, identify
from condyle.methods.identify.regressor import Regressor
from condyle.multibody.robot import Robot
from condyle.robot.parameters import with_parameters

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.identification import READY, hidden_parameters, of_one, recorded_logs

COLORS = (BLUE, RED, GREEN, VIOLET, ORANGE, FAINT)
SHOWN = ("lift.mcz +", "lift.Iyy +", "elbow.mcz +", "elbow.Iyy +", "wrist_1.mcz +", "wrist_2.mcy +", "wrist_3.mcz", "wrist_3.Iyy")


def identification(path: Path) -> None:
    """An excitation, measured and predicted forces of another motion, and estimates with intervals over the true numbers."""
    robot = cd.load("ur3")
    limits = {"centre": READY, "reach": 1.5, "acceleration": 6.0}
    motion = excitation(robot, iterations=60, starts=3, **limits)
    new = excitation(robot, iterations=1, starts=1, periods=2, seed=77, **limits)
    hidden = hidden_parameters(robot, np.random.default_rng(11), 1)
    (log,) = recorded_logs(robot, motion, hidden, 1, seed=1)
    (other,) = recorded_logs(robot, new, hidden, 1, seed=2)
    found = identify(robot, log, validation=other)
    figure = sheet("A UR3 with hidden masses and friction, identified from a noisy log of 20 s", 11.4, 4.0)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.0, 1.15, 1.15))
    t = np.linspace(0.0, motion.period, 600)
    for j, name in enumerate(("pan", "lift", "elbow", "wrist 1", "wrist 2", "wrist 3")):
        left.plot(t, motion.at(t).position[:, j], color=COLORS[j], lw=1.4, label=name)
    left.set_ylim(-3.0, 4.6)
    left.legend(frameon=False, fontsize=9, ncols=3, loc="upper left")
    labelled(left, f"Excitation, condition number {motion.condition:.1f}", "time, s", "joint angle, rad")
    p = found.prediction
    assert p is not None
    for j, scale, place in ((1, 1.0, "lift"), (3, 10.0, "wrist 1, times 10")):
        middle.plot(other.t[::10], scale * other.tau[::10, j], color="#b9c0cb", lw=0.7, zorder=0)
        middle.plot(p.t, scale * p.nominal[:, j], color=ORANGE, lw=1.0, ls="--")
        middle.plot(p.t, scale * p.predicted[:, j], color=COLORS[j], lw=1.5, label=place)
    middle.plot([], [], color=ORANGE, lw=1.0, ls="--", label="nominal model")
    middle.plot([], [], color="#b9c0cb", lw=2.0, label="measured")
    middle.set_xlim(3.0, 13.0)
    middle.set_ylim(-16.0, 20.0)
    middle.legend(frameon=False, fontsize=8.5, ncols=2, loc="upper left")
    labelled(middle, f"New motion: error {p.total:.1%}, {p.total_nominal:.0%} before", "time, s", "joint force, N m")
    true = found.base.map @ Regressor(Robot(with_parameters(robot.model, of_one(hidden, 0)))).nominal
    names = [*SHOWN, *[f"{joint}.friction" for joint in robot.joint_names]]
    for row, name in enumerate(reversed(names)):
        k = found.names.index(name)
        half = found.quantile * found.standard_errors[k] / abs(true[k])
        right.errorbar(found.values[k] / true[k], row, xerr=half, color=BLUE, fmt="o", ms=3.5, lw=1.6, capsize=2.5)
        if abs(found.nominal[k] / true[k] - 1.0) < 0.4 and found.nominal[k] != 0.0:
            right.plot(found.nominal[k] / true[k], row, "D", color=ORANGE, ms=4.0)
    right.axvline(1.0, color=INK, lw=0.8)
    right.set_yticks(range(len(names)), [name.replace("_joint", "").replace("_", " ") for name in reversed(names)], fontsize=9)
    right.set_xlim(0.75, 1.3)
    labelled(right, "Estimates with 95 % intervals", "over the true value (orange: nominal)", "")
    right.tick_params(axis="y", labelsize=9)
    drawn = BytesIO()
    figure.savefig(drawn, format="png", facecolor="white")
    save_image(Image.open(drawn), path, colors=48)
