"""A line on the terminal, or in a notebook, while something is compiled for longer than two seconds.

compiling step of 'anymal' ... 3 s

It is written by a thread that wakes once a second, to the standard error of a terminal or the output of a notebook's cell, and is
gone when the kernel is ready. Pipes, files, tests and other processes of a pool never see it; CONDYLE_PROGRESS=off turns it off.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter
from typing import TextIO

Show = Callable[[str], None]  # text, "" at the end

DELAY, INTERVAL = 2.0, 1.0  # s: before the line appears, and between its changes
TESTED = "PYTEST_CURRENT_TEST"  # set in the environment of tests
SAME = 0.5  # s: what is compiled again within this time is one thing, whose clock goes on

_show: Show | None = None  # who draws on the terminal, and shows the line
_active = False  # whether there is a line already: of a trace inside of a trace, the outer one is shown
_last = ("", 0.0, 0.0)  # label, begin and end of the last one


@contextmanager
def shown_by(show: Show) -> Iterator[None]:
    """Lines inside of this block are given to `show`, which draws on the terminal already; "" where one ends."""
    global _show
    before, _show = _show, show
    try:
        yield
    finally:
        _show = before


@contextmanager
def compiling(label: str) -> Iterator[None]:
    """The line "compiling LABEL ... N s" while the block runs, from two seconds on."""
    global _active, _last
    show = None if _active else _show or _line()
    if show is None:
        yield
        return
    before, begun, ended = _last
    start = perf_counter()
    if before == label and start - ended < SAME:
        start = begun
    done = Event()
    thread = Thread(target=_repeat, args=(show, label, start, done), name="condyle-progress", daemon=True)
    _active = True
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        _active, _last = False, (label, start, perf_counter())


def _repeat(show: Show, label: str, start: float, done: Event) -> None:
    """Show the line once in a while until `done`, and then none."""
    if done.wait(max(start + DELAY - perf_counter(), 0.0)):
        return
    try:
        while True:
            show(f"compiling {label} ... {perf_counter() - start:.0f} s")
            if done.wait(INTERVAL):
                break
        show("")
    except (OSError, ValueError):  # a terminal that was closed
        return


def _line() -> Show | None:
    """What writes a line over the one before; None where there is nobody to see it."""
    stream = _stream()
    if stream is None:
        return None
    written = 0

    def show(text: str) -> None:
        nonlocal written
        text = text[: shutil.get_terminal_size().columns - 1]
        # blanks, not a control sequence: notebooks know the carriage return alone
        stream.write("\r" + " " * written + "\r" + text)
        stream.flush()
        written = len(text)

    return show


def _stream() -> TextIO | None:
    """Where the line is shown; None for pipes and files, in tests, in processes of a pool, and where it is turned off."""
    if os.environ.get("CONDYLE_PROGRESS", "").lower() in ("off", "0", "no") or TESTED in os.environ:
        return None
    if multiprocessing.parent_process() is not None:
        return None
    if _in_notebook():
        return sys.stdout
    try:
        shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):  # no standard error, or a closed one
        return None
    return sys.stderr if shown else None


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"
