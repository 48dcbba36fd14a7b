"""QR by Householder reflections, and least squares.

Reflection k is H = I - tau v v^T with v_k = 1; its signs are LAPACK's: r_kk has the sign opposite to that of the entry it
replaces, and a column that is zero below the diagonal is left as it is.

    s = x_1^2 + x_2^2 + ...,  r_kk = -sign(x_0) sqrt(x_0^2 + s),  tau = (r_kk - x_0) * (1 / r_kk),  v_i = x_i * (1 / (x_0 - r_kk))

Columns are not pivoted: of dependent columns, R has a diagonal entry that is zero up to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.errors import ShapeError
from condyle.tape.linalg.dispatch import VECTORS, dot, entries, fma, for_arrays, require_rows, traced, zeros
from condyle.tape.linalg.products import product, substitute
from condyle.tape.linalg.rule import with_rule
from condyle.tape.scalar import caller, constant

Reflections = list[tuple[int, np.ndarray, Any]]  # (k, v from row k + 1 on, tau)


@for_arrays(A=2)
def qr(A: Any) -> tuple[Any, Any]:
    """(Q, R) with Q R = A: Q (m, n) with orthonormal columns, R (n, n) upper triangular, for m >= n."""
    m, n = _tall("qr", A)
    R, reflections = reflect(entries(A))
    Q = entries(np.eye(m, n))
    for k, v, tau in reversed(reflections):
        Q[:, k:] = _apply(k, v, tau, Q[:, k:])
    return traced(Q), traced(R)


@for_arrays(A=2, b=VECTORS)
def least_squares(A: Any, b: Any) -> Any:
    """x that minimises |A x - b|, for a vector or the columns of a matrix; A (m, n) of rank n <= m.

    With the pseudo-inverse P and the residual r:  dx = P (db - dA x) + P P^T dA^T r.
    """
    m, n = _tall("least_squares", A)
    require_rows("least_squares", m, b=b)

    def value(A: Any, b: Any) -> tuple[Any, Any]:
        R, reflections = reflect(entries(A))
        y = entries(b)
        columns = np.column_stack([y.reshape(m, -1), entries(np.eye(m))])
        for k, v, tau in reflections:
            columns = _apply(k, v, tau, columns)
        columns = substitute(R, columns[:n], lower=False)
        return traced(columns[:, :-m].reshape(n, *y.shape[1:])), traced(columns[:, -m:])

    def rule(args: Any, result: Any, tangents: Any) -> tuple[Any, Any]:
        # P = (A^T A)^-1 A^T is computed only where a derivative needs it
        (A, b), (x, P), (dA, db) = [[entries(a) for a in group] for group in (args, result, tangents)]
        x, b, db = x.reshape(n, -1), b.reshape(m, -1), db.reshape(m, -1)
        moved, turned = product(P, db - product(dA, x)), product(P, product(P.T, dA.T))
        dx = moved + product(turned, b - product(A, x))
        dP = product(turned, entries(np.eye(m)) - product(A, P)) - product(P, product(dA, P))
        return traced(dx.reshape(result[0].shape)), traced(dP)

    return with_rule(value, rule)(A, b)[0]


def reflect(A: np.ndarray) -> tuple[np.ndarray, Reflections]:
    """(R, reflections) of entries."""
    m, n = A.shape
    A, reflections = A.copy(), Reflections()
    for k in range(min(m - 1, n)):
        x0, x = A[k, k], A[k + 1 :, k]
        if all(constant(e) == 0.0 for e in x):
            continue
        s = dot(x, x)
        done = s == 0.0
        norm = np.sqrt(fma(x0, x0, s))
        r = done.where(1.0, (x0 < 0.0).where(norm, -norm))
        v = x * (1.0 / done.where(1.0, x0 - r))
        tau = done.where(0.0, (r - x0) * (1.0 / r))
        A[k, k] = done.where(x0, r)
        A[:, k + 1 :] = _apply(k, v, tau, A[:, k + 1 :])
        reflections.append((k, v, tau))
    R = zeros(n, n)
    for i in range(n):
        R[i, i:] = A[i, i:]
    return R, reflections


def _apply(k: int, v: np.ndarray, tau: Any, A: np.ndarray) -> np.ndarray:
    """H A: rows from k on, column by column."""
    A = A.copy()
    for j in range(A.shape[1]):
        s = A[k, j]
        for a, b in zip(v, A[k + 1 :, j], strict=True):
            s = fma(a, b, s)
        w = tau * s
        A[k, j] = A[k, j] - w
        for i, a in enumerate(v, k + 1):
            A[i, j] = fma(-a, w, A[i, j])
    return A


def _tall(function: str, A: np.ndarray) -> tuple[int, int]:
    if A.shape[0] < A.shape[1]:
        raise ShapeError(f"{caller()}: linalg.{function} needs at least as many rows as columns, got shape {A.shape}")
    return A.shape
