"""The birotor's reference trajectory and control law: a force for the position, an attitude for the force, torques for the
attitude, and the part of them that two rotors on gimbals can give.

Forces and torques of the rotors, in body axes about the centre of mass, by s = f sin(a) and c = f cos(a) of each, with the
rotors at (0, +-l, r) and drag k per thrust:

    Fx = s1 - s2      Fz = c1 + c2      Tx = l (c1 - c2) - k (s1 + s2)      Ty = r Fx      Tz = -l (s1 + s2) - k (c1 - c2)

Four numbers for six: Fy is always zero, and Fx comes with Ty. The law computes (Fz, Tx, Ty, Tz), and allows for the Fx of the
trajectory.

Hovering needs the whole thrust vertical, through the centre of mass: a roll leaves a side force that nothing balances, and with
the rotors 0.121 m above the centre of mass a pitch swings back like a pendulum. Level, at any heading, is the only attitude to
hover in. A tilt can be held while it accelerates, tan(tilt) = a / g, so the trajectory has a circle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import pi
from typing import Any

import numpy as np

from condyle.demos.profiles import smooth, smooth_integral
from condyle.dynamics.energy import center_of_mass, composite_inertias, momentum, total_mass
from condyle.dynamics.kinematics import frame_pose, poses
from condyle.robot.library.birotor import DRAG, SERVO_LAG, SPIN, THRUST
from condyle.robot.model import Link, Model
from condyle.robot.spatial import cross, vector
from condyle.tape.function import Function, function

Array = Any

ROTORS = ("thrust_1", "thrust_2")
GIMBALS = ("tilt_1", "tilt_2")
POSITION_GAIN, VELOCITY_GAIN = 4.0, 3.4  # 1/s^2 and 1/s
ATTITUDE_GAIN, RATE_GAIN = np.array([64.0, 49.0, 16.0]), np.array([14.0, 11.0, 7.0])  # 1/s^2 and 1/s
MAX_LATERAL_ACCELERATION = 6.0  # m/s^2: a tilt of 31 degrees
MIN_UPRIGHT = 0.3  # cosine of the tilt beyond which more thrust does not compensate it
GIMBAL_LAG = 0.05  # s, which the law makes of the servos' own by commanding more
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


def rotor_geometry(model: Model) -> tuple[float, float]:
    """(l, r): how far the rotors are to the side of the centre of mass, and above it, m."""
    q = model.neutral()
    away = frame_pose(model, q, ROTORS[0]).p - center_of_mass(model, q)
    return float(away[1]), float(away[2])


def moments_of_inertia(model: Model) -> np.ndarray:
    """The moments about the centre of mass with the gimbals at zero, kg m^2."""
    found: np.ndarray = np.diag(np.asarray(composite_inertias(model, model.neutral())[0].I_com, dtype=float))
    return found


def allocation(model: Model) -> np.ndarray:
    """(6, 4): force and torque for (s1, c1, s2, c2)."""
    side, up = rotor_geometry(model)
    k = DRAG
    columns = [[1.0, 0.0, 0.0, -k, up, -side], [0.0, 0.0, 1.0, side, 0.0, -k]]
    columns += [[-1.0, 0.0, 0.0, -k, -up, -side], [0.0, 0.0, 1.0, -side, 0.0, k]]
    return np.array(columns).T


def rotor_components(model: Model, lift: Any, torque: Array) -> list[tuple[Any, Any]]:
    """(s, c) of both rotors that give this Fz and these torques: the four equations above, solved."""
    side, up = rotor_geometry(model)
    scale = 1.0 / (side * side + DRAG * DRAG)
    ahead = torque[1] * (1.0 / up)  # s1 - s2
    apart = (side * torque[0] - DRAG * torque[2]) * scale  # c1 - c2
    turning = -(side * torque[2] + DRAG * torque[0]) * scale  # s1 + s2
    return [(0.5 * (turning + sign * ahead), 0.5 * (lift + sign * apart)) for sign in (1.0, -1.0)]


def law(model: Model, q: Array, v: Array, wanted: Array) -> dict[str, Array]:
    """Thrusts, N, and commands to the gimbals, rad, for a state and a reference of 18 numbers (`references`)."""
    position, velocity, acceleration, jerk, snap = (wanted[i : i + 3] for i in range(0, 15, 3))
    heading, yaw_rate, yaw_acceleration = wanted[15], wanted[16], wanted[17]
    R = poses(model, q)[0].R
    mass, I, g = total_mass(model), moments_of_inertia(model), np.array(model.gravity)
    up = rotor_geometry(model)[1]

    # angular acceleration of the trajectory alone, and the forward force that comes with it
    planned = acceleration - g
    change = cross(planned, snap) * (1.0 / (planned @ planned)) + vector(0.0, 0.0, yaw_acceleration)
    change = R.T @ change
    forward = change[1] * (I[1] / up)

    # the centre of mass, not the root, and its velocity in the world
    off = position - center_of_mass(model, q)
    slow = velocity - momentum(model, q, v)[:3] * (1.0 / mass)
    limit = np.array([MAX_LATERAL_ACCELERATION] * 3)
    asked = np.minimum(np.maximum(acceleration + POSITION_GAIN * off + VELOCITY_GAIN * slow, -limit), limit)
    force = asked - g - R[:, 0] * (forward / mass)

    # the attitude whose z axis is along the force, with the wanted heading
    strength = np.sqrt(force @ force)
    z = force * (1.0 / strength)
    ahead = vector(np.cos(heading), np.sin(heading), 0.0)
    across = cross(z, ahead)
    wide = np.sqrt(across @ across)
    y = across * (1.0 / wide)
    x = cross(y, z)
    R_wanted = np.array([x, y, z]).T

    # angular velocity of that attitude, with the thrust along the present z axis
    now = (force @ R[:, 2]) * R[:, 2] + g
    hurry = jerk + POSITION_GAIN * slow + VELOCITY_GAIN * (acceleration - now)
    tipping = (hurry - (hurry @ z) * z) * (1.0 / strength)
    about_z = -(x @ (cross(tipping, ahead) + cross(z, yaw_rate * vector(-ahead[1], ahead[0], 0.0)))) * (1.0 / wide)
    rate = R.T @ (cross(z, tipping) + about_z * z)

    # torques for the attitude
    E = R_wanted.T @ R
    error = 0.5 * vector(E[2, 1] - E[1, 2], E[0, 2] - E[2, 0], E[1, 0] - E[0, 1])
    w = v[3:6]
    torque = I * (change - ATTITUDE_GAIN * error - RATE_GAIN * (w - rate)) + cross(w, I * w)

    # rotors: each gives the part of its force that lies along its present axis
    thrusts, commands = [], []
    upright = np.maximum(R[2, 2], MIN_UPRIGHT)
    lift = (mass * (asked - g)[2] - torque[1] * (R[2, 0] / up)) / upright
    for (s, c), name in zip(rotor_components(model, lift, torque), GIMBALS, strict=True):
        a = q[gimbal(model, name).q.start]
        thrusts.append(np.minimum(np.maximum(s * np.sin(a) + c * np.cos(a), THRUST[0]), THRUST[1]))
        command = a + (np.arctan2(s, c) - a) * (SERVO_LAG / GIMBAL_LAG)
        commands.append(np.minimum(np.maximum(command, -GIMBAL_REACH), GIMBAL_REACH))
    return {"thrusts": vector(*thrusts), "commands": vector(*commands)}


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
