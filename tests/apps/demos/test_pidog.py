"""PiDog: its maker's legs and gaits, its servos, and that its rows pass and can fail."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from apps.demos import pidog_checks
from apps.demos.comparison import sliding_distance
from apps.demos.facts import PiDog
from apps.demos.runs_of_demos import recorded
from hypothesis import given
from hypothesis import strategies as st

import condyle as cd
from condyle.apps.demos import pidog
from condyle.apps.demos.checks import next_rows
from condyle.apps.pidog import gaits, kinematics, plant, poses, servos, trajectories
from condyle.apps.pidog.gaits import HEIGHT
from condyle.apps.pidog.kinematics import LEGS
from condyle.apps.pidog.servos import TICK
from condyle.robot.library.pidog import EFFORT, SPEED

CLOSE = 1e-12  # the same formula in float64, relative


@pytest.fixture(scope="module")
def done():
    return recorded("pidog")


@pytest.fixture(scope="module")
def rows(done):
    return list(pidog_checks.checks(done))


# ---- the whole


def test_everything_passes(rows):
    assert [check.name for check in rows if check.ok is False] == []
    assert len(rows) >= 50


def test_rows_fail_for_a_run_that_did_not_happen(done):
    x = done.x.copy()
    x[:, 3:7] = np.array([np.sin(0.1), 0.0, 0.0, np.cos(0.1)])  # leaning over by 0.2 rad
    x[:, 0] = 0.0
    other = replace(done, x=x)
    other.__dict__["simulation"] = done.simulation
    failed = {check.name for check in pidog_checks.checks(other) if check.ok is False}
    assert {"largest roll", "advance of cycle 2; 91.4 without slip", "replays bit for bit", "roll"} <= failed


def test_a_run_is_kept_and_repeats(done, tmp_path):
    path = tmp_path / "walk.cdl"
    assert pidog.run(path).hash == done.hash, "the same run again, bit for bit"
    read = cd.read_run(path)
    assert read.steps == 3000 and read.hash == done.hash and read.check()
    assert read.extras["reference"].shape == (3000, 12) and read.about["gait"] == "walk"
    pidog.run(path)  # and it may be made again in the same place


def test_it_stands_walks_and_stands(done):
    begin, *_, end = (round(t / done.dt) for t in trajectories.timetable())
    still = np.abs(done.v[begin - 60]).max(), np.abs(done.v[-1]).max()
    assert max(still) < 0.05
    assert done.x[end, 0] - done.x[begin, 0] > 0.16
    # feet leave the ground in the order of the table: LF, RH, RF, LH
    cycle = slice((begin + end) // 2, end)
    high = np.stack([done.robot.frame_pose(done.q[cycle], foot)[1][:, 2] for foot in kinematics.FEET])
    assert [LEGS[i] for i in np.argsort(high.argmax(axis=1))] == ["LF", "RH", "RF", "LH"]


# ---- legs


@given(y=st.floats(-60.0, 60.0), z=st.floats(45.0, 100.0))
def test_there_and_back(y, z):
    foot = np.array([y, z])
    assert np.abs(kinematics.foot_position(kinematics.leg_angles(foot)) - foot).max() < 115.0 * CLOSE
    angles = kinematics.servo_angles(np.tile(foot, (4, 1))).reshape(4, 2) * kinematics.SIDES[:, None] + [0.0, 90.0]
    assert np.abs(kinematics.foot_position(angles) - foot).max() < 115.0 * CLOSE


@given(y=st.floats(-300.0, 300.0), z=st.floats(-300.0, 300.0))
def test_any_place_gives_angles(y, z):
    angles = kinematics.leg_angles([y, z])
    reach = np.hypot(*kinematics.foot_position(angles))
    assert np.all(np.isfinite(angles)) and 34.0 - 1e-9 <= reach <= 118.0 + 1e-9
    u = np.hypot(y, z)
    if u > 118.0:
        assert reach == pytest.approx(118.0, abs=1e-9)


def test_stand_angles_and_the_wrong_table():
    stand = np.array(poses.POSES["stand"]).reshape(4, 2)
    assert stand.round(2).tolist() == [[40.61, 15.54], [-40.61, -15.54], [60.28, 5.26], [-60.28, -5.26]]
    wrong = kinematics.foot_position(np.array(PiDog.WRONG_STAND) + np.array([0.0, 90.0]))
    assert wrong[1] < 1.0, "by that table the feet are no lower than the hips"


@pytest.mark.parametrize("pose", poses.POSES)
def test_poses_are_within_the_limits_and_alike_on_both_sides(pose):
    angles = poses.pose_angles(pose).reshape(4, 2)
    assert np.abs(angles).max() <= 90.0
    assert np.array_equal(angles[::2], -angles[1::2])


# ---- gaits


def test_the_walk_moves_one_foot_at_a_time():
    walk = gaits.walk()
    assert walk.shape == (49, 4, 2)
    assert np.array_equal(walk[-1][:, 0].round(9), (walk[-2][:, 0]).round(9)), "the cycle closes where it began"
    assert np.sum(walk[:, :, 1] < HEIGHT, axis=1).max() == 1
    # a foot on the ground moves W / 42 a frame; a lifted one comes down with the next frame
    step = np.diff(walk[:-1, 1, 0])
    stance = step[(walk[1:-1, 1, 1] == HEIGHT) & (walk[:-2, 1, 1] == HEIGHT) & (step > 0.0)]
    assert stance == pytest.approx(np.full(len(stance), 80.0 / 42.0), rel=1e-9)
    top = int(walk[:, 0, 1].argmin())
    assert walk[top, 0].tolist() == pytest.approx([15.0 - 80.0, 60.0]) and walk[top + 1, 0, 1] == HEIGHT


def test_backward_and_turning():
    back, left, right = gaits.walk(False), gaits.walk(turn="left"), gaits.walk(turn="right")
    assert gaits.ideal_advance(back) == pytest.approx(-91.43, abs=0.01)
    assert np.ptp(left[:, 0, 0]) == pytest.approx(24.0) and np.ptp(left[:, 1, 0]) == pytest.approx(80.0)
    assert np.array_equal(np.ptp(right, axis=0)[[1, 3]], np.ptp(left, axis=0)[[0, 2]])
    trot = gaits.trot()
    up = trot[:, :, 1] < HEIGHT
    assert trot.shape == (6, 4, 2) and np.array_equal(up[:, 0], up[:, 3]) and np.array_equal(up[:, 1], up[:, 2])
    assert gaits.ideal_advance(trot) == pytest.approx(200.0)
    assert gaits.ideal_advance(gaits.trot(False)) == pytest.approx(-200.0)


@given(speed=st.floats(0.0, 100.0), distance=st.floats(0.0, 180.0))
def test_no_servo_is_commanded_to_be_too_fast(speed, distance):
    count = gaits.frame_ticks(np.zeros(8), np.full(8, distance), speed)
    assert count * TICK >= (1000.0 - 9.9 * speed) / 1000.0 - 1e-6 and distance / (count * TICK) <= 428.0 * (1.0 + 1e-6)
    commanded = list(gaits.ticks([np.full(8, distance)], speed, np.zeros(8)))
    assert len(commanded) == count and commanded[-1][0] == distance


@pytest.mark.parametrize("speed", [-1.0, 100.5, float("nan")])
def test_a_speed_that_cannot_be(speed):
    with pytest.raises(cd.CondyleError, match="from 0 to 100"):
        trajectories.walking(plant.world(), plant.standing_state(plant.world()), speed=speed)


# ---- servos


@given(angle=st.floats(-90.0, 90.0))
def test_a_command_is_heard_within_half_a_count(angle):
    heard = float(servos.quantized(angle))
    assert abs(heard - angle) <= 0.22 + 1e-6 and float(servos.counts(angle)).is_integer()


def test_a_free_leg_follows_as_a_lag_and_no_faster_than_it_can():
    # in the air, without gravity: one hip is commanded to turn by 40 degrees
    robot = cd.load("pidog", gravity=(0.0, 0.0, 0.0))
    here = cd.Simulation(robot, 0.0005)
    x = here.state()
    angles = np.zeros(8)
    angles[0] = 40.0
    references, loop = next_rows({"reference": trajectories.commands(here, iter([angles] * 200))}, 400), plant.loop(here, x)
    out = loop.rollout(loop.state(), references, record=["q", "v"])
    q, v, commanded = out["q"][:, 7], out["v"][:, 6], float(references["reference"][-1, 0])
    assert v.max() <= SPEED * 1.05 and v.max() > 0.8 * SPEED
    assert q[-1] == pytest.approx(commanded, abs=np.radians(0.5)) and q.max() < commanded + np.radians(3.0)
    assert np.abs(np.array(servos.servo_torque(np.ones(12), np.zeros(12)))).max() == EFFORT


# ---- controllers


@cache
def dog():
    """The loop of the dog, and where it starts."""
    x0 = plant.standing_state(plant.world())
    loop = plant.loop(plant.world(), x0)
    return loop, loop.state(plant.world().split(x0)[0]), x0


@pytest.mark.slow
def test_it_walks_any_way_upright():
    loop, start, x0 = dog()
    ways = [(turn, forward) for turn in ("", "left", "right") for forward in (True, False)]
    references = [
        next_rows({"reference": trajectories.walking(plant.world(), x0, turn=turn, forward=forward, rest=0.3)}, 1400)["reference"]
        for turn, forward in ways
    ]
    end = loop.rollout(np.tile(start, (6, 1)), np.array(references), record=[]).x
    for (turn, forward), x in zip(ways, end, strict=True):
        roll, pitch, yaw = np.degrees(plant.attitude(x))
        assert abs(roll) < 8.0 and abs(pitch) < 8.0
        assert (x[0] > 0.04) if forward else (x[0] < -0.04)
        side = {"": 0.0, "left": 1.0, "right": -1.0}[turn] * (1.0 if forward else -1.0)
        assert yaw * side > 3.0 if side else abs(yaw) < 3.0


def test_it_lies_down():
    loop, start, x0 = dog()
    x = loop.rollout(start, next_rows({"reference": trajectories.standing(plant.world(), x0, "lie")}, 500), record=[]).x
    # its belly touches nothing here: the hind knees carry all they can, and give way
    assert np.degrees(x[7:15]) == pytest.approx(poses.pose_angles("lie"), abs=6.0) and x[2] < 0.07


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda w, x: trajectories.walking(w, x, gait="gallop"), "walk, trot"),
        (lambda w, x: trajectories.walking(w, x, turn="up"), "left"),
        (lambda w, x: trajectories.walking(w, x, gait="trot", turn="left"), "turn with the walk"),
        (lambda w, x: trajectories.standing(w, x, "stnd"), "did you mean 'stand'"),
        (lambda w, x: trajectories.standing(cd.Simulation(cd.load("ur3"), 0.002), x), "lacks some"),
    ],
)
def test_errors_say_what_to_do(make, words):
    with pytest.raises(cd.CondyleError, match=words):
        make(plant.world(), plant.standing_state(plant.world()))


@pytest.mark.slow
def test_it_walks_on_other_floors():
    loop, start, x0 = dog()
    references = next_rows({"reference": trajectories.walking(plant.world(), x0, rest=0.3)}, 1200)
    frictions = {"ground.friction": np.array([0.3, 1.0])}
    q = loop.rollout(np.tile(start, (2, 1)), references, parameters=frictions, record=["q"])["q"]
    assert np.abs(plant.attitude(q)[..., :2]).max() < np.radians(8.0) and np.all(q[:, -1, 0] > 0.08)


def test_a_servo_that_is_too_weak_or_too_slow_is_seen(monkeypatch):
    assert [check.ok for check in pidog_checks.servo()] == [True, True]
    exact = plant.servos(plant.world())
    monkeypatch.setattr(plant, "servos", lambda simulation: lambda x, reference: 0.9 * exact(x, reference)["u"])
    assert next(iter(pidog_checks.servo())).ok is False


def test_feet_that_stick_do_not_slide(done):
    # a foot's centre moves as the ball rolls: the point that touches is what counts
    standing = slice(200, 390)
    distance = sliding_distance(done, kinematics.FEET, 0.008)[standing].sum(axis=0)
    assert distance.max() < 2e-5
    cycle = sliding_distance(done, kinematics.FEET, 0.008)[1500:2000].sum(axis=0)
    assert np.all(cycle > 1e-4)
