"""The linear-quadratic regulator, in continuous and in discrete time, in NumPy alone.

    lqr    x' = A x + B u      least  integral of x^T Q x + u^T R u      0 = A^T P + P A - P B R^-1 B^T P + Q
    dlqr   x+ = A x + B u      least  sum of      x^T Q x + u^T R u      P = A^T P A - A^T P B (R + B^T P B)^-1 B^T P A + Q

Both give (K, P): u = -K x is the best that can be done, and costs x^T P x from x on. P is the one solution that makes A - B K
stable. It exists when every mode of A that does not die by itself can be reached by B, and none on the border of stability is
free of cost; otherwise a ControlError names the mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condyle.errors import ControlError, ShapeError

Array = np.ndarray

MOST_STEPS = 100  # of an iteration; all of them converge quadratically, and need about ten
SYMMETRIC = 1e-10  # how far Q and R may be from symmetric and positive, relative
SOLVED = 1e-10  # residual of the Riccati equation, relative to its terms; rounding gives 1e-15
BORDER = 1e-9  # a closed loop nearer to the border of stability, relative to the size of A, is called unstable
NO_REACH, LITTLE_REACH = 1e-13, 1e-6  # relative: a mode that is surely out of reach, and one that explains a failure


def lqr(A: Any, B: Any, Q: Any, R: Any) -> tuple[Array, Array]:
    """(K, P) in continuous time:  K = R^-1 B^T P,  (m, n) and (n, n).

    P spans the stable subspace of the Hamiltonian [[A, -G], [-Q, -A^T]], G = B R^-1 B^T, found by its matrix sign (Roberts
    1980), which does not mind poles that coincide, and refined by Newton's method (Kleinman 1968) down to rounding.
    """
    A, B, Q, R = _checked("lqr", A, B, Q, R)
    _reachable("lqr", A, B, Q, NO_REACH)
    G = B @ np.linalg.solve(R, B.T)

    def gain(P: Array) -> Array:
        return np.linalg.solve(R, B.T @ P)

    def residual(P: Array) -> tuple[Array, float]:
        # by K, not by P G P: B^T P may be far smaller than P
        K = gain(P)
        terms = (A.T @ P, P @ A, Q, -K.T @ R @ K)
        return sum(terms, np.zeros_like(Q)), sum(float(np.linalg.norm(term)) for term in terms)

    def correction(P: Array, off: Array) -> Array:
        return _lyapunov(A - B @ gain(P), off)

    try:
        with np.errstate(all="ignore"):  # what overflows does not converge, and is told below
            P, error = _refined(_stable_subspace(A, G, Q), residual, correction)
        K = gain(P)
        slowest = np.linalg.eigvals(A - B @ K).real.max()
    except np.linalg.LinAlgError:
        raise _failed("lqr", A, B, Q) from None
    if not (error <= SOLVED and slowest < -BORDER * np.linalg.norm(A - B @ K)):
        raise _failed("lqr", A, B, Q)
    return K, P


def dlqr(A: Any, B: Any, Q: Any, R: Any) -> tuple[Array, Array]:
    """(K, P) in discrete time:  K = (R + B^T P B)^-1 B^T P A,  (m, n) and (n, n).

    By the structure-preserving doubling algorithm (Chu, Fan, Lin and Wang 2004), and Newton's method (Hewer 1971) to end with.
    """
    A, B, Q, R = _checked("dlqr", A, B, Q, R)
    _reachable("dlqr", A, B, Q, NO_REACH)
    G = B @ np.linalg.solve(R, B.T)

    def gain(P: Array) -> Array:
        return np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)

    def radius(P: Array) -> float:
        return float(np.abs(np.linalg.eigvals(A - B @ gain(P))).max())

    def residual(P: Array) -> tuple[Array, float]:
        terms = (A.T @ P @ A, -P, Q, -A.T @ P @ B @ gain(P))
        return sum(terms, np.zeros_like(Q)), sum(float(np.linalg.norm(term)) for term in terms)

    def correction(P: Array, off: Array) -> Array:
        return _stein(A - B @ gain(P), off)

    try:
        with np.errstate(all="ignore"):
            P = _doubled(A, G, Q)
            if radius(P) >= 1.0:
                # an unstable mode without cost: doubling leaves it alone; Newton's method, begun with a cost for all, does not
                P = _doubled(A, G, Q + max(float(np.linalg.norm(Q)), 1.0) * np.eye(len(A)))
            P, error = _refined(P, residual, correction)
        K, largest = gain(P), radius(P)
    except np.linalg.LinAlgError:
        raise _failed("dlqr", A, B, Q) from None
    if not (error <= SOLVED and largest < 1.0 - BORDER):
        raise _failed("dlqr", A, B, Q)
    return K, P


# -- the solvers


def _refined(
    P: Array, residual: Callable[[Array], tuple[Array, float]], correction: Callable[[Array, Array], Array]
) -> tuple[Array, float]:
    """(P, its relative residual) after as many of Newton's steps as make the residual smaller."""

    def judged(P: Array) -> tuple[Array, float]:
        off, size = residual(P)
        return off, float(np.linalg.norm(off)) / size if size else 0.0

    (off, error), worse = judged(P), 0
    best = P, error
    for _ in range(MOST_STEPS):
        P = P + correction(P, off)
        P = (P + P.T) / 2.0
        off, error = judged(P)
        if not np.isfinite(error):
            break
        # the first step may overshoot far; two without a gain are the end
        best, worse = ((P, error), 0) if error < best[1] else (best, worse + 1)
        if error == 0.0 or (worse >= 2 and best[1] < SOLVED):
            break
    return best


