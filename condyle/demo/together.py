"""The machines side by side: each performs in a process of its own, as many at once as there are processors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from queue import Empty
from typing import Any

from condyle.demo.performance import Performance, perform
from condyle.tape.backends.cpu import available_threads

MOST = 3  # processes: each holds its own compiler
_words: Any = None  # in a worker: where it says what it does


@dataclass(frozen=True)
class Word:
    """What a machine is doing now."""

    name: str
    what: str


@dataclass(frozen=True)
class Failure:
    """A machine that could not perform, and why."""

    name: str
    why: str


def _begin(words: Any) -> None:
    global _words
    _words = words


def _perform(name: str, out: Path) -> Performance | Failure:
    """In a worker; what Condyle refuses, or a mistake of ours, comes back as a sentence instead of killing the others."""
    from condyle.errors import MissingExtraError

    try:
        return perform(name, out, lambda what: _words.put(Word(name, what)))
    except MissingExtraError:
        raise
    except Exception as error:
        return Failure(name, f"{type(error).__name__}: {error}")


def together(names: Sequence[str], out: Path) -> Iterator[Word | Performance | Failure]:
    """Words as they are said, and performances as they are done."""
    context = get_context("spawn")
    workers = max(1, min(MOST, len(names), available_threads()))
    words = context.Queue()
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(words,))
    try:
        # the table ends with those that take longest: they begin
        waiting: set[Future[Performance | Failure]] = {pool.submit(_perform, name, out) for name in reversed(names)}
        while waiting:
            done, waiting = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
            yield from _said(words)
            for future in done:
                yield future.result()
    except BaseException:
        # interrupted: what is under way stops, and what waits does not begin
        for process in list(pool._processes.values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _said(words: Any) -> Iterator[Word]:
    while True:
        try:
            yield words.get_nowait()
        except Empty:
            return
