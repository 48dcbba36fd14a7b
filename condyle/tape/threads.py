"""Work that several threads share, and values that are made once whichever thread asks for them first.

Signal handlers run between any two instructions of the main thread and may raise there; garbage that is collected may run any
code; a forked process has the memory of its parent, but none of its other threads. So helpers own what they work on, and nobody
waits for a helper that has not begun.
"""

from __future__ import annotations

import ctypes
import os
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import RLock
from typing import Any, Protocol, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

_C: Any = ctypes.CDLL(None)
MUTEX_BYTES = 64  # of pthread_mutex_t, at most


class Work(Protocol):
    """Work in pieces, which any number of threads take until none is left. It holds all memory that it reads and writes."""

    pieces: int  # with 0 nobody takes another one

    def run(self) -> None:
        """Take pieces until there are none."""


def share(work: Work, helpers: int) -> None:
    """Run the work here and on up to so many threads of the pool; none of them runs it when this returns or raises."""
    asked = [Helper(work) for _ in range(helpers)]
    ends = map(_C.pthread_mutex_lock, [helper.running for helper in asked])
    try:
        _pool.ask(asked)
        work.run()
    finally:
        # signals are handled after calls, and no call comes before this one, which waits for all helpers without handling any
        work.pieces = 0
        any(ends)
        for helper in asked:
            helper.work = None
    for helper in asked:
        if helper.error is not None:
            raise helper.error


class Helper:
    """One thread's part in some work: it begins when a thread of the pool is free, or never, once its mutex is locked."""

    def __init__(self, work: Work) -> None:
        self.work: Any = work  # None at its end, for the pool may hold the helper longer
        self.error: BaseException | None = None
        self.running = ctypes.create_string_buffer(MUTEX_BYTES)
        _C.pthread_mutex_init(self.running, None)

    def begin(self) -> None:
        """Run the work, unless its caller waits for none any more."""
        if _C.pthread_mutex_trylock(self.running) == 0:
            try:
                self.work.run()
            except BaseException as error:  # raised by `share`
                self.error = error
            finally:
                _C.pthread_mutex_unlock(self.running)


class Pool:
    """Threads that wait for helpers to run, as many as were ever asked for at once; they end with the process."""

    def __init__(self) -> None:
        self.threads = 0
        self._waiting: SimpleQueue[Helper] = SimpleQueue()

    def ask(self, helpers: list[Helper]) -> None:
        """Let free threads begin these."""
        # where no thread can be started, the caller does all the work
        with suppress(RuntimeError):
            while self.threads < len(helpers):
                start_new_thread(_serve, (self._waiting,))
                self.threads += 1
        for helper in helpers[: self.threads]:
            self._waiting.put(helper)


def _serve(waiting: SimpleQueue[Helper]) -> None:
    while True:
        waiting.get().begin()


def made_once(values: dict[Key, Value], key: Key, make: Callable[[], Value]) -> Value:
    """values[key]; if there is none, what `make` gives, while other threads that ask for it wait."""

    def find() -> Value:
        if key not in values:
            values[key] = make()
        return values[key]

    return values[key] if key in values else in_turn((id(values), key), find)


def in_turn(key: Any, find: Callable[[], Value]) -> Value:
    """What `find` gives; threads that find something by the same key do it one after the other."""
    # reentrant: what a value is made of may ask for the value, and fails as it does in one thread
    with _locks.setdefault(key, RLock()):
        try:
            return find()
        finally:
            _locks.pop(key, None)


_pool = Pool()
_locks: dict[Any, RLock] = {}  # of what is being found


def _forget_threads() -> None:
    """Begin anew in a forked process: threads of the parent neither serve nor release locks here."""
    global _pool
    _pool = Pool()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
