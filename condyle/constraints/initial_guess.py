"""First guesses for closed loops: what follows a single coordinate is fitted, once, by a short series in that coordinate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.robot import ordered
from condyle.robot.angles import cos_sin
from condyle.robot.spatial import Array

if TYPE_CHECKING:
    from condyle.constraints.loops import Loops

NEAR = 2e-6  # the error of a guess, rad or m, at which no more terms are taken
TERMS = 16  # at most
SHORT = 2.0**-20  # half of the shortest interval


@dataclass(frozen=True)
class Series:
    """f(y) for one dependent coordinate: Fourier with `turns` times y added, or Chebyshev on an interval."""

    driver: int  # the entry of y
    place: int  # the entry of x
    periodic: bool
    turns: int
    middle: float
    half: float
    cosines: np.ndarray  # or the coefficients of Chebyshev's polynomials
    sines: np.ndarray
    wraps: bool = False  # not periodic, but a turn of the driver more or less is the same pose

    def at(self, y: Any) -> Any:
        """f(y), by recurrences for the sines and cosines or the polynomials."""
        if self.periodic:
            out = y * float(self.turns) + float(self.cosines[0])
            c1, s1 = cos_sin(float(y)) if isinstance(y, float) else (np.cos(y), np.sin(y))
            c, s = c1, s1
            for k in range(1, len(self.cosines)):
                out = out + c * float(self.cosines[k]) + s * float(self.sines[k])
                c, s = c * c1 - s * s1, s * c1 + c * s1
            return out
        if self.wraps:
            y = y - np.rint((y - self.middle) * (0.5 / np.pi)) * (2.0 * np.pi)
        t = np.minimum(np.maximum((y - self.middle) * (1.0 / self.half), -1.0), 1.0)
        before, now = 1.0, t
        out = t * 0.0 + float(self.cosines[0])
        for k in range(1, len(self.cosines)):
            out = out + now * float(self.cosines[k])
            before, now = now, (t * now) * 2.0 - before
        return out


@dataclass(frozen=True)
class InitialGuess:
    """A series for some dependent coordinates; the others begin where they are at the first pose."""

    series: tuple[Series, ...] = ()

    def at(self, loops: Loops, y: Array) -> Array:
        """The first guess of the dependent coordinates at y."""
        x = np.array(loops.first, dtype=object)
        for one in self.series:
            x[one.place] = one.at(y[one.driver])
        return x[loops.following[0]]


def fitted(driver: int, place: int, y: np.ndarray, x: np.ndarray, periodic: bool, wraps: bool = False) -> Series:
    """The shortest series through samples that is near enough, or the longest allowed."""
    turns = round((x[-1] - x[0]) / (2.0 * np.pi)) if periodic else 0
    middle, half = (y[0] + y[-1]) / 2.0, max((y[-1] - y[0]) / 2.0, SHORT)
    rest = x - turns * y
    for terms in range(TERMS + 1):
        if periodic:
            turned = np.array([[cos_sin(float(k * angle)) for angle in y] for k in range(terms + 1)])
            basis = np.column_stack([*turned[..., 0], *turned[1:, :, 1]])
        else:
            basis = np.polynomial.chebyshev.chebvander((y - middle) / half, terms)
        found = ordered.fit(basis, rest)
        if np.max(np.abs(ordered.matvec(basis, found) - rest)) < NEAR:
            break
    cosines = found[: terms + 1]
    sines = np.concatenate([[0.0], found[terms + 1 :]]) if periodic else np.zeros(terms + 1)
    return Series(driver, place, periodic, turns, coarse(middle), coarse(half), coarse(cosines), coarse(sines), wraps)


def coarse(x: Any) -> Any:
    """x rounded to 2^-24: backends that differ in the last digits of a fit have the same guess."""
    rounded = np.round(np.asarray(x, dtype=float) * 2.0**24) / 2.0**24 + 0.0  # no zero is negative
    return float(rounded) if rounded.ndim == 0 else rounded
