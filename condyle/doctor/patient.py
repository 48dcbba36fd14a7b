"""A URDF under examination: its elements read with patience, so that one that is wrong does not hide the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

import numpy as np

from condyle.doctor.text import Edits, Page
from condyle.robot.fields import number, numbers
from condyle.robot.names import quoted
from condyle.robot.paths import Places
from condyle.robot.spatial import Pose
from condyle.robot.urdf import ELSEWHERE, JOINT_KINDS, rotation_rpy
from condyle.robot.xml import Element

ERROR, DOUBT, HINT = "error", "doubt", "hint"
DIGITS = re.compile(r"[0-9]+")

# what other programs and people call URDF's joints
MEANT = {
    "hinge": "revolute", "rotational": "revolute", "rotary": "revolute", "rotation": "revolute", "revolve": "revolute",
    "slide": "prismatic", "slider": "prismatic", "linear": "prismatic", "translational": "prismatic",
    "free": "floating", "freeflyer": "floating", "weld": "fixed", "static": "fixed", "rigid": "fixed", "wheel": "continuous",
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One thing found: how grave, where, what it is, what to do, and what --fix would do ("" when no fix is honest).

    `covers` are parts of the loader's own sentence about the same thing, so that it is said once.
    """

    severity: str
    kind: str  # a short name that stays, for scripts: "limit-order"
    where: str
    what: str
    cure: str
    fix: str = ""
    edits: Edits = ()
    covers: tuple[str, ...] = ()

    @property
    def fixable(self) -> bool:
        return bool(self.fix)


Rule = Callable[["Patient"], Iterator[Finding]]


@dataclass
class Patient:
    """The elements of a robot and the text they stand in."""

    root: Element
    page: Page
    places: Places
    package_dirs: tuple[Path, ...] = ()
    meshes: dict[Path, np.ndarray | None] = field(default_factory=dict)  # bounds of meshes already read

    @cached_property
    def links(self) -> list[Element]:
        return [child for child in self.root.children if _called(child.tag, "link")]

    @cached_property
    def joints(self) -> list[Element]:
        return [child for child in self.root.children if _called(child.tag, "joint")]

    @cached_property
    def link_names(self) -> list[str]:
        return list(dict.fromkeys(name for link in self.links if (name := link.attributes.get("name", "").strip())))

    @cached_property
    def joint_names(self) -> list[str]:
        return list(dict.fromkeys(name for joint in self.joints if (name := joint.attributes.get("name", "").strip())))

    @cached_property
    def first_link(self) -> dict[str, Element]:
        """The first link of each name."""
        return {link.attributes.get("name", ""): link for link in reversed(self.links)}

    @cached_property
    def into(self) -> dict[str, Element]:
        """The first joint that has this link as its child."""
        return {self.end(joint, "child"): joint for joint in reversed(self.joints)}

    @cached_property
    def poses(self) -> dict[str, Pose]:
        """Where each link is with all joints at zero, seen from the link at the foot of its own branch."""
        found: dict[str, Pose] = {}
        for start in self.link_names:
            trail: dict[str, None] = {}
            name = start
            while name not in found and name in self.into and name not in trail:
                trail[name] = None
                name = self.end(self.into[name], "parent")
            if name not in found:
                found[name] = Pose.identity()
            for each in reversed(trail):
                parent = found.get(self.end(self.into[each], "parent"), Pose.identity())
                found[each] = parent @ self.pose(self.into[each])
        return found

    @cached_property
    def reach(self) -> float:
        """How far apart the frames of the links are, m: the size of the robot without its shapes."""
        points = np.array([pose.p for pose in self.poses.values()] or [np.zeros(3)])
        return float(np.linalg.norm(points.max(axis=0) - points.min(axis=0)))

    @cached_property
    def bodies(self) -> dict[str, list[str]]:
        """The links that move as one, by the name of the link that their joint moves (or that no joint moves)."""
        head: dict[str, str] = {}
        for start in self.link_names:
            trail: dict[str, None] = {}
            name = start
            while name not in head and name not in trail:
                trail[name] = None
                joint = self.into.get(name)
                if joint is None or self.kind(joint) != "fixed" or self.end(joint, "parent") not in self.first_link:
                    break
                name = self.end(joint, "parent")
            top = head.get(name, name)
            head.update(dict.fromkeys(trail, top))
        groups: dict[str, list[str]] = {}
        for name in self.link_names:
            groups.setdefault(head[name], []).append(name)
        return groups

    # -- one element

    def child(self, element: Element | None, tag: str) -> Element | None:
        return next((child for child in element.children if child.tag == tag), None) if element is not None else None

    def end(self, joint: Element, tag: str) -> str:
        """The link named at one end of a joint."""
        found = self.child(joint, tag)
        return found.attributes.get("link", "") if found is not None else ""

    def kind(self, joint: Element) -> str:
        """How the joint moves, in our words; one whose type is misspelt moves as it was meant to."""
        written = joint.attributes.get("type", "")
        return JOINT_KINDS.get(written) or JOINT_KINDS.get(meant_kind(written), "fixed")

    def number(self, element: Element | None, name: str) -> float | None:
        """The attribute as a number; None when it is missing or is none."""
        try:
            return number(element.attributes[name]) if element is not None else None
        except (KeyError, ValueError):
            return None

    def vector(self, element: Element | None, name: str, count: int) -> tuple[float, ...] | None:
        try:
            return numbers(element.attributes[name], count) if element is not None else None
        except (KeyError, ValueError):
            return None

    def pose(self, element: Element) -> Pose:
        """What its <origin> says, as far as it can be read."""
        origin = self.child(element, "origin")
        xyz = self.vector(origin, "xyz", 3) or (0.0, 0.0, 0.0)
        rpy = self.vector(origin, "rpy", 3) or (0.0, 0.0, 0.0)
        return Pose(rotation_rpy(*rpy), np.array(xyz))


