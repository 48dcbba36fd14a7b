"""Gait metrics of motions whose numbers are known by hand."""

import numpy as np
import pytest

import condyle as cd
from condyle.apps.pidog.metrics import contact_velocities, gait_metrics, stability_margins, swings

DT, T = 0.01, 401
PLACES = np.array([[0.06, 0.05, 0.0], [0.06, -0.05, 0.0], [-0.06, 0.05, 0.0], [-0.06, -0.05, 0.0]])


def walked(slide=0.0):
    """A body that advances at 0.1 m/s; each foot stands for 0.75 s of every second, slides then, and swings 15 mm high."""
    t = DT * np.arange(T)
    phase = (t[:, None] + np.array([0.125, 0.375, 0.625, 0.875])) % 1.0
    down = phase < 0.7499
    lift = np.where(down, 0.0, 0.015 * np.sin(np.pi * (phase - 0.75) / 0.25))
    feet = PLACES + np.stack([0.1 * np.repeat(t[:, None], 4, axis=1), np.zeros((T, 4)), 0.008 + lift], axis=-1)
    forces = np.zeros((T, 4, 3))
    forces[..., 2] = np.where(down, 9.81 / 3.0, 0.0)
    position = np.stack([0.1 * t, 0.0 * t, 0.08 + 0.0 * t], axis=-1)
    velocities = np.zeros((T, 4, 3))
    velocities[..., 0] = slide
    return {"feet": feet, "forces": forces, "position": position, "slip_velocities": velocities}


def metrics(**given):
    return gait_metrics(DT, rotation=np.broadcast_to(np.eye(3), (T, 3, 3)), mass=1.0, **given)


def test_a_walk_by_hand():
    torques, rates = np.full((T, 2), 0.1), np.broadcast_to([2.0, -2.0], (T, 2))
    found = metrics(**walked(), torques=torques, joint_velocities=rates)
    assert found.duty_factor == pytest.approx(np.full(4, 0.75), abs=2e-3)
    assert found.lift == pytest.approx(np.full(4, 0.015), rel=1e-2) and found.steps.tolist() == [4, 4, 4, 3]
    assert found.advance == pytest.approx(0.4) and found.distance == pytest.approx(0.4) and found.speed == pytest.approx(0.1)
    assert found.slip_ratio == 0.0 and found.tilt == 0.0 and found.shake == 0.0 and not found.fell
    # only the joint that does positive work counts: 0.2 W for 4 s
    assert found.energy == pytest.approx(0.2 * DT * T) and found.cost_of_transport == pytest.approx(0.2 * DT * T / (9.81 * 0.4))


def test_sliding_is_measured_by_the_body_s_way():
    found = metrics(**walked(0.02))
    assert found.slip_ratio == pytest.approx(0.75 * 0.2, rel=2e-2)
    # a ball that rolls without sliding: its centre moves at omega r
    assert contact_velocities([0.08, 0.0, 0.0], [0.0, 10.0, 0.0], 0.008).tolist() == [0.0, 0.0, 0.0]


def test_margins():
    feet = np.broadcast_to(PLACES, (6, 4, 3))
    loaded = np.array([[1, 1, 1, 1], [1, 1, 1, 1], [1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]], dtype=bool)
    com = np.array([[0.0, 0.0, 0.1], [0.08, 0.0, 0.1], [0.0, 0.0, 0.1], [0.06, 0.0, 0.1], [0.0, 0.0, 0.1], [0.03, 0.025, 0.1]])
    found = stability_margins(com, feet, loaded)
    # inside a rectangle, outside of it, on the diagonal, beside a foot, in flight, inside a triangle
    diagonal = 0.5 * 0.12 * 0.10 / np.hypot(0.12, 0.10)  # half of the distance from a corner
    assert found[:4] == pytest.approx([0.05, -0.02, 0.0, -0.05], abs=1e-12) and np.isnan(found[4])
    assert found[5] == pytest.approx(min(0.03, 0.025, diagonal), rel=1e-9)


def test_swings_need_a_beginning_and_an_end():
    down = np.ones((10, 4), dtype=bool)
    down[:3, 0] = False  # began before
    down[4:7, 1] = False  # a whole one
    down[8:, 2] = False  # still in the air
    down[5, 3] = False  # too short
    steps, lift = swings(down, np.full((10, 4), 0.01), 2)
    assert steps.tolist() == [0, 1, 0, 0] and lift.tolist() == [0.0, 0.01, 0.0, 0.0]


def test_batches_give_the_same_as_one():
    one, other = walked(), walked(0.02)
    both = {name: np.stack([one[name], other[name]]) for name in one}
    rotation = np.broadcast_to(np.eye(3), (2, T, 3, 3))
    found = gait_metrics(DT, rotation=rotation, mass=np.array([1.0, 1.0]), **both)
    alone = metrics(**other)
    for name in ("duty_factor", "lift", "slip", "slip_ratio", "distance", "stability_margin", "worst_margin"):
        assert np.array_equal(getattr(found, name)[1], getattr(alone, name))


def test_falls_are_seen():
    given, rotation = walked(), np.tile(np.eye(3), (T, 1, 1))
    rotation[-1] = [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]
    assert gait_metrics(DT, rotation=rotation, mass=1.0, **given).fell
    body = np.zeros((T, 1, 3))
    body[5, 0, 2] = 2.0
    assert metrics(**given, body_forces=body).fell and not metrics(**given, body_forces=0.1 * body).fell


@pytest.mark.parametrize(
    ("change", "words"), [({"feet": np.zeros((4, 3))}, "feet must be"), ({"forces": np.zeros((T, 3, 3))}, "forces must be")]
)
def test_wrong_shapes(change, words):
    with pytest.raises(cd.CondyleError, match=words):
        metrics(**walked() | change)
