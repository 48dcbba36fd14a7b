"""What to do about each finding of the loader's rules: advice, and where it is sure, edits of the text that correct it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from condyle.robot.check import ONE_COORDINATE, ROUNDING, TRIANGLE
from condyle.robot.names import quoted
from condyle.robot.paths import SCHEME
from condyle.robot.report import ERROR, HINT, WARNING, Finding
from condyle.robot.spatial import Inertia
from condyle.robot.urdf import ELSEWHERE
from condyle.robot.xml import Element, write_xml
from condyle.workbench.doctor.document import MOMENTS, Document, named
from condyle.workbench.doctor.edits import Edits
from condyle.workbench.doctor.meshes import MeshSearch
from condyle.workbench.doctor.shapes import bounds, estimate
from condyle.workbench.doctor.spelling import THOUSANDS, close, in_si, joint_type, listed, misspelt, similar, written

SPELLING = ("unknown-element", "unknown-attribute")
NO_INERTIA = "no-inertia"  # the one error that a file loads with: a joint that cannot be simulated
SEVERAL = ("link", "joint", "material", "visual", "collision")  # may be given more than once
ADMISSIBLE = 1e-6  # of the largest: how far inside of what is possible a corrected inertia lies, so that rounding keeps it there
ROUNDED = 1e-3  # an axis this close to length one was meant to be unit
GREY = "0.6 0.6 0.6 1"
TYPES = "revolute, continuous, prismatic, fixed, floating, planar"


class Fixes:
    """The findings of a document with advice and edits; None for one that only follows from another."""

    def __init__(self, document: Document) -> None:
        self.document, self.text = document, document.text
        self.search = MeshSearch(document.places)
        self.taken = {tag: set(names) for tag, names in document.names.items()}
        self.seen: set[tuple[str, str]] = set()  # names given twice and materials without colour, each said once
        self.lost: Counter[str] = Counter()  # packages that are nowhere, and how many meshes each would have

    def of(self, finding: Finding) -> Finding | None:
        """The finding with what to do about it, by the method that is named after its rule."""
        method: Callable[[Finding], Finding | None] | None = getattr(type(self), finding.rule.replace("-", "_"), None)
        return finding if method is None else method(self, finding)  # type: ignore[call-arg,arg-type]

    # -- words and numbers

    def number(self, finding: Finding) -> Finding:
        """An attribute that is not the numbers it should be: commas, units, infinity."""
        element, name, count = _element(finding), finding.name, int(finding.data)
        value = element.attributes[name]
        meant = in_si(value, name, count)
        if meant is not None:
            return self._written(finding, element, name, meant)
        endless = element.tag == "limit" and value.strip().lstrip("+-").lower() in ("inf", "infinity", ".inf")
        if endless and name in ("effort", "velocity"):
            edits = self.text.drop_attribute(element, name)
            return _fixed(finding, f"Leave {name} out: then there is no limit.", f"takes {name} out", edits)
        if either := next((part for part in re.split(r"[;\s]+", value[:200]) if THOUSANDS.fullmatch(part)), ""):
            advice = f"Write {either.replace(',', '.')} or {either.replace(',', '')}, whichever it is."
            return replace(finding, what=finding.what.partition(": write")[0], advice=advice)
        wanted = "a number" if count == 1 else f"{count} numbers with spaces between"
        return replace(finding, advice=f"Write {wanted} in SI units.")

    def unknown_element(self, finding: Finding) -> Finding:
        """An element that is not used, and is one that is but for a slip."""
        child, (known, parent) = _element(finding), finding.data
        if child.tag.startswith("xacro:") or child.tag in ELSEWHERE or len(child.tag) > 200:
            return finding
        meant = misspelt(child.tag, known)
        if not meant or (meant not in SEVERAL and self.document.child(parent, meant) is not None):
            return finding
        severity = ERROR if meant in ("link", "joint") and self.document.refused else WARNING
        edits = self.text.rename(child, meant)
        return _fixed(finding, f"Write <{meant}>.", f"renames it <{meant}>", edits, severity=severity)

    def unknown_attribute(self, finding: Finding) -> Finding:
        """An attribute that is not used, and is one that is but for a slip, or looks like one."""
        element, name = _element(finding), finding.name
        free = [known for known in finding.data if known not in element.attributes]
        if meant := misspelt(name, free):
            edits = self.text.rename_attribute(element, name, meant)
            return _fixed(finding, f"Write {meant}.", f"renames it {meant}", edits, severity=WARNING)
        if like := similar(name, free):
            advice = f"If {like} is meant, write {like} in the units of URDF: metres, radians, kilograms, seconds."
            return replace(finding, severity=WARNING, advice=advice)
        return finding

    def attribute_missing(self, finding: Finding) -> Finding:
        """An attribute that must be there."""
        element, name, document = _element(finding), finding.name, self.document
        if element.tag == "joint" and name == "name":
            parent, child = document.end(element, "parent"), document.end(element, "child")
            free = f"{parent}_to_{child}"
            while free in self.taken["joint"]:
                free += "_"
            if not parent or not child:
                return replace(finding, advice="Give it a name.")
            self.taken["joint"].add(free)
            what = f"the joint from {quoted(parent)} to {quoted(child)} has no name"
            edits = self.text.set(element, "name", free)
            fix = f"calls it {quoted(free)}"
            return _fixed(finding, f"Give it one, such as {quoted(free)}.", fix, edits, rule="joint-name", what=what)
        if element.tag == "joint" and name == "type":
            return replace(finding, rule="joint-type", advice=f"Write type= one of {TYPES}.")
        if element.tag == "mesh":
            fix, edits = self.box_for(element)
            return _fixed(finding, "Name its file.", fix, edits, rule="mesh-missing")
        if element.tag in ("mass", "inertia"):
            return self.whole_inertial(finding, document.parents[id(element)])
        return replace(finding, advice="Give it a name." if name == "name" else f"Write {name}.")

    def part_missing(self, finding: Finding) -> Finding:
        """An element that must be there."""
        element, tag = _element(finding), finding.name
        if element.tag == "inertial":
            return self.whole_inertial(finding, element)
        if tag == "geometry":
            return self.no_shape(replace(finding, data=element))
        return replace(finding, advice=f"Write <{tag} link=.../>.")

    def part_twice(self, finding: Finding) -> Finding:
        """A part of which there is one, given twice; the second is deleted if it says the same."""
        second = _element(finding)
        if write_xml(second) != write_xml(finding.data):
            return replace(finding, advice="Delete one of the two.")
        return _fixed(finding, "Delete one of the two.", "deletes the second, which says the same", self.text.drop(second))

    def robot_name(self, finding: Finding) -> Finding:
        """The robot itself without a name."""
        root = self.document.root
        stem = re.sub(r"\W+", "_", root.file.replace("\\", "/").rpartition("/")[2].partition(".")[0]) or "robot"
        edits, what = self.text.set(root, "name", stem), "the robot has no name"
        return _fixed(finding, f'Write <robot name="{stem}">.', f"calls it '{stem}'", edits, severity=HINT, what=what)

    # -- joints

    def joint_type(self, finding: Finding) -> Finding:
        """An unknown type of joint."""
        joint = _element(finding)
        meant = joint_type(joint.attributes["type"])
        if not meant:
            return replace(finding, advice=f"Write one of {TYPES}.")
        return _fixed(finding, f"Write {meant}.", f"writes {meant}", self.text.set(joint, "type", meant))

    def axis_length(self, finding: Finding) -> Finding:
        """An axis that is not of length one."""
        length = math.hypot(*finding.data)
        unit = " ".join(f"{x / length + 0.0:.12g}" for x in finding.data)
        severity = HINT if abs(length - 1.0) < ROUNDED else WARNING
        what = finding.what.replace(": scaled to one", ", not one")
        return self._written(finding, _element(finding), "xyz", unit, severity=severity, what=what)

    def limit_missing(self, finding: Finding) -> Finding:
        """A joint that may move without end."""
        at, joint = _element(finding), finding.data
        if any(similar(name, ("lower", "upper")) for name in at.attributes):
            return replace(finding, advice="Write lower and upper in its limit.")
        if self.document.kind(joint) != "revolute":
            return replace(finding, advice="Write <limit lower= upper= effort= velocity=/> in metres.")
        advice = 'Write <limit lower= upper= effort= velocity=/> in radians, or type="continuous".'
        edits = self.text.set(joint, "type", "continuous")
        return _fixed(finding, advice, "makes it continuous, which is how it is read", edits)

    def limit_end(self, finding: Finding) -> Finding:
        """A range with one end."""
        limit, name = _element(finding), finding.name
        advice = f"Write {name}."
        if any(each not in ("lower", "upper") and similar(each, (name,)) for each in limit.attributes):
            return replace(finding, advice=advice)  # there, under another name
        return _fixed(finding, advice, f'writes {name}="0", which changes nothing', self.text.set(limit, name, "0"))

    def limit_unused(self, finding: Finding) -> Finding:
        """The range of a joint that turns without end."""
        owner, kind, lower, upper = finding.data
        if kind != "continuous" or lower is None or upper is None or not lower < upper:
            return finding
        what = f"{owner} is continuous, so that its limits [{lower:g}, {upper:g}] are not used"
        advice = 'Write type="revolute" if it stops there, or take lower and upper out.'
        return replace(finding, severity=WARNING if upper - lower < 2.0 * np.pi else HINT, what=what, advice=advice)

    def limit_order(self, finding: Finding) -> Finding:
        """A range the wrong way round."""
        limit = self.document.child(self.joint(finding), "limit")
        if limit is None:
            return finding
        edits = self.text.set(limit, "lower", limit.attributes.get("upper", "0"))
        edits += self.text.set(limit, "upper", limit.attributes.get("lower", "0"))
        return _fixed(finding, "Exchange them.", "exchanges them", edits, where=limit.where)

    def negative(self, finding: Finding) -> Finding:
        """A limit or a loss that must not be negative."""
        (tag, value), name = finding.data, finding.name
        element = self.document.child(self.joint(finding), tag)
        if element is None:
            return finding
        what = f"joint {quoted(finding.owner)} <{tag}>: {name} {value:g} is negative"
        return self._written(finding, element, name, written(-value), where=element.where, what=what)

    def joint(self, finding: Finding) -> Element | None:
        """The joint that a finding is about."""
        return self.document.part("joint", finding.owner, finding.where)

    # -- names and references

    def link_twice(self, finding: Finding) -> Finding | None:
        """Two links or joints of one name. The second is deleted if it is the same, renamed if it is clear which one is meant."""
        tag, name = finding.rule.removesuffix("-twice"), finding.owner
        same = self.document.named_parts.get((tag, name), [])
        known = [k for k in range(1, len(same)) if (f"{tag} {name}", str(k)) not in self.seen]
        index = next((k for k in known if same[k].where == finding.where), known[0] if known else 0)
        if not index:
            return finding
        self.seen.add((f"{tag} {name}", str(index)))
        first, second = same[0], same[index]
        free = next(f"{name}_{n}" for n in range(2, len(self.taken[tag]) + 4) if f"{name}_{n}" not in self.taken[tag])
        fix, edits = self._apart(first, second, len(same), free)
        if "renames" in fix:
            self.taken[tag].add(free)
        what = f"{named(second)} is there twice, first in line {first.line}"
        return _fixed(finding, "Delete one of them, or give it another name.", fix, edits, where=second.where, what=what)

    joint_twice = link_twice

    def _apart(self, first: Element, second: Element, count: int, free: str) -> tuple[str, Edits]:
        """(what the fix does, its edits) for a name given twice; nothing where it would be a guess."""
        document, text, name = self.document, self.text, second.attributes["name"]
        if write_xml(first) == write_xml(second):
            return "deletes the second, which says the same", text.drop(second)
        if second.tag == "joint":
            mimics = [document.child(joint, "mimic") for joint in document.joints]
            followed = any(mimic is not None and mimic.attributes.get("joint") == name for mimic in mimics)
            return ("", ()) if followed else (f"renames the second {quoted(free)}", text.set(second, "name", free))
        # two links, each the child of one of two joints and nobody's parent: the second joint means the second link
        uses = [joint for joint in document.joints if document.end(joint, "child") == name]
        parents = name in document.ends["parent"]
        end = document.child(uses[1], "child") if len(uses) == 2 else None
        if parents or count != 2 or end is None:
            return "", ()
        edits = text.set(second, "name", free) + text.set(end, "link", free)
        return f"renames the second {quoted(free)}, in {named(uses[1])} too", edits

    def no_such_link(self, finding: Finding) -> Finding | None:
        """A parent or child that no link is called."""
        document, tag, name = self.document, finding.name, finding.data
        joint = self.joint(finding)
        end = document.child(joint, tag)
        if not name or name in document.names["link"] or joint is None or end is None:
            return None  # the name is missing, or the link is there and misspelt: said already
        other, moved = document.end(joint, "child" if tag == "parent" else "parent"), document.ends["child"]
        choice = [link for link in document.names["link"] if link != other and not (tag == "child" and link in moved)]
        meant = close(name, choice)
        if tag == "child" and not meant and len(choice) <= 500:
            # only one link that is like it at all hangs on no joint: no other can be meant
            loose = [link for link in choice if link not in document.ends["parent"]]
            meant = close(name, loose, 0.4) if len(loose) == 1 else ""
        if not meant:
            return replace(finding, where=end.where, advice="Write the name of a link of this file, or add the link.")
        what = f"{named(joint)} <{tag}>: there is no link {quoted(name)}"
        return self._meant(finding, end, "link", meant, what)

    def mimic_nobody(self, finding: Finding) -> Finding | None:
        """A joint that follows one that is not there."""
        document, leader, joint = self.document, finding.data, self.joint(finding)
        mimic = document.child(joint, "mimic")
        if not leader or leader in document.names["joint"] or joint is None or mimic is None:
            return None
        own = finding.owner
        choice = [
            name for other in document.joints
            if (name := other.attributes.get("name", "")) and name != own and document.child(other, "mimic") is None
            and document.kind(other) in ONE_COORDINATE
        ]  # fmt: skip
        # index_1 for Left_index_2 is Left_index_1
        sides = [each for each in choice if each.endswith(leader) and own.startswith(each.removesuffix(leader))]
        meant = close(leader, choice) or (sides[0] if len(sides) == 1 else "")
        if not meant:
            return replace(finding, where=mimic.where, advice="Write the name of a joint of this file, or delete <mimic>.")
        what = f"{named(joint)} <mimic>: there is no joint {quoted(leader)}"
        return self._meant(finding, mimic, "joint", meant, what)

    def mimic_itself(self, finding: Finding) -> Finding:
        """A joint that follows itself."""
        mimic = self.document.child(self.joint(finding), "mimic")
        if mimic is None:
            return finding
        advice, fix = "Name the joint it follows, or delete <mimic>.", "deletes <mimic>: the joint moves on its own"
        return _fixed(finding, advice, fix, self.text.drop(mimic), where=mimic.where)

    # -- shapes

    def no_shape(self, finding: Finding) -> Finding:
        """A <visual> or <collision> without a shape."""
        shape = finding.data
        geometry = self.document.child(shape, "geometry")
        advice = "Write a <box>, <sphere>, <cylinder>, <capsule> or <mesh>."
        if geometry is not None and geometry.children:
            return replace(finding, advice="Keep one of them.")
        fix = f"deletes the <{shape.tag}>, which shows nothing"
        return _fixed(finding, advice, fix, self.text.drop(shape), rule="no-shape", where=shape.where)

    def size_negative(self, finding: Finding) -> Finding:
        """A size below zero."""
        shape, edits, fix = _element(finding), Edits(), ""
        for name, count in (("size", 3), ("radius", 1), ("length", 1)):
            values = self.document.vector(shape, name, count)
            if values is not None and min(values) < 0.0:
                positive = listed([abs(value) for value in values])
                edits += self.text.set(shape, name, positive)
                fix = fix or f'writes {name}="{positive}"'
        return _fixed(finding, "Sizes have no sign.", fix, edits)

    def mesh_missing(self, finding: Finding) -> Finding | None:
        """A mesh that is not where it says: where it is, if it is anywhere near; a box in its place, if it is nowhere."""
        mesh = _element(finding)
        name = mesh.attributes["filename"]
        scheme = SCHEME.match(name)
        package = name[scheme.end() :].lstrip("/").partition("/")[0] if scheme and scheme[1] in ("package", "model") else ""
        refused = finding.severity == ERROR
        severity = ERROR if refused else WARNING
        what = finding.what if refused else f"the mesh {quoted(name)} is not there"
        finding = replace(finding, severity=severity, what=what)
        near, home = self.search.find(name), self.search.package(package)
        if near is not None:
            edits = self.text.set(mesh, "filename", near)
            return _fixed(finding, f"Write {quoted(near)}, which is there.", f"writes {quoted(near)}", edits)
        if home is not None:
            return replace(finding, advice=f"Give --package-dir {home}: package {quoted(package)} is there.")
        if package and not refused:
            self.lost[package] += 1
            if self.lost[package] > 1:
                return None  # one finding for each package that is nowhere, however many meshes it would have
            advice = f"Give --package-dir with the folder that holds the package {quoted(package)}; the physics does not need it."
            return replace(finding, advice=advice)
        return _fixed(finding, "Put the file there; the physics does not need it, pictures do.", *self.box_for(mesh))

    def box_for(self, mesh: Element) -> tuple[str, Edits]:
        """(what the fix does, its edits): a box as large as the other shapes of the link, or as its inertia says, or of 5 cm."""
        parents = self.document.parents
        link = parents[id(parents[id(parents[id(mesh)])])]
        size, read, box = np.full(3, 0.05), self.document.body(link), bounds(self.document.shapes(link))
        if box is not None:
            size = box[1] - box[0]
        elif read is not None and read[0] > 0.0:
            # the box of uniform density with these moments: a^2 = 6 (iyy + izz - ixx) / m
            xx, yy, zz = np.diag(read[1])
            squares = 6.0 / read[0] * np.array([yy + zz - xx, xx + zz - yy, xx + yy - zz])
            size = np.sqrt(np.clip(np.nan_to_num(squares), 0.01**2, 1.0))
        text = " ".join(f"{side:.3g}" for side in size)
        return f"puts a box of {text} m in its place", self.text.replace(mesh, [f'<box size="{text}"/>'])

    def no_color(self, finding: Finding) -> Finding | None:
        """A material that is given no colour."""
        material, name = _element(finding), finding.name
        if ("material", name) in self.seen or not name.strip():
            return None
        self.seen.add(("material", name))
        defined = [child for child in self.document.root.children if child.tag == "material"]
        home = next((each for each in defined if each.attributes.get("name", "") == name), material)
        advice = f'Write <material name={quoted(name)}><color rgba="r g b a"/></material> in <robot>.'
        edits, what = self.text.inside(home, [f'<color rgba="{GREY}"/>']), f"the material {quoted(name)} has no colour anywhere"
        return _fixed(finding, advice, "makes it grey", edits, what=what)

    # -- bodies

    def mass_negative(self, finding: Finding) -> Finding:
        """A mass below zero."""
        mass = self.document.child(self.document.child(self._link(finding), "inertial"), "mass")
        if mass is None:
            return finding
        what = f"link {quoted(finding.owner)} has the negative mass {finding.data:g} kg"
        return self._written(finding, mass, "value", written(-finding.data), where=mass.where, what=what)

    def inertia_impossible(self, finding: Finding) -> Finding:
        """Moments that no body has."""
        link = self._link(finding)
        inertia = self.document.child(self.document.child(link, "inertial"), "inertia")
        read = self.document.body(link) if link is not None else None
        advice = "Check the moments against the drawing: signs, and which is which."
        if inertia is None or read is None or admissible(read[1]):
            return replace(finding, advice=advice)
        better, how = nearest_body(read[1])
        if not np.all(np.isfinite(better)):
            return replace(finding, advice=advice)
        edits = self._moments(inertia, read[1], better)
        after = ", ".join(f"{m:.4g}" for m in np.linalg.eigvalsh(better))
        return _fixed(finding, advice, f"{how}: principal moments {after}", edits, where=inertia.where)

    def _moments(self, inertia: Element, before: np.ndarray, after: np.ndarray) -> Edits:
        edits = Edits()
        for name, (i, j) in MOMENTS.items():
            if float(after[i, j]) != float(before[i, j]):
                edits += self.text.set(inertia, name, written(float(after[i, j])))
        return edits

    def no_mass(self, finding: Finding) -> Finding:
        """Moments without a mass: it can be simulated, and only its author knows whether it is so."""
        mass = self.document.child(self.document.child(self._link(finding), "inertial"), "mass")
        where = finding.where if mass is None else mass.where
        return replace(finding, where=where, advice="Write the mass of the part, if it has any.")

    def no_inertia(self, finding: Finding) -> Finding:
        """A joint that moves no inertia: its link gets the mass, or the moments, of its shapes."""
        document, joint = self.document, self.joint(finding)
        group = document.rigid(document.end(joint, "child")) if joint is not None else []
        if joint is None or not group:
            return replace(finding, severity=ERROR)
        heavy = next((link for link in group if (read := document.body(link)) is not None and read[0] != 0.0), None)
        if heavy is not None:
            return self.point(finding, heavy)
        shaped = [link for link in group if document.shapes(link)]
        link = group[0] if not shaped or group[0] in shaped else shaped[0]
        inertial = document.child(link, "inertial")
        found, how = self.estimate(link)
        lines = _inertial(found, how)
        return _fixed(
            finding,
            "Write an <inertial> with the mass and inertia of the part.",
            f"writes one, {how} ({_said(found)})",
            self.text.inside(link, lines) if inertial is None else self.text.replace(inertial, lines),
            severity=ERROR,
            where=(document.child(inertial, "mass") or inertial or link).where,
            what=f"{named(link)} has no mass, so that {named(joint)} cannot be simulated",
        )

    def point(self, finding: Finding, link: Element) -> Finding:
        """A moving part whose mass is written and whose moments are all zero gets those of its shapes."""
        document = self.document
        inertial, read = document.child(link, "inertial"), document.body(link)
        inertia = document.child(inertial, "inertia")
        severity = ERROR if finding.rule == NO_INERTIA else WARNING
        if inertial is None or inertia is None or read is None:
            return replace(finding, severity=severity)
        found, how = self.estimate(link, abs(read[0]))
        R = document.pose(inertial).R
        edits = self._moments(inertia, np.zeros((3, 3)), _clean(R.T @ found.I_com @ R))
        what = f"{named(link)} has {read[0]:g} kg and no moments, like a point"
        advice = "Write its moments: parts that turn need them."
        return _fixed(finding, advice, f"writes {how}", edits, severity=severity, where=inertia.where, what=what)

    def whole_inertial(self, finding: Finding, inertial: Element) -> Finding:
        """An <inertial> without its mass or its moments."""
        link = self.document.parents[id(inertial)]
        found, how = self.estimate(link, self.document.number(self.document.child(inertial, "mass"), "value"))
        edits = self.text.replace(inertial, _inertial(found, how))
        advice, fix = "Write mass and all moments.", f"writes the whole, {how} ({_said(found)})"
        return _fixed(finding, advice, fix, edits, rule="inertial-part", where=inertial.where)

    def estimate(self, link: Element, mass: float | None = None) -> tuple[Inertia, str]:
        """(body, how it was found) of a link from its shapes, scaled to a mass."""
        return estimate(self.document.shapes(link, "collision"), self.document.shapes(link, "visual"), mass)

    def _meant(self, finding: Finding, element: Element, name: str, meant: str, what: str) -> Finding:
        edits = self.text.set(element, name, meant)
        return _fixed(finding, f"Write {quoted(meant)}.", f"writes {quoted(meant)}", edits, where=element.where, what=what)

    def _written(self, finding: Finding, element: Element, name: str, value: str, **changes: str) -> Finding:
        """The finding with a fix that writes the attribute so."""
        text = f'{name}="{value}"'
        return _fixed(finding, f"Write {text}.", f"writes {text}", self.text.set(element, name, value), **changes)

    def _link(self, finding: Finding) -> Element | None:
        return self.document.part("link", finding.owner, finding.where)


def admissible(I: np.ndarray, slack: float = TRIANGLE) -> bool:
    """Whether some body has these moments, to within what few digits leave open."""
    a, b, c = np.linalg.eigvalsh(I)
    largest = max(abs(a), abs(c))
    return bool(a >= -ROUNDING * largest and a + b >= c * (1.0 - slack))


def nearest_body(I: np.ndarray) -> tuple[np.ndarray, str]:
    """(moments that a body can have, how they were found): a sign or a product undone where that is enough, else the nearest.

    The second moments of the mass, S = tr(I)/2 - I, must have no negative principal value; those that have are raised to zero.
    """
    positive = I.copy()
    np.fill_diagonal(positive, np.abs(np.diag(I)))
    if np.any(np.diag(I) < 0.0) and admissible(positive, 0.0):
        return positive, "takes the minus signs away"
    alone = np.diag(np.abs(np.diag(I)))
    large = np.abs(I - np.diag(np.diag(I))).max() >= np.diag(alone).max()
    if large and admissible(alone, 0.0):
        return alone, "takes out the products, which are larger than the moments"
    values, axes = np.linalg.eigh(np.trace(I) / 2.0 * np.eye(3) - I)
    values = np.maximum(values, ADMISSIBLE * max(np.abs(values).max(), 1e-300))
    S = (axes * values) @ axes.T
    nearest = np.trace(S) * np.eye(3) - S
    nearest[np.abs(nearest) < 1e-12 * np.abs(nearest).max()] = 0.0
    return (nearest + nearest.T) / 2.0, "writes the nearest that a body can have"


def _element(finding: Finding) -> Element:
    assert finding.element is not None, finding.rule
    return finding.element


def _fixed(finding: Finding, advice: str, fix: str, edits: Edits, **changes: str) -> Finding:
    return replace(finding, advice=advice, fix=fix, edits=edits, **changes)  # type: ignore[arg-type]


def _inertial(found: Inertia, how: str) -> list[str]:
    """An <inertial> with this body, and how it was found in a comment."""
    I = found.I_com
    values = " ".join(f'{name}="{written(float(I[i, j]))}"' for name, (i, j) in MOMENTS.items())
    return [
        "<inertial>",
        f"  <!-- condyle doctor: {how} -->",
        f'  <origin xyz="{listed(_clean(found.com).tolist())}" rpy="0 0 0"/>',
        f'  <mass value="{written(float(found.mass))}"/>',
        f"  <inertia {values}/>",
        "</inertial>",
    ]


def _clean(x: np.ndarray) -> np.ndarray:
    """Without what is only rounding."""
    return np.where(np.abs(x) < 1e-12, 0.0, x)


def _said(found: Inertia) -> str:
    return f"{found.mass:.4g} kg, moments {', '.join(f'{m:.3g}' for m in np.diag(found.I_com))} kg m2"
