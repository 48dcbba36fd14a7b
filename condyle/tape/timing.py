"""The time of a call on the processor, and the batch from which on a GPU is faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import exp, inf, log
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


def crossover(cpu: Mapping[int, float], gpu: Mapping[int, float]) -> float | None:
    """The batch from which on the GPU has the higher rate, by lines through the logarithms; None if it never has.

    Below the smallest batch that both were measured with, nothing is known: that batch is given if the GPU is ahead there.
    """
    both = sorted(cpu.keys() & gpu.keys())
    lead = [log(gpu[n] / cpu[n]) for n in both]
    behind = [k for k, value in enumerate(lead) if value <= 0.0]
    if not both or (behind and behind[-1] == len(both) - 1):
        return None
    if not behind:
        return float(both[0])
    k = behind[-1]
    part = -lead[k] / (lead[k + 1] - lead[k])
    return exp(log(both[k]) + part * (log(both[k + 1]) - log(both[k])))
