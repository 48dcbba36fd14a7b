"""Time-optimal paths: straight ones against the trapezoid, a linear program, torque limits of the UR3, infeasible paths."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.methods.planning.paths import PathPoint, line, spline
from condyle.methods.planning.profiles import trapezoidal
from condyle.methods.planning.time_optimal import TimeOptimal, _rows, time_optimal

WAYPOINTS = np.array(
    [
        [0.0, -1.57, 1.57, -1.57, 0.0, 0.0],
        [0.8, -1.0, 1.2, -1.2, 0.5, 0.3],
        [1.2, -1.4, 1.8, -2.0, 0.2, 1.0],
        [0.3, -1.9, 1.0, -1.0, -0.5, 0.5],
    ]
)
SPEED = np.array([2.16, 2.16, 3.15, 3.2, 3.2, 3.2])
TORQUE = np.array([3.0, 16.0, 8.0, 1.5, 1.0, 0.5])  # N m: little more than gravity takes


@cache
def arm() -> Any:
    return cd.load("ur3")


@cache
def fastest(grid: int = 1000) -> TimeOptimal:
    return time_optimal(WAYPOINTS, robot=arm(), torque=TORQUE, grid=grid)


@pytest.mark.parametrize("speed", [0.3, 1.0, np.inf])
def test_a_straight_path_takes_the_time_of_the_trapezoid(speed: float) -> None:
    start, end = np.array([0.0, 1.0, -1.0]), np.array([1.0, -1.0, -0.8])
    limits: dict[str, Any] = {"speed": speed, "acceleration": np.array([1.0, 2.0, 0.3])}
    path, move = time_optimal(line(start, end), **limits), trapezoidal(start, end, **limits)
    assert path.duration == pytest.approx(move.duration, rel=1e-3)
    t = np.linspace(0.0, move.duration, 50)
    np.testing.assert_allclose(path.at(t).position, move.at(t).position, atol=1e-3)


def test_any_parametrisation_of_a_line_takes_the_same_time() -> None:
    """s + s^2 along the same line: the timing does not depend on s; as a function it is interpolated by a spline."""
    move = trapezoidal([0.0, 0.0], [2.0, -4.0], speed=1.5, acceleration=2.0)
    path = time_optimal(lambda s: np.array([2.0, -4.0]) * 0.5 * (s + s * s), speed=1.5, acceleration=2.0)
    assert path.duration == pytest.approx(move.duration, rel=1e-3)


def test_an_arc_in_two_joints_keeps_the_centripetal_acceleration() -> None:
    """On a long circle of radius r in joint space with |q''| <= A of each joint, the speed is at most about sqrt(A r)."""
    angle = 20.0 * np.pi
    path = time_optimal(lambda s: np.array([np.cos(angle * s), np.sin(angle * s)]), acceleration=1.0, grid=4000)
    _, v, a = path.at(np.linspace(0.0, path.duration, 5000))
    assert np.max(np.abs(a)) < 1.0 + 1e-3
    assert 1.0 <= np.max(np.linalg.norm(v, axis=-1)) < 2.0**0.25 + 1e-3  # |a| <= sqrt(2) A


def test_torque_limits_hold_and_one_is_active_nearly_everywhere() -> None:
    path = fastest(3000)
    q, v, a = path.at(np.linspace(0.0, path.duration, 3001))
    torque, speed = np.abs(arm().inverse_dynamics(q, v, a)) / TORQUE, np.abs(v) / SPEED
    used = np.max(np.concatenate([torque, speed], axis=1), axis=1)
    assert np.max(used) < 1.0 + 1e-4  # between points of the grid the limits hold to second order
    assert np.mean(used > 0.99) > 0.99
    assert np.max(torque) > 0.999 and np.max(speed) > 0.999


def test_random_paths_keep_their_limits() -> None:
    rng, h = np.random.default_rng(0), np.linspace(0.0, 1.0, 300)
    for k in range(20):
        path = spline(rng.uniform(-2.5, 2.5, (2 + k % 6, 6)), ends="clamped" if k % 3 == 0 else "natural")
        rest = np.zeros((len(h), 6))
        gravity = np.max(np.abs(arm().inverse_dynamics(path.at(h).position, rest, rest)), axis=0)
        torque, acceleration = rng.uniform(1.05, 2.0, 6) * gravity + rng.uniform(0.2, 2.0, 6), rng.uniform(1.0, 10.0, 6)
        found = time_optimal(path, robot=arm(), torque=torque, acceleration=acceleration)
        q, v, a = found.at(np.linspace(0.0, found.duration, 2001))
        for each, limit in ((arm().inverse_dynamics(q, v, a), torque), (a, acceleration), (v, SPEED)):
            assert np.max(np.abs(each) / limit) < 1.01  # between points of the grid


@pytest.mark.parametrize("seed", [None, 2, 3])
def test_a_linear_program_over_the_whole_path_finds_nothing_faster(seed: int | None) -> None:
    """The largest sum of x under the same rows, all points of the grid at once (HiGHS)."""
    optimize = pytest.importorskip("scipy.optimize")
    N = 80
    points = WAYPOINTS if seed is None else np.random.default_rng(seed).uniform(-2.0, 2.0, (4, 6))
    torque, s = TORQUE if seed is None else TORQUE + 3.0, np.linspace(0.0, 1.0, N + 1)
    ds = 1.0 / N
    found = time_optimal(points, robot=arm(), torque=torque, acceleration=4.0, grid=N)
    a, b, c, limit = _rows(PathPoint(*spline(points).at(s)), ds, SPEED, 4.0, torque, arm())
    # a (x[i+1] - x[i]) / (2 ds) + b x[i] + c
    A = np.zeros((*a.shape, N + 1))
    for i in range(N):
        A[i, :, i], A[i, :, i + 1] = b[i] - a[i] / (2.0 * ds), a[i] / (2.0 * ds)
    flat, offset = A.reshape(-1, N + 1), c.ravel()
    assert np.max(np.abs(flat @ found.x + offset)) < 1.0 + 1e-12 and np.all(found.x <= limit)
    ends = [(0.0, 0.0)]
    best = optimize.linprog(
        -np.ones(N + 1),
        A_ub=np.concatenate([flat, -flat]),
        b_ub=np.concatenate([1.0 - offset, 1.0 + offset]),
        bounds=[*ends, *((0.0, most) for most in limit[1:-1]), *ends],
    )
    roots = np.sqrt(np.maximum(best.x, 0.0))
    assert best.status == 0 and found.duration == pytest.approx(np.sum(2.0 * ds / (roots[1:] + roots[:-1])), rel=1e-3)


def test_the_duration_converges_with_the_grid() -> None:
    durations = np.array([fastest(grid).duration for grid in (300, 1000, 3000)])
    error = durations[:2] - durations[2]
    assert np.all(error > 0.0) and error[1] < 1e-3 and error[1] < 0.5 * error[0]


def test_derivatives_are_derivatives() -> None:
    path, h = fastest(), 1e-7
    t = np.linspace(0.01, path.duration - 0.01, 203)
    before, at, after = path.at(t - h), path.at(t), path.at(t + h)
    np.testing.assert_allclose((after[0] - before[0]) / (2.0 * h), at[1], atol=1e-5)
    error = np.abs((after[1] - before[1]) / (2.0 * h) - at[2])
    assert np.mean(error < 1e-4) > 0.99  # the acceleration jumps between intervals


def test_ends_are_at_rest_at_the_waypoints() -> None:
    path = fastest()
    for t, q in ((-0.1, WAYPOINTS[0]), (0.0, WAYPOINTS[0]), (path.duration, WAYPOINTS[-1]), (9.0, WAYPOINTS[-1])):
        np.testing.assert_allclose(path.at(t).position, q, atol=1e-12)
        np.testing.assert_allclose(path.at(t).velocity, 0.0, atol=1e-9)
    assert not np.any(path.at(9.0).acceleration)


def test_traced_values_are_those_of_numpy() -> None:
    path = fastest()
    compiled = cd.function(lambda t: tuple(path.at(t)), t=())
    t = np.linspace(-0.1, path.duration + 0.1, 301)
    for ours, theirs in zip(compiled(t), path.at(t), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-10)


def test_more_torque_is_never_slower() -> None:
    times = [time_optimal(WAYPOINTS, robot=arm(), torque=k * TORQUE, grid=300).duration for k in (1.0, 1.2, 2.0, 10.0)]
    assert np.all(np.diff(times) <= 0.0) and times[0] > times[-1]


def test_what_cannot_be_followed_is_one_sentence() -> None:
    cases: list[tuple[str, Any, dict[str, Any]]] = [
        (r"^the path cannot be followed within the limits at s = \d", WAYPOINTS, {"torque": 0.2 * TORQUE, "robot": arm()}),
        ("needs a finite limit of acceleration or torque", WAYPOINTS, {"speed": 1.0}),
        ("need the robot", WAYPOINTS, {"torque": 1.0}),
        ("does not move", line([1.0, 1.0], [1.0, 1.0]), {"acceleration": 1.0}),
        ("limit of acceleration must be positive", WAYPOINTS, {"acceleration": 0.0}),
        ("one for each of 6 joints", WAYPOINTS, {"acceleration": [1.0, 2.0]}),
        ("need a path of all 6 joints", spline(WAYPOINTS[:, :2]), {"torque": 1.0, "robot": arm(), "speed": 1.0}),
        ("at least 2 intervals", WAYPOINTS, {"acceleration": 1.0, "grid": 1}),
    ]
    for message, path, options in cases:
        with pytest.raises(cd.ControlError, match=message) as caught:
            time_optimal(path, **options)
        assert "\n" not in str(caught.value)
