"""The doctor: what the loader's rules find in a robot file, what to do about it, and the corrected text.

A file is read as far as it goes, however wrong parts of it are; whether it loads is what the loader says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from condyle.errors import CondyleError, RobotError
from condyle.robot.check import apply_rules, check
from condyle.robot.description import Description
from condyle.robot.load import describe, is_mjcf
from condyle.robot.names import quoted
from condyle.robot.paths import Places
from condyle.robot.report import ERROR, HINT, IGNORED, KEPT, MAX_FINDINGS, NOT_SIMULATED, REPAIRED, WARNING, Finding, Report
from condyle.robot.stance import supports
from condyle.robot.urdf import read_robot
from condyle.robot.xacro import expand_xacro
from condyle.robot.xml import Element, read_xml, write_xml
from condyle.workbench.doctor.advice import advice
from condyle.workbench.doctor.document import Document
from condyle.workbench.doctor.edits import SourceText
from condyle.workbench.doctor.fixes import NO_INERTIA, SPELLING, Fixes
from condyle.workbench.doctor.shapes import summary
from condyle.workbench.doctor.spelling import close, misspelt

LOADS, WARNINGS, NOT_SIMULABLE, FAILS = "loads", "loads with warnings", "loads, but cannot be simulated", "does not load"
FIXED_BASE = "base-fixed"  # the rule about a robot that seems to stand, roll or fly
SEVERITIES = (ERROR, WARNING, HINT)
GAP = 1e-6  # m or rad: loops that the least squares leave open by more are a warning
MAX_ROUNDS = 8  # a correction may bring to light, or allow, another
SPELLING_FIRST = "Correct the spelling in it first."

# what to do about files that are no XML, or no robot at all
ADVICE = (
    ("is empty", "Write <robot name=...> with its links and joints, or give another file."),
    ("UTF-8", "Save the file as UTF-8 in your editor."),
    ("NUL byte", "This is no text: give the URDF, not a mesh or an archive."),
    ("XML is broken", "Correct it at this line or just before: a tag is not closed, or a quote is missing."),
    ("document types", "Delete the <!DOCTYPE ...> and write the values out."),
    ("processing instruction", "Delete it."),
    ("more than", "Split the robot, or delete what does not belong to it."),
    ("nested deeper", "Delete what is not part of a robot."),
)
DEFAULT_ADVICE = {ERROR: "Correct it in this line.", WARNING: "Check it.", HINT: "Nothing to do, unless you relied on it."}


@dataclass(frozen=True)
class Diagnosis:
    """What was found in a file, and, when asked for, what the fixes did and what remains after them."""

    path: Path
    format: str  # "URDF", "xacro", "MJCF" or "unknown"
    findings: tuple[Finding, ...]
    summary: dict[str, Any] | None = None  # what the robot is, or would be after the fixes
    corrected: str | None = None  # the text after all fixes
    fixed: tuple[Finding, ...] = ()
    remains: tuple[Finding, ...] = ()
    written: Path | None = None
    strict: bool = False

    @property
    def verdict(self) -> str:
        """loads, loads with warnings, loads but cannot be simulated, or does not load."""
        return verdict(self.findings)

    @property
    def verdict_after(self) -> str | None:
        """The verdict on the corrected text; None when there is none."""
        return None if self.corrected is None else verdict(self.remains)

    def count(self, severity: str) -> int:
        """How many findings are of this severity."""
        return sum(finding.severity == severity for finding in self.findings)


def verdict(findings: Sequence[Finding]) -> str:
    """In a few words."""
    errors = {finding.rule for finding in findings if finding.severity == ERROR}
    warnings = any(finding.severity == WARNING for finding in findings)
    return FAILS if errors - {NO_INERTIA} else NOT_SIMULABLE if errors else WARNINGS if warnings else LOADS


def diagnose(
    path: str | PathLike[str],
    *,
    package_dirs: Sequence[str | PathLike[str]] = (),
    xacro_args: Mapping[str, str] | None = None,
    fix: bool = False,
    strict: bool = False,
) -> Diagnosis:
    """What is wrong with a robot file; with `fix`, its corrected text too. Nothing is written."""
    path = Path(path)
    content = _content(path)
    folders = tuple(Path(folder) for folder in package_dirs)
    linter = _Linter(path, folders, dict(xacro_args or {}))
    with np.errstate(all="ignore"):
        if path.suffix != ".xacro" and is_mjcf(content):
            return replace(linter.mjcf(), strict=strict)
        found, start, extra = linter.read(content)
        if start is None:
            return Diagnosis(path, found, extra, strict=strict)
        first = _sorted([*extra, *linter.examine(*start)])
        diagnosis = Diagnosis(path, found, first, linter.summary, strict=strict)
        return linter.fix(diagnosis, *start) if fix else diagnosis


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


class _Linter:
    """One file being examined: where it lies, and how its text becomes elements."""

    def __init__(self, path: Path, folders: tuple[Path, ...], xacro_args: dict[str, str]) -> None:
        self.path, self.folders, self.xacro_args = path, folders, xacro_args
        self.places = Places.near(path, folders)
        self.summary: dict[str, Any] | None = None

    def read(self, content: bytes) -> tuple[str, tuple[str, Element] | None, tuple[Finding, ...]]:
        """(format, text and elements, findings so far); no elements when the file cannot be read at all."""
        extra: tuple[Finding, ...] = ()
        where = f"{self.path}:1"
        if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
            try:
                content = content.decode("utf-16").encode()
            except UnicodeError:
                return "unknown", None, (_finding(f"{where}: the file is UTF-16 and damaged: save it as UTF-8", ERROR),)
            todo = "Save the file as UTF-8."
            extra = (Finding(ERROR, "encoding", where, "the file is UTF-16", todo, fix="writes it as UTF-8"),)
        xacro = self.path.suffix == ".xacro"
        try:
            root = read_xml(content, str(self.path))
            text = content.decode("utf-8")
            if root.tag != "robot":
                root, text, more = self._other_root(root, text)
                extra += more
            if not xacro and any(child.tag.startswith("xacro:") for child in root.walk()):
                what, todo = "the file has xacro elements, and is not called .xacro", "Name it .xacro, or use the expanded file."
                extra += (Finding(WARNING, "xacro", root.where, what, todo, fix="expands it"),)
                xacro = True
            if xacro:
                root = expand_xacro(text, str(self.path), self.places, self.xacro_args)
                text = write_xml(root)
        except RobotError as error:
            done = tuple(replace(finding, fix="") for finding in extra)
            return ("xacro" if xacro else "unknown"), None, done + tuple(_finding(problem, ERROR) for problem in error.problems)
        return ("xacro" if xacro else "URDF"), (text, root), extra

    def _other_root(self, root: Element, text: str) -> tuple[Element, str, tuple[Finding, ...]]:
        """A file that begins with another element: a misspelt <robot>, or no robot."""
        tag = root.tag[:60]
        if not misspelt(root.tag, ["robot"]):
            sdf = root.tag == "sdf"
            what = "an SDF world or model: convert it to URDF" if sdf else "no URDF: a robot is written <robot name=...>"
            raise RobotError([f"{root.where}: the outermost element is <{tag}>, so that this is {what}"])
        what = f"the outermost element is <{tag}>, not <robot>"
        finding = Finding(ERROR, "root-name", root.where, what, "Write <robot>.", fix="writes <robot>")
        source = SourceText(text, root)
        text = source.corrected([source.rename(root, "robot")])[0]
        return read_xml(text, str(self.path)), text, (finding,)

    def examine(self, text: str, root: Element) -> list[Finding]:
        """All findings in elements that stand in this text."""
        self.summary, report = None, Report()
        try:
            description = read_robot(root, str(self.path), self.places, report)
        except RobotError as error:
            return [_finding(problem, ERROR) for problem in error.problems]
        apply_rules(_with_names(description), report)
        refused = any(finding.severity == ERROR for finding in report.findings)
        source = SourceText(text, root)
        document = Document(root, source, self.places, description, refused)
        fixes = Fixes(document)
        found = [fixed for finding in report.findings if (fixed := fixes.of(finding)) is not None]
        found += islice(advice(document, fixes, report.findings), MAX_FINDINGS)
        found = _counted(_spelling_first(found, source))
        if refused and all(finding.severity != ERROR for finding in found):
            found += [finding for finding in report.findings if finding.severity == ERROR]
        if not refused:
            found += builder_findings(_with_names(description), str(self.path))
            self.summary = summary(description)
            found += _fixed_base(root, description)
        return [replace(finding, advice=_advice(finding)) for finding in found]

    def fix(self, first: Diagnosis, text: str, root: Element) -> Diagnosis:
        """The diagnosis with the corrected text: fixes are made until none is left or none helps."""
        findings: Sequence[Finding] = first.findings
        original, seen, new = {id(finding) for finding in findings}, set[str](), str(corrected_path(self.path))
        fixed = [finding for finding in findings if finding.fixable and not finding.edits]  # made while the file was read
        if not any(finding.fixable for finding in findings):
            return replace(first, remains=first.findings)
        for turn in range(MAX_ROUNDS):
            groups = [finding for finding in findings if finding.edits]
            after, made = SourceText(text, root).corrected([finding.edits for finding in groups])
            if turn and (not made or after in seen):
                break
            # a finding of a later round has lines of a text that nobody has seen: only the file is named
            later = [groups[k] for k in made if id(groups[k]) not in original]
            fixed += [groups[k] for k in made if id(groups[k]) in original]
            fixed += [replace(finding, where=re.sub(r":\d+$", "", finding.where)) for finding in later]
            text = after
            seen.add(text)
            try:
                root = read_xml(text, new)
            except RobotError as error:  # an edit never breaks the XML; if one did, say so rather than hide it
                return replace(first, remains=tuple(_finding(problem, ERROR) for problem in error.problems))
            findings = self.examine(text, root)
        text = _with_comment(text, fixed, self.path.name)
        return replace(first, corrected=text, fixed=tuple(fixed), remains=_sorted(findings), summary=self.summary)

    def mjcf(self) -> Diagnosis:
        """What the MJCF loader says: it is reported, not fixed."""
        try:
            description = describe(self.path, self.folders, self.xacro_args)
            report = check(description)
        except RobotError as error:
            return Diagnosis(self.path, "MJCF", tuple(_finding(problem, ERROR) for problem in error.problems))
        except CondyleError as error:  # MuJoCo is not installed
            return Diagnosis(self.path, "MJCF", (_finding(f"{self.path}:1: {error}", ERROR),))
        found = [_finding(problem, ERROR) for problem in report.problems]
        for note in (*description.notes, *report.notes):
            severity = HINT if note.what.startswith((IGNORED, NOT_SIMULATED)) else WARNING
            found.append(_finding(f"{note.where}: {note.what}" if note.where else note.what, severity))
        if not report.problems:
            found += builder_findings(description, str(self.path))
        refused = any(finding.severity == ERROR for finding in found)
        return Diagnosis(self.path, "MJCF", _sorted(found), None if refused else summary(description))


def builder_findings(description: Description, file: str) -> list[Finding]:
    """What is said when the model is built, mimic joints are coupled and loops closed, as the loader does: errors, and gaps."""
    from condyle.constraints.builders import from_description
    from condyle.robot.build import build
    from condyle.robot.check import checked

    constrained = bool(description.loops) or any(joint.mimic for joint in description.joints)
    try:
        model = build(checked(description))
        found = from_description(model) if constrained else None
    except RobotError as error:
        return [_finding(f"{file}:1: {problem}", ERROR) for problem in error.problems]
    gaps = [constraint for constraint in (found.constraints if found else ()) if getattr(constraint, "misfit", 0.0) > GAP]
    return [_finding(f"{file}:1: {constraint.summary()}", WARNING) for constraint in gaps]


def _with_names(description: Description) -> Description:
    """The description without links that have no name, and with a name for every joint: what is missing is said already."""
    joints = [replace(joint, name=joint.name or f"{joint.parent}_to_{joint.child}") for joint in description.joints]
    return replace(description, links=tuple(link for link in description.links if link.name), joints=tuple(joints))


def _fixed_base(root: Element, description: Description) -> list[Finding]:
    """What to know of a robot that seems made to move about."""
    names = supports(description)
    if not names:
        return []
    shown = " and ".join(quoted(name) for name in names[:2]) + (" and more" if len(names) > 2 else "")
    what = f"its base is fixed, as in every URDF, and {shown} seem{'s' * (len(names) == 1)} made to carry it"
    return [
        Finding(
            HINT,
            FIXED_BASE,
            root.where,
            what,
            "A robot that stands, rolls or flies is simulated with --base free, or --base auto.",
        )
    ]


def _spelling_first(found: Sequence[Finding], text: SourceText) -> list[Finding]:
    """The findings without those fixes that a misspelt word calls for: what looks missing may be there, under a wrong name.

    A fix waits if it changes an element in which a word is to be renamed, one around it, or one inside it.
    """
    renamed = [text.path(edit.start) for finding in found if finding.rule in SPELLING for edit in finding.edits]
    paths = set(renamed)
    around = {path[:n] for path in renamed for n in range(2, len(path))}

    def waits(finding: Finding) -> bool:
        for path in (text.path(edit.start) for edit in finding.edits):
            if path in around or any(path[:n] in paths for n in range(min(2, len(path)), len(path) + 1)):
                return True
        return False

    return [
        replace(finding, fix="", edits=(), advice=f"{finding.advice} {SPELLING_FIRST}")
        if finding.rule not in SPELLING and waits(finding)
        else finding
        for finding in found
    ]


def _counted(found: Sequence[Finding]) -> list[Finding]:
    """The findings with each kind of thing that is not used said once, and how often."""
    first: dict[str, int] = {}
    counts: dict[int, int] = {}
    out: list[Finding] = []
    for finding in found:
        if finding.severity == HINT and not finding.fixable and finding.what in first:
            counts[first[finding.what]] = counts.get(first[finding.what], 1) + 1
            continue
        first.setdefault(finding.what, len(out))
        out.append(finding)
    for k, count in counts.items():
        out[k] = replace(out[k], what=f"{out[k].what} ({count} times)")
    return out


def _finding(sentence: str, severity: str) -> Finding:
    """A sentence of a loader as a finding; "file:12: what"."""
    match = re.match(r"(?s)(.*?:\d+): (.+)", sentence)
    where, what = (match[1], match[2]) if match else ("", sentence)
    for mark in (REPAIRED, KEPT, IGNORED):
        what = what.removeprefix(mark)
    todo = next((todo for part, todo in ADVICE if part in what), "") if severity == ERROR else ""
    return Finding(severity, "file", where, what, todo or DEFAULT_ADVICE[severity])


def _advice(finding: Finding) -> str:
    """What to do, as a sentence."""
    todo = finding.advice or DEFAULT_ADVICE[finding.severity]
    return todo if todo.endswith(".") else f"{todo[0].upper()}{todo[1:]}."


def _with_comment(text: str, fixed: Sequence[Finding], name: str) -> str:
    """The corrected text with a comment at its end: every fix of the file `name`, and so everything that was assumed."""
    if not fixed:
        return text
    lines = []
    for finding in fixed:
        line = re.search(r":(\d+)$", finding.where)
        lines.append(f"{f'line {line[1]}: ' if line else ''}{finding.what} -> {finding.fix}")
    # two hyphens would end the comment, and so would what is no letter break the file
    head, *lines = ["".join(c if c.isprintable() else " " for c in row).replace("--", "- -") for row in (name, *lines)]
    body, newline = text.rstrip(), "\r\n" if "\r\n" in text else "\n"
    if "\n" not in text.strip():
        return f"{body}<!-- condyle doctor corrected {head}: {'; '.join(lines)} -->{text[len(body) :]}"
    rows = "".join(f"  {line}{newline}" for line in lines)
    return f"{body}{newline}<!-- condyle doctor corrected {head}:{newline}{rows}-->{newline}"


def _sorted(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Errors first, then warnings, then hints, each in the order of the file."""

    def place(finding: Finding) -> tuple[int, int]:
        line = re.search(r":(\d+)$", finding.where)
        return SEVERITIES.index(finding.severity), int(line[1]) if line else 0

    return tuple(sorted(findings, key=place))
