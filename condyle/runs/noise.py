"""Counter-based random numbers: functions of seed, step and channel, the same in any order and on every computer.

Integers come from the generator Philox (Salmon et al. 2011), normal numbers from these by the Box-Muller transform, which is a
compiled tape, so that its logarithm and cosine have the same bits on every backend.
"""

from __future__ import annotations

from functools import cache
from math import pi
from typing import Any

import numpy as np

from condyle.errors import SimulationError
from condyle.tape.function import Function, function

MAX_CHANNELS = 1 << 24


def uniform(seed: int, step: int, channels: int) -> np.ndarray:
    """(channels,) uniform numbers, 0 < x <= 1; entry c depends on seed, step and c alone."""
    return _fractions(seed, step, channels)[:, 0].copy()


def normal(seed: int, step: int, channels: int) -> np.ndarray:
    """(channels,) normal numbers of mean 0 and variance 1; entry c depends on seed, step and c alone.

    sqrt(-2 log u1) cos(2 pi u2)  of two uniform numbers for each channel.
    """
    fractions = _fractions(seed, step, channels)
    return np.asarray(_box_muller()(fractions[:, 0], fractions[:, 1])) if channels else np.zeros(0)


def _fractions(seed: int, step: int, channels: int) -> np.ndarray:
    """(channels, 2) numbers in (0, 1], integer multiples of 2^-53."""
    for name, given, limit in (("seed", seed, 1 << 128), ("step", step, 1 << 64), ("channels", channels, MAX_CHANNELS)):
        if isinstance(given, bool) or not isinstance(given, int | np.integer) or not 0 <= given < limit:
            raise SimulationError(f"noise: {name} must be a whole number from 0 to {limit - 1:,}, got {given!r:.40}")
    # the counter's lowest word counts four numbers each; the step is the word above it
    bits = np.random.Philox(key=int(seed), counter=int(step) << 64).random_raw(2 * int(channels))
    return ((bits >> np.uint64(11)) + np.uint64(1)).astype(np.float64).reshape(-1, 2) * 2.0**-53


@cache
def _box_muller() -> Function:
    def box_muller(u: Any, w: Any) -> Any:
        return np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * pi * w)

    return function(box_muller, u=(), w=())
