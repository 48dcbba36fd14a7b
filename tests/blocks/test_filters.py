"""Filters, limiters, delays and PID against their closed forms, and in a kernel with the same bits as in Python."""

from typing import Any

import numpy as np
import pytest
from blocks.stepping import signal, updates
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

import condyle as cd
from condyle.blocks.delay import Delay
from condyle.blocks.discretization import decay, mean_decay, second_order
from condyle.blocks.filters import Butterworth, Derivative, LowPass, MovingAverage
from condyle.blocks.limiters import Backlash, DeadBand, Quantizer, RateLimit, Saturation, Slew
from condyle.blocks.pid import PID, Integrator
from condyle.errors import ControlError

EXACT = 1e-12  # of closed forms in float64, relative to a step of 1
DT = 0.01
T = DT * np.arange(1, 201)  # ends of ticks

positive = st.floats(1e-3, 1e3)


# ---- equations over a tick


@settings(deadline=None, max_examples=200)
@given(positive, st.one_of(st.floats(0.0, 30.0), st.floats(0.9999, 1.0001), st.just(1.0)), st.floats(1e-5, 10.0))
def test_second_order_is_the_matrix_exponential(omega: float, zeta: float, dt: float) -> None:
    A = np.array([[0.0, 1.0], [-omega * omega, -2.0 * zeta * omega]])
    # in units in which omega is 1, where the entries have one scale
    S = np.diag([1.0, omega])
    exact = expm(np.linalg.inv(S) @ A @ S * dt)
    by = second_order(omega, zeta, dt)
    found = np.linalg.inv(S) @ np.array([[by.ee, by.er], [by.re, by.rr]], dtype=float) @ S
    # scipy's own error grows with the norm
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12 * (1.0 + omega * dt * (1.0 + zeta)))


@given(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3))
def test_decay_and_its_mean(dt: float, lag: float) -> None:
    assert decay(dt, lag) == pytest.approx(np.exp(-dt / lag), rel=1e-15)
    assert mean_decay(dt, lag) == pytest.approx(-np.expm1(-dt / lag) / (dt / lag), rel=1e-12)
    assert decay(dt, 0.0) == 0.0 and mean_decay(dt, 0.0) < 1e-20


# ---- filters


def test_step_responses_are_exact() -> None:
    cutoff = 1.7
    w = 2.0 * np.pi * cutoff
    u = np.ones(len(T))
    np.testing.assert_allclose(signal(LowPass((), cutoff, initial=0.0), u, DT), 1.0 - np.exp(-w * T), atol=EXACT)
    s = w / np.sqrt(2.0)
    butterworth = 1.0 - np.exp(-s * T) * (np.cos(s * T) + np.sin(s * T))
    np.testing.assert_allclose(signal(Butterworth((), cutoff, initial=0.0), u, DT), butterworth, atol=EXACT)
    # the mean of exp(-t / lag) / lag over each tick
    lag = 0.08
    mean = (np.exp(-(T - DT) / lag) - np.exp(-T / lag)) / DT
    np.testing.assert_allclose(signal(Derivative((), lag, initial=0.0), u, DT), mean, atol=1e-10)


def test_a_filter_starts_at_its_first_input() -> None:
    for block in (LowPass(2, 3.0), Butterworth(2, 3.0), MovingAverage(2, 5), RateLimit(2, 1.0), Backlash(2, 0.1), Delay(2, 0.05)):
        out = signal(block, [[3.0, -1.0]] * 4, DT)
        np.testing.assert_allclose(out, [[3.0, -1.0]] * 4, rtol=1e-15)
    np.testing.assert_allclose(signal(Derivative(2, 0.1), [[3.0, -1.0]] * 4, DT), 0.0)


def test_the_derivative_of_a_ramp_is_its_slope() -> None:
    ramp = 3.0 * DT * np.arange(400)
    assert signal(Derivative((), 0.05), ramp, DT)[-1] == pytest.approx(3.0, rel=1e-12)
    np.testing.assert_allclose(signal(Derivative((), 0.0), ramp, DT)[1:], 3.0, rtol=1e-9)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30), st.integers(1, 8))
def test_moving_average(values: list[float], count: int) -> None:
    padded = [values[0]] * (count - 1) + values
    expected = [np.mean(padded[k : k + count]) for k in range(len(values))]
    np.testing.assert_allclose(signal(MovingAverage((), count), values, DT), expected, atol=1e-13)


