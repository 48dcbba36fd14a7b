"""How links and joints hang together: names given twice, ends that no link has, joints that follow nobody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from condyle.doctor.patient import ERROR, HINT, Finding, Patient, close, named
from condyle.doctor.text import Edits
from condyle.robot.names import quoted, suggest
from condyle.robot.xml import Element, write_xml


def tree(patient: Patient) -> Iterator[Finding]:
    """Names, ends and followers."""
    yield from _twice(patient)
    yield from _ends(patient)
    yield from _mimics(patient)


def _twice(patient: Patient) -> Iterator[Finding]:
    """A name that two links or two joints have. The second is deleted if it is the same, renamed if it is clear who means it."""
    for parts, taken in ((patient.links, set(patient.link_names)), (patient.joints, set(patient.joint_names))):
        first: dict[str, Element] = {}
        for part in parts:
            name = part.attributes.get("name", "")
            if not name.strip() or name not in first:
                first.setdefault(name, part)
                continue
            free = next(f"{name}_{n}" for n in range(2, len(parts) + 3) if f"{name}_{n}" not in taken)
            fix, edits = _apart(patient, first[name], part, free)
            if "renames" in fix:
                taken.add(free)
            yield Finding(
                ERROR, f"{part.tag}-twice", part.where, f"{named(part)} is there twice, first in line {first[name].line}",
                "Delete one of them, or give it a name of its own.", fix, edits,
                (f"{part.tag} {quoted(name)}: the name is already used",),
            )  # fmt: skip


def _apart(patient: Patient, first: Element, second: Element, free: str) -> tuple[str, Edits]:
    """(what the fix does, its edits) for a name given twice; nothing where it would be a guess."""
    page, name = patient.page, second.attributes["name"]
    if write_xml(first) == write_xml(second):
        return "deletes the second, which says the same", page.drop(second)
    if second.tag == "joint":
        mimics = [patient.child(joint, "mimic") for joint in patient.joints]
        followed = any(mimic is not None and mimic.attributes.get("joint") == name for mimic in mimics)
        return ("", ()) if followed else (f"renames the second {quoted(free)}", page.set(second, "name", free))
    # two links, each the child of one of two joints and nobody's parent: the second joint means the second link
    uses = [joint for joint in patient.joints if patient.end(joint, "child") == name]
    parents = any(patient.end(joint, "parent") == name for joint in patient.joints)
    same_name = sum(link.attributes.get("name") == name for link in patient.links)
    end = patient.child(uses[1], "child") if len(uses) == 2 else None
    if parents or same_name != 2 or end is None:
        return "", ()
    edits = page.set(second, "name", free) + page.set(end, "link", free)
    return f"renames the second {quoted(free)}, in {named(uses[1])} too", edits


def _ends(patient: Patient) -> Iterator[Finding]:
    """Parents and children that no link is called."""
    known, moved = set(patient.link_names), Counter(patient.end(joint, "child") for joint in patient.joints)
    for joint in patient.joints:
        for tag in ("parent", "child"):
            end = patient.child(joint, tag)
            name = end.attributes.get("link", "") if end is not None else ""
            if end is None or not name or name in known:
                continue
            other = patient.end(joint, "child" if tag == "parent" else "parent")
            choice = [link for link in patient.link_names if link != other and not (tag == "child" and moved[link])]
            meant = close(name, choice) if len(choice) <= 500 else ""
            if tag == "child" and not meant and len(choice) <= 500:
                # only one link that is like it at all hangs on no joint: nobody else can be meant
                loose = [link for link in choice if not any(patient.end(j, "parent") == link for j in patient.joints)]
                meant = close(name, loose, 0.4) if len(loose) == 1 else ""
            near = "" if meant else suggest(name, patient.link_names)
            yield Finding(
                ERROR, "no-such-link", end.where, f"{named(joint)} <{tag}>: there is no link {quoted(name)}{near}",
                f"Write {quoted(meant)}." if meant else "Write the name of a link of this file, or add the link.",
                f"writes {quoted(meant)}" if meant else "", patient.page.set(end, "link", meant) if meant else (),
                (f"{named(joint)} <{tag}>: link {quoted(name)} does not exist",),
            )  # fmt: skip


def _mimics(patient: Patient) -> Iterator[Finding]:
    """Joints that follow one that is not there, or themselves."""
    known = set(patient.joint_names)
    for joint in patient.joints:
        mimic, own = patient.child(joint, "mimic"), joint.attributes.get("name", "")
        leader = mimic.attributes.get("joint", "") if mimic is not None else ""
        if mimic is None or not leader or (patient.kind(joint) == "fixed" and "type" in joint.attributes):
            continue
        if leader == own:
            yield Finding(
                ERROR, "mimic-itself", mimic.where, f"{named(joint)} <mimic>: the joint follows itself",
                "Name the joint it follows, or delete <mimic>.", "deletes <mimic>: the joint moves on its own",
                patient.page.drop(mimic), (f"{named(joint)} <mimic>: the joint cannot mimic itself",),
            )  # fmt: skip
        elif leader not in known:
            choice = [
                name for other in patient.joints
                if (name := other.attributes.get("name", "")) and name != own and patient.child(other, "mimic") is None
                and patient.kind(other) in ("revolute", "continuous", "prismatic")
            ]  # fmt: skip
            meant = close(leader, choice) or _of_side(leader, own, choice)
            near = "" if meant else suggest(leader, patient.joint_names)
            yield Finding(
                ERROR, "mimic-nobody", mimic.where, f"{named(joint)} <mimic>: there is no joint {quoted(leader)}{near}",
                f"Write {quoted(meant)}." if meant else "Write the name of a joint of this file, or delete <mimic>.",
                f"writes {quoted(meant)}" if meant else "", patient.page.set(mimic, "joint", meant) if meant else (),
                (f"{named(joint)} <mimic>: joint {quoted(leader)} does not exist",),
            )  # fmt: skip


def _of_side(name: str, own: str, choice: list[str]) -> str:
    """The one joint called `name` after a prefix that it shares with `own`: index_1 for Left_index_2 is Left_index_1; else ''."""
    found = [each for each in choice if each.endswith(name) and own.startswith(each.removesuffix(name))]
    return found[0] if len(found) == 1 else ""


def standing(patient: Patient) -> Iterator[Finding]:
    """What would touch the ground if the robot stood on it."""
    touching = [link for link in patient.links if patient.child(link, "collision") is not None]
    if not patient.links or not patient.joints:
        return
    if not touching:
        yield Finding(
            HINT, "nothing-touches", patient.root.where, "no link has a <collision>: nothing of the robot can touch the ground",
            "Give the parts that touch a <collision>, such as a sphere at each foot; an arm on a table needs none.",
        )  # fmt: skip
    elif all(geometry is not None and patient.child(geometry, "mesh") is not None
             for link in touching for shape in link.children if shape.tag == "collision"
             for geometry in [patient.child(shape, "geometry")]):  # fmt: skip
        yield Finding(
            HINT, "only-meshes-touch", touching[0].where, "all <collision>s are meshes; contact points come from simple shapes",
            "Add a sphere or box to the parts that touch, or name frames in --contacts.",
        )  # fmt: skip
