"""Drives: implicit springs and dampers of bounded force, solved with the contact problem, against the closed form."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from simulate.bodies import a_pendulum

import condyle as cd
from condyle.simulate.step import Inputs, problem, solved
from condyle.simulate.step_derivatives import next_velocity_derivatives

H = 0.002
TOLERANCE = 1e-11  # of the force, relative to the effort limit


def driven(effort: bool) -> Any:
    """The step of a pendulum with a drive: v, residual, M, p, dv/dq and dv/dv of states with gains, target and effort."""
    world = cd.Simulation(a_pendulum(), dt=H)._world

    def step(q: Any, v: Any, gains: Any, target: Any, limit: Any, force: Any) -> Any:
        joint = replace(
            world.joints[0],
            drive_stiffness=gains[0],
            drive_damping=gains[1],
            drive_target=target[0],
            drive_force=force[0],
            drive_effort=limit[0] if effort else None,
        )
        now = replace(world, joints=(joint,))
        x = Inputs(q, v, np.zeros(1))
        equation, by = problem(now, x), next_velocity_derivatives(now, x)
        solution = solved(now, equation)
        M, after = equation.M[0, 0], v[0] + solution.dv[0]
        return after, solution.residual, M, M * v[0] + equation.p[0], by.by_q[0, 0], by.by_v[0, 0]

    return cd.function(step, q=1, v=1, gains=2, target=1, limit=1, force=1)


@pytest.fixture(scope="module")
def states() -> list[np.ndarray]:
    """Angles, speeds, gains, targets and efforts over many orders of magnitude, zeros included."""
    rng, n = np.random.default_rng(3), 20_000
    gains = np.column_stack([10.0 ** rng.uniform(-2, 9, n), 10.0 ** rng.uniform(-3, 6, n)])
    gains[:200, 0], gains[100:300, 1] = 0.0, 0.0
    speeds = rng.normal(size=(n, 1)) * 10.0 ** rng.uniform(-3, 2, (n, 1))
    limits = 10.0 ** rng.uniform(-3, 4, (n, 1))
    return [rng.normal(size=(n, 1)), speeds, gains, rng.normal(size=(n, 1)), limits, rng.normal(size=(n, 1)) * limits]


def test_a_limited_drive_is_the_clipped_law(states: list[np.ndarray]) -> None:
    q, _, gains, target, effort, force = states
    after, residual, M, p, _, _ = driven(effort=True)(*states)
    G, wanted = H * gains[:, 1] + H * H * gains[:, 0], H * (gains[:, 0] * (target - q)[:, 0] + force[:, 0])
    S = H * effort[:, 0]
    # M v = p + clip(wanted - G v): the impulse without bounds, and clipped, because the force falls with v
    impulse = np.clip((wanted - G * p / M) / (1.0 + G / M), -S, S)
    assert residual.max() < 1e-11
    error = np.abs(M * after - p - impulse) - 4e-16 * np.abs(p)
    assert np.all(error <= TOLERANCE * S)


def test_a_drive_without_limit_is_an_implicit_spring_and_damper(states: list[np.ndarray]) -> None:
    gains = states[2]
    after, _, M, p, _, _ = driven(effort=False)(*states)
    # M and p hold the drive: the pendulum is 1 kg at 1 m
    own = 1.0 + 2e-9
    np.testing.assert_allclose(M, own + H * gains[:, 1] + H * H * gains[:, 0], rtol=1e-8)
    # rounding errors are those of the velocity before the step
    assert np.all(np.abs(after - p / M) <= 1e-12 * np.abs(after) + 4e-16 * np.abs(states[1][:, 0]))


def test_derivatives_of_a_limited_drive(states: list[np.ndarray]) -> None:
    few = [x[1000:1400] for x in states]
    f, d = driven(effort=True), 1e-6
    by_q, by_v = f(*few)[4:]
    for k, by in ((0, by_q), (1, by_v)):
        ends = []
        for sign in (d, -d):
            moved = list(few)
            moved[k] = few[k] + sign
            ends.append(f(*moved))
        # where neither end is within a kink
        smooth = np.abs(ends[0][4 + k] - ends[1][4 + k]) <= 1e-6 * (1.0 + np.abs(by))
        assert smooth.mean() > 0.9
        np.testing.assert_allclose(((ends[0][0] - ends[1][0]) / (2 * d))[smooth], by[smooth], rtol=1e-4, atol=1e-5)


def test_a_drive_without_effort_does_nothing() -> None:
    f = driven(effort=True)
    x = [np.array([[a]]) for a in (0.3, -2.0)]
    off = f(*x, np.array([[100.0, 1.0]]), np.array([[1.0]]), np.array([[0.0]]), np.array([[3.0]]))
    np.testing.assert_allclose(off[0], off[3] / off[2], rtol=1e-9)


def test_stiff_and_weak_drives_of_coupled_joints_converge() -> None:
    world = cd.Simulation(cd.load("double_pendulum"), H)
    pd = cd.blocks.ImplicitPD(world.control_names, [1.0, 1.0], [1.0, 1.0], [1.0, 1.0], name="pd")
    friction = cd.blocks.JointFriction(world.control_names, 0.2)
    loop = cd.Loop(world, lambda x, target: cd.blocks.combined(pd(target, x), friction(x)), target=2)
    rng, n = np.random.default_rng(0), 500
    gains = {"pd.kp": 10.0 ** rng.uniform(-1, 10, (n, 2)), "pd.kd": 10.0 ** rng.uniform(-2, 8, (n, 2))}
    gains["pd.effort"] = 10.0 ** rng.uniform(-2, 3, (n, 2))
    x = loop.state(rng.normal(size=(n, 2)), 5.0 * rng.normal(size=(n, 2)))
    out = loop.rollout(x, rng.normal(size=(n, 1, 2)), 200, parameters=gains, every=200)
    assert np.all(out.status.ok)


# ---- several drives at once, against the law itself


def one_tick(robot: Any, states: tuple[np.ndarray, ...], h: float) -> tuple[Any, np.ndarray]:
    """(rollout of one tick under drives alone, v after it) of states (q, v, target, kp, kd, effort)."""
    q, v, target, kp, kd, effort = states
    world = cd.Simulation(robot, h, None, joint_friction=False, limits=False, damping=False)
    pd = cd.blocks.ImplicitPD(world.control_names, np.ones(robot.nv), np.ones(robot.nv), np.ones(robot.nv), name="pd")
    loop = cd.Loop(world, lambda x, target: pd(target, x), target=robot.nv)
    gains = {"pd.kp": kp, "pd.kd": kd, "pd.effort": effort}
    out = loop.rollout(loop.state(q, v), target[:, None], 1, parameters=gains)
    return out, out["v"][:, -1]


def law_error(robot: Any, states: tuple[np.ndarray, ...], v1: np.ndarray, h: float) -> np.ndarray:
    """|torque that the motion takes - law at the velocity after the step|, relative to the effort."""
    q, v, target, kp, kd, effort = states
    torque = robot.inverse_dynamics(q, v, (v1 - v) / h)
    wanted = np.clip(kp * (target - q - h * v1) - kd * v1, -effort, effort)
    # the torque of an acceleration that is known to rounding errors of the velocities
    rounding = 4e-16 * np.abs(robot.mass_matrix(q)) @ (np.abs(v) + np.abs(v1))[..., None] / h
    error: np.ndarray = np.maximum(np.abs(torque - wanted) - rounding[..., 0], 0.0) / effort
    return error


def random_states(robot: Any, count: int) -> tuple[np.ndarray, ...]:
    """States with gains and efforts over three orders of magnitude."""
    rng, shape = np.random.default_rng(0), (count, robot.nv)
    kp, kd, effort = (10.0 ** rng.uniform(low, high, shape) for low, high in ((0, 3), (-1, 2), (0, 2)))
    q, v, target = rng.normal(size=(3, *shape))
    return q, v, target, kp, kd, effort


def enumerated(robot: Any, states: tuple[np.ndarray, ...], h: float) -> np.ndarray:
    """The velocities after a step, by trying every drive within its bounds and at each of them."""
    q, v, target, kp, kd, effort = states
    n = robot.nv
    M, bias = robot.mass_matrix(q), robot.inverse_dynamics(q, v, np.zeros_like(v))
    momentum = np.einsum("...ij,...j", M, v) - h * bias
    G, w, S = h * kd + h * h * kp, h * kp * (target - q), h * effort
    best, least = np.full_like(v, np.nan), np.full(len(v), np.inf)
    for choice in np.array(np.meshgrid(*[[-1.0, 0.0, 1.0]] * n)).reshape(n, -1).T:
        inside = choice == 0.0
        right = momentum + np.where(inside, w, choice * S)
        u = np.linalg.solve(M + np.eye(n) * np.where(inside, G, 0.0)[:, None, :], right[..., None])[..., 0]
        x = w - G * u
        off = np.max(np.where(inside, np.abs(x) / S - 1.0, 1.0 - choice * x / S), axis=-1)
        best[off < least], least = u[off < least], np.minimum(off, least)
    assert least.max() < 1e-9
    return best


def test_two_drives_at_their_bounds_do_not_push_against_their_law() -> None:
    q, v, target, kp, kd, effort = [1.135, 0.096], [0.876, -0.668], [0.424, -0.0045], [381, 18.7], [8.5, 84.7], [79, 39]
    states = tuple(np.array([x], dtype=float) for x in (q, v, target, kp, kd, effort))
    robot = cd.load("double_pendulum")
    _, v1 = one_tick(robot, states, 0.005)
    assert law_error(robot, states, v1, 0.005).max() < 1e-10


@pytest.mark.parametrize(("name", "count", "compared"), [("double_pendulum", 1000, 1000), ("ur3", 1000, 40)])
def test_coupled_drives_obey_their_law_and_so_are_the_only_solution(name: str, count: int, compared: int) -> None:
    robot, h = cd.load(name), 0.005
    states = random_states(robot, count)
    out, v1 = one_tick(robot, states, h)
    assert out.status.ok.all() and out.status.residual.max() < 1e-10
    assert law_error(robot, states, v1, h).max() < 1e-10
    few = tuple(x[:compared] for x in states)
    np.testing.assert_allclose(v1[:compared], enumerated(robot, few, h), rtol=1e-9, atol=1e-11)


def test_a_dog_held_by_its_body_moves_by_what_its_servos_can_give() -> None:
    robot, h, ticks, runs = cd.load("pidog", base="fixed").lock(["head", "tail"]), 0.002, 500, 128
    world = cd.Simulation(robot, h, None, joint_friction=False, limits=False, damping=False)
    kp, kd, effort = 2.74, 0.0196, 0.137
    pd = cd.blocks.ImplicitPD(world.control_names, kp, kd, effort)
    loop = cd.Loop(world, lambda x, target: pd(target, x), target=robot.nv)
    targets = np.random.default_rng(0).uniform(-1.0, 1.0, (runs, 50, robot.nv))
    rest = np.zeros((runs, 1, robot.nv))
    out = loop.rollout(loop.state(rest[:, 0], rest[:, 0]), targets, ticks)
    q, v = (np.concatenate([rest, out[name]], axis=1) for name in "qv")
    q, v, v1 = q[:, :-1], v[:, :-1], v[:, 1:]
    states = (q, v, np.repeat(targets, ticks // 50, axis=1), *np.broadcast_arrays(kp, kd, effort))
    error = law_error(robot, states, v1, h)
    assert error.max() < 1e-10
    assert (np.abs(kp * (states[2] - q - h * v1) - kd * v1) > effort).mean() > 0.5


def test_derivatives_at_the_effort_bound_are_those_of_differences() -> None:
    robot, h, d = cd.load("ur3"), 0.005, 1e-6
    q, v, target, kp, kd, effort = random_states(robot, 64)
    world = cd.Simulation(robot, h, None)
    pd = cd.blocks.ImplicitPD(world.control_names, np.ones(6), np.ones(6), np.ones(6), name="pd")
    loop = cd.Loop(world, lambda x, target: pd(target, x), target=6)
    gains = {"pd.kp": kp, "pd.kd": kd, "pd.effort": effort}
    x = loop.state(q, v)
    x1, A, B = loop.step(x, target, parameters=gains, derivatives=True)

    def difference(k: int, of: str) -> tuple[np.ndarray, np.ndarray]:
        """(the derivative by an entry, whether no drive passes a corner) by central differences."""
        ends = []
        for sign in (d, -d):
            moved = {"x": x.copy(), "target": target.copy()}
            moved[of][:, k] += sign
            ends.append(loop.step(moved["x"], moved["target"], parameters=gains))
        slopes = (ends[0] - x1) / d, (x1 - ends[1]) / d
        smooth = np.max(np.abs(slopes[0] - slopes[1]), axis=1) < 1e-2
        return (0.5 * (slopes[0] + slopes[1]))[:, :12], smooth

    bound = np.abs(kp * (target - q - h * x1[:, 6:12]) - kd * x1[:, 6:12]) > effort
    assert 0.2 < bound.mean() < 0.8
    for k in range(6):
        for of, found in (("x", A[:, :12, k]), ("target", B[:, :12, k])):
            expected, smooth = difference(k, of)
            assert smooth.mean() > 0.8
            np.testing.assert_allclose(found[smooth], expected[smooth], rtol=1e-4, atol=1e-4)
        # the target of a drive at its bound moves nothing
        assert np.all(B[bound[:, k], :, k] == 0.0)
