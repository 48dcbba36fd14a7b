"""Quadratic programs over stages, as data.

min  sum_k  z_k^T H_k z_k / 2 + g_k^T z_k  +  x_N^T H_N x_N / 2 + g_N^T x_N
x_{k+1} = A_k x_k + B_k u_k + c_k,  x_0 given,    sign C_k z_k <= d_k for each side,  and for x_N
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.methods.mpc.barrier import Sides
from condyle.methods.mpc.riccati import Stages
from condyle.tape.array import array, where
from condyle.tape.loop import scan
from condyle.tape.scalar import constant
from condyle.tape.table import Table

LEAST_SCALE = 1e-12  # of a cost, below which there is none


@dataclass(frozen=True)
class QP:
    """A quadratic program: tables over the stages, and arrays of the end.

    `H` (N, s, s), its entries one after the other `flat`, `g` (N, s), `C` (N, rows, s) and `d`, `active` (N, sides) of the sides;
    `H_end` (n, n), `g_end` (n,), `C_end` (rows, n), `d_end`, `active_end` (sides,). `scale` (1,): that of the cost.
    """

    system: Stages
    H: Table
    flat: Table
    g: Table
    C: Table | None
    d: Table | None
    active: Table | None
    H_end: Any
    g_end: Any
    C_end: Any
    d_end: Any
    active_end: Any
    scale: Any
    sides: Sides
    sides_end: Sides


@dataclass(frozen=True)
class QPSolution:
    """z (N, n + m), x_N, slacks and multipliers, the mean product mu over the scale of the cost, what dynamics and sides lack,
    what the stationarity lacks relative to the gradient, the number of iterations, and the change of the cost that is predicted,
    without slacks."""

    z: Any
    end: Any
    duals: Any
    duals_end: Any
    mu: Any
    infeasibility: Any
    stationarity: Any
    iterations: Any
    cost: Any


def cost_scale(H: Table, H_end: Any) -> Any:
    """The largest entry on the diagonals of the Hessians, at most 1: tolerances of costs and multipliers are relative to it."""
    largest: Any = 0.0
    for i in range(len(H_end)):
        largest = np.maximum(largest, H_end[i, i])
    largest = scan(lambda _, most, row: (np.maximum(most, np.max(np.diagonal(row))), None), largest, H)[0]
    return array([where(largest > LEAST_SCALE, np.minimum(largest, 1.0), 1.0)])


def pulled(sides: Sides, C: Any, force: Any) -> Any:
    """C^T force, with the signs of the sides."""
    total: dict[int, Any] = {}
    for side, f in zip(sides.sides, force, strict=True):
        signed = f if side.sign > 0.0 else -f
        total[side.row] = total[side.row] + signed if side.row in total else signed
    found = np.zeros(C.shape[1], dtype=object)
    for row, f in total.items():
        for j in range(C.shape[1]):
            if constant(C[row, j]) != 0.0:
                found[j] = found[j] + C[row, j] * f
    return array(found)


def side_values(sides: Sides, C: Any, z: Any) -> list[Any]:
    """a^T z of each side."""
    rows = {side.row for side in sides.sides}
    values = {r: sum((C[r, j] * z[j] for j in range(C.shape[1]) if constant(C[r, j]) != 0.0), 0.0) for r in sorted(rows)}
    return sides.rows(values)
