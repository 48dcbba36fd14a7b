"""What the rules of a loader find in a file: errors, which stop it, and notes on what it repaired, kept or did not use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from condyle.robot.description import Note

if TYPE_CHECKING:
    from condyle.robot.xml import Element

ERROR, WARNING, HINT = "error", "warning", "hint"

# how a note begins: what was changed, what was left though it looks wrong, what was not used, what was taken from the file,
# and what the file asks of the motion and a simulation does not do
REPAIRED, KEPT, IGNORED, USED, NOT_SIMULATED = "repaired: ", "kept: ", "ignored: ", "used: ", "not simulated: "

MAX_PROBLEMS = 100  # sentences of one error: a file can be wrong in more ways than anybody will read
MAX_FINDINGS = 2_000
SHOWN = 8  # names in one note


@dataclass(frozen=True)
class Edit:
    """A change of a text: the characters from `start` to `end` become `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Finding:
    """One thing that a rule found in a file, and what to do about it.

    `owner` is the link or joint, `name` the attribute, element or value, and `data` more of it that a fix needs. `fix` says what
    the fix does, "" when no fix is sure.
    """

    severity: str
    rule: str  # a short name that stays, for scripts: "limit-order"
    where: str  # "arm.urdf:12"
    what: str
    advice: str = ""
    owner: str = ""
    name: str = ""
    element: Element | None = field(default=None, compare=False, repr=False)
    data: Any = field(default=None, compare=False, repr=False)
    fix: str = ""
    edits: tuple[Edit, ...] = ()

    @property
    def fixable(self) -> bool:
        """Whether there is a fix."""
        return bool(self.fix)

    @property
    def sentence(self) -> str:
        """Where, what and what to do, in one line."""
        text = f"{self.what}: {self.advice}" if self.advice else self.what
        return f"{self.where}: {text}" if self.where else text


class Report:
    """The findings of one file, collected while it is read, and the sentences and notes made of them."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._said: set[tuple[Any, str]] = set()
        self._problems: dict[str, None] = {}
        self._notes: list[Note] = []
        self._asked: list[Note] = []
        self._ignored: dict[str, tuple[str, int]] = {}

    def problem(self, where: str, what: str, advice: str = "", rule: str = "error", **about: Any) -> None:
        """Something that stops the file from loading; the same sentence is said once."""
        finding = self._add(ERROR, rule, where, what, advice, about)
        if len(self._problems) <= MAX_PROBLEMS:
            self._problems[finding.sentence] = None

    def repaired(self, where: str, what: str, rule: str = "repaired", **about: Any) -> None:
        """Something that was changed so that the file loads."""
        self._add(WARNING, rule, where, what, "", about)
        self._notes.append(Note(where, REPAIRED + what))

    def kept(self, where: str, what: str, rule: str = "kept", **about: Any) -> None:
        """Something that looks wrong and was left as written."""
        self._add(WARNING, rule, where, what, "", about)
        self._notes.append(Note(where, KEPT + what))

    def used(self, where: str, what: str) -> None:
        """Something of the file that takes the place of what is usual."""
        self._notes.append(Note(where, USED + what))

    def not_simulated(self, where: str, what: str) -> None:
        """Something that the file asks of the motion and a simulation does not do."""
        self._add(HINT, "not-simulated", where, what, "", {})
        self._asked.append(Note(where, NOT_SIMULATED + what))

    def ignored(self, where: str, what: str, rule: str = "ignored", **about: Any) -> None:
        """Something that was not used; its note is made once for every kind of thing, with a count."""
        self._add(HINT, rule, where, what, "", about)
        first, count = self._ignored.get(what, (where, 0))
        self._ignored[what] = first, count + 1

    def _add(self, severity: str, rule: str, where: str, what: str, advice: str, about: dict[str, Any]) -> Finding:
        finding = Finding(severity, rule, where, what, advice, **about)
        key = (id(finding.element) if finding.element is not None else where, what)
        if key not in self._said and len(self.findings) < MAX_FINDINGS:
            self._said.add(key)
            self.findings.append(finding)
        return finding

    @property
    def problems(self) -> list[str]:
        """The sentences of all errors, MAX_PROBLEMS at most."""
        found = list(self._problems)
        return found if len(found) < MAX_PROBLEMS else [*found[:MAX_PROBLEMS], "and more: correct these first"]

    @property
    def notes(self) -> tuple[Note, ...]:
        """All notes: repairs and oddities in the order found, then what is not simulated, then what was ignored."""
        ignored = [
            Note(where, IGNORED + what + (f" ({count} times)" if count > 1 else ""))
            for what, (where, count) in self._ignored.items()
        ]
        return (*self._notes, *self._asked, *ignored)


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more."""
    more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def matters(note: Note) -> bool:
    """Whether a note tells of something wrong in the file, not only of something unused."""
    return note.what.startswith((REPAIRED, KEPT))


def not_simulated(notes: Iterable[Note]) -> list[str]:
    """What a robot's file asks and a simulation does not do, a sentence for each kind."""
    return [note.what for note in notes if note.what.startswith(NOT_SIMULATED)]
