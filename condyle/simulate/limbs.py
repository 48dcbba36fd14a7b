"""Limbs of a robot in a step's equations: branches of the tree with the same pattern, such as the legs of a quadruped.

The solver works on one limb for all: each coordinate and constraint of a limb is one number of each limb (condyle/tape/limbs.py),
whatever the limbs' sizes and axes are. Coordinates of the whole robot come first, then those of a limb. What limbs add to the
whole robot is summed over a limb first, then over the limbs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from condyle.robot.spatial import Array
from condyle.simulate.constraint_list import Constraint
from condyle.tape.limb_values import MOST, each, picks, spread

FEWEST = 3  # limbs that are worth it
PART = 0.5  # of the coordinates, that are those of limbs at least


@dataclass(frozen=True)
class Limbs:
    """The coordinates of the whole robot, and of each limb in the same order."""

    whole: tuple[int, ...]
    limbs: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> int:
        """How many limbs."""
        return len(self.limbs)

    @property
    def coordinates(self) -> int:
        """How many coordinates the robot has."""
        return len(self.whole) + self.count * len(self.limbs[0])

    def pattern(self, ancestor_dofs: list[list[int]]) -> list[list[int]]:
        """The ancestors of each folded coordinate, of those of all."""
        place = {k: i for i, k in enumerate((*self.whole, *self.limbs[0]))}
        return [[place[j] for j in ancestor_dofs[k]] for k in place]

    def path(self, path: Sequence[int], limb: int) -> tuple[int, ...]:
        """Coordinates of the whole robot and of one limb, among the folded ones."""
        place = {k: i for i, k in enumerate((*self.whole, *self.limbs[limb]))}
        return tuple(place[k] for k in path)

    def owner(self, path: Sequence[int]) -> int | None:
        """The limb that some of these coordinates belong to; -1 for none, None for several."""
        found = {l for l, own in enumerate(self.limbs) for k in path if k in own}
        return None if len(found) > 1 else found.pop() if found else -1

    # ---- numbers

    def fold(self, a: Array) -> Array:
        """One entry per coordinate, folded."""
        own = [spread(*[a[limb[i]] for limb in self.limbs]) for i in range(len(self.limbs[0]))]
        return _array([*[a[k] for k in self.whole], *own])

    def fold_matrix(self, M: Array) -> Array:
        """A symmetric matrix of all coordinates without entries between limbs, folded."""
        n, m = len(self.whole), len(self.limbs[0])
        out = np.zeros((n + m, n + m), dtype=object)
        for i, a in enumerate(self.whole):
            out[i, :n] = [M[a, b] for b in self.whole]
        for i in range(m):
            for j in range(n):
                out[n + i, j] = out[j, n + i] = spread(*[M[limb[i], self.whole[j]] for limb in self.limbs])
            for j in range(i + 1):
                out[n + i, n + j] = out[n + j, n + i] = spread(*[M[limb[i], limb[j]] for limb in self.limbs])
        return out

    def unfold(self, a: Array) -> Array:
        """One entry per coordinate of the robot, from folded ones."""
        out = np.zeros(self.coordinates, dtype=object)
        out[list(self.whole)] = a[: len(self.whole)]
        for i, x in enumerate(a[len(self.whole) :]):
            out[[limb[i] for limb in self.limbs]] = picks(x, self.count)
        return out

    def varying(self, a: Array) -> Array:
        """Folded numbers where a loop starts: those of limbs may differ from now on."""
        return _array([x if k < len(self.whole) else each(x, self.count) for k, x in enumerate(a)])

    # ---- constraints

    def groups(self, constraints: Sequence[Constraint]) -> list[list[int]] | None:
        """Constraints that are one for each limb, in order, and those of the whole robot by themselves; None if some are neither."""
        own: list[dict[Any, list[int]]] = [{} for _ in self.limbs]
        out: list[list[int]] = []
        for k, b in enumerate(constraints):
            limb = self.owner(b.path)
            if limb is None:
                return None
            if limb < 0:
                out.append([k])
            else:
                own[limb].setdefault(_kind(b, self.path(b.path, limb)), []).append(k)
        if any({kind: len(found) for kind, found in o.items()} != {kind: len(found) for kind, found in own[0].items()} for o in own):
            return None
        out += [[o[kind][n] for o in own] for kind, found in own[0].items() for n in range(len(found))]
        return out

    def fold_constraints(self, constraints: Sequence[Constraint]) -> Constraint:
        """One constraint for all limbs, or the one of the whole robot."""
        if len(constraints) == 1:
            return replace(constraints[0], path=self.path(constraints[0].path, 0), whole=len(self.whole))
        first = constraints[0]
        laws = [b.law for b in constraints]
        law = replace(first.law, **{f.name: _merged([getattr(law, f.name) for law in laws]) for f in fields(first.law)})
        numbers = {name: _merged([getattr(b, name) for b in constraints]) for name in ("J", "C", "max_speed", "mass", "velocity_scale")}
        return replace(first, law=law, path=self.path(first.path, 0), whole=len(self.whole), limbs=self.count, **numbers)


def _kind(b: Constraint, path: tuple[int, ...]) -> Any:
    """What constraints of different limbs must share to be one."""
    shapes = [np.shape(getattr(b.law, f.name)) for f in fields(b.law)]
    return type(b.law), path, b.J is None, b.C is None, tuple(shapes)


def _merged(values: Sequence[Any]) -> Any:
    """A number of each limb, of one for each; arrays entry by entry."""
    if values[0] is None:
        return None
    if not isinstance(values[0], np.ndarray):
        return _one(values)
    rows = [np.ravel(value).tolist() for value in values]
    return _array([_one(entries) for entries in zip(*rows, strict=True)]).reshape(values[0].shape)


def _one(values: Sequence[Any]) -> Any:
    first = values[0]
    same = all(isinstance(x, (int, float)) and x == first for x in values)
    return first if same else spread(*values)


def _array(values: list[Any]) -> Array:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def find_limbs(pattern: list[list[int]]) -> Limbs | None:
    """The limbs of a tree, given the ancestors of each coordinate, nearest first; None if there are none worth it."""
    n = len(pattern)
    beyond: list[list[int]] = [[k] for k in range(n)]
    for k in reversed(range(n)):
        if pattern[k]:
            beyond[pattern[k][0]] += beyond[k]
    alike: dict[Any, list[int]] = {}
    for k in range(n):
        own = sorted(beyond[k])
        place = {j: i for i, j in enumerate(own)}
        alike.setdefault(tuple(tuple((j in place, place.get(j, j)) for j in pattern[i]) for i in own), []).append(k)
    best = max((roots for roots in alike.values() if FEWEST <= len(roots) <= MOST), key=lambda r: len(r) * len(beyond[r[0]]), default=[])
    if not best or len(best) * len(beyond[best[0]]) < PART * n:
        return None
    limbs = [sorted(beyond[k]) for k in best]
    taken = {k for limb in limbs for k in limb}
    return Limbs(tuple(k for k in range(n) if k not in taken), tuple(tuple(limb) for limb in limbs))
