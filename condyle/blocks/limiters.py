"""Limits and errors of signals: rate limit, slew with bounded acceleration, quantiser, dead band, backlash, saturation."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.blocks.filters import Filter, Size
from condyle.closed_loop.block import Block
from condyle.tape.array import where

TINY = 1e-30  # in place of an acceleration of zero


def saturated(u: Any, lower: Any, upper: Any) -> Any:
    """u within [lower, upper]."""
    return np.minimum(np.maximum(u, lower), upper)


def dead_band(u: Any, width: Any) -> Any:
    """Zero for |u| <= width, and from there on u less the width."""
    return u - saturated(u, -width, width)


def quantized(u: Any, step: Any) -> Any:
    """The nearest multiple of `step`, half to even; u itself where the step is zero."""
    size = where(step > 0.0, step, 1.0)
    return where(step > 0.0, np.rint(u / size) * size, u)


class Saturation(Block):
    """y = u within [lower, upper], in units of the input."""

    def __init__(self, lower: Any, upper: Any, **options: Any) -> None:
        super().__init__(**options)
        self.lower, self.upper = self.parameter("lower", lower), self.parameter("upper", upper)

    def step(self, state: dict[str, Any], u: Any) -> tuple[Any, dict[str, Any]]:
        """The bounded input."""
        return saturated(u, self.lower, self.upper), {}


class RateLimit(Filter):
    """y follows u at no more than `rising` per second upward and `falling` (default: `rising`) downward."""

    def __init__(self, size: Size, rising: Any, falling: Any = None, *, initial: Any = None, **options: Any) -> None:
        super().__init__(initial, **options)
        self.rising = self.parameter("rising", rising, "1/s", minimum=0.0)
        self.falling = self.rising if falling is None else self.parameter("falling", falling, "1/s", minimum=0.0)
        self.memory("y", size, initial)

    def step(self, state: dict[str, Any], u: Any) -> tuple[Any, dict[str, Any]]:
        """The limited input at the end of the tick."""
        y = self.before(state, "y", u)
        y = y + saturated(u - y, -(self.falling * self.dt), self.rising * self.dt)
        return y, self.after(y=y)


class Slew(Filter):
    """y follows u with bounded rate (1/s) and acceleration (1/s^2), and stops at it: a trapezoidal velocity profile.

    At the distance d it brakes with the speed v = d / (n dt) + (n - 1) a dt / 2, from which n ticks at the acceleration -a end
    there at rest; n is the smallest number of ticks with v <= n a dt.
    """

    def __init__(self, size: Size, rate: Any, acceleration: Any, *, initial: Any = None, **options: Any) -> None:
        super().__init__(initial, **options)
        self.rate = self.parameter("rate", rate, "1/s", minimum=0.0)
        self.acceleration = self.parameter("acceleration", acceleration, "1/s^2", minimum=0.0)
        self.memory("y", size, initial)
        self.state("speed", np.zeros(size))

    def step(self, state: dict[str, Any], u: Any) -> tuple[Any, dict[str, Any]]:
        """y at the end of the tick; its rate is the state "speed"."""
        y = self.before(state, "y", u)
        e, change = u - y, self.acceleration * self.dt
        distance = abs(e) / self.dt
        ticks = np.maximum(np.ceil(0.5 * np.sqrt(1.0 + 8.0 * distance / np.maximum(change, TINY)) - 0.5), 1.0)
        wanted = np.minimum(distance / ticks + 0.5 * (ticks - 1.0) * change, self.rate)
        wanted = where(e < 0.0, -wanted, wanted)
        speed = saturated(wanted, state["speed"] - change, state["speed"] + change)
        y = y + speed * self.dt
        return y, self.after(y=y, speed=speed)


class Quantizer(Block):
    """y = the multiple of `resolution` nearest to u, in units of the input; 0 changes nothing."""

    def __init__(self, resolution: Any, **options: Any) -> None:
        super().__init__(**options)
        self.resolution = self.parameter("resolution", resolution, minimum=0.0)

    def step(self, state: dict[str, Any], u: Any) -> tuple[Any, dict[str, Any]]:
        """The quantised input."""
        return quantized(u, self.resolution.resolve()), {}


class DeadBand(Block):
    """y = 0 for |u| <= width, u - width above and u + width below, in units of the input."""

    def __init__(self, width: Any, **options: Any) -> None:
        super().__init__(**options)
        self.width = self.parameter("width", width, minimum=0.0)

    def step(self, state: dict[str, Any], u: Any) -> tuple[Any, dict[str, Any]]:
        """The input outside of the dead band."""
        return dead_band(u, self.width), {}


class Backlash(Filter):
    """Play of a gear: y stays until u has crossed the gap (in units of the input), then moves with it: |u - y| <= gap / 2."""

    def __init__(self, size: Size, gap: Any, *, initial: Any = None, **options: Any) -> None:
        super().__init__(initial, **options)
        self.gap = self.parameter("gap", gap, minimum=0.0)
        self.memory("y", size, initial)

    def step(self, state: dict[str, Any], u: Any) -> tuple[Any, dict[str, Any]]:
        """The driven side of the gear."""
        y = saturated(self.before(state, "y", u), u - 0.5 * self.gap, u + 0.5 * self.gap)
        return y, self.after(y=y)
