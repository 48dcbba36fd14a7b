"""Point-to-point profiles: limits, closed forms of the duration, exact ends, derivatives, the same values when traced."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condyle as cd
from condyle.methods.planning.profiles import Profile, jerk_limited, quintic, trapezoidal

SPEED = np.array([2.16, 2.16, 3.15, 3.2, 3.2, 3.2])  # rad/s, of the UR3
ACCELERATION, JERK = 2.0, 12.0
ROUNDING = 1e-12  # relative: a few operations in float64
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "quintic": (quintic, {"speed": SPEED, "acceleration": ACCELERATION}),
    "trapezoidal": (trapezoidal, {"speed": SPEED, "acceleration": ACCELERATION}),
    "jerk_limited": (jerk_limited, {"speed": SPEED, "acceleration": ACCELERATION, "jerk": JERK}),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def moves(kind: str, count: int, seed: int = 0) -> Profile:
    """Random moves of the UR3, short and long."""
    rng = np.random.default_rng(seed)
    start = rng.uniform(-6.0, 6.0, (count, 6))
    end = start + rng.normal(size=(count, 6)) * 10.0 ** rng.uniform(-4.0, 0.7, (count, 1))
    make, limits = KINDS[kind]
    made: Profile = make(start, end, **limits)
    return made


@each_kind
def test_10000_moves_keep_their_limits_and_reach_one(kind: str) -> None:
    many = moves(kind, 10_000)
    t = np.linspace(0.0, 1.0, 41)[:, None] * many.duration
    _, v, a = many.at(t)
    speed, acceleration = np.max(np.abs(v) / SPEED, axis=(0, 2)), np.max(np.abs(a) / ACCELERATION, axis=(0, 2))
    assert np.all(speed <= 1.0 + ROUNDING) and np.all(acceleration <= 1.0 + ROUNDING)
    if kind == "jerk_limited":
        # the acceleration is piecewise linear, so its differences are bounded by the jerk
        jerk = np.max(np.abs(np.diff(a, axis=0)), axis=2) / (np.diff(t, axis=0) * JERK)
        assert np.max(jerk) <= 1.0 + 1e-9
        assert np.all(np.maximum(np.maximum(speed, acceleration), np.max(jerk, axis=0)) > 0.95)
    else:
        # the peaks of the quintic's acceleration lie between the samples
        assert np.all(np.maximum(speed, acceleration) > 0.99)


@each_kind
def test_ends_are_exact_and_at_rest(kind: str) -> None:
    many = moves(kind, 200)
    for t, q in ((0.0, many.start), (many.duration, many.end), (-1.0, many.start), (many.duration + 1.0, many.end)):
        position, velocity, acceleration = many.at(t)
        assert np.array_equal(position, q) and not np.any(velocity)
        outside = np.any(t < 0.0) or np.any(t > many.duration)
        assert not outside or not np.any(acceleration)


@each_kind
def test_derivatives_are_derivatives(kind: str) -> None:
    many = moves(kind, 300, seed=1)
    h = 1e-6 * many.duration
    t = np.linspace(0.013, 0.987, 37)[:, None] * many.duration
    before, at, after = many.at(t - h), many.at(t), many.at(t + h)
    scale = np.max(np.abs(many.end - many.start), axis=-1)[:, None] / many.duration[:, None]
    for k in (0, 1):
        difference = (after[k] - before[k]) / (2.0 * h)[:, None]
        error = np.abs(difference - at[k + 1]) / (scale / many.duration[:, None] ** k)
        # where a phase changes within h the second derivative jumps
        assert np.mean(error < 1e-4) > 0.999


def test_positions_and_velocities_are_continuous_between_phases() -> None:
    for kind in KINDS:
        many = moves(kind, 300, seed=2)
        for begin in (*many.begins[1:], 0.5 * many.duration):
            left, right = many.at(begin * (1.0 - 1e-13)), many.at(begin * (1.0 + 1e-13))
            for k in (0, 1) if kind == "trapezoidal" else (0, 1, 2):
                np.testing.assert_allclose(left[k], right[k], atol=1e-10)


@pytest.mark.parametrize(("distance", "duration"), [(4.0, 4.0 / 2.0 + 2.0 / 1.0), (1.0, 2.0), (-0.25, 1.0), (0.0, 0.0)])
def test_trapezoidal_duration(distance: float, duration: float) -> None:
    """D / V + V / A with V = 2 and A = 1, or 2 sqrt(D / A) below D = 4."""
    assert trapezoidal([0.0], [distance], speed=2.0, acceleration=1.0).duration == pytest.approx(duration, rel=ROUNDING)


@pytest.mark.parametrize(
    ("limits", "duration"),
    [
        ((1.0, 1.0, 1.0), 10.0 + 2.0),  # D / V + V / A + A / J
        ((1.0, 10.0, 1.0), 10.0 + 2.0),  # D / V + 2 sqrt(V / J): the acceleration is not reached
        ((np.inf, np.inf, 1.0), 2.0 * 2.0 * 5.0 ** (1 / 3)),  # 4 (D / (2 J))^(1/3)
        ((np.inf, 1.0, 1.0), 1.0 + np.sqrt(41.0)),  # A / J + sqrt((A / J)^2 + 4 D / A)
    ],
)
def test_jerk_limited_duration(limits: tuple[float, float, float], duration: float) -> None:
    """A distance of 10 with three, two and one limit reached."""
    speed, acceleration, jerk = limits
    move = jerk_limited([0.0], [10.0], speed=speed, acceleration=acceleration, jerk=jerk)
    assert move.duration == pytest.approx(duration, rel=ROUNDING)


@pytest.mark.parametrize("limits", [(1.0, 1.0, 1.0), (1.0, 10.0, 1.0), (20.0, 20.0, 1.0), (20.0, 1.0, 1.0)])
def test_no_jerks_reach_farther_in_the_same_time(limits: tuple[float, float, float]) -> None:
    """The largest distance in the time of the seven phases, by a linear program over 120 intervals of constant jerk."""
    optimize = pytest.importorskip("scipy.optimize")
    speed, acceleration, jerk = limits
    distance, N = 10.0, 120
    h = jerk_limited([0.0], [distance], speed=speed, acceleration=acceleration, jerk=jerk).duration / N
    age = np.arange(1, N + 1)[:, None] - np.arange(N)  # in intervals since the jerk of a column began
    active = age > 0
    a, v = h * active, h**2 * (age - 0.5) * active
    x = h**3 * (age[-1] ** 2 / 2.0 - age[-1] / 2.0 + 1.0 / 6.0)
    found = optimize.linprog(
        -x,
        A_ub=np.concatenate([a, -a, v]),
        b_ub=np.repeat([acceleration, acceleration, speed], N),
        A_eq=np.stack([a[-1], v[-1]]),
        b_eq=np.zeros(2),
        bounds=(-jerk, jerk),
    )
    # 120 intervals reach a little less; the speed between their ends may be a little more than its limit
    assert found.status == 0 and 0.98 * distance < -found.fun < 1.001 * distance


positive = st.floats(1e-3, 1e3)


@settings(deadline=None, max_examples=200)
@given(distance=st.floats(-1e3, 1e3), speed=positive, acceleration=positive, jerk=positive)
def test_a_limit_is_active_at_every_time(distance: float, speed: float, acceleration: float, jerk: float) -> None:
    """The necessary condition of the shortest time: speed, acceleration or jerk is at its limit in each phase."""
    move = jerk_limited([0.0], [distance], speed=speed, acceleration=acceleration, jerk=jerk)
    T = move.duration
    if abs(distance) < 1e-100:
        return
    t = np.linspace(0.0, T, 102)[1:-1]
    h = 1e-5 * T
    _, v, a = move.at(t)
    j = (move.at(t + h)[2] - move.at(t - h)[2]) / (2.0 * h)
    used = np.maximum(np.maximum(np.abs(v) / speed, np.abs(a) / acceleration), np.abs(j) / jerk)[:, 0]
    assert np.all(used <= 1.0 + 1e-6)
    assert np.mean(used > 1.0 - 1e-6) > 0.9  # all but those whose difference spans two phases
    large = jerk_limited([0.0], [distance], speed=speed, acceleration=acceleration, jerk=1e9)
    assert trapezoidal([0.0], [distance], speed=speed, acceleration=acceleration).duration <= large.duration <= T * (1 + ROUNDING)


def test_a_quintic_of_a_given_duration() -> None:
    move = quintic([0.0, 1.0], [1.0, -1.0], 2.0)
    u = 0.3
    s = 10.0 * u**3 - 15.0 * u**4 + 6.0 * u**5
    np.testing.assert_allclose(move.at(0.6).position, [s, 1.0 - 2.0 * s], rtol=ROUNDING)
    assert move.at(1.0).velocity[0] == pytest.approx(15.0 / 8.0 / 2.0, rel=ROUNDING)


@each_kind
def test_traced_values_are_those_of_numpy(kind: str) -> None:
    make, limits = KINDS[kind]
    move = make(np.zeros(6), np.array([1.0, -2.0, 0.3, 0.0, 3.0, -0.1]), **limits)
    compiled = cd.function(lambda t: tuple(move.at(t)), t=())
    t = np.concatenate([np.linspace(-0.5, move.duration + 0.5, 301), [0.0, move.duration]])
    for ours, theirs in zip(compiled(t), move.at(t), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-13)


@each_kind
def test_a_move_of_length_zero_stays(kind: str) -> None:
    make, limits = KINDS[kind]
    move = make(np.ones(6), np.ones(6), **limits)
    assert move.duration == 0.0
    for t in (-1.0, 0.0, 0.5):
        position, velocity, acceleration = move.at(t)
        assert np.array_equal(position, np.ones(6)) and not np.any(velocity) and not np.any(acceleration)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, [1.0, -1.0], [1.0, 2.0, 3.0], None, "fast"])
def test_bad_limits_are_one_sentence(bad: Any) -> None:
    with pytest.raises(cd.ControlError, match=r"^the limit of acceleration .*; got .*$") as caught:
        trapezoidal([0.0, 0.0], [1.0, 1.0], speed=1.0, acceleration=bad)
    assert "\n" not in str(caught.value)


def test_bad_moves_are_one_sentence() -> None:
    with pytest.raises(cd.ControlError, match="as many joints"):
        quintic([0.0, 0.0], [1.0], 1.0)
    with pytest.raises(cd.ControlError, match="must be finite"):
        quintic([0.0], [np.nan], 1.0)
    with pytest.raises(cd.ControlError, match="either a duration"):
        quintic([0.0], [1.0])
    with pytest.raises(cd.ControlError, match="duration of a quintic must be positive"):
        quintic([0.0], [1.0], 0.0)
    with pytest.raises(cd.ControlError, match="same number of moves"):
        quintic(np.zeros((2, 1)), np.zeros((3, 1)), 1.0)
