"""The wheeled pendulum on its wheel, written out by hand in plain NumPy, and with each of the mistakes people make in it.

y = (x, phi): the body's upper end, and its angle right-handed about +y (x right, z up, y into the page). All coordinates are
q = (x, z, phi, theta), the wheel's angle relative to the body. On the ground and without slip

    z = r + L cos(phi)        r (phi' + theta') = x' - L cos(phi) phi'

Run as a script, it prints what each mistake does to a fall: python tests/constraints/wheel_closed_form.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

BODY, WHEEL, LENGTH, RADIUS, GRAVITY = 1.0, 0.5, 0.2, 0.04, 9.81
BODY_INERTIA, WHEEL_INERTIA = 0.01, 0.5 * WHEEL * RADIUS**2  # about y, about their own centres
MU = WHEEL + WHEEL_INERTIA / RADIUS**2  # the wheel's mass effective along the ground

FALL = 0.5  # seconds
RELEASE = 0.5  # rad: let go at rest, it is level after 0.25 s and swings on below: the formulas know no floor
EARLY = 0.05  # rad: from here it is not yet level after half a second

Array = np.ndarray


# -- the reduced model:  M y'' + h + g = B tau


def mass_matrix(phi: float) -> Array:
    c = np.cos(phi)
    across = -(BODY * LENGTH / 2 + MU * LENGTH) * c
    return np.array([[BODY + MU, across], [across, BODY_INERTIA + BODY * LENGTH**2 / 4 + MU * (LENGTH * c) ** 2]])


def velocity_forces(phi: float, dphi: float) -> Array:
    """h, which holds T^T M Tdot ydot."""
    s, c = np.sin(phi), np.cos(phi)
    return np.array([(BODY * LENGTH / 2 + MU * LENGTH) * s, -MU * LENGTH**2 * s * c]) * dphi**2


def gravity_forces(phi: float) -> Array:
    return np.array([0.0, -BODY * GRAVITY * LENGTH / 2 * np.sin(phi)])


def motor_row(phi: float) -> Array:
    """B: how the wheel's motor enters."""
    return np.array([1.0 / RADIUS, -(LENGTH * np.cos(phi) / RADIUS + 1.0)])


def forward_dynamics(y: Array, dy: Array, tau: float = 0.0) -> Array:
    """y'' = M^-1 (B tau - h - g)."""
    force = motor_row(y[1]) * tau - velocity_forces(y[1], dy[1]) - gravity_forces(y[1])
    return np.linalg.solve(mass_matrix(y[1]), force)


def potential_energy(phi: float) -> float:
    """Above the ground: of the body, whose centre is half-way down, and of the wheel."""
    return float(BODY * GRAVITY * (RADIUS + LENGTH / 2 * np.cos(phi)) + WHEEL * GRAVITY * RADIUS)


def energy(y: Array, dy: Array) -> float:
    return float(0.5 * dy @ mass_matrix(y[1]) @ dy) + potential_energy(y[1])


def lift(y: Array, dy: Array, theta: float = 0.0) -> tuple[Array, Array]:
    """(q, v) of all coordinates; theta is integrated beside y, because rolling ties only its rate."""
    return np.array([y[0], RADIUS + LENGTH * np.cos(y[1]), y[1], theta]), TRUE.T(y[1]) @ dy


def linearised() -> tuple[Array, Array]:
    """(A, B) of the state (x, phi, x', phi') at rest upright."""
    M, B = mass_matrix(0.0), motor_row(0.0)
    stiffness = np.array([[0.0, 0.0], [0.0, BODY * GRAVITY * LENGTH / 2]])
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [np.linalg.solve(M, stiffness), np.zeros((2, 2))]])
    return A, np.concatenate([np.zeros(2), np.linalg.solve(M, B)])[:, None]


def unstable_pole() -> float:
    """rad/s:  lambda^2 = m_b g L/2 (m_b + mu) / det M."""
    M = mass_matrix(0.0)
    return float(np.sqrt(BODY * GRAVITY * LENGTH / 2 * M[0, 0] / (M[0, 0] * M[1, 1] - M[0, 1] ** 2)))


# -- the full model: four coordinates, no constraint


def full_mass_matrix(phi: float) -> Array:
    """Of (x, z, phi, theta): the body's and the wheel's centres and turning, as rows of velocities."""
    s, c = np.sin(phi), np.cos(phi)
    rows = [
        (BODY, (1, 0, -LENGTH / 2 * c, 0)),
        (BODY, (0, 1, LENGTH / 2 * s, 0)),
        (BODY_INERTIA, (0, 0, 1, 0)),
        (WHEEL, (1, 0, -LENGTH * c, 0)),
        (WHEEL, (0, 1, LENGTH * s, 0)),
        (WHEEL_INERTIA, (0, 0, 1, 1)),
    ]
    return sum((m * np.outer(row, row) for m, row in rows), np.zeros((4, 4)))


def full_bias(phi: float, dphi: float) -> Array:
    """c(q, v) with gravity: both centres turn about the upper end, at the distances L/2 and L."""
    s, c = np.sin(phi), np.cos(phi)
    moment = BODY * LENGTH / 2 + WHEEL * LENGTH
    weight = (BODY + WHEEL) * GRAVITY
    return np.array([moment * s * dphi**2, moment * c * dphi**2 + weight, moment * GRAVITY * s, 0.0])


# -- what ties them, right and wrong


