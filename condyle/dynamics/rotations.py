"""Rotations as unit quaternions (x, y, z, w) and as rotation vectors, smooth through zero.

Everything that is needed is even in the angle, hence a smooth function of the squared angle t. Near zero its closed form is
0/0 and loses digits, and its derivatives lose more; there a power series takes over. Both are computed and one is chosen, so
the closed form gets a harmless argument where it is not wanted: what is thrown away must be finite, or its derivative is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial
from typing import Any

import numpy as np

from condyle.robot.angles import cos_sin
from condyle.robot.spatial import Array, product, vector
from condyle.tape.array import where

# 1/12, 1/720, ...: |B_2k| / (2k)! with Bernoulli's numbers B, from k = 1
BERNOULLI = (
    1 / 12,
    1 / 720,
    1 / 30240,
    1 / 1209600,
    1 / 47900160,
    691 / 1307674368000,
    1 / 74724249600,
    3617 / 10670622842880000,
    43867 / 5109094217170944000,
    174611 / 802857662698291200000,
    77683 / 14101100039391805440000,
    236364091 / 1693824136731743669452800000,
)


def even(t: Any, series: Sequence[float], closed: Callable[[Any], Any], below: float = 1.0) -> Any:
    """series[0] + series[1] t + ... for t < below, else closed(t)."""
    near = t < below
    if isinstance(near, (bool, np.bool_)) and not near:
        return closed(t)
    total: Any = series[-1]
    for coefficient in reversed(series[:-1]):
        total = total * t + coefficient
    return total if isinstance(near, (bool, np.bool_)) else where(near, total, closed(where(near, below, t)))


def alternating(first: int) -> list[float]:
    """1/n! - t/(n+2)! + t^2/(n+4)! - ..., n = first: nine terms are exact to the last digit up to t = 1, derivatives included."""
    return [(1.0 - 2.0 * (k % 2)) / factorial(first + 2 * k) for k in range(9)]


def series_derivative(series: Sequence[float]) -> list[float]:
    """The power series of the derivative."""
    return [k * c for k, c in enumerate(series) if k > 0]


def _cos_sin(angle: Any) -> tuple[Any, Any]:
    """(cos, sin) of a traced angle, or of a number without the C library."""
    return cos_sin(float(angle)) if isinstance(angle, float) else (np.cos(angle), np.sin(angle))


def half_sine(t: Any) -> Any:
    """s = sin(angle/2) / angle."""
    return even(
        t, [c * 0.5 * 0.25**k for k, c in enumerate(alternating(1))], lambda t: _cos_sin(0.5 * np.sqrt(t))[1] / np.sqrt(t)
    )


def half_cosine(t: Any) -> Any:
    """cos(angle/2)."""
    return even(t, [c * 0.25**k for k, c in enumerate(alternating(0))], lambda t: _cos_sin(0.5 * np.sqrt(t))[0])


def quaternion_exp(w: Array) -> Array:
    """The quaternion of the rotation by |w| about w."""
    t = product(w, w)
    s = half_sine(t)
    return vector(w[0] * s, w[1] * s, w[2] * s, half_cosine(t))


def quaternion_log(q: Array) -> Array:
    """The rotation vector of a quaternion, at most pi long. Its length does not matter, nor its sign: both are one rotation.

    With y = tan^2(angle/4), it is  4 atan(sqrt y) / sqrt y / (|q| + |w|)  times (x, y, z), which loses no digits at zero, nor at
    pi, where either of two answers is right. Where the series is used, the angle is below 0.7.
    """
    n, w = q[:3], q[3]
    reach = np.sqrt(n @ n + w * w) + abs(w)
    series = [(1.0 - 2.0 * (k % 2)) / (2 * k + 1) for k in range(12)]
    y = (n @ n) / (reach * reach)
    scale = 4.0 * even(y, series, lambda y: np.arctan2(np.sqrt(y), 1.0) / np.sqrt(y), below=1.0 / 32.0) / reach
    return n * where(w < 0.0, -scale, scale)


def quaternion_of(R: Array) -> Array:
    """A quaternion of a rotation matrix, not of length one: of four formulas the one whose own entry is the largest."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = R
    x = vector(1.0 + xx - yy - zz, xy + yx, xz + zx, zy - yz)
    y = vector(xy + yx, 1.0 - xx + yy - zz, yz + zy, xz - zx)
    z = vector(xz + zx, yz + zy, 1.0 - xx - yy + zz, yx - xy)
    w = vector(zy - yz, xz - zx, yx - xy, 1.0 + xx + yy + zz)
    best, largest = x, x[0]
    for k, other in ((1, y), (2, z), (3, w)):
        better = other[k] > largest
        best, largest = where(better, other, best), where(better, other[k], largest)
    return best


def quaternion_product(a: Array, b: Array) -> Array:
    """a b: first b, then a."""
    (ax, ay, az, aw), (bx, by, bz, bw) = a, b
    return vector(
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by + ay * bw + az * bx - ax * bz,
        aw * bz + az * bw + ax * by - ay * bx,
        aw * bw - ax * bx - ay * by - az * bz,
    )


def conjugate(q: Array) -> Array:
    """The inverse of a unit quaternion."""
    return vector(-q[0], -q[1], -q[2], q[3])


def normalized(q: Array) -> Array:
    """The quaternion with length one."""
    return q * (1.0 / np.sqrt(product(q, q)))


# with W = [w]: a body that turns from 0 to w in unit time, its axes moving at v, ends at  (1 + b W + c W^2) v,
# and the inverse of that matrix is  1 - W/2 + e W^2


def b(t: Any) -> Any:
    """(1 - cos angle) / angle^2."""
    s = half_sine(t)
    return 2.0 * (s * s)


def c(t: Any) -> Any:
    """(angle - sin angle) / angle^3."""
    return even(t, alternating(3), lambda t: (1.0 - 2.0 * (half_sine(t) * half_cosine(t))) / t)


def e(t: Any) -> Any:
    """(1 - (angle/2) cot(angle/2)) / angle^2."""
    return even(t, BERNOULLI, lambda t: (1.0 - half_cosine(t) / (2.0 * half_sine(t))) / t)


def b_derivative(t: Any) -> Any:
    """db/dt."""
    return even(t, series_derivative(alternating(2)), lambda t: (0.5 - b(t)) / t - 0.5 * c(t))


def c_derivative(t: Any) -> Any:
    """dc/dt."""
    return even(t, series_derivative(alternating(3)), lambda t: 0.5 * (b(t) - 3.0 * c(t)) / t)


def e_derivative(t: Any) -> Any:
    """de/dt."""
    return even(t, series_derivative(BERNOULLI), lambda t: (0.125 - 1.5 * e(t)) / t + 0.5 * (e(t) * e(t)))
