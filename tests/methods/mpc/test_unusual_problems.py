"""Problems at the edge of what can be asked: costs and constraints at the end alone, controls without effect, no solution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markers import slow_except

import condyle as cd
from condyle.errors import ControlError

X = np.array([1.0, 0.5])
SQUARES = {"residual": lambda x, u: np.concatenate([x, u]), "weights": [1.0, 1.0, 0.1]}


def cart(x, u):
    return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]])


def forced(N):
    """(A^N, [A^(N-1) B, ..., B]) of the cart."""
    A, B = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([0.0, 0.1])
    return np.linalg.matrix_power(A, N), np.column_stack([np.linalg.matrix_power(A, N - 1 - k) @ B for k in range(N)])


@pytest.mark.parametrize("method", ["rti", "sqp"])
def test_an_equality_at_the_end_alone(method):
    """The least controls to rest at the origin, by the pseudo-inverse."""
    problem = cd.ocp(cart, N=6, x=2, u=1, residual=lambda x, u: u, terminal_bounds={"x": (np.zeros(2), np.zeros(2))})
    solver = getattr(problem, method)()
    found = solver(X, solver.start(X))
    A, B = forced(6)
    assert found.status == 0
    np.testing.assert_allclose(found.controls[:, 0], -np.linalg.pinv(B) @ (A @ X), rtol=1e-5)


def test_a_cost_at_the_end_alone():
    problem = cd.ocp(cart, N=6, x=2, u=1, terminal_residual=lambda x: x - 1.0, bounds={"u": 9.0})
    solver = problem.sqp()
    found = solver(X, solver.start(X))
    assert found.status == 0 and found.cost < 1e-6
    np.testing.assert_allclose(found.states[-1], [1.0, 1.0], atol=1e-3)


def test_controls_without_effect_stay():
    """The last control moves what has no cost any more, the second one nothing."""
    problem = cd.ocp(lambda x, u: cart(x, u) + 0.0 * u[1], N=4, x=2, u=2, residual=lambda x, u: x)
    solver = problem.sqp()
    found = solver(X, solver.start(X, [0.2, 0.3]))
    assert found.status == 0 and found.controls[-1, 0] == 0.2 and (found.controls[:, 1] == 0.3).all()


def test_bounds_without_a_solution_leave_finite_plans_and_are_forgotten():
    problem = cd.ocp(cart, N=5, x={"p": 1, "v": 1}, u=1, bounds={"u": 1.0, "p": 6.0}, **SQUARES)
    solver = problem.rti()
    plan, wrong = solver.start(X), problem.constraints.lower.copy()
    wrong[problem.constraints.place("p")] = 5.0
    for _ in range(40):
        found = solver(X, plan, lower=wrong)
        plan = found.plan
    assert found.status == 1 and "hard bounds" in found.message and np.isfinite(plan["states"]).all()
    for _ in range(4):
        found = solver(X, plan)
        plan = found.plan
    assert found.status == 0
    np.testing.assert_allclose(found.u, solver(X, solver.start(X)).u, atol=1e-5)


def test_controls_of_a_block_are_the_same():
    problem = cd.ocp(
        lambda x, u: np.array([x[1], u[0]]),
        N=6, dt=[0.05, 0.05, 0.1, 0.2, 0.2, 0.3], x=2, u=1, bounds={"u": 1.0}, move_blocking=[1, 2, 3], **SQUARES,
    )  # fmt: skip
    solver = problem.sqp()
    u = solver(X, solver.start(X)).controls[:, 0]
    np.testing.assert_allclose(u, u[[0, 1, 1, 3, 3, 3]], atol=1e-9)


def test_soft_and_curved_constraints_converge():
    """What is predicted of the slacks' costs counts in the line search; exact Hessians converge where functions are curved."""
    problem = cd.ocp(
        cart, N=8, x=2, u=1, constraints=lambda x, u: {"c": np.array([x[0] + x[1] * u[0]])},
        bounds={"u": 2.0, "c": (-0.2, 0.9)}, soft={"c": 100.0}, **SQUARES,
    )  # fmt: skip
    solver = problem.sqp(hessian="exact")
    found = solver(X, solver.start(X))
    assert found.status == 0 and found.iterations < 30


def test_small_costs_are_solved_as_well(family):
    """Tolerances are relative to the scale of the cost."""
    x = np.array([1.5, -1.0])
    found = [family(x, family.start(x), weights=c * np.array([1.0, 2.0, 0.5])).controls for c in (1.0, 1e-6)]
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    usual = family.problem.sqp()
    np.testing.assert_allclose(usual(x, usual.start(x), weights=[1e-6, 2e-6, 5e-7]).controls, found[0], atol=1e-4)


