"""Teachers of PiDog: gaits as actions of its controller, so that what imitates them can be trained further and deployed.

A teacher has its own numbers of the controller (condyle/apps/pidog/controller.py): the clock has the period of the gait, the
controller's own steps are switched off, and eight actions place the feet. So every gait, feet over one cycle, is a function
of the clock and the command:

    action = (feet(phase) - centre) / foot_scale,    steps longer or shorter with the speed, left and right with the turn

The walk and the trot are the manufacturer's, at the speed 98 of its examples, in ticks of 10 ms; "controller" is the trot of
our controller with its own numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from condyle.apps.pidog import controller
from condyle.apps.pidog.gaits import INNER, gait_frames, ideal_advance, ticks, trot, walk
from condyle.apps.pidog.kinematics import feet_of
from condyle.apps.pidog.servos import TICK
from condyle.errors import ControlError
from condyle.robot.names import nearest

Array = np.ndarray

GAITS = ("walk", "trot", "controller")
SPEED = 98.0  # of the manufacturer's examples, 0 to 100
FOOT_SCALE = 0.025  # m per action
WIDTH = 0.098  # m between left and right feet
PLACES = 200  # of a cycle of the controller's trot


@dataclass(frozen=True)
class Teacher:
    """A gait: `feet` (n, 4, 2), x forward and z down from the hip in m, at n equal parts of a cycle; `speed` m/s of these steps.

    `turn`: rad/s at the largest difference of left and right steps, 0 for a gait that goes straight only.
    """

    name: str
    feet: Array
    speed: float
    turn: float
    numbers: Mapping[str, Any]

    @property
    def commands(self) -> dict[str, tuple[float, float]]:
        """Ranges of the commands it was made for."""
        return {"speed": (0.0, self.speed), "turn": (-self.turn, self.turn)}

    def actions(self, phase: Any, speed: Any, turn: Any) -> Array:
        """Actions (..., 11) at a phase of the clock, from 0 to 1, for a commanded speed, m/s, and turn, rad/s."""
        phase, speed, turn = np.broadcast_arrays(*(np.asarray(each, dtype=float) for each in (phase, speed, turn)))
        n = len(self.feet)
        at = (phase - np.floor(phase)) * n
        k, part = np.floor(at).astype(int) % n, (at - np.floor(at))[..., None, None]
        feet = self.feet[k] + part * (self.feet[(k + 1) % n] - self.feet[k])
        length, center = np.clip(speed / self.speed, -1.0, 1.0), np.repeat(np.asarray(self.numbers["center"]), 2)
        side = np.clip(turn / self.turn, -1.0, 1.0) if self.turn else np.zeros_like(turn)
        left, right = (length * (1.0 - (1.0 - INNER) * np.maximum(way * side, 0.0)) for way in (1.0, -1.0))
        x = (feet[..., 0] - center) * np.stack([left, right, left, right], axis=-1)
        up = np.repeat(np.asarray(self.numbers["depth"]), 2) - feet[..., 1]
        found = np.zeros((*phase.shape, len(controller.ACTION)))
        found[..., 0:8:2], found[..., 1:8:2] = x / self.numbers["foot_scale"], up / self.numbers["foot_scale"]
        return found

    def noisy(self, actions: Array, rng: np.random.Generator, deviation: float) -> Array:
        """The actions that move every joint's target by normal noise of `deviation` rad more."""
        angles = servo_targets(self.numbers, actions) + deviation * rng.standard_normal((*actions.shape[:-1], 8))
        feet = 1e-3 * feet_of(np.degrees(angles))
        found, scale = np.array(actions, dtype=float), self.numbers["foot_scale"]
        found[..., 0:8:2] = (-feet[..., 0] - np.repeat(np.asarray(self.numbers["center"]), 2)) / scale
        found[..., 1:8:2] = (np.repeat(np.asarray(self.numbers["depth"]), 2) - feet[..., 1]) / scale
        return found


def servo_targets(numbers: Mapping[str, Any], actions: Any) -> Array:
    """Servo angles (..., 8), rad, for actions of a teacher's controller: only the places of the feet count."""
    a = np.clip(np.asarray(actions, dtype=float), -numbers["action_limit"], numbers["action_limit"])
    scale, angles = numbers["foot_scale"], []
    for leg in range(4):
        x = numbers["center"][leg // 2] + scale * a[..., 2 * leg]
        z = numbers["depth"][leg // 2] - scale * a[..., 2 * leg + 1]
        angles += [(1.0 if leg % 2 == 0 else -1.0) * each for each in controller.leg_angles(x, z)]
    bound = numbers["angle_limit"]
    found: Array = np.clip(np.stack(angles, axis=-1), -bound, bound)
    return found


@cache
def teacher(gait: str) -> Teacher:
    """The teacher of a gait of GAITS."""
    if gait not in GAITS:
        raise ControlError(f"a gait to imitate is one of {', '.join(GAITS)}; got '{gait!s:.40}'{nearest(str(gait), GAITS)}")
    if gait == "controller":
        return _controller_teacher()
    cycle = walk() if gait == "walk" else trot()
    frames = gait_frames(gait, 1)
    # the cycle after one that brought the servos to its start
    angles = np.array(list(ticks(frames, SPEED, frames[-1])))
    feet = 1e-3 * feet_of(angles)
    feet[..., 0] *= -1.0  # y is backward there
    seconds = TICK * len(feet)
    speed = 1e-3 * ideal_advance(cycle) / seconds
    turn = (1.0 - INNER) * speed / WIDTH if gait == "walk" else 0.0
    return Teacher(gait, feet, speed, turn, _numbers(feet, 1.0 / seconds))


def _controller_teacher() -> Teacher:
    """The controller's own trot, at 0.22 m/s."""
    n, speed = controller.NUMBERS, 0.22
    phase = np.arange(PLACES) / PLACES
    feet = np.zeros((PLACES, 4, 2))
    for leg in range(4):
        hind = leg // 2
        along, up = controller.footpath(n, leg, phase)
        feet[:, leg, 0] = n["center"][hind] + n["gain"] * n["duty"][hind] / n["frequency"] * speed * along
        feet[:, leg, 1] = n["depth"][hind] - n["lift"][hind] * up
    return Teacher("controller", feet, speed, 0.0, _numbers(feet, n["frequency"]))


def _numbers(feet: Array, frequency: float) -> dict[str, Any]:
    """Numbers of the controller with which eight actions place the feet, and nothing else moves them."""
    middle = 0.5 * (feet[..., 0].min(axis=0) + feet[..., 0].max(axis=0))
    off = {"lift": [0.0, 0.0], "gain": 0.0, "heading_gain": 0.0, "heading_sum_gain": 0.0, "turn_limit": 0.0, "balance": [0.0] * 6}
    return {
        **controller.NUMBERS,
        **off,
        "frequency": frequency,
        "frequency_scale": 0.2 * frequency,
        "center": [float(middle[:2].mean()), float(middle[2:].mean())],
        "depth": [float(feet[:, :2, 1].max()), float(feet[:, 2:, 1].max())],
        "foot_scale": FOOT_SCALE,
    }
