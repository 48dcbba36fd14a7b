"""iLQR: the optimum of linear problems, bounds on controls, the same bits for any lanes, and a robot in contact."""

import numpy as np
import pytest
from methods.mpc.ilqr_problems import cart_pole, linear

import condyle as cd
from condyle.errors import ControlError

LINEAR = 1e-10  # relative to numbers of about one: the recursion is the same, in another order


@pytest.fixture(scope="module")
def bounded():
    """A linear problem whose controls reach their bounds."""
    return linear(12, bounds={"u": 0.3}).ilqr(iterations=30)


def test_linear_problem_is_solved_in_one_iteration():
    problem = linear(12)
    solver, x = problem.ilqr(iterations=4), np.array([1.0, -0.5, 0.8])
    found = solver(x, solver.start(x))
    A, B, Q, R = linear.matrices()
    P = 5.0 * Q
    for _ in range(12):
        K = -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        P = Q + A.T @ P @ (A + B @ K)
    assert abs(found.cost - 0.5 * x @ P @ x) <= LINEAR and np.abs(found.u - K @ x).max() <= LINEAR
    # the second iteration sees that there is nothing left to do
    assert found.status == 0 and found.iterations == 2 and found.residuals["stationarity"] <= LINEAR
    assert found.residuals["dynamics"] == 0.0


def test_bounds_on_controls_hold_at_the_optimum(bounded):
    x = np.array([1.0, -0.5, 0.8])
    found = bounded(x, bounded.start(x))
    assert found.ok and found.status == 0 and np.abs(found.controls).max() == 0.3
    # the gradient by each control: zero inside, outwards at a bound
    A, B, Q, R = linear.matrices()
    costate = 5.0 * Q @ found.states[-1]
    for k in reversed(range(12)):
        g, u = R @ found.controls[k] + B.T @ costate, found.controls[k]
        costate = Q @ found.states[k] + A.T @ costate
        assert (np.abs(g[np.abs(u) < 0.3]) <= 1e-7).all() and (g[u == 0.3] <= 0.0).all() and (g[u == -0.3] >= 0.0).all()


def test_same_bits_for_any_lanes(bounded):
    X = np.random.default_rng(1).normal(size=(8, 3))
    batch = bounded(X, bounded.start(X))
    for i, x in enumerate(X[:3]):
        one = bounded(x, bounded.start(x))
        assert np.array_equal(one.controls, batch.controls[i]) and one.cost == batch.cost[i]
        assert one.iterations == batch.iterations[i]
    plan = bounded.start(X[0])
    wanted = bounded.function.on("reference")(X[0], plan["states"], plan["controls"])
    assert np.array_equal(wanted.controls, batch.controls[0]) and wanted.status == batch.status[0]


def test_not_a_number_keeps_the_last_plan(bounded):
    plan = bounded.start(np.ones(3))
    found = bounded(np.array([np.nan, 0.0, 0.0]), plan)
    assert found.status == 2 and np.array_equal(found.controls, plan["controls"]) and "failed" in found.message


@pytest.fixture(scope="module")
def swing_up():
    """One iteration of the swing-up."""
    return cart_pole(50).ilqr(iterations=1)


@pytest.mark.parametrize("noise", [0.0, 15.0])
def test_cart_pole_swings_up(swing_up, noise):
    x = np.array([0.0, np.pi, 0.0, 0.0])
    plan, costs, gaps = swing_up.start(x), [], []
    # states that stay at x do not follow these controls
    plan["controls"] = plan["controls"] + noise * np.random.default_rng(0).normal(size=plan["controls"].shape)
    for _ in range(200):
        found = swing_up(x, plan)
        plan = found.plan
        costs.append(float(found.cost))
        gaps.append(float(found.residuals["dynamics"]))
        if found.status == 0:
            break
    assert found.status == 0 and np.isfinite(costs).all() and gaps[-1] == 0.0
    # once a plan follows the dynamics, all later ones do, and costs fall
    followed = gaps.index(0.0)
    assert not any(gaps[followed:])
    assert (np.diff(costs[followed:]) <= 1e-9 * np.array(costs[followed + 1 :])).all()
    assert np.abs(found.states[-1]).max() < 0.1 and np.abs(found.controls).max() <= 20.0


def test_gaps_are_closed_by_multiple_shooting():
    # 12 intervals of exp(3): a simulation of random controls leaves every bound, the optimum stays near zero
    unstable = cd.ocp(
        lambda x, u: 20.0 * x + np.sin(x) + u, N=12, x=1, u=1, residual=lambda x, u: np.concatenate([x, u]), weights=[1.0, 1e-3],
        terminal_residual=lambda x: x, terminal_weights=[1.0],
    )  # fmt: skip
    solver, x = unstable.ilqr(iterations=30), np.array([0.01])
    plan = solver.start(x)
    plan["controls"] = plan["controls"] + np.random.default_rng(0).normal(size=(12, 1))
    found = solver(x, plan)
    assert found.status == 0 and found.residuals["dynamics"] == 0.0 and found.cost < 1e-3


def test_what_cannot_be_solved_is_said():
    with pytest.raises(ControlError, match="ilqr takes bounds on controls, and 'x' is something else"):
        linear(4, bounds={"x": 1.0}).ilqr()
    with pytest.raises(ControlError, match="leave out soft= of 'u'"):
        linear(4, bounds={"u": 1.0}, soft={"u": 10.0}).ilqr()
    with pytest.raises(ControlError, match="iterations must be a whole number from 1 up, got 0"):
        linear(4).ilqr(iterations=0)
    with pytest.raises(ControlError, match="leave out move_blocking="):
        linear(4, move_blocking=[2, 2]).ilqr()
