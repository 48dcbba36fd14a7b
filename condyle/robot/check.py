"""Is this a robot? Names, references, one tree, usable numbers, bodies that can exist: all that is wrong, said at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.errors import RobotError
from condyle.robot.description import KINDS, Description, JointSpec, Note, Shape
from condyle.robot.masses import masses
from condyle.robot.names import nearest
from condyle.robot.report import Report, matters, quoted
from condyle.robot.spatial import Pose
from condyle.robot.structure import structure

# how far a rotation matrix may be from orthonormal: rounding, not a mistake
ORTHONORMAL = 1e-6


@dataclass(frozen=True)
class Findings:
    """What `check` found: problems, which make the robot unusable, and notes, which it lives with."""

    problems: list[str]
    notes: list[Note]


def check(description: Description, *, strict: bool = False) -> Findings:
    """All problems and notes of a robot; with `strict`, whatever was repaired or kept though it looks wrong is a problem."""
    report = Report()
    for joint in description.joints:
        _joint(joint, report)
    _numbers(description, report)
    order = structure(description, report)
    if order is not None and not report.problems:
        masses(description, order, report)
    if strict:
        for note in filter(matters, (*description.notes, *report.notes)):
            report.problem(note.where, f"{note.what} (refused, because loading is strict)")
    return Findings(report.problems, list(report.notes))


def checked(description: Description, *, strict: bool = False) -> Description:
    """The description with the notes of the check added; RobotError with all problems if there are any."""
    findings = check(description, strict=strict)
    if findings.problems:
        raise RobotError(findings.problems)
    return replace(description, notes=(*description.notes, *findings.notes))


def _joint(joint: JointSpec, report: Report) -> None:
    """A known kind, an axis with a direction, limits in order, nothing negative that must not be."""

    def problem(what: str) -> None:
        report.problem(joint.where, f"joint {quoted(joint.name)}{what}")

    if joint.kind not in KINDS:
        problem(f": kind {quoted(joint.kind)} is unknown{nearest(joint.kind, KINDS)}")
    if np.linalg.norm(joint.axis) == 0.0 and joint.kind not in ("fixed", "free", "ball"):
        problem(" <axis>: the axis is zero: write one with a direction, such as '0 0 1'")
    limits = joint.limits
    if limits.lower is not None and limits.upper is not None and limits.lower > limits.upper:
        problem(f" <limit>: lower {limits.lower:g} is above upper {limits.upper:g}: exchange them")
    for tag, name, value in (
        ("limit", "effort", limits.effort),
        ("limit", "velocity", limits.velocity),
        ("dynamics", "damping", joint.damping),
        ("dynamics", "friction", joint.friction),
        ("dynamics", "armature", joint.armature),
    ):
        if value is not None and value < 0.0:
            problem(f" <{tag}>: {name} is {value:g}: it must not be negative")


def _numbers(description: Description, report: Report) -> None:
    """Every number is finite and every rotation a rotation."""
    for where, what, value in _values(description):
        if isinstance(value, Pose):
            if not (np.all(np.isfinite(value.R)) and np.all(np.isfinite(value.p))):
                report.problem(where, f"{what}: a number of the pose is not finite")
            elif np.max(np.abs(value.R @ value.R.T - np.eye(3))) > ORTHONORMAL or np.linalg.det(value.R) < 0.0:
                report.problem(where, f"{what}: the rotation of the pose is not a rotation matrix")
        elif not np.all(np.isfinite(np.asarray(value, dtype=float))):
            report.problem(where, f"{what}: {value} is not finite")


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
