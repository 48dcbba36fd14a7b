"""Laws that every constrained robot obeys: on mechanisms, wheels, couplings and random robots on random surfaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from constraints.systems import LARGE, MPFR, SYSTEMS, System, lifted, map_of, moved, near, precise, time_derivative
from markers import slow_except

# both sides are sums of the same terms in another order
SAME_FORMULA = 1e-12
# one side solves with the conditions' slopes or with M
SOLVED = 1e-10
SEED = 3
# those that compile slowest have a simpler one of their kind beside them
SLOW = ("two_wheeled", "squeezer", "five_bar", "four_bars", "spatial_loop", "on a curved surface", "coupled")
QUICK = [name for name in SYSTEMS if name not in SLOW]


@pytest.fixture(scope="module", params=slow_except(QUICK, SYSTEMS))
def system(request: Any) -> System:
    return SYSTEMS[request.param]()


@pytest.mark.parametrize("name", slow_except(QUICK, [*SYSTEMS, *(name for name in LARGE if name != "ball_loop")]))
def test_forces_of_the_constraint_are_what_the_full_equations_lack_and_do_no_work(name: str) -> None:
    """d'Alembert: M a + c - tau, with a from differences of the lifted velocity, is orthogonal to every motion that remains."""
    system = (SYSTEMS | LARGE)[name]()
    robot, free = system.robot, system.free
    (y, w, _), tau = system.state(SEED), system.tau(SEED)
    a = robot.forward_dynamics(y, w, robot.reduce_forces(y, tau))
    T = map_of(robot, y)
    lacking = free.inverse_dynamics(*lifted(robot, y, w, a)) - tau
    assert near(T.T @ lacking, np.zeros(robot.nv), SAME_FORMULA, np.abs(T).max() * np.abs(lacking).max())
    assert near(robot.constraint_forces(y, w, tau), lacking, SOLVED)
    assert near(robot.reduce_forces(y, tau), T.T @ tau, SAME_FORMULA, np.abs(T).max())


def test_lifted_velocity_is_the_rate_of_the_lifted_place(system: System) -> None:
    """By differences along the manifold of the full robot, wheels that turn included."""
    robot, free = system.robot, system.free
    y, w, _ = system.state(SEED)
    q, v = robot.lift(y, w)
    at = robot.lift(precise(y), precise(w), backend=MPFR)[0]

    def place(t: Any) -> np.ndarray:
        there = robot.lift(moved(robot, y, w, t), precise(w), backend=MPFR)[0]
        return free.difference(at, there, backend=MPFR)

    assert near(time_derivative(place)[0], v, SOLVED)
    assert near(free.difference(at.astype(float), q), np.zeros(free.nv), SAME_FORMULA, scale=1.0)


def test_forward_dynamics_undoes_inverse_dynamics(system: System) -> None:
    robot = system.robot
    y, w, a = system.state(SEED)
    tau = robot.inverse_dynamics(y, w, a)
    assert near(robot.forward_dynamics(y, w, tau), a, SOLVED)
    assert near(
        robot.mass_matrix(y) @ a + robot.bias_forces(y, w), tau, SAME_FORMULA, np.abs(robot.bias_forces(y, w)).max() + 1.0
    )
    assert near(robot.inverse_mass_matrix(y) @ robot.mass_matrix(y), np.eye(robot.nv), SOLVED)


def test_power_is_the_rate_of_energy(system: System) -> None:
    robot = system.robot
    y, w, a = system.state(SEED)
    tau = robot.inverse_dynamics(y, w, a)

    def energies(t: Any) -> Any:
        there, faster = moved(robot, y, w, t), precise(w) + precise(a) * t
        return robot.kinetic_energy(there, faster, backend=MPFR), robot.potential_energy(there, backend=MPFR)

    kinetic, potential = time_derivative(energies)
    assert near(kinetic + potential, w @ tau, SAME_FORMULA, np.abs(w) @ np.abs(tau) + abs(potential))
    assert near(potential, w @ robot.gravity_forces(y), SAME_FORMULA, np.abs(w) @ np.abs(robot.gravity_forces(y)) + 1e-3)


