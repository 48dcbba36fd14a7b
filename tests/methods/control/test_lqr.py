"""The regulator solves its Riccati equation to rounding, stabilises the loop, costs x^T P x, and names a mode that it cannot."""

from collections.abc import Callable

import hypothesis.strategies as st
import numpy as np
import pytest
from constraints.wheel_closed_form import linearised
from hypothesis import assume, given, settings

from condyle.errors import ControlError, ShapeError
from condyle.methods.control.lqr import dlqr, lqr

RESIDUAL = 1e-12  # of the Riccati equation, relative to the sum of its terms' sizes
Solver = Callable[..., tuple[np.ndarray, np.ndarray]]
both = pytest.mark.parametrize("solver", [lqr, dlqr])

INTEGRATOR = np.array([[0.0, 1.0], [0.0, 0.0]])
PUSH = np.array([[0.0], [1.0]])


def relative(*terms: np.ndarray) -> float:
    return float(np.linalg.norm(sum(terms)) / sum(np.linalg.norm(term) for term in terms))


def residual(solver: Solver, A, B, Q, R, K, P) -> float:
    """Written with K in it: where B^T P is much smaller than P, products with P alone have lost their digits."""
    if solver is lqr:
        return max(relative(A.T @ P, P @ A, Q, -K.T @ R @ K), relative(R @ K, -B.T @ P))
    return max(relative(A.T @ P @ A, -P, Q, -A.T @ P @ B @ K), relative(R @ K, B.T @ P @ B @ K, -B.T @ P @ A))


def margin(solver: Solver, closed: np.ndarray) -> float:
    """How far the closed loop is from the border of stability; negative outside."""
    poles = np.linalg.eigvals(closed)
    return float(-poles.real.max() if solver is lqr else 1.0 - np.abs(poles).max())


def of_size(solver: Solver, A: np.ndarray) -> np.ndarray:
    """A as it is; in discrete time the same motion in steps of 0.1."""
    return A if solver is lqr else np.eye(len(A)) + 0.1 * A


# -- what is known in closed form


@pytest.mark.parametrize("q", [1.0, 1e-4, 1e4])
def test_the_double_integrator(q: float) -> None:
    """Q = diag(q, 0), R = 1:  K = (sqrt(q), sqrt(2 sqrt(q)))."""
    K, P = lqr(INTEGRATOR, PUSH, np.diag([q, 0.0]), np.eye(1))
    a, b = np.sqrt(q), np.sqrt(2.0 * np.sqrt(q))
    np.testing.assert_allclose(K, [[a, b]], rtol=1e-13)
    np.testing.assert_allclose(P, [[a * b, a], [a, b]], rtol=1e-13)


def test_two_poles_in_one_place() -> None:
    """Q = diag(1, 2), R = 1 puts both poles at -1, with one eigenvector between them."""
    K, P = lqr(INTEGRATOR, PUSH, np.diag([1.0, 2.0]), np.eye(1))
    np.testing.assert_allclose(K, [[1.0, 2.0]], rtol=1e-14)
    np.testing.assert_allclose(P, [[2.0, 1.0], [1.0, 2.0]], rtol=1e-14)


def test_one_state() -> None:
    """p = (a + sqrt(a^2 + q b^2 / r)) r / b^2, and the golden section in discrete time."""
    K, P = lqr([[3.0]], [[2.0]], [[7.0]], [[0.5]])
    p = (3.0 + np.sqrt(9.0 + 7.0 * 4.0 / 0.5)) * 0.5 / 4.0
    np.testing.assert_allclose([P[0, 0], K[0, 0]], [p, p * 2.0 / 0.5], rtol=1e-14)
    K, P = dlqr([[1.0]], [[1.0]], [[1.0]], [[1.0]])
    golden = (1.0 + np.sqrt(5.0)) / 2.0
    np.testing.assert_allclose([P[0, 0], K[0, 0]], [golden, golden / (1.0 + golden)], rtol=1e-15)


def test_the_least_effort_mirrors_unstable_poles() -> None:
    """Without a cost on the state, a pole +p becomes -p, and p in discrete time 1/p; stable ones stay."""
    K, _ = lqr(np.diag([2.0, -3.0]), np.ones((2, 1)), np.zeros((2, 2)), np.eye(1))
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(np.diag([2.0, -3.0]) - K[0])), [-3.0, -2.0], rtol=1e-13)
    K, _ = dlqr(np.diag([2.0, 0.3]), np.ones((2, 1)), np.zeros((2, 2)), np.eye(1))
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(np.diag([2.0, 0.3]) - K[0])), [0.3, 0.5], rtol=1e-13)


