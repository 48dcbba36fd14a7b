"""Filters of signals: low passes, derivative, moving average. All are exact for inputs that are constant within a tick.

A filter starts at its first input, without a transient, or at `initial` where that is given. `size` is the number of signals, or
the shape of an array of them; () for a single number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.blocks.discretization import decay, second_order
from condyle.closed_loop.block import Block
from condyle.errors import ControlError
from condyle.tape.array import where

Size = int | tuple[int, ...]


class Filter(Block):
    """A block with memory of its input, which starts at the first one unless `initial` is given."""

    def __init__(self, initial: Any, **options: Any) -> None:
        super().__init__(**options)
        self.waits = initial is None
        if self.waits:
            self.state("started", 0.0)

    def memory(self, name: str, size: Size, initial: Any) -> None:
        """A state of the input's shape."""
        self.state(name, np.full(size, 0.0 if initial is None else initial, dtype=float))

    def before(self, state: dict[str, Any], name: str, first: Any) -> Any:
        """The value of a state; `first` at the first tick."""
        return where(state["started"] > 0.0, state[name], first) if self.waits else state[name]

    def after(self, **states: Any) -> dict[str, Any]:
        """The next state."""
        return {**states, "started": 1.0} if self.waits else states


class LowPass(Filter):
    """First-order low pass: y' = 2 pi cutoff (u - y). `cutoff` in Hz, where the gain is 1 / sqrt(2)."""

    def __init__(self, size: Size, cutoff: Any, *, initial: Any = None, **options: Any) -> None:
        super().__init__(initial, **options)
        self.cutoff = self.parameter("cutoff", cutoff, "Hz", minimum=0.0)
        self.memory("y", size, initial)

    def step(self, state: dict[str, Any], u: Any) -> tuple[Any, dict[str, Any]]:
        """The filtered input at the end of the tick."""
        y = u + (self.before(state, "y", u) - u) * np.exp(-(self.cutoff * self.dt * (2.0 * np.pi)))
        return y, self.after(y=y)


class Butterworth(Filter):
    """Second-order Butterworth low pass: y'' = w^2 (u - y) - sqrt(2) w y' with w = 2 pi cutoff. `cutoff` in Hz."""

    def __init__(self, size: Size, cutoff: Any, *, initial: Any = None, **options: Any) -> None:
        super().__init__(initial, **options)
        self.cutoff = self.parameter("cutoff", cutoff, "Hz", minimum=0.0)
        self.memory("y", size, initial)
        self.state("rate", np.zeros(size))

    def step(self, state: dict[str, Any], u: Any) -> tuple[Any, dict[str, Any]]:
        """The filtered input at the end of the tick."""
        by = second_order(self.cutoff * (2.0 * np.pi), 0.5**0.5, self.dt)
        e, rate = by.applied(self.before(state, "y", u) - u, state["rate"])
        return u + e, self.after(y=u + e, rate=rate)


class Derivative(Filter):
    """Filtered derivative, s / (lag s + 1): the mean rate over the tick of the input after a first-order lag (s).

    A ramp gives its slope after the lag; a lag of zero gives differences of inputs.
    """

    def __init__(self, size: Size, lag: Any = 0.0, *, initial: Any = None, **options: Any) -> None:
        super().__init__(initial, **options)
        self.lag = self.parameter("lag", lag, "s", minimum=0.0)
        self.memory("y", size, initial)

    def step(self, state: dict[str, Any], u: Any) -> tuple[Any, dict[str, Any]]:
        """The derivative, in units of the input per second."""
        y = self.before(state, "y", u)
        rate, y = filtered_derivative(y, u, self.lag, self.dt)
        return rate, self.after(y=y)


def filtered_derivative(y: Any, u: Any, lag: Any, dt: Any) -> tuple[Any, Any]:
    """(the mean rate of the lagged input over a tick, its value at the end), y its value at the start."""
    change = (u - y) * (1.0 - decay(dt, lag))
    return change / dt, y + change


class MovingAverage(Filter):
    """The mean of the last `count` inputs, one of each update."""

    def __init__(self, size: Size, count: int, *, initial: Any = None, **options: Any) -> None:
        super().__init__(initial, **options)
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            raise ControlError(f"block '{self.name}': count must be a whole number of inputs from 1 up, got {count!r:.60}")
        self.count = int(count)
        shape = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
        if self.count > 1:
            self.memory("past", (self.count - 1, *shape), initial)

    def step(self, state: dict[str, Any], u: Any) -> tuple[Any, dict[str, Any]]:
        """The mean."""
        if self.count == 1:
            return u, self.after()
        past = list(self.before(state, "past", np.array([u] * (self.count - 1))))
        total = u
        for earlier in past:
            total = total + earlier
        return total * (1.0 / self.count), self.after(past=np.array([u, *past[:-1]]))
