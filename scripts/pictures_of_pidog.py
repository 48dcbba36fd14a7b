"""Pictures of PiDog's gaits and actions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from picture_style import labelled, save

from condyle.apps.pidog.footfall import COLORS, loaded_feet, stance_intervals
from condyle.apps.pidog.kinematics import LEGS
from condyle.apps.pidog.player import play
from condyle.workbench.view.picture import picture

GAITS = ("walk", "backward", "turn-left", "turn-right", "trot", "trot-left", "trot-backward", "table-trot")
CYCLES = {"walk": 2, "backward": 2, "turn-left": 2, "turn-right": 2, "table-trot": 3}
# (action, time in s at which it is shown, or the joint whose highest angle is)
MOMENTS = (
    ("stand", 0.3),
    ("sit", 2.0),
    ("lie", 2.0),
    ("lie-hands-out", 2.0),
    ("stretch", 2.0),
    ("push-up", 2.0),
    ("doze-off", 3.0),
    ("scratch", "rf_hip"),
    ("handshake", "rf_hip"),
    ("high-five", "rf_hip"),
    ("body-twist", 1.5),
    ("shake-head", 0.9),
)


def pidog(path: Path) -> None:
    """Footfall diagrams of eight gaits."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(4, 2, figsize=(9.0, 6.6), layout="constrained")
    for ax, name in zip(axes.T.ravel(), GAITS, strict=True):
        played = play(name, cycles=CYCLES.get(name, 6))
        for row, (bars, color) in enumerate(zip(stance_intervals(loaded_feet(played), played.run.dt), COLORS, strict=True)):
            ax.broken_barh(bars, (3 - row - 0.38, 0.76), color=color)
        fall = played.first_fall
        advance, turn = 1e3 * float(np.mean(played.advances[1:])), float(np.degrees(np.mean(played.turns[1:])))
        result = f"falls at {fall:.2f} s" if fall is not None else f"{advance:.0f} mm and {turn:+.1f}° a cycle"
        labelled(ax, f"{name}: {result}", "", "")
        ax.set_yticks(range(4), LEGS[::-1])
        ax.set_xlim(played.cycle_times[0], min(played.cycle_times[-1], fall or np.inf))
        if fall is not None:
            ax.axvline(fall, color="black", lw=1.5)
    for ax in axes[-1]:
        ax.set_xlabel("time, s")
    save(fig, path)


def pidog_actions(path: Path) -> None:
    """Moments of twelve actions."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, 6, figsize=(9.0, 3.2), layout="constrained")
    for ax, (name, time) in zip(axes.ravel(), MOMENTS, strict=True):
        run = play(name).run
        shown = run.q[:, run.robot.q_slice(time).start].argmax() if isinstance(time, str) else round(time / run.dt)
        q = run.q[min(shown, run.steps)].copy()
        q[:2] = 0.0
        ax.imshow(picture(run.robot, q, size=(240, 220)))
        ax.set_title(name, fontsize=8)
        ax.axis("off")
    save(fig, path)
