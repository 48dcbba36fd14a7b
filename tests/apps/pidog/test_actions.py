"""PiDog's actions: their data, and that they are performed without a fall."""

from functools import cache

import numpy as np
import pytest

import condyle as cd
from condyle.apps.pidog.actions import ACTIONS, HEAD_LIMITS, TAIL_LIMIT, action
from condyle.apps.pidog.gaits import smooth_trot
from condyle.apps.pidog.kinematics import feet_of, servo_angles
from condyle.apps.pidog.player import play, sequence
from condyle.apps.pidog.poses import POSES, STAND
from condyle.apps.pidog.servos import FASTEST, TICK


@cache
def played(name, **options):
    return play(name, **options)


@pytest.mark.parametrize("name", ACTIONS)
def test_frames_are_within_limits_and_no_servo_is_too_fast(name):
    planned = sequence(action(name)).angles
    assert action(name).name == name and action(name).source in ("table", "ours")
    assert np.abs(planned[:, :8]).max() <= 90.0 and np.abs(planned[:, 11]).max() <= TAIL_LIMIT
    for k, (low, high) in enumerate(HEAD_LIMITS):
        assert low <= planned[:, 8 + k].min() and planned[:, 8 + k].max() <= high
    rates = np.abs(np.diff(planned, axis=0)) / TICK
    for part, columns in (("legs", slice(0, 8)), ("head", slice(8, 11)), ("tail", slice(11, 12))):
        assert rates[:, columns].max() <= FASTEST[part] * (1.0 + 1e-9)


def test_head_and_tail_have_their_own_rates():
    hand = sequence(action("handshake")).angles
    moved = [np.flatnonzero(np.abs(np.diff(hand[:, column])) > 1e-9) for column in (2, 10, 11)]
    legs, head, tail = (len(each) for each in moved)
    assert legs and head and tail and len({legs, head, tail}) == 3
    # a head frame of 70 degrees takes 70 / 300 s however fast the speed says
    assert len(sequence(action("shake-head"), cycles=2).angles) > 2 * 70.0 / 300.0 / TICK


def test_poses_are_the_table_s():
    for name, pose in (("sit", "sit"), ("lie", "lie"), ("stretch", "stretch"), ("stand", "stand"), ("half-sit", "half sit")):
        assert sequence(action(name)).angles[-1, :8].tolist() == list(POSES[pose])
    legs = action("push-up").legs.tolist()
    assert legs == [list(POSES["push-up A"]), list(POSES["push-up B"])]
    assert np.abs(feet_of(servo_angles(STAND)) - STAND).max() < 1e-10


@pytest.mark.parametrize("name", [name for name in ACTIONS if not ACTIONS[name]().gait])
@pytest.mark.slow
def test_it_performs_and_rests(name):
    done = played(name)
    assert not done.fell and np.abs(done.run.v[-1]).max() < 0.02
    body = 1e3 * done.run.q[-1, 2]
    low, high = {"lie": (30, 45), "lie-hands-out": (28, 42), "doze-off": (30, 48)}.get(name, (55, 110))
    assert low < body < high
    # the weight is carried
    assert done.run.contact_forces[-1, :, 2].sum() == pytest.approx(done.run.robot.mass * 9.81, rel=1e-2)


def test_the_walk_advances_91_mm_a_cycle():
    done = played("walk")
    assert 1e3 * done.advances == pytest.approx(np.full(3, 91.4), abs=0.05 * 91.4) and not done.fell
    metrics = done.metrics
    assert metrics.duty_factor == pytest.approx(np.full(4, 0.75), abs=0.06) and metrics.slip_ratio < 0.12
    assert np.all(metrics.steps >= 1) and np.all(metrics.lift > 0.002) and 0.2 < metrics.cost_of_transport < 1.0
    assert metrics.stability_margin > 0.01 and np.abs(np.degrees(done.turns)).max() < 1.0


def test_backward_and_turns():
    back, left, right = (played(name) for name in ("backward", "turn-left", "turn-right"))
    assert np.all(back.advances < -0.09) and not (back.fell or left.fell or right.fell)
    assert np.degrees(left.turns[1:]) == pytest.approx(np.full(2, 8.5), abs=1.5)
    assert np.degrees(right.turns[1:]) == pytest.approx(np.full(2, -8.5), abs=1.5)


@pytest.mark.parametrize("friction", [0.3, 1.0])
def test_our_trot_does_not_fall_in_ten_cycles(friction):
    done = played("trot", cycles=10, friction=friction)
    assert not done.fell and np.degrees(done.metrics.tilt) < 8.0
    assert np.all(done.metrics.lift > 0.010) and done.metrics.speed > 0.12 and len(done.advances) == 10


def test_the_table_s_trot_falls():
    done = played("table-trot")
    _, second, third = done.cycle_times[:3]
    assert done.fell and second < done.first_fall < third, "in its second cycle"


def test_our_trot_goes_backward_and_turns():
    back, left, right = (played(name, cycles=4) for name in ("trot-backward", "trot-left", "trot-right"))
    assert not (back.fell or left.fell or right.fell) and np.all(back.advances[1:] < -0.03)
    assert np.degrees(left.turns[1:]).mean() > 2.0 and np.degrees(right.turns[1:]).mean() < -2.0
    assert np.all(np.hypot(*np.moveaxis(smooth_trot(), -1, 0)) < 118.0), "within reach"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: action("tort"), "did you mean 'trot'"),
        (lambda: play("walk", speed=101.0), "from 0 to 100"),
        (lambda: play("walk", speed=float("nan")), "from 0 to 100"),
        (lambda: play("walk", cycles=0), "from 1 to"),
        (lambda: play("walk", friction=float("nan")), "from 0 up"),
    ],
)
def test_errors_say_what_to_do(make, words):
    with pytest.raises(cd.CondyleError, match=words):
        make()


def test_names_may_be_written_with_spaces():
    assert action("Turn left").name == "turn-left" and action("high_five").name == "high-five"
