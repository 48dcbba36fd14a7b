"""The score of a policy right after its training: a short judging, for its file and its report.

score = short_score(load_task("cartpole", "balance"), file)     # {"episodes": 200, "falls": 0.0, "return": 497.3, ...}
"""

from __future__ import annotations

from typing import Any

from condyle.methods.learn.judge_task import Progress, judge_task
from condyle.methods.learn.policy_file import PolicyFile
from condyle.methods.learn.task import Task

SECONDS = 10.0  # of an episode, at most

# names of numbers with their units
LABELS = {
    "score": "score, of 100",
    "worst_decile": "score of the worst decile, at most",
    "return_worst_decile": "return of the worst decile, at most",
    "falls": "ended early",
    "seconds": "length of an episode, s",
    "speed": "speed, m/s",
    "speed_error": "speed error, m/s",
    "heading_error": "heading error, degrees",
    "turn_error": "error of the turning rate, rad/s",
    "lift": "lift of the lowest foot, m",
    "duty": "duty of the slowest foot",
    "slip": "slip, of the distance",
    "shake": "roll and pitch rates, rad/s",
    "action_change": "change of actions between steps",
}


def label(name: str) -> str:
    """The name of a number of a judging as a person reads it, with its unit."""
    return LABELS.get(name, name.replace("part_", "score: ").replace("_", " "))


def short_score(task: Task, file: PolicyFile, progress: Progress | None = None, device: str | None = None) -> dict[str, Any]:
    """Numbers of some randomised episodes, by name; `progress(done)` counts to `score_steps(task)`. `device`: such as "cuda"."""
    seconds = min(task.episode_seconds, SECONDS)
    if task.score is not None:
        return {**task.score(file, seconds, progress, device), "episode_seconds": seconds}
    _, found = judge_task(task, file, task.score_episodes, seconds, progress=progress, device=device)
    measures = found.pop("measures")
    return {**found, **measures, "episode_seconds": seconds}


def score_steps(task: Task, rate: float) -> int:
    """To what the progress of `short_score` counts: episodes of a task with a score of its own, else steps."""
    return round(min(task.episode_seconds, SECONDS) * rate) if task.score is None else task.score_episodes
