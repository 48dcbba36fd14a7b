"""Ball and free joints taken apart into slides and hinges, so that a loop may fix some of their coordinates and leave others.

A rod between two balls swings as its ends do, and spins as it likes: of its ball joint two coordinates follow and one remains.

    ball:  R = R_first Rot(e1, a) Rot(e2, b) Rot(e3, c)         three hinges, singular where b is a quarter turn
    free:  (p, R)                                               three slides along the axes of the parent, and the ball
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condyle.constraints.coordinate_map import Configurations, ConstraintMap, CoordinateMap
from condyle.constraints.reduced_coordinates import following, reduced_model
from condyle.dynamics.manifold import integrate
from condyle.dynamics.rotations import quaternion_product
from condyle.robot.angles import cos_sin
from condyle.robot.description import Limits
from condyle.robot.joints import Ball, Prismatic, Revolute, rotation_of
from condyle.robot.model import Link, Model
from condyle.robot.spatial import Array
from condyle.tape.derive import derivative_at_zero

SLIDES = ("x", "y", "z")
HINGES = ("swing1", "swing2", "spin")


@dataclass(frozen=True)
class Parts:
    """How one joint is taken apart."""

    joint: int  # the link of `below`
    slides: bool  # a free joint: three slides for its position
    axes: np.ndarray | None  # e1, e2, e3 in columns: hinges for its rotation; None: that stays a ball
    first: np.ndarray  # the quaternion at which the hinges are at zero

    def links(self, link: Link) -> list[Link]:
        """The parts as joints, named after the joint."""

        def part(name: str, kind: Any) -> Link:
            zero = slice(0, 0)
            return Link(link.name, f"{link.joint}.{name}", -1, kind, link.placement, link.inertia, zero, zero, Limits())

        unit = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
        found = [part(name, Prismatic(axis)) for name, axis in zip(SLIDES, unit, strict=True)] if self.slides else []
        if self.axes is None:
            return [*found, part("turn", Ball())]
        return [
            *found,
            *[part(name, Revolute((float(e[0]), float(e[1]), float(e[2])))) for name, e in zip(HINGES, self.axes.T, strict=True)],
        ]

    def beginning(self, x: np.ndarray) -> list[float]:
        """The coordinates of the parts where those of the joint are x."""
        turn = list(x[-4:]) if self.axes is None else [0.0, 0.0, 0.0]
        return [*x[:-4], *turn]

    def configuration(self, y: Array) -> Array:
        """The coordinates of the joint."""
        if self.axes is None:
            return y
        turn: Array = self.first
        for e, angle in zip(self.axes.T, y[-3:], strict=True):
            c, s = _cos_sin(angle * 0.5)
            turn = quaternion_product(turn, np.array([*[float(k) * s for k in e], c], dtype=object))
        return np.array([*y[:-3], *turn], dtype=object)

    def differential(self, y: Array) -> Array:
        """The velocity of the joint, in its own frame, by the rates of the parts."""
        n = 3 * self.slides
        G = np.zeros((n + 3, n + 3), dtype=object)
        if self.slides:
            G[:3, :3] = rotation_of(self.configuration(y)[3:]).T
        G[n:, n:] = np.eye(3)
        if self.axes is not None:
            (cb, sb), (cc, sc) = _cos_sin(y[-2]), _cos_sin(y[-1])
            # in the axes e1, e2, e3
            turns = np.array([[cb * cc, sc, 0.0], [-(cb * sc), cc, 0.0], [sb, 0.0, 1.0]], dtype=object)
            G[n:, n:] = self.axes.astype(object) @ turns
        return G


@dataclass(frozen=True)
class Split(ConstraintMap):
    """The constraint, without any condition, that some ball and free joints have the coordinates of their parts."""

    below: Model
    parts: tuple[Parts, ...]
    first: np.ndarray  # a pose of `below`
    reduced: Model = field(init=False)
    start: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        by = {part.joint: part for part in self.parts}
        links: list[Link] = []
        start: list[float] = []
        for i, link in self.below.outward():
            links += by[i].links(link) if i in by else [link]
            start += by[i].beginning(self.first[link.q]) if i in by else list(self.first[link.q])
        object.__setattr__(self, "reduced", reduced_model(self.below.name, links))
        object.__setattr__(self, "start", np.array(start, dtype=float))

    @property
    def passive(self) -> set[str]:
        """The joints that are taken apart, which have no motor."""
        return {self.below.links[part.joint].joint for part in self.parts}

    def _places(self) -> list[tuple[Link, Parts | None, slice, slice]]:
        """(joint, its parts, their entries of y, of the velocity) of all joints of `below`."""
        by, found, q, v = {part.joint: part for part in self.parts}, [], 0, 0
        for i, link in self.below.outward():
            part = by.get(i)
            nq = link.kind.nq - (part is not None and part.axes is not None)
            found.append((link, part, slice(q, q + nq), slice(v, v + link.kind.nv)))
            q, v = q + nq, v + link.kind.nv
        return found

    def configuration(self, model: Model, lower: CoordinateMap, y: Array) -> Array:
        """x: quaternions and positions of what is taken apart, and the others as they are."""
        x = np.zeros(self.below.nq, dtype=object)
        for link, part, q, _ in self._places():
            x[link.q] = y[q] if part is None else part.configuration(y[q])
        return x

    def differential(self, at: Configurations, y: Array) -> Array:
        """G: blocks on the diagonal, 1 for joints that stay whole."""
        G = np.eye(self.below.nv).astype(object)
        for link, part, q, v in self._places():
            if part is not None:
                G[link.v, v] = part.differential(y[q])
        return G

    def drift(self, at: Configurations, y: Array, v: Array, drifts: Array | None) -> Array:
        """(dG/dt) v."""
        out = np.zeros(self.below.nv, dtype=object)

        def speeds(t: Any) -> Any:
            there = integrate(self.reduced, y, v * t)
            found = [part.differential(there[q]) @ v[own] for _, part, q, own in self._places() if part is not None]
            return {"v": np.concatenate(found)}

        rows = [k for part in self.parts for k in range(*self.below.links[part.joint].v.indices(self.below.nv))]
        out[rows] = derivative_at_zero(speeds)["v"]
        return out

    @property
    def reaction_names(self) -> Sequence[str]:
        """No forces: nothing is held."""
        return ()

    def reaction_rows(self, at: Configurations) -> Array:
        """No rows."""
        return np.zeros((0, at.model.nv), dtype=object)

    def summary(self) -> str:
        """What it does, in half a sentence."""
        return f"{following(sorted(self.passive))} in part, by slides and hinges"


def _cos_sin(angle: Any) -> tuple[Any, Any]:
    return cos_sin(float(angle)) if isinstance(angle, float) else (np.cos(angle), np.sin(angle))
