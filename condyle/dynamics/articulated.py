"""Articulated-body inertia: how hard it is to push a link when everything beyond it may move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.robot.spatial import Array, Force, Inertia, Motion, Pose, skew, symmetric
from condyle.tape.scalar import Scalar


@dataclass(frozen=True)
class Articulated:
    """F = (M v + H w, H^T v + J w), with symmetric M and J."""

    M: Array
    H: Array
    J: Array

    @staticmethod
    def rigid(I: Inertia) -> Articulated:
        """A body alone."""
        return Articulated(np.eye(3) * I.mass, -skew(I.h), I.I)

    def __add__(self, other: Articulated) -> Articulated:
        return Articulated(self.M + other.M, self.H + other.H, self.J + other.J)

    def __matmul__(self, motion: Motion) -> Force:
        v, w = motion.linear, motion.angular
        return Force(self.M @ v + self.H @ w, self.H.T @ v + self.J @ w)

    def less(self, U: Force, scaled: Force) -> Articulated:
        """self - U scaled^T, which is symmetric when `scaled` is a multiple of U, or a sum of such."""
        return Articulated(
            symmetric(self.M - np.outer(U.linear, scaled.linear)),
            self.H - np.outer(U.linear, scaled.angular),
            symmetric(self.J - np.outer(U.angular, scaled.angular)),
        )

    def without(self, axis: Motion) -> Articulated:
        """With the zeros that a free joint leaves written out: along an axis of the frame it takes no force at all."""
        M, H, J = np.array(self.M, dtype=object), np.array(self.H, dtype=object), np.array(self.J, dtype=object)
        for k in range(3):
            if np.array_equal(np.abs(axis.vector()), np.eye(6)[3 + k]):
                H[:, k] = J[k, :] = J[:, k] = 0.0
            elif np.array_equal(np.abs(axis.vector()), np.eye(6)[k]):
                M[k, :] = M[:, k] = H[k, :] = 0.0
        return Articulated(M, H, J)

    def seen_from(self, X_ab: Pose) -> Articulated:
        """This inertia, given in b, as seen from a: turned, then moved."""
        M, H, J = turned(self.M, X_ab.R), turned(self.H, X_ab.R), turned(self.J, X_ab.R)
        P = skew(X_ab.p)
        moved = H - M @ P
        return Articulated(symmetric(M), moved, symmetric(J - H.T @ P + P @ moved))


def turned(A: Array, R: Array) -> Array:
    """R A R^T; in half the operations when R turns about an axis of the frame."""
    plane = _plane(R)
    if plane is None:
        return R @ A @ R.T
    i, j, k = plane
    c, s = R[i, i], R[j, i]
    cs, ss, cc = c * s, s * s, c * c
    # in the plane the sum of the diagonal and the difference across it do not change
    m, p = A[i, i] - A[j, j], A[i, j] + A[j, i]
    t, u = cc * m - cs * p, cs * m - ss * p
    B = np.zeros((3, 3), dtype=object)
    B[i, i], B[j, j], B[k, k] = A[j, j] + t, A[i, i] - t, A[k, k]
    B[i, j], B[j, i] = A[i, j] + u, A[j, i] + u
    B[i, k], B[j, k] = c * A[i, k] - s * A[j, k], s * A[i, k] + c * A[j, k]
    B[k, i], B[k, j] = c * A[k, i] - s * A[k, j], s * A[k, i] + c * A[k, j]
    return B


def _plane(R: Array) -> tuple[int, int, int] | None:
    """(i, j, k) when R is a rotation from axis i to axis j that leaves axis k alone."""
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        if _number(R[k, k]) == 1.0 and all(_number(x) == 0.0 for x in (R[i, k], R[j, k], R[k, i], R[k, j])):
            return i, j, k
    return None


def _number(x: Any) -> float | None:
    """The number, or None for a traced scalar that is not a constant."""
    return x.graph.value(x.index) if isinstance(x, Scalar) else float(x)
