"""Words and numbers that are written wrongly: misspelt elements and attributes, commas, units, angles that look like degrees."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import pi

from condyle.doctor.patient import DOUBT, ERROR, HINT, Finding, Patient, close, listed, misspelt, named, written
from condyle.robot.fields import number, numbers
from condyle.robot.names import quoted
from condyle.robot.urdf import ELSEWHERE
from condyle.robot.xml import Element, write_xml

# what URDF knows: the children of each element, and its attributes
SHAPE = ("origin", "geometry", "material")
CHILDREN: dict[str, tuple[str, ...]] = {
    "robot": ("link", "joint", "material"),
    "link": ("inertial", "visual", "collision"),
    "inertial": ("origin", "mass", "inertia"),
    "visual": SHAPE,
    "collision": SHAPE,
    "geometry": ("box", "sphere", "cylinder", "capsule", "mesh"),
    "joint": ("origin", "parent", "child", "axis", "limit", "dynamics", "mimic", "safety_controller", "calibration"),
    "material": ("color", "texture"),
}
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "robot": ("name", "version"),
    "link": ("name", "type"),
    "joint": ("name", "type"),
    "origin": ("xyz", "rpy"),
    "mass": ("value",),
    "inertia": ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"),
    "visual": ("name",),
    "collision": ("name",),
    "geometry": ("name",),
    "box": ("size",),
    "sphere": ("radius",),
    "cylinder": ("radius", "length"),
    "capsule": ("radius", "length"),
    "mesh": ("filename", "scale"),
    "parent": ("link",),
    "child": ("link",),
    "axis": ("xyz",),
    "limit": ("lower", "upper", "effort", "velocity"),
    "dynamics": ("damping", "friction"),
    "mimic": ("joint", "multiplier", "offset"),
    "material": ("name",),
    "color": ("rgba",),
    "texture": ("filename",),
}
# how many numbers an attribute holds
COUNTS = {"xyz": 3, "rpy": 3, "size": 3, "scale": 3, "rgba": 4} | dict.fromkeys(
    ("value", "ixx", "ixy", "ixz", "iyy", "iyz", "izz", "radius", "length", "lower", "upper", "effort", "velocity", "damping",
     "friction", "multiplier", "offset"), 1,
)  # fmt: skip
SEVERAL = ("link", "joint", "material", "visual", "collision")  # may be given more than once
ONE_MATERIAL = (("material", "visual"), ("material", "collision"))  # but a shape has one material

# a unit behind a number, and what it is in SI
UNITS = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "deg": pi / 180.0, "°": pi / 180.0, "rad": 1.0, "kg": 1.0, "g": 1e-3, "N": 1.0,
         "Nm": 1.0, "s": 1.0}  # fmt: skip
WITH_UNIT = re.compile(r"([+-]?+[0-9.]++(?:[eE][+-]?+[0-9]++)?+)\s*+(mm|cm|m|deg|rad|°|kg|g|Nm|N|s)")
DECIMAL_COMMA = re.compile(r"[+-]?+[0-9]{1,20},[0-9]{1,20}")
THOUSANDS = re.compile(r"[+-]?+[1-9][0-9]{0,2},[0-9]{3}")  # one and a bit, or a thousand and more

TURNS = 14.0  # rad, over two turns; ten is written for 'no limit'
FIVE = 5.0  # what angles in degrees are multiples of


def words(patient: Patient) -> Iterator[Finding]:
    """Elements and attributes that nobody reads, where one that is read looks much like it; and numbers that are none."""
    for owner, element in elements(patient.root):
        for child in element.children:
            if child.tag not in CHILDREN[element.tag]:
                yield from _element(patient, owner, element, child)
        for part in (element, *(child for child in element.children if child.tag not in CHILDREN)):
            if part.tag not in ATTRIBUTES:
                continue
            for name, value in part.attributes.items():
                if name in COUNTS and name in ATTRIBUTES[part.tag]:
                    yield from _number(patient, owner, part, name, value)
                elif name not in ATTRIBUTES[part.tag] and not name.startswith("xmlns"):
                    yield from _attribute(patient, owner, part, name)
        yield from _twice(patient, owner, element)
        if element.tag in ("inertial", "visual", "collision", "joint"):
            yield from _angles(patient, owner, element)


def elements(root: Element) -> Iterator[tuple[Element, Element]]:
    """(the link or joint it belongs to, element) of all that have children which URDF knows, in the order written."""
    waiting = [(root, root)]
    while waiting:
        owner, element = waiting.pop()
        yield owner, element
        for child in reversed(element.children):
            if child.tag in CHILDREN and child.tag in CHILDREN[element.tag]:
                waiting.append((child if element is root else owner, child))


def _element(patient: Patient, owner: Element, parent: Element, child: Element) -> Iterator[Finding]:
    if child.tag.startswith("xacro:") or child.tag in ELSEWHERE or len(child.tag) > 200:
        return
    meant = misspelt(child.tag, CHILDREN[parent.tag])
    if not meant or (meant not in SEVERAL and patient.child(parent, meant) is not None):
        return
    covers: tuple[str, ...] = (f"unknown element <{quoted(child.tag)[1:-1]}> in <{parent.tag}>",)
    if meant == "link":
        covers = (f"link {quoted(child.attributes.get('name', ''))} does not exist",)
    yield Finding(
        ERROR if meant in ("link", "joint") else DOUBT,
        "element-name",
        child.where,
        f"{_place(owner, parent)} has the unknown element <{quoted(child.tag)[1:-1]}>, which is not used",
        f"Write <{meant}>.",
        f"renames it <{meant}>",
        patient.page.rename(child, meant),
        covers,
    )


def _twice(patient: Patient, owner: Element, element: Element) -> Iterator[Finding]:
    """Parts of which there is one, given twice; the second is deleted if it says the same."""
    first: dict[str, Element] = {}
    for child in element.children:
        if (child.tag in SEVERAL and (child.tag, element.tag) not in ONE_MATERIAL) or child.tag not in CHILDREN[element.tag]:
            continue
        if child.tag not in first:
            first[child.tag] = child
            continue
        same = write_xml(child) == write_xml(first[child.tag])
        yield Finding(
            ERROR, "part-twice", child.where,
            f"{_place(owner, element)} has <{child.tag}> twice, first in line {first[child.tag].line}",
            "Delete one of the two.", "deletes the second, which says the same" if same else "",
            patient.page.drop(child) if same else (), (f"{child.where}: ", "is given twice"),
        )  # fmt: skip


def _attribute(patient: Patient, owner: Element, element: Element, name: str) -> Iterator[Finding]:
    free = [known for known in ATTRIBUTES[element.tag] if known not in element.attributes]
    meant, like = misspelt(name, free), alike(element, name)
    what = f"{_place(owner, element)} has the unknown attribute {quoted(name)}, which is not used"
    covers = (f"unknown attribute {quoted(name)} of <{element.tag}>",)
    if meant:
        edits = patient.page.rename_attribute(element, name, meant)
        yield Finding(
            DOUBT, "attribute-name", element.where, what, f"Write {meant}.", f"renames it {meant}", edits, covers
        )  # fmt: skip
    elif like:
        cure = f"If {like} is meant, write {like} in the units of URDF: metres, radians, kilograms, seconds."
        yield Finding(DOUBT, "attribute-name", element.where, what, cure, covers=covers)


def alike(element: Element, name: str) -> str:
    """The attribute of an element that an unknown one looks like, and that is not given; '' if there is none."""
    free = [known for known in ATTRIBUTES.get(element.tag, ()) if known not in element.attributes]
    return "" if name in ATTRIBUTES.get(element.tag, ()) else close(name, free, 0.6) or next(
        (known for known in free if name.lower().startswith(f"{known}_")), ""
    )  # fmt: skip


def _number(patient: Patient, owner: Element, element: Element, name: str, value: str) -> Iterator[Finding]:
    try:
        number(value) if COUNTS[name] == 1 else numbers(value, COUNTS[name])
        return
    except ValueError as error:
        what = str(error)
    meant = _meant(value, name)
    endless = element.tag == "limit" and value.strip().lstrip("+-").lower() in ("inf", "infinity", ".inf")
    if meant is not None:
        cure, fix, edits = f'Write {name}="{meant}".', f'writes {name}="{meant}"', patient.page.set(element, name, meant)
    elif endless and name in ("effort", "velocity"):
        cure, fix = f"Leave {name} out: then there is no limit.", f"takes {name} out"
        edits = patient.page.drop_attribute(element, name)
    else:
        wanted = "a number" if COUNTS[name] == 1 else f"{COUNTS[name]} numbers with spaces between"
        cure, fix, edits = f"Write {wanted} in SI units.", "", ()
        if either := next((part for part in re.split(r"[;\s]+", value[:200]) if THOUSANDS.fullmatch(part)), ""):
            what = what.partition(": write")[0]
            cure = f"Write {either.replace(',', '.')} or {either.replace(',', '')}, whichever it is."
    covers = (f"{element.where}: ", f"attribute '{name}'")
    yield Finding(ERROR, "number", element.where, f"{_place(owner, element)}: {name}: {what}", cure, fix, edits, covers)


def _meant(value: str, name: str) -> str | None:
    """The numbers that were probably meant, as they are to be written; None when that is a guess."""
    count = COUNTS[name]
    parts = re.split(r"[;\s]+", value.strip())
    if count > 1 and not (len(parts) == count and all(DECIMAL_COMMA.fullmatch(part) for part in parts)):
        parts = [part for part in re.split(r"[,;\s]+", value.strip(" ,;\t\r\n()[]")) if part]
    found = [_one(part) for part in parts] if len(parts) <= 8 else []
    if None in found or not found:
        return None
    plain = [each for each in found if each is not None]
    if name == "scale" and len(plain) == 1:
        plain *= 3
    if name == "rgba" and len(plain) == 3:
        plain.append("1")
    return " ".join(plain) if len(plain) == count else None


def _one(text: str) -> str | None:
    try:
        number(text)
        return text
    except ValueError:
        pass
    if THOUSANDS.fullmatch(text):
        return None
    if DECIMAL_COMMA.fullmatch(text):
        return text.replace(",", ".")
    unit = WITH_UNIT.fullmatch(text)
    try:
        return written(number(unit[1]) * UNITS[unit[2]]) if unit else None
    except ValueError:
        return None


def _angles(patient: Patient, owner: Element, element: Element) -> Iterator[Finding]:
    """An rpy of more than a turn, in round numbers, is in degrees."""
    origin = patient.child(element, "origin")
    rpy = patient.vector(origin, "rpy", 3)
    if origin is None or rpy is None or not degrees(rpy):
        return
    radians = listed([angle * pi / 180.0 for angle in rpy])
    yield Finding(
        DOUBT,
        "rpy-degrees",
        origin.where,
        f"{_place(owner, element)} <origin>: rpy ({listed(rpy)}) looks like degrees; it is read as radians",
        f'If they are degrees, write rpy="{radians}".',
    )


def degrees(angles: Sequence[float]) -> bool:
    """Whether angles look like degrees: one is far more than a turn in radians, and all are multiples of five."""
    return any(abs(angle) > TURNS for angle in angles) and all(angle % FIVE == 0.0 and abs(angle) <= 720.0 for angle in angles)


def _place(owner: Element, element: Element) -> str:
    return named(element) if owner is element else f"{named(owner)} <{element.tag}>"


def unnamed(patient: Patient) -> Iterator[Finding]:
    """The robot itself, and joints, without a name."""
    if not patient.root.attributes.get("name", "").strip():
        stem = re.sub(r"\W+", "_", patient.root.file.replace("\\", "/").rpartition("/")[2].partition(".")[0]) or "robot"
        edits = patient.page.set(patient.root, "name", stem)
        yield Finding(
            HINT, "robot-name", patient.root.where, "the robot has no name", f'Write <robot name="{stem}">.',
            f"calls it '{stem}'", edits, ("the robot has no name",),
        )  # fmt: skip
    taken = set(patient.joint_names)
    for joint in patient.joints:
        parent, child = patient.end(joint, "parent"), patient.end(joint, "child")
        if joint.attributes.get("name", "").strip() or not parent or not child:
            continue
        name = f"{parent}_to_{child}"
        while name in taken:
            name += "_"
        taken.add(name)
        yield Finding(
            ERROR, "joint-name", joint.where, f"the joint from {quoted(parent)} to {quoted(child)} has no name",
            f"Give it one, such as {quoted(name)}.", f"calls it {quoted(name)}", patient.page.set(joint, "name", name),
            (f"{joint.where}: ", "attribute 'name'"),
        )  # fmt: skip
