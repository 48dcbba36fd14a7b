"""The graph of a robot: names that are unique, references that exist, one tree from one root, mimic joints that end somewhere."""

from __future__ import annotations

from collections.abc import Sequence

from condyle.robot.description import LOOP_AXES, Description, JointSpec, LoopSpec
from condyle.robot.names import MAX_NAME, quoted, suggest
from condyle.robot.report import Report

MAX_LINKS = 20_000

ONE_COORDINATE = ("revolute", "continuous", "prismatic")


def structure(description: Description, report: Report) -> list[str]:
    """Links from the root to the tips, each after its parent; problems when they are not one tree."""
    if len(description.links) > MAX_LINKS:
        report.problem(
            description.links[MAX_LINKS].where, f"the robot has {len(description.links):,} links, more than {MAX_LINKS:,}"
        )
        return []
    for kind, parts in (
        ("link", description.links),
        ("joint", description.joints),
        ("frame", description.frames),
        ("loop", description.loops),
    ):
        _names(kind, [(part.name, part.where) for part in parts], report)
    _references(description, report)
    _loops(description, report)
    mimics(description.joints, report)
    return _tree(description, report)


def _names(kind: str, parts: Sequence[tuple[str, str]], report: Report) -> None:
    """Every part has a proper name that no other of its kind has."""
    first: dict[str, str] = {}
    for name, where in parts:
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
            report.problem(
                joint.where,
                f"{who} <child>: link {quoted(joint.child)} already has the parent {quoted(other.parent)} by joint "
                f"{quoted(other.name)} at {other.where}",
                "a robot is a tree; delete one of the two joints",
                "second-parent",
            )
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
        report.problem(
            where[roots[1]],
            f"link {quoted(roots[1])}: the robot has {len(roots)} roots, {shown}",
            "join all but one to a parent",
            "several-roots",
        )
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


def mimics(joints: Sequence[JointSpec], report: Report) -> None:
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
            report.problem(
                joint.where,
                f"{who}: joint {quoted(leader.name)} is {leader.kind}: only {', '.join(ONE_COORDINATE)} can be mimicked",
            )
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
