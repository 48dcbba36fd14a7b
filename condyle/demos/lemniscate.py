"""A figure of eight: Bernoulli's lemniscate, driven through once, from rest at its crossing to rest at its crossing.

With the angle theta, s = sin(theta) and c = cos(theta), it is at  a (c, s c) / (1 + s^2), heads for  3 atan(s) + pi/2, and
its length grows by  a / sqrt(1 + s^2)  for each radian of theta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np

Array = np.ndarray

AROUND = 5.244115108584239621  # its length for a = 1: twice the lemniscate constant, 2 * 2.622...


@dataclass(frozen=True)
class Way:
    """Where on the curve to be at each time: position (times, 2), heading, and turning rate."""

    position: Array
    heading: Array
    turning: Array


def figure_of_eight(half_width: float, t: Array, speed: Callable[[Any], Any]) -> Way:
    """From the crossing on, driven at speed(t); the times are evenly spaced."""
    a, dt = half_width, float(t[1] - t[0])

    def rate(t: float, theta: float) -> float:
        return float(speed(t) * np.sqrt(1.0 + np.sin(theta) ** 2) / a)

    # the classical Runge-Kutta method
    theta = np.empty(len(t))
    theta[0] = -pi / 2.0
    for k in range(len(t) - 1):
        k1 = rate(t[k], theta[k])
        k2 = rate(t[k] + dt / 2.0, theta[k] + dt / 2.0 * k1)
        k3 = rate(t[k] + dt / 2.0, theta[k] + dt / 2.0 * k2)
        k4 = rate(t[k] + dt, theta[k] + dt * k3)
        theta[k + 1] = theta[k] + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    s, c = np.sin(theta), np.cos(theta)
    position = a * np.stack([c, s * c], axis=-1) / (1.0 + s**2)[:, None]
    return Way(position, 3.0 * np.arctan(s) + pi / 2.0, 3.0 * c / np.sqrt(1.0 + s**2) * speed(t) / a)


@dataclass(frozen=True)
class Trip:
    """Rest, a ramp of so many seconds, steady speed, a ramp, and rest again, after a way of so many metres in all."""

    way: float
    speed: float
    ramp: float

    @property
    def seconds(self) -> float:
        return self.way / self.speed + self.ramp  # ramps take twice as long as their way would

    def rate(self, t: Any, order: int) -> Any:
        """The speed, order 1, or its first, second or third derivative, orders 2 to 4."""
        up, down = np.clip(t / self.ramp, 0.0, 1.0), np.clip((t - self.seconds) / self.ramp + 1.0, 0.0, 1.0)
        return self.speed / self.ramp ** (order - 1) * (_rise(up, order) - _rise(down, order))


def from_curve(points: Array, half_width: float) -> Array:
    """How far points (..., 2) are from the curve, m: |(x^2 + y^2)^2 - a^2 (x^2 - y^2)| by its slope, to first order; at the
    crossing, where the slope vanishes, how far they are from the nearer of the two straight lines."""
    x, y = points[..., 0], points[..., 1]
    square, a2 = x**2 + y**2, half_width**2
    off = np.abs(square**2 - a2 * (x**2 - y**2))
    slope = np.hypot(4.0 * square * x - 2.0 * a2 * x, 4.0 * square * y + 2.0 * a2 * y)
    near = np.minimum(np.abs(x - y), np.abs(x + y)) / np.sqrt(2.0)
    away: Array = np.where(square < 1e-4 * a2, near, off / np.maximum(slope, 1e-300))
    return away


def _rise(s: Any, order: int) -> Any:
    """s - sin(2 pi s) / (2 pi), order 1, from 0 to 1 with slopes 0 at both ends, and its derivatives, orders 2 to 4."""
    turn = 2.0 * pi * s
    if order < 4:
        return (s - np.sin(turn) / (2.0 * pi), 1.0 - np.cos(turn), 2.0 * pi * np.sin(turn))[order - 1]
    return np.where((s > 0.0) & (s < 1.0), 4.0 * pi**2 * np.cos(turn), 0.0)
