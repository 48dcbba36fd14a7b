"""Contact points in a table, see table_part.py: their geometry, and their force laws.

Points are ordered by link, every link with equally many rows. A link with several points has one wrench and one 6 x 6 stiffness,
carried to the joints along the tree as a link's inertia is (Featherstone 2008, section 6.2): a further point on a link costs no
more joints. A point above the ground has no force and no unknowns.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from condyle.robot.model import Model
from condyle.robot.spatial import Array, cross, skew, vector
from condyle.simulate.friction_cone import Cone, ScaledCone
from condyle.simulate.table_part import Fields, Point, Rows
from condyle.tape.array import assemble
from condyle.tape.table import table

WRENCH, STIFFNESS = 6, 21  # entries of a link's wrench, and of its stiffness
UPPER = [(i, j) for i in range(3) for j in range(i, 3)]


@dataclass(frozen=True)
class Layout:
    """The order of the points: links with points, rows of each, the point of each row (None: there is none), and the tree."""

    links: tuple[int, ...]
    rows: int  # of one link
    points: tuple[int | None, ...]
    parents: tuple[int, ...]
    coordinates: tuple[tuple[int, ...], ...]  # of each link of the robot

    @staticmethod
    def of(model: Model, points: Mapping[int, int]) -> Layout:
        """The order of some points of a robot, {point: link}."""
        links = sorted(set(points.values()))
        by_link = [[k for k, link in points.items() if link == i] for i in links]
        rows = max(len(own) for own in by_link)
        order = [k for own in by_link for k in [*own, *[None] * (rows - len(own))]]
        coordinates = tuple(tuple(range(link.v.start, link.v.stop)) for link in model.links)
        return Layout(tuple(links), rows, tuple(order), tuple(link.parent for link in model.links), coordinates)

    def points_of(self, n: int) -> list[int]:
        """The points of the n-th link with points."""
        return [k for k in self.points[n * self.rows : (n + 1) * self.rows] if k is not None]


@dataclass(frozen=True)
class ContactTable:
    """The contact points of a step, with all numbers their force laws depend on; these may be traced.

    Vectors are given in the solver's frame; a row of `geometry` is (where the point touches, its depth), and the axes (normal and
    two tangents, as rows) where they differ from the frame's own.
    """

    layout: Layout
    law: Callable[..., Any]  # (numbers, friction, mass, depth, velocity before the step) -> law
    numbers: Array  # of the law, the same for all points
    axes: Array  # (nv, 6): the motion of a unit speed of each coordinate
    geometry: Array  # (rows of all links, 4 or 13)
    friction: Array  # (rows of all links,)
    mass: Array  # (links,): effective masses
    velocity_scale: Any
    T: Array | None = None  # velocities of the robot, by those of the solver; None: they are the same

    @property
    def count(self) -> int:
        """Rows of all links."""
        return len(self.layout.points)

    # ---- along the tree

    def velocities(self, v: Array) -> Array:
        """The motion of each link with points, (links, 6), of joint velocities."""
        v = v if self.T is None else self.T @ v
        motions: dict[int, Array] = {-1: np.zeros(6)}
        for i in self._moved():
            parent, path = self.layout.parents[i], self.layout.coordinates[i]
            motions[i] = motions[parent] + sum((self.axes[k] * v[k] for k in path), np.zeros(6))
        return np.array([motions[i] for i in self.layout.links], dtype=object)

    def add_wrenches(self, wrenches: Array, into: Array, sign: float = 1.0) -> None:
        """Add the joint impulses of wrenches on the links with points, (links, 6)."""
        totals: dict[int, Array] = dict(zip(self.layout.links, wrenches, strict=True))
        full = into if self.T is None else np.zeros(len(self.axes), dtype=object)
        for i in reversed(self._moved()):
            parent = self.layout.parents[i]
            for k in self.layout.coordinates[i]:
                full[k] = full[k] + sign * (self.axes[k] @ totals[i])
            if parent >= 0:
                totals[parent] = totals[parent] + totals[i] if parent in totals else totals[i]
        if self.T is not None:
            into += self.T.T @ full

    def add_stiffness(self, stiffness: Array, H: Array) -> None:
        """Add the stiffness of links with points, (links, 21), to the matrix of the joints."""
        if self.T is not None:
            full = np.zeros((len(self.axes), len(self.axes)), dtype=object)
            replace(self, T=None).add_stiffness(stiffness, full)
            H += self.T.T @ full @ self.T
            return
        totals = {i: _matrix(s) for i, s in zip(self.layout.links, stiffness, strict=True)}
        for i in reversed(self._moved()):
            parent, own = self.layout.parents[i], self.layout.coordinates[i]
            for a, k in enumerate(own):
                force = totals[i] @ self.axes[k]
                path = [*own[: a + 1]]
                j = parent
                while j >= 0:
                    path += self.layout.coordinates[j]
                    j = self.layout.parents[j]
                for m in path:
                    H[k, m] = H[k, m] + self.axes[m] @ force
                    H[m, k] = H[k, m]
            if parent >= 0:
                totals[parent] = totals[parent] + totals[i] if parent in totals else totals[i]

    def _moved(self) -> list[int]:
        """The links from which points depend, those nearer to the base first."""
        found: set[int] = set()
        for i in self.layout.links:
            while i >= 0 and i not in found:
                found.add(i)
                i = self.layout.parents[i]
        return sorted(found)


def _matrix(s: Array) -> Array:
    """The 6 x 6 matrix of the 21 numbers of a stiffness: linear, linear by angular, angular."""
    G = np.zeros((6, 6), dtype=object)
    for n, (i, j) in enumerate(UPPER):
        G[i, j] = G[j, i] = s[n]
        G[3 + i, 3 + j] = G[3 + j, 3 + i] = s[15 + n]
    for i in range(3):
        for j in range(3):
            G[i, 3 + j] = G[3 + j, i] = s[6 + 3 * i + j]
    return G


@dataclass(frozen=True)
class PointGeometry:
    """The geometry of one point: where it touches, the depth, and its axes, None for those of the frame."""

    place: Array
    depth: Any
    C: Array | None

    @staticmethod
    def of(entries: Array) -> PointGeometry:
        """The row of a table of geometry."""
        C = entries[4:].reshape(3, 3) if len(entries) > 4 else None
        return PointGeometry(entries[:3], entries[3], C)

    def velocity(self, motion: Array) -> Array:
        """The velocity of the point along its axes, on a link with this motion."""
        u = motion[:3] + cross(motion[3:], self.place)
        return u if self.C is None else self.C @ u

    def wrench(self, impulse: Array) -> Array:
        """The wrench of an impulse along the point's axes."""
        f = impulse if self.C is None else self.C.T @ impulse
        return np.concatenate([f, cross(self.place, f)])

    def stiffness(self, Sigma: Array) -> Array:
        """The 21 numbers of the stiffness of a link whose point has the stiffness Sigma along its axes."""
        A = Sigma if self.C is None else self.C.T @ Sigma @ self.C
        r = skew(self.place)
        B = -(A @ r)
        E = r.T @ (A @ r)
        return assemble([*[A[i, j] for i, j in UPPER], *B.ravel(), *[E[i, j] for i, j in UPPER]], (STIFFNESS,))