N, BOUNDED = 5, 0.8
RANDOM = {
    "A": [[0.9, 0.2], [-0.1, 1.0]], "B": [[0.1], [0.5]], "weights": [1.0, 1.0, 1.0], "scale": [1.0],
}  # fmt: skip


@pytest.fixture(scope="module")
def family():
    """A solver of all linear systems of two states and one control with one bound, in any units."""
    problem = cd.ocp(
        lambda x, u, p: p["A"] @ x + p["B"] @ u,
        N=N, x=2, u=1, parameters={"A": RANDOM["A"], "B": RANDOM["B"], "scale": RANDOM["scale"]},
        residual=lambda x, u, p: np.concatenate([x, u]) / p["scale"][0], weights=RANDOM["weights"], bounds={"u": BOUNDED},
    )  # fmt: skip
    return problem.rti(qp_iterations=60, qp_tolerance=1e-11)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), magnitude=st.floats(-3.0, 3.0))
def test_random_programs_meet_the_optimality_conditions(family, seed, magnitude):
    """In units from 1e-3 to 1e3: controls scale with the units, and no other feasible controls are better."""
    rng = np.random.default_rng(seed)
    unit = 10.0**magnitude
    A, B = rng.uniform(-1.0, 1.0, (2, 2)), rng.uniform(0.2, 1.0, (2, 1))
    data = {"A": A, "B": B, "weights": rng.uniform(0.1, 10.0, 3)}
    x = rng.uniform(-2.0, 2.0, 2)
    plain = family(x, family.start(x), **data)
    scaled = family(unit * x, family.start(unit * x), **data, scale=[unit], lower=[-BOUNDED * unit], upper=[BOUNDED * unit])
    assert plain.status == 0 and scaled.status == 0
    np.testing.assert_allclose(scaled.controls / unit, plain.controls, atol=1e-4)

    def cost(u):
        at, total = x, 0.0
        for each in u:
            z = np.concatenate([at, [each]])
            total += 0.5 * z @ (data["weights"] * z)
            at = A @ at + B[:, 0] * each
        return total

    u = plain.controls[:, 0]
    assert np.abs(u).max() <= BOUNDED + 1e-9
    for _ in range(10):
        other = np.clip(u + rng.normal(0.0, 0.1, N), -BOUNDED, BOUNDED)
        assert cost(other) >= cost(u) - 1e-7


@pytest.mark.parametrize("method", ["rti", "sqp"])
@pytest.mark.parametrize("l1", slow_except([300.0], [0.0, 300.0]))
def test_bounds_of_the_end_alone_may_be_soft(method, l1):
    """An equality with a squared slack is a cost of the end; with a linear one it is met if its weight is enough."""
    given = {
        "N": 10, "x": {"p": 1, "v": 1}, "u": {"a": 1}, "residual": lambda x, u: u, "bounds": {"a": 8.0},
        "terminal_residual": lambda x: cd.array([x[0] - 1.0, x[1]]),
    }  # fmt: skip

    def step(x, u):
        return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]])

    soft = cd.ocp(
        step, **given, terminal_weights=[0.0, 7.0], terminal_bounds={"p": (1.0, 1.0)}, soft={"p": (l1, 5.0) if l1 else 5.0}
    )
    hard = cd.ocp(step, **given, terminal_weights=[0.0, 7.0], terminal_bounds={"p": (1.0, 1.0)}).sqp(tolerance=1e-9)
    cost = cd.ocp(step, **given, terminal_weights=[5.0, 7.0]).sqp(tolerance=1e-9)
    solver = getattr(soft, method)(qp_tolerance=1e-8, qp_iterations=50)
    found = solver(np.zeros(2))
    assert found.status == 0
    np.testing.assert_allclose(found.controls, (hard if l1 else cost)(np.zeros(2)).controls, atol=1e-4)
    # inequalities and functions of the end, with the weights of their own
    over = cd.ocp(
        step, **given, terminal_weights=[0.0, 7.0], terminal_constraints=lambda x: {"reach": x[0]},
        terminal_bounds={"reach": (1.0, None)}, soft={"reach": (l1, 5.0) if l1 else 5.0},
    )  # fmt: skip
    np.testing.assert_allclose(over.sqp(tolerance=1e-9)(np.zeros(2)).controls, found.controls, atol=1e-4)
    with pytest.raises(ControlError, match="no bounds on 'q'; bounded are a, p"):
        cd.ocp(step, **given, terminal_bounds={"p": 1.0}, soft={"q": 1.0})
