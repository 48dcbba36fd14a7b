"""Constrained robots in a world: in time, in contact, with derivatives, and bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from constraints import mechanisms as m
from constraints import references as r
from markers import slow_except

import condyle as cd
from benchmarks.constraints import leg
from condyle.dynamics.kinematics import frame_pose, jacobian
from condyle.robot.parts import frame
from condyle.simulate.gradcheck import check

RADIUS = 0.04


def closed(mechanism: m.Mechanism, y: list[float] | None = None, through: bool = False) -> cd.Robot:
    return mechanism.robot.close_loops(mechanism.loops, q=mechanism.pose(y), independent=mechanism.independent, through=through)


def legged(base: str) -> cd.Robot:
    """A leg with a four-bar knee, and a foot."""
    description = leg()
    description = replace(description, frames=(*description.frames, frame("foot", "shank", (0.0, 0.0, -0.25))))
    return cd.load(description, base=base).close_loop("coupler_end", "lever", "xz", dependent=["knee", "coupler_pin"])


def on_the_ground(base: str, **options: Any) -> tuple[cd.Simulation, np.ndarray]:
    """(the leg just as it lands, its state): the foot touches and slides."""
    robot = legged(base)
    world = cd.Simulation(robot, 0.002, cd.Plane(friction=0.5), ["foot"], **options)
    q, v = robot.neutral(), 0.1 * np.random.default_rng(0).standard_normal(robot.nv)
    foot, up = robot.frame_pose(q, "foot")[1], {"free": 2, "planar": 1}[base]
    q[up] -= foot[2] + 8e-4
    v[up] = -0.2
    return world, world.state(q, v)


def pendulum(**options: Any) -> cd.Robot:
    return cd.load("wheeled_pendulum").roll("axle", RADIUS, **options)


def wavy(x: Any) -> Any:
    return 0.05 * np.sin(3.0 * x)


# ---- in time


@pytest.mark.slow
def test_a_step_without_contact_is_the_reduced_acceleration() -> None:
    rng = np.random.default_rng(1)
    for robot in (pendulum(), closed(m.four_bar()), closed(m.squeezer())):
        world = cd.Simulation(robot, 0.001, damping=False, limits=False)
        for _ in range(10):
            y, w = robot.neutral() + 0.3 * rng.standard_normal(robot.nq), rng.standard_normal(robot.nv)
            u = 0.1 * rng.standard_normal(world.nu)
            tau = np.zeros(robot.model.nv)
            tau[list(world.actuated)] = u
            a = robot.forward_dynamics(y, w, robot.reduce_forces(y, tau))
            after = world.split(world.step(world.state(y, w), u))[1]
            assert np.max(np.abs(after - (w + 0.001 * a))) <= 1e-12 * (1.0 + np.max(np.abs(a)))


def test_a_rolling_pendulum_keeps_its_energy_for_ten_seconds() -> None:
    world = cd.Simulation(pendulum(), 0.001, integrator="rk4")
    x = world.state([0.0, 0.3], [0.2, 0.1])
    xs = world.rollout(x, np.zeros((10_000, 1)))
    energy = world.energy(xs)
    assert np.ptp(energy) <= 1e-9 * np.max(np.abs(energy))
    # and its constraint: wheel on the ground, no slip at the lowest point
    q, v = world.robot.lift(*world.split(xs[-1]))
    full = cd.load("wheeled_pendulum")
    center, motion = full.frame_pose(q, "center")[1], full.jacobian(q, "center") @ v
    assert abs(center[2] - RADIUS) <= 1e-15
    slip = motion[:3] + np.cross(motion[3:], [0.0, 0.0, -RADIUS])
    assert np.max(np.abs(slip)) <= 1e-14 * (1.0 + np.max(np.abs(v)))


@pytest.mark.slow
def test_a_chain_of_four_bars_swings_as_one_pendulum_for_twenty_seconds() -> None:
    chain = m.four_bars(15)
    robot = closed(chain, [np.pi])
    world = cd.Simulation(robot, 2.0**-8, integrator="rk4", actuated=[])
    xs = world.rollout(world.state([np.pi - 1.0], [0.0]), np.zeros((5120, 0)))
    angle, rate = r.swing(lambda a: r.four_bars_equation(15, a), np.pi - 1.0, 0.0, 20.0, 160)
    assert abs(xs[-1, 0] - angle) <= 1e-7 and abs(xs[-1, 1] - rate) <= 1e-6
    assert chain.gap(robot.lift(xs[-1, :1], xs[-1, 1:])[0]) <= 1e-13


def test_a_chain_that_falls_over_goes_straight_on_through_flat_poses() -> None:
    """The start of the benchmark: upright, a metre a second; flat every half turn, and right every time.

    How near to a flat pose a stage comes decides how much rounding errors grow there: between 1e-8 and 2e-5, by the first rate.
    """
    world = cd.Simulation(closed(m.four_bars(4), through=True), 0.001, integrator="rk4", actuated=[])
    xs = world.rollout(world.state([0.0], [1.1]), np.zeros((3072, 0)))
    angle, rate = r.swing(lambda a: r.four_bars_equation(4, a), 0.0, 1.1, 3.072, 200)
    assert xs[-1, 0] > 3.0 * np.pi and abs(xs[-1, 0] - angle) <= 1e-6 and abs(xs[-1, 1] - rate) <= 1e-6


def test_the_same_chain_by_couplings_does_not_know_that_it_is_flat() -> None:
    """All rods turn together and all couplers back: nothing is solved, so fifteen windows fall over for twenty seconds."""
    chain = m.four_bars(15)
    follow = {f"{name}_{k}": ("rod_0", ratio) for k in range(1, 16) for name, ratio in (("rod", 1.0), ("coupler", -1.0))}
    robot = chain.robot.couple(follow)
    world = cd.Simulation(robot, 2.0**-9, integrator="rk4", actuated=[])
    xs = world.rollout(world.state([0.0], [1.0]), np.zeros((10_240, 0)))
    angle, rate = r.swing(lambda a: r.four_bars_equation(15, a), 0.0, 1.0, 20.0, 400)
    assert abs(xs[-1, 0] - angle) <= 1e-6 and abs(xs[-1, 1] - rate) <= 1e-6
    assert np.ptp(world.energy(xs)) <= 1e-9 * np.max(np.abs(world.energy(xs)))
    assert chain.gap(robot.lift(xs[-1, :1], xs[-1, 1:])[0]) <= 1e-13


def spring_and_drive(model: Any, q: Any, v: Any) -> Any:
    """Of the squeezer: its spring pulls frame d towards the fixed point c, and its crank is driven."""
    away = np.array([*m.C, 0.0]) - frame_pose(model, q, "d").p
    length = np.sqrt(away @ away)
    tau = jacobian(model, q, "d", "world_aligned")[:3].T @ (away * (m.STIFFNESS * (length - m.REST) / length))
    tau[m.TREE.index("beta")] = tau[m.TREE.index("beta")] + m.DRIVE
    return tau


@pytest.mark.slow
def test_the_squeezer_ends_where_it_is_published_to_end() -> None:
    robot = closed(m.squeezer())
    world = cd.Simulation(robot, 1e-5, integrator="rk4", actuated=[], force=spring_and_drive)
    xs = world.rollout(world.state(m.SQUEEZER_START[:1], [0.0]), np.zeros((3000, 0)))
    q, _ = robot.lift(xs[-1, :1], xs[-1, 1:])
    assert np.max(np.abs(q[m.TO_BOOK] - r.ANDREWS_END)) <= 1e-8
    assert np.max(np.abs(q[m.TO_BOOK] - r.andrews_motion(steps=150)[0])) <= 1e-9
    assert m.squeezer().gap(q) <= 1e-15


def test_velocities_that_are_not_the_rates_of_coordinates() -> None:
    """The same pendulum with velocities twice as large a unit: it moves the same way."""
    robot = cd.load("wheeled_pendulum")
    rolling = pendulum()

    def gamma(y: Any) -> Any:
        x, phi = y
        return [x, RADIUS + 0.2 * np.cos(phi), phi, (x - 0.2 * np.sin(phi)) / RADIUS - phi]

    def twice(y: Any) -> Any:
        s, c = np.sin(y[1]), np.cos(y[1])
        return 2.0 * np.array([[1.0, 0.0], [0.0, -0.2 * s], [0.0, 1.0], [1.0 / RADIUS, -0.2 * c / RADIUS - 1.0]])

    other = robot.embed(gamma, twice, names=["x", "phi"])
    for integrator in ("rk4", "semi_implicit_euler", "explicit_euler"):
        one, two = (cd.Simulation(r, 0.001, integrator=integrator) for r in (rolling, other))
        xs = one.rollout(one.state([0.1, 0.3], [0.4, -0.2]), np.full((50, 1), 0.01))
        ys = two.rollout(two.state([0.1, 0.3], [0.2, -0.1]), np.full((50, 1), 0.01))
        assert np.max(np.abs(xs - ys * [1.0, 1.0, 2.0, 2.0])) <= 1e-12
        rows = check(two, ys[-1], [0.01], bits=256)
        assert max(row.error for row in rows) <= 1e-9, rows


def test_only_joints_that_remain_have_motors_unless_others_are_named() -> None:
    robot = legged("free")
    names = [link.joint for link in robot.model.links]
    world = cd.Simulation(robot)
    assert [names[robot.model.links.index(link)] for link in robot.model.links if link.v.start in world.actuated] == [
        "hip_roll",
        "hip_pitch",
        "knee_motor",
    ]
    assert cd.Simulation(pendulum()).nu == 1  # the wheel, though its angle follows from the others
    assert cd.Simulation(robot, actuated=["knee"]).nu == 1


# ---- derivatives


CASES: dict[str, Any] = {
    "pendulum rk4": lambda: (world := cd.Simulation(pendulum(), 0.001, integrator="rk4"), world.state([0.1, 0.4], [0.3, -1.0])),
    "pendulum euler": lambda: (world := cd.Simulation(pendulum(), 0.001), world.state([0.1, 0.4], [0.3, -1.0])),
    "curve rk4": lambda: (
        world := cd.Simulation(pendulum(ground=wavy), 0.001, integrator="rk4"),
        world.state([0.1, 0.4, 0.0], [0.3, -1.0]),
    ),
    "curve euler": lambda: (world := cd.Simulation(pendulum(ground=wavy), 0.001), world.state([0.1, 0.4, 0.0], [0.3, -1.0])),
    "curve explicit": lambda: (
        world := cd.Simulation(pendulum(ground=wavy), 0.001, integrator="explicit_euler"),
        world.state([0.1, 0.4, 0.0], [0.3, -1.0]),
    ),
    "two wheels": lambda: (
        world := cd.Simulation(cd.load("two_wheeled").roll(["left_wheel", "right_wheel"], RADIUS), 0.001),
        world.state([0.0, 0.3, 0.1, 0.2, 0.3, 0.4], [0.2, 0.1, 0.5]),
    ),
    "four-bar": lambda: (world := cd.Simulation(closed(m.four_bar()), 0.001), world.state(None, [2.0])),
    "ball joint": lambda: (world := cd.Simulation(closed(m.ball_loop()), 0.001), world.state(None, [2.0])),
    # a smaller smoothing costs digits of derivatives in float64, in proportion
    "leg that lands": lambda: on_the_ground("free", smoothing=1e-3),
    "leg that lands, pyramid": lambda: on_the_ground("planar", cone=4),
    "leg that lands, rk2": lambda: on_the_ground("planar", integrator="rk2", smoothing=1e-3),
    "leg with a spring that is pushed": lambda: on_the_ground(
        "planar", springs={"knee": (20.0, 0.2)}, wrenches=["torso"], smoothing=1e-4
    ),
}


# where contact is stiff, float64 has fewer digits of second derivatives
SECOND = {"curve euler": 1e-8, "four-bar": 1e-8, "leg that lands": 1e-6}


@pytest.mark.parametrize("name", slow_except(["curve euler", "four-bar"], CASES))
def test_derivatives_of_a_step_against_differences_in_high_precision(name: str) -> None:
    world, x = CASES[name]()
    rows = check(world, x, np.full(world.nu, 0.02), second=name in SECOND, bits=256)
    for row in rows:
        assert row.error <= (SECOND[name] if row.what.startswith("d2") else 1e-9), rows
    assert any(row.what.startswith("d2") for row in rows) == (name in SECOND)
    if "lands" in name:
        assert world.contact_forces(x)[0, 2] > 1.0


@pytest.mark.slow
def test_derivatives_at_the_limit_of_a_joint_that_follows() -> None:
    robot = legged("fixed")
    limit = robot.model.links[2].limits.upper
    assert robot.model.links[2].joint == "knee" and limit is not None
    # the crank that takes the knee a little beyond
    y = robot.neutral()
    for _ in range(50):
        q, v = robot.lift(y, np.array([0.0, 0.0, 1.0]))
        y[2] += (limit + 0.004 - q[2]) / v[2]
    assert abs(robot.lift(y, np.zeros(3))[0][2] - limit - 0.004) < 1e-9
    world = cd.Simulation(robot, 0.002)
    x = world.state(y, [0.0, 0.0, 0.1])
    free = cd.Simulation(robot, 0.002, limits=False)
    assert np.max(np.abs(world.step(x) - free.step(x))) > 1e-4
    assert max(row.error for row in check(world, x, np.zeros(world.nu), bits=256)) <= 1e-9


# ---- bits, files, and what cannot be


@pytest.mark.parametrize("name", slow_except(["four-bar"], ["curve rk4", "four-bar", "leg that lands", "two wheels"]))
def test_same_bits(name: str) -> None:
    world, x = CASES[name]()
    rng = np.random.default_rng(2)
    us = 0.1 * rng.standard_normal((3, 12, world.nu))
    xs = world.rollout(np.tile(x, (3, 1)), us)
    for k in range(3):
        now = x
        for t in range(12):
            now = world.step(now, us[k, t])
            assert np.array_equal(now, xs[k, t + 1])
    assert np.array_equal(world.rollout(np.tile(x, (3, 1)), us, lanes=2, threads=2), xs)
    assert np.array_equal(world.step(x, us[0, 0], backend="reference"), xs[0, 1])
    many = world.step(np.tile(x, (11, 1)), np.tile(us[0, 0], (11, 1)), derivatives=True)
    one = world.step(x, us[0, 0], derivatives=True)
    assert all(np.array_equal(a[7], b) for a, b in zip(many, one, strict=True))


def test_a_singular_pose_is_reported_and_not_passed() -> None:
    robot = closed(m.four_bars(2))
    world = cd.Simulation(robot, 0.001, integrator="rk4", actuated=[])
    x = world.state([1.4], [1.0])
    with pytest.raises(cd.SimulationError, match=r"rod_0 = 1\.5[67].*rank"):
        world.rollout(x, np.zeros((2000, 0)))
    both = np.array([x, world.state([0.0], [0.0])])
    xs = world.rollout(both, np.zeros((400, 0)), freeze=True)
    assert world.status is not None and world.status.ok.tolist() == [False, True]
    assert xs[0, -1, 0] < np.pi / 2 < xs[0, -1, 0] + 0.02
    assert np.array_equal(xs[1], world.rollout(both[1], np.zeros((400, 0))))


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(cd.SimulationError, match="backward_euler is for robots without constraints"):
        cd.Simulation(pendulum(), integrator="backward_euler")
    with pytest.raises(cd.SimulationError, match="2 entries"):
        cd.Simulation(pendulum()).state(np.zeros(4))
