"""What no loader asks: numbers that look like another unit, bodies that do not fit their shapes, parts that carry the robot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from condyle.robot.names import quoted
from condyle.robot.report import HINT, WARNING, Finding
from condyle.robot.urdf import HARMLESS, WITH_AXIS
from condyle.robot.xml import Element
from condyle.workbench.doctor.document import Document, named
from condyle.workbench.doctor.fixes import NO_INERTIA, Fixes
from condyle.workbench.doctor.shapes import bounds, mesh_bounds, volume
from condyle.workbench.doctor.spelling import listed, written

TURNS = 14.0  # rad, over two turns; ten is written for 'no limit'
FIVE = 5.0  # what angles in degrees are multiples of

# a body of size L has a radius of gyration below L / 2; beyond these shares of L it is not this body
TOO_LARGE, TOO_SMALL = 3.0, 1.0 / 300.0
DENSEST = 25_000.0  # kg/m3: osmium has 22,590
MARKER = 0.01  # m: smaller shapes only mark a place
FAR = 1.0  # how many sizes of its shapes a centre of mass may lie outside of them

READABLE = (".stl", ".obj", ".dae")
GIANT = 20.0  # m: a mesh larger than this on a small robot is in millimetres
SMALL = 5.0  # m: a small robot


def advice(document: Document, fixes: Fixes, found: Sequence[Finding]) -> Iterator[Finding]:
    """What is worth a look beyond the loader's rules, whose findings are `found`."""
    for joint in document.joints:
        yield from _joint(document, joint)
    for link in document.links:
        yield from _body(document, link)
        for shape in link.children:
            yield from _degrees(document, link, shape)
            yield from _mesh(document, link, shape)
    yield from _masses(document, fixes, found)
    yield from _touching(document)


# -- joints


def _joint(document: Document, joint: Element) -> Iterator[Finding]:
    """The axis and the limits of a joint."""
    kind, axis, limit = document.kind(joint), document.child(joint, "axis"), document.child(joint, "limit")
    yield from _degrees(document, joint, joint)
    if axis is None and kind in WITH_AXIS and kind != "planar":
        what = f"{named(joint)} has no <axis>: it is x, as URDF says"
        yield Finding(HINT, "axis-missing", joint.where, what, "Write the axis, so that readers need not know.")
    if limit is None:
        return
    bounded = kind in ("revolute", "prismatic")
    lower, upper = document.number(limit, "lower"), document.number(limit, "upper")
    if bounded and lower is not None and lower == upper:
        what = f"{named(joint)} <limit>: lower and upper are both {lower:g}: it cannot move"
        yield Finding(WARNING, "limit-equal", limit.where, what, 'Write its range, or type="fixed".')
    if kind == "revolute" and in_degrees((lower or 0.0, upper or 0.0)):
        low, high = (written(math.radians(angle)) for angle in sorted((lower or 0.0, upper or 0.0)))
        what = f"{named(joint)} <limit>: [{lower or 0.0:g}, {upper or 0.0:g}] looks like degrees; it is read as radians"
        yield Finding(WARNING, "limit-degrees", limit.where, what, f'If they are degrees, write lower="{low}" upper="{high}".')
    for name, why in (("effort", "its motor can do nothing"), ("velocity", "it may not move")):
        if document.number(limit, name) == 0.0 and kind != "fixed":
            what = f"{named(joint)} <limit>: {name} is 0: {why}"
            yield Finding(WARNING, f"{name}-zero", limit.where, what, "Write the motor's, or leave it out for no limit.")
        elif bounded and name not in limit.attributes:
            what = f"{named(joint)} <limit> has no {name}: it has none"
            yield Finding(HINT, f"{name}-missing", limit.where, what, "Other programs ask for it: write the motor's.")


def _degrees(document: Document, owner: Element, element: Element) -> Iterator[Finding]:
    """An rpy of more than a turn, in round numbers, is in degrees."""
    origin = document.child(element, "origin")
    rpy = document.vector(origin, "rpy", 3)
    if origin is None or rpy is None or not in_degrees(rpy):
        return
    place = named(owner) if owner is element else f"{named(owner)} <{element.tag}>"
    what = f"{place} <origin>: rpy ({listed(rpy)}) looks like degrees; it is read as radians"
    radians = listed([math.radians(angle) for angle in rpy])
    yield Finding(WARNING, "rpy-degrees", origin.where, what, f'If they are degrees, write rpy="{radians}".')


def in_degrees(angles: Sequence[float]) -> bool:
    """Whether angles look like degrees: one is far more than a turn in radians, and all are multiples of five."""
    return any(abs(angle) > TURNS for angle in angles) and all(angle % FIVE == 0.0 and abs(angle) <= 720.0 for angle in angles)


# -- bodies and meshes