def named(element: Element) -> str:
    """link 'arm', joint 'j2', or <axis> for what has no name."""
    name = element.attributes.get("name")
    return f"{element.tag} {quoted(name)}" if name else f"<{element.tag}>"


def written(value: float) -> str:
    """A number as it is put into a file: ten digits, no minus zero."""
    return f"{value + 0.0:.10g}"


def listed(values: tuple[float, ...] | np.ndarray | list[float]) -> str:
    return " ".join(written(float(value)) for value in values)


def close(word: str, known: Sequence[str], cutoff: float = 0.7) -> str:
    """The one known word that `word` must mean: the same but for case and space, or much like it and like no other; else ''."""
    same = [each for each in known if each.strip().lower() == word.strip().lower()]
    if len(same) == 1:
        return same[0]
    if len(known) > 500 or len(word) > 200:
        return ""
    # another number is another thing
    alike = [each for each in known if len(each) <= 200 and DIGITS.findall(each) == DIGITS.findall(word)]
    near = get_close_matches(word, alike, n=2, cutoff=cutoff)
    return near[0] if len(near) == 1 else ""


def misspelt(word: str, known: Sequence[str]) -> str:
    """The one known word that `word` is but for its case or a slip: a letter wrong, too many, lost or exchanged, or two in a long
    word; else ''. A known word with something added, such as rpy_deg, is another word.
    """
    same = [each for each in known if each.lower() == word.strip().lower()]
    near = [] if same or len(word) > 40 else [each for each in known if _slip(word.strip().lower(), each.lower())]
    return (same or near)[0] if len(same or near) == 1 else ""


def _slip(word: str, right: str) -> bool:
    most = 1 if len(right) < 6 else 2
    if abs(len(word) - len(right)) > most or any(not c.isalpha() and c not in right for c in word):
        return False
    if word.startswith(right) and word[len(right) :] not in ("s", right[-1]):
        return False
    if word.endswith(right) and word.removesuffix(right) != right[0]:
        return False
    return letters_apart(word, right) <= most


def letters_apart(a: str, b: str) -> int:
    """How many letters must be changed, added, taken out or exchanged with the next to make one word the other."""
    before, last = list[int](), list(range(len(b) + 1))
    for i, x in enumerate(a):
        row = [i + 1]
        for j, y in enumerate(b):
            cost = min(last[j + 1] + 1, row[j] + 1, last[j] + (x != y))
            if i and j and x == b[j - 1] and y == a[i - 1]:
                cost = min(cost, before[j - 1] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]


def _called(tag: str, name: str) -> bool:
    """Whether an element of the robot is this, or was meant to be; so a misspelt <link> is still a link to its joints."""
    return tag == name or (":" not in tag and tag not in ELSEWHERE and misspelt(tag, ("link", "joint", "material")) == name)


def meant_kind(kind: str) -> str:
    """The type of joint that a wrong word must mean; '' if none."""
    return MEANT.get(kind.strip().lower()) or close(kind, list(JOINT_KINDS))
