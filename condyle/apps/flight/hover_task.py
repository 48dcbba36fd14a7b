"""A birotor with tilting rotors that holds a position in wind. The action changes thrusts and gimbal angles about hovering."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from condyle.apps.flight.vehicle import Vehicle
from condyle.apps.flight.wind import Wind
from condyle.methods.learn.env import Rollouts, VectorEnv
from condyle.methods.learn.task import Task
from condyle.robot.joints import rotation_of
from condyle.tape.array import array, where

DT, EVERY = 0.005, 2
THRUST, ANGLE = 0.4, 0.35  # an action of 1: part of the thrust of hovering, rad of a gimbal
RANGE, TILTED = 1.5, 0.3  # m from the position, and cosine of the tilt, at which an episode ends
RANDOMIZED = {"vehicle.thrust_factor": (0.9, 1.1), "wind.velocity": (-1.0, 1.0)}


@cache
def vehicle() -> Vehicle:
    """The birotor in wind."""
    return Vehicle("birotor", DT, wind=Wind((0.0, 0.0, 0.0)))


def command(x: Any, action: Any) -> Any:
    """Thrusts and angles for an action."""
    made = vehicle()
    n, hover = made.airframe.n, made.hover
    size = np.concatenate([THRUST * hover[:n], np.full(made.nu - n, ANGLE)])
    return hover + size * action


def observe(s: Any) -> Any:
    """Error of position, attitude, velocities in body axes, angles of the gimbals, and the last action."""
    R = rotation_of(s.x.q[3:7])
    return np.concatenate([s.x.q[:3], R.ravel(), s.x.v, s.x.q[7:], s.action])


def reward(s: Any) -> dict[str, Any]:
    """Near the position, level, calm, with little change of the commands, and not lost."""
    p, v, change = s.x.q[:3], s.x.v, s.action - s.previous_action
    return {
        "position": 0.5 * np.exp(-4.0 * (p @ p)) + 0.5 * np.exp(-60.0 * (p @ p)),  # wide, and narrow
        "level": 0.3 * rotation_of(s.x.q[3:7])[2, 2],
        "rates": -0.02 * (v[:6] @ v[:6]),
        "change": -0.02 * (change @ change),
        "lost": -20.0 * where(lost(s), 1.0, 0.0),
    }


def lost(s: Any) -> Any:
    """Whether it is too far away, or upside down."""
    p = s.x.q[:3]
    return (p @ p > RANGE**2) | (rotation_of(s.x.q[3:7])[2, 2] < TILTED)


def near(draw: Any) -> dict[str, Any]:
    """Near the position, tilted and moving a little."""
    tilt = draw.uniform(-0.15, 0.15, 2)
    quaternion = array([tilt[0], tilt[1], 0.0, 1.0])
    quaternion = quaternion / np.sqrt(quaternion @ quaternion)
    gimbals = vehicle().simulation.robot.nq - 7
    return {
        "q": np.concatenate([draw.uniform(-0.5, 0.5, 3), quaternion, draw.uniform(-0.1, 0.1, gimbals)]),
        "v": np.concatenate([draw.uniform(-0.3, 0.3, 6), np.zeros(gimbals)]),
    }


def make(num_envs: int, seed: int = 0, randomize: bool = True, dtype: Any = np.float32, **options: Any) -> VectorEnv:
    """The environment; further options are those of VectorEnv."""
    made = vehicle()
    return VectorEnv(
        made.loop(command, action=made.nu),
        observe,
        reward,
        lost,
        near,
        num_envs=num_envs,
        every=EVERY,
        time_limit=6.0,
        randomize=RANDOMIZED if randomize else None,
        clip=1.0,
        seed=seed,
        dtype=dtype,
        **options,
    )


def measure(rollouts: Rollouts) -> dict[str, float]:
    """Mean distance from the position in m, and episodes that ended early per 1,000 steps."""
    assert rollouts.observations is not None
    distance = np.sqrt(np.sum(rollouts.observations[..., :3].astype(float) ** 2, axis=-1))
    return {"distance": float(distance.mean()), "falls": 1000.0 * float(rollouts.terminated.mean())}


HOVER = Task(
    robot="birotor",
    name="hover",
    summary="hold a position in wind by two tilting rotors",
    make=make,
    iterations=200,
    hidden=(64, 64),
    measure=measure,
    observation=(("position", 3), ("attitude", 9), ("velocity", 8), ("gimbals", 2), ("action", 4)),
    action=("thrust_1", "thrust_2", "tilt_1", "tilt_2"),
    episode_seconds=6.0,
)
