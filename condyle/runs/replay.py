"""The replay of a run: every step computed again from the state before it, and compared bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.simulate.simulation import Simulation

BATCH = 1 << 17  # steps that are computed at once


@dataclass(frozen=True)
class Replay:
    """Whether a run repeats bit for bit; if not, the first state and entry that differ. `ulps`: how many floats lie between.

    State k is the one after k steps; `expected` is what was recorded, `got` what was computed. `reason` says why that
    step cannot be computed at all. `lost` is what the run lacks, and `changed` whether it was damaged or changed after it was
    recorded, rather than cut. True for a run whose steps repeat and that was not changed.
    """

    identical: bool
    steps: int
    entries: int
    step: int | None = None
    entry: str | None = None
    expected: float | None = None
    got: float | None = None
    ulps: int | None = None
    reason: str | None = None
    lost: str | None = None
    changed: bool = False

    @property
    def difference(self) -> float:
        """got - expected; zero for an identical run, and for 0.0 against -0.0."""
        return 0.0 if self.expected is None or self.got is None else self.got - self.expected

    def __bool__(self) -> bool:
        return self.identical and not self.changed

    def __str__(self) -> str:
        if self.identical:
            size = f"{self.steps:,} steps, {self.entries} entries each"
            if self.lost is None:
                return f"bit-identical: {size}"
            if self.changed:
                return f"the states repeat, {size}, but the numbers are not all as they were recorded: {self.lost}"
            return f"bit-identical as far as it goes: {size}; {self.lost}"
        if self.reason is not None:
            return f"differs first at step {self.step:,}, which cannot be computed: {self.reason}"
        apart = f"{self.ulps:,} ulp apart" if self.ulps is not None and self.ulps < 10_000 else f"{self.difference:.3g} apart"
        return f"differs first at step {self.step:,} in {self.entry}: {self.expected!r} recorded, {self.got!r} computed ({apart})"


def replay(
    simulation: Simulation,
    arrays: tuple[np.ndarray, np.ndarray, np.ndarray],
    names: Sequence[str],
    options: Mapping[str, Any],
    batch: int | None,
    progress: Callable[[int, int], None] | None,
) -> Replay:
    """The replay of states x (T + 1, nx) under controls u (T, nu) and wrenches (T, frames, 6); see Run.check.

    The steps are computed `batch` at once, each from the recorded state before it. If all agree, then by induction the whole run
    follows from its first state; if not, the first that differs is the first that a run from the first state would have. A step
    that cannot be computed differs, whatever was recorded after it.
    """
    x, u, wrenches = arrays
    steps, entries = u.shape[0], x.shape[1]
    # the kernel that recorded it has one lane and is compiled already; any other gives the same bits
    options = options if options.keys() & {"lanes", "backend"} else {"lanes": 1, **options}
    for first in range(0, steps, batch or BATCH):
        part = slice(first, min(first + (batch or BATCH), steps))
        push = wrenches[part] if wrenches.shape[1] else None
        got = np.ascontiguousarray(simulation.step(x[part], u[part], wrenches=push, freeze=True, **options))
        assert simulation.status is not None
        failed = ~simulation.status.ok
        expected = np.ascontiguousarray(x[part.start + 1 : part.stop + 1], dtype=np.float64)
        apart = got.view(np.int64) != expected.view(np.int64)
        wrong = np.flatnonzero(apart.any(axis=1) | failed)
        if len(wrong):
            k = int(wrong[0])
            found = Replay(False, steps, entries, first + k + 1)
            if failed[k]:
                return replace(found, reason=_why(simulation, arrays, first + k, float(simulation.status.residual[k])))
            i = int(np.flatnonzero(apart[k])[0])
            a, b = float(expected[k, i]), float(got[k, i])
            return replace(found, entry=names[i], expected=a, got=b, ulps=abs(_rank(b) - _rank(a)))
        if progress is not None:
            progress(part.stop, steps)
    return Replay(True, steps, entries)


def _why(simulation: Simulation, arrays: tuple[np.ndarray, ...], k: int, residual: float) -> str:
    """Why step k + 1 cannot be computed."""
    for what, array in zip(("state", "control", "wrench"), arrays, strict=True):
        if not np.isfinite(array[k]).all():
            return f"the {what} before it has a number that is not finite"
    if not np.isfinite(residual):
        return "it overflows"
    return f"its solver ends with a residual of {residual:.1e}"


def _rank(number: float) -> int:
    """The place of a float among all floats in their order."""
    bits = int(np.float64(number).view(np.int64))
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF) - 1
