"""contacts="auto": a few contact points about the whole robot, so that it may fall over and come to rest on any part.

In a configuration and with a direction d pointing down, the robot lies on the points of its shapes that are farthest along d.
Points are chosen one by one where a shape is farthest beyond those chosen so far, over many directions and configurations: the
largest distance that is left bounds how deep any part of the robot can be in level ground.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from condyle.dynamics.kinematics import poses
from condyle.dynamics.manifold import random_configuration
from condyle.errors import CondyleError
from condyle.robot.description import Shape
from condyle.robot.mesh import read_vertices
from condyle.robot.model import Link, Model
from condyle.robot.spatial import product
from condyle.simulate.points import ContactPoint, spheres

BUDGET = 24  # contact points
ENOUGH = 0.01  # distance of the shapes beyond the points, over the robot's size, at which no more are added
CONFIGURATIONS = 16  # drawn at random within the limits, besides the neutral one
DIRECTIONS = 128
LOW = 0.05  # height above the lowest point over the size, up to which points carry the robot where it begins
DIGITS = 6  # of comparisons, relative to the size: equal points are taken in order, whatever the last bits of a sine are
PLACES = 9  # decimals of positions, m

Candidate = tuple[np.ndarray, float, float | None]  # position, radius, friction


def auto_points(model: Model, given: Sequence[ContactPoint] = (), budget: int = BUDGET) -> list[ContactPoint]:
    """At most `budget` contact points about the robot, the `given` ones first; fewer where they do.

    Candidates are spheres, ends of capsules, corners of boxes, rims of cylinders and the outermost vertices of meshes: of
    collision shapes, of visual ones for links without, and if the robot has neither, the corners of boxes with its links'
    inertias. Points that do not carry the robot where it begins are secondary.
    """
    candidates = _candidates(model)
    everything = [*given, *candidates]
    if not everything:
        return []
    X = _link_poses(model)
    supports, low = _supports(X, everything)
    size = _size(supports)
    chosen = list(range(len(given)))
    farthest = supports.max(axis=1)
    reached = supports[:, chosen].max(axis=1) if chosen else np.full_like(farthest, -np.inf)
    while len(chosen) < budget:
        gap = np.round((farthest - reached) / size, DIGITS)
        worst = int(np.argmax(gap))
        if not gap.flat[worst] > ENOUGH:
            break
        c, d = np.unravel_index(worst, gap.shape)
        chosen.append(int(np.argmax(np.round(supports[c, :, d] / size, DIGITS))))
        reached = np.maximum(reached, supports[:, chosen[-1]])
    bottom = float(np.min(low))
    points = []
    for k in chosen:
        point = everything[k]
        if k >= len(given) and low[k] - bottom > LOW * size:
            point = replace(point, secondary=True)
        points.append(point)
    return points


def coverage(model: Model, points: Sequence[ContactPoint]) -> float:
    """How far the robot's shapes are beyond its contact points at most, over many directions and configurations, m."""
    everything = [*points, *_candidates(model)]
    supports, _ = _supports(_link_poses(model), everything)
    return float(np.max(supports.max(axis=1) - supports[:, : len(points)].max(axis=1)))


def _size(supports: np.ndarray) -> float:
    """The largest width of the robot where it begins; directions come in opposite pairs."""
    farthest = supports[0].max(axis=0)
    half = len(farthest) // 2
    return float(np.max(farthest[:half] + farthest[half:])) or 1.0


