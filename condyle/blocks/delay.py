"""Delay lines: what a signal was some time ago."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from condyle.blocks.filters import Filter, Size
from condyle.errors import ControlError
from condyle.tape.array import where
from condyle.tape.scalar import constant

LONGEST = 1024  # entries of a delay line


class Delay(Filter):
    """y(t) = u(t - delay), `delay` in s up to `maximum` (default: `delay`); before the first input it is the first one.

    A delay between two updates is interpolated linearly, or rounded to whole updates with rounded=True.
    """

    def __init__(
        self,
        size: Size,
        delay: float,
        maximum: float | None = None,
        *,
        rounded: bool = False,
        initial: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(initial, **options)
        longest = delay if maximum is None else maximum
        if not np.isfinite(longest) or longest < 0.0:
            raise ControlError(f"block '{self.name}': the longest delay must be a time from 0 s up, got {longest!r:.40}")
        self.shape = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
        self.delay = self.parameter("delay", delay, "s", minimum=0.0, maximum=float(longest))
        self.maximum, self.rounded, self.initial = float(longest), rounded, initial

    def prepare(self, dt: float | None) -> None:
        """Make the line as long as updates of every dt seconds need."""
        if dt is None:
            raise ControlError(f"block '{self.name}': the length of its delay line needs a loop whose dt is a number")
        count = line_length(self.name, self.maximum, dt)
        self.states.pop("line", None)
        if count:
            self.memory("line", (count, *self.shape), self.initial)

    def step(self, state: dict[str, Any], u: Any) -> tuple[Any, dict[str, Any]]:
        """The input of `delay` ago."""
        if "line" not in state:
            return u, self.after()
        line = self.before(state, "line", np.array([u] * len(state["line"])))
        return delayed([u, *line], self.delay / self.dt, self.rounded), self.after(line=np.array([u, *line[:-1]]))


def line_length(name: str, longest: float, dt: float) -> int:
    """How many inputs before the present one a delay line keeps."""
    count = ceil(longest / dt - 1e-9)
    if count > LONGEST:
        raise ControlError(
            f"block '{name}': a delay of {longest:g} s is {count} updates of {dt:g} s, more than {LONGEST}; give a smaller "
            "maximum, or every=... for a slower block"
        )
    return count


def delayed(samples: list[Any], age: Any, rounded: bool = False) -> Any:
    """The sample of `age` updates ago, samples[0] being the present one: interpolated, or the nearest."""
    known = constant(age)
    if known is not None:
        at = min(max(float(np.rint(known)) if rounded else known, 0.0), len(samples) - 1.0)
        whole = int(at)
        part = at - whole
        return samples[whole] if part <= 0.0 else samples[whole] * (1.0 - part) + samples[whole + 1] * part
    at = np.minimum(np.maximum(np.rint(age) if rounded else age, 0.0), len(samples) - 1.0)
    if rounded:
        found = samples[0]
        for k, sample in enumerate(samples[1:], 1):
            found = where(at >= float(k), sample, found)
        return found
    # hat functions: at most two weights are not zero
    terms = [np.maximum(1.0 - abs(at - float(k)), 0.0) * sample for k, sample in enumerate(samples)]
    return sum(terms[1:], start=terms[0])