# ---- limits


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=40), st.floats(0.1, 20.0), st.floats(0.1, 20.0))
def test_rate_limit(values: list[float], rising: float, falling: float) -> None:
    y = signal(RateLimit((), rising, falling), values, DT)
    change = np.diff(y) / DT
    assert change.max() <= rising * (1 + 1e-9) and change.min() >= -falling * (1 + 1e-9)
    # it reaches what it can reach
    for k in range(1, len(values)):
        if -falling * DT < values[k] - y[k - 1] < rising * DT:
            assert y[k] == pytest.approx(values[k], abs=1e-12)


def test_slew_is_a_trapezoid_that_stops_at_its_target() -> None:
    slew = Slew((), 1.0, 1.0, initial=0.0)
    loop = cd.Loop(None, lambda t, u: {"y": slew(u[0])}, dt=DT, u=1)
    rng, n = np.random.default_rng(0), 200
    target, rate, acceleration = rng.uniform(-3, 3, n), rng.uniform(0.2, 5, n), 10.0 ** rng.uniform(-0.3, 2, n)
    numbers = {"slew.rate": rate, "slew.acceleration": acceleration}
    y = loop.rollout(loop.state().repeat(n).reshape(-1, n).T, target[:, None, None], 3000, parameters=numbers, record=["y"])["y"]
    speed = np.diff(y, prepend=0.0, axis=1) / DT
    assert np.all(np.abs(speed).max(axis=1) <= rate * (1 + 1e-9))
    assert np.all(np.abs(np.diff(speed, prepend=0.0, axis=1)).max(axis=1) <= acceleration * DT * (1 + 1e-6) + 1e-9)
    np.testing.assert_allclose(y[:, -1], target, atol=1e-9)
    assert np.all(np.abs(y).max(axis=1) <= np.abs(target) * (1 + 1e-9))
    # the time of the trapezoid, or of the triangle that does not reach the rate, within a few ticks of rounding
    distance = np.abs(target)
    triangle = distance < rate * rate / acceleration
    ideal = np.where(triangle, 2.0 * np.sqrt(distance / acceleration), distance / rate + rate / acceleration)
    there = np.argmax(np.abs(y - target[:, None]) < 1e-6 + 1e-3 * distance[:, None], axis=1) * DT
    assert np.all(there < ideal + 5 * DT)


def test_quantiser_dead_band_backlash_and_saturation() -> None:
    u = np.array([-2.6, -0.4, 0.0, 0.26, 1.0, 7.3])
    np.testing.assert_allclose(signal(Quantizer(0.5), u, DT), [-2.5, -0.5, 0.0, 0.5, 1.0, 7.5])
    np.testing.assert_allclose(signal(Quantizer(0.0), u, DT), u)
    np.testing.assert_allclose(signal(DeadBand(0.4), u, DT), [-2.2, 0.0, 0.0, 0.0, 0.6, 6.9])
    np.testing.assert_allclose(signal(Saturation(-1.0, 2.0), u, DT), np.clip(u, -1.0, 2.0))
    np.testing.assert_allclose(signal(Backlash((), 0.2), [0.0, 0.05, 0.3, 0.25, 0.15, 0.0], DT), [0.0, 0.0, 0.2, 0.2, 0.2, 0.1])


# ---- delay


@settings(deadline=None)
@given(st.floats(0.0, 0.1), st.booleans())
def test_delay(delay: float, rounded: bool) -> None:
    u = np.sin(np.arange(60.0))
    y = signal(Delay((), delay, 0.1, rounded=rounded), u, DT)
    age = np.rint(delay / DT) if rounded else delay / DT
    np.testing.assert_allclose(y, np.interp(np.arange(60.0) - age, np.arange(60.0), u), atol=1e-12)


def test_a_delay_beyond_its_maximum_is_refused() -> None:
    with pytest.raises(ControlError, match=r"'delay.delay' must be .*at most 0.02 s"):
        Delay(1, 0.05, 0.02)
    with pytest.raises(ControlError, match="more than 1024"):
        Delay(1, 5.0).prepare(1e-3)


# ---- integrators and PID


