"""What a check gives: passed or not, one line to read, and its numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class Skip(Exception):
    """A check that cannot run here; the message says why and what to install."""


@dataclass(frozen=True)
class Result:
    """`passed` is None when the check was skipped."""

    passed: bool | None
    detail: str
    numbers: dict[str, Any] = field(default_factory=dict)
