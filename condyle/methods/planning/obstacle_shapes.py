"""Obstacles: spheres, capsules, boxes and half-spaces, each with a pose; and the distance of any two of them but box and box."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condyle.errors import RobotError
from condyle.methods.planning import closest_points as pairs
from condyle.methods.planning.closest_points import Closest
from condyle.robot import ordered
from condyle.robot.spatial import cross


def _vector(what: str, value: Any) -> np.ndarray:
    try:
        given = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        given = np.full(0, np.nan)
    if given.shape != (3,) or not np.all(np.isfinite(given)):
        raise RobotError(f"{what} must be three finite numbers, got {value!r:.60}")
    return given


def _positive(what: str, value: Any, *, zero: bool = False) -> float:
    try:
        given = float(value)
    except (TypeError, ValueError):
        given = np.nan
    if not (np.isfinite(given) and (given >= 0.0 if zero else given > 0.0)):
        raise RobotError(
            f"{what} must be a {'finite number, not negative' if zero else 'positive, finite number'}, got {value!r:.60}"
        )
    return given


def rotation_matrix(what: str, value: Any) -> np.ndarray:
    """The value as a rotation matrix, or a RobotError that names `what`."""
    try:
        R = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        R = np.full(0, np.nan)
    if R.shape != (3, 3) or not np.max(np.abs(R @ R.T - np.eye(3))) < 1e-6 or np.linalg.det(R) < 0.0:
        raise RobotError(f"{what} must be a 3 x 3 rotation matrix: orthonormal, with the determinant 1")
    return R


@dataclass(frozen=True, eq=False, kw_only=True)
class Obstacle:
    """What all obstacles have: a position of the centre, a rotation matrix, and a name."""

    position: Any = (0.0, 0.0, 0.0)
    rotation: Any = field(default_factory=lambda: np.eye(3))
    name: str = ""

    def __post_init__(self) -> None:
        what = f"the {{}} of {self.label}"
        object.__setattr__(self, "position", _vector(what.format("position"), self.position))
        object.__setattr__(self, "rotation", rotation_matrix(what.format("rotation"), self.rotation))
        self._check(what)

    def _check(self, what: str) -> None:
        """Check the sizes."""

    @property
    def kind(self) -> str:
        """sphere, capsule, box or plane."""
        return type(self).__name__.lower()

    @property
    def label(self) -> str:
        """Its name, or its kind in a sentence."""
        return f"obstacle '{self.name}'" if self.name else f"a {self.kind}"

    @property
    def pose(self) -> np.ndarray:
        """The 4 x 4 matrix of its pose."""
        X = np.eye(4)
        X[:3, :3], X[:3, 3] = self.rotation, self.position
        return X


@dataclass(frozen=True, eq=False)
class Sphere(Obstacle):
    """A ball of this radius about its position."""

    radius: float

    def _check(self, what: str) -> None:
        object.__setattr__(self, "radius", _positive(what.format("radius"), self.radius))


@dataclass(frozen=True, eq=False)
class Capsule(Obstacle):
    """All within `radius` of a segment of this length along its z axis, about its position."""

    radius: float
    length: float

    def _check(self, what: str) -> None:
        object.__setattr__(self, "radius", _positive(what.format("radius"), self.radius))
        object.__setattr__(self, "length", _positive(what.format("length"), self.length, zero=True))


@dataclass(frozen=True, eq=False)
class Box(Obstacle):
    """A box with edges of these lengths (x, y, z) along its axes, about its position."""

    size: Any

    def _check(self, what: str) -> None:
        size = _vector(what.format("size"), self.size)
        if not np.all(size > 0.0):
            raise RobotError(f"{what.format('size')} must be three positive lengths (x, y, z), got {self.size!r:.60}")
        object.__setattr__(self, "size", size)


@dataclass(frozen=True, eq=False)
class Plane(Obstacle):
    """The half-space below the plane through its position; the normal is its z axis."""

    @staticmethod
    def through(point: Any, normal: Any, name: str = "") -> Plane:
        """The half-space with this outward normal, which need not have length 1, and this point on its surface."""
        n = _vector("the normal of a plane", normal)
        if not ordered.norm(n) > 0.0:
            raise RobotError("the normal of a plane must not be zero: give its direction")
        z = n / ordered.norm(n)
        x = cross(z, np.eye(3)[int(np.argmin(np.abs(z)))])
        x = x / ordered.norm(x)
        return Plane(position=point, rotation=np.column_stack([x, cross(z, x), z]), name=name)


Solid = Sphere | Capsule | Box | Plane


def segment(shape: Sphere | Capsule, R: Any, p: Any) -> tuple[Any, Any, float]:
    """(end, end, radius) of a sphere or capsule at the pose (R, p)."""
    along = R[:, 2] * (0.5 * shape.length) if isinstance(shape, Capsule) else 0.0 * p
    return p - along, p + along, shape.radius


def capsule_distance(a0: Any, a1: Any, r_a: Any, shape: Solid, R: Any, p: Any) -> Closest:
    """Of a capsule from a0 to a1 and a shape at the pose (R, p)."""
    if isinstance(shape, Box):
        return pairs.capsule_box(a0, a1, r_a, R, p, 0.5 * shape.size)
    if isinstance(shape, Plane):
        return pairs.capsule_plane(a0, a1, r_a, p, R[:, 2])
    return pairs.capsule_capsule(a0, a1, r_a, *segment(shape, R, p))


def distance(a: Solid, b: Solid) -> Closest:
    """The signed distance of two shapes, the unit normal from a to b, and the witness points on their surfaces."""
    if isinstance(a, Sphere | Capsule):
        return capsule_distance(*segment(a, a.rotation, a.position), b, b.rotation, b.position)
    if isinstance(a, Box) and isinstance(b, Plane):
        return pairs.box_plane(a.rotation, a.position, 0.5 * a.size, b.position, b.rotation[:, 2])
    if isinstance(b, Sphere | Capsule) or (isinstance(a, Plane) and isinstance(b, Box)):
        found = distance(b, a)
        return Closest(found.distance, -found.normal, found.point_b, found.point_a)
    raise RobotError(f"there is no distance of a {a.kind} and a {b.kind}: use capsules or spheres for one of them")
