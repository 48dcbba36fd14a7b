"""Noise is a function of seed, step and channel; it is normal, and its bits are known."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from condyle.errors import SimulationError
from condyle.runs.noise import _box_muller, _fractions, normal, uniform

# of 4,000 steps of 5 channels with the seed 42, on every computer
BITS = "1305a70496841bb672da62fb6d47f47588c1856eb9ffc89c91aeb81e077b210b"


@given(st.integers(0, 2**128 - 1), st.integers(0, 2**64 - 1), st.integers(0, 40), st.integers(0, 40))
def test_channels_are_independent_of_their_number(seed: int, step: int, few: int, more: int) -> None:
    a, b = normal(seed, step, few), normal(seed, step, few + more)
    assert a.shape == (few,) and b[:few].tobytes() == a.tobytes()
    assert normal(seed, step, few).tobytes() == a.tobytes()
    assert uniform(seed, step, few + more)[:few].tobytes() == uniform(seed, step, few).tobytes()


def test_mean_variance_and_independence() -> None:
    n = 4000
    z = np.array([normal(42, k, 5) for k in range(n)])
    # five standard errors of each
    assert np.all(np.abs(z.mean(axis=0)) < 5.0 / np.sqrt(n))
    assert np.all(np.abs((z * z).mean(axis=0) - 1.0) < 5.0 * np.sqrt(2.0 / n))
    assert abs((z**4).mean() - 3.0) < 5.0 * np.sqrt(96.0 / z.size)
    bound = 5.0 / np.sqrt(n)
    for shift in range(3):
        covariance = z[: n - shift].T @ z[shift:] / (n - shift)
        if shift == 0:
            np.fill_diagonal(covariance, 0.0)
        assert np.abs(covariance).max() < bound
    other = np.array([normal(43, k, 5) for k in range(n)])
    assert abs((z * other).mean()) < 5.0 / np.sqrt(z.size) and len(np.unique(z)) == z.size
    assert hashlib.sha256(z.tobytes()).hexdigest() == BITS


def test_uniform() -> None:
    u = np.concatenate([uniform(1, k, 10) for k in range(1000)])
    assert u.min() > 0.0 and u.max() <= 1.0 and abs(u.mean() - 0.5) < 5.0 / np.sqrt(12.0 * u.size)
    assert np.all(u * 2.0**53 == np.rint(u * 2.0**53))


def test_normal_has_the_same_bits_in_the_reference_backend() -> None:
    fractions = _fractions(9, 4, 100)
    reference = _box_muller().on("reference")(fractions[:, 0], fractions[:, 1])
    assert reference.tobytes() == normal(9, 4, 100).tobytes()
    assert np.allclose(reference, np.sqrt(-2.0 * np.log(fractions[:, 0])) * np.cos(2.0 * np.pi * fractions[:, 1]), atol=1e-14)


@pytest.mark.parametrize("given_", [(-1, 0, 1), (0, -1, 1), (0, 0, -1), (2**128, 0, 1), (0, 2**64, 1), (0.5, 0, 1), (0, 0, True)])
def test_wrong_seed_step_or_channels(given_: tuple[int, int, int]) -> None:
    with pytest.raises(SimulationError, match="whole number"):
        normal(*given_)
