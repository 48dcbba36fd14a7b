"""The birotor as one rigid body, as its flight controller sees it: formulas written by hand, to compare the robot with.

A state has 15 numbers: position of the centre of mass, its velocity in the world, quaternion (w, x, y, z), rate in the body,
two gimbal angles. All functions take batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.apps.demos.birotor_control import ROTORS, body
from condyle.apps.flight.allocation import allocation_matrix
from condyle.dynamics.energy import composite_inertias
from condyle.multibody.robot import Robot
from condyle.robot.library.birotor import DRAG, SPIN

Array = np.ndarray


def rotation(quaternion: Array) -> Array:
    """R of the body in the world, of a quaternion (w, x, y, z)."""
    w, x, y, z = np.moveaxis(quaternion, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(check, axis=-1) for check in rows], axis=-2)


def direction(at: Array, a: Array) -> Array:
    """Rz(atan2(p)) Rx(a) z: where a rotor at `at` from the centre of mass thrusts with its gimbal at `a`, in body axes."""
    azimuth = np.arctan2(at[1], at[0])
    return np.stack([np.sin(azimuth) * np.sin(a), -np.cos(azimuth) * np.sin(a), np.cos(a)], axis=-1)


def rotor_wrench(places: Array, thrusts: Array, angles: Array) -> tuple[Array, Array]:
    """(force, torque) of both rotors about the centre of mass in body axes:  sum of f n  and of  p x f n - d k f n."""
    force, torque = np.zeros((2, *thrusts.shape[:-1], 3))
    for i, (at, spin) in enumerate(zip(places, SPIN, strict=True)):
        f = thrusts[..., i, None] * direction(at, angles[..., i])
        force, torque = force + f, torque + np.cross(at, f) - spin * DRAG * f
    return force, torque


def inertia(robot: Robot, angles: Array) -> Array:
    """The vehicle's inertia about its centre of mass, gimbals at `angles`: each turns about a line through its own centre."""
    total = composite_inertias(robot.model, robot.neutral())[0].I_com.astype(float)
    out = np.broadcast_to(total, (*angles.shape[:-1], 3, 3)).copy()
    for i, name in enumerate(ROTORS):
        gimbal = robot.model.links[robot.model.frame(name).link]
        A = gimbal.placement.R.astype(float)
        c, s = np.cos(angles[..., i]), np.sin(angles[..., i])
        turn = np.broadcast_to(np.eye(3), (*c.shape, 3, 3)).copy()
        turn[..., 1, 1], turn[..., 1, 2], turn[..., 2, 1], turn[..., 2, 2] = c, -s, s, c
        I = gimbal.inertia.I_com.astype(float)
        out += A @ (turn @ I @ np.swapaxes(turn, -1, -2) - I) @ A.T
    return out


def acceleration(state: Array, thrusts: Array, places: Array, mass: float, I: Array, gravity: Array) -> tuple[Array, Array]:
    """(acceleration of the centre of mass in the world, rate of the body's rate) while the gimbals are at rest."""
    R, w = rotation(state[..., 6:10]), state[..., 10:13]
    force, torque = rotor_wrench(places, thrusts, state[..., 13:15])
    linear = (R @ force[..., None])[..., 0] / mass + gravity
    spun = np.cross(w, (I @ w[..., None])[..., 0])
    return linear, np.linalg.solve(I, (torque - spun)[..., None])[..., 0]


def to_robot(state: Array, com: Array) -> tuple[Array, Array]:
    """(q, v) of the robot, whose root is not its centre of mass and whose velocity is in the body; `com` is from the root."""
    R, w = rotation(state[..., 6:10]), state[..., 10:13]
    root = state[..., :3] - R @ com
    linear = (np.swapaxes(R, -1, -2) @ state[..., 3:6, None])[..., 0] - np.cross(w, com)
    q = np.concatenate([root, state[..., 7:10], state[..., 6:7], state[..., 13:15]], axis=-1)
    return q, np.concatenate([linear, w, np.zeros_like(state[..., 13:15])], axis=-1)


def to_robot_acceleration(state: Array, linear: Array, angular: Array, com: Array) -> Array:
    """The rate of the robot's v, (..., 8): that of the root, in axes that turn."""
    R, w = rotation(state[..., 6:10]), state[..., 10:13]
    at_root = (np.swapaxes(R, -1, -2) @ linear[..., None])[..., 0] - np.cross(angular, com) - np.cross(w, np.cross(w, com))
    moving = at_root - np.cross(w, to_robot(state, com)[1][..., :3])
    return np.concatenate([moving, angular, np.zeros_like(state[..., 13:15])], axis=-1)


def nearest_hover(robot: Robot, R: Array, gravity: float) -> tuple[Array, Array]:
    """(thrusts, gimbal angles) nearest to carrying the weight at the attitude R: the pseudo-inverse of the allocation.

    At any attitude but level, what is nearest does not carry it: see birotor_control.py.
    """
    weight = np.concatenate([R.T @ np.array([0.0, 0.0, robot.mass * gravity]), np.zeros(3)])
    s1, c1, s2, c2 = np.linalg.pinv(allocation_matrix(body(robot.model))) @ weight
    return np.hypot([s1, s2], [c1, c2]), np.arctan2([s1, s2], [c1, c2])


def random_states(rng: np.random.Generator, count: int) -> Any:
    """Any place, attitude and velocity; gimbals within +-1 rad."""
    state = rng.normal(size=(count, 15))
    state[:, 6:10] /= np.linalg.norm(state[:, 6:10], axis=-1, keepdims=True)
    state[:, 13:15] = rng.uniform(-1.0, 1.0, (count, 2))
    return state
