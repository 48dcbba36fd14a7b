"""URDF: a robot as links and joints in XML. All problems of a file are reported at once; nothing half-read escapes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from condyle.errors import RobotError
from condyle.robot.angles import rotation_rpy
from condyle.robot.check import structure
from condyle.robot.description import Description, JointSpec, Limits, LinkSpec, Mimic, Shape
from condyle.robot.fields import Fields, number
from condyle.robot.names import nearest, quoted
from condyle.robot.paths import Folders, Outside, Places
from condyle.robot.report import ERROR, Report
from condyle.robot.rotor import NUMBERS, RotorData, changed
from condyle.robot.spatial import Inertia, Pose, product, symmetric
from condyle.robot.urdf_unsupported import OTHERS, note_the_rest
from condyle.robot.xml import Element, read_xml

Color = tuple[float, float, float, float]

# the attributes that give each shape its size
SIZES = {"sphere": ("radius",), "cylinder": ("radius", "length"), "capsule": ("radius", "length")}
KINDS = ("box", "sphere", "cylinder", "capsule", "mesh")

# URDF's names for joints, and ours
JOINT_KINDS = {
    "revolute": "revolute",
    "continuous": "continuous",
    "prismatic": "prismatic",
    "fixed": "fixed",
    "floating": "free",
    "planar": "planar",
    "spherical": "ball",
    "ball": "ball",
}
WITH_AXIS = ("revolute", "continuous", "prismatic", "planar")

# stands for a body that cannot be read, in a file that is refused
HARMLESS = Inertia.about_com(1.0, np.zeros(3), np.eye(3))

# an axis this close to length one is unit but for rounding
UNIT_AXIS = 1e-9

# how the names of meshes end
MESHES = (
    ".stl",
    ".obj",
    ".dae",
    ".ply",
    ".glb",
    ".gltf",
    ".3ds",
    ".fbx",
    ".off",
    ".stp",
    ".step",
    ".usd",
    ".msh",
    ".wrl",
    ".vtk",
)

# what other programs keep in URDF files
ELSEWHERE = ("transmission", "ros2_control", "sensor", "plugin", "link_state_publisher", "disable_collisions")
NOT_PHYSICS = "which says nothing about the rigid bodies"
FOREIGN = "which other simulators read"


def read_urdf(source: str | bytes, file: str = "robot.urdf", *, roots: Folders = (), package_dirs: Folders = ()) -> Description:
    """The robot that a URDF text describes. RobotError with all problems of the file if it cannot be read.

    Meshes are looked for in the file's own folder, in the packages of `package_dirs`, and below `roots`, nowhere else.
    Joints come sorted by name, the order in which urdfdom, and so Pinocchio, visits the children of a link.
    """
    return describe(read_xml(source, file), file, Places.around(file, roots, package_dirs))


def describe(root: Element, file: str, places: Places, report: Report | None = None) -> Description:
    """The robot that a tree of URDF elements describes, read from a file or expanded by xacro."""
    report = Report() if report is None else report
    description = read_robot(root, file, places, report)
    if report.problems:
        # the graph is worth looking at only if every part of it has its names
        named = all(link.name for link in description.links)
        if named and all(joint.name and joint.parent and joint.child for joint in description.joints):
            structure(description, report)
        raise RobotError(report.problems)
    return description


def read_robot(root: Element, file: str, places: Places, report: Report) -> Description:
    """What can be read of a tree of URDF elements; everything wrong in it is in the report, and has harmless values here."""
    if root.tag != "robot":
        raise RobotError([f"{root.where}: the outermost element is <{quoted(root.tag)[1:-1]}>, not <robot>: this is no URDF"])
    robot = Fields(root, report)
    name = robot.text("name", "") or Path(file).stem
    if not robot.has("name"):
        what = f"the robot has no name: it is called {quoted(name)} after its file"
        report.repaired(robot.where, what, "robot-name", element=root)
    robot.text("version", "")
    colors = materials(robot, report)
    links = [_link(fields, colors, places) for fields in robot.children("link")]
    joints = [_joint(fields) for fields in robot.children("joint")]
    if any(joint.parent == "world" for joint in joints) and not any(link.name == "world" for link in links):
        report.repaired(robot.where, "joints have the parent 'world', which is no link: one is added", "world", element=root)
        links.append(LinkSpec("world", where=robot.where))
    rotors = [_rotor(fields) for fields in robot.children("rotor")]
    if any(child.tag.startswith("xacro:") for child in root.children):
        robot.problem("has xacro elements", "name the file .xacro, or expand it first", "xacro")
    elif not links:
        robot.problem("has no <link>", "a robot has at least one", "no-link")
    robot.skip(*ELSEWHERE, why=NOT_PHYSICS)
    robot.skip(*OTHERS, why=FOREIGN)
    robot.finish()
    note_the_rest(root, report, file)

    joints = _leaders(joints, report)
    joints.sort(key=lambda joint: joint.name)
    return Description(name, tuple(links), tuple(joints), (), report.notes, file, rotors=tuple(rotors))


def _leaders(joints: list[JointSpec], report: Report) -> list[JointSpec]:
    """The joints with each <mimic> of a joint that exists only with the follower's own prefix meaning that one: q1, left_q1."""
    names = {joint.name for joint in joints}
    changed = list(joints)
    for k, joint in enumerate(joints):
        if joint.mimic is None or not joint.mimic.joint or joint.mimic.joint in names:
            continue
        wanted = [name for name in names if name.endswith("_" + joint.mimic.joint)]
        wanted = [name for name in wanted if joint.name.startswith(name.removesuffix(joint.mimic.joint))]
        if len(wanted) == 1:
            missing = quoted(joint.mimic.joint)
            what = f"joint {quoted(joint.name)} <mimic>: joint {missing} does not exist, {quoted(wanted[0])} is taken"
            report.repaired(joint.where, what, "mimic-prefix")
            changed[k] = replace(joint, mimic=replace(joint.mimic, joint=wanted[0]))
    return changed


