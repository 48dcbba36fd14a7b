"""The robot on two wheels: its rows pass and can fail, and its plan is a figure of eight."""

from dataclasses import replace

import numpy as np
import pytest
from apps.demos import two_wheeled_checks
from apps.demos.runs_of_demos import recorded

from condyle.apps.demos import two_wheeled
from condyle.apps.demos.profiles import LEMNISCATE_LENGTH, SpeedProfile, figure_of_eight, lemniscate_distance
from condyle.apps.demos.two_wheeled import DT, HALF_WIDTH, SPEED, State, rolling, world
from condyle.methods.control.lqr import dlqr
from condyle.robot.library.two_wheeled import HALF_TRACK
from condyle.robot.library.wheeled_pendulum import LENGTH, RADIUS


@pytest.fixture(scope="module")
def done():
    return recorded("two-wheeled")


@pytest.fixture(scope="module")
def rows(done):
    return list(two_wheeled_checks.checks(done))


def values(found):
    return {check.name: check for check in found}


# `condyle verify two-wheeled` makes the same checks in test_cli_verify.py
@pytest.mark.slow
def test_everything_passes(rows):
    assert [check.name for check in rows if check.ok is False] == []
    assert len(rows) >= 15


def test_it_goes_once_around(done):
    now = State.of(done.x)
    lobes = now.middle[:, 0].max(), now.middle[:, 0].min()
    assert lobes == pytest.approx((HALF_WIDTH, -HALF_WIDTH), abs=2e-3)
    yaw = np.abs(np.diff(now.heading)).sum()
    assert yaw == pytest.approx(3.0 * np.pi, rel=0.02)  # three quarters of a turn and back, twice
    assert np.abs(now.middle[-1]).max() < 1e-4 and np.abs(done.x[-1, 6:]).max() < 1e-2


# ---- the rows can fail


def test_wheels_that_slip_are_seen(done):
    full_q, full_v = rolling().lift(*done.simulation.split(done.x))
    for column, side in ((6, "left"), (7, "right")):
        v = full_v.copy()
        v[:, column] += 1e-9
        found = values(two_wheeled_checks.contact_checks("", full_q, v))
        sides = {name: found[f"velocity of the {name} wheel where it touches"].ok for name in ("left", "right")}
        assert not sides[side] and sides["right" if side == "left" else "left"]
    v = full_v.copy()
    v[:, 1] += 1e-9  # both slide along y
    assert not values(two_wheeled_checks.contact_checks("", full_q, v))["velocity of the left wheel where it touches"].ok
    q = full_q.copy()
    q[:, 2] += 1e-12
    assert not next(iter(two_wheeled_checks.contact_checks("", q, full_v))).ok


@pytest.mark.slow
def test_a_robot_off_its_way_is_seen(done):
    x = done.x.copy()
    x[:, 0] += 0.03
    found = values(two_wheeled_checks.driven(replace(done, x=x)))
    assert not found["largest distance from the curve"].ok
    assert not found["largest distance from where it should be"].ok
    found = values(two_wheeled_checks.equations(replace(done, u=1.01 * done.u)))
    assert not found["driving, less the work of the motors"].ok


def test_without_the_controller_it_falls():
    here = world()
    x = here.state([0.0, 0.0, 0.0, 0.05, 0.0, 0.0])
    assert abs(here.rollout(x, np.zeros((400, 2)))[-1, 3]) > 0.5


# ---- the plan


def test_the_curve_is_the_lemniscate():
    t = np.linspace(0.0, LEMNISCATE_LENGTH, 5001)
    path = figure_of_eight(1.0, t, lambda t: 1.0 + 0.0 * t)  # at unit speed for its length: once around
    x, y = path.position.T
    assert np.abs((x**2 + y**2) ** 2 - (x**2 - y**2)).max() < 1e-14
    assert path.position[-1] == pytest.approx([0.0, 0.0], abs=1e-9)
    rate = np.gradient(path.position, t, axis=0)[5:-5]
    heading = np.stack([np.cos(path.heading), np.sin(path.heading)], axis=-1)[5:-5]
    assert rate == pytest.approx(heading, abs=1e-5)
    assert np.gradient(path.heading, t)[5:-5] == pytest.approx(path.yaw_rate[5:-5], abs=1e-4)


def test_how_far_from_the_curve():
    a = HALF_WIDTH
    on = np.array([[a, 0.0], [0.0, 0.0], [-a, 0.0]])
    assert np.abs(lemniscate_distance(on, a)).max() < 1e-15
    off = np.array([[a + 1e-3, 0.0], [1e-3, 0.0], [0.0, -1e-3]])
    assert lemniscate_distance(off, a) == pytest.approx([1e-3, 1e-3 / np.sqrt(2), 1e-3 / np.sqrt(2)], rel=1e-2)


