"""Constraints one by one: contact points, joint limits, dry friction and drives, each with code of its own in a kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.robot.spatial import Array
from condyle.simulate.drives import Drive
from condyle.simulate.friction_cone import Cone, Iterate, Polytope, largest
from condyle.tape.array import where
from condyle.tape.limb_values import each, largest_of_all, sum_of_all, with_term


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
    idle: Any = None  # of a joint limit: 1 where its force is zero in this step, else 0
    trunk: int = 0  # coordinates, the first ones, of the whole robot, where the others are those of each limb (limbs.py)
    # "contact" and the point; "limit", "dry friction" or "drive" and the coordinate; "tendon" and its number in World.limited
    label: tuple[str, int] = ("", 0)
    limbs: int = 0  # the number of limbs, each of which has such a constraint; 0 for one of the whole robot

    def velocity(self, v: Array) -> Array:
        """u along the law's directions."""
        if self.J is None:
            return v[list(self.path)]
        u = self.J @ v[list(self.path)]
        return u if self.C is None else self.C @ u

    def force_error(self, y: Array, after: Array, before: Array) -> Any:
        """|lambda - law(u)| of a drive or dry friction at the velocity after the step, over its bound."""
        assert not isinstance(self.law, Cone)
        # the velocity after the step has rounding errors of what its impulse changes it by
        return self.law.force_error(y[0], after[0], abs(before[0]), self.law.max_impulse * (1.0 / self.mass))

    def add_impulse(self, impulse: Array, into: Array, sign: float = 1.0) -> None:
        """Add J^T C^T impulse to joint impulses."""
        if self.J is None:
            k = self.path[0]
            into[k] = with_term(into[k], impulse[0] * sign, 0)
            return
        force = impulse if self.C is None else self.C.T @ impulse
        for column, k in enumerate(self.path):
            more = sign * (self.J[:, column] @ force)
            into[k] = with_term(into[k], more, self.limbs) if k < self.trunk else into[k] + more

    def add_stiffness(self, stiffness: Array, H: Array) -> None:
        """Add J^T C^T Sigma C J to H."""
        if self.J is None:
            k = self.path[0]
            H[k, k] = with_term(H[k, k], stiffness[0, 0], 0)
            return
        rotated = stiffness if self.C is None else self.C.T @ stiffness @ self.C
        SJ = rotated @ self.J
        for a, i in enumerate(self.path):
            for b, j in enumerate(self.path[: a + 1]):
                more = self.J[:, a] @ SJ[:, b]
                H[i, j] = with_term(H[i, j], more, self.limbs) if max(i, j) < self.trunk else H[i, j] + more
                H[j, i] = H[i, j]


def with_smoothing(constraints: list[Constraint], least: Any) -> list[Constraint]:
    """The constraints, their laws with a smoothing of at least `least`, J."""
    return [replace(b, law=b.law.smoothed(least)) for b in constraints]


def started(iterate: Iterate, limbs: int) -> Iterate:
    """Unknowns where a loop starts; `limbs`: which may differ by limb from now on, 0 for those of the whole robot."""
    if not limbs:
        return iterate

    def varying(x: Any) -> Any:
        return np.array([each(e, limbs) for e in x], dtype=object) if isinstance(x, np.ndarray) else each(x, limbs)

    return {name: varying(x) for name, x in iterate.items()}


