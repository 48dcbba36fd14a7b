"""How the birotor is flown: a force for where it should be, an attitude for the force, couples for the attitude, and what of
it two rotors on gimbals can give.

Forces and couples of the rotors, in body axes about the centre of mass, by s = f sin(a) and c = f cos(a) of each, with the
rotors at (0, +-l, r) and drag k per thrust:

    Fx = s1 - s2      Fz = c1 + c2      Tx = l (c1 - c2) - k (s1 + s2)      Ty = r Fx      Tz = -l (s1 + s2) - k (c1 - c2)

Four numbers for six: Fy is always zero, and Fx comes with Ty. The law asks for (Fz, Tx, Ty, Tz), and allows for the Fx
that the plan will bring.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from condyle.dynamics.energy import center_of_mass, composite_inertias, momentum, total_mass
from condyle.dynamics.kinematics import frame_pose, poses
from condyle.multibody.robot import Robot
from condyle.robot.library.birotor import DRAG, SERVO_LAG, SPIN, THRUST
from condyle.robot.model import Link, Model
from condyle.robot.spatial import cross, vector
from condyle.tape.function import Function

Array = Any

ROTORS = ("thrust_1", "thrust_2")
GIMBALS = ("tilt_1", "tilt_2")
BY_PLACE, BY_VELOCITY = 4.0, 3.4  # 1/s^2 and 1/s
BY_ATTITUDE, BY_RATE = np.array([64.0, 49.0, 16.0]), np.array([14.0, 11.0, 7.0])  # 1/s^2 and 1/s
MOST_SIDEWAYS = 6.0  # m/s^2: it does not ask for more tilt than 31 degrees
LEAST_UPRIGHT = 0.3  # cosine of the tilt beyond which more thrust no longer makes up for it
GIMBAL_LAG = 0.05  # s, which the law makes of the servos' own by asking for more
GIMBAL_REACH = 1.57  # rad


def rotor_geometry(model: Model) -> tuple[float, float]:
    """(l, r): how far the rotors are to the side of the centre of mass, and above it, m."""
    q = model.neutral()
    away = frame_pose(model, q, ROTORS[0]).p - center_of_mass(model, q)
    return float(away[1]), float(away[2])


def whole_inertia(model: Model) -> np.ndarray:
    """The moments about the centre of mass with the gimbals at zero, kg m^2."""
    found: np.ndarray = np.diag(np.asarray(composite_inertias(model, model.neutral())[0].I_com, dtype=float))
    return found


def allocation(model: Model) -> np.ndarray:
    """(6, 4): force and couple for (s1, c1, s2, c2)."""
    side, up = rotor_geometry(model)
    k = DRAG
    columns = [[1.0, 0.0, 0.0, -k, up, -side], [0.0, 0.0, 1.0, side, 0.0, -k]]
    columns += [[-1.0, 0.0, 0.0, -k, -up, -side], [0.0, 0.0, 1.0, -side, 0.0, k]]
    return np.array(columns).T


def shares(model: Model, lift: Any, couple: Array) -> list[tuple[Any, Any]]:
    """(s, c) of both rotors that give this Fz and these couples: the four equations above, solved."""
    side, up = rotor_geometry(model)
    scale = 1.0 / (side * side + DRAG * DRAG)
    ahead = couple[1] * (1.0 / up)  # s1 - s2
    apart = (side * couple[0] - DRAG * couple[2]) * scale  # c1 - c2
    turning = -(side * couple[2] + DRAG * couple[0]) * scale  # s1 + s2
    return [(0.5 * (turning + sign * ahead), 0.5 * (lift + sign * apart)) for sign in (1.0, -1.0)]


def law(model: Model, q: Array, v: Array, wanted: Array) -> dict[str, Array]:
    """Thrusts, N, and commands to the gimbals, rad, for a state and a reference of 18 numbers, see birotor_plan.py."""
    place, velocity, acceleration, jerk, snap = (wanted[i : i + 3] for i in range(0, 15, 3))
    heading, turning, hastening = wanted[15], wanted[16], wanted[17]
    R = poses(model, q)[0].R
    mass, I, g = total_mass(model), whole_inertia(model), np.array(model.gravity)
    up = rotor_geometry(model)[1]

    # how the plan alone would have its rate change, and the forward force that comes with that
    planned = acceleration - g
    change = cross(planned, snap) * (1.0 / (planned @ planned)) + vector(0.0, 0.0, hastening)
    change = R.T @ change
    forward = change[1] * (I[1] / up)

    # the centre of mass, not the root, and its velocity in the world
    off = place - center_of_mass(model, q)
    slow = velocity - momentum(model, q, v)[:3] * (1.0 / mass)
    most = np.array([MOST_SIDEWAYS] * 3)
    asked = np.minimum(np.maximum(acceleration + BY_PLACE * off + BY_VELOCITY * slow, -most), most)
    force = asked - g - R[:, 0] * (forward / mass)

    # the attitude whose z axis is the force, with the heading asked for
    strength = np.sqrt(force @ force)
    z = force * (1.0 / strength)
    ahead = vector(np.cos(heading), np.sin(heading), 0.0)
    across = cross(z, ahead)
    wide = np.sqrt(across @ across)
    y = across * (1.0 / wide)
    x = cross(y, z)
    R_wanted = np.array([x, y, z]).T

    # how fast that attitude turns, with the thrust along the z axis as it is now
    now = (force @ R[:, 2]) * R[:, 2] + g
    hurry = jerk + BY_PLACE * slow + BY_VELOCITY * (acceleration - now)
    tipping = (hurry - (hurry @ z) * z) * (1.0 / strength)
    about_z = -(x @ (cross(tipping, ahead) + cross(z, turning * vector(-ahead[1], ahead[0], 0.0)))) * (1.0 / wide)
    rate = R.T @ (cross(z, tipping) + about_z * z)

    # couples
    E = R_wanted.T @ R
    error = 0.5 * vector(E[2, 1] - E[1, 2], E[0, 2] - E[2, 0], E[1, 0] - E[0, 1])
    w = v[3:6]
    couple = I * (change - BY_ATTITUDE * error - BY_RATE * (w - rate)) + cross(w, I * w)

    # rotors: each gives the part of its share that lies along its thrust as it is now
    thrusts, commands = [], []
    upright = np.maximum(R[2, 2], LEAST_UPRIGHT)
    lift = (mass * (asked - g)[2] - couple[1] * (R[2, 0] / up)) / upright
    for (s, c), name in zip(shares(model, lift, couple), GIMBALS, strict=True):
        a = q[gimbal(model, name).q.start]
        thrusts.append(np.minimum(np.maximum(s * np.sin(a) + c * np.cos(a), THRUST[0]), THRUST[1]))
        command = a + (np.arctan2(s, c) - a) * (SERVO_LAG / GIMBAL_LAG)
        commands.append(np.minimum(np.maximum(command, -GIMBAL_REACH), GIMBAL_REACH))
    return {"thrusts": vector(*thrusts), "commands": vector(*commands)}


def actuated(model: Model, q: Array, thrusts: Array, commands: Array) -> dict[str, Array]:
    """Torques of the servos, N m, and wrenches of the rotors at their frames, world axes, N and N m.

    A servo is a lag of the first order: P (command - a) against the joint's damping D, P = D / t; the torque that would move
    it faster than it can is not given. A rotor's drag is against its spin.
    """
    torques, wrenches = [], []
    for k, (name, rotor) in enumerate(zip(GIMBALS, ROTORS, strict=True)):
        joint = gimbal(model, name)
        torques.append(servo(commands[k] - q[joint.q.start], joint.damping, float(joint.limits.velocity or np.inf)))
        along = frame_pose(model, q, rotor).R[:, 2]
        wrenches.append(np.concatenate([along * thrusts[k], along * (thrusts[k] * (-SPIN[k] * DRAG))]))
    return {"u": vector(*torques), "wrenches": np.array(wrenches)}


def gimbal(model: Model, name: str) -> Link:
    """The link that this joint turns."""
    return next(link for link in model.links if link.joint == name)


def servo(away: Any, damping: float, speed: float) -> Any:
    """The torque of a servo that is `away` from its command, rad."""
    most = damping * speed
    return np.minimum(np.maximum(away * (damping / SERVO_LAG), -most), most)


@cache
def compiled(robot: Robot) -> tuple[Function, Function]:
    """(law, actuated) as machine code."""
    return robot.function(law, wanted=18), robot.function(actuated, thrusts=2, commands=2)
