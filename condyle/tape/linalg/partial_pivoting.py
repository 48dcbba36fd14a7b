"""Gaussian elimination with partial pivoting: LU, solve, inverse, determinant.

The pivot of column k is the entry of largest magnitude on or below the diagonal, the first of them if several are equal. Rows are
exchanged by selects, so each lane has its own pivots and no lane waits for another. Then

    l_ik = a_ik * (1 / a_kk), or 0 if a_kk is zero,     a_ij = a_ij - l_ik a_kj     for i, j > k,  k = 0, 1, ...

An entry that is structurally zero is never a pivot, so the structure of a triangular matrix stays.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from condyle.errors import ShapeError
from condyle.tape.array import stop_gradient
from condyle.tape.linalg import rolled
from condyle.tape.linalg.dispatch import (
    VECTORS,
    entries,
    fma,
    for_arrays,
    less_dot,
    require_rows,
    require_square,
    scalar,
    traced,
    zeros,
)
from condyle.tape.linalg.products import product, substitute
from condyle.tape.linalg.rule import with_rule
from condyle.tape.linalg.symmetric import cholesky_factor, cholesky_substitute, ldl_factor, ldl_substitute, mirrored
from condyle.tape.scalar import Scalar, caller, constant


@for_arrays(A=2)
def lu(A: Any) -> tuple[Any, Any, Any]:
    """(L, U, p) with L U = A[p]: L unit lower triangular, U upper triangular, p the rows of A in order, as numbers."""
    require_square("lu", A=A)
    packed, p, _ = eliminate(entries(A))
    n = len(packed)
    L, U = entries(np.eye(n)), zeros(n, n)
    for i, j in np.ndindex(n, n):
        (L if j < i else U)[i, j] = packed[i, j]
    return traced(L), traced(U), traced(p)


def eliminate(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, Scalar]:
    """(L and U in one matrix, rows of A in order, sign of that permutation), of entries."""
    n = len(A)
    dense = 2 * sum(constant(x) != 0.0 for x in A.ravel()) > A.size
    if n >= rolled.LU and dense:
        return rolled.eliminate(A)
    A, p, sign = A.copy(), entries(np.arange(n, dtype=float)), scalar(1.0)
    for k in range(n):
        sign = _exchange(A, p, k, sign)
        # a column of zeros leaves zeros in L, so that L U is A and the determinant zero
        inverse = (A[k, k] == 0.0).where(0.0, 1.0 / A[k, k])
        for i in range(k + 1, n):
            A[i, k] = A[i, k] * inverse
            for j in range(k + 1, n):
                A[i, j] = fma(-A[i, k], A[k, j], A[i, j])
    return A, p, sign


def _exchange(A: np.ndarray, p: np.ndarray, k: int, sign: Scalar) -> Scalar:
    """Bring the pivot of column k to row k; the new sign of the permutation."""
    below = [i for i in range(k + 1, len(A)) if constant(A[i, k]) != 0.0]
    if not below:
        return sign
    largest, row = abs(A[k, k]), scalar(float(k))
    for i in below:
        size = abs(A[i, k])
        larger = size > largest
        largest, row = larger.where(size, largest), larger.where(float(i), row)
    rows = np.column_stack([A, p])
    old = rows[k].copy()
    for i in below:
        chosen = row == float(i)
        for j in range(len(old)):
            rows[k, j], rows[i, j] = chosen.where(rows[i, j], rows[k, j]), chosen.where(old[j], rows[i, j])
    A[:], p[:] = rows[:, :-1], rows[:, -1]
    same = row == float(k)
    return cast(Scalar, same.where(sign, -sign))


@for_arrays(L=2, U=2, p=1, b=VECTORS)
def lu_solve(L: Any, U: Any, p: Any, b: Any) -> Any:
    """x with A x = b from (L, U, p) of A, for a vector or the columns of a matrix."""
    require_rows("lu_solve", require_square("lu_solve", L=L, U=U), p=p, b=b)
    y = substitute(entries(L), permuted(entries(b), entries(p)), lower=True, unit=True)
    return traced(substitute(entries(U), y, lower=False))


def permuted(b: np.ndarray, p: np.ndarray) -> np.ndarray:
    """b[p], of entries: by selects, unless p is known."""
    n = len(b)
    if all((place := constant(x)) is not None and 0 <= place < n for x in p):
        return b[[int(constant(x) or 0.0) for x in p]]
    columns = b.reshape(n, -1)
    if n >= rolled.LU:
        return rolled.columns_of(rolled.permuted(columns, p)).reshape(b.shape)
    result = np.empty(columns.shape, dtype=object)
    for i, c in np.ndindex(result.shape):
        result[i, c] = columns[0, c]
        for j in range(1, n):
            result[i, c] = (p[i] == float(j)).where(columns[j, c], result[i, c])
    return result.reshape(b.shape)


@for_arrays(A=2, b=VECTORS)
def solve(A: Any, b: Any, *, assume: str = "general") -> Any:
    """x with A x = b, for a vector or the columns of a matrix, by LU with partial pivoting.

    `assume`: "general"; "symmetric", by LDL^T without pivoting; "positive" (definite), by Cholesky. The last two read the lower
    triangle only. Derivatives reuse the factorisation:  dx = A^-1 (db - dA x).
    """
    require_rows("solve", require_square("solve", A=A), b=b)
    A = entries(A)
    return _solved(assume, A, tuple(map(stop_gradient, _factor("solve", A, assume))), entries(b), ORDERS)


def _solved(assume: str, A: Any, factor: Any, b: Any, orders: int) -> Any:
    """A^-1 b, and its derivatives by the same factor for the first orders. Beyond, through a factorisation within the rule."""

    def value(A: Any, factor: Any, b: Any) -> Any:
        return traced(_SUBSTITUTE[assume]([entries(x) for x in factor], entries(b)))

    def rule(args: Any, x: Any, tangents: Any) -> Any:
        A, factor, _ = args
        dA, rest = entries(tangents[0]), entries(tangents[2])
        dA = dA if assume == "general" else mirrored(dA)
        columns, known = rest.reshape(len(A), -1), entries(x).reshape(len(A), -1)
        for i, c in np.ndindex(columns.shape):
            columns[i, c] = less_dot(columns[i, c], dA[i], known[:, c])
        if orders > 1:
            return _solved(assume, A, factor, traced(rest), orders - 1)
        return value(A, _factor("solve", entries(A), assume), rest)

    return with_rule(value, rule)(traced(A), factor, traced(b))


ORDERS = 2  # derivatives of solve that reuse its factorisation; higher ones are exact, too


def _factor(function: str, A: np.ndarray, assume: str) -> tuple[Any, ...]:
    if assume not in _SUBSTITUTE:
        raise ShapeError(f"{caller()}: linalg.{function} assumes one of {', '.join(map(repr, _SUBSTITUTE))}, got {assume!r}")
    if assume == "general":
        return eliminate(A)[:2]
    return ldl_factor(A) if assume == "symmetric" else (cholesky_factor(A),)


def _lu_substitute(factor: Any, b: np.ndarray) -> np.ndarray:
    packed, p = factor
    return substitute(packed, substitute(packed, permuted(b, p), lower=True, unit=True), lower=False)


_SUBSTITUTE: dict[str, Any] = {
    "general": _lu_substitute,
    "symmetric": lambda factor, b: ldl_substitute(factor[0], factor[1], b),
    "positive": lambda factor, b: cholesky_substitute(factor[0], b),
}


@for_arrays(A=2)
def inverse(A: Any, *, assume: str = "general") -> Any:
    """X = A^-1, the solution of A X = I; `assume` as in `solve`. Its derivative is -X dA X."""
    n = require_square("inverse", A=A)

    def value(A: Any) -> Any:
        return traced(_SUBSTITUTE[assume](_factor("inverse", entries(A), assume), entries(np.eye(n))))

    def rule(args: Any, X: Any, tangents: Any) -> Any:
        dA, X = entries(tangents[0]), entries(X)
        return traced(-product(product(X, dA if assume == "general" else mirrored(dA)), X))

    return with_rule(value, rule)(A)


@for_arrays(A=2)
def det(A: Any) -> Any:
    """The determinant of A: the product of the pivots, first to last, with the sign of the permutation."""
    require_square("det", A=A)
    packed, _, value = eliminate(entries(A))
    for i in range(len(packed)):
        value = value * packed[i, i]
    return value
