"""Robots written in Python: short words for links, joints, frames and shapes, and the inertia of simple bodies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from condyle.robot.angles import exact_quarters, rotation_rpy
from condyle.robot.description import FrameSpec, JointSpec, Limits, LinkSpec, Shape
from condyle.robot.spatial import Inertia, Pose, length, product

Numbers = Sequence[float]
Color = tuple[float, float, float, float]

ORIGIN = (0.0, 0.0, 0.0)
X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)

# colors that go together
STEEL: Color = (0.62, 0.65, 0.70, 1.0)
DARK: Color = (0.20, 0.22, 0.26, 1.0)
BLUE: Color = (0.16, 0.42, 0.75, 1.0)
RED: Color = (0.80, 0.22, 0.18, 1.0)
RUBBER: Color = (0.08, 0.08, 0.09, 1.0)


def pose(xyz: Numbers = ORIGIN, rpy: Numbers = ORIGIN) -> Pose:
    """The pose at xyz, turned by R = Rz(yaw) Ry(pitch) Rx(roll)."""
    return Pose(rotation_rpy(*rpy, trig=exact_quarters), np.array(xyz, dtype=float))


# -- bodies


def body(mass: float, com: Numbers = ORIGIN, moments: Numbers = ORIGIN, at: Pose | None = None) -> Inertia:
    """A body with moments (ixx, iyy, izz[, ixy, ixz, iyz]) about its centre of mass `com`, in a frame `at` of the link."""
    xx, yy, zz, xy, xz, yz = (*moments, 0.0, 0.0, 0.0)[:6]
    I_com = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    inertia = Inertia.about_com(mass, np.array(com, dtype=float), I_com)
    return inertia if at is None else inertia.seen_from(at)


def solid(mass: float, shape: Shape) -> Inertia:
    """A uniform body of this shape; a capsule counts as the cylinder of its whole length."""
    s = shape.size
    if shape.kind == "sphere":
        moments = (0.4 * mass * (s[0] * s[0]),) * 3
    elif shape.kind == "ellipsoid":
        moments = tuple(0.2 * mass * (a * a + b * b) for a, b in ((s[1], s[2]), (s[0], s[2]), (s[0], s[1])))  # type: ignore[assignment]
    elif shape.kind == "box":
        moments = tuple(mass / 12.0 * (a * a + b * b) for a, b in ((s[1], s[2]), (s[0], s[2]), (s[0], s[1])))  # type: ignore[assignment]
    else:
        length = s[1] + (2.0 * s[0] if shape.kind == "capsule" else 0.0)
        across = mass / 12.0 * (3.0 * (s[0] * s[0]) + length * length)
        moments = (across, across, 0.5 * mass * (s[0] * s[0]))
    return body(mass, ORIGIN, moments, shape.pose)


def total(*bodies: Inertia) -> Inertia:
    """Several bodies of one link, given about its frame, as one."""
    return sum(bodies, Inertia.zero())


# -- shapes


def box(size: Numbers, at: Pose | None = None, color: Color | None = None, name: str = "") -> Shape:
    """A box of size (x, y, z) about the origin of `at`."""
    return Shape("box", tuple(size), at or pose(), name, color=color)


def sphere(radius: float, xyz: Numbers = ORIGIN, color: Color | None = None, name: str = "") -> Shape:
    """A sphere about the point xyz."""
    return Shape("sphere", (radius,), pose(xyz), name, color=color)


def cylinder(radius: float, length: float, at: Pose | None = None, color: Color | None = None, name: str = "") -> Shape:
    """A cylinder about the z axis of `at`."""
    return Shape("cylinder", (radius, length), at or pose(), name, color=color)


def rod(start: Numbers, end: Numbers, radius: float, color: Color | None = None, kind: str = "capsule", name: str = "") -> Shape:
    """A capsule or cylinder from one point to another: its z axis points from start to end."""
    a, b = np.array(start, dtype=float), np.array(end, dtype=float)
    long = length(b - a)
    z = (b - a) / long
    # any axis across will do: the one nearest to a coordinate axis that z is far from
    x = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = x - product(x, z) * z
    x /= length(x)
    R = np.column_stack([x, np.cross(z, x), z])
    return Shape(kind, (radius, long), Pose(R, (a + b) / 2.0), name, color=color)


# -- links, joints, frames


def link(name: str, inertia: Inertia | None = None, visuals: Sequence[Shape] = (), collisions: Sequence[Shape] = ()) -> LinkSpec:
    """A link with this inertia about its frame, visual shapes and collision shapes."""
    return LinkSpec(name, inertia, tuple(visuals), tuple(collisions))


def joint(
    name: str,
    kind: str,
    parent: str,
    child: str,
    at: Pose | None = None,
    axis: Numbers = Z,
    *,
    limits: tuple[float, float] | float | None = None,
    effort: float | None = None,
    speed: float | None = None,
    damping: float = 0.0,
) -> JointSpec:
    """A joint; `limits` is (lower, upper), or one number for both sides."""
    lower, upper = (None, None) if limits is None else (-limits, limits) if isinstance(limits, float) else limits
    bounds = Limits(lower, upper, speed, effort)
    return JointSpec(name, kind, parent, child, at or pose(), np.array(axis, dtype=float), bounds, damping)


def frame(name: str, on: str, xyz: Numbers = ORIGIN, rpy: Numbers = ORIGIN) -> FrameSpec:
    """A named frame on a link."""
    return FrameSpec(name, on, pose(xyz, rpy))
