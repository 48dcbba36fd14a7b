"""Putting loops together, with numbers: close them, see which conditions count, and choose what follows from what."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from condyle.constraints.block_triangular import Block, blocks_of
from condyle.constraints.coordinate_map import CoordinateMap
from condyle.constraints.initial_guess import InitialGuess, coarse
from condyle.constraints.loop_residuals import Conditions, labels
from condyle.constraints.loops import Loops
from condyle.constraints.mechanism import RANK, Mechanism, rank_of
from condyle.constraints.reduced_coordinates import entries, reduced_model
from condyle.errors import RobotError
from condyle.robot.edit import only
from condyle.robot.model import Model

ENOUGH = 0.3  # a joint is taken as dependent if it moves the conditions this much of what the best joint does
NEARBY = 1e-2  # how far random poses near the first are from it


def assembled(
    model: Model,
    lower: CoordinateMap,
    conditions: Conditions,
    x0: np.ndarray,
    independent: Sequence[str] | None,
    dependent: Sequence[str] | None = None,
) -> tuple[Mechanism, Loops]:
    """The constraint of these loops, without a guess; the pose x0 need only be near a closed one."""
    mechanism = Mechanism.of(model, lower, conditions)
    below = mechanism.below
    everything = np.arange(below.nv)
    asked = None if independent is None else {only(below, name) for name in independent}
    x, left = x0, np.inf
    if asked:
        # first without moving what the user holds
        _, columns = entries(below, [i for i in range(len(below.links)) if i not in asked])
        x, left = mechanism.closed(x0, columns)
    if not mechanism.is_closed(left):
        x, left = mechanism.closed(x0, everything)
    phi, J = mechanism.at(x)
    if not np.isfinite(left):
        raise RobotError(
            [f"robot '{model.name}': its conditions or their slopes are not finite at this pose; start elsewhere with q=..."]
        )
    rank = rank_of(J)
    if not mechanism.is_closed(left):
        worst = labels(conditions)[int(np.argmax(np.abs(phi)))]
        raise RobotError(
            [
                f"robot '{model.name}': the loops cannot be closed from this pose: {left:.3g} is left of '{worst}' (m or rad), "
                f"where the {len(phi)} conditions have the rank {rank}; check lengths and axes, or start nearer to a closed "
                "pose with q=..."
            ]
        )
    nearby = _rank_nearby(mechanism, x)
    if nearby > rank:
        raise RobotError(
            [
                f"robot '{model.name}': the pose in which the loops close is singular: the conditions have the rank {rank} "
                f"there, and {nearby} near it; start from another pose with q=..."
            ]
        )
    if not rank:
        names = ", ".join(labels(conditions))
        raise RobotError([f"robot '{model.name}': no joint moves the conditions of its loops ({names}); leave them out"])
    rows = _independent_rows(J, rank)
    links = _dependent(below, J[rows], asked, None if dependent is None else [only(below, name) for name in dependent])
    if len(links) == len(below.links):
        raise RobotError([f"robot '{model.name}': its loops leave nothing that can move; leave one out"])
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
    loops = Loops(
        below,
        reduced_model(below.name, [below.links[i] for i in kept]),
        conditions,
        tuple(rows),
        tuple(links),
        blocks,
        determinants(square, blocks),
        first,
        np.array(units),
        InitialGuess(),
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
                [
                    f"robot '{below.name}': its loops have {rank} independent conditions, and the joints that may follow can "
                    f"meet only {found} of them at this pose; let more joints follow (those in the loops are {names})"
                ]
            )
        pick = max(i for i, s in strength.items() if s >= ENOUGH * best)
        chosen.append(pick)
        basis, _ = np.linalg.qr(rest[:, below.links[pick].v])
        rest = rest - basis @ (basis.T @ rest)
        found += below.links[pick].kind.nv
    extra = [below.links[i].joint for i in moving if asked is not None and i not in asked and i not in chosen]
    if extra and named is None:
        raise RobotError(
            [
                f"robot '{below.name}': its loops have {rank} independent conditions, so {len(extra)} more of the joints in "
                f"them remain free: add {', '.join(extra)} to independent="
            ]
        )
    return sorted(chosen)


def _gain(columns: np.ndarray) -> float:
    """The smallest singular value: how well these coordinates alone move the conditions."""
    return float(np.linalg.svd(columns, compute_uv=False)[-1])


def determinants(A: np.ndarray, blocks: list[Block]) -> np.ndarray:
    """The determinant of each block with its sign, its size rounded to a power of two."""
    found = [np.linalg.det(A[np.ix_(rows, columns)]) for rows, columns in blocks]
    return np.array([np.sign(d) * 2.0 ** np.round(np.log2(abs(d))) for d in found])
