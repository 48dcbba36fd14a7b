"""The derivative rule of a step for contact points in a table: the terms of solution.py, by loops over all points.

A point above the ground has the largest impulse zero: its terms are zero without asking whether it touches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condyle.robot.spatial import Array, vector
from condyle.simulate.contact_table import STIFFNESS, UPPER, ContactTable, PointGeometry
from condyle.simulate.friction_cone import Cone
from condyle.tape.loop import map_rows
from condyle.tape.table import table


class TableRule:
    """The rule at a solution: `after` and `before` are the velocities, `unknowns` the y and s of each point, (rows, 4).

    `smoothing`: the least of the laws at the solution, J.
    """

    def __init__(self, contacts: ContactTable, after: Array, before: Array, unknowns: Array, smoothing: Any = 0.0) -> None:
        self.contacts, self.unknowns, self.smoothing = contacts, unknowns, smoothing

        def local(row: PointGeometry, law: Cone, u: Array, y: Array, s: Any) -> list[Any]:
            Q = law.compliance(y, s, u)
            # at the solution the gradient is dual / kappa, which loses no digits where the contact slides
            gradient = law.dual(u, y) * law.per
            return [*[Q[i, j] for i, j in UPPER], *law.D[:2], *gradient, *row.stiffness(law.stiffness(Q))]

        found = self._of_laws(contacts, after, before, unknowns, local)
        self.compliance, self.gradient, self.stiffness = found[:, :8], found[:, 8:11], found[:, 11:]

    def add_stiffness(self, H: Array) -> None:
        """Add the stiffness of all points to H."""
        self.contacts.add_stiffness(self._by_link(self.stiffness, STIFFNESS), H)

    def residuals(self, contacts: ContactTable, after: Array, before: Array, r: Array) -> Array:
        """(residual of the law, impulse) of each point, (rows, 6), with other numbers; its impulse is taken from r."""

        def local(row: PointGeometry, law: Cone, u: Array, y: Array, gradient: Array) -> list[Any]:
            impulse = law.impulse(y)
            return [*(law.kappa * gradient - law.dual(u, y)), *impulse, *row.wrench(impulse)]

        given = np.concatenate([self.unknowns[:, :3], self.gradient], axis=1)
        found = self._of_laws(contacts, after, before, given, local)
        contacts.add_wrenches(self._by_link(found[:, 6:], 6), r, -1.0)
        return found[:, :6]

    def add_impulses(self, rates: Array, right: Array) -> None:
        """Add the impulses that follow from the rates of the residuals at constant velocity."""

        def local(row: PointGeometry, Q: Array, D: Array, rates: Array, u: Array) -> list[Any]:
            return [*row.wrench(D * (Q @ rates[:3]))]

        still = np.zeros((len(self.contacts.layout.links), 6))
        self.contacts.add_wrenches(self._by_link(self._linear(rates, still, local), 6), right)

    def ends(self, rates: Array, change: Array) -> tuple[Array, Array]:
        """The tangents of (y and s, impulse), (rows, 4) and (rows, 3), where the velocity changes by `change`."""

        def local(row: PointGeometry, Q: Array, D: Array, rates: Array, u: Array) -> list[Any]:
            dy = Q @ (rates[:3] - D * u)
            return [*dy, -dy[0], *(rates[3:] + D * dy)]

        found = self._linear(rates, self.contacts.velocities(change), local)
        return found[:, :4], found[:, 4:]

    # ---- loops over all rows

    def _of_laws(
        self, contacts: ContactTable, after: Array, before: Array, given: Array, body: Callable[..., list[Any]]
    ) -> Array:
        """body(geometry, law, velocity after the step, first three of `given`, the others)  of each point."""
        motions = np.concatenate([contacts.velocities(after), contacts.velocities(before)], axis=1)
        columns = [
            contacts.geometry,
            contacts.friction[:, None],
            self._spread(contacts.mass[:, None]),
            self._spread(motions),
            given,
        ]
        width = contacts.geometry.shape[1]

        def local(entries: Array) -> Array:
            row, rest = PointGeometry.of(entries[:width]), entries[width:]
            law = contacts.law(contacts.numbers, rest[0], rest[1], row.depth, row.velocity(rest[8:14])).smoothed(self.smoothing)
            y, more = rest[14:17], rest[17:]
            return np.array(body(row, law, row.velocity(rest[2:8]), y, more[0] if len(more) == 1 else more), dtype=object)

        return self._mapped(local, columns)

    def _linear(self, rates: Array, motions: Array, body: Callable[..., list[Any]]) -> Array:
        """body(geometry, compliance, D, rates, velocity)  of each point."""
        columns = [self.contacts.geometry, self.compliance, rates, self._spread(motions)]
        width = self.contacts.geometry.shape[1]

        def local(entries: Array) -> Array:
            row, rest = PointGeometry.of(entries[:width]), entries[width:]
            Q = np.array([[rest[0], rest[1], rest[2]], [rest[1], rest[3], rest[4]], [rest[2], rest[4], rest[5]]], dtype=object)
            D = vector(rest[6], rest[7], rest[7])
            return np.array(body(row, Q, D, rest[8:14], row.velocity(rest[14:])), dtype=object)

        return self._mapped(local, columns)

    @staticmethod
    def _mapped(local: Callable[[Array], Array], columns: list[Array]) -> Array:
        found: Array = map_rows(local, table(np.concatenate([np.asarray(c, dtype=object) for c in columns], axis=1)))[:]
        return found

    def _spread(self, by_link: Array) -> Array:
        """Numbers of links as numbers of rows."""
        return np.repeat(by_link, self.contacts.layout.rows, axis=0)

    def _by_link(self, by_row: Array, width: int) -> Array:
        """Sums over the rows of each link."""
        rows, layout = by_row.reshape(-1, self.contacts.layout.rows, width), self.contacts.layout
        counts = [len(layout.points_of(n)) for n in range(len(layout.links))]
        return np.array([sum(own[1:count], own[0]) for own, count in zip(rows, counts, strict=True)], dtype=object)
