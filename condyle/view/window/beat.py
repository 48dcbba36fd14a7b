"""One thread that draws: at most sixty times a second while something moves, and asleep while nothing does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

FASTEST = 1.0 / 60.0  # s between beats
IDLE = 0.25  # s asleep, unless woken


class Beat:
    """Calls `beat(seconds since the last)` from its own thread; `beat` returns whether more is to come. Errors go to `fail`."""

    def __init__(self, beat: Callable[[float], bool], fail: Callable[[Exception], None]) -> None:
        self._beat, self._fail = beat, fail
        self._wake, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="condyle viewer", daemon=True)

    def start(self) -> None:
        self._wake.set()
        self._thread.start()

    def wake(self) -> None:
        """Something is to be drawn."""
        self._wake.set()

    def stop(self) -> None:
        """End, after the beat in progress."""
        self._over.set()
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(5.0)

    def _run(self) -> None:
        last, busy = time.monotonic(), False
        while not self._over.is_set():
            now = time.monotonic()
            elapsed, last = now - last if busy else 0.0, now
            try:
                busy = self._beat(elapsed)
            except Exception as error:  # shown to the user, who may cure it and go on
                busy = False
                self._fail(error)
            rest = FASTEST - (time.monotonic() - now)
            # a short rest always: the threads that talk to browsers have work too
            self._over.wait(max(rest, 0.002))
            if not busy:
                self._wake.wait(IDLE)
            self._wake.clear()
