"""Putting loops together, with numbers: close them, see which conditions count, and choose what follows from what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from condyle.dynamics.chart import chart_of, places
from condyle.dynamics.conditions import Conditions, all_rows, labels
from condyle.dynamics.elimination import pivots
from condyle.dynamics.embedding import Embedding, Found
from condyle.dynamics.guess import Guess, coarse
from condyle.dynamics.kinematics import poses
from condyle.dynamics.loops import Loops
from condyle.dynamics.manifold import integrate
from condyle.errors import RobotError
from condyle.robot.edit import only
from condyle.robot.model import Model
from condyle.robot.spatial import Array
from condyle.tape.function import Function
from condyle.tape.inner import slopes_at_zero
from condyle.tape.trace import trace

CLOSED = 1e-11  # the largest condition of a closed pose, in units of the robot's length
RANK = 1e-7  # singular values below this part of the largest count as zero
ENOUGH = 0.1  # a joint is taken as dependent if it moves the conditions this much of what the best joint does
NEARLY = 1e-6  # a pose with a weaker condition than this part of the strongest is called singular
NEARBY = 1e-2  # how far random poses near the first are from it


@dataclass(frozen=True)
class Mechanism:
    """The conditions of a robot as functions of numbers."""

    model: Model
    lower: Embedding
    below: Model
    conditions: Conditions
    function: Function
    length: float

    @staticmethod
    def of(model: Model, lower: Embedding, conditions: Conditions) -> Mechanism:
        below = lower.chart if lower.layers else model

        def traced(x: Array) -> object:
            at = lower.found(model, lower.lifted(model, x)) if lower.layers else Found(model, [x], [], None)

            def moved(d: Array) -> object:
                step = d if at.total is None else at.total @ d
                return {"phi": all_rows(conditions, model, integrate(model, at.q, step))}

            return {"phi": all_rows(conditions, model, at.q), "J": slopes_at_zero(moved, below.nv)["phi"]}  # type: ignore[arg-type]

        return Mechanism(model, lower, below, conditions, Function(trace(traced, x=below.nq)), _length(model))

    def at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(phi, dphi/dx)."""
        phi, J = self.function(x)
        return phi, J

    def moved(self, x: np.ndarray, dx: np.ndarray) -> np.ndarray:
        return np.asarray(integrate(self.below, x, dx), dtype=float)

    def closed(self, x: np.ndarray, columns: np.ndarray, steps: int = 60) -> tuple[np.ndarray, float]:
        """(x moved along these coordinates until the loops close, what is left of the conditions): Gauss-Newton, with care."""
        phi, J = self.at(x)
        for _ in range(steps):
            if np.max(np.abs(phi), initial=0.0) <= CLOSED * self.length * 1e-3:
                break
            step = np.zeros(self.below.nv)
            step[columns] = -np.linalg.lstsq(J[:, columns], phi, rcond=1e-10)[0]
            step *= min(1.0, 0.5 / max(float(np.max(np.abs(step))), 1e-300))
            for _ in range(12):
                there = self.moved(x, step)
                new, J_new = self.at(there)
                if np.linalg.norm(new) < np.linalg.norm(phi):
                    break
                step *= 0.5
            else:
                break
            x, phi, J = there, new, J_new
        return x, float(np.max(np.abs(phi), initial=0.0))


def _length(model: Model) -> float:
    """About how large the robot is, m."""
    q = model.neutral()
    points = [X.p for X in poses(model, q)] + [link.placement.p for link in model.links] + [f.pose.p for f in model.frames]
    return max(float(np.max(np.abs(np.array(points, dtype=float)))), 1e-3)


def rank_of(J: np.ndarray) -> int:
    """The number of singular values that count."""
    s = np.linalg.svd(J, compute_uv=False)
    return int(np.sum(s > RANK * max(s[0], 1e-300))) if len(s) else 0


