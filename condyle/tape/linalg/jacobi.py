"""Eigenvalues and eigenvectors of a small symmetric matrix, by cyclic Jacobi rotations.

A sweep annihilates the entries (0, 1), (0, 2), ..., (n - 2, n - 1) in this order. An entry that is negligible beside both of its
diagonal entries becomes zero; the loop ends for a lane when all are zero, after 5 to 8 sweeps in float64. The last step sorts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.tape.linalg.dispatch import entries, fma, for_arrays, require_square, scalar, traced, zeros
from condyle.tape.linalg.products import product
from condyle.tape.linalg.rule import with_rule
from condyle.tape.linalg.symmetric import mirrored
from condyle.tape.loop import loop

SWEEPS = 24  # at most; convergence is quadratic, and a lane that has converged stays as it is
NEGLIGIBLE = 128.0  # an entry is, if a sum with this many times it leaves both of its diagonal entries as they are


@for_arrays(A=2)
def eigh(A: Any, *, sweeps: int = SWEEPS) -> tuple[Any, Any]:
    """(w, V) with A V = V diag(w), w ascending and V orthogonal, for a symmetric A, of which the lower triangle is read.

    Derivatives are those of distinct eigenvalues. Between eigenvectors whose eigenvalues are equal in all bits, the derivative
    takes the rotation for zero; between nearly equal ones it is large, as the rotation is. Signs of columns are as they come.
    """
    n = require_square("eigh", A=A)

    def value(A: Any) -> tuple[Any, Any]:
        a, V = entries(A), np.eye(n).astype(object)
        if n > 1:
            lower = np.tril_indices(n)
            start = (traced(a[lower]), V)
            a[lower], V = loop(
                lambda i, state: _sweep(state[0], state[1], lower), start, sweeps, until=lambda state: _diagonal(state[0], n)
            )
        return _sorted(entries(np.diagonal(a)), entries(V))

    def rule(args: Any, result: Any, tangents: Any) -> tuple[Any, Any]:
        # in the basis of the eigenvectors: dw_i = b_ii,  dV = V F  with  f_ij = b_ij / (w_j - w_i)
        w, V = map(entries, result)
        B = product(V.T, product(mirrored(entries(tangents[0])), V))
        F = zeros(n, n)
        for i, j in np.ndindex(n, n):
            if i != j:
                gap = w[j] - w[i]
                equal = gap == 0.0
                F[i, j] = B[i, j] * equal.where(0.0, 1.0 / equal.where(1.0, gap))
        return traced(np.diagonal(B)), traced(product(V, F))

    w, V = with_rule(value, rule)(A)
    return w, V


def _diagonal(packed: Any, n: int) -> Any:
    """Whether all entries beside the diagonal are zero."""
    beside = [x for (i, j), x in zip(zip(*np.tril_indices(n), strict=True), packed, strict=True) if i != j]
    total = abs(beside[0])
    for x in beside[1:]:
        total = total + abs(x)
    return total == 0.0


def _sweep(packed: Any, V: Any, lower: Any) -> tuple[Any, Any]:
    n = len(V)
    a, V = np.empty((n, n), dtype=object), entries(V)
    a[lower] = packed
    for p in range(n):
        for q in range(p + 1, n):
            _rotate(a, V, p, q)
    return traced(a[lower]), traced(V)


def _rotate(a: np.ndarray, V: np.ndarray, p: int, q: int) -> None:
    """Annihilate a_qp: t is the tangent of the smaller angle that does it (Golub and Van Loan, section 8.5)."""
    off, size = a[q, p], NEGLIGIBLE * abs(a[q, p])
    small = (abs(a[p, p]) + size == abs(a[p, p])) & (abs(a[q, q]) + size == abs(a[q, q]))
    theta = (0.5 * (a[q, q] - a[p, p])) / small.where(1.0, off)
    root = 1.0 / (abs(theta) + np.sqrt(fma(theta, theta, scalar(1.0))))
    t = small.where(0.0, (theta < 0.0).where(-root, root))
    c = 1.0 / np.sqrt(fma(t, t, scalar(1.0)))
    s = t * c
    a[p, p], a[q, q] = fma(-t, off, a[p, p]), fma(t, off, a[q, q])
    a[q, p] = scalar(0.0)
    for r in range(len(a)):
        if r not in (p, q):
            x, y = (max(r, p), min(r, p)), (max(r, q), min(r, q))
            a[x], a[y] = fma(-s, a[y], c * a[x]), fma(s, a[x], c * a[y])
        V[r, p], V[r, q] = fma(-s, V[r, q], c * V[r, p]), fma(s, V[r, p], c * V[r, q])


def _sorted(w: np.ndarray, V: np.ndarray) -> tuple[Any, Any]:
    """Ascending, by neighbours that change places: equal ones keep their order."""
    columns = np.vstack([w, V])
    n = len(w)
    for last in range(n - 1, 0, -1):
        for j in range(last):
            change = columns[0, j] > columns[0, j + 1]
            for row in columns:
                row[j], row[j + 1] = change.where(row[j + 1], row[j]), change.where(row[j], row[j + 1])
    return traced(columns[0]), traced(columns[1:])
