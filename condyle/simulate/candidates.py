"""Where a robot may touch: the outermost points of every link's shapes, its soles, round feet and wheels.

Sums are taken in a written order and compared after rounding, so that the same points are found on every processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt
from pathlib import Path

import numpy as np

from condyle.errors import CondyleError
from condyle.robot.angles import of_degrees
from condyle.robot.description import Shape
from condyle.robot.joints import Revolute
from condyle.robot.mesh import read_vertices
from condyle.robot.model import Link, Model
from condyle.robot.spatial import product
from condyle.simulate.mesh_fit import Sphere, fit_end_effector
from condyle.simulate.points import ContactPoint, shape_name, spheres

DIRECTIONS, OF_A_MESH, FEW = 128, 256, 26
GOLDEN = 180.0 * (3.0 - sqrt(5.0))  # degrees from one point of a spiral to the next
LARGE = 50_000  # vertices of a mesh from which fewer directions are taken
DIGITS = 6  # of comparisons, relative to the size: equal points are taken in order, whatever the last bits of a sine are
PLACES = 9  # decimals of positions, m
SOLE = 0.04  # height of what is at the bottom of a foot, relative to the link's size
FLAT = 0.1  # of that height, what lies in the plane of a sole
SPAN = 0.3  # width of a flat bottom, relative to that of the foot
AXIS = 0.8  # cosine between an axis of the link and the way down, from which a sole may be across that axis
ROUND = 0.03  # distance of a wheel's outline from a circle, relative to its radius


@dataclass(frozen=True)
class Candidate:
    """A sphere that may become a contact point: its name, link, centre in the link's frame, radius and friction."""

    name: str
    link: int
    position: tuple[float, float, float]
    radius: float
    friction: float | None = None

    def point(self, *, secondary: bool = False) -> ContactPoint:
        """The contact point."""
        return ContactPoint(self.name, self.link, self.position, self.radius, self.friction, secondary)


def candidates(model: Model) -> list[list[Candidate]]:
    """The outermost points of every link: of collision shapes that may touch, of visual ones for links without any.

    Meshes that cannot be read count for nothing; a link that has no others, and every link of a robot without shapes, takes the
    box of its inertia.
    """
    found = [_of_link(model, i) for i in range(len(model.links))]
    if any(found):
        return found
    return [outermost(_inertia_box(i, link)) for i, link in enumerate(model.links)]


def mesh_candidates(model: Model, i: int) -> list[Candidate]:
    """A few of the outermost points of one link."""
    return outermost(_of_link(model, i), FEW)