def assembled(
    model: Model,
    lower: Embedding,
    conditions: Conditions,
    x0: np.ndarray,
    independent: Sequence[str] | None,
    dependent: Sequence[str] | None = None,
) -> tuple[Mechanism, Loops]:
    """The layer of these loops, without a guess; the pose x0 need only be near a closed one."""
    mechanism = Mechanism.of(model, lower, conditions)
    below = mechanism.below
    everything = np.arange(below.nv)
    asked = None if independent is None else {only(below, name) for name in independent}
    x, left = x0, np.inf
    if asked:
        # first without moving what the user holds
        _, columns = places(below, [i for i in range(len(below.links)) if i not in asked])
        x, left = mechanism.closed(x0, columns)
    if left > CLOSED * mechanism.length:
        x, left = mechanism.closed(x0, everything)
    phi, J = mechanism.at(x)
    rank = rank_of(J)
    if left > CLOSED * mechanism.length:
        worst = labels(conditions)[int(np.argmax(np.abs(phi)))]
        raise RobotError(
            [f"robot '{model.name}': the loops cannot be closed from this pose: {left:.3g} is left of '{worst}' (m or rad), where "
             f"the {len(phi)} conditions have the rank {rank}; check lengths and axes, or start nearer to a closed pose with q=..."]
        )  # fmt: skip
    nearby = _rank_nearby(mechanism, x)
    if nearby > rank:
        raise RobotError(
            [f"robot '{model.name}': the pose in which the loops close is singular: the conditions have the rank {rank} there, and "
             f"{nearby} near it; start from another pose with q=..."]
        )  # fmt: skip
    if not rank:
        raise RobotError([f"robot '{model.name}': no joint moves the conditions of its loops ({', '.join(labels(conditions))})"])
    rows = _independent_rows(J, rank)
    links = _dependent(below, J[rows], asked, None if dependent is None else [only(below, name) for name in dependent])
    if len(links) == len(below.links):
        raise RobotError([f"robot '{model.name}': its loops leave nothing that can move"])
    _, columns = places(below, links)
    square = J[np.ix_(rows, columns)]
    order = pivots(square, _pattern(mechanism, x)[np.ix_(rows, columns)])
    kept = [i for i in range(len(below.links)) if i not in links]
    units = [
        1.0 if np.any(below.links[i].axes[k].angular) else mechanism.length for i in links for k in range(below.links[i].kind.nv)
    ]
    first = x.copy()
    where, _ = places(below, [i for i in links if below.links[i].kind.nv == 1])
    first[where] = coarse(x[where])
    loops = Loops(
        below,
        chart_of(below.name, [below.links[i] for i in kept]),
        conditions,
        tuple(rows),
        tuple(links),
        order,
        _pivot_sizes(square, order),
        first,
        np.array(units),
        Guess(),
    )
    return mechanism, loops


def _rank_nearby(mechanism: Mechanism, x: np.ndarray) -> int:
    """The largest rank of the conditions at some closed poses near x."""
    rng = np.random.default_rng(1)
    best = 0
    for _ in range(3):
        there, left = mechanism.closed(
            mechanism.moved(x, NEARBY * rng.standard_normal(mechanism.below.nv)), np.arange(mechanism.below.nv)
        )
        if left <= CLOSED * mechanism.length:
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
        size = np.linalg.norm(rest, axis=1)
        size[chosen] = -1.0
        # of equals the first, however rounding has it
        k = int(np.flatnonzero(size >= 0.999 * size.max())[0])
        chosen.append(k)
        unit = rest[k] / np.linalg.norm(rest[k])
        rest = rest - np.outer(rest @ unit, unit)
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
                [f"robot '{below.name}': its loops have {rank} independent conditions, and the joints that may follow can meet "
                 f"only {found} of them at this pose; let more joints follow (those in the loops are {names})"]
            )  # fmt: skip
        pick = max(i for i, s in strength.items() if s >= ENOUGH * best)
        chosen.append(pick)
        basis, _ = np.linalg.qr(rest[:, below.links[pick].v])
        rest = rest - basis @ (basis.T @ rest)
        found += below.links[pick].kind.nv
    extra = [below.links[i].joint for i in moving if asked is not None and i not in asked and i not in chosen]
    if extra and named is None:
        raise RobotError(
            [f"robot '{below.name}': its loops have {rank} independent conditions, so {len(extra)} more of the joints in them "
             f"remain free: add {', '.join(extra)} to independent="]
        )  # fmt: skip
    return sorted(chosen)


