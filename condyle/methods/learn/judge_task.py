"""How well a policy does any task: returns, lengths and ends of randomised episodes, and the task's own measures.

every, found = judge_task(load_task("cartpole", "balance"), file, 1000)
found["return"], found["falls"], found["upright"]
score = short_score(load_task("cartpole", "balance"), file)     # after a training: {"episodes": 200, "falls": 0.0, ...}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.learn.policy_file import PolicyFile
from condyle.methods.learn.rollouts import HostRollouts
from condyle.methods.learn.task import Task

Array = np.ndarray
Progress = Callable[[int], None]

CHUNK = 50  # policy steps that are simulated at once, so that observations stay small
SUCCEEDED = "succeeded"  # variable of an environment that knows success: above zero from then on
SHORT_SECONDS = 10.0  # of an episode of a short judging, at most

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


def judge_task(
    task: Task,
    file: PolicyFile,
    count: int,
    seconds: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    device: str | None = None,
) -> tuple[dict[str, Array], dict[str, Any]]:
    """(numbers of every episode, their means): the first episode of each robot, at most `seconds` long, without noise.

    The task's own measures are means over all of this time, in which robots that fell begin again. `device`: as of VectorEnv.
    """
    file.require_robot(task.robot, task.name)
    if count < 1 or not (seconds is None or 0.0 < seconds <= 600.0):
        raise ControlError(f"a task is judged in at least one episode of up to 600 s, got {count} of {seconds} s")
    env = task.make(count, seed=seed, randomize=True, device=device)
    file.require_observation(env.observation_size)
    if len(file.action) != env.action_size:
        raise ControlError(f"the policy gives {len(file.action)} actions, and the task '{task.name}' takes {env.action_size}")
    steps = round((task.episode_seconds if seconds is None else seconds) / env.dt)
    steps = max(min(steps, env.max_episode_steps or steps), 1)
    knows = SUCCEEDED in env.plan.layout
    record = {**task.record, **({SUCCEEDED: None} if knows else {})}
    first, fell, total, length = np.ones(count, bool), np.zeros(count, bool), np.zeros(count), np.zeros(count)
    success, measures = np.zeros(count, bool), dict[str, list[tuple[float, int]]]()
    for start in range(0, steps, CHUNK):
        rows = min(CHUNK, steps - start)
        found_rows = env.rollout(file.policy, rows, deterministic=True, record=record)
        got: Any = found_rows if device is None else HostRollouts(found_rows)
        ended = got.terminated | got.truncated
        # steps up to the first end belong to the first episode
        counted = first[:, None] & (np.cumsum(ended, axis=1) - ended == 0)
        total += np.sum(got.rewards * counted, axis=1, dtype=float)
        length += counted.sum(axis=1)
        fell |= (got.terminated & counted).any(axis=1)
        if knows:
            success |= ((got[SUCCEEDED].reshape(count, rows) > 0.0) & counted).any(axis=1)
        first &= ~ended.any(axis=1)
        for name, value in task.measure(got).items():
            measures.setdefault(name, []).append((float(value), rows))
        if progress is not None:
            progress(start + rows)
    every = {"return": total, "seconds": length * env.dt, "fell": fell}
    found: dict[str, Any] = {"episodes": count, "falls": float(fell.mean()), "return": float(total.mean())}
    found |= {"return_worst_decile": float(np.quantile(total, 0.1)), "seconds": float(every["seconds"].mean())}
    if knows:
        every["success"] = success
        found["success"] = float(success.mean())
    return every, found | {"measures": _means({name: value for name, value in measures.items() if name != "falls"})}


def _means(measures: dict[str, list[tuple[float, int]]]) -> dict[str, float]:
    """Means of values of so many steps each, without those that are not known."""
    known = {name: [(value, rows) for value, rows in given if np.isfinite(value)] for name, given in measures.items()}
    return {name: sum(v * rows for v, rows in given) / sum(rows for _, rows in given) for name, given in known.items() if given}


def label(name: str) -> str:
    """The name of a number of a judging as a person reads it, with its unit."""
    return LABELS.get(name, name.replace("part_", "score: ").replace("_", " "))


def short_score(task: Task, file: PolicyFile, progress: Progress | None = None, device: str | None = None) -> dict[str, Any]:
    """Numbers of some randomised episodes, by name; `progress(done)` counts to `score_steps(task)`. `device`: such as "cuda"."""
    seconds = min(task.episode_seconds, SHORT_SECONDS)
    if task.score is not None:
        return {**task.score(file, seconds, progress, device), "episode_seconds": seconds}
    _, found = judge_task(task, file, task.score_episodes, seconds, progress=progress, device=device)
    measures = found.pop("measures")
    return {**found, **measures, "episode_seconds": seconds}


def score_steps(task: Task, rate: float) -> int:
    """To what the progress of `short_score` counts: episodes of a task with a score of its own, else steps."""
    return round(min(task.episode_seconds, SHORT_SECONDS) * rate) if task.score is None else task.score_episodes
