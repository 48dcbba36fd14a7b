"""The looks and the collision bodies of URDF links: boxes, spheres, cylinders, capsules, meshes, and their colors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from condyle.robot.angles import cos_sin
from condyle.robot.description import Shape
from condyle.robot.fields import Fields
from condyle.robot.paths import Places
from condyle.robot.report import Report, quoted
from condyle.robot.spatial import Pose

Color = tuple[float, float, float, float]

# the attributes that give each shape its size
SIZES = {"sphere": ("radius",), "cylinder": ("radius", "length"), "capsule": ("radius", "length")}
KINDS = ("box", "sphere", "cylinder", "capsule", "mesh")


def rotation_rpy(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """R = Rz(yaw) Ry(pitch) Rx(roll)."""
    (cr, sr), (cp, sp), (cy, sy) = (cos_sin(angle) for angle in (roll, pitch, yaw))
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def origin(parent: Fields) -> Pose:
    """The pose that an element's <origin xyz rpy> gives; the identity when there is none."""
    fields = parent.child("origin")
    if fields is None:
        return Pose.identity()
    xyz = fields.vector("xyz", 3, (0.0, 0.0, 0.0))
    roll, pitch, yaw = fields.vector("rpy", 3, (0.0, 0.0, 0.0))
    fields.finish()
    return Pose(rotation_rpy(roll, pitch, yaw), np.array(xyz))


def materials(robot: Fields, report: Report) -> dict[str, Color]:
    """Colors by material name, wherever they are defined: in the robot first, then in its shapes."""
    colors: dict[str, Color] = {}
    inside = [m for link in robot.children("link") for shape in link.children("visual") for m in shape.children("material")]
    for material in [*robot.children("material"), *inside]:
        material.owner = f"material {quoted(material.text('name', ''))}"
        if (color := _color(material)) is not None:
            colors.setdefault(material.text("name", ""), color)
    for material in robot.children("material"):
        material.text("name")
        material.child("color")
        material.skip("texture", why="only plain colors are shown")
        material.finish()
    return colors


def _color(material: Fields) -> Color | None:
    color = material.child("color")
    if color is None:
        return None
    r, g, b, a = color.vector("rgba", 4, (0.5, 0.5, 0.5, 1.0))
    color.finish()
    return r, g, b, a


def shape(fields: Fields, colors: dict[str, Color], places: Places, report: Report) -> Shape | None:
    """The shape of a <visual> or <collision>, None (and a problem or note) when it has none we know."""
    pose = origin(fields)
    color = None
    if (material := fields.child("material")) is not None:
        name = material.text("name", "")
        color = _color(material) or colors.get(name)
        material.skip("texture", why="only plain colors are shown")
        material.finish()
        if color is None and fields.element.tag == "visual":
            report.ignored(material.where, f"material {quoted(name)}, which has no color anywhere")
    name = fields.text("name", "")
    geometry = fields.child("geometry", required=True)
    fields.finish()
    if geometry is None:
        return None
    found = [child for kind in KINDS for child in geometry.children(kind)]
    geometry.text("name", "")
    geometry.finish()
    if len(found) != 1:
        known = ", ".join(f"<{kind}>" for kind in KINDS)
        if found or not geometry.element.children:
            geometry.problem(f"has {len(found)} shapes: write one of {known}")
        return None
    kind = found[0].element.tag
    size, mesh = _size(found[0], kind), None
    if kind == "mesh":
        mesh = _mesh(found[0], places, report)
    found[0].finish()
    return Shape(kind, size, pose, name, mesh, color)


def _size(fields: Fields, kind: str) -> tuple[float, ...]:
    """The numbers that give a shape its size: positive, but for a mesh, which may be mirrored."""
    if kind == "mesh":
        size = fields.vector("scale", 3, (1.0, 1.0, 1.0))
        if 0.0 in size:
            fields.problem("attribute 'scale' has a zero, which flattens the mesh")
        return size
    size = fields.vector("size", 3) if kind == "box" else tuple(fields.number(name) for name in SIZES[kind])
    if any(length < 0.0 for length in size):
        fields.problem(f"the sizes {size} must not be negative")
    elif 0.0 in size:
        fields.report.kept(fields.where, f"{fields.owner} <{kind}> of size zero")
    return size


def _mesh(fields: Fields, places: Places, report: Report) -> Path | None:
    """The mesh file, if it is there and may be looked at; the physics does not need it."""
    name = fields.text("filename")
    if not name:
        return None
    try:
        path = places.find(name)
    except ValueError as error:
        fields.problem(f"mesh {quoted(name)}: {error}")
        return None
    if path is None:
        report.ignored(fields.where, f"mesh files not found in the allowed folders, such as {quoted(name)}")
    return path
