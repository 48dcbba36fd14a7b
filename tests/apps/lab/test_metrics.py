"""Metrics against closed forms of the second-order step response."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from condyle.apps.lab.metrics import NAMES, metrics, score
from condyle.errors import ShapeError

OMEGA = 10.0


def response(zeta, h=1e-4, seconds=4.0):
    """(t, y) of y'' + 2 zeta w y' + w^2 y = w^2 from rest."""
    t = h * np.arange(round(seconds / h))
    wd = OMEGA * math.sqrt(1.0 - zeta**2)
    decay = np.exp(-zeta * OMEGA * t)
    return t, 1.0 - decay * (np.cos(wd * t) + zeta / math.sqrt(1.0 - zeta**2) * np.sin(wd * t))


def measured(zeta, scale=1.0, offset=0.0):
    t, y = response(zeta)
    reference = np.full((len(t), 1), offset + scale)
    reference[0] = offset  # the step is at the second row
    return metrics(t, reference, (offset + scale * y)[:, None])


@pytest.mark.parametrize("zeta", [0.2, 0.5, 0.7])
def test_overshoot_is_that_of_the_second_order_response(zeta):
    assert measured(zeta)["overshoot"] == pytest.approx(math.exp(-math.pi * zeta / math.sqrt(1 - zeta**2)), abs=1e-6)


def test_settling_is_where_the_response_stays_within_two_percent():
    zeta = 0.5
    t, y = response(zeta)
    # the last crossing of the band, found on the closed form by bisection between its extrema
    outside = t[np.abs(y - 1.0) > 0.02][-1]
    low, high = outside, outside + 1e-4
    for _ in range(60):
        middle = 0.5 * (low + high)
        wd = OMEGA * math.sqrt(1 - zeta**2)
        value = math.exp(-zeta * OMEGA * middle) * (math.cos(wd * middle) + zeta / math.sqrt(1 - zeta**2) * math.sin(wd * middle))
        low, high = (middle, high) if abs(value) > 0.02 else (low, middle)
    assert measured(zeta)["settling_time"] == pytest.approx(high, abs=3e-4)


def test_integrals_of_an_exponential_error():
    h, rate = 1e-4, 5.0
    t = h * np.arange(60_000)
    e = np.exp(-rate * t)
    found = metrics(t, np.zeros((len(t), 1)), e[:, None])
    assert found["iae"] == pytest.approx(1 / rate, rel=1e-3)
    assert found["ise"] == pytest.approx(1 / (2 * rate), rel=1e-3)
    assert found["itae"] == pytest.approx(1 / rate**2, rel=1e-3)
    assert found["max_error"] == 1.0 and math.isnan(found["overshoot"])


def test_rise_time_of_a_first_order_response():
    h, lag = 1e-4, 0.2
    t = h * np.arange(40_000)
    reference = np.ones((len(t), 1))
    reference[0] = 0.0
    found = metrics(t, reference, (1.0 - np.exp(-t / lag))[:, None])
    assert found["rise_time"] == pytest.approx(lag * math.log(9.0), rel=1e-6)
    assert found["settling_time"] == pytest.approx(lag * math.log(50.0), abs=3e-4)
    assert found["overshoot"] == 0.0


@given(st.floats(0.01, 3.0), st.floats(-2.0, 2.0), st.booleans())
def test_step_metrics_do_not_depend_on_size_place_and_sign(scale, offset, down):
    one, other = measured(0.3), measured(0.3, -scale if down else scale, offset)
    for name in ("overshoot", "rise_time", "settling_time"):
        assert other[name] == pytest.approx(one[name], rel=1e-6, abs=1e-9)


def test_effort_smoothness_and_energy_of_a_sine():
    h = 1e-4
    t = h * np.arange(20_000)  # two periods of 1 s
    u, v = 3.0 * np.sin(2 * np.pi * t), np.cos(2 * np.pi * t)
    found = metrics(t, np.zeros((len(t), 1)), np.zeros((len(t), 1)), velocity=v[:, None], torque=u[:, None])
    assert found["effort"] == pytest.approx(9.0, rel=1e-6)
    assert found["mean_torque"] == pytest.approx(3.0 * 2 / np.pi, rel=1e-6)
    assert found["peak_torque"] == pytest.approx(3.0, rel=1e-6)
    assert found["torque_rate"] == pytest.approx(3.0 * 2 * np.pi / math.sqrt(2), rel=1e-4)
    assert found["jerk"] == pytest.approx((2 * np.pi) ** 2 / math.sqrt(2), rel=1e-4)
    assert found["energy"] == pytest.approx(2.0 * 3.0 / np.pi, rel=1e-4)


