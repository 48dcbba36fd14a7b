"""Solves for many columns with the mass matrix of a robot with limbs, by blocks.

With b the coordinates of the whole robot and k those of a limb, no entry of M is between limbs, and

    N_k = -M_kk^-1 M_kb        S = M_bb + sum_k M_bk N_k

N_k: how a limb moves with the whole robot; S: the effective mass of the whole robot with its limbs free. M x = y is solved by

    S x_b = y_b + sum_k N_k^T y_k        x_k = M_kk^-1 y_k + N_k x_b

A column y of a limb has entries in that limb and in the whole robot only: its x_b is a number of that limb, and the rows of
another limb j are N_j x_b.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from condyle.dynamics.limbs import Limbs, as_array
from condyle.dynamics.solve import TreeFactor
from condyle.robot.spatial import Array
from condyle.tape.limb_values import pick, sum_over


class Places(NamedTuple):
    """Where rows or columns of a folded matrix belong: those of the whole robot, and of each limb."""

    trunk: list[int]
    limbs: list[list[int]]

    @staticmethod
    def of(limbs: Limbs, parts: int = 1) -> Places:
        """Those of the coordinates; or of as many vectors of them, one after the other."""
        starts = [limbs.coordinates * part for part in range(parts)]
        own = [[start + k for start in starts for k in limb] for limb in limbs.limbs]
        return Places([start + k for start in starts for k in limbs.trunk], own)


@dataclass(frozen=True)
class LimbColumns:
    """A matrix with rows of the whole robot and of each limb; the first `width` columns are those of all, the others of a limb.

    `trunk` and `own`: the rows of the whole robot and of a limb, in the columns of all limbs and in its own. `others`: of a
    limb, by its number, its rows in the columns of other limbs; made when they are asked for, while few numbers are alive.
    """

    width: int
    trunk: Array
    own: Array
    others: Callable[[int], Array]

    def part(self, of_all: slice, of_limb: slice) -> LimbColumns:
        """Some of the columns of all, and of those of a limb."""
        w = self.width
        trunk, own = [np.hstack([a[:, :w][:, of_all], a[:, w:][:, of_limb]]) for a in (self.trunk, self.own)]
        return LimbColumns(len(range(w)[of_all]), trunk, own, lambda j: self.others(j)[:, of_limb])

    def times(self, trunk: Array, own: Array) -> LimbColumns:
        """The product with a matrix from the left that has entries within the whole robot and within a limb."""
        return LimbColumns(self.width, trunk @ self.trunk, own @ self.own, lambda j: picked(own, j) @ self.others(j))

    def unfolded(self, rows: Places, columns: Places, *, symmetric: bool = False) -> Array:
        """All rows and columns; `symmetric`: one half of the others serves both."""
        w = self.width
        sizes = [len(places.trunk) + sum(map(len, places.limbs)) for places in (rows, columns)]
        out = np.zeros(sizes, dtype=object)
        out[np.ix_(rows.trunk, columns.trunk)] = self.trunk[:, :w]
        for k, (mine, of_limb) in enumerate(zip(rows.limbs, columns.limbs, strict=True)):
            out[np.ix_(rows.trunk, of_limb)] = picked(self.trunk[:, w:], k)
            out[np.ix_(mine, columns.trunk)] = picked(self.own[:, :w], k)
            out[np.ix_(mine, of_limb)] = picked(self.own[:, w:], k)
        for j in range(len(rows.limbs)):
            found = self.others(j)
            for k, of_limb in enumerate(columns.limbs):
                if k < j or (k > j and not symmetric):
                    out[np.ix_(rows.limbs[j], of_limb)] = picked(found, k)
                if k < j and symmetric:
                    out[np.ix_(rows.limbs[k], columns.limbs[j])] = picked(found, k).T
        return out


@dataclass(frozen=True)
class LimbFactor:
    """`trunk`: the factors of S; `own`: those of M_kk; `N`: see above."""

    limbs: Limbs
    trunk: TreeFactor
    own: TreeFactor
    N: Array

    @staticmethod
    def of(factor: TreeFactor) -> LimbFactor:
        """The blocks of a factorization in folded coordinates."""
        assert factor.limbs is not None
        n, pattern = len(factor.limbs.trunk), factor.ancestors_of
        within = [[j - n for j in path if j >= n] for path in pattern[n:]]
        trunk = TreeFactor(factor.L[:n, :n], factor.inverse[:n], pattern[:n])
        own = TreeFactor(factor.L[n:, n:], factor.inverse[n:], within)
        N = -factor.L[n:, :n]
        for i, path in enumerate(within):
            for j in path:
                N[i] = N[i] - own.L[i, j] * N[j]
        return LimbFactor(factor.limbs, trunk, own, N)

    def solve(self, y: Array, width: int, *, negative: bool = False) -> LimbColumns:
        """M^-1 y, or -M^-1 y, of folded rows; the first `width` columns are those of all, the others of a limb."""
        n = len(self.limbs.trunk)
        own = self.own.solve(y[n:], negative=negative)
        of_limb = _plus_product(y[:n, width:], self.N.T, y[n:, width:])
        of_all = y[:n, :width] + _over_limbs(self.N.T @ y[n:, :width], self.limbs.count)
        x = self.trunk.solve(np.concatenate([of_all, of_limb], axis=1), negative=negative)
        return LimbColumns(width, x, _plus_product(own, self.N, x), self._others(x[:, width:]))

    def solve_matrix(self, y: Array, *, negative: bool = False) -> Array:
        """M^-1 Y, or -M^-1 Y, of all coordinates, for a folded matrix Y without entries between limbs."""
        places = Places.of(self.limbs)
        return self.solve(y, len(self.limbs.trunk), negative=negative).unfolded(places, places)

    def inverse_matrix(self) -> Array:
        """M^-1 of all coordinates: S^-1, S^-1 N^T, and M_kk^-1 + N_k S^-1 N_k^T of a limb."""
        inverse, own, places = self.trunk.inverse_matrix(), self.own.inverse_matrix(), Places.of(self.limbs)
        x = inverse @ self.N.T
        for i in range(len(own)):
            for j in range(i + 1):
                own[i, j] = own[j, i] = own[i, j] + self.N[i] @ x[:, j]
        found = LimbColumns(len(inverse), np.hstack([inverse, x]), np.hstack([x.T, own]), self._others(x))
        return found.unfolded(places, places, symmetric=True)

    def _others(self, x: Array) -> Callable[[int], Array]:
        """Rows of each limb where the whole robot moves by x."""
        return lambda j: picked(self.N, j) @ x


def picked(a: Array, k: int) -> Array:
    """The entries of one limb."""
    return as_array([pick(x, k) for x in a.ravel().tolist()]).reshape(a.shape)


def _over_limbs(a: Array, limbs: int) -> Array:
    """The entries summed over all limbs."""
    return as_array([sum_over(x, limbs) for x in a.ravel().tolist()]).reshape(a.shape)


def _plus_product(a: Array, A: Array, B: Array) -> Array:
    """a + A B, term by term."""
    out = np.array(a, dtype=object)
    for k in range(A.shape[1]):
        out = out + np.multiply.outer(A[:, k], B[k])
    return out
