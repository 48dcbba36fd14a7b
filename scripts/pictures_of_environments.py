"""The picture of the page on environments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from picture_style import BLUE, FAINT, GREEN, ORANGE, VIOLET, labelled, save, sheet

import condyle as cd
from condyle.methods.learn.task import load_task

ROBOTS, STEPS = 96, 250


def environments(path: Path) -> None:
    """Angles of cart-poles with the ends of their episodes, their masses, and uneven ground of four levels."""
    env = load_task("cartpole", "balance").make(ROBOTS, seed=1)
    # place, sine and cosine of the angle, speed, rate
    policy = cd.blocks.MLP([(np.array([[0.05, 1.6, 0.0, 0.2, 1.0]]), np.zeros(1))])
    found = env.rollout(policy, STEPS, std=0.8, record=["q", "pole.mass"])
    t = env.dt * np.arange(1, STEPS + 1)
    figure = sheet("One kernel: robots, rewards, resets, randomisation and the policy", width=12.0, height=4.2)
    left, middle, right = figure.subplots(1, 3)
    angles = np.degrees(found["q"][..., 1])
    ended = found.terminated | found.truncated
    broken = np.where(np.roll(ended, 1, axis=1), np.nan, angles)
    left.plot(t, broken.T, color=BLUE, lw=0.4, alpha=0.35)
    robot, step = np.nonzero(found.terminated)
    left.plot(t[step], angles[robot, step], "o", color=ORANGE, ms=3.0, label="terminated, starts again")
    left.set_ylim(-50.0, 50.0)
    left.legend(frameon=False, fontsize=10, loc="lower right")
    labelled(left, f"Angles of {ROBOTS} poles", "time, s", "degrees")
    for k, color in enumerate((BLUE, ORANGE, GREEN, VIOLET)):
        middle.step(t, 1000.0 * found["pole.mass"][k], color=color, lw=1.4)
    for bound in (50.0, 200.0):
        middle.axhline(bound, color=FAINT, lw=0.8, ls=":")
    labelled(middle, "Masses of four, drawn for each episode", "time, s", "g")
    x = np.linspace(-1.5, 1.5, 1200)
    for k, (level, color) in enumerate(zip((0.1, 0.4, 0.7, 1.0), (BLUE, GREEN, ORANGE, VIOLET), strict=True)):
        ground = cd.Uneven(roughness=0.06 * level, step=0.06 * level, slope=4.0 * level, offset=(0.7 * k, 0.0))
        h = np.array([ground.surface(float(at), 0.0)[0] for at in x])
        right.plot(x, h - h[len(h) // 2] + 0.25 * k, color=color, lw=1.6, label=f"level {level}")
    right.legend(frameon=False, fontsize=9, loc="upper left")
    labelled(right, "cd.Uneven: ground by level", "x, m", "height, m (shifted)")
    save(figure, path)
