"""Solves with the mass matrix of a tree: M = L^T D L has no more entries than M itself (Featherstone 2008, section 6.5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.dynamics.kinematics import ancestors
from condyle.robot.model import Model
from condyle.robot.spatial import Array

TOGETHER = 4


@dataclass(frozen=True)
class TreeFactor:
    """L unit lower triangular, `inverse` = 1/D, and for each coordinate those that carry it, nearest first."""

    L: Array
    inverse: Array
    carriers: list[list[int]]

    def solve(self, b: Array) -> Array:
        """M^-1 b for a vector, or for each column of a matrix.

        Columns are solved a few at a time, row by row: their operations do not wait for each other, and each entry of L that is
        fetched serves them all.
        """
        if b.ndim == 1:
            return self.solve(b[:, None])[:, 0]
        parts = [self._solve(b[:, first : first + TOGETHER]) for first in range(0, b.shape[1], TOGETHER)]
        return np.concatenate(parts, axis=1)

    def _solve(self, b: Array) -> Array:
        n, width = b.shape
        x = np.array(b, dtype=object)
        carried: list[list[int]] = [[] for _ in range(n)]
        for i, carriers in enumerate(self.carriers):
            for j in carriers:
                carried[j].append(i)
        for j in reversed(range(n)):
            for c in range(width):
                for i in reversed(carried[j]):
                    x[j, c] = x[j, c] - self.L[i, j] * x[i, c]
        for i in range(n):
            for c in range(width):
                x[i, c] = x[i, c] * self.inverse[i]
                for j in self.carriers[i]:
                    x[i, c] = x[i, c] - self.L[i, j] * x[j, c]
        return x

    def inverse_matrix(self) -> Array:
        """M^-1 = Y D^-1 Y^T with Y = L^-1, which has entries only between a coordinate and those that carry it."""
        n = len(self.carriers)
        Y, inverse = np.zeros((n, n), dtype=object), np.zeros((n, n), dtype=object)
        for i, carriers in enumerate(self.carriers):
            Y[i, i] = 1.0
            for j in carriers:
                Y[i, j] = -sum((self.L[i, k] * Y[k, j] for k in carriers if k >= j), 0.0)
        scaled = Y * self.inverse
        for i in range(n):
            for j in range(i + 1):
                inverse[i, j] = inverse[j, i] = sum((scaled[i, k] * Y[j, k] for k in range(j + 1)), 0.0)
        return inverse


def coordinates_that_carry(model: Model) -> list[list[int]]:
    """For each coordinate the ones before it on the way to the base, nearest first."""
    out: list[list[int]] = []
    for i, link in model.outward():
        path = [k for j in ancestors(model, i)[:-1] for k in range(model.links[j].v.start, model.links[j].v.stop)]
        for k in range(link.v.start, link.v.stop):
            out.append([*path, *range(link.v.start, k)][::-1])
    return out


def filled(pattern: Array) -> list[list[int]]:
    """The carriers of a symmetric matrix with this pattern (true where it may be other than zero), with what elimination adds."""
    found = np.array(pattern, dtype=bool)
    out: list[list[int]] = []
    for k in reversed(range(len(found))):
        mine = [i for i in reversed(range(k)) if found[k, i]]
        found[np.ix_(mine, mine)] = True
        out.append(mine)
    return out[::-1]


def tree_factor(model: Model, M: Array) -> TreeFactor:
    """The factors of a symmetric positive definite matrix with the tree's pattern, from the tips inward."""
    return pattern_factor(coordinates_that_carry(model), M)


def pattern_factor(carriers: list[list[int]], M: Array) -> TreeFactor:
    """The same for any pattern that elimination from the last coordinate to the first does not fill."""
    H = np.array(M, dtype=object)
    n = len(carriers)
    L = np.zeros((n, n), dtype=object)
    inverse = np.zeros(n, dtype=object)
    for k in reversed(range(n)):
        inverse[k] = 1.0 / H[k, k]
        for i in carriers[k]:
            L[k, i] = H[k, i] * inverse[k]
        for at, i in enumerate(carriers[k]):
            for j in carriers[k][at:]:
                H[i, j] = H[i, j] - L[k, i] * H[k, j]
                H[j, i] = H[i, j]
    return TreeFactor(L, inverse, carriers)
