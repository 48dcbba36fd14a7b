"""Quadratic programs of stages against dense linear algebra, and against the optimality conditions."""

from itertools import pairwise

import numpy as np
import pytest
from markers import slow_except
from methods.mpc.problems import SWING_UP, UPRIGHT, bounded, cart_pole, linear, swing_up

import condyle as cd
from condyle.robot.description import Description
from condyle.robot.parts import body, joint, link


def dense_solution(A, B, Q, R, Q_end, x0, N):
    """Controls of the linear-quadratic problem, from one dense system."""
    n, m = B.shape
    powers = [np.linalg.matrix_power(A, k) for k in range(N + 1)]
    free = np.concatenate([p @ x0 for p in powers[1:]])
    forced = np.zeros((N * n, N * m))
    for k in range(N):
        for j in range(k + 1):
            forced[k * n : (k + 1) * n, j * m : (j + 1) * m] = powers[k - j] @ B
    weight = np.kron(np.eye(N), Q)
    weight[-n:, -n:] = Q_end
    H = forced.T @ weight @ forced + np.kron(np.eye(N), R)
    return np.linalg.solve(H, -forced.T @ weight @ free).reshape(N, m)


@pytest.mark.parametrize("method", ["rti", "sqp"])
def test_one_interval(method):
    """The shortest horizon: u minimises |u|^2 + |x + B u|^2, its derivative by x is the gain."""
    problem = cd.ocp(
        lambda x, u: x + np.array([1.0, 2.0]) * u,
        N=1,
        x=2,
        u=1,
        residual=lambda x, u: u,
        terminal_residual=lambda x: x,
        bounds={"u": 10.0},
    )
    solver = getattr(problem, method)(qp_tolerance=1e-12)
    x = np.array([1.0, -2.0])
    found = solver(x, solver.start(x))
    np.testing.assert_allclose(found.u, [0.5], atol=1e-9)
    gain = solver.function.jacobian("u", "x0")(x, *found.plan.values())
    np.testing.assert_allclose(gain, [[-1.0 / 6.0, -2.0 / 6.0]], atol=1e-9)


@pytest.mark.parametrize("method", ["rti", "sqp"])
def test_linear_quadratic_problems(method):
    problem, A, B = linear()
    x = np.array([1.0, -2.0, 0.5, 3.0])
    solver = getattr(problem, method)()
    found = solver(x, solver.start(x))
    wanted = dense_solution(A, B, np.diag([1.0, 2.0, 3.0, 4.0]), np.diag([5.0, 6.0]), np.diag([2.0, 3.0, 4.0, 5.0]), x, 8)
    np.testing.assert_allclose(found.controls, wanted, rtol=1e-11, atol=1e-12)
    assert found.ok and found.status == 0


def test_bounds_are_met_and_multipliers_are_right():
    """Hard bounds hold, soft ones are exceeded by multiplier / weight, and the Lagrangian is stationary."""
    problem = bounded()
    solver = problem.sqp(tolerance=1e-9)
    x = np.array([0.1, 0.3, 0.1, 0.0])
    found = solver(x, solver.start(x))
    assert found.status == 0, found.message
    assert max(found.residuals.values()) < 1e-9
    assert np.abs(found.controls).max() <= 8.0
    # the velocity is bounded softly: beyond the bound, and closer to it with a larger weight
    assert found.states[1:, 2].min() < -0.3
    harder = solver(x, solver.start(x), lower=np.tile(problem.constraints.lower, (5, 1)))
    np.testing.assert_array_equal(harder.controls, found.controls)


def test_active_bounds_agree_with_clipped_problem():
    """A double integrator at full acceleration: the optimum is known, bang until the bound lets go."""
    problem = cd.ocp(
        lambda x, u: np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]]),
        N=3,
        x=2,
        u={"a": 1},
        residual=lambda x, u: np.concatenate([100.0 * (x - np.array([10.0, 0.0])), u]),
        terminal_residual=lambda x: 100.0 * (x - np.array([10.0, 0.0])),
        bounds={"a": (-1.0, 1.0)},
    )
    solver = problem.rti(qp_iterations=40, qp_tolerance=1e-12)
    x = np.zeros(2)
    found = solver(x, solver.start(x))
    np.testing.assert_allclose(found.controls[0], 1.0, atol=1e-9)


