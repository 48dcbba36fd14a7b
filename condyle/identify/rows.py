"""The linear equations of a log: filtered and thinned rows of the regressor and of the joint forces.

Near zero speed dry friction may have any size up to its full one, so samples where a joint is slower than `stick_speed` get no
weight in the equations of this joint: its row is the sum of  g[n] w[n] (tau - Y pi)  over samples n, g the kernel of
`condyle/identify/filtering.py` and w zero near rest, one elsewhere. Rows are divided by sqrt(sum g^2 w^2), so their noise has one size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.identify.base_parameters import BaseParameters
from condyle.identify.filtering import SPAN, Motion, root_raised_cosine
from condyle.identify.regressor import Array

CHUNK = 64  # rows made at a time: it bounds the memory
LEAST_WEIGHT = 0.3  # of g^2: rows with less of it away from rest are left out
STICK_SHARE = 0.03  # of the largest speed of a joint: the default of stick_speed
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
    D = max(int(round(0.5 / (motion.cutoff * motion.dt))), 1)
    g = root_raised_cosine(D)
    half, T, n = SPAN * D, len(motion.t), base.regressor.nv
    w = moving_weights(motion, stick_speed)
    centres = np.arange(0, T - T % D, D) if motion.periodic else np.arange(half, T - half, D)
    A, b, weight = np.zeros((len(centres), n, len(base.independent))), np.zeros((len(centres), n)), np.zeros((len(centres), n))
    for begin in range(0, len(centres), CHUNK):
        some = centres[begin : begin + CHUNK]
        at = np.arange(some[0] - half, some[-1] + half + 1) % T
        Y, known = base.regressor.with_known(motion.q[at], motion.v[at], motion.a[at])
        Y, tau = Y[..., base.independent], motion.tau[at] - known
        for k, centre in enumerate(some - some[0]):
            gw = g[:, None] * w[at[centre : centre + 2 * half + 1]]
            span = slice(centre, centre + 2 * half + 1)
            A[begin + k] = np.einsum("mj,mjc->jc", gw, Y[span])
            b[begin + k] = np.einsum("mj,mj->j", gw, tau[span])
            weight[begin + k] = np.einsum("mj,mj->j", gw, gw)
    used = weight > LEAST_WEIGHT
    scale = np.where(used, 1.0 / np.sqrt(np.where(used, weight, 1.0)), 0.0)
    return Rows(motion.t[centres], A * scale[..., None], b * scale, used, 1.0 / (D * motion.dt))


def default_stick_speed(motion: Motion) -> Array:
    """A share of the largest speed of each joint, (n,); zero for a joint that does not move."""
    return np.asarray(STICK_SHARE * np.max(np.abs(motion.v), axis=0))
