"""What goes wrong in the wheeled pendulum when one term of its constraint does: poles, and energy out of nothing.

    v = T (x', phi'),     T = [[1, 0], [0, -L sin phi], [0, 1], [1/r, -L cos(phi)/r - 1]]
    T^T M T y'' = T^T (tau - c - M Tdot y')

M and c are those of the whole robot as Condyle computes them; T is written here, with every sign and term that people get wrong
as a number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from apps.demos.wheeled_pendulum_formulas import WEIGHT

from condyle.apps.demos.wheeled_pendulum import rolling, unconstrained
from condyle.robot.library.wheeled_pendulum import LENGTH, RADIUS

Array = np.ndarray

SECONDS, STEPS = 0.5, 1000
RELEASED = (0.05, 0.5)  # rad: after half a second one is not level yet, the other swings below: no floor is in the formulas


@dataclass(frozen=True)
class WrongMap:
    """T with the numbers that may be wrong; arrays of angles are the leading axis."""

    drop: float = -1.0  # sign of the check of z, -L sin(phi)
    swing: float = -1.0  # sign of -L cos(phi)/r in the wheel's check: L sin(phi) in where the wheel's centre is
    relative: float = -1.0  # the wheel's angle is counted from the body; 0 when that is forgotten
    turning: float = 1.0  # how much of T^T M Tdot y' is kept

    def T(self, phi: Array) -> Array:
        out = np.zeros((*np.shape(phi), 4, 2))
        out[..., 0, 0] = out[..., 2, 1] = 1.0
        out[..., 1, 1] = self.drop * LENGTH * np.sin(phi)
        out[..., 3, 0] = 1.0 / RADIUS
        out[..., 3, 1] = self.swing * LENGTH * np.cos(phi) / RADIUS + self.relative
        return out

    def Tdot(self, phi: Array, rate: Array) -> Array:
        out = np.zeros((*np.shape(phi), 4, 2))
        out[..., 1, 1] = self.drop * LENGTH * np.cos(phi) * rate
        out[..., 3, 1] = -self.swing * LENGTH * np.sin(phi) / RADIUS * rate
        return out

    def acceleration(self, y: Array, w: Array) -> Array:
        """y'' of the passive robot."""
        q = rolling().lift(y, w)[0]
        T, M = self.T(y[..., 1]), unconstrained().mass_matrix(q)
        v, drift = _times(T, w), _times(self.Tdot(y[..., 1], w[..., 1]), w)
        force = unconstrained().bias_forces(q, v) + self.turning * _times(M, drift)
        down = np.swapaxes(T, -1, -2)
        return -np.linalg.solve(down @ M @ T, _times(down, force)[..., None])[..., 0]

    def pole(self, step: float = 1e-5) -> complex:
        """rad/s, of the fastest motion about rest upright: it grows with the real part, and swings with the imaginary one."""
        ends = [self.acceleration(sign * step * np.eye(2), np.zeros((2, 2))) for sign in (1.0, -1.0)]
        squares = np.linalg.eigvals(((ends[0] - ends[1]) / (2.0 * step)).T).astype(complex)
        return complex(max(np.sqrt(squares), key=abs))

    def fall(self, released: Array, seconds: float = SECONDS, steps: int = STEPS) -> tuple[Array, Array]:
        """(y, w) at the end of falls from rest at these angles, by the classical Runge-Kutta method."""
        y, w, h = np.stack([np.zeros(len(released)), released], axis=-1), np.zeros((len(released), 2)), seconds / steps
        for _ in range(steps):
            a1 = self.acceleration(y, w)
            y2, w2 = y + h / 2 * w, w + h / 2 * a1
            a2 = self.acceleration(y2, w2)
            y3, w3 = y + h / 2 * w2, w + h / 2 * a2
            a3 = self.acceleration(y3, w3)
            y4, w4 = y + h * w3, w + h * a3
            a4 = self.acceleration(y4, w4)
            y, w = y + h / 6 * (w + 2 * w2 + 2 * w3 + w4), w + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        return y, w


MISTAKES = {
    "none": WrongMap(),
    "T^T M Tdot w left out": WrongMap(turning=0.0),
    "sign of L sin(phi) in the height": WrongMap(drop=+1.0),
    "sign of L sin(phi) in the wheel's way": WrongMap(swing=+1.0),
    "wheel's angle not relative, no -1": WrongMap(relative=0.0),
}


@dataclass(frozen=True)
class Fall:
    """From rest at `released`, rad: the energy gained, J, and as a part of what the body could fall, m_b g L/2 cos(phi)."""

    released: float
    ended: float
    gained: float
    fraction: float


@dataclass(frozen=True)
class Mistake:
    name: str
    pole: complex
    falls: tuple[Fall, ...]


def table(released: tuple[float, ...] = RELEASED) -> list[Mistake]:
    """A check for each mistake. The energy is the true one, of the robot that rolls."""
    robot, out = rolling(), []
    for name, ties in MISTAKES.items():
        angles = np.array(released)
        y, w = ties.fall(angles)
        start = np.stack([np.zeros(len(angles)), angles], axis=-1)
        gained = robot.kinetic_energy(y, w) + robot.potential_energy(y) - robot.potential_energy(start)
        rows = zip(released, y[:, 1], gained, gained / (WEIGHT * np.cos(angles)), strict=True)
        out.append(Mistake(name, ties.pole(), tuple(Fall(*(float(x) for x in check)) for check in rows)))
    return out


def _times(A: Array, x: Array) -> Array:
    product: Array = (A @ x[..., None])[..., 0]
    return product
