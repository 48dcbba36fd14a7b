"""The assembly of loops, with numbers: close them, find the independent conditions, and choose the dependent joints."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from condyle.constraints.block_triangular import Block, blocks_of
from condyle.constraints.coordinate_map import CoordinateMap
from condyle.constraints.dependent_joints import REDUNDANT, dependent_joints, independent_rows, partial_joints, row_scales
from condyle.constraints.initial_guess import coarse
from condyle.constraints.loop_residuals import Conditions, all_rows, labels
from condyle.constraints.loops import Loops
from condyle.constraints.reduced_coordinates import entries, reduced_model
from condyle.constraints.split_joints import Split
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
OPEN = 1e-3  # the largest gap that is put down to the digits of a file, as a part of the loop's size, or rad
RANK = 1e-7  # singular values below this part of the largest count as zero
ROUNDING = 1e-10  # directions weaker than this part of the strongest are rounding
LIMIT_STEP, LIMIT_STEPS = 0.1, 100  # the longest step towards the limits of joints, rad or m, and how many at most
LIMIT_MARGIN = 0.1  # how far within its limits a joint is led that is beyond them, as a part of their range
NEIGHBOUR_DISTANCE = 3e-2  # how far random poses near the first are from it
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
    solved: tuple[list[int], np.ndarray, np.ndarray] | None = None  # (rows, their values where closed, scales of all rows)

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

    def at_each(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(phi, dphi/dx) of each row of x."""
        values: np.ndarray = self.function(x)
        n = len(self.jacobian)
        J = np.broadcast_to(self.jacobian, (len(x), *self.jacobian.shape)).copy()
        J[:, *self.moving] = values[:, n:]
        return values[:, :n], J

    def moved(self, x: np.ndarray, dx: np.ndarray) -> np.ndarray:
        """x moved by dx in its tangent space."""
        return np.asarray(integrate(self.below, x, dx), dtype=float)

    def is_closed(self, left: float) -> bool:
        """Whether a pose is closed, by the largest residual of its conditions."""
        return left <= CLOSED * self.length

    def residual(self, phi: np.ndarray) -> float:
        """The largest residual of the conditions that are solved for; a redundant one counts where it is open beyond OPEN."""
        if self.solved is None:
            return _largest(phi)
        rows, offsets, scales = self.solved
        others = phi * scales * (CLOSED * self.length / OPEN)
        others[rows] = 0.0
        return max(_largest(phi[rows] - offsets), _largest(others))

    def solving(self, rows: Sequence[int], offsets: np.ndarray, x: np.ndarray) -> Mechanism:
        """The same with the conditions chosen that are solved for, at a closed pose x."""
        return replace(self, solved=(list(rows), offsets, row_scales(self.conditions, self.at(x)[1])))

    def _equations(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(phi, residuals that are to be zero, their Jacobian): all conditions, or those that are solved for."""
        phi, J = self.at(x)
        if self.solved is None:
            return phi, phi, J
        rows, offsets, _ = self.solved
        return phi, phi[rows] - offsets, J[rows]

    def closed(
        self, x: np.ndarray, columns: np.ndarray, steps: int = 60, relative: float = REDUNDANT
    ) -> tuple[np.ndarray, float]:
        """(x moved along these coordinates until the loops close, the largest residual): damped Gauss-Newton.

        Where not all conditions can be met, their squares are the least; directions weaker than `relative` are left.
        """
        phi, open_, J = self._equations(x)
        if not (np.all(np.isfinite(phi)) and np.all(np.isfinite(J))):
            return x, np.inf
        scales = row_scales(self.conditions, self.at(x)[1])[slice(None) if self.solved is None else self.solved[0]]
        for _ in range(steps):
            if _largest(open_) <= CLOSED * self.length * 1e-3:
                break
            step = np.zeros(self.below.nv)
            step[columns] = -ordered.least_norm(J[:, columns] * scales[:, None], open_ * scales, relative)
            step *= min(1.0, MAX_STEP / max(_largest(step), MAX_STEP))
            for _ in range(12):
                there = self.moved(x, step)
                phi_new, new, J_new = self._equations(there)
                if ordered.norm(new * scales) < ordered.norm(open_ * scales) and np.all(np.isfinite(J_new)):
                    break
                step *= 0.5
            else:
                break
            x, phi, open_, J = there, phi_new, new, J_new
        return x, self.residual(phi)

    def step(self, x: np.ndarray, rows: Sequence[int], columns: np.ndarray) -> tuple[np.ndarray, float, float]:
        """(a Newton step along these coordinates, the residual before it, the strength 1 / |J^-1|); a square part of J."""
        phi, J = self.at(x)
        chosen, step = list(rows), np.zeros(self.below.nv)
        try:
            inverse = ordered.inverse(J[chosen][:, columns])
        except ordered.SingularError:
            return step, np.inf, 0.0
        offsets = 0.0 if self.solved is None else self.solved[1]
        step[columns] = -ordered.matvec(inverse, phi[chosen] - offsets)
        return step, self.residual(phi), 1.0 / ordered.norm(inverse)

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


def assembled(
    model: Model,
    lower: CoordinateMap,
    conditions: Conditions,
    x0: np.ndarray,
    independent: Names,
    dependent: Names = None,
    within_limits: bool = False,
) -> tuple[Mechanism, Loops]:
    """The constraint of these loops, without a guess; the pose x0 need only be near a closed one.

    `within_limits`: the first pose is moved to where the joints are within their limits, if a way leads there.
    """
    mechanism = Mechanism.of(model, lower, conditions)
    x, rows = _first_pose(mechanism, x0, _numbers(mechanism.below, independent), within_limits)
    whole = set(_numbers(mechanism.below, independent) or ())
    if dependent is not None:
        whole = set(range(len(mechanism.below.links))) - set(_numbers(mechanism.below, dependent) or ())
    _, J = mechanism.at(x)
    parts = partial_joints(mechanism.below, (J * row_scales(conditions, J)[:, None])[rows], x, whole)
    if parts:
        split = Split(mechanism.below, parts, x)
        mechanism = Mechanism.of(model, lower.extended(split), conditions)
        x = split.start
    below = mechanism.below
    own = {k for k, link in below.outward() if link.joint not in {link.joint for link in lower.reduced.links}}
    phi, J = mechanism.at(x)
    offsets = phi[rows] if mechanism.residual(phi) > CLOSED * mechanism.length else np.zeros(len(rows))
    mechanism = mechanism.solving(rows, offsets, x)
    scaled = (J * row_scales(conditions, J)[:, None])[rows]
    links = dependent_joints(model, below, scaled, _numbers(below, independent, own), _numbers(below, dependent, own), own)
    if len(links) == len(below.links):
        raise RobotError(
            f"robot '{model.name}': its loops are rigid: {len(rows)} independent conditions hold all {below.nv} coordinates; "
            "leave one loop out, or let it hold fewer axes"
        )
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
    loops = Loops(below, reduced, conditions, tuple(rows), tuple(links), blocks, scales, first, np.array(units), offsets)
    return mechanism, loops


def _numbers(below: Model, names: Names, parts: Collection[int] = ()) -> list[int] | None:
    """The joints of these names; the name of a joint that was taken apart stands for its parts."""
    if names is None:
        return None
    found = []
    for name in names:
        of = [k for k in parts if below.links[k].joint.rpartition(".")[0] == name]
        found += of if of else [only(below, name)]
    return found


def _first_pose(
    mechanism: Mechanism, x0: np.ndarray, asked: Sequence[int] | None, within_limits: bool
) -> tuple[np.ndarray, list[int]]:
    """(the pose near x0 in which the loops close, the conditions that are independent there), or an error that says why not."""
    model, below, conditions = mechanism.model, mechanism.below, mechanism.conditions
    everything = np.arange(below.nv)
    attempts = [(everything, REDUNDANT), (everything, ROUNDING)]
    if asked:
        # first without moving what the user holds
        _, columns = entries(below, [i for i in range(len(below.links)) if i not in asked])
        attempts = [(columns, REDUNDANT), (columns, ROUNDING), *attempts]
    best: tuple[np.ndarray, float] = x0, np.inf
    for columns, relative in attempts:
        x, left = mechanism.closed(x0, columns, relative=relative)
        if left < 0.5 * best[1] or not np.isfinite(best[1]):
            best = x, left
        if mechanism.is_closed(left):
            break
    x, left = best
    phi, J = mechanism.at(x)
    if not np.isfinite(left):
        raise RobotError(
            f"robot '{model.name}': its conditions or their slopes are not finite at this pose; start elsewhere with q=..."
        )
    rows = independent_rows(conditions, J)
    if not mechanism.is_closed(left) and not _nearly(mechanism, phi, J):
        worst = labels(conditions)[int(np.argmax(np.abs(phi)))]
        raise RobotError(
            f"robot '{model.name}': the loops cannot be closed from this pose: {left:.3g} is left of '{worst}' (m or rad), "
            f"where the {len(phi)} conditions have the rank {len(rows)}; check lengths and axes, or start nearer to a closed "
            "pose with q=..."
        )
    if within_limits:
        x = _within_limits(mechanism, x)
        rows = independent_rows(conditions, mechanism.at(x)[1])
    nearby = _rank_nearby(mechanism, x)
    if nearby > len(rows):
        raise RobotError(
            f"robot '{model.name}': the pose in which the loops close is singular: the conditions have the rank {len(rows)} "
            f"there, and {nearby} near it; start from another pose with q=..."
        )
    if not rows:
        names = ", ".join(labels(conditions))
        raise RobotError(f"robot '{model.name}': no joint moves the conditions of its loops ({names}); leave them out")
    return x, rows


def _within_limits(mechanism: Mechanism, x: np.ndarray) -> np.ndarray:
    """x, or a closed pose near it at which no joint is beyond its limits: found from where they would be within, or step by step.

    Linkages are often written with all joints at zero, where they are flat: there ways part that lead to other mechanisms, and
    the limits tell which one is meant.
    """
    far, everything = _beyond_limits(mechanism.below, x), np.arange(mechanism.below.nv)

    def closes(there: np.ndarray, left: float) -> bool:
        return mechanism.is_closed(left) or _nearly(mechanism, *mechanism.at(there))

    if np.any(far):
        there, left = mechanism.closed(mechanism.moved(x, -far), everything)
        if closes(there, left) and not np.any(_beyond_limits(mechanism.below, there)):
            return there
    for _ in range(LIMIT_STEPS):
        if not np.any(far):
            break
        _, J = mechanism.at(x)
        step = -far - ordered.least_norm(J, -ordered.matvec(J, far), REDUNDANT)
        step *= min(1.0, LIMIT_STEP / max(_largest(step), LIMIT_STEP))
        there, left = mechanism.closed(mechanism.moved(x, step), everything)
        further = _beyond_limits(mechanism.below, there)
        if not closes(there, left) or ordered.norm(further) > ordered.norm(far) or _largest(step) < 1e-6:
            break
        x, far = there, further
    return x


def _beyond_limits(below: Model, x: np.ndarray) -> np.ndarray:
    """For each velocity, how far its joint is from well within its limits, where it is beyond them; else zero."""
    out = np.zeros(below.nv)
    for link in below.links:
        lower, upper = link.limits.lower, link.limits.upper
        if link.kind.nv == 1 and lower is not None and upper is not None and not lower <= x[link.q.start] <= upper:
            inside = LIMIT_MARGIN * (upper - lower)
            target = lower + inside if x[link.q.start] < lower else upper - inside
            out[link.v] = x[link.q.start] - target
    return out


def _nearly(mechanism: Mechanism, phi: np.ndarray, J: np.ndarray) -> bool:
    """Whether the loops are closed up to the digits of a file."""
    return _largest(phi * row_scales(mechanism.conditions, J)) <= OPEN


def _rank_nearby(mechanism: Mechanism, x: np.ndarray) -> int:
    """The largest rank of the conditions at some closed poses near x."""
    rng = np.random.default_rng(1)
    best = 0
    for _ in range(3):
        there, left = mechanism.closed(
            mechanism.moved(x, NEIGHBOUR_DISTANCE * rng.standard_normal(mechanism.below.nv)), np.arange(mechanism.below.nv)
        )
        phi, J = mechanism.at(there)
        if mechanism.is_closed(left) or _nearly(mechanism, phi, J):
            best = max(best, len(independent_rows(mechanism.conditions, J)))
    return best


def _pattern(mechanism: Mechanism, x: np.ndarray) -> np.ndarray:
    """Which entries of dphi/dx are ever anything but zero, from some poses near x."""
    rng = np.random.default_rng(2)
    found = mechanism.at(x)[1] != 0.0
    for _ in range(3):
        found |= mechanism.at(mechanism.moved(x, 0.3 * rng.standard_normal(mechanism.below.nv)))[1] != 0.0
    return np.asarray(found)


def determinants(A: np.ndarray, blocks: list[Block]) -> np.ndarray:
    """The determinant of each block with its sign, its size rounded to a power of two."""
    found = [ordered.determinant(A[np.ix_(rows, columns)]) for rows, columns in blocks]
    return np.array([math.copysign(math.ldexp(1.0, _nearest_exponent(abs(d))), d) for d in found])


def _nearest_exponent(x: float) -> int:
    """The k whose 2^k is nearest to x > 0 as a ratio."""
    fraction, exponent = math.frexp(x)
    return exponent if fraction * fraction > 0.5 else exponent - 1
