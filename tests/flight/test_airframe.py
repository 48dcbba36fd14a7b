"""Airframes: the built-in ones have the published numbers, files say theirs, and bad ones are refused in a sentence."""

import numpy as np
import pytest

from condyle import flight
from condyle.errors import RobotError
from condyle.multibody.robot import load


def test_the_birotor() -> None:
    birotor = flight.airframe("birotor")
    assert birotor.gimbals == ("tilt_1", "tilt_2") and birotor.n == 2 and birotor.nu == 4
    assert birotor.mass == pytest.approx(1.444422, abs=1e-9)
    np.testing.assert_allclose(birotor.center_of_mass, [0, 0, -0.069980], atol=5e-7)
    np.testing.assert_allclose(np.diag(birotor.inertia), [0.055430, 0.017874, 0.067852], atol=5e-7)
    np.testing.assert_allclose(birotor.positions, [[0, 0.2375, 0.12098], [0, -0.2375, 0.12098]], atol=5e-6)
    np.testing.assert_allclose(birotor.thrust_axes, [[0, 0, 1]] * 2, atol=1e-12)
    np.testing.assert_allclose(birotor.gimbal_axes, [[0, 1, 0], [0, -1, 0]], atol=1e-12)
    np.testing.assert_allclose(birotor.gimbal_limits, [[-1.57, 1.57]] * 2)
    np.testing.assert_allclose(birotor.thrust_limits, [[1, 18]] * 2)
    assert [r.direction for r in birotor.rotors] == [1, -1] and [r.drag for r in birotor.rotors] == [0.0172] * 2
    assert birotor.servo_lags.tolist() == [0.15858] * 2
    assert birotor.hover_thrust(9.798) == pytest.approx(7.0762, abs=5e-5)
    assert birotor.hover_thrust(9.81) == pytest.approx(7.0848, abs=1e-4)


def test_numbers_by_keyword() -> None:
    made = flight.airframe("birotor", thrust=(0.0, 18.0), servo_lag=[0.1, 0.2], gravity=9.798)
    assert [r.thrust for r in made.rotors] == [(0.0, 18.0)] * 2 and made.servo_lags.tolist() == [0.1, 0.2]
    assert made.robot.model.gravity == (0.0, 0.0, -9.798)
    assert flight.airframe(made, lag=0.03).rotors[1].lag == 0.03


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"thrust": (-1.0, 18.0)}, r"does not pull backwards"),
        ({"thrust": (5.0, 2.0)}, r"least thrust 5 N is not below"),
        ({"thrust": (0.0, float("nan"))}, r"thrust must be \(least, largest\)"),
        ({"thrust": 3.0}, r"thrust is \(least, largest\)"),
        ({"servo_lag": 0.0}, r"servo with zero lag"),
        ({"drag": -1.0}, r"drag must be at least 0"),
        ({"lag": float("nan")}, r"lag must be a finite number"),
        ({"direction": 0.5}, r"direction must be 1"),
        ({"drga": 0.1}, r"no number 'drga' \(did you mean 'drag'\?\)"),
        ({"drag": [0.1, 0.2, 0.3]}, r"or 2 for the 2 rotors; got 3"),
        ({"rotors": ["thrust_3"]}, r"no frame 'thrust_3'"),
        ({"gimbal": "tilt_9"}, r"no joint 'tilt_9'"),
    ],
)
def test_bad_numbers(given: dict, sentence: str) -> None:
    with pytest.raises(RobotError, match=sentence):
        flight.airframe("birotor", **given)


def test_robots_that_are_no_airframes() -> None:
    with pytest.raises(RobotError, match="has no thrust frames"):
        flight.airframe("pidog")
    with pytest.raises(RobotError, match="has no free base"):
        flight.airframe(load("birotor", base="fixed"))
