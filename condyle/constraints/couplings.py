"""Linear couplings: joints that follow others in proportion, as mimic joints, gears and differentials do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condyle.constraints.coordinate_map import Configurations, ConstraintMap, CoordinateMap
from condyle.constraints.reduced_coordinates import entries, following, listed, reduced_model
from condyle.errors import RobotError
from condyle.robot.edit import only
from condyle.robot.model import Model
from condyle.robot.spatial import Array


@dataclass(frozen=True)
class Coupling:
    """q[joint] = offset + sum of ratio * q[other]."""

    joint: str
    ratios: Mapping[str, float]
    offset: float = 0.0


@dataclass(frozen=True)
class Coupled(ConstraintMap):
    """The constraint of some couplings; G is constant, and leaves the joints that remain as they are."""

    below: Model
    couplings: tuple[Coupling, ...]
    reduced: Model = field(init=False)
    start: np.ndarray = field(init=False)
    G: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        below = self.below
        followers = {only(below, c.joint): c for c in self.couplings}
        for i, coupling in followers.items():
            _check(below, coupling, set(followers), i)
        kept = [i for i in range(len(below.links)) if i not in followers]
        if not kept:
            raise RobotError(f"robot '{below.name}': the couplings leave no joint free; leave at least one without a coupling")
        reduced = reduced_model(below.name, [below.links[i] for i in kept])
        column = {below.links[i].joint: reduced.links[k].v.start for k, i in enumerate(kept)}
        G = np.zeros((below.nv, reduced.nv))
        _, free = entries(below, kept)
        G[free, np.arange(reduced.nv)] = 1.0
        for i, coupling in followers.items():
            for other, ratio in coupling.ratios.items():
                G[below.links[i].v.start, column[other]] += ratio
        object.__setattr__(self, "reduced", reduced)
        object.__setattr__(self, "start", reduced.written())
        object.__setattr__(self, "G", G)

    @property
    def passive(self) -> set[str]:
        """Joints that follow others and have no motor of their own."""
        return {c.joint for c in self.couplings}

    def configuration(self, model: Model, lower: CoordinateMap, y: Array) -> Array:
        """x: y and the followers' positions, sum(ratio * leader) + offset."""
        below = self.below
        followers = {only(below, c.joint): c for c in self.couplings}
        kept, _ = entries(below, [i for i in range(len(below.links)) if i not in followers])
        x = np.zeros(below.nq, dtype=object)
        x[kept] = y
        for i, c in followers.items():
            leaders = [(self.reduced.links[only(self.reduced, other)].q.start, ratio) for other, ratio in c.ratios.items()]
            x[below.links[i].q.start] = sum((y[k] * ratio for k, ratio in leaders), 0.0) + c.offset
        return x

    def differential(self, at: Configurations, y: Array) -> Array:
        """G, the same at all configurations."""
        return self.G.astype(object)

    @property
    def reaction_names(self) -> list[str]:
        """Names of the constraint forces: the joints that follow."""
        return [c.joint for c in self.couplings]

    def reaction_rows(self, at: Configurations) -> Array:
        """v_joint - sum(ratio * v_other), one row per coupling over all coordinates of the robot."""
        rows = np.zeros((len(self.couplings), self.below.nv), dtype=object)
        for row, c in zip(rows, self.couplings, strict=True):
            row[self.below.links[only(self.below, c.joint)].v.start] = 1.0
            for other, ratio in c.ratios.items():
                row[self.below.links[only(self.below, other)].v.start] = -ratio
        # below may itself be reduced: its coordinates are those of joints with the same names
        full = np.zeros((len(rows), at.model.nv), dtype=object)
        for link in self.below.links:
            full[:, at.model.links[only(at.model, link.joint)].v] = rows[:, link.v]
        return full

    def summary(self) -> str:
        """What it constrains, in half a sentence."""
        leaders = dict.fromkeys(other for c in self.couplings for other in c.ratios)
        return f"{following([c.joint for c in self.couplings])} in proportion to {listed(list(leaders))}"


def coupling_of(joint: str, row: Any) -> Coupling:
    """("other", ratio, offset), ("other", ratio), "other", ({other: ratio}, offset) or {other: ratio}."""
    parts = list(row) if isinstance(row, tuple | list) else [row]
    if parts and isinstance(parts[0], Mapping):
        ratios, offset = dict(parts[0]), [*parts[1:], 0.0][0]
    elif parts and isinstance(parts[0], str):
        ratios, offset = {parts[0]: [*parts[1:], 1.0][0]}, [*parts[2:], 0.0][0]
    else:
        raise RobotError(
            f"the coupling of joint '{joint}' must name what it follows, as ('other', ratio, offset); got {row!r:.60}"
        )
    try:
        return Coupling(joint, {name: float(ratio) for name, ratio in ratios.items()}, float(offset))
    except (TypeError, ValueError):
        raise RobotError(
            f"the coupling of joint '{joint}': ratios and the offset are numbers, as ('other', ratio, offset); got {row!r:.60}"
        ) from None


def _check(below: Model, coupling: Coupling, followers: set[int], i: int) -> None:
    who = f"robot '{below.name}': the coupling of joint '{coupling.joint}'"
    if below.links[i].kind.nv != 1:
        raise RobotError(f"{who}: it has {below.links[i].kind.nv} coordinates; only joints with one can follow others")
    if not coupling.ratios:
        raise RobotError(f"{who} names no joint to follow; write {{'other joint': ratio}}, or lock it with robot.lock")
    for other, ratio in coupling.ratios.items():
        j = only(below, other)
        if j in followers:
            if j == i:
                raise RobotError(f"{who} makes it follow itself; name another joint")
            raise RobotError(f"{who} follows '{other}', which follows others itself; name one that follows nobody")
        if below.links[j].kind.nv != 1:
            raise RobotError(f"{who} follows '{other}', which has {below.links[j].kind.nv} coordinates; only one is possible")
        if not np.isfinite(ratio):
            raise RobotError(f"{who} has the ratio {ratio} to '{other}'; give a finite number")
    if not np.isfinite(coupling.offset):
        raise RobotError(f"{who} has the offset {coupling.offset}; give a finite number")
