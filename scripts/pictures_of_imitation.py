"""The picture of imitation: joint targets of a teacher and its clones, gradients through contact, and SHAC beside PPO."""

from __future__ import annotations

from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from picture_style import BLUE, FAINT, GREEN, INK, ORANGE, RED, labelled, save, sheet

from condyle.apps.pidog.collect import collect
from condyle.apps.pidog.gait_teacher import servo_targets
from condyle.apps.pidog.imitation_tasks import IMITATION, labels
from condyle.apps.pidog.training_robot import SMOOTHING
from condyle.methods.learn.gradients import rollout_vjp
from condyle.methods.learn.imitation import clone
from condyle.methods.learn.policy import initial_policy
from condyle.methods.learn.task import load_task
from condyle.methods.learn.training import SMOOTHING as CONTACT_SMOOTHING
from condyle.methods.learn.training import Training

GAIT, SHOWN = "walk", (4.0, 8.0)  # s
WINDOWS, ROBOTS, SOFT = (2, 4, 8, 16, 32, 64), 64, 0.3
ENVS = {"ppo": 512, "shac": 128}
STD, EPISODES, ITERATIONS = 0.1, 128, {"ppo": 80, "shac": 100}


def imitation(path: Path) -> None:
    """Targets of a hip, growth of gradients with the window, rewards over processor time."""
    figure = sheet("Imitation of PiDog's walk, and what gradients through the simulation give", width=13.0, height=4.2)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.3, 1.0, 1.0))
    _targets(left)
    _gradients(middle)
    _rewards(right)
    save(figure, path)


def _targets(ax: Any) -> None:
    """The left front hip of a dog with each clone, and what its teacher would have done there."""
    data = collect(GAIT, episodes=EPISODES)
    for network, color in (("mlp", ORANGE), ("lstm", BLUE)):
        env = IMITATION[GAIT].make(1, randomize=False)
        found = env.rollout(clone(data, network).policy, round(SHOWN[1] / env.dt), deterministic=True)
        assert found.observations is not None
        t = env.dt * np.arange(found.actions.shape[1])
        shown = t >= SHOWN[0]
        ours, theirs = (
            np.degrees(servo_targets(data.controller, a[0])[shown, 0]) for a in (found.actions, labels(GAIT, found.observations))
        )
        ax.plot(t[shown], ours, color=color, lw=1.6, label=network)
        if network == "lstm":
            ax.plot(t[shown], theirs, color=INK, lw=1.0, ls="--", label="teacher")
    ax.legend(frameon=False, fontsize=10)
    labelled(ax, "Target of the left front hip, degrees", "time, s", "")


def _gradients(ax: Any) -> None:
    """Norms of the gradient of each robot's mean reward by the weights, over the length of the window."""
    task = load_task("pidog", "walk")
    env = task.make(ROBOTS, **task.training)
    env = env.with_parameters({**env.smooth_parameters, CONTACT_SMOOTHING: SOFT})
    policy = initial_policy((env.observation_size, *task.hidden, env.action_size))
    env.rollout(policy, 100, std=STD)
    start = env.state
    for smoothing, color in ((SMOOTHING, RED), (SOFT, GREEN)):
        norms = []
        for steps in WINDOWS:
            env.restore(start)
            env.set(CONTACT_SMOOTHING, smoothing)
            _, pullback = rollout_vjp(env, policy, steps, STD)
            by = pullback(reward=np.full((ROBOTS, steps), 1.0 / steps))
            flat = np.concatenate([part.reshape(ROBOTS, -1) for part in by.values()], axis=1)
            norms.append(np.quantile(np.linalg.norm(flat.astype(float), axis=1), (0.1, 0.5, 0.9)))
        low, median, high = np.array(norms).T
        ax.fill_between(WINDOWS, low, high, color=color, alpha=0.15, lw=0.0)
        ax.plot(WINDOWS, median, color=color, lw=1.8, label=f"contact smoothing {smoothing:g}")
    ax.axvline(16, color=FAINT, lw=0.8, ls=":")
    ax.set(xscale="log", yscale="log", xticks=WINDOWS, xticklabels=WINDOWS)
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize=10)
    labelled(ax, "Gradient of a dog's reward: median, 80 %", "policy steps of the window", "")


def _rewards(ax: Any) -> None:
    """Cart-pole, balance: reward of a step over processor time."""
    for algorithm, color in (("ppo", ORANGE), ("shac", BLUE)):
        training = Training(load_task("cartpole", "balance"), algorithm=algorithm, envs=ENVS[algorithm])
        training.step()  # compiles
        begin, times, rewards = process_time(), [], []
        for done in training.run(ITERATIONS[algorithm]):
            times.append(process_time() - begin)
            rewards.append(done.numbers["reward"])
        ax.plot(times, rewards, color=color, lw=1.8, label=algorithm.upper())
    ax.legend(frameon=False, fontsize=10, loc="lower right")
    labelled(ax, "Cart-pole, balance: reward of a step", "processor time, s", "")
