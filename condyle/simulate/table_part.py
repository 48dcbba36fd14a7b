"""Constraints in a table: one piece of code for all of them, and work only for those that touch.

Loops go over the links and over the rows of a link, and skip what touches in no lane of a vector. Each state decides for itself,
so that what other states of a vector do changes no bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from condyle.dynamics.limbs import Limbs
from condyle.robot.spatial import Array
from condyle.simulate.friction_cone import largest
from condyle.tape.array import where
from condyle.tape.limb_values import each, with_term
from condyle.tape.loop import loop
from condyle.tape.table import Table, empty_table, table, zeros_table

Fields = dict[str, int]  # columns by name: the entries of an array, 0 for a number


class Rows(ABC):
    """What the rows of a table are: `links` times `rows`, the columns that their laws need, and how they act on the robot."""

    LAW: ClassVar[Fields]
    ITERATE: ClassVar[Fields]
    SCALED: ClassVar[Fields]  # of the linearised law, besides those of ITERATE and the compliance
    AHEAD: ClassVar[Fields]  # what `impulse_toward` leaves for `step`
    STEP: ClassVar[Fields]
    LINEARISED: ClassVar[type]
    CONSISTENT: ClassVar[tuple[str, ...]]  # what `consistent` changes
    UNKNOWNS: ClassVar[int]
    WRENCH: ClassVar[int]  # entries of what a link gathers: of impulses, and of stiffness
    STIFFNESS: ClassVar[int]
    links: int
    rows: int

    @abstractmethod
    def active(self, row: Any) -> Any:
        """Whether a row may have a force in this step."""

    @abstractmethod
    def any_active(self) -> Any:
        """Whether any row may have a force in this step."""

    @abstractmethod
    def motions(self, v: Array) -> Array:
        """The motion of each link, of joint velocities, (links, n)."""

    def coordinates(self, count: int) -> list[int]:
        """The joint coordinates, of `count`, that the rows act on: all of them by default."""
        return list(range(count))

    def stiffened(self, pattern: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The entries of the matrix of the joints that the rows act on: all of its pattern by default."""
        return pattern

    @abstractmethod
    def add_wrenches(self, totals: Array, into: Array, sign: float = 1.0) -> None:
        """Add the joint impulses of what the links gathered, (links, WRENCH)."""

    @abstractmethod
    def add_stiffness(self, totals: Array, H: Array) -> None:
        """Add the stiffness that the links gathered, (links, STIFFNESS), to the matrix of the joints."""

    @abstractmethod
    def scale(self) -> Any:
        """The energy of the effective masses at their velocity scales, of rows that do not touch, too: it is never zero."""

    @abstractmethod
    def beginning(self, point: Point, motion: Array) -> tuple[Any, Any, Any]:
        """(law, effective mass, bound on the speed to stop) of a row, with the motion before the step."""

    @abstractmethod
    def stored_law(self, law: Any) -> dict[str, Any]:
        """The columns of a law."""

    @abstractmethod
    def law(self, point: Point) -> Any:
        """The law of the columns."""

    @abstractmethod
    def velocity(self, point: Point, motion: Array) -> Array:
        """The velocity along the law's directions."""

    @abstractmethod
    def wrench(self, point: Point, impulse: Array) -> Array:
        """What an impulse gives to the link."""

    @abstractmethod
    def stiffness(self, point: Point, Sigma: Array) -> Array:
        """What a stiffness along the law's directions gives to the link."""


