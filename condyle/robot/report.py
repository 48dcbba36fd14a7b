"""What a loader finds in a file: problems, which stop it, and notes, which it lives with. Both are sentences with a place."""

from __future__ import annotations

from dataclasses import dataclass, field

from condyle.robot.description import Note

# how a note begins: what was changed, what was left though it looks wrong, what was not used
REPAIRED, KEPT, IGNORED = "repaired: ", "kept: ", "ignored: "

# a file can be wrong in more ways than anybody will read
MAX_PROBLEMS = 100


@dataclass
class Report:
    """The problems and notes of one file, collected while it is read."""

    problems: list[str] = field(default_factory=list)
    _notes: list[Note] = field(default_factory=list)
    _ignored: dict[str, tuple[str, int]] = field(default_factory=dict)

    def problem(self, where: str, what: str) -> None:
        """Something that stops the file from loading; the same sentence is said once."""
        sentence = f"{where}: {what}" if where else what
        if len(self.problems) < MAX_PROBLEMS and sentence not in self.problems:
            self.problems.append(sentence)
            if len(self.problems) == MAX_PROBLEMS:
                self.problems.append("and more: cure these first")

    def repaired(self, where: str, what: str) -> None:
        """Something that was changed so that the file loads."""
        self._notes.append(Note(where, REPAIRED + what))

    def kept(self, where: str, what: str) -> None:
        """Something that looks wrong and was left as written."""
        self._notes.append(Note(where, KEPT + what))

    def ignored(self, where: str, what: str) -> None:
        """Something that was not used; said once for every kind of thing, with a count."""
        first, count = self._ignored.get(what, (where, 0))
        self._ignored[what] = first, count + 1

    @property
    def notes(self) -> tuple[Note, ...]:
        """All notes: repairs and oddities in the order found, then what was ignored."""
        ignored = [
            Note(where, IGNORED + what + (f" ({count} times)" if count > 1 else ""))
            for what, (where, count) in self._ignored.items()
        ]
        return (*self._notes, *ignored)


def matters(note: Note) -> bool:
    """Whether a note tells of something wrong in the file, not only of something unused."""
    return note.what.startswith((REPAIRED, KEPT))
