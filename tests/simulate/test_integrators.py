"""What every integrator keeps: the flight of a spinning body, the speed of a rolling ball, momentum of trees to its order."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from markers import slow_except
from simulate.bodies import G, a_box, a_sphere, simulation

import condyle as cd
from condyle.robot.description import Description, JointSpec
from condyle.robot.parts import body, link, pose
from condyle.simulate.config import INTEGRATORS

ORDERS = {"semi_implicit_euler": 1, "explicit_euler": 1, "rk2": 2, "rk4": 4, "backward_euler": 1}
EXACT = 1e-13  # relative: rounding of a thousand steps
DIFFERENCES = 1e-6  # relative, of central differences in float64


def weightless(robot: cd.Robot) -> cd.Robot:
    return cd.Robot(replace(robot.model, gravity=(0.0, 0.0, 0.0)))


def velocity_in_world(robot: cd.Robot, q: Any, v: Any) -> Any:
    return robot.momentum(q, v)[..., :3] / robot.mass


# ---- single bodies


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_spinning_sphere_flies_straight_and_falls(integrator: str) -> None:
    for gravity in (0.0, G):
        robot = a_sphere() if gravity else weightless(a_sphere())
        for dt in (1e-3, 1e-2):
            n = round(1.0 / dt)
            s, numbers = simulation(robot, 1e-3, None, integrator=integrator), {"dt": dt, "gravity": robot.model.gravity}
            x = s.state(robot.neutral(), [1.0, 0.0, 0.0, 0.0, 10.0, 0.0])
            q, v = s.split(s.rollout(x, np.zeros((n, s.nu)), parameters=numbers)[-1])
            np.testing.assert_allclose(velocity_in_world(robot, q, v), [1.0, 0.0, -gravity], atol=EXACT * max(gravity, 1.0))
            # Euler methods move with the velocity after or before a step, Runge-Kutta methods exactly
            fallen = {"explicit_euler": n - 1, "rk2": n, "rk4": n}.get(integrator, n + 1) * gravity * dt / 2.0
            np.testing.assert_allclose(q[:3], [1.0, 0.0, -fallen], atol=EXACT * max(gravity, 1.0))


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_tumbling_box_keeps_its_momentum(integrator: str) -> None:
    robot = weightless(a_box((0.3, 0.2, 0.05)))
    s = simulation(robot, 5e-3, None, integrator=integrator)
    x = np.hstack([robot.random_configuration(np.random.default_rng(0), 5), np.random.default_rng(1).normal(size=(5, 6)) * 4.0])
    before = velocity_in_world(robot, *s.split(x))
    end = s.rollout(x, np.zeros((200, s.nu)))[:, -1]
    scale = np.max(np.abs(before))
    np.testing.assert_allclose(velocity_in_world(robot, *s.split(end)), before, atol=EXACT * scale)
    np.testing.assert_allclose(end[:, :3], x[:, :3] + before, atol=EXACT * scale)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_ball_that_rolls_keeps_its_speed(integrator: str) -> None:
    for dt in (1e-3, 1e-2):
        s = simulation(a_sphere(), 1e-3, cd.Plane(friction=0.8), integrator=integrator)
        x = s.stand()
        x[2] -= s.rest_depth if integrator == "backward_euler" else 0.0  # it rests below the surface
        x[7], x[11] = 1.0, 10.0
        q, v = s.split(s.rollout(x, np.zeros((round(1.0 / dt), s.nu)), parameters={"dt": dt})[-1])
        np.testing.assert_allclose(velocity_in_world(s.robot, q, v)[:2], [1.0, 0.0], atol=1e-6)
        assert q[0] == pytest.approx(1.0, abs=1e-6) and v[4] == pytest.approx(10.0, rel=1e-6)


# ---- trees


@cache
def a_chain(links: int = 5) -> cd.Robot:
    """Links of 1 kg in a row, weightless, on hinges about one axis after the other; the first link is free."""
    rng = np.random.default_rng(0)
    parts = [link(f"link{k}", body(1.0, (0.02, -0.01, -0.15), (0.01, 0.012, 0.002))) for k in range(links)]
    joints = [
        JointSpec(f"joint{k}", "continuous", f"link{k - 1}", f"link{k}", pose((0.0, 0.0, -0.3)), axis / np.linalg.norm(axis))
        for k, axis in zip(range(1, links), rng.normal(size=(links - 1, 3)), strict=True)
    ]
    return weightless(cd.load(Description("chain", tuple(parts), tuple(joints)), base="free"))


def free_motion(robot: cd.Robot, integrator: str, steps: tuple[float, ...], states: int = 4) -> tuple[np.ndarray, list[Any]]:
    """(the first states, the states after 0.1 s of free motion for each dt)."""
    rng = np.random.default_rng(3)
    s = cd.Simulation(robot, steps[0], None, integrator=integrator, joint_friction=False, damping=False, limits=False)
    x = s.state(robot.random_configuration(rng, states), rng.normal(size=(states, robot.nv)))
    ends = [s.rollout(x, np.zeros((states, round(0.1 / h), s.nu)), parameters={"dt": h})[:, -1] for h in steps]
    return x, ends


def check_order(robot: cd.Robot, integrator: str) -> None:
    """Momentum of free motion, and the motion itself, to the order of the integrator."""
    nq, order = robot.nq, ORDERS[integrator]
    steps = (2e-2, 1e-2, 5e-3) if order == 4 else (2e-3, 1e-3, 5e-4)
    x, ends = free_motion(robot, integrator, steps)
    true = free_motion(robot, "rk4", (1e-3,))[1][0]
    errors = [np.linalg.norm(robot.difference(true[:, :nq], end[:, :nq]), axis=1) for end in ends]
    np.testing.assert_allclose(np.median(np.log2(np.array(errors[:-1]) / errors[1:]), axis=1), order, atol=0.3)
    before = velocity_in_world(robot, x[:, :nq], x[:, nq:])
    lost = [velocity_in_world(robot, end[:, :nq], end[:, nq:]) - before for end in ends]
    lost = np.linalg.norm(lost, axis=2) / np.linalg.norm(before, axis=1)
    if integrator in ("rk2", "rk4", "backward_euler"):  # they balance momentum itself
        assert np.max(lost) < EXACT
    else:
        np.testing.assert_allclose(np.median(np.log2(lost[:-1] / lost[1:]), axis=1), order, atol=0.3)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_free_motion_of_a_chain_is_of_the_order_of_the_integrator(integrator: str) -> None:
    check_order(a_chain(), integrator)


@pytest.mark.slow
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_free_motion_of_a_quadruped_is_of_the_order_of_the_integrator(integrator: str) -> None:
    check_order(weightless(cd.load("anymal_c")), integrator)


# ---- Newton's method of backward Euler


def test_backward_euler_converges_for_boxes_in_the_ground() -> None:
    s = simulation(a_box(), 5e-3, cd.Plane(friction=0.5), integrator="backward_euler")
    rng = np.random.default_rng(0)
    q = s.robot.random_configuration(rng, 1000)
    q[:, :3] = np.c_[np.zeros((1000, 2)), rng.uniform(0.05, 0.15, 1000)]
    v = rng.normal(size=(1000, 6))
    for speed, part in ((1.0, 0.999), (10.0, 0.9)):
        s.step(s.state(q, speed * v), freeze=True)
        assert s.status is not None and np.mean(s.status.ok) >= part


@pytest.mark.slow
def test_a_quadruped_stands_on_springs_with_backward_euler_at_any_dt() -> None:
    robot = cd.load("anymal_c")
    links = [replace(link, damping=5.0) if link.kind.nv == 1 else link for link in robot.model.links]
    robot, springs = cd.Robot(replace(robot.model, links=tuple(links))), {name: (200.0, 0.0) for name in robot.joint_names[1:]}
    s = cd.Simulation(robot, 2e-3, cd.Plane(friction=0.8), "*_FOOT", integrator="backward_euler", springs=springs)
    dt = np.geomspace(0.5e-3, 20e-3, 32)
    xs = s.rollout(np.tile(s.stand(), (len(dt), 1)), np.zeros((len(dt), 100, s.nu)), parameters={"dt": dt})
    assert np.all(xs[:, -1, 2] > 0.6)


# ---- derivatives


@pytest.mark.parametrize("integrator", slow_except([name for name in INTEGRATORS if name != "rk2"], INTEGRATORS))
def test_derivatives_with_a_spinning_base_are_those_of_differences(integrator: str) -> None:
    robot = cd.Robot(replace(a_chain(2).model, gravity=(0.0, 0.0, -G)))
    s = cd.Simulation(robot, 0.01, None, integrator=integrator)
    rng = np.random.default_rng(5)
    q, v, u = robot.random_configuration(rng), rng.normal(size=robot.nv) * 3.0, rng.normal(size=s.nu)
    v[:6] = [1.0, -2.0, 0.5, 6.0, 8.0, -5.0]
    x1, A, B = s.step(s.state(q, v), u, derivatives=True, backend="reference")
    n, (q1, v1) = robot.nv, s.split(x1)
    size = 1e-5
    d = np.vstack([sign * size * np.eye(2 * n + s.nu) for sign in (1.0, -1.0)])
    ends = s.split(s.step(s.state(robot.integrate(q, d[:, :n]), v + d[:, n : 2 * n]), u + d[:, 2 * n :]))
    rows = np.hstack([robot.difference(q1, ends[0]), ends[1] - v1])
    differences = (rows[: len(d) // 2] - rows[len(d) // 2 :]).T / (2.0 * size)
    exact = np.hstack([A, B])
    np.testing.assert_allclose(exact, differences, atol=DIFFERENCES * np.max(np.abs(exact)))
