"""Policies that imitate PiDog's gaits: their files, their tasks for training further, and how they walk.

A task "imitate-trot" is PiDog's walking task with the controller of the gait's teacher (gait_teacher.py), at the gait's commands:

    condyle collect pidog --gait trot -o trot.cdd
    condyle imitate trot.cdd -o clone.cdp
    condyle train pidog --task imitate-trot --init clone.cdp -o trot.cdp
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from condyle import __version__
from condyle.apps.pidog import controller
from condyle.apps.pidog import training_robot as pidog_robot
from condyle.apps.pidog import walk_task as pidog
from condyle.apps.pidog.gait_teacher import servo_targets, teacher
from condyle.apps.pidog.kinematics import FEET
from condyle.apps.pidog.metrics import gait_metrics
from condyle.methods.learn.demonstrations import Demonstrations
from condyle.methods.learn.imitation import Cloned, answers
from condyle.methods.learn.policy_file import PolicyFile
from condyle.methods.learn.task import Task
from condyle.robot.library.pidog import FOOT_RADIUS

Array = np.ndarray

# m/s: the manufacturer's walk as it is; its trot at a part of its steps, with all of them it falls
SPEEDS = {"walk": 0.0517, "trot": 0.2, "controller": 0.22}
WIDTH = 0.4  # of the speed: an error at which fine-tuning is rewarded by 1/e
SETTLED = 1.0  # s: what a dog does before is not measured


def imitation_task(gait: str) -> Task:
    """The task of training a policy further that imitates a gait."""
    guide = teacher(gait)
    return replace(
        pidog.WALK,
        name=f"imitate-{gait}",
        summary=f"walk straight, beginning with a policy that imitates the {gait}",
        make=partial(pidog.make, numbers=guide.numbers, speed=SPEEDS[gait], turn=0.0, width=WIDTH * SPEEDS[gait]),
        iterations=100,
        # a small rate at first: the steps of Adam begin at their full size, and would undo the imitation
        hyperparameters={**pidog.WALK.hyperparameters, "envs": 1024, "initial_std": 0.1, "learning_rate": 1e-4},
        controller=guide.numbers,
        commands=guide.commands,
    )


IMITATE_WALK, IMITATE_TROT = imitation_task("walk"), imitation_task("trot")
IMITATE_CONTROLLER = imitation_task("controller")


def cloned_file(data: Demonstrations, cloned: Cloned, epochs: int, seed: int, seconds: float) -> PolicyFile:
    """The file of a policy that imitates demonstrations."""
    return PolicyFile(
        cloned.policy,
        data.robot,
        f"imitate-{data.gait}",
        data.rate,
        data.observation,
        data.action,
        controller=data.controller,
        commands=data.commands,
        training={
            "seed": seed,
            "steps": data.count * epochs,
            "iterations": epochs,
            "seconds": round(seconds, 3),
            "condyle": __version__,
            "imitates": data.gait,
            "noise": data.facts.get("noise"),
        },
        score={"held_out": cloned.held_out},
    )


def joint_error(data: Demonstrations, policy: Any) -> float:
    """Root mean square of the difference of joint targets, degrees, between a policy and the teacher on demonstrations."""
    ours, theirs = (servo_targets(data.controller, a)[data.valid] for a in (answers(policy, data.observations), data.actions))
    return float(np.degrees(np.sqrt(np.mean(np.square(ours - theirs)))))


def walked(
    gait: str, policy: Any, *, robots: int = 200, seconds: float = 10.0, seed: int = 1, env: Any = None
) -> dict[str, float]:
    """How randomised dogs walk with a policy, or with the teacher itself (None), at the task's speed.

    "error": degrees rms of joint targets against the teacher's at the same clock; "falls": part of the dogs; the others are means
    over dogs that did not fall: "speed" m/s, "slip" of the way, "lift" m of the lowest foot, "heading" rad rms after the time.
    """
    env = IMITATION[gait].make(robots, seed=seed) if env is None else env
    env.reset(seed=seed)
    steps = round(seconds * controller.RATE)
    record = {"torso": _torso, "feet": _feet, "slide": _slide, "forces": _forces}
    if policy is None:
        found, actions = _teacher_rollout(gait, env, steps, record)
    else:
        rollouts = env.rollout(policy, steps, deterministic=True, record=record)
        found, actions = rollouts, rollouts.actions
    guide = teacher(gait)
    wanted = labels(gait, found.observations) if found.observations is not None else actions
    difference = servo_targets(guide.numbers, actions) - servo_targets(guide.numbers, wanted)
    ended = np.cumsum(found.terminated, axis=1) > 0
    fell = ended[:, -1]
    out = {
        "error": float(np.degrees(np.sqrt(np.mean(np.square(difference[~ended]))))),
        "falls": float(fell.mean()),
        "seconds": float((~ended).sum(axis=1).mean() / controller.RATE),
    }
    if fell.all():
        return out | dict.fromkeys(("speed", "slip", "lift", "heading", "cost"), float("nan"))
    start, keep = round(SETTLED * controller.RATE), ~fell
    torso = found["torso"][keep, start:]
    feet, slide, forces = (found[name][keep, start:].reshape(*torso.shape[:2], 4, 3) for name in ("feet", "slide", "forces"))
    metrics = gait_metrics(
        1.0 / controller.RATE,
        feet,
        forces,
        torso[..., :3],
        torso[..., 3:].reshape(*torso.shape[:2], 3, 3),
        mass=0.629,
        slip_velocities=slide,
        ground_height=pidog_robot.rough(feet[..., 0], feet[..., 1]),
        foot_radius=FOOT_RADIUS,
    )
    return out | {
        "speed": float(metrics.speed.mean()),
        "slip": float(metrics.slip_ratio[np.isfinite(metrics.slip_ratio)].mean()),
        "lift": float(np.median(metrics.lift, axis=0).min()),
        "heading": float(np.sqrt(np.mean(np.square(metrics.turn)))),
    }


def labels(gait: str, observations: Array) -> Array:
    """What the teacher would do at these observations: clock and command are among them."""
    guide, at = teacher(gait), {}
    start = 0
    for name, size in controller.OBSERVATION:
        at[name] = observations[..., start : start + size]
        start += size
    phase = np.arctan2(at["clock"][..., 0], at["clock"][..., 1]) / (2.0 * np.pi) + guide.numbers["frequency"] / controller.RATE
    return guide.actions(phase, at["command"][..., 0] / guide.numbers["speed_scale"], at["command"][..., 1])


def _teacher_rollout(gait: str, env: Any, steps: int, record: Any) -> tuple[Any, Array]:
    """A rollout of the teacher itself, whose actions depend on clock and time alone."""
    guide, k = teacher(gait), np.arange(steps)
    phase = env["controller.phase"].reshape(-1, 1) + (k + 1) * (guide.numbers["frequency"] / controller.RATE)
    speed = np.minimum(SPEEDS[gait], k * (guide.numbers["acceleration"] / controller.RATE))
    actions = guide.actions(phase, speed, 0.0).astype(env.dtype)
    return env.rollout(actions, record=record), actions


def _torso(s: Any) -> Any:
    pose = s.x.frame_pose("torso")
    return np.concatenate([pose.p, pose.R.ravel()])


def _feet(s: Any) -> Any:
    return np.concatenate([s.x.frame_pose(foot).p for foot in FEET])


def _slide(s: Any) -> Any:
    """Velocities of the points of the feet that touch the ground."""
    found = []
    for foot in FEET:
        v = s.x.frame_velocity(foot)
        found += [v.linear[0] - v.angular[1] * FOOT_RADIUS, v.linear[1] + v.angular[0] * FOOT_RADIUS, v.linear[2]]
    return np.array(found)


def _forces(s: Any) -> Any:
    return s.x.contact_forces.ravel()


IMITATION = {"walk": IMITATE_WALK, "trot": IMITATE_TROT, "controller": IMITATE_CONTROLLER}
