"""What PiDog's walking tasks reward, and what their critic may know."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.apps.pidog.kinematics import FEET
from condyle.apps.pidog.training_robot import GRAVITY, robot
from condyle.robot.library.pidog import EFFORT, FOOT_RADIUS
from condyle.tape.array import array, where

LOADED = 0.3  # N: a foot that carries more is on the ground
CLEARANCE = 0.014  # m: how high a foot should be in the middle of its swing
SMOOTH = 0.08  # weight of one frame in the speed that is rewarded
SPEED_WIDTH = 1.0 / 12.0  # m/s
# of a policy step; of m/s, rad, N m rad/s, ... as each term says
WEIGHTS = {
    "speed": 2.0,
    "heading": 1.0,
    "alive": 0.5,
    "slip": 20.0,
    "lift": 300.0,
    "tilt": 6.0,
    "shake": 0.03,
    "bounce": 0.5,
    "sideways": 1.0,
    "energy": 0.03,
    "action": 0.01,
    "change": 0.03,
    "fall": 150.0,
}


class Motion:
    """What the true state of the dog says about its gait."""

    def __init__(self, s: Any, ground: Any) -> None:
        x = s.x
        torso = x.frame_pose("torso")
        self.R, self.height = torso.R, torso.p[2]
        self.up = self.R[2, 2]
        twist = x.frame_velocity("torso")
        self.linear, self.angular = twist.linear, twist.angular
        self.target = s.t * s["command.turn"]
        c, d = np.cos(self.target), np.sin(self.target)
        # heading beyond the commanded one, and velocity along it and to its left
        self.heading = np.arctan2(self.R[1, 0] * c - self.R[0, 0] * d, self.R[0, 0] * c + self.R[1, 0] * d)
        self.along = self.linear[0] * c + self.linear[1] * d
        self.left = self.linear[1] * c - self.linear[0] * d
        forces = x.contact_forces
        self.loads = [forces[k][2] for k in range(len(FEET))]
        self.clearance, self.slide = [], []
        for foot in FEET:
            p, v = x.frame_pose(foot).p, x.frame_velocity(foot)
            self.clearance.append(p[2] - FOOT_RADIUS - ground(p[0], p[1]))
            # of the point of the foot that touches the ground
            along, left = v.linear[0] - FOOT_RADIUS * v.angular[1], v.linear[1] + FOOT_RADIUS * v.angular[0]
            self.slide.append(np.sqrt(along * along + left * left + 1e-8))


def followed(s: Any, m: Motion) -> dict[str, Any]:
    """The variables "velocity", smoothed along the commanded heading and to its left, and "peak", after a policy step."""
    now = np.array([m.along, m.left])
    peaks = [where(load > LOADED, 0.0, np.maximum(s["peak"][k], m.clearance[k])) for k, load in enumerate(m.loads)]
    return {"velocity": s["velocity"] + SMOOTH * (now - s["velocity"]), "peak": np.array(peaks)}


def terms(s: Any, ground: Any, width: float = SPEED_WIDTH) -> dict[str, Any]:
    """The terms of the reward; `width`: the error of the speed, m/s, at which its term is 1/e.

    "peak" is how high each foot has been since it left the ground.
    """
    m = Motion(s, ground)
    w = WEIGHTS
    wanted = s["controller.command"][0]
    moving = np.minimum(abs(s["command.speed"]) * 20.0, 1.0)
    late = (s["velocity"][0] - wanted) * (1.0 / width)
    on_ground = [where(load > LOADED, 1.0, 0.0) for load in m.loads]
    slide = sum(c * v for c, v in zip(on_ground, m.slide, strict=True)) * 0.25
    # a foot comes down: how high it was
    steps = [
        where(p > 0.003, c * (np.minimum(p, CLEARANCE) - 0.5 * CLEARANCE), 0.0) for p, c in zip(s["peak"], on_ground, strict=True)
    ]
    power = abs(s["servo.torque"] * s.x.v[6:])
    change = s.action - s.previous_action
    return {
        "speed": w["speed"] * np.exp(-(late * late)),
        "heading": w["heading"] * np.exp(-((5.0 * m.heading) * (5.0 * m.heading))),
        "alive": w["alive"],
        "slip": -w["slip"] * np.minimum(slide, 0.5),
        "lift": w["lift"] * sum(steps) * moving,
        "tilt": -w["tilt"] * (1.0 - m.up * m.up),
        "shake": -w["shake"] * (m.angular[0] ** 2 + m.angular[1] ** 2),
        "bounce": -w["bounce"] * m.linear[2] ** 2,
        "sideways": -w["sideways"] * m.left * m.left,
        "energy": -w["energy"] * sum(power),
        "action": -w["action"] * sum(s.action * s.action),
        "change": -w["change"] * sum(change * change),
        "fall": -w["fall"] * where(fallen(s), 1.0, 0.0),
    }


def fallen(s: Any) -> Any:
    """Whether the torso is tilted by more than 60 degrees, or lower than a lying dog's."""
    torso = s.x.frame_pose("torso")
    return (torso.R[2, 2] < 0.5) | (torso.p[2] < 0.055)


def privileged(s: Any, ground: Any) -> Any:
    """For the critic: velocities, contacts, and the random parameters, each of about the size of 1."""
    m = Motion(s, ground)
    com = np.asarray(robot().parameter("torso.com"), dtype=float)
    mass = float(robot().parameter("torso.mass"))
    parts = [
        *[5.0 * m.along, 5.0 * m.left, 5.0 * m.linear[2], 3.0 * m.heading, 20.0 * (m.height - 0.11)],
        *[5.0 * m.R[2, 0], 5.0 * m.R[2, 1]],
        *[0.5 * load for load in m.loads],
        *[50.0 * h for h in m.clearance],
        *[5.0 * (s["torso.mass"] / mass - 1.0), s["ground.friction"], 3.0 * (s["servo.effort"] / EFFORT - 1.0)],
        *[s["servo.speed"] - 6.5, 30.0 * s["servo.dead_band"], 30.0 * s["servo.delay"], 30.0 * s["servo.backlash"]],
        *[100.0 * (s["torso.com"][k] - com[k]) for k in range(3)],
        *[s["gravity"][k] * (10.0 / GRAVITY) for k in range(2)],
        *[20.0 * s["horn.offset"][k] for k in range(8)],
        *[s["push.wrench"][k] for k in range(2)],
    ]
    return array(parts)


# signs and order of `privileged` in a mirror: left and right exchanged
_SWAP = (1, 0, 3, 2)
_SIGNS = [1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0]
PRIVILEGED_ORDER = [
    *range(7),
    *[7 + k for k in _SWAP],
    *[11 + k for k in _SWAP],
    *range(15, 27),
    *[27 + 2 * k + j for k in _SWAP for j in range(2)],
    35,
    36,
]
PRIVILEGED_SIGNS = [*_SIGNS, *[1.0] * 8, *[1.0] * 7, 1.0, -1.0, 1.0, 1.0, -1.0, *[-1.0] * 8, 1.0, -1.0]
assert len(PRIVILEGED_ORDER) == len(PRIVILEGED_SIGNS) == 37
