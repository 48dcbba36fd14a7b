"""Noise that is a function and not a stream: the same seed, step and channel give the same number, in any order, everywhere.

Whole numbers come from Philox, a counter-based generator (Salmon and others 2011); normal ones from these by Box and Muller's
formula, computed by a tape, so that its logarithm and cosine have the same bits on every backend.
"""

from __future__ import annotations

from functools import cache
from math import pi
from typing import Any

import numpy as np

from condyle.errors import SimulationError
from condyle.tape.function import Function, function

MOST_CHANNELS = 1 << 24


def uniform(seed: int, step: int, channels: int) -> np.ndarray:
    """(channels,) numbers, evenly spread over 0 < x <= 1; entry c depends on seed, step and c alone."""
    return _fractions(seed, step, channels)[:, 0].copy()


def normal(seed: int, step: int, channels: int) -> np.ndarray:
    """(channels,) normal numbers of mean 0 and variance 1; entry c depends on seed, step and c alone.

    sqrt(-2 log u1) cos(2 pi u2)  of two even numbers for each channel.
    """
    fractions = _fractions(seed, step, channels)
    if not channels:
        return np.zeros(0)
    found: np.ndarray = _bell()(fractions[:, 0], fractions[:, 1])
    return found


def _fractions(seed: int, step: int, channels: int) -> np.ndarray:
    """(channels, 2) numbers in (0, 1], whole multiples of 2^-53."""
    limits = {"seed": 128, "step": 64}
    for name, given in (("seed", seed), ("step", step), ("channels", channels)):
        most = 1 << limits[name] if name in limits else MOST_CHANNELS
        if isinstance(given, bool) or not isinstance(given, int | np.integer) or not 0 <= given < most:
            raise SimulationError(f"noise: {name} must be a whole number from 0 to {most - 1:,}, got {given!r:.40}")
    # the counter's lowest word counts four numbers each; the step is the word above it
    bits = np.random.Philox(key=int(seed), counter=int(step) << 64).random_raw(2 * int(channels))
    return ((bits >> np.uint64(11)) + np.uint64(1)).astype(np.float64).reshape(-1, 2) * 2.0**-53


@cache
def _bell() -> Function:
    def bell(u: Any, w: Any) -> Any:
        return np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * pi * w)

    return function(bell, u=(), w=())
