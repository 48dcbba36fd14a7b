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

from condyle.mpc.constraints import Side
from condyle.tape.array import array, where

DELTA = 1e-8  # compliance of an equality
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

    def springs(self, dual: Any, d: Any, active: Any, mu: Any) -> tuple[list[Any], list[Any]]:
        """(stiffness, force) of each side: its multiplier after the step is force + stiffness a^T z+. `mu`: one per variable."""
        stiffness, force = [], []
        for b, (side, (s, l, e, m)) in enumerate(zip(self.sides, self.split(dual), strict=True)):
            if side.equality:
                k, f = 1.0 / DELTA, l - d[b] * (1.0 / DELTA)
            else:
                c, shift = self._compliance(b, e, m, mu)
                k = 1.0 / (s / l + c)
                f = k * (s - d[b] - shift + mu[b] / l)
            stiffness.append(where(active[b] > 0.5, k, 0.0))
            force.append(where(active[b] > 0.5, f, 0.0))
        return stiffness, force

    def step(self, dual: Any, stiffness: Any, force: Any, values: Any, active: Any, mu: Any) -> Any:
        """The change of the variables for the values a^T z+ of the sides."""
        changes = []
        for b, (side, (s, l, e, m)) in enumerate(zip(self.sides, self.split(dual), strict=True)):
            here = active[b] > 0.5
            after = force[b] + stiffness[b] * values[b]
            if side.equality:
                changes.append((0.0, where(here, after - l, 0.0), None, None))
                continue
            dl = where(here, after - l, 0.0)
            ds = where(here, (mu[b] - s * after) / l, 0.0)
            de = dm = None
            if e is not None:
                c, shift = self._compliance(b, e, m, mu)
                e_after = c * after + shift
                de = where(here, e_after - e, 0.0)
                dm = where(here, side.l1 + side.l2 * e_after - after - m, 0.0)
            changes.append((ds, dl, de, dm))
        return self.join(changes)

    def _compliance(self, b: int, e: Any, m: Any, mu: Any) -> tuple[Any, Any]:
        """(c, f) of a side."""
        side = self.sides[b]
        if e is None:
            return (0.0 if np.isinf(side.l2) else 1.0 / side.l2), 0.0
        k = self.with_l1.index(b)
        scale = 1.0 / (side.l2 * e + m)
        return e * scale, (mu[self.count + k] + e * (m - side.l1)) * scale

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

    def step_length(self, dual: Any, change: Any) -> Any:
        """The longest step, at most 1, that leaves all slacks and multipliers positive."""
        alpha: Any = 1.0
        for (s, l, e, m), side, (ds, dl, de, dm) in zip(self.split(dual), self.sides, self.split(change), strict=True):
            if not side.equality:
                for x, dx in ((s, ds), (l, dl), (e, de), (m, dm)):
                    if x is not None:
                        alpha = np.minimum(alpha, where(dx < 0.0, -TO_BOUNDARY * x / dx, 1.0))
        return alpha

    def warm(self, dual: Any, least: Any) -> Any:
        """The variables of the last solve with slacks and multipliers of at least `least`: away from the boundary."""
        found = []
        for side, values in zip(self.sides, self.split(dual), strict=True):
            found.append(values if side.equality else tuple(None if x is None else np.maximum(x, least) for x in values))
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
