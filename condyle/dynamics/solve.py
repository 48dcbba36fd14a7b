"""Linear solves written out, for any scalar."""

from __future__ import annotations

import numpy as np

from condyle.robot.spatial import Array


def factor(A: Array) -> tuple[Array, Array]:
    """(L, 1/d) with A = L diag(d) L^T for a symmetric positive definite A, L unit lower triangular."""
    n = len(A)
    L = np.zeros((n, n), dtype=object)
    inverse = np.zeros(n, dtype=object)
    scaled = np.zeros((n, n), dtype=object)  # L diag(d)
    for j in range(n):
        d = A[j, j] - sum((L[j, k] * scaled[j, k] for k in range(j)), 0.0)
        inverse[j] = 1.0 / d
        L[j, j] = 1.0
        for i in range(j + 1, n):
            scaled[i, j] = A[i, j] - sum((L[i, k] * scaled[j, k] for k in range(j)), 0.0)
            L[i, j] = scaled[i, j] * inverse[j]
    return L, inverse


def cholesky_solve(A: Array, b: Array) -> Array:
    """A^-1 b for a symmetric positive definite A; b is a vector or a matrix of columns."""
    if len(A) == 1:
        return b * (1.0 / A[0, 0]) if b.ndim > 1 else np.array([b[0] / A[0, 0]])
    L, inverse = factor(A)
    n = len(A)
    x = np.array(b, dtype=object)
    for i in range(n):
        for k in range(i):
            x[i] = x[i] - L[i, k] * x[k]
    for i in range(n):
        x[i] = x[i] * inverse[i]
    for i in reversed(range(n)):
        for k in range(i + 1, n):
            x[i] = x[i] - L[k, i] * x[k]
    return x
