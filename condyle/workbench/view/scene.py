"""Triangles in the world: of a robot at its link poses, of force arrows and of paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from condyle.errors import ShapeError
from condyle.multibody.robot import Robot
from condyle.robot.mesh import Mesh
from condyle.robot.parts import sphere
from condyle.workbench.view.geometry import Piece, cone, pieces, triangles, tube, with_normals
from condyle.workbench.view.trajectory import Trajectory, spread

Rgb = tuple[float, float, float]

FORCE: Rgb = (0.95, 0.36, 0.13)  # of the ground on the robot
PUSH: Rgb = (0.55, 0.30, 0.85)  # wrenches given by hand
TRAIL: Rgb = (0.13, 0.60, 0.85)
PLAN: Rgb = (0.09, 0.62, 0.33)  # recorded polylines
LONGEST_ARROW = 1.2  # over the robot's size
ARROW = 0.007  # radius of a shaft, over the robot's size
LINE, DOT = 0.004, 0.011  # radii of a polyline and of its points, over the robot's size
POSES = 12  # of a trajectory, which must all be in view
BELOW = 0.02  # of the robot's size: how far under zero it may reach before the ground goes down with it

_meshes: WeakKeyDictionary[Robot, dict[str, RobotMesh]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Arrow:
    """An arrow from `start` along `along`, both in the world in metres."""

    start: Sequence[float]
    along: Sequence[float]
    color: Rgb = FORCE
    thick: float | None = None  # the shaft's radius; None: by the robot's size


@dataclass(frozen=True, eq=False)
class Triangles:
    """Triangles: vertices and normals (n, 3), faces (m, 3), color (m, 4)."""

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


@dataclass(frozen=True, eq=False)
class RobotMesh(Triangles):
    """A robot's triangles in the frames of their links, and the link (n,) of each vertex."""

    link: np.ndarray
    pieces: tuple[Piece, ...]

    def at(self, R: np.ndarray, p: np.ndarray) -> Triangles:
        """The triangles at link poses R (links, 3, 3), p (links, 3)."""
        # the world is the last pose
        R = np.concatenate([R, np.eye(3)[None]]).astype(np.float32)
        p = np.concatenate([p, np.zeros((1, 3))]).astype(np.float32)
        vertices = np.einsum("nij,nj->ni", R[self.link], self.vertices) + p[self.link]
        return Triangles(vertices, np.einsum("nij,nj->ni", R[self.link], self.normals), self.faces, self.color)

    def bounds(self, R: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(lowest, highest) corner of the box around the robot, (3,) each; a small box for a robot without triangles."""
        points = self.at(R, p).vertices.astype(float) if len(self.vertices) else NO_POINTS
        return points.min(axis=0), points.max(axis=0)


NOTHING = Triangles(*(np.zeros((0, n), kind) for n, kind in ((3, np.float32), (3, np.float32), (3, np.int32), (4, np.float32))))
NO_POINTS = np.array([[-0.1] * 3, [0.1] * 3])


def robot_mesh(robot: Robot, which: str = "visual") -> RobotMesh:
    """The triangles of a robot's "visual" or "collision" shapes, built once."""
    known = _meshes.setdefault(robot, {})
    if which not in known:
        known[which] = merge(pieces(robot.model, which=which))
    return known[which]


def merge(found: Sequence[Piece]) -> RobotMesh:
    """The triangles of pieces, with normals."""
    parts, links = [], [np.zeros(0, int)]
    for piece in found:
        parts.append(_triangles(piece, piece.color))
        links.append(np.full(len(parts[-1].vertices), piece.link))
    return RobotMesh(**vars(Triangles.joined(parts)), link=np.concatenate(links), pieces=tuple(found))


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
        parts.append(_triangles(tube(np.stack([start, neck]), thick, 16), arrow.color))
        parts.append(_triangles(cone(neck, start + along, min(2.6 * thick, 0.5 * head), 24), arrow.color))
    return Triangles.joined(parts)


def trail_triangles(points: Any, thick: float, color: Rgb = TRAIL) -> Triangles:
    """A tube along points (n, 3)."""
    points = np.asarray(points, dtype=float)
    if points.ndim != 2 or points.shape[1] != 3 or not np.all(np.isfinite(points)):
        raise ShapeError(f"a trail is an array (n, 3) of finite points, got shape {points.shape}")
    return _triangles(tube(points, thick, 8), color)


def polyline_triangles(points: Any, size: float, color: Rgb = PLAN) -> Triangles:
    """A tube along points (n, 3) with a ball at each; `size`: the robot's, which sets the thickness."""
    line = trail_triangles(points, LINE * size, color)
    ball = _triangles(triangles(sphere(DOT * size))[0], color)
    balls = [Triangles(ball.vertices + np.asarray(p, np.float32), ball.normals, ball.faces, ball.color) for p in points]
    return Triangles.joined([line, *balls])


def force_arrows(shown: Trajectory, k: int, size: float) -> list[Arrow]:
    """The forces of the ground and the pushes at sample k as arrows; see `arrow_vectors`."""
    drawn = [(shown.contacts[k], shown.forces[k], FORCE), (shown.push_points[k], shown.pushes[k], PUSH)]
    weight = robot_weight(shown.robot)
    return [
        Arrow(start, along, color)
        for starts, forces, color in drawn
        for start, along in zip(starts, arrow_vectors(forces, weight, size), strict=True)
    ]


def arrow_vectors(forces: np.ndarray, weight: float, size: float, longest: float = LONGEST_ARROW) -> np.ndarray:
    """Arrows (..., 3) in metres of forces (..., 3): a robot's weight is as long as the robot's `size`, none exceeds `longest`."""
    along = forces * (size / max(weight, 1e-9))
    length = np.linalg.norm(along, axis=-1, keepdims=True)
    return np.asarray(along * np.minimum(1.0, longest * size / np.maximum(length, 1e-12)))


def robot_weight(robot: Robot) -> float:
    """mass * gravity, N, with 9.81 m/s^2 where the model has no gravity."""
    return robot.mass * (float(np.linalg.norm(robot.model.gravity)) or 9.81)


@dataclass(frozen=True, eq=False)
class Survey:
    """The space of a trajectory: points (n, 3) of some of its poses, the robot's size and the height of the ground, m."""

    points: np.ndarray
    extent: float
    level: float


def survey(shown: Trajectory, *, follow: bool = False) -> Survey:
    """The space that a trajectory takes up; with `follow`, less the horizontal path of its centre of mass."""
    mesh, which = robot_mesh(shown.robot), spread(len(shown), POSES)
    clouds = [mesh.at(shown.R[k], shown.p[k]).vertices if len(mesh.vertices) else NO_POINTS for k in which]
    extent = max(*(float(np.linalg.norm(np.ptp(cloud, axis=0))) for cloud in clouds), 1e-6, 1e-6)
    level = shown.ground if shown.ground is not None else ground_level(min(cloud[:, 2].min() for cloud in clouds), extent)
    if follow:
        shift = (shown.center - shown.center[0]) * (1.0, 1.0, 0.0)
        clouds = [cloud - shift[k] for cloud, k in zip(clouds, which, strict=True)]
    drawn = [points[k].reshape(-1, 3) for points in shown.polylines for k in which]
    if follow:
        drawn = [points - shift[k] for points, k in zip(drawn, [*which] * len(shown.polylines), strict=True)]
    return Survey(np.concatenate([*clouds, *drawn]), extent, level)


def ground_level(lowest: float, extent: float) -> float:
    """The height of the ground under a robot of this size: zero, or its lowest point if that is far below."""
    return float(lowest) if lowest < -BELOW * extent else 0.0


def vector(what: str, given: Any) -> np.ndarray:
    """Three finite numbers."""
    out = np.asarray(given, dtype=float)
    if out.shape != (3,) or not np.all(np.isfinite(out)):
        raise ShapeError(f"{what} must be three finite numbers, got {given!r:.60}")
    return out


def _triangles(mesh: Mesh | Piece, color: Sequence[float]) -> Triangles:
    if not len(mesh.faces):
        return NOTHING
    v, n, f = with_normals(mesh.vertices, mesh.faces)
    return Triangles(v, n, f, np.tile(np.array((*color, 1.0)[:4], np.float32), (len(f), 1)))
