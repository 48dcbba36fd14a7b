"""Excitations: within limits, at rest at both ends, the same traced, better than random ones; the gradient of the search."""

import numpy as np
import pytest
from methods.identify.arms import pendulum

import condyle as cd
from condyle.errors import ControlError
from condyle.methods.identify import excitation
from condyle.methods.identify.base_parameters import base_parameters
from condyle.methods.identify.excitation import _Search
from condyle.methods.identify.regressor import Regressor
from condyle.methods.planning.obstacles import Plane, robot_distances

LIMITS = {"speed": 2.0, "acceleration": 8.0, "reach": [1.2, 0.9], "period": 6.0}


@pytest.fixture(scope="module")
def robot():
    return pendulum()


@pytest.fixture(scope="module")
def motion(robot):
    return excitation(robot, iterations=30, starts=3, **LIMITS)


def test_limits_hold_everywhere(motion):
    q, v, a = motion.at(np.linspace(0.0, motion.duration, 20_001))
    assert np.abs(v).max() <= 2.0 and np.abs(a).max() <= 8.0 and np.all(np.abs(q).max(axis=0) <= [1.2, 0.9])
    # a limit is used
    assert np.all(
        np.maximum(np.abs(v).max(axis=0) / 2.0, np.maximum(np.abs(a).max(axis=0) / 8.0, np.ptp(q, axis=0) / [2.4, 1.8])) > 0.9
    )


def test_it_begins_and_ends_at_rest_and_repeats(motion):
    for t in (-1.0, 0.0, 6.0, 12.0, 13.0):
        q, v, a = motion.at(t)
        assert np.allclose(q, motion.start, atol=1e-12) and np.abs(v).max() < 1e-12 and np.abs(a).max() < 1e-11
    t = np.linspace(0.0, 6.0, 50)
    assert np.allclose(motion.at(t).position, motion.at(t + 6.0).position, atol=1e-12)


def test_velocity_and_acceleration_are_derivatives(motion):
    t, h = np.linspace(0.1, 5.9, 40), 1e-5
    before, now, after = (motion.at(t + d) for d in (-h, 0.0, h))
    assert np.allclose((after.position - before.position) / (2 * h), now.velocity, atol=1e-7)
    assert np.allclose((after.velocity - before.velocity) / (2 * h), now.acceleration, atol=1e-6)


def test_it_can_be_traced(motion):
    function = cd.function(lambda t: np.concatenate(list(motion.at(t))), t=())
    t = np.array([-0.5, 0.7, 3.3, 12.5])
    assert np.allclose(function(t), np.concatenate(list(motion.at(t)), axis=-1), atol=1e-12)


def test_it_is_better_than_random_ones(robot, motion):
    random = [excitation(robot, iterations=1, starts=1, seed=k, **LIMITS).information for k in range(5)]
    assert motion.information > max(random) and motion.condition < 100.0


def test_gradient_of_the_search(robot):
    base = base_parameters(Regressor(robot))
    limits = (np.full(2, 2.0), np.full(2, 8.0), np.full(2, np.inf))
    search = _Search(base, 6.0, 4, (np.full(2, -1.0), np.full(2, 1.0)), limits, np.ones(2), None, 0.02)
    rng = np.random.default_rng(0)
    y, centre = rng.normal(size=(1, 6, 2)), rng.normal(size=(1, 2))
    _, by_y, by_centre = search.value(y, centre)
    dy, dc, h = rng.normal(size=y.shape), rng.normal(size=centre.shape), 1e-6
    change = (search.value(y + h * dy, centre + h * dc)[0] - search.value(y - h * dy, centre - h * dc)[0]) / (2.0 * h)
    assert change[0] == pytest.approx(float(np.sum(by_y * dy) + np.sum(by_centre * dc)), rel=1e-5)


def test_distances_are_kept():
    robot = cd.load("ur3").lock(["wrist_1", "wrist_2", "wrist_3"])
    distances = robot_distances(robot, [Plane.through([0.0, 0.0, 0.0], [0.0, 0.0, 1.0])], self_collision=False, links=["elbow"])
    motion = excitation(robot, centre=[0.0, -1.2, 1.0], reach=1.2, distances=distances, margin=0.1, iterations=10, starts=2)
    assert distances(motion.at(np.linspace(0.0, 10.0, 500)).position).min() > 0.099


def test_table_and_errors(robot, motion, tmp_path):
    motion.save(tmp_path / "excite.csv", dt=0.01)
    lines = (tmp_path / "excite.csv").read_text().splitlines()
    assert lines[0] == "t,q.shoulder,q.elbow,v.shoulder,v.elbow,a.shoulder,a.elbow" and len(lines) == 1202
    for given, message in (
        ({"speed": -1.0}, "speed must be a positive number"),
        ({"harmonics": 1}, "two harmonics"),
        ({"torque": 1e-3}, r"no excitation was found .*joint \w+ needs"),
        ({"noise": [1.0, 1.0, 1.0]}, "one for each of 2 joints"),
    ):
        with pytest.raises(ControlError, match=message):
            excitation(robot, iterations=1, starts=1, **given)
    with pytest.raises(ControlError, match="at least one period"):
        motion.repeated(0)