def _link(fields: Fields, colors: dict[str, Color], places: Places) -> LinkSpec:
    name = fields.text("name")
    fields.owner = f"link {quoted(name)}"
    inertial = fields.child("inertial")
    inertia = _inertia(inertial) if inertial is not None else None
    visuals = [shape(each, colors, places, fields.report) for each in fields.children("visual")]
    collisions = [shape(each, colors, places, fields.report) for each in fields.children("collision")]
    fields.skip(*OTHERS, why=FOREIGN)
    fields.finish()
    return LinkSpec(name, inertia, tuple(filter(None, visuals)), tuple(filter(None, collisions)), fields.where)


def _inertia(fields: Fields) -> Inertia | None:
    """The body about its link's frame: URDF gives the inertia about the centre of mass, in axes turned by rpy.

    Without <mass> or <inertia> it counts for nothing, as in urdfdom and so in Pinocchio.
    """
    X, before = origin(fields), len(fields.report.findings)
    mass, moments = fields.child("mass"), fields.child("inertia")
    fields.finish()
    if mass is None or moments is None:
        missing = "mass" if mass is None else "inertia"
        what = f"{fields.owner} <inertial> has no <{missing}>: the link counts as one without mass"
        fields.report.kept(fields.where, what, "part-missing", element=fields.element, name=missing)
        return None
    m = mass.number("value")
    xx, yy, zz = (moments.number(name) for name in ("ixx", "iyy", "izz"))
    xy, xz, yz = (moments.number(name, 0.0) for name in ("ixy", "ixz", "iyz"))
    mass.finish()
    moments.finish()
    if any(finding.severity == ERROR for finding in fields.report.findings[before:]):
        return HARMLESS
    I = product(product(X.R, np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])), X.R.T)
    return Inertia.about_com(m, X.p, symmetric(I))


def _joint(fields: Fields) -> JointSpec:
    name = fields.text("name")
    fields.owner = f"joint {quoted(name)}"
    written = fields.text("type")
    kind = JOINT_KINDS.get(written, "fixed")
    if written and written not in JOINT_KINDS:
        fields.problem(f"type {quoted(written)} is unknown{nearest(written, list(JOINT_KINDS))}", rule="joint-type")
    parent, child = (_end(fields, tag) for tag in ("parent", "child"))
    pose, axis, limits, mimic = origin(fields), _axis(fields, kind), _limits(fields, kind), _mimic(fields, kind)
    damping = friction = 0.0
    if (dynamics := fields.child("dynamics")) is not None:
        damping, friction = dynamics.number("damping", 0.0), dynamics.number("friction", 0.0)
        dynamics.finish()
    fields.skip("safety_controller", "calibration", "plugin", why=NOT_PHYSICS)
    fields.skip(*OTHERS, why=FOREIGN)
    fields.finish()
    return JointSpec(name, kind, parent, child, pose, axis, limits, damping, friction, 0.0, mimic, fields.where)


