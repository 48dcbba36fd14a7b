"""Sines and cosines of numbers, right to the last bit: those of the C library change with the processor, these do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from math import isfinite, pi, radians, remainder

import numpy as np

Trig = Callable[[float], tuple[float, float]]

BITS = 192  # of the fraction, in integers: 53 are kept, and cancellation near a multiple of pi/2 takes at most about 60
TINY = 2.0**-28  # rad: below it they round to 1 and to the angle
FARTHEST = 1e6  # rad: beyond it a robot file has no angles


@lru_cache(maxsize=100_000)
def cos_sin(angle: float) -> tuple[float, float]:
    """(cos, sin) of an angle in radians, correctly rounded."""
    if abs(angle) < TINY:
        return 1.0, float(angle) + 0.0  # one zero: 0.0 and -0.0 are one entry of the cache
    if not isfinite(angle) or abs(angle) > FARTHEST:
        return float("nan"), float("nan")
    c, s = _fixed_point(angle)
    return c / (1 << BITS), s / (1 << BITS)


def tangent(angle: float) -> float:
    """tan of an angle in radians, correctly rounded."""
    if abs(angle) < TINY or not isfinite(angle) or abs(angle) > FARTHEST:
        return cos_sin(angle)[1]
    c, s = _fixed_point(angle)
    return s / c


def _fixed_point(angle: float) -> tuple[int, int]:
    """(cos, sin) in fixed point."""
    numerator, denominator = float(angle).as_integer_ratio()
    x = (numerator << BITS) // denominator
    turns, x = divmod(x + (_quarter() >> 1), _quarter())
    c, s = _series(x - (_quarter() >> 1))
    return ((c, s), (-s, c), (-c, -s), (s, -c))[turns % 4]


def of_degrees(degrees: float) -> tuple[float, float]:
    """(cos, sin) of an angle in degrees, exact at quarter turns."""
    quarter = remainder(degrees, 360.0) / 90.0
    if quarter == round(quarter):
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[round(quarter) % 4]
    return cos_sin(radians(degrees))


def exact_quarters(angle: float) -> tuple[float, float]:
    """The same, but what is written as a quarter turn is one: axes stay axes."""
    quarter = angle / (pi / 2.0)
    if quarter != round(quarter):
        return cos_sin(angle)
    turns = round(quarter) % 4
    return (1.0, 0.0, -1.0, 0.0)[turns], (0.0, 1.0, 0.0, -1.0)[turns]


def rotation_rpy(roll: float, pitch: float, yaw: float, *, trig: Trig = cos_sin) -> np.ndarray:
    """R = Rz(yaw) Ry(pitch) Rx(roll); `trig` gives the (cos, sin) of each angle."""
    (cr, sr), (cp, sp), (cy, sy) = (trig(angle) for angle in (roll, pitch, yaw))
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def _series(x: int) -> tuple[int, int]:
    """(cos, sin) of a fixed-point number below pi/4, by their series."""
    one = 1 << BITS
    square = (x * x) >> BITS
    c, s, term, k = 0, 0, one, 0
    while term:
        c += term
        s += (term * x >> BITS) // (k + 1)
        term = -(term * square >> BITS) // ((k + 1) * (k + 2))
        term = 0 if term == -1 else term  # shifts round down: the last one would stay
        k += 2
    return c, s


@cache
def _quarter() -> int:
    """pi / 2, by Machin's formula: pi = 16 atan(1/5) - 4 atan(1/239)."""
    guard = 16

    def arctangent(n: int) -> int:
        term, total, sign, k = (1 << (BITS + guard)) // n, 0, 1, 1
        while term:
            total += sign * (term // k)
            term, sign, k = term // (n * n), -sign, k + 2
        return total

    return (8 * arctangent(5) - 2 * arctangent(239)) >> guard