def _directions(count: int = DIRECTIONS) -> np.ndarray:
    """Unit vectors in opposite pairs: axes, diagonals, and a spiral of points on half a sphere, (n, 3)."""
    grid = [(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if (z, y, x) > (0, 0, 0)]
    k = np.arange(count // 2 - len(grid)) + 0.5
    z = k / len(k)
    angle = k * (np.pi * (3.0 - np.sqrt(5.0)))
    spiral = np.column_stack([np.cos(angle) * np.sqrt(1.0 - z * z), np.sin(angle) * np.sqrt(1.0 - z * z), z])
    half = np.vstack([np.array(grid, dtype=float), spiral])
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    return np.vstack([half, -half])


def _link_poses(model: Model) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """(R, p) of every link, about where the base is, in the neutral configuration and in random ones."""
    rng = np.random.default_rng(0)
    configurations = [model.written(), *random_configuration(model, rng, CONFIGURATIONS)]
    out = []
    for q in configurations:
        X = poses(model, q)
        out.append([(np.asarray(x.R, dtype=float), np.asarray(x.p, dtype=float)) for x in X])
    return out


def _supports(X: list[list[tuple[np.ndarray, np.ndarray]]], points: Sequence[ContactPoint]) -> tuple[np.ndarray, np.ndarray]:
    """(how far each point reaches, (configurations, points, directions); the height of its lowest part in the neutral one)."""
    directions = _directions()
    radii = np.array([point.radius for point in points])
    rows, low = [], np.zeros(len(points))
    for k, links in enumerate(X):
        centres = np.array([links[p.link][0] @ np.array(p.position) + links[p.link][1] for p in points])
        # about the base, so that a base far away does not cost digits
        centres = centres - links[0][1]
        rows.append(centres @ directions.T + radii[:, None])
        if k == 0:
            low = centres[:, 2] - radii
    return np.array(rows), low


def _candidates(model: Model) -> list[ContactPoint]:
    """The outermost points of every link's shapes."""
    links = [
        (i, link, [shape for shape in link.collisions or link.visuals if shape.contact]) for i, link in enumerate(model.links)
    ]
    found = [point for i, link, shapes in links for point in _outermost(i, link, _shape_points(link, shapes))]
    if found:
        return found
    return [point for i, link, _ in links for point in _outermost(i, link, _inertia_box(link))]


def _shape_points(link: Link, shapes: Sequence[Shape]) -> list[Candidate]:
    """(position, radius, friction) of what may touch; meshes that cannot be read count for nothing."""
    out = []
    for shape in shapes:
        found = spheres(shape)
        at, radii = np.array([p for p, _ in found], dtype=float), [r for _, r in found]
        if shape.kind == "mesh" and shape.mesh is not None:
            try:
                at = read_vertices(shape.mesh) * np.array(shape.size)
                radii = [0.0] * len(at)
            except (CondyleError, OSError, ValueError):
                continue
        if len(at):
            moved = product(at, shape.pose.R.T) + shape.pose.p
            pairs = zip(moved, radii, strict=True)
            out += [(p, float(r), shape.friction) for p, r in pairs if np.all(np.isfinite(p)) and np.isfinite(r)]
    return out


def _inertia_box(link: Link) -> list[Candidate]:
    """The corners of the box whose mass and moments along the link's axes are those of the link."""
    mass = float(link.inertia.mass)
    if not mass > 0.0:
        return []
    moments = np.diag(np.asarray(link.inertia.I_com, dtype=float))
    sides = np.sqrt(np.maximum(6.0 * (moments.sum() - 2.0 * moments) / mass, 0.0))
    com = np.asarray(link.inertia.com, dtype=float)
    corners = [com + 0.5 * sides * (x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    return [(corner, 0.0, None) for corner in corners]


def _outermost(i: int, link: Link, points: list[Candidate]) -> list[ContactPoint]:
    """Those of a link's points that are the farthest in some direction."""
    if not points:
        return []
    at, radii = np.array([p for p, _, _ in points]), np.array([r for _, r, _ in points])
    centred = at - at.mean(axis=0)
    size = float(np.max(np.abs(centred)) + np.max(radii)) or 1.0
    reach = np.round((centred @ _directions().T + radii[:, None]) / size, DIGITS)
    kept = sorted({int(k) for k in np.argmax(reach, axis=0)})
    found = []
    for n, k in enumerate(kept):
        x, y, z = (float(value) + 0.0 for value in np.round(at[k], PLACES))
        found.append(ContactPoint(f"{link.name}_auto{n}", i, (x, y, z), float(radii[k]), points[k][2]))
    return found
