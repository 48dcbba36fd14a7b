"""The four-limbed robot dropped and pushed: its checks pass and can fail."""

from dataclasses import replace

import numpy as np
import pytest
from apps.demos import fourlimb_checks
from apps.demos.fourlimb_checks import planar_world
from apps.demos.runs_of_demos import recorded
from hypothesis import given
from hypothesis import strategies as st

import condyle as cd
from condyle.apps.demos import fourlimb
from condyle.apps.demos.checks import replays
from condyle.apps.demos.fourlimb import EFFORT, above, planar, tilt


@pytest.fixture(scope="module")
def done():
    return recorded("fourlimb")


@pytest.mark.slow
def test_everything_passes(done):
    rows = list(fourlimb_checks.checks(done))
    assert [check.name for check in rows if check.ok is False] == []
    assert len(rows) >= 30


@pytest.mark.slow
def test_rows_fail_for_a_run_that_did_not_happen(done):
    x = done.x.copy()
    x[3000:, 3:7] = np.array([np.sin(0.2), 0.0, 0.0, np.cos(0.2)])
    x[100, 2] += 1e-6
    other = replace(done, x=x)
    other.__dict__["simulation"] = done.simulation
    rows = [*fourlimb_checks.landing(other), *fourlimb_checks.pushed(other), replays("run", other)]
    failed = {check.name for check in rows if check.ok is False}
    assert {"height while it falls, less that of free fall", "tilt at the end", "replays bit for bit"} <= failed


def test_sliding_and_drifting_are_seen(done):
    def failed(rows, **change):
        other = replace(done, **change)
        other.__dict__.update(simulation=done.simulation, contact_forces=done.contact_forces)
        return {check.name for check in rows(other) if check.ok is False}

    x = done.x.copy()
    x[:, 31] += 0.001  # 1 mm/s forward, and so the feet
    assert len(failed(fourlimb_checks.sliding, x=x)) == 4
    x = done.x.copy()
    x[3000:, 0] -= 0.086
    assert failed(fourlimb_checks.pushed, x=x) == {"moved forward or backward"}
    found = failed(fourlimb_checks.landing, u=done.u * 1.001)
    assert found == {"torques, less what weight and ground ask for, by the largest"}


def test_front_and_hind_do_the_same(done):
    # and so do left and right before the push
    assert np.abs(done.x[:, 0]).max() < 1e-12 and np.abs(done.x[:2000, 1]).max() < 1e-12


def test_it_is_pushed_to_the_left(done):
    pushed = np.flatnonzero(done.wrenches[:, 0, 1])
    assert len(pushed) == 150 and pushed[0] == 2000
    assert done.x[pushed[-1], 1] > 0.02 and np.abs(done.u).max() < EFFORT
    # the right feet are relieved, the left ones carry it
    left, right = (done.contact_forces[pushed[-1], feet, 2].sum() for feet in ([0, 2], [1, 3]))
    assert left > 2.0 * right


@given(turn=st.floats(-3.0, 3.0), lean=st.floats(-1.0, 1.0))
def test_tilt_does_not_see_a_turn(turn, lean):
    # yaw after pitch: (x, y, z, w) of Rz(turn) Ry(lean)
    a, b = turn / 2.0, lean / 2.0
    x = np.zeros(61)
    x[3:7] = -np.sin(a) * np.sin(b), np.cos(a) * np.sin(b), np.sin(a) * np.cos(b), np.cos(a) * np.cos(b)
    assert tilt(x) == pytest.approx(abs(lean), abs=1e-9)


def test_the_planar_robot_is_held_and_stands():
    here = planar_world()
    x = above(here, 0.02)
    loop = fourlimb.loop(here, x)
    assert (here.nx, here.nu) == (30, 12)
    out = loop.rollout(loop.state(here.split(x)[0]), None, 1201, record=["q", "v", "u", "contact_forces"])
    assert np.abs(out["u"]).max() <= EFFORT
    assert abs(out["q"][-2, 2]) < 0.02 and np.abs(out["v"][-2]).max() < 0.1
    assert out["contact_forces"][-1, :, 2].sum() == pytest.approx(99.9 * 9.81, rel=0.02)
    assert planar().mass == pytest.approx(99.9)


def test_the_largest_damping_a_step_bears():
    # the eigenvalues of dt M^-1 D stay below 2, and not by much
    robot = fourlimb.robot()
    damping = np.concatenate([np.zeros(6), np.tile(list(fourlimb.D.values()), 4)])
    M = robot.mass_matrix(fourlimb.crouched(robot))
    largest = fourlimb.DT * np.linalg.eigvals(np.linalg.solve(M, np.diag(damping))).real.max()
    assert 1.0 < largest < 1.5


@pytest.mark.parametrize(
    ("options", "words"),
    [({"push.wrench": np.nan}, "finite"), ({"hold.damping": -1.0}, "at least 0"), ({"hold.damping": np.nan}, "finite")],
)
def test_errors_say_what_to_do(options, words):
    x = above(planar_world())
    loop = fourlimb.loop(planar_world(), x, push=[0.0, 1.0, 0.0])
    given = {name: np.full(12 if name == "hold.damping" else 6, value) for name, value in options.items()}
    with pytest.raises(cd.CondyleError, match=words):
        loop.step(loop.state(planar_world().split(x)[0]), parameters=given)
