"""Tasks by robot and name. Each is made in its own module, which is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from condyle.errors import ControlError
from condyle.robot.names import nearest

if TYPE_CHECKING:
    from condyle.learn.env import Rollouts, VectorEnv

# (robot, task) -> module of this folder and the name of the Task in it
TASKS: dict[tuple[str, str], tuple[str, str]] = {
    ("pidog", "walk"): ("pidog", "WALK"),
    ("pidog", "turn"): ("pidog_turn", "TURN"),
    ("pidog", "heading"): ("pidog_turn", "HEADING"),
    ("pidog", "stand"): ("pidog_stand", "STAND"),
    ("pidog", "get-up"): ("pidog_get_up", "GET_UP"),
    ("pidog", "imitate-walk"): ("imitation", "IMITATE_WALK"),
    ("pidog", "imitate-trot"): ("imitation", "IMITATE_TROT"),
    ("pidog", "imitate-controller"): ("imitation", "IMITATE_CONTROLLER"),
    ("cartpole", "balance"): ("cart_pole", "BALANCE"),
    ("cartpole", "swing-up"): ("cart_pole", "SWING_UP"),
    ("birotor", "hover"): ("birotor_hover", "HOVER"),
    ("anymal_c", "walk"): ("quadruped", "ANYMAL_C"),
    ("a1", "walk"): ("quadruped", "A1"),
    ("go1", "walk"): ("quadruped", "GO1"),
    ("solo12", "walk"): ("quadruped", "SOLO12"),
}


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


def task_names(robot: str | None = None) -> list[tuple[str, str]]:
    """(robot, task) of all tasks, or of those of one robot."""
    return [key for key in TASKS if robot is None or key[0] == robot]


def load_task(robot: str, name: str) -> Task:
    """The task of this name for a robot, or an error with the nearest."""
    robots = list(dict.fromkeys(known for known, _ in TASKS))
    if robot not in robots:
        raise ControlError(f"there are no tasks for the robot '{robot!s:.60}'{nearest(robot, robots)}")
    if (robot, name) not in TASKS:
        names = [task for known, task in TASKS if known == robot]
        raise ControlError(f"'{robot}' has no task '{name!s:.60}'{nearest(name, names)}")
    module, attribute = TASKS[robot, name]
    found = getattr(import_module(f"condyle.tasks.{module}"), attribute)
    assert isinstance(found, Task)
    return found
