"""All bounded forces at once: the velocity after a step, by a primal-dual interior-point method on the robot's tree.

    minimise over the impulses   1/2 v^T M v + sum_i kappa_i barrier_i(y_i),     M v = p + sum_i J_i^T lambda_i(y_i)

Newton's matrix  M + sum J^T Sigma J  has the pattern of the tree, because each J_i touches only the joints that carry contact i,
so many contacts on few joints, limits and dry friction cost little. A lane that has arrived keeps its state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from condyle.dynamics.solve import pattern_factor
from condyle.robot.spatial import Array
from condyle.simulate.friction_cone import Cone, Corners, Part, largest
from condyle.tape.array import where
from condyle.tape.loop import loop

STEPS = 200  # at most; 5 to 9 are usual
SHORT = 0.5  # a step that gets less far is followed by one that leads back towards the path


class Try(NamedTuple):
    """How boldly to look for the solution."""

    firm: Any  # the impulses to begin with, as parts of those that stop what the laws carry
    start: Any  # where on the central path to begin, as a part of the energy that the contacts may take up
    inside: Any  # how much of the way to the boundary a step may go


# the next is for what does not arrive by the one before, a few in millions
TRIES = (Try(5.0, 0.1, 0.98), Try(1.0, 0.2, 0.92), Try(0.3, 0.2, 0.92))


PRECISE = 1e-12  # a smaller tolerance is for high precision, where idle laws are kept: they help to measure the error
LIMIT = 1e-10  # the largest residual of a step that is taken
Carriers = list[list[int]]


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
    least: float  # the speed that gravity gives in one step
    idle: Any = None  # whether it can exert nothing in this step; None: it always may

    def velocity(self, v: Array) -> Array:
        """u along the law's directions."""
        if self.J is None:
            return v[list(self.path)]
        u = self.J @ v[list(self.path)]
        return u if self.C is None else self.C @ u

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


def solve(
    carriers: Carriers, M: Array, p: Array, v: Array, laws: list[Bounded], inverse: Array, tolerance: float = 1e-7
) -> Solution:
    """The v with  M v = p + sum J^T lambda  whose impulses obey their laws, from the velocity before the step.

    `carriers`: the pattern of M, see tree_solve.py. `inverse`: about 1 / M_kk of every coordinate. `tolerance`: the square of the
    distance to the central path from which one more step and the last one, `polished`, end at rounding errors.

    Where all laws that may be idle are, the others are solved without them; what does not arrive from a firm start is tried again
    from softer ones. Each state decides for itself, and only what some state of a vector needs is computed.
    """
    if not laws:
        return Solution(pattern_factor(carriers, M).solve(p), [], 0.0)
    asleep: Any = True
    for b in laws if tolerance > PRECISE else ():
        asleep = asleep if b.idle is None else asleep & b.idle
    # a law that exerts nothing may be anywhere inside its bounds
    nothing: list[Part] = [{"y": np.full(b.law.unknowns, 0.5), "s": 0.5} for b in laws]

    # in more digits than a double has, more of them are asked for
    enough = min(LIMIT, tolerance**0.4)

    def tried(chosen: list[int], state: Any, skip: Any) -> Any:
        def body(i: Any, state: Any) -> Any:
            how = Try(*[where(i <= 0.0, a, where(i <= 1.0, b, c)) for a, b, c in zip(*TRIES, strict=True)])
            found = _solve(carriers, M, p, v, [laws[k] for k in chosen], inverse, tolerance, how)
            parts = list(state[1])
            for k, part in zip(chosen, found.parts, strict=True):
                parts[k] = part
            return found.v, parts, found.residual

        if not chosen:
            body = lambda i, state: (pattern_factor(carriers, M).solve(p), state[1], 0.0)  # noqa: E731
        done = (lambda s: s[2] <= enough) if skip is None else (lambda s: skip | (s[2] <= enough))
        return loop(body, state, len(TRIES), until=done)

    state = (np.array(v, dtype=object), nothing, np.inf)
    if asleep is not True:
        state = tried([k for k, b in enumerate(laws) if b.idle is None], state, ~asleep)
    return Solution(*tried(list(range(len(laws))), state, None if asleep is True else asleep))