def test_terminal_equalities():
    """lower = upper is an equality: the swing-up ends exactly at rest."""
    problem = cd.ocp(
        lambda x, u: np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]]),
        N=10,
        x={"p": 1, "v": 1},
        u={"a": 1},
        residual=lambda x, u: u,
        terminal_bounds={"p": (1.0, 1.0), "v": (0.0, 0.0)},
        bounds={"a": 8.0},
    )
    solver = problem.sqp()
    found = solver(np.zeros(2), solver.start(np.zeros(2)))
    assert found.status == 0, found.message
    np.testing.assert_allclose(found.states[-1], [1.0, 0.0], atol=1e-8)


def test_the_first_state_may_exceed_its_bounds():
    """Bounds of states hold from the second state on, and infinite bounds are none."""
    problem = bounded()
    solver = problem.rti(qp_tolerance=1e-9, qp_iterations=40)
    x = np.array([0.0, 0.0, 0.2, 2.5])
    lower, upper = np.full((5, 3), -np.inf), np.full((5, 3), np.inf)
    free = solver(x, solver.start(x), lower=lower, upper=upper)
    assert free.ok and np.isfinite(free.controls).all()
    assert solver(x, solver.start(x)).ok


def test_methods_agree_on_a_nonlinear_problem():
    """Gauss-Newton, exact Hessians and full steps find the same swing-up."""
    costs = []
    for options in ({}, {"hessian": "exact"}, {"line_search": 1}):
        solver = swing_up().sqp(**options)
        found = solver(UPRIGHT, solver.start(UPRIGHT))
        assert found.status == 0, (options, found.message)
        assert abs(found.states[-1, 1]) < 0.05 and np.abs(found.controls).max() <= 80.0
        costs.append(found.controls)
    np.testing.assert_allclose(costs[1], costs[0], atol=1e-4)
    np.testing.assert_allclose(costs[2], costs[0], atol=1e-6)


