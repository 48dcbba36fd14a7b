"""Is this a robot? Names, references, one tree, usable numbers, bodies that can exist: all that is wrong, said at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from condyle.errors import RobotError
from condyle.robot.description import KINDS, Description, JointSpec, LinkSpec, Shape
from condyle.robot.names import nearest, quoted
from condyle.robot.report import Report, matters
from condyle.robot.spatial import Inertia, Pose
from condyle.robot.tree import structure

# how far a rotation matrix may be from orthonormal: rounding, not a mistake
ORTHONORMAL = 1e-6


def check(description: Description, *, strict: bool = False) -> Report:
    """All problems and notes of a robot; with `strict`, whatever was repaired or kept though it looks wrong is a problem."""
    report = Report()
    apply_rules(description, report)
    if strict:
        for note in filter(matters, (*description.notes, *report.notes)):
            report.problem(note.where, f"{note.what} (refused, because loading is strict)")
    return report


def apply_rules(description: Description, report: Report) -> None:
    """Report all that is wrong in a description, however it was made."""
    for joint in description.joints:
        _joint(joint, report)
    finite = _numbers(description, report)
    order = structure(description, report)
    if finite and order:
        masses(description, order, report)


def checked(description: Description, *, strict: bool = False) -> Description:
    """The description with the notes of the check added; RobotError with all problems if there are any."""
    findings = check(description, strict=strict)
    if findings.problems:
        raise RobotError(findings.problems)
    return replace(description, notes=(*description.notes, *findings.notes))


def _joint(joint: JointSpec, report: Report) -> None:
    """A known kind, an axis with a direction, limits in order, nothing negative that must not be."""

    def problem(what: str, advice: str = "", rule: str = "error", **about: Any) -> None:
        report.problem(joint.where, f"joint {quoted(joint.name)}{what}", advice, rule, owner=joint.name, **about)

    if joint.kind not in KINDS:
        problem(f": kind {quoted(joint.kind)} is unknown{nearest(joint.kind, KINDS)}")
    if np.linalg.norm(joint.axis) == 0.0 and joint.kind not in ("fixed", "free", "ball"):
        problem(" <axis>: the axis is zero", "write one with a direction, such as '0 0 1'")
    limits = joint.limits
    if limits.lower is not None and limits.upper is not None and limits.lower > limits.upper:
        problem(f" <limit>: lower {limits.lower:g} is above upper {limits.upper:g}", "exchange them", "limit-order")
    for tag, name, value in (
        ("limit", "effort", limits.effort),
        ("limit", "velocity", limits.velocity),
        ("dynamics", "damping", joint.damping),
        ("dynamics", "friction", joint.friction),
        ("dynamics", "armature", joint.armature),
    ):
        if value is not None and value < 0.0:
            problem(f" <{tag}>: {name} is {value:g}", "it must not be negative", "negative", name=name, data=(tag, value))


def _numbers(description: Description, report: Report) -> bool:
    """Whether every number is finite, and every rotation a rotation."""
    before = len(report.findings)
    for where, what, value in _values(description):
        if isinstance(value, Pose):
            if not (np.all(np.isfinite(value.R)) and np.all(np.isfinite(value.p))):
                report.problem(where, f"{what}: a number of the pose is not finite")
            elif np.max(np.abs(value.R @ value.R.T - np.eye(3))) > ORTHONORMAL or np.linalg.det(value.R) < 0.0:
                report.problem(where, f"{what}: the rotation of the pose is not a rotation matrix")
        elif not np.all(np.isfinite(np.asarray(value, dtype=float))):
            report.problem(where, f"{what}: {value} is not finite")
    return len(report.findings) == before


def _values(description: Description) -> Iterator[tuple[str, str, Any]]:
    """(where, what, value) of every number in a description."""
    for link in description.links:
        who = f"link {quoted(link.name)}"
        if link.inertia is not None:
            yield link.where, f"{who} <inertial>", [link.inertia.mass, *link.inertia.h, *np.ravel(link.inertia.I)]
        shapes: tuple[Shape, ...] = (*link.visuals, *link.collisions)
        for shape in shapes:
            yield link.where, f"{who} <{shape.kind}>", shape.pose
            yield link.where, f"{who} <{shape.kind}>", [*shape.size, *(shape.color or ())]
    for joint in description.joints:
        who = f"joint {quoted(joint.name)}"
        limits, mimic = joint.limits, joint.mimic
        yield joint.where, who, joint.pose
        yield joint.where, f"{who} <axis>", joint.axis
        some = [limits.lower, limits.upper, limits.velocity, limits.effort]
        yield joint.where, f"{who} <limit>", [value for value in some if value is not None]
        yield joint.where, f"{who} <dynamics>", [joint.damping, joint.friction, joint.armature]
        if mimic is not None:
            yield joint.where, f"{who} <mimic>", [mimic.multiplier, mimic.offset]
    for frame in description.frames:
        yield frame.where, f"frame {quoted(frame.name)}", frame.pose


# moments below this share of the largest moment about the link's own origin are rounding
ROUNDING = 1e-9

# the triangle inequality may be missed by this share of the largest moment: files are written with a few digits
TRIANGLE = 1e-3

# published robots have negative moments of up to 0.4 of the largest (typing errors in small parts); beyond this nothing works
MAX_NEGATIVE = 0.5


def masses(description: Description, order: list[str], report: Report) -> None:
    """Check every link's body, and what every joint has to move; `order` has the links from the root to the tips."""
    for link in description.links:
        if link.inertia is not None:
            _body(link, link.inertia, report)
    _moved(description, order, report)


