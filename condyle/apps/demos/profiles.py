"""Motion profiles: smooth moves from rest to rest, traced or plain, and a figure of eight (Bernoulli's lemniscate).

With the angle theta, s = sin(theta) and c = cos(theta), the lemniscate is at  a (c, s c) / (1 + s^2), has the heading
3 atan(s) + pi/2, and its length grows by  a / sqrt(1 + s^2)  for each radian of theta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np

from condyle.tape.array import where

Array = np.ndarray

MAX_SPEED = 35 / 16  # of `smooth`, times distance / time
MAX_ACCELERATION = 84 * 5**0.5 / 25  # of `smooth`, times distance / time squared
LEMNISCATE_LENGTH = 5.244115108584239621  # for a = 1: twice the lemniscate constant, 2 * 2.622...


def smooth(t: Any, begin: float, duration: float) -> Any:
    """s^4 (35 - 84 s + 70 s^2 - 20 s^3) with s = (t - begin) / duration: 0 before, 1 after, three derivatives zero at both."""
    s = np.minimum(np.maximum((t - begin) * (1.0 / duration), 0.0), 1.0)
    return s * s * s * s * (35.0 + s * (-84.0 + s * (70.0 - 20.0 * s)))


def smooth_integral(t: Any, begin: float, duration: float) -> Any:
    """The integral of `smooth` over time: zero before, and after its end it grows as time does."""
    s = np.maximum((t - begin) * (1.0 / duration), 0.0)
    return duration * where(s < 1.0, s**5 * (7.0 + s * (-14.0 + s * (10.0 - 2.5 * s))), s - 0.5)


@dataclass(frozen=True)
class Path:
    """Where on a plane curve to be at each time: position (times, 2), heading, and yaw rate."""

    position: Array
    heading: Array
    yaw_rate: Array


def figure_of_eight(half_width: float, t: Array, speed: Callable[[Any], Any]) -> Path:
    """The lemniscate from its crossing on, driven at speed(t), at evenly spaced times."""
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
    return Path(position, 3.0 * np.arctan(s) + pi / 2.0, 3.0 * c / np.sqrt(1.0 + s**2) * speed(t) / a)


def lemniscate_distance(points: Array, half_width: float) -> Array:
    """Distance of points (..., 2) from the curve, m: |(x^2 + y^2)^2 - a^2 (x^2 - y^2)| over its gradient, to first order; at the
    crossing, where the gradient vanishes, the distance from the nearer of its two tangents."""
    x, y = points[..., 0], points[..., 1]
    square, a2 = x**2 + y**2, half_width**2
    off = np.abs(square**2 - a2 * (x**2 - y**2))
    gradient = np.hypot(4.0 * square * x - 2.0 * a2 * x, 4.0 * square * y + 2.0 * a2 * y)
    tangent = np.minimum(np.abs(x - y), np.abs(x + y)) / np.sqrt(2.0)
    distance: Array = np.where(square < 1e-4 * a2, tangent, off / np.maximum(gradient, 1e-300))
    return distance


@dataclass(frozen=True)
class SpeedProfile:
    """Rest, a ramp, constant speed, a ramp, and rest again, after `distance` in all; s - sin(2 pi s) / (2 pi) is the ramp."""

    distance: float  # m
    speed: float  # m/s
    ramp: float  # s

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return self.distance / self.speed + self.ramp  # half the speed in a ramp, on average

    def derivative(self, t: Any, order: int) -> Any:
        """The speed, order 1, or its first, second or third derivative, orders 2 to 4."""
        up, down = np.clip(t / self.ramp, 0.0, 1.0), np.clip((t - self.seconds) / self.ramp + 1.0, 0.0, 1.0)
        return self.speed / self.ramp ** (order - 1) * (_ramp(up, order) - _ramp(down, order))


def _ramp(s: Any, order: int) -> Any:
    angle = 2.0 * pi * s
    if order < 4:
        return (s - np.sin(angle) / (2.0 * pi), 1.0 - np.cos(angle), 2.0 * pi * np.sin(angle))[order - 1]
    return np.where((s > 0.0) & (s < 1.0), 4.0 * pi**2 * np.cos(angle), 0.0)
