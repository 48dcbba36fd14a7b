"""PiDog is at rest when it is pushed: the task "stand", and trials of it.

    found = trials(1000, 0.2)                           # dogs of all kinds, kicked with 0.2 N s: which of them stand afterwards
    found = trials(1000, 0.2, policy=file.policy)

The controller is that of walking, `controller.py`, with a command of zero and a stance of its own, so a policy of
this task is deployed as one of walking is. Legs have no joint sideways: against a push from the side the dog can only make its
legs longer or shorter, against one from the front or behind it can step, too.
"""

from __future__ import annotations

from functools import cache
from math import pi
from typing import Any

import numpy as np

from condyle.apps.pidog import controller
from condyle.apps.pidog import training_robot as dog
from condyle.apps.pidog.rewards import fallen
from condyle.apps.pidog.walk_task import WALK
from condyle.blocks.disturbances import WrenchPulse
from condyle.blocks.joints import combined
from condyle.closed_loop.loop import Loop
from condyle.methods.learn.env import Rollouts, VectorEnv
from condyle.methods.learn.mirror import Mirror
from condyle.methods.learn.task import Task
from condyle.tape.array import array, where

Array = np.ndarray

# a low and long stance; more of a step for an action than in walking
NUMBERS: dict[str, Any] = {
    **controller.NUMBERS,
    "depth": [0.088, 0.088],
    "center": [0.022, -0.022],
    "balance": [0.0] * 6,
    "foot_scale": 0.015,
}
DT = 0.004  # s of a tick: longer than for walking, feet stay where they are
KICK, KICK_TIME, KICK_START, PERIOD = 0.6, 0.05, 1.0, 3.0  # N s at most, s, s, s
SLOW, SLOW_TIME, SLOW_START = 1.0, 1.0, 2.0  # N at most, s, s
SECONDS, TRIAL = 6.0, 4.0  # s: of an episode of the training, of a trial
UPRIGHT, HEIGHT, STILL = 0.978, 0.070, 0.15  # at the end of a trial: cosine of the tilt, m of the torso, m/s
END = 25  # policy steps at the end in which all of that holds


@cache
def loop(balance: bool = False) -> Loop:
    """The standing dog with kicks and slow pushes of its torso; `balance`: gains of the controller's balance are a parameter."""
    inner = dog.dog_loop(dog.world(dt=DT), numbers=NUMBERS, tuned=("balance",) if balance else (), pushes=False)
    kick = WrenchPulse("torso", np.zeros(6), KICK_START, KICK_TIME, period=PERIOD, name="kick")
    slow = WrenchPulse("torso", np.zeros(6), SLOW_START, SLOW_TIME, period=PERIOD, name="slow")
    return Loop(
        inner.world, lambda x, action: combined(inner.function(x, action), kick(x), slow(x)), action=len(controller.ACTION)
    )


def level_push(size: Any, direction: Any) -> Any:
    """The wrench of a horizontal force."""
    return np.array([size * np.cos(direction), size * np.sin(direction), 0.0, 0.0, 0.0, 0.0])


def make(
    num_envs: int,
    seed: int = 0,
    randomize: bool = True,
    dtype: Any = np.float32,
    *,
    impulse: float | None = None,
    force: float | None = None,
    balance: Any = None,
    **options: Any,
) -> VectorEnv:
    """The environment. `impulse` (N s) of the kicks and `force` (N) of the slow pushes: for all robots, in place of random ones
    up to KICK and SLOW. `balance`: gains of the controller's balance."""
    drawn: dict[str, Any] = {n: v for n, v in dog.randomization().items() if not n.startswith("push.")} if randomize else {}
    # shared values, so that other sizes do not compile again
    shared: dict[str, Any] = {"impulses": _range(impulse, KICK), "forces": _range(force, SLOW)}
    drawn["kick.wrench"] = lambda draw: level_push(draw.uniform(*draw["impulses"]) / KICK_TIME, draw.uniform(-pi, pi))
    drawn["slow.wrench"] = lambda draw: level_push(draw.uniform(*draw["forces"]), draw.uniform(-pi, pi))
    drawn["command.speed"] = (0.0, 0.0)
    if balance is not None:
        shared["balance"] = np.asarray(balance, dtype=float)
        drawn["controller.balance"] = lambda draw: draw["balance"]
    q0 = dog.standing(NUMBERS)

    def reset(draw: Any) -> dict[str, Any]:
        return {"q": dog.anywhere(draw, q0)}

    return VectorEnv(
        loop(balance is not None),
        lambda s: s["controller.seen"],
        reward,
        fallen,
        reset,
        num_envs=num_envs,
        every=dog.frame_ticks(DT),
        time_limit=SECONDS,
        privileged=privileged,
        randomize=drawn,
        shared=shared,
        seed=seed,
        dtype=dtype,
        **options,
    )


