"""The report of a training: curves, terms of the reward, the score, and an episode to watch, in one HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from condyle.atomic_write import write_bytes
from condyle.methods.learn.judge_task import label
from condyle.methods.learn.policy_file import PolicyFile
from condyle.methods.learn.rollouts import HostRollouts
from condyle.methods.learn.task import Task
from condyle.methods.learn.training import TERM
from condyle.workbench.view.page import facts_html, html_page
from condyle.workbench.view.player import player_html
from condyle.workbench.view.plots import Chart, chart_html
from condyle.workbench.view.trajectory import Trajectory, trajectory

SECONDS = 10.0  # of the episode
HEIGHT = 470  # pixels, of the player
TERMS = 7  # terms of the reward in one chart
# charts of one line each: name of the number, title
SINGLE = {
    "reward": "Reward of a policy step",
    "speed": "Speed, m/s",
    "falls": "Falls",
    "length": "Length of an episode, policy steps",
    "std": "Standard deviation of the actions",
    "kl": "KL divergence of an update",
    "learning_rate": "Learning rate",
    "value_loss": "Squared error of the critic",
}
# numbers of the score that are parts of one
PARTS = ("falls", "success", "slip")
HIDDEN = ("return", "samples", "simulating", "updating", "surrogate", "clipped", "gradient_norm")


def training_report(path: Path, task: Task, file: PolicyFile, curves: Mapping[str, Any], device: str | None = None) -> Path:
    """The path of the page, which is replaced atomically; `device`: where its episode is simulated."""
    write_bytes(path, report_html(task, file, curves, episode(task, file, device=device)).encode())
    return path


def episode(task: Task, file: PolicyFile, seed: int = 0, randomize: bool = False, device: str | None = None) -> Trajectory:
    """An episode of the policy without noise, of the robot as it is."""
    env = task.make(1, seed=seed, randomize=randomize, device=device)
    steps = max(round(min(SECONDS, task.episode_seconds) / env.dt), 2)
    found = HostRollouts(env.rollout(file.policy, steps, deterministic=True, record=["q"]))
    ended = np.flatnonzero(found.terminated[0] | found.truncated[0])
    last = max(int(ended[0]) + 1 if len(ended) else steps, 2)
    q = np.asarray(found["q"][0, :last], float)
    assert env.loop.world is not None
    return trajectory(env.loop.world.robot, env.dt * np.arange(1, last + 1), q, title=f"{task.robot}: {task.name}")


def report_html(task: Task, file: PolicyFile, curves: Mapping[str, Any], motion: Trajectory | None) -> str:
    """The page as text."""
    t = file.training
    header = f"<h1>{escape(task.robot)}: {escape(task.name)}</h1>\n<p>{escape(task.summary[:1].upper() + task.summary[1:])}.</p>"
    numbers = {name: np.asarray(values, float) for name, values in curves.items()}
    count = max((len(values) for values in numbers.values()), default=0)
    facts = {
        "iterations": f"{t.get('iterations', count):,}",
        "policy steps": f"{t.get('steps', 0):,} of {t.get('envs', 0):,} robots",
        "time": f"{t.get('seconds', 0.0):.1f} s",
        "seed": t.get("seed", 0),
        "algorithm": ", ".join(str(t[name]) for name in ("algorithm", "library") if name in t) or "ppo",
        "network": " - ".join(map(str, file.policy.sizes)),
        "hash of the weights": file.hash,
    }
    if "simulating" in numbers and count:
        simulating, updating = numbers["simulating"].sum(), numbers["updating"].sum()
        facts["part of the time simulating"] = f"{100.0 * simulating / max(simulating + updating, 1e-9):.0f} %"
    parts = ['<section id="episode">']
    scores = _score_html(file.score)
    if motion is not None:
        caption = f"An episode without noise and randomisation, {motion.t[-1]:.1f} s"
        player = f"<div>{player_html(motion, title=caption, height=HEIGHT)}</div>"
        parts.append(f'<div class="pair">{player}<div>{facts_html(facts)}{scores}</div></div>')
    else:
        parts.append(facts_html(facts) + scores)
    charts = (
        "".join(chart_html(each) for each in training_charts(numbers)) if count > 1 else "<p>One iteration has no curves.</p>"
    )
    # a section of its own: the time of the player is none of its axis
    parts += ["</section>", '<section id="training">', "<h2>Training</h2>", f'<div class="charts">{charts}</div>', "</section>"]
    return html_page(f"Condyle: {task.robot} {task.name}", header, "\n".join(parts))


def training_charts(numbers: Mapping[str, np.ndarray]) -> list[Chart]:
    """Curves over the iterations: each number of its own, and the terms of the reward together."""
    count = len(next(iter(numbers.values())))
    x = np.arange(1.0, count + 1.0)
    terms = {name.removeprefix(TERM): values for name, values in numbers.items() if name.startswith(TERM)}
    own = [name for name in numbers if name not in SINGLE and name not in HIDDEN and not name.startswith(TERM)]
    # what the task measures comes after the reward
    singles = [name for name in ("reward", *own, *list(SINGLE)[1:]) if name in numbers]
    found = [
        Chart(SINGLE.get(name, label(name)[:1].upper() + label(name)[1:]), x, {"": numbers[name]}, label="iteration")
        for name in singles
        if np.isfinite(numbers[name]).any()
    ]
    # the largest and the smaller ones, each with their own axis
    order = sorted(terms, key=lambda name: -float(np.nanmean(np.abs(terms[name]))))
    parts = {"Terms of the reward": order[:TERMS], "Smaller terms of the reward": order[TERMS:]}
    for k, (title, names) in enumerate((title, names) for title, names in parts.items() if names):
        found.insert(1 + k, Chart(title, x, {name: terms[name] for name in names}, label="iteration"))
    return found


def _score_html(score: Mapping[str, Any]) -> str:
    """The numbers of the score as a list."""
    plain = {name: float(value) for name, value in score.items() if isinstance(value, int | float) and np.isfinite(value)}
    if not plain:
        return ""
    plain = {name: plain[name] for name in sorted(plain, key=lambda name: name != "score")}
    episodes, seconds = plain.pop("episodes", 0.0), plain.pop("episode_seconds", 0.0)
    title = f"Judged in {episodes:,.0f} randomised episodes of {seconds:g} s" if episodes else "Score"
    rows = {label(name): f"{100.0 * value:.1f} %" if name in PARTS else f"{value:.4g}" for name, value in plain.items()}
    return f"<h3>{title}</h3>{facts_html(rows)}"