def _stable_subspace(A: Array, G: Array, Q: Array) -> Array:
    """P from the columns [I; P] of the stable subspace: what the Hamiltonian's sign W turns around,  (W + I) [I; P] = 0."""
    n, q, g = len(A), np.linalg.norm(Q), np.linalg.norm(G)
    # P in a unit that makes both corners of the Hamiltonian equally large
    unit = float(np.sqrt(q / g)) if q > 0.0 and g > 0.0 else 1.0
    W = _sign(np.block([[A, -G * unit], [-Q / unit, -A.T]])) + np.eye(2 * n)
    P = -unit * np.linalg.lstsq(W[:, n:], W[:, :n], rcond=None)[0]
    return (P + P.T) / 2.0


def _sign(Z: Array) -> Array:
    """The matrix sign: Z with every eigenvalue replaced by the sign of its real part, by Newton's method with scaling."""
    for _ in range(MOST_STEPS):
        inverse = np.linalg.inv(Z)
        # the determinant's size becomes 1, which brings the eigenvalues as near to +-1 as one number can
        scale = np.exp(-np.linalg.slogdet(Z)[1] / len(Z))
        after = (scale * Z + inverse / scale) / 2.0
        change = np.linalg.norm(after - Z) / np.linalg.norm(after)
        Z = after
        if not np.isfinite(change):
            break
        if change < 1e-10:
            return Z
    raise np.linalg.LinAlgError("no sign: an eigenvalue is on the imaginary axis")


def _lyapunov(A: Array, S: Array) -> Array:
    """X of  A^T X + X A + S = 0  for a stable A: the sign of [[A, 0], [S, -A^T]], by blocks (Roberts 1980)."""
    for _ in range(MOST_STEPS):
        inverse = np.linalg.inv(A)
        scale = np.exp(-np.linalg.slogdet(A)[1] / len(A))
        S = (scale * S + inverse.T @ S @ inverse / scale) / 2.0
        after = (scale * A + inverse / scale) / 2.0
        change = np.linalg.norm(after - A) / np.linalg.norm(after)
        A = after
        if change < 1e-12:
            return S / 2.0
    raise np.linalg.LinAlgError("no solution: A is not stable")


def _stein(A: Array, S: Array) -> Array:
    """X of  A^T X A - X + S = 0  for a stable A: the sum of (A^T)^k S A^k, twice as many terms each time (Smith 1968)."""
    X: Array = S
    for _ in range(MOST_STEPS):
        more = A.T @ X @ A
        X, A = X + more, A @ A
        if not np.all(np.isfinite(X)):
            break
        if np.linalg.norm(more) <= 1e-16 * np.linalg.norm(X):
            return X
    raise np.linalg.LinAlgError("no solution: A is not stable")


def _doubled(A: Array, G: Array, H: Array) -> Array:
    """The limit of H: the cost of 1, 2, 4, 8, ... steps."""
    I = np.eye(len(A))
    for _ in range(MOST_STEPS):
        W = np.linalg.solve(I + G @ H, np.hstack([A, G]))
        first, second = W[:, : len(A)], W[:, len(A) :]
        more = A.T @ H @ first
        A, G, H = A @ first, G + A @ second @ A.T, H + more
        G, H = (G + G.T) / 2.0, (H + H.T) / 2.0
        if not np.all(np.isfinite(H)):
            break
        if np.linalg.norm(more) <= 1e-15 * np.linalg.norm(H):
            return H
    raise np.linalg.LinAlgError("the cost does not converge")


