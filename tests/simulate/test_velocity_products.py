"""Velocity products are limited where the time step is too long for them, and nowhere else."""

from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.robot.description import Description
from condyle.robot.parts import X, Y, Z, body, joint, link, pose, sphere
from condyle.simulate.gradcheck import check
from condyle.simulate.step import Inputs, problem

CLOSE = 1e-12  # of first derivatives against differences in high precision, relative to the largest entry of each block
CLOSE_SECOND = 1e-9
LINK = body(1.0, (0.0, 0.01, -0.1), (0.01, 0.008, 0.002))
TIP = body(0.05, (0.01, 0.0, -0.02), (2e-5, 2e-5, 1e-5))


def arm() -> cd.Robot:
    """Three hinges about different axes without friction, the last one with a light tip."""
    links = (link("stand"), link("upper", LINK), link("lower", LINK), link("tip", TIP))
    joints = (
        joint("shoulder", "continuous", "stand", "upper", axis=X),
        joint("elbow", "continuous", "upper", "lower", pose((0.0, 0.0, -0.2)), axis=Y),
        joint("wrist", "continuous", "lower", "tip", pose((0.0, 0.0, -0.2)), axis=X),
    )
    return cd.load(Description("arm", links, joints))


def hopper() -> cd.Robot:
    """A free trunk with a leg of two joints, the knee damped and limited, on a foot."""
    trunk, foot = body(3.0, (0.02, 0.0, 0.01), (0.03, 0.02, 0.04)), sphere(0.03, (0.0, 0.0, -0.2), name="foot")
    joints = (
        joint("hip", "continuous", "trunk", "upper", pose((0.1, 0.0, 0.0)), axis=X),
        joint("knee", "revolute", "upper", "lower", pose((0.0, 0.0, -0.2)), axis=Y, limits=2.0, damping=0.02),
    )
    lower = body(0.3, (0.01, 0.0, -0.1), (2e-3, 2e-3, 3e-4))
    links = (link("trunk", trunk), link("upper", LINK), link("lower", lower, [], [foot]))
    return cd.load(Description("hopper", links, joints), base="free")


def lost(world: cd.Simulation, x: np.ndarray) -> np.ndarray:
    """The fraction of the momentum that a step loses."""
    inner, (q, v) = world._world, world.split(x)

    def fraction(q: Any, v: Any) -> Any:
        return {"lost": np.array([problem(inner, Inputs(q, v, np.zeros(inner.nu))).products.lost])}

    return np.asarray(cd.function(fraction, q=inner.reduced.nq, v=inner.nv)(q, v))[..., 0]


@pytest.mark.parametrize("dt", [0.002, 0.02])
def test_a_limp_arm_thrown_at_any_speed_stays_finite(dt: float) -> None:
    world, rng = cd.Simulation(arm(), dt), np.random.default_rng(0)
    q, v = rng.uniform(-3.0, 3.0, (64, 3)), rng.uniform(-1.0, 1.0, (64, 3)) * 10.0 ** rng.uniform(0.0, 4.0, (64, 1))
    x = world.state(q, v)
    end = world.rollout(x, np.zeros((512, world.nu)))[:, -1]
    before, after = world.energy(x), world.energy(end)
    # the wrist is a thousandth of the arm, and the error of the integrator drives it
    assert np.all(after < 100.0 * (np.abs(before) + 1.0))
    fast = lost(world, x) > 0.5
    assert np.sum(fast) > 10 and np.all(after[fast] < before[fast])


def test_a_step_in_ordinary_motion_loses_nothing() -> None:
    robot = arm()
    rng = np.random.default_rng(1)
    for dt, speed in ((0.001, 30.0), (0.005, 6.0), (0.02, 1.5)):
        world = cd.Simulation(robot, dt)
        q, v = rng.uniform(-3.0, 3.0, (64, 3)), rng.uniform(-speed, speed, (64, 3))
        x, u = world.state(q, v), rng.normal(size=(64, 3))
        assert np.all(lost(world, x) == 0.0)
        after = world.split(world.step(x, u))[1]
        expected = v + dt * robot.forward_dynamics(q, v, u)
        assert np.max(np.abs(after - expected)) < 1e-12 * np.max(np.abs(expected))


def test_a_rotor_about_its_axis_keeps_its_speed_at_many_turns_a_step() -> None:
    frame, wheel = body(1.0, (0.0, 0.0, 0.0), (0.02, 0.02, 0.03)), body(0.1, (0.0, 0.0, 0.0), (1e-4, 1e-4, 2e-4))
    spin = joint("spin", "continuous", "frame", "wheel", axis=Z)
    world = cd.Simulation(cd.load(Description("rotor", (link("frame", frame), link("wheel", wheel)), (spin,)), base="free"), 0.01)
    x = world.state(world.robot.neutral(), [0.1, 0.2, 0.3, 0.0, 0.0, 0.5, 3000.0])
    xs = world.rollout(x, np.zeros((100, world.nu)))
    assert np.all(xs[:, -1] == xs[0, -1])


def test_the_base_of_a_robot_that_spins_too_fast_falls_freely() -> None:
    box = cd.load(Description("box", (link("box", body(1.0, (0.0, 0.0, 0.0), (0.01, 0.02, 0.03))),), ()), base="free")
    world = cd.Simulation(box, 0.02)
    x = world.state(box.neutral(), [1.0, 2.0, 3.0, 60.0, 70.0, 80.0])
    assert lost(world, x) > 0.5
    xs = world.rollout(x, np.zeros((50, world.nu)))
    t = 0.02 * np.arange(51)
    fall = np.stack([t, 2.0 * t, 3.0 * t - 9.81 * t * (t + 0.02) / 2.0], axis=1)
    assert np.max(np.abs(xs[:, :3] - xs[0, :3] - fall)) < 1e-12


def assert_right(world: cd.Simulation, x: np.ndarray, u: np.ndarray, second: bool) -> None:
    assert 0.01 < lost(world, x) < 0.99
    for row in check(world, x, u, second=second, bits=256):
        assert row.error < (CLOSE_SECOND if row.what.startswith("d2") else CLOSE), row


@pytest.mark.slow
def test_derivatives_where_momentum_is_lost_in_contact() -> None:
    pytest.importorskip("gmpy2")
    world, rng = cd.Simulation(hopper(), 0.02, cd.Plane(0.8)), np.random.default_rng(3)
    q = np.array([0.0, 0.0, 0.25, 0.2, -0.3, 0.4, 0.8, 0.3, -0.5])
    q[3:7] /= np.linalg.norm(q[3:7])
    v = rng.normal(size=8) * np.array([6.0, 6.0, 6.0, 60.0, 60.0, 60.0, 60.0, 60.0])
    assert_right(world, world.state(q, v), rng.normal(size=world.nu), False)


def test_second_derivatives_where_momentum_is_lost() -> None:
    pytest.importorskip("gmpy2")
    world = cd.Simulation(arm(), 0.02)
    assert_right(world, world.state([0.3, -0.5, 0.8], [60.0, -40.0, 50.0]), np.array([0.3, -0.2, 0.1]), True)
