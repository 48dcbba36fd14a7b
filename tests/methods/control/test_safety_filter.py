"""The safety filter: its quadratic program against NNLS, its bounds, distances in closed loop, limits, and wrong arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.errors import ControlError
from condyle.methods.control.least_change import Rows, least_change
from condyle.methods.control.safety_filter import SafetyFilter, braking_rate
from condyle.methods.planning.motion_bound import curvature_bounds, lever_arms
from condyle.methods.planning.obstacles import Box, Plane, RobotDistances, Sphere, robot_distances
from condyle.tape.table import table

MARGIN = 0.02  # m
DT, EVERY = 0.00025, 4  # s, ticks
SOLVED = 3e-5  # of the program: its products s l end at 1e-9, and a row that is just met is off by at most the root of that
READY = np.array([0.0, -1.4, 1.5, -1.6, -1.4, 0.0])
GOAL = np.array([2.0, -0.8, 1.0, -1.2, -1.0, 0.5])


# ---- the program


def program(n: int, first: int, m: int, weights: tuple[float, float]) -> cd.Function:
    def solve(G: Any, h: Any) -> Any:
        parts = [
            Rows(table(G[:first]), table(h[:first]), weights[0]),
            Rows(table(G[first:]), table(h[first:]), weights[1]),
        ]
        return least_change(parts).z

    return cd.function(solve, cache=False, G=(m, n), h=m)


@pytest.fixture(scope="module")
def solve() -> cd.Function:
    return program(4, 7, 12, (1e3, 1e4))


def test_the_least_change_is_that_of_nnls(solve: cd.Function) -> None:
    """Least distance programming by nonnegative least squares (Lawson and Hanson 1974, chapter 23)."""
    nnls = pytest.importorskip("scipy.optimize").nnls
    rng = np.random.default_rng(0)
    G = rng.normal(size=(60, 12, 4))
    G /= np.linalg.norm(G, axis=-1, keepdims=True)
    h = np.einsum("kmn,kn->km", G, rng.normal(size=(60, 4))) - rng.uniform(0.0, 2.0, (60, 12))
    z = solve(G, h)
    assert np.mean(np.any(h > 0.0, axis=1)) > 0.9
    for k in range(60):
        E = np.vstack([G[k].T, h[k]])
        r = E @ nnls(E, np.eye(5)[4])[0] - np.eye(5)[4]
        assert np.abs(z[k] + r[:4] / r[4]).max() < SOLVED * max(1.0, np.abs(z[k]).max())


def test_no_change_where_none_is_needed(solve: cd.Function) -> None:
    G = np.random.default_rng(1).normal(size=(12, 4))
    assert np.array_equal(solve(G, np.full(12, -1e-12)), np.zeros(4))


def test_rows_of_small_weight_give_way(solve: cd.Function) -> None:
    G, h = np.zeros((12, 4)), np.full(12, -10.0)
    G[:, 0] = 1.0
    # of the first part z0 >= 2, of the second, of larger weight, -z0 >= -1
    h[0], G[8, 0], h[8] = 2.0, -1.0, -1.0
    assert np.abs(solve(G, h) - [1.0, 0.0, 0.0, 0.0]).max() < 1e-6


# ---- bounds


@pytest.fixture(scope="module")
def robot() -> cd.Robot:
    return cd.load("ur3")


@pytest.fixture(scope="module")
def distances(robot: cd.Robot) -> RobotDistances:
    """Three obstacles that move, and few links, so that it is compiled soon."""
    solids = [Sphere(0.08, name="ball"), Box((0.1, 0.3, 0.2), name="box"), Plane(position=(0.0, 0.0, -0.02), name="floor")]
    return robot_distances(robot, solids, moving=True, self_collision=False, links=["elbow", "wrist_1", "wrist_3"])


def poses_of(distances: RobotDistances, *positions: Any) -> np.ndarray:
    poses = np.array([each.pose for each in distances.obstacles])
    for k, p in enumerate(positions):
        poses[k, :3, 3] = p
    return poses


def test_lever_arms_bound_the_derivatives_and_are_sharp(robot: cd.Robot) -> None:
    found = robot_distances(robot, [Sphere(0.1, position=(0.4, 0.0, 0.3)), Plane()])
    q = robot.random_configuration(np.random.default_rng(0), 2000)
    _, J = found.with_jacobian(q)
    R = lever_arms(found)
    assert np.max(np.abs(J) - R) < 1e-12
    # a plane sees the whole arm: of the shoulder's lever arm on the last wrist most is used
    row = found.names.index(("wrist_3", "plane_1"))
    assert np.max(np.abs(J[:, row, 1])) > 0.7 * R[row, 1]


def test_curvature_bounds_hold_along_lines(robot: cd.Robot, distances: RobotDistances) -> None:
    """d(s) >= (1 - s) d(0) + s d(1) - c s (1 - s) / 2, wherever a pair is apart along the line."""
    rng = np.random.default_rng(3)
    q, dq = robot.random_configuration(rng, 400), rng.normal(size=(400, 6)) * 0.3
    poses = poses_of(distances, (0.3, 0.1, 0.3), (-0.3, 0.1, 0.2))
    s = np.linspace(0.0, 1.0, 21)
    d = distances(q[:, None] + s[:, None] * dq[:, None], np.broadcast_to(poses, (400, 21, *poses.shape)))
    chord = d[:, :1] + s[:, None] * (d[:, -1:] - d[:, :1])
    bend = 0.5 * (dq**2 @ curvature_bounds(distances).T)[:, None] * (s * (1.0 - s))[:, None]
    apart = np.min(d, axis=1) > 0.0
    lacking = np.max(chord - bend - d, axis=1)[apart]
    assert apart.mean() > 0.5 and lacking.max() < 1e-9


# ---- in closed loop


class Loops:
    """The same controller with and without the filter, which is called with poses and velocities of the obstacles."""

    def __init__(self, robot: cd.Robot, distances: RobotDistances) -> None:
        self.distances, self.world = distances, cd.Simulation(robot, dt=DT)
        self.safety = SafetyFilter(self.world, distances, margin=MARGIN, every=EVERY)
        count = len(distances.obstacles)

        def nominal(x: Any, goal: Any) -> Any:
            v = 3.0 * (goal - x.q)
            v = v / np.maximum(np.max(np.abs(v) / 1.7), 1.0)
            return robot.inverse_dynamics(x.q, x.v, 40.0 * (v - x.v))

        def filtered(x: Any, goal: Any, poses: Any, velocities: Any) -> Any:
            rates = velocities.reshape(count, 6)
            now = np.array(poses.reshape(count, 4, 4), dtype=object)
            for k in range(count):
                now[k, :3, 3] = now[k, :3, 3] + rates[k, :3] * x.t
            u = nominal(x, goal)
            found = self.safety(x, u, cd.array(now), rates)
            return {"u": found["u"], "wanted": u}

        self.plain = cd.Loop(self.world, nominal, goal=6)
        self.filtered = cd.Loop(self.world, filtered, goal=6, poses=16 * count, velocities=6 * count)

    def run(
        self, q: Any, goal: Any, poses: Any, velocities: Any = None, steps: int = 6000, stride: int = 4, **options: Any
    ) -> Any:
        rates = np.zeros((*np.shape(poses)[:-2], 6)) if velocities is None else np.asarray(velocities, dtype=float)
        lead = np.shape(poses)[:-3]
        given = {
            "goal": np.broadcast_to(goal, (*lead, 6))[..., None, :],
            "poses": np.reshape(poses, (*lead, 1, -1)),
            "velocities": np.reshape(rates, (*lead, 1, -1)),
        }
        return self.filtered.rollout(self.filtered.state(q), given, steps, every=stride, **options)


@pytest.fixture(scope="module")
def loops(robot: cd.Robot, distances: RobotDistances) -> Loops:
    return Loops(robot, distances)


RECORD = ["q", "v", "u", "wanted", "safety_filter.slack", "safety_filter.barrier"]


@pytest.mark.slow
def test_random_obstacles_are_never_closer_than_the_margin(loops: Loops, distances: RobotDistances) -> None:
    rng, robot, count = np.random.default_rng(5), distances.robot, 24
    q, goal = (READY + 0.2 * rng.normal(size=(400, 6)), GOAL + 0.2 * rng.normal(size=(400, 6)))
    middle = robot.frame_pose(0.5 * (q + goal), "tool")[1] + 0.05 * rng.normal(size=(400, 3))
    poses = np.array([poses_of(distances, p, p - np.array([0.0, 0.0, 0.35])) for p in middle])
    ok = np.flatnonzero(np.min(distances(q, poses), axis=1) > MARGIN + 0.005)[:count]
    q, goal, poses = q[ok], goal[ok], poses[ok]
    out = loops.run(q, goal, poses, record=RECORD)
    d = distances(out["q"], np.broadcast_to(poses[:, None], (*out["q"].shape[:2], *poses.shape[1:])))
    assert np.min(d) >= MARGIN and np.min(d) < MARGIN + 3e-3
    assert np.all(np.abs(out["v"]) <= 1.001 * robot.velocity_limits)
    alone = loops.plain.rollout(loops.plain.state(q), goal[:, None], 6000, every=4, record=["q"])["q"]
    free = distances(alone, np.broadcast_to(poses[:, None], (*alone.shape[:2], *poses.shape[1:])))
    assert np.mean(np.min(free, axis=(1, 2)) < MARGIN) > 0.8
    # one of them alone has the bits of the batch
    one = loops.run(q[3], goal[3], poses[3], record=["q"])
    assert np.array_equal(one["q"], out["q"][3])


@pytest.mark.slow
def test_forces_far_from_everything_are_those_of_the_controller(loops: Loops, distances: RobotDistances) -> None:
    # towards a goal near by, so that accelerations are within their limits
    out = loops.run(
        READY,
        READY + 0.05,
        poses_of(distances, (0.0, 0.0, 9.0), (0.0, 0.0, 12.0)),
        steps=400,
        record=[*RECORD, "safety_filter.change"],
    )
    assert np.max(out["safety_filter.change"]) == 0.0 and np.max(out["safety_filter.slack"]) == 0.0
    assert np.min(out["safety_filter.barrier"]) > 0.0 and np.abs(out["u"]).max() > 1.0
    # the forces of a control tick are those of the controller at its first tick of the physics
    fine = loops.run(
        READY, READY + 0.05, poses_of(distances, (0.0, 0.0, 9.0), (0.0, 0.0, 12.0)), steps=40, stride=1, record=RECORD
    )
    assert np.array_equal(fine["u"][::EVERY], fine["wanted"][::EVERY])


@pytest.mark.slow
def test_a_resting_arm_gives_way_to_a_moving_ball(loops: Loops, distances: RobotDistances) -> None:
    p = distances.robot.frame_pose(READY, "wrist_3")[1]
    velocity = np.array([0.0, -0.2, 0.0])
    poses = poses_of(distances, p - 2.0 * velocity * 0.75, (0.0, 0.0, 12.0))
    rates = np.zeros((3, 6))
    rates[0, :3] = velocity
    out = loops.run(READY, READY, poses, rates, steps=6000, record=RECORD)
    t = DT * 4.0 * np.arange(1, len(out["q"]) + 1)
    moved = np.repeat(poses[None], len(t), axis=0)
    moved[:, 0, :3, 3] += velocity * t[:, None]
    assert np.min(distances(out["q"], moved)) >= MARGIN
    assert np.min(distances(np.repeat(READY[None], len(t), axis=0), moved)) < 0.0


# ---- arguments


def test_braking_is_within_the_torques(robot: cd.Robot) -> None:
    assert braking_rate(robot, robot.velocity_limits, robot.effort_limits) == 20.0
    weak = np.array([20.0, 50.0, 25.0, 8.0, 8.0, 4.0])
    assert 0.0 < braking_rate(robot, robot.velocity_limits, weak) < 20.0
    with pytest.raises(ControlError, match="cannot brake"):
        braking_rate(robot, robot.velocity_limits, 0.1 * weak)


def test_wrong_arguments_are_named(robot: cd.Robot, distances: RobotDistances) -> None:
    world = cd.Simulation(robot, dt=DT)
    with pytest.raises(ControlError, match="'base_2' and 'lift' are never farther apart than 20"):
        SafetyFilter(world, robot_distances(robot, [Plane()]), margin=0.03)
    with pytest.raises(ControlError, match="margin must be one number, or 9"):
        SafetyFilter(world, distances, margin=[0.01, 0.02])
    with pytest.raises(ControlError, match="samples"):
        SafetyFilter(world, distances, samples=0)
    with pytest.raises(ControlError, match="finite speed"):
        SafetyFilter(world, distances, speed=np.inf)
    with pytest.raises(ControlError, match="its own robot"):
        SafetyFilter(cd.Simulation(cd.load("double_pendulum")), distances)
