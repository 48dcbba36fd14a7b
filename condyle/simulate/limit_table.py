"""Joint limits in a table, see table_part.py: a joint within its limits has no force and no unknowns."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from condyle.dynamics.limbs import Limbs
from condyle.robot.spatial import Array
from condyle.simulate.constraint_list import Constraint
from condyle.simulate.friction_cone import Polytope, ScaledPolytope, largest
from condyle.simulate.limbs import fold_constraints, grouped
from condyle.simulate.table_part import Fields, Point, Rows
from condyle.tape.limb_values import largest_of_all, picks
from condyle.tape.loop import loop
from condyle.tape.table import empty_table, table


def _numbers(b: Constraint) -> list[Any]:
    """What the row of a limit needs to know."""
    assert isinstance(b.law, Polytope)
    return [1.0 - b.idle, b.law.E[0, 0], b.law.kappa, b.law.per, b.mass, b.max_speed]


class LimitRows(Rows):
    """The rows of joint limits, one for each, as table_part.py asks for them."""

    LAW: ClassVar[Fields] = {"E": 0, "kappa": 0, "per": 0}
    ITERATE: ClassVar[Fields] = {"y": 1, "z": 1, "s": 0, "w": 0}
    SCALED: ClassVar[Fields] = {"per_y": 1, "per_z": 1, "per_s": 0, "per_w": 0}
    AHEAD: ClassVar[Fields] = {"to_w": 0, "closing": 1, "rho": 1}
    STEP: ClassVar[Fields] = {"y": 1, "z": 1, "s": 0, "w": 0}
    LINEARISED = ScaledPolytope
    CONSISTENT = ("y", "s")
    UNKNOWNS = 1
    WRENCH, STIFFNESS = 1, 1

    def __init__(self, constraints: list[Constraint], limbs: Limbs | None = None) -> None:
        self.constraints, self.links, self.rows = constraints, len(constraints), 1
        groups = None if limbs is None else grouped(limbs, constraints)
        if limbs is None or groups is None:
            self.touches = largest([1.0 - b.idle for b in constraints])
            self.numbers = table(np.array([_numbers(b) for b in constraints], dtype=object))
            return
        # folded, and unfolded where a joint is beyond its limit
        merged = [_numbers(fold_constraints(limbs, [constraints[k] for k in group])) for group in groups]
        self.touches = largest_of_all([row[0] for row in merged])

        def unfolded(_: Any, carry: Any) -> Any:
            made, rows = carry
            for group, row in zip(groups, rows, strict=True):
                entries = [picks(x, len(group)) for x in row]
                for k, place in enumerate(group):
                    made = made.set(place, [e[k] for e in entries])
            return made, rows

        start = empty_table((len(constraints), len(merged[0]))), np.array(merged, dtype=object)
        self.numbers, _ = loop(unfolded, start, 1, until=lambda _: self.touches < 0.5, body_keeps_tables=True)

    def active(self, row: Any) -> Any:
        """Whether a joint is beyond its limit."""
        return self.numbers[row, 0] > 0.5

    def any_active(self) -> Any:
        """Whether any joint is beyond its limit."""
        return self.touches > 0.5

    def motions(self, v: Array) -> Array:
        """(joints, 1)."""
        return np.array([b.velocity(v) for b in self.constraints], dtype=object)

    def coordinates(self, count: int) -> list[int]:
        """Those of the joints."""
        return sorted({k for b in self.constraints for k in b.path})

    def stiffened(self, pattern: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Those between the coordinates of one joint; in reduced coordinates it may have several."""
        return [(i, j) for i, j in pattern if any(i in b.path and j in b.path for b in self.constraints)]

    def add_wrenches(self, totals: Array, into: Array, sign: float = 1.0) -> None:
        """At each joint."""
        for b, total in zip(self.constraints, totals, strict=True):
            b.add_impulse(total, into, sign)

    def add_stiffness(self, totals: Array, H: Array) -> None:
        """At each joint."""
        for b, total in zip(self.constraints, totals, strict=True):
            b.add_stiffness(total[None, :], H)

    def scale(self) -> Any:
        """The inertia of each joint."""
        return sum(b.mass * b.velocity_scale * b.velocity_scale for b in self.constraints)

    def beginning(self, point: Point, motion: Array) -> tuple[Polytope, Any, Any]:
        """(law, inertia, speed) before the step."""
        _, E, kappa, per, mass, speed = self.numbers[point.row]
        return Polytope(np.array([[E]], dtype=object), kappa, per), mass, speed

    def stored_law(self, law: Polytope) -> dict[str, Any]:
        """The columns of a law."""
        return {"E": law.E[0, 0], "kappa": law.kappa, "per": law.per}

    def law(self, point: Point) -> Polytope:
        """The law of the columns."""
        return Polytope(np.array([[point.get("E")]], dtype=object), point.get("kappa"), point.get("per"))

    def velocity(self, point: Point, motion: Array) -> Array:
        """Of the joint."""
        return motion

    def wrench(self, point: Point, impulse: Array) -> Array:
        """At the joint."""
        return impulse

    def stiffness(self, point: Point, Sigma: Array) -> Array:
        """At the joint."""
        return Sigma[0]
