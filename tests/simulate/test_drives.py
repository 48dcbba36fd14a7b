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