def _rotor(fields: Fields) -> RotorData:
    """An element <rotor frame="thrust_1" direction="1" drag="0.0172" .../>, ours: numbers of RotorData as attributes."""
    frame = fields.text("frame")
    fields.owner = f"rotor {quoted(frame)}"
    numbers = {name: fields.number(name) for name in (*NUMBERS, "thrust_min", "thrust_max") if fields.has(name)}
    gimbal = {"gimbal": fields.text("gimbal")} if fields.has("gimbal") else {}
    fields.finish()
    return changed(RotorData(frame), {**numbers, **gimbal})


def _end(joint: Fields, tag: str) -> str:
    """The link at one end of a joint."""
    end = joint.child(tag, required=True)
    if end is None:
        return ""
    name = end.text("link")
    end.finish()
    return name


def _axis(joint: Fields, kind: str) -> np.ndarray:
    """The unit axis, along x when none is written, as URDF says."""
    fields = joint.child("axis")
    if fields is None:
        return np.array([1.0, 0.0, 0.0])
    x, y, z = fields.vector("xyz", 3, (1.0, 0.0, 0.0))
    fields.finish()
    if kind not in WITH_AXIS:
        return np.array([1.0, 0.0, 0.0])
    # math.hypot neither overflows nor loses small numbers
    length = math.hypot(x, y, z)
    if length == 0.0 or math.isinf(length):
        fields.problem("the axis has no direction", "write one that is not zero, such as '0 0 1'", "axis-zero")
        return np.array([1.0, 0.0, 0.0])
    if abs(length - 1.0) > UNIT_AXIS:
        what = f"{joint.owner} <axis> has length {length:.9g}: scaled to one"
        joint.report.repaired(fields.where, what, "axis-length", element=fields.element, data=(x, y, z))
    return np.array([x, y, z]) / length


def _limits(joint: Fields, kind: str) -> Limits:
    """The limits as written. URDF says that a missing end is zero; with neither end there are no limits, or it could not move."""
    fields, bounded = joint.child("limit"), kind in ("revolute", "prismatic")
    if fields is None:
        if bounded:
            what = f"{joint.owner} has no <limit>: it may move without end"
            joint.report.kept(joint.where, what, "limit-missing", element=joint.element, data=joint.element)
        return Limits()
    lower, upper = fields.optional("lower"), fields.optional("upper")
    velocity, effort = fields.optional("velocity"), fields.optional("effort")
    fields.finish()
    if not bounded:
        if kind != "fixed" and (lower is not None or upper is not None):
            what = f"lower and upper of {kind} joints, which have no ends"
            joint.report.ignored(
                fields.where, what, "limit-unused", element=fields.element, data=(joint.owner, kind, lower, upper)
            )
        return Limits(None, None, velocity, effort)
    if lower is None and upper is None:
        what = f"{joint.owner} <limit> has neither lower nor upper: it may move without end"
        joint.report.kept(fields.where, what, "limit-missing", element=fields.element, data=joint.element)
        return Limits(None, None, velocity, effort)
    for name, value in (("lower", lower), ("upper", upper)):
        if value is None:
            what = f"{joint.owner} <limit> has no '{name}': it is 0, as URDF says"
            joint.report.repaired(fields.where, what, "limit-end", element=fields.element, name=name)
    return Limits(lower or 0.0, upper or 0.0, velocity, effort)


def _mimic(joint: Fields, kind: str) -> Mimic | None:
    fields = joint.child("mimic")
    if fields is None:
        return None
    mimic = Mimic(fields.text("joint"), fields.number("multiplier", 1.0), fields.number("offset", 0.0))
    fields.finish()
    if kind == "fixed":
        joint.report.ignored(fields.where, "<mimic> of fixed joints, which do not move")
        return None
    return mimic


# -- shapes and colors


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
        if not material.text("name", ""):
            report.ignored(material.where, "a <material> without a name")
        material.child("color")
        material.skip("texture", why="only plain colors are shown")
        material.finish()
    return colors


