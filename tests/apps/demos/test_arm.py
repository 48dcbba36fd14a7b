"""The arm: its checks pass and can fail, its tool goes where it is sent, and it carries its own weight."""

from dataclasses import replace

import numpy as np
import pytest
from apps.demos import arm_checks
from apps.demos.runs_of_demos import recorded
from hypothesis import given
from hypothesis import strategies as st

from condyle.apps.demos import arm
from condyle.apps.demos.profiles import MAX_ACCELERATION, MAX_SPEED, smooth, smooth_integral
from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError, RobotError
from condyle.multibody.robot import load
from condyle.robot.library.ur3 import READY
from condyle.simulate.simulation import Simulation
from condyle.tape.function import function


@pytest.fixture(scope="module")
def done():
    return recorded("arm")


@pytest.fixture(scope="module")
def rows(done):
    return list(arm_checks.checks(done))


def values(found):
    return {check.name: check for check in found}


def test_everything_passes(rows):
    assert [check.name for check in rows if not check.ok] == []
    assert len(rows) >= 25


def test_the_run_is_kept_and_found_again(done, tmp_path):
    from condyle.workbench.runs.run import read_run

    done.save(tmp_path / "drawing.cdl")
    again = read_run(tmp_path / "drawing.cdl")
    assert np.array_equal(again.x, done.x) and again.check().identical


# ---- the rows can fail


def test_a_tool_off_its_plan_is_seen(done):
    x = done.x.copy()
    x[:, 0] += 0.01
    found = values(arm_checks.drawing(replace(done, x=x)))
    assert not found["tool from its plan before the push, rms"].ok and not found["tool from its plan in the end"].ok
    x = done.x.copy()
    x[10, 6 + 4] = -3.3
    assert not values(arm_checks.drawing(replace(done, x=x)))["largest speed, by the joint's limit"].ok
    found = values(arm_checks.drawing(replace(done, u=done.u * 30.0)))
    assert not found["largest torque, by the joint's limit"].ok


def test_work_that_is_not_done_is_seen(done):
    for change in ({"u": done.u * 1.0001}, {"wrenches": done.wrenches * 0.99}):
        found = values(arm_checks.accounts(replace(done, **change)))
        assert not any(check.ok for check in found.values())


def test_softer_gains_are_seen(monkeypatch):
    monkeypatch.setattr(arm_checks, "KP", arm.KP * 1.01)
    assert not next(iter(arm_checks.stiffness())).ok


def test_the_push_is_felt_and_forgotten(done):
    away = arm.tool_errors(done)
    begin = round(arm.PUSHED_AT / arm.DT)
    assert away[: begin + 1].max() < 1e-3 < 0.05 < away[begin:].max() and away[-1] < 1e-3
    assert np.count_nonzero(np.any(done.wrenches != 0.0, axis=(1, 2))) == round(arm.PUSHED_FOR / arm.DT)


# ---- from the tool to the joints


@given(st.floats(0.22, 0.42), st.floats(-0.2, 0.2), st.floats(0.15, 0.35))
def test_the_tool_goes_where_it_is_sent(x, y, z):
    q = arm.joints_for(np.array([x, y, z]))
    R, p = arm.robot().frame_pose(q, "tool")
    assert p == pytest.approx([x, y, z], abs=1e-10)
    assert np.abs(R - arm.DOWN).max() < 1e-10
    assert np.abs(q).max() <= np.pi


def test_published_places_are_reached():
    places = np.array([[0.35, 0.15, 0.30], [0.35, 0.15, 0.20], [0.25, -0.20, 0.32], [0.25, -0.20, 0.22]])
    q = arm.joints_for(places)
    assert arm.robot().frame_pose(q, "tool")[1] == pytest.approx(places, abs=1e-12)


@pytest.mark.parametrize("place", [[1.0, 0.0, 0.2], [0.02, 0.0, 0.3]])
def test_out_of_reach_is_an_error(place):
    with pytest.raises(ControlError, match=r"no joints were found that put the tool down at \[.*choose a position"):
        arm.joints_for(np.array([[0.35, 0.0, 0.22], place]))


@pytest.mark.parametrize("place", [[np.nan, 0.0, 0.0], [1e300, 0.0, 0.0]])
def test_a_position_that_is_no_position(place):
    with pytest.raises(RobotError, match="finite"):
        arm.joints_for(np.array([[0.35, 0.0, 0.22], place]))


def test_the_plan_is_smooth():
    plan = arm.trajectory()
    assert np.abs(np.diff(plan.q, axis=0)).max() < 1.01 * arm.DT * np.abs(plan.v).max()
    assert np.gradient(plan.v, plan.t, axis=0)[2:-2] == pytest.approx(plan.a[2:-2], abs=1e-3)
    corners = arm.corners()
    seen = [np.abs(plan.position[plan.drawing] - corner).max(axis=-1).min() for corner in corners]
    assert max(seen) < 1e-6 and np.ptp(corners, axis=0) == pytest.approx([0.16, 0.12, 0.0])


def test_smooth_motion():
    t = np.linspace(-0.5, 2.5, 3001)
    ways = function(lambda t: {"s": smooth(t, 0.5, 1.5), "sum": smooth_integral(t, 0.5, 1.5)}, t=())
    s, total = ways(t)
    rate, of_sum = ways.jacobian()(t)
    assert s[0] == 0.0 and s[-1] == pytest.approx(1.0, abs=1e-14) and np.all(np.diff(s) >= -1e-15)
    assert of_sum == pytest.approx(s, abs=1e-12) and total[-1] == pytest.approx(0.5 * 1.5 + 0.5)
    assert rate.max() == pytest.approx(MAX_SPEED / 1.5, rel=1e-5)
    assert np.abs(ways.jacobian().jacobian()(t)[0]).max() == pytest.approx(MAX_ACCELERATION / 1.5**2, rel=1e-4)


# ---- controllers


def test_it_carries_its_own_weight():
    here = arm.world()
    x0 = here.state(READY)
    loop = Loop(here, arm.gravity_compensation(here, x0))
    x = loop.rollout(loop.state(READY), None, 500).x
    assert np.abs(x[:12] - x0).max() < 1e-9
    fallen = here.rollout(x0, np.zeros((500, 6)))[-1]
    assert np.abs(fallen[:6] - x0[:6]).max() > 0.5


def test_what_is_left_out_is_seen():
    here, plan, robot = arm.world(), arm.trajectory(), arm.robot()
    # no M a* in the law
    n, follow = round(arm.PUSHED_AT / arm.DT), arm.loop(here, None)
    references = {"reference": plan.q[:n], "rates": np.concatenate([plan.v, 0.0 * plan.a], axis=1)[:n]}
    q = follow.rollout(follow.state(READY), references, record=["q"])["q"]
    off = robot.frame_pose(q, "tool")[1] - robot.frame_pose(plan.q[1 : n + 1], "tool")[1]
    assert np.linalg.norm(off, axis=-1).max() == pytest.approx(0.021, abs=1e-3)
    # the push at another point of the same link
    at = plan.q[round(arm.PUSHED_AT / arm.DT)]
    torques = [robot.jacobian(at, frame)[:3].T @ arm.PUSH for frame in ("tool", "wrist_3")]
    assert torques[1][3] / torques[0][3] == pytest.approx(3.2, abs=0.1) and abs(torques[1][4]) < 1e-12


def test_another_robot_is_refused():
    dog = Simulation(load("pidog"), 0.002)
    with pytest.raises(ControlError, match=r"gains are for 6 joints.*pidog has 18 velocities.*hold"):
        arm.loop(dog, dog.state())