def test_integrator_and_its_anti_windup() -> None:
    np.testing.assert_allclose(signal(Integrator(()), np.ones(200), DT), T, atol=1e-12)
    assert signal(Integrator((), lower=-1.0, upper=0.5), np.ones(200), DT)[-1] == 0.5
    clamped, _ = updates(Integrator(()), [(1.0, -0.1)] * 5 + [(-1.0, -0.1)] * 5, DT)
    np.testing.assert_allclose(clamped, [0.0] * 5 + list(-DT * np.arange(1, 6)), atol=1e-15)
    back, _ = updates(Integrator((), anti_windup="back_calculation", tracking_time=0.5), [(1.0, -0.25)] * 3, DT)
    np.testing.assert_allclose(back, DT * 0.5 * np.arange(1, 4))
    with pytest.raises(ControlError, match="anti_windup must be one of"):
        Integrator(1, anti_windup="hope")


@pytest.mark.parametrize("anti_windup", ["clamping", "back_calculation", "none"])
def test_pid_regulates_and_does_not_wind_up(anti_windup: str) -> None:
    pid = PID((), 4.0, 2.0, 2.0, lower=-1.0, upper=1.0, anti_windup=anti_windup, tracking_time=0.2, derivative_lag=0.02)
    u, y, top = 0.0, 0.0, 0.0
    loop = cd.Loop(None, lambda t, y: {"push": pid(5.0, y[0])}, dt=DT, y=1)
    x, rate = loop.state(), 0.0
    for _ in range(3000):
        x, out = loop.step(x, np.array([y]), record=["push"])
        u = float(out["push"])
        assert -1.0 <= u <= 1.0
        rate += DT * (u - 0.3 - 1.5 * rate)
        y += DT * rate
        top = max(top, y)
    assert y == pytest.approx(5.0, abs=1e-6) or anti_windup == "none"
    # wound up, it overshoots much further
    assert (top > 5.5) == (anti_windup == "none"), top


def test_pid_by_hand() -> None:
    pid = PID(2, [1.0, 2.0], 0.5, 0.1)
    (first, second), _ = updates(pid, [tuple(map(np.array, ([1.0, 1.0], [0.0, 0.5], [0.2, 0.0])))] * 2, DT)
    np.testing.assert_allclose(first, [1.0 - 0.02, 1.0])
    np.testing.assert_allclose(second, [1.0 - 0.02 + 0.5 * DT, 1.0 + 0.25 * DT])


# ---- in a kernel


def test_the_same_bits_in_a_kernel_as_step_by_step() -> None:
    blocks = [
        LowPass(2, 5.0), Butterworth(2, 4.0), Derivative(2, 0.03), MovingAverage(2, 3), RateLimit(2, 2.0), Slew(2, 3.0, 9.0),
        Quantizer(0.1), DeadBand(0.2), Backlash(2, 0.1), Delay(2, 0.025, 0.04), Integrator(2, upper=0.05),
        Delay(2, 0.02, rounded=True, name="rounded", every=2), Saturation(-0.2, 0.3),
    ]  # fmt: skip
    pid = PID(2, 1.0, 0.5, 0.1, lower=-1.0, upper=1.0)

    def wired(t: Any, u: Any) -> Any:
        return {"all": np.concatenate([block(u) for block in blocks]), "other": pid(u, 0.5 * u)}

    loop = cd.Loop(None, wired, dt=DT, u=2)
    u = np.sin(np.arange(20.0)[:, None] * [0.7, 1.3])
    x = loop.state()
    out = loop.rollout(x, u, 20, record=["all", "pid", "delay"])
    for k in range(20):
        x, found = loop.step(x, u[k], record=["all", "pid", "delay"])
        np.testing.assert_array_equal(found["all"], out["all"][k])
    # delays are parameters
    fast, slow = (
        loop.rollout(loop.state(), u, 20, record=["delay"], parameters={"delay.delay": d})["delay"] for d in (0.0, 0.04)
    )
    np.testing.assert_allclose(fast, u)
    np.testing.assert_allclose(slow[4:], u[:-4])
    assert len(loop.plan.blocks) == len(blocks) + 1
    low = signal(LowPass(2, 5.0), u, DT)
    np.testing.assert_allclose(out["all"][:, :2], low, rtol=1e-12, atol=1e-14)
