"""What turning adds. Accelerations here are those of each link's origin, so linear velocities never enter."""

from __future__ import annotations

import numpy as np

from condyle.robot.model import Link, Model
from condyle.robot.spatial import Array, Force, Inertia, Motion, Pose, cross


def cross_squared(w: Array) -> Array:
    """[w]^2, with [w]^2 r = w x (w x r)."""
    xx, yy, zz = w[0] * w[0], w[1] * w[1], w[2] * w[2]
    xy, xz, yz = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    return np.array([[-(yy + zz), xy, xz], [xy, -(xx + zz), yz], [xz, yz, -(xx + yy)]])


def angular_velocities(model: Model, q: Array, v: Array) -> list[Array]:
    """The angular velocity of every link, in its own axes."""
    w: list[Array] = []
    for _, link in model.outward():
        wJ = link.velocity(v).angular
        w.append(link.pose(q).R.T @ w[link.parent] + wJ if link.parent >= 0 else wJ)
    return w


def bias_acceleration(link: Link, X: Pose, v: Array, w_parent: Array | None, w: Array) -> Motion:
    """The acceleration of a link when neither its parent nor its joint accelerates.

    With r the link's origin in the parent and (vJ, wJ) the joint's motion in the link:
    linear  R^T [w_p]^2 r + (2 w - wJ) x vJ,  angular  w x wJ.
    """
    J = link.velocity(v)
    linear = cross(w + w - J.angular, J.linear)
    if w_parent is not None:
        linear = linear + X.R.T @ (cross_squared(w_parent) @ X.p)
    return Motion(linear, cross(w, J.angular))


def gyroscopic(I: Inertia, w: Array) -> Force:
    """The force it takes to keep a body turning at w with its origin at rest:  ([w]^2 h, w x I w)."""
    return Force(cross_squared(w) @ I.h, cross(w, I.I @ w))
