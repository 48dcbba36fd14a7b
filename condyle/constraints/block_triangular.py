"""Linear equations of a fixed pattern: unknowns that need each other are solved together, block after block.

Which blocks there are is found once, from the pattern. Small ones are solved by determinants and larger ones by rotations, so
that no pivot has to be chosen, which could be right at one pose and wrong at another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.robot.spatial import Array
from condyle.tape.scalar import constant

Block = tuple[tuple[int, ...], tuple[int, ...]]  # (rows, columns)


def blocks_of(pattern: np.ndarray) -> list[Block]:
    """The blocks of a square matrix, each after those it needs: a block triangular form (Duff and Reid 1978)."""
    row_of = _matching(pattern)
    needs = [[int(c) for c in np.flatnonzero(pattern[row_of[k]]) if c != k] for k in range(len(pattern))]
    return [(tuple(sorted(row_of[c] for c in group)), tuple(sorted(group))) for group in _strong_groups(needs)]


def _matching(pattern: np.ndarray) -> list[int]:
    """A row for each column, such that the entries are in the pattern; rows are found again along alternating ways."""
    row_of: dict[int, int] = {}
    for start in range(len(pattern)):
        # breadth first: from a row to its columns, and on from the rows that have them
        came: dict[int, int] = {}
        rows = [start]
        end = None
        while rows and end is None:
            row = rows.pop(0)
            for column in map(int, np.flatnonzero(pattern[row])):
                if column in came:
                    continue
                came[column] = row
                if column not in row_of:
                    end = column
                    break
                rows.append(row_of[column])
        if end is None:
            raise np.linalg.LinAlgError("structurally singular")
        while end is not None:
            row = came[end]
            before = next((c for c, r in row_of.items() if r == row), None)
            row_of[end] = row
            end = before if row != start else None
    return [row_of[c] for c in range(len(pattern))]


def _strong_groups(needs: list[list[int]]) -> list[list[int]]:
    """Groups of nodes that need each other, what is needed first (Tarjan 1972), without recursion."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    groups: list[list[int]] = []
    for root in range(len(needs)):
        work = [(root, 0)] if root not in index else []
        while work:
            node, at = work.pop()
            if at == 0:
                index[node] = low[node] = len(index)
                stack.append(node)
            for k in range(at, len(needs[node])):
                other = needs[node][k]
                if other not in index:
                    work += [(node, k + 1), (other, 0)]
                    break
                if other in stack:
                    low[node] = min(low[node], low[other])
            else:
                for other in needs[node]:
                    if other in stack:
                        low[node] = min(low[node], low[other])
                if low[node] == index[node]:
                    at = stack.index(node)
                    groups.append(stack[at:])
                    del stack[at:]
    return groups


@dataclass(frozen=True)
class Solved:
    """A matrix of traced numbers, ready to solve with; entries that are zero in the program cost nothing."""

    A: Array
    blocks: list[Block]
    inner: list[Small]

    @staticmethod
    def of(A: Array, blocks: list[Block]) -> Solved:
        """The matrix with each diagonal block of its block-triangular form inverted."""
        return Solved(A, blocks, [small(A[np.ix_(rows, columns)]) for rows, columns in blocks])

    @property
    def determinants(self) -> list[Any]:
        """One for each block: zero where the matrix is singular, and of another sign beyond."""
        return [one.determinant for one in self.inner]

    def solve(self, b: Array) -> Array:
        """A^-1 b for a vector, or for the columns of a matrix."""
        if b.ndim == 2:
            return np.column_stack([self.solve(column) for column in b.T])
        x = np.zeros(len(b), dtype=object)
        known: list[int] = []
        for (rows, columns), one in zip(self.blocks, self.inner, strict=True):
            right = []
            for r in rows:
                total = b[r]
                for c in known:
                    if constant(self.A[r, c]) != 0.0:
                        total = total - self.A[r, c] * x[c]
                right.append(total)
            x[list(columns)] = one.solve(right)
            known += columns
        return x


@dataclass(frozen=True)
class Small:
    """A small full matrix: its determinant, and its inverse as adjugate and 1 / determinant, or as rotations Q and R."""

    determinant: Any
    adjugate: Array | None = None
    inverse: Any = None
    rotated: list[tuple[int, int, Any, Any]] | None = None
    R: Array | None = None

    def solve(self, b: list[Any]) -> list[Any]:
        """A^-1 b."""
        if self.adjugate is not None:
            return [(row @ np.array(b, dtype=object)) * self.inverse for row in self.adjugate]
        assert self.rotated is not None and self.R is not None
        b = list(b)
        for i, j, c, s in self.rotated:
            b[i], b[j] = c * b[i] + s * b[j], c * b[j] - s * b[i]
        for k in reversed(range(len(b))):
            b[k] = (b[k] - sum((self.R[k, j] * b[j] for j in range(k + 1, len(b))), 0.0)) / self.R[k, k]
        return b


def small(A: Array) -> Small:
    """A block, ready to solve with."""
    n = len(A)
    if n == 1:
        return Small(A[0, 0], np.array([[1.0]], dtype=object), 1.0 / A[0, 0])
    if n <= 3:
        adjugate = np.array([[_cofactor(A, j, i) for j in range(n)] for i in range(n)], dtype=object)
        determinant = A[0] @ adjugate[:, 0]
        return Small(determinant, adjugate, 1.0 / determinant)
    R, rotated = np.array(A, dtype=object), []
    for k in range(n - 1):
        for i in range(k + 1, n):
            if constant(R[i, k]) == 0.0:
                continue
            # turn rows k and i so that the entry (i, k) goes
            length = np.sqrt(R[k, k] * R[k, k] + R[i, k] * R[i, k])
            per = 1.0 / length
            c, s = R[k, k] * per, R[i, k] * per
            rotated.append((k, i, c, s))
            R[k], R[i] = R[k] * c + R[i] * s, R[i] * c - R[k] * s
    product: Any = 1.0
    for k in range(n):
        product = product * R[k, k]
    return Small(product, rotated=rotated, R=R)


def _cofactor(A: Array, i: int, j: int) -> Any:
    rest = [[A[r, c] for c in range(len(A)) if c != j] for r in range(len(A)) if r != i]
    minor = rest[0][0] if len(rest) == 1 else rest[0][0] * rest[1][1] - rest[0][1] * rest[1][0]
    return minor if (i + j) % 2 == 0 else -minor
