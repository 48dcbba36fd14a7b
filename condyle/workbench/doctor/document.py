"""A URDF being examined: its elements, the text they stand in, and the robot as far as it can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from condyle.robot.angles import rotation_rpy
from condyle.robot.description import Description, LinkSpec, Shape
from condyle.robot.fields import number, numbers
from condyle.robot.names import quoted
from condyle.robot.paths import Places
from condyle.robot.spatial import Pose
from condyle.robot.stance import poses
from condyle.robot.urdf import ELSEWHERE, JOINT_KINDS
from condyle.robot.xml import Element
from condyle.workbench.doctor.edits import SourceText
from condyle.workbench.doctor.shapes import known_shapes
from condyle.workbench.doctor.spelling import joint_type, misspelt

MOMENTS = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}


@dataclass
class Document:
    """The elements of a robot, the text they stand in, and the description that the loader reads from them."""

    root: Element
    text: SourceText
    places: Places
    description: Description
    refused: bool  # whether the loader refuses the file
    meshes: dict[Path, np.ndarray | None] = field(default_factory=dict)  # bounds of meshes already read

    @cached_property
    def links(self) -> list[Element]:
        """The <link>s, misspelt ones too."""
        return [child for child in self.root.children if _called(child.tag, "link")]

    @cached_property
    def joints(self) -> list[Element]:
        """The <joint>s, misspelt ones too."""
        return [child for child in self.root.children if _called(child.tag, "joint")]

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """ "link" and "joint" -> their names, each once."""
        found = {tag: (part.attributes.get("name", "") for part in getattr(self, f"{tag}s")) for tag in ("link", "joint")}
        return {tag: list(dict.fromkeys(filter(str.strip, names))) for tag, names in found.items()}

    @cached_property
    def parents(self) -> dict[int, Element]:
        """id(element) -> the element around it."""
        return {id(child): element for element in self.root.walk() for child in element.children}

    @cached_property
    def specs(self) -> dict[int, LinkSpec]:
        """id(<link>) -> what the loader read of it."""
        read = [child for child in self.root.children if child.tag == "link"]
        return {id(element): spec for element, spec in zip(read, self.description.links, strict=False)}  # a world may be added

    @cached_property
    def reach(self) -> float:
        """How far apart the frames of the links are, m: the size of the robot without its shapes."""
        points = np.array([pose.p for pose in poses(self.description).values()] or [np.zeros(3)])
        return float(np.linalg.norm(points.max(axis=0) - points.min(axis=0)))

    @cached_property
    def named_parts(self) -> dict[tuple[str, str], list[Element]]:
        """("link" or "joint", name) -> the elements of this name."""
        found: dict[tuple[str, str], list[Element]] = {}
        for tag, parts in (("link", self.links), ("joint", self.joints)):
            for part in parts:
                found.setdefault((tag, part.attributes.get("name", "")), []).append(part)
        return found

    @cached_property
    def ends(self) -> dict[str, set[str]]:
        """ "parent" and "child" -> the names of links at this end of some joint."""
        return {tag: {self.end(joint, tag) for joint in self.joints} for tag in ("parent", "child")}

    @cached_property
    def fixed_to(self) -> dict[str, list[str]]:
        """Link -> the links that fixed joints attach to it."""
        found: dict[str, list[str]] = {}
        for joint in self.description.joints:
            if joint.kind == "fixed":
                found.setdefault(joint.parent, []).append(joint.child)
        return found

    def part(self, tag: str, name: str, where: str = "") -> Element | None:
        """The <link> or <joint> of this name, at this place if there are several."""
        found = self.named_parts.get((tag, name), [])
        return next((each for each in found if each.where == where), found[0] if found else None)

    def rigid(self, head: str) -> list[Element]:
        """The links that move as one with this link: itself, and what hangs on it by fixed joints."""
        names, found = [head], dict[str, Element]()
        for name in names:
            link = self.part("link", name)
            if link is not None and name not in found:
                found[name] = link
                names += self.fixed_to.get(name, [])
        return list(found.values())

    def shapes(self, link: Element, tag: str = "") -> list[Shape]:
        """The shapes of a link whose size is known, meshes as the boxes around them: of <visual> and <collision>, or of one."""
        spec = self.specs.get(id(link))
        if spec is None:
            return []
        given = {"visual": spec.visuals, "collision": spec.collisions}.get(tag, (*spec.visuals, *spec.collisions))
        return known_shapes(given, self.meshes)

    # -- one element

    def child(self, element: Element | None, tag: str) -> Element | None:
        """The first child with this tag."""
        return next((child for child in element.children if child.tag == tag), None) if element is not None else None

    def end(self, joint: Element, tag: str) -> str:
        """The link named at one end of a joint."""
        found = self.child(joint, tag)
        return found.attributes.get("link", "") if found is not None else ""

    def kind(self, joint: Element) -> str:
        """How the joint moves, in the loader's words; one whose type is misspelt moves as it was meant to."""
        given = joint.attributes.get("type", "")
        return JOINT_KINDS.get(given) or JOINT_KINDS.get(joint_type(given), "fixed")

    def number(self, element: Element | None, name: str) -> float | None:
        """The attribute as a number; None when it is missing or is none."""
        try:
            return number(element.attributes[name]) if element is not None else None
        except (KeyError, ValueError):
            return None

    def vector(self, element: Element | None, name: str, count: int) -> tuple[float, ...] | None:
        """The attribute as `count` numbers; None when it is missing or is something else."""
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

    def body(self, link: Element) -> tuple[float, np.ndarray] | None:
        """(mass, moments about the centre of mass in the axes of <inertial>) as written; None when something is missing."""
        inertial = self.child(link, "inertial")
        mass, element = self.number(self.child(inertial, "mass"), "value"), self.child(inertial, "inertia")
        if mass is None or element is None:
            return None
        I = np.zeros((3, 3))
        for name, (i, j) in MOMENTS.items():
            value = 0.0 if i != j and name not in element.attributes else self.number(element, name)
            if value is None:
                return None
            I[i, j] = I[j, i] = value
        return mass, I


def named(element: Element) -> str:
    """link 'arm', joint 'j2', or <axis> for what has no name."""
    name = element.attributes.get("name")
    return f"{element.tag} {quoted(name)}" if name else f"<{element.tag}>"


def _called(tag: str, name: str) -> bool:
    """Whether an element of the robot is this, or was meant to be; so a misspelt <link> is still a link to its joints."""
    known: Sequence[str] = ("link", "joint", "material")
    return tag == name or (":" not in tag and tag not in ELSEWHERE and misspelt(tag, known) == name)
