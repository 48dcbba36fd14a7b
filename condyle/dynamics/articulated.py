"""Articulated-body inertia: how hard it is to push a link when everything beyond it may move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.robot.spatial import Array, Force, Inertia, Motion, Pose, skew, symmetric


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

    def seen_from(self, X_ab: Pose) -> Articulated:
        """This inertia, given in b, as seen from a: turned, then moved."""
        R, P = X_ab.R, skew(X_ab.p)
        M, H, J = symmetric(R @ self.M @ R.T), R @ self.H @ R.T, symmetric(R @ self.J @ R.T)
        moved = H - M @ P
        return Articulated(M, moved, symmetric(J - H.T @ P + P @ moved))
