"""Where solvers converge: from random starts, with bounds at any distance, and with costs of any scale."""

from functools import cache

import numpy as np
import pytest
from markers import slow_except
from methods.mpc.problems import linear
from scipy.optimize import lsq_linear

import condyle as cd

HOVER = 9.81 / 4
GOAL = np.array([3.0, 0.0, 1.0, *np.zeros(9)])
CYLINDERS = np.array([[0.0, 0.0, 0.6], [1.5, 1.0, 0.5], [1.5, -1.2, 0.6]])  # x, y, radius
WEIGHTS = np.array([1, 1, 1, 0.1, 0.1, 0.1, 1, 1, 1, 0.1, 0.1, 0.1, *[0.1] * 4])
AT_END = np.array([50.0] * 3 + [5.0] * 9)


def quadrotor(x, u):
    """Position, velocity, roll, pitch and yaw, body rates, of 1 kg with four rotors."""
    (cr, cp, cy), (sr, sp, sy), w = np.cos(x[6:9]), np.sin(x[6:9]), x[9:12]
    lift = u[0] + u[1] + u[2] + u[3]
    acceleration = cd.array([lift * (cy * sp * cr + sy * sr), lift * (sy * sp * cr - cy * sr), lift * cp * cr - 9.81])
    turn = w[1] * sr + w[2] * cr
    angles = cd.array([w[0] + turn * sp / cp, w[1] * cr - w[2] * sr, turn / cp])
    torque = cd.array([0.2 * (u[1] - u[3]), 0.2 * (u[2] - u[0]), 0.05 * (u[0] - u[1] + u[2] - u[3])])
    J = np.array([0.01, 0.01, 0.02])
    return np.concatenate([x[3:6], acceleration, angles, (torque - np.cross(w, J * w)) / J])


@cache
def between_cylinders(hessian):
    """The quadrotor's flight between three hard cylinders."""
    problem = cd.ocp(
        quadrotor, N=30, dt=0.1, x=12, u={"thrust": 4}, bounds={"thrust": (0.0, 6.0), "clear": (0.0, None)},
        residual=lambda x, u: np.concatenate([x - GOAL, u - HOVER]), weights=WEIGHTS,
        terminal_residual=lambda x: x - GOAL, terminal_weights=AT_END,
        constraints=lambda x, u: {"clear": cd.array([(x[0] - a) ** 2 + (x[1] - b) ** 2 - r**2 for a, b, r in CYLINDERS])},
    )  # fmt: skip
    return problem.sqp(hessian=hessian, iterations=200)


def starts(count):
    """States before the cylinders."""
    random = np.random.default_rng(0)
    x = np.zeros((count, 12))
    x[:, :3] = random.uniform([-3.0, -1.5, 0.5], [-2.0, 1.5, 1.5], (count, 3))
    x[:, 3:9] = random.normal(size=(count, 6)) * [0.5, 0.5, 0.5, 0.1, 0.1, 0.1]
    return x


@pytest.mark.parametrize("scale", slow_except([1.0], [1e-4, 1.0, 1e4]))
@pytest.mark.parametrize("hessian, most", slow_except([("exact", 24)], [("exact", 24), ("gauss_newton", 60)]))
def test_a_quadrotor_between_cylinders_from_random_starts(hessian, most, scale):
    """The quadratic program ends when its own stationarity is solved, so iterations go on to the tolerance of the problem."""
    solver, x = between_cylinders(hessian), starts(20)
    found = solver(x, solver.start(x, np.full(4, HOVER)), weights=scale * WEIGHTS, terminal_weights=scale * AT_END)
    assert (found.status == 0).all() and found.iterations.max() <= most
    clear = np.linalg.norm(found.states[:, 1:, None, :2] - CYLINDERS[:, :2], axis=-1) - CYLINDERS[:, 2]
    assert clear.min() > -1e-6 and np.abs(found.controls - 3.0).max() <= 3.0 + 1e-6


def double_integrator():
    """A double integrator with |u| <= 1 and bounds of position and velocity that are data."""
    return cd.ocp(
        lambda x, u: np.array([x[0] + 0.1 * x[1] + 0.005 * u[0], x[1] + 0.1 * u[0]]), N=20, x=2, u=1,
        residual=lambda x, u: np.concatenate([x, u]), weights=[1.0, 1.0, 0.1], terminal_residual=lambda x: x,
        terminal_weights=[10.0, 10.0], bounds={"u": 1.0, "x": 10.0},
    )  # fmt: skip


@pytest.mark.parametrize("method", ["rti", "sqp"])
def test_bounds_that_are_far_away_do_not_matter(method):
    """Slacks start at their distances, so the iterations are those of a problem without these bounds."""
    problem = double_integrator()
    solver = problem.sqp() if method == "sqp" else problem.rti(qp_iterations=50, qp_tolerance=1e-8)
    distances = np.array([10.0, 1e2, 1e3, 1e4, 1e6, 1e9, 1e12, 1e100, 1e300, np.inf])
    x = np.tile([2.0, 1.0], (len(distances), 1))
    upper = np.tile(problem.constraints.upper, (len(x), 20, 1))
    upper[..., 1:] = distances[:, None, None]
    end = np.tile(distances[:, None], (1, 2))
    found = solver(x, solver.start(x), lower=-upper, upper=upper, terminal_lower=-end, terminal_upper=end)
    assert (found.status == 0).all() and np.ptp(found.iterations) <= 1 and found.iterations.max() <= 8
    np.testing.assert_allclose(found.controls, np.broadcast_to(found.controls[-1], found.controls.shape), atol=1e-5)


@pytest.mark.parametrize("seed", slow_except(range(1), range(4)))
def test_random_linear_quadratic_problems_with_bounds(seed):
    """Against bounded least squares in the controls, with bounds near, far and further, in a batch with weights of all scales."""
    random = np.random.default_rng(seed)
    plain, A, B = linear(seed)
    N, n, m = plain.N, plain.nx, plain.nu
    nearest = 10.0 ** random.uniform(-1, 3, (6, m)) * random.choice([1.0, 1e6], (6, m))
    scales, x = 10.0 ** random.uniform(-4, 4, 6), random.normal(size=(6, n))
    problem = cd.ocp(
        lambda x, u: A @ x + B @ u, N=N, x=n, u=m, residual=lambda x, u: np.concatenate([x, u]),
        terminal_residual=lambda x: x, weights=np.ones(n + m), terminal_weights=np.ones(n), bounds={"u": 1.0, "x": 1e9},
    )  # fmt: skip
    solver = problem.sqp(tolerance=1e-9)
    upper = np.concatenate([np.tile(nearest[:, None], (1, N, 1)), np.full((6, N, n), 1e9)], axis=2)
    found = solver(
        x, solver.start(x), weights=np.tile(scales[:, None], n + m), terminal_weights=np.tile(scales[:, None], n),
        lower=-upper, upper=upper,
    )  # fmt: skip
    assert (found.status == 0).all() and found.iterations.max() <= 3
    rows = [np.zeros((n, N * m))]
    for k in range(N):
        rows.append(A @ rows[-1])
        rows[-1][:, k * m : (k + 1) * m] += B
    for i in range(6):
        free = np.concatenate([np.linalg.matrix_power(A, k) @ x[i] for k in range(N + 1)])
        left, right = np.vstack([*rows, np.eye(N * m)]), np.concatenate([-free, np.zeros(N * m)])
        best = lsq_linear(left, right, (-np.tile(nearest[i], N), np.tile(nearest[i], N)), method="bvls", tol=1e-14).x
        np.testing.assert_allclose(found.controls[i].ravel(), best, atol=1e-5)
