"""The functions of the squared angle, against very many digits, on both sides of where their series ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.dynamics import rotations

mpmath = pytest.importorskip("mpmath")

# in units of the last place: a few roundings; where the closed form begins it has subtracted nearly equal numbers
ROUNDING = 4
CANCELLATION = 400

SQUARED_ANGLES = [1e-300, 1e-20, 1e-3, 0.25, 0.99999, 1.00001, 2.0, 5.0, 9.0]


def b(t: Any) -> Any:
    return (1 - mpmath.cos(mpmath.sqrt(t))) / t


def c(t: Any) -> Any:
    return (1 - mpmath.sin(mpmath.sqrt(t)) / mpmath.sqrt(t)) / t


def e(t: Any) -> Any:
    return (1 - mpmath.sqrt(t) / 2 * mpmath.cot(mpmath.sqrt(t) / 2)) / t


VALUES = [
    (rotations.half_sine, lambda t: mpmath.sin(mpmath.sqrt(t) / 2) / mpmath.sqrt(t), ROUNDING),
    (rotations.half_cosine, lambda t: mpmath.cos(mpmath.sqrt(t) / 2), ROUNDING),
    (rotations.b, b, ROUNDING),
    (rotations.c, c, CANCELLATION),
    (rotations.e, e, CANCELLATION),
    (rotations.b_derivative, lambda t: mpmath.diff(b, t, h=t * mpmath.mpf(10) ** -90), CANCELLATION),
    (rotations.c_derivative, lambda t: mpmath.diff(c, t, h=t * mpmath.mpf(10) ** -90), CANCELLATION),
    (rotations.e_derivative, lambda t: mpmath.diff(e, t, h=t * mpmath.mpf(10) ** -90), CANCELLATION),
]


@pytest.mark.parametrize(("ours", "exact", "ulps"), VALUES, ids=[row[0].__name__ for row in VALUES])
def test_value(ours: Callable[..., Any], exact: Callable[..., Any], ulps: int) -> None:
    compiled = cd.function(lambda t: ours(t), t=())(np.array(SQUARED_ANGLES))
    with mpmath.workdps(1000):
        true = [float(exact(mpmath.mpf(t))) for t in SQUARED_ANGLES]
    for t, naive, traced, expected in zip(SQUARED_ANGLES, map(ours, SQUARED_ANGLES), compiled, true, strict=True):
        assert abs(float(naive) - expected) <= ulps * np.spacing(abs(expected)), f"at {t}"
        assert abs(traced - expected) <= ulps * np.spacing(abs(expected)), f"compiled, at {t}"


def test_zero_is_not_special() -> None:
    assert [float(f(0.0)) for f, _, _ in VALUES] == [0.5, 1.0, 1 / 2, 1 / 6, 1 / 12, -1 / 24, -1 / 120, 1 / 720]


def test_bernoulli_numbers() -> None:
    with mpmath.workdps(50):
        true = [float(abs(mpmath.bernoulli(2 * k)) / mpmath.factorial(2 * k)) for k in range(1, 1 + len(rotations.BERNOULLI))]
    assert list(rotations.BERNOULLI) == true