def _body(link: LinkSpec, body: Inertia, report: Report) -> None:
    """The principal moments a <= b <= c about the centre of mass: of any mass whatsoever, a >= 0 and a + b >= c."""
    who = f"link {quoted(link.name)} <inertial>"
    if body.mass < 0.0:
        what = f"{who}: mass {body.mass:g} must not be negative"
        report.problem(link.where, what, rule="mass-negative", owner=link.name, data=body.mass)
    if body.mass <= 0.0:
        if np.any(body.I) and body.mass == 0.0:
            report.kept(link.where, f"{who}: an inertia without mass", "no-mass", owner=link.name)
        return
    a, b, c = np.linalg.eigvalsh(body.I_com)
    largest = max(abs(a), abs(c))
    a, b, c = (0.0 if abs(moment) <= ROUNDING * largest else float(moment) for moment in (a, b, c))
    moments = f"principal moments {a:.4g}, {b:.4g}, {c:.4g}"
    if largest <= ROUNDING * np.trace(body.I):
        return  # a point
    if a < -MAX_NEGATIVE * largest:
        advice = "none may be negative; check the signs of ixx ... izz"
        report.problem(link.where, f"{who}: {moments}", advice, "inertia-impossible", owner=link.name)
    elif a < 0.0 or a + b < c * (1.0 - TRIANGLE):
        why = "no body has a negative one" if a < 0.0 else "no body has one larger than the sum of the others"
        report.kept(link.where, f"{who}: {moments}: {why}", "inertia-impossible", owner=link.name)


def _moved(description: Description, order: list[str], report: Report) -> None:
    """At the zero configuration, each joint moves some inertia: M_ii = S^T I S + armature > 0, I of all that it carries."""
    bodies = {link.name: link.inertia or Inertia.zero() for link in description.links}
    joint_of = {joint.child: joint for joint in description.joints}
    inertia: dict[str, float] = {}
    for name in reversed(order):
        joint = joint_of.get(name)
        if joint is None or joint.parent not in bodies:
            continue
        inertia[joint.name] = _inertia(joint, bodies[name])
        bodies[joint.parent] = bodies[joint.parent] + bodies[name].seen_from(joint.pose)
    followers = _followers(description)
    for joint in description.joints:
        if joint.kind == "fixed" or joint.mimic is not None or joint.name not in inertia:
            continue
        total = inertia[joint.name]
        total += sum(scale**2 * inertia.get(name, 0.0) for name, scale in followers.get(joint.name, []))
        who = f"joint {quoted(joint.name)}"
        if total < 0.0:
            what = f"{who}: the links it moves have the negative inertia {total:.4g}"
            report.problem(joint.where, what, "check their inertias", "inertia-negative", owner=joint.name)
        elif total == 0.0:
            report.kept(
                joint.where,
                f"{who} moves no inertia, so that no force has a finite acceleration: give link {quoted(joint.child)} "
                "or one beyond it a mass, or make the joint fixed",
                "no-inertia",
                owner=joint.name,
            )


def _inertia(joint: JointSpec, body: Inertia) -> float:
    """The smallest inertia that a body has along the joint's motions; zero when it is only rounding."""
    n = np.asarray(joint.axis, dtype=float)
    if joint.kind in ("revolute", "continuous"):
        smallest = n @ body.I @ n / (n @ n or 1.0)
    elif joint.kind == "prismatic":
        smallest = body.mass
    elif joint.kind == "planar":
        smallest = min(body.mass, n @ body.I @ n / (n @ n or 1.0))
    else:
        smallest = min(np.linalg.eigvalsh(body.I)[0], body.mass if joint.kind == "free" else np.inf)
    if abs(smallest) <= ROUNDING * ROUNDING * max(np.trace(body.I), body.mass):
        smallest = 0.0
    return float(smallest + joint.armature)


def _followers(description: Description) -> dict[str, list[tuple[str, float]]]:
    """For every joint that others mimic, directly or through others: their names and overall multipliers."""
    by_name = {joint.name: joint for joint in description.joints}
    followers: dict[str, list[tuple[str, float]]] = {}
    for joint in description.joints:
        leader, scale, seen = joint, 1.0, set[str]()
        while leader.mimic is not None and leader.mimic.joint in by_name and leader.name not in seen:
            seen.add(leader.name)
            scale *= leader.mimic.multiplier
            leader = by_name[leader.mimic.joint]
        if leader is not joint:
            followers.setdefault(leader.name, []).append((joint.name, scale))
    return followers