def directions(count: int = DIRECTIONS) -> np.ndarray:
    """Unit vectors in opposite pairs: axes, diagonals, and a spiral of points on half a sphere, (n, 3)."""
    grid = [(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if (z, y, x) > (0, 0, 0)]
    k = np.arange(count // 2 - len(grid)) + 0.5
    z = k / len(k)
    turn = np.array([of_degrees(GOLDEN * x) for x in k.tolist()]).reshape(-1, 2)
    spiral = np.column_stack([turn * np.sqrt(1.0 - z * z)[:, None], z])
    half = np.vstack([np.array(grid, dtype=float), spiral])
    half /= np.sqrt(half[:, 0] * half[:, 0] + half[:, 1] * half[:, 1] + half[:, 2] * half[:, 2])[:, None]
    return np.vstack([half, -half])


def outermost(points: Sequence[Candidate], count: int = DIRECTIONS) -> list[Candidate]:
    """Those of a link's points that are the farthest in some direction, in order."""
    if not points:
        return []
    at, radii = np.array([p.position for p in points]), np.array([p.radius for p in points])
    kept = _farthest(at, radii, directions(count))
    return [points[k] for k in kept]


def foot(model: Model, i: int, own: Sequence[Candidate], down: np.ndarray) -> list[Candidate]:
    """The points on which a link stands when `down`, in its frame, is the way down: a wheel's or foot's sphere, or up to four
    corners of its sole."""
    if wheel := _wheel(model.links[i], own):
        return wheel
    at, radii = np.array([p.position for p in own]), np.array([p.radius for p in own])
    size = _size(at, radii)
    for d in _ways_down(down):
        reach = np.round((product(at, d) + radii) / size, DIGITS)
        bottom = np.flatnonzero(reach >= reach.max() - SOLE)
        balls = [int(k) for k in bottom if radii[k] > 0.0 and reach[k] >= reach.max() - FLAT * SOLE]
        if balls:
            return _corners([own[k] for k in balls], d)
        flat = [int(k) for k in bottom if reach[k] >= reach.max() - FLAT * SOLE]
        width = _width(at, d)
        if len(flat) >= 3 and _width(at[flat], d) > SPAN * width:
            return _corners([own[k] for k in flat], d)
    sphere = _round_end(model, i, down, size)
    if sphere is not None:
        return [sphere]
    return _corners([own[k] for k in flat], down)


# -- shapes


def _of_link(model: Model, i: int) -> list[Candidate]:
    link = model.links[i]
    touching = [(k, shape) for k, shape in enumerate(link.collisions) if shape.contact]
    if link.collisions and not touching:
        return []
    named = [(shape_name(model, i, k), shape) for k, shape in touching]
    found = [point for name, shape in named for point in _of_shape(i, name, shape)]
    if not found:
        for k, shape in enumerate(link.visuals):
            found += _of_shape(i, shape.name or f"{link.name}_{shape.kind}{k}", shape)
    if not found and (link.collisions or link.visuals):
        found = _inertia_box(i, link)
    return outermost(found)


def _of_shape(i: int, name: str, shape: Shape) -> list[Candidate]:
    """The spheres that may touch, as seen from the link."""
    part = {"box": "_corner", "cylinder": "_rim", "capsule": "_end", "ellipsoid": "_cap", "mesh": "_point"}.get(shape.kind, "")
    radius = shape.size[0] if shape.kind in ("sphere", "capsule") else 0.0
    at = np.array([p for p, _ in spheres(shape)], dtype=float)
    if shape.kind == "cylinder":
        r, length = shape.size
        around = [of_degrees(22.5 * k) for k in range(16)]
        at = np.array([(r * c, r * s, sign * length / 2.0) for sign in (-1.0, 1.0) for c, s in around])
    elif shape.kind == "ellipsoid":
        at, radius = _ellipsoid(shape.size)
    elif shape.kind == "mesh":
        at = mesh_vertices(shape)[1]
    if not len(at) or not np.isfinite(radius):
        return []
    moved = np.round(product(at, shape.pose.R.T) + shape.pose.p, PLACES) + 0.0
    distinct = list(dict.fromkeys(tuple(float(x) for x in p) for p in moved if np.all(np.isfinite(p))))
    return [
        Candidate(f"{name}{part}{n}" if part else name, i, (x, y, z), float(radius), shape.friction)
        for n, (x, y, z) in enumerate(distinct)
    ]


def _ellipsoid(radii: Sequence[float]) -> tuple[np.ndarray, float]:
    """(centres, radius) of spheres inside an ellipsoid that touch it, of its smallest radius of curvature."""
    a = np.array(radii, dtype=float)
    if not np.all(a > 0.0):
        return np.zeros((0, 3)), 0.0
    rho = float(np.min(a) ** 2 / np.max(a))
    d = directions(26)
    touching = d * (a * a) / np.sqrt(np.sum((d * a) ** 2, axis=1, keepdims=True))
    return np.round(touching - rho * d, PLACES), round(rho, PLACES)


def mesh_vertices(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """(all vertices, the outermost ones) of a mesh, scaled."""
    none = np.zeros((0, 3))
    if shape.mesh is None:
        return none, none
    try:
        stat = shape.mesh.stat()
        return _read(shape.mesh, stat.st_mtime_ns, stat.st_size, shape.size)
    except (CondyleError, OSError, ValueError):
        return none, none


@lru_cache(maxsize=256)
def _read(path: Path, _changed: int, _bytes: int, scale: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    vertices = read_vertices(path) * np.array(scale)
    return vertices, vertices[
        _farthest(vertices, np.zeros(len(vertices)), directions(OF_A_MESH if len(vertices) < LARGE else 64))
    ]


def _inertia_box(i: int, link: Link) -> list[Candidate]:
    """The corners of the box whose mass and moments along the link's axes are those of the link."""
    mass = float(link.inertia.mass)
    if not mass > 0.0:
        return []
    moments = np.diag(np.asarray(link.inertia.I_com, dtype=float))
    sides = np.sqrt(np.maximum(6.0 * (moments.sum() - 2.0 * moments) / mass, 0.0))
    com = np.asarray(link.inertia.com, dtype=float)
    corners = [com + 0.5 * sides * (x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    at = list(dict.fromkeys(tuple(float(x) + 0.0 for x in np.round(corner, PLACES)) for corner in corners))
    return [Candidate(f"{link.name}_inertia{n}", i, (x, y, z), 0.0) for n, (x, y, z) in enumerate(at)]


# -- feet


def _ways_down(down: np.ndarray) -> list[np.ndarray]:
    """The axis of the link nearest to the way down, if it is near, and the way down itself."""
    k = int(np.argmax(np.round(np.abs(down), DIGITS)))
    axis = np.sign(down[k]) * np.eye(3)[k]
    return [axis, down] if abs(down[k]) > AXIS else [down]


def _corners(points: list[Candidate], down: np.ndarray) -> list[Candidate]:
    """Up to four of some points that span the most: the two farthest from each other, and one on either side of their line."""
    if len(points) <= 3:
        return points
    at = np.array([p.position for p in points])
    at = at - np.multiply.outer(product(at, down), down)
    size = _size(at, np.zeros(len(at)))
    apart = np.round(np.sqrt(np.sum((at[:, None] - at[None]) ** 2, axis=-1)) / size, DIGITS)
    a, b = np.unravel_index(int(np.argmax(apart)), apart.shape)
    line = at[b] - at[a]
    side = np.array(
        [down[1] * line[2] - down[2] * line[1], down[2] * line[0] - down[0] * line[2], down[0] * line[1] - down[1] * line[0]]
    )
    across = np.round(product(at - at[a], side) / (size * size), DIGITS)
    kept = {int(a), int(b)}
    kept |= {int(k) for k in (np.argmax(across), np.argmin(across)) if abs(across[k]) > 1e-3}
    return [points[k] for k in sorted(kept)]


def _round_end(model: Model, i: int, down: np.ndarray, size: float) -> Candidate | None:
    """The sphere fitted to the end of a link's meshes, if it is round."""
    link = model.links[i]
    shapes = [s for s in link.collisions if s.contact and s.kind == "mesh"] or [s for s in link.visuals if s.kind == "mesh"]
    parts = [product(mesh_vertices(s)[0], s.pose.R.T) + s.pose.p for s in shapes]
    vertices = np.concatenate(parts) if parts else np.zeros((0, 3))
    for part in (SOLE, 2.0 * SOLE, 0.5 * SOLE):
        try:
            fitted = fit_end_effector(vertices, tuple(down.tolist()), part * size)
        except (CondyleError, ValueError):
            continue
        if isinstance(fitted, Sphere) and fitted.radius < 0.5 * size:
            x, y, z = (float(value) for value in fitted.centre)
            return Candidate(f"{link.name}_tip", i, (x, y, z), fitted.radius)
    return None


def _wheel(link: Link, own: Sequence[Candidate]) -> list[Candidate]:
    """One or two spheres for a link that is round about the axis of its joint, which has no limits; none if it is no wheel."""
    if not isinstance(link.kind, Revolute) or link.limits.lower is not None or link.limits.upper is not None:
        return []
    axis = np.array(link.kind.axis)
    at, radii = np.array([p.position for p in own]), np.array([p.radius for p in own])
    along = product(at, axis)
    across = at - np.multiply.outer(along, axis)
    a = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
    a /= sqrt(product(a, a))
    b = np.cross(axis, a)
    turns = [of_degrees(22.5 * k) for k in range(16)]
    reach = np.array([np.max(product(across, c * a + s * b) + radii) for c, s in turns])
    r = float(np.round(np.max(np.sqrt(np.sum(across * across, axis=1)) + radii), PLACES))
    if r <= 0.0 or np.min(reach) < (1.0 - ROUND) * r:
        return []
    rim = np.sqrt(np.sum(across * across, axis=1)) + radii > 0.9 * r
    low, high = float(np.min(along[rim])), float(np.max(along[rim]))
    if high - low > 2.0 * r:
        return []
    middle = 0.5 * (low + high)
    offsets = (0.0,) if high - low <= r else (-0.25 * (high - low), 0.25 * (high - low))
    out = []
    for n, offset in enumerate(offsets):
        x, y, z = (float(value) + 0.0 for value in np.round((middle + offset) * axis, PLACES))
        out.append(
            replace(
                own[0], name=f"{link.name}_wheel{n}" if len(offsets) > 1 else f"{link.name}_wheel", position=(x, y, z), radius=r
            )
        )
    return out


# -- sizes


def _farthest(at: np.ndarray, radii: np.ndarray, d: np.ndarray) -> list[int]:
    """The points that are the farthest in some of the directions."""
    centred = at - (at.min(axis=0) + at.max(axis=0)) / 2.0
    size = _size(at, radii)
    kept: set[int] = set()
    for first in range(0, len(d), 32):
        reach = np.round((product(centred, d[first : first + 32].T) + radii[:, None]) / size, DIGITS)
        kept |= {int(k) for k in np.argmax(reach, axis=0)}
    return sorted(kept)


def _size(at: np.ndarray, radii: np.ndarray) -> float:
    """The largest side of the box about some spheres."""
    return float(np.max(np.max(at + radii[:, None], axis=0) - np.min(at - radii[:, None], axis=0))) or 1.0


def _width(at: np.ndarray, d: np.ndarray) -> float:
    """The largest side of the box about some points, seen along d."""
    across = at - np.multiply.outer(product(at, d), d)
    return float(np.max(np.ptp(across, axis=0)))
