"""A scene: the triangles of a robot with their normals and colours in the world, and arrows and trails beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from condyle.errors import ShapeError
from condyle.multibody.robot import Robot
from condyle.view.geometry import Piece, cone_on, pieces, shaded, tube
from condyle.view.trajectory import Trajectory

Rgb = tuple[float, float, float]

FORCE: Rgb = (0.95, 0.36, 0.13)  # of the ground on the robot
PUSH: Rgb = (0.55, 0.30, 0.85)  # wrenches given by hand
TRAIL: Rgb = (0.13, 0.60, 0.85)
WEIGHT_LENGTH = 1.0  # of an arrow as long as the robot's weight, over the robot's size
LONGEST_ARROW = 1.2  # over the robot's size
ARROW = 0.007  # radius of a shaft, over the robot's size
POSES = 12  # of a trajectory, which must all be in view
BELOW = 0.02  # of the robot's size: how far under zero it may reach before the ground goes down with it

_bodies: WeakKeyDictionary[Robot, dict[str, Body]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Arrow:
    """An arrow from `start` along `along`, both in the world in metres."""

    start: Sequence[float]
    along: Sequence[float]
    color: Rgb = FORCE
    thick: float | None = None  # the shaft's radius; None: by the robot's size


@dataclass(frozen=True, eq=False)
class Body:
    """A robot's triangles in the frames of their links: vertices, normals (n, 3), link (n,), faces (m, 3), color (m, 4)."""

    vertices: np.ndarray
    normals: np.ndarray
    link: np.ndarray
    faces: np.ndarray
    color: np.ndarray
    pieces: tuple[Piece, ...]

    def at(self, R: np.ndarray, p: np.ndarray) -> Triangles:
        """The triangles at link poses R (links, 3, 3), p (links, 3)."""
        # the world is the last pose
        R = np.concatenate([R, np.eye(3)[None]]).astype(np.float32)
        p = np.concatenate([p, np.zeros((1, 3))]).astype(np.float32)
        vertices = np.einsum("nij,nj->ni", R[self.link], self.vertices) + p[self.link]
        return Triangles(vertices, np.einsum("nij,nj->ni", R[self.link], self.normals), self.faces, self.color)


@dataclass(frozen=True, eq=False)
class Triangles:
    """Triangles in the world: vertices and normals (n, 3), faces (m, 3), color (m, 4)."""

    vertices: np.ndarray
    normals: np.ndarray
    faces: np.ndarray
    color: np.ndarray

    @staticmethod
    def joined(parts: Iterable[Triangles]) -> Triangles:
        """All of them as one."""
        parts = [part for part in parts if len(part.faces)] or [NOTHING]
        starts = np.cumsum([0, *(len(part.vertices) for part in parts[:-1])])
        return Triangles(
            np.concatenate([part.vertices for part in parts]),
            np.concatenate([part.normals for part in parts]),
            np.concatenate([part.faces + start for part, start in zip(parts, starts, strict=True)]),
            np.concatenate([part.color for part in parts]),
        )

    def chosen(self, which: np.ndarray) -> Triangles:
        """Only those faces."""
        return Triangles(self.vertices, self.normals, self.faces[which], self.color[which])


NOTHING = Triangles(
    np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), np.zeros((0, 3), np.int32), np.zeros((0, 4), np.float32)
)


def body(robot: Robot, which: str = "visual") -> Body:
    """The triangles of a robot, made once."""
    kept = _bodies.setdefault(robot, {})
    if which not in kept:
        kept[which] = body_of(pieces(robot.model, which=which))
    return kept[which]


def body_of(found: Sequence[Piece]) -> Body:
    """The triangles of pieces, with normals."""
    vertices, normals, link, faces, color = [], [], [], [], []
    count = 0
    for piece in found:
        v, n, f = shaded(piece.vertices, piece.faces)
        vertices.append(v)
        normals.append(n)
        link.append(np.full(len(v), piece.link))
        faces.append(f + count)
        color.append(np.tile(np.array(piece.color, np.float32), (len(f), 1)))
        count += len(v)
    if not count:
        return Body(NOTHING.vertices, NOTHING.normals, np.zeros(0, int), NOTHING.faces, NOTHING.color, ())
    return Body(
        np.concatenate(vertices),
        np.concatenate(normals),
        np.concatenate(link),
        np.concatenate(faces),
        np.concatenate(color),
        tuple(found),
    )


