"""The solution of a step as a function with a derivative rule.

The solver iterates without derivatives; its solution is differentiated by one linear solve with the solver's own matrix
H = M + sum J^T Sigma J (implicit function theorem).

    M dv - p - sum J^T lambda(y) = 0                     r
    kappa grad(y) - dual(J (v + dv)) = 0                 rho, one for each constraint

The rule is linear in the tangents of M, p, v, J and of the numbers of the laws, whatever these depend on: configurations,
velocities, controls and parameters. Forward mode solves once per direction, reverse mode once per output, and higher orders
differentiate the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from condyle.dynamics.solve import pattern_factor
from condyle.robot.spatial import Array
from condyle.simulate.constraint_list import Constraint, with_smoothing
from condyle.simulate.contact_table import ContactTable
from condyle.simulate.contact_table_rule import TableRule
from condyle.simulate.solver import AncestorDofs, Solution, solve
from condyle.tape.custom import custom_jvp
from condyle.tape.derive import derivative_at_zero
from condyle.tape.scalar import Bool, Scalar, constant

Entry = Callable[[Any], Any]
TABLE_NUMBERS = ("numbers", "axes", "geometry", "friction", "mass", "velocity_scale", "T")  # of a table of contacts
NUMBERS = ("J", "C", "max_speed", "mass", "velocity_scale", "idle")  # of a constraint, besides those of its law


class Equations(NamedTuple):
    """What a step's solution depends on: M, p, the velocity before the step, the constraints, and approximately 1 / M_kk."""

    M: Array
    p: Array
    v: Array
    constraints: list[Constraint]
    contacts: ContactTable | None
    inverse: Array

    def mapped(self, entry: Entry) -> Equations:
        """The equations with every number replaced."""
        constraints = []
        for b in self.constraints:
            law = replace(b.law, **{f.name: _mapped(getattr(b.law, f.name), entry) for f in fields(b.law)})
            constraints.append(replace(b, law=law, **{name: _mapped(getattr(b, name), entry) for name in NUMBERS}))
        contacts = self.contacts
        if contacts is not None:
            contacts = replace(contacts, **{name: _mapped(getattr(contacts, name), entry) for name in TABLE_NUMBERS})
        M, p, v, inverse = (_mapped(a, entry) for a in (self.M, self.p, self.v, self.inverse))
        return Equations(M, p, v, constraints, contacts, inverse)


@dataclass(frozen=True)
class Argument:
    """Where a traced number of the equations is among the arguments of the solution."""

    index: int
    comparison: bool

    def of(self, values: Any) -> Any:
        """The number, or the comparison that it stands for."""
        return values[self.index] > 0.5 if self.comparison else values[self.index]


def _mapped(value: Any, entry: Entry) -> Any:
    if value is None:
        return None
    if not isinstance(value, np.ndarray):
        return entry(value)
    out = np.empty(value.shape, dtype=object)
    out.ravel()[:] = [entry(x) for x in value.ravel().tolist()]
    return out


def solution(ancestor_dofs: AncestorDofs, equations: Equations, tolerance: float) -> Solution:
    """The solution of `solve`, with its derivatives by all traced numbers in the equations."""
    leaves: dict[Any, Scalar] = {}
    arguments: dict[Any, Argument] = {}

    def argument(x: Any) -> Any:
        if not isinstance(x, (Scalar, Bool)):
            return x
        if isinstance(x, Scalar) and (known := constant(x)) is not None:
            return known
        key = id(x.graph), x.index, isinstance(x, Bool)
        if key not in arguments:
            leaves[key] = x.where(1.0, 0.0) if isinstance(x, Bool) else x
            arguments[key] = Argument(len(arguments), isinstance(x, Bool))
        return arguments[key]

    # the rule lives as long as the tape: it keeps no traced numbers, only which argument each one is
    structure = equations.mapped(argument)

    def rebuilt(values: Any) -> Equations:
        """The equations with other values of the traced numbers; constants stay constants."""
        return structure.mapped(lambda x: x.of(values) if isinstance(x, Argument) else x)

    def solved(*values: Any) -> Any:
        found = solve(ancestor_dofs, *rebuilt(values), tolerance)
        iterates = [{name: iterate[name] for name in ("y", "s")} for iterate in found.iterates]
        return found.dv, iterates, found.residual, () if found.points is None else found.points, found.smoothing

    def rule(values: Any, result: Any, tangents: Any) -> Any:
        return _tangents(ancestor_dofs, rebuilt, values, result, tangents)

    dv, iterates, residual, points, smoothing = custom_jvp(solved, rule)(*leaves.values())
    return Solution(dv, iterates, residual, points or None, smoothing)


def _tangents(ancestor_dofs: AncestorDofs, rebuilt: Callable[[Any], Equations], values: Any, result: Any, tangents: Any) -> Any:
    """The tangents of dv, of the unknowns of every constraint, and of the residual and the smoothing, which have none."""
    dv, iterates, _, points, smoothing = result
    here = rebuilt(values)
    velocity = here.v + dv
    H = np.array(here.M, dtype=object)
    compliances, gradients = [], []
    constraints = with_smoothing(here.constraints, smoothing)
    for b, iterate in zip(constraints, iterates, strict=True):
        u = b.velocity(velocity)
        compliance = b.law.compliance(iterate["y"], iterate["s"], u)
        b.add_stiffness(b.law.stiffness(compliance), H)
        compliances.append(compliance)
        # at the solution the gradient is dual / kappa, which loses no digits where the contact slides
        gradients.append(b.law.dual(u, iterate["y"]) * b.law.per)
    table = None if here.contacts is None else TableRule(here.contacts, velocity, here.v, points[0], smoothing)
    if table is not None:
        table.add_stiffness(H)

    def residuals(t: Any) -> dict[str, Any]:
        moved = rebuilt([a + t * b for a, b in zip(values, tangents, strict=True)])
        r = moved.M @ dv - moved.p
        found = {}
        if table is not None and moved.contacts is not None:
            found = {"points": table.residuals(moved.contacts, moved.v + dv, moved.v, r)}
        laws = with_smoothing(moved.constraints, smoothing)
        for k, (b, iterate, gradient) in enumerate(zip(laws, iterates, gradients, strict=True)):
            b.add_impulse(b.law.impulse(iterate["y"]), r, -1.0)
            found[f"rho{k}"] = b.law.kappa * gradient - b.law.dual(b.velocity(moved.v + dv), iterate["y"])
        return {"r": r, **found}

    rates = derivative_at_zero(residuals)
    right = -rates["r"]
    for k, (b, compliance) in enumerate(zip(constraints, compliances, strict=True)):
        b.add_impulse(b.law.impulse_change(compliance @ rates[f"rho{k}"]), right)
    if table is not None:
        table.add_impulses(rates["points"], right)
    change = pattern_factor(ancestor_dofs, H).solve(right)
    ends = []
    for k, (b, compliance) in enumerate(zip(constraints, compliances, strict=True)):
        dy = compliance @ (rates[f"rho{k}"] - b.law.dual_change(b.velocity(change)))
        ends.append({"y": dy, "s": -b.law.slack_decrease(dy)})
    return change, ends, 0.0, () if table is None else table.ends(rates["points"], change), 0.0
