"""A run repeated: every step computed again from the state before it, and compared bit by bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.simulate.simulation import Simulation

BATCH = 1 << 17  # steps that are computed at once


@dataclass(frozen=True)
class Replay:
    """Whether a run repeats bit for bit; if not, the first state and entry that differ. `ulps`: how many floats lie between.

    State k is the one after k steps; `expected` is what was recorded, `got` what was computed.
    """

    identical: bool
    steps: int
    entries: int
    step: int | None = None
    entry: str | None = None
    expected: float | None = None
    got: float | None = None
    ulps: int | None = None

    @property
    def difference(self) -> float:
        """got - expected; zero for an identical run, and for 0.0 against -0.0."""
        return 0.0 if self.expected is None or self.got is None else self.got - self.expected

    def __bool__(self) -> bool:
        return self.identical

    def __str__(self) -> str:
        if self.identical:
            return f"bit-identical: {self.steps:,} steps, {self.entries} entries each"
        apart = f"{self.ulps:,} ulp apart" if self.ulps is not None and self.ulps < 10_000 else f"{self.difference:.3g} apart"
        return f"differs first at step {self.step:,} in {self.entry}: {self.expected!r} recorded, {self.got!r} computed ({apart})"


def replayed(
    simulation: Simulation, x: np.ndarray, u: np.ndarray, wrenches: np.ndarray, names: list[str], **options: Any
) -> Replay:
    """The replay of states x (T + 1, nx) under controls u (T, nu) and wrenches (T, frames, 6).

    The steps are computed as a batch, each from the recorded state before it. If all agree, then by induction the whole run
    follows from its first state; if not, the first that differs is the first that a run from the first state would have.
    """
    steps, entries = u.shape[0], x.shape[1]
    if not steps:
        return Replay(True, 0, entries)
    # the kernel that recorded it is of one lane, and so at hand; any other gives the same bits
    options = options if options.keys() & {"lanes", "machine"} else {"lanes": 1, **options}
    for first in range(0, steps, BATCH):
        part = slice(first, min(first + BATCH, steps))
        push = wrenches[part] if wrenches.shape[1] else None
        got = np.ascontiguousarray(simulation.step(x[part], u[part], wrenches=push, freeze=True, **options))
        expected = np.ascontiguousarray(x[part.start + 1 : part.stop + 1], dtype=np.float64)
        apart = got.view(np.int64) != expected.view(np.int64)
        if apart.any():
            k, i = (int(n) for n in np.argwhere(apart)[0])
            a, b = float(expected[k, i]), float(got[k, i])
            return Replay(False, steps, entries, first + k + 1, names[i], a, b, abs(_rank(b) - _rank(a)))
    return Replay(True, steps, entries)


def _rank(number: float) -> int:
    """The place of a float among all floats in their order."""
    bits = int(np.float64(number).view(np.int64))
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF) - 1
