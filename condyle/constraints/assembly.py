"""The assembly of loops, with numbers: close them, find the independent conditions, and choose the dependent joints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from condyle.constraints.block_triangular import Block, blocks_of
from condyle.constraints.coordinate_map import CoordinateMap
from condyle.constraints.initial_guess import coarse
from condyle.constraints.loop_residuals import Conditions, all_rows, labels
from condyle.constraints.loops import Loops
from condyle.constraints.reduced_coordinates import entries, reduced_model
from condyle.dynamics.kinematics import poses
from condyle.dynamics.manifold import integrate
from condyle.errors import RobotError
from condyle.robot import ordered
from condyle.robot.edit import only
from condyle.robot.model import Model
from condyle.robot.spatial import Array
from condyle.tape.derive import jacobian_at_zero
from condyle.tape.function import Function
from condyle.tape.scalar import constant
from condyle.tape.trace import trace

CLOSED = 1e-11  # the largest condition of a closed pose, in units of the robot's length
RANK = 1e-7  # singular values below this part of the largest count as zero
MAX_STEP = 0.5  # the longest step towards a closed pose, rad or m


@dataclass(frozen=True)
class Mechanism:
    """The conditions of a robot as functions of numbers."""

    model: Model
    lower: CoordinateMap
    below: Model
    conditions: Conditions
    function: Function
    jacobian: np.ndarray  # dphi/dx, where it is the same at all poses
    moving: tuple[np.ndarray, np.ndarray]  # (rows, columns) where it is not: what the function gives
    length: float

    @staticmethod
    def of(model: Model, lower: CoordinateMap, conditions: Conditions) -> Mechanism:
        """The conditions and their Jacobian, traced and compiled as functions of the configuration `below`."""
        below = lower.reduced
        seen: list[np.ndarray] = []

        def traced(x: Array) -> dict[str, Array]:
            at = lower.differentials(model, lower.configurations(model, x))

            def moved(d: Array) -> dict[str, Array]:
                step = d if at.total is None else at.total @ d
                return {"phi": all_rows(conditions, model, integrate(model, at.q, step))}

            J = jacobian_at_zero(moved, below.nv)["phi"]
            # most entries are zero, and compiling them would take long
            fixed = np.array([[constant(entry) for entry in row] for row in J], dtype=float)
            seen.append(fixed)
            return {"phi_and_jacobian": np.concatenate([all_rows(conditions, model, at.q), J[np.isnan(fixed)]])}

        function = Function(trace(traced, x=below.nq))
        rows, columns = np.nonzero(np.isnan(seen[0]))
        return Mechanism(model, lower, below, conditions, function, seen[0], (rows, columns), _length(model))

    def at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(phi, dphi/dx)."""
        values: np.ndarray = self.function(x)
        J, n = self.jacobian.copy(), len(self.jacobian)
        J[self.moving] = values[n:]
        return values[:n], J

    def moved(self, x: np.ndarray, dx: np.ndarray) -> np.ndarray:
        """x moved by dx in its tangent space."""
        return np.asarray(integrate(self.below, x, dx), dtype=float)

    def is_closed(self, left: float) -> bool:
        """Whether a pose is closed, by the largest residual of its conditions."""
        return left <= CLOSED * self.length

    def closed(self, x: np.ndarray, columns: np.ndarray, steps: int = 60) -> tuple[np.ndarray, float]:
        """(x moved along these coordinates until the loops close, the largest residual): damped Gauss-Newton."""
        phi, J = self.at(x)
        if not (np.all(np.isfinite(phi)) and np.all(np.isfinite(J))):
            return x, np.inf
        for _ in range(steps):
            if _largest(phi) <= CLOSED * self.length * 1e-3:
                break
            step = np.zeros(self.below.nv)
            step[columns] = -ordered.least_norm(J[:, columns], phi, 1e-10)
            step *= min(1.0, MAX_STEP / max(_largest(step), MAX_STEP))
            for _ in range(12):
                there = self.moved(x, step)
                new, J_new = self.at(there)
                if ordered.norm(new) < ordered.norm(phi) and np.all(np.isfinite(J_new)):
                    break
                step *= 0.5
            else:
                break
            x, phi, J = there, new, J_new
        return x, _largest(phi)

    def step(self, x: np.ndarray, rows: Sequence[int], columns: np.ndarray) -> tuple[np.ndarray, float, float]:
        """(a Newton step along these coordinates, the residual before it, the strength 1 / |J^-1|); a square part of J."""
        phi, J = self.at(x)
        chosen, step = list(rows), np.zeros(self.below.nv)
        try:
            inverse = ordered.inverse(J[chosen][:, columns])
        except ordered.SingularError:
            return step, np.inf, 0.0
        step[columns] = -ordered.matvec(inverse, phi[chosen])
        return step, _largest(phi), 1.0 / ordered.norm(inverse)

    def nearby(self, x: np.ndarray, rows: Sequence[int], columns: np.ndarray) -> tuple[np.ndarray, float, float]:
        """(x closed by steps of Newton from near it, the largest residual, the strength of the conditions there)."""
        for _ in range(12):
            step, left, strength = self.step(x, rows, columns)
            if not np.isfinite(left) or self.is_closed(left):
                break
            x = self.moved(x, step * min(1.0, MAX_STEP / max(_largest(step), MAX_STEP)))
        return x, left, strength


