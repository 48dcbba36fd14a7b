"""What axes that turn with moving bodies add to the forces between joints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.robot.spatial import Array, Force, Inertia, Motion, Pose, cross


@dataclass(frozen=True)
class CoriolisOperator:
    """B of moving bodies: the forces that act on them because they move while a joint's axis turns them.

    A particle at r that moves at r' has, for the axis (v, w), the velocity v + w x r, which r' changes at the rate w x r'. Summed
    as forces at the origin,  B = sum dm [1; [r]] [0, -[r']],  so only  p = sum dm r'  and  N = sum dm r' r^T  matter. In the
    paper B is  1/2 ((V x*) I - I (V x) + (I V) x~*);  for a rigid body it is the same matrix with the zeros taken out.
    """

    p: Array
    N: Array

    @staticmethod
    def of(I: Inertia, V: Motion) -> CoriolisOperator:
        """A rigid body moving at V:  p = m v + w x h,  N = v h^T + [w] sum dm r r^T."""
        second = np.eye(3) * (0.5 * np.trace(I.I)) - I.I
        spin = np.array([cross(V.angular, second[:, k]) for k in range(3)]).T
        return CoriolisOperator((I @ V).linear, np.outer(V.linear, I.h) + spin)

    def __add__(self, other: CoriolisOperator) -> CoriolisOperator:
        return CoriolisOperator(self.p + other.p, self.N + other.N)

    def seen_from(self, X_ab: Pose) -> CoriolisOperator:
        """Given in b, as seen from a; velocities stay those in the world."""
        p = X_ab.R @ self.p
        return CoriolisOperator(p, X_ab.R @ self.N @ X_ab.R.T + np.outer(p, X_ab.p))

    def __matmul__(self, axis: Motion) -> Force:
        """B S."""
        return Force(-cross(self.p, axis.angular), np.trace(self.N) * axis.angular - self.N @ axis.angular)

    def transposed(self, axis: Motion) -> Force:
        """B^T S."""
        turned = np.trace(self.N) * axis.angular - self.N.T @ axis.angular
        return Force(np.zeros(3), turned + cross(self.p, axis.linear))