def test_kinetic_energy_is_half_w_M_w_and_that_of_the_full_robot(system: System) -> None:
    robot = system.robot
    y, w, _ = system.state(SEED)
    M = robot.mass_matrix(y)
    assert np.array_equal(M, M.T) and np.linalg.eigvalsh(M).min() > 0.0
    assert near(robot.kinetic_energy(y, w), 0.5 * w @ M @ w, SAME_FORMULA)
    q, v = robot.lift(y, w)
    assert near(robot.kinetic_energy(y, w), system.free.kinetic_energy(q, v), SAME_FORMULA)
    assert near(robot.potential_energy(y), system.free.potential_energy(q), SAME_FORMULA)


def test_mass_matrix_rate_less_twice_coriolis_is_skew(system: System) -> None:
    robot = system.robot
    y, w, _ = system.state(SEED)
    C, bias = robot.coriolis_matrix(y, w), robot.bias_forces(y, w)
    Mdot = time_derivative(lambda t: robot.mass_matrix(moved(robot, y, w, t), backend=MPFR))[0]
    assert near(C + C.T, Mdot, SAME_FORMULA, np.abs(C).max() + np.abs(robot.mass_matrix(y)).max())
    gravity = robot.gravity_forces(y)
    assert near(C @ w, bias - gravity, SAME_FORMULA, np.abs(C @ w).max() + np.abs(gravity).max())


def test_jacobians_are_the_derivatives_of_positions(system: System) -> None:
    robot, frame = system.robot, system.frame
    y, w, _ = system.state(SEED)
    J = robot.jacobian(y, frame)

    def kinematics(t: Any) -> Any:
        there = moved(robot, y, w, t)
        com = robot.center_of_mass(there, backend=MPFR)
        return (*robot.frame_pose(there, frame, backend=MPFR), robot.jacobian(there, frame, backend=MPFR), com)

    R_rate, p_rate, J_rate, com_rate = time_derivative(kinematics)
    spin = R_rate @ robot.frame_pose(y, frame)[0].T
    turning = np.array([spin[2, 1], spin[0, 2], spin[1, 0]])
    scale = np.abs(J).max() * np.abs(w).max()
    assert near(J @ w, np.concatenate([p_rate, turning]), SAME_FORMULA, scale)
    assert near(robot.jacobian_rate(y, w, frame), J_rate, SAME_FORMULA, np.abs(J_rate).max() + np.abs(J).max())
    assert near(robot.momentum(y, w)[:3], robot.mass * com_rate, SAME_FORMULA, robot.mass * scale)
    assert near(robot.function("center_of_mass_jacobian")(y) @ w, com_rate, SAME_FORMULA, scale)


def test_wrenches_do_the_work_of_the_jacobian(system: System) -> None:
    robot, frame = system.robot, system.frame
    y, w, a = system.state(SEED)
    push = np.array([1.0, -2.0, 3.0, 0.25, 0.5, -0.75])
    work = robot.jacobian(y, frame).T @ push
    tau = robot.inverse_dynamics(y, w, a)
    scale = np.abs(tau).max() + np.abs(work).max()
    assert near(robot.inverse_dynamics(y, w, a, wrenches={(frame, "world_aligned"): push}), tau - work, SAME_FORMULA, scale)
    assert near(robot.forward_dynamics(y, w, tau - work, wrenches={(frame, "world_aligned"): push}), a, SOLVED)


def test_integrate_follows_the_velocities(system: System) -> None:
    """The rate of y along w, and, where velocities are those of the coordinates, there and back."""
    robot = system.robot
    y, w, _ = system.state(SEED)
    assert np.array_equal(robot.integrate(y, np.zeros(robot.nv)), y)
    if robot.nv == robot.reduced.nv:
        assert near(robot.difference(y, robot.integrate(y, 0.5 * w)), 0.5 * w, SAME_FORMULA, scale=1.0)
        return
    # coordinates that are also coordinates of the full robot move as those do
    _, v = robot.lift(y, w)
    rate = time_derivative(lambda t: moved(robot, y, w, t))[0]
    for link in robot.reduced.links:
        if link.joint in system.free.joint_names and link.joint != "root_x":
            assert near(rate[link.v], v[system.free.v_slice(link.joint)], SAME_FORMULA, scale=np.abs(v).max()), link.joint
