"""A bar that shows how far long work is, and is gone when it is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from condyle.demos.row import Say

COLUMNS = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeRemainingColumn())


@contextmanager
def bar(console: Console) -> Iterator[Say]:
    """say(what, done, total); nothing is shown where nobody looks."""
    with Progress(*COLUMNS, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("", total=None)

        def say(what: str, done: int, total: int) -> None:
            shown.update(task, description=escape(what), completed=done, total=total if total > 1 else None)

        yield say