def _body(document: Document, link: Element) -> Iterator[Finding]:
    """Numbers that some body could have, but hardly this one."""
    inertial, read, found = document.child(link, "inertial"), document.body(link), document.shapes(link)
    box = bounds(found)
    size = float(np.linalg.norm(box[1] - box[0])) if box is not None else 0.0
    if inertial is None or read is None or read[0] <= 0.0 or box is None or size < MARKER:
        return
    mass, I = read
    gyration = float(np.sqrt(max(np.linalg.eigvalsh(I)[2], 0.0) / mass)) if np.abs(I).max() < 1e100 else 0.0
    where = (document.child(inertial, "inertia") or inertial).where
    what = f"{named(link)} has the inertia of something {2.0 * gyration:.3g} m across, and its shapes are {size:.3g} m"
    if gyration > TOO_LARGE * size:
        ratio = (gyration / (0.3 * size)) ** 2
        unit = "kg mm2 (divide by 1e6)" if 1e5 < ratio < 1e8 else "kg cm2 (divide by 1e4)" if 1e3 < ratio < 1e5 else ""
        yield Finding(HINT, "inertia-large", where, what, f"It may be {unit or 'a placeholder'}: URDF has kg m2.")
    elif 0.0 < gyration < TOO_SMALL * size:
        todo = "It may be in other units than kg m2, or a placeholder: simulations with small inertias need small steps."
        yield Finding(HINT, "inertia-small", where, what, todo)
    filled = sum(volume(each) for each in found)
    if filled > 0.0 and mass / filled > DENSEST:
        grams = ", or in grams" if 100.0 < mass / filled / 1000.0 < 20_000.0 else ""
        what = f"{named(link)} has {mass:g} kg in {filled * 1e3:.3g} litres, denser than any metal"
        where = (document.child(inertial, "mass") or inertial).where
        yield Finding(HINT, "mass-large", where, what, f"The mass may be too large{grams}: URDF has kg.")
    com = document.pose(inertial).p
    outside = float(np.linalg.norm(np.maximum(np.maximum(box[0] - com, com - box[1]), 0.0)))
    if outside > FAR * size:
        what = f"{named(link)} has its centre of mass {outside:.3g} m outside of its shapes, which are {size:.3g} m"
        where = (document.child(inertial, "origin") or inertial).where
        todo = "Check the <origin> of <inertial>: it is in the frame of the link, in metres."
        yield Finding(HINT, "com-outside", where, what, todo)


def _masses(document: Document, fixes: Fixes, found: Sequence[Finding]) -> Iterator[Finding]:
    """Moving parts without mass, or with a mass and no moments, that can be simulated as they are."""
    stuck = {finding.owner for finding in found if finding.rule == NO_INERTIA}
    said = {finding.owner for finding in found if finding.rule == "no-mass"}
    for joint in document.description.joints:
        group = document.rigid(joint.child)
        specs = [spec for link in group if (spec := document.specs.get(id(link))) is not None]
        unknown = any(spec.inertia is HARMLESS for spec in specs)
        if joint.kind == "fixed" or joint.name in stuck or unknown or not group:
            continue
        bodies = [(link, read) for link in group if (read := document.body(link)) is not None and read[0] != 0.0]
        if bodies:
            if not any(np.any(read[1]) for _, read in bodies) and joint.kind != "prismatic":
                yield fixes.point(Finding(WARNING, "inertia-zero", joint.where, ""), bodies[0][0])
            continue
        shaped = [link for link in group if document.shapes(link)]
        link = group[0] if group[0] in shaped or not shaped else shaped[0]
        if shaped and not said.intersection(each.attributes.get("name", "") for each in group):
            inertial = document.child(link, "inertial")
            where = (document.child(inertial, "mass") or inertial or link).where
            todo = "Write an <inertial> with the mass and inertia of the part, if it has any."
            yield Finding(WARNING, "no-mass", where, f"{named(link)} has no mass", todo)


def _mesh(document: Document, link: Element, shape: Element) -> Iterator[Finding]:
    """A mesh of a kind that is not read, or in millimetres."""
    mesh = document.child(document.child(shape, "geometry"), "mesh")
    if mesh is None or shape.tag not in ("visual", "collision"):
        return
    try:
        path = document.places.find(mesh.attributes.get("filename", ""))
    except ValueError:
        return
    if path is not None and path.suffix.lower() not in READABLE:
        what = f"{named(link)} <{shape.tag}>: {quoted(path.suffix)} is not a kind of mesh that is read"
        yield Finding(HINT, "mesh-kind", mesh.where, what, f"Save it as {', '.join(READABLE)}; the physics does not need it.")
    box = mesh_bounds(path, document.meshes)
    if box is None:
        return
    scale = np.array(document.vector(mesh, "scale", 3) or (1.0, 1.0, 1.0))
    size = float(np.max(np.abs((box[1] - box[0]) * scale)))
    if size > GIANT and document.reach < SMALL:
        smaller = listed([float(x) for x in scale * 1e-3])
        sure = 0.001 < size * 1e-3 < max(4.0 * document.reach, 2.0)
        what = f"{named(link)} <{shape.tag}>: the mesh is {size:.4g} m large, on a robot of {document.reach:.3g} m"
        todo, fix = f'It is probably in millimetres: write scale="{smaller}".', f'writes scale="{smaller}"' if sure else ""
        edits = document.text.set(mesh, "scale", smaller) if sure else ()
        yield Finding(WARNING, "mesh-millimetres", mesh.where, what, todo, fix=fix, edits=edits)


# -- standing on the ground


def _touching(document: Document) -> Iterator[Finding]:
    """What would touch the ground if the robot stood on it."""
    shapes = [shape for link in document.links for shape in link.children if shape.tag == "collision"]
    if not document.links or not document.joints:
        return
    if not shapes:
        what = "no link has a <collision>: the robot touches the ground with its visual shapes"
        todo = "Give the parts that touch a <collision>, such as a sphere at each foot; an arm on a table needs none."
        yield Finding(HINT, "nothing-touches", document.root.where, what, todo)
