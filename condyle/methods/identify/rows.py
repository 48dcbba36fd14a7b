"""The linear equations of a log: filtered and thinned rows of the regressor and of the joint forces.

Near zero speed dry friction may have any size up to its full one, so samples where a joint is slower than `stick_speed` get no
weight in the equations of this joint: its row is the sum of  g[n] w[n] (tau - Y pi)  over samples n, g the kernel of
`filtering.py` and w zero near rest, one elsewhere. White noise of the samples then has a covariance in the rows
that is known, sum of g[n] g[n + l D] w[n]^2 between rows l apart; the rows of a joint are multiplied by the inverse of its
Cholesky factor, so that their noise is white and of one size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.methods.identify.base_parameters import BaseParameters
from condyle.methods.identify.filtering import SPAN, Motion, root_raised_cosine
from condyle.methods.identify.regressor import Array

CHUNK = 64  # rows made at a time: it bounds the memory
LEAST_WEIGHT = 0.3  # of g^2: rows with less of it away from rest are left out
STICK_SHARE = 0.1  # of the largest speed of a joint: the default of stick_speed
SINGULAR = 0.02  # of the variance of a row: the least that is taken as its own, where its neighbours have nearly the same samples
RAMP = 1.5  # from stick_speed to this multiple of it the weight rises to one


@dataclass(frozen=True)
class Rows:
    """Equations  b = A beta + noise:  A (R, n, n_b), b (R, n), of each joint; rows without weight are zero, `used` is (R, n)."""

    t: Array
    A: Array
    b: Array
    used: Array
    rate: float  # rows per second


def moving_weights(motion: Motion, stick_speed: Array) -> Array:
    """w, (T, n): zero below the speed `stick_speed`, rising smoothly to one."""
    s = np.clip((np.abs(motion.v) / np.maximum(stick_speed, 1e-300) - 1.0) / (RAMP - 1.0), 0.0, 1.0)
    w: Array = np.where(stick_speed > 0.0, s * s * (3.0 - 2.0 * s), 1.0)
    return w


def linear_rows(base: BaseParameters, motion: Motion, stick_speed: Array) -> Rows:
    """The rows of one motion, 2 x cut-off of them per second."""
    D = max(round(0.5 / (motion.cutoff * motion.dt)), 1)
    g = root_raised_cosine(D)
    half, T, n = SPAN * D, len(motion.t), base.regressor.nv
    w = moving_weights(motion, stick_speed)
    centres = np.arange(0, T - T % D, D) if motion.periodic else np.arange(half, T - half, D)
    A, b = np.zeros((len(centres), n, len(base.independent))), np.zeros((len(centres), n))
    for begin in range(0, len(centres), CHUNK):
        some = centres[begin : begin + CHUNK]
        at = np.arange(some[0] - half, some[-1] + half + 1) % T
        Y, known = base.regressor.with_known(motion.q[at], motion.v[at], motion.a[at], motion.direction[at])
        Y, tau = Y[..., base.independent], motion.tau[at] - known
        for k, centre in enumerate(some - some[0]):
            span = slice(centre, centre + 2 * half + 1)
            gw = g[:, None] * w[at[span]]
            A[begin + k] = np.einsum("mj,mjc->jc", gw, Y[span])
            b[begin + k] = np.einsum("mj,mj->j", gw, tau[span])
    C = _covariance(g, w, centres, D)
    used = C[:, 0] > LEAST_WEIGHT
    A, b = _whitened(C, used, A, b)
    return Rows(motion.t[centres], A, b, used, 1.0 / (D * motion.dt))


def _covariance(g: Array, w: Array, centres: Array, D: int) -> Array:
    """(R, 2 SPAN + 1, n): covariance of the noise of row r with that of row r - l, for samples with white noise of size one."""
    half = SPAN * D
    C = np.zeros((len(centres), 2 * SPAN + 1, w.shape[1]))
    for lag in range(2 * SPAN + 1):
        # samples that both windows have, those of row r from its beginning
        both = g[: len(g) - lag * D] * g[lag * D :]
        for r in range(lag, len(centres)):
            at = np.arange(centres[r] - half, centres[r] - half + len(both)) % len(w)
            C[r, lag] = both @ w[at] ** 2
    return C


def _whitened(C: Array, used: Array, A: Array, b: Array) -> tuple[Array, Array]:
    """A and b with rows of white noise of size one: L^-1 A and L^-1 b of every joint, C = L L^T banded; unused rows are zero."""
    A, b = A * used[..., None], b * used
    band = C.shape[1] - 1
    L = np.zeros_like(C)
    for r in range(len(C)):
        for lag in range(min(band, r), 0, -1):
            pair = used[r] & used[r - lag]
            rest = C[r, lag] - sum((L[r, k] * L[r - lag, k - lag] for k in range(lag + 1, min(band, r) + 1)), 0.0)
            L[r, lag] = np.where(pair, rest / L[r - lag, 0], 0.0)
            A[r] -= L[r, lag][:, None] * A[r - lag]
            b[r] -= L[r, lag] * b[r - lag]
        left = C[r, 0] - np.sum(L[r, 1:] ** 2, axis=0)
        L[r, 0] = np.sqrt(np.where(used[r], np.maximum(left, SINGULAR), 1.0))
        A[r] /= L[r, 0][:, None]
        b[r] /= L[r, 0]
    return A, b


def default_stick_speed(motion: Motion) -> Array:
    """A share of the largest speed of each joint, (n,); zero for a joint that does not move."""
    return np.asarray(STICK_SHARE * np.max(np.abs(motion.v), axis=0))
