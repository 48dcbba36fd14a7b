"""The Riccati recursion over tables, for the linear systems of model-predictive control.

    min  sum_k  z_k^T H_k z_k / 2 + g_k^T z_k  +  x_N^T P_N x_N / 2 + p_N^T x_N,   x_{k+1} = A_k x_k + B_k u_k + c_k,  z = (x, u)

`factor` works on the matrices, `solve` on the vectors with these factors, so that one factorisation serves several right-hand
sides. The work of a stage is in loops over the columns of its matrices, which do not depend on each other: in a kernel for one
state the lanes of a vector are columns, and the code of one column is all there is to compile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.tape.array import array, fma, where
from condyle.tape.loop import loop, map_rows, scan
from condyle.tape.table import Table, empty_table

FLAT = 1e-14  # curvature of a control, relative to that without the other controls, which is rounding


@dataclass(frozen=True)
class Stages:
    """The matrices of all stages: `AB` (N, n, n + m), side by side A and B, and `c` (N, n)."""

    AB: Table
    c: Table
    flat: Table  # the entries of AB one after the other
    known: tuple[float | None, ...]  # of a stage: the numbers that the structure fixes

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(N, n, m)."""
        N, n, s = self.AB.shape
        return N, n, s - n

    def entry(self, k: Any, i: int, j: int) -> Any:
        """[A B][i, j] of stage k; a number where the structure fixes it."""
        _, n, s = self.AB.shape
        known = self.known[i * s + j]
        return self.flat.entry(i * s + j, 0, k * float(n * s)) if known is None else known

    def column(self, k: Any, j: Any) -> list[Any]:
        """Column j of [A B] of stage k, where j may be the counter of a loop."""
        _, n, s = self.AB.shape
        return [self.flat.entry(i * s, 0, k * float(n * s) + j) for i in range(n)]

    def split(self, row: Any) -> tuple[Any, Any]:
        """(A, B) of a row of AB."""
        n = self.AB.shape[1]
        return row[:, :n], row[:, n:]


@dataclass(frozen=True)
class Factors:
    """What `solve` needs: gains K by columns (row k n + j), Cholesky factors of the stages, P_{k+1} c_k; and costs P, as K."""

    K: Table
    L: Table
    Pc: Table
    P: Table | None = None


def stages(AB: Table, c: Table) -> Stages:
    """The system of these matrices."""
    return Stages(AB, c, row_after_row(AB), tuple([AB.constant(column) for column in range(AB.columns)]))


