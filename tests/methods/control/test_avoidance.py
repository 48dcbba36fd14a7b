"""Avoidance by a potential field and in the null space: against their equations, in closed loop, and wrong arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.errors import ControlError
from condyle.methods.control.arm_controller import ToolSample
from condyle.methods.control.avoidance import NullSpaceAvoidance, PotentialField
from condyle.methods.planning.obstacles import RobotDistances, Sphere, robot_distances

READY = np.array([0.3, -1.2, 1.4, -1.0, -1.4, 0.0])
SAME = 1e-9  # the same equation by other operations


@pytest.fixture(scope="module")
def distances() -> RobotDistances:
    return robot_distances(
        cd.load("ur3"), [Sphere(0.08, name="ball")], moving=True, self_collision=False, links=["lift", "elbow", "wrist_1"]
    )


@pytest.fixture(scope="module")
def world(distances: RobotDistances) -> cd.Simulation:
    return cd.Simulation(distances.robot, dt=0.001)


def pose_at(p: Any) -> np.ndarray:
    X = np.eye(4)
    X[:3, 3] = p
    return X[None]


def test_forces_of_the_field_are_those_of_its_equation(world: cd.Simulation, distances: RobotDistances) -> None:
    field = PotentialField(world, distances, influence=0.12, gain=2e-6, damping=30.0)
    loop = cd.Loop(world, lambda x: {"u": np.zeros(6), "force": field(x)})
    elbow = distances.robot.frame_pose(READY, "elbow")[1]
    v = np.array([0.5, -0.4, 0.3, 0.1, 0.2, 0.0])
    for height, near in ((0.16, True), (0.4, False)):
        X = pose_at(elbow + np.array([0.0, 0.0, height]))
        _, found = loop.step(loop.state(READY, v), parameters={"potential_field.poses": X}, record=["force"])
        d, J = distances.with_jacobian(READY, X)
        gap = np.maximum(1.0 / np.maximum(d, 0.012) - 1.0 / 0.12, 0.0)
        push = 2e-6 * gap**2 / np.maximum(d, 0.012) ** 2
        brake = 30.0 * np.clip(1.0 - d / 0.12, 0.0, 1.0) ** 2 * np.maximum(-J @ v, 0.0)
        assert np.abs(found["force"] - J.T @ (push + brake)).max() < SAME * max(1.0, np.abs(push).max())
        assert np.any(found["force"] != 0.0) == near


def test_the_tool_stays_while_the_elbow_gives_way(world: cd.Simulation, distances: RobotDistances) -> None:
    robot = distances.robot
    R, p = robot.frame_pose(READY, "tool")
    arm = NullSpaceAvoidance(world, "tool", distances)
    loop = cd.Loop(world, lambda x, pose: arm(x, ToolSample(R, p), pose.reshape(1, 4, 4)), pose=16)
    elbow = robot.frame_pose(READY, "elbow")[1]
    height = np.linspace(0.45, 0.17, 1500)[:, None] * [0.0, 0.0, 1.0]
    poses = np.array([pose_at(elbow + h) for h in height])
    out = loop.rollout(loop.state(READY), poses.reshape(-1, 16), 1500, record=["q", "null_space_avoidance.velocity"])
    tool = robot.frame_pose(out["q"], "tool")[1]
    assert np.abs(tool - p).max() < 1e-3
    there, without = distances(out["q"], poses).min(), distances(np.broadcast_to(READY, (1500, 6)), poses).min()
    assert there > without + 0.01
    # its velocity does not move the tool either
    J = robot.jacobian(READY, "tool")[:3]
    first = out["null_space_avoidance.velocity"][1200]
    assert np.linalg.norm(first) > 0.05
    assert np.linalg.norm(robot.jacobian(out["q"][1199], "tool")[:3] @ first) < 0.05 * np.linalg.norm(J, 2) * np.linalg.norm(
        first
    )


def test_wrong_arguments_are_named(world: cd.Simulation, distances: RobotDistances) -> None:
    with pytest.raises(ControlError, match="leaves no null space"):
        NullSpaceAvoidance(world, "tool", distances, task="pose")
    with pytest.raises(ControlError, match="'position' or 'pose'"):
        NullSpaceAvoidance(world, "tool", distances, task="line")
    with pytest.raises(ControlError, match=r"no frame 'tol'.*tool"):
        NullSpaceAvoidance(world, "tol", distances)
    with pytest.raises(ControlError, match="robot_distances"):
        PotentialField(world, None)  # type: ignore[arg-type]