def _gain(columns: np.ndarray) -> float:
    """The smallest singular value: how well these coordinates alone move the conditions."""
    return float(np.linalg.svd(columns, compute_uv=False)[-1])


def _pivot_sizes(A: np.ndarray, order: list[tuple[int, int]]) -> np.ndarray:
    """The pivots of an elimination in this order, rounded to a power of two."""
    A, sizes = A.copy(), []
    for k, (r, c) in enumerate(order):
        sizes.append(2.0 ** np.round(np.log2(abs(A[r, c]))))
        for i, _ in order[k + 1 :]:
            A[i] -= A[r] * (A[i, c] / A[r, c])
    return np.array(sizes)


def why_not(model: Model, embedding: Embedding, y: np.ndarray) -> str | None:
    """What is wrong with the loops at y, or at the first row of y where they do not close; None if nothing is."""
    for i, loops in enumerate(embedding.layers):
        if not isinstance(loops, Loops):
            continue
        higher = Embedding(embedding.layers[i + 1 :])
        mechanism = Mechanism.of(model, Embedding(embedding.layers[:i]), loops.conditions)
        for row in y.reshape(-1, y.shape[-1]):
            own = _own(model, higher, row)
            if sentence := _problem_at(mechanism, loops, own):
                return sentence
    return None


def _own(model: Model, higher: Embedding, y: np.ndarray) -> np.ndarray:
    if not higher.layers:
        return y
    function = Function(trace(lambda y: {"x": higher.lifted(model, y)[0]}, y=len(y)), "reference")
    found: np.ndarray = function(y)
    return found


def _problem_at(mechanism: Mechanism, loops: Loops, y: np.ndarray) -> str | None:
    below = mechanism.below
    dependent, columns = places(below, loops.dependent)
    kept, _ = places(below, [i for i in range(len(below.links)) if i not in loops.dependent])
    x = loops.first.copy()
    x[kept], x[dependent] = y, np.asarray(loops.guess.at(loops, y), dtype=float)
    x, left = mechanism.closed(x, columns)
    phi, J = mechanism.at(x)
    n, rank = len(loops.rows), rank_of(J)
    numbers = [f"{link.joint} = {', '.join(f'{a:.6g}' for a in y[link.q])}" for link in loops.chart.links]
    where = f"robot '{mechanism.model.name}': at {'; '.join(numbers[:8])}"
    strengths = np.linalg.svd(J[np.ix_(list(loops.rows), columns)], compute_uv=False)
    if left > CLOSED * mechanism.length:
        worst = labels(loops.conditions)[int(np.argmax(np.abs(phi)))]
        return f"{where} the loops do not close: {left:.3g} is left of '{worst}' (m or rad), and the rank is {rank} of {n}"
    if strengths[-1] <= NEARLY * strengths[0]:
        followers = ", ".join([below.links[i].joint for i in loops.dependent][:8])
        count = int(np.sum(strengths > NEARLY * strengths[0]))
        return (
            f"{where} the pose is singular: {followers} follow from {n} conditions that have the rank {count} there (all joints: "
            f"{rank}); keep away from it, or let others follow with independent=..."
        )
    if _found(mechanism, loops, y):
        return None
    return (
        f"{where} the loops close, but not on the branch that is followed from the first pose, or beyond a singular pose (the rank "
        f"is {rank} of {n}); start from another pose with q=..."
    )


def _found(mechanism: Mechanism, loops: Loops, y: np.ndarray) -> bool:
    function = Function(trace(lambda y: {"x": loops.up(mechanism.model, mechanism.lower, y)}, y=len(y)), "reference")
    return bool(np.all(np.isfinite(function(y))))
