"""Constrained robots where people will bring them: commands, float32, copies, joints with quaternions, short branches."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from command_line import CliRunner
from constraints import mechanisms as m
from constraints.systems import SYSTEMS, closed

import condyle as cd
from condyle.commands.cli import app
from condyle.dynamics.manifold import difference, integrate
from condyle.robot.description import Description
from condyle.robot.parts import X, Y, Z, body, frame, joint, link, pose

LEG = """
<mujoco model="leg">
 <worldbody>
  <body name="base" pos="0 0 0.8"><freejoint/><geom type="box" size="0.1 0.1 0.05" mass="3"/>
   <body name="crank"><joint name="crank" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0.25 0 0" size="0.02" mass="0.5"/>
    <body name="coupler" pos="0.25 0 0"><joint name="coupler" axis="0 1 0"/>
     <geom type="capsule" fromto="0 0 0 0.6 0 -0.6" size="0.02" mass="0.5"/></body>
   </body>
   <body name="rocker" pos="1 0 0"><joint name="rocker" axis="0 1 0" range="-70 70" damping="0.01" frictionloss="0.05"/>
    <geom type="capsule" fromto="0 0 0 -0.15 0 -0.6" size="0.02" mass="0.5"/>
    <geom name="foot" type="sphere" pos="-0.15 0 -0.6" size="0.03" mass="0.1"/></body>
   <body name="one" pos="-0.3 0 0"><joint name="one" axis="0 1 0"/><geom pos="0 0 -0.1" size="0.02" mass="0.2"/></body>
   <body name="two" pos="-0.4 0 0"><joint name="two" axis="0 1 0"/><geom pos="0 0 -0.1" size="0.02" mass="0.2"/></body>
  </body>
 </worldbody>
 <equality>
  <connect name="c" body1="coupler" body2="rocker" anchor="0.6 0 -0.6"/>
  <joint joint1="two" joint2="one" polycoef="0 1 0 0 0"/>
 </equality>
