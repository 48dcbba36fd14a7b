"""Contact points in a table: one piece of code for all of them, and work only for those that touch.

Points are ordered by link, every link with equally many rows; loops go over the links and over the rows of a link, and skip what
touches in no lane of a vector. A link with several points has one wrench and one 6 x 6 stiffness, carried to the joints along the
tree as a link's inertia is (Featherstone 2008, section 6.2): a further point on a link costs no more joints.

A point above the ground has no force and no unknowns. Each state decides for itself, so that what other states of a vector do
changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.robot.model import Model
from condyle.robot.spatial import Array, cross, skew, vector
from condyle.simulate.friction_cone import Cone, ScaledCone, largest
from condyle.tape.array import assemble, where
from condyle.tape.loop import loop
from condyle.tape.table import Table, table, zeros_table

# columns of a row of the solver's table: the law, the unknowns, the law as it is linearised, the step
COLUMNS = {
    "D": 2, "kappa": 1, "per": 1, "slip": 1, "extra": 1, "residual": 3,
    "y": 3, "z": 3, "s": 1, "w": 1, "dety": 1, "detz": 1, "yz": 1,
    "per_s": 1, "per_w": 1, "per_a": 1, "per_l": 1, "e": 1, "per_e": 1, "root": 1, "per_root": 1,
    "boost": 3, "per_boost": 1, "l": 3, "Q": 6,
    "toward": 3, "to_w": 1, "closing": 3, "rho": 3,
    "dy": 3, "dz": 3, "ds": 1, "dw": 1, "scaled_y": 3, "scaled_z": 3,
}  # fmt: skip
WIDTH = sum(COLUMNS.values())
FIRST = {name: sum(list(COLUMNS.values())[:k]) for k, name in enumerate(COLUMNS)}
ITERATE = ("y", "z", "s", "w", "dety", "detz", "yz")
SCALED = ("per_s", "per_w", "per_a", "per_l", "e", "per_e", "root", "per_root", "boost", "per_boost", "l")
AHEAD = ("toward", "to_w", "closing", "rho")
STEP = {"dy": "y", "dz": "z", "ds": "s", "dw": "w", "scaled_y": "scaled_y", "scaled_z": "scaled_z"}
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

    @property
    def count(self) -> int:
        """Rows of all links."""
        return len(self.layout.points)

    def deepest(self) -> Any:
        """The largest depth of all points."""
        geometry = table(self.geometry)
        return loop(lambda i, deep: np.maximum(deep, geometry[i, 3]), -1.0, self.count)

    # ---- along the tree

    def velocities(self, v: Array) -> Array:
        """The motion of each link with points, (links, 6), of joint velocities."""
        motions: dict[int, Array] = {-1: np.zeros(6)}
        for i in self._moved():
            parent, path = self.layout.parents[i], self.layout.coordinates[i]
            motions[i] = motions[parent] + sum((self.axes[k] * v[k] for k in path), np.zeros(6))
        return np.array([motions[i] for i in self.layout.links], dtype=object)

    def add_wrenches(self, wrenches: Array, into: Array, sign: float = 1.0) -> None:
        """Add the joint impulses of wrenches on the links with points, (links, 6)."""
        totals: dict[int, Array] = dict(zip(self.layout.links, wrenches, strict=True))
        for i in reversed(self._moved()):
            parent = self.layout.parents[i]
            for k in self.layout.coordinates[i]:
                into[k] = into[k] + sign * (self.axes[k] @ totals[i])
            if parent >= 0:
                totals[parent] = totals[parent] + totals[i] if parent in totals else totals[i]

    def add_stiffness(self, stiffness: Array, H: Array) -> None:
        """Add the stiffness of links with points, (links, 21), to the matrix of the joints."""
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


class TablePart:
    """The steps of the interior-point method for the points of a table; what touches in no live lane of a vector is skipped.

    `state`: (the table of the unknowns, sums by link), passed from step to step: what a step writes is written in place.
    """

    def __init__(self, contacts: ContactTable, v: Array, live: Any) -> None:
        self.contacts, self.layout, self.v, self.live = contacts, contacts.layout, v, live
        self.geometry = table(contacts.geometry)
        self.friction, self.mass = table(contacts.friction[:, None]), table(contacts.mass[:, None])
        m = float(self.layout.rows)

        def deepest(l: Any, found: Table) -> Table:
            deep = loop(lambda k, d: np.maximum(d, self.geometry[l * m + k, 3]), -1.0, self.layout.rows)
            return found.set(l, [where(deep > 0.0, live, 0.0)])

        self.touched = loop(deepest, zeros_table((len(self.layout.links), 1)), len(self.layout.links))

    # ---- the method's steps, as those of ListPart

    def begin(self, push: Array, inverse: Array, parameters: Any) -> tuple[Any, dict[str, Any]]:
        """(state, sums) at the start: laws, smoothing and unknowns."""
        before, free = self.contacts.velocities(self.v), self.contacts.velocities(self.v + push * inverse)
        state: Any = (zeros_table((self.contacts.count, WIDTH)), zeros_table((len(self.layout.links), WRENCH + STIFFNESS)))

        def body(point: Point, motions: Array, total: Array, sums: Any) -> Any:
            u, u_free = point.geometry.velocity(motions[:6]), point.geometry.velocity(motions[6:])
            mass, scale = point.mass, self.contacts.velocity_scale
            law = self.contacts.law(self.contacts.numbers, point.friction, mass, point.geometry.depth, u)
            reach = np.sqrt(u @ u) + scale + largest([abs(x) for x in u_free])
            reach = np.maximum(reach, parameters.coupling / np.sqrt(mass))
            impulse = mass * parameters.impulse_factor * reach
            energy = law.initial_fraction(impulse) * law.max_impulse * reach
            extra = np.maximum(parameters.energy_fraction * energy - law.kappa, law.kappa)
            iterate = law.start(impulse, law.kappa + extra, u_free, mass)
            numbers = {"D": law.D[:2], "kappa": law.kappa, "per": law.per, "slip": law.slip, "extra": extra}
            degree = float(law.degree)
            more = {"final": law.kappa * degree, "extra": extra * degree, "scale": mass * scale * scale}
            return numbers | iterate, total, {name: sums[name] + more[name] for name in sums}

        both = np.concatenate([before, free], axis=1)
        state, sums = self.over_points(state, both, 0, {"final": 0.0, "extra": 0.0, "scale": 0.0}, body)
        return state, sums

    def residual(self, state: Any, change: Array, r: Array, live: Any) -> Any:
        """The state with the residuals of the laws at the velocity after a change; their impulses are taken from r."""

        def body(point: Point, motion: Array, total: Array, sums: Any) -> Any:
            iterate, law = point.law.consistent(point.iterate), point.law
            residual = law.dual_residual(iterate, point.geometry.velocity(motion))
            written = {name: iterate[name] for name in ("y", "s", "dety", "yz")}
            return written | {"residual": residual}, total + point.geometry.wrench(law.impulse(iterate["y"])), sums

        state, _ = self.over_points(state, self.contacts.velocities(self.v + change), WRENCH, {}, body, live)
        self.contacts.add_wrenches(self._wrenches(state), r, -1.0)
        return state

    def linearise(self, state: Any, change: Array, left: Any, H: Array, live: Any) -> tuple[Any, dict[str, Any]]:
        """(state, sums): the laws linearised, with their stiffness added to H."""

        def body(point: Point, motion: Any, total: Array, sums: Any) -> Any:
            scaled = ScaledCone(point.law, point.iterate, point.get("residual") * left)
            stiffness = point.geometry.stiffness(scaled.law.stiffness(scaled.Q_inverse))
            Q = [scaled.Q_inverse[i, j] for i, j in UPPER]
            impulse = scaled.impulse_toward(scaled.law.kappa, None, 1.0, scaled.law.kappa)
            written = {name: getattr(scaled, name) for name in (*SCALED, *AHEAD)} | {"Q": Q}
            more = {"energy": sums["energy"] + scaled.energy, "error": np.maximum(sums["error"], scaled.error)}
            return written, total + np.concatenate([point.geometry.wrench(impulse), stiffness]), more

        state, sums = self.over_points(state, None, WRENCH + STIFFNESS, {"energy": 0.0, "error": 0.0}, body, live)
        self.contacts.add_stiffness(state[1][:][:, WRENCH:], H)
        return state, sums

    def predictor(self, state: Any, right: Array) -> Any:
        """The state with the impulses towards the solution, added to the right-hand side."""
        self.contacts.add_wrenches(self._wrenches(state), right)
        return state

    def corrector(self, state: Any, t: Any, go: Any, far: Any, left: Any, right: Array, live: Any) -> Any:
        """The same towards the smoothing t, with the second-order terms of the last step."""

        def body(point: Point, motion: Any, total: Array, sums: Any) -> Any:
            scaled, extra = point.scaled, point.get("extra")
            scaled.residual = scaled.residual * left
            kappa = scaled.law.kappa
            impulse = scaled.impulse_toward(kappa + t * extra, point.step, go, kappa + far * extra)
            return {name: getattr(scaled, name) for name in AHEAD}, total + point.geometry.wrench(impulse), sums

        state, _ = self.over_points(state, None, WRENCH, {}, body, live)
        self.contacts.add_wrenches(self._wrenches(state), right)
        return state

    def step(self, state: Any, dv: Array, live: Any) -> tuple[Any, Any]:
        """(state, 1 / the largest feasible multiple) of the step of all unknowns for a change of velocity."""

        def body(point: Point, motion: Array, total: Array, sums: Any) -> Any:
            scaled = point.scaled
            step = scaled.step(point.geometry.velocity(motion))
            reach = np.maximum(sums["reach"], scaled.inverse_step_limit(step))
            return {column: step[name] for column, name in STEP.items()}, total, {"reach": reach}

        state, sums = self.over_points(state, self.contacts.velocities(dv), 0, {"reach": 0.0}, body, live)
        return state, sums["reach"]

    def moved(self, state: Any, a: Any, live: Any) -> Any:
        """The state after the last step, of length a."""
        body = lambda point, motion, total, sums: (point.scaled.moved(point.step, a), total, sums)  # noqa: E731
        return self.over_points(state, None, 0, {}, body, live)[0]

    def newton(self, state: Any, change: Array, r: Array, H: Array, live: Any) -> Any:
        """The state for one step on the unscaled equations: impulses taken from r, stiffness added to H."""

        def body(point: Point, motion: Array, total: Array, sums: Any) -> Any:
            law, y, s = point.law, point.get("y"), point.get("s")
            u = point.geometry.velocity(motion)
            compliance = law.compliance(y, s, u)
            rho = law.kappa * law.gradient(y, s) - law.dual(u, y)
            impulse = law.impulse(y) + law.impulse_change(compliance @ rho)
            stiffness = point.geometry.stiffness(law.stiffness(compliance))
            Q = [compliance[i, j] for i, j in UPPER]
            return {"Q": Q, "rho": rho}, total + np.concatenate([point.geometry.wrench(impulse), stiffness]), sums

        motions = self.contacts.velocities(self.v + change)
        state, _ = self.over_points(state, motions, WRENCH + STIFFNESS, {}, body, live)
        self.contacts.add_wrenches(self._wrenches(state), r, -1.0)
        self.contacts.add_stiffness(state[1][:][:, WRENCH:], H)
        return state

    def newton_moved(self, state: Any, dv: Array, live: Any) -> Any:
        """The state after that step."""

        def body(point: Point, motion: Array, total: Array, sums: Any) -> Any:
            scaled = point.scaled
            dy = scaled.Q_inverse @ (scaled.rho - scaled.law.dual_change(point.geometry.velocity(motion)))
            return {"y": scaled.y + dy, "s": scaled.s - dy[0]}, total, sums

        return self.over_points(state, self.contacts.velocities(dv), 0, {}, body, live)[0]

    def ends(self, state: Any, results: Any) -> Any:
        """The tables (y and s, impulse) of all points, from `results` where a point does not touch."""
        m = float(self.layout.rows)

        def on_link(l: Any, results: Any) -> Any:
            def touched(_: Any, results: Any) -> Any:
                def on_point(k: Any, results: Any) -> Any:
                    point = Point(self, state[0], l * m + k, l)
                    lives = where(point.geometry.depth > 0.0, self.live, 0.0) > 0.5
                    y, impulse = point.get("y"), point.law.impulse(point.get("y"))
                    unknowns, impulses = results
                    ends = where(lives, np.array([*y, point.get("s")], dtype=object), unknowns[point.row])
                    return unknowns.set(point.row, ends), impulses.set(point.row, where(lives, impulse, impulses[point.row]))

                return loop(on_point, results, self.layout.rows)

            return loop(touched, results, 1, until=lambda _: self.touched[l, 0] < 0.5, body_keeps_tables=True)

        return loop(on_link, results, len(self.layout.links))

    def _wrenches(self, state: Any) -> Array:
        found: Array = state[1][:][:, :WRENCH]
        return found

    def over_points(self, state: Any, motions: Array | None, width: int, sums: Any, body: Any, live: Any = 1.0) -> Any:
        """(state, sums) after  body(point, motion, total, sums) -> (columns to write, total, sums)  for each point that touches.

        `motions`: numbers of each link, (links, n). `total`: the link's own sum, of `width` entries. `live`: 0 for lanes that
        stay as they are.
        """
        m = float(self.layout.rows)
        given = None if motions is None else table(motions)

        def on_link(l: Any, carry: Any) -> Any:
            def touched(_: Any, carry: Any) -> Any:
                rows, links, sums = carry

                def on_point(k: Any, carry: Any) -> Any:
                    row = l * m + k

                    def here() -> Any:
                        return where(self.geometry[row, 3] > 0.0, self.live * live, 0.0)

                    def touching(_: Any, carry: Any) -> Any:
                        rows, total, sums = carry
                        lives = here() > 0.5
                        point = Point(self, rows, row, l)
                        written, total, sums = body(point, None if given is None else given[l], total, sums)
                        places = {name: (row, slice(FIRST[name], FIRST[name] + COLUMNS[name])) for name in written}
                        # all is read before anything is written, so that it can be written in place
                        kept = {name: rows[at] for name, at in places.items()}
                        for name, at in places.items():
                            new = np.reshape(np.asarray(written[name], dtype=object), -1)
                            rows = rows.set(at, where(lives, new, kept[name]))
                        return rows, total, sums

                    return loop(touching, carry, 1, until=lambda _: here() < 0.5, body_keeps_tables=True)

                rows, total, sums = loop(on_point, (rows, np.zeros(width), sums), self.layout.rows)
                if width:
                    lives = self.touched[l, 0] * live > 0.5
                    links = links.set((l, slice(0, width)), where(lives, total, links[l, :width]))
                return rows, links, sums

            return loop(touched, carry, 1, until=lambda _: self.touched[l, 0] * live < 0.5, body_keeps_tables=True)

        rows, links, sums = loop(on_link, (*state, sums), len(self.layout.links))
        return (rows, links), sums


class Point:
    """One row of the table in the body of a loop."""

    def __init__(self, part: TablePart, rows: Table, row: Any, link: Any) -> None:
        self.rows, self.row = rows, row
        self.geometry = PointGeometry.of(part.geometry[row])
        self.friction, self.mass = part.friction[row, 0], part.mass[link, 0]

    def get(self, name: str) -> Any:
        """The columns of this name: a number, or an array."""
        first, n = FIRST[name], COLUMNS[name]
        entries = self.rows[self.row, first : first + n]
        return entries[0] if n == 1 else entries

    @property
    def law(self) -> Cone:
        """The force law."""
        S, muS = self.get("D")
        return Cone(vector(S, muS, muS), self.get("kappa"), self.get("per"), self.get("slip"))

    @property
    def iterate(self) -> dict[str, Any]:
        """The unknowns."""
        return {name: self.get(name) for name in ITERATE}

    @property
    def scaled(self) -> ScaledCone:
        """The law as it was linearised."""
        found: ScaledCone = object.__new__(ScaledCone)
        found.law = self.law
        for name in ("y", "z", "s", "w", "residual", *SCALED, *AHEAD):
            setattr(found, name, self.get(name))
        Q = self.get("Q")
        found.Q_inverse = np.array([[Q[0], Q[1], Q[2]], [Q[1], Q[3], Q[4]], [Q[2], Q[4], Q[5]]], dtype=object)
        return found

    @property
    def step(self) -> dict[str, Any]:
        """The last step."""
        return {name: self.get(column) for column, name in STEP.items()}
