"""What a check gives: passed or not, one line to read, and its numbers; and how files are written."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class Skip(Exception):
    """A check that cannot run here; the message says why and what to install."""


@dataclass(frozen=True)
class Result:
    """`passed` is None when the check was skipped."""

    passed: bool | None
    detail: str
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """A row of the table: a group, a name, and what gives the result."""

    group: str
    name: str
    run: Callable[[], Result]


def write(path: Path, content: bytes) -> None:
    """Put `content` into the file at once: a reader sees the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
