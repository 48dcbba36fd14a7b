"""Contacts deep in the ground come up within the stated time, slowly and without leaving it, in every law and precision."""

from typing import Any

import numpy as np
import pytest
from markers import slow_except
from simulate.bodies import HALF, REST, ball_on, box_on, lift_speed, light_feet, run, simulation, upright

import condyle as cd
from condyle.simulate.gradcheck import check

GROUND = cd.Plane(0.5)
DEEP = np.array([0.0, 1e-3, 5e-3, 17.7e-3, 50e-3])  # below the surface, m
STATED = ((0.5, 1e-3 * np.array([0.0, 0.6, 0.7, 0.9, 4.0])), (1.0, 1e-3 * np.array([0.0, 0.6, 0.6, 0.6, 0.7])))  # s, m
FASTEST = 0.2  # m/s


def assert_comes_up(s: cd.Simulation, depth: np.ndarray, rounding: float) -> None:
    """Contacts come up in time, at most at the speed of the law, and never leave the ground."""
    for time, most in STATED:
        assert np.all(depth[:, round(time / s.dt)] <= most + rounding)
    assert np.min(depth) >= -rounding
    speed = -np.diff(depth, axis=1) / s.dt
    # the smoothing of impacts lifts, too: 1e-5 of a speed for each direction of a cone
    assert np.max(speed) < FASTEST and np.all(speed <= lift_speed(s, depth[:, :-1] + REST) + 5e-4)


@pytest.mark.parametrize("cone, dt", slow_except([("round", 2e-2)], (("round", 1e-3), ("round", 2e-2), (8, 5e-3))))
def test_a_deep_box_comes_up(cone: str | int, dt: float) -> None:
    s = box_on(GROUND, dt, cone=cone)
    xs = run(s, s.state(upright(HALF - DEEP), np.zeros(6)), 2.0)
    assert_comes_up(s, HALF - xs[..., 2], 1e-6)
    # what stands on the surface stays
    assert np.max(np.abs(xs[0, :, 7:])) < 1e-6


@pytest.mark.parametrize("precision", (np.float64, np.float32))
def test_a_deep_ball_comes_up_in_both_precisions(precision: Any) -> None:
    s = ball_on(GROUND, 2e-3)
    x = s.state(upright(0.1 - DEEP), np.zeros((len(DEEP), 6))).astype(precision)
    xs = s.rollout(x, np.zeros((1024, s.nu), precision))
    assert xs.dtype == precision
    assert_comes_up(s, 0.1 - xs[..., 2].astype(float), 1e-6)


def test_backward_euler_brings_a_ball_to_half_as_deep_again_as_at_rest() -> None:
    s = ball_on(GROUND, 5e-3, integrator="backward_euler")
    xs = s.rollout(s.state(upright(0.1 - DEEP), np.zeros((len(DEEP), 6))), np.zeros((200, s.nu)))
    assert np.max(0.1 - xs[:, -1, 2]) < 1.7 * REST


def test_gram_sized_feet_bring_the_robot_up() -> None:
    s = simulation(light_feet(), 2e-3, GROUND, ("foot0", "foot1", "foot2", "foot3"))
    q = s.robot.neutral()
    q[2] = 0.21 - 17.7e-3
    xs = s.rollout(s.state(q, np.zeros(s.robot.nv)), np.zeros((512, s.nu)))
    feet = xs[-1, 2] - 0.2 + xs[-1, 7:11]
    assert np.max(np.abs(xs[-1, 11:])) < 1e-2
    np.testing.assert_allclose(0.01 - feet, 0.6 * REST, atol=0.1 * REST)


def test_without_recovery_the_depth_stays_and_what_stands_has_the_same_bits() -> None:
    s, other = ball_on(GROUND, 2e-3), ball_on(GROUND, 2e-3, recovery_time=None)
    x = s.state(upright(0.1 - DEEP), np.zeros((len(DEEP), 6)))
    np.testing.assert_allclose(run(other, x, 0.5)[:, -1, 2], x[:, 2], atol=1e-6)
    x = s.state(upright(0.1 - REST * np.linspace(-0.9, 0.45, 8)), [0.1, 0.0, 0.0, 0.0, 0.5, 0.0])
    assert run(s, x, 0.5).tobytes() == run(other, x, 0.5).tobytes()


def test_recovery_is_twice_differentiable() -> None:
    s = ball_on(GROUND, 2e-3)
    begins = 1.5 * REST
    second = np.diff(lift_speed(s, begins + np.linspace(-2e-4, 2e-4, 2001)), n=2)
    assert second[0] == 0.0 and np.max(np.abs(np.diff(second))) < 0.01 * np.max(second)
    assert np.all(lift_speed(s, begins - np.array([1.0, 1e-6])) == 0.0)


@pytest.mark.slow
def test_derivatives_of_deep_contacts_in_a_table() -> None:
    # those of contacts one by one: test_derivatives.py, whose ball is deeper than at rest
    pytest.importorskip("gmpy2")
    s = box_on(GROUND, 1e-3)
    x = s.state(upright(HALF - 8e-3), [0.02, 0.01, 0.03, 0.1, -0.2, 0.1])
    for row in check(s, x, np.zeros(0), bits=256):
        assert row.error < 1e-7, row


def test_arms_that_begin_deep_go_on() -> None:
    # its first links turn about a vertical axis: their points cannot come up
    s = simulation(cd.load("panda"), 2e-3, GROUND)
    rng, count = np.random.default_rng(0), 50
    x = s.state(s.robot.random_configuration(rng, count), np.zeros((count, s.robot.nv)))
    for dt in (5e-4, 2e-3, 8e-3):
        numbers = {"dt": dt, "ground.height": rng.uniform(0.0, 0.5, count)}
        s.rollout(x, np.zeros((64, s.nu)), freeze=True, parameters=numbers)
        assert s.status is not None and np.max(s.status.residual) <= 1e-10
