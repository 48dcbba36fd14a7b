"""The wheeled pendulum on its wheel: flat ground against formulas by hand, hills against geometry and Newton's law."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from constraints import wheel_closed_form as hand
from constraints.systems import hills, lifted, map_of, near, on_hills, wheel_gamma, wheel_map, wheeled

import condyle as cd

SAME = 1e-12  # the same physics by another formula, relative to the largest entry
WAYS = ("roll", "gamma", "velocity")
COUNT = 50


def states(seed: int = 0, count: int = COUNT) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(y, dy, tau): any place, any angle, motor torques."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-3, 3, (count, 2)), rng.uniform(-5, 5, (count, 2)), rng.uniform(-1, 1, count)


@pytest.fixture(params=WAYS)
def path(request: Any) -> str:
    return str(request.param)


def full_y(robot: cd.Robot, y: np.ndarray) -> np.ndarray:
    """y with the wheel's angle, where it is a coordinate of its own."""
    return y if robot.nq == 2 else np.concatenate([y, [0.75]])


def motor(tau: float) -> np.ndarray:
    return np.array([0.0, 0.0, 0.0, tau])


def test_the_reduced_model_is_that_of_the_closed_form(path: str) -> None:
    robot = wheeled(path)
    assert robot.nv == 2 and robot.nq == (3 if path == "velocity" else 2)
    for y, dy, tau in zip(*states(), strict=True):
        x = full_y(robot, y)
        bias = hand.velocity_forces(y[1], dy[1]) + hand.gravity_forces(y[1])
        scale = np.abs(hand.velocity_forces(y[1], dy[1])).max() + 1.0
        B = robot.reduce_forces(x, motor(tau))
        assert near(robot.mass_matrix(x), hand.mass_matrix(y[1]), SAME)
        assert near(robot.bias_forces(x, dy), bias, SAME, scale)
        assert near(robot.gravity_forces(x), hand.gravity_forces(y[1]), SAME, 1.0)
        assert near(B, hand.motor_row(y[1]) * tau, SAME)
        assert near(robot.kinetic_energy(x, dy) + robot.potential_energy(x), hand.energy(y, dy), SAME)
        a = hand.forward_dynamics(y, dy, tau)
        # the condition number of M is below 100
        assert near(robot.forward_dynamics(x, dy, B), a, 10 * SAME)
        assert near(robot.inverse_dynamics(x, dy, a), B, 10 * SAME, scale + np.abs(B).max())


def test_lifted_motion_rolls_on_the_ground(path: str) -> None:
    robot, free = wheeled(path), cd.load("wheeled_pendulum")
    for y, dy, _ in zip(*states(1), strict=True):
        x = full_y(robot, y)
        q, v = robot.lift(x, dy)
        theta = (y[0] - hand.LENGTH * np.sin(y[1])) / hand.RADIUS - y[1] if robot.nq == 2 else x[2]
        wanted_q, wanted_v = hand.lift(y, dy, theta)
        assert near(q, wanted_q, SAME, np.abs(wanted_q).max()) and near(v, wanted_v, SAME)
        # the axle is one radius high, and the wheel's lowest point is at rest
        J = free.jacobian(q, "center") @ v
        assert abs(free.frame_pose(q, "center")[1][2] - hand.RADIUS) < SAME
        slip = J[:3] + np.cross(J[3:], [0.0, 0.0, -hand.RADIUS])
        assert near(slip, np.zeros(3), SAME, np.abs(v).max())


def test_linearised_upright(path: str) -> None:
    robot = wheeled(path)
    y = full_y(robot, np.zeros(2))
    by_y, by_w, by_tau = robot.forward_dynamics_derivatives(y, np.zeros(2), np.zeros(2))
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [by_y[:, :2], by_w]])
    wanted_A, wanted_B = hand.linearised()
    assert near(A, wanted_A, SAME)
    assert near(by_tau @ hand.motor_row(0.0), wanted_B[2:, 0], 10 * SAME)
    pole = np.linalg.eigvals(A).real.max()
    assert abs(pole - 8.2867) < 5e-5 and abs(pole - hand.unstable_pole()) < 1e-10
    # where a wheel stands along its angle does not matter
    assert not by_y[:, 2:].any()


def test_every_mistake_of_the_closed_form_would_be_seen() -> None:
    robot, (y, dy, tau) = wheeled(), states(2)
    B = robot.reduce_forces(y, np.array([motor(t) for t in tau]))
    a = robot.forward_dynamics(y, dy, B)
    for name, ties in hand.MISTAKES.items():
        wrong = np.array([ties.forward_dynamics(*each) for each in zip(y, dy, tau, strict=True)])
        assert np.abs(a - wrong).max() > 0.1, name


