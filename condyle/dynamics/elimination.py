"""Linear equations of a fixed pattern: the pivots are chosen once, for numbers, and the elimination is then written out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.robot.spatial import Array
from condyle.tape.scalar import constant

WEAK = 0.1  # a pivot may be this much smaller than the largest of its column, if that saves work


def pivots(A: np.ndarray, pattern: np.ndarray) -> list[tuple[int, int]]:
    """(row, column) in the order of elimination of a square matrix of numbers: few new entries, no weak pivot (Markowitz)."""
    A, filled = A.astype(float).copy(), pattern.copy()
    rows, columns = np.ones(len(A), dtype=bool), np.ones(len(A), dtype=bool)
    order: list[tuple[int, int]] = []
    for _ in range(len(A)):
        live = filled & rows[:, None] & columns & (A != 0.0)
        size = np.where(live, np.abs(A), 0.0)
        strong = live & (size >= WEAK * size.max(axis=0))
        if not np.any(strong):
            raise np.linalg.LinAlgError("singular")
        work = np.outer(live.sum(axis=1) - 1, live.sum(axis=0) - 1)
        least = np.min(work[strong])
        r, c = np.unravel_index(np.argmax(np.where(strong & (work == least), size, -1.0)), A.shape)
        order.append((int(r), int(c)))
        rows[r], columns[c] = False, False
        below = rows & filled[:, c]
        A[np.ix_(below, columns)] -= np.outer(A[below, c] / A[r, c], A[r, columns])
        filled[np.ix_(below, columns)] |= filled[r, columns]
    return order


@dataclass(frozen=True)
class Eliminated:
    """A matrix of traced numbers after elimination in a given order; entries that are zero in the program cost nothing."""

    order: list[tuple[int, int]]
    upper: Array
    factors: list[tuple[int, int, Any]]  # (row, pivot row, factor)
    inverse: list[Any]  # 1 / pivot

    @staticmethod
    def of(A: Array, order: list[tuple[int, int]]) -> Eliminated:
        A = np.array(A, dtype=object)
        factors, inverse = [], []
        for k, (r, c) in enumerate(order):
            inverse.append(1.0 / A[r, c])
            for i, _ in order[k + 1 :]:
                if constant(A[i, c]) == 0.0:
                    continue
                factor = A[i, c] * inverse[k]
                factors.append((i, r, factor))
                for _, j in order[k + 1 :]:
                    if constant(A[r, j]) != 0.0:
                        A[i, j] = A[i, j] - factor * A[r, j]
        return Eliminated(order, A, factors, inverse)

    @property
    def pivots(self) -> list[Any]:
        return [self.upper[r, c] for r, c in self.order]

    def solve(self, b: Array) -> Array:
        """A^-1 b for a vector, or for the columns of a matrix."""
        b = np.array(b, dtype=object)
        if b.ndim == 2:
            return np.column_stack([self.solve(column) for column in b.T])
        for i, r, factor in self.factors:
            b[i] = b[i] - factor * b[r]
        x = np.zeros(len(b), dtype=object)
        for k in reversed(range(len(self.order))):
            r, c = self.order[k]
            total = b[r]
            for _, j in self.order[k + 1 :]:
                if constant(self.upper[r, j]) != 0.0:
                    total = total - self.upper[r, j] * x[j]
            x[c] = total * self.inverse[k]
        return x
