"""The doctor: what is wrong with a robot file, how to cure it, and the corrected text, which says what it assumed.

Rules look at the elements one by one, however wrong their neighbours are; the loaders have the last word on whether it loads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from condyle.doctor.bodies import bodies
from condyle.doctor.cures import spelling_first, with_account
from condyle.doctor.joints import joints
from condyle.doctor.meshes import looks
from condyle.doctor.patient import DOUBT, ERROR, HINT, Finding, Patient, Rule, close, misspelt
from condyle.doctor.stance import carriers
from condyle.doctor.summary import summary
from condyle.doctor.text import Page
from condyle.doctor.tree import standing, tree
from condyle.doctor.words import unnamed, words
from condyle.errors import CondyleError, RobotError
from condyle.robot.check import check
from condyle.robot.description import Note
from condyle.robot.load import is_mjcf, package_of
from condyle.robot.names import quoted
from condyle.robot.paths import Places
from condyle.robot.report import IGNORED, KEPT, MAX_PROBLEMS, REPAIRED
from condyle.robot.urdf import describe
from condyle.robot.xacro import expand_xacro
from condyle.robot.xml import Element, read_xml, write_xml

RULES: tuple[Rule, ...] = (words, unnamed, tree, joints, bodies, looks, standing)
LOADS, DOUBTFUL, STUCK, FAILS = "loads", "loads with doubts", "loads, but cannot be simulated", "does not load"
NAILED = "base-fixed"  # a robot that seems to stand, roll or fly
UNMOVABLE, STILL = "no-inertia", "moves no inertia"  # the one error that a file loads with, and how the loader says it
GRAVITY = {ERROR: 0, DOUBT: 1, HINT: 2}
MAX_FINDINGS = 2000  # a file can be wrong in more ways than anybody will read
MAX_ROUNDS = 8  # a correction may bring to light, or allow, another

# what to do about a sentence of the loader that no rule knows better
CURES = (
    (STILL, "Give the part that moves a mass and moments, or make the joint fixed."),
    ("roots", "Join all links but one to a parent by a joint, or delete those that belong to nobody."),
    ("form a cycle", "Delete the joint that closes the circle: a URDF is a tree."),
    ("already has the parent", "Delete one of the two joints."),
    ("its own parent", "Name another link as parent."),
    ("follow each other in a circle", "Let one of them move on its own: delete its <mimic>."),
    ("is given twice", "Delete one of the two."),
    ("is empty", "Write <robot name=...> with its links and joints, or give another file."),
    ("UTF-8", "Save the file as UTF-8 in your editor."),
    ("NUL byte", "This is no text: give the URDF, not a mesh or an archive."),
    ("XML is broken", "Correct it at this line or just before: a tag is not closed, or a quote is missing."),
    ("document types", "Delete the <!DOCTYPE ...> and write the values out."),
    ("processing instruction", "Delete it."),
    ("more than", "Split the robot, or delete what does not belong to it."),
    ("nested deeper", "Delete what is not part of a robot."),
    ("has no <link>", "Write at least one <link name=.../>."),
    ("attribute 'name'", "Give it a name."),
    ("attribute '", "Write the attribute."),
    ("has no <parent>", "Write <parent link=.../>."),
    ("has no <child>", "Write <child link=.../>."),
    ("flattens the mesh", "Write a scale without zeros."),
    ("without a name", "Give it a name."),
)


@dataclass(frozen=True)
class Diagnosis:
    """What was found in a file, and, when asked for, what the corrections did and what remains after them."""

    path: Path
    format: str  # "URDF", "xacro", "MJCF" or "unknown"
    findings: tuple[Finding, ...]
    summary: dict[str, Any] | None = None  # what the robot is, or would be after the corrections
    corrected: str | None = None  # the text after all corrections
    fixed: tuple[Finding, ...] = ()
    remains: tuple[Finding, ...] = ()
    written: Path | None = None
    strict: bool = False

    @property
    def verdict(self) -> str:
        """loads, loads with doubts, loads but cannot be simulated, or does not load."""
        return verdict(self.findings)

    @property
    def verdict_after(self) -> str | None:
        """The verdict on the corrected text; None when there is none."""
        return None if self.corrected is None else verdict(self.remains)

    def count(self, severity: str) -> int:
        return sum(finding.severity == severity for finding in self.findings)


def verdict(findings: Sequence[Finding]) -> str:
    """In a few words."""
    errors = {finding.kind for finding in findings if finding.severity == ERROR}
    doubts = any(finding.severity == DOUBT for finding in findings)
    return FAILS if errors - {UNMOVABLE} else STUCK if errors else DOUBTFUL if doubts else LOADS


def diagnose(
    path: str | PathLike[str],
    *,
    package_dirs: Sequence[str | PathLike[str]] = (),
    xacro_args: Mapping[str, str] | None = None,
    cure: bool = False,
    strict: bool = False,
) -> Diagnosis:
    """What is wrong with a robot file; with `cure`, its corrected text too. Nothing is written."""
    path = Path(path)
    content = _content(path)
    folders = tuple(Path(folder) for folder in package_dirs)
    ward = _Ward(path, folders, dict(xacro_args or {}))
    with np.errstate(all="ignore"):
        if path.suffix != ".xacro" and is_mjcf(content):
            return replace(ward.mjcf(), strict=strict)
        found, start, extra = ward.admit(content)
        if start is None:
            return Diagnosis(path, found, extra, strict=strict)
        first = _sorted([*extra, *ward.examine(*start)])
        plain = Diagnosis(path, found, first, ward.summary, strict=strict)
        return plain if not cure else ward.cure(plain, *start)


def corrected_path(path: Path) -> Path:
    """Where the corrected text of a file goes: NAME.fixed.urdf beside it."""
    return path.with_name(path.name.removesuffix(".xacro").removesuffix(".urdf") + ".fixed.urdf")


def _content(path: Path) -> bytes:
    if path.is_dir():
        inside = sorted(p.name for p in path.iterdir() if p.suffix in (".urdf", ".xacro"))[:5]
        raise RobotError([f"{path}: this is a folder; give a file" + (f", such as {path / inside[0]}" if inside else " in it")])
    if not path.is_file():
        near = ""
        if path.parent.is_dir():
            there = [p.name for p in path.parent.iterdir() if p.suffix in (".urdf", ".xacro", ".xml")][:500]
            meant = close(path.name, there, 0.6)
            near = f" (did you mean {path.with_name(meant)}?)" if meant else ""
        raise RobotError([f"{path}: there is no such file{near}; give the path of a .urdf, .xacro or .xml file"])
    try:
        return path.read_bytes()
    except OSError as error:
        raise RobotError([f"{path}: cannot be read ({error.strerror}); check its permissions"]) from None


class _Ward:
    """One file being examined: where it lies, and how its text becomes elements."""

    def __init__(self, path: Path, folders: tuple[Path, ...], xacro_args: dict[str, str]) -> None:
        self.path, self.folders, self.xacro_args = path, folders, xacro_args
        self.roots = [package_of(path), *folders]
        self.places = Places.around(str(path), self.roots, folders)
        self.summary: dict[str, Any] | None = None
        self.carriers: list[str] = []

    def admit(self, content: bytes) -> tuple[str, tuple[str, Element] | None, tuple[Finding, ...]]:
        """(format, text and elements, findings so far); no elements when the file cannot be read at all."""
        extra: tuple[Finding, ...] = ()
        where = f"{self.path}:1"
        if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
            try:
                content = content.decode("utf-16").encode()
            except UnicodeError:
                return "unknown", None, (_finding(f"{where}: the file is UTF-16 and damaged: save it as UTF-8", ERROR),)
            cure = "Save the file as UTF-8."
            extra = (Finding(ERROR, "encoding", where, "the file is UTF-16", cure, "writes it as UTF-8"),)
        xacro = self.path.suffix == ".xacro"
        try:
            root = read_xml(content, str(self.path))
            text = content.decode("utf-8")
            if root.tag != "robot":
                root, text, more = self._other_root(root, text)
                extra += more
            if not xacro and any(child.tag.startswith("xacro:") for child in root.walk()):
                what, cure = "the file has xacro elements, and is not called .xacro", "Name it .xacro, or use the expanded file."
                extra += (Finding(ERROR, "xacro", root.where, what, cure, "expands it"),)
                xacro = True
            if xacro:
                root = expand_xacro(text, str(self.path), roots=self.roots, package_dirs=self.folders, arguments=self.xacro_args)
                text = write_xml(root)
        except RobotError as error:
            done = tuple(replace(finding, fix="") for finding in extra)
            return ("xacro" if xacro else "unknown"), None, done + tuple(_finding(problem, ERROR) for problem in error.problems)
        return ("xacro" if xacro else "URDF"), (text, root), extra

    def _other_root(self, root: Element, text: str) -> tuple[Element, str, tuple[Finding, ...]]:
        """A file that begins with another element: a misspelt <robot>, or no robot."""
        tag = root.tag[:60]
        if not misspelt(root.tag, ["robot"]):
            what = (
                "an SDF world or model: convert it to URDF"
                if root.tag == "sdf"
                else "no URDF: a robot is written <robot name=...>"
            )
            raise RobotError([f"{root.where}: the outermost element is <{tag}>, so that this is {what}"])
        what = f"the outermost element is <{tag}>, not <robot>"
        finding = Finding(ERROR, "root-name", root.where, what, "Write <robot>.", "writes <robot>")
        text = Page(text, root).corrected([Page(text, root).rename(root, "robot")])[0]
        return read_xml(text, str(self.path)), text, (finding,)

    def examine(self, text: str, root: Element) -> list[Finding]:
        """All findings in elements that stand in this text."""
        patient = Patient(root, Page(text, root), self.places, self.folders)
        found = spelling_first(list(islice(chain.from_iterable(rule(patient) for rule in RULES), MAX_FINDINGS)), patient.page)
        problems, notes = self._loaded(root)
        if not problems:
            found = _weighed(found, notes)
        errors = [finding for finding in found if finding.severity == ERROR]
        found += [_finding(problem, ERROR) for problem in problems if not _covered(problem, errors)]
        for note in notes:
            sentence = f"{note.where}: {note.what}"
            if not _covered(sentence, found):
                found.append(_finding(sentence, HINT if note.what.startswith(IGNORED) else ERROR if STILL in sentence else DOUBT))
        if self.carriers:
            found.append(_nailed(root.where, self.carriers))
        return found

    def _loaded(self, root: Element) -> tuple[list[str], Sequence[Note]]:
        """(problems, notes) of the loaders, which decide; the summary is kept."""
        self.summary, self.carriers = None, []
        try:
            description = describe(root, str(self.path), roots=self.roots, package_dirs=self.folders)
            findings = check(description)
        except RobotError as error:
            return list(error.problems), ()
        if not findings.problems:
            self.summary, self.carriers = summary(description), carriers(description)
        return findings.problems, (*description.notes, *findings.notes)

    def cure(self, plain: Diagnosis, text: str, root: Element) -> Diagnosis:
        """The diagnosis with the corrected text: corrections are made until none is left or none helps."""
        findings: Sequence[Finding] = plain.findings
        original, seen, new = {id(finding) for finding in findings}, set[str](), str(corrected_path(self.path))
        fixed = [finding for finding in findings if finding.fixable and not finding.edits]  # done on admission
        if not any(finding.fixable for finding in findings):
            return replace(plain, remains=plain.findings)
        for turn in range(MAX_ROUNDS):
            groups = [finding for finding in findings if finding.edits]
            after, made = Page(text, root).corrected([finding.edits for finding in groups])
            if turn and (not made or after in seen):
                break
            fixed += [_placed(groups[k], id(groups[k]) in original) for k in made]
            text = after
            seen.add(text)
            try:
                root = read_xml(text, new)
            except RobotError as error:  # a correction never breaks the XML; if one did, say so rather than hide it
                return replace(plain, remains=tuple(_finding(problem, ERROR) for problem in error.problems))
            findings = self.examine(text, root)
        text = with_account(text, fixed, self.path.name)
        return replace(plain, corrected=text, fixed=tuple(fixed), remains=_sorted(findings), summary=self.summary)

    def mjcf(self) -> Diagnosis:
        """What the MJCF loader says: it is reported, not corrected."""
        from condyle.robot.load import describe as described

        try:
            description = described(self.path, self.folders, self.xacro_args)
            findings = check(description)
        except RobotError as error:
            return Diagnosis(self.path, "MJCF", tuple(_finding(problem, ERROR) for problem in error.problems))
        except CondyleError as error:  # MuJoCo is not installed
            return Diagnosis(self.path, "MJCF", (_finding(f"{self.path}:1: {error}", ERROR),))
        found = [_finding(problem, ERROR) for problem in findings.problems]
        for note in (*description.notes, *findings.notes):
            severity = HINT if note.what.startswith(IGNORED) else DOUBT
            found.append(_finding(f"{note.where}: {note.what}" if note.where else note.what, severity))
        return Diagnosis(self.path, "MJCF", _sorted(found), None if findings.problems else summary(description))


def _nailed(where: str, names: Sequence[str]) -> Finding:
    """What to know of a robot that seems made to move about."""
    shown = " and ".join(quoted(name) for name in names[:2]) + (" and more" if len(names) > 2 else "")
    what = f"its base is fixed, as in every URDF, and {shown} seem{'s' * (len(names) == 1)} made to carry it"
    return Finding(HINT, NAILED, where, what, "A robot that stands, rolls or flies is simulated with --base free.")


def _weighed(found: Sequence[Finding], notes: Sequence[Note]) -> list[Finding]:
    """The findings in a file that loads: an error is what no simulation can live with, a joint that moves no inertia."""
    still = [note.what for note in notes if STILL in note.what]
    weighed = []
    for finding in found:
        if any(_covered(what, [finding]) for what in still):
            finding = replace(finding, severity=ERROR, kind=UNMOVABLE)
        elif finding.severity == ERROR:
            finding = replace(finding, severity=DOUBT)
        weighed.append(finding)
    return weighed


def _covered(sentence: str, found: Sequence[Finding]) -> bool:
    if sentence.startswith("and more: "):
        return len(found) >= MAX_PROBLEMS
    return any(finding.covers and all(part in sentence for part in finding.covers) for finding in found)


def _finding(sentence: str, severity: str) -> Finding:
    """A sentence of a loader as a finding; "file:12: what"."""
    match = re.match(r"(?s)(.*?:\d+): (.+)", sentence)
    where, what = (match[1], match[2]) if match else ("", sentence)
    for mark in (REPAIRED, KEPT, IGNORED):
        if what.startswith(mark):
            what = what.removeprefix(mark) + (", which is not used" if mark == IGNORED and "which" not in what else "")
    default = "Nothing to do, unless you relied on it." if severity == HINT else "Correct it in this line."
    cure = default if severity == HINT else next((cure for part, cure in CURES if part in what), default)
    return Finding(severity, UNMOVABLE if STILL in what else "loader", where, what, cure)


def _placed(finding: Finding, original: bool) -> Finding:
    """A finding of a later round has lines of a text that nobody has seen: only the file is named."""
    return finding if original else replace(finding, where=re.sub(r":\d+$", "", finding.where))


def _sorted(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Grave ones first, each kind in the order of the file."""

    def place(finding: Finding) -> tuple[int, int]:
        line = re.search(r":(\d+)$", finding.where)
        return GRAVITY[finding.severity], int(line[1]) if line else 0

    return tuple(sorted(findings, key=place))