# -- what may be asked


def _checked(name: str, *given: Any) -> tuple[Array, Array, Array, Array]:
    """A, B, Q, R as float arrays that fit, are finite, symmetric and positive where they must be."""
    try:
        A, B, Q, R = (np.array(x, dtype=float) for x in given)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{name}: A, B, Q and R must be matrices of real numbers: {error}") from None
    if A.ndim != 2 or A.shape[0] != A.shape[1] or A.size == 0:
        raise ShapeError(f"{name}: A must have shape (n, n), got {A.shape}")
    n = len(A)
    if B.ndim != 2 or B.shape[0] != n or B.size == 0:
        raise ShapeError(f"{name}: B must have shape ({n}, m) beside A of {n} states, got {B.shape}; one input is a column")
    m = B.shape[1]
    for letter, X, size, of in (("Q", Q, n, "row of A"), ("R", R, m, "column of B")):
        if X.shape != (size, size):
            raise ShapeError(f"{name}: {letter} must have shape ({size}, {size}), a row for each {of}, got {X.shape}")
    for letter, X in zip("ABQR", (A, B, Q, R), strict=True):
        if not np.all(np.isfinite(X)):
            i, j = np.argwhere(~np.isfinite(X))[0]
            raise ControlError(f"{name}: {letter}[{i}, {j}] is {X[i, j]}; all numbers must be finite")
    for letter, X in (("Q", Q), ("R", R)):
        off = np.abs(X - X.T)
        if off.max() > SYMMETRIC * np.abs(X).max():
            i, j = np.unravel_index(off.argmax(), off.shape)
            raise ControlError(
                f"{name}: {letter} must be symmetric, but {letter}[{i}, {j}] is {X[i, j]:g} and {letter}[{j}, {i}] is "
                f"{X[j, i]:g}; ({letter} + {letter}.T) / 2 costs the same"
            )
    Q, R = (Q + Q.T) / 2.0, (R + R.T) / 2.0
    q, r = np.linalg.eigvalsh(Q), np.linalg.eigvalsh(R)
    if q[0] < -SYMMETRIC * abs(q[-1]):
        raise ControlError(f"{name}: Q must not be negative in any direction, but has the eigenvalue {q[0]:g}")
    if r[0] <= 1e-15 * abs(r[-1]):
        raise ControlError(f"{name}: R must be positive definite, but has the eigenvalue {r[0]:g}; every input needs a cost")
    return A, B, Q, R


def _reachable(name: str, A: Array, B: Array, Q: Array, tolerance: float) -> None:
    """Raise if a mode that does not die cannot be reached, or one on the border has no cost (Popov, Belevitch and Hautus)."""
    I, a = np.eye(len(A)), float(np.linalg.norm(A)) or 1.0
    b, q = (float(np.linalg.norm(X)) or 1.0 for X in (B, Q))
    for mode in np.linalg.eigvals(A):
        # how far from the border, outside counted positive; a mode that is there twice is known to half the digits
        outside, near = (mode.real, 1e-6 * a) if name == "lqr" else (abs(mode) - 1.0, 1e-6 * max(a, 1.0))
        if outside < -near:
            continue
        reach = np.linalg.svd(np.hstack([A - mode * I, B * (a / b)]), compute_uv=False)[-1]
        cost = np.linalg.svd(np.vstack([A - mode * I, Q * (a / q)]), compute_uv=False)[-1]
        said = f"{mode.real:.4g}" if abs(mode.imag) < 1e-12 * a else f"{mode.real:.4g} {mode.imag:+.4g}i"
        if reach <= tolerance * a:
            raise ControlError(f"{name}: no input reaches the mode of A with the eigenvalue {said}, which does not die by itself")
        if abs(outside) <= near and cost <= tolerance * a:
            raise ControlError(
                f"{name}: Q gives no cost to the mode of A with the eigenvalue {said}, on the border of stability, so the best "
                "is to leave it there; add a small weight"
            )


def _failed(name: str, A: Array, B: Array, Q: Array) -> ControlError:
    """Why no solution was found: a mode nearly out of reach, or numbers too far apart."""
    try:
        _reachable(name, A, B, Q, LITTLE_REACH)
    except ControlError as error:
        return error
    return ControlError(
        f"{name}: no stabilising solution was found in float64; choose units in which the numbers of A, B, Q and R lie closer "
        "together"
    )
