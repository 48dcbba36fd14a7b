"""Quaternions (w, x, y, z), as flight controllers write them, and products of vectors and matrices that skip zeros.

Numbers of an airframe are often zero, and a trace without their products is shorter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.robot.joints import rotation_of
from condyle.robot.spatial import vector

Array = Any


def quaternion_product(p: Array, q: Array) -> Array:
    """The product of two quaternions (w, x, y, z)."""
    a, b, c, d = p
    e, f, g, h = q
    if is_zero(e):
        return vector(-b * f - c * g - d * h, a * f - d * g + c * h, a * g + d * f - b * h, a * h - c * f + b * g)
    return vector(
        a * e - b * f - c * g - d * h,
        b * e + a * f - d * g + c * h,
        c * e + d * f + a * g - b * h,
        d * e - c * f + b * g + a * h,
    )


def conjugate(q: Array) -> Array:
    """The inverse of a unit quaternion."""
    return vector(q[0], -q[1], -q[2], -q[3])


def rotated(q: Array, v: Array) -> Array:
    """R v: a vector of body axes in the world."""
    w, n = q[0], q[1:4]
    half = plus_vectors(sparse_cross(n, v), [0.0 if is_zero(c) else w * c for c in v])
    return vector(*plus_vectors(list(v), [2.0 * c for c in sparse_cross(n, half)]))


def quaternion_of_angles(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """The quaternion of roll, pitch and yaw (about x, then y, then z of the world), rad."""
    c, s = np.cos(np.array([roll, pitch, yaw]) / 2.0), np.sin(np.array([roll, pitch, yaw]) / 2.0)
    q: np.ndarray = quaternion_product(
        quaternion_product(np.array([c[2], 0.0, 0.0, s[2]]), np.array([c[1], 0.0, s[1], 0.0])), np.array([c[0], s[0], 0.0, 0.0])
    )
    return q


def rotation(q: Array) -> Array:
    """R of a quaternion."""
    return rotation_of(vector(q[1], q[2], q[3], q[0]))


def small_rotation(q: Array, turn: Array) -> Array:
    """The quaternion (w, x, y, z) after a small rotation, a vector in body axes: to third order in its length."""
    moved = quaternion_product(q, vector(1.0 - 0.125 * (turn @ turn), *(turn * 0.5)))
    return moved * (1.0 / np.sqrt(moved @ moved))


# ---- products without what is zero


def is_zero(x: Any) -> bool:
    """Whether it is the number zero; a traced scalar is not."""
    return isinstance(x, (float, int)) and x == 0.0


def plus(a: Any, b: Any) -> Any:
    """a + b."""
    return b if is_zero(a) else a if is_zero(b) else a + b


def _product(a: Any, b: Any) -> Any:
    return 0.0 if is_zero(a) or is_zero(b) else a * b


def sparse_cross(a: Array, b: Array) -> list[Any]:
    """a x b."""
    return [plus(_product(a[i], b[j]), _product(_negated(a[j]), b[i])) for i, j in ((1, 2), (2, 0), (0, 1))]


def _negated(x: Any) -> Any:
    return 0.0 if is_zero(x) else -x


def plus_vectors(a: list[Any], b: list[Any]) -> list[Any]:
    """a + b, entry by entry."""
    return [plus(x, y) for x, y in zip(a, b, strict=True)]


def combination(a: np.ndarray, by: Any, b: np.ndarray, also: Any) -> list[Any]:
    """a * by + b * also for vectors of numbers a and b, without what is zero."""
    return [plus(_scaled(float(x), by), _scaled(float(y), also)) for x, y in zip(a, b, strict=True)]


def _scaled(number: float, x: Any) -> Any:
    return 0.0 if number == 0.0 else x if number == 1.0 else -x if number == -1.0 else x * number


def matrix_times(A: np.ndarray, v: Array) -> Array:
    """A v for a matrix of numbers, without its zeros."""
    rows: list[Any] = []
    for row in A:
        total: Any = 0.0
        for a, x in zip(row, v, strict=True):
            total = plus(total, _scaled(float(a), x))
        rows.append(total)
    return vector(*rows)
