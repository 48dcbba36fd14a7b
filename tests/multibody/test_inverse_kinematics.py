"""Inverse kinematics: poses within reach are reached within the limits, in batches as alone; others give the best found."""

from __future__ import annotations

import numpy as np
import pytest

import condyle as cd

TOLERANCE = 1e-9  # the default: m and rad together


@pytest.fixture(scope="module", params=["ur3", "pidog"])
def robot(request: pytest.FixtureRequest) -> cd.Robot:
    return cd.load(request.param)


def frame_of(robot: cd.Robot) -> str:
    return "tool" if robot.name == "ur3" else "nose"


def test_poses_that_can_be_reached_are_reached_within_the_limits(robot: cd.Robot) -> None:
    frame = frame_of(robot)
    R, p = robot.frame_pose(robot.random_configuration(np.random.default_rng(3), 40), frame)
    found = robot.inverse_kinematics(frame, (R, p))
    assert found.ok.shape == (40,) and found.ok.mean() >= 0.95
    assert np.all(found.q >= robot.lower) and np.all(found.q <= robot.upper)
    R_found, p_found = robot.frame_pose(found.q[found.ok], frame)
    assert np.abs(p_found - p[found.ok]).max() < 2 * TOLERANCE
    assert np.abs(R_found - R[found.ok]).max() < 2 * TOLERANCE


def test_a_row_of_a_batch_has_the_bits_of_a_single_call(robot: cd.Robot) -> None:
    frame = frame_of(robot)
    R, p = robot.frame_pose(robot.random_configuration(np.random.default_rng(4), 9), frame)
    many = robot.inverse_kinematics(frame, (R, p))
    for k in range(0, 9, 3):
        one = robot.inverse_kinematics(frame, (R[k], p[k]))
        assert one.q.tobytes() == many.q[k].tobytes() and one.residual == many.residual[k] and one.ok == many.ok[k]


def test_a_pose_may_be_a_matrix_or_a_position_alone() -> None:
    arm = cd.load("ur3")
    R, p = arm.frame_pose(np.array([0.4, -1.2, 1.0, -0.9, 0.7, 0.3]), "tool")
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = R, p
    assert arm.inverse_kinematics("tool", X).q.tobytes() == arm.inverse_kinematics("tool", (R, p)).q.tobytes()
    q, residual, ok = arm.inverse_kinematics("tool", p)
    assert ok and residual <= TOLERANCE and np.abs(arm.frame_pose(q, "tool")[1] - p).max() <= TOLERANCE
    # a start broadcasts with the poses
    assert arm.inverse_kinematics("tool", np.tile(p, (2, 3, 1)), np.zeros((3, 6))).q.shape == (2, 3, 6)


def test_a_pose_out_of_reach_gives_the_best_configuration_and_is_not_ok() -> None:
    arm = cd.load("ur3")
    target = np.array([5.0, 0.0, 0.3])
    q, residual, ok = arm.inverse_kinematics("tool", target, restarts=3)
    assert not ok and np.all(q >= arm.lower) and np.all(q <= arm.upper)
    assert residual == pytest.approx(np.linalg.norm(arm.frame_pose(q, "tool")[1] - target), rel=1e-12)
    # stretched towards it: no random configuration is nearer
    _, p = arm.frame_pose(arm.random_configuration(np.random.default_rng(5), 2000), "tool")
    assert residual <= np.linalg.norm(p - target, axis=1).min()


def test_a_constrained_robot_stays_on_its_constraint() -> None:
    arm = cd.load("ur3")
    coupled = arm.couple("wrist_3_joint", "wrist_1_joint", -0.5, 0.1)
    R, p = coupled.frame_pose(np.array([0.3, -1.0, 0.8, -0.6, 0.5]), "tool")
    found = coupled.inverse_kinematics("tool", (R, p))
    assert found.ok and np.abs(coupled.frame_pose(found.q, "tool")[1] - p).max() < 2 * TOLERANCE
    q, _ = coupled.lift(found.q, np.zeros(5))
    assert q[5] == pytest.approx(0.1 - 0.5 * q[3], abs=1e-14)


@pytest.mark.parametrize(
    ("pose", "words"),
    [
        (np.zeros(4), "a pose is"),
        ("tool", "a pose is"),
        ((np.eye(3), np.zeros(2)), "a pose is"),
        ((2.0 * np.eye(3), np.zeros(3)), "rotation matrix"),
        ((np.diag([1.0, 1.0, -1.0]), np.zeros(3)), "rotation matrix"),
        (np.array([np.nan, 0.0, 0.0]), r"p\[0, 0\] is nan"),
    ],
)
def test_a_pose_that_is_none_is_a_sentence(pose: object, words: str) -> None:
    with pytest.raises(cd.RobotError, match=words):
        cd.load("ur3").inverse_kinematics("tool", pose)
