"""Solves for whole matrices with the mass matrix of a robot with limbs, by blocks.

With b the coordinates of the whole robot and k those of a limb, no entry of M is between limbs, and

    N_k = -M_kk^-1 M_kb        S = M_bb + sum_k M_bk N_k

N_k: how a limb moves with the whole robot; S: the effective mass of the whole robot with its limbs free. M x = y is solved by

    S x_b = y_b + sum_k N_k^T y_k        x_k = M_kk^-1 y_k + N_k x_b

A column y of a limb has entries in that limb and in the whole robot only: its x_b is a number of that limb, and the rows of
another limb j are N_j x_b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.dynamics.limbs import Limbs, as_array
from condyle.dynamics.solve import TreeFactor
from condyle.robot.spatial import Array
from condyle.tape.limb_values import pick, sum_over


@dataclass(frozen=True)
class LimbFactor:
    """`trunk`: the factors of S; `own`: those of M_kk; `N`: see above. Matrices of all coordinates come out unfolded."""

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

    def solve_columns(self, y: Array, *, negative: bool = False) -> Array:
        """M^-1 Y, or -M^-1 Y, unfolded, of a folded matrix Y without entries between limbs."""
        n = len(self.limbs.trunk)
        own = self.own.solve(y[n:], negative=negative)
        of_limb = _plus_product(y[:n, n:], self.N.T, y[n:, n:])
        of_whole = y[:n, :n] + _over_limbs(self.N.T @ y[n:, :n], self.limbs.count)
        x = self.trunk.solve(np.concatenate([of_whole, of_limb], axis=1), negative=negative)
        return self._unfolded(x, _plus_product(own, self.N, x))

    def inverse_matrix(self) -> Array:
        """M^-1, unfolded: S^-1, S^-1 N^T, and M_kk^-1 + N_k S^-1 N_k^T of a limb."""
        inverse = self.trunk.inverse_matrix()
        x = inverse @ self.N.T
        own = self.own.inverse_matrix()
        for i in range(len(own)):
            for j in range(i + 1):
                own[i, j] = own[j, i] = own[i, j] + self.N[i] @ x[:, j]
        return self._unfolded(np.concatenate([inverse, x], axis=1), np.concatenate([x.T, own], axis=1), symmetric=True)

    def _unfolded(self, of_whole: Array, of_limb: Array, *, symmetric: bool = False) -> Array:
        """The matrix of all coordinates, of its rows of the whole robot and of a limb, but those of other limbs."""
        limbs, n = self.limbs, len(self.limbs.trunk)
        trunk, out = list(limbs.trunk), np.zeros((limbs.coordinates, limbs.coordinates), dtype=object)
        out[np.ix_(trunk, trunk)] = of_whole[:, :n]
        for k, limb in enumerate(limbs.limbs):
            out[np.ix_(trunk, limb)] = picked(of_whole[:, n:], k)
            out[np.ix_(limb, trunk)] = picked(of_limb[:, :n], k)
            out[np.ix_(limb, limb)] = picked(of_limb[:, n:], k)
        for j, rows in enumerate(limbs.limbs):
            follow = picked(self.N, j) @ of_whole[:, n:]
            for k, columns in enumerate(limbs.limbs):
                if k < j or (k > j and not symmetric):
                    out[np.ix_(rows, columns)] = picked(follow, k)
                if k < j and symmetric:
                    out[np.ix_(columns, rows)] = picked(follow, k).T
        return out


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
