"""Differential inverse kinematics: the references follow the tool's, within the limits, and free joints go where they should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from markers import slow_except

import condyle as cd
from condyle.methods.control.arm_controller import ToolSample
from condyle.methods.control.differential_ik import DifferentialIK

Q0 = np.array([0.3, -1.4, 1.5, -1.6, -1.4, 0.2])
DT, EVERY = 0.001, 2


@pytest.fixture(scope="module")
def world() -> cd.Simulation:
    return cd.Simulation(cd.load("ur3"), dt=DT)


@pytest.fixture(scope="module")
def follow(world: cd.Simulation) -> Any:
    """A loop whose reference is the position of the tool and its velocity; the rotation stays."""
    ik = DifferentialIK(world, "tool", gain=40.0, every=EVERY, name="ik")
    R = world.robot.frame_pose(Q0, "tool")[0]

    def control(x: Any, p: Any, V: Any) -> dict[str, Any]:
        q, v, a = ik(x, ToolSample(R, p, np.concatenate([V, np.zeros(3)])))
        u = world.robot.inverse_dynamics(x.q, x.v, a + 1600.0 * (q - x.q) + 80.0 * (v - x.v))
        return {"u": u, "q_ref": q, "v_ref": v}

    return cd.Loop(world, control, p=3, V=3)


def test_the_tool_follows_a_circle(world: cd.Simulation, follow: Any) -> None:
    robot = world.robot
    R, p0 = robot.frame_pose(Q0, "tool")
    t = DT * np.arange(1500)[:, None]
    w, r = 2.0, 0.04
    p = p0 + r * np.concatenate([np.cos(w * t) - 1.0, np.sin(w * t), 0.0 * t], axis=1)
    V = r * w * np.concatenate([-np.sin(w * t), np.cos(w * t), 0.0 * t], axis=1)
    out = follow.rollout(follow.state(Q0), {"p": p, "V": V}, record=["q_ref", "v_ref"])
    updated = slice(0, None, EVERY)  # where a reference is new, it is that of its tick
    R1, p1 = robot.frame_pose(out["q_ref"][updated], "tool")
    # Euler steps of 2 ms, corrected by the gain: h r w^2 / (2 gain) behind a circle
    assert np.abs(p1 - p[updated]).max() < 2.0 * EVERY * DT * r * w * w / (2.0 * 40.0) + 1e-9
    assert np.abs(R1 - R).max() < 1e-4
    moved = robot.frame_velocity(out["q_ref"][updated], out["v_ref"][updated], "tool")[:, :3]
    assert np.abs(moved - V[updated]).max() < 1e-3


def test_speeds_and_limits_are_kept(world: cd.Simulation, follow: Any) -> None:
    robot = world.robot
    far = robot.frame_pose(Q0, "tool")[1] + [-0.4, 0.9, 0.1]
    out = follow.rollout(follow.state(Q0), {"p": far, "V": np.zeros(3)}, 3000, record=["q_ref", "v_ref"])
    used = np.max(np.abs(out["v_ref"]) / robot.velocity_limits, axis=1)
    assert 0.99 < used.max() <= 1.0 + 1e-12
    assert np.all(out["q_ref"] >= robot.lower) and np.all(out["q_ref"] <= robot.upper)
    # out of reach: it comes to rest stretched out, and not in a limit cycle
    assert np.abs(out["v_ref"][-1]).max() < 0.05
    slow = {"ik.speed": np.full(6, 0.1)}
    slower = follow.rollout(follow.state(Q0), {"p": far, "V": np.zeros(3)}, 200, parameters=slow, record=["v_ref"])
    assert np.abs(slower["v_ref"]).max() <= 0.1 + 1e-12


def test_a_joint_at_its_limit_leaves_the_motion_to_the_others() -> None:
    """Three parallel joints and a position in the plane: the first one stops at its limit, and the tool still gets there."""
    written = cd.load("ur3")
    narrow = cd.load(narrowed())
    world = cd.Simulation(narrow, dt=DT)
    ik = DifferentialIK(world, "tool", task="position", gain=20.0, posture=Q0, posture_gain=0.2)
    loop = cd.Loop(world, lambda x, p: {"u": 0.0 * x.q, "q_ref": ik(x, ToolSample(None, p)).position}, p=3)
    goal = written.frame_pose(Q0 + 0.4 * np.eye(6)[2], "tool")[1]
    q = loop.rollout(loop.state(Q0), goal, 1500, record=["q_ref"])["q_ref"][-1]
    assert narrow.upper[2] - 0.05 <= q[2] <= narrow.upper[2]
    assert narrow.frame_pose(q, "tool")[1] == pytest.approx(goal, abs=1e-6)


def narrowed() -> Any:
    """The arm whose elbow may bend by 0.1 rad more than at Q0."""
    from dataclasses import replace

    from condyle.robot.library import ur3

    written = ur3.description()
    joints = list(written.joints)
    joints[2] = replace(joints[2], limits=replace(joints[2].limits, upper=float(Q0[2]) + 0.1))
    return replace(written, joints=tuple(joints))


@pytest.mark.parametrize("objective", slow_except(["manipulability"], ["posture", "centre", "manipulability"]))
def test_free_joints_go_downhill(world: cd.Simulation, objective: str) -> None:
    from condyle.multibody.manipulability import manipulability_gradient

    robot = world.robot
    rest = Q0 + 0.2
    given = {"posture": rest} if objective == "posture" else {"null_space": objective}
    gain = 10.0 if objective == "manipulability" else 2.0
    ik = DifferentialIK(world, "tool", task="position", posture_gain=gain, **given)
    p0 = robot.frame_pose(Q0, "tool")[1]
    loop = cd.Loop(world, lambda x: {"u": 0.0 * x.q, "q_ref": ik(x, ToolSample(None, p0)).position})
    q = loop.rollout(loop.state(Q0), None, 4000, record=["q_ref"], every=100)["q_ref"][-1]
    gradient = {
        "posture": lambda q: q - rest,
        "centre": lambda q: q - 0.5 * (robot.lower + robot.upper),
        "manipulability": lambda q: -manipulability_gradient(robot, q, "tool", task="position"),
    }[objective]

    def left(q: np.ndarray) -> Any:
        J = robot.jacobian(q, "tool")[:3]
        return np.linalg.norm((np.eye(6) - np.linalg.pinv(J) @ J) @ gradient(q))

    assert np.abs(robot.frame_pose(q, "tool")[1] - p0).max() < 1e-4
    assert left(q) < 0.1 * left(Q0)


@pytest.mark.slow
def test_the_elbow_of_a_redundant_arm_moves_while_its_tool_stays() -> None:
    pytest.importorskip("pinocchio")
    robot = cd.load("panda").lock("panda_finger")
    world = cd.Simulation(robot, dt=DT)
    q0 = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    R, p = robot.frame_pose(q0, "panda_hand")
    ik = DifferentialIK(world, "panda_hand", gain=50.0, posture=q0 + 0.3 * np.eye(7)[0], posture_gain=2.0)
    loop = cd.Loop(world, lambda x: {"u": 0.0 * x.q, "q_ref": ik(x, ToolSample(R, p)).position})
    q = loop.rollout(loop.state(q0), None, 3000, record=["q_ref"], every=10)["q_ref"]
    R1, p1 = robot.frame_pose(q, "panda_hand")
    assert np.abs(p1 - p).max() < 1e-4 and np.abs(R1 - R).max() < 1e-3 and np.abs(q[-1] - q0).max() > 0.05
    # the same posture by inverse kinematics
    found = robot.inverse_kinematics("panda_hand", (R, p), q0, posture=q0 + 0.3 * np.eye(7)[0])
    assert found.ok and np.abs(found.q - q[-1]).max() < 0.01


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"frame": "tol"}, r"no frame 'tol' \(did you mean 'tool'\?\)"),
        ({"task": "speed"}, "task is 'pose' or 'position'"),
        ({"null_space": "centre"}, "has 6 joints and the pose takes 6"),
        ({"task": "position", "null_space": "up"}, "null_space is"),
        ({"speed": np.ones(5)}, "one number, or 6 for the joints"),
    ],
)
def test_wrong_options_are_sentences(world: cd.Simulation, options: dict[str, Any], words: str) -> None:
    with pytest.raises(cd.ControlError, match=words):
        DifferentialIK(world, options.pop("frame", "tool"), **options)