def rank_of(J: np.ndarray) -> int:
    """The number of singular values that count."""
    return ordered.rank(J, RANK)


def _largest(x: np.ndarray) -> float:
    return float(np.max(np.abs(x), initial=0.0))


def _length(model: Model) -> float:
    """About how large the robot is, m."""
    q = model.neutral()
    points = [X.p for X in poses(model, q)] + [link.placement.p for link in model.links] + [f.pose.p for f in model.frames]
    return max(float(np.max(np.abs(np.array(points, dtype=float)))), 1e-3)


Names = Sequence[str] | None
MIN_PIVOT = 0.3  # a joint is taken as dependent if it moves the conditions this much of what the best joint does
NEIGHBOUR_DISTANCE = 1e-2  # how far random poses near the first are from it


def assembled(
    model: Model, lower: CoordinateMap, conditions: Conditions, x0: np.ndarray, independent: Names, dependent: Names = None
) -> tuple[Mechanism, Loops]:
    """The constraint of these loops, without a guess; the pose x0 need only be near a closed one."""
    mechanism = Mechanism.of(model, lower, conditions)
    below = mechanism.below
    asked = None if independent is None else {only(below, name) for name in independent}
    x, left = x0, np.inf
    if asked:
        # first without moving what the user holds
        _, columns = entries(below, [i for i in range(len(below.links)) if i not in asked])
        x, left = mechanism.closed(x0, columns)
    if not mechanism.is_closed(left):
        x, left = mechanism.closed(x0, np.arange(below.nv))
    phi, J = mechanism.at(x)
    if not np.isfinite(left):
        raise RobotError(
            f"robot '{model.name}': its conditions or their slopes are not finite at this pose; start elsewhere with q=..."
        )
    rank = rank_of(J)
    if not mechanism.is_closed(left):
        worst = labels(conditions)[int(np.argmax(np.abs(phi)))]
        raise RobotError(
            f"robot '{model.name}': the loops cannot be closed from this pose: {left:.3g} is left of '{worst}' (m or rad), "
            f"where the {len(phi)} conditions have the rank {rank}; check lengths and axes, or start nearer to a closed "
            "pose with q=..."
        )
    nearby = _rank_nearby(mechanism, x)
    if nearby > rank:
        raise RobotError(
            f"robot '{model.name}': the pose in which the loops close is singular: the conditions have the rank {rank} "
            f"there, and {nearby} near it; start from another pose with q=..."
        )
    if not rank:
        names = ", ".join(labels(conditions))
        raise RobotError(f"robot '{model.name}': no joint moves the conditions of its loops ({names}); leave them out")
    rows = _independent_rows(J, rank)
    links = _dependent(below, J[rows], asked, None if dependent is None else [only(below, name) for name in dependent])
    if len(links) == len(below.links):
        raise RobotError(f"robot '{model.name}': its loops leave nothing that can move; leave one out")
    _, columns = entries(below, links)
    square = J[rows][:, columns]
    blocks = blocks_of(_pattern(mechanism, x)[rows][:, columns])
    kept = [i for i in range(len(below.links)) if i not in links]
    units = [
        1.0 if np.any(below.links[i].axes[k].angular) else mechanism.length for i in links for k in range(below.links[i].kind.nv)
    ]
    first = x.copy()
    where, _ = entries(below, [i for i in links if below.links[i].kind.nv == 1])
    first[where] = coarse(x[where])
    reduced, scales = reduced_model(below.name, [below.links[i] for i in kept]), determinants(square, blocks)
    loops = Loops(below, reduced, conditions, tuple(rows), tuple(links), blocks, scales, first, np.array(units))
    return mechanism, loops


