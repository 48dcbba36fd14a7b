"""Capsules around the collision shapes of a robot's links: every point of a shape lies inside its capsule.

The numbers come from operations that IEEE 754 fixes, in a written order: a fit has the same bits on every processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product as product_of

import numpy as np

from condyle.errors import RobotError
from condyle.robot import ordered
from condyle.robot.description import Shape
from condyle.robot.mesh import read_mesh, read_vertices
from condyle.robot.model import Model
from condyle.robot.spatial import cross, product


def _unit(x: np.ndarray) -> np.ndarray:
    unit: np.ndarray = x / ordered.norm(x)
    return unit


GRID = 10  # by as many directions through each face of a cube, in which the outermost vertices are taken for the search
RADII = 24  # tried between the least radius about an axis and that of a sphere
STEPS = 40  # of the pattern search for axis and centre, each half as long where none is better
# directions to start from: of the edges, the diagonals of faces and the diagonals of a cube
AXES = [_unit(np.array([x, y, z], dtype=float)) for x, y, z in product_of((-1, 0, 1), repeat=3) if (x, y, z) > (0, 0, 0)]
MARGIN = 1e-12  # m, that the radius of a fitted capsule is larger than the vertices ask for


@dataclass(frozen=True, eq=False)
class LinkCapsule:
    """A capsule fixed to link `link` (-1: the world), whose frame the ends of its segment are in.

    `ratio`: its volume over that of the shape; NaN for a mesh that is not closed.
    """

    link: int
    name: str
    start: np.ndarray
    end: np.ndarray
    radius: float
    ratio: float = float("nan")

    @property
    def volume(self) -> float:
        """In cubic metres."""
        return capsule_volume(self.radius, float(np.linalg.norm(self.end - self.start)))


def capsule_volume(radius: float, length: float) -> float:
    """Of a capsule with a segment of this length."""
    return float(np.pi * radius * radius * (length + 4.0 / 3.0 * radius))


def fit_capsules(model: Model, which: str = "collision") -> list[LinkCapsule]:
    """One capsule for each "collision" or "visual" shape of every link, links in order, those fixed in the world first.

    The capsules of a link are named after it, with a number behind the second one and the next.
    """
    if which not in ("collision", "visual"):
        raise RobotError(f"`which` must be 'collision' or 'visual', got {which!r:.60}")
    found = []
    for i, name, shapes in (
        (-1, _root(model), _shapes(model, which)),
        *((i, x.name, _shapes(x, which)) for i, x in model.outward()),
    ):
        for k, shape in enumerate(shapes):
            start, end, radius = enclosing_capsule(shape)
            ratio = capsule_volume(radius, float(np.linalg.norm(end - start))) / shape_volume(shape)
            found.append(LinkCapsule(i, name if k == 0 else f"{name}_{k + 1}", start, end, radius, ratio))
    if not any(each.link >= 0 for each in found):
        other = "visual" if which == "collision" else "collision"
        raise RobotError(
            f"robot '{model.name}' has no {which} shapes on its links: use shapes='{other}', or give capsules=[LinkCapsule(...)]"
        )
    return found


def _shapes(owner: object, which: str) -> tuple[Shape, ...]:
    shapes: tuple[Shape, ...] = getattr(owner, f"{which}s")
    return shapes


def _root(model: Model) -> str:
    """The name of what is fixed in the world: of its first frame, which is the base link where there is one."""
    return next((frame.name for frame in model.frames if frame.link < 0), "world")


def enclosing_capsule(shape: Shape) -> tuple[np.ndarray, np.ndarray, float]:
    """(end, end, radius) of a capsule that contains the shape, in the frame of its link."""
    R, p, size = np.asarray(shape.pose.R, dtype=float), np.asarray(shape.pose.p, dtype=float), shape.size
    if shape.kind == "sphere":
        return p, p, float(size[0])
    z = R[:, 2]
    if shape.kind == "capsule":
        return p - 0.5 * size[1] * z, p + 0.5 * size[1] * z, float(size[0])
    if shape.kind == "cylinder":
        radius, half = _around_cylinder(float(size[0]), float(size[1]))
        return p - half * z, p + half * z, radius
    start, end, radius = around_points(_points(shape))
    return product(R, start) + p, product(R, end) + p, radius


def _points(shape: Shape) -> np.ndarray:
    """Points whose convex hull contains the shape, in its own frame."""
    if shape.kind == "mesh":
        if shape.mesh is None:
            raise RobotError(
                f"the mesh '{shape.name}' has no file, so that no capsule can be fitted: give capsules=[LinkCapsule(...)]"
            )
        vertices: np.ndarray = read_vertices(shape.mesh) * np.asarray(shape.size)
        return vertices
    # a box by its corners; an ellipsoid by those of the box around it
    half = np.asarray(shape.size) * (0.5 if shape.kind == "box" else 1.0)
    signs: np.ndarray = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
    return signs * half


def _around_cylinder(radius: float, length: float) -> tuple[float, float]:
    """(radius, half the length of the segment) of the least coaxial capsule among 50 RADII of them."""
    tried = np.linspace(radius, math.sqrt(radius * radius + 0.25 * length * length), 50 * RADII)
    half = np.maximum(0.5 * length - np.sqrt(np.maximum(tried * tried - radius * radius, 0.0)), 0.0)
    k = int(np.argmin([capsule_volume(float(r), 2.0 * float(h)) for r, h in zip(tried, half, strict=True)]))
    return float(tried[k]) + MARGIN, float(half[k])


def around_points(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """(end, end, radius) of a small capsule that contains points (n, 3).

    The best of several starting axes, each improved by a pattern search over axis and centre: a local minimum of the volume.
    """
    outer = _outermost(points)
    centre = 0.5 * (outer.min(axis=0) + outer.max(axis=0))
    start = min(((axis, centre) for axis in AXES), key=lambda line: _volume(outer, *line))
    axis, centre = _improved(lambda a, c: _volume(outer, a, c), *start, step=0.25 * float(np.ptp(outer, axis=0).max()))
    return _along(points, axis, centre, _radius(points, axis, centre, outer))


def _outermost(points: np.ndarray) -> np.ndarray:
    """The points that decide the search; the result contains all."""
    if len(points) <= 6 * GRID * GRID:
        return points
    grid = np.linspace(-0.9, 0.9, GRID)
    faces = [(k, side, u, v) for k in range(3) for side in (-1.0, 1.0) for u in grid for v in grid]
    # through a grid on the faces of a cube
    chosen = {int(np.argmax(side * points[:, k] + u * points[:, k - 1] + v * points[:, k - 2])) for k, side, u, v in faces}
    outer: np.ndarray = points[sorted(chosen)]
    return outer


def _split(points: np.ndarray, axis: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(positions along the axis, squared distances from it)."""
    x, y, z = (points - centre).T
    along = x * axis[0] + y * axis[1] + z * axis[2]
    return along, np.maximum(x * x + y * y + z * z - along * along, 0.0)


