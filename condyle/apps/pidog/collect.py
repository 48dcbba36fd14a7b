"""Demonstrations of PiDog's gaits: randomised dogs walk them with noise, and the teacher says what it would have done.

The noise is that of FACTS for training: 0.01 rad on the targets of the joints and 0.1 rad/s on measured rates, times `noise`.
Actions are executed with noise and labelled without, so that what imitates the teacher learns to return from where noise has
brought it, and learns not to copy its last action.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condyle.apps.pidog import controller
from condyle.apps.pidog import training_robot as pidog_robot
from condyle.apps.pidog.gait_teacher import Teacher, teacher
from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError
from condyle.methods.learn.demonstrations import Demonstrations

Array = np.ndarray

POSITION_NOISE, RATE_NOISE = 0.01, 0.1  # rad, rad/s
FALLEN = 0.5  # cosine of the tilt
CHUNK = 64  # episodes of a call, for progress


def collect(
    gait: str,
    *,
    episodes: int = 256,
    seconds: float = 10.0,
    noise: float = 1.0,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Demonstrations:
    """Demonstrations of a gait (walk, trot, controller): `episodes` of `seconds` each, at random commands and phases."""
    if episodes < 1 or not 0.1 <= seconds <= 1e4 or not noise >= 0.0:
        raise ControlError(
            f"episodes must be 1 or more, seconds 0.1 or more, noise 0 or more; got {episodes}, {seconds:g} and {noise:g}"
        )
    guide, steps, rng = teacher(gait), round(seconds * controller.RATE), np.random.default_rng([seed, 4])
    loop = pidog_robot.dog_loop(numbers=guide.numbers)
    parts = []
    for start in range(0, episodes, CHUNK):
        parts.append(_episodes(loop, guide, min(CHUNK, episodes - start), steps, noise, rng, start, seed))
        progress(min(start + CHUNK, episodes), episodes)
    observations, actions, valid = (np.concatenate(each) for each in zip(*parts, strict=True))
    facts = {
        "noise": float(noise),
        "seed": seed,
        "episodes": episodes,
        "seconds": float(seconds),
        "fell": int((~valid[:, -1]).sum()),
    }
    return Demonstrations(
        observations.astype(np.float32),
        actions.astype(np.float32),
        valid,
        robot="pidog",
        gait=gait,
        rate=controller.RATE,
        observation=[(name, size) for name, size in controller.OBSERVATION],
        action=controller.ACTION,
        controller=guide.numbers,
        commands=guide.commands,
        facts=facts,
    )


def _episodes(
    loop: Loop, guide: Teacher, count: int, steps: int, noise: float, rng: np.random.Generator, first: int, seed: int
) -> tuple[Array, Array, Array]:
    """(observations, labels, whether the dog stands) of some episodes."""
    parameters = pidog_robot.randomized(rng, count)
    speed, turn = rng.uniform(0.3, 1.0, count) * guide.speed, rng.uniform(-1.0, 1.0, count) * guide.turn
    parameters |= {"command.speed": speed, "command.turn": turn}
    sample = np.sqrt(1.0 / controller.RATE)  # a density gives noise / sqrt(dt)
    if noise:
        parameters["imu.rate_noise"] = np.array(noise * RATE_NOISE * sample)
    x, phase = begin(loop, guide, rng.uniform(0.0, 1.0, count))
    # what the controller's clock and command will be; labels are by what they were
    k, n = np.arange(steps), guide.numbers
    phases = phase[:, None] + (k + 1) * (n["frequency"] / controller.RATE)
    speeds = np.minimum(speed[:, None], k * (n["acceleration"] / controller.RATE))
    executed = guide.actions(phases, speeds, np.where(k > 0, turn[:, None], 0.0))
    executed = guide.noisy(executed, rng, noise * POSITION_NOISE) if noise else executed
    ticks = steps * pidog_robot.EVERY
    out = loop.rollout(
        x,
        executed,
        ticks,
        seed=seed,
        robots=first + np.arange(count),
        parameters=parameters,
        record=["controller.seen", "controller.phase", "controller.command", "q"],
        every=pidog_robot.EVERY,
        freeze=True,
    )
    first_parts = loop.unpacked(x)
    observations, phases, commands = (
        np.concatenate([first_parts[name][:, None], out[name][:, :-1]], axis=1)
        for name in ("controller.seen", "controller.phase", "controller.command")
    )
    labels = guide.actions(phases[..., 0] + n["frequency"] / controller.RATE, commands[..., 0], commands[..., 1])
    stands = np.logical_and.accumulate(upright(out["q"]) > FALLEN, axis=1)
    stands = np.concatenate([np.ones((count, 1), bool), stands[:, :-1]], axis=1) & np.asarray(out.status.ok)[:, None]
    fine = np.isfinite(observations).all(axis=-1) & np.isfinite(labels).all(axis=-1)
    return np.where(fine[..., None], observations, 0.0), np.where(fine[..., None], labels, 0.0), stands & fine


def upright(q: Any) -> Array:
    """Cosine (...,) of the angle between the dog's z axis and the vertical."""
    x, y = q[..., 3], q[..., 4]
    found: Array = 1.0 - 2.0 * (x * x + y * y)
    return found


def begin(loop: Loop, guide: Teacher, phase: Any) -> tuple[Array, Array]:
    """(states of standing dogs whose clocks are at these phases, the phases)."""
    phase = np.asarray(phase, dtype=float)
    seen = np.tile(loop.initial["controller.seen"], (len(phase), 1))
    angle = 2.0 * np.pi * phase
    at = sum(size for _, size in controller.OBSERVATION[: [name for name, _ in controller.OBSERVATION].index("clock")])
    seen[:, at], seen[:, at + 1] = np.sin(angle), np.cos(angle)
    q = np.tile(pidog_robot.standing(guide.numbers), (len(phase), 1))
    return loop.state(q, **{"controller.phase": phase[:, None], "controller.seen": seen}), phase