def _color(material: Fields) -> Color | None:
    color = material.child("color")
    if color is None:
        return None
    # a colour is never worth a refusal: what cannot be read is grey, what is out of range the nearest that there is
    text = color.text("rgba", "0.5 0.5 0.5 1")
    color.finish()
    try:
        values = [number(part) for part in text.replace(",", " ").split()]
    except ValueError:
        values = []
    if len(values) not in (3, 4):
        color.report.kept(
            color.where, f"{color.place}: rgba {quoted(text)} is not four numbers: it is grey", "color", element=color.element
        )
        return 0.5, 0.5, 0.5, 1.0
    r, g, b, a = (min(max(value, 0.0), 1.0) for value in (*values, 1.0)[:4])
    if (r, g, b, a) != tuple(values):
        what = f"{color.place}: rgba {quoted(text)} is not four numbers from 0 to 1: it is {r:g} {g:g} {b:g} {a:g}"
        color.report.kept(color.where, what, "color", element=color.element)
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
            what = f"material {quoted(name)}, which has no color anywhere"
            report.ignored(material.where, what, "no-color", element=material.element, name=name)
    name = fields.text("name", "")
    geometry = fields.child("geometry")
    fields.finish()
    nothing = f"{fields.place} has no shape: {'nothing is shown' if fields.element.tag == 'visual' else 'nothing touches'}"
    if geometry is None:
        report.kept(fields.where, nothing, "part-missing", element=fields.element, name="geometry")
        return None
    found = [child for kind in KINDS for child in geometry.children(kind)]
    geometry.text("name", "")
    geometry.finish()
    if len(found) != 1:
        known = ", ".join(f"<{kind}>" for kind in KINDS)
        if found:
            geometry.problem(f"has {len(found)} shapes", f"write one of {known}", "no-shape", data=fields.element)
        elif not geometry.element.children:
            report.kept(geometry.where, nothing, "no-shape", element=geometry.element, data=fields.element)
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
        size = _scale(fields)
        if 0.0 in size:
            fields.problem("attribute 'scale' has a zero, which flattens the mesh", "write one without zeros", "scale-zero")
        return size
    size = fields.vector("size", 3) if kind == "box" else tuple(fields.number(name) for name in SIZES[kind])
    if any(length < 0.0 for length in size):
        fields.problem(f"the sizes {size} must not be negative", rule="size-negative")
    elif 0.0 in size:
        fields.report.kept(fields.where, f"{fields.owner} <{kind}> of size zero", "size-zero", element=fields.element)
    return size


def _scale(fields: Fields) -> tuple[float, ...]:
    """The scale of a mesh along its axes; one number is for all, and a fourth for nothing."""
    text = fields.text("scale", "1 1 1")
    parts = text.replace(",", " ").split()
    if len(parts) not in (1, 3, 4):
        return fields.vector("scale", 3, (1.0, 1.0, 1.0))
    try:
        values = [number(part) for part in parts]
    except ValueError as error:
        fields.problem(f"attribute 'scale': {error}", rule="number", name="scale", data=3)
        return 1.0, 1.0, 1.0
    scale = tuple(values[:3] if len(values) > 1 else values * 3)
    if len(values) != 3 or "," in text:
        what = f"{fields.place}: scale {quoted(text)} is not three numbers: it is {' '.join(f'{each:g}' for each in scale)}"
        fields.report.repaired(fields.where, what, "scale", element=fields.element)
    return scale


def _mesh(fields: Fields, places: Places, report: Report) -> Path | None:
    """The mesh file, if it is there and may be looked at; the physics does not need it."""
    name = fields.text("filename")
    if not name:
        return None
    try:
        path = places.find(name)
    except Outside as error:
        # a mesh that is somewhere else is not opened, and the physics does not need it; anything else is refused
        if Path(name).suffix.lower() not in MESHES:
            fields.problem(f"mesh {quoted(name)}: {error}", rule="mesh-missing")
            return None
        path = None
    except ValueError as error:
        fields.problem(f"mesh {quoted(name)}: {error}", rule="mesh-missing")
        return None
    if path is None:
        what = f"mesh files not found in the allowed folders, such as {quoted(name)}"
        report.ignored(fields.where, what, "mesh-missing", element=fields.element)
    return path
