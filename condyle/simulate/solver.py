"""All constrained forces at once: the velocity after a step, by a primal-dual interior-point method on the robot's tree.

    minimise over the impulses   1/2 v^T M v + sum_i kappa_i barrier_i(y_i),     M v = p + sum_i J_i^T lambda_i(y_i)

Newton's matrix  M + sum J^T Sigma J  has the pattern of the tree, because J_i depends only on the joints that move contact i, so
many contacts on few joints, limits and dry friction cost little. A converged lane keeps its state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from condyle.dynamics.solve import pattern_factor
from condyle.robot import rounded
from condyle.robot.spatial import Array
from condyle.simulate.drives import Drive
from condyle.simulate.friction_cone import Cone, Iterate, Polytope, largest
from condyle.tape.array import isfinite, where
from condyle.tape.loop import loop
from condyle.tape.precision import by_precision

MAX_ITERATIONS = 200  # 5 to 9 are usual
SHORT_STEP = 0.5  # a shorter step is followed by a centering step


class StartParameters(NamedTuple):
    """Where the iteration starts, and how near the boundary a step may end."""

    impulse_factor: Any  # initial impulses, relative to those that stop the constrained motion
    energy_fraction: Any  # initial smoothing, relative to the energy that the constraints may dissipate
    boundary_fraction: Any  # the largest step, relative to the distance to the boundary


# the next ones are for states that do not converge from the one before, a few in millions
ATTEMPTS = (StartParameters(5.0, 0.1, 0.98), StartParameters(1.0, 0.2, 0.92), StartParameters(0.3, 0.2, 0.92))

PRECISE = 1e-12  # below this tolerance, for high precision, idle constraints are kept in the problem
LIMIT = 1e-10  # the largest residual of a converged step
LIMIT_SINGLE = 1e-4  # the same in float32
TOLERANCE_SINGLE = 1e-3  # of the iteration in float32
STAYS_SINGLE = 1e-5  # the residual in float32 at which no further round is made
ROUNDS = 4  # times that the iteration starts anew at most in float32
REFINEMENTS = 3  # Newton steps at the end in float64; one is usual
ONCE = 1e28  # more than the residual of any state
AncestorDofs = list[list[int]]


@dataclass(frozen=True)
class Constraint:
    """A constraint with its force law: velocity  u = C J v[path]  and joint impulse  J^T C^T lambda.

    C None: the axes of J are the law's own. J None: the constraint acts on one joint.
    """

    law: Cone | Polytope | Drive
    path: tuple[int, ...]
    J: Array | None
    C: Array | None
    max_speed: Any  # bound on the speed that it may have to stop
    mass: float  # effective mass
    velocity_scale: float  # velocity change by gravity in one step
    idle: Any = None  # whether its force is zero in this step; None: never known to be

    def velocity(self, v: Array) -> Array:
        """u along the law's directions."""
        if self.J is None:
            return v[list(self.path)]
        u = self.J @ v[list(self.path)]
        return u if self.C is None else self.C @ u

    def add_impulse(self, impulse: Array, into: Array, sign: float = 1.0) -> None:
        """Add J^T C^T impulse to joint impulses."""
        if self.J is None:
            into[self.path[0]] = into[self.path[0]] + impulse[0] * sign
            return
        force = impulse if self.C is None else self.C.T @ impulse
        for column, k in enumerate(self.path):
            into[k] = into[k] + sign * (self.J[:, column] @ force)

    def add_stiffness(self, stiffness: Array, H: Array) -> None:
        """Add J^T C^T Sigma C J to H."""
        if self.J is None:
            k = self.path[0]
            H[k, k] = H[k, k] + stiffness[0, 0]
            return
        rotated = stiffness if self.C is None else self.C.T @ stiffness @ self.C
        SJ = rotated @ self.J
        for a, i in enumerate(self.path):
            for b, j in enumerate(self.path[: a + 1]):
                H[i, j] = H[i, j] + self.J[:, a] @ SJ[:, b]
                H[j, i] = H[i, j]


