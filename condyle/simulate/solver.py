"""All bounded forces at once: the velocity after a step, by a primal-dual interior-point method on the robot's tree.

    minimise over the impulses   1/2 v^T M v + sum_i kappa_i barrier_i(y_i),     M v = p + sum_i J_i^T lambda_i(y_i)

Newton's matrix  M + sum J^T Sigma J  has the pattern of the tree, because each J_i touches only the joints that carry contact i,
so many contacts on few joints, limits and dry friction cost little. A lane that has arrived keeps its state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.dynamics.tree_solve import tree_factor
from condyle.robot.model import Model
from condyle.robot.spatial import Array
from condyle.simulate.boxes import Corners
from condyle.simulate.laws import Cone, Part, largest
from condyle.tape.loop import loop

STEPS = 60  # at most; 4 to 12 are taken
INSIDE = 0.95  # how much of the way to the boundary a step may go
SHORT = 0.5  # a step that gets less far is followed by one that leads back towards the path
START = 0.2  # where on the central path to begin, as a part of the energy that the contacts may take up


@dataclass(frozen=True)
class Bounded:
    """A law at work: velocity  u = C J v[path]  and joint impulse  J^T C^T lambda.

    C None: the axes of J are the law's own. J None: the law is about one joint.
    """

    law: Cone | Corners
    path: tuple[int, ...]
    J: Array | None
    C: Array | None
    reach: Any  # the speed it may have to stop
    mass: float  # what moves at that speed

    def velocity(self, v: Array) -> Array:
        """u along the law's directions."""
        if self.J is None:
            return v[list(self.path)]
        u = self.J @ v[list(self.path)]
        return u if self.C is None else self.C @ u

    def magnitude(self, v: Array) -> Any:
        """The largest of the terms that make up a velocity: what rounding errors of u are measured by."""
        if self.J is None:
            return abs(v[self.path[0]])
        return largest([abs(self.J[i, c] * v[k]) for i in range(3) for c, k in enumerate(self.path)])

    def push(self, impulse: Array, into: Array, sign: float = 1.0) -> None:
        """Add J^T C^T impulse to joint impulses."""
        if self.J is None:
            into[self.path[0]] = into[self.path[0]] + impulse[0] * sign
            return
        force = impulse if self.C is None else self.C.T @ impulse
        for column, k in enumerate(self.path):
            into[k] = into[k] + sign * (self.J[:, column] @ force)

    def stiffen(self, stiffness: Array, H: Array) -> None:
        """Add J^T C^T Sigma C J to H."""
        if self.J is None:
            k = self.path[0]
            H[k, k] = H[k, k] + stiffness[0, 0]
            return
        turned = stiffness if self.C is None else self.C.T @ stiffness @ self.C
        SJ = turned @ self.J
        for a, i in enumerate(self.path):
            for b, j in enumerate(self.path[: a + 1]):
                H[i, j] = H[i, j] + self.J[:, a] @ SJ[:, b]
                H[j, i] = H[i, j]


@dataclass(frozen=True)
class Solution:
    """The velocity after the step, the unknowns of every law, and the largest relative residual."""

    v: Array
    parts: list[Part]
    residual: Any


def solve(model: Model, M: Array, p: Array, v: Array, laws: list[Bounded], tolerance: float = 1e-14) -> Solution:
    """The v with  M v = p + sum J^T lambda  whose impulses obey their laws, from the velocity before the step.

    `tolerance`: the square of the distance to the central path from which one more step ends at rounding errors.
    """
    if not laws:
        return Solution(tree_factor(model, M).solve(p), [], 0.0)
    total = float(sum(b.law.degree for b in laws))

    # every law on its own begins where it would stop what it carries; one measure of all says how far out on the path that is
    impulses = [b.mass * b.reach for b in laws]
    far = largest([START * _expected(b, impulse) for b, impulse in zip(laws, impulses, strict=True)])
    start = [b.law.start(impulse, np.maximum(far, 1.0)) for b, impulse in zip(laws, impulses, strict=True)]
    # the linear equations are not met at the start; what is left of their errors shrinks by 1 - a with every step
    r = M @ v - p
    for b, part in zip(laws, start, strict=True):
        b.push(b.law.impulse(part["y"]), r, -1.0)
    gaps = [b.law.gap(part, b.velocity(v)) for b, part in zip(laws, start, strict=True)]

    def body(_: Any, state: Any) -> Any:
        v, parts, left, last, _ = state
        # after a short step the iterate is near the boundary: one step back towards the path, for nothing else
        go = np.where(last >= SHORT, 1.0, 0.0)
        scaled = [b.law.scaled(part, gap * left) for b, part, gap in zip(laws, parts, gaps, strict=True)]
        H = np.array(M, dtype=object)
        for b, s in zip(laws, scaled, strict=True):
            b.stiffen(s.stiffness, H)
        factor = tree_factor(model, H)

        def direction(t: Any, ahead: list[Any] | None, go: Any) -> tuple[Array, list[Any], Any]:
            right = r * -(left * go)
            for k, (b, s) in enumerate(zip(laws, scaled, strict=True)):
                b.push(s.aim(t, None if ahead is None else ahead[k], go), right)
            dv = factor.solve(right)
            steps = [s.step(b.velocity(dv)) for b, s in zip(laws, scaled, strict=True)]
            return dv, steps, largest([s.reach(step) for s, step in zip(scaled, steps, strict=True)])

        # look straight at the solution, see how far one gets, and then aim at a point of the path that is in reach
        _, ahead, reach = direction(1.0, None, 1.0)
        short = 1.0 - 1.0 / np.maximum(reach, 1.0)
        energies = [s.energy for s in scaled]
        now = sum(energies[1:], energies[0]) * (1.0 / total)
        t = np.where(last >= SHORT, np.maximum(short * short * short * now, 1.0), now)
        dv, steps, reach = direction(t, ahead, go)
        a = np.minimum(INSIDE / np.maximum(reach, 1e-3), 1.0)
        error = largest([*[s.error - s.noise * tolerance for s in scaled], left, 1.0 - a * go])
        moved = [{name: x + step[name] * a for name, x in part.items()} for part, step in zip(parts, steps, strict=True)]
        return v + dv * a, moved, left * (1.0 - a * go), np.where(last >= SHORT, a, 1.0), error

    v, parts, _, _, _ = loop(body, (v, start, 1.0, 1.0, 1.0), STEPS, until=lambda state: state[4] <= tolerance)
    return Solution(v, parts, _residual(M, p, v, laws, parts))


def _expected(b: Bounded, impulse: Any) -> Any:
    """The energy that a law may take up, over its smoothing."""
    part = b.law.start(impulse, 1.0)
    return part["y"][0] * b.law.strength * b.reach * b.law.per


def _residual(M: Array, p: Array, v: Array, laws: list[Bounded], parts: list[Part]) -> Any:
    """The largest error of the equation of motion and of the laws, each as a part of its largest term."""
    Mv = M @ v
    r = Mv - p
    for b, part in zip(laws, parts, strict=True):
        b.push(b.law.impulse(part["y"]), r, -1.0)
    scale = largest([abs(x) for x in Mv]) + largest([abs(x) for x in p]) + 1e-300
    of_laws = [b.law.residual(part, b.velocity(v), b.magnitude(v)) for b, part in zip(laws, parts, strict=True)]
    return largest([*of_laws, largest([abs(x) for x in r]) / scale])
