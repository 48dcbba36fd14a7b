"""Paths: shapes, arc length, derivatives by differences, continuity of splines, rotations, the same values when traced."""

from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.dynamics.rotations import conjugate, quaternion_log, quaternion_product
from condyle.methods.planning.paths import Timed, circle, line, slerp, spline
from condyle.methods.planning.profiles import trapezoidal

POINTS = np.array([[0.0, 0.0, 0.0], [0.3, 0.1, 0.0], [0.4, 0.4, 0.2], [0.1, 0.5, 0.3], [-0.2, 0.2, 0.3]])
PATHS: dict[str, Any] = {
    "line": line([0.1, 0.2, 0.3], [0.4, -0.2, 0.5]),
    "circle": circle([0.4, 0.0, 0.2], centre=[0.3, 0.0, 0.2], normal=[0.0, 0.0, 2.0], angle=4.0),
    "natural": spline(POINTS),
    "clamped": spline(POINTS, ends="clamped"),
}
each_path = pytest.mark.parametrize("name", PATHS)


@each_path
def test_derivatives_are_derivatives(name: str) -> None:
    path, h = PATHS[name], 1e-6
    s = np.linspace(0.01, 0.99, 97)
    before, at, after = path.at(s - h), path.at(s), path.at(s + h)
    for k in (0, 1):
        np.testing.assert_allclose((after[k] - before[k]) / (2.0 * h), at[k + 1], atol=1e-4 * np.max(np.abs(at[k + 1])) + 1e-8)


@each_path
def test_traced_values_are_those_of_numpy(name: str) -> None:
    path = PATHS[name]
    compiled = cd.function(lambda s: tuple(path.at(s)), s=())
    s = np.append(np.linspace(0.0, 1.0, 101), getattr(path, "knots", []))
    for ours, theirs in zip(compiled(s), path.at(s), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-12 * max(1.0, np.max(np.abs(theirs))))


@pytest.mark.parametrize("name", ["line", "circle"])
def test_s_is_the_arc_length(name: str) -> None:
    path = PATHS[name]
    speed = np.linalg.norm(path.at(np.linspace(0.0, 1.0, 50)).first, axis=-1)
    np.testing.assert_allclose(speed, path.length, rtol=1e-12)


def test_a_circle_turns_about_its_normal() -> None:
    quarter = circle([1.0, 0.0, 0.0], centre=[0.0, 0.0, 0.0], normal=[0.0, 0.0, 1.0], angle=np.pi / 2.0)
    np.testing.assert_allclose(quarter.at(1.0).position, [0.0, 1.0, 0.0], atol=1e-15)


def test_a_spline_passes_through_its_points_with_continuous_second_derivative() -> None:
    for ends in ("natural", "clamped"):
        path = PATHS[ends]
        np.testing.assert_allclose(path.at(path.knots).position, POINTS, atol=1e-14)
        left, right = path.at(path.knots[1:-1] - 1e-12), path.at(path.knots[1:-1])
        for a, b in zip(left, right, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-8)
    np.testing.assert_allclose(PATHS["natural"].at(np.array([0.0, 1.0])).second, 0.0, atol=1e-12)
    np.testing.assert_allclose(PATHS["clamped"].at(np.array([0.0, 1.0])).first, 0.0, atol=1e-12)


def test_a_clamped_spline_reproduces_a_cubic() -> None:
    s = np.array([0.0, 0.2, 0.5, 0.9, 1.0])
    path = spline((s**2 * (3.0 - 2.0 * s))[:, None], s, ends="clamped")
    fine = np.linspace(0.0, 1.0, 33)
    np.testing.assert_allclose(path.at(fine).position[:, 0], fine**2 * (3.0 - 2.0 * fine), atol=1e-14)


def test_slerp_turns_at_a_constant_rate() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        a, b = (q / np.linalg.norm(q) for q in rng.normal(size=(2, 4)))
        turn = slerp(a, b)
        s, h = 0.37, 1e-5
        q, rate, change = turn.at(np.array([0.0, s - h, s + h, 1.0]))
        np.testing.assert_allclose(np.linalg.norm(q, axis=-1), 1.0, rtol=1e-12)
        np.testing.assert_allclose(q[0], a, atol=1e-12)
        assert abs(q[3] @ b) == pytest.approx(1.0, abs=1e-12)
        assert np.linalg.norm(rate[0]) <= np.pi and not np.any(change)
        step = quaternion_log(quaternion_product(q[2], conjugate(q[1])))  # in world axes
        np.testing.assert_allclose(np.asarray(step, dtype=float) / (2.0 * h), rate[1], atol=1e-6)


def test_slerp_between_equal_orientations_stays() -> None:
    q = np.array([0.5, 0.5, 0.5, 0.5])
    np.testing.assert_allclose(slerp(q, -q).at(0.4).position, q, atol=1e-15)


def test_a_timed_path_keeps_the_speed_along_it() -> None:
    path = PATHS["circle"]
    timed = Timed(path, trapezoidal([0.0], [1.0], speed=0.1 / path.length, acceleration=0.5 / path.length))
    assert timed.duration == pytest.approx(path.length / 0.1 + 0.1 / 0.5, rel=1e-12)
    t, h = np.linspace(0.3, timed.duration - 0.3, 31), 1e-5
    np.testing.assert_allclose(np.linalg.norm(timed.at(t).velocity, axis=-1), 0.1, rtol=1e-12)
    np.testing.assert_allclose((timed.at(t + h)[1] - timed.at(t - h)[1]) / (2.0 * h), timed.at(t)[2], atol=1e-6)
    compiled = cd.function(lambda t: tuple(timed.at(t)), t=())
    for ours, theirs in zip(compiled(t), timed.at(t), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-13)


def test_bad_paths_are_one_sentence() -> None:
    with pytest.raises(cd.ControlError, match="perpendicular"):
        circle([1.0, 0.0, 0.5], centre=[0.0, 0.0, 0.0], normal=[0.0, 0.0, 1.0])
    with pytest.raises(cd.ControlError, match="at least two points"):
        spline([[1.0, 2.0]])
    with pytest.raises(cd.ControlError, match="points 1 and 2 of a spline are equal"):
        spline([[1.0], [2.0], [2.0]])
    with pytest.raises(cd.ControlError, match="knots of a spline increase"):
        spline([[1.0], [2.0]], [1.0, 0.0])
    with pytest.raises(cd.ControlError, match="as many coordinates"):
        line([1.0, 2.0], [1.0])
    with pytest.raises(cd.ControlError, match="of length one"):
        slerp([0.0, 0.0, 0.0, 2.0], [0.0, 0.0, 0.0, 1.0])