class Point:
    """One row in the body of a loop."""

    def __init__(self, part: TablePart, rows: Table, row: Any, link: Any) -> None:
        self.part, self.rows, self.row, self.link = part, rows, row, link

    def get(self, name: str) -> Any:
        """The columns of this name: a number, or an array."""
        first, n = self.part.columns[name]
        entries = self.rows[self.row, first : first + max(n, 1)]
        return entries if n else entries[0]

    @property
    def law(self) -> Any:
        """The force law."""
        return self.part.kind.law(self)

    @property
    def iterate(self) -> dict[str, Any]:
        """The unknowns."""
        return {name: self.get(name) for name in self.part.kind.ITERATE}

    @property
    def scaled(self) -> Any:
        """The law as it was linearised."""
        kind = self.part.kind
        found: Any = object.__new__(kind.LINEARISED)
        found.law = self.law
        for name in ("y", "z", "s", "w", "residual", *kind.SCALED, *kind.AHEAD):
            setattr(found, name, self.get(name))
        found.Q_inverse = np.zeros((kind.UNKNOWNS, kind.UNKNOWNS), dtype=object)
        for (i, j), entry in zip(self.part.upper, self.get("Q"), strict=True):
            found.Q_inverse[i, j] = found.Q_inverse[j, i] = entry
        return found

    @property
    def step(self) -> dict[str, Any]:
        """The last step."""
        return {name: self.get(f"d_{name}") for name in self.part.kind.STEP}