@dataclass(frozen=True)
class Motion:
    """The equation of motion  M dv = p + sum J^T lambda  for the change of the velocity v; `momentum`: M v."""

    ancestor_dofs: AncestorDofs
    M: Array
    p: Array
    v: Array
    momentum: Array

    def relative_norm(self, change: Array, M_change: Array, dv: Array, constraints: list[Constraint]) -> Any:
        """The norm of dv, relative to that of the velocities v and v + change.

        Norms are those of kinetic energy, with the velocity scale of each constraint added.
        """
        energy = 2.0 * ((self.v + change) @ self.momentum) + change @ M_change
        energy = energy + sum(b.mass * b.velocity_scale * b.velocity_scale for b in constraints)
        return np.sqrt(dv @ (self.M @ dv) / energy)


@dataclass(frozen=True)
class Solution:
    """The change of velocity in the step, the unknowns of every constraint, and the largest relative residual."""

    dv: Array
    iterates: list[Iterate]
    residual: Any


def solve(
    ancestor_dofs: AncestorDofs,
    M: Array,
    p: Array,
    v: Array,
    constraints: list[Constraint],
    inverse: Array,
    tolerance: float = 1e-7,
) -> Solution:
    """The dv with  M dv = p + sum J^T lambda  whose impulses obey their constraints at v + dv, v the velocity before the step.

    `ancestor_dofs`: the pattern of M, see tree_solve.py. `inverse`: approximately 1 / M_kk of every coordinate. `tolerance`: the
    squared distance to the central path from which one more step and the last one, `refined`, end at rounding errors.

    Where all constraints that may be idle are, the others are solved without them; a state that does not converge is solved again
    from the next of ATTEMPTS. Each state decides for itself, and only what some state of a vector needs is computed.
    """
    if not constraints:
        return Solution(pattern_factor(ancestor_dofs, M).solve(p), [], 0.0)
    all_idle: Any = True
    for b in constraints if tolerance > PRECISE and _pays(constraints) else ():
        all_idle = all_idle if b.idle is None else all_idle & b.idle
    # an idle constraint has no force; its unknowns may be anywhere inside their bounds
    idle_iterates: list[Iterate] = [{"y": np.full(b.law.unknowns, 0.5), "s": 0.5} for b in constraints]

    now = Motion(ancestor_dofs, M, p, v, M @ v)
    solvable = isfinite(sum(p, 0.0) + sum(v, 0.0))
    # in high precision the residual must be smaller
    enough = limit() if tolerance > PRECISE else min(LIMIT, rounded.power(tolerance, 0.4))

    def attempt(chosen: list[int], state: Any, skip: Any) -> Any:
        def body(i: Any, state: Any) -> Any:
            parameters = StartParameters(*[where(i <= 0.0, a, where(i <= 1.0, b, c)) for a, b, c in zip(*ATTEMPTS, strict=True)])
            which = [constraints[k] for k in chosen]
            change, found, residual = _solve(now, which, inverse, tolerance, enough, parameters)
            iterates = list(state[1])
            for k, iterate in zip(chosen, found, strict=True):
                iterates[k] = iterate
            # a NaN counts as done; of numbers, what one attempt cannot solve the next one may
            again = solvable & np.isnan(residual)
            return change, iterates, where(again, np.inf, residual)

        if not chosen:
            body = lambda i, state: (pattern_factor(ancestor_dofs, M).solve(p), state[1], 0.0)  # noqa: E731
        done = (lambda s: s[2] <= enough) if skip is None else (lambda s: skip | (s[2] <= enough))
        return loop(body, state, len(ATTEMPTS), until=done)

    state = (np.zeros(len(v), dtype=object), idle_iterates, np.inf)
    if all_idle is not True:
        state = attempt([k for k, b in enumerate(constraints) if b.idle is None], state, ~all_idle)
    return Solution(*attempt(list(range(len(constraints))), state, None if all_idle is True else all_idle))


def _pays(constraints: list[Constraint]) -> bool:
    """Whether a solve without the idle constraints is worth the code that it takes: where they have a fifth of all unknowns."""
    idle = sum(b.law.unknowns for b in constraints if b.idle is not None)
    return 5 * idle >= sum(b.law.unknowns for b in constraints)