</mujoco>
"""


def with_hand() -> cd.Robot:
    """A robot on two wheels with an arm and, in a ball joint, a hand."""
    wheel = body(0.3, (0.0, 0.0, 0.0), (0.0004, 0.0008, 0.0004))
    links = (
        link("body", body(1.0, (0.0, 0.0, 0.1), (0.02, 0.03, 0.01))),
        link("left", wheel),
        link("right", wheel),
        link("arm", body(0.3, (0.1, 0.02, 0.0), (0.001, 0.002, 0.003))),
        link("hand", body(0.2, (0.1, 0.0, 0.0), (0.001, 0.001, 0.001))),
    )
    joints = (
        joint("left_wheel", "continuous", "body", "left", pose((0.0, 0.1, 0.0)), Y),
        joint("right_wheel", "continuous", "body", "right", pose((0.0, -0.1, 0.0)), Y),
        joint("shoulder", "continuous", "body", "arm", pose((0.0, 0.0, 0.2)), Z),
        joint("wrist", "ball", "arm", "hand", pose((0.2, 0.0, 0.0)), X),
    )
    return cd.load(Description("with_hand", links, joints), base="euler")


def slider_at(x: float) -> cd.Robot:
    """The slider-crank, driven by its slider, this far from the origin."""
    links = (link("stand"), link("crank", m.ARM.inertia()), link("rod", m.ROD.inertia()), link("slider", body(m.SLIDER)))
    slide = joint("slide", "prismatic", "stand", "slider", pose((x + m.OFFSET, 0.0, 0.0)), Z)
    joints = (m.hinge("crank", "stand", (x, 0.0)), m.hinge("rod", "crank", (m.ARM.length, 0.0)), slide)
    frames = (m.point("rod_end", "rod", (m.ROD.length, 0.0)), m.point("pin", "slider", (0.0, 0.0)))
    tree = cd.load(Description("slider_crank", links, joints, frames))
    return tree.close_loop("rod_end", "pin", "xz", q=m.slider_crank().pose(), independent=["slide"])


# -- commands


@pytest.mark.slow
def test_commands_take_robots_with_loops_and_mimic_joints(tmp_path: Path) -> None:
    path = tmp_path / "leg.xml"
    path.write_text(LEG)
    world = [str(path), "--contacts", "foot"]
    run = CliRunner().invoke(app, ["sim", *world, "--seconds", "0.05", "--gain", "50", "5", "--joint", "one=0.2", "--json"])
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    assert list(found["joints"]) == ["crank", "one"] and abs(found["joints"]["one"] - 0.2) < 0.01
    check = CliRunner().invoke(app, ["gradcheck", *world, "--steps", "1"])
    assert check.exit_code == 0, check.output


# -- joints with quaternions


@pytest.mark.slow
@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "explicit_euler", "rk4"])
def test_steps_of_a_rolling_robot_with_a_ball_joint_have_derivatives(integrator: str) -> None:
    robot = with_hand().roll(["left_wheel", "right_wheel"], 0.04)
    world = cd.Simulation(robot, dt=0.002, integrator=integrator)
    rng = np.random.default_rng(0)
    reduced, n = robot.reduced, robot.reduced.nv
    y = np.asarray(integrate(reduced, robot.neutral(), 0.5 * rng.standard_normal(n)), dtype=float)
    x, u = world.state(y, rng.standard_normal(robot.nv)), rng.standard_normal(world.nu)

    def near(d: np.ndarray) -> np.ndarray:
        q, v = world.split(x)
        return world.step(world.state(np.asarray(integrate(reduced, q, d[:n]), dtype=float), v + d[n:]), u)

    def apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        (qa, va), (qb, vb) = world.split(a), world.split(b)
        return np.concatenate([np.asarray(difference(reduced, qa, qb), dtype=float), vb - va])

    _, A, _ = world.step(x, u, derivatives=True)
    by_differences = np.column_stack([apart(near(-e), near(e)) / 2e-6 for e in 1e-6 * np.eye(world.ndx)])
    assert np.abs(A - by_differences).max() < 1e-7


def test_what_cannot_roll_is_a_sentence() -> None:
    links = (link("body", body(1.0)), link("wheel", body(1.0)), link("arm", body(0.3)))
    joints = (
        joint("axle", "continuous", "body", "wheel", pose((0.0, 0.0, -0.2)), Y),
        joint("ball", "ball", "body", "arm", pose((0.0, 0.0, 0.2)), Y),
    )
    with pytest.raises(cd.RobotError, match="joint 'ball' has several coordinates"):
        cd.load(Description("arm", links, joints), base="planar").roll("axle", 0.05)
    with pytest.raises(cd.RobotError, match="name the hinges"):
        with_hand().roll(3, 0.04)  # type: ignore[arg-type]


# -- short branches


def test_a_branch_may_be_short_and_far_from_the_origin() -> None:
    here, there = slider_at(0.0), slider_at(64.0)
    reach = np.linspace(-0.11, 0.38, 99)[:, None] + here.neutral()
    (q, v), (q_far, v_far) = (robot.lift(reach, np.ones_like(reach)) for robot in (here, there))
    assert np.abs(q - q_far).max() < 1e-11 and np.abs(v - v_far).max() < 1e-9


def test_a_crank_that_can_hardly_move() -> None:
    sizes = (("crank", 1.0), ("coupler", 1.0), ("rocker", 0.50002))
    links = (link("stand"), *(link(n, body(1.0, (l / 2.0, 0.0, 0.0), (0.0, 0.05, 0.05))) for n, l in sizes))
    at = (("crank", "stand", 0.0), ("coupler", "crank", 1.0), ("rocker", "stand", 2.49999))
    joints = tuple(joint(n, "continuous", parent, n, pose((x, 0.0, 0.0)), Y) for n, parent, x in at)
    tips = (frame("coupler_tip", "coupler", (1.0, 0.0, 0.0)), frame("rocker_tip", "rocker", (0.50002, 0.0, 0.0)))
    tree = cd.load(Description("tight", links, joints, tips))
    robot = tree.close_loop("coupler_tip", "rocker_tip", "xz", q=[0.0, 0.005, np.pi + 0.01], independent=["crank"])
    q, _ = robot.lift([0.003], [0.0])
    assert np.abs(tree.frame_pose(q, "coupler_tip")[1] - tree.frame_pose(q, "rocker_tip")[1]).max() < 1e-14


# -- what is not finite


def test_matrices_are_checked_too() -> None:
    robot = cd.load("wheeled_pendulum").roll("axle", 0.04, ground=lambda x: 20.0 * (x - 1.0) ** 2 * x**4)
    hollow = np.array([1.0, 0.0, 0.0])
    with pytest.raises(cd.RobotError, match="too large for the hollow"):
        robot.mass_matrix(hollow)
    M, fine = robot.mass_matrix(np.array([hollow, 0.0 * hollow]), mask=True)
    assert fine.tolist() == [False, True] and np.all(np.isfinite(M[1]))


def test_reactions_have_a_mask() -> None:
    robot = closed(m.four_bar)
    y, w = np.array([[0.5], [np.nan]]), np.zeros((2, 1))
    forces, fine = robot.reactions(y, w, mask=True)
    assert fine.tolist() == [True, False]
    assert {name: force[0] for name, force in forces.items()} == robot.reactions(y[0], w[0])


def test_an_angle_beyond_all_digits_is_a_sentence() -> None:
    robot = closed(m.four_bar)
    with pytest.raises(cd.RobotError, match="the coordinates are too large"):
        robot.lift([1e15], [0.0])
    assert robot.explain(0.5) is None


# -- float32


@pytest.mark.parametrize("name", ["four_bar", "slider_crank", "squeezer", "five_bar", "spatial_loop", "two_wheeled"])
def test_loops_close_in_float32(name: str) -> None:
    system = SYSTEMS[name]()
    for seed in range(5):
        single = [np.asarray(x, dtype=np.float32) for x in system.state(seed)]
        a = system.robot.forward_dynamics(*single)
        exact = system.robot.forward_dynamics(*(x.astype(float) for x in single))
        assert a.dtype == np.float32 and np.abs(a - exact).max() < 1e-5 * np.abs(exact).max()
        assert (a == system.robot.forward_dynamics(*single, backend="reference")).all()


# -- copies


def test_robots_can_be_copied_and_pickled() -> None:
    robot = closed(m.four_bar)
    y, w = np.array([0.5]), np.array([1.0])
    a = robot.forward_dynamics(y, w, w)
    for other in (copy.deepcopy(robot), pickle.loads(pickle.dumps(robot))):
        assert (other.forward_dynamics(y, w, w) == a).all() and other.joint_names == robot.joint_names
    arm = cd.load("ur3")
    assert pickle.loads(pickle.dumps(arm)).joint_names == arm.joint_names


def test_velocities_that_do_not_fix_the_others_are_reported() -> None:
    robot = cd.load("two_wheeled").roll(["left_wheel", "right_wheel"], 0.04, independent=["root_x", "root_yaw", "root_pitch"])
    y = robot.neutral()
    assert np.all(np.isfinite(robot.forward_dynamics(y, np.zeros(3), np.zeros(3))))
    y[2] = np.pi / 2  # it drives along y, whatever the speed along x
    with pytest.raises(cd.RobotError, match=r"root_yaw = 1.5708.*singular for this choice"):
        robot.forward_dynamics(y, np.zeros(3), np.zeros(3))


def test_a_driver_that_cannot_turn_round_is_the_same_a_turn_away() -> None:
    bars = m.four_bar()
    robot = bars.robot.close_loops(bars.loops, q=bars.pose(), independent=["rocker"])
    y = robot.neutral()
    q = robot.lift(y, np.zeros(1))[0]
    for turns in (-10, 1, 7):
        there = robot.lift(y + 2.0 * np.pi * turns, np.zeros(1))[0]
        assert np.allclose(there[:2], q[:2], atol=1e-12)
