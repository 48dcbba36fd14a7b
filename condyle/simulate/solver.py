"""All constrained forces at once: the velocity after a step, by a primal-dual interior-point method on the robot's tree.

    minimise over the impulses   1/2 v^T M v + sum_i kappa_i barrier_i(y_i),     M v = p + sum_i J_i^T lambda_i(y_i)

Newton's matrix  M + sum J^T Sigma J  has the pattern of the tree, because J_i depends only on the joints that move contact i, so
many contacts on few joints, limits and dry friction cost little. A converged lane keeps its state.

The iteration ends where the linear equations hold and the products of limits and dry friction, y z and s w, are kappa (1 + e)
with e^2 <= `tolerance`. This is the solution for slightly other kappas. For two such solutions the equations, z - w = E u, give

    dv^T M dv = sum (dz dy + dw ds) <= sum kappa (sqrt(1 + e) - 1)^2,     about  sum kappa e^2 / 4

so the error before the last Newton step is a small part of the energy of the smoothing, whatever the state.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from condyle.dynamics.limbs import Limbs, find_limbs, merged
from condyle.dynamics.solve import TreeFactor, pattern_factor
from condyle.robot import rounded
from condyle.robot.spatial import Array
from condyle.simulate.constraint_list import Constraint, ListPart, started
from condyle.simulate.contact_table import ContactRows, ContactTable
from condyle.simulate.drives import BLOCKS, Drive
from condyle.simulate.friction_cone import Iterate, largest
from condyle.simulate.limbs import fold_constraints, grouped
from condyle.simulate.limit_table import LimitRows
from condyle.simulate.table_part import Rows, TablePart
from condyle.tape.array import isfinite, where
from condyle.tape.limb_values import all_summed, picks
from condyle.tape.loop import loop
from condyle.tape.precision import by_precision
from condyle.tape.table import fill_table, zeros_table

MAX_ITERATIONS = 200  # 5 to 9 are usual
SHORT_STEP = 0.5  # a shorter step is followed by a centering step


class StartParameters(NamedTuple):
    """Where the iteration starts, and how near the boundary a step may end."""

    impulse_factor: Any  # initial impulses, relative to those that stop the constrained motion
    energy_fraction: Any  # initial smoothing, relative to the energy that the constraints may dissipate
    boundary_fraction: Any  # the largest step, relative to the distance to the boundary
    coupling: Any  # least speed to stop, relative to that at which the constrained mass has the energy of the whole robot
    smoothing: Any = 0.0  # the least of the laws, relative to the energy of the robot


# the next ones are for states that do not converge from the one before: a few in millions, in float32 in thousands
ATTEMPTS = (
    StartParameters(5.0, 0.1, 0.98, 0.0),
    StartParameters(1.0, 0.2, 0.92, 1.0),
    StartParameters(0.3, 0.2, 0.92, 0.1),
    StartParameters(1.0, 0.5, 0.9, 1.0),
    StartParameters(0.3, 0.5, 0.9, 0.1),
)
SMOOTHING_SINGLE = (0.0, 1.2e-7, 1.2e-6, 1.2e-5, 1.2e-4)  # the least of each attempt in float32, relative to the robot's energy

PRECISE = 1e-12  # a tolerance below this is for high precision
LIMIT = 1e-10  # the largest residual of a converged step
LIMIT_SINGLE = 1e-4  # the same in float32
TOLERANCE_SINGLE = 0.1  # of the iteration in float32
STAYS_SINGLE = 3e-5  # the residual in float32 at which no further round is made
STALLED_SINGLE = 1e-4  # the step length in float32 below which rounding errors decide: the next of ATTEMPTS begins
ROUNDS = 4  # times that the iteration is made at most in float32
PIVOTS = 1000  # changes of the active set of drives, at most; 0 to 2 are usual
REFINEMENTS = 3  # Newton steps at the end in float64; one is usual
ONCE = 1e28  # more than the residual of any state
AncestorDofs = list[list[int]]


@dataclass(frozen=True)
class Motion:
    """The equation of motion  M dv = p + sum J^T lambda  for the change of the velocity v.

    `limbs`: where all numbers are folded (limbs.py); None for a robot without limbs.
    """

    ancestor_dofs: AncestorDofs
    M: Array
    p: Array
    v: Array
    limbs: Limbs | None = None

    @staticmethod
    def of(ancestor_dofs: AncestorDofs, M: Array, p: Array, v: Array, limbs: Limbs | None) -> Motion:
        """The equation, folded if there are limbs."""
        if limbs is None:
            return Motion(ancestor_dofs, M, p, v)
        return Motion(limbs.pattern(ancestor_dofs), limbs.fold_matrix(M), limbs.fold(p), limbs.fold(v), limbs)

    @property
    def at_rest(self) -> Array:
        """Zero for every coordinate."""
        return self.varying(np.zeros(len(self.v), dtype=object))

    def varying(self, x: Array) -> Array:
        """Numbers of the coordinates where a loop starts: those of limbs may differ from now on."""
        return x if self.limbs is None else self.limbs.varying(x)

    @property
    def momentum(self) -> Array:
        """M v."""
        return self.times(self.v)

    def times(self, x: Array) -> Array:
        """M x."""
        return self.M @ x if self.limbs is None else self.limbs.times(self.M, x)

    def dot(self, a: Array, b: Array) -> Any:
        """a . b over all coordinates."""
        return a @ b if self.limbs is None else self.limbs.dot(a, b)

    def sum(self, a: Array) -> Any:
        """The sum over all coordinates."""
        return sum(a, 0.0) if self.limbs is None else self.limbs.sum(a)

    def factor(self, H: Array) -> TreeFactor:
        """The factors of a matrix with the pattern of M."""
        return pattern_factor(self.ancestor_dofs, H, self.limbs)

    def relative_norm(self, change: Array, M_change: Array, square: Any, scale: Any) -> Any:
        """A norm with this square, relative to that of the velocities v and v + change.

        Norms are those of kinetic energy, with `scale`, that of the velocity scales of all constraints, added.
        """
        energy = 2.0 * self.dot(self.v + change, self.momentum) + self.dot(change, M_change)
        return np.sqrt(square / (energy + scale))

    def diagonal_energy(self, v: Array) -> Any:
        """Twice the kinetic energy with the diagonal of M."""
        return self.dot(v, np.diagonal(self.M) * v)


@dataclass(frozen=True)
class Solution:
    """The change of velocity in the step, the unknowns of every constraint of the list, and the largest relative residual.

    `points`: (y and s, impulse) of each row of the table of contacts, (rows, 4) and (rows, 3). `smoothing`: the least of the
    laws, J; zero where each has its own.
    """

    dv: Array
    iterates: list[Iterate]
    residual: Any
    points: tuple[Array, Array] | None = None
    smoothing: Any = 0.0


def solve(
    ancestor_dofs: AncestorDofs,
    M: Array,
    p: Array,
    v: Array,
    constraints: list[Constraint],
    contacts: ContactTable | None,
    inverse: Array,
    tolerance: float = 1e-3,
) -> Solution:
    """The dv with  M dv = p + sum J^T lambda  whose impulses obey their constraints at v + dv, v the velocity before the step.

    `ancestor_dofs`: the pattern of M, see tree_solve.py. `inverse`: approximately 1 / M_kk of every coordinate. `tolerance`: the
    squared distance to the central path, before its last step, at which the iteration ends.

    Joint limits and the contacts of a table are worked on where they have a force; where none has one, M dv = p is all. A state
    that does not converge is solved again from the next of ATTEMPTS, in float32 with a least smoothing. Each state decides for
    itself, and only what some state of a vector needs is computed.
    """
    if not constraints and contacts is None:
        return Solution(pattern_factor(ancestor_dofs, M).solve(p), [], 0.0)
    limits = [k for k, b in enumerate(constraints) if b.idle is not None]
    listed = [k for k in range(len(constraints)) if k not in limits]
    limbs = None if any(b.label[0] == "tendon" for b in constraints) else find_limbs(ancestor_dofs)
    groups = None if limbs is None else grouped(limbs, [constraints[k] for k in listed])
    if limbs is None or groups is None:
        limbs, groups = None, [[k] for k in range(len(listed))]
    singles = [constraints[k] for k in listed]
    folded = singles if limbs is None else [fold_constraints(limbs, [singles[k] for k in group]) for group in groups]
    driven = any(isinstance(b.law, Drive) for b in singles)
    # 1 for the first constraint of the whole robot, and so on
    ranks = [merged([1.0 + listed[k] for k in group]) for group in groups]
    kinds: list[Rows] = [LimitRows([constraints[k] for k in limits], limbs)] if limits else []
    kinds += [ContactRows(contacts)] if contacts is not None else []
    now = Motion.of(ancestor_dofs, M, p, v, limbs)
    inverse = inverse if limbs is None else limbs.fold(inverse)
    free, unsolved = _free_motion(now, kinds) if not listed else (now.at_rest, np.inf)
    solvable = isfinite(now.sum(now.p) + now.sum(now.v))
    # in high precision the residual must be smaller
    enough = limit() if tolerance > PRECISE else min(LIMIT, rounded.power(tolerance, 0.4))
    pattern = [(i, j) for i, others in enumerate(ancestor_dofs) for j in (i, *others)]

    def attempt(i: Any, state: Any) -> Any:
        failures = state[5]
        parameters = StartParameters(*[_of_attempt(failures, *values) for values in zip(*ATTEMPTS, strict=True)])
        parameters = parameters._replace(smoothing=_of_attempt(failures, *[by_precision(0.0, x) for x in SMOOTHING_SINGLE]))
        live = where(state[2] > enough, 1.0, 0.0)
        tables = [TablePart(kind, now.v, live, pattern, limbs) for kind in kinds]
        listed_part = ListPart(folded, now.v, state[1], i > 0.0)
        parts = [listed_part, *tables]
        change, found, residual, error, smoothing = _solve(now, parts, inverse, tolerance, enough, parameters)
        ends = [part.ends(end, results) for part, end, results in zip(tables, found[1:], state[3], strict=True)]
        # a NaN counts as done; of numbers, what one attempt cannot solve the next one may
        again = solvable & np.isnan(residual)
        solved = residual <= enough
        residual = where(again, np.inf, np.maximum(residual, error))
        iterates = found[0]
        if driven:
            # the step is solved, but not its active set
            other, wrong = listed_part.pivoted(iterates, change, ranks, i >= float(BLOCKS))
            turn = solved & wrong & (residual > enough)
            iterates = [{name: where(turn, b[name], a[name]) for name in a} for a, b in zip(iterates, other, strict=True)]
            failures = failures + where(turn, 0.0, 1.0)
        else:
            failures = failures + 1.0
        return change, iterates, residual, ends, smoothing, failures

    # a row without a force has unknowns somewhere inside their bounds
    ends = [(fill_table(0.5, (k.links * k.rows, k.UNKNOWNS + 1)), zeros_table((k.links * k.rows, k.UNKNOWNS))) for k in kinds]
    start: Any = [started({"y": np.full(b.law.unknowns, 0.5), "s": 0.5}, b.limbs) for b in folded]
    state = (free, start, unsolved, ends, 0.0, 0.0)
    until = lambda state: (state[2] <= enough) | (state[5] > float(len(ATTEMPTS)) - 0.5)  # noqa: E731
    count = len(ATTEMPTS) + (PIVOTS if driven else 0)
    dv, found, residual, ends, smoothing, _ = loop(attempt, state, count, until=until, body_keeps_tables=True)
    iterates: dict[int, Iterate] = {}
    for group, iterate in zip(groups, found, strict=True):
        parts = {name: np.array([picks(x, len(group)) for x in np.ravel(value)], dtype=object) for name, value in iterate.items()}
        for k, member in enumerate(group):
            iterates[listed[member]] = {"y": parts["y"][:, k], "s": parts["s"][0, k]}
    dv = dv if limbs is None else limbs.unfold(dv)
    if limits:
        iterates |= {k: {"y": row[:-1], "s": row[-1]} for k, row in zip(limits, ends[0][0][:], strict=True)}
    points = (ends[-1][0][:], ends[-1][1][:]) if contacts is not None else None
    # a number known to be 0 in float64
    smoothing = where(by_precision(0.0, 1.0) > 0.5, smoothing, 0.0)
    return Solution(dv, [iterates[k] for k in range(len(constraints))], residual, points, smoothing)


def _of_attempt(i: Any, *values: Any) -> Any:
    """The value for the attempt i."""
    value = values[-1]
    for k in reversed(range(len(values) - 1)):
        value = where(i <= float(k), values[k], value)
    return value


def _free_motion(now: Motion, kinds: list[Rows]) -> tuple[Array, Any]:
    """(dv with M dv = p, residual) of a state in which no row of a table has a force; the residual of others is infinite."""
    touches = functools.reduce(operator.or_, [kind.any_active() for kind in kinds])

    def alone(_: Any, dv: Array) -> Array:
        found: Array = now.factor(now.M).solve(now.p)
        return found

    dv = loop(alone, now.at_rest, 1, until=lambda _: touches)
    total = now.sum(dv)
    # NaN where the state is not finite
    return dv, where(touches, np.inf, total - total)


def _solve(
    now: Motion, parts: list[Any], inverse: Array, tolerance: float, enough: Any, parameters: StartParameters
) -> tuple[Array, list[Any], Any, Any, Any]:
    """From one start: (change of velocity, state of each part, residual, error of drives and dry friction, least smoothing).

    The parts share the work: a list of constraints, and tables of joint limits and contact points.
    """
    # approximate velocity without the constraints but with the drives, with a diagonal mass matrix
    push = np.array(now.p, dtype=object)
    parts[0].add_drives(now.p, inverse, push)
    # an impact elsewhere may move a light joint much faster than it moves by itself
    free = now.v + push * inverse
    energy = now.diagonal_energy(free)
    smoothing = parameters.smoothing * energy
    parameters = parameters._replace(coupling=parameters.coupling * np.sqrt(energy), smoothing=smoothing)
    begun = [part.begin(push, inverse, parameters) for part in parts]
    start = [state for state, _ in begun]
    final_energy, extra, scale = (_total([sums[name] for _, sums in begun]) for name in ("final", "extra", "scale"))
    per_extra = 1.0 / extra

    def iterated(_: Any, outer: Any) -> Any:
        change, states, moved = outer
        active = where(moved > stays, 1.0, 0.0)
        # the residuals of the linear equations at the start; each step of length a multiplies them by 1 - a
        M_change = now.times(change)
        r = M_change - now.p
        states = [part.residual(state, change, r, active) for part, state in zip(parts, states, strict=True)]
        r = all_summed(r)

        def body(_: Any, state: Any) -> Any:
            change, states, left, last, error = state
            live = where(error > done, active, 0.0)
            # after a short step the iterate is near the boundary: one pure centering step
            go = np.where(last >= SHORT_STEP, 1.0, 0.0)
            H = np.array(now.M, dtype=object)
            found = [part.linearise(s, change, left, H, live) for part, s in zip(parts, states, strict=True)]
            states = [s for s, _ in found]
            energy, error = _total([x["energy"] for _, x in found]), largest([x["error"] for _, x in found])
            factor = now.factor(H)

            # predictor: the step to the solution and its feasible length; corrector: the step to a reachable point of the path
            right = r * -left
            states = [part.predictor(s, right, live) for part, s in zip(parts, states, strict=True)]
            states, reach = _step(parts, states, factor.solve(right), live)
            short = 1.0 - 1.0 / np.maximum(reach, 1.0)
            far = np.maximum((energy - final_energy) * per_extra, 0.0)
            t = np.where(last >= SHORT_STEP, short * short * short * far, far)
            right = r * -(left * go)
            states = [part.corrector(s, t, go, far, left, right, live) for part, s in zip(parts, states, strict=True)]
            dv = factor.solve(right)
            states, reach = _step(parts, states, dv, live)
            a = np.minimum(parameters.boundary_fraction * (1.0 / np.maximum(reach, 1e-3)), 1.0)
            moved = [part.moved(s, a, live) for part, s in zip(parts, states, strict=True)]
            states = [s for s, _ in moved]
            distance = largest([x for _, x in moved])
            # a centering step follows, too, where a step towards kappa itself has not come nearer
            length = where((t <= 0.0) & (distance >= error), 0.0, a)
            # the end: near kappa before and after a full step, which leaves no residual of the linear equations
            error = where(a < stalled, np.nan, largest([error, distance, where(a * go < 1.0, 1.0, 0.0)]))
            return change + dv * a, states, left * (1.0 - a * go), np.where(last >= SHORT_STEP, length, 1.0), error

        # a NaN ends it, too: no further step makes it a number
        until = lambda state: ~(state[4] > done) | (active < 0.5)  # noqa: E731
        begin = (now.varying(change), [parts[0].varying(states[0]), *states[1:]], 1.0, 1.0, 1.0)
        end, states, _, _, error = loop(body, begin, MAX_ITERATIONS, until=until, body_keeps_tables=True)
        # one round is enough in float64
        moved = end - change
        size = now.relative_norm(change, M_change, now.dot(moved, now.times(moved)), scale)
        size = where(by_precision(0.0, 1.0) > 0.5, size, 0.0)
        return end, states, where(error <= done, size, np.nan)

    # in float32 again, from residuals computed anew, until the velocity stays
    done = by_precision(tolerance, TOLERANCE_SINGLE) if tolerance > PRECISE else tolerance
    stalled = by_precision(0.0, STALLED_SINGLE)
    stays = by_precision(ONCE, STAYS_SINGLE) if tolerance > PRECISE else ONCE
    begin = (now.at_rest, [parts[0].varying(start[0]), *start[1:]], 10.0 * ONCE)
    until = lambda state: state[2] <= stays  # noqa: E731
    change, states, moved = loop(iterated, begin, ROUNDS, until=until, body_keeps_tables=True)

    def refine(_: Any, state: Any) -> Any:
        """One more Newton step, on the unscaled equations, and the residual after it."""
        change, states, worst, _ = state
        live = where(worst > enough, 1.0, 0.0)
        M_change, H = now.times(change), np.array(now.M, dtype=object)
        r = M_change - now.p
        states = [part.newton(s, change, r, H, live) for part, s in zip(parts, states, strict=True)]
        r = all_summed(r)
        factor = now.factor(H)
        dv = -factor.solve(r)
        # with H, which has the stiffness of the constraints, in the place of M: not less than that of kinetic energy
        correction = now.relative_norm(change, M_change, abs(now.dot(dv, r)), scale)
        change = change + dv
        # the residual there, in the same norm, the laws each by itself
        M_change = now.times(change)
        r = M_change - now.p
        moved = [part.newton_moved(s, dv, change, r, live) for part, s in zip(parts, states, strict=True)]
        r = all_summed(r)
        square = abs(now.dot(r, factor.solve(r))) + _total([sums["square"] for _, sums in moved])
        inside = largest([sums["outside"] for _, sums in moved]) < 0.0
        residual = where(inside, now.relative_norm(change, M_change, square, scale), np.inf)
        return change, [s for s, _ in moved], np.maximum(correction, residual), residual

    # in float64 a last Newton step
    residual = moved + (by_precision(10.0 * ONCE, 0.0) if tolerance > PRECISE else 10.0 * ONCE)
    states[0] = parts[0].unscaled(states[0])
    until = lambda state: state[2] <= enough  # noqa: E731
    before = (now.varying(change), states, residual, residual)
    change, states, _, residual = loop(refine, before, REFINEMENTS, until=until, body_keeps_tables=True)
    return change, states, residual, parts[0].force_error(states[0], change), smoothing


def _step(parts: list[Any], states: list[Any], dv: Array, live: Any) -> tuple[list[Any], Any]:
    """(states, 1 / the largest feasible multiple) of the step of all unknowns for a change of velocity."""
    found = [part.step(s, dv, live) for part, s in zip(parts, states, strict=True)]
    return [s for s, _ in found], largest([reach for _, reach in found])


def _total(numbers: list[Any]) -> Any:
    """The sum, from the first on."""
    return sum(numbers[1:], numbers[0])


def limit() -> Any:
    """The largest residual of a converged step, in the precision of the trace."""
    return by_precision(LIMIT, LIMIT_SINGLE)
