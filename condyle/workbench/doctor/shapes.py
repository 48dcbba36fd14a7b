"""How large links are: bounds of shapes, meshes too, the solid bodies that they would be, and a summary of the whole robot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import pi
from pathlib import Path
from typing import Any

import numpy as np

from condyle.errors import CondyleError
from condyle.robot.description import Description, Shape
from condyle.robot.mesh import OWN_READERS, read_vertices
from condyle.robot.parts import solid, total
from condyle.robot.spatial import Inertia, Pose
from condyle.robot.stance import corners, half_sizes, poses

DENSITY = 1000.0  # kg/m3, of a solid primitive: plastics and metal with air between, about that of water
MESH_DENSITY = 300.0  # kg/m3, of the box around a mesh, which the part fills in part
BALL = 0.03  # m, radius of the ball that stands for a link without any shape
MAX_SIZE = 1e6  # m

CORNERS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
FREEDOM = {"revolute": 1, "continuous": 1, "prismatic": 1, "fixed": 0, "free": 6, "ball": 3, "planar": 3}


def known_shapes(shapes: Iterable[Shape], meshes: dict[Path, np.ndarray | None]) -> list[Shape]:
    """The shapes whose size is known; a mesh is the box around it, and still has its path."""
    found = []
    for shape in shapes:
        if shape.kind == "mesh":
            box = mesh_bounds(shape.mesh, meshes)
            if box is not None:
                scale = np.array(shape.size)
                center, extent = box.mean(axis=0) * scale, np.abs((box[1] - box[0]) * scale)
                pose = shape.pose @ Pose(np.eye(3), center)
                found.append(Shape("box", tuple(float(x) for x in extent), pose, mesh=shape.mesh))
        elif min(shape.size) > 0.0 and max(shape.size) <= MAX_SIZE:
            found.append(shape)
    return found


def mesh_bounds(path: Path | None, meshes: dict[Path, np.ndarray | None]) -> np.ndarray | None:
    """(lowest, highest) corner of an STL or OBJ file, as written in it; None for other files. `meshes` keeps what was read."""
    if path is None or path.suffix.lower() not in OWN_READERS:
        return None
    if path not in meshes:
        meshes[path] = None
        try:
            points = read_vertices(path)
            if np.abs(points).max() <= 1e9:
                meshes[path] = np.array([points.min(axis=0), points.max(axis=0)])
        except CondyleError:
            pass
    return meshes[path]


def bounds(shapes: Sequence[Shape]) -> np.ndarray | None:
    """(lowest, highest) corner of the box around shapes, (2, 3); None without any."""
    if not shapes:
        return None
    points = np.concatenate([each.pose.p + (CORNERS * half_sizes(each)) @ each.pose.R.T for each in shapes])
    return np.array([points.min(axis=0), points.max(axis=0)])


def volume(shape: Shape) -> float:
    """Of a shape, m3."""
    s = shape.size
    if shape.kind == "box":
        return s[0] * s[1] * s[2]
    ball = 4.0 / 3.0 * pi * s[0] ** 3
    if shape.kind in ("sphere", "ellipsoid"):
        return ball if shape.kind == "sphere" else 4.0 / 3.0 * pi * s[0] * s[1] * s[2]
    return pi * s[0] ** 2 * s[1] + (ball if shape.kind == "capsule" else 0.0)


def estimate(collisions: Sequence[Shape], visuals: Sequence[Shape], mass: float | None = None) -> tuple[Inertia, str]:
    """(body, how it was found): the collision shapes as solids, else the visual ones, else a small ball; scaled to a mass."""
    ball = Shape("sphere", (BALL,))
    found = solid(volume(ball) * DENSITY, ball)
    how = f"a ball of {BALL:g} m radius at {DENSITY:g} kg/m3, for want of any shape"
    for tag, shapes in (("collision", collisions), ("visual", visuals)):
        body = total(*(solid(volume(each) * (DENSITY if each.mesh is None else MESH_DENSITY), each) for each in shapes))
        if 1e-9 < body.mass < 1e6:
            meshes = any(each.mesh is not None for each in shapes)
            what = f"the box around the {tag} mesh at {MESH_DENSITY:g}" if meshes else f"the {tag} shape at {DENSITY:g}"
            found, how = body, f"estimated from {what} kg/m3"
            break
    if mass is None or not 1e-9 < mass < 1e6:
        return found, how
    ratio = mass / found.mass
    return Inertia(mass, found.h * ratio, found.I * ratio), f"moments {how}, scaled to the mass written"


# -- the robot


def summary(description: Description) -> dict[str, Any]:
    """What a robot is: its joints and degrees of freedom, its mass, and the box around it with all joints at zero."""
    placed = poses(description)
    moving = [joint for joint in description.joints if joint.kind != "fixed"]
    points = [corner for link in description.links for corner in corners(link, placed[link.name])]
    low, high = (np.min(points, axis=0), np.max(points, axis=0)) if points else (np.zeros(3), np.zeros(3))
    return {
        "name": description.name,
        "links": len(description.links),
        "moving_joints": len(moving),
        "degrees_of_freedom": sum(FREEDOM[joint.kind] for joint in moving if joint.mimic is None),
        "mass": float(sum(link.inertia.mass for link in description.links if link.inertia is not None)),
        "extent": [float(x) for x in high - low],
        "lowest": float(low[2]),
        "meshes": sum(shape.kind == "mesh" for link in description.links for shape in (*link.visuals, *link.collisions)),
    }
