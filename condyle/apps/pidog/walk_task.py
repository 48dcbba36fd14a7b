"""PiDog learns to walk to a command: speed 0 to 0.22 m/s and turns, under all of its randomisation, without joint angles."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from condyle.apps.pidog import controller, rewards
from condyle.apps.pidog.judge import SCORED_WALKS, short_score
from condyle.apps.pidog.training_robot import (
    EVERY,
    FRICTION,
    ROUGHNESS,
    anywhere,
    dog_loop,
    flat,
    randomization,
    rough,
    standing,
    world,
)
from condyle.methods.learn.env import Rollouts, VectorEnv
from condyle.methods.learn.mirror import Mirror
from condyle.methods.learn.task import Task
from condyle.simulate.terrain import Terrain
from condyle.tape.array import where

SPEEDS, TURNS = (0.0, 0.22), (-0.5, 0.5)  # m/s, rad/s
SECONDS = 20.0


def speeds(draw: Any) -> Any:
    """Mostly near the fastest, one in ten standing."""
    kind, any_speed, fast = draw.uniform(), draw.uniform(*SPEEDS), draw.uniform(0.19, SPEEDS[1])
    return where(kind < 0.1, 0.0, where(kind < 0.3, any_speed, fast))


def turns(draw: Any) -> Any:
    """Mostly straight ahead."""
    return where(draw.uniform() < 0.75, 0.0, draw.uniform(*TURNS))


def make(
    num_envs: int,
    seed: int = 0,
    randomize: bool = True,
    dtype: Any = np.float32,
    *,
    speed: float | None = None,
    turn: float | None = None,
    roughness: float = ROUGHNESS,
    numbers: Mapping[str, Any] | None = None,
    width: float = rewards.SPEED_WIDTH,
    **options: Any,
) -> VectorEnv:
    """The environment; `speed`, `turn`: a command of all robots, in place of random ones. `roughness` of the ground, m.

    `width`: an error of the speed, m/s, which should be smaller than a slow command: else standing is rewarded, too.
    """
    height = partial(rough, roughness=roughness)
    ground = Terrain(height, FRICTION) if roughness else flat()
    loop = dog_loop(world(ground), numbers=numbers)
    drawn: dict[str, Any] = {**randomization()} if randomize else {}
    drawn["command.speed"] = speeds if speed is None else (speed, speed)
    drawn["command.turn"] = turns if turn is None else (turn, turn)
    q0 = standing(numbers)

    def reset(draw: Any) -> dict[str, Any]:
        q = anywhere(draw, q0, height)
        return {"velocity": np.zeros(2), "peak": np.zeros(4), "q": q, "controller.phase": draw.uniform(0.0, 1.0, 1)}

    def update(s: Any, draw: Any) -> dict[str, Any]:
        return rewards.followed(s, rewards.Motion(s, height))

    return VectorEnv(
        loop,
        lambda s: s["controller.seen"],
        lambda s: rewards.terms(s, height, width),
        rewards.fallen,
        reset,
        num_envs=num_envs,
        every=EVERY,
        time_limit=SECONDS,
        privileged=lambda s: rewards.privileged(s, height),
        randomize=drawn,
        variables={"velocity": 2, "peak": 4},
        update=update,
        seed=seed,
        dtype=dtype,
        **options,
    )


def measure(rollouts: Rollouts) -> dict[str, float]:
    """Mean of the rewarded speed term, and falls per robot and 20 s."""
    falls = float(rollouts.terminated.mean()) * SECONDS * controller.RATE
    return {"tracking": rollouts.reward_terms["speed"] / rewards.WEIGHTS["speed"], "falls": falls}


def _mirror() -> Mirror:
    """Left and right exchanged; the clock is half a cycle later."""
    swap = (1, 0, 3, 2)
    action_order = [*[2 * k + j for k in swap for j in range(2)], 8, 9, 10]
    action_signs = [*[1.0] * 10, -1.0]
    signs = {
        "rate": [-1.0, 1.0, -1.0],
        "acceleration": [1.0, -1.0, 1.0],
        "down": [1.0, -1.0, 1.0],
        "lean": [1.0, -1.0],
        "heading": [-1.0],
        "heading_sum": [-1.0],
        "command": [1.0, -1.0],
        "clock": [-1.0, -1.0],
        "waves": [1.0, 1.0, -1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0, -1.0, -1.0],
        "action": action_signs,
    }
    order: list[int] = []
    every: list[float] = []
    for name, size in controller.OBSERVATION:
        at = len(order)
        order += [at + k for k in (action_order if name == "action" else range(int(size)))]
        every += signs[str(name)]
    return Mirror((order, every), (action_order, action_signs), (rewards.PRIVILEGED_ORDER, rewards.PRIVILEGED_SIGNS))


WALK = Task(
    robot="pidog",
    name="walk",
    summary="walk to a commanded speed and turn, with full randomisation and without joint angles",
    make=make,
    iterations=900,
    training={"roughness": 0.006},  # more than it is judged on, so that feet learn to lift
    hidden=(64, 64),
    hyperparameters={
        "envs": 1024,
        "steps": 24,
        "initial_std": 0.25,
        "action_bound": 2.0,
        "entropy": 0.0,
        "desired_kl": 0.025,
        "final_kl": 0.004,
        "anneal": (270, 800),
    },
    mirror=_mirror(),
    measure=measure,
    observation=tuple((str(name), int(size)) for name, size in controller.OBSERVATION),
    action=tuple(controller.ACTION),
    controller=controller.NUMBERS,
    commands={"speed": SPEEDS, "turn": TURNS},
    episode_seconds=SECONDS,
    score=short_score,
    score_episodes=SCORED_WALKS,
)