class TablePart:
    """The steps of the interior-point method for the rows of a table, as those of ListPart for a list.

    `state`: (the table of the unknowns, what links gathered), passed from step to step: what a step writes is written in place.
    `live`: 1 for lanes that are solved, else 0. `pattern`: the entries of H that may be other than zero. Only what the rows act
    on is brought into their loops: what passes through a loop passes through memory, also where no row touches. `limbs`: where
    the solver works with limbs; the rows do not, so numbers are unfolded in their loops, and what they add is folded.
    """

    def __init__(self, kind: Rows, v: Array, live: Any, pattern: list[tuple[int, int]], limbs: Limbs | None = None) -> None:
        self.kind, self.v, self.live, self.pattern, self.limbs = kind, v, live, kind.stiffened(pattern), limbs
        self.count = len(v) if limbs is None else limbs.coordinates
        self.coordinates = kind.coordinates(self.count)
        n = kind.UNKNOWNS
        self.upper = [(i, j) for i in range(n) for j in range(i, n)]
        fields = {**kind.LAW, "extra": 0, "residual": n, **kind.ITERATE, **kind.SCALED, "Q": len(self.upper), **kind.AHEAD}
        fields |= {f"d_{name}": size for name, size in kind.STEP.items()}
        self.columns: dict[str, tuple[int, int]] = {}
        self.width = 0
        for name, size in fields.items():
            self.columns[name] = self.width, size
            self.width += max(size, 1)
        m = float(kind.rows)

        def on_link(l: Any, carry: Any) -> Any:
            found, every = carry
            here = loop(lambda k, x: where(kind.active(l * m + k), live, x), 0.0, kind.rows)
            return found.set(l, [here]), np.maximum(every, here)

        start = zeros_table((kind.links, 1)), 0.0
        if limbs is None:
            self.touched, self.any = loop(on_link, start, kind.links)
            return
        # a table of which nothing touches may not be there
        live = self.live = where(kind.any_active(), live, 0.0)
        looked_at = lambda _, carry: loop(on_link, carry, kind.links)  # noqa: E731
        self.touched, self.any = loop(looked_at, start, 1, until=lambda _: live < 0.5, body_keeps_tables=True)

    # ---- the method's steps

    def begin(self, push: Array, inverse: Array, parameters: Any) -> tuple[Any, dict[str, Any]]:
        """(state, sums) at the start: laws, smoothing and unknowns."""
        kind, count = self.kind, self.kind.links * self.kind.rows
        state: Any = (empty_table((count, self.width)), zeros_table((kind.links, kind.WRENCH + kind.STIFFNESS)))

        def body(point: Point, motions: Array, total: Array, sums: Any) -> Any:
            half = len(motions) // 2
            law, mass, speed = kind.beginning(point, motions[:half])
            law = law.smoothed(parameters.smoothing)
            free = kind.velocity(point, motions[half:])
            reach = speed + largest([abs(x) for x in free])
            reach = np.maximum(reach, parameters.coupling / np.sqrt(mass))
            impulse = mass * parameters.impulse_factor * reach
            energy = law.initial_fraction(impulse) * law.start_impulse * reach
            extra = np.maximum(parameters.energy_fraction * energy - law.kappa, law.kappa)
            iterate = law.start(impulse, law.kappa + extra, free, mass)
            more = {"final": law.kappa * float(law.degree), "extra": extra * float(law.degree)}
            written = {**kind.stored_law(law), "extra": extra, **iterate}
            return written, total, {name: sums[name] + more[name] for name in sums}

        def touching(carry: Any, before: Array, free: Array) -> Any:
            motions = np.concatenate([self.motions(before), self.motions(free)], axis=1)
            return self.over_rows(carry[0], motions, 0, carry[1], body)

        sums = {"final": 0.0, "extra": 0.0}
        state, sums = self.where_touched((state, sums), touching, 1.0, self.v, self.v + push * inverse)
        return state, sums | {"scale": kind.scale()}

    def residual(self, state: Any, change: Array, r: Array, live: Any) -> Any:
        """The state with the residuals of the laws at the velocity after a change; their impulses are taken from r."""
        kind = self.kind

        def body(point: Point, motion: Array, total: Array, sums: Any) -> Any:
            iterate, law = point.law.consistent(point.iterate), point.law
            residual = law.dual_residual(iterate, kind.velocity(point, motion))
            written = {name: iterate[name] for name in kind.CONSISTENT}
            return written | {"residual": residual}, total + kind.wrench(point, law.impulse(iterate["y"])), sums

        def touching(carry: Any, after: Array) -> Any:
            state, _ = self.over_rows(carry[0], self.motions(after), kind.WRENCH, {}, body, live)
            return state, self.with_wrenches(state, carry[1], -1.0)

        state, sums = self.where_touched((state, self.sums(r)), touching, live, self.v + change)
        self.put_sums(sums, r)
        return state

    def linearise(self, state: Any, change: Array, left: Any, H: Array, live: Any) -> tuple[Any, dict[str, Any]]:
        """(state, sums): the laws linearised, with their stiffness added to H; what links gathered is for the predictor."""
        kind = self.kind

        def body(point: Point, motion: Any, total: Array, sums: Any) -> Any:
            scaled = kind.LINEARISED(point.law, point.iterate, point.get("residual") * left)
            stiffness = kind.stiffness(point, scaled.law.stiffness(scaled.Q_inverse))
            impulse = scaled.impulse_toward(scaled.law.kappa, None, 1.0, scaled.law.kappa)
            written = {name: getattr(scaled, name) for name in (*kind.SCALED, *kind.AHEAD)}
            written["Q"] = [scaled.Q_inverse[i, j] for i, j in self.upper]
            more = {"energy": sums["energy"] + scaled.energy, "error": np.maximum(sums["error"], scaled.error)}
            return written, total + np.concatenate([kind.wrench(point, impulse), stiffness]), more

        def touching(carry: Any) -> Any:
            state, entries, sums = carry
            state, sums = self.over_rows(state, None, kind.WRENCH + kind.STIFFNESS, sums, body, live)
            return state, self.with_stiffness(state, entries), sums

        state, entries, sums = self.where_touched((state, self.entries(H), {"energy": 0.0, "error": 0.0}), touching, live)
        self.put_entries(entries, H)
        return state, sums

    def predictor(self, state: Any, right: Array, live: Any) -> Any:
        """Add the impulses towards the solution to the right-hand side."""
        touching = lambda carry: (carry[0], self.with_wrenches(carry[0], carry[1], 1.0))  # noqa: E731
        state, sums = self.where_touched((state, self.sums(right)), touching, live)
        self.put_sums(sums, right)
        return state

    def corrector(self, state: Any, t: Any, go: Any, far: Any, left: Any, right: Array, live: Any) -> Any:
        """The same towards the smoothing t, with the second-order terms of the last step."""
        kind = self.kind

        def body(point: Point, motion: Any, total: Array, sums: Any) -> Any:
            scaled, extra = point.scaled, point.get("extra")
            scaled.residual = scaled.residual * left
            kappa = scaled.law.kappa
            impulse = scaled.impulse_toward(kappa + t * extra, point.step, go, kappa + far * extra)
            return {name: getattr(scaled, name) for name in kind.AHEAD}, total + kind.wrench(point, impulse), sums

        def touching(carry: Any) -> Any:
            state, _ = self.over_rows(carry[0], None, kind.WRENCH, {}, body, live)
            return state, self.with_wrenches(state, carry[1], 1.0)

        state, sums = self.where_touched((state, self.sums(right)), touching, live)
        self.put_sums(sums, right)
        return state

    def step(self, state: Any, dv: Array, live: Any) -> tuple[Any, Any]:
        """(state, 1 / the largest feasible multiple) of the step of all unknowns for a change of velocity."""
        kind = self.kind

        def body(point: Point, motion: Array, total: Array, sums: Any) -> Any:
            scaled = point.scaled
            step = scaled.step(kind.velocity(point, motion))
            reach = np.maximum(sums["reach"], scaled.inverse_step_limit(step))
            return {f"d_{name}": step[name] for name in kind.STEP}, total, {"reach": reach}

        touching = lambda carry, dv: self.over_rows(carry[0], self.motions(dv), 0, carry[1], body, live)  # noqa: E731
        state, sums = self.where_touched((state, {"reach": 0.0}), touching, live, dv)
        return state, sums["reach"]

    def moved(self, state: Any, a: Any, live: Any) -> tuple[Any, Any]:
        """(state, largest squared distance of the products from kappa) after the last step, of length a."""

        def body(point: Point, motion: Any, total: Array, sums: Any) -> Any:
            scaled = point.scaled
            iterate = scaled.moved(point.step, a)
            return iterate, total, {"error": np.maximum(sums["error"], scaled.law.distance(iterate))}

        touching = lambda carry: self.over_rows(carry[0], None, 0, carry[1], body, live)  # noqa: E731
        state, sums = self.where_touched((state, {"error": 0.0}), touching, live)
        return state, sums["error"]

    def newton(self, state: Any, change: Array, r: Array, H: Array, live: Any) -> Any:
        """The state for one step on the unscaled equations: impulses taken from r, stiffness added to H."""
        kind = self.kind

        def body(point: Point, motion: Array, total: Array, sums: Any) -> Any:
            law, y, s = point.law, point.get("y"), point.get("s")
            u = kind.velocity(point, motion)
            compliance = law.compliance(y, s, u)
            rho = law.kappa * law.gradient(y, s) - law.dual(u, y)
            impulse = law.impulse(y) + law.impulse_change(compliance @ rho)
            written = {"Q": [compliance[i, j] for i, j in self.upper], "rho": rho}
            stiffness = kind.stiffness(point, law.stiffness(compliance))
            return written, total + np.concatenate([kind.wrench(point, impulse), stiffness]), sums

        def touching(carry: Any, after: Array) -> Any:
            state, r, entries = carry
            state, _ = self.over_rows(state, self.motions(after), kind.WRENCH + kind.STIFFNESS, {}, body, live)
            return state, self.with_wrenches(state, r, -1.0), self.with_stiffness(state, entries)

        state, sums, entries = self.where_touched((state, self.sums(r), self.entries(H)), touching, live, self.v + change)
        self.put_sums(sums, r)
        self.put_entries(entries, H)
        return state

    def newton_moved(self, state: Any, dv: Array, change: Array, r: Array, live: Any) -> tuple[Any, dict[str, Any]]:
        """(state, sums) after that step, to the velocity after `change`, as of ListPart: its impulses are taken from r."""
        kind = self.kind

        def body(point: Point, motion: Array, total: Array, sums: Any) -> Any:
            scaled, half = point.scaled, len(motion) // 2
            law, Q = scaled.law, scaled.Q_inverse
            dy = Q @ (scaled.rho - law.dual_change(kind.velocity(point, motion[half:])))
            y, s = scaled.y + dy, scaled.s - law.slack_decrease(dy)
            square = sums["square"] + law.residual_energy(y, s, kind.velocity(point, motion[:half]))
            more = {"square": square, "outside": np.maximum(sums["outside"], -law.room(y, s))}
            return {"y": y, "s": s}, total + kind.wrench(point, law.impulse(y)), more

        def touching(carry: Any, after: Array, dv: Array) -> Any:
            state, r, sums = carry
            motions = np.concatenate([self.motions(after), self.motions(dv)], axis=1)
            state, sums = self.over_rows(state, motions, kind.WRENCH, sums, body, live)
            return state, self.with_wrenches(state, r, -1.0), sums

        carry = state, self.sums(r), {"square": 0.0, "outside": -1.0}
        state, given, sums = self.where_touched(carry, touching, live, self.v + change, dv)
        self.put_sums(given, r)
        return state, sums

    def ends(self, state: Any, results: Any) -> Any:
        """The tables (y and s, impulse) of all rows, from `results` where a row does not touch."""
        kind, m = self.kind, float(self.kind.rows)

        def on_link(l: Any, results: Any) -> Any:
            def touching(_: Any, results: Any) -> Any:
                def on_row(k: Any, results: Any) -> Any:
                    point = Point(self, state[0], l * m + k, l)
                    lives = where(kind.active(point.row), self.live, 0.0) > 0.5
                    y, impulse = point.get("y"), point.law.impulse(point.get("y"))
                    unknowns, impulses = results
                    ends = where(lives, np.array([*y, point.get("s")], dtype=object), unknowns[point.row])
                    return unknowns.set(point.row, ends), impulses.set(point.row, where(lives, impulse, impulses[point.row]))

                return loop(on_row, results, kind.rows)

            return loop(touching, results, 1, until=lambda _: self.touched[l, 0] < 0.5, body_keeps_tables=True)

        return self.where_touched(results, lambda results: loop(on_link, results, kind.links), 1.0)

    # ---- what links gathered

    def motions(self, v: Array) -> Array:
        """The motion of each link, of the velocities of the coordinates that the rows act on."""
        return self.kind.motions(self.among_all(v))

    def with_wrenches(self, state: Any, into: Array, sign: float) -> Array:
        """What `sums` gave, with the joint impulses of the links added."""
        out = self.among_all(into) if self.limbs is None else np.zeros(self.count, dtype=object)
        self.kind.add_wrenches(state[1][:][:, : self.kind.WRENCH], out, sign)
        return out[self.coordinates] if self.limbs is None else self.limbs.fold(out)

    def among_all(self, some: Array) -> Array:
        """Numbers of the coordinates that the rows act on, with zeros for the others."""
        out = np.zeros(self.count, dtype=object)
        out[self.coordinates] = some
        return out

    def with_stiffness(self, state: Any, entries: list[Any]) -> list[Any]:
        """What `entries` gave, with the stiffness of the links added."""
        H = np.zeros((self.count, self.count), dtype=object)
        for (i, j), x in zip(self.pattern if self.limbs is None else (), entries, strict=False):
            H[i, j] = H[j, i] = x
        self.kind.add_stiffness(state[1][:][:, self.kind.WRENCH :], H)
        H = H if self.limbs is None else self.limbs.fold_matrix(H)
        return [H[i, j] for i, j in self.places]

    # ---- sums over the rows and what else there is; with limbs, over the rows alone, folded

    def sums(self, r: Array) -> Array:
        """Numbers that the rows add to."""
        return r[self.coordinates] if self.limbs is None else self.limbs.varying(np.zeros(len(r), dtype=object))

    def put_sums(self, sums: Array, r: Array) -> None:
        """Write them back."""
        if self.limbs is None:
            r[self.coordinates] = sums
            return
        for k, x in enumerate(sums):
            r[k] = with_term(r[k], x, 0)

    @property
    def places(self) -> list[tuple[int, int]]:
        """The entries of H, folded where there are limbs, that the rows add to."""
        if self.limbs is None:
            return self.pattern
        return list(dict.fromkeys([self.limbs.place(i, j) for i, j in self.pattern]))

    def entries(self, H: Array) -> list[Any]:
        """The entries of H that the rows add to."""
        if self.limbs is None:
            return [H[i, j] for i, j in self.places]
        n, limbs = len(self.limbs.trunk), self.limbs.count
        return [0.0 if max(i, j) < n else each(0.0, limbs) for i, j in self.places]

    def put_entries(self, entries: list[Any], H: Array) -> None:
        """Write them back."""
        for (i, j), x in zip(self.places, entries, strict=True):
            H[i, j] = H[j, i] = x if self.limbs is None else with_term(H[i, j], x, 0)

    # ---- loops

    def where_touched(self, carry: Any, body: Callable[..., Any], live: Any, *given: Array) -> Any:
        """body(carry, *given), in vectors in which some row of some live lane touches, and `carry` in others.

        `given`: numbers of all coordinates, of which the body is given those that the rows act on. What is computed from them is
        computed inside: of values from outside alone it would be for all.
        """
        off = lambda _: self.any * live < 0.5  # noqa: E731
        start = carry, [a if self.limbs else a[self.coordinates] for a in given]

        def inside(_: Any, c: Any) -> Any:
            seen = [self.limbs.unfold(a)[self.coordinates] if self.limbs else a for a in c[1]]
            return body(c[0], *seen), c[1]

        return loop(inside, start, 1, until=off, body_keeps_tables=True)[0]

    def over_rows(self, state: Any, motions: Array | None, width: int, sums: Any, body: Any, live: Any = 1.0) -> Any:
        """(state, sums) after  body(point, motion, total, sums) -> (columns to write, total, sums)  for each row that touches.

        `motions`: numbers of each link, (links, n). `total`: what the link gathers, `width` entries. `live`: 0 for lanes that
        stay as they are.
        """
        m = float(self.kind.rows)
        given = None if motions is None else table(motions)

        def on_link(l: Any, carry: Any) -> Any:
            def touching(_: Any, carry: Any) -> Any:
                rows, links, sums = carry

                def on_row(k: Any, carry: Any) -> Any:
                    row = l * m + k

                    def here() -> Any:
                        return where(self.kind.active(row), self.live * live, 0.0)

                    def one(_: Any, carry: Any) -> Any:
                        rows, total, sums = carry
                        lives = here() > 0.5
                        motion = None if given is None else given[l]
                        written, total, sums = body(Point(self, rows, row, l), motion, total, sums)
                        places = {name: (row, slice(a, a + max(n, 1))) for name in written for a, n in [self.columns[name]]}
                        # all is read before anything is written, so that it can be written in place
                        kept = {name: rows[at] for name, at in places.items()}
                        for name, at in places.items():
                            new = np.reshape(np.asarray(written[name], dtype=object), -1)
                            rows = rows.set(at, where(lives, new, kept[name]))
                        return rows, total, sums

                    return loop(one, carry, 1, until=lambda _: here() < 0.5, body_keeps_tables=True)

                rows, total, sums = loop(on_row, (rows, np.zeros(width), sums), self.kind.rows)
                if width:
                    lives = self.touched[l, 0] * live > 0.5
                    links = links.set((l, slice(0, width)), where(lives, total, links[l, :width]))
                return rows, links, sums

            return loop(touching, carry, 1, until=lambda _: self.touched[l, 0] * live < 0.5, body_keeps_tables=True)

        rows, links, sums = loop(on_link, (*state, sums), self.kind.links)
        return (rows, links), sums
