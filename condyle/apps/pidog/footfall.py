"""Footfall diagrams (Hildebrand 1965): which feet carry weight, over time; with the body's path and the gait metrics."""

from __future__ import annotations

from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from condyle.apps.pidog.kinematics import LEGS
from condyle.apps.pidog.metrics import GRAVITY, LOADED
from condyle.apps.pidog.player import Played
from condyle.atomic_write import write_bytes
from condyle.errors import require

Array = np.ndarray
COLORS = ("#1f5fa8", "#c2571a", "#5b9bd5", "#e8a06b")  # of LF, RF, LH, RH: one hue for each side


def stance_intervals(loaded: Any, dt: float) -> list[list[tuple[float, float]]]:
    """(begin, duration), s, of the times in which each foot is loaded; `loaded` (T, 4)."""
    found = []
    for foot in np.asarray(loaded, dtype=bool).T:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], foot.astype(int), [0]])))
        found.append([(float(a * dt), float((b - a) * dt)) for a, b in edges.reshape(-1, 2)])
    return found


def loaded_feet(played: Played) -> Array:
    """Which feet carry at least LOADED of the weight at every state: (steps + 1, 4)."""
    found: Array = played.forces[..., 2] >= LOADED * GRAVITY * played.run.robot.mass
    return found


def metric_lines(played: Played) -> list[tuple[str, str]]:
    """(name, value with unit) of the metrics, for a table or a picture."""
    m = played.metrics

    def feet(values: Any, form: str) -> str:
        return "  ".join(f"{leg} {value:{form}}" for leg, value in zip(LEGS, np.asarray(values), strict=True))

    fall = played.first_fall
    lines = [("falls", "none" if fall is None else f"at {fall:.2f} s"), ("largest tilt, degrees", f"{np.degrees(m.tilt):.1f}")]
    if not played.action.gait:
        torque = float(np.abs(played.run.u).max()) if played.run.steps else 0.0
        rest = float(np.abs(played.run.v[-1]).max())
        height = 1e3 * played.run.q[-1, 2]
        return [
            *lines,
            ("height of the body at the end, mm", f"{height:.0f}"),
            ("largest servo torque, N m", f"{torque:.3f}"),
            ("largest velocity at the end, m/s or rad/s", f"{rest:.3f}"),
        ]
    return [
        ("duty factor", feet(m.duty_factor, ".2f")),
        ("foot lift, mm", feet(1e3 * m.lift, ".1f")),
        ("slip, mm", feet(1e3 * m.slip, ".1f")),
        ("slip / distance", f"{m.slip_ratio:.3f}"),
        ("advance per cycle, mm", "  ".join(f"{1e3 * each:.1f}" for each in played.advances[-4:])),
        ("turn per cycle, degrees", "  ".join(f"{np.degrees(each):.1f}" for each in played.turns[-4:])),
        ("speed, m/s", f"{m.speed:.3f}"),
        ("cost of transport", f"{m.cost_of_transport:.2f}"),
        ("stability margin, mean and worst, mm", f"{1e3 * m.stability_margin:.0f}  {1e3 * m.worst_margin:.0f}"),
        *lines,
    ]


def save_footfall(played: Played, path: str | PathLike[str]) -> None:
    """Draw the footfall diagram, the body's path seen from above and the metrics: .png, .svg or .pdf."""
    matplotlib = require("matplotlib.figure", "plot", "pictures")
    run, m = played.run, played.metrics
    figure = matplotlib.Figure(figsize=(9.0, 5.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(1.0, 1.1))
    axes = above.subplots()
    for row, intervals in enumerate(stance_intervals(loaded_feet(played), run.dt)):
        axes.broken_barh(intervals, (3 - row - 0.38, 0.76), facecolors=COLORS[row])
    axes.set_yticks(range(4), [f"{leg}  {duty:.2f}" for leg, duty in zip(LEGS, m.duty_factor, strict=True)][::-1])
    if played.action.gait:
        for time in played.cycle_times:
            axes.axvline(time, color="0.4", linewidth=0.8, linestyle=":")
    if played.first_fall is not None:
        axes.axvline(played.first_fall, color="#b00020", linewidth=1.5)
        axes.annotate(" falls", (played.first_fall, 3.45), color="#b00020", annotation_clip=False)
    axes.set(xlim=(0.0, run.seconds), ylim=(-0.6, 3.6), xlabel="time, s; bars: the foot carries weight; dotted: cycles")
    axes.set_title(
        f"PiDog: {played.action.name}, friction {played.friction:g}; feet with their duty factors", fontsize=10, loc="left"
    )
    left, right = below.subplots(1, 2, width_ratios=(1.0, 1.25))
    left.plot(1e3 * run.q[:, 0], 1e3 * run.q[:, 1], color="0.2", linewidth=1.2)
    left.plot(1e3 * run.q[0, 0], 1e3 * run.q[0, 1], "o", color="#2e7d32", markersize=5)
    left.set(xlabel="x, mm (forward)", ylabel="y, mm (left)")
    left.set_title("path of the body from above, from the green dot", fontsize=9, loc="left")
    left.set_aspect("equal", adjustable="datalim")
    left.margins(0.1, 0.3)
    right.axis("off")
    for row, (name, value) in enumerate(metric_lines(played)):
        at = 1.0 - 0.088 * row
        right.text(0.0, at, name, fontsize=8, va="top", transform=right.transAxes)
        right.text(0.5, at, value, fontsize=8, va="top", family="monospace", transform=right.transAxes)
    out = BytesIO()
    figure.savefig(out, format=Path(path).suffix.lstrip(".").lower() or "png", dpi=120)
    write_bytes(path, out.getvalue())
