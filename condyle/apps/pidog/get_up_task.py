"""PiDog gets up from where it fell: the task "get-up", and trials of it.

    found = trials(1000, "side")                        # dogs of all kinds, dropped on a side: seconds until each stood, or nan
    found = trials(1000, "back", policy=file.policy)

The controller is condyle/apps/pidog/get_up.py: motions that were found by search, chosen by the IMU; the policy adds to them, and
without one they are played as they are. An episode begins with a dog that is dropped and lies for `get_up.WAIT`. It succeeds
when the dog has stood upright and at rest for STILL seconds, within LIMIT seconds after that.

All of the dog may touch the ground: torso, head, tail, legs and feet. The parts do not touch each other in the simulation; the
motions keep front and hind legs, which move in the same planes, apart.
"""

from __future__ import annotations

from functools import cache
from math import pi
from typing import Any

import numpy as np

from condyle.apps.pidog import get_up
from condyle.apps.pidog import training_robot as dog
from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError
from condyle.methods.learn.env import Rollouts, VectorEnv
from condyle.methods.learn.task import Task
from condyle.robot.names import nearest
from condyle.simulate.points import point_on
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Ground
from condyle.tape.array import where

Array = np.ndarray

POSES = {"belly": (0.0, 0.15), "side": (0.5 * pi, 0.15), "back": (pi, 0.15), "any": (0.0, 2.0)}  # roll and its spread, rad
DROP = 0.15  # m: height of the torso at the start
JOINT_SPREAD = 0.4  # rad
UPRIGHT, HEIGHT = 0.95, 0.08  # cosine of the tilt, m of the torso above the ground
SLOW, CALM = 0.15, 0.8  # m/s, rad/s: below both it is still
STILL, LIMIT = 1.0, 5.0  # s that it has to stand at rest, s in which it has to succeed
DT = 0.004  # s of a tick: longer than for walking, all of the body may touch the ground
SINGLE = 1e-3  # smoothing of contact in float32, where many contacts at once need it


def world(ground: Ground | None = None, smoothing: float | None = None, dt: float = DT) -> Simulation:
    """The dog, all of which may touch the ground."""
    robot = dog.robot()
    tail = point_on(robot.model, "tail", (-0.06, 0.0, 0.03), 0.004)
    return Simulation(robot, dt, dog.flat() if ground is None else ground, ["auto", tail], smoothing=smoothing)


@cache
def loop(single: bool = True) -> Loop:
    """The dog with the motions of condyle/apps/pidog/get_up.py; `single`: for float32."""
    return dog.dog_loop(world(smoothing=SINGLE if single else None), module=get_up, pushes=False)


def make(
    num_envs: int, seed: int = 0, randomize: bool = True, dtype: Any = np.float32, *, pose: str = "any", **options: Any
) -> VectorEnv:
    """The environment; `pose`: how the dogs are dropped, one of POSES."""
    if pose not in POSES:
        raise ControlError(f"PiDog is not dropped on '{pose!s:.40}'{nearest(pose, list(POSES))}")
    random = {name: value for name, value in dog.randomization().items() if not name.startswith("push.")}
    return VectorEnv(
        loop(np.dtype(dtype) == np.float32),
        observe,
        reward,
        None,
        _dropped(*POSES[pose]),
        num_envs=num_envs,
        every=dog.frame_ticks(DT),
        time_limit=get_up.WAIT + LIMIT,
        privileged=privileged,
        randomize=random if randomize else None,
        variables={"standing": 0.0, "succeeded": 0.0},
        update=update,
        seed=seed,
        dtype=dtype,
        **options,
    )


def observe(s: Any) -> Any:
    """What the controller gives the network."""
    return s["controller.seen"]


def privileged(s: Any) -> Any:
    """That, and what only a simulation knows: velocity, height, joints, friction and strength."""
    parameters = np.array([s["ground.friction"], 5.0 * s["servo.effort"], 10.0 * s["servo.delay"]])
    return np.concatenate([s["controller.seen"], s.x.v[:6], 10.0 * s.x.q[2:3], s.x.q[7:], 0.1 * s.x.v[6:], parameters])


def up(q: Any) -> Any:
    """Cosine of the tilt of the torso: the upward entry of its upward axis."""
    return 1.0 - 2.0 * (q[..., 3] ** 2 + q[..., 4] ** 2)


