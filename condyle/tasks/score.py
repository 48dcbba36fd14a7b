"""The score of a policy right after its training: a short judging, for its file and its report.

score = short_score(load_task("cartpole", "balance"), file)     # {"episodes": 200, "falls": 0.0, "return": 497.3, ...}
"""

from __future__ import annotations

from typing import Any

from condyle.learn.policy_file import PolicyFile
from condyle.tasks.gait import Trial
from condyle.tasks.judge import Progress, judge
from condyle.tasks.judge_task import judge_task
from condyle.tasks.registry import Task

EPISODES, WALKS = 200, 128  # of a task, of PiDog's walk
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


def is_walk(robot: str, task: str) -> bool:
    """Whether a policy is judged by its gait."""
    return (robot, task) == ("pidog", "walk")


def short_score(task: Task, file: PolicyFile, progress: Progress | None = None, device: str | None = None) -> dict[str, Any]:
    """Numbers of some randomised episodes, by name; `progress(done)` counts to `score_steps(task)`. `device`: such as "cuda"."""
    seconds = min(task.episode_seconds, SECONDS)
    if is_walk(task.robot, task.name):
        found = judge(file, Trial(WALKS, seconds), progress=progress, device=device)
        # of the four feet the worst
        lift, duty = (None if found[name] is None else float(pick(found[name])) for name, pick in (("lift", min), ("duty", max)))
        return {**found, "lift": lift, "duty": duty, "episode_seconds": seconds}
    _, found = judge_task(task, file, EPISODES, seconds, progress=progress, device=device)
    measures = found.pop("measures")
    return {**found, **measures, "episode_seconds": seconds}


def score_steps(task: Task, rate: float) -> int:
    """To what the progress of `short_score` counts."""
    return WALKS if is_walk(task.robot, task.name) else round(min(task.episode_seconds, SECONDS) * rate)
