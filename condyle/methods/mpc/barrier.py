"""One-sided inequalities of a stage inside of an interior-point method: slacks, multipliers and their Newton equations.

Of each side  a^T z + s - e = d,  s >= 0, with multiplier l. A soft side may be exceeded by e >= 0 at the cost l1 e + l2 e^2 / 2,
which makes  l = l1 + l2 e - m  with the multiplier m of e >= 0. On the central path  s l = mu  and  e m = mu. Newton's step gives

    l+ = sigma (a^T z+ - d - f + s + mu / l),    1 / sigma = s / l + c,    e+ = c l+ + f

with c = f = 0 for a hard side, c = 1 / l2 and f = 0 without l1, and otherwise  c = e / (l2 e + m),
f = (mu + e m - e l1) / (l2 e + m). So a side is a spring of stiffness sigma in the quadratic program. An equality is one with
the stiffness 1 / DELTA, whose multiplier grows by its residual (method of multipliers).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.methods.mpc.constraints import Side
from condyle.tape.array import array, where

DELTA = 1e-8  # compliance of an equality
MOST = 1e10  # that a solve starts with: multipliers of a program that has no solution grow without limit
FAR = 100.0  # a slack, from which on its multiplier may begin with less: bounds that are far away do not matter
TO_BOUNDARY = 0.995  # how far a step may go towards s = 0 or l = 0


@dataclass(frozen=True)
class Sides:
    """The sides of one stage. Their variables are one vector: s and l of each side, then e and m of those with an l1."""

    sides: tuple[Side, ...]

    @property
    def count(self) -> int:
        """Number of sides."""
        return len(self.sides)

    @property
    def with_l1(self) -> list[int]:
        """The sides whose slack has a linear cost."""
        return [b for b, side in enumerate(self.sides) if side.l1 > 0.0]

    @property
    def size(self) -> int:
        """Variables: slacks and multipliers."""
        return 2 * self.count + 2 * len(self.with_l1)

    def rows(self, values: Any) -> list[Any]:
        """sign h of each side."""
        return [_signed(side.sign, values[side.row]) for side in self.sides]

    def distances(self, h: Any, lower: Any, upper: Any) -> list[Any]:
        """d = sign (bound - h) of each side."""
        bounds = [upper[s.row] if s.sign > 0.0 else lower[s.row] for s in self.sides]
        return [_signed(s.sign, b - h[s.row]) for s, b in zip(self.sides, bounds, strict=True)]

    def split(self, dual: Any) -> list[tuple[Any, ...]]:
        """(s, l, e, m) of each side; e and m are None without l1."""
        n, extra = self.count, self.with_l1
        place = {b: k for k, b in enumerate(extra)}
        e, m = dual[2 * n : 2 * n + len(extra)], dual[2 * n + len(extra) :]
        return [
            (dual[b], dual[n + b], e[place[b]] if b in place else None, m[place[b]] if b in place else None) for b in range(n)
        ]

    def join(self, each: list[tuple[Any, ...]]) -> Any:
        """The vector of variables from (s, l, e, m) of each side."""
        extra = self.with_l1
        parts = [[v[0] for v in each], [v[1] for v in each], [each[b][2] for b in extra], [each[b][3] for b in extra]]
        return array([x for part in parts for x in part])

    # ---- Newton's equations

    def reciprocals(self, dual: Any) -> Any:
        """1 / s, 1 / l, 1 / e and 1 / m; ones for equalities, which need none."""
        found = []
        for side, values in zip(self.sides, self.split(dual), strict=True):
            found.append(tuple(None if x is None else 1.0 if side.equality else 1.0 / x for x in values))
        return self.join(found)

    def stiffness(self, dual: Any, reciprocal: Any, active: Any) -> list[Any]:
        """sigma of each side."""
        found = []
        each = zip(self.sides, self.split(dual), self.split(reciprocal), strict=True)
        for b, (side, (s, _, e, m), (_, by_l, _, _)) in enumerate(each):
            k = 1.0 / DELTA if side.equality else 1.0 / (s * by_l + self._compliance(b, e, m))
            found.append(where(active[b] > 0.5, k, 0.0))
        return found

    def forces(self, dual: Any, reciprocal: Any, stiffness: Any, d: Any, active: Any, mu: Any) -> list[Any]:
        """The force of each side: its multiplier after the step is force + stiffness a^T z+. `mu`: one per product."""
        found = []
        each = zip(self.sides, self.split(dual), self.split(reciprocal), strict=True)
        for b, (side, (s, l, e, m), (_, by_l, _, _)) in enumerate(each):
            if side.equality:
                force = l - d[b] * (1.0 / DELTA)
            else:
                force = stiffness[b] * (s - d[b] - self._shift(b, e, m, mu) + mu[b] * by_l)
            found.append(where(active[b] > 0.5, force, 0.0))
        return found

    def step(self, dual: Any, reciprocal: Any, stiffness: Any, force: Any, values: Any, active: Any, mu: Any) -> Any:
        """The change of the variables for the values a^T z+ of the sides."""
        changes = []
        each = zip(self.sides, self.split(dual), self.split(reciprocal), strict=True)
        for b, (side, (s, l, e, m), (_, by_l, _, _)) in enumerate(each):
            here = active[b] > 0.5
            after = force[b] + stiffness[b] * values[b]
            if side.equality:
                changes.append((0.0, where(here, after - l, 0.0), None, None))
                continue
            dl = where(here, after - l, 0.0)
            ds = where(here, (mu[b] - s * after) * by_l, 0.0)
            de = dm = None
            if e is not None:
                e_after = self._compliance(b, e, m) * after + self._shift(b, e, m, mu)
                de = where(here, e_after - e, 0.0)
                dm = where(here, side.l1 + side.l2 * e_after - after - m, 0.0)
            changes.append((ds, dl, de, dm))
        return self.join(changes)

    def _compliance(self, b: int, e: Any, m: Any) -> Any:
        """c of a side."""
        side = self.sides[b]
        if e is None:
            return 0.0 if np.isinf(side.l2) else 1.0 / side.l2
        return e / (side.l2 * e + m)

    def _shift(self, b: int, e: Any, m: Any, mu: Any) -> Any:
        """f of a side."""
        side = self.sides[b]
        if e is None:
            return 0.0
        return (mu[self.count + self.with_l1.index(b)] + e * (m - side.l1)) / (side.l2 * e + m)

    # ---- the central path

    def products(self, dual: Any, active: Any) -> list[Any]:
        """s l of each side and e m of each that has them, zero for those that are not active."""
        each = self.split(dual)
        found = [
            0.0 if side.equality else where(active[b] > 0.5, s * l, 0.0)
            for b, (side, (s, l, _, _)) in enumerate(zip(self.sides, each, strict=True))
        ]
        return found + [where(active[b] > 0.5, each[b][2] * each[b][3], 0.0) for b in self.with_l1]

    def pairs(self, active: Any) -> Any:
        """How many products there are."""
        inequalities = [active[b] for b, side in enumerate(self.sides) if not side.equality]
        return sum([*inequalities, *[active[b] for b in self.with_l1]], 0.0)

    def decrease(self, reciprocal: Any, change: Any) -> Any:
        """The largest -dx / x of all slacks and multipliers, at least 0: a step of 1 over it makes the first of them zero."""
        largest: Any = 0.0
        for by, side, changes in zip(self.split(reciprocal), self.sides, self.split(change), strict=True):
            if not side.equality:
                for by_x, dx in zip(by, changes, strict=True):
                    if by_x is not None:
                        largest = np.maximum(largest, -(dx * by_x))
        return largest

    def warm(self, dual: Any, d: Any, least: Any) -> Any:
        """The variables of the last solve, away from the boundary: slacks and multipliers from `least` to MOST, multipliers of
        slacks above FAR from less. A slack below a distance d of more than 1 becomes the distance, with the same product."""

        def away(x: Any, y: Any) -> tuple[Any, Any]:
            x = np.minimum(np.maximum(x, least), MOST)
            return x, np.minimum(np.maximum(y, least * np.minimum(1.0, FAR / x)), MOST)

        found = []
        for side, distance, (s, l, e, m) in zip(self.sides, d, self.split(dual), strict=True):
            if side.equality:
                found.append((s, l, e, m))
                continue
            s, l = away(s, l)
            near = distance <= np.maximum(s, 1.0)
            s, l = where(near, s, distance), where(near, l, s * l / distance)
            found.append((s, l, *(away(e, m) if e is not None else (None, None))))
        return self.join(found)

    def start(self) -> np.ndarray:
        """Slacks and multipliers of a first solve: ones, and zero for the multipliers of equalities."""
        dual = np.ones(self.size)
        for b, side in enumerate(self.sides):
            if side.equality:
                dual[self.count + b] = 0.0
        return dual


def _signed(sign: float, x: Any) -> Any:
    return x if sign > 0.0 else -x
