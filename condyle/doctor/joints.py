"""Joints: their kind, the direction of their axis, and limits that make sense."""

from __future__ import annotations

import math
from collections.abc import Iterator

from condyle.doctor.patient import DOUBT, ERROR, HINT, Finding, Patient, listed, meant_kind, named, written
from condyle.doctor.words import alike, degrees
from condyle.robot.names import quoted
from condyle.robot.urdf import JOINT_KINDS, UNIT_AXIS, WITH_AXIS
from condyle.robot.xml import Element

ROUNDED = 1e-3  # an axis this close to length one was meant to be unit


def joints(patient: Patient) -> Iterator[Finding]:
    """Everything about each joint that does not concern its neighbours."""
    for joint in patient.joints:
        yield from _type(patient, joint)
        yield from _axis(patient, joint)
        yield from _limit(patient, joint)
        yield from _negative(patient, joint)


def _type(patient: Patient, joint: Element) -> Iterator[Finding]:
    kind = joint.attributes.get("type")
    if kind in JOINT_KINDS:
        return
    known = "revolute, continuous, prismatic, fixed, floating, planar"
    if kind is None or not kind.strip():
        covers = (f"{joint.where}: ", "attribute 'type'")
        yield Finding(
            ERROR, "joint-type", joint.where, f"{named(joint)} has no type", f"Write type= one of {known}.", covers=covers
        )
        return
    meant = meant_kind(kind)
    what = f"{named(joint)} has the unknown type {quoted(kind)}"
    covers = (f"{joint.where}: ", f"type {quoted(kind)} is unknown")
    if meant:
        edits = patient.page.set(joint, "type", meant)
        yield Finding(ERROR, "joint-type", joint.where, what, f"Write {meant}.", f"writes {meant}", edits, covers)
    else:
        yield Finding(ERROR, "joint-type", joint.where, what, f"Write one of {known}.", covers=covers)


def _axis(patient: Patient, joint: Element) -> Iterator[Finding]:
    axis = patient.child(joint, "axis")
    if patient.kind(joint) not in WITH_AXIS:
        return
    if axis is None:
        if patient.kind(joint) != "planar":
            what = f"{named(joint)} has no <axis>: it is x, as URDF says"
            yield Finding(HINT, "axis-missing", joint.where, what, "Write the axis, so that readers need not know.")
        return
    xyz = patient.vector(axis, "xyz", 3)
    if xyz is None:
        return
    length = math.hypot(*xyz)
    if length == 0.0 or math.isinf(length):
        yield Finding(
            ERROR, "axis-zero", axis.where, f"{named(joint)} <axis> ({listed(xyz)}) has no direction",
            'Write the direction of the joint, such as xyz="0 0 1"; which one, only you know.',
            covers=(f"{axis.where}: ", "the axis has no direction"),
        )  # fmt: skip
    elif abs(length - 1.0) > UNIT_AXIS:
        unit = " ".join(f"{x / length + 0.0:.12g}" for x in xyz)
        yield Finding(
            HINT if abs(length - 1.0) < ROUNDED else DOUBT, "axis-length", axis.where,
            f"{named(joint)} <axis> has length {length:.9g}, not one", f'Write xyz="{unit}".', f'writes xyz="{unit}"',
            patient.page.set(axis, "xyz", unit), (f"{axis.where}", "<axis> has length"),
        )  # fmt: skip