def _rank_nearby(mechanism: Mechanism, x: np.ndarray) -> int:
    """The largest rank of the conditions at some closed poses near x."""
    rng = np.random.default_rng(1)
    best = 0
    for _ in range(3):
        there, left = mechanism.closed(
            mechanism.moved(x, NEIGHBOUR_DISTANCE * rng.standard_normal(mechanism.below.nv)), np.arange(mechanism.below.nv)
        )
        if mechanism.is_closed(left):
            best = max(best, rank_of(mechanism.at(there)[1]))
    return best


def _pattern(mechanism: Mechanism, x: np.ndarray) -> np.ndarray:
    """Which entries of dphi/dx are ever anything but zero, from some poses near x."""
    rng = np.random.default_rng(2)
    found = mechanism.at(x)[1] != 0.0
    for _ in range(3):
        found |= mechanism.at(mechanism.moved(x, 0.3 * rng.standard_normal(mechanism.below.nv)))[1] != 0.0
    return np.asarray(found)


def _independent_rows(J: np.ndarray, rank: int) -> list[int]:
    """Rows that are independent, the strongest first, in the order of the conditions."""
    rest, chosen = J.copy(), list[int]()
    for _ in range(rank):
        size = np.array([ordered.norm(row) for row in rest])
        size[chosen] = -1.0
        # of equals the first, however rounding has it
        k = int(np.flatnonzero(size >= 0.999 * size.max())[0])
        chosen.append(k)
        unit = rest[k] / ordered.norm(rest[k])
        rest = rest - np.outer(ordered.matvec(rest, unit), unit)
    return sorted(chosen)


def _dependent(below: Model, J: np.ndarray, asked: set[int] | None, named: Sequence[int] | None) -> list[int]:
    """The joints that follow: those the user names, or by pivoting, joints far from the base before others."""
    rank = len(J)
    moving = [i for i, link in below.outward() if np.any(np.abs(J[:, link.v]) > RANK * np.max(np.abs(J)))]
    candidates = [i for i in (moving if named is None else named) if asked is None or i not in asked]
    chosen: list[int] = []
    rest = J.copy()
    found = 0
    while found < rank:
        strength = {i: _gain(rest[:, below.links[i].v]) for i in candidates if i not in chosen}
        strength = {i: s for i, s in strength.items() if below.links[i].kind.nv <= rank - found}
        best = max(strength.values(), default=0.0)
        if best <= RANK * np.max(np.abs(J)):
            names = ", ".join(f"'{below.links[i].joint}'" for i in moving)
            raise RobotError(
                f"robot '{below.name}': its loops have {rank} independent conditions, and the joints that may follow can "
                f"meet only {found} of them at this pose; let more joints follow (those in the loops are {names})"
            )
        pick = max(i for i, s in strength.items() if s >= MIN_PIVOT * best)
        chosen.append(pick)
        moved = rest[:, below.links[pick].v]
        rest = rest - np.column_stack([_onto(moved, column) for column in rest.T])
        found += below.links[pick].kind.nv
    extra = [below.links[i].joint for i in moving if asked is not None and i not in asked and i not in chosen]
    if extra and named is None:
        raise RobotError(
            f"robot '{below.name}': its loops have {rank} independent conditions, so {len(extra)} more of the joints in "
            f"them remain free: add {', '.join(extra)} to independent="
        )
    return sorted(chosen)


def _gain(columns: np.ndarray) -> float:
    """The smallest singular value: how well these coordinates alone move the conditions."""
    return float(ordered.singular_values(columns)[-1])


def _onto(columns: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The part of b that lies in the span of the columns."""
    return ordered.matvec(columns, ordered.fit(columns, b))


def determinants(A: np.ndarray, blocks: list[Block]) -> np.ndarray:
    """The determinant of each block with its sign, its size rounded to a power of two."""
    found = [ordered.determinant(A[np.ix_(rows, columns)]) for rows, columns in blocks]
    return np.array([math.copysign(math.ldexp(1.0, _nearest_exponent(abs(d))), d) for d in found])


def _nearest_exponent(x: float) -> int:
    """The k whose 2^k is nearest to x > 0 as a ratio."""
    fraction, exponent = math.frexp(x)
    return exponent if fraction * fraction > 0.5 else exponent - 1