def _solve(
    now: Motion, constraints: list[Constraint], inverse: Array, tolerance: float, enough: Any, parameters: StartParameters
) -> tuple[Array, list[Iterate], Any]:
    """(change of velocity, unknowns, residual) with all of these constraints, from one starting point."""
    M, v = now.M, now.v
    before = [b.velocity(v) for b in constraints]
    # approximate velocity without the constraints but with the drives, with a diagonal mass matrix
    push = np.array(now.p, dtype=object)
    for b, u in zip(constraints, before, strict=True):
        if isinstance(b.law, Drive):
            b.add_impulse(b.law.expected_impulse(u + b.velocity(now.p * inverse)), push)
    frees = [u + b.velocity(push * inverse) for b, u in zip(constraints, before, strict=True)]
    reaches = [b.max_speed + largest([abs(x) for x in u]) for b, u in zip(constraints, frees, strict=True)]

    # every constraint starts at the impulse that stops its mass, at a smoothing of the size of that energy: kappa + extra
    impulses = [b.mass * parameters.impulse_factor * reach for b, reach in zip(constraints, reaches, strict=True)]
    energies = [
        b.law.initial_fraction(i) * b.law.max_impulse * reach for b, i, reach in zip(constraints, impulses, reaches, strict=True)
    ]
    extra = [
        np.maximum(parameters.energy_fraction * e - b.law.kappa, b.law.kappa) for b, e in zip(constraints, energies, strict=True)
    ]
    starts = zip(constraints, impulses, extra, frees, strict=True)
    start = [b.law.start(impulse, b.law.kappa + more, u, b.mass) for b, impulse, more, u in starts]
    final_energy = sum((b.law.kappa * float(b.law.degree) for b in constraints), 0.0)
    per_extra = 1.0 / sum((more * float(b.law.degree) for b, more in zip(constraints, extra, strict=True)), 0.0)

    def iterated(_: Any, state: Any) -> Any:
        change, last, _ = state
        iterates = [b.law.consistent(iterate) for b, iterate in zip(constraints, last, strict=True)]
        # the residuals of the linear equations at the start; each step of length a multiplies them by 1 - a
        M_change = M @ change
        r = M_change - now.p
        for b, iterate in zip(constraints, iterates, strict=True):
            b.add_impulse(b.law.impulse(iterate["y"]), r, -1.0)
        velocities = [u + b.velocity(change) for b, u in zip(constraints, before, strict=True)]
        residuals = [b.law.dual_residual(iterate, u) for b, iterate, u in zip(constraints, iterates, velocities, strict=True)]

        def body(_: Any, state: Any) -> Any:
            change, iterates, left, last, _ = state
            # after a short step the iterate is near the boundary: one pure centering step
            go = np.where(last >= SHORT_STEP, 1.0, 0.0)
            velocities = [u + b.velocity(change) for b, u in zip(constraints, before, strict=True)]
            linearised = zip(constraints, iterates, residuals, velocities, strict=True)
            scaled = [b.law.scaled(iterate, residual * left, u) for b, iterate, residual, u in linearised]
            H = np.array(M, dtype=object)
            for b, s in zip(constraints, scaled, strict=True):
                b.add_stiffness(b.law.stiffness(s.Q_inverse), H)
            factor = pattern_factor(now.ancestor_dofs, H)

            def direction(t: Any, ahead: list[Any] | None, go: Any, far: Any) -> tuple[Array, list[Any], Any]:
                right = r * -(left * go)
                for i, (b, s, more) in enumerate(zip(constraints, scaled, extra, strict=True)):
                    kappa = b.law.kappa
                    b.add_impulse(
                        s.impulse_toward(kappa + t * more, None if ahead is None else ahead[i], go, kappa + far * more), right
                    )
                dv = factor.solve(right)
                steps = [s.step(b.velocity(dv)) for b, s in zip(constraints, scaled, strict=True)]
                return dv, steps, largest([s.inverse_step_limit(step) for s, step in zip(scaled, steps, strict=True)])

            # predictor: the step to the solution and its feasible length; corrector: the step to a reachable point of the path
            _, ahead, reach = direction(0.0, None, 1.0, 0.0)
            short = 1.0 - 1.0 / np.maximum(reach, 1.0)
            far = np.maximum((sum((s.energy for s in scaled), 0.0) - final_energy) * per_extra, 0.0)
            t = np.where(last >= SHORT_STEP, short * short * short * far, far)
            dv, steps, reach = direction(t, ahead, go, far)
            a = np.minimum(parameters.boundary_fraction / np.maximum(reach, 1e-3), 1.0)
            error = largest([*[s.error for s in scaled], left * one_more, 1.0 - a * go])
            moved = [s.moved(step, a) for s, step in zip(scaled, steps, strict=True)]
            return change + dv * a, moved, left * (1.0 - a * go), np.where(last >= SHORT_STEP, a, 1.0), error

        until = lambda state: state[4] <= done  # noqa: E731
        end, iterates, _, _, error = loop(body, (change, iterates, 1.0, 1.0, 1.0), MAX_ITERATIONS, until=until)
        size = now.relative_norm(change, M_change, end - change, constraints)
        return end, iterates, where(error <= done, size, np.nan)

    # in float32 again, from residuals computed anew, until the velocity stays
    done = by_precision(tolerance, TOLERANCE_SINGLE) if tolerance > PRECISE else tolerance
    one_more = by_precision(1.0, 0.0)  # whether a step follows the one that closes the linear equations
    stays = by_precision(ONCE, STAYS_SINGLE) if tolerance > PRECISE else ONCE
    at_rest = np.zeros(len(v), dtype=object)
    change, iterates, moved = loop(iterated, (at_rest, start, 10.0 * ONCE), ROUNDS, until=lambda state: state[2] <= stays)

    def refine(_: Any, state: Any) -> Any:
        return refined(now, before, state[0], state[1], constraints)

    # in float64 a last Newton step
    residual = moved + (by_precision(10.0 * ONCE, 0.0) if tolerance > PRECISE else 10.0 * ONCE)
    ends: Any = [{"y": iterate["y"], "s": iterate["s"]} for iterate in iterates]
    change, ends, residual = loop(refine, (change, ends, residual), REFINEMENTS, until=lambda state: state[2] <= enough)
    return change, ends, residual


