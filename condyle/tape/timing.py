"""The time of a call on the processor."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from time import perf_counter


def shortest(call: Callable[[], object], seconds: float, repeat: int = 1) -> float:
    """The smallest mean time of `repeat` calls, s; calls are repeated for some seconds."""
    best, end = inf, perf_counter() + seconds
    while best == inf or perf_counter() < end:
        start = perf_counter()
        for _ in range(repeat):
            call()
        best = min(best, (perf_counter() - start) / repeat)
    return best
