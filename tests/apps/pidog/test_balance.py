"""The body posed above its feet, and balance by IMU on slopes."""

import numpy as np
import pytest

import condyle as cd
from condyle.apps.pidog.balance import Balance
from condyle.apps.pidog.body_pose import HEIGHT, HIPS, body_pose
from condyle.apps.pidog.kinematics import FEET
from condyle.apps.pidog.plant import robot, servos, standing_state, world
from condyle.blocks.imu import IMU
from condyle.closed_loop.loop import Loop


def feet_below(angles):
    """Feet of the robot's own kinematics in its body's axes, mm."""
    q = robot().neutral()
    q[:3] = 0.0
    q[7:15] = np.radians(angles)
    return 1e3 * np.array([robot().frame_pose(q, foot)[1] for foot in FEET])


@pytest.mark.parametrize(
    "pose", [{}, {"pitch": 8.0}, {"roll": -9.0}, {"height": 70.0, "forward": 15.0}, {"roll": 5.0, "pitch": -6.0}]
)
def test_feet_lie_in_the_plane_of_the_ground(pose):
    seen = feet_below(body_pose(**pose).angles)
    normal = np.linalg.svd(seen - seen.mean(axis=0))[2][2]
    normal *= np.sign(normal[2])
    assert np.abs((seen - seen.mean(axis=0)) @ normal).max() < 1e-9
    pitch, roll = np.radians(pose.get("pitch", 0.0)), np.radians(pose.get("roll", 0.0))
    assert normal == pytest.approx([-np.sin(pitch), np.cos(pitch) * np.sin(roll), np.cos(pitch) * np.cos(roll)], abs=1e-9)
    assert -float(seen.mean(axis=0) @ normal) == pytest.approx(pose.get("height", HEIGHT) * 1.0, abs=6.0)


def test_yaw_slides_feet_sideways():
    posed = body_pose(yaw=6.0)
    assert posed.slide[0] == pytest.approx(
        -(58.5 + 5.0) * np.sin(np.radians(6.0)) - 49.0 * (1.0 - np.cos(np.radians(6.0))), abs=1e-9
    )
    assert np.abs(body_pose(pitch=8.0, height=80.0).slide).max() < 1e-12 and HIPS.shape == (4, 2)


@pytest.mark.parametrize(
    ("pose", "words"), [({"height": 130.0}, "reach height"), ({"roll": 60.0}, "reach roll"), ({"yaw": float("nan")}, "finite")]
)
def test_limits_of_reach(pose, words):
    with pytest.raises(cd.CondyleError, match=words):
        body_pose(**pose)


@pytest.mark.slow
def test_it_levels_its_body_on_slopes():
    here = world()
    follow, imu, balance = servos(here), IMU("torso", every=10), Balance(every=10)

    def control(x):
        measured = imu(x)
        return follow(x, np.concatenate([balance(measured["rate"], measured["acceleration"]), np.zeros(4)]))

    loop = Loop(here, control)
    start = loop.state(here.split(standing_state(here))[0])
    # a slope is a gravity that is not normal to the ground
    slopes = np.radians([[0.0, 0.0], [8.0, 0.0], [-8.0, 0.0], [0.0, 8.0], [6.0, -6.0]])
    down = -9.81 * np.column_stack(
        [np.sin(slopes[:, 0]), np.sin(slopes[:, 1]), np.sqrt(1.0 - np.sum(np.sin(slopes) ** 2, axis=1))]
    )
    for gain, level in (({}, True), ({"balance.integral": 0.0, "balance.proportional": 0.0, "balance.damping": 0.0}, False)):
        out = loop.rollout(np.tile(start, (5, 1)), steps=2000, every=2000, parameters={"gravity": down, **gain})
        up = np.array([robot().frame_pose(q, "torso")[0][:, 2] for q in out["q"][:, -1]])
        tilt = np.degrees(np.arccos(np.clip(-np.sum(up * down, axis=1) / 9.81, -1.0, 1.0)))
        assert tilt.max() < 1.0 if level else tilt.max() > 7.0, tilt
