"""All constrained forces at once: the velocity after a step, by a primal-dual interior-point method on the robot's tree.

    minimise over the impulses   1/2 v^T M v + sum_i kappa_i barrier_i(y_i),     M dv = p + sum_i J_i^T lambda_i(y_i)

with v the velocity after the step and dv its change, which is what is solved for.

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
from condyle.simulate.friction_cone import Cone, Iterate, Polytope, largest
from condyle.tape.array import isfinite, where
from condyle.tape.loop import loop

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
AncestorDofs = list[list[int]]


@dataclass(frozen=True)
class Constraint:
    """A constraint with its force law: velocity  u = C J v[path]  and joint impulse  J^T C^T lambda.

    C None: the axes of J are the law's own. J None: the constraint acts on one joint.
    """

    law: Cone | Polytope
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
    for b in constraints if tolerance > PRECISE else ():
        all_idle = all_idle if b.idle is None else all_idle & b.idle
    # an idle constraint has no force; its unknowns may be anywhere inside their bounds
    idle_iterates: list[Iterate] = [{"y": np.full(b.law.unknowns, 0.5), "s": 0.5} for b in constraints]

    solvable = isfinite(sum(p, 0.0) + sum(v, 0.0))
    # in high precision the residual must be smaller
    enough = min(LIMIT, rounded.power(tolerance, 0.4))

    def attempt(chosen: list[int], state: Any, skip: Any) -> Any:
        def body(i: Any, state: Any) -> Any:
            parameters = StartParameters(*[where(i <= 0.0, a, where(i <= 1.0, b, c)) for a, b, c in zip(*ATTEMPTS, strict=True)])
            found = _solve(ancestor_dofs, M, p, v, [constraints[k] for k in chosen], inverse, tolerance, parameters)
            iterates = list(state[1])
            for k, iterate in zip(chosen, found.iterates, strict=True):
                iterates[k] = iterate
            # a NaN counts as done; of numbers, what one attempt cannot solve the next one may
            again = solvable & np.isnan(found.residual)
            return found.dv, iterates, where(again, np.inf, found.residual)

        if not chosen:
            body = lambda i, state: (pattern_factor(ancestor_dofs, M).solve(p), state[1], 0.0)  # noqa: E731
        done = (lambda s: s[2] <= enough) if skip is None else (lambda s: skip | (s[2] <= enough))
        return loop(body, state, len(ATTEMPTS), until=done)

    state = (np.zeros(len(v)), idle_iterates, np.inf)
    if all_idle is not True:
        state = attempt([k for k, b in enumerate(constraints) if b.idle is None], state, ~all_idle)
    return Solution(*attempt(list(range(len(constraints))), state, None if all_idle is True else all_idle))


def _solve(
    ancestor_dofs: AncestorDofs,
    M: Array,
    p: Array,
    v: Array,
    constraints: list[Constraint],
    inverse: Array,
    tolerance: float,
    parameters: StartParameters,
) -> Solution:
    """The solution with all of these constraints, from one starting point."""
    # approximate velocity without the constraints, with a diagonal mass matrix
    free = v + p * inverse
    frees = [b.velocity(free) for b in constraints]
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
    # the residuals of the linear equations at the start; each step of length a multiplies them by 1 - a
    r = -p
    for b, iterate in zip(constraints, start, strict=True):
        b.add_impulse(b.law.impulse(iterate["y"]), r, -1.0)
    residuals = [b.law.dual_residual(iterate, b.velocity(v)) for b, iterate in zip(constraints, start, strict=True)]

    def body(_: Any, state: Any) -> Any:
        total, iterates, left, last, _ = state
        # after a short step the iterate is near the boundary: one pure centering step
        go = np.where(last >= SHORT_STEP, 1.0, 0.0)
        scaled = [
            b.law.scaled(iterate, residual * left) for b, iterate, residual in zip(constraints, iterates, residuals, strict=True)
        ]
        H = np.array(M, dtype=object)
        for b, s in zip(constraints, scaled, strict=True):
            b.add_stiffness(b.law.stiffness(s.Q_inverse), H)
        factor = pattern_factor(ancestor_dofs, H)

        def direction(t: Any, ahead: list[Any] | None, go: Any, now: Any) -> tuple[Array, list[Any], Any]:
            right = r * -(left * go)
            for i, (b, s, more) in enumerate(zip(constraints, scaled, extra, strict=True)):
                kappa = b.law.kappa
                b.add_impulse(
                    s.impulse_toward(kappa + t * more, None if ahead is None else ahead[i], go, kappa + now * more), right
                )
            dv = factor.solve(right)
            steps = [s.step(b.velocity(dv)) for b, s in zip(constraints, scaled, strict=True)]
            return dv, steps, largest([s.inverse_step_limit(step) for s, step in zip(scaled, steps, strict=True)])

        # predictor: the step to the solution and its feasible length; corrector: the step to a reachable point of the path
        _, ahead, reach = direction(0.0, None, 1.0, 0.0)
        short = 1.0 - 1.0 / np.maximum(reach, 1.0)
        now = np.maximum((sum((s.energy for s in scaled), 0.0) - final_energy) * per_extra, 0.0)
        t = np.where(last >= SHORT_STEP, short * short * short * now, now)
        dv, steps, reach = direction(t, ahead, go, now)
        a = np.minimum(parameters.boundary_fraction / np.maximum(reach, 1e-3), 1.0)
        error = largest([*[s.error - s.noise * tolerance for s in scaled], left, 1.0 - a * go])
        moved = [{name: x + step[name] * a for name, x in iterate.items()} for iterate, step in zip(iterates, steps, strict=True)]
        return total + dv * a, moved, left * (1.0 - a * go), np.where(last >= SHORT_STEP, a, 1.0), error

    begin = (np.zeros(len(v)), start, 1.0, 1.0, 1.0)
    dv, iterates, _, _, _ = loop(body, begin, MAX_ITERATIONS, until=lambda state: state[4] <= tolerance)
    return refined(ancestor_dofs, M, p, v, dv, constraints, iterates)


def refined(
    ancestor_dofs: AncestorDofs,
    M: Array,
    p: Array,
    before: Array,
    dv: Array,
    constraints: list[Constraint],
    iterates: list[Iterate],
) -> Solution:
    """One more Newton step, on the unscaled equations; the residual is its norm relative to that of the velocity.

    Norms are those of kinetic energy, with the velocity before the step and the velocity scale of each constraint added.
    """
    v = before + dv
    r, H = M @ dv - p, np.array(M, dtype=object)
    inner = []
    for b, iterate in zip(constraints, iterates, strict=True):
        u = b.velocity(v)
        compliance = b.law.compliance(iterate["y"], iterate["s"], u)
        rho = b.law.kappa * b.law.gradient(iterate["y"], iterate["s"]) - b.law.dual(u, iterate["y"])
        inner.append((compliance, rho))
        b.add_impulse(b.law.impulse(iterate["y"]) + b.law.impulse_change(compliance @ rho), r, -1.0)
        b.add_stiffness(b.law.stiffness(compliance), H)
    more = -pattern_factor(ancestor_dofs, H).solve(r)
    ends = []
    for b, iterate, (compliance, rho) in zip(constraints, iterates, inner, strict=True):
        dy = compliance @ (rho - b.law.dual_change(b.velocity(more)))
        ends.append({"y": iterate["y"] + dy, "s": iterate["s"] - b.law.slack_decrease(dy)})
    scale = v @ (M @ v) + before @ (M @ before) + sum(b.mass * b.velocity_scale * b.velocity_scale for b in constraints)
    return Solution(dv + more, ends, np.sqrt(more @ (M @ more) / scale))