def no_factors(N: int, n: int, m: int) -> Factors:
    """Memory for the factors of a system of these sizes."""
    return Factors(empty_table((N * n, m)), empty_table((N, m * (m + 1) // 2)), empty_table((N, n)))


def row_after_row(matrices: Table) -> Table:
    """The entries of all rows of a table one after the other, as a table of one column: a copy.

    The table itself may then lie column after column, as is best for the loop over stages that writes it.
    """
    copied: Table = map_rows(lambda row: row, matrices)
    return copied.reshape(copied.rows * copied.columns, 1)


def factor(system: Stages, H: Table, P_end: Any, into: Factors | None = None) -> Factors:
    """The factors for Hessians (N, s, s) given as a table of all entries, one after the other, and P_N (n, n).

    `into`: factors whose memory is written to.
    """
    N, n, m = system.sizes
    into = no_factors(N, n, m) if into is None else into
    s = n + m
    P = empty_table(((N + 1) * n, n))
    for j, i in np.ndindex(n, n):
        P = P.with_entry(P_end[i, j], N * n + j, i)
    lower = [(i, j) for i in range(m) for j in range(i + 1)]
    start = {"P": P, "K": into.K, "L": into.L, "Pc": into.Pc, "W": empty_table((s, s))}

    def stage(k: Any, state: Any, c: Any) -> Any:
        P, K, W, packed, products = state["P"], state["K"], state["W"], state["L"], state["Pc"]

        def symmetric(i: int, j: int) -> Any:
            # of P_{k+1}, which is symmetric: by its lower triangle
            return P.entry(n + min(i, j), max(i, j), k * float(n))

        def product(j: Any, W: Table) -> Table:
            """Column j of H + [A B]^T P [A B]."""
            column = system.column(k, j)
            y = [_dot([symmetric(i, l) for l in range(n)], column) for i in range(n)]
            for i in range(s):
                start = H.entry(i * s, 0, k * float(s * s) + j)
                W = W.with_entry(plus(start, [system.entry(k, l, i) for l in range(n)], y), 0, i, j)
            return W

        W = loop(product, W, s)
        Quu = np.zeros((m, m), dtype=object)
        for i, j in lower:
            Quu[i, j] = W.entry(n + j, n + i)
        L, inverse = cholesky(Quu, FLAT)
        before, after = W, P

        def update(j: Any, state: Any) -> Any:
            """Column j of the gains, K = -Quu^-1 Qux, and of P = Qxx + Qux^T K."""
            K, P = state
            Qux = [before.entry(0, n + i, j) for i in range(m)]
            gain = [-x for x in substituted(L, inverse, Qux)]
            for i in range(m):
                K = K.with_entry(gain[i], 0, i, k * float(n) + j)
            for i in range(n):
                row = [before.entry(i, n + l, inside(j)) for l in range(m)]
                P = P.with_entry(plus(before.entry(0, i, j), row, gain), 0, i, k * float(n) + j)
            return K, P

        Pc = [_dot([symmetric(i, l) for l in range(n)], list(c)) for i in range(n)]
        K, P = loop(update, (K, after), n)
        for at, (i, j) in enumerate(lower):
            packed = packed.with_entry(L[i, j] if i != j else inverse[i], 0, at, k)
        for i, product_of_c in enumerate(Pc):
            products = products.with_entry(product_of_c, 0, i, k)
        return {"P": P, "K": K, "L": packed, "Pc": products, "W": W}, None

    end, _ = scan(stage, start, system.c, reverse=True)
    return Factors(end["K"], end["L"], end["Pc"], end["P"])


def solve(system: Stages, factors: Factors, g: Table, p_end: Any, x0: Any, into: Table | None = None) -> tuple[Table, Any]:
    """(z (N, n + m), x_N) of the minimum, for gradients g (N, n + m), p_N, and the first state x0; z is written to `into`."""
    N, n, m = system.sizes
    s = n + m

    def backward(k: Any, state: Any, row: Any) -> Any:
        p, w, v = state["p"], state["w"], state["v"]
        y = [a + b for a, b in zip(row["Pc"], [p.entry(i, 0) for i in range(n)], strict=True)]

        def gradient(j: Any, w: Table) -> Table:
            column = system.column(k, j)
            return w.with_entry(plus(v.entry(0, 0, j), y, column), 0, 0, j)

        for i in range(s):
            v = v.with_entry(row["g"][i], i, 0)
        w = loop(gradient, w, s)
        gu = [w.entry(n + i, 0) for i in range(m)]
        L, inverse = unpacked(row["L"], m)
        du = [-x for x in substituted(L, inverse, gu)]

        def cost(j: Any, p: Table) -> Table:
            gain = [factors.K.entry(0, i, k * float(n) + j) for i in range(m)]
            return p.with_entry(plus(w.entry(0, 0, j), gu, gain), 0, 0, j)

        return {"p": loop(cost, p, n), "w": w, "v": v}, array(du)

    p = empty_table((n, 1))
    for i in range(n):
        p = p.with_entry(p_end[i], i, 0)
    start = {"p": p, "w": empty_table((s, 1)), "v": empty_table((s, 1))}
    _, k0 = scan(backward, start, {"g": g, "L": factors.L, "Pc": factors.Pc}, reverse=True)

    def forward(k: Any, state: Any, row: Any) -> Any:
        x, z = state
        u = [plus(row["k0"][i], list(x), [factors.K.entry(j, i, k * float(n)) for j in range(n)]) for i in range(m)]
        both = [*x, *u]
        following = [plus(row["c"][i], [system.entry(k, i, j) for j in range(s)], both) for i in range(n)]
        for i, entry in enumerate(both):
            z = z.with_entry(entry, 0, i, k)
        return (array(following), z), None

    (end, z), _ = scan(forward, (array(x0), empty_table((N, s)) if into is None else into), {"k0": k0, "c": system.c})
    return z, end


def inside(counter: Any) -> Any:
    """0, as an offset that keeps the read of an entry inside of a loop: one load for all lanes, and no register before it."""
    return counter - counter


def _dot(a: list[Any], b: list[Any]) -> Any:
    return plus(a[0] * b[0], a[1:], b[1:])


def plus(start: Any, a: list[Any], b: list[Any]) -> Any:
    """start + a0 b0 + a1 b1 + ..., without the terms that are structurally zero."""
    for x, y in zip(a, b, strict=True):
        if isinstance(x, float) and x == 0.0:
            continue
        start = start + y if isinstance(x, float) and x == 1.0 else fma(x, y, start)
    return start


def cholesky(A: Any, flat: float | None = None) -> tuple[Any, list[Any]]:
    """(L with L L^T = A, reciprocals of its diagonal).

    `flat`: pivots this small, relative to their diagonal entry, are none; their reciprocals are zero, so such a control stays.
    """
    m = len(A)
    L = np.zeros((m, m), dtype=object)
    inverse: list[Any] = []
    for j in range(m):
        pivot = plus(A[j, j], [-L[j, i] for i in range(j)], [L[j, i] for i in range(j)])
        root = np.sqrt(pivot)
        L[j, j] = root
        inverse.append(1.0 / root if flat is None else where(abs(pivot) <= flat * abs(A[j, j]), 0.0, 1.0 / root))
        for i in range(j + 1, m):
            L[i, j] = plus(A[i, j], [-L[i, l] for l in range(j)], [L[j, l] for l in range(j)]) * inverse[j]
    return L, inverse


def substituted(L: Any, inverse: list[Any], b: list[Any]) -> list[Any]:
    """(L L^T)^-1 b, with the reciprocals of the diagonal of L."""
    m, x = len(b), list(b)
    for i in range(m):
        x[i] = plus(x[i], [-L[i, j] for j in range(i)], x[:i]) * inverse[i]
    for i in reversed(range(m)):
        x[i] = plus(x[i], [-L[j, i] for j in range(i + 1, m)], x[i + 1 :]) * inverse[i]
    return x


def unpacked(packed: Any, m: int) -> tuple[Any, list[Any]]:
    """(the factor below its diagonal, reciprocals of the diagonal)."""
    L = np.zeros((m, m), dtype=object)
    entries = iter(packed)
    for i in range(m):
        for j in range(i + 1):
            L[i, j] = next(entries)
    return L, [L[i, i] for i in range(m)]
