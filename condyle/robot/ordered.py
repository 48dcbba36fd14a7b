"""Linear algebra of numbers in a written order, by operations that IEEE 754 fixes: the same bits on every processor.

NumPy's `@` and `np.linalg` call BLAS and LAPACK, whose kernels are chosen by the processor. What they give may decide, but no
number of it may enter a tape. Sums here go from first to last, or are those of `math.fsum`, exact before they are rounded.
"""

from __future__ import annotations

import math

import numpy as np

from condyle.errors import RobotError
from condyle.robot.spatial import product

ROUNDING = 2.0**-52


class SingularError(RobotError):
    """A matrix without an inverse."""


def dot(a: np.ndarray, b: np.ndarray) -> float:
    """a . b, rounded once."""
    return math.fsum((a * b).tolist())


def norm(a: np.ndarray) -> float:
    """The length of a vector, or the Frobenius norm of a matrix."""
    flat = np.ravel(a)
    return math.sqrt(dot(flat, flat))


def matvec(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A x, every sum from first to last."""
    found: np.ndarray = product(A, x) if len(x) else np.zeros(len(A))
    return found


def singular_values(A: np.ndarray) -> np.ndarray:
    """The singular values, the largest first: by LAPACK, for decisions, which their last bits do not change."""
    found: np.ndarray = np.linalg.svd(A, compute_uv=False)
    return found


def rank(A: np.ndarray, relative: float) -> int:
    """The number of singular values above this part of the largest."""
    s = singular_values(A)
    return int(np.sum(s > relative * max(s[0], 1e-300))) if len(s) else 0


def orthonormal(A: np.ndarray, relative: float) -> tuple[np.ndarray, np.ndarray]:
    """(Q, C) with A = Q C: orthonormal columns, the longest first; the residual is below `relative` of the longest."""
    rest, columns, rows, least = np.array(A, dtype=float), list[np.ndarray](), list[np.ndarray](), 0.0
    while len(columns) < min(A.shape):
        k = int(np.argmax(sum(row * row for row in rest)))
        size = norm(rest[:, k])
        least = least or relative * size
        if size <= least:
            break
        q = rest[:, k] / size
        if columns:
            # once more, for what rounding has left
            before = np.array(columns)
            q = q - matvec(before.T, matvec(before, q))
            q = q / norm(q)
        c = matvec(rest.T, q)
        rest = rest - np.outer(q, c)
        columns.append(q)
        rows.append(c)
    return np.array(columns).reshape(len(columns), A.shape[0]).T, np.array(rows).reshape(len(rows), A.shape[1])


def least_norm(A: np.ndarray, b: np.ndarray, relative: float) -> np.ndarray:
    """The shortest x of the least |A x - b|; columns that the others span up to `relative` of the longest are no help."""
    Q, C = orthonormal(A, relative)
    Z, S = orthonormal(C.T, ROUNDING)
    return matvec(Z, matvec(inverse(S.T), matvec(Q.T, b)))


def fit(basis: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x of the least |basis x - b|, by modified Gram-Schmidt; a column that the others span is left out."""
    columns, rest = [np.array(column, dtype=float) for column in basis.T], np.array(b, dtype=float)
    n = len(columns)
    R, along, scale = np.eye(n), np.zeros(n), [norm(column) for column in columns]
    for i in range(n):
        square = dot(columns[i], columns[i])
        if math.sqrt(square) <= 1e-12 * scale[i]:
            continue
        for j in range(i + 1, n):
            R[i, j] = dot(columns[i], columns[j]) / square
            columns[j] = columns[j] - columns[i] * R[i, j]
        along[i] = dot(columns[i], rest) / square
        rest = rest - columns[i] * along[i]
    for i in reversed(range(n)):
        along[i] -= dot(R[i, i + 1 :], along[i + 1 :])
    return along


def inverse(A: np.ndarray) -> np.ndarray:
    """A^-1, by Gauss and Jordan with row pivots; raises SingularError."""
    return _eliminated(A)[1]


def determinant(A: np.ndarray) -> float:
    """det A."""
    if len(A) <= 2:
        return float(A[0, 0] if len(A) == 1 else A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0])
    try:
        return _eliminated(A)[0]
    except SingularError:
        return 0.0


def _eliminated(A: np.ndarray) -> tuple[float, np.ndarray]:
    n = len(A)
    M, determinant = np.hstack([np.array(A, dtype=float), np.eye(n)]), 1.0
    for k in range(n):
        pivot = k + int(np.argmax(np.abs(M[k:, k])))
        if not abs(M[pivot, k]) > 0.0:
            raise SingularError(f"a matrix of {n} rows has no inverse")
        if pivot != k:
            M[[k, pivot]] = M[[pivot, k]]
            determinant = -determinant
        determinant *= float(M[k, k])
        M[k] = M[k] / M[k, k]
        factors = M[:, k].copy()
        factors[k] = 0.0
        M = M - factors[:, None] * M[k]
    return determinant, M[:, n:]
