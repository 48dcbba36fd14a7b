"""Weighted least squares with the covariance of what it finds.

    beta = argmin  sum over rows r of  e_r^T S^-1 e_r,    e_r = b_r - A_r beta

S, (n, n), is the covariance of the noise of all joints in one row. It is estimated from the residuals, each joint's by its own
degrees of freedom (rows less its share of the fitted numbers), and the fit repeated with it. With N = sum A^T S^-1 A, the
covariance of beta is

    N^-1 (sum over lags l and rows r of  A_r^T S^-1 G_l S^-1 A_{r+l}) N^-1,    G_l = E[e_r e_{r+l}^T]

which is N^-1 for white residuals. Correlations G_l of a joint enter where the residuals show them: |rho_l| > 3 / sqrt(rows).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from condyle.methods.identify.regressor import Array
from condyle.methods.identify.rows import Rows

REWEIGHTED = 4  # fits: the first with one weight for all joints
LAGS = 8  # rows over which residuals may be correlated
SIGNIFICANT = 3.0  # standard deviations of a correlation of white noise
ENOUGH = 10.0  # rows per joint and joint pair, below which S is diagonal


@dataclass(frozen=True)
class Estimate:
    """beta (n_b,), its covariance and information, the noise covariance S (n, n) and the residuals of each motion (R, n)."""

    beta: Array
    covariance: Array
    information: Array
    noise: Array
    residuals: tuple[Array, ...]
    correlations: Array  # (LAGS, n): of the residuals of each joint, zero where they do not differ from white noise
    condition: float  # of the equations with columns of length one

    @property
    def standard_errors(self) -> Array:
        """sqrt of the diagonal of the covariance, (n_b,)."""
        return np.sqrt(np.diag(self.covariance))


def column_scaled(parts: Sequence[Rows], S: Array) -> tuple[Array, Array]:
    """(singular values, right singular vectors) of the equations whose columns have length one."""
    root = np.linalg.inv(np.linalg.cholesky(S))
    W = np.concatenate([np.einsum("ij,rjc->ric", root, part.A).reshape(-1, part.A.shape[-1]) for part in parts])
    size = np.linalg.norm(W, axis=0)
    _, s, Vt = np.linalg.svd(W / np.where(size > 0.0, size, 1.0), full_matrices=False)
    return s, Vt


def least_squares(parts: Sequence[Rows]) -> Estimate:
    """The estimate from the rows of one or several motions."""
    n, p = parts[0].A.shape[1:]
    A, b, used = (np.concatenate([getattr(part, what) for part in parts]) for what in ("A", "b", "used"))
    S = np.eye(n)
    beta, N = np.zeros(p), np.zeros((p, p))
    for k in range(REWEIGHTED):
        inverse = np.linalg.inv(S)
        weighted = np.einsum("ij,rjc->ric", inverse, A)
        N = np.einsum("ria,rib->ab", A, weighted)
        beta = _solved(N, np.einsum("ria,ri->a", weighted, b))
        if k < REWEIGHTED - 1:
            S = _noise(A, b - A @ beta, used, N, inverse, full=np.min(used.sum(axis=0)) > ENOUGH * n)
    residuals = [part.b - part.A @ beta for part in parts]
    rho = _correlations(residuals, [part.used for part in parts])
    N_inverse = _inverse(N)
    covariance = N_inverse
    if np.any(rho):
        middle = np.zeros_like(N)
        for part in parts:
            weighted = np.einsum("ij,rjc->ric", np.linalg.inv(S), part.A)
            for lag, row in enumerate(rho, 1):
                if np.any(row):
                    both = np.einsum("rja,j,rjb->ab", weighted[:-lag], row * np.diag(S), weighted[lag:])
                    middle += both + both.T
        covariance = _positive(N_inverse + N_inverse @ middle @ N_inverse, N_inverse)
    return Estimate(beta, covariance, N, S, tuple(residuals), rho, condition_number(parts, S))


def condition_number(parts: Sequence[Rows], S: Array) -> float:
    """Largest over smallest singular value of the equations with columns of length one."""
    s, _ = column_scaled(parts, S)
    return float(s[0] / max(s[-1], 1e-300))


def _noise(A: Array, e: Array, used: Array, N: Array, inverse: Array, *, full: bool) -> Array:
    """S from residuals: cross products over the rows that both joints have, less the numbers fitted to them."""
    leverage = np.einsum("rja,ab,rjb,j->j", A, _inverse(N), A, np.diag(inverse))
    freedom = np.maximum(used.sum(axis=0) - leverage, 1.0)
    deviation = np.sqrt(np.maximum(np.einsum("rj,rj->j", e, e) / freedom, 1e-24 * (np.max(np.abs(e)) + 1e-12) ** 2 + 1e-30))
    if not full:
        return np.diag(deviation**2)
    both = used.astype(float).T @ used
    scaled = e / np.linalg.norm(e, axis=0).clip(1e-300)
    share = np.sqrt(np.outer(np.diag(both), np.diag(both))) / np.maximum(both, 1.0)
    rho = scaled.T @ scaled * share
    np.fill_diagonal(rho, 1.0)
    # correlations that are noise themselves would only add to it
    rho[np.abs(rho) < SIGNIFICANT / np.sqrt(np.maximum(both, 1.0))] = 0.0
    if np.linalg.eigvalsh(rho)[0] < 1e-3:
        rho = np.eye(len(rho))
    return np.asarray(rho * np.outer(deviation, deviation))


def _correlations(residuals: Sequence[Array], used: Sequence[Array]) -> Array:
    """rho of each joint at lags 1 to LAGS, (LAGS, n), zero where it is no larger than that of white noise."""
    n = residuals[0].shape[1]
    rho = np.zeros((LAGS, n))
    power = sum((e * e).sum(axis=0) for e in residuals) / np.maximum(sum(u.sum(axis=0) for u in used), 1)
    for lag in range(1, LAGS + 1):
        pairs = sum((u[:-lag] & u[lag:]).sum(axis=0) for u in used if len(u) > lag)
        product = sum((e[:-lag] * e[lag:]).sum(axis=0) for e in residuals if len(e) > lag)
        pairs = np.maximum(pairs, 1)
        found = product / pairs / np.maximum(power, 1e-300)
        rho[lag - 1] = np.where(np.abs(found) > SIGNIFICANT / np.sqrt(pairs), found, 0.0)
    return rho


def _solved(N: Array, y: Array) -> Array:
    d = 1.0 / np.sqrt(np.maximum(np.diag(N), 1e-300))
    return np.asarray(d * np.linalg.lstsq(N * np.outer(d, d), d * y, rcond=1e-15)[0])


def _inverse(N: Array) -> Array:
    d = 1.0 / np.sqrt(np.maximum(np.diag(N), 1e-300))
    return np.asarray(np.linalg.pinv(N * np.outer(d, d), rcond=1e-15, hermitian=True) * np.outer(d, d))


def _positive(C: Array, floor: Array) -> Array:
    """C with variances of at least a hundredth of those of `floor`: estimated correlations may make them negative."""
    d = np.sqrt(np.diag(floor))
    values, vectors = np.linalg.eigh(C / np.outer(d, d))
    least = 0.01 * np.linalg.eigvalsh(floor / np.outer(d, d))[0]
    fixed = (vectors * np.maximum(values, least)) @ vectors.T
    return np.asarray(fixed * np.outer(d, d))
