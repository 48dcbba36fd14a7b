"""The wheeled pendulum: its checks pass, each can fail, and the usual errors in its equations do what they are known to do."""

from dataclasses import replace

import numpy as np
import pytest
from apps.demos import (
    wheeled_pendulum_checks,
    wheeled_pendulum_contact,
    wheeled_pendulum_errors,
    wheeled_pendulum_formulas,
)
from apps.demos.runs_of_demos import recorded

from condyle.apps.demos import wheeled_pendulum
from condyle.apps.demos.wheeled_pendulum import GAIN, all_coordinates, ground_forces, leaning, rolling, unconstrained, world
from condyle.methods.control.lqr import dlqr, lqr


@pytest.fixture(scope="module")
def done():
    return recorded("wheeled-pendulum")


@pytest.fixture(scope="module")
def rows(done):
    return list(wheeled_pendulum_checks.checks(done))


def values(found):
    return {check.name: check for check in found}


# ---- the checks


def test_everything_passes(rows):
    assert [check.name for check in rows if check.ok is False] == []
    assert len(rows) >= 35


def test_the_numbers_that_are_known(rows):
    found = values(rows)
    assert found["unstable pole"].value == pytest.approx(8.2867, abs=5e-5)
    assert found["friction coefficient needed"].value == pytest.approx(0.602, abs=1e-3)
    assert found["how many times nearer, angle"].value == pytest.approx(8.0, abs=0.1)  # first order: 8 times the steps


# ---- the rows can fail


def test_a_wheel_that_slips_or_lifts_off_is_seen(done):
    full_q, full_v = all_coordinates(done)
    v, q = full_v.copy(), full_q.copy()
    v[:, 3] += 1e-9  # turns too fast
    found = values(wheeled_pendulum_checks.contact_checks("", q, v))
    assert found["velocity of the wheel where it touches"].value == pytest.approx(0.04e-9, rel=1e-3)
    assert not found["velocity of the wheel where it touches"].ok
    q[:, 1] += 1e-12
    found = values(wheeled_pendulum_checks.contact_checks("", q, full_v))
    assert not found["height of the wheel's centre, less its radius"].ok
    v = full_v.copy()
    v[:, 1] += 1e-9
    assert not values(wheeled_pendulum_checks.contact_checks("", full_q, v))["vertical velocity of the wheel's centre"].ok


def test_wrong_work_is_seen(done):
    u = done.u.copy()
    u[0] += 1e-3
    found = values(wheeled_pendulum_checks.energies(replace(done, u=u)))
    assert not found["balancing, less the work of motor and push"].ok


def test_wrong_formulas_are_seen(monkeypatch):
    monkeypatch.setattr(wheeled_pendulum_formulas, "MU", wheeled_pendulum_formulas.MU * (1.0 + 1e-9))
    found = values(wheeled_pendulum_checks.formulas(50))
    assert not found["accelerations of 50 states, relative"].ok and not found["the same, less that by hand"].ok


def test_a_wrong_torque_is_seen_in_the_ground_s_force(monkeypatch):
    monkeypatch.setattr(wheeled_pendulum_checks, "joint_torques", lambda motor: 1.001 * wheeled_pendulum.joint_torques(motor))
    assert not any(check.ok for check in wheeled_pendulum_checks.forces())


def test_without_control_it_falls():
    here = world()
    assert abs(here.rollout(here.state(leaning()), np.zeros((1000, 1)))[-1, 1]) > 1.5


# ---- the robot


def test_the_gain_is_that_of_scipy():
    here = world()
    _, A, B = here.step(here.state(), [0.0], derivatives=True)
    Q, R = wheeled_pendulum.COSTS
    assert dlqr(A, B, np.diag(Q), [[R]])[0][0] == pytest.approx(GAIN, rel=1e-8)


def test_the_gain_is_that_of_the_formulas_linearised():
    M = wheeled_pendulum_formulas.mass_matrix(np.zeros(2))
    A, B = np.zeros((4, 4)), np.zeros((4, 1))
    A[:2, 2:] = np.eye(2)
    A[2:, 1] = np.linalg.solve(M, [0.0, wheeled_pendulum_formulas.WEIGHT])
    B[2:, 0] = np.linalg.solve(M, [1.0 / 0.04, -(0.2 / 0.04 + 1.0)])
    Q, R = wheeled_pendulum.COSTS
    assert lqr(A, B, np.diag(Q), [[R]])[0][0] == pytest.approx(GAIN, rel=0.02)  # steps of a millisecond are nearly continuous


def test_the_closed_form_pole():
    assert wheeled_pendulum.closed_form_pole() == pytest.approx(wheeled_pendulum_formulas.unstable_pole(), rel=1e-14)


def test_the_push_moves_it(done):
    assert np.abs(done.x[3900:4000, 1]).max() < 1e-3 < 0.1 < np.abs(done.x[4000:4500, 1]).max()
    # friction and push are the rate of the momentum
    k = 4050
    momentum = unconstrained().momentum(*all_coordinates(done))[:, 0]
    rate = (momentum[k + 1] - momentum[k]) / done.dt
    assert ground_forces(done)[1][k] + done.wrenches[k, 0, 0] == pytest.approx(rate, abs=0.05) and done.wrenches[k, 0, 0] == 3.0


def test_contact_without_friction_is_far_from_rolling(monkeypatch):
    monkeypatch.setattr(wheeled_pendulum_contact, "FRICTION", 0.05)
    assert wheeled_pendulum_contact.apart(1e-3)[1] > 0.1


# ---- usual errors in the equations


def test_the_true_map_is_the_robot_s():
    y, w = np.array([0.3, 0.7]), np.array([0.4, -2.0])
    wrong_map = wheeled_pendulum_errors.WrongMap()
    assert wrong_map.T(y[1]) @ w == pytest.approx(rolling().lift(y, w)[1], abs=1e-14)
    assert wrong_map.acceleration(y, w) == pytest.approx(rolling().forward_dynamics(y, w, np.zeros(2)), rel=1e-12)
    step = 1e-6
    difference = (wrong_map.T(y[1] + step) - wrong_map.T(y[1] - step)) / (2 * step) * w[1]
    assert wrong_map.Tdot(y[1], w[1]) == pytest.approx(difference, abs=1e-7)


@pytest.mark.slow
def test_the_table_of_errors():
    found = {check.name: check for check in wheeled_pendulum_errors.table()}
    right, drift, height, position, relative = found.values()
    assert right.pole == pytest.approx(8.286736, abs=1e-6) and all(abs(fall.gained) < 1e-9 for fall in right.falls)
    # a third of what it could fall, out of nothing; and near upright nobody notices
    assert drift.falls[1].fraction == pytest.approx(0.334, abs=1e-3) and drift.falls[0].fraction == pytest.approx(0.480, abs=1e-3)
    assert drift.pole == pytest.approx(right.pole, abs=1e-6)
    assert abs(height.pole.real) < 1e-6 < height.pole.imag and height.falls[1].fraction == pytest.approx(0.0102, abs=1e-4)
    assert position.pole == pytest.approx(5.1392, abs=1e-4) and position.falls[1].fraction == pytest.approx(-0.9335, abs=1e-4)
    assert relative.pole == pytest.approx(8.5290, abs=1e-4) and relative.falls[1].fraction == pytest.approx(-0.0135, abs=1e-4)


def test_leaning_has_the_wheel_at_zero():
    q = rolling().lift(leaning(), np.zeros(2))[0]
    assert unconstrained().frame_pose(q, "center")[1] == pytest.approx([0.0, 0.0, 0.04], abs=1e-16)
    assert world().nu == 1
