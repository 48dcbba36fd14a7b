"""A clock for control periods in real time, and the statistics of how late they begin."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from condyle.errors import ConnectError

EDGES = np.array([0.0, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, np.inf])  # s, of the histogram
SET_TIMERSLACK, GET_TIMERSLACK = 29, 30  # of prctl
SWITCH_INTERVAL = 1e-4  # s after which another Python thread must give way


class Pacing:
    """Control periods of `period` seconds by the clock; `late[k]` is how many s after its due time period k began.

    `overruns` counts the commands that were not there in time, `slips` the periods that were left out because the simulation
    itself was more than a period behind.
    """

    def __init__(self, period: float) -> None:
        self.period, self.overruns, self.slips = period, 0, 0
        self.waits: list[float] = []  # s that each period waited for its command
        self._late: list[float] = []
        self._due: float | None = None

    @property
    def late(self) -> np.ndarray:
        """Seconds after its due time that each period began, (periods,)."""
        return np.array(self._late)

    @property
    def last(self) -> float:
        """Seconds that the present period began after its due time."""
        return self._late[-1] if self._late else 0.0

    def restart(self) -> None:
        """None; the next period is due at once, as after a pause."""
        self._due = None

    def begin(self) -> float:
        """The time at which this period was due, after sleeping until then."""
        now = time.monotonic()
        due = now if self._due is None else self._due + self.period
        while (rest := due - now) > 0.0:
            time.sleep(rest)
            now = time.monotonic()
        behind = now - due
        if behind > self.period:
            # it goes on from the present, rather than in a hurry
            skipped = int(behind / self.period)
            self.slips += skipped
            due += skipped * self.period
        self._late.append(behind)
        self._due = due
        return due

    def summary(self) -> dict[str, Any]:
        """The statistics as plain data: counts, quantiles of lateness in s, and a histogram."""
        late = self.late
        counts, _ = np.histogram(late, EDGES)
        quantiles = np.quantile(late, [0.5, 0.99, 0.999, 1.0]).tolist() if len(late) else [0.0] * 4
        return {
            "period": self.period,
            "periods": len(late),
            "overruns": self.overruns,
            "slips": self.slips,
            "late": dict(zip(("median", "p99", "p999", "max"), quantiles, strict=True)),
            "histogram": {"edges": EDGES[:-1].tolist(), "counts": counts.tolist()},
        }

    def __str__(self) -> str:
        found = self.summary()
        late = found["late"]
        return (
            f"{found['periods']:,} periods of {1e3 * self.period:g} ms: {self.overruns:,} late commands, {self.slips:,} periods "
            f"left out; a period begins {1e6 * late['median']:.0f} us late (median), {1e6 * late['p99']:.0f} us (99 %), "
            f"{1e6 * late['max']:.0f} us (at most)"
        )


@contextmanager
def precise_sleep(priority: int = 0) -> Iterator[None]:
    """Inside, this thread wakes up from a sleep within some microseconds, where the system can (Linux), gets the interpreter
    from other threads after 0.1 ms, and the garbage collector rests.

    `priority` from 1 to 99 is that of SCHED_FIFO, above all other processes, also for threads that start inside; the system
    must allow it.
    """
    if not 0 <= priority <= 99:
        raise ConnectError(f"priority is a number from 0 (that of other processes) to 99, got {priority!r:.40}")
    policy, before = os.sched_getscheduler(0), os.sched_getparam(0)
    if priority:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
        except PermissionError:
            raise ConnectError(f"the system does not allow the priority {priority}: leave it out, or see ulimit -r") from None
    interval, slack, collects = sys.getswitchinterval(), None, gc.isenabled()
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.collect()
    gc.disable()
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    if libc is not None:
        slack = int(libc.prctl(GET_TIMERSLACK, 0, 0, 0, 0))
        libc.prctl(SET_TIMERSLACK, 1, 0, 0, 0)
    try:
        yield
    finally:
        if priority:
            os.sched_setscheduler(0, policy, before)
        if collects:
            gc.enable()
        sys.setswitchinterval(interval)
        if libc is not None and slack is not None and slack > 0:
            libc.prctl(SET_TIMERSLACK, slack, 0, 0, 0)
