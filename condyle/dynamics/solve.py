"""Linear solves for any scalar: dense, and with the mass matrix of a tree.

M = L^T D L has no more entries than M itself when eliminated from the tips inward (Featherstone 2008, section 6.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.dynamics.kinematics import ancestors
from condyle.dynamics.limbs import Limbs
from condyle.robot.model import Model
from condyle.robot.spatial import Array
from condyle.tape.limb_values import all_summed, summed, with_term


def factor(A: Array) -> tuple[Array, Array]:
    """(L, 1/d) with A = L diag(d) L^T for a symmetric positive definite A, L unit lower triangular."""
    n = len(A)
    L = np.zeros((n, n), dtype=object)
    inverse = np.zeros(n, dtype=object)
    scaled = np.zeros((n, n), dtype=object)  # L diag(d)
    for j in range(n):
        d = A[j, j] - sum((L[j, k] * scaled[j, k] for k in range(j)), 0.0)
        inverse[j] = 1.0 / d
        L[j, j] = 1.0
        for i in range(j + 1, n):
            scaled[i, j] = A[i, j] - sum((L[i, k] * scaled[j, k] for k in range(j)), 0.0)
            L[i, j] = scaled[i, j] * inverse[j]
    return L, inverse


def cholesky_solve(A: Array, b: Array) -> Array:
    """A^-1 b for a symmetric positive definite A; b is a vector or a matrix of columns."""
    if len(A) == 1:
        return b * (1.0 / A[0, 0]) if b.ndim > 1 else np.array([b[0] / A[0, 0]])
    L, inverse = factor(A)
    n = len(A)
    x = np.array(b, dtype=object)
    for i in range(n):
        for k in range(i):
            x[i] = x[i] - L[i, k] * x[k]
    for i in range(n):
        x[i] = x[i] * inverse[i]
    for i in reversed(range(n)):
        for k in range(i + 1, n):
            x[i] = x[i] - L[k, i] * x[k]
    return x


WIDTH = 8


@dataclass(frozen=True)
class TreeFactor:
    """L unit lower triangular, `inverse` = 1/D, and for each coordinate its ancestors on the way to the base, nearest first.

    `limbs`: where coordinates are folded (limbs.py).
    """

    L: Array
    inverse: Array
    ancestors_of: list[list[int]]
    limbs: Limbs | None = None

    def solve(self, b: Array, *, negative: bool = False) -> Array:
        """M^-1 b for a vector, or for each column of a matrix; or -M^-1 b, with the same roundings.

        Columns are solved a few at a time, row by row: their operations do not wait for each other, and each entry of L that is
        fetched serves them all.
        """
        if b.ndim == 1:
            return self.solve(b[:, None], negative=negative)[:, 0]
        inverse = -self.inverse if negative else self.inverse
        parts = [self._solve(b[:, first : first + WIDTH], inverse) for first in range(0, b.shape[1], WIDTH)]
        return np.concatenate(parts, axis=1)

    def _solve(self, b: Array, inverse: Array) -> Array:
        n, width = b.shape
        x = np.array(b, dtype=object)
        descendants: list[list[int]] = [[] for _ in range(n)]
        for i, path in enumerate(self.ancestors_of):
            for j in path:
                descendants[j].append(i)
        columns = range(width)
        # those of a limb first, then those of the whole robot, to which all limbs add before
        whole = n if self.limbs is None else len(self.limbs.trunk)
        for j in reversed(range(n)):
            for i in [i for i in reversed(descendants[j]) if i >= whole]:
                for c in columns:
                    x[j, c] = _less(x[j, c], self.L[i, j] * x[i, c], joining(self.limbs, i, j))
        x[:whole] = x[:whole] if self.limbs is None else all_summed(x[:whole])
        for j in reversed(range(whole)):
            for i in [i for i in reversed(descendants[j]) if i < whole]:
                for c in columns:
                    x[j, c] = x[j, c] - self.L[i, j] * x[i, c]
        for i in range(n):
            for c in columns:
                x[i, c] = x[i, c] * inverse[i]
            for j in self.ancestors_of[i]:
                for c in columns:
                    x[i, c] = x[i, c] - self.L[i, j] * x[j, c]
        return x

    def inverse_matrix(self) -> Array:
        """M^-1 = Y D^-1 Y^T with Y = L^-1, which has entries only between a coordinate and its ancestors."""
        n = len(self.ancestors_of)
        Y, inverse = np.zeros((n, n), dtype=object), np.zeros((n, n), dtype=object)
        for i, path in enumerate(self.ancestors_of):
            Y[i, i] = 1.0
            for j in path:
                Y[i, j] = -sum((self.L[i, k] * Y[k, j] for k in path if k >= j), 0.0)
        scaled = Y * self.inverse
        for i in range(n):
            for j in range(i + 1):
                inverse[i, j] = inverse[j, i] = sum((scaled[i, k] * Y[j, k] for k in range(j + 1)), 0.0)
        return inverse


def ancestor_dofs(model: Model) -> list[list[int]]:
    """For each coordinate the ones before it on the way to the base, nearest first."""
    out: list[list[int]] = []
    for i, link in model.outward():
        path = [k for j in ancestors(model, i)[:-1] for k in range(model.links[j].v.start, model.links[j].v.stop)]
        for k in range(link.v.start, link.v.stop):
            out.append([*path, *range(link.v.start, k)][::-1])
    return out


def filled(pattern: Array) -> list[list[int]]:
    """The elimination tree of a symmetric matrix with this pattern (true where it may not be zero), with its fill-in."""
    found = np.array(pattern, dtype=bool)
    out: list[list[int]] = []
    for k in reversed(range(len(found))):
        mine = [i for i in reversed(range(k)) if found[k, i]]
        found[np.ix_(mine, mine)] = True
        out.append(mine)
    return out[::-1]


def tree_factor(model: Model, M: Array) -> TreeFactor:
    """The factors of a symmetric positive definite matrix with the tree's pattern, from the tips inward."""
    return pattern_factor(ancestor_dofs(model), M)


def joining(limbs: Limbs | None, i: int, j: int) -> int:
    """How many limbs add to an entry of the folded coordinate j what they have at i: none if both are of a limb, or of none."""
    return limbs.count if limbs is not None and i >= len(limbs.trunk) > j else 0


def _less(entry: Any, term: Any, limbs: int) -> Any:
    """entry - term, which is summed over the limbs if they have such a term."""
    return with_term(entry, -term, limbs) if limbs else summed(entry) - term


def pattern_factor(ancestors_of: list[list[int]], M: Array, limbs: Limbs | None = None) -> TreeFactor:
    """The same for any pattern that elimination from the last coordinate to the first does not fill; `limbs`: see TreeFactor."""
    H = np.array(M, dtype=object)
    n = len(ancestors_of)
    L = np.zeros((n, n), dtype=object)
    inverse = np.zeros(n, dtype=object)
    for k in reversed(range(n)):
        if limbs is not None and k == len(limbs.trunk) - 1:
            H[: k + 1, : k + 1] = all_summed(H[: k + 1, : k + 1])
        inverse[k] = 1.0 / H[k, k]
        for i in ancestors_of[k]:
            L[k, i] = H[k, i] * inverse[k]
        for at, i in enumerate(ancestors_of[k]):
            for j in ancestors_of[k][at:]:
                H[i, j] = _less(H[i, j], L[k, i] * H[k, j], joining(limbs, k, i))
                H[j, i] = H[i, j]
    return TreeFactor(L, inverse, ancestors_of, limbs)
