"""Names and values of a file in sentences: quoted safely, with the closest valid name for one that is mistyped."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

MAX_NAME = 200  # characters
MAX_SUGGESTED = 500  # names to choose a suggestion from; more would take long
MAX_QUOTED = 60  # characters of a value in a sentence; a hostile one may be megabytes long


def nearest(name: Any, known: Sequence[str]) -> str:
    """The end of a sentence: ' (did you mean 'x'?)', or the list of what there is when it is short."""
    if not isinstance(name, str):
        return "; a name is a string"
    close = get_close_matches(name, known, n=1, cutoff=0.6) or [each for each in known if each.lower() == name.lower()]
    if close:
        return f" (did you mean '{close[0]}'?)"
    shown = ", ".join(list(known)[:12])
    more = f", and {len(known) - 12} more" if len(known) > 12 else ""
    return f"; there are {shown}{more}" if known else "; there are none"


def suggest(name: str, known: Sequence[str]) -> str:
    """The end of a sentence with the closest valid name, where finding it is quick."""
    if len(known) > MAX_SUGGESTED or len(name) > MAX_NAME:
        return ""
    return nearest(name, [each for each in known if len(each) <= MAX_NAME])


def quoted(text: str) -> str:
    """A value from a file, short and printable, in quotes."""
    short = text if len(text) <= MAX_QUOTED else text[:MAX_QUOTED] + "..."
    return "'" + "".join(c if c.isprintable() else repr(c)[1:-1] for c in short) + "'"
