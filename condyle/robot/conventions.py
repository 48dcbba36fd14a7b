"""Coordinates of other systems: q and v of free and ball joints, from Condyle to MuJoCo and ROS and back.

    layout    quaternion    free joint: linear velocity    angular velocity    ball joint: angular velocity
    Condyle   x y z w       in the link                    in the link         in the link
    MuJoCo    w x y z       in the world                   in the link         in the link
    ROS       x y z w       in the world                   in the world        in the frame the joint stands in

Joints with one coordinate are the same everywhere. "The world" is the frame the free joint starts from, which is the world
for a free base. Leading axes are the batch, those of q and v broadcast. `q` beside a velocity is always in Condyle's layout,
and q of ROS is that of Condyle. The changes are rotations, so joint forces change as velocities do: use the same functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condyle.errors import ShapeError
from condyle.robot.joints import Ball, Free
from condyle.robot.model import Model

Turn = Callable[[np.ndarray, np.ndarray], np.ndarray]


def q_to_mujoco(model: Model, q: Any) -> np.ndarray:
    """MuJoCo's qpos of our q, (..., nq)."""
    return _reordered(model, q, [3, 0, 1, 2])


def q_from_mujoco(model: Model, qpos: Any) -> np.ndarray:
    """Our q of MuJoCo's qpos, (..., nq)."""
    return _reordered(model, qpos, [1, 2, 3, 0])


def v_to_mujoco(model: Model, q: Any, v: Any) -> np.ndarray:
    """MuJoCo's qvel of our v, (..., nv):  v_world = R v_link  for each free joint."""
    return _rotated(model, q, v, rotate, angular=False)


def v_from_mujoco(model: Model, q: Any, qvel: Any) -> np.ndarray:
    """Our v of MuJoCo's qvel, (..., nv)."""
    return _rotated(model, q, qvel, rotate_back, angular=False)


def a_to_mujoco(model: Model, q: Any, v: Any, a: Any) -> np.ndarray:
    """MuJoCo's qacc of our a, (..., nv):  d/dt (R v_link) = R (a_link + w x v_link)."""
    return v_to_mujoco(model, q, _spinning(model, v, a, 1.0))


def a_from_mujoco(model: Model, q: Any, v: Any, qacc: Any) -> np.ndarray:
    """Our a of MuJoCo's qacc, (..., nv); v is ours."""
    return _spinning(model, v, v_from_mujoco(model, q, qacc), -1.0)


def v_to_ros(model: Model, q: Any, v: Any) -> np.ndarray:
    """Velocities with both parts in the world, (..., nv)."""
    return _rotated(model, q, v, rotate, angular=True)


def v_from_ros(model: Model, q: Any, v: Any) -> np.ndarray:
    """Our v of velocities with both parts in the world, (..., nv)."""
    return _rotated(model, q, v, rotate_back, angular=True)


def rotate(xyzw: np.ndarray, p: np.ndarray) -> np.ndarray:
    """R p, for unit quaternions (..., 4) and vectors (..., 3):  p + 2 w (u x p) + 2 u x (u x p)."""
    u, w = xyzw[..., :3], xyzw[..., 3:]
    t = 2.0 * np.cross(u, p)
    return p + w * t + np.cross(u, t)


def rotate_back(xyzw: np.ndarray, p: np.ndarray) -> np.ndarray:
    """R^T p."""
    return rotate(xyzw * np.array([-1.0, -1.0, -1.0, 1.0]), p)


def _reordered(model: Model, q: Any, order: list[int]) -> np.ndarray:
    """q with the entries of its quaternions in another order."""
    out = _checked(q, model.nq, "q")
    for link in model.links:
        if isinstance(link.kind, Free | Ball):
            quaternion = np.arange(link.q.stop - 4, link.q.stop)
            out[..., quaternion] = out[..., quaternion[order]]
    return out


def _rotated(model: Model, q: Any, v: Any, turn: Turn, *, angular: bool) -> np.ndarray:
    """v with the linear parts of free joints turned by their quaternion; `angular`: also the angular parts of free and ball."""
    q, v = _checked(q, model.nq, "q"), _checked(v, model.nv, "v")
    batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1])
    out = np.broadcast_to(v, (*batch, model.nv)).copy()
    for link in model.links:
        if not isinstance(link.kind, Free | Ball):
            continue
        quaternion = q[..., link.q.stop - 4 : link.q.stop]
        start = link.v.start
        if isinstance(link.kind, Free):
            out[..., start : start + 3] = turn(quaternion, v[..., start : start + 3])
        if angular:
            out[..., link.v.stop - 3 : link.v.stop] = turn(quaternion, v[..., link.v.stop - 3 : link.v.stop])
    return out


def _spinning(model: Model, v: Any, a: Any, sign: float) -> np.ndarray:
    """a with  sign * w x v_link  added to the linear part of each free joint."""
    v, a = _checked(v, model.nv, "v"), _checked(a, model.nv, "a")
    out = np.broadcast_to(a, (*np.broadcast_shapes(v.shape[:-1], a.shape[:-1]), model.nv)).copy()
    for link in model.links:
        if isinstance(link.kind, Free):
            s = link.v.start
            out[..., s : s + 3] += sign * np.cross(v[..., s + 3 : s + 6], v[..., s : s + 3])
    return out


def _checked(x: Any, size: int, name: str) -> np.ndarray:
    """A float copy, if its last axis has the right size."""
    array = np.array(x, dtype=float)
    if array.ndim == 0 or array.shape[-1] != size:
        raise ShapeError(f"{name} must have shape (..., {size}), got {array.shape}")
    return array
