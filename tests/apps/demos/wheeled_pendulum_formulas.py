"""The wheeled pendulum on its wheel, derived by hand: nothing here comes from the model that it is compared with.

y = (x, phi): the body's upper end, and the body's angle, right-handed about +y (x right, z up, y into the page). The wheel's
centre is at x - L sin(phi), at the height r, and turns at (x' - L cos(phi) phi') / r. With mu = m_w + I_w / r^2, the wheel's mass
as one feels it who pushes it along the ground, and s = sin(phi), c = cos(phi), Lagrange's equations of

    1/2 (m_b + mu) x'^2  -  (m_b L/2 + mu L) c x' phi'  +  1/2 (I_b + m_b L^2/4 + mu L^2 c^2) phi'^2  -  m_b g L/2 c

are the ones below. Arrays have y in their last axis.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray

BODY, WHEEL, LENGTH, RADIUS, GRAVITY = 1.0, 0.5, 0.2, 0.04, 9.81
BODY_INERTIA, WHEEL_INERTIA = 0.01, WHEEL * RADIUS**2 / 2.0  # about y, through their own centres
MU = WHEEL + WHEEL_INERTIA / RADIUS**2
SWING = BODY * LENGTH / 2.0 + MU * LENGTH
WEIGHT = BODY * GRAVITY * LENGTH / 2.0  # what lifting the body upright costs, J


def mass_matrix(y: Array) -> Array:
    c = np.cos(y[..., 1])
    M = np.empty((*y.shape[:-1], 2, 2))
    M[..., 0, 0] = BODY + MU
    M[..., 0, 1] = M[..., 1, 0] = -SWING * c
    M[..., 1, 1] = BODY_INERTIA + BODY * LENGTH**2 / 4.0 + MU * (LENGTH * c) ** 2
    return M


def forward_dynamics(y: Array, w: Array, motor: Array) -> Array:
    """y'' for the torque of the wheel's motor, (...,)."""
    s, c, rate = np.sin(y[..., 1]), np.cos(y[..., 1]), w[..., 1]
    along = motor / RADIUS - SWING * s * rate**2
    about = -(LENGTH * c / RADIUS + 1.0) * motor + MU * LENGTH**2 * s * c * rate**2 + WEIGHT * s
    out: Array = np.linalg.solve(mass_matrix(y), np.stack([along, about], axis=-1)[..., None])[..., 0]
    return out


def energy(y: Array, w: Array) -> Array:
    """Kinetic and potential, J; heights above the ground."""
    kinetic = 0.5 * np.einsum("...i,...ij,...j", w, mass_matrix(y), w)
    return np.asarray(kinetic + BODY * GRAVITY * (RADIUS + LENGTH / 2.0 * np.cos(y[..., 1])) + WHEEL * GRAVITY * RADIUS)


def unstable_pole() -> float:
    """rad/s:  m_b g L/2 (m_b + mu) / det M  is its square."""
    M = mass_matrix(np.zeros(2))
    return float(np.sqrt(WEIGHT * M[0, 0] / np.linalg.det(M)))