def test_small_steps_come_near_continuous_time() -> None:
    A, B, Q, R = INTEGRATOR, PUSH, np.diag([1.0, 2.0]), np.eye(1)
    K, P = lqr(A, B, Q, R)
    off = []
    for h in (1e-3, 1e-4):
        K_h, P_h = dlqr(np.eye(2) + h * A, h * B, h * Q, h * R)
        off.append((np.abs(K_h - K).max(), np.abs(P_h - P).max()))
    np.testing.assert_allclose(np.divide(*off), 10.0, rtol=0.01)  # the error is of first order


def test_the_wheeled_pendulum() -> None:
    A, B = linearised()
    Q, R = np.diag([10.0, 1.0, 1.0, 0.1]), np.eye(1)
    K, P = lqr(A, B, Q, R)
    assert residual(lqr, A, B, Q, R, K, P) < RESIDUAL
    assert margin(lqr, A - B @ K) > 0.5


# -- whatever is given


@st.composite
def systems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    n = draw(st.integers(1, 8))
    m = draw(st.integers(1, n))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    A, B = 1.5 * rng.normal(size=(n, n)) / np.sqrt(n), rng.normal(size=(n, m))
    # a state may cost nothing, as long as some do
    C, D = rng.normal(size=(draw(st.integers(1, n)), n)), rng.normal(size=(m, m))
    return A, B, C.T @ C, D @ D.T + np.eye(m)


@both
@settings(max_examples=60, deadline=None)
@given(system=systems())
def test_random_systems(solver: Solver, system) -> None:
    A, B, Q, R = system
    K, P = solver(A, B, Q, R)
    assert margin(solver, A - B @ K) > 0.0
    # a mode nearly out of reach makes P huge, and P then has fewer digits than the equation needs
    assume(np.linalg.norm(K) < 100.0)
    assert residual(solver, A, B, Q, R, K, P) < RESIDUAL
    assert np.array_equal(P, P.T)
    assert np.linalg.eigvalsh(P)[0] > -1e-12 * np.linalg.norm(P)


@settings(max_examples=20, deadline=None)
@given(system=systems())
def test_the_cost_is_what_it_says(system) -> None:
    """x^T P x is the sum over the trajectory, and any other gain costs more."""
    A, B, Q, R = system
    K, P = dlqr(A, B, Q, R)

    def cost(gain: np.ndarray) -> np.ndarray:
        """The sum of (A_c^T)^k (Q + K^T R K) A_c^k, by doubling."""
        X, closed = Q + gain.T @ R @ gain, A - B @ gain
        for _ in range(40):
            X, closed = X + closed.T @ X @ closed, closed @ closed
        return X

    np.testing.assert_allclose(cost(K), P, rtol=0.0, atol=1e-8 * np.linalg.norm(P))
    other = K + 1e-3 * np.sin(np.arange(K.size)).reshape(K.shape) * np.linalg.norm(K)
    if margin(dlqr, A - B @ other) > 1e-3:
        assert np.linalg.eigvalsh(cost(other) - P)[0] > -1e-8 * np.linalg.norm(P)


@both
def test_units_do_not_matter(solver: Solver) -> None:
    """x in other units, by factors up to a million, gives the same regulator."""
    rng = np.random.default_rng(5)
    A, B, Q, R = of_size(solver, rng.normal(size=(4, 4))), rng.normal(size=(4, 2)), np.eye(4), np.eye(2)
    K, P = solver(A, B, Q, R)
    s = np.array([1e-3, 1.0, 1e3, 10.0])
    K_s, P_s = solver(s[:, None] * A / s, s[:, None] * B, Q / np.outer(s, s), R)
    np.testing.assert_allclose(K_s * s, K, rtol=1e-8)
    np.testing.assert_allclose(P_s * np.outer(s, s), P, rtol=1e-8)


