"""Products, and triangular solves.

matmul            c_ij = a_i0 b_0j + a_i1 b_1j + ...
solve_triangular  x_i = (b_i - sum over the x already known, in the order they became known) * (1 / l_ii)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.errors import ShapeError
from condyle.tape.linalg import rolled
from condyle.tape.linalg.dispatch import VECTORS, dot, entries, for_arrays, less_dot, require_rows, require_square, traced
from condyle.tape.linalg.rule import with_rule
from condyle.tape.scalar import caller
from condyle.tape.table import Table


@for_arrays(A=2, B=VECTORS)
def matmul(A: Any, B: Any) -> Any:
    """A B, of a matrix (m, k) and a matrix (k, n) or a vector (k,); of two tables, a table. A table times a vector is a loop."""
    if A.shape[1] != len(B):
        raise ShapeError(f"{caller()}: linalg.matmul needs as many rows in 'B' as 'A' has columns, got {A.shape} and {B.shape}")
    if isinstance(A, Table) and isinstance(B, Table) and B.ndim == 2:
        return rolled.product(A, B)
    if isinstance(A, Table) and len(B.shape) == 1 and A.rows * A.columns > rolled.FEW:
        return traced(rolled.times_vector(A, entries(B)))
    A, B = entries(A), entries(B)
    if rolled.terms(A, B.reshape(len(B), -1)) <= rolled.TERMS:
        return traced(product(A, B))

    def rule(args: Any, result: Any, tangents: Any) -> Any:
        (A, B), (dA, dB) = map(entries, args), map(entries, tangents)
        return traced(product(dA, B) + product(A, dB))

    return with_rule(lambda A, B: traced(product(entries(A), entries(B))), rule)(traced(A), traced(B))


def product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A B, of entries."""
    columns = B.reshape(len(B), -1)
    if rolled.terms(A, columns) > rolled.TERMS:
        return rolled.columns_of(rolled.product(A, columns)).reshape(len(A), *B.shape[1:])
    result = np.empty((len(A), columns.shape[1]), dtype=object)
    for i, j in np.ndindex(result.shape):
        result[i, j] = dot(A[i], columns[:, j])
    return result.reshape(len(A), *B.shape[1:])


@for_arrays(L=2, b=VECTORS)
def solve_triangular(L: Any, b: Any, *, lower: bool = True, trans: bool = False, unit_diagonal: bool = False) -> Any:
    """x with L x = b, or L^T x = b if `trans`, for a vector or the columns of a matrix; the other triangle is not read."""
    n = require_square("solve_triangular", L=L)
    require_rows("solve_triangular", n, b=b)
    T, rhs = entries(L), entries(b)
    return traced(substitute(T.T if trans else T, rhs, lower=lower != trans, unit=unit_diagonal))


def substitute(T: np.ndarray, b: np.ndarray, *, lower: bool, unit: bool = False) -> np.ndarray:
    """x with T x = b, of entries: forward if T is lower triangular, else backward."""
    n = len(T)
    if rolled.terms(T, b.reshape(n, -1)) > rolled.SUBSTITUTION:
        return rolled.substitute(T, b.reshape(n, -1), lower=lower, unit=unit).reshape(b.shape)
    order = range(n) if lower else range(n - 1, -1, -1)
    inverse = None if unit else [1.0 / T[i, i] for i in range(n)]
    columns = b.reshape(n, -1)
    x = np.empty(columns.shape, dtype=object)
    for c in range(columns.shape[1]):
        for i in order:
            known = range(i) if lower else range(n - 1, i, -1)
            s = less_dot(columns[i, c], [T[i, k] for k in known], [x[k, c] for k in known])
            x[i, c] = s if inverse is None else s * inverse[i]
    return x.reshape(b.shape)
