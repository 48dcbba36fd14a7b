"""Disturbances: wrenches at frames by schedule. A pulse acts with its exact impulse, whatever part of a tick it covers."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.closed_loop.block import Block
from condyle.errors import ControlError
from condyle.tape.array import where

AXES = ("world_aligned", "local")


class Disturbance(Block):
    """A wrench (force in N, then torque in N m) at a frame, in world axes or, with axes="local", in those of the frame."""

    def __init__(self, frame: str, *, axes: str = "world_aligned", **options: Any) -> None:
        super().__init__(**options)
        if axes not in AXES:
            raise ControlError(f"block '{self.name}': axes must be {' or '.join(AXES)}, got {axes!r:.40}")
        self.frame, self.axes = frame, axes

    def wrench(self, name: str, value: Any, minimum: float | None = None) -> Any:
        """A parameter of six numbers."""
        if np.shape(value) != (6,):
            raise ControlError(f"block '{self.name}': {name} must be six numbers, force then torque; got {value!r:.60}")
        return self.parameter(name, value, "N, N m", minimum=minimum)

    def output(self, wrench: Any) -> dict[str, Any]:
        """The command of a wrench."""
        return {"wrenches": {self.frame: wrench if self.axes == AXES[0] else (wrench, self.axes)}}


class WrenchPulse(Disturbance):
    """A wrench from `start` for `duration` seconds; with a `period` (s) again and again, at start + k period."""

    def __init__(
        self, frame: str, wrench: Any, start: Any = 0.0, duration: Any = 0.1, *, period: Any = None, **options: Any
    ) -> None:
        super().__init__(frame, **options)
        self.size = self.wrench("wrench", wrench)
        self.start = self.parameter("start", start, "s", minimum=0.0)
        self.duration = self.parameter("duration", duration, "s", minimum=0.0)
        self.period = None if period is None else self.parameter("period", period, "s", minimum=1e-9)
        if period is not None and np.any(np.asarray(duration) > np.asarray(period)):
            raise ControlError(
                f"block '{self.name}': a pulse of {duration!r} s does not fit into a period of {period!r} s; shorten it"
            )

    def step(self, state: dict[str, Any], *_: Any) -> tuple[Any, dict[str, Any]]:
        """The wrench of this tick."""
        return self.output(self.size * self.fraction(self.t, self.dt)), {}

    def fraction(self, t: Any, dt: Any) -> Any:
        """The part of the time from t to t + dt that pulses cover; exactly 0 or 1 where only rounding is between."""
        part = (self.covered(t + dt - self.start) - self.covered(t - self.start)) / dt
        return where(abs(part - np.rint(part)) < 1e-9, np.rint(part), part)

    def covered(self, t: Any) -> Any:
        """The total time of the pulses up to t seconds after the first one starts."""
        t = np.maximum(t, 0.0)
        if self.period is None:
            return np.minimum(t, self.duration)
        cycles = np.floor(t / self.period)
        return cycles * self.duration + np.minimum(t - cycles * self.period, self.duration)


class SineWrench(Disturbance):
    """wrench * sin(2 pi frequency t + phase): frequency in Hz, phase in rad; its mean over each tick."""

    def __init__(self, frame: str, wrench: Any, frequency: Any, phase: Any = 0.0, **options: Any) -> None:
        super().__init__(frame, **options)
        self.size = self.wrench("wrench", wrench)
        self.frequency = self.parameter("frequency", frequency, "Hz", minimum=0.0)
        self.phase = self.parameter("phase", phase, "rad")

    def step(self, state: dict[str, Any], *_: Any) -> tuple[Any, dict[str, Any]]:
        """The wrench of this tick."""
        half = self.frequency * self.dt * np.pi
        # the mean of a sine is its value in the middle times sin(half) / half
        squared = half * half
        small = 1.0 - squared * (1.0 / 6.0) * (1.0 - squared * 0.05)
        factor = where(half < 1e-2, small, np.sin(half) / np.maximum(half, 1e-2))
        middle = self.frequency * (self.t + 0.5 * self.dt) * (2.0 * np.pi) + self.phase
        return self.output(self.size * (np.sin(middle) * factor)), {}


class RandomPushes(Disturbance):
    """Pushes at random times: on average `rate` per second, each for `duration` seconds, with normal entries of size `deviation`.

    `deviation`: the standard deviations of the six entries, N and N m. A push ends before the next one starts.
    """

    def __init__(self, frame: str, deviation: Any, rate: Any = 0.5, duration: Any = 0.1, **options: Any) -> None:
        super().__init__(frame, **options)
        self.deviation = self.wrench("deviation", deviation, minimum=0.0)
        self.rate = self.parameter("rate", rate, "1/s", minimum=0.0)
        self.duration = self.parameter("duration", duration, "s", minimum=0.0)
        self.state("push", np.zeros(6))
        self.state("remaining", 0.0)

    def step(self, state: dict[str, Any], *_: Any) -> tuple[Any, dict[str, Any]]:
        """The wrench of this tick."""
        starts = (state["remaining"] <= 0.0) & (self.uniform() < 1.0 - np.exp(-(self.rate * self.dt)))
        push = where(starts, self.normal(6) * self.deviation, state["push"])
        remaining = where(starts, +self.duration, state["remaining"])
        part = np.minimum(remaining, self.dt) / self.dt
        return self.output(push * part), {"push": push, "remaining": np.maximum(remaining - self.dt, 0.0)}
