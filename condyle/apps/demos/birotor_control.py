"""The birotor's reference trajectory, its geometric controller (condyle.apps.flight.geometric), and what rotors and servos do.

Level, at any heading, is the only attitude to hover in. A tilt can be held while it accelerates, tan(tilt) = a / g, so the
trajectory has a circle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import pi
from typing import Any

import numpy as np

from condyle.apps.demos.profiles import smooth, smooth_integral
from condyle.apps.flight import geometric
from condyle.apps.flight.airframe import Airframe, RotorData
from condyle.apps.flight.allocation import Allocation
from condyle.apps.flight.single_body import SingleBody, single_body
from condyle.dynamics.kinematics import frame_pose
from condyle.multibody.robot import Robot
from condyle.robot.library.birotor import DRAG, SERVO_LAG, SPIN, THRUST
from condyle.robot.model import Link, Model
from condyle.robot.spatial import vector
from condyle.tape.function import Function, function

Array = Any

ROTORS = ("thrust_1", "thrust_2")
GIMBALS = ("tilt_1", "tilt_2")
GIMBAL_REACH = 1.57  # rad

# the trajectory
START, FIRST, LAST = np.zeros(3), np.array([0.3, 0.6, 1.0]), np.array([1.0, 1.0, 1.0])  # m, of the centre of mass
RISE = (0.5, 2.8)  # s: begin and duration of the move to the first position
CIRCLE, RAMP, TURNS = (3.8, 3.8), 1.0, 2  # s: begin, and duration less one ramp; turns
RADIUS = 0.3  # m
QUARTER = (4.6, 2.4)  # s, a quarter turn of the heading
LEAVE = (8.9, 2.3)  # s, to the last position, turning back
SECONDS = 13.0
RATE = TURNS * 2.0 * pi / CIRCLE[1]  # rad/s, on the circle


def trajectory(t: Any) -> dict[str, Any]:
    """Position and heading: rise to the first position, a circle while the heading turns, to the last position."""
    angle = RATE * (smooth_integral(t, CIRCLE[0], RAMP) - smooth_integral(t, CIRCLE[0] + CIRCLE[1], RAMP))
    first, last = smooth(t, *RISE), smooth(t, *LEAVE)
    position = START + first * (FIRST - START) + last * (LAST - FIRST)
    position = position + RADIUS * np.array([np.sin(angle), 1.0 - np.cos(angle), 0.0 * t])
    return {"position": position, "heading": 0.5 * pi * (smooth(t, *QUARTER) - last)}


@cache
def _derivatives(plan: Callable[[Any], dict[str, Any]]) -> tuple[Function, ...]:
    """The trajectory and its first four derivatives, compiled."""
    orders = [function(plan, t=())]
    for _ in range(4):
        orders.append(orders[-1].jacobian())
    return tuple(orders)


def references(plan: Callable[[Any], dict[str, Any]], t: np.ndarray) -> np.ndarray:
    """(times, 18): position and its first four derivatives, heading and its first two, as the law takes them."""
    parts = [tuple(order(t)) for order in _derivatives(plan)]
    headings = [np.asarray(heading)[:, None] for _, heading in parts[:3]]
    return np.concatenate([*[positions for positions, _ in parts], *headings], axis=-1)


def hover_reference(position: np.ndarray, heading: float) -> np.ndarray:
    """(18,) of staying here."""
    return np.concatenate([position, np.zeros(12), [heading, 0.0, 0.0]])


# -- the law


def body(model: Model) -> SingleBody:
    """The single body of the law, with the numbers of this file."""
    rotors = [
        RotorData(frame, joint, spin, DRAG, THRUST, servo_lag=SERVO_LAG)
        for frame, joint, spin in zip(ROTORS, GIMBALS, SPIN, strict=True)
    ]
    found = single_body(Airframe(Robot(model), tuple(rotors), "birotor"), -float(model.gravity[2]))
    return replace(found, angle=np.array([[-GIMBAL_REACH, GIMBAL_REACH]] * len(GIMBALS)))


def law(model: Model, q: Array, v: Array, wanted: Array) -> dict[str, Array]:
    """Thrusts, N, and commands to the gimbals, rad, for a state and a reference of 18 numbers (`references`)."""
    here = body(model)
    gains = geometric.Gains(
        geometric.POSITION_GAIN,
        geometric.VELOCITY_GAIN,
        np.array(geometric.ATTITUDE_GAIN),
        np.array(geometric.RATE_GAIN),
        here.mass,
        here.gravity,
    )
    command = geometric.law(Allocation(here), here.from_multibody(q, v), wanted, gains)
    return {"thrusts": command[: here.n], "commands": command[here.n :]}


def actuated(model: Model, q: Array, thrusts: Array, commands: Array) -> dict[str, Array]:
    """Torques of the servos, N m, and wrenches of the rotors at their frames, world axes, N and N m.

    A servo is a first-order lag: P (command - a) against the joint's damping D, P = D / t, limited to D times the largest speed.
    A rotor's drag is against its spin.
    """
    torques, wrenches = [], []
    for k, (name, rotor) in enumerate(zip(GIMBALS, ROTORS, strict=True)):
        joint = gimbal(model, name)
        torques.append(servo(commands[k] - q[joint.q.start], joint.damping, float(joint.limits.velocity or np.inf)))
        along = frame_pose(model, q, rotor).R[:, 2]
        wrenches.append(np.concatenate([along * thrusts[k], along * (thrusts[k] * (-SPIN[k] * DRAG))]))
    return {"u": vector(*torques), "wrenches": np.array(wrenches)}


def gimbal(model: Model, name: str) -> Link:
    """The link that this joint rotates."""
    return next(link for link in model.links if link.joint == name)


def servo(error: Any, damping: float, speed: float) -> Any:
    """Torque of a servo for command - angle, rad."""
    limit = damping * speed
    return np.minimum(np.maximum(error * (damping / SERVO_LAG), -limit), limit)
