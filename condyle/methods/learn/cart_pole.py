"""A cart with a pole: keep it upright, or swing it up from hanging. The action is the force on the cart."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from condyle.closed_loop.loop import Loop
from condyle.methods.learn.env import Rollouts, VectorEnv
from condyle.methods.learn.mirror import Mirror
from condyle.methods.learn.task import Task
from condyle.multibody.robot import load
from condyle.simulate.simulation import Simulation
from condyle.tape.array import array, where

DT, EVERY = 0.01, 2
FORCE = 10.0  # N: that of an action of 1
RANDOMIZED = {"cart.mass": (0.8, 1.2), "pole.mass": (0.05, 0.2), "slide.friction": (0.0, 0.5)}  # kg, kg, N
REACH, FALLEN = 2.2, 0.6  # m, rad: where an episode ends
HELD, HOLD = 0.2, 2.0  # rad, s: a pole that is so near to upright for so long is swung up


def make(
    num_envs: int,
    seed: int = 0,
    randomize: bool = True,
    dtype: Any = np.float32,
    *,
    swing_up: bool = False,
    anywhere: bool = False,
    **options: Any,
) -> VectorEnv:
    """The environment of one of both tasks; further options are those of VectorEnv.

    `anywhere`: half of the episodes of swinging up begin at any angle and rate, so that training sees upright poles at once.
    """
    loop = Loop(Simulation(load("cartpole"), DT), force, action=1)
    start = (anyhow if anywhere else hanging) if swing_up else upright
    return VectorEnv(
        loop,
        observe,
        swing_reward if swing_up else reward,
        left if swing_up else fallen,
        start,
        num_envs=num_envs,
        every=EVERY,
        time_limit=10.0,
        randomize=RANDOMIZED if randomize else None,
        variables={"held": 0.0, "succeeded": 0.0} if swing_up else None,
        update=hold if swing_up else None,
        clip=1.0,
        seed=seed,
        dtype=dtype,
        **options,
    )


def force(x: Any, action: Any) -> Any:
    """The force on the cart; the hinge has no motor."""
    return array([FORCE * action[0], 0.0])


def observe(s: Any) -> Any:
    """Place and speed of the cart, direction and rate of the pole."""
    (place, angle), (speed, rate) = s.x.q, s.x.v
    return array([place, np.sin(angle), np.cos(angle), 0.3 * speed, 0.2 * rate])


def reward(s: Any) -> dict[str, Any]:
    """Upright, in the middle, with little force."""
    return {
        "upright": 0.5 * (1.0 + np.cos(s.x.q[1])),
        "middle": -0.1 * s.x.q[0] ** 2,
        "rate": -0.005 * s.x.v[1] ** 2,
        "force": -0.01 * s.action[0] ** 2,
    }


def swing_reward(s: Any) -> dict[str, Any]:
    """Upright, in the middle; calm where it is upright only, since a hanging pole must be swung; and on the rail."""
    height = 0.5 * (1.0 + np.cos(s.x.q[1]))
    return {
        "upright": height,
        "middle": -0.05 * s.x.q[0] ** 2,
        "rate": -0.02 * height**4 * s.x.v[1] ** 2,
        "force": -0.01 * s.action[0] ** 2,
        "rail": -5.0 * where(left(s), 1.0, 0.0),
    }


def hold(s: Any, draw: Any) -> dict[str, Any]:
    """Seconds that the pole has been upright, and the time at which that was enough, 0 before."""
    held = where(np.cos(s.x.q[1]) > np.cos(HELD), s["held"] + s.dt, 0.0)
    enough = where(held > HOLD - 0.5 * s.dt, s.t, 0.0)
    return {"held": held, "succeeded": where(s["succeeded"] > 0.0, s["succeeded"], enough)}


def fallen(s: Any) -> Any:
    """Whether the pole fell, or the cart left the rail."""
    return (abs(s.x.q[1]) > FALLEN) | left(s)


def left(s: Any) -> Any:
    """Whether the cart left the rail."""
    return abs(s.x.q[0]) > REACH


def upright(draw: Any) -> dict[str, Any]:
    """Nearly upright and at rest."""
    return {"q": draw.uniform(-0.1, 0.1, 2), "v": draw.uniform(-0.2, 0.2, 2)}


def hanging(draw: Any) -> dict[str, Any]:
    """Hanging down."""
    return {"q": np.array([0.0, np.pi]) + draw.uniform(-0.1, 0.1, 2), "v": draw.uniform(-0.2, 0.2, 2)}


def anyhow(draw: Any) -> dict[str, Any]:
    """Hanging down, or at any angle with any rate."""
    q, v = hanging(draw)["q"], draw.uniform(-0.2, 0.2, 2)
    angle, rate = draw.uniform(-np.pi, np.pi), draw.uniform(-4.0, 4.0)
    hangs = draw.uniform() < 0.5
    return {"q": array([q[0], where(hangs, q[1], angle)]), "v": array([v[0], where(hangs, v[1], rate)])}


def measure(rollouts: Rollouts) -> dict[str, float]:
    """Mean height of the pole (1 upright, 0 hanging), and episodes that ended early per 1,000 steps."""
    return {"upright": rollouts.reward_terms["upright"], "falls": 1000.0 * float(rollouts.terminated.mean())}


MIRROR = Mirror((range(5), [-1.0, -1.0, 1.0, -1.0, -1.0]), ([0], [-1.0]))  # left and right exchanged

BALANCE = Task(
    robot="cartpole",
    name="balance",
    summary="keep the pole upright by the force on the cart",
    make=make,
    iterations=30,
    hidden=(32, 32),
    mirror=MIRROR,
    shac={"envs": 128, "iterations": 100, "horizon": 24, "gamma": 0.99, "initial_std": 0.3, "learning_rate": 2e-3, "decay": 500},
    measure=measure,
    observation=(("place", 1), ("direction", 2), ("speed", 1), ("rate", 1)),
    action=("slide",),
    episode_seconds=10.0,
)
SWING_UP = Task(
    robot="cartpole",
    name="swing-up",
    summary="swing the pole up from hanging, and keep it upright",
    make=partial(make, swing_up=True),
    iterations=250,
    hidden=(64, 64),
    training={"anywhere": True},
    mirror=MIRROR,
    # two seconds, so that a gradient reaches from the force to the pole above
    shac={"envs": 128, "iterations": 500, "horizon": 96, "gamma": 0.99, "initial_std": 0.5, "learning_rate": 5e-3, "decay": 500}
    | {"robot_bound": 3.0, "critic_epochs": 8},
    measure=measure,
    observation=(("place", 1), ("direction", 2), ("speed", 1), ("rate", 1)),
    action=("slide",),
    episode_seconds=10.0,
)
