"""Derivatives of solutions: the quadratic program is solved without derivatives, then differentiated as a solution.

At the solution the optimality conditions F(z, data) are zero, so  dz = -(dF/dz)^-1 (dF/d data) d data.  The matrix is that of the
last Newton step, so one more factorisation and, for each direction, one pass backward and one forward over the stages are all it
takes. F is written with the data of the trace, and z, multipliers and costates as constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from condyle.methods.mpc.barrier import Sides
from condyle.methods.mpc.interior_point import hessian_with_springs
from condyle.methods.mpc.kkt import costates, multipliers
from condyle.methods.mpc.program import QP, QPSolution, pulled, side_values
from condyle.methods.mpc.riccati import Factors, Stages, factor, substituted, unpacked
from condyle.tape.array import array, stop_gradient, where
from condyle.tape.loop import map_rows, scan
from condyle.tape.table import Table


def constants(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays and tables as constants of all derivatives."""
    return {name: constant_table(x) if isinstance(x, Table) else stop_gradient(x) for name, x in values.items()}


def constant_table(x: Table) -> Table:
    """A table as a constant of all derivatives."""
    found: Table = map_rows(lambda row: stop_gradient(row), x)
    return found.shaped(x.shape)


def constant_solution(found: QPSolution) -> QPSolution:
    """A solution as a constant of all derivatives."""
    values = {f.name: getattr(found, f.name) for f in fields(found)}
    return QPSolution(**{k: v if isinstance(v, (tuple, float)) else constants({k: v})[k] for k, v in values.items()})


def correction(qp: QP, at: QP, x0: Any, found: QPSolution) -> tuple[Table, Any]:
    """(changes of z (N, n + m), of x_N): zero in value, with the derivatives of the solution.

    `qp`: the program of the data, `at`: the same with constants, `found`: its solution, `x0`: the change of the first state.
    """
    pi, _, _ = costates(at, found.duals, found.duals_end, found.z, found.end)
    H, H_end = hessian_with_springs(at, found.duals, found.duals_end)
    factors = factor(at.system, H, H_end)
    n = at.system.sizes[1]

    def stage(k: Any, _: Any, row: Any) -> Any:
        z, costate = row["z"], row["pi"]
        # the first state is given: what its costate is does not matter
        before = pi[k - 1.0] if at.system.sizes[0] > 1 else np.zeros(n)
        gradient = row["g"] + row["H"] @ z + row["AB"].T @ costate
        gradient = gradient - np.concatenate([before, np.zeros(len(z) - n)])
        if qp.sides.count:
            exact, dual, active = row["C"], row["duals"], row["active"]
            signed = multipliers(qp.sides, dual, active)
            gradient = gradient + pulled(qp.sides, exact, signed)
            lacking = _lacking(qp.sides, dual, side_values(qp.sides, exact, z), row["d"])
            stiffness = at.sides.stiffness(dual, at.sides.reciprocals(dual), active)
            gradient = gradient + pulled(at.sides, row["C_at"], [k * x for k, x in zip(stiffness, lacking, strict=True)])
        following = _z_after(found, k, n, at.system.sizes[0])
        c = row["c"] + row["AB"] @ z - following
        return _, {"g": array(gradient), "c": array(c)}

    rows = {"AB": qp.system.AB, "c": qp.system.c, "g": qp.g, "H": qp.H, "z": found.z, "pi": pi}
    if qp.sides.count:
        rows |= {"C": qp.C, "d": qp.d, "C_at": at.C, "active": at.active, "duals": found.duals}
    _, residual = scan(stage, (), rows)
    last = qp.g_end + qp.H_end @ found.end - pi[at.system.sizes[0] - 1]
    if qp.sides_end.count:
        dual, active = found.duals_end, at.active_end
        last = last + pulled(qp.sides_end, qp.C_end, multipliers(qp.sides_end, dual, active))
        lacking = _lacking(qp.sides_end, dual, side_values(qp.sides_end, qp.C_end, found.end), qp.d_end)
        stiffness = at.sides_end.stiffness(dual, at.sides_end.reciprocals(dual), active)
        last = last + pulled(at.sides_end, at.C_end, [k * x for k, x in zip(stiffness, lacking, strict=True)])
    return _solved(at.system, factors, residual["g"], residual["c"], last, x0 - found.z[0][:n])


def _z_after(found: QPSolution, k: Any, n: int, N: int) -> Any:
    """The change of state k + 1."""
    return array([where(k < N - 1.5, found.z[k + 1.0, i], found.end[i]) if N > 1 else found.end[i] for i in range(n)])


def _lacking(sides: Sides, dual: Any, values: Any, d: Any) -> list[Any]:
    """a^T z - d + s - e of each side: zero at the solution, with the derivatives of a and d."""
    found = []
    for b, (side, (s, l, e, _)) in enumerate(zip(sides.sides, sides.split(dual), strict=True)):
        slack = 0.0 if side.equality else s
        exceeded = e if e is not None else 0.0 if np.isinf(side.l2) else l * (1.0 / side.l2)
        found.append(values[b] - d[b] + slack - exceeded)
    return found


def _solved(system: Stages, factors: Factors, g: Table, c: Table, g_end: Any, x0: Any) -> tuple[Table, Any]:
    """(z, x_N) for other vectors than those that were factored with; the matrices are constants."""
    _, n, m = system.sizes

    assert factors.P is not None
    costs = factors.P

    def backward(k: Any, p: Any, row: Any) -> Any:
        P = array([[costs.entry(n + max(i, j), min(i, j), k * float(n)) for j in range(n)] for i in range(n)])
        K = _gains(factors, k, n, m)
        w = row["g"] + row["AB"].T @ (p + P @ row["c"])
        L, inverse = unpacked(row["L"], m)
        k0 = array([-x for x in substituted(L, inverse, list(w[n:]))])
        return w[:n] + K.T @ w[n:], k0

    rows = {"AB": system.AB, "g": g, "c": c, "L": factors.L}
    _, k0 = scan(backward, array(g_end), rows, reverse=True)

    def forward(k: Any, x: Any, row: Any) -> Any:
        u = _gains(factors, k, n, m) @ x + row["k0"]
        z = np.concatenate([x, u])
        return row["AB"] @ z + row["c"], z

    end, z = scan(forward, array(x0), {"AB": system.AB, "c": c, "k0": k0})
    return z, end


def _gains(factors: Factors, k: Any, n: int, m: int) -> Any:
    return array([[factors.K.entry(j, i, k * float(n)) for j in range(n)] for i in range(m)])