def test_reactions_are_what_newtons_law_asks_for() -> None:
    """Of the whole robot: forward = m x'', normal - m g = m z'', with the centre of mass and its acceleration by hand."""
    robot, mass = wheeled(), hand.BODY + hand.WHEEL
    arm = (hand.BODY / 2 + hand.WHEEL) * hand.LENGTH / mass  # from the upper end down to the centre of mass
    for y, dy, tau in zip(*states(3), strict=True):
        ddx, ddphi = hand.forward_dynamics(y, dy, tau)
        s, c = np.sin(y[1]), np.cos(y[1])
        across = ddx - arm * (c * ddphi - s * dy[1] ** 2)
        # the upper end is at r + L cos(phi), the centre of mass arm cos(phi) below it
        rise = -(hand.LENGTH - arm) * (s * ddphi + c * dy[1] ** 2)
        found = robot.reactions(y, dy, motor(tau))
        assert list(found) == ["axle.normal", "axle.forward"]
        wanted = mass * np.array([hand.GRAVITY + rise, across])
        assert near(list(found.values()), wanted, 100 * SAME, np.abs(wanted).max() + mass * hand.GRAVITY)


def test_at_rest_the_ground_carries_the_weight() -> None:
    robot = wheeled()
    for x in (-2.0, 0.0, 1e3):
        found = robot.reactions([x, 0.0], np.zeros(2))
        assert abs(found["axle.normal"] - 1.5 * hand.GRAVITY) < 1e-12 and abs(found["axle.forward"]) < 1e-12
        assert near(robot.constraint_forces([x, 0.0], np.zeros(2)), [0.0, 1.5 * hand.GRAVITY, 0.0, 0.0], SAME)
    y, dy, _ = states(4)
    batch = robot.reactions(y, dy)
    assert batch["axle.normal"].shape == (COUNT,)
    assert batch["axle.normal"][7] == robot.reactions(y[7], dy[7])["axle.normal"]


def test_velocities_may_be_others_than_rates_of_coordinates() -> None:
    """v = T S w with a matrix S(y): dy/dt = S w, and  d/dt (S w) = S dw/dt + Sdot w  is the acceleration of y."""
    bare = wheeled()

    def angle(y: Any) -> Any:
        return np.array([[2.0, np.sin(y[1])], [0.0, 0.5]])

    robot = cd.load("wheeled_pendulum").embed(wheel_gamma, lambda y: wheel_map(y) @ angle(y), names=["x", "phi"])
    y, w = np.array([0.25, 0.5]), np.array([1.0, -2.0])
    S = angle(y)
    dy = S @ w
    assert near(robot.lift(y, w)[1], bare.lift(y, dy)[1], SAME)
    tau = np.array([0.25, -0.5])
    ddy = bare.forward_dynamics(y, dy, tau)
    Sdot_w = np.array([np.cos(y[1]) * dy[1] * w[1], 0.0])
    assert near(robot.forward_dynamics(y, w, S.T @ tau), np.linalg.solve(S, ddy - Sdot_w), 10 * SAME)
    assert near(robot.mass_matrix(y), S.T @ bare.mass_matrix(y) @ S, SAME)
    step = 2.0**-30
    assert near((robot.integrate(y, step * w) - y) / step, dy, 1e-6)


# -- on hills


def slope_of_hills(x: float) -> float:
    return float(0.5 * np.cos(4.0 * x) + 0.25)


def test_on_hills_the_wheel_touches_and_does_not_slip() -> None:
    robot, free = on_hills(), cd.load("wheeled_pendulum")
    assert robot.joint_names == ["root_x", "root_pitch", "axle"] and robot.velocity_names == ["root_x", "root_pitch"]
    rng = np.random.default_rng(0)
    for _ in range(20):
        y, w = rng.uniform(-2, 2, 3), rng.uniform(-2, 2, 2)
        q, v = robot.lift(y, w)
        contact = np.array([y[0], 0.0, hills(y[0])])
        grade = slope_of_hills(y[0])
        normal = np.array([-grade, 0.0, 1.0]) / np.hypot(grade, 1.0)
        assert near(free.frame_pose(q, "center")[1], contact + hand.RADIUS * normal, SAME, 1.0)
        J = free.jacobian(q, "center") @ v
        assert near(J[:3] + np.cross(J[3:], -hand.RADIUS * normal), np.zeros(3), SAME, np.abs(v).max())
        assert q[2] == y[1] and q[3] == y[2]


