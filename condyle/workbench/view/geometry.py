"""The triangles of a robot: every shape of every link, closed, faces counter-clockwise seen from outside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from condyle.errors import CondyleError, RobotError
from condyle.robot.description import Shape
from condyle.robot.mesh import Mesh, read_mesh
from condyle.robot.model import Model
from condyle.robot.parts import STEEL, rod, sphere

Color = tuple[float, float, float, float]

SIDES = 32  # of a cylinder or capsule
MERIDIANS, PARALLELS = 24, 16  # of a sphere
WORLD = -1
COLLISION_COLOR: Color = (0.93, 0.58, 0.18, 0.55)
ROD_COLOR: Color = (0.55, 0.58, 0.63, 1.0)  # of rods between joints
JOINT_COLOR: Color = (0.16, 0.42, 0.75, 1.0)  # of balls at joints
CREASE = 40.0  # degrees between faces, up to which a surface looks smooth
MAX_CORNERS = 128  # at one vertex, to be smoothed


@dataclass(frozen=True, eq=False)
class Piece:
    """One shape in the frame of its link: vertices (n, 3) float32 and faces (m, 3) int32. `link` -1 is the world."""

    link: int
    vertices: np.ndarray
    faces: np.ndarray
    color: Color
    name: str
    warning: str = ""


def pieces(model: Model, *, which: str = "visual") -> list[Piece]:
    """The pieces of a robot, `which` "visual" or "collision", links in order, the world first.

    A robot without shapes of one kind shows those of the other, and one without any shows rods between its joints. A mesh that
    cannot be read is replaced by its link's collision shapes, or by rods, and `warning` says why.
    """
    if which not in ("visual", "collision"):
        raise RobotError([f'the shapes to show are "visual" or "collision", got {which!r:.40}'])
    shapes_of = [(WORLD, model.visuals, model.collisions), *((i, l.visuals, l.collisions) for i, l in model.outward())]
    if which == "collision":
        shapes_of = [(link, collisions, visuals) for link, visuals, collisions in shapes_of]
    if not any(wanted for _, wanted, _ in shapes_of):
        shapes_of = [(link, other, ()) for link, _, other in shapes_of]
    if not any(wanted for _, wanted, _ in shapes_of):
        return [piece for link, _, _ in shapes_of for piece in _rods(model, link)]
    default = COLLISION_COLOR if which == "collision" else STEEL
    return [piece for link, wanted, other in shapes_of for piece in _link_pieces(model, link, wanted, other, default)]


def with_normals(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(vertices, normals, faces) with a vertex for each normal: round surfaces are smooth, edges above CREASE stay sharp."""
    corners = faces.ravel()
    n = _face_normals(vertices, faces)
    # pairs of corners that share a vertex, by corners sorted by vertex
    order = np.argsort(corners, kind="stable")
    counts = np.bincount(corners, minlength=len(vertices))
    firsts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    many = np.where(counts > MAX_CORNERS, 0, counts)[corners]
    left = np.repeat(np.arange(len(corners)), many)
    step = np.arange(len(left)) - np.repeat(np.cumsum(many) - many, many)
    right = order[firsts[corners[left]] + step]
    near = np.einsum("ij,ij->i", n[left // 3], n[right // 3]) > np.cos(np.radians(CREASE))
    left, right = left[near], right[near]
    # faces count by their angle at the vertex, so that how a flat side is cut does not show
    weights = _angles(vertices, faces).ravel()
    normals = np.stack([np.bincount(left, n[right // 3, k] * weights[right], len(corners)) for k in range(3)], axis=1)
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    normals = np.where(length > 1e-9, normals / np.maximum(length, 1e-9), n[np.arange(len(corners)) // 3])
    # corners with the same vertex and nearly the same normal are one
    key = np.column_stack([corners, np.rint(normals * 512.0).astype(np.int64)])
    _, first, where = np.unique(key, axis=0, return_index=True, return_inverse=True)
    points, faces = vertices[corners[first]].astype(np.float32), where.reshape(-1, 3).astype(np.int32)
    return points, normals[first].astype(np.float32), faces


# -- links


def _link_pieces(model: Model, link: int, shapes: Iterable[Shape], others: Iterable[Shape], default: Color) -> list[Piece]:
    found: list[Piece] = []
    bad, owner = "", model.links[link].name if link >= 0 else "world"
    for shape in shapes:
        try:
            found += _shape_pieces(link, shape, owner, default)
        except CondyleError as error:
            bad = str(error)
    if not bad:
        return found
    if found:
        # the other shapes of the link suffice
        return [*found[:-1], replace(found[-1], warning=f"{bad}: left out")]
    simple = [shape for shape in others if shape.kind != "mesh"]
    if simple:
        warning = f"{bad}: collision shapes shown instead"
        return [piece for shape in simple for piece in _shape_pieces(link, shape, owner, default, warning)]
    warning, ball = f"{bad}: rods shown instead", sphere(0.03 * _extent(model), color=JOINT_COLOR)
    return _rods(model, link, warning) or _shape_pieces(link, ball, owner, JOINT_COLOR, warning)


def _shape_pieces(link: int, shape: Shape, owner: str, default: Color, warning: str = "") -> list[Piece]:
    """The meshes of a shape in the frame of its link; a mirrored one has its faces reversed."""
    scale = np.array(shape.size if shape.kind == "mesh" else (1.0, 1.0, 1.0), dtype=float)
    R, p = np.asarray(shape.pose.R, dtype=float), np.asarray(shape.pose.p, dtype=float)
    out = []
    for mesh in triangles(shape):
        vertices = (mesh.vertices.astype(float) * scale) @ R.T + p
        faces = np.ascontiguousarray(mesh.faces[:, ::-1] if np.prod(scale) < 0.0 else mesh.faces)
        color = shape.color or mesh.color or default
        r, g, b, a = (float(min(max(c, 0.0), 1.0)) if np.isfinite(c) else 0.5 for c in color)
        out.append(Piece(link, vertices.astype(np.float32, order="C"), faces, (r, g, b, a), shape.name or owner, warning))
    return out


def _rods(model: Model, link: int, warning: str = "") -> list[Piece]:
    """Rods from a link's joint to those of its children, to its frames at the tips, and a ball at the joint."""
    extent = _extent(model)
    thick = 0.018 * extent
    ends = [child.placement.p for child in model.links if child.parent == link]
    has_mass = link >= 0 and model.links[link].inertia.mass > 0.0
    if link >= 0 and not ends:
        ends = [frame.pose.p for frame in model.frames if frame.link == link]
        ends += [model.links[link].inertia.com] * has_mass
    points = [np.asarray(end, dtype=float) for end in ends]
    far = [point for point in points if np.all(np.isfinite(point)) and np.linalg.norm(point) > 1e-3 * extent]
    shapes = [rod((0.0, 0.0, 0.0), tuple(point), thick, ROD_COLOR) for point in far]
    if link >= 0 and (shapes or has_mass):
        shapes.append(sphere(1.7 * thick, color=JOINT_COLOR))
    owner = model.links[link].name if link >= 0 else "world"
    return [piece for shape in shapes for piece in _shape_pieces(link, shape, owner, ROD_COLOR, warning)]


def _extent(model: Model) -> float:
    """The distance along the links from the base to the farthest joint or centre of mass; 0.1 m if all is one point."""
    reach = [0.0] * len(model.links)
    far = 0.0
    for i, link in model.outward():
        before = reach[link.parent] if link.parent >= 0 else 0.0
        reach[i] = before + (float(np.linalg.norm(link.placement.p)) if link.parent >= 0 else 0.0)
        tip = float(np.linalg.norm(link.inertia.com)) if link.inertia.mass > 0.0 else 0.0
        far = max(far, reach[i] + tip)
    return far if 1e-6 < far < 1e6 else 0.1


# -- shapes


def triangles(shape: Shape) -> tuple[Mesh, ...]:
    """The meshes of a shape about its own origin."""
    if shape.kind == "mesh":
        if shape.mesh is None:
            raise RobotError(["mesh not found"])
        return read_mesh(shape.mesh, shape.sha256)
    if not all(np.isfinite(shape.size)):
        raise RobotError([f"a {shape.kind} has the sizes {shape.size}"])
    return (_simple(shape.kind, tuple(float(s) for s in shape.size)),)


@lru_cache(maxsize=256)
def _simple(kind: str, size: tuple[float, ...]) -> Mesh:
    if kind == "box":
        return _box(*size)
    if kind == "sphere":
        angles = np.linspace(-np.pi / 2.0, np.pi / 2.0, PARALLELS + 1)
        return _revolved(size[0] * np.cos(angles), size[0] * np.sin(angles), MERIDIANS)
    if kind == "ellipsoid":
        ball = _simple("sphere", (1.0,))
        return Mesh((ball.vertices * size).astype(np.float32), ball.faces)
    radius, half = size[0], size[1] / 2.0
    if kind == "cylinder":
        return _revolved(np.array([0.0, radius, radius, 0.0]), np.array([-half, -half, half, half]), SIDES)
    if kind == "capsule":
        angles = np.linspace(0.0, np.pi / 2.0, PARALLELS // 2 + 1)
        across = np.concatenate([radius * np.sin(angles), radius * np.cos(angles)])
        along = np.concatenate([-half - radius * np.cos(angles), half + radius * np.sin(angles)])
        return _revolved(across, along, SIDES)
    raise RobotError([f"the shape '{kind}' cannot be shown: a box, sphere, cylinder, capsule, ellipsoid or mesh can"])


def _box(x: float, y: float, z: float) -> Mesh:
    signs = np.array([[(k >> axis & 1) - 0.5 for axis in range(3)] for k in range(8)])
    sides = [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)]
    faces = [face for a, b, c, d in sides for face in ((a, b, c), (a, c, d))]
    return Mesh((signs * (x, y, z)).astype(np.float32), np.array(faces, dtype=np.int32))


def _revolved(across: np.ndarray, along: np.ndarray, count: int) -> Mesh:
    """The profile (distance from z, height), from the lower to the upper end on the axis, revolved about z."""
    turns = np.arange(count) * (2.0 * np.pi / count)
    circles = across[1:-1, None, None] * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    heights = np.broadcast_to(along[1:-1, None, None], (*circles.shape[:2], 1))
    rings = np.concatenate([circles, heights], axis=-1).reshape(-1, 3)
    vertices = np.concatenate([[[0.0, 0.0, along[0]]], rings, [[0.0, 0.0, along[-1]]]])
    return Mesh(vertices.astype(np.float32), _ring_faces(len(across) - 2, count))


def _ring_faces(rings: int, count: int) -> np.ndarray:
    """Faces of a first point, rings of `count` points each, and a last point."""
    k = np.arange(count)
    after = (k + 1) % count
    parts = [np.stack([np.zeros_like(k), 1 + after, 1 + k], axis=1)]
    low = (1 + np.arange(rings - 1) * count)[:, None]
    high = low + count
    sides = [(low + k, low + after, high + after), (low + k, high + after, high + k)]
    parts += [np.stack([np.broadcast_to(c, (rings - 1, count)) for c in side], axis=-1).reshape(-1, 3) for side in sides]
    last, top = 1 + (rings - 1) * count, 1 + rings * count
    parts.append(np.stack([last + k, last + after, np.full_like(k, top)], axis=1))
    return np.concatenate(parts).astype(np.int32)


def tube(points: np.ndarray, radius: float, sides: int) -> Mesh:
    """A tube along points (n, 3) with flat ends; points that repeat are left out."""
    points = np.asarray(points, dtype=float)
    far = np.linalg.norm(np.diff(points, axis=0), axis=1) > 1e-9
    points = points[np.concatenate([[True], far])] if len(points) else points
    if len(points) < 2:
        return Mesh(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.int32))
    along = np.gradient(points, axis=0)
    along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-12)
    # an axis across, transported along the path so that the tube does not twist
    across = np.empty_like(points)
    side = np.eye(3)[int(np.argmin(np.abs(along[0])))]
    for k, d in enumerate(along):
        side = side - (side @ d) * d
        length = np.linalg.norm(side)
        side = side / length if length > 1e-6 else np.cross(d, np.eye(3)[int(np.argmin(np.abs(d)))])
        across[k] = side
    turns = np.arange(sides) * (2.0 * np.pi / sides)
    other = np.cross(along, across)
    rings = radius * (across[:, None] * np.cos(turns)[:, None] + other[:, None] * np.sin(turns)[:, None])
    vertices = np.concatenate([points[:1], (points[:, None] + rings).reshape(-1, 3), points[-1:]])
    return Mesh(vertices.astype(np.float32), _ring_faces(len(points), sides))


def cone(base: np.ndarray, tip: np.ndarray, radius: float, sides: int) -> Mesh:
    """A cone from the middle of its base to its tip."""
    ring = tube(np.stack([base, tip]), radius, sides).vertices[1 : 1 + sides]
    vertices = np.concatenate([np.asarray(base)[None], ring, np.asarray(tip)[None]]).astype(np.float32)
    return Mesh(vertices, _ring_faces(1, sides))


# -- normals


def _face_normals(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Unit normals of faces, (m, 3); a face without area looks up."""
    a, b, c = (vertices[faces[:, k]].astype(float) for k in range(3))
    normals = np.cross(b - a, c - a)
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.where(length > 0.0, normals / np.where(length > 0.0, length, 1.0), (0.0, 0.0, 1.0))


def _angles(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """The angle at each corner of each face, (m, 3)."""
    points = vertices[faces].astype(float)
    out = np.empty(faces.shape)
    for k in range(3):
        one, two = points[:, (k + 1) % 3] - points[:, k], points[:, (k + 2) % 3] - points[:, k]
        sine = np.linalg.norm(np.cross(one, two), axis=1)
        out[:, k] = np.arctan2(sine, np.einsum("ij,ij->i", one, two))
    return out
