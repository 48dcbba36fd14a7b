"""The wheeled pendulum: its rows pass, each of them can fail, and the mistakes do what they are known to do."""

from dataclasses import replace

import numpy as np
import pytest

from condyle.demos import mistakes, wheel_checks, wheel_formulas, wheel_on_ground, wheeled_pendulum
from condyle.demos.row import Row
from condyle.demos.wheeled_pendulum import balance, gain, leaning, rolling, whole, world


@pytest.fixture(scope="module")
def done():
    return balance()


@pytest.fixture(scope="module")
def rows(done):
    return list(wheel_checks.checks(done, quick=True))


def values(found):
    return {row.check: row for row in found}


# ---- rows


def test_a_row_knows_its_bounds():
    assert Row("g", "c", 1.0, high=1.0).passed and not Row("g", "c", 1.1, high=1.0).passed
    assert Row("g", "c", 1.0, low=1.0).passed and not Row("g", "c", 0.9, low=1.0).passed
    assert not Row("g", "c", float("nan"), high=1.0).passed and not Row("g", "c", float("inf"), low=0.0).passed
    assert Row("g", "c", None, high=1.0).passed is None
    assert [Row("g", "c", 1.0, low=a, high=b).bound for a, b in ((1, None), (None, 2), (1, 2))] == [
        "at least 1",
        "at most 2",
        "1 to 2",
    ]


def test_everything_passes(rows):
    assert [row.check for row in rows if row.passed is False] == []
    skipped = {row.group for row in rows if row.passed is None}
    assert skipped == {"a million steps"} and len(rows) >= 25


def test_the_numbers_that_are_known(rows):
    found = values(rows)
    assert found["unstable pole"].value == pytest.approx(8.2867, abs=5e-5)
    assert found["friction coefficient below which it would slip"].value == pytest.approx(0.602, abs=1e-3)
    assert found["how many times nearer, angle"].value == pytest.approx(8.0, abs=0.1)  # first order: 8 times the steps


def test_a_million_steps_are_made_in_chunks(monkeypatch):
    monkeypatch.setattr(wheel_checks, "MILLION", 4000)
    monkeypatch.setattr(wheel_checks, "CHUNK", 1000)
    said = []
    found = list(wheel_checks.million(False, lambda *what: said.append(what)))
    assert all(row.passed for row in found) and [n for _, n, _ in said] == [0, 1000, 2000, 3000]


# ---- the rows can fail


def test_a_wheel_that_slips_or_lifts_off_is_seen(done):
    v, q = done.v.copy(), done.q.copy()
    v[:, 3] += 1e-9  # turns too fast
    found = values(wheel_checks.contact_rows("", q, v))
    assert found["velocity of the wheel where it touches"].value == pytest.approx(0.04e-9, rel=1e-3)
    assert not found["velocity of the wheel where it touches"].passed
    q[:, 1] += 1e-12
    found = values(wheel_checks.contact_rows("", q, done.v))
    assert not found["height of the wheel's centre, less its radius"].passed
    v = done.v.copy()
    v[:, 1] += 1e-9
    assert not values(wheel_checks.contact_rows("", done.q, v))["vertical velocity of the wheel's centre"].passed


def test_wrong_work_is_seen(done):
    torque = done.torque.copy()
    torque[0] += 1e-3
    found = values(wheel_checks.energies(replace(done, torque=torque)))
    assert not found["balancing, less the work of motor and push"].passed


def test_wrong_formulas_are_seen(monkeypatch):
    monkeypatch.setattr(wheel_formulas, "MU", wheel_formulas.MU * (1.0 + 1e-9))
    found = values(wheel_checks.formulas(50))
    assert not found["accelerations of 50 states, relative"].passed and not found["the same, less that by hand"].passed


def test_a_wrong_torque_is_seen_in_the_ground_s_force(monkeypatch):
    monkeypatch.setattr(wheel_checks, "full_torque", lambda motor: 1.001 * wheeled_pendulum.full_torque(motor))
    assert not any(row.passed for row in wheel_checks.forces())


