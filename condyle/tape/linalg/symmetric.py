"""Factorisations of symmetric matrices: Cholesky, LDL^T, their solves and rank-1 updates. Only the lower triangle is read.

    cholesky    l_jj = sqrt(a_jj - l_j0^2 - l_j1^2 - ...),  l_ij = (a_ij - l_i0 l_j0 - l_i1 l_j1 - ...) * (1 / l_jj)
    ldl         d_j = a_jj - w_j0 l_j0 - ...,  w_ij = a_ij - w_i0 l_j0 - ...,  l_ij = w_ij * (1 / d_j)

A matrix that is not positive definite gives NaN from its first pivot that is not positive; LDL^T does not pivot: its
leading minors must not be zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
from condyle.tape.scalar import constant


@for_arrays(A=2)
def cholesky(A: Any) -> Any:
    """L, lower triangular, with L L^T = A for a symmetric positive definite A."""
    n = require_square("cholesky", A=A)
    A = entries(A)
    if not _roll(A):
        return traced(cholesky_factor(A))

    def rule(args: Any, result: Any, tangents: Any) -> Any:
        # dL = L P with the lower triangle P of L^-1 dA L^-T, its diagonal halved (Smith 1995)
        L, dA = entries(result), mirrored(entries(tangents[0]))
        P = substitute(L, substitute(L, dA, lower=True).T, lower=True)
        P[np.triu_indices(n, 1)] = scalar(0.0)
        P[range(n), range(n)] = 0.5 * np.diagonal(P)
        return traced(product(L, P))

    return with_rule(lambda A: traced(cholesky_factor(entries(A))), rule)(traced(A))


def cholesky_factor(A: np.ndarray) -> np.ndarray:
    """L of entries."""
    n = len(A)
    if _roll(A):
        return rolled.lower_factor(A, _cholesky_block)[0]
    L = zeros(n, n)
    for j in range(n):
        L[j, j] = np.sqrt(less_dot(A[j, j], L[j, :j], L[j, :j]))
        inverse = 1.0 / L[j, j]
        for i in range(j + 1, n):
            L[i, j] = less_dot(A[i, j], L[i, :j], L[j, :j]) * inverse
    return L


@for_arrays(L=2, b=VECTORS)
def cholesky_solve(L: Any, b: Any) -> Any:
    """x with L L^T x = b, for a vector or the columns of a matrix."""
    require_rows("cholesky_solve", require_square("cholesky_solve", L=L), b=b)
    return traced(cholesky_substitute(entries(L), entries(b)))


def cholesky_substitute(L: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x with L L^T x = b, of entries."""
    return substitute(L.T, substitute(L, b, lower=True), lower=False)


@for_arrays(A=2)
def ldl(A: Any) -> tuple[Any, Any]:
    """(L, d) with L diag(d) L^T = A, L unit lower triangular, for a symmetric A whose leading minors are not zero."""
    require_square("ldl", A=A)
    L, d = ldl_factor(entries(A))
    return traced(L), traced(d)


