"""The balancing robot on two wheels in space: it rolls, drives straight ahead as the planar one, and turns as multipliers say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from constraints import references as ref
from constraints import wheel_closed_form as hand
from constraints.systems import MPFR, leaning_wheel, lifted, map_of, moved, near, time_derivative, two_wheeled

import condyle as cd

SAME = 1e-12
SOLVED = 1e-10
HALF_TRACK = 0.1
WHEELS = ("left_wheel", "right_wheel")
CENTERS = ("left_center", "right_center")
COUNT = 30


@pytest.fixture(scope="module")
def free() -> cd.Robot:
    return cd.load("two_wheeled")


def state(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Anywhere, any heading, leaning up to a radian, both wheels at any speed."""
    robot = two_wheeled()
    y = rng.uniform(-3, 3, robot.nq)
    y[robot.q_slice("root_pitch")] /= 3.0
    return y, rng.uniform(-2, 2, robot.nv)


def contact(free: cd.Robot, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(A, Adot v) of no slip at both lowest points, along x, y, z of the world, by Pinocchio.

    The wheels stand upright, so the lowest point is r below the centre:  c' + omega x (0, 0, -r) = 0.  On level ground it
    stays so: the height of both centres is r, and with it the roll of the base is zero.
    """
    down = np.array([0.0, 0.0, -hand.RADIUS])
    rows, fast = [], []
    for name in CENTERS:
        at = ref.moving(free, q, v, name)
        rows.append(at.J[:3] + np.cross(at.J[3:], down, axisa=0, axisb=0, axisc=0))
        fast.append(at.Jdot_v[:3] + np.cross(at.Jdot_v[3:], down))
    return np.vstack(rows), np.concatenate(fast)


def independent(A: np.ndarray) -> list[int]:
    """Both wheels cannot slide sideways each by itself: one of the six rows says what another does."""
    rows: list[int] = []
    for r in range(len(A)):
        if np.linalg.matrix_rank(A[[*rows, r]], tol=1e-9) > len(rows):
            rows.append(r)
    return rows


def test_coordinates_and_velocities() -> None:
    robot = two_wheeled()
    assert robot.nv == 3 and robot.nq == 6
    assert set(robot.joint_names) == {"root_x", "root_y", "root_yaw", "root_pitch", *WHEELS}
    assert set(WHEELS) < set(robot.velocity_names)


def test_wheels_neither_slip_nor_slide_nor_leave_the_ground(free: cd.Robot) -> None:
    robot, rng = two_wheeled(), np.random.default_rng(0)
    for _ in range(COUNT):
        y, w = state(rng)
        q, v = robot.lift(y, w)
        A, _ = contact(free, q, v)
        assert near(A @ v, np.zeros(6), SAME, np.abs(v).max())
        for name in CENTERS:
            assert abs(free.frame_pose(q, name)[1][2] - hand.RADIUS) < SAME
        # as quick as the wheels say: forward by their mean, turning by their difference
        pitch, yaw = free.v_slice("root_pitch"), free.v_slice("root_yaw")
        left, right = (v[free.v_slice(name)][0] + v[pitch][0] for name in WHEELS)
        assert near(v[yaw], [(right - left) * hand.RADIUS / (2 * HALF_TRACK)], SAME, 10.0)
        center = free.jacobian(q, "axle")[:3] @ v
        heading = q[free.q_slice("root_yaw")][0]
        speed = hand.RADIUS * (left + right) / 2
        assert near(center, [np.cos(heading) * speed, np.sin(heading) * speed, 0.0], SAME, 1.0)


def test_straight_ahead_it_is_the_wheeled_pendulum() -> None:
    robot, rng = two_wheeled(), np.random.default_rng(1)
    names = robot.velocity_names
    for _ in range(COUNT):
        phi, dphi, dx, tau = rng.uniform(-1, 1), *rng.uniform(-3, 3, 3)
        y = robot.neutral()
        y[robot.q_slice("root_pitch")] = phi
        heading = rng.uniform(-3, 3)
        y[robot.q_slice("root_yaw")] = heading
        spin = hand.TRUE.T(phi)[3] @ [dx, dphi]
        w = np.array([{"root_pitch": dphi}.get(name, spin) for name in names])
        motors = np.zeros(8)
        motors[-2:] = tau / 2.0
        a = robot.forward_dynamics(y, w, robot.reduce_forces(y, motors))
        ddx, ddphi = hand.forward_dynamics(np.array([0.0, phi]), np.array([dx, dphi]), tau)
        turning = hand.TRUE.T(phi)[3] @ [ddx, ddphi] + (hand.TRUE.Tdot(phi, dphi) @ [dx, dphi])[3]
        wanted = [{"root_pitch": ddphi}.get(name, turning) for name in names]
        # the condition number of M is about 100
        assert near(a, wanted, 10 * SAME)
        energy = robot.kinetic_energy(y, w) + robot.potential_energy(y)
        assert near(energy, hand.energy(np.array([0.0, phi]), np.array([dx, dphi])), SAME)


def test_turning_against_multipliers(free: cd.Robot) -> None:
    pytest.importorskip("pinocchio")
    robot, rng = two_wheeled(), np.random.default_rng(2)
    places = [free.v_slice(name).start for name in robot.velocity_names]
    for _ in range(COUNT):
        y, w = state(rng)
        tau = rng.uniform(-0.5, 0.5, 8)
        q, v = robot.lift(y, w)
        A, fast = contact(free, q, v)
        rows = independent(A)
        assert len(rows) == 5
        # six conditions, one of them said twice: the rates must say it twice too
        a, multipliers = ref.with_multipliers(free, q, v, tau, A[rows], fast[rows])
        assert near(A @ a + fast, np.zeros(6), SOLVED, np.abs(a).max())
        assert near(robot.forward_dynamics(y, w, robot.reduce_forces(y, tau)), a[places], SOLVED, np.abs(a).max())
        fixed = A[rows].T @ multipliers
        assert near(robot.constraint_forces(y, w, tau), fixed, SOLVED)
        assert near(map_of(robot, y), ref.tangent(A[rows], places), SOLVED)


def test_lifted_acceleration_keeps_rolling(free: cd.Robot) -> None:
    """A a + Adot v = 0 for the motion itself, by differences of the lifted velocity."""
    robot, rng = two_wheeled(), np.random.default_rng(3)
    for _ in range(2):
        y, w = state(rng)
        q, v, a = lifted(robot, y, w, rng.uniform(-2, 2, 3))
        A, fast = contact(free, q, v)
        assert near(A @ a + fast, np.zeros(6), SAME, np.abs(A @ a).max() + np.abs(fast).max())


def test_rates_of_the_coordinates_are_those_of_the_base(free: cd.Robot) -> None:
    """integrate(y, t w) to first order, against the lifted velocity of the same coordinates."""
    robot, rng = two_wheeled(), np.random.default_rng(4)
    y, w = state(rng)
    _, v = robot.lift(y, w)
    rate = time_derivative(lambda t: moved(robot, y, w, t))[0]
    wanted = [v[free.v_slice(name)][0] for name in robot.joint_names]
    assert near(rate, wanted, SAME)
    step = 2.0**-30
    assert near((robot.integrate(y, step * w) - y) / step, wanted, 1e-6)
    with pytest.raises(cd.RobotError, match="subtract the coordinates"):
        robot.difference(y, y)


def test_reactions_carry_it(free: cd.Robot) -> None:
    """Newton's law of the whole robot, with the momentum's rate by differences, and half of the weight on each wheel at rest."""
    robot, rng = two_wheeled(), np.random.default_rng(5)
    y, w = state(rng)
    tau = np.zeros(8)
    tau[-2:] = rng.uniform(-0.5, 0.5, 2)
    a = robot.forward_dynamics(y, w, robot.reduce_forces(y, tau))

    def momentum(t: Any) -> np.ndarray:
        with_speed = np.array([x + t * b for x, b in zip(w, a, strict=True)], dtype=object)
        return robot.momentum(moved(robot, y, w, t), with_speed, backend=MPFR)

    found = robot.reactions(y, w, tau)
    heading = y[robot.q_slice("root_yaw")][0]
    ahead, left = np.array([np.cos(heading), np.sin(heading), 0.0]), np.array([-np.sin(heading), np.cos(heading), 0.0])
    ways = {"normal": np.array([0.0, 0.0, 1.0]), "forward": ahead, "side": left}
    total = sum(force * ways[name.split(".")[1]] for name, force in found.items())
    assert near(
        total - [0.0, 0.0, robot.mass * hand.GRAVITY], time_derivative(momentum)[0][:3], SOLVED, robot.mass * hand.GRAVITY
    )
    rest = robot.reactions(robot.neutral(), np.zeros(3))
    assert near([rest[f"{name}.normal"] for name in WHEELS], [0.75 * hand.GRAVITY] * 2, SAME)
    assert all(abs(force) < SAME for name, force in rest.items() if not name.endswith("normal"))


def test_other_velocities_may_remain(free: cd.Robot) -> None:
    """Forward speed is not one of its coordinates; yaw and one wheel are, and give the same motion."""
    one = two_wheeled()
    other = cd.load("two_wheeled").roll(list(WHEELS), hand.RADIUS, independent=["root_yaw", "root_pitch", "left_wheel"])
    assert set(other.velocity_names) == {"root_yaw", "root_pitch", "left_wheel"}
    rng = np.random.default_rng(6)
    y, w = state(rng)
    tau = rng.uniform(-0.5, 0.5, 8)
    _, v = one.lift(y, w)
    w2 = np.array([v[free.v_slice(name)][0] for name in other.velocity_names])
    assert one.joint_names == other.joint_names
    assert near(other.lift(y, w2)[1], v, SAME)
    assert near(other.constraint_forces(y, w2, tau), one.constraint_forces(y, w, tau), SOLVED)


def test_one_wheel_that_leans_rolls_on_its_lowest_point(free: cd.Robot) -> None:
    """A disc with its axis a, turned by any yaw and roll: the lowest point is r below the centre, in the disc's plane."""
    system = leaning_wheel()
    robot, rng = system.robot, np.random.default_rng(7)
    assert robot.nv == 5 and robot.nq == 7
    for _ in range(10):
        y = robot.neutral() + rng.uniform(-0.5, 0.5, 7)
        w, tau = rng.uniform(-2, 2, 5), rng.uniform(-0.5, 0.5, 8)
        q, v = robot.lift(y, w)
        R, center = free.frame_pose(q, "left_center")
        axis = R[:, 1]
        down = np.array([0.0, 0.0, -1.0]) - axis * -axis[2]
        arm = hand.RADIUS * down / np.linalg.norm(down)
        assert abs(axis[2]) > 1e-3 and abs((center + arm)[2]) < 1e-14
        J = free.jacobian(q, "left_center")
        at_touch = J[:3] + np.cross(J[3:], arm, axisa=0, axisb=0, axisc=0)
        assert near(at_touch @ v, np.zeros(3), SAME, np.abs(v).max())
        # the ground holds it with one force there
        fixed = robot.constraint_forces(y, w, tau)
        force = np.linalg.lstsq(at_touch.T, fixed, rcond=None)[0]
        assert near(at_touch.T @ force, fixed, SOLVED)
        assert near(np.linalg.norm(list(robot.reactions(y, w, tau).values())), np.linalg.norm(force), SOLVED)
