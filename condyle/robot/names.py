"""Names people mistype: the closest valid ones."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def nearest(name: str, known: Sequence[str]) -> str:
    """The end of a sentence: ' (did you mean 'x'?)', or the list of what there is when it is short."""
    close = get_close_matches(name, known, n=1, cutoff=0.6) or [each for each in known if each.lower() == name.lower()]
    if close:
        return f" (did you mean '{close[0]}'?)"
    shown = ", ".join(list(known)[:12])
    more = f", and {len(known) - 12} more" if len(known) > 12 else ""
    return f"; there are {shown}{more}" if known else "; there are none"
