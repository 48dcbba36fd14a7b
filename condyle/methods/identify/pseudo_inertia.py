"""Pseudo-inertias: the 4 x 4 matrices of a body's mass, first moments and second moments, positive definite for real bodies.

    P = [ Sigma  h ]      Sigma = 1/2 trace(I) 1 - I:  the integral of x x^T dm,   h = m c
        [ h^T    m ]

A body of positive density has P > 0, and every P > 0 is that of such a body (Wensing, Kim and Slotine 2018). All of them are
reached by

    P = (U_0 W)(U_0 W)^T,   W upper triangular,   W_ii = exp(x_i),   W_ij = x_k  for i < j

with P_0 = U_0 U_0^T the nominal one: ten coordinates x without bounds, x = 0 the nominal body (log-Cholesky, Rucker and Wensing
2022). The distance of P from P_0 that does not depend on units or frames is Bregman's, of -log det:

    d(P, P_0) = trace(P_0^-1 P) - log det(P_0^-1 P) - 4 = sum over i of (exp(2 x_i) - 1 - 2 x_i) + sum over i < j of W_ij^2

a sum of ten squares, so least squares takes it as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.methods.identify.regressor import Array
from condyle.tape.array import select

UPPER = tuple((i, j) for i in range(4) for j in range(i + 1, 4))
NEAR = 1e-2  # |x| below which exp(2 x) - 1 - 2 x is computed by its series
LEAST_RADIUS, LEAST_SHARE = 1e-3, 0.1  # m, and of the distance from its frame: what a point or a rod is given across


def pseudo_inertia(pi: Array) -> Array:
    """P, (4, 4), of the ten numbers m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the origin of the link's frame."""
    m, hx, hy, hz, xx, xy, yy, xz, yz, zz = pi
    half = (xx + yy + zz) * 0.5
    rows = [[half - xx, -xy, -xz, hx], [-xy, half - yy, -yz, hy], [-xz, -yz, half - zz, hz], [hx, hy, hz, m]]
    return np.array(rows)


def inertial_numbers(P: Array) -> Array:
    """The ten numbers of `pseudo_inertia`'s argument from P."""
    xx, yy, zz = P[1][1] + P[2][2], P[0][0] + P[2][2], P[0][0] + P[1][1]
    return np.array([P[3][3], P[0][3], P[1][3], P[2][3], xx, -P[0][1], yy, -P[0][2], -P[1][2], zz])


def upper_factor(P: Array) -> Array:
    """U, upper triangular with a positive diagonal, U U^T = P; a body without extent is given some across."""
    P = np.array(P, dtype=float)
    h, m = P[:3, 3].copy(), P[3, 3]
    # second moments about the centre of mass, which a point or a rod has none of in some directions
    central = P[:3, :3] - np.outer(h, h) / m
    values, vectors = np.linalg.eigh((central + central.T) / 2.0)
    least = max(LEAST_RADIUS**2, LEAST_SHARE**2 * np.trace(P[:3, :3]) / m)
    central = (vectors * np.maximum(values, m * least)) @ vectors.T
    P[:3, :3] = central + np.outer(h, h) / m
    flipped = np.linalg.cholesky(P[::-1, ::-1])
    return np.asarray(flipped[::-1, ::-1])


def scaled_factor(x: Array) -> Array:
    """W, (4, 4), of the ten numbers x: four of the diagonal, then six above it; also traced."""
    W = np.zeros((4, 4), dtype=object)
    for i in range(4):
        W[i, i] = np.exp(x[i])
    for k, (i, j) in enumerate(UPPER):
        W[i, j] = x[4 + k]
    return W


def body(U: Array, x: Array) -> Array:
    """The ten inertial numbers of  (U W)(U W)^T;  also traced."""
    W = scaled_factor(x)
    L = [[sum((U[i, k] * W[k, j] for k in range(i, j + 1)), 0.0) for j in range(4)] for i in range(4)]
    P = [[sum((L[i][k] * L[j][k] for k in range(max(i, j), 4)), 0.0) for j in range(4)] for i in range(4)]
    return inertial_numbers(np.array(P))


def bregman_residuals(x: Array) -> Array:
    """Ten numbers whose squares add up to d(P, P_0), smooth at x = 0; also traced."""
    return np.concatenate([[_root(each) for each in x[:4]], x[4:]])


def _root(x: Any) -> Any:
    """sign(x) sqrt(exp(2 x) - 1 - 2 x), by its series near zero."""
    series = 1.0 + x * (2.0 / 3.0 + x * (1.0 / 3.0 + x * (2.0 / 15.0 + x * (2.0 / 45.0))))
    near = np.abs(x) < NEAR
    away = select(near, NEAR, x)
    exact = (np.exp(away + away) - 1.0 - (away + away)) / (2.0 * away * away)
    return np.sqrt(2.0) * x * np.sqrt(select(near, series, exact))
