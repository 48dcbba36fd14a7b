"""A model as URDF: the same links, joints, inertias and simple shapes, for ROS tools and for other programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from condyle.errors import RobotError
from condyle.robot.description import Shape
from condyle.robot.joints import Ball, Free, Prismatic, Revolute
from condyle.robot.model import NOT_COMPENSATED, Frame, Link, Model
from condyle.robot.spatial import Inertia, Pose

WORLD = "world"
UNLIMITED = 1e6  # N m or N, rad/s or m/s: URDF demands numbers for effort and velocity of every limited joint


def to_urdf(model: Model) -> str:
    """The URDF text of a model: every moving link with the inertia of all that is fixed to it, every frame as a massless link.

    Numbers are the shortest decimals that give the same floats; rotations become roll, pitch and yaw, and centres of mass are h
    / m, so that dynamics of the text agree to about 1e-15 relative. Coordinates come in the order of names, as for every URDF. A
    base that moves freely is left out: load the text with base="free". Armatures, springs, compensated weights and closed loops
    have no element in URDF; a comment names what is missing. RobotError for a ball joint, which URDF does not have either.
    """
    root = root_of(model)
    robot = Element("robot", {"name": model.name})
    for note in _missing(model):
        robot.append(ElementTree.Comment(f" {note} ".replace("--", "- -")))
    taken = {link.joint for link in model.links}
    if root != _free_base(model):
        _link(robot, root, None, model.visuals, model.collisions)
    for _, link in model.outward():
        _link(robot, link.name, link.inertia, link.visuals, link.collisions)
        if link.name != root:
            _joint(robot, link, model.links[link.parent].name if link.parent >= 0 else root, taken)
    for frame in fixed_frames(model):
        _link(robot, frame.name, None, (), ())
        name = f"{frame.name}_fixed"
        while name in taken:
            name += "_"
        taken.add(name)
        parent = model.links[frame.link].name if frame.link >= 0 else root
        _placed(robot, name, "fixed", parent, frame.name, frame.pose)
    ElementTree.indent(robot)
    return f'<?xml version="1.0"?>\n{ElementTree.tostring(robot, encoding="unicode")}\n'


def root_of(model: Model) -> str:
    """The link that no joint of the URDF moves: a free base, the first frame that is where the world is, or "world"."""
    if (base := _free_base(model)) is not None:
        return base
    joints = {link.joint for link in model.links}
    for frame in model.frames:
        if frame.link < 0 and _identity(frame.pose) and frame.name not in joints and not frame.name.startswith("joint:"):
            return frame.name
    taken, root = {link.name for link in model.links} | {frame.name for frame in model.frames}, WORLD
    while root in taken:
        root += "_"
    return root


def fixed_frames(model: Model) -> list[Frame]:
    """The frames that are neither the root nor those of moving links or joints: each becomes a link on a fixed joint."""
    known = {root_of(model), *(link.name for link in model.links), *(link.joint for link in model.links)}
    return [frame for frame in model.frames if frame.name not in known and not frame.name.startswith("joint:")]


def roll_pitch_yaw(R: np.ndarray) -> tuple[float, float, float]:
    """Roll, pitch, yaw of R = Rz(yaw) Ry(pitch) Rx(roll), to rounding for every R, also where pitch is a quarter turn."""
    R = np.asarray(R, dtype=float)
    yaw = math.atan2(R[1, 0], R[0, 0])
    c, s = math.cos(yaw), math.sin(yaw)
    # Rz(-yaw) R = Ry(pitch) Rx(roll), for any yaw where R[0, 0] and R[1, 0] vanish
    pitch = math.atan2(-R[2, 0], c * R[0, 0] + s * R[1, 0])
    roll = math.atan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1])
    return roll, pitch, yaw


# ---- elements


def _link(robot: Element, name: str, inertia: Inertia | None, visuals: Sequence[Shape], collisions: Sequence[Shape]) -> None:
    element = SubElement(robot, "link", {"name": name})
    if inertia is not None and float(inertia.mass) != 0.0:
        inertial = SubElement(element, "inertial")
        SubElement(inertial, "origin", {"xyz": _numbers(inertia.com)})
        SubElement(inertial, "mass", {"value": _numbers([inertia.mass])})
        I = np.asarray(inertia.I_com, dtype=float)
        pairs = (("ixx", 0, 0), ("ixy", 0, 1), ("ixz", 0, 2), ("iyy", 1, 1), ("iyz", 1, 2), ("izz", 2, 2))
        SubElement(inertial, "inertia", {key: _numbers([I[i, j]]) for key, i, j in pairs})
    for tag, shapes in (("visual", visuals), ("collision", collisions)):
        for shape in shapes:
            for part in _parts(shape):
                _shape(element, tag, part)


def _joint(robot: Element, link: Link, parent: str, taken: set[str]) -> None:
    limited = link.limits.lower is not None or link.limits.upper is not None
    if isinstance(link.kind, Ball):
        raise RobotError([f"joint '{link.joint}': URDF has no ball joints, so this robot cannot be written as URDF"])
    kind = "floating" if isinstance(link.kind, Free) else "prismatic" if isinstance(link.kind, Prismatic) else "continuous"
    element = _placed(
        robot, link.joint, "revolute" if kind == "continuous" and limited else kind, parent, link.name, link.placement
    )
    if isinstance(link.kind, Free):
        return
    assert isinstance(link.kind, Revolute | Prismatic)
    SubElement(element, "axis", {"xyz": _numbers(link.kind.axis)})
    limits = {"lower": link.limits.lower, "upper": link.limits.upper} if limited else {}
    limits |= {"effort": link.limits.effort, "velocity": link.limits.velocity}
    if limited or any(value is not None for value in limits.values()):
        given = {key: UNLIMITED if value is None else value for key, value in limits.items()}
        if limits.get("lower", 0.0) is None:
            given["lower"] = -UNLIMITED
        SubElement(element, "limit", {key: _numbers([value]) for key, value in given.items()})
    if link.damping or link.friction:
        SubElement(element, "dynamics", {"damping": _numbers([link.damping]), "friction": _numbers([link.friction])})
    if link.mimic is not None:
        values = {"multiplier": _numbers([link.mimic.multiplier]), "offset": _numbers([link.mimic.offset])}
        SubElement(element, "mimic", {"joint": link.mimic.joint, **values})


def _placed(robot: Element, name: str, kind: str, parent: str, child: str, pose: Pose) -> Element:
    element = SubElement(robot, "joint", {"name": name, "type": kind})
    SubElement(element, "parent", {"link": parent})
    SubElement(element, "child", {"link": child})
    _origin(element, pose)
    return element


def _origin(element: Element, pose: Pose) -> None:
    if not _identity(pose):
        SubElement(element, "origin", {"xyz": _numbers(pose.p), "rpy": _numbers(roll_pitch_yaw(pose.R))})


def _parts(shape: Shape) -> list[Shape]:
    """The shape as shapes that URDF has: a capsule is a cylinder and two spheres; an ellipsoid is left out."""
    if shape.kind == "capsule":
        radius, length = shape.size
        ends = [shape.pose @ Pose(np.eye(3), np.array([0.0, 0.0, z])) for z in (-length / 2.0, length / 2.0)]
        balls = [Shape("sphere", (radius,), end, color=shape.color) for end in ends]
        return [Shape("cylinder", shape.size, shape.pose, shape.name, color=shape.color), *balls]
    known = shape.kind in ("box", "sphere", "cylinder") or (shape.kind == "mesh" and shape.mesh is not None)
    return [shape] if known else []


def _shape(link: Element, tag: str, shape: Shape) -> None:
    element = SubElement(link, tag, {"name": shape.name} if shape.name else {})
    _origin(element, shape.pose)
    geometry = SubElement(element, "geometry")
    if shape.kind == "mesh":
        assert shape.mesh is not None
        scale = {} if tuple(shape.size) == (1.0, 1.0, 1.0) else {"scale": _numbers(shape.size)}
        SubElement(geometry, "mesh", {"filename": shape.mesh.resolve().as_uri(), **scale})
    elif shape.kind == "box":
        SubElement(geometry, "box", {"size": _numbers(shape.size)})
    else:
        sizes = zip(("radius", "length"), shape.size, strict=False)
        SubElement(geometry, shape.kind, {key: _numbers([value]) for key, value in sizes})
    if tag == "visual" and shape.color is not None:
        rgba = _numbers(shape.color)
        material = SubElement(element, "material", {"name": f"rgba {rgba}"})
        SubElement(material, "color", {"rgba": rgba})


# ---- inside


def _free_base(model: Model) -> str | None:
    """The name of a link that moves freely in the world and begins the tree."""
    first = model.links[0] if model.links else None
    free = first is not None and isinstance(first.kind, Free) and first.parent < 0 and _identity(first.placement)
    alone = not any(frame.link < 0 for frame in model.frames) and not any(link.parent < 0 for link in model.links[1:])
    return first.name if first is not None and free and alone else None


def _missing(model: Model) -> list[str]:
    """One sentence for each thing that URDF cannot hold."""
    found = {
        "armatures": any(link.armature for link in model.links),
        "springs": any(link.stiffness for link in model.links),
        "compensated weights": any(link.compensated != NOT_COMPENSATED for link in model.links),
        "closed loops": bool(model.loops),
        "ellipsoids": any(s.kind == "ellipsoid" for link in model.links for s in (*link.visuals, *link.collisions)),
    }
    return [f"not in this file: {what} of the model, which URDF does not have" for what, present in found.items() if present]


def _identity(pose: Pose) -> bool:
    return np.array_equal(np.asarray(pose.R, dtype=float), np.eye(3)) and not np.any(np.asarray(pose.p, dtype=float))


def _numbers(values: Sequence[float] | np.ndarray) -> str:
    return " ".join(repr(float(value) + 0.0) for value in values)