def ldl_factor(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(L, d) of entries."""
    n = len(A)
    if _roll(A):
        L, W = rolled.lower_factor(A, _ldl_block)
        return L, np.diagonal(W).copy()
    L, W, d = entries(np.eye(n)), zeros(n, n), zeros(n)
    for j in range(n):
        d[j] = less_dot(A[j, j], W[j, :j], L[j, :j])
        inverse = 1.0 / d[j]
        for i in range(j + 1, n):
            W[i, j] = less_dot(A[i, j], W[i, :j], L[j, :j])
            L[i, j] = W[i, j] * inverse
    return L, d


@for_arrays(L=2, d=1, b=VECTORS)
def ldl_solve(L: Any, d: Any, b: Any) -> Any:
    """x with L diag(d) L^T x = b, for a vector or the columns of a matrix."""
    require_rows("ldl_solve", require_square("ldl_solve", L=L), d=d, b=b)
    return traced(ldl_substitute(entries(L), entries(d), entries(b)))


def ldl_substitute(L: np.ndarray, d: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x with L diag(d) L^T x = b, of entries."""
    y = substitute(L, b, lower=True, unit=True)
    inverse = np.array([1.0 / x for x in d], dtype=object).reshape(-1, *[1] * (b.ndim - 1))
    return substitute(L.T, y * inverse, lower=False, unit=True)


# ---- rank-1 updates


@for_arrays(L=2, x=1)
def cholesky_update(L: Any, x: Any) -> Any:
    """The Cholesky factor of L L^T + x x^T, by plane rotations."""
    n = require_square("cholesky_update", L=L)
    require_rows("cholesky_update", n, x=x)
    L, x = entries(L), entries(x)
    for k in range(n):
        r = np.sqrt(fma(x[k], x[k], L[k, k] * L[k, k]))
        inverse = 1.0 / r
        c, s = L[k, k] * inverse, x[k] * inverse
        L[k, k] = r
        for i in range(k + 1, n):
            L[i, k], x[i] = fma(s, x[i], c * L[i, k]), fma(-s, L[i, k], c * x[i])
    return traced(_lower(L))


@for_arrays(L=2, x=1)
def cholesky_downdate(L: Any, x: Any) -> Any:
    """The Cholesky factor of L L^T - x x^T, by hyperbolic rotations; NaN if that is not positive definite."""
    n = require_square("cholesky_downdate", L=L)
    require_rows("cholesky_downdate", n, x=x)
    L, x = entries(L), entries(x)
    for k in range(n):
        # (l - x)(l + x) keeps the digits that l^2 - x^2 would lose
        r = np.sqrt((L[k, k] - x[k]) * (L[k, k] + x[k]))
        inverse = 1.0 / L[k, k]
        c, s = r * inverse, x[k] * inverse
        back = 1.0 / c
        L[k, k] = r
        for i in range(k + 1, n):
            L[i, k] = fma(-s, x[i], L[i, k]) * back
            x[i] = fma(-s, L[i, k], c * x[i])
    return traced(_lower(L))


@for_arrays(L=2, d=1, x=1, alpha=0)
def ldl_update(L: Any, d: Any, x: Any, alpha: Any = 1.0) -> tuple[Any, Any]:
    """(L, d) of L diag(d) L^T + alpha x x^T; a negative alpha is a downdate (Gill, Golub, Murray, Saunders 1974, method C1)."""
    n = require_square("ldl_update", L=L)
    require_rows("ldl_update", n, d=d, x=x)
    L, d, x, a = entries(L), entries(d), entries(x), entries(alpha)[()]
    for k in range(n):
        ap = a * x[k]
        new = fma(ap, x[k], d[k])
        inverse = 1.0 / new
        beta = ap * inverse
        for i in range(k + 1, n):
            x[i] = fma(-x[k], L[i, k], x[i])
            L[i, k] = fma(beta, x[i], L[i, k])
        a, d[k] = (a * d[k]) * inverse, new
    return traced(_lower(L)), traced(d)


def _lower(L: np.ndarray) -> np.ndarray:
    zero = zeros(1)[0]
    for i, j in np.ndindex(L.shape):
        if j > i:
            L[i, j] = zero
    return L


def mirrored(A: np.ndarray) -> np.ndarray:
    """The symmetric matrix with this lower triangle."""
    A = A.copy()
    for i, j in zip(*np.triu_indices(len(A), 1), strict=True):
        A[i, j] = A[j, i]
    return A


# ---- as loops


def _roll(A: np.ndarray) -> bool:
    """Whether the factorisation is a loop: from some size on, unless half of the lower triangle is structurally zero."""
    lower = A[np.tril_indices(len(A))]
    return len(A) >= max(rolled.CHOLESKY, rolled.BLOCK + 1) and 2 * sum(constant(x) != 0.0 for x in lower) > len(lower)


def _cholesky_block(S: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    L = cholesky_factor(S)
    return L, L, [1.0 / x for x in np.diagonal(L)]


def _ldl_block(S: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    L, d = ldl_factor(S)
    W = zeros(*L.shape)
    W[range(len(d)), range(len(d))] = d
    return L, W, [1.0 / x for x in d]