def test_without_control_it_falls():
    found = values(wheel_checks.controlled(balance(lambda x: 0.0)))
    assert found["largest angle"].value > 3.0 and not found["largest angle"].passed
    assert not found["off upright, 4 s after the push"].passed


# ---- the machine


def test_the_gain_is_that_of_the_formulas_linearised():
    from condyle.control.lqr import lqr

    M = wheel_formulas.mass_matrix(np.zeros(2))
    A, B = np.zeros((4, 4)), np.zeros((4, 1))
    A[:2, 2:] = np.eye(2)
    A[2:, 1] = np.linalg.solve(M, [0.0, wheel_formulas.WEIGHT])
    B[2:, 0] = np.linalg.solve(M, [1.0 / 0.04, -(0.2 / 0.04 + 1.0)])
    costs, cost = wheeled_pendulum.COSTS
    K = lqr(A, B, np.diag(costs), [[cost]])[0][0]
    assert gain() == pytest.approx(K, rel=0.02)  # steps of a millisecond are nearly continuous


def test_a_run_is_the_same_every_time(done):
    again = balance()
    assert (again.x == done.x).all() and (again.torque == done.torque).all() and (again.normal == done.normal).all()


def test_the_push_is_felt(done):
    still = balance(push=0.0, seconds=4.5)
    assert np.abs(still.x[4000:, 1]).max() < 1e-3 < 0.1 < np.abs(done.x[4000:4500, 1]).max()
    # what the ground feels of it: friction and the push together move the robot
    k = 4050
    momentum = whole().momentum(done.q, done.v)[:, 0]
    rate = (momentum[k + 1] - momentum[k]) / done.world.dt
    assert done.friction[k] + done.pushed[k] == pytest.approx(rate, abs=0.05) and done.pushed[k] == 3.0


def test_contact_without_friction_is_far_from_rolling(monkeypatch):
    monkeypatch.setattr(wheel_on_ground, "FRICTION", 0.05)
    assert wheel_on_ground.apart(1e-3)[1] > 0.1


# ---- mistakes


def test_the_true_map_is_the_robot_s():
    y, w = np.array([0.3, 0.7]), np.array([0.4, -2.0])
    ties = mistakes.Ties()
    assert ties.T(y[1]) @ w == pytest.approx(rolling().lift(y, w)[1], abs=1e-14)
    assert ties.acceleration(y, w) == pytest.approx(rolling().forward_dynamics(y, w, np.zeros(2)), rel=1e-12)
    step = 1e-6
    slope = (ties.T(y[1] + step) - ties.T(y[1] - step)) / (2 * step) * w[1]
    assert ties.Tdot(y[1], w[1]) == pytest.approx(slope, abs=1e-7)


def test_the_table_of_mistakes():
    found = {row.name: row for row in mistakes.table()}
    right, drift, height, way, relative = found.values()
    assert right.pole == pytest.approx(8.286736, abs=1e-6) and all(abs(fall.gained) < 1e-9 for fall in right.falls)
    # a third of what it could fall, out of nothing; and near upright nobody notices
    assert drift.falls[1].share == pytest.approx(0.334, abs=1e-3) and drift.falls[0].share == pytest.approx(0.480, abs=1e-3)
    assert drift.pole == pytest.approx(right.pole, abs=1e-6)
    assert abs(height.pole.real) < 1e-6 < height.pole.imag and height.falls[1].share == pytest.approx(0.0102, abs=1e-4)
    assert way.pole == pytest.approx(5.1392, abs=1e-4) and way.falls[1].share == pytest.approx(-0.9335, abs=1e-4)
    assert relative.pole == pytest.approx(8.5290, abs=1e-4) and relative.falls[1].share == pytest.approx(-0.0135, abs=1e-4)


def test_leaning_has_the_wheel_at_zero():
    q = rolling().lift(leaning(), np.zeros(2))[0]
    assert whole().frame_pose(q, "center")[1] == pytest.approx([0.0, 0.0, 0.04], abs=1e-16)
    assert world().nu == 1