def _solve(
    carriers: Carriers, M: Array, p: Array, v: Array, laws: list[Bounded], inverse: Array, tolerance: float, how: Try
) -> Solution:
    """All laws together."""
    before, Mv = v, M @ v
    # about the velocity without any of the laws: each joint by itself
    free = v + (p - Mv) * inverse
    frees = [b.velocity(free) for b in laws]
    reaches = [b.reach + largest([abs(x) for x in u]) for b, u in zip(laws, frees, strict=True)]

    # every law begins where it would stop what it carries, at a smoothing of the size of that energy: kappa + extra
    impulses = [b.mass * how.firm * reach for b, reach in zip(laws, reaches, strict=True)]
    energies = [b.law.guess(i) * b.law.strength * reach for b, i, reach in zip(laws, impulses, reaches, strict=True)]
    extra = [np.maximum(how.start * e - b.law.kappa, b.law.kappa) for b, e in zip(laws, energies, strict=True)]
    starts = zip(laws, impulses, extra, frees, strict=True)
    start = [b.law.start(impulse, b.law.kappa + more, u, b.mass) for b, impulse, more, u in starts]
    least = sum((b.law.kappa * float(b.law.degree) for b in laws), 0.0)
    per_extra = 1.0 / sum((more * float(b.law.degree) for b, more in zip(laws, extra, strict=True)), 0.0)
    # the linear equations are not met at the start; what is left of their errors shrinks by 1 - a with every step
    r = Mv - p
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
            b.stiffen(b.law.answer(s.Q_inverse), H)
        factor = pattern_factor(carriers, H)

        def direction(t: Any, ahead: list[Any] | None, go: Any, now: Any) -> tuple[Array, list[Any], Any]:
            right = r * -(left * go)
            for i, (b, s, more) in enumerate(zip(laws, scaled, extra, strict=True)):
                kappa = b.law.kappa
                b.push(s.aim(kappa + t * more, None if ahead is None else ahead[i], go, kappa + now * more), right)
            dv = factor.solve(right)
            steps = [s.step(b.velocity(dv)) for b, s in zip(laws, scaled, strict=True)]
            return dv, steps, largest([s.reach(step) for s, step in zip(scaled, steps, strict=True)])

        # look straight at the solution, see how far one gets, and then aim at a point of the path that is in reach
        _, ahead, reach = direction(0.0, None, 1.0, 0.0)
        short = 1.0 - 1.0 / np.maximum(reach, 1.0)
        now = np.maximum((sum((s.energy for s in scaled), 0.0) - least) * per_extra, 0.0)
        t = np.where(last >= SHORT, short * short * short * now, now)
        dv, steps, reach = direction(t, ahead, go, now)
        a = np.minimum(how.inside / np.maximum(reach, 1e-3), 1.0)
        error = largest([*[s.error - s.noise * tolerance for s in scaled], left, 1.0 - a * go])
        moved = [{name: x + step[name] * a for name, x in part.items()} for part, step in zip(parts, steps, strict=True)]
        return v + dv * a, moved, left * (1.0 - a * go), np.where(last >= SHORT, a, 1.0), error

    v, parts, _, _, _ = loop(body, (v, start, 1.0, 1.0, 1.0), STEPS, until=lambda state: state[4] <= tolerance)
    return polished(carriers, M, p, before, v, laws, parts)


def polished(
    carriers: Carriers, M: Array, p: Array, v_before: Array, v: Array, laws: list[Bounded], parts: list[Part]
) -> Solution:
    """One more step of Newton, on the equations themselves, and its size as a part of the velocity: the residual.

    Both are measured by energy, with the velocity before the step and the least speed that each law looks at.
    """
    r, H = M @ v - p, np.array(M, dtype=object)
    inner = []
    for b, part in zip(laws, parts, strict=True):
        u = b.velocity(v)
        compliance = b.law.compliance(part["y"], part["s"], u)
        rho = b.law.kappa * b.law.gradient(part["y"], part["s"]) - b.law.seen(u)
        inner.append((compliance, rho))
        b.push(b.law.impulse(part["y"]) + b.law.change(compliance @ rho), r, -1.0)
        b.stiffen(b.law.answer(compliance), H)
    dv = -pattern_factor(carriers, H).solve(r)
    ends = []
    for b, part, (compliance, rho) in zip(laws, parts, inner, strict=True):
        dy = compliance @ (rho - b.law.seen_change(b.velocity(dv)))
        ends.append({"y": part["y"] + dy, "s": part["s"] - b.law.used(dy)})
    scale = v @ (M @ v) + v_before @ (M @ v_before) + sum(b.mass * b.least * b.least for b in laws)
    return Solution(v + dv, ends, np.sqrt(dv @ (M @ dv) / scale))
