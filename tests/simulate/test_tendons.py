"""Limits of fixed tendons: of one joint as its own, of several on their combination, with derivatives, bits and runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markers import slow_except

import condyle as cd
from condyle.robot.description import Description, JointSpec, Limits, LinkSpec, TendonSpec
from condyle.robot.mjcf import read_mjcf
from condyle.robot.parts import box, link, solid
from condyle.robot.spatial import Pose
from condyle.workbench.runs.recorder import Recorder
from condyle.workbench.runs.run import read_run

DOWN = Pose(np.eye(3), np.array([0.0, 0.0, -0.3]))
Y = np.array([0.0, 1.0, 0.0])


def rod(name: str) -> LinkSpec:
    shape = box((0.05, 0.05, 0.3), Pose(np.eye(3), np.array([0.0, 0.0, -0.15])))
    return link(name, solid(1.0, shape), [], [])


def hand(*tendons: TendonSpec, limits: Limits = Limits()) -> cd.Robot:  # noqa: B008
    """An arm a with two fingers b and c that branch from it."""
    joints = [
        JointSpec("a", "revolute", "base", "arm", axis=Y, limits=limits, damping=0.01),
        JointSpec("b", "continuous", "arm", "left", DOWN, axis=Y, damping=0.01),
        JointSpec("c", "continuous", "arm", "right", DOWN, axis=np.array([1.0, 0.0, 0.0]), damping=0.01),
    ]
    links = (LinkSpec("base"), rod("arm"), rod("left"), rod("right"))
    return cd.load(Description("hand", links, tuple(joints), tendons=tendons))


BRANCHES = TendonSpec("both", (("b", 1.0), ("c", -0.5)), -0.02, 0.03)


def thrown(world: cd.Simulation, steps: int = 400, **options: Any) -> np.ndarray:
    x = world.state([0.4, 0.01, 0.0], [1.0, 2.0, -1.5])
    run: np.ndarray = world.rollout(x, np.zeros((steps, world.nu)), **options)
    return run


@pytest.mark.parametrize("scale", slow_except([-2.5], [1.0, -2.5]))
@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4", "backward_euler"])
def test_a_tendon_of_one_joint_is_the_joint_s_limit(scale: float, integrator: str) -> None:
    low, high = sorted((scale * -0.3, scale * 0.2))
    own = cd.Simulation(hand(limits=Limits(-0.3, 0.2)), 0.002, integrator=integrator)
    tendon = cd.Simulation(hand(TendonSpec("t", (("a", scale),), low, high)), 0.002, integrator=integrator)
    x = own.state([0.15, 0.0, 0.0], [3.0, 0.0, 0.0])
    us = np.zeros((300, 3))
    both = [world.rollout(x, us) for world in (own, tendon)]
    assert abs(both[0][:, 0]).max() > 0.19
    np.testing.assert_allclose(*both, atol=1e-9)


def test_the_combination_of_branches_stays_within_its_limits() -> None:
    free, world = cd.Simulation(hand(), 0.002), cd.Simulation(hand(BRANCHES), 0.002)
    lengths = [run[:, 1] - 0.5 * run[:, 2] for run in (thrown(free), thrown(world))]
    assert abs(lengths[0]).max() > 0.3
    assert lengths[1].min() > -0.06 and lengths[1].max() < 0.07  # limit_depth of each joint, times its coefficient
    off = cd.Simulation(hand(BRANCHES), 0.002, limits=False)
    np.testing.assert_array_equal(thrown(off), thrown(free))


@pytest.mark.parametrize(
    "integrator",
    slow_except(["semi_implicit_euler", "backward_euler"], ["semi_implicit_euler", "rk4", "backward_euler"]),
)
def test_derivatives_of_a_step_at_the_limit(integrator: str) -> None:
    world = cd.Simulation(hand(BRANCHES), 0.002, integrator=integrator)
    for x in (world.state([0.4, 0.05, 0.01], [1.0, 0.3, -0.5]), world.state([0.4, -0.02, 0.03], [0.0, -0.3, 0.2])):
        _, A, B = world.step(x, np.zeros(3), derivatives=True)
        h = 1e-6
        for matrix, size in ((A, 6), (B, 3)):
            for k in range(size):
                d = h * np.eye(size)[k]
                ends = [world.step(x + s * d, np.zeros(3)) if size == 6 else world.step(x, s * d) for s in (1.0, -1.0)]
                np.testing.assert_allclose(matrix[:, k], (ends[0] - ends[1]) / (2 * h), atol=2e-6 * max(1.0, abs(matrix).max()))


def test_bits_are_the_same_in_lanes_batches_and_plain_python() -> None:
    world = cd.Simulation(hand(BRANCHES), 0.002)
    x = thrown(world, 60)[::6]
    one = np.array([world.step(row) for row in x])
    np.testing.assert_array_equal(world.step(x), one)
    np.testing.assert_array_equal(world.step(x, lanes=1), one)
    np.testing.assert_array_equal(world.step(x[:3], backend="reference"), one[:3])
    loop = cd.Loop(world, lambda x: {"u": np.zeros(3)})
    start = loop.state()
    start[:6] = x[2]
    np.testing.assert_array_equal(loop.rollout(start, steps=1).x[:6], one[2])


def test_locked_joints_move_the_limits_and_runs_keep_them(tmp_path: Path) -> None:
    robot = hand(BRANCHES)
    locked = robot.lock(["c"], [0.0, 0.0, 0.1])
    (tendon,) = locked.model.tendons
    assert tendon.joints == (("b", 1.0),) and tendon.offset == -0.05
    assert robot.lock(["b", "c"]).model.tendons == ()
    loop = cd.Loop(cd.Simulation(robot, 0.002), lambda x: {"u": np.zeros(3)})
    with Recorder(loop, loop.state(), tmp_path / "run.cdl") as recorder:
        recorder.rollout(steps=5)
    recorder.finish()
    run = read_run(tmp_path / "run.cdl")
    assert run.robot.model.tendons == (BRANCHES,) and run.check()


TOOTHED = """<mujoco><compiler angle="radian"/><option timestep="0.002"/><worldbody><body name="trunk">
  <joint name="yaw" axis="0 1 0" damping="0.05"/><geom type="box" size="0.05 0.05 0.1" pos="0 0 -0.1" mass="1"/>
  <body name="one"><joint name="m1" axis="0 1 0" armature="0.001"/><geom size="0.02" mass="0.05"/></body>
  <body name="two"><joint name="m2" axis="0 1 0" armature="0.001"/><geom size="0.02" mass="0.05"/></body></body></worldbody>
  <tendon><fixed name="gears" limited="true" range="-0.02 0.02">
    <joint joint="m1" coef="-0.2"/><joint joint="m2" coef="-0.2"/><joint joint="yaw" coef="1"/></fixed></tendon></mujoco>"""


def test_a_limited_tendon_of_a_file_holds_a_waist() -> None:
    robot = cd.load(read_mjcf(TOOTHED))
    assert robot.model.tendons == (TendonSpec("gears", (("m1", -0.2), ("m2", -0.2), ("yaw", 1.0)), -0.02, 0.02),)
    assert not any("limits" in line for line in robot.report)
    world = cd.Simulation(robot)
    held = np.zeros((2000, 3))
    run = world.rollout(world.state([0.5, 1.25, 1.25]), held)
    lengths = run[:, 0] - 0.2 * (run[:, 1] + run[:, 2])
    assert abs(lengths).max() < 0.05 and abs(run[:, 0]).max() > 0.4
    # with its motors held the waist hangs at the limit, not below
    locked = cd.Simulation(robot.lock(["m1", "m2"], [0.0, 1.25, 1.25]))
    assert abs(locked.rollout(locked.state([0.5]), np.zeros((2000, 1)))[-1, 0] - 0.5) < 0.05


def test_what_is_wrong_with_a_tendon_is_said() -> None:
    with pytest.raises(cd.RobotError, match="tendon 't': there is no joint 'x' with one coordinate"):
        hand(TendonSpec("t", (("x", 1.0),), -1.0, 1.0))
    with pytest.raises(cd.RobotError, match="tendon 't': coefficients and limits must be finite, and limits in order"):
        hand(TendonSpec("t", (("a", 1.0),), 1.0, -1.0))