def _ends(along: np.ndarray, beside: np.ndarray, radius: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the shortest segments about which each radius contains all points."""
    reach = np.sqrt(np.maximum(radius[:, None] ** 2 - beside, 0.0))
    low, high = np.min(along + reach, axis=1), np.max(along - reach, axis=1)
    middle = 0.5 * (low + high)
    return np.where(low < high, low, middle), np.where(low < high, high, middle)


def _sizes(points: np.ndarray, axis: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(radii, volumes) of capsules about the axis that contain the points."""
    along, beside = _split(points, axis, centre)
    least, most = np.sqrt(beside.max()), np.sqrt((beside + (along - 0.5 * (along.min() + along.max())) ** 2).max())
    radius = np.linspace(least, most, RADII)
    low, high = _ends(along, beside, radius)
    return radius, np.pi * radius**2 * (high - low + 4.0 / 3.0 * radius)


def _volume(points: np.ndarray, axis: np.ndarray, centre: np.ndarray) -> float:
    return float(_sizes(points, axis, centre)[1].min())


def _radius(points: np.ndarray, axis: np.ndarray, centre: np.ndarray, outer: np.ndarray) -> float:
    """The best radius for the outermost points, or the least one that all points allow."""
    radius, volume = _sizes(outer, axis, centre)
    return float(max(radius[int(np.argmin(volume))], np.sqrt(_split(points, axis, centre)[1].max())))


def _along(points: np.ndarray, axis: np.ndarray, centre: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray, float]:
    along, beside = _split(points, axis, centre)
    low, high = (float(x[0]) for x in _ends(along, beside, np.array([radius])))
    start, end = centre + low * axis, centre + high * axis
    # the radius that contains every point for certain
    t = np.clip(along, low, high)
    return start, end, float(np.sqrt(np.max(beside + (along - t) ** 2))) + MARGIN


def _improved(
    volume: Callable[[np.ndarray, np.ndarray], float], axis: np.ndarray, centre: np.ndarray, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Axis and centre with a smaller volume, by steps beside the axis and by changes of its direction."""
    best, turn = volume(axis, centre), 0.3
    for _ in range(STEPS):
        first = _unit(cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))]))
        beside = (first, cross(axis, first))
        moves = [(axis, centre + sign * step * b) for b in beside for sign in (1.0, -1.0)]
        moves += [(_unit(axis + sign * turn * b), centre) for b in beside for sign in (1.0, -1.0)]
        values = [volume(*move) for move in moves]
        k = int(np.argmin(values))
        if values[k] < best:
            best, (axis, centre) = values[k], moves[k]
        else:
            step, turn = 0.5 * step, 0.5 * turn
    return axis, centre


def shape_volume(shape: Shape) -> float:
    """In cubic metres; of a mesh by its faces, NaN where they are not closed."""
    size = np.asarray(shape.size, dtype=float)
    match shape.kind:
        case "sphere":
            return float(4.0 / 3.0 * np.pi * size[0] ** 3)
        case "capsule":
            return capsule_volume(float(size[0]), float(size[1]))
        case "cylinder":
            return float(np.pi * size[0] ** 2 * size[1])
        case "box":
            return float(np.prod(size))
        case "ellipsoid":
            return float(4.0 / 3.0 * np.pi * np.prod(size))
    volume = 0.0
    for mesh in read_mesh(shape.mesh) if shape.mesh is not None else ():
        edges = np.concatenate([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]], mesh.faces[:, [2, 0]]])
        _, counts = np.unique(np.sort(edges, axis=1), axis=0, return_counts=True)
        if np.any(counts % 2):
            return float("nan")
        a, b, c = (mesh.vertices[mesh.faces[:, k]].astype(float) * size for k in range(3))
        volume += float(np.sum(a * np.cross(b, c)) / 6.0)
    return abs(volume) or float("nan")
