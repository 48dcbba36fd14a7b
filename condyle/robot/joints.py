"""How joints move: revolute and prismatic about any axis, ball, and free. Other kinds are built of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.robot.angles import cos_sin
from condyle.robot.spatial import Motion, Pose, vector


@dataclass(frozen=True)
class Revolute:
    """Rotation by q about a unit vector; it may turn without end."""

    axis: tuple[float, float, float]
    nq = nv = 1

    def pose(self, q: Any) -> Pose:
        """The joint's motion from zero to q."""
        return Pose(rotation_about(self.axis, q[0]), np.zeros(3))

    def velocity(self, v: Any) -> Motion:
        """The motion that v gives, in the link's frame."""
        return Motion(np.zeros(3), np.array(self.axis) * v[0])


@dataclass(frozen=True)
class Prismatic:
    """Translation by q along a unit vector."""

    axis: tuple[float, float, float]
    nq = nv = 1

    def pose(self, q: Any) -> Pose:
        """The joint's motion from zero to q."""
        return Pose(np.eye(3), np.array(self.axis) * q[0])

    def velocity(self, v: Any) -> Motion:
        """The motion that v gives, in the link's frame."""
        return Motion(np.array(self.axis) * v[0], np.zeros(3))


@dataclass(frozen=True)
class Ball:
    """Rotation by the unit quaternion q = (x, y, z, w); v is the angular velocity in the link's frame."""

    nq = 4
    nv = 3

    def pose(self, q: Any) -> Pose:
        """The joint's motion from zero to q."""
        return Pose(rotation_of(q), np.zeros(3))

    def velocity(self, v: Any) -> Motion:
        """The motion that v gives, in the link's frame."""
        return Motion(np.zeros(3), v)


@dataclass(frozen=True)
class Free:
    """Any pose: q = (position, quaternion x y z w); v = (linear, angular) velocity in the link's own frame."""

    nq = 7
    nv = 6

    def pose(self, q: Any) -> Pose:
        """The joint's motion from zero to q."""
        return Pose(rotation_of(q[3:7]), q[0:3])

    def velocity(self, v: Any) -> Motion:
        """The motion that v gives, in the link's frame."""
        return Motion(v[0:3], v[3:6])


Kind = Revolute | Prismatic | Ball | Free


def rotation_about(axis: tuple[float, float, float], angle: Any) -> Any:
    """R = c 1 + s [n] + (1 - c) n n^T, the rotation by an angle about the unit vector n (Rodrigues)."""
    x, y, z = axis
    c, s = cos_sin(float(angle)) if isinstance(angle, (float, int)) else (np.cos(angle), np.sin(angle))
    d = 1.0 - c
    n = np.array([x, y, z])
    outer = np.outer(n, n)
    # on the diagonal, c + (1 - c) n^2; written so that an axis of the frame leaves exact zeros and ones
    R = np.empty((3, 3), dtype=object)
    for i in range(3):
        for j in range(3):
            R[i, j] = c * (1.0 - outer[i, i]) + outer[i, i] if i == j else outer[i, j] * d
    R[0, 1], R[1, 0] = R[0, 1] - s * z, R[1, 0] + s * z
    R[0, 2], R[2, 0] = R[0, 2] + s * y, R[2, 0] - s * y
    R[1, 2], R[2, 1] = R[1, 2] - s * x, R[2, 1] + s * x
    return R if not isinstance(angle, (float, int)) else R.astype(float)


def rotation_of(q: Any) -> Any:
    """The rotation of the unit quaternion (x, y, z, w)."""
    x, y, z, w = q
    x2, y2, z2 = x + x, y + y, z + z
    xx, yy, zz = x * x2, y * y2, z * z2
    xy, xz, yz = x * y2, x * z2, y * z2
    wx, wy, wz = w * x2, w * y2, w * z2
    rows = [[1.0 - (yy + zz), xy - wz, xz + wy], [xy + wz, 1.0 - (xx + zz), yz - wx], [xz - wy, yz + wx, 1.0 - (xx + yy)]]
    return np.array([vector(*row) for row in rows])
