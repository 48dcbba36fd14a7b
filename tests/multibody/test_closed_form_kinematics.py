"""Analytic inverse kinematics of UR-type arms and spherical wrists: all solutions, to 1e-10, near singularities too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condyle as cd
from condyle.multibody.closed_form_kinematics import inverse_kinematics_solutions
from condyle.robot.library import ur3
from condyle.robot.spatial import Pose

SAME = 1e-10  # of poses, m and rad
NEAR = 1e-6  # rad: near a singularity the joints are found to the square root of rounding


@pytest.fixture(scope="module")
def arm() -> cd.Robot:
    return cd.load("ur3")


def solved(robot: cd.Robot, q: np.ndarray, frame: str = "tool") -> int:
    """The least number of solutions; all reach their pose to SAME, and one of them is q."""
    R, p = robot.frame_pose(q, frame)
    found = inverse_kinematics_solutions(robot, frame, (R, p), q)
    assert np.all(np.isnan(found.q[~np.isfinite(found.residual)]))
    R1, p1 = robot.frame_pose(found.q[found.ok], frame)
    rows = np.nonzero(found.ok)[0]
    assert np.abs(R1 - R[rows]).max() < SAME and np.abs(p1 - p[rows]).max() < SAME
    away = np.max(np.abs(np.where(found.ok[..., None], found.q, np.inf) - q[:, None]), axis=-1)
    assert np.min(away, axis=1).max() < NEAR
    return int(np.min(np.sum(found.ok, axis=1)))


def test_all_solutions_of_random_configurations(arm: cd.Robot) -> None:
    q = np.random.default_rng(0).uniform(-np.pi, np.pi, (2000, 6))
    assert solved(arm, q) >= 2
    # most poses have eight, all different
    found = inverse_kinematics_solutions(arm, "tool", arm.frame_pose(q, "tool"), q)
    eight = found.q[np.sum(found.ok, axis=1) == 8]
    assert len(eight) > 1000
    apart = np.linalg.norm(np.exp(1j * eight[:, :, None]) - np.exp(1j * eight[:, None]), axis=-1)
    assert np.median(np.min(apart + 10.0 * np.eye(8), axis=(1, 2))) > 0.1


@pytest.fixture(scope="module")
def spherical() -> cd.Robot:
    """An arm with the shoulder of the UR3 and a spherical wrist; its elbow turns the other way round."""
    written = ur3.description()
    joints = list(written.joints)
    joints[2] = replace(joints[2], axis=np.array([0.0, -1.0, 0.0]))
    for k, axis, place in ((3, (0.0, 0.0, 1.0), 0.21325), (4, (0.0, 1.0, 0.0), 0.0), (5, (0.0, 0.0, 1.0), 0.0)):
        joints[k] = replace(joints[k], pose=Pose(np.eye(3), np.array([0.0, 0.0, place])), axis=np.array(axis))
    return cd.load(replace(written, joints=tuple(joints)))


def test_all_solutions_of_an_arm_with_a_spherical_wrist(spherical: cd.Robot) -> None:
    rng = np.random.default_rng(5)
    q = rng.uniform(-3.0, 3.0, (1000, 6))
    assert solved(spherical, q) >= 2
    found = inverse_kinematics_solutions(spherical, "tool", spherical.frame_pose(q, "tool"), q)
    assert np.median(np.sum(found.ok, axis=1)) == 8
    for size in (0.0, 1e-12, 1e-9, 1e-6, 1e-3):
        q[:, 4] = size * rng.normal(size=1000)
        found = inverse_kinematics_solutions(spherical, "tool", spherical.frame_pose(q, "tool"), q)
        assert np.all(np.any(found.ok, axis=1)) and found.residual[found.ok].max() < SAME


@pytest.mark.parametrize("size", [0.0, 1e-12, 1e-9, 1e-7, 1e-5, 1e-3])
@pytest.mark.parametrize(("joint", "values"), [(4, [0.0, np.pi]), (2, [0.0])])
def test_near_singularities_of_wrist_and_elbow(arm: cd.Robot, joint: int, values: list[float], size: float) -> None:
    rng = np.random.default_rng(1)
    q = rng.uniform(-3.0, 3.0, (200, 6))
    q[:, joint] = rng.choice(values, 200) + size * rng.normal(size=200)
    R, p = arm.frame_pose(q, "tool")
    found = inverse_kinematics_solutions(arm, "tool", (R, p), q)
    assert np.all(np.any(found.ok, axis=1)) and found.residual[found.ok].max() < SAME


def test_near_the_singularity_of_the_shoulder(arm: cd.Robot) -> None:
    """The wrist beside axis 1, as far as it must be: both shoulders are one."""
    rng = np.random.default_rng(2)
    for size in (0.0, 1e-9, 1e-5):
        R, p = arm.frame_pose(rng.uniform(-3.0, 3.0, (200, 6)), "tool")
        # the wrist's centre is 0.0819 m behind the tool; its distance from the axis is set to the offset of the arm
        wrist = p - 0.0819 * R[:, :, 2]
        offset = 0.1198 - 0.0925 + 0.08505
        wanted = wrist.copy()
        wanted[:, :2] *= ((offset + size) / np.linalg.norm(wrist[:, :2], axis=1))[:, None]
        found = inverse_kinematics_solutions(arm, "tool", (R, p + wanted - wrist))
        some = np.any(found.ok, axis=1)
        assert np.mean(some) > 0.5 and found.residual[found.ok].max() < SAME


@pytest.mark.parametrize("name", ["ur5", "ur10"])
def test_files_with_rounded_angles(name: str) -> None:
    pytest.importorskip("pinocchio")
    robot = cd.load(name)
    frame = next(each for each in robot.frame_names if "tool0" in each)
    assert solved(robot, np.random.default_rng(3).uniform(-np.pi, np.pi, (300, 6)), frame) >= 2


def moved(joint: Any, to: tuple[float, float, float]) -> Any:
    return replace(joint, pose=replace(joint.pose, p=np.array(to)))


@settings(max_examples=3, deadline=None)
@given(st.lists(st.floats(0.05, 0.6), min_size=2, max_size=2), st.floats(-0.2, 0.2), st.floats(0.02, 0.2))
def test_other_lengths(lengths: list[float], side: float, last: float) -> None:
    written = ur3.description()
    joints = list(written.joints)
    for k, change in ((2, (0.0, side, lengths[0])), (3, (0.0, 0.0, lengths[1])), (5, (0.0, 0.0, last))):
        joints[k] = moved(joints[k], change)
    robot = cd.load(replace(written, joints=tuple(joints)))
    assert solved(robot, np.random.default_rng(4).uniform(-3.0, 3.0, (50, 6))) >= 1


def test_limits_are_kept_by_whole_turns(arm: cd.Robot) -> None:
    q = np.array([[3.5, -4.0, 1.0, 5.0, -6.0, 6.1]])
    R, p = arm.frame_pose(q, "tool")
    near = inverse_kinematics_solutions(arm, "tool", (R, p), q)
    assert np.nanmin(np.max(np.abs(near.q - q[:, None]), axis=-1)) < 1e-9
    usual = inverse_kinematics_solutions(arm, "tool", (R, p))
    assert np.nanmax(np.abs(usual.q)) <= np.pi + 1e-9
    for found in (near, usual):
        assert np.all(found.q[found.ok] >= arm.lower) and np.all(found.q[found.ok] <= arm.upper)


def test_out_of_reach_has_no_solution(arm: cd.Robot) -> None:
    found = inverse_kinematics_solutions(arm, "tool", (np.eye(3), np.array([[2.0, 0.0, 0.0], [0.0, 0.0, 0.1519]])))
    assert not found.ok.any() and np.all(np.isinf(found.residual)) and np.all(np.isnan(found.q))


def test_other_arms_are_refused_in_a_sentence(arm: cd.Robot) -> None:
    skewed = list(ur3.description().joints)
    skewed[2] = replace(skewed[2], axis=np.array([0.1, 1.0, 0.0]) / np.hypot(0.1, 1.0))
    apart = list(ur3.description().joints)
    apart[5] = moved(apart[5], (0.05, 0.0, 0.08535))
    turned = list(ur3.description().joints)
    turned[3] = replace(turned[3], axis=np.array([0.1, 1.0, 0.0]) / np.hypot(0.1, 1.0))
    for robot, words in (
        (cd.load(replace(ur3.description(), joints=tuple(skewed))), "axes 2 and 3 are not parallel"),
        (cd.load(replace(ur3.description(), joints=tuple(apart))), "axes 5 and 6 do not intersect"),
        (cd.load(replace(ur3.description(), joints=tuple(turned))), "axis 4 is neither parallel"),
        (arm.couple("wrist_3_joint", "wrist_1_joint", -0.5, 0.1), "follows another"),
    ):
        with pytest.raises(cd.RobotError, match=f"has no analytic inverse kinematics: .*{words}.*method='numeric'"):
            inverse_kinematics_solutions(robot, "tool", (np.eye(3), np.array([0.3, 0.1, 0.3])))
    with pytest.raises(cd.RobotError, match="'elbow' is moved by 3 joints, 3 of them revolute"):
        inverse_kinematics_solutions(arm, "elbow", (np.eye(3), np.zeros(3)))
