"""PiDog turns: to a commanded rate, on the spot and while walking ("turn"), or to a commanded heading ("heading").

Commands change at random times within an episode. The controller and what the network sees are those of walking, so a policy of
either task is deployed as one of walking is, with a speed and a turn as its command. A heading is followed outside of the
network: `Heading` turns at a rate in proportion to the error of the heading that the dog estimates from its gyroscope.

Legs move in planes along the body, so feet slide whenever it turns: faster than TURNS it falls on ground of high friction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import pi
from typing import Any

import numpy as np

from condyle.apps.pidog import controller, rewards
from condyle.apps.pidog import training_robot as dog
from condyle.apps.pidog.walk_task import WALK
from condyle.closed_loop.block import Block
from condyle.closed_loop.loop import Loop
from condyle.closed_loop.tick import current_tick
from condyle.methods.learn.env import Rollouts, VectorEnv
from condyle.methods.learn.task import Task
from condyle.tape.array import where

# stronger steering than in walking, longer steps for it, and full steps at slow turns on the spot
NUMBERS: dict[str, Any] = {
    **controller.NUMBERS,
    "heading_gain": 5.0,
    "heading_sum_gain": 3.0,
    "turn_limit": 0.8,
    "turn_scale": 0.4,
    "stop_speed": 0.008,
}
SPEEDS, TURNS = (0.0, 0.15), (-0.3, 0.3)  # m/s, rad/s
STEP = 1.0  # rad: how far a new heading is from the last, at most
GAIN = 1.5  # 1/s: turn per error of the heading
CHANGE = {"turn": (4.0, 6.0), "heading": (6.0, 10.0)}  # s between two commands
SETTLED = {"turn": 2.0, "heading": 5.0}  # s after a change from which errors are measured
SMOOTH = 0.04  # weight of one frame in the turning rate that is rewarded
SECONDS = 20.0


class Heading(Block):
    """The command (speed, turn) for a commanded (speed, heading): turn = gain * (wanted - estimated heading), bounded.

    The estimate is the sum of the gyroscope's rates about the vertical, from 0 at the start.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"name": "follow", **options})
        self.gain = self.parameter("gain", GAIN, "1/s", minimum=0.0)
        self.state("estimate", 0.0)

    def step(self, state: dict[str, Any], asked: Any, rate: Any, down: Any) -> tuple[Any, dict[str, Any]]:
        """(speed, turn)."""
        estimate = state["estimate"] - self.dt * (down[0] * rate[0] + down[1] * rate[1] + down[2] * rate[2])
        error = asked[1] - estimate
        error = np.arctan2(np.sin(error), np.cos(error))
        turn = np.minimum(np.maximum(self.gain * error, TURNS[0]), TURNS[1])
        return np.array([asked[0], turn]), {"estimate": estimate}


def turning_loop(task: str) -> Loop:
    """The dog of walking with a reference "asked" in place of its command: (speed, turn), or (speed, heading)."""
    follow, down = Heading(every=dog.EVERY), controller.initial()["down"]

    def command(measured: Any, asked: Any) -> Any:
        tick = current_tick()
        assert tick is not None
        return asked if task == "turn" else follow(asked, measured["rate"], tick.state("controller.down", down))

    return dog.dog_loop(numbers=NUMBERS, command=command, asked=2)


class Asked:
    """A step as pidog_rewards takes it: the commanded heading is `target`, and feet should lift if `speed` is not zero."""

    def __init__(self, s: Any, task: str) -> None:
        speed, turn = s["asked"][0], 0.0 if task == "heading" else s["asked"][1]
        # its commanded heading is a turn of so much in one second
        self.s, self.t = s, 1.0
        self.given = {"command.turn": s["target"], "command.speed": abs(speed) + 0.15 * abs(turn)}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.s, name)

    def __getitem__(self, name: str) -> Any:
        return self.given[name] if name in self.given else self.s[name]


