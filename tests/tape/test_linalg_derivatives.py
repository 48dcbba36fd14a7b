"""Derivatives of cd.linalg, first and second order, forward and reverse, against differences at 512 bits."""

import numpy as np
import pytest
from tape.evaluation import differences

import condyle as cd
from condyle import linalg

CLOSE = 1e-11  # relative to the largest entry; the matrices have a condition of about ten


def assert_close(got, wanted):
    assert np.abs(got - wanted).max() <= CLOSE * max(1.0, np.abs(wanted).max())


B = np.array([0.5, -1.0, 2.0])
T = np.array([1.0, -0.5, 2.0, 0.25, 1.5])


def riccati(A):
    """Gains of three equal stages."""
    return linalg.riccati([A] * 3, [A[:, :1]] * 3, [A @ A.T] * 4, [[[1.0]]] * 3)[0]


CASES = {
    "matmul": lambda A: linalg.matmul(A, A.T),
    "solve": lambda A: linalg.solve(A, B + A[0]),
    "solve symmetric": lambda A: linalg.solve(A, B, assume="symmetric"),
    "solve positive": lambda A: linalg.solve(A, np.column_stack([B, A[1]]), assume="positive"),
    "inverse": lambda A: linalg.inverse(A),
    "det": lambda A: linalg.det(A),
    "cholesky": lambda A: linalg.cholesky(A),
    "cholesky_solve": lambda A: linalg.cholesky_solve(linalg.cholesky(A), B),
    "ldl_solve": lambda A: linalg.ldl_solve(*linalg.ldl(A), B),
    "update": lambda A: linalg.cholesky_downdate(linalg.cholesky_update(A, B), A[0]),
    "ldl_update": lambda A: linalg.ldl_update(A, A[0], B, A[0, 1])[0],
    "triangular": lambda A: linalg.solve_triangular(A, B, lower=False, trans=True),
    "lu_solve": lambda A: linalg.lu_solve(*linalg.lu(A), B),
    "qr": lambda A: linalg.qr(A)[0],
    "eigenvalues": lambda A: linalg.eigh(A)[0],
    "eigenvectors": lambda A: linalg.eigh(A)[1],
    "least_squares": lambda A: linalg.least_squares(np.concatenate([A[:, :2], A[:2, 1:]]), T),
    "riccati": lambda A: riccati(A[:2, :2]),
    "block_tridiagonal": lambda A: linalg.block_tridiagonal_solve([A[:2, :2]] * 3, [0.1 * A[1:, :2]] * 2, [A[:2, 2]] * 3),
}


@pytest.mark.parametrize("name", CASES)
def test_first_and_second_derivatives(name):
    rng = np.random.default_rng(3)
    A = rng.normal(size=(3, 3))
    A = A @ A.T + np.diag([1.0, 2.0, 3.0])
    f = cd.function(CASES[name], A=(3, 3))
    wanted = differences(f, A)
    table = f.tape.outputs[0].table
    for mode in ("forward",) if table else ("forward", "reverse"):
        assert_close(f.jacobian(mode=mode)(A), wanted)
    weight = rng.normal(size=np.shape(f(A)))
    gradient = cd.Function(f.vjp().tape)
    assert_close(gradient(A, weight), np.tensordot(weight, wanted, axes=np.ndim(weight)))
    second = f.hessian()(A, weight) if np.ndim(weight) else weight * f.hessian()(A)
    assert_close(second, differences(gradient, A, weight))


def test_third_derivatives_of_a_solve():
    f = cd.function(lambda t: linalg.solve(np.array([[2.0 + t, t * t], [np.sin(t), 3.0]]), np.array([1.0, t]))[0], t=())
    second = f.jacobian().jacobian()
    assert_close(second.jacobian()(0.4), differences(second, 0.4))


def test_a_solve_is_differentiated_by_its_factor():
    n = 10
    f = cd.function(lambda A, b: linalg.solve(A, b, assume="positive"), A=(n, n), b=n)
    through = cd.function(lambda A, b: linalg.cholesky_solve(linalg.cholesky(A), b), A=(n, n), b=n)
    assert same_values(f, through)
    # one adjoint solve: not much more than another right-hand side, and no factorisation backward
    assert f.vjp().operations < f.operations + 4 * n * n + 4 * n
    assert through.vjp().operations > 1.3 * f.vjp().operations
    # along one direction: one more solve
    assert f.jvp().operations < f.operations + 6 * n * n


def same_values(f, g):
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(10, 10)), rng.normal(size=10)
    A = A @ A.T + np.eye(10)
    return np.array_equal(f(A, b), g(A, b)) and np.allclose(f.vjp()(A, b, b).A_gradient, g.vjp()(A, b, b).A_gradient, rtol=1e-9)


def test_derivatives_at_equal_eigenvalues_are_finite():
    f = cd.function(lambda A: linalg.eigh(A), A=(3, 3))
    A = np.diag([1.0, 1.0, 2.0])
    dw, dV = f.jacobian()(A)
    assert np.isfinite(dw).all() and np.isfinite(dV).all()
    assert dw[2, 2, 2] == 1.0 and dw[0, 0, 0] == 1.0
