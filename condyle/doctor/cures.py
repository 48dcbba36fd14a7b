"""Which corrections may be made at once, and what the corrected text says about all that were made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from condyle.doctor.patient import Finding
from condyle.doctor.text import Page

SPELLING = ("element-name", "attribute-name")
FIRST = "Correct the spelling in it first."


def spelling_first(found: Sequence[Finding], page: Page) -> list[Finding]:
    """The findings without those fixes that a misspelt word calls for: what looks missing may be there, under a wrong name.

    A fix waits if it changes an element in which a word is to be renamed, one around it, or one inside it.
    """
    renamed = [page.path(edit.start) for finding in found if finding.kind in SPELLING for edit in finding.edits]
    paths = set(renamed)
    around = {path[:n] for path in renamed for n in range(2, len(path))}

    def waits(finding: Finding) -> bool:
        for path in (page.path(edit.start) for edit in finding.edits):
            if path in around or any(path[:n] in paths for n in range(min(2, len(path)), len(path) + 1)):
                return True
        return False

    return [
        replace(finding, fix="", edits=(), cure=f"{finding.cure} {FIRST}") if finding.kind not in SPELLING and waits(finding)
        else finding
        for finding in found
    ]  # fmt: skip


def with_account(text: str, fixed: Sequence[Finding], name: str) -> str:
    """The corrected text with a comment at its end: every correction of the file `name`, and so everything that was assumed."""
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
