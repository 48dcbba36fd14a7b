"""Is this a robot? Names, references, one tree, usable numbers, bodies that can exist: all that is wrong, said at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from condyle.errors import RobotError
from condyle.robot.description import KINDS, LOOP_AXES, Description, FrameSpec, JointSpec, LinkSpec, LoopSpec
from condyle.robot.names import MAX_NAME, nearest, quoted, suggest
from condyle.robot.report import Report, matters
from condyle.robot.spatial import Inertia, Pose

MAX_LINKS = 20_000
ONE_COORDINATE = ("revolute", "continuous", "prismatic")

# how far a rotation matrix may be from orthonormal: rounding, not a mistake
ORTHONORMAL = 1e-6

# moments below this share of the largest moment about the link's own origin are rounding
ROUNDING = 1e-9

# the triangle inequality may be missed by this share of the largest moment: files are written with a few digits
TRIANGLE = 1e-3

# published robots have negative moments of up to 0.4 of the largest (typing errors in small parts); beyond this nothing works
MAX_NEGATIVE = 0.5


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
    if description.timestep is not None and not description.timestep > 0.0:
        what = f"the time step of the file is {description.timestep:g} s"
        report.problem(description.source, what, "it must be above zero; without one it is 0.002 s")
    finite = _numbers(description, report)
    order = structure(description, report)
    if finite and order:
        for link in description.links:
            if link.inertia is not None:
                _body(link, link.inertia, report)
        _moved(description, order, report)


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
        problem(
            f" <limit>: lower {limits.lower:g} is above upper {limits.upper:g}",
            "exchange them, or delete both if there are none",
            "limit-order",
        )
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
        for shape in (*link.visuals, *link.collisions):
            yield link.where, f"{who} <{shape.kind}>", shape.pose
            yield link.where, f"{who} <{shape.kind}>", [*shape.size, *(shape.color or ())]
    for joint in description.joints:
        who = f"joint {quoted(joint.name)}"
        limits, mimic = joint.limits, joint.mimic
        yield joint.where, who, joint.pose
        yield joint.where, f"{who} <axis>", joint.axis
        yield joint.where, f"{who} <limit>", [value for value in vars(limits).values() if value is not None]
        yield joint.where, f"{who} <dynamics>", [joint.damping, joint.friction, joint.armature]
        if mimic is not None:
            yield joint.where, f"{who} <mimic>", [mimic.multiplier, mimic.offset]
    for frame in description.frames:
        yield frame.where, f"frame {quoted(frame.name)}", frame.pose


# -- one tree


def structure(description: Description, report: Report) -> list[str]:
    """Links from the root to the tips, each after its parent; problems when they are not one tree."""
    if len(description.links) > MAX_LINKS:
        what = f"the robot has {len(description.links):,} links, more than {MAX_LINKS:,}"
        report.problem(description.links[MAX_LINKS].where, what)
        return []
    for kind in ("link", "joint", "frame", "loop"):
        _names(kind, getattr(description, f"{kind}s"), report)
    _references(description, report)
    _loops(description, report)
    _mimics(description.joints, report)
    return _tree(description, report)


def _names(kind: str, parts: Sequence[LinkSpec | JointSpec | FrameSpec | LoopSpec], report: Report) -> None:
    """Every part has a proper name that no other of its kind has."""
    first: dict[str, str] = {}
    for part in parts:
        name, where = part.name, part.where
        if not name.strip():
            report.problem(where, f"{kind} without a name", "give it one", "no-name")
        elif len(name) > MAX_NAME or not name.isprintable():
            report.problem(where, f"{kind} {quoted(name)}: a name has at most {MAX_NAME} printable characters", rule="name")
        elif name in first:
            what = f"{kind} {quoted(name)}: the name is already used at {first[name]}"
            report.problem(where, what, "rename one of them", f"{kind}-twice", owner=name)
        first.setdefault(name, where)


def _references(description: Description, report: Report) -> None:
    """Joints and frames name links that exist, and a link has one parent."""
    links = {link.name: link for link in description.links}
    parent_joint: dict[str, JointSpec] = {}
    for joint in description.joints:
        who = f"joint {quoted(joint.name)}"
        for tag, name in (("parent", joint.parent), ("child", joint.child)):
            if name not in links:
                what = f"{who} <{tag}>: link {quoted(name)} does not exist{suggest(name, list(links))}"
                report.problem(joint.where, what, rule="no-such-link", owner=joint.name, name=tag, data=name)
        if joint.parent == joint.child:
            what = f"{who}: link {quoted(joint.child)} cannot be its own parent"
            report.problem(joint.where, what, "name another link as parent", "own-parent")
        elif joint.child in parent_joint:
            other = parent_joint[joint.child]
            there = f"the parent {quoted(other.parent)} by joint {quoted(other.name)} at {other.where}"
            what = f"{who} <child>: link {quoted(joint.child)} already has {there}"
            report.problem(joint.where, what, "a robot is a tree; delete one of the two joints", "second-parent")
        parent_joint.setdefault(joint.child, joint)
    for frame in description.frames:
        if frame.link not in links:
            near = suggest(frame.link, list(links))
            report.problem(frame.where, f"frame {quoted(frame.name)}: link {quoted(frame.link)} does not exist{near}")


def _loops(description: Description, report: Report) -> None:
    """Loops lie between two frames that exist, under names that only one frame has, and hold at least one axis."""
    links = {link.name for link in description.links}
    shared = {frame.name for frame in description.frames} & (links | {joint.name for joint in description.joints})
    # what a model calls its frames; a joint that shares its name with a link is joint:NAME
    named = [f"joint:{joint.name}" if joint.name in links else joint.name for joint in description.joints]
    known = dict.fromkeys([*(link.name for link in description.links), *named, *(frame.name for frame in description.frames)])
    for loop in description.loops:
        who = f"loop {quoted(loop.name)}"
        for name in dict.fromkeys((loop.frame_a, loop.frame_b)):
            if name not in known:
                report.problem(loop.where, f"{who}: frame {quoted(name)} does not exist{suggest(name, list(known))}")
            elif name in shared:
                report.problem(loop.where, f"{who}: frame {quoted(name)} has the name of a link or joint: rename the frame")
        if loop.frame_a == loop.frame_b:
            report.problem(loop.where, f"{who}: frame {quoted(loop.frame_a)} cannot stay on itself: name two frames")
        _axes(loop, who, report)


def _axes(loop: LoopSpec, who: str, report: Report) -> None:
    """The axes of a loop are some of the six, each once."""
    if not loop.axes:
        report.problem(loop.where, f"{who}: it holds no axis: name some of {', '.join(LOOP_AXES)}")
    for axis in dict.fromkeys(loop.axes):
        if axis not in LOOP_AXES:
            report.problem(loop.where, f"{who}: axis {quoted(axis)} is unknown{suggest(axis, LOOP_AXES)}")
        elif list(loop.axes).count(axis) > 1:
            report.problem(loop.where, f"{who}: axis {quoted(axis)} is named more than once: name it once")


def _tree(description: Description, report: Report) -> list[str]:
    """Links in the order of a walk from the root; problems for several roots, and for links that no root leads to."""
    children: dict[str, list[str]] = {}
    parent: dict[str, str] = {}
    where = {link.name: link.where for link in description.links}
    for joint in description.joints:
        if joint.child in where and joint.parent in where and joint.child not in parent and joint.child != joint.parent:
            parent[joint.child] = joint.parent
            children.setdefault(joint.parent, []).append(joint.child)
    # a joint that names no link already has its problem, and leaves links without parent
    broken = any(joint.child not in where or joint.parent not in where for joint in description.joints)
    roots = [name for name in where if name not in parent]
    if len(roots) > 1 and not broken:
        shown = ", ".join(f"{quoted(name)} ({where[name]})" for name in roots[:8]) + (", ..." if len(roots) > 8 else "")
        what = f"link {quoted(roots[1])}: the robot has {len(roots)} roots, {shown}"
        report.problem(where[roots[1]], what, "join all but one to a parent", "several-roots")
    order, waiting, reached = [], roots[::-1], set[str]()
    while waiting:
        name = waiting.pop()
        order.append(name)
        reached.add(name)
        waiting.extend(reversed(children.get(name, [])))

    # what no root leads to hangs on a cycle: walk up until a link comes again
    for start in where:
        trail: list[str] = []
        seen: set[str] = set()
        name = start
        while name not in reached and name not in seen:
            trail.append(name)
            seen.add(name)
            name = parent[name]
        reached |= seen
        if name in seen:
            cycle = [*trail[trail.index(name) :], name]
            shown = ("... -> " if len(cycle) > 9 else "") + " -> ".join(quoted(link) for link in reversed(cycle[:9]))
            what = f"link {quoted(name)}: the joints form a cycle, {shown}"
            report.problem(where[name], what, "a robot is a tree; delete the joint that closes the cycle", "cycle")
    return order


def _mimics(joints: Sequence[JointSpec], report: Report) -> None:
    """Every mimic joint follows, maybe through others, a joint that moves by one coordinate."""
    by_name = {joint.name: joint for joint in joints}
    done: set[str] = set()
    for joint in joints:
        if joint.mimic is None:
            continue
        who = f"joint {quoted(joint.name)} <mimic>"
        leader = by_name.get(joint.mimic.joint)
        if leader is None:
            near = suggest(joint.mimic.joint, list(by_name))
            what = f"{who}: joint {quoted(joint.mimic.joint)} does not exist{near}"
            report.problem(joint.where, what, rule="mimic-nobody", owner=joint.name, data=joint.mimic.joint)
        elif leader is joint:
            report.problem(joint.where, f"{who}: the joint cannot mimic itself", rule="mimic-itself", owner=joint.name)
        elif joint.kind not in ONE_COORDINATE:
            report.problem(joint.where, f"{who}: a {joint.kind} joint cannot mimic: only {', '.join(ONE_COORDINATE)} can")
        elif leader.kind not in ONE_COORDINATE:
            what = f"joint {quoted(leader.name)} is {leader.kind}: only {', '.join(ONE_COORDINATE)} can be mimicked"
            report.problem(joint.where, f"{who}: {what}")
        elif (joint.kind == "prismatic") != (leader.kind == "prismatic"):
            report.kept(joint.where, f"{who}: a {joint.kind} joint follows the {leader.kind} joint {quoted(leader.name)}")
        _mimic_cycle(joint, by_name, done, report)


def _mimic_cycle(start: JointSpec, by_name: dict[str, JointSpec], done: set[str], report: Report) -> None:
    """A problem when the chain from `start` comes back to a joint of its own."""
    chain: dict[str, None] = {}
    joint: JointSpec | None = start
    while joint is not None and joint.mimic is not None and joint.name not in chain and joint.name not in done:
        chain[joint.name] = None
        joint = by_name.get(joint.mimic.joint)
    if joint is not None and joint.name in chain and len(chain) > 1:
        names = list(chain)
        cycle = [*names[names.index(joint.name) :], joint.name]
        if len(cycle) > 2:
            shown = " -> ".join(quoted(name) for name in cycle[:9])
            what = f"joint {quoted(joint.name)} <mimic>: the joints follow each other in a circle, {shown}"
            report.problem(joint.where, what, "delete one <mimic>", "mimic-cycle")
    done.update(chain)


# -- bodies


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
    if not np.all(np.isfinite(body.I_com)):
        report.problem(link.where, f"{who}: its moments about the centre of mass are beyond all numbers", "check their units")
        return
    a, b, c = np.linalg.eigvalsh(body.I_com)
    largest = max(abs(a), abs(c))
    a, b, c = (0.0 if abs(moment) <= ROUNDING * largest else float(moment) for moment in (a, b, c))
    moments = f"principal moments {a:.4g}, {b:.4g}, {c:.4g}"
    if largest <= ROUNDING * np.trace(body.I):
        return  # a point
    if a < -MAX_NEGATIVE * largest:
        advice = f"none may be negative, and below {-MAX_NEGATIVE:g} of the largest it is refused; check the signs of ixx ... izz"
        report.problem(link.where, f"{who}: {moments}", advice, "inertia-impossible", owner=link.name)
    elif a < 0.0 or a + b < c * (1.0 - TRIANGLE):
        why = f"no body has a negative one (it is refused below {-MAX_NEGATIVE:g} of the largest)"
        if a >= 0.0:
            why = f"no body has one larger than the sum of the others (by more than {TRIANGLE:.1%})"
        report.kept(link.where, f"{who}: {moments}: {why}", "inertia-impossible", owner=link.name)


def _moved(description: Description, order: list[str], report: Report) -> None:
    """At the zero configuration, each joint moves some inertia: M_ii = S^T I S + armature > 0, I of all that it carries.

    `order` has the links from the root to the tips.
    """
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
        total += sum(scale * scale * inertia.get(name, 0.0) for name, scale in followers.get(joint.name, []))
        who = f"joint {quoted(joint.name)}"
        if total < 0.0:
            what = f"{who}: the links it moves have the negative inertia {total:.4g}"
            report.problem(joint.where, what, "check their inertias", "inertia-negative", owner=joint.name)
        elif total == 0.0:
            what = f"{who} moves no inertia, so that no force has a finite acceleration"
            advice = f"give link {quoted(joint.child)} or one beyond it a mass, or make the joint fixed"
            report.kept(joint.where, f"{what}: {advice}", "no-inertia", owner=joint.name)


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
