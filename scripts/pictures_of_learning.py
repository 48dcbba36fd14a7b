"""Pictures of learning: curves of a real training, and the parts of the score of a gait."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from picture_style import BLUE, GREEN, ORANGE, RED, VIOLET, labelled, save, sheet

from condyle.apps.pidog.judge import score_parts
from condyle.methods.learn.task import load_task
from condyle.methods.learn.training import TERM, Training

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


def judging(path: Path) -> None:
    """The six parts of the score of PiDog's walk, each over its number."""
    shown = {
        "speed": ("speed_error", 0.3, 1.0, "error of the speed, m/s; command 0.22"),
        "lift": ("lift", 0.016, 1e3, "lowest lift of the feet, mm"),
        "slip": ("slip", 0.6, 100.0, "slip, % of the distance"),
        "heading": ("heading_error", 75.0, 1.0, "heading error after 10 s, degrees"),
        "energy": ("cost_of_transport", 5.0, 1.0, "cost of transport"),
        "smoothness": ("shake", 5.0, 1.0, "roll and pitch rates, rad/s"),
    }
    figure = sheet("Score of an episode: 100 times the product of six parts, 0 after a fall", width=10.0, height=4.8)
    for ax, (part, (name, most, factor, label)) in zip(figure.subplots(2, 3).flat, shown.items(), strict=True):
        x = np.linspace(0.0, most, 200)
        found = {each: np.zeros(len(x)) for each, *_ in shown.values()} | {"lift": np.full((len(x), 4), 0.02)}
        found[name] = np.repeat(x[:, None], 4, axis=1) if name == "lift" else x
        ax.plot(factor * x, score_parts(found, np.full(len(x), 0.22))[part], color=BLUE, lw=2.0)
        ax.set_ylim(-0.05, 1.1)
        labelled(ax, part, label, "")
    save(figure, path)
