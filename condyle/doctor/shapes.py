"""How large a link is: the bounds of its shapes, meshes too, and the body that they would be if they were solid."""

from __future__ import annotations

from math import pi
from pathlib import Path

import numpy as np

from condyle.doctor.patient import Patient
from condyle.errors import CondyleError
from condyle.robot.description import Shape
from condyle.robot.mesh import OWN_READERS, read_vertices
from condyle.robot.parts import solid
from condyle.robot.spatial import Inertia, Pose
from condyle.robot.urdf import SIZES
from condyle.robot.xml import Element

DENSITY = 1000.0  # kg/m3, of a solid primitive: plastic and metal with air between, about that of water
MESH_DENSITY = 300.0  # kg/m3, of the box around a mesh, which the part fills in part
BALL = 0.03  # m, radius of the ball that stands for a link without any shape

CORNERS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])


def shape(patient: Patient, element: Element) -> Shape | None:
    """The shape of a <visual> or <collision>, in the frame of its link; a mesh is the box around it; None if unknown."""
    geometry = patient.child(element, "geometry")
    if geometry is None or len(geometry.children) != 1:
        return None
    body, pose = geometry.children[0], patient.pose(element)
    size: tuple[float, ...] | None
    if body.tag == "mesh":
        bounds = mesh_bounds(patient, body)
        if bounds is None:
            return None
        scale = np.array(patient.vector(body, "scale", 3) or (1.0, 1.0, 1.0))
        center, extent = bounds.mean(axis=0) * scale, np.abs((bounds[1] - bounds[0]) * scale)
        return Shape("box", tuple(float(x) for x in extent), pose @ Pose(np.eye(3), center), mesh=Path())
    if body.tag == "box":
        size = patient.vector(body, "size", 3)
    else:
        values = [patient.number(body, name) for name in SIZES.get(body.tag, ())]
        size = tuple(value for value in values if value is not None)
        size = size if size and len(size) == len(values) else None
    if size is None or min(size) <= 0.0 or max(size) > 1e6:
        return None
    return Shape(body.tag, size, pose)


def shapes(patient: Patient, link: Element, tag: str = "") -> list[Shape]:
    """The shapes of a link whose size is known: of both kinds, or of <visual> or <collision> only."""
    tags = (tag,) if tag else ("visual", "collision")
    found = [shape(patient, child) for child in link.children if child.tag in tags]
    return [each for each in found if each is not None]


def bounds(shapes: list[Shape]) -> np.ndarray | None:
    """(lowest, highest) corner of the box around shapes, (2, 3); None without any."""
    corners = []
    for each in shapes:
        half = half_sizes(each)
        corners.append(each.pose.p + (CORNERS * half) @ each.pose.R.T)
    if not corners:
        return None
    points = np.concatenate(corners)
    return np.array([points.min(axis=0), points.max(axis=0)])


def half_sizes(shape: Shape) -> np.ndarray:
    """Half the sides of the box around a shape, in its own axes."""
    s = shape.size
    if shape.kind == "box":
        return np.array(s) / 2.0
    if shape.kind == "sphere":
        return np.full(3, s[0])
    return np.array([s[0], s[0], s[1] / 2.0 + (s[0] if shape.kind == "capsule" else 0.0)])


def volume(shape: Shape) -> float:
    """Of a shape, m3."""
    s = shape.size
    if shape.kind == "box":
        return s[0] * s[1] * s[2]
    ball = 4.0 / 3.0 * pi * s[0] ** 3
    if shape.kind == "sphere":
        return ball
    return pi * s[0] ** 2 * s[1] + (ball if shape.kind == "capsule" else 0.0)


def estimate(patient: Patient, link: Element) -> tuple[Inertia, str]:
    """(body, how it was found): the link's collision shapes as solids, else its visual ones, else a small ball."""
    for tag in ("collision", "visual"):
        found = shapes(patient, link, tag)
        total = Inertia.zero()
        for each in found:
            total = total + solid(volume(each) * (DENSITY if each.mesh is None else MESH_DENSITY), each)
        if 1e-9 < total.mass < 1e6:
            meshes = any(each.mesh is not None for each in found)
            what = f"the box around the {tag} mesh at {MESH_DENSITY:g}" if meshes else f"the {tag} shape at {DENSITY:g}"
            return total, f"estimated from {what} kg/m3"
    ball = Shape("sphere", (BALL,))
    return solid(volume(ball) * DENSITY, ball), f"a ball of {BALL:g} m radius at {DENSITY:g} kg/m3, for want of any shape"


# -- meshes


def mesh_bounds(patient: Patient, mesh: Element) -> np.ndarray | None:
    """(lowest, highest) corner of an STL or OBJ file, as written in it; None for other files, and for what is not there."""
    try:
        path = patient.places.find(mesh.attributes.get("filename", ""))
    except ValueError:
        return None
    if path is None:
        return None
    if path not in patient.meshes:
        patient.meshes[path] = _read_bounds(path)
    return patient.meshes[path]


def _read_bounds(path: Path) -> np.ndarray | None:
    if path.suffix.lower() not in OWN_READERS:
        return None
    try:
        points = read_vertices(path)
    except CondyleError:
        return None
    return np.array([points.min(axis=0), points.max(axis=0)]) if np.abs(points).max() <= 1e9 else None