def stands(q: Any, v: Any) -> Any:
    """1 where the dog is upright, high and still, else 0; q and v of one dog or many."""
    linear = v[..., 0] ** 2 + v[..., 1] ** 2 + v[..., 2] ** 2
    angular = v[..., 3] ** 2 + v[..., 4] ** 2 + v[..., 5] ** 2
    good = [up(q) > UPRIGHT, q[..., 2] > HEIGHT, linear < SLOW**2, angular < CALM**2]
    found: Any = 1.0
    for each in good:
        found = where(each, found, 0.0)
    return found


def reward(s: Any) -> dict[str, Any]:
    """Upright, then high, then still; small and steady actions."""
    q, tilt = s.x.q, up(s.x.q)
    height = np.minimum(np.maximum((q[2] - 0.04) / 0.06, 0.0), 1.0)
    change = s.action - s.previous_action
    torque = s["servo.torque"]
    return {
        "upright": 0.5 * (1.0 + tilt),
        "height": where(tilt > 0.8, height, 0.0),
        "stands": stands(q, s.x.v),
        "action": -0.01 * sum(a * a for a in s.action),
        "change": -0.01 * sum(a * a for a in change),
        "torque": -0.5 * sum(t * t for t in torque),
    }


def update(s: Any, draw: Any) -> dict[str, Any]:
    """Seconds that it has stood, and the time at which that was enough, 0 before."""
    standing = where(stands(s.x.q, s.x.v) > 0.5, s["standing"] + s.dt, 0.0)
    enough = where(standing > STILL - 0.5 * s.dt, s.t, 0.0)
    return {"standing": standing, "succeeded": where(s["succeeded"] > 0.0, s["succeeded"], enough)}


def _dropped(middle: float, spread: float) -> Any:
    def reset(draw: Any) -> dict[str, Any]:
        noise, yaw = draw.normal(2), draw.uniform(-pi, pi)
        roll = where(draw.uniform() < 0.5, -1.0, 1.0) * middle + spread * noise[0]
        legs = np.radians(np.array(get_up.STAND)) + JOINT_SPREAD * draw.normal(len(get_up.STAND))
        legs = np.minimum(np.maximum(legs, -1.4), 1.4)
        place = np.array([0.0, 0.0, DROP])
        return {
            "q": np.concatenate([place, _rotation(yaw, 0.1 * noise[1], roll), legs]),
            "controller.angles": legs,
            "controller.from": legs,
        }

    return reset


def _rotation(yaw: Any, pitch: Any, roll: Any) -> Any:
    """The quaternion (x, y, z, w) of Rz(yaw) Ry(pitch) Rx(roll)."""
    (a, b, c), (x, y, z) = (tuple(f(0.5 * angle) for angle in (yaw, pitch, roll)) for f in (np.cos, np.sin))
    return np.array(
        [a * b * z - x * y * c, a * y * c + x * b * z, x * b * c - a * y * z, a * b * c + x * y * z],
    )


def measure(rollouts: Rollouts) -> dict[str, float]:
    """Part of the time that the dogs stand."""
    return {"stands": rollouts.reward_terms["stands"]}


def trials(
    count: int, pose: str = "any", policy: Any = None, *, seed: int = 0, randomize: bool = True, dtype: Any = np.float64
) -> Array:
    """Seconds after get_up.WAIT until each of `count` dogs had stood for STILL; nan where it did not within LIMIT."""
    env = make(count, seed, randomize, dtype, pose=pose)
    steps = env.max_episode_steps or 1
    if policy is None:
        found = env.rollout(np.zeros((count, steps, env.action_size), dtype), record=["succeeded"])
    else:
        found = env.rollout(policy, steps, deterministic=True, record=["succeeded"])
    at = found["succeeded"].reshape(count, steps).max(axis=1).astype(float)
    return np.where(at > 0.0, at - get_up.WAIT, np.nan)


GET_UP = Task(
    robot="pidog",
    name="get-up",
    summary="get up from lying on a side or on the back",
    make=make,
    iterations=200,
    hidden=(64, 64),
    hyperparameters={"envs": 512, "steps": 32, "initial_std": 0.3, "entropy": 0.002},
    measure=measure,
    observation=tuple((str(name), int(size)) for name, size in get_up.OBSERVATION),
    action=tuple(get_up.ACTION),
    controller=get_up.NUMBERS,
    episode_seconds=get_up.WAIT + LIMIT,
)
