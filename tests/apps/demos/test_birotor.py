"""The birotor: its rows pass and can fail, its rotors give what the allocation says, and it hovers level or not at all."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from apps.demos import birotor_checks, birotor_rigid_body
from apps.demos.runs_of_demos import recorded
from hypothesis import given
from hypothesis import strategies as st

from condyle.apps.demos import birotor, birotor_control
from condyle.apps.demos.birotor_control import ROTORS, servo
from condyle.apps.demos.checks import energy_residual, replays
from condyle.apps.flight.allocation import Allocation
from condyle.apps.flight.geometric import MAX_ACCELERATION
from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError
from condyle.multibody.robot import load
from condyle.robot.library.birotor import DRAG, SERVO_LAG, THRUST
from condyle.simulate.simulation import Simulation

angles = st.floats(-1.2, 1.2)


@cache
def allocation() -> Allocation:
    """The allocation of the law."""
    return Allocation(birotor_control.body(birotor.robot().model))


def height() -> float:
    """Of the rotors above the centre of mass, m."""
    return float(allocation().body.positions[0, 2])


@cache
def law_function():
    return birotor.robot().function(birotor_control.law, wanted=18)


@cache
def actuated():
    return birotor.robot().function(birotor_control.actuated, thrusts=2, commands=2)


@pytest.fixture(scope="module")
def done():
    return recorded("birotor")


@pytest.fixture(scope="module")
def rows(done):
    return list(birotor_checks.checks(done))


def values(found):
    return {check.name: check for check in found}


def test_everything_passes(rows):
    assert [check.name for check in rows if not check.ok] == []
    assert len(rows) >= 35 and len({check.name for check in rows}) == len(rows)


def test_the_run_is_kept_and_found_again(done, tmp_path):
    from condyle.workbench.runs.run import read_run

    done.save(tmp_path / "flight.cdl")
    again = read_run(tmp_path / "flight.cdl")
    assert np.array_equal(again.x, done.x) and np.array_equal(again.extras["law.thrusts"], done.extras["law.thrusts"])
    assert again.check().identical and again.robot.name == "birotor"


def test_two_runs_have_the_same_bits(done):
    assert np.array_equal(birotor.run().x, done.x)


# ---- the rows can fail


def test_a_flight_off_its_plan_is_seen(done):
    x = done.x.copy()
    x[:, 0] += 0.01
    found = values(birotor_checks.flight(replace(done, x=x)))
    assert not found["off its place, in the end"].ok and not found["off its place, hovering at (0.3, 0.6, 1.0)"].ok
    x = done.x.copy()
    x[5000, 9 + 6] = -3.1
    assert not values(birotor_checks.flight(replace(done, x=x)))["fastest gimbal"].ok
    extras = {**done.extras, "law.thrusts": np.minimum(done.extras["law.thrusts"] * 3.0, 18.0)}
    found = values(birotor_checks.flight(replace(done, extras=extras)))
    assert not found["time at the least or largest thrust"].ok and not found["farthest from that, by it"].ok


def test_rotors_that_give_something_else_are_seen(done):
    for change in ((1.0, 1.0, 1.0, 1.01, 1.01, 1.01), (1.0, 1.0, 1.0, -1.0, -1.0, -1.0), (1.001, 1.0, 1.0, 1.0, 1.0, 1.0)):
        found = list(birotor_checks.drag(replace(done, wrenches=done.wrenches * np.array(change))))
        assert len(found) == 4 and sum(check.ok is False for check in found) == 2


def test_work_that_is_not_done_is_seen(done):
    found = values(birotor_checks.accounts(replace(done, wrenches=done.wrenches * 1.0001)))
    assert [check.ok for check in found.values()] == [False, False, False]
    # torques and torques count too
    for part, change in (("wrenches", np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])), ("u", 1.0)):
        more = getattr(done, part) * (1.0 + 0.01 * change)
        x, u, w = done.x, more if part == "u" else done.u, more if part == "wrenches" else done.wrenches
        left = energy_residual(birotor.world(), birotor.world(birotor.DT / 2.0), x, u, w)
        assert np.abs(left).max() > 1e-5


def test_one_bit_is_seen(done):
    x = done.x.copy()
    x[1234, 3] = np.nextafter(x[1234, 3], 2.0)
    check = replays("", replace(done, x=x))
    assert not check.ok and "1,234" in check.detail


# ---- rotors


@given(st.floats(1.0, 30.0), *[st.floats(-0.5, 0.5)] * 3)
def test_shares_give_what_is_asked_for(lift, tx, ty, tz):
    (s1, c1), (s2, c2) = allocation().components_of_lift(lift, np.array([tx, ty, tz]))
    force = allocation().matrix @ np.array([s1, c1, s2, c2])
    assert force[[2, 3, 4, 5]] == pytest.approx([lift, tx, ty, tz], abs=1e-12)
    # no side force ever, and the forward force that comes with the pitching torque
    assert force[1] == 0.0 and force[0] == pytest.approx(ty / height(), abs=1e-12)


@given(st.tuples(st.floats(*THRUST), st.floats(*THRUST)), st.tuples(angles, angles))
def test_the_allocation_is_that_of_the_rotors(thrusts, tilts):
    f, a = np.array(thrusts), np.array(tilts)
    wanted = np.concatenate(birotor_rigid_body.rotor_wrench(birotor_checks.rotor_places(), f, a))
    s, c = f * np.sin(a), f * np.cos(a)
    assert allocation().matrix @ np.array([s[0], c[0], s[1], c[1]]) == pytest.approx(wanted, abs=1e-12)


def test_wrenches_are_in_the_axes_of_the_world():
    robot, rng = birotor.robot(), np.random.default_rng(1)
    q = robot.random_configuration(rng, 50)
    thrusts = rng.uniform(*THRUST, (50, 2))
    _, wrenches = actuated()(q, thrusts, np.zeros((50, 2)))
    still, tau = np.zeros((2, 50, robot.nv))
    ours = robot.forward_dynamics(q, still, tau, {(name, "world_aligned"): wrenches[:, k] for k, name in enumerate(ROTORS)})
    local = robot.forward_dynamics(q, still, tau, birotor_checks.thrust_wrenches(thrusts))
    assert ours == pytest.approx(local, abs=1e-10)
    assert np.linalg.norm(wrenches[:, 0, 3:], axis=-1) == pytest.approx(DRAG * thrusts[:, 0])
    # at the base instead, the same forces have no lever arm: an error that is seen
    at_base = robot.forward_dynamics(q, still, tau, {("base", "world_aligned"): wrenches.sum(axis=1)})
    assert np.abs(at_base - local).max() > 10.0


@given(st.floats(-3.0, 3.0), st.floats(-1.0, 1.0), st.floats(-1.0, 1.0))
def test_only_level_hovers(heading, roll, pitch):
    """The best that two rotors can do at an attitude leaves a force or a torque, unless it is level."""
    robot = birotor.robot()
    half = np.array([heading, pitch, roll]) / 2.0
    (cy, cp, cr), (sy, sp, sr) = np.cos(half), np.sin(half)
    quaternion = np.array([
        cy * cp * cr + sy * sp * sr, cy * cp * sr - sy * sp * cr, cy * sp * cr + sy * cp * sr, sy * cp * cr - cy * sp * sr,
    ])  # fmt: skip
    R = birotor_rigid_body.rotation(quaternion)
    thrusts, tilts = birotor_rigid_body.nearest_hover(robot, R, 9.81)
    force, torque = birotor_rigid_body.rotor_wrench(birotor_checks.rotor_places(), thrusts, tilts)
    missing = np.concatenate([force - R.T @ [0.0, 0.0, robot.mass * 9.81], torque])
    tilt = np.arccos(np.clip(R[2, 2], -1.0, 1.0))
    assert np.abs(missing).max() >= 0.1 * robot.mass * 9.81 * np.sin(tilt) * height()
    if abs(roll) < 1e-9 and abs(pitch) < 1e-9:
        assert np.abs(missing).max() < 1e-6


@pytest.mark.parametrize("heading", [-2.5, 0.0, 1.2])
def test_level_hovers_at_any_heading(heading):
    c, s = np.cos(heading), np.sin(heading)
    thrusts, tilts = birotor_rigid_body.nearest_hover(
        birotor.robot(), np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]), 9.798
    )
    assert thrusts == pytest.approx([7.0762, 7.0762], abs=1e-4) and tilts == pytest.approx([0.0, 0.0], abs=1e-12)


def test_servos_have_limits():
    assert servo(0.1, 0.8, 3.0) == pytest.approx(0.1 * 0.8 / SERVO_LAG)
    assert servo(2.0, 0.8, 3.0) == 0.8 * 3.0 and servo(-2.0, 0.8, 3.0) == -0.8 * 3.0


# ---- controllers


def test_it_hovers_where_it_is():
    here, robot = birotor.world(), birotor.robot()
    q = robot.integrate(robot.neutral(), [0.2, -0.1, 1.0, 0.0, 0.0, 0.7, 0.0, 0.0])
    loop = Loop(here, birotor.hover(here, here.state(q)))
    out = loop.rollout(loop.state(q), None, 300, record=["q", "v", "u", "law.thrusts"])
    assert out["law.thrusts"][0] == pytest.approx([7.08486] * 2, abs=1e-4) and out["u"][0] == pytest.approx([0.0, 0.0], abs=1e-9)
    assert np.abs(out["q"][-1] - out["q"][0]).max() < 1e-9 and np.abs(out["v"][-1] - out["v"][0]).max() < 1e-9


def test_it_comes_back_from_a_hit():
    here = birotor.world()
    loop = Loop(here, birotor.hover(here, here.state()))
    x = loop.state(v=[0.4, -0.3, 0.2, 1.0, -0.8, 0.5, 0.0, 0.0])  # m/s and rad/s
    place = birotor.robot().center_of_mass(x[:9])
    x = loop.rollout(x, None, 5000, record=[]).x
    assert birotor.robot().center_of_mass(x[:9]) == pytest.approx(place, abs=2e-3)
    assert np.abs(x[9:17]).max() < 5e-3


def test_far_away_it_asks_for_no_more_tilt_than_it_may():
    law, robot = law_function(), birotor.robot()
    far = birotor_control.hover_reference(np.array([1e3, 1e3, 0.0]), 0.0)
    near = birotor_control.hover_reference(np.array([MAX_ACCELERATION, MAX_ACCELERATION, 0.0]), 0.0)
    q = robot.neutral()
    for one, other in zip(law(q, np.zeros(8), far), law(q, np.zeros(8), near), strict=True):
        assert np.all(np.isfinite(one)) and one == pytest.approx(other)


def test_upside_down_the_law_keeps_to_its_limits():
    law, robot, rng = law_function(), birotor.robot(), np.random.default_rng(0)
    q, v = robot.random_configuration(rng, 500), 3.0 * rng.normal(size=(500, robot.nv))
    q[0, 3:7], q[1, 3:7] = (1.0, 0.0, 0.0, 0.0), (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))  # on its back, on its side
    thrusts, commands = law(q, v, birotor_control.hover_reference(np.zeros(3), 0.0))
    assert THRUST[0] <= thrusts.min() and thrusts.max() <= THRUST[1] and np.abs(commands).max() <= 1.57


def test_a_simulation_without_rotors_is_refused():
    arm = Simulation(load("ur3"), 0.001)
    with pytest.raises(ControlError, match="ur3 has 6 motors: load 'birotor'"):
        birotor.loop(arm, arm.state())


# ---- the plan


def test_the_plan_begins_and_ends_at_rest():
    t = np.array([0.0, 3.6, birotor_control.SECONDS])
    found = birotor_control.references(birotor_control.trajectory, t)
    assert found[:, :3] == pytest.approx(
        np.array([birotor_control.START, birotor_control.FIRST, birotor_control.LAST]), abs=1e-12
    )
    assert np.abs(found[:, 3:15]).max() < 1e-9 and found[:, 15:] == pytest.approx(np.zeros((3, 3)), abs=1e-12)


def test_derivatives_of_the_plan_are_those_of_its_places():
    t = np.linspace(0.0, birotor_control.SECONDS, 13001)
    found = birotor_control.references(birotor_control.trajectory, t)
    for order in range(3):
        rate = np.gradient(found[:, 3 * order : 3 * order + 3], t, axis=0)[2:-2]
        assert rate == pytest.approx(found[2:-2, 3 * order + 3 : 3 * order + 6], abs=2e-2)
    assert np.linalg.norm(found[:, 3:6], axis=-1).max() < 1.0
