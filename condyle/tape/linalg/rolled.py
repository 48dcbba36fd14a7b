"""The algorithms as loops over tables, for matrices whose operations would be too many one by one.

Every entry is the result of the same operations in the same order as in the unrolled forms, so the bits are the same. (An entry
that is structurally zero is an ordinary zero here: it costs something, and can give a zero another sign.)

Factorisations go by blocks of columns. Within a block the code is straight; what a block does to the rows below it is a scan over
these rows. So the code grows with n^2, and the operations with n^3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.tape.array import where
from condyle.tape.linalg.dispatch import fma, less_dot, scalar, zeros
from condyle.tape.loop import loop, scan
from condyle.tape.scalar import Scalar, constant
from condyle.tape.table import Table, table, zeros_table

# by `python -m benchmarks linalg`: below these, straight code is up to 1.7 times as fast, and compiles in a second or two
TERMS = 8000  # products of a matmul
SUBSTITUTION = 50_000  # of a triangular solve, with those of the other triangle
CHOLESKY, LU = 40, 28  # rows of a matrix to factor
BLOCK = 8  # columns of a block
STRIP = 16  # sums that a product of a table and a vector has at a time: they stay in registers
FEW = 64  # products of a table and a vector that are straight code


def columns_of(x: Any) -> np.ndarray:
    """All entries of a table as an array of traced scalars."""
    entries = np.empty(x.shape, dtype=object)
    entries[...] = x[:]
    return entries


def terms(A: np.ndarray, B: np.ndarray) -> int:
    """Products of A B without a structural zero."""
    left = np.array([[constant(x) != 0.0 for x in row] for row in A])
    right = np.array([[constant(x) != 0.0 for x in row] for row in B])
    return int((left.sum(axis=0) * right.sum(axis=1)).sum())


def product(A: Any, B: Any, start: Any = None) -> Table:
    """A B, or start + A B: row after row of A, in each the rows of B one after the other."""
    A, B, begin = table(A), table(B), None if start is None else table(start)
    (m, inner), n = A.shape, B.shape[1]
    first = 1 if begin is None else 0  # terms that the sums start with

    def row(i: Scalar, state: Any, _: Any) -> Any:
        def add(k: Scalar, sums: Any) -> Any:
            k = k + float(first)
            return np.array([fma(A[i, k], b, s) for b, s in zip(B[k], sums, strict=True)], dtype=object)

        sums = A[i, 0] * B[0] if begin is None else begin[i]
        return state, loop(add, sums, inner - first) if inner > first else sums

    written: Table = scan(row, (), count=m)[1]
    return written.shaped((m, n))


def times_vector(A: Table, x: np.ndarray) -> np.ndarray:
    """A x, with the sums of some rows at a time: a loop over the columns of A, for each strip of rows."""
    m, inner = A.shape
    entries = table(x)
    sums: list[Any] = []
    for first in range(0, m, STRIP):
        rows = range(first, min(first + STRIP, m))

        def add(k: Scalar, sums: Any, rows: range = rows) -> Any:
            return np.array([fma(A[i, k + 1.0], entries[k + 1.0], s) for i, s in zip(rows, sums, strict=True)], dtype=object)

        start = np.array([A[i, 0] * entries[0] for i in rows], dtype=object)
        sums += list(loop(add, start, inner - 1) if inner > 1 else start)
    return np.array(sums, dtype=object)


def substitute(T: np.ndarray, b: np.ndarray, *, lower: bool, unit: bool) -> np.ndarray:
    """x with T x = b for the columns of b, each by blocks of rows, in the order in which entries become known."""
    n = len(T)
    order = range(n) if lower else range(n - 1, -1, -1)
    inverse = None if unit else table([1.0 / T[i, i] for i in range(n)])
    matrix = table(T)

    def column(c: Scalar, state: Any, rest: Any) -> Any:
        x = zeros_table(n)
        known: list[Any] = []
        for first in range(0, n, BLOCK):
            rows = range(first, min(first + BLOCK, n))
            sums = [rest[order[i]] for i in rows]
            if first:

                def add(k: Scalar, sums: Any, rows: range = rows, x: Table = x) -> Any:
                    place = k if lower else float(n - 1) - k
                    return np.array(
                        [fma(-matrix[order[i], place], x[k], s) for i, s in zip(rows, sums, strict=True)], dtype=object
                    )

                sums = loop(add, np.array(sums, dtype=object), first)
            for i, s in zip(rows, sums, strict=True):
                s = less_dot(s, [matrix[order[i], order[k]] for k in range(first, i)], known[first:i])
                known.append(s if inverse is None else s * inverse[order[i]])
                x = x.set(i, known[i])
        return state, np.array([known[i] for i in order], dtype=object)

    return columns_of(scan(column, (), b.T)[1]).T


# ---- Cholesky and LDL^T


def lower_factor(A: np.ndarray, block: Any) -> tuple[np.ndarray, np.ndarray]:
    """(L, W) of a symmetric matrix: l_ij and w_ij = a_ij - w_i0 l_j0 - ..., of which L is W scaled. For Cholesky both are L.

    `block(S)` factors a diagonal block: (L, W, scale of each column).
    """
    n = len(A)
    T = table(A)
    L, W = zeros(n, n), zeros(n, n)
    panels: list[tuple[int, Table, Table]] = []  # (first row, L, W) of the columns done

    for first in range(0, n, BLOCK):
        width = min(BLOCK, n - first)
        last = first + width

        def reduced(i: Scalar, state: Any, _: Any, first: int = first, width: int = width) -> Any:
            # row first + i, reduced by all columns before this block
            mine = [x for start, _, done in panels for x in done[i + float(first - start)]]
            out = []
            for j in range(first, first + width):
                others = [x for start, done, _ in panels for x in done[j - start]]
                out.append(less_dot(T[i + float(first), j], mine, others))
            return state, np.array(out, dtype=object)

        S = scan(reduced, (), count=n - first)[1]
        square = np.array([[S[r, c] for c in range(width)] for r in range(width)], dtype=object)
        mine, weighted, scale = block(square)
        scaled = weighted is mine
        L[first:last, first:last], W[first:last, first:last] = mine, weighted
        if last == n:
            break

        def finished(
            i: Scalar, state: Any, _: Any, S: Table = S, mine: Any = mine, scale: Any = scale, scaled: bool = scaled
        ) -> Any:
            w: list[Any] = []
            l: list[Any] = []
            for c in range(len(mine)):
                # by what is multiplied with L: W, which is L itself for Cholesky
                w.append(less_dot(S[i + float(len(mine)), c], w, mine[c, :c]))
                l.append(w[c] * scale[c])
                w[c] = l[c] if scaled else w[c]
            return state, (np.array(l, dtype=object), np.array(w, dtype=object))

        below, below_weighted = scan(finished, (), count=n - last)[1]
        panels.append((last, below, below if scaled else below_weighted))
        L[last:, first:last] = columns_of(below)
        W[last:, first:last] = L[last:, first:last] if scaled else columns_of(below_weighted)
    return L, W


# ---- LU


def eliminate(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, Scalar]:
    """(L and U in one matrix, rows of A in order, sign of that permutation), by blocks of columns."""
    n = len(A)
    sign = scalar(1.0)
    packed, p = zeros(n, n), zeros(n)
    # the rows that are left, and the place of each in A
    rest = table(np.column_stack([A, np.arange(n, dtype=float).astype(object)]))
    for first in range(0, n, BLOCK):
        width = min(BLOCK, n - first)
        last = first + width
        pivots, panel, sign = _panel(rest, first, width, sign)
        rows = permuted(rest, np.array([pivot[width] for pivot in pivots], dtype=object))
        for k, pivot in enumerate(pivots):
            packed[first + k, :first] = rows[k, :first]
            packed[first + k, first:last] = pivot[:width]
            p[first + k] = rows[k, n]
        if last == n:
            break

        def upper(j: Scalar, state: Any, _: Any, pivots: Any = pivots, rows: Table = rows, last: int = last) -> Any:
            # column j of U, in the rows of the block
            u: list[Any] = []
            for k, pivot in enumerate(pivots):
                u.append(less_dot(rows[k, j + float(last)], pivot[:k], u))
            return state, np.array(u, dtype=object)

        U = scan(upper, (), count=n - last)[1]
        packed[first:last, last:] = columns_of(U).T

        def below(i: Scalar, state: Any, row: Any, rest: Table = rest, U: Table = U, first: int = first, last: int = last) -> Any:
            old = _row(rest, row[-1])
            new = [less_dot(old[j], row[:-1], U[j - last]) for j in range(last, n)]
            return state, np.array([*old[:first], *row[:-1], *new, old[n]], dtype=object)

        rest = scan(below, (), panel)[1]
    return packed, p, sign


def permuted(b: Any, p: np.ndarray) -> Table:
    """The rows b[p] of a matrix."""
    rows = table(b)
    taken: Table = scan(lambda i, state, place: (state, _row(rows, place)[:]), (), p)[1]
    return taken


def _row(rows: Table, place: Any) -> Any:
    """One row, another one in each lane: a loop, because such an entry is code for every lane."""
    return scan(lambda j, state, _: (state, rows[place, j]), (), count=rows.columns)[1]


def _panel(rest: Table, first: int, width: int, sign: Scalar) -> tuple[list[Any], Any, Scalar]:
    """(finished rows, rows below, sign) of one block: entries of its columns, and the place of each row in `rest`."""
    rows = len(rest)

    def start(i: Scalar, state: Any, _: Any) -> Any:
        return state, np.array([*[rest[i, first + c] for c in range(width)], i], dtype=object)

    panel = scan(start, (), count=rows)[1]
    pivots: list[Any] = []
    for c in range(width):
        top = panel[0]
        if len(panel) == 1:
            pivots.append(top)
            break

        def search(i: Scalar, state: Any, panel: Table = panel, c: int = c) -> Any:
            largest, place, pivot = state
            row = panel[i + 1.0]
            size = abs(row[c])
            larger = size > largest
            return larger.where(size, largest), larger.where(i + 1.0, place), where(larger, row, pivot)

        _, place, pivot = loop(search, (abs(top[c]), scalar(0.0), top), len(panel) - 1)
        same = place == 0.0
        sign = same.where(sign, -sign)
        inverse = (pivot[c] == 0.0).where(0.0, 1.0 / pivot[c])

        def below(
            i: Scalar,
            state: Any,
            _: Any,
            panel: Table = panel,
            c: int = c,
            place: Any = place,
            top: Any = top,
            pivot: Any = pivot,
            inverse: Any = inverse,
        ) -> Any:
            chosen = place == i + 1.0
            row = [chosen.where(a, b) for a, b in zip(top, panel[i + 1.0], strict=True)]
            row[c] = row[c] * inverse
            for j in range(c + 1, width):
                row[j] = fma(-row[c], pivot[j], row[j])
            return state, np.array(row, dtype=object)

        pivots.append(pivot)
        panel = scan(below, (), count=len(panel) - 1)[1]
    return pivots, panel, sign
