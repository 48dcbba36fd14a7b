"""Spatial algebra over any scalar: poses, motions, forces and inertias, linear parts first.

Letters cancel: X_ac = X_ab @ X_bc, and a motion or force given in b is in a after X_ab @ it. All are about the origin of
the frame they are given in (Featherstone 2008, chapter 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

Array = Any  # a NumPy array of floats or of traced scalars


def vector(*entries: Any) -> Array:
    """A vector of any scalars."""
    if all(isinstance(x, (float, int)) for x in entries):
        return np.array(entries, dtype=float)
    out = np.empty(len(entries), dtype=object)
    out[:] = entries
    return out


def cross(a: Array, b: Array) -> Array:
    """a x b."""
    return vector(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def skew(a: Array) -> Array:
    """The matrix [a] with [a] b = a x b."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def product(A: Array, B: Array) -> Array:
    """A @ B with every sum from first to last: of numbers too, where NumPy's own order depends on the processor."""
    if A.dtype == object or B.dtype == object:
        return A @ B
    terms = [np.multiply.outer(A[..., k], B[k]) for k in range(len(B))]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def length(a: Array) -> float:
    """|a| of a vector of numbers."""
    return float(np.sqrt(product(a, a)))


@dataclass(frozen=True)
class _Spatial:
    """Six entries in two parts, with the operations that motions and forces share."""

    linear: Array
    angular: Array

    def __add__(self, other: Self) -> Self:
        return type(self)(self.linear + other.linear, self.angular + other.angular)

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.linear - other.linear, self.angular - other.angular)

    def __neg__(self) -> Self:
        return type(self)(-self.linear, -self.angular)

    def __mul__(self, scale: Any) -> Self:
        return type(self)(self.linear * scale, self.angular * scale)

    def vector(self) -> Array:
        """The six entries, linear first."""
        return np.concatenate([self.linear, self.angular])

    @classmethod
    def zero(cls) -> Self:
        """All entries zero."""
        return cls(np.zeros(3), np.zeros(3))

    @classmethod
    def of(cls, six: Array) -> Self:
        """The motion or force with these six entries, linear first."""
        return cls(six[:3], six[3:])


@dataclass(frozen=True)
class Motion(_Spatial):
    """A velocity or acceleration: `linear` of the point at the origin, `angular` of the body."""

    def cross(self, other: Motion | Force) -> Any:
        """The rate at which `other`, fixed in a body that moves like this, changes:  V x M  or  V x* F."""
        if isinstance(other, Motion):
            return Motion(
                cross(self.angular, other.linear) + cross(self.linear, other.angular),
                cross(self.angular, other.angular),
            )
        return Force(
            cross(self.angular, other.linear),
            cross(self.angular, other.angular) + cross(self.linear, other.linear),
        )

    def dot(self, force: Force) -> Any:
        """The power of a force in this motion."""
        return product(self.linear, force.linear) + product(self.angular, force.angular)


@dataclass(frozen=True)
class Force(_Spatial):
    """A force or momentum: `linear` the force, `angular` the torque about the origin."""


@dataclass(frozen=True)
class Pose:
    """X_ab: frame b as seen from a, with rotation R_ab and origin p_ab."""

    R: Array
    p: Array

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, Pose):
            return Pose(product(self.R, other.R), product(self.R, other.p) + self.p)
        if isinstance(other, Motion):
            angular = product(self.R, other.angular)
            return Motion(product(self.R, other.linear) + cross(self.p, angular), angular)
        linear = product(self.R, other.linear)
        return Force(linear, product(self.R, other.angular) + cross(self.p, linear))

    def inv(self) -> Pose:
        """X_ba."""
        return Pose(self.R.T, -product(self.R.T, self.p))

    def carry(self, other: Motion | Force) -> Any:
        """A motion or force given in a, as seen from b: `X_ab.inv() @ other` with less arithmetic."""
        if isinstance(other, Motion):
            linear = product(self.R.T, other.linear - cross(self.p, other.angular))
            return Motion(linear, product(self.R.T, other.angular))
        angular = product(self.R.T, other.angular - cross(self.p, other.linear))
        return Force(product(self.R.T, other.linear), angular)

    def point(self, p_b: Array) -> Array:
        """A point given in b, as seen from a."""
        return product(self.R, p_b) + self.p

    @staticmethod
    def identity() -> Pose:
        """X_aa."""
        return Pose(np.eye(3), np.zeros(3))


@dataclass(frozen=True)
class Inertia:
    """A rigid body: mass, h = mass * centre of mass, and I, the 3 x 3 inertia about the origin of the frame."""

    mass: Any
    h: Array
    I: Array

    @staticmethod
    def about_com(mass: Any, com: Array, I_com: Array) -> Inertia:
        """The body with this mass, centre of mass, and inertia about the centre of mass."""
        c = skew(com)
        return Inertia(mass, mass * np.asarray(com), I_com + mass * product(c.T, c))

    @staticmethod
    def zero() -> Inertia:
        """No body."""
        return Inertia(0.0, np.zeros(3), np.zeros((3, 3)))

    @property
    def com(self) -> Array:
        """The centre of mass, h / mass; of a body without mass the origin of its frame."""
        massless = isinstance(self.mass, (int, float)) and self.mass == 0.0
        return np.zeros(3) if massless else self.h / self.mass

    @property
    def I_com(self) -> Array:
        """The inertia about the centre of mass."""
        c = skew(self.com)
        return self.I - self.mass * product(c.T, c)

    def __matmul__(self, motion: Motion) -> Force:
        """The momentum of the body moving so, or the force that accelerates it so."""
        v, w = motion.linear, motion.angular
        return Force(v * self.mass - cross(self.h, w), product(self.I, w) + cross(self.h, v))

    def __add__(self, other: Inertia) -> Inertia:
        return Inertia(self.mass + other.mass, self.h + other.h, self.I + other.I)

    def seen_from(self, X_ab: Pose) -> Inertia:
        """This inertia, given in b, as seen from a."""
        R, p = X_ab.R, X_ab.p
        h = product(R, self.h)
        # I about a's origin: rotate, then move by p (parallel axes, written without the centre of mass)
        P, H = skew(p), skew(h)
        moved = product(product(R, self.I), R.T) - product(H, P) - product(P, H) - self.mass * product(P, P)
        return Inertia(self.mass, h + self.mass * p, symmetric(moved))


def symmetric(A: Array) -> Array:
    """The matrix with its upper half copied below: equal entries become one."""
    out = np.array(A)
    for i in range(len(out)):
        for j in range(i):
            out[i, j] = out[j, i]
    return out
