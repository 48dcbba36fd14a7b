"""Plans: certified edges and curves against dense samples, whole plans, why there is none, and wrong arguments."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import condyle as cd
from condyle.errors import ControlError
from condyle.methods.planning import Clearance, Plan, plan_motion, rrt_connect, shortcut
from condyle.methods.planning.obstacles import Box, Plane, RobotDistances, Sphere, robot_distances
from condyle.methods.planning.paths import spline
from condyle.methods.planning.shortcut import length
from condyle.methods.planning.time_optimal import time_optimal

CLEARANCE = 0.01  # m
START, GOAL = np.array([-0.9, -1.2, 1.4, -1.6, -1.4, 0.0]), np.array([1.2, -1.2, 1.4, -1.6, -1.4, 0.0])


@pytest.fixture(scope="module")
def distances() -> RobotDistances:
    """A wall in front of the robot, over which it must reach."""
    solids = [
        Box((0.3, 0.04, 0.4), position=(0.4, 0.05, 0.2), name="wall"),
        Sphere(0.06, position=(0.2, 0.3, 0.7)),
        Plane(name="floor"),
    ]
    return robot_distances(cd.load("ur3"), solids, links=["lift", "elbow", "wrist_1", "wrist_2", "wrist_3"], self_collision=False)


@pytest.fixture(scope="module")
def plan(distances: RobotDistances) -> Plan:
    return plan_motion(distances.robot, distances, START, GOAL, clearance=CLEARANCE, seed=3)


def least(distances: RobotDistances, points: np.ndarray) -> float:
    s = np.linspace(0.0, 1.0, 300)[:, None]
    return float(min(np.min(distances(a + s * (b - a))) for a, b in pairwise(points)))


def test_certified_edges_are_free(distances: RobotDistances) -> None:
    """No edge that is certified comes nearer in dense samples; nearly all that are free in samples are certified."""
    rng, space = np.random.default_rng(0), Clearance(distances, CLEARANCE)
    q = distances.robot.random_configuration(rng, 300)
    a = q[space.free(q)]
    b = a + rng.normal(size=a.shape) * 0.4
    certified = space.edges_free(a, b)
    sampled = np.array([least(distances, np.stack(each)) for each in zip(a, b, strict=True)])
    assert 0.2 < certified.mean() < 0.9
    assert sampled[certified].min() >= CLEARANCE
    assert np.mean(certified[sampled > CLEARANCE + 0.002]) == 1.0


def test_certified_curves_are_free(distances: RobotDistances) -> None:
    rng, space, answers = np.random.default_rng(1), Clearance(distances, CLEARANCE), []
    for _ in range(40):
        curve = spline(START + rng.normal(size=(5, 6)) * 0.35)
        d = np.min(distances(curve.at(np.linspace(0.0, 1.0, 3000)).position))
        answers.append(space.curve_free(curve))
        assert answers[-1] == (d >= CLEARANCE) or abs(d - CLEARANCE) < 1e-3
    assert 0 < sum(answers) < 40


def test_a_plan_goes_over_the_wall(distances: RobotDistances, plan: Plan) -> None:
    assert plan and plan.path is not None and plan.goal == 0
    assert not Clearance(distances, CLEARANCE).path_free(np.stack([START, GOAL]))
    d = distances(plan.path.at(np.linspace(0.0, 1.0, 5000)).position)
    assert np.min(d) >= CLEARANCE
    assert least(distances, plan.lines) >= CLEARANCE and least(distances, plan.searched) >= CLEARANCE
    for points in (plan.searched, plan.lines, plan.points):
        assert np.array_equal(points[0], START) and np.array_equal(points[-1], GOAL)
    assert plan.lengths[1] <= plan.lengths[0] and plan.lengths[2] < 1.1 * plan.lengths[1]


def test_a_plan_is_followed_in_the_least_time(distances: RobotDistances, plan: Plan) -> None:
    motion = time_optimal(plan.path, robot=distances.robot, acceleration=4.0, grid=300)
    q = motion.at(np.linspace(0.0, motion.duration, 200)).position
    assert np.min(distances(q)) >= CLEARANCE - 1e-9 and np.abs(q[-1] - GOAL).max() < 1e-9


def test_the_same_seed_gives_the_same_bits(distances: RobotDistances, plan: Plan) -> None:
    again = plan_motion(distances.robot, distances, START, GOAL, clearance=CLEARANCE, seed=3)
    assert np.array_equal(again.points, plan.points) and again.evaluations == plan.evaluations
    other = plan_motion(distances.robot, distances, START, GOAL, clearance=CLEARANCE, seed=4)
    assert not np.array_equal(other.searched, plan.searched)


def test_shortcuts_do_not_make_a_path_longer(distances: RobotDistances, plan: Plan) -> None:
    space = Clearance(distances, CLEARANCE)
    found = shortcut(space, plan.searched, np.random.default_rng(0), attempts=64)
    assert length(found, space.weights) <= length(plan.searched, space.weights) + 1e-12
    assert space.path_free(found)


def test_one_of_several_goals_is_reached(distances: RobotDistances) -> None:
    robot = distances.robot
    blocked = robot.inverse_kinematics("tool", np.array([0.4, 0.05, 0.2]), START).q
    found = plan_motion(robot, distances, START, np.stack([blocked, GOAL, START + 0.1]), clearance=CLEARANCE)
    assert found.ok and found.goal == 2 and np.array_equal(found.points[-1], START + 0.1)


def test_why_there_is_no_plan(distances: RobotDistances) -> None:
    robot = distances.robot
    inside = robot.inverse_kinematics("tool", np.array([0.4, 0.05, 0.2]), START).q
    found = plan_motion(robot, distances, inside, GOAL)
    assert (
        not found and found.path is None and "the start does not keep the clearance" in found.reason and "'wall'" in found.reason
    )
    assert "the goal does not keep" in plan_motion(robot, distances, START, inside).reason
    beyond = GOAL + 6.0 * np.eye(6)[2]
    assert "joint 'elbow_joint' is beyond its limit" in plan_motion(robot, distances, START, beyond).reason
    few = plan_motion(robot, distances, START, GOAL, iterations=1, step=0.02, clearance=CLEARANCE)
    assert "the limit of 1 iterations" in few.reason and few.iterations == 1
    assert "the limit of 0 s" in plan_motion(robot, distances, START, GOAL, seconds=0.0).reason


def test_a_search_reports_its_progress(distances: RobotDistances) -> None:
    said: list[str] = []
    space, robot = Clearance(distances, CLEARANCE), distances.robot
    rng = np.random.default_rng(0)
    rrt_connect(space, START, GOAL[None], rng, lower=robot.lower, upper=robot.upper, iterations=30, progress=said.append)
    assert said and said[0].startswith("iteration 0")


def test_wrong_arguments_are_named(distances: RobotDistances) -> None:
    robot = distances.robot
    with pytest.raises(ControlError, match=r"the start of a plan is a configuration \(6,\)"):
        plan_motion(robot, distances, START[:5], GOAL)
    with pytest.raises(ControlError, match="the goal of a plan"):
        plan_motion(robot, distances, START, np.full(6, np.nan))
    with pytest.raises(ControlError, match="moving=True"):
        plan_motion(robot, distances, START, GOAL, poses=np.eye(4)[None])
    with pytest.raises(ControlError, match="robot_distances"):
        plan_motion(robot, None, START, GOAL)  # type: ignore[arg-type]