def make(
    num_envs: int, seed: int = 0, randomize: bool = True, dtype: Any = np.float32, *, task: str = "turn", **options: Any
) -> VectorEnv:
    """The environment of one of both tasks."""
    q0, names = dog.standing(NUMBERS), ("asked", "target", "rest", "since")

    def command(draw: Any, heading: Any) -> Any:
        """A new command; `heading`: the last one."""
        speed = where(draw.uniform() < (0.4 if task == "turn" else 0.1), 0.0, draw.uniform(0.05, SPEEDS[1]))
        turn = draw.uniform(*TURNS) if task == "turn" else heading + draw.uniform(-STEP, STEP)
        return np.array([speed, turn])

    def reset(draw: Any) -> dict[str, Any]:
        q = dog.anywhere(draw, q0)
        first = command(draw, 0.0)
        values = (first, first[1] if task == "heading" else 0.0, draw.uniform(*CHANGE[task]), 0.0)
        return {"q": q, "controller.phase": draw.uniform(0.0, 1.0, 1), **dict(zip(names, values, strict=True))}

    def update(s: Any, draw: Any) -> dict[str, Any]:
        m = rewards.Motion(Asked(s, task), dog.rough)
        due = s["rest"] <= 0.0
        asked = where(due, command(draw, s["asked"][1]), s["asked"])
        if task == "heading":
            target = asked[1]
        else:  # as the controller has it, a dog that is late is not asked for more than heading_limit
            limit = NUMBERS["heading_limit"]
            late = np.minimum(np.maximum(s.dt * s["asked"][1] - m.heading, -limit), limit)
            target = s["target"] + m.heading + late
        values = (asked, target, where(due, draw.uniform(*CHANGE[task]), s["rest"] - s.dt), where(due, 0.0, s["since"] + s.dt))
        return {
            **rewards.followed(s, m),
            "turning": s["turning"] + SMOOTH * (m.angular[2] - s["turning"]),
            **dict(zip(names, values, strict=True)),
        }

    def reward(s: Any) -> dict[str, Any]:
        asked = Asked(s, task)
        found = rewards.terms(asked, dog.rough)
        if task == "heading":
            # toward a heading that is far away, too, where the term "heading" is flat
            return {**found, "toward": -1.0 * abs(rewards.Motion(asked, dog.rough).heading)}
        error = s["turning"] - s["asked"][1]
        return {**found, "turn": 2.0 * np.exp(-((6.0 * error) ** 2)) - abs(error)}

    return VectorEnv(
        turning_loop(task),
        lambda s: s["controller.seen"],
        reward,
        rewards.fallen,
        reset,
        num_envs=num_envs,
        every=dog.EVERY,
        time_limit=SECONDS,
        privileged=lambda s: rewards.privileged(Asked(s, task), dog.rough),
        randomize=dog.randomization() if randomize else None,
        variables={"velocity": 2, "peak": 4, "turning": 0.0, "asked": 2, "target": 0.0, "rest": 0.0, "since": 0.0},
        update=update,
        seed=seed,
        dtype=dtype,
        **options,
    )


# ---- what is measured, at each step


def turn_error(s: Any) -> Any:
    """Of the turning rate, smoothed over half a second, rad/s."""
    return abs(s["turning"] - s["asked"][1])


def heading_error(s: Any) -> Any:
    """Of the true heading, degrees."""
    return (180.0 / pi) * abs(rewards.Motion(Asked(s, "heading"), dog.rough).heading)


def speed_error(s: Any) -> Any:
    """Of the smoothed speed along the commanded heading, m/s."""
    return abs(s["velocity"][0] - s["asked"][0])


def measured(task: str, rollouts: Rollouts) -> dict[str, float]:
    """Mean errors some time after the last command, and falls of a robot in an episode."""
    settled = rollouts["since"] > SETTLED[task]
    names = [name for name in RECORDS[task] if name != "since"]
    found = {name: float(rollouts[name][settled].mean()) if settled.any() else np.nan for name in names}
    return found | {"falls": float(rollouts.terminated.mean()) * SECONDS * controller.RATE}


RECORDS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "turn": {"turn_error": turn_error, "speed_error": speed_error, "since": lambda s: s["since"]},
    "heading": {"heading_error": heading_error, "speed_error": speed_error, "since": lambda s: s["since"]},
}


def _task(name: str, summary: str) -> Task:
    return replace(
        WALK,
        name=name,
        summary=summary,
        make=partial(make, task=name),
        iterations=400,
        training={},
        hyperparameters={**WALK.hyperparameters, "anneal": (120, 360)},
        measure=partial(measured, name),
        record=RECORDS[name],
        controller=NUMBERS,
        commands={"speed": SPEEDS, "turn": TURNS},
        episode_seconds=SECONDS,
    )


TURN = _task("turn", "turn to a commanded rate, on the spot and while walking, with full randomisation")
HEADING = _task("heading", "turn to a commanded heading that changes, and walk on, with full randomisation")
