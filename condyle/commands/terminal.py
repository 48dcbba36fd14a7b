"""Output of the commands: the terminal, a progress bar, JSON, and Ctrl-C."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from condyle.tape.progress import shown_by

Result = TypeVar("Result")
Say = Callable[[str, int, int], None]  # (what is done, how many are done, of how many)
COLUMNS = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeRemainingColumn())


class Terminal(Console):
    """A console that raises BrokenPipeError when its reader leaves."""

    def on_broken_pipe(self) -> None:
        """Raise, instead of exiting with code 1."""
        self.quiet = True
        raise BrokenPipeError


def terminal(*, stderr: bool = False, width: int = 130) -> Console:
    """The standard output or error as a console; `width` is that of a pipe, which has none of its own."""
    return Terminal(stderr=stderr, width=None if (sys.stderr if stderr else sys.stdout).isatty() else width)


@contextmanager
def progress(console: Console) -> Iterator[Say]:
    """say(what, done, total) moves a progress bar, which is shown only on a terminal and removed at the end."""
    with Progress(*COLUMNS, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def say(what: str, done: int, total: int) -> None:
            bar.update(task, description=escape(what), completed=done, total=total if total > 1 else None)

        with shown_by(lambda text: bar.update(task, description=escape(text))):
            yield say


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """A function that tells whether Ctrl-C was pressed, to be asked between steps; pressed again, it interrupts at once."""
    pressed = False

    def press(*_: Any) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def report(
    found: Result, as_json: bool, show: Callable[[Result, Console], None], facts: Callable[[Result], Any] | None = None
) -> None:
    """Print a result with `show`, or its facts as JSON; by default it is its own facts."""
    if as_json:
        print_json(found if facts is None else facts(found))
    else:
        show(found, terminal())


def print_json(data: Any) -> None:
    """Print data as JSON; numbers that are not finite become null."""
    typer.echo(json.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False))


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if isfinite(data) else None
    if isinstance(data, dict):
        return {str(key): _finite(value) for key, value in data.items()}
    return [_finite(value) for value in data] if isinstance(data, list | tuple) else data
