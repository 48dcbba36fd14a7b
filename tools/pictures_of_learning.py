"""Pictures of learning: curves of a real training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from picture_style import BLUE, GREEN, ORANGE, RED, VIOLET, labelled, save, sheet

from condyle.tasks.registry import load_task
from condyle.tasks.training import TERM, Training

ITERATIONS, ROBOTS, SEEDS = 30, 512, 3


def training(path: Path) -> None:
    """The cart-pole learns to balance: reward, falls, terms of the reward and the learning rate over the iterations."""
    runs = []
    for seed in range(SEEDS):
        run = Training(load_task("cartpole", "balance"), seed=seed, envs=ROBOTS)
        for _ in run.run(ITERATIONS):
            pass
        runs.append(run)
    x = np.arange(1, ITERATIONS + 1)
    seconds = sum(run.seconds for run in runs) / SEEDS
    title = f"condyle train cartpole --task balance: {ROBOTS} robots, {ITERATIONS} iterations of 24 steps, {seconds:.0f} s"
    figure = sheet(title, width=12.0, height=4.2)
    left, middle, right = figure.subplots(1, 3)
    for run, color in zip(runs, (BLUE, GREEN, VIOLET), strict=True):
        left.plot(x, run.curve("reward"), color=color, lw=1.8, label=f"seed {run.seed}")
        middle.plot(x, run.curve("falls"), color=color, lw=1.8)
    left.legend(frameon=False, fontsize=10)
    labelled(left, "Reward of a policy step", "iteration", "")
    labelled(middle, "Falls in 1,000 policy steps", "iteration", "")
    names = [name for name in runs[0].names if name.startswith(TERM)]
    for name, color in zip(names, (GREEN, RED, ORANGE, BLUE), strict=False):
        right.plot(x, runs[0].curve(name), color=color, lw=1.8, label=name.removeprefix(TERM))
    right.legend(frameon=False, fontsize=10)
    labelled(right, "Terms of the reward, seed 0", "iteration", "")
    save(figure, path)