def _limit(patient: Patient, joint: Element) -> Iterator[Finding]:
    limit, kind = patient.child(joint, "limit"), patient.kind(joint)
    bounded = kind in ("revolute", "prismatic")
    if limit is None:
        if bounded:
            yield from _unlimited(patient, joint, joint, "has no <limit>")
        return
    lower, upper = patient.number(limit, "lower"), patient.number(limit, "upper")
    ends = [name for name in ("lower", "upper") if name in limit.attributes]
    if bounded and not ends:
        yield from _unlimited(patient, joint, limit, "has a <limit> with neither lower nor upper")
    elif bounded:
        for name in ("lower", "upper"):
            if name not in limit.attributes:
                other = any(alike(limit, each) == name for each in limit.attributes)  # there, under another name
                yield Finding(
                    DOUBT, "limit-end", limit.where, f"{named(joint)} <limit> has no {name}: it is 0, as URDF says",
                    f"Write {name}.", "" if other else f'writes {name}="0", which changes nothing',
                    () if other else patient.page.set(limit, name, "0"), (f"{limit.where}", f"<limit> has no '{name}'"),
                )  # fmt: skip
        yield from _range(patient, joint, limit, lower or 0.0, upper or 0.0)
    elif kind == "continuous" and lower is not None and upper is not None and lower < upper:
        narrow = upper - lower < 2.0 * math.pi
        yield Finding(
            DOUBT if narrow else HINT, "limit-of-continuous", limit.where,
            f"{named(joint)} is continuous, so that its limits [{lower:g}, {upper:g}] are not used",
            'Write type="revolute" if it stops there, or take lower and upper out.',
            covers=("lower and upper of continuous joints",),
        )  # fmt: skip
    for name in ("effort", "velocity"):
        value = patient.number(limit, name)
        if value == 0.0 and kind != "fixed":
            what = f"{named(joint)} <limit>: {name} is 0: " + (
                "its motor can do nothing" if name == "effort" else "it may not move"
            )
            yield Finding(DOUBT, f"{name}-zero", limit.where, what, "Write the motor's, or leave it out for no limit.")
        elif bounded and name not in limit.attributes:
            what = f"{named(joint)} <limit> has no {name}: it has none"
            yield Finding(HINT, f"{name}-missing", limit.where, what, "Other programs ask for it: write the motor's.")


def _unlimited(patient: Patient, joint: Element, at: Element, what: str) -> Iterator[Finding]:
    fix, edits = "", patient.page.nothing
    cure = "Write <limit lower= upper= effort= velocity=/> in metres."
    if any(alike(at, name) in ("lower", "upper") for name in at.attributes):
        cure = "Write lower and upper in its limit."
    elif patient.kind(joint) == "revolute":
        cure = 'Write <limit lower= upper= effort= velocity=/> in radians, or type="continuous".'
        fix, edits = "makes it continuous, which is how it is read", patient.page.set(joint, "type", "continuous")
    covers = (f"joint {quoted(joint.attributes.get('name', ''))} ", "it may move without end")
    yield Finding(DOUBT, "limit-missing", at.where, f"{named(joint)} {what}: it may move without end", cure, fix, edits, covers)


def _range(patient: Patient, joint: Element, limit: Element, lower: float, upper: float) -> Iterator[Finding]:
    page = patient.page
    if lower > upper:
        edits = page.set(limit, "lower", limit.attributes.get("upper", "0"))
        edits += page.set(limit, "upper", limit.attributes.get("lower", "0"))
        yield Finding(
            ERROR, "limit-order", limit.where, f"{named(joint)} <limit>: lower {lower:g} is above upper {upper:g}",
            "Exchange them.", "exchanges them", edits, (f"joint {quoted(joint.attributes.get('name', ''))} <limit>: lower",),
        )  # fmt: skip
    elif lower == upper and "lower" in limit.attributes and "upper" in limit.attributes:
        what = f"{named(joint)} <limit>: lower and upper are both {lower:g}: it cannot move"
        yield Finding(DOUBT, "limit-equal", limit.where, what, 'Write its range, or type="fixed".')
    if patient.kind(joint) == "revolute" and degrees((lower, upper)):
        radians = [written(angle * math.pi / 180.0) for angle in sorted((lower, upper))]
        yield Finding(
            DOUBT, "limit-degrees", limit.where,
            f"{named(joint)} <limit>: [{lower:g}, {upper:g}] looks like degrees; it is read as radians",
            f'If they are degrees, write lower="{radians[0]}" upper="{radians[1]}".',
        )  # fmt: skip


def _negative(patient: Patient, joint: Element) -> Iterator[Finding]:
    for tag, names in (("limit", ("effort", "velocity")), ("dynamics", ("damping", "friction"))):
        element = patient.child(joint, tag)
        for name in names:
            value = patient.number(element, name)
            if element is None or value is None or value >= 0.0:
                continue
            plain = written(-value)
            yield Finding(
                ERROR, "negative", element.where, f"{named(joint)} <{tag}>: {name} {value:g} is negative",
                f'Write {name}="{plain}".', f'writes {name}="{plain}"', patient.page.set(element, name, plain),
                (f"joint {quoted(joint.attributes.get('name', ''))} <{tag}>: {name} is",),
            )  # fmt: skip
