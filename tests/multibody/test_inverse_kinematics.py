"""Inverse kinematics: poses within reach are reached within the limits, in batches as alone; others give the best found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.multibody import inverse_kinematics as module
from condyle.multibody.closed_form_kinematics import inverse_kinematics_solutions
from condyle.multibody.inverse_kinematics_path import inverse_kinematics_path
from condyle.multibody.manipulability import manipulability, manipulability_gradient

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


# ---- which solution


@pytest.fixture(scope="module")
def arm() -> cd.Robot:
    return cd.load("ur3")


def test_the_nearest_and_the_most_manipulable_solution_are_chosen(arm: cd.Robot) -> None:
    q = np.array([0.4, -1.2, 1.0, -0.9, 0.7, 0.3])
    R, p = arm.frame_pose(np.array([q, q + 0.2, q - 0.1]), "tool")
    all_of_them = inverse_kinematics_solutions(arm, "tool", (R, p), q)
    near = arm.inverse_kinematics("tool", (R, p), q + 0.05, choose="nearest", restarts=40)
    best = arm.inverse_kinematics("tool", (R, p), q, choose="manipulability", restarts=40)
    assert near.ok.all() and best.ok.all()
    for k in range(3):
        exact = all_of_them.q[k][all_of_them.ok[k]]
        least = np.min(np.max(np.abs(exact - q - 0.05), axis=-1))
        assert np.max(np.abs(near.q[k] - q - 0.05)) == pytest.approx(least, abs=1e-7)
        most = np.max(manipulability(arm, exact, "tool"))
        assert manipulability(arm, best.q[k], "tool") == pytest.approx(most, rel=1e-7)
    # a row of a batch has the bits of a single call, whatever is chosen
    for choose, many in (("nearest", near), ("manipulability", best)):
        start = q + 0.05 if choose == "nearest" else q
        one = arm.inverse_kinematics("tool", (R[1], p[1]), start, choose=choose, restarts=40)
        assert one.q.tobytes() == many.q[1].tobytes()


def test_the_first_solution_does_not_depend_on_how_many_restarts_run_in_a_call(
    arm: cd.Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    R, p = arm.frame_pose(arm.random_configuration(np.random.default_rng(8), 20), "tool")
    found = arm.inverse_kinematics("tool", (R, p), restarts=20)
    for size in (1, 7, 20):
        monkeypatch.setattr(module, "ROUND", size)
        assert arm.inverse_kinematics("tool", (R, p), restarts=20).q.tobytes() == found.q.tobytes()


def test_the_analytic_method_has_every_pose(arm: cd.Robot) -> None:
    q = arm.random_configuration(np.random.default_rng(6), 300)
    R, p = arm.frame_pose(q, "tool")
    found = arm.inverse_kinematics("tool", (R, p), q, method="analytic")
    assert found.ok.all() and found.residual.max() < 1e-10 and np.abs(found.q - q).max() < 1e-6
    one = arm.inverse_kinematics("tool", (R[5], p[5]), q[5], method="analytic")
    assert one.q.tobytes() == found.q[5].tobytes()
    far = arm.inverse_kinematics("tool", (np.eye(3), np.array([2.0, 0.0, 0.0])), method="analytic")
    assert not far.ok and np.isfinite(far.residual) and np.all(np.isfinite(far.q))


# ---- the null space


@pytest.mark.parametrize("objective", ["posture", "centre", "manipulability"])
def test_free_joints_minimise_a_secondary_objective(arm: cd.Robot, objective: str) -> None:
    q0 = np.array([0.4, -1.2, 1.0, -0.9, 0.7, 0.3])
    p = arm.frame_pose(q0, "tool")[1] + [0.03, -0.02, 0.01]
    rest = q0 + 0.1
    found = arm.inverse_kinematics("tool", p, q0, null_space=objective, posture=rest if objective == "posture" else None)
    plain = arm.inverse_kinematics("tool", p, q0)
    assert found.ok and found.residual <= TOLERANCE
    gradients = {
        "posture": lambda q: q - rest,
        "centre": lambda q: (q - 0.5 * (arm.lower + arm.upper)) / (0.5 * (arm.upper - arm.lower)) ** 2,
        "manipulability": lambda q: -manipulability_gradient(arm, q, "tool", task="position"),
    }
    g = gradients[objective]
    J = arm.jacobian(found.q, "tool")[:3]
    project = np.eye(6) - np.linalg.pinv(J) @ J
    J0 = arm.jacobian(plain.q, "tool")[:3]
    before = np.linalg.norm((np.eye(6) - np.linalg.pinv(J0) @ J0) @ g(plain.q))
    # stationary within the null space, and it was not before
    assert np.linalg.norm(project @ g(found.q)) < 1e-3 * before
    postures = np.array([rest, q0]) if objective == "posture" else None
    many = arm.inverse_kinematics("tool", p, q0, null_space=objective, posture=postures)
    assert np.reshape(many.q, (-1, 6))[0].tobytes() == found.q.tobytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"choose": "best"}, "choose is 'first' or 'nearest' or 'manipulability'"),
        ({"method": "exact"}, "method is 'numeric' or 'analytic'"),
        ({"restarts": -1}, "restarts is a whole number"),
        ({"tolerance": 0.0}, "tolerance is a positive number"),
        ({"null_space": "centre"}, "has 6 joints and the pose takes 6: none is left"),
        ({"null_space": "elbow up"}, "null_space is 'posture', 'centre' or 'manipulability'"),
        ({"posture": np.zeros(6)}, "none is left for null_space"),
        ({"null_space": "centre", "posture": np.zeros(6), "pose": np.zeros(3)}, "posture= is for null_space='posture'"),
        ({"method": "analytic", "pose": np.zeros(3)}, "needs a whole pose"),
        ({"null_space": "posture", "posture": np.zeros(5), "pose": np.zeros(3)}, "posture must have 6 entries"),
    ],
)
def test_options_that_are_none_are_sentences(arm: cd.Robot, options: dict[str, Any], words: str) -> None:
    pose = options.pop("pose", (np.eye(3), np.array([0.3, 0.1, 0.3])))
    with pytest.raises(cd.RobotError, match=words):
        arm.inverse_kinematics("tool", pose, **options)


# ---- along a path


def test_a_path_is_continued_from_point_to_point(arm: cd.Robot) -> None:
    q0 = np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])
    R, p = arm.frame_pose(q0, "tool")
    way = p + np.linspace(0.0, 1.0, 60)[:, None] * [0.05, 0.2, -0.1]
    found = inverse_kinematics_path(arm, "tool", R, way, q0)
    assert found.ok.all() and not found.jump.any() and found.q.shape == (60, 6)
    assert np.abs(arm.frame_pose(found.q, "tool")[1] - way).max() < 2 * TOLERANCE
    # the same bits among other paths, and as step by step
    shifted = way + np.arange(5)[:, None, None] * np.array([0.0, 0.0, 0.01])
    many = inverse_kinematics_path(arm, "tool", R, shifted, q0)
    assert many.q.shape == (5, 60, 6) and many.q[0].tobytes() == found.q.tobytes()
    q = q0
    for k in range(3):
        q = arm.inverse_kinematics("tool", (R, way[k]), q, restarts=0).q
        assert np.abs(q - found.q[k]).max() < 1e-9


def test_a_path_says_where_it_fails_and_where_it_jumps(arm: cd.Robot) -> None:
    q0 = np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])
    R, p = arm.frame_pose(q0, "tool")
    out = np.concatenate([p + np.linspace(0.0, 1.0, 20)[:, None] * [0.6, 0.0, 0.0], [p]])
    found = inverse_kinematics_path(arm, "tool", R, out, q0)
    k = int(np.argmin(found.ok))
    assert 0 < k < 19 and found.ok[:k].all() and not found.ok[k:20].any() and found.ok[20]
    apart = inverse_kinematics_path(arm, "tool", R, p + np.array([[0.0, 0.0, 0.0], [0.0, 0.1, 0.0]]), q0, jump=0.05)
    assert apart.ok.all() and list(apart.jump) == [False, True]
    with pytest.raises(cd.RobotError, match="at least one point"):
        inverse_kinematics_path(arm, "tool", R, p, q0)
    with pytest.raises(cd.RobotError, match="p of a path must be finite"):
        inverse_kinematics_path(arm, "tool", None, np.array([[np.nan, 0.0, 0.0]]), q0)
