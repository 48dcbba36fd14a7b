"""Linear algebra in a written order against NumPy's, and elementary functions of numbers against MPFR's true values."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from condyle.robot import ordered, rounded

CLOSE = 1e-11  # relative: some hundred operations in float64


def matrix(seed: int, rows: int, columns: int, rank: int | None = None) -> np.ndarray:
    """A random matrix, of a lower rank if asked."""
    rng = np.random.default_rng(seed)
    if rank is None:
        return rng.normal(size=(rows, columns))
    return rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, columns))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rows, columns, rank", [(6, 6, None), (9, 4, None), (4, 9, None), (7, 7, 3), (8, 5, 2), (3, 8, 2)])
def test_least_norm_and_singular_values(seed: int, rows: int, columns: int, rank: int | None) -> None:
    A, b = matrix(seed, rows, columns, rank), matrix(seed + 100, rows, 1)[:, 0]
    np.testing.assert_allclose(ordered.least_norm(A, b, 1e-10), np.linalg.lstsq(A, b, rcond=1e-10)[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(ordered.singular_values(A), np.linalg.svd(A, compute_uv=False), rtol=CLOSE, atol=CLOSE)
    assert ordered.rank(A, 1e-9) == (min(rows, columns) if rank is None else rank)


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_inverse_and_determinant(n: int) -> None:
    A = matrix(n, n, n)
    np.testing.assert_allclose(ordered.inverse(A) @ A, np.eye(n), atol=CLOSE)
    np.testing.assert_allclose(ordered.determinant(A), np.linalg.det(A), rtol=CLOSE)
    A[0] = 0.0
    assert ordered.determinant(A) == 0.0
    with pytest.raises(ordered.SingularError, match="no inverse"):
        ordered.inverse(A)


def test_fit() -> None:
    y = np.linspace(-1.0, 1.0, 97)
    basis, b = np.polynomial.chebyshev.chebvander(y, 9), np.exp(y)
    np.testing.assert_allclose(ordered.fit(basis, b), np.linalg.lstsq(basis, b, rcond=None)[0], atol=CLOSE)
    # a column twice: the second is left out
    twice = np.column_stack([basis, basis[:, 2]])
    np.testing.assert_allclose(twice @ ordered.fit(twice, b), b, atol=1e-9)


TRUE = {"atan": mpmath.atan, "exp": mpmath.exp, "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh}
INSIDE = {"asin": mpmath.asin, "acos": mpmath.acos}
POSITIVE = {"log": mpmath.log, "log10": mpmath.log10}


def check(name: str, x: float, true: object) -> None:
    with mpmath.workprec(400):
        assert getattr(rounded, name)(x) == float(true(mpmath.mpf(x))), (name, x)  # type: ignore[operator]


@given(st.floats(-30.0, 30.0), st.floats(-1.0, 1.0), st.floats(1e-300, 1e300))
def test_functions_are_correctly_rounded(x: float, inside: float, positive: float) -> None:
    for names, value in ((TRUE, x), (INSIDE, inside), (POSITIVE, positive)):
        for name, true in names.items():
            if abs(value) > 1e-300:
                check(name, value, true)


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.floats(-5.0, 5.0))
def test_angles_and_powers_are_correctly_rounded(y: float, x: float, p: float) -> None:
    with mpmath.workprec(400):
        if min(abs(y), abs(x)) > 1e-200:
            assert rounded.atan2(y, x) == float(mpmath.atan2(y, x))
        if abs(y) > 1e-50:
            assert rounded.power(abs(y), p) == float(mpmath.mpf(abs(y)) ** mpmath.mpf(p))


def test_special_values_are_those_of_the_c_library() -> None:
    assert rounded.atan2(0.0, -1.0) == math.pi and rounded.atan2(-0.0, -1.0) == -math.pi and rounded.acos(0.0) == math.pi / 2
    assert rounded.exp(math.inf) == math.inf and rounded.exp(-1000.0) == 0.0 and rounded.tanh(math.inf) == 1.0
    assert rounded.asin(-1.0) == -math.pi / 2 and rounded.acos(1.0) == 0.0 and rounded.power(-2.0, 3) == -8.0
    assert rounded.log(8.0, 2.0) == 3.0 and rounded.log10(1000.0) == 3.0
    for bad in (lambda: rounded.log(-1.0), lambda: rounded.asin(2.0), lambda: rounded.power(-2.0, 0.5)):
        with pytest.raises(ValueError):
            bad()
    with pytest.raises(OverflowError):
        rounded.exp(1000.0)
