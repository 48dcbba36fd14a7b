"""Limbs of a robot: branches of its tree with the same pattern, such as the legs of a quadruped.

Physics is written for one limb that stands for all: each coordinate of a limb is one number of each limb
(condyle/tape/limbs.py), whatever the limbs' sizes and axes are. Coordinates of the whole robot come first, then those of a limb.
What limbs add to the whole robot is summed over a limb first, then over the limbs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from condyle.robot.model import Link
from condyle.robot.spatial import Array
from condyle.tape.limb_values import MOST, each, picks, spread, sum_of_all, sum_over

FEWEST = 3  # limbs that are worth it
PART = 0.4  # of the coordinates, that are those of limbs at least


@dataclass(frozen=True)
class Limbs:
    """The coordinates of the whole robot, and of each limb in the same order."""

    trunk: tuple[int, ...]
    limbs: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> int:
        """How many limbs."""
        return len(self.limbs)

    @property
    def coordinates(self) -> int:
        """How many coordinates the robot has."""
        return len(self.trunk) + self.count * len(self.limbs[0])

    def pattern(self, ancestor_dofs: list[list[int]]) -> list[list[int]]:
        """The ancestors of each folded coordinate, of those of all."""
        place = {k: i for i, k in enumerate((*self.trunk, *self.limbs[0]))}
        return [[place[j] for j in ancestor_dofs[k]] for k in place]

    def place(self, i: int, j: int) -> tuple[int, int]:
        """The entry of a folded matrix that stands for one of the matrix of all coordinates."""
        found = {k: n for n, k in enumerate(self.trunk)}
        for limb in self.limbs:
            found |= {k: len(self.trunk) + n for n, k in enumerate(limb)}
        return max(found[i], found[j]), min(found[i], found[j])

    def path(self, path: Sequence[int], limb: int) -> tuple[int, ...]:
        """Coordinates of the whole robot and of one limb, among the folded ones."""
        place = {k: i for i, k in enumerate((*self.trunk, *self.limbs[limb]))}
        return tuple(place[k] for k in path)

    def owner(self, path: Sequence[int]) -> int | None:
        """The limb that some of these coordinates belong to; -1 for none, None for several."""
        found = {l for l, own in enumerate(self.limbs) for k in path if k in own}
        return None if len(found) > 1 else found.pop() if found else -1

    # ---- numbers

    def fold(self, a: Array) -> Array:
        """One entry per coordinate, folded."""
        own = [spread(*[a[limb[i]] for limb in self.limbs]) for i in range(len(self.limbs[0]))]
        return as_array([*[a[k] for k in self.trunk], *own])

    def fold_matrix(self, M: Array) -> Array:
        """A symmetric matrix of all coordinates without entries between limbs, folded."""
        n, m = len(self.trunk), len(self.limbs[0])
        out = np.zeros((n + m, n + m), dtype=object)
        for i, a in enumerate(self.trunk):
            out[i, :n] = [M[a, b] for b in self.trunk]
        for i in range(m):
            for j in range(n):
                out[n + i, j] = out[j, n + i] = spread(*[M[limb[i], self.trunk[j]] for limb in self.limbs])
            for j in range(i + 1):
                out[n + i, n + j] = out[n + j, n + i] = spread(*[M[limb[i], limb[j]] for limb in self.limbs])
        return out

    def unfold(self, a: Array) -> Array:
        """One entry per coordinate of the robot, from folded ones."""
        out = np.zeros(self.coordinates, dtype=object)
        out[list(self.trunk)] = a[: len(self.trunk)]
        for i, x in enumerate(a[len(self.trunk) :]):
            out[[limb[i] for limb in self.limbs]] = picks(x, self.count)
        return out

    def unfold_matrix(self, M: Array) -> Array:
        """A symmetric matrix of all coordinates, from a folded one."""
        n, out = len(self.trunk), np.zeros((self.coordinates, self.coordinates), dtype=object)
        for i, a in enumerate(self.trunk):
            out[a, list(self.trunk)] = M[i, :n]
        for i in range(n, len(M)):
            for j in range(i + 1):
                for limb, x in zip(self.limbs, picks(M[i, j], self.count), strict=True):
                    a, b = limb[i - n], self.trunk[j] if j < n else limb[j - n]
                    out[a, b] = out[b, a] = x
        return out

    # ---- arithmetic of folded arrays

    def times(self, M: Array, x: Array) -> Array:
        """M x."""
        n = len(self.trunk)
        own, partial, limb = M[:n, :n] @ x[:n], M[:n, n:] @ x[n:], M[n:] @ x
        return np.concatenate([own + [sum_over(term, self.count) for term in partial], limb])

    def dot(self, a: Array, b: Array) -> Any:
        """a . b over all coordinates of the robot."""
        return self.sum(a * b)

    def sum(self, a: Array) -> Any:
        """The sum over all coordinates of the robot."""
        return sum_of_all(a, [0 if k < len(self.trunk) else self.count for k in range(len(a))])

    def varying(self, a: Array) -> Array:
        """Folded numbers where a loop starts: those of limbs may differ from now on."""
        return as_array([x if k < len(self.trunk) else each(x, self.count) for k, x in enumerate(a)])


def joined(link: Link, value: Any) -> Any:
    """What a link gives to its parent, a force or an inertia; of a link that stands for those of all limbs, their sum."""
    if not link.limbs:
        return value

    def over(a: Any) -> Any:
        if np.ndim(a) == 0:
            return sum_over(a, link.limbs)
        return as_array([sum_over(x, link.limbs) for x in np.ravel(a)]).reshape(np.shape(a))

    return type(value)(**{f.name: over(getattr(value, f.name)) for f in fields(value)})


def merged(values: Sequence[Any]) -> Any:
    """A number of each limb, of one for each; arrays entry by entry."""
    if values[0] is None:
        return None
    if len(values) == 1:
        return values[0]
    if not isinstance(values[0], np.ndarray):
        return _merged_number(values)
    rows = [np.ravel(value).tolist() for value in values]
    return as_array([_merged_number(entries) for entries in zip(*rows, strict=True)]).reshape(values[0].shape)


def _merged_number(values: Sequence[Any]) -> Any:
    first = values[0]
    same = all(isinstance(x, (int, float)) and x == first for x in values)
    return first if same else spread(*values)


def as_array(values: list[Any]) -> Array:
    """The values as an array."""
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
    best = max(
        (roots for roots in alike.values() if FEWEST <= len(roots) <= MOST), key=lambda r: len(r) * len(beyond[r[0]]), default=[]
    )
    if not best or len(best) * len(beyond[best[0]]) < PART * n:
        return None
    limbs = [sorted(beyond[k]) for k in best]
    taken = {k for limb in limbs for k in limb}
    return Limbs(tuple(k for k in range(n) if k not in taken), tuple(tuple(limb) for limb in limbs))