def test_exact_hessians_converge_in_few_iterations():
    """A planar rotorcraft far from its target, with bounds that hold: linear convergence by Gauss-Newton, quadratic by Newton."""

    def rates(x, u):
        lift = 2.0 * (u[0] + u[1])
        return cd.array([x[3], x[4], x[5], -lift * np.sin(x[2]), lift * np.cos(x[2]) - 9.81, 20.0 * (u[1] - u[0])])

    problem = cd.ocp(
        rates, N=30, x=6, u=2, dt=0.05, residual=lambda x, u: np.concatenate([x, u]), weights=[10, 10, 1, 1, 1, 1, 0.1, 0.1],
        reference=np.array([0, 0, 0, 0, 0, 0, 2.4525, 2.4525]), terminal_residual=lambda x: x, terminal_weights=[100.0] * 6,
        bounds={"u": (0.0, 5.0)},
    )  # fmt: skip
    x = np.array([2.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    slow, fast = problem.sqp()(x), problem.sqp(hessian="exact")(x)
    assert slow.status == fast.status == 0 and fast.iterations <= 10
    np.testing.assert_allclose(fast.controls, slow.controls, atol=1e-5)


@pytest.mark.parametrize("method", slow_except(["rti", "exact"], ["rti", "sqp", "ilqr", "exact"]))
def test_costs_with_negative_curvature(method):
    """A ripple on the way: its negative curvature is left out of the programs, and a minimum is found all the same."""
    problem = cd.ocp(
        lambda x, u: cd.array([x[0] + 0.1 * x[1] + 0.005 * u[0], x[1] + 0.1 * u[0]]), N=20, x=2, u=1, bounds={"u": 4.0},
        cost=lambda x, u: np.cos(3.0 * x[0]) + 0.05 * x[0] ** 2 + 0.1 * x[1] ** 2 + 0.05 * u[0] ** 2,
        terminal_cost=lambda x: 5.0 * np.cos(3.0 * x[0]) + x[1] ** 2,
    )  # fmt: skip
    solver = problem.sqp(hessian="exact") if method == "exact" else getattr(problem, method)()
    found = solver(np.array([[0.0, 0.1], [2.0, 0.0], [1.0, -2.0]]))
    assert np.isfinite(found.controls).all() and (found.status < 1.5).all()
    if method != "rti":
        assert (found.status == 0).all()


def test_move_blocking():
    """Blocked controls are equal, a block per interval changes nothing, and fewer decisions cost more."""
    free = swing_up().sqp()
    best = free(UPRIGHT, free.start(UPRIGHT))
    sizes = [1, 1, 1, 1, 2, 2, 4, 4, 4]
    solver = cd.ocp(cart_pole, move_blocking=sizes, **SWING_UP).sqp()
    found = solver(UPRIGHT, solver.start(UPRIGHT))
    assert found.status == 0 and found.states.shape == (21, 4)
    at = np.cumsum([0, *sizes])
    for first, last in pairwise(at):
        # up to the barrier of the bounds, which is that of each interval
        assert np.ptp(found.controls[first:last]) < 1e-3
    assert found.cost > best.cost + 1.0
    ones = cd.ocp(cart_pole, move_blocking=[1] * 20, **SWING_UP).sqp()
    np.testing.assert_allclose(ones(UPRIGHT, ones.start(UPRIGHT)).controls, best.controls, atol=1e-7)


def test_intervals_of_different_length_and_substeps():
    """The same motion on another grid: a finer integrator, and intervals that grow."""
    dt = np.linspace(0.02, 0.08, 20)
    solver = cd.ocp(cart_pole, **{**SWING_UP, "dt": dt, "substeps": 2}).sqp()
    found = solver(UPRIGHT, solver.start(UPRIGHT))
    assert found.status == 0 and abs(found.states[-1, 1]) < 0.2
    step = cd.function(lambda x, u: cart_pole(x, u), x=4, u=1)
    x = found.states[4]
    for _ in range(2):
        h = dt[4] / 2.0
        k1 = step(x, found.controls[4])
        k2 = step(x + 0.5 * h * k1, found.controls[4])
        k3 = step(x + 0.5 * h * k2, found.controls[4])
        x = x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + step(x + h * k3, found.controls[4]))
    np.testing.assert_allclose(found.states[5], x, atol=1e-9)


def test_a_long_unstable_simulation_with_parameters_of_its_own():
    """A pole is held off its upright for 30 s, over which errors grow by 1e40; its world is tilted by a parameter."""
    pole = Description(
        "pole",
        (link("ground"), link("pole", body(1.0, com=(0.0, 0.0, 0.5), moments=(0.02, 0.02, 0.01)))),
        (joint("hinge", "continuous", "ground", "pole", axis=(0.0, 1.0, 0.0)),),
    )
    world = cd.Simulation(cd.load(pole), 0.05, None)
    problem = cd.ocp(
        world, N=600, residual=lambda x, u: np.concatenate([x - 0.1, u]), weights=[1.0, 0.1, 0.01], bounds={"u": 20.0},
        terminal_residual=lambda x: x - 0.1, parameters={"gravity": [0.0, 0.0, -9.81]},
    )  # fmt: skip
    solver = problem.sqp()
    for gravity in ([0.0, 0.0, -9.81], [-9.81, 0.0, 0.0]):
        found = solver(np.zeros(2), solver.start(np.zeros(2)), gravity=gravity)
        assert found.status == 0, found.message
        np.testing.assert_allclose(
            world.step(found.states[:-1], found.controls, parameters={"gravity": gravity}), found.states[1:], atol=1e-5
        )
        angle = found.states[300, 0]
        # at rest the torque balances gravity about the hinge
        np.testing.assert_allclose(
            found.controls[300], -0.5 * (np.sin(angle) * -gravity[2] + np.cos(angle) * gravity[0]), atol=1e-4
        )