def arrow_triangles(arrows: Iterable[Arrow], size: float) -> Triangles:
    """Shafts with cones at their tips; `size`: the robot's, which sets the thickness. Arrows without length are left out."""
    parts = []
    for arrow in arrows:
        start, along = vector("the start of an arrow", arrow.start), vector("the length of an arrow", arrow.along)
        length = float(np.linalg.norm(along))
        if length < 1e-4 * size:
            continue
        thick = ARROW * size if arrow.thick is None else arrow.thick
        head = min(6.0 * thick, 0.6 * length)
        neck = start + along * (1.0 - head / length)
        parts.append(_colored(tube(np.stack([start, neck]), thick, 16), arrow.color))
        parts.append(_colored(cone_on(neck, start + along, min(2.6 * thick, 0.5 * head), 24), arrow.color))
    return Triangles.joined(parts)


def trail_triangles(points: Any, thick: float, color: Rgb = TRAIL) -> Triangles:
    """A tube along points (n, 3)."""
    points = np.asarray(points, dtype=float)
    if points.ndim != 2 or points.shape[1] != 3 or not np.all(np.isfinite(points)):
        raise ShapeError(f"a trail is an array (n, 3) of finite points, got shape {points.shape}")
    return _colored(tube(points, thick, 8), color)


def force_arrows(shown: Trajectory, k: int, size: float) -> list[Arrow]:
    """The forces of the ground and the pushes at picture k, an arrow as long as the robot's weight being WEIGHT_LENGTH `size`."""
    scale = force_scale(shown.robot, size)
    found = [(shown.contacts[k], shown.forces[k], FORCE), (shown.push_points[k], shown.pushes[k], PUSH)]
    arrows = []
    for starts, forces, color in found:
        for start, force in zip(starts, forces, strict=True):
            along = force * scale
            length = float(np.linalg.norm(along))
            arrows.append(Arrow(start, along * min(1.0, LONGEST_ARROW * size / max(length, 1e-12)), color))
    return arrows


@dataclass(frozen=True, eq=False)
class Survey:
    """The space of a trajectory: points (n, 3) of some of its poses, the robot's size and the height of the ground, m."""

    points: np.ndarray
    extent: float
    level: float


def survey(shown: Trajectory, *, follow: bool = False) -> Survey:
    """The space that a trajectory takes up; with `follow`, less the horizontal path of its centre of mass."""
    geometry, which = body(shown.robot), spread(len(shown), POSES)
    empty = np.array([[-0.1] * 3, [0.1] * 3], np.float32)
    clouds = [geometry.at(shown.R[k], shown.p[k]).vertices if len(geometry.vertices) else empty for k in which]
    extent = max(*(float(np.linalg.norm(np.ptp(cloud, axis=0))) for cloud in clouds), 1e-6, 1e-6)
    lowest = min(float(cloud[:, 2].min()) for cloud in clouds)
    level = shown.ground if shown.ground is not None else lowest if lowest < -BELOW * extent else 0.0
    if follow:
        shift = (shown.center - shown.center[0]) * (1.0, 1.0, 0.0)
        clouds = [cloud - shift[k] for cloud, k in zip(clouds, which, strict=True)]
    return Survey(np.concatenate(clouds), extent, level)


def spread(count: int, most: int) -> np.ndarray:
    """At most so many indices from 0 to count - 1, the first and the last included."""
    return np.unique(np.rint(np.linspace(0, count - 1, min(count, most))).astype(int))


def force_scale(robot: Robot, size: float) -> float:
    """Metres of arrow for one newton."""
    gravity = float(np.linalg.norm(robot.model.gravity)) or 9.81
    return WEIGHT_LENGTH * size / max(robot.mass * gravity, 1e-9)


def vector(what: str, given: Any) -> np.ndarray:
    """Three finite numbers."""
    out = np.asarray(given, dtype=float)
    if out.shape != (3,) or not np.all(np.isfinite(out)):
        raise ShapeError(f"{what} must be three finite numbers, got {given!r:.60}")
    return out


def _colored(mesh: Any, color: Rgb) -> Triangles:
    if not len(mesh.faces):
        return NOTHING
    v, n, f = shaded(mesh.vertices, mesh.faces)
    return Triangles(v, n, f, np.tile(np.array([*color, 1.0], np.float32), (len(f), 1)))
