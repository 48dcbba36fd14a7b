"""Block-tridiagonal systems, stage by stage in scans: the Riccati recursion of linear-quadratic control, and a Cholesky solve.

    min  sum_k  x_k^T Q_k x_k / 2 + u_k^T S_k x_k + u_k^T R_k u_k / 2 + q_k^T x_k + r_k^T u_k,   x_{k+1} = A_k x_k + B_k u_k + c_k

Backward, with m = p_{k+1} + P_{k+1} c_k and the Cholesky factor L of H:

    H = R + B^T P B    G = S + B^T P A    g = r + B^T m    Y = L^-1 G    y = L^-1 g
    K = -L^-T Y        k = -L^-T y        P_k = Q + A^T P A - Y^T Y      p_k = q + A^T m - Y^T y

so that u_k = K_k x_k + k_k. One stage is recorded, however many there are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from condyle.errors import ShapeError
from condyle.tape.linalg import rolled
from condyle.tape.linalg.dispatch import entries, for_arrays, less_dot, plus_dot, traced, zeros
from condyle.tape.linalg.products import product, substitute
from condyle.tape.linalg.symmetric import cholesky_factor, mirrored
from condyle.tape.loop import scan
from condyle.tape.scalar import caller
from condyle.tape.table import table


class Gains(NamedTuple):
    """Feedback u_k = K_k x_k + k_k, and the cost to go x^T P_k x / 2 + p_k^T x, for the stages 0 to N - 1."""

    K: Any
    k: Any
    P: Any
    p: Any


class Trajectory(NamedTuple):
    """States x_1 to x_N and controls u_0 to u_{N-1}."""

    x: Any
    u: Any


@for_arrays(A=3, B=3, Q=3, R=3, S=3, q=2, r=2, c=2)
def riccati(A: Any, B: Any, Q: Any, R: Any, S: Any = None, q: Any = None, r: Any = None, c: Any = None) -> Gains:
    """Gains of the linear-quadratic problem of N stages: A (N, n, n), B (N, n, m), Q (N + 1, n, n), R (N, m, m), S (N, m, n), ...

    q is (N + 1, n), r (N, m) and c (N, n); the last rows of Q and q are the cost of the final state. S, q, r and c are zero if
    left out. Only the lower triangles of Q and R are read; H must be positive definite, or the gains are NaN.
    """
    (N, n), m = A.shape[:2], B.shape[-1]
    wanted = {"A": (N, n, n), "B": (N, n, m), "Q": (N + 1, n, n), "R": (N, m, m), "S": (N, m, n), "q": (N + 1, n), "r": (N, m)}
    given = {"A": A, "B": B, "Q": Q, "R": R, "S": S, "q": q, "r": r, "c": c}
    _require("riccati", given, wanted | {"c": (N, n)})
    affine = q is not None or r is not None or c is not None
    per_stage = {name: x for name, x in given.items() if x is not None and name not in "Qq"}
    # one row more than stages: by index, not row by row
    costs = {name: table(x) for name, x in given.items() if x is not None and name in "Qq"}
    start = (mirrored(entries(Q[-1])), entries(q[-1]) if q is not None else zeros(n) if affine else ())
    missing = {"S": np.zeros((m, n)), "q": np.zeros(n), "r": np.zeros(m), "c": np.zeros(n)}

    def stage(i: Any, state: Any, row: dict[str, Any]) -> Any:
        P, p = entries(state[0]), state[1]
        row = row | {name: costs[name][i] for name in costs}
        A, B, Q, R, S, q, r, c = [entries(row.get(name, missing.get(name))) for name in given]
        PA, PB = product(P, A), product(P, B)
        L = cholesky_factor(_plus(R, B.T, PB, lower=True))
        Y = substitute(L, _plus(S, PB.T, A), lower=True)
        K = -substitute(L.T, Y, lower=False)
        P_new = mirrored(_plus(_plus(Q, A.T, PA, lower=True), -Y.T, Y, lower=True))
        if not affine:
            return (traced(P_new), ()), (traced(K), np.zeros(m), traced(P_new), np.zeros(n))
        mu = _plus(entries(p)[:, None], P, c[:, None])
        y = substitute(L, _plus(r[:, None], B.T, mu), lower=True)
        k = -substitute(L.T, y, lower=False)[:, 0]
        p_new = _plus(q[:, None], A.T, mu)[:, 0]
        p_new[:] = [less_dot(x, Y[:, a], y[:, 0]) for a, x in enumerate(p_new)]
        return (traced(P_new), traced(p_new)), (traced(K), traced(k), traced(P_new), traced(p_new))

    return Gains(*scan(stage, start, per_stage, reverse=True)[1])


@for_arrays(A=3, B=3, K=3, k=2, x0=1, c=2)
def riccati_rollout(A: Any, B: Any, K: Any, k: Any, x0: Any, c: Any = None) -> Trajectory:
    """States and controls of x_{i+1} = A_i x_i + B_i u_i + c_i under u_i = K_i x_i + k_i, from x0 on."""
    (N, n), m = A.shape[:2], B.shape[-1]
    given = {"A": A, "B": B, "K": K, "k": k, "c": c}
    _require(
        "riccati_rollout",
        given | {"x0": x0},
        {"A": (N, n, n), "B": (N, n, m), "K": (N, m, n), "k": (N, m), "c": (N, n), "x0": (n,)},
    )

    def stage(i: Any, x: Any, row: dict[str, Any]) -> Any:
        A, B, K, k, c = [entries(row.get(name, np.zeros(n))) for name in ("A", "B", "K", "k", "c")]
        x = entries(x)[:, None]
        u = _plus(k[:, None], K, x)
        new = traced(_plus(_plus(c[:, None], A, x), B, u)[:, 0])
        return new, (new, traced(u[:, 0]))

    return Trajectory(*scan(stage, entries(x0), {name: x for name, x in given.items() if x is not None})[1])


@for_arrays(D=3, E=3, b=2)
def block_tridiagonal_solve(D: Any, E: Any, b: Any) -> Any:
    """x (N, n) of the symmetric positive definite system with diagonal blocks D (N, n, n) and blocks E (N - 1, n, n) below them.

    E_{k-1} x_{k-1} + D_k x_k + E_k^T x_{k+1} = b_k. By block Cholesky; only the lower triangles of D are read.
    """
    N, n = b.shape
    _require("block_tridiagonal_solve", {"D": D, "E": E, "b": b}, {"D": (N, n, n), "E": (N - 1, n, n), "b": (N, n)})
    E = np.concatenate([np.zeros((1, n, n), dtype=object), np.asarray(E, dtype=object).reshape(N - 1, n, n)])

    def down(i: Any, state: Any, row: Any) -> Any:
        L, y, (D, E, b) = entries(state[0]), entries(state[1]), map(entries, row)
        W = substitute(L, E.T, lower=True).T
        for a, c in zip(*np.tril_indices(n), strict=True):
            D[a, c] = less_dot(D[a, c], W[a], W[c])
        L = traced(cholesky_factor(D))
        y = traced(
            substitute(entries(L), np.array([less_dot(x, row, y) for x, row in zip(b, W, strict=True)], dtype=object), lower=True)
        )
        return (L, y), (L, traced(W), y)

    def up(i: Any, state: Any, row: Any) -> Any:
        x, W, (L, here, y) = entries(state[0]), entries(state[1]), map(entries, row)
        rest = np.array([less_dot(y[a], W[:, a], x) for a in range(n)], dtype=object)
        new = traced(substitute(L.T, rest, lower=False))
        return (new, traced(here)), new

    _, rows = scan(down, (np.eye(n), np.zeros(n)), (D, E, b))
    return scan(up, (np.zeros(n), np.zeros((n, n))), rows, reverse=True)[1]


def _plus(start: np.ndarray, A: np.ndarray, B: np.ndarray, *, lower: bool = False) -> np.ndarray:
    """start + A B; only the lower triangle if `lower`, unless it is a loop."""
    if rolled.terms(A, B) > (2 if lower else 1) * rolled.TERMS:
        return rolled.columns_of(rolled.product(A, B, start))
    result = start.copy()
    for i, j in np.ndindex(result.shape):
        if not lower or j <= i:
            result[i, j] = plus_dot(result[i, j], A[i], B[:, j])
    return result


def _require(function: str, given: dict[str, Any], wanted: dict[str, tuple[int, ...]]) -> None:
    for name, array in given.items():
        if array is not None and tuple(array.shape) != wanted[name]:
            raise ShapeError(f"{caller()}: linalg.{function} needs '{name}' of shape {wanted[name]}, got {tuple(array.shape)}")