class ContactRows(Rows):
    """The rows of contact points, as table_part.py asks for them."""

    LAW: ClassVar[Fields] = {"D": 2, "kappa": 0, "per": 0, "slip": 0}
    ITERATE: ClassVar[Fields] = {"y": 3, "z": 3, "s": 0, "w": 0, "dety": 0, "detz": 0, "yz": 0}
    SCALED: ClassVar[Fields] = {
        "per_s": 0, "per_w": 0, "per_a": 0, "per_l": 0, "e": 0, "per_e": 0, "root": 0, "per_root": 0, "boost": 3, "per_boost": 0,
        "l": 3,
    }  # fmt: skip
    AHEAD: ClassVar[Fields] = {"toward": 3, "to_w": 0, "closing": 3, "rho": 3}
    STEP: ClassVar[Fields] = {"y": 3, "z": 3, "s": 0, "w": 0, "scaled_y": 3, "scaled_z": 3}
    LINEARISED = ScaledCone
    CONSISTENT = ("y", "s", "dety", "yz")
    UNKNOWNS = 3
    WRENCH, STIFFNESS = WRENCH, STIFFNESS

    def __init__(self, contacts: ContactTable) -> None:
        self.contacts = contacts
        self.links, self.rows = len(contacts.layout.links), contacts.layout.rows
        self.geometry = table(contacts.geometry)
        self.friction, self.mass = table(contacts.friction[:, None]), table(contacts.mass[:, None])

    def active(self, row: Any) -> Any:
        """Whether a point is below where contact begins."""
        return self.geometry[row, 3] > 0.0

    def any_active(self) -> Any:
        """Whether any point is below where contact begins."""
        return functools.reduce(operator.or_, [row[3] > 0.0 for row in self.contacts.geometry])

    def motions(self, v: Array) -> Array:
        """(links, 6)."""
        return self.contacts.velocities(v)

    def add_wrenches(self, totals: Array, into: Array, sign: float = 1.0) -> None:
        """Along the tree."""
        self.contacts.add_wrenches(totals, into, sign)

    def add_stiffness(self, totals: Array, H: Array) -> None:
        """Along the tree."""
        self.contacts.add_stiffness(totals, H)

    def scale(self) -> Any:
        """One effective mass for each link."""
        return sum(self.contacts.mass) * (self.contacts.velocity_scale * self.contacts.velocity_scale)

    def beginning(self, point: Point, motion: Array) -> tuple[Cone, Any, Any]:
        """(law, effective mass, speed) before the step."""
        geometry = PointGeometry.of(self.geometry[point.row])
        u, mass = geometry.velocity(motion), self.mass[point.link, 0]
        law = self.contacts.law(self.contacts.numbers, self.friction[point.row, 0], mass, geometry.depth, u)
        return law, mass, np.sqrt(u @ u) + self.contacts.velocity_scale + law.lift

    def stored_law(self, law: Cone) -> dict[str, Any]:
        """The columns of a law."""
        return {"D": law.D[:2], "kappa": law.kappa, "per": law.per, "slip": law.slip}

    def law(self, point: Point) -> Cone:
        """The law of the columns."""
        S, muS = point.get("D")
        return Cone(vector(S, muS, muS), point.get("kappa"), point.get("per"), point.get("slip"))

    def velocity(self, point: Point, motion: Array) -> Array:
        """Along the point's axes."""
        return PointGeometry.of(self.geometry[point.row]).velocity(motion)

    def wrench(self, point: Point, impulse: Array) -> Array:
        """On the link."""
        return PointGeometry.of(self.geometry[point.row]).wrench(impulse)

    def stiffness(self, point: Point, Sigma: Array) -> Array:
        """Of the link."""
        return PointGeometry.of(self.geometry[point.row]).stiffness(Sigma)
