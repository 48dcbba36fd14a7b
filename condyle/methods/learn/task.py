"""Tasks by robot and name: packages register theirs as entry points "ROBOT NAME", imported when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from condyle.errors import ControlError
from condyle.registered import TASKS, registered
from condyle.robot.names import nearest

if TYPE_CHECKING:
    from condyle.methods.learn.env import Rollouts, VectorEnv


def no_measures(rollouts: Rollouts) -> dict[str, float]:
    """No numbers but those that every task has."""
    return {}


@dataclass(frozen=True)
class Task:
    """What is learned: how to make its environment, and how it is trained and measured.

    `make(num_envs, seed=0, randomize=True, dtype=np.float32, **options)` gives a VectorEnv. `measure(rollouts)`: numbers of the
    progress, such as {"speed": 0.2, "falls": 0.0}. `mirror`: the symmetry of observations and actions, if there is one.
    `observation`: names and sizes of the parts of an observation; `action`: names. `controller`: numbers of the controller around
    the policy, for its file. `commands`: {name: (low, high)}. `hyperparameters`: of the training.
    `training`: options of `make` in training only. `record`: {name: function of s} of every step that `measure` takes.
    `shac`: hyperparameters, `envs` and `iterations` of SHAC.
    `score(file, seconds, progress, device)`: numbers of a short judging of `score_episodes` episodes, for a task that returns and
    ends do not judge.
    `schedule(iteration)`: shared values of the environment from this iteration on, {name: value}.
    """

    robot: str
    name: str
    summary: str
    make: Callable[..., VectorEnv]
    iterations: int = 100
    hidden: tuple[int, ...] = (64, 64)
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    schedule: Callable[[int], Mapping[str, Any]] | None = None
    mirror: Any = None
    measure: Callable[[Rollouts], dict[str, float]] = no_measures
    observation: tuple[tuple[str, int], ...] = ()
    action: tuple[str, ...] = ()
    controller: Mapping[str, Any] = field(default_factory=dict)
    commands: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    episode_seconds: float = 20.0
    training: Mapping[str, Any] = field(default_factory=dict)
    record: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    shac: Mapping[str, Any] = field(default_factory=dict)
    score: Callable[..., dict[str, Any]] | None = None
    score_episodes: int = 200


def task_names(robot: str | None = None) -> list[tuple[str, str]]:
    """(robot, task) of all tasks, or of those of one robot."""
    keys = [(key.partition(" ")[0], key.partition(" ")[2]) for key in registered(TASKS)]
    return [key for key in keys if robot is None or key[0] == robot]


def load_task(robot: str, name: str) -> Task:
    """The task of this name for a robot, or an error with the nearest."""
    robots = list(dict.fromkeys(known for known, _ in task_names()))
    if robot not in robots:
        raise ControlError(f"there are no tasks for the robot '{robot!s:.60}'{nearest(robot, robots)}")
    if (robot, name) not in task_names():
        raise ControlError(f"'{robot}' has no task '{name!s:.60}'{nearest(name, [task for _, task in task_names(robot)])}")
    task = registered(TASKS)[f"{robot} {name}"].load()
    if not isinstance(task, Task):
        raise ControlError(f"the entry point '{robot} {name}' of {TASKS} is no condyle.methods.learn.task.Task: {task!r:.60}")
    return task
