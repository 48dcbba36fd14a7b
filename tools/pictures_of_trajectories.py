"""Pictures of trajectory optimisation."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
from picture_style import BLUE, FAINT, GREEN, ORANGE, VIOLET, labelled, save, sheet

EXAMPLE = Path(__file__).parents[1] / "examples" / "19_contact_implicit_jump.py"


def trajectories(path: Path) -> None:
    """The jump of the example: heights, torques, and the costs of its starts."""
    p = runpy.run_path(str(EXAMPLE))
    figure = sheet("A jump found through contact by iLQR, from random torques", 12.0, 3.8)
    left, middle, right = figure.subplots(1, 3)
    t = 0.01 * np.arange(len(p["states"]))
    left.plot(t, 100.0 * (p["states"][:, 1] - p["x0"][1]), color=BLUE, lw=1.5, label="body")
    left.plot(t, 100.0 * (p["reference"][:, 1] - p["x0"][1]), color=FAINT, lw=1.5, label="reference")
    left.plot(t, 100.0 * p["height"], color=ORANGE, lw=1.5, label="foot")
    left.legend(frameon=False, fontsize=10)
    labelled(left, "Height above the start", "time, s", "cm")
    controls = p["found"].controls[p["best"]]
    middle.step(t[:-1], controls[:, 0], color=GREEN, lw=1.2, label="hip")
    middle.step(t[:-1], controls[:, 1], color=VIOLET, lw=1.2, label="knee")
    middle.legend(frameon=False, fontsize=10)
    labelled(middle, "Torques", "time, s", "N m")
    right.semilogy(np.sort(p["found"].cost), "o", color=BLUE, ms=4)
    labelled(right, "Cost after 150 iterations", "random start, sorted", "")
    save(figure, path)
