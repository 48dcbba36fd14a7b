"""Pictures of PiDog after a fall and under pushes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from picture_style import save

from condyle.apps.pidog import get_up
from condyle.apps.pidog import get_up_task as pidog_get_up
from condyle.apps.pidog.training_robot import robot
from condyle.workbench.view.picture import picture

FRAMES = 6


def pidog_recovery(path: Path) -> None:
    """One dog gets up from its side, one from its back."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, FRAMES, figsize=(9.0, 3.4))
    for row, pose in zip(axes, ("side", "back"), strict=True):
        env = pidog_get_up.make(16, 0, False, np.float64, pose=pose)
        steps = env.max_episode_steps or 1
        found = env.rollout(np.zeros((16, steps, env.action_size)), record=["q", "succeeded"])
        done = found["succeeded"].reshape(16, steps)
        best = int(np.argmax(done.max(axis=1) > 0.0))
        first, last = round(get_up.WAIT * get_up.RATE), int(np.argmax(done[best] > 0.0)) - 40
        for ax, k in zip(row, np.linspace(first, last, FRAMES).round().astype(int), strict=True):
            q = found["q"][best, k].copy()
            q[:2] = 0.0
            ax.imshow(picture(robot(), q, size=(240, 240)))
            ax.set_title(f"from its {pose}: {(k - first) / get_up.RATE:.1f} s", fontsize=7)
            ax.axis("off")
    fig.tight_layout()
    save(fig, path)
