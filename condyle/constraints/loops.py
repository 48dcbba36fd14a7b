"""Closed loops: coordinates that follow from the others because conditions phi(q) = 0 hold, found by steps of Newton.

The steps are a fixed number of them, from a first guess that is a function of the coordinates that remain: so a configuration
has one answer, whatever came before it. The search is never differentiated: its answer has the derivatives of the solution, by
the implicit function theorem.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, log2
from typing import Any

import numpy as np

from condyle.constraints.block_triangular import Block, Solved
from condyle.constraints.coordinate_map import Configurations, ConstraintMap, CoordinateMap
from condyle.constraints.initial_guess import InitialGuess
from condyle.constraints.loop_residuals import Conditions, all_rows, labels
from condyle.constraints.reduced_coordinates import entries, following, listed
from condyle.dynamics.manifold import difference, integrate
from condyle.robot.joints import Revolute
from condyle.robot.model import Model
from condyle.robot.spatial import Array
from condyle.tape.array import stop_gradient, where
from condyle.tape.derive import derivative_at_zero, jacobian_at_zero
from condyle.tape.linalg.rule import with_rule
from condyle.tape.loop import loop

MIN_STEPS = 2  # steps: one of Newton, and one more with the same Jacobian
MAX_ITERATIONS = 10  # steps where the guess is that of another robot
MAX_STEP = 0.5  # the longest step towards a solution, as a part of the size of a coordinate (a radian, or the robot's length)
CONVERGED = 1e-8  # the longest last step: the error it leaves is as much smaller again
CONVERGED_SINGLE = 3e-5  # the same in float32, where rounding alone makes a step of 1e-7 and more
SINGULAR = 1e-7  # the smallest determinant of a block, as a part of what it is where the loop was first closed
EXACT = 1e-10  # m or rad: what is open by more than this is in the report
CORRECTIONS = 2  # steps of Newton on each stage of the way from the first pose


@dataclass(frozen=True)
class Loops(ConstraintMap):
    """Closed loops. Rows, dependent joints, blocks, guess and steps are chosen once, in assembly.py and continuation.py."""

    below: Model
    reduced: Model
    conditions: Conditions
    rows: tuple[int, ...]  # conditions that are independent of each other
    dependent: tuple[int, ...]  # joints of `below`
    blocks: list[Block]  # of conditions that are solved together
    scales: np.ndarray  # their determinants at the first pose
    first: np.ndarray  # the pose of `below` at which the loops were first closed
    units: np.ndarray  # of the dependent coordinates: 1 rad, or the robot's length
    offsets: np.ndarray  # what the conditions are where they count as met: not zero where they cannot all be zero at once
    guess: InitialGuess = field(default_factory=InitialGuess)
    steps: int = MIN_STEPS
    stages: int = 0  # on a straight path from the first pose, where there is no better guess
    misfit: float = 0.0  # how far redundant conditions are from being met, at the first pose and others, m or rad
    through: bool = False  # whether the branch may go straight on beyond singular poses, as that of a parallelogram does

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", np.asarray(self.first[self.kept[0]]))

    @property
    def passive(self) -> set[str]:
        """Joints that follow others and have no motor of their own."""
        return {self.below.links[i].joint for i in self.dependent}

    @property
    def reaction_names(self) -> list[str]:
        """Names of the constraint forces: the labels of the independent conditions."""
        names = labels(self.conditions)
        return [names[r] for r in self.rows]

    @property
    def kept(self) -> tuple[np.ndarray, np.ndarray]:
        """(entries of x, entries of its velocity) of the joints that remain."""
        return entries(self.below, [i for i in range(len(self.below.links)) if i not in self.dependent])

    @property
    def following(self) -> tuple[np.ndarray, np.ndarray]:
        """(entries of x, entries of its velocity) of the dependent joints."""
        return entries(self.below, self.dependent)

    def for_precision(self, bits: int) -> Loops:
        """With the steps that numbers of so many bits take."""
        return replace(self, steps=self.steps + max(0, ceil(log2(bits / 53.0))) + 1)

    def with_iterations(self) -> Loops:
        """With steps enough for other lengths, for which the guess is not made."""
        return replace(self, steps=max(self.steps, MAX_ITERATIONS))

    def at_start(self) -> Loops:
        """Without stages, which lead nowhere from the first pose."""
        return replace(self, stages=0)

    # ---- the search

    def configuration(self, model: Model, lower: CoordinateMap, y: Array) -> Array:
        """x: y and the dependent coordinates that close the loops, by Newton's method from the initial guess."""
        dependent, _ = self.following
        y0 = stop_gradient(y)
        x = self._with(y0, self.guess.at(self, y0))
        if self.stages:
            x = self._with(y0, self._by_stages(model, lower, y0))
        if self.steps > MIN_STEPS:

            def body(_: Any, d: Any) -> Any:
                return self._step(model, lower, self._with(y0, d))[0][dependent]

            x = self._with(y0, loop(body, x[dependent], self.steps - MIN_STEPS))
        x, _, _, found = self._step(model, lower, x)
        x, size, weakest, _ = self._step(model, lower, x, found)
        good = (size <= _converged(size)) & (weakest >= SINGULAR)
        # what does not close is not a number: it is reported, and not integrated through
        d = stop_gradient(where(good, x[dependent], np.nan))
        # its first derivatives, then those of its Jacobian, too: right to the third order
        for _ in range(2):
            d = self._as_solution(model, lower, y, d)
        return self._with(y, d)

    def _as_solution(self, model: Model, lower: CoordinateMap, y: Array, d: Array) -> Array:
        """d, with the derivative of the solution of phi(y, d) = 0 by all that phi depends on:  d' + phi_d^-1 (-phi')."""
        dependent, columns = self.following
        at = self._at(model, lower, self._with(y, d))

        def rule(values: Any, result: Any, tangents: Any) -> Any:
            (d, y, _, J), (moved, _, phi, _) = values, tangents
            step = np.zeros(self.below.nv, dtype=object)
            step[columns] = -Solved.of(np.array(J, dtype=object), self.blocks).solve(np.array(phi, dtype=object))
            x = self._with(y, d)
            along = derivative_at_zero(lambda t: {"d": integrate(self.below, x, step * t)[dependent]})["d"]
            return np.array(moved, dtype=object) + along

        # in values alone it is d: the conditions and their Jacobian are computed where derivatives are taken
        return with_rule(lambda d, y, phi, J: d, rule)(d, y, self.values(at), self.jacobian(at, columns))

    def _by_stages(self, model: Model, lower: CoordinateMap, y: Array) -> Array:
        """The dependent coordinates, followed on the straight path from the first pose to y."""
        dependent, _ = self.following
        away = difference(self.reduced, self.start, y)
        for link in self.reduced.links:
            if isinstance(link.kind, Revolute) and link.limits.lower is None:
                # a joint that turns without end is as far as it is within one turn
                k = link.v.start
                away[k] = away[k] - np.rint(away[k] * (0.5 / np.pi)) * (2.0 * np.pi)

        def body(i: Any, d: Any) -> Any:
            here = integrate(self.reduced, self.start, away * ((i + 1.0) * (1.0 / self.stages)))
            for _ in range(CORRECTIONS):
                d = self._step(model, lower, self._with(here, d))[0][dependent]
            return d

        return loop(body, np.array(self.first[dependent], dtype=object), self.stages)

    def _at(self, model: Model, lower: CoordinateMap, x: Array) -> Configurations:
        return lower.differentials(model, lower.configurations(model, x))

    def _with(self, y: Array, d: Array) -> Array:
        x = np.zeros(self.below.nq, dtype=object)
        x[self.kept[0]], x[self.following[0]] = y, d
        return x

    def _step(self, model: Model, lower: CoordinateMap, x: Array, known: Solved | None = None) -> tuple[Array, Any, Any, Solved]:
        """(x one step of Newton further, the size of the step, the weakest block, the Jacobian used)."""
        _, columns = self.following
        at = self._at(model, lower, x)
        found = Solved.of(self.jacobian(at, columns), self.blocks) if known is None else known
        step = -found.solve(self.values(at))
        size: Any = 0.0
        for s, unit in zip(step, self.units, strict=True):
            size = np.maximum(abs(s) * (1.0 / unit), size)
        if known is None:
            step = step * np.minimum(1.0, MAX_STEP / np.maximum(size, MAX_STEP))
        weakest: Any = np.inf
        for determinant, scale in zip(found.determinants, self.scales, strict=True):
            part = determinant * (1.0 / scale)
            weakest = np.minimum(abs(part) if self.through else part, weakest)
        full = np.zeros(self.below.nv, dtype=object)
        full[columns] = step
        return integrate(self.below, x, full), size, weakest, found

    # ---- the conditions and their differentials

    def values(self, at: Configurations) -> Array:
        """phi, less its offsets."""
        phi = all_rows(self.conditions, at.model, at.q)[list(self.rows)]
        return phi - self.offsets if np.any(self.offsets) else phi

    def jacobian(self, at: Configurations, columns: Any) -> Array:
        """dphi by these coordinates of `below`, where the configurations have been found."""

        def moved(d: Array) -> Any:
            step = np.zeros(self.below.nv, dtype=object)
            step[columns] = d
            return {"phi": self.values(self._moved(at, step))}

        return jacobian_at_zero(moved, len(columns))["phi"]

    def _moved(self, at: Configurations, step: Array) -> Configurations:
        """Only the robot's own configuration, moved by a small step in the tangent space of `below`."""
        full = step if at.total is None else at.total @ step
        return Configurations(at.model, [integrate(at.model, at.q, full), *at.c[1:]], at.G, at.total)

    def differential(self, at: Configurations, y: Array) -> Array:
        """1 for what remains, -phi_d^-1 phi_y for what follows (the implicit function theorem)."""
        _, kept = self.kept
        _, columns = self.following
        G = np.zeros((self.below.nv, len(kept)), dtype=object)
        G[kept, np.arange(len(kept))] = 1.0
        G[columns] = -Solved.of(self.jacobian(at, columns), self.blocks).solve(self.jacobian(at, kept))
        return G

    def drift(self, at: Configurations, y: Array, v: Array, drifts: Array | None) -> Array:
        """-phi_d^-1 d2phi/dt2, while what remains moves on at v."""
        _, columns = self.following
        speed = self.differential(at, y) @ v
        second = derivative_at_zero(
            lambda t: {"rate": derivative_at_zero(lambda s: {"phi": self.values(self._moved(at, speed * (t + s)))})["phi"]}
        )["rate"]
        if drifts is not None:
            along = derivative_at_zero(
                lambda t: {"phi": self.values(Configurations.of(at.model, integrate(at.model, at.q, drifts * t)))}
            )
            second = second + along["phi"]
        out = np.zeros(self.below.nv, dtype=object)
        out[columns] = -Solved.of(self.jacobian(at, columns), self.blocks).solve(second)
        return out

    def reaction_rows(self, at: Configurations) -> Array:
        """The gradients of the conditions, along all coordinates."""

        def moved(d: Array) -> Any:
            return {"phi": self.values(Configurations.of(at.model, integrate(at.model, at.q, d)))}

        return jacobian_at_zero(moved, at.model.nv)["phi"]

    def summary(self) -> str:
        """What it constrains, in half a sentence."""
        names = [c.name for c in self.conditions]
        follow = [self.below.links[i].joint for i in self.dependent]
        found = f"{following(follow)} from {len(self.rows)} condition{'s' * (len(self.rows) != 1)} ({listed(names)})"
        if self.misfit <= EXACT:
            return found
        return f"{found}; not all can be met at once: the least squares leave up to {self.misfit:.2g} (m or rad) open"


def _converged(size: Any) -> Any:
    """CONVERGED, or CONVERGED_SINGLE where the backend computes in float32: there 1 and a little more are the same number."""
    one = where(size <= 1.0, 1.0, 2.0)  # not a constant, which would be folded in float64
    return where((one + 2.0**-40) - one > 0.0, CONVERGED, CONVERGED_SINGLE)