def refined(
    now: Motion, before: list[Array], change: Array, iterates: list[Iterate], constraints: list[Constraint]
) -> tuple[Array, list[Iterate], Any]:
    """(change, iterates, residual) after one more Newton step, on the unscaled equations; the residual is its relative norm.

    `change`: that of the velocity so far, `before`: the velocity of each constraint before the step.
    """
    M_change, H = now.M @ change, np.array(now.M, dtype=object)
    r = M_change - now.p
    inner = []
    for b, iterate, u_before in zip(constraints, iterates, before, strict=True):
        u = u_before + b.velocity(change)
        compliance = b.law.compliance(iterate["y"], iterate["s"], u)
        rho = b.law.kappa * b.law.gradient(iterate["y"], iterate["s"]) - b.law.dual(u, iterate["y"])
        inner.append((compliance, rho))
        b.add_impulse(b.law.impulse(iterate["y"]) + b.law.impulse_change(compliance @ rho), r, -1.0)
        b.add_stiffness(b.law.stiffness(compliance), H)
    dv = -pattern_factor(now.ancestor_dofs, H).solve(r)
    ends = []
    for b, iterate, (compliance, rho) in zip(constraints, iterates, inner, strict=True):
        dy = compliance @ (rho - b.law.dual_change(b.velocity(dv)))
        ends.append({"y": iterate["y"] + dy, "s": iterate["s"] - b.law.slack_decrease(dy)})
    return change + dv, ends, now.relative_norm(change, M_change, dv, constraints)


def limit() -> Any:
    """The largest residual of a converged step, in the precision of the trace."""
    return by_precision(LIMIT, LIMIT_SINGLE)