@dataclass(frozen=True)
class Ties:
    """v = T ydot with rows of x, z, phi, theta; every sign and term that people get wrong is a number here."""

    drop: float = -1.0  # sign of the row of z, -L sin(phi)
    swing: float = -1.0  # sign of the wheel centre's lag, -L cos(phi)/r in the wheel's row
    relative: float = -1.0  # the wheel's angle is relative to the body; 0 when that is forgotten
    turning: float = 1.0  # how much of T^T M Tdot ydot is kept

    def T(self, phi: float) -> Array:
        s, c = np.sin(phi), np.cos(phi)
        wheel = (1.0 / RADIUS, self.swing * LENGTH * c / RADIUS + self.relative)
        return np.array([(1.0, 0.0), (0.0, self.drop * LENGTH * s), (0.0, 1.0), wheel])

    def Tdot(self, phi: float, dphi: float) -> Array:
        s, c = np.sin(phi), np.cos(phi)
        wheel = (0.0, -self.swing * LENGTH * s / RADIUS)
        return np.array([(0.0, 0.0), (0.0, self.drop * LENGTH * c), (0.0, 0.0), wheel]) * dphi

    def forward_dynamics(self, y: Array, dy: Array, tau: float = 0.0) -> Array:
        """T^T M T yddot = T^T (tau - bias - M Tdot ydot), with the mistakes."""
        phi, dphi = y[1], dy[1]
        T, M = self.T(phi), full_mass_matrix(phi)
        force = np.array([0.0, 0.0, 0.0, tau]) - full_bias(phi, dphi) - self.turning * M @ self.Tdot(phi, dphi) @ dy
        return np.linalg.solve(T.T @ M @ T, T.T @ force)

    def energy(self, y: Array, dy: Array) -> float:
        """What one who makes the mistake believes the energy to be."""
        v = self.T(y[1]) @ dy
        return float(0.5 * v @ full_mass_matrix(y[1]) @ v) + potential_energy(y[1])

    def unstable_pole(self) -> float:
        """rad/s: of y'' = (d y''/dy) y at rest upright."""
        step = 1e-5
        stiffness = [
            (self.forward_dynamics(step * e, np.zeros(2)) - self.forward_dynamics(-step * e, np.zeros(2))) / (2 * step)
            for e in np.eye(2)
        ]
        squares = np.linalg.eigvals(np.array(stiffness).T).astype(complex)
        return float(np.sqrt(squares).real.max())


TRUE = Ties()
MISTAKES = {
    "T^T M Tdot ydot left out": Ties(turning=0.0),
    "sign of L sin(phi) wrong in z'": Ties(drop=+1.0),
    "sign of L sin(phi) wrong in the wheel centre": Ties(swing=+1.0),
    "wheel's row without the -1": Ties(relative=0.0),
}


# -- a fall


def fall(
    acceleration: Callable[[Array, Array], Array], phi: float = RELEASE, seconds: float = FALL, steps: int = 1000
) -> tuple[Array, Array, Array]:
    """(t, y, dy) from rest, by the classical Runge-Kutta method: its error in energy is below 1e-9 J with these steps."""

    def rate(x: Array) -> Array:
        return np.concatenate([x[2:], acceleration(x[:2], x[2:])])

    h, x = seconds / steps, np.array([0.0, phi, 0.0, 0.0])
    xs = [x]
    for _ in range(steps):
        k1 = rate(x)
        k2 = rate(x + h / 2 * k1)
        k3 = rate(x + h / 2 * k2)
        k4 = rate(x + h * k3)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        xs.append(x)
    out = np.array(xs)
    return np.linspace(0.0, seconds, steps + 1), out[:, :2], out[:, 2:]


@dataclass(frozen=True)
class Gain:
    """What a fall with some ties ends with; J. `true` is the energy gained by the true model's measure, `own` by that of the
    ties, and `part` is the true gain over what the body had to lose: m_b g L/2 cos(phi), its height above the axle."""

    true: float
    own: float
    part: float
    phi: float


def gained(ties: Ties, phi: float = RELEASE, seconds: float = FALL) -> Gain:
    _, y, dy = fall(ties.forward_dynamics, phi, seconds)
    true = energy(y[-1], dy[-1]) - energy(y[0], dy[0])
    own = ties.energy(y[-1], dy[-1]) - ties.energy(y[0], dy[0])
    return Gain(true, own, true / (BODY * GRAVITY * LENGTH / 2 * np.cos(phi)), y[-1, 1])


def main() -> None:
    """The published claims checked, and a row for every mistake."""
    assert abs(unstable_pole() - 8.2867) < 5e-5 and abs(TRUE.unstable_pole() - unstable_pole()) < 1e-8
    assert np.isclose(np.linalg.eigvals(linearised()[0]).real.max(), unstable_pole(), rtol=1e-12, atol=0.0)
    # without T^T M Tdot ydot, a fall of half a second gains a third of its energy
    assert 0.32 < gained(MISTAKES["T^T M Tdot ydot left out"]).part < 0.35
    print(f"unstable pole {unstable_pole():.6f} rad/s; falls of {FALL} s from rest, energies in J")
    print(f"{'ties':46} {'pole':>7}" + 2 * f" | {'phi0':>5} {'phi':>7} {'gain':>8} {'own':>8} {'part':>7}")
    for name, ties in {"right": TRUE, **MISTAKES}.items():
        row = f"{name:46} {ties.unstable_pole():7.4f}"
        for phi in (EARLY, RELEASE):
            g = gained(ties, phi)
            row += f" | {phi:5} {g.phi:7.4f} {g.true + 0.0:8.4f} {round(g.own, 4) + 0.0:8.4f} {100 * g.part:6.1f}%"
        print(row)


if __name__ == "__main__":
    main()