class ListPart:
    """The steps of the interior-point method for a list of constraints. `state`: the unknowns of each."""

    def __init__(self, constraints: list[Constraint], v: Array, earlier: list[Iterate], fixed: Any) -> None:
        self.constraints, self.limbs = constraints, [b.limbs for b in constraints]
        self.before = [b.velocity(v) for b in constraints]
        self.earlier, self.fixed = earlier, fixed

    def add_drives(self, p: Array, inverse: Array, push: Array) -> None:
        """Add the impulses that drives are expected to have, with a diagonal mass matrix."""
        for b, u in zip(self.constraints, self.before, strict=True):
            if isinstance(b.law, Drive):
                b.add_impulse(b.law.expected_impulse(u + b.velocity(p * inverse)), push)

    def begin(self, push: Array, inverse: Array, parameters: Any) -> tuple[list[Iterate], dict[str, Any]]:
        """(state, sums) at the start, near the velocity of the impulses `push`: the smoothing is kappa + extra.

        Every constraint starts at the impulse that stops its mass, at a smoothing of the size of that energy.
        """
        self.constraints = with_smoothing(self.constraints, parameters.smoothing)
        state, self.extra = [], []
        terms: dict[str, list[Any]] = {"final": [], "extra": [], "scale": []}
        for b, u, earlier in zip(self.constraints, self.before, self.earlier, strict=True):
            free = u + b.velocity(push * inverse)
            reach = np.maximum(b.max_speed + largest([abs(x) for x in free]), parameters.coupling * (1.0 / np.sqrt(b.mass)))
            impulse = b.mass * parameters.impulse_factor * reach
            energy = b.law.initial_fraction(impulse) * b.law.start_impulse * reach
            extra = np.maximum(parameters.energy_fraction * energy - b.law.kappa, b.law.kappa)
            self.extra.append(extra)
            start = b.law.start(impulse, b.law.kappa + extra, free, b.mass)
            state.append(b.law.hold(start, earlier, self.fixed) if isinstance(b.law, Drive) else start)
            degree = float(b.law.degree)
            more = {"final": b.law.kappa * degree, "extra": extra * degree, "scale": b.mass * b.velocity_scale * b.velocity_scale}
            for name in terms:
                terms[name].append(more[name])
        return state, {name: sum_of_all(values, self.limbs) for name, values in terms.items()}

    def varying(self, state: list[Iterate]) -> list[Iterate]:
        """The state where a loop starts: of constraints of limbs, numbers that may differ by limb from now on."""
        return [started(iterate, b.limbs) for b, iterate in zip(self.constraints, state, strict=True)]

    def residual(self, state: list[Iterate], change: Array, r: Array, live: Any) -> list[Iterate]:
        """The state with consistent unknowns; keeps the residuals of the laws, and takes their impulses from r."""
        iterates = [b.law.consistent(iterate) for b, iterate in zip(self.constraints, state, strict=True)]
        self.residuals = []
        for b, iterate, u in zip(self.constraints, iterates, self.before, strict=True):
            b.add_impulse(b.law.impulse(iterate["y"]), r, -1.0)
            self.residuals.append(b.law.dual_residual(iterate, u + b.velocity(change)))
        return iterates

    def linearise(self, state: Any, change: Array, left: Any, H: Array, live: Any) -> tuple[Any, dict[str, Any]]:
        """(state, sums): the laws linearised, with their stiffness added to H."""
        self.scaled = []
        for b, iterate, residual, u in zip(self.constraints, state, self.residuals, self.before, strict=True):
            scaled = b.law.scaled(iterate, residual * left, u + b.velocity(change))
            b.add_stiffness(b.law.stiffness(scaled.Q_inverse), H)
            self.scaled.append(scaled)
        error = largest_of_all([s.error for s in self.scaled]) if self.scaled else 0.0
        return state, {"energy": sum_of_all([s.energy for s in self.scaled], self.limbs), "error": error}

    def predictor(self, state: Any, right: Array, live: Any) -> Any:
        """Add the impulses towards the solution to the right-hand side."""
        for b, s in zip(self.constraints, self.scaled, strict=True):
            b.add_impulse(s.impulse_toward(b.law.kappa, None, 1.0, b.law.kappa), right)
        return state

    def corrector(self, state: Any, t: Any, go: Any, far: Any, left: Any, right: Array, live: Any) -> Any:
        """The same towards the smoothing t, with the second-order terms of the last step."""
        for b, s, extra, ahead in zip(self.constraints, self.scaled, self.extra, self.steps, strict=True):
            kappa = b.law.kappa
            b.add_impulse(s.impulse_toward(kappa + t * extra, ahead, go, kappa + far * extra), right)
        return state

    def step(self, state: Any, dv: Array, live: Any) -> tuple[Any, Any]:
        """(state, 1 / the largest feasible multiple) of the step of all unknowns for a change of velocity."""
        self.steps = [s.step(b.velocity(dv)) for b, s in zip(self.constraints, self.scaled, strict=True)]
        limits = [s.inverse_step_limit(step) for s, step in zip(self.scaled, self.steps, strict=True)]
        return state, largest_of_all(limits) if limits else 0.0

    def moved(self, state: Any, a: Any, live: Any) -> tuple[Any, Any]:
        """(state, largest squared distance of the products from kappa) after the last step, of length a."""
        state = [s.moved(step, a) for s, step in zip(self.scaled, self.steps, strict=True)]
        distances = [b.law.distance(iterate) for b, iterate in zip(self.constraints, state, strict=True)]
        return state, largest_of_all(distances) if distances else 0.0

    def unscaled(self, state: list[Iterate]) -> list[Iterate]:
        """The unknowns of the unscaled equations; the set of drives is kept from here on."""
        settled = [b.law.settled(x) if isinstance(b.law, Drive) else x for b, x in zip(self.constraints, state, strict=True)]
        return self.varying([{"y": iterate["y"], "s": iterate["s"]} for iterate in settled])

    def newton(self, state: Any, change: Array, r: Array, H: Array, live: Any) -> Any:
        """One step on the unscaled equations: impulses taken from r, stiffness added to H."""
        self.inner = []
        for b, iterate, u_before in zip(self.constraints, state, self.before, strict=True):
            u = u_before + b.velocity(change)
            compliance = b.law.compliance(iterate["y"], iterate["s"], u)
            rho = b.law.kappa * b.law.gradient(iterate["y"], iterate["s"]) - b.law.dual(u, iterate["y"])
            self.inner.append((compliance, rho))
            b.add_impulse(b.law.impulse(iterate["y"]) + b.law.impulse_change(compliance @ rho), r, -1.0)
            b.add_stiffness(b.law.stiffness(compliance), H)
        return state

    def newton_moved(self, state: Any, dv: Array, change: Array, r: Array, live: Any) -> tuple[Any, dict[str, Any]]:
        """(state, sums) after that step, to the velocity after `change`: its impulses are taken from r.

        `square`: of the residuals of the laws there, in the norm of kinetic energy. `outside`: negative where all unknowns are
        inside their bounds.
        """
        ends, squares, outside = [], [], []
        for b, iterate, u_before, (compliance, rho) in zip(self.constraints, state, self.before, self.inner, strict=True):
            dy = compliance @ (rho - b.law.dual_change(b.velocity(dv)))
            y, s = iterate["y"] + dy, iterate["s"] - b.law.slack_decrease(dy)
            ends.append({"y": y, "s": s})
            b.add_impulse(b.law.impulse(y), r, -1.0)
            if isinstance(b.law, Drive):
                squares.append(0.0)
                continue
            squares.append(b.law.residual_energy(y, s, u_before + b.velocity(change)))
            outside.append(-b.law.room(y, s))
        return ends, {"square": sum_of_all(squares, self.limbs), "outside": largest_of_all(outside) if outside else -1.0}

    def force_error(self, state: Any, change: Array) -> Any:
        """The largest |lambda - law(u)| of drives and dry friction at the velocity after a change, over their bounds."""
        errors = []
        for b, iterate, before in zip(self.constraints, state, self.before, strict=True):
            if isinstance(b.law, Drive) or (isinstance(b.law, Polytope) and b.law.is_friction):
                errors.append(b.force_error(iterate["y"], before + b.velocity(change), before))
        return largest_of_all(errors) if errors else 0.0

    def pivoted(self, state: Any, change: Array, ranks: list[Any], one: Any) -> tuple[Any, Any]:
        """(the state where the next attempt starts, whether the active set changes) after a step solved for an active set.

        `ranks`: of the constraints, in the order of the whole robot. `one`: whether the first drive alone changes.
        """
        changes = []
        for b, iterate, before, rank in zip(self.constraints, state, self.before, ranks, strict=True):
            if isinstance(b.law, Drive):
                wrong, y = b.law.pivot(iterate["y"][0], (before + b.velocity(change))[0])
                changes.append((where(wrong, -rank, -np.inf), y))
        first = largest_of_all([rank for rank, _ in changes])
        rest = iter(changes)
        ends = []
        for b, iterate in zip(self.constraints, state, strict=True):
            if isinstance(b.law, Drive):
                rank, y = next(rest)
                now = (rank > -np.inf) & (~one | (rank >= first))
                iterate = iterate | {"y": np.array([where(now, y, iterate["y"][0])], dtype=object)}
            ends.append(iterate)
        return ends, first > -np.inf