def _range(given: float | None, most: float) -> Array:
    return np.array([0.0, most] if given is None else [given, given])


def reward(s: Any) -> dict[str, Any]:
    """Upright, at its height, still; small and steady actions."""
    torso, twist = s.x.frame_pose("torso"), s.x.frame_velocity("torso")
    v, w, change = twist.linear, twist.angular, s.action - s.previous_action
    low = 20.0 * np.minimum(torso.p[2] - 0.090, 0.0)
    return {
        "alive": 1.0,
        "tilt": -4.0 * (1.0 - torso.R[2, 2] * torso.R[2, 2]),
        "low": -(low * low),
        "motion": -2.0 * (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]),
        "rate": -0.02 * (w[0] * w[0] + w[1] * w[1] + w[2] * w[2]),
        "action": -0.003 * sum(s.action * s.action),
        "change": -0.005 * sum(change * change),
        "torque": -0.5 * sum(s["servo.torque"] * s["servo.torque"]),
        "fall": -20.0 * where(fallen(s), 1.0, 0.0),
    }


def privileged(s: Any) -> Any:
    """For the critic: velocity, tilt, height, loads of the feet, the pushes and some parameters, each of about the size of 1."""
    torso, twist, forces = s.x.frame_pose("torso"), s.x.frame_velocity("torso"), s.x.contact_forces
    com = np.asarray(dog.robot().parameter("torso.com"), dtype=float)
    parts = [
        *[3.0 * v for v in twist.linear],
        *[0.5 * w for w in twist.angular],
        *[5.0 * torso.R[2, 0], 5.0 * torso.R[2, 1], 20.0 * (torso.p[2] - 0.095)],
        *[0.5 * forces[k][2] for k in range(4)],
        *[2.0 * s["torso.mass"], s["ground.friction"], 5.0 * s["servo.effort"], 30.0 * s["servo.delay"]],
        *[100.0 * (s["torso.com"][k] - com[k]) for k in range(2)],
        *[s["gravity"][k] for k in range(2)],
        *[0.2 * s["kick.wrench"][k] for k in range(2)],
        *[s["slow.wrench"][k] for k in range(2)],
        *[np.sin(2.0 * pi * s.t / PERIOD), np.cos(2.0 * pi * s.t / PERIOD)],
        *s["controller.seen"][:6],
    ]
    return array(parts)


_ORDER = [*range(9), 10, 9, 12, 11, *range(13, 33)]
_ODD = (1, 3, 5, 7, 18, 20, 22, 24)  # what changes its sign in a mirror


def _mirror() -> Mirror:
    """Left and right exchanged."""
    seen = WALK.mirror.observation
    signs = [-1.0 if k in _ODD else 1.0 for k in range(27)] + list(seen[1][:6])
    return Mirror(seen, WALK.mirror.action, (_ORDER, signs))


def measure(rollouts: Rollouts) -> dict[str, float]:
    """Falls of a robot in an episode."""
    return {"falls": float(rollouts.terminated.mean()) * SECONDS * controller.RATE}


def trials(
    count: int,
    impulse: float,
    policy: Any = None,
    *,
    force: float = 0.0,
    balance: Any = None,
    seed: int = 0,
    randomize: bool = True,
    dtype: Any = np.float64,
) -> Array:
    """Which of `count` dogs did not fall in TRIAL seconds with one kick and one slow push, and stand at rest at the end.

    Without a policy the pose is held, or with `balance` that of the controller's own balance.
    """
    env = make(count, seed, randomize, dtype, impulse=impulse, force=force, balance=balance)
    steps = round(TRIAL / env.dt)
    record = ["q", "v"]
    if policy is None:
        found = env.rollout(np.zeros((count, steps, env.action_size), dtype), record=record)
    else:
        found = env.rollout(policy, steps, deterministic=True, record=record)
    q, v = found["q"][:, -END:], found["v"][:, -END:]
    good = (1.0 - 2.0 * (q[..., 3] ** 2 + q[..., 4] ** 2) > UPRIGHT) & (q[..., 2] > HEIGHT)
    good &= np.abs(v[..., :3]).max(axis=-1) < STILL
    return np.asarray(good.all(axis=1) & ~found.terminated.any(axis=1))


STAND = Task(
    robot="pidog",
    name="stand",
    summary="stand at rest when pushed, with full randomisation and without joint angles",
    make=make,
    iterations=500,
    hidden=(64, 64),
    hyperparameters={"envs": 1024, "steps": 24, "initial_std": 0.3, "action_bound": 2.5},
    mirror=_mirror(),
    measure=measure,
    observation=WALK.observation,
    action=WALK.action,
    controller=NUMBERS,
    commands=WALK.commands,
    episode_seconds=SECONDS,
)
