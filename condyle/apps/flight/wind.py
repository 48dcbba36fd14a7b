"""Wind: constant, gusts by schedule, and turbulence, as blocks whose output is the velocity of the air in world axes.

Turbulence has the spectra of Dryden (MIL-F-8785C), from white noise through filters that are discretised exactly: at any dt, a
component along the mean wind has the autocorrelation s^2 exp(-t / T), one across it s^2 exp(-t / T) (1 - t / (2 T)), T = L / V.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.closed_loop.block import Block
from condyle.errors import ControlError
from condyle.tape.array import array, where

FOOT = 0.3048  # m
ROOT = 3.0**0.5
SERIES = 0.2  # dt / T below which moments are series with an error below rounding


class Wind(Block):
    """The velocity of the air, world axes, m/s: constant."""

    def __init__(self, velocity: Any = (0.0, 0.0, 0.0), **options: Any) -> None:
        super().__init__(**options)
        self.velocity = self.vector("velocity", velocity, "m/s")

    def vector(self, name: str, value: Any, unit: str) -> Any:
        """A parameter of three numbers."""
        if np.shape(value) != (3,):
            raise ControlError(f"block '{self.name}': {name} must be three numbers in world axes, {unit}; got {value!r:.60}")
        return self.parameter(name, value, unit)

    def step(self, state: dict[str, Any], x: Any) -> tuple[Any, dict[str, Any]]:
        """The velocity in this tick."""
        return +self.velocity, {}


class Gust(Wind):
    """A gust that rises and falls as (1 - cos) / 2, or, with shape="pulse", begins and ends at once.

    `velocity`: at its peak. From `start` for `duration` seconds; with a `period` (s) again and again. The value is that of the
    middle of the tick.
    """

    def __init__(
        self,
        velocity: Any,
        start: Any = 0.0,
        duration: Any = 1.0,
        *,
        period: Any = None,
        shape: str = "cosine",
        **options: Any,
    ) -> None:
        super().__init__(velocity, **options)
        if shape not in ("cosine", "pulse"):
            raise ControlError(f"block '{self.name}': shape must be 'cosine' or 'pulse', got {shape!r:.40}")
        self.shape = shape
        self.start = self.parameter("start", start, "s", minimum=0.0)
        self.duration = self.parameter("duration", duration, "s", minimum=1e-9)
        self.period = None if period is None else self.parameter("period", period, "s", minimum=1e-9)

    def step(self, state: dict[str, Any], x: Any) -> tuple[Any, dict[str, Any]]:
        """The velocity in this tick."""
        s = self.t + 0.5 * self.dt - self.start
        if self.period is not None:
            s = where(s < 0.0, s, s - np.floor(s / self.period) * self.period)
        s = s / self.duration
        inside = (s >= 0.0) & (s <= 1.0)
        size = 0.5 * (1.0 - np.cos((2.0 * np.pi) * s)) if self.shape == "cosine" else 1.0
        return self.velocity * where(inside, size, 0.0), {}


class Dryden(Wind):
    """Turbulence about a mean wind, by the low-altitude model of MIL-F-8785C, besides the mean wind itself.

    `speed`: of the mean wind at 6.1 m, m/s, which sets the deviations; `altitude` in m (3 to 300) sets the lengths. `direction`:
    of the mean wind, world axes. `airspeed` V: with which the vehicle meets the eddies, m/s; the mean wind's by default. The
    parameters "deviation" (m/s) and "length" (m) are those along the wind, across it, and vertical.
    """

    def __init__(
        self,
        speed: float,
        altitude: float = 10.0,
        *,
        direction: Any = (1.0, 0.0, 0.0),
        airspeed: float | None = None,
        deviation: Any = None,
        length: Any = None,
        **options: Any,
    ) -> None:
        options.setdefault("name", "turbulence")
        for what, value in (("speed", speed), ("altitude", altitude)):
            if not np.isfinite(value) or value < 0.0 or (what == "altitude" and value <= 0.0):
                raise ControlError(f"Dryden: {what} must be a positive number, got {value!r:.40}")
        away = np.asarray(direction, dtype=float)
        if away.shape != (3,) or not np.all(np.isfinite(away)) or not np.hypot(away[0], away[1]) > 0.0:
            raise ControlError(f"Dryden: direction must be three numbers that are not vertical, got {direction!r:.60}")
        along = np.array([away[0], away[1], 0.0]) / np.hypot(away[0], away[1])
        self.axes = np.array([along, [-along[1], along[0], 0.0], [0.0, 0.0, 1.0]])
        super().__init__(float(speed) * along, **options)
        deviations, lengths = low_altitude(float(speed), float(altitude))
        self.deviation = self.parameter("deviation", deviations if deviation is None else deviation, "m/s", minimum=0.0)
        self.length = self.parameter("length", lengths if length is None else length, "m", minimum=1e-6)
        self.airspeed = self.parameter("airspeed", max(speed, 0.1) if airspeed is None else airspeed, "m/s", minimum=1e-6)
        self.state("filter", np.zeros(5))
        self.state("started", 0.0)

    def step(self, state: dict[str, Any], x: Any) -> tuple[Any, dict[str, Any]]:
        """The mean wind and the turbulence; the first tick draws from the stationary distribution."""
        a = array([self.airspeed * self.dt / length for length in self.length.resolve()])
        noise, before, started = self.normal(5), state["filter"], state["started"] > 0.0
        u = first_order(before[0], a[0], noise[0], started)
        v = second_order(before[1:3], a[1], noise[1:3], started)
        w = second_order(before[3:5], a[2], noise[3:5], started)
        gust = array([u, across(v), across(w)]) * self.deviation
        return self.velocity + gust @ self.axes, {"filter": array([u, *v, *w]), "started": 1.0}


def low_altitude(speed: float, altitude: float) -> tuple[np.ndarray, np.ndarray]:
    """(deviations in m/s, lengths in m) along the wind, across, vertical: MIL-F-8785C below 1,000 feet."""
    feet = min(max(altitude / FOOT, 10.0), 1000.0)
    vertical, horizontal = 0.1 * speed, feet / (0.177 + 0.000823 * feet) ** 1.2 * FOOT
    ratio = 1.0 / (0.177 + 0.000823 * feet) ** 0.4
    return np.array([ratio, ratio, 1.0]) * vertical, np.array([horizontal, horizontal, feet * FOOT])


def moment(power: int, a: Any) -> Any:
    """2 int_0^a s^power e^-2s ds for power 0, 1, 2; by its series where the closed form would cancel."""
    small, large = where(a < SERIES, a, 0.0), where(a < SERIES, 1.0, a)
    total, term = small * 0.0, 2.0
    for k in range(14):
        total = total + small ** (power + 1 + k) * (term / (power + 1 + k))
        term = term * (-2.0 / (k + 1))
    twice = np.exp(-2.0 * large)
    inside = (1.0, 1.0 + 2.0 * large, 1.0 + 2.0 * large + 2.0 * large * large)[power]
    return where(a < SERIES, total, (1.0, 0.5, 0.5)[power] * (1.0 - twice * inside))


def first_order(x: Any, a: Any, noise: Any, started: Any = True) -> Any:
    """The next x of  x' = -x / T + noise  with variance 1, over a = dt / T: x e^-a + sqrt(1 - e^-2a) noise."""
    return x * np.exp(-a) + where(started, np.sqrt(moment(0, a)), 1.0) * noise