def test_the_score_is_that_of_the_facts():
    found = dict.fromkeys(NAMES, float("nan")) | {"iae": 0.1, "mean_speed": 0.5, "final_error": 0.02, "overshoot": 0.15}
    assert score(found) == pytest.approx(3 * 0.1 + 0.2 * 0.5 + 0.02 + 0.7 * 0.15 + 40 * 0.05)
    assert score(found | {"overshoot": float("nan")}) == pytest.approx(0.42)


def test_wrong_shapes_are_named():
    with pytest.raises(ShapeError, match="reference and response"):
        metrics(np.arange(3.0), np.zeros((3, 2)), np.zeros((3, 1)))


def rows(t, stops, times):
    """Waypoints at times, joined by quintic curves: it rests between the pairs of times."""
    found = np.full(len(t), float(stops[0]))
    for a, b, (begin, end) in zip(stops[:-1], stops[1:], times, strict=True):
        s = np.clip((t - begin) / (end - begin), 0.0, 1.0)
        found += (b - a) * s**3 * (10.0 + s * (6.0 * s - 15.0))
    return found


def overshoot(t, r, y):
    return metrics(t, r[:, None], y[:, None])["overshoot"]


@pytest.mark.parametrize("levels", [(1.0, 0.0), (1.0, -1.0, 1.0), (1.0, 0.25), (1.0, 2.0, 3.5), (-0.5, 0.5, 0.6, -2.0)])
def test_overshoot_counts_by_the_travel_of_each_step(levels):
    """Steps that turn back or go on: each has the overshoot of the second-order response, for its own travel."""
    zeta, hold = 0.4, 25_000
    t, y = response(zeta, seconds=2.5)
    h, count = t[1], len(levels)
    wide = h * np.arange(count * hold)
    reference, found, before = np.zeros(len(wide)), np.zeros(len(wide)), 0.0
    for k, level in enumerate(levels):
        reference[k * hold :] = level
        found[k * hold :] += (level - before) * np.concatenate([y, np.ones(len(wide) - k * hold)])[: len(wide) - k * hold]
        before = level
    reference[0] = 0.0
    wanted = math.exp(-math.pi * zeta / math.sqrt(1 - zeta**2))
    assert overshoot(wide, reference, found) == pytest.approx(wanted, rel=2e-3)


@given(
    st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=4), st.floats(0.2, 4.0), st.integers(0, 60), st.integers(0, 1),
    st.floats(0.0, 0.4),
)  # fmt: skip
def test_a_response_that_lags_behind_does_not_overshoot(stops, seconds, lag, noise, pause):
    """Wherever a record ends: the reference, some rows late, never passes where the reference turns back."""
    t = 1e-3 * np.arange(round(seconds * 1e3))
    times = [(k * (1.0 + pause), k * (1.0 + pause) + 1.0) for k in range(len(stops) - 1)]
    r = rows(t, stops, times)
    late = np.concatenate([np.full(lag, r[0]), r])[: len(t)]
    assert not overshoot(t, r, late) > 1e-9
    # nor does noise of a recorded reference count as turns
    extent = np.ptp(r)
    r = r + noise * 1e-3 * extent * np.sin(1e4 * np.arange(len(r)))
    assert not overshoot(t, r, late) > 3e-3 + 2e-3 * noise / 0.02


@pytest.mark.parametrize("end", [1.05, 1.3, 1.9, 2.0, 2.5, 3.1])
def test_overshoot_of_a_reference_that_turns_back_is_that_of_the_turn(end):
    """A response that passes the turn by 7 % of the way there, and follows else; cut anywhere after it."""
    t = 1e-3 * np.arange(round(end * 1e3))
    r = rows(t, (0.2, 0.7, 0.2), [(0.0, 1.0), (1.0, 2.0)])
    y = r + 0.07 * 0.5 * np.exp(-(((t - 1.0) / 0.02) ** 2))
    assert overshoot(t, r, y) == pytest.approx(0.07, abs=1e-3)
    assert overshoot(t, -r, -y) == overshoot(t, r, y)


def test_overshoot_of_a_sine_with_a_gain():
    """Of the first quarter it is the gain less one, of half periods half of that; one that is under way has none."""
    t = 1e-3 * np.arange(6000)
    assert overshoot(t, np.sin(t), 1.2 * np.sin(t)) == pytest.approx(0.2, rel=1e-5)
    assert overshoot(t, np.cos(t), 1.2 * np.cos(t)) == pytest.approx(0.1, rel=1e-5)
    early = t < 1.0
    assert math.isnan(overshoot(t[early], np.sin(t[early]), 1.2 * np.sin(t[early])))