def test_on_hills_the_ground_pushes_at_the_point_of_contact_only() -> None:
    """Newton's law for the lifted motion: what the full equations lack is one force through the point of contact."""
    robot, free = on_hills(), cd.load("wheeled_pendulum")
    rng = np.random.default_rng(1)
    for _ in range(3):
        y, w, tau = rng.uniform(-2, 2, 3), rng.uniform(-2, 2, 2), motor(rng.uniform(-1, 1))
        a = robot.forward_dynamics(y, w, robot.reduce_forces(y, tau))
        q, v, acceleration = lifted(robot, y, w, a)
        lacking = free.inverse_dynamics(q, v, acceleration) - tau
        grade = slope_of_hills(y[0])
        arm = -hand.RADIUS * np.array([-grade, 0.0, 1.0]) / np.hypot(grade, 1.0)
        J = free.jacobian(q, "center")
        at_touch = J[:3] + np.cross(J[3:], arm, axisa=0, axisb=0, axisc=0)
        force = np.linalg.lstsq(at_touch[[0, 2]].T, lacking, rcond=None)[0]
        assert near(at_touch[[0, 2]].T @ force, lacking, 10 * SAME)
        assert near(robot.constraint_forces(y, w, tau), lacking, 10 * SAME)


def test_hills_that_are_flat_are_flat_ground() -> None:
    flat = cd.load("wheeled_pendulum").roll("axle", hand.RADIUS, ground=lambda x: 0.0 * x)
    y, dy, _ = states(5, 5)
    for k in range(5):
        # the contact is below the axle
        s = y[k, 0] - hand.LENGTH * np.sin(y[k, 1])
        rate = dy[k, 0] - hand.LENGTH * np.cos(y[k, 1]) * dy[k, 1]
        a = flat.forward_dynamics([s, y[k, 1], 0.0], [rate, dy[k, 1]], np.zeros(2))
        wanted = hand.forward_dynamics(y[k], dy[k])
        c, n = hand.LENGTH * np.cos(y[k, 1]), hand.LENGTH * np.sin(y[k, 1])
        assert near(a, [wanted[0] - c * wanted[1] + n * dy[k, 1] ** 2, wanted[1]], 10 * SAME)


def test_a_hollow_that_is_too_narrow_is_refused() -> None:
    """The hollow at x = 1 has a radius of 1/40 m, the wheel 0.04 m."""
    narrow = cd.load("wheeled_pendulum").roll("axle", hand.RADIUS, ground=lambda x: 20.0 * (x - 1.0) ** 2)
    y = np.array([[0.5, 0.0, 0.0], [1.0, 0.0, 0.0], [1.5, 0.0, 0.0]])
    a, ok = narrow.forward_dynamics(y, np.zeros(2), np.zeros(2), mask=True)
    assert ok.tolist() == [True, False, True] and np.all(np.isfinite(a[ok]))
    with pytest.raises(cd.RobotError, match=r"root_x = 1; .* wheel 'axle' is too large for the hollow"):
        narrow.forward_dynamics(y[1], np.zeros(2), np.zeros(2))


def test_on_a_slope_it_rolls_down_as_a_disc() -> None:
    """The wheel alone, its body without mass to speak of: s'' = g sin(a) / (1 + I/(m r^2)) = 2/3 g sin(a) along the grade."""
    from dataclasses import replace

    pendulum = cd.load("wheeled_pendulum")
    light = 2.0**-40
    links = [
        replace(link, inertia=replace(link.inertia, mass=light, h=light * link.inertia.h, I=light * link.inertia.I))
        if link.joint == "root_pitch"
        else link
        for link in pendulum.model.links
    ]
    disc = cd.Robot(replace(pendulum.model, links=tuple(links))).roll("axle", hand.RADIUS, ground=lambda x: -0.75 * x)
    a = disc.forward_dynamics([0.3, 0.1, 0.0], np.zeros(2), np.zeros(2))
    # sin = 3/5 downhill, and x is 4/5 of the path along the grade
    assert abs(a[0] - 2.0 / 3.0 * hand.GRAVITY * 0.6 * 0.8) < 1e-9
    assert map_of(disc, np.array([0.3, 0.1, 0.0]))[3, 0] == pytest.approx(1.25 / hand.RADIUS, rel=1e-14)