def second_order(z: Any, a: Any, noise: Any, started: Any = True) -> tuple[Any, Any]:
    """The next (z1, z2) of  z1' = -z1 / T + n,  z2' = (z1 - z2) / T,  n so that z1 has variance 1, over a = dt / T.

    The noise of a step has the covariance 2 int_0^a e^-2s [[1, s], [s, s^2]] ds, and a triangular factor gives it. Before it has
    started, z is zero, and the covariance is the stationary one, [[1, 1/2], [1/2, 1/2]].
    """
    fading, l11 = np.exp(-a), np.sqrt(moment(0, a))
    l21 = moment(1, a) / l11
    l22 = np.sqrt(np.maximum(moment(2, a) - l21 * l21, 0.0))
    l11, l21, l22 = where(started, l11, 1.0), where(started, l21, 0.5), where(started, l22, 0.5)
    return (
        fading * z[0] + l11 * noise[0],
        fading * (z[1] + a * z[0]) + l21 * noise[0] + l22 * noise[1],
    )


def across(z: Any) -> Any:
    """The output with the transfer function (1 + sqrt(3) T s) / (1 + T s)^2, scaled to variance 1."""
    return (ROOT * z[0] + (1.0 - ROOT) * z[1]) * (1.0 / 2.0**0.5)