@both
def test_sixty_states(solver: Solver) -> None:
    """As many as a robot with thirty joints has: masses in a row, pushed at one end and in the middle."""
    n = 30
    springs = 2.0 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    A = np.block([[np.zeros((n, n)), np.eye(n)], [-springs, -0.01 * np.eye(n)]])
    B = np.zeros((2 * n, 2))
    B[n, 0] = B[n + n // 2, 1] = 1.0
    A = of_size(solver, A)
    Q, R = np.eye(2 * n), np.eye(2)
    K, P = solver(A, B, Q, R)
    assert residual(solver, A, B, Q, R, K, P) < RESIDUAL and margin(solver, A - B @ K) > 0.0


# -- what it refuses


def rotated(solver: Solver, B, Q) -> list[np.ndarray]:
    """The double integrator, its modes hidden by a change of coordinates."""
    T = np.array([[0.8, -1.3], [0.4, 1.1]])
    back = np.linalg.inv(T)
    return [T @ of_size(solver, INTEGRATOR) @ back, T @ B, back.T @ Q @ back, np.eye(1)]


@both
@pytest.mark.parametrize("hidden", [False, True])
def test_a_mode_that_no_input_reaches(solver: Solver, hidden: bool) -> None:
    B, Q = np.array([[1.0], [0.0]]), np.eye(2)
    given = rotated(solver, B, Q) if hidden else [of_size(solver, INTEGRATOR), B, Q, np.eye(1)]
    with pytest.raises(ControlError, match=rf"^{solver.__name__}: no input reaches the mode of A with the eigenvalue .*itself$"):
        solver(*given)


@both
@pytest.mark.parametrize("hidden", [False, True])
def test_a_mode_on_the_border_without_cost(solver: Solver, hidden: bool) -> None:
    Q = np.diag([0.0, 1.0])
    given = rotated(solver, PUSH, Q) if hidden else [of_size(solver, INTEGRATOR), PUSH, Q, np.eye(1)]
    with pytest.raises(ControlError, match=r"Q gives no cost to the mode of A with the eigenvalue .* add a small weight$"):
        solver(*given)


def test_the_unreachable_mode_is_named() -> None:
    A = np.array([[0.0, 3.0, 0.0], [-3.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
    with pytest.raises(ControlError, match=r"eigenvalue 0 [+-]3i, which"):
        lqr(A, [[0.0], [0.0], [1.0]], np.eye(3), np.eye(1))
    # one that dies by itself need not be reached
    K, _ = lqr(A, [[0.0], [1.0], [0.0]], np.eye(3), np.eye(1))
    assert K[0, 2] == pytest.approx(0.0, abs=1e-14)


@both
@pytest.mark.parametrize(
    ("replaced", "error", "sentence"),
    [
        ({"A": np.zeros((2, 3))}, ShapeError, r"A must have shape \(n, n\), got \(2, 3\)"),
        ({"A": np.zeros((0, 0))}, ShapeError, r"A must have shape \(n, n\), got \(0, 0\)"),
        ({"B": [0.0, 1.0]}, ShapeError, r"B must have shape \(2, m\) .* got \(2,\); one input is a column"),
        ({"B": np.zeros((3, 1))}, ShapeError, r"B must have shape \(2, m\) beside A of 2 states, got \(3, 1\)"),
        ({"Q": np.eye(3)}, ShapeError, r"Q must have shape \(2, 2\), a row for each row of A, got \(3, 3\)"),
        ({"R": np.eye(2)}, ShapeError, r"R must have shape \(1, 1\), a row for each column of B, got \(2, 2\)"),
        ({"R": 1.0}, ShapeError, r"R must have shape \(1, 1\), .* got \(\)"),
        ({"Q": "wrong"}, ShapeError, r"must be matrices of real numbers"),
        ({"A": [[0.0, np.nan], [0.0, 0.0]]}, ControlError, r"A\[0, 1\] is nan; all numbers must be finite"),
        ({"R": [[np.inf]]}, ControlError, r"R\[0, 0\] is inf"),
        ({"Q": [[1.0, 2.0], [0.0, 9.0]]}, ControlError, r"Q must be symmetric, but Q\[0, 1\] is 2 and Q\[1, 0\] is 0; \(Q \+ Q"),
        ({"Q": np.diag([1.0, -1.0])}, ControlError, r"Q must not be negative in any direction, but has the eigenvalue -1"),
        ({"R": [[0.0]]}, ControlError, r"R must be positive definite, but has the eigenvalue 0; every input needs a cost"),
        ({"R": [[-2.0]]}, ControlError, r"R must be positive definite, but has the eigenvalue -2"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(solver: Solver, replaced, error, sentence) -> None:
    given = {"A": of_size(solver, INTEGRATOR), "B": PUSH, "Q": np.eye(2), "R": np.eye(1), **replaced}
    with pytest.raises(error, match=f"^{solver.__name__}: .*{sentence}"):
        solver(**given)


def test_beyond_float64() -> None:
    """P would be 1e18 and more, with fewer digits than the equation needs: a sentence, and no warning or garbage."""
    rng = np.random.default_rng(2)
    with np.errstate(all="raise"), pytest.raises(ControlError, match=r"no stabilising solution was found in float64; choose"):
        dlqr(rng.normal(size=(50, 50)), rng.normal(size=(50, 1)), np.eye(50), np.eye(1))
