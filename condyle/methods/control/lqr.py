"""The linear-quadratic regulator, in continuous and in discrete time (needs the extra `control`: SciPy).

    lqr    x' = A x + B u      min  integral of x^T Q x + u^T R u      0 = A^T P + P A - P B R^-1 B^T P + Q
    dlqr   x+ = A x + B u      min  sum of      x^T Q x + u^T R u      P = A^T P A - A^T P B (R + B^T P B)^-1 B^T P A + Q

Both give (K, P): u = -K x is optimal, and costs x^T P x from x on. P is the one solution that makes A - B K stable. It exists
when every mode of A that does not decay by itself can be reached by B, and none on the border of stability is without cost;
otherwise a ControlError names the mode. The last bits depend on the processor's LAPACK: round gains that a recorded run uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condyle.errors import ControlError, ShapeError, require

Array = np.ndarray

SYMMETRIC = 1e-10  # how far Q and R may be from symmetric and positive, relative
SOLVED = 1e-10  # residual of the Riccati equation, relative to its terms; rounding gives 1e-15
BORDER = 1e-9  # a closed loop nearer to the border of stability, relative to the size of A, is called unstable
NO_REACH, LITTLE_REACH = 1e-13, 1e-6  # relative: a mode that cannot be reached, and one that explains a failure
REFINEMENTS = 20  # at most, of Newton's method; one or two are usual


def lqr(A: Any, B: Any, Q: Any, R: Any) -> tuple[Array, Array]:
    """(K, P) in continuous time:  K = R^-1 B^T P,  (m, n) and (n, n)."""
    A, B, Q, R = _checked("lqr", A, B, Q, R)

    def gain(P: Array) -> Array:
        return np.linalg.solve(R, B.T @ P)

    def terms(P: Array) -> tuple[Array, ...]:
        # by K, not by P G P: B^T P may be far smaller than P
        K = gain(P)
        return A.T @ P, P @ A, Q, -K.T @ R @ K

    return _solve("lqr", A, B, Q, R, gain, terms)


def dlqr(A: Any, B: Any, Q: Any, R: Any) -> tuple[Array, Array]:
    """(K, P) in discrete time:  K = (R + B^T P B)^-1 B^T P A,  (m, n) and (n, n)."""
    A, B, Q, R = _checked("dlqr", A, B, Q, R)

    def gain(P: Array) -> Array:
        return np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)

    def terms(P: Array) -> tuple[Array, ...]:
        return A.T @ P @ A, -P, Q, -A.T @ P @ B @ gain(P)

    return _solve("dlqr", A, B, Q, R, gain, terms)


def _solve(
    name: str, A: Array, B: Array, Q: Array, R: Array, gain: Callable[[Array], Array], terms: Callable[[Array], tuple[Array, ...]]
) -> tuple[Array, Array]:
    """(K, P): SciPy's solution, with as many steps of Newton's method as make the residual smaller; `terms`: of the equation."""
    _reachable(name, A, B, Q, NO_REACH)
    linalg = require("scipy.linalg", "control", "linear-quadratic regulators")
    discrete = name == "dlqr"

    def residual(P: Array) -> tuple[Array, float]:
        parts = terms(P)
        total: Array = sum(parts, np.zeros_like(Q))
        return total, float(np.linalg.norm(total)) / (sum(float(np.linalg.norm(part)) for part in parts) or 1.0)

    def correction(P: Array, total: Array) -> Array:
        closed = (A - B @ gain(P)).T
        if discrete:
            return np.asarray(linalg.solve_discrete_lyapunov(closed, total, method="bilinear"))
        return np.asarray(linalg.solve_continuous_lyapunov(closed, -total))

    try:
        with np.errstate(all="ignore"):  # an overflow does not converge, and is an error below
            P = np.asarray((linalg.solve_discrete_are if discrete else linalg.solve_continuous_are)(A, B, Q, R))
            P = (P + P.T) / 2.0
            total, error = residual(P)
            for _ in range(REFINEMENTS):
                refined = P + correction(P, total)
                refined = (refined + refined.T) / 2.0
                total, smaller = residual(refined)
                if not smaller < error:
                    break
                P, error = refined, smaller
    except (np.linalg.LinAlgError, ValueError):
        raise _failed(name, A, B, Q) from None
    K = gain(P)
    modes = np.linalg.eigvals(A - B @ K)
    stable = np.abs(modes).max() < 1.0 - BORDER if discrete else modes.real.max() < -BORDER * np.linalg.norm(A - B @ K)
    if not (error <= SOLVED and stable):
        raise _failed(name, A, B, Q)
    return K, P


# -- conditions


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
    """Raise if a mode that does not decay cannot be reached, or one on the border has no cost (Popov, Belevitch and Hautus)."""
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
            raise ControlError(
                f"{name}: no input reaches the mode of A with the eigenvalue {said}, which does not decay by itself"
            )
        if abs(outside) <= near and cost <= tolerance * a:
            raise ControlError(
                f"{name}: Q gives no cost to the mode of A with the eigenvalue {said}, on the border of stability, so the "
                "optimum leaves it there; add a small weight"
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