def test_a_trip_covers_its_way():
    trip = SpeedProfile(2.0, 0.5, 1.5)
    t = np.linspace(0.0, trip.seconds, 20001)
    assert np.trapezoid(trip.derivative(t, 1), t) == pytest.approx(2.0, abs=1e-8)
    for order in (1, 2, 3):
        rate, wanted = np.gradient(trip.derivative(t, order), t)[5:-5], trip.derivative(t, order + 1)[5:-5]
        # only the last derivative jumps, where a ramp begins or ends: four places with two differences each
        off = np.sort(np.abs(rate - wanted))
        assert (off[-1] if order < 3 else off[-9]) < 1e-3
    assert trip.derivative(np.array([0.0, trip.seconds, trip.seconds + 1.0]), 1) == pytest.approx(np.zeros(3), abs=1e-15)


# ---- what it looks at


def test_motion_is_that_of_the_axle(done):
    now = State.of(done.x)
    dt = done.dt
    rate = (now.middle[2:] - now.middle[:-2]) / (2 * dt)
    ahead = np.stack([np.cos(now.heading), np.sin(now.heading)], axis=-1)[1:-1]
    assert rate == pytest.approx(ahead * now.speed[1:-1, None], abs=1e-4)
    assert np.gradient(now.heading, dt)[1:-1] == pytest.approx(now.yaw_rate[1:-1], abs=5e-4)  # torques jump at every step


def test_the_planned_point_accelerates_with_the_pitch_alone():
    robot = rolling()
    y, w = np.zeros(6), np.zeros(3)
    y[3] = 1e-6
    T = np.array([0.0] * 6 + [0.03, 0.03])
    still, pushed = (robot.forward_dynamics(y, w, robot.reduce_forces(y, tau)) for tau in (0.0 * T, T))

    def acceleration(a):  # of the axle, and of the point above it
        axle = two_wheeled.RADIUS * ((a[1] + a[2]) / 2.0 + a[0])
        return axle, axle + two_wheeled.HEIGHT * a[0]

    assert abs(acceleration(pushed)[0] - acceleration(still)[0]) > 0.1
    assert acceleration(pushed)[1] == pytest.approx(acceleration(still)[1], abs=1e-4)
    assert acceleration(still)[1] == pytest.approx(1e-6 / two_wheeled.PITCH_GAIN, rel=1e-3)


def test_motion_takes_batches():
    x = np.random.default_rng(0).normal(size=(2, 3, 9))
    assert State.of(x).middle.shape == (2, 3, 2)
    assert State.of(x).speed[1, 2] == State.of(x[1, 2]).speed


@pytest.mark.peers
def test_the_gains_are_those_of_scipy():
    """One step of the simulation linearised while it drives straight ahead, in the coordinates of the two controllers."""
    here = world()
    _, A, B = here.step(here.state(None, [0.0, SPEED / RADIUS, SPEED / RADIUS]), np.zeros(2), derivatives=True)
    x, y, yaw, pitch, *_, pitch_rate, left, right = range(9)
    see, make = np.zeros((4, 9)), np.zeros((9, 4))
    rows, columns = [0, 0, 1, 2, 2, 2, 3], [x, pitch, pitch, pitch_rate, left, right, pitch_rate]
    see[rows, columns] = [1.0, -LENGTH, 1.0, RADIUS, RADIUS / 2.0, RADIUS / 2.0, 1.0]
    rows, columns = [x, x, pitch, left, right, left, right, pitch_rate], [0, 1, 1, 2, 2, 3, 3, 3]
    make[rows, columns] = [1.0, LENGTH, 1.0, 1.0 / RADIUS, 1.0 / RADIUS, -1.0, -1.0, 1.0]
    A_forward, B_forward = see @ A @ make, see @ B @ np.array([[0.5], [0.5]])
    see, make = np.zeros((3, 9)), np.zeros((9, 3))
    see[[0, 1, 2, 2], [y, yaw, left, right]] = [1.0, 1.0, -RADIUS / (2.0 * HALF_TRACK), RADIUS / (2.0 * HALF_TRACK)]
    make[[y, yaw, left, right], [0, 1, 2, 2]] = [1.0, 1.0, -HALF_TRACK / RADIUS, HALF_TRACK / RADIUS]
    A_lateral, B_lateral = see @ A @ make, see @ B @ np.array([[-0.5], [0.5]])
    assert np.array([A_forward[2:, 1], B_forward[2:, 0]]) / DT == pytest.approx(
        np.array([two_wheeled.A, two_wheeled.B]), rel=1e-9
    )
    assert DT / B_lateral[2, 0] == pytest.approx(two_wheeled.YAW_INERTIA, rel=1e-9)
    for A, B, (Q, R), gain in (
        (A_forward, B_forward, two_wheeled.FORWARD_COSTS, two_wheeled.FORWARD_GAIN),
        (A_lateral, B_lateral, two_wheeled.LATERAL_COSTS, two_wheeled.LATERAL_GAIN),
    ):
        assert dlqr(A, B, np.diag(Q), [[R]])[0][0] == pytest.approx(gain, rel=1e-8)
