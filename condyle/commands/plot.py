"""The picture of a run: height, contact forces, energy and joint angles over time."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from condyle.commands.scene import base_frame, named_joints, upward
from condyle.commands.sim import Run
from condyle.demo.result import write
from condyle.errors import require

MANY = 12  # lines beyond which a legend is more ink than help
INK, FAINT = "#22252b", "#8b909a"


def plot(done: Run, path: Path) -> None:
    """Write the picture as a PNG file (needs the extra `plot`)."""
    matplotlib = require("matplotlib", "plot", "the picture of a run")
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    simulation = done.simulation
    robot, t = simulation.robot, done.times
    panels: list[tuple[str, np.ndarray, dict[str, np.ndarray]]] = []
    up = upward(robot)
    if up is not None:
        panels.append((f"height of {base_frame(robot)}, m", t, {"": done.xs[:, up]}))
    if simulation.world.points:
        forces = {name: done.forces[:, k, 2] for k, name in enumerate(simulation.contact_names)}
        panels.append(("upward contact force, N", t[:-1], forces))
    panels.append(("energy, J", t, {"": done.energy}))
    joints = named_joints(robot)
    if joints:
        panels.append(("joint positions, rad or m", t, {name: done.xs[:, i] for name, i, _ in joints}))
    with matplotlib.rc_context({"font.size": 10, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT}):
        figure = Figure(figsize=(11, 2.1 * len(panels) + 0.9), dpi=110, layout="constrained")
        figure.suptitle(f"{robot.name}, steps of {simulation.dt * 1e3:g} ms", x=0.01, ha="left", weight="bold")
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for ax, (label, times, lines) in zip(axes, panels, strict=True):
            _draw(ax, label, times, lines)
        axes[-1].set_xlabel("time, s")
        axes[-1].set_xlim(0.0, t[-1])
        content = BytesIO()
        figure.savefig(content, format="png")
    write(path, content.getvalue())


def _draw(ax: Any, label: str, t: np.ndarray, lines: dict[str, np.ndarray]) -> None:
    from matplotlib import colormaps

    colors = colormaps["viridis"](np.linspace(0.0, 0.88, len(lines)))
    for (name, y), color in zip(lines.items(), colors, strict=True):
        ax.plot(t, y, color=color, lw=1.3, label=name)
    ax.set_title(label, loc="left", fontsize=10)
    ax.grid(color=FAINT, alpha=0.25, lw=0.6)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if 1 < len(lines) <= MANY or (len(lines) == 1 and "" not in lines):
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
    elif len(lines) > MANY:
        ax.annotate(f"{len(lines)} lines", (1.01, 0.5), xycoords="axes fraction", color=FAINT, fontsize=8)
    # a line that does not move is drawn in the middle, not magnified to its rounding
    low, high = min(y.min() for y in lines.values()), max(y.max() for y in lines.values())
    if high - low < 1e-9 * max(abs(high), abs(low), 1e-3):
        reach = max(0.1 * abs(high), 1e-3)
        ax.set_ylim(low - reach, high + reach)
