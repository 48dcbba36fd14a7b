"""Which conditions of loops are independent, which joints follow from them, and which ball and free joints follow in part.

Files are written with few digits: axes that were meant to be parallel are not quite, and conditions that were meant to be the
same differ a little. A condition that the others imply up to that much is redundant, and is not solved for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from condyle.constraints.loop_residuals import AXES, Closure, Conditions
from condyle.constraints.split_joints import Parts
from condyle.errors import RobotError
from condyle.robot import ordered
from condyle.robot.joints import Ball, rotation_of
from condyle.robot.model import Model
from condyle.robot.spatial import cross, product

REDUNDANT = 3e-4  # a condition of a frame is redundant where the others leave this much of it, as a part of the loop's size
RANK = 1e-7  # the same of a condition that a user wrote as a function, which has no digits of a file in it
PARTIAL = 1e-3  # a joint moves the conditions in as many ways as it has singular values above this part of the loop's size
MIN_PIVOT = 0.3  # a joint is taken as dependent if it moves the conditions this much of what the best joint does
# how readily a joint follows: parts of a joint, which have no motor; hinges and slides; springs; what is driven, or leads others
PART, PLAIN, SPRING, DRIVEN = 3.0, 1.0, 0.1, 0.01


def row_scales(conditions: Conditions, J: np.ndarray) -> np.ndarray:
    """One for each condition: with them, the largest displacement of each loop by a unit velocity is one."""
    found: list[float] = []
    for condition in conditions:
        rows = J[len(found) : len(found) + len(condition.labels)]
        straight = [axis in AXES[:3] for axis in condition.loop.axes] if isinstance(condition, Closure) else [True] * len(rows)
        size = max((ordered.norm(row) for row, s in zip(rows, straight, strict=True) if s), default=0.0)
        found += [1.0 / size if s and size > 0.0 else 1.0 for s in straight]
    return np.array(found)


def independent_rows(conditions: Conditions, J: np.ndarray) -> list[int]:
    """Rows that are independent, the strongest first, in the order of the conditions."""
    enough = np.array([REDUNDANT if isinstance(c, Closure) else RANK for c in conditions for _ in c.labels])
    rest, chosen = J * row_scales(conditions, J)[:, None], list[int]()
    while len(chosen) < min(J.shape):
        size = np.array([ordered.norm(row) for row in rest])
        size[chosen] = 0.0
        size[size <= enough] = 0.0
        if not np.any(size):
            break
        # of equals the first, however rounding has it
        k = int(np.flatnonzero(size >= 0.999 * size.max())[0])
        chosen.append(k)
        unit = rest[k] / ordered.norm(rest[k])
        rest = rest - np.outer(ordered.matvec(rest, unit), unit)
    return sorted(chosen)


def partial_joints(below: Model, J: np.ndarray, x: np.ndarray, independent: Collection[int]) -> tuple[Parts, ...]:
    """How ball and free joints come apart that the conditions (rows of J, scaled) determine in part; not the independent ones.

    From the tips to the base, each joint is asked for what those before have left.
    """
    rest, found = J.copy(), list[Parts]()
    for i, link in below.inward():
        A = rest[:, link.v]
        rank = 0 if i in independent else _rank(A)
        if link.kind.nv == 1 or not rank:
            continue
        if rank < link.kind.nv:
            free = not isinstance(link.kind, Ball)
            turns = A
            if free:
                R = rotation_of(x[link.q][3:]).astype(float)
                Q, _ = ordered.orthonormal(product(A[:, :3], R.T), PARTIAL)
                turns = A[:, 3:] - product(Q, product(Q.T, A[:, 3:]))
            axes = _hinges(J, turns, link.v.stop - 3) if 0 < _rank(turns) < 3 else None
            found.append(Parts(i, free, axes, np.array(x[link.q][-4:])))
        Q, _ = ordered.orthonormal(A, PARTIAL)
        rest = rest - product(Q, product(Q.T, rest))
    return tuple(reversed(found))


def _rank(A: np.ndarray) -> int:
    return int(np.sum(ordered.singular_values(A) > PARTIAL)) if A.size else 0


def _hinges(J: np.ndarray, turns: np.ndarray, start: int) -> np.ndarray:
    """e1, e2, e3 in columns, for a rotation (columns of J from `start`) that moves the conditions by `turns`.

    e3 is the axis about which it may spin; e1 the one about which it swings most while the loop moves, so that the second
    hinge stays far from a quarter turn.
    """
    Q, _ = ordered.orthonormal(turns.T, PARTIAL)
    if Q.shape[1] == 1:
        e1 = Q[:, 0]
        e3 = _across(e1)
        return np.column_stack([e1, cross(e3, e1), e3])
    e3 = cross(Q[:, 0], Q[:, 1])
    e3 = e3 / ordered.norm(e3)
    swings = []
    for k in range(J.shape[1]):
        if start <= k < start + 3 or not np.any(J[:, k]):
            continue
        # how the rotation goes with velocity k while the conditions hold
        w = -ordered.least_norm(J, J[:, k], REDUNDANT)[start : start + 3]
        swings.append(w - e3 * ordered.dot(e3, w))
    best = max(swings, key=ordered.norm, default=np.zeros(3))
    e1 = best / ordered.norm(best) if ordered.norm(best) > PARTIAL else _across(e3)
    return np.column_stack([e1, cross(e3, e1), e3])


def _across(e: np.ndarray) -> np.ndarray:
    """A unit vector across e."""
    other = cross(e, np.eye(3)[int(np.argmin(np.abs(e)))])
    found: np.ndarray = other / ordered.norm(other)
    return found


def dependent_joints(
    model: Model,
    below: Model,
    J: np.ndarray,
    asked: Collection[int] | None,
    named: Sequence[int] | None,
    parts: Collection[int] = (),
) -> list[int]:
    """The joints that follow: those the user names, or by pivoting; joints without motor or spring and far from the base first.

    `J`: the independent conditions, scaled; `asked`: joints that remain; `parts`: joints that are parts of others.
    """
    rank = len(J)
    moving = [i for i, link in below.outward() if np.any(np.abs(J[:, link.v]) > RANK * np.max(np.abs(J)))]
    candidates = [i for i in (moving if named is None else named) if asked is None or i not in asked]
    weights = _weights(model, below, parts)
    chosen: list[int] = []
    rest = J.copy()
    found = 0
    while found < rank:
        strength = {i: _gain(rest[:, below.links[i].v]) for i in candidates if i not in chosen}
        strength = {i: s for i, s in strength.items() if below.links[i].kind.nv <= rank - found}
        if max(strength.values(), default=0.0) <= RANK * np.max(np.abs(J)):
            names = ", ".join(f"'{below.links[i].joint}'" for i in moving)
            raise RobotError(
                f"robot '{below.name}': its loops have {rank} independent conditions, and the joints that may follow can "
                f"meet only {found} of them at this pose; let more joints follow (those in the loops are {names})"
            )
        score = {i: s * weights[i] for i, s in strength.items()}
        pick = max(i for i, s in score.items() if s >= MIN_PIVOT * max(score.values()))
        chosen.append(pick)
        moved = rest[:, below.links[pick].v]
        rest = rest - np.column_stack([_onto(moved, column) for column in rest.T])
        found += below.links[pick].kind.nv
    whole = [i for i in moving if i not in parts]
    extra = [below.links[i].joint for i in whole if asked is not None and i not in asked and i not in chosen]
    if extra and named is None:
        raise RobotError(
            f"robot '{below.name}': its loops have {rank} independent conditions, so {len(extra)} more of the joints in "
            f"them remain free: add {', '.join(extra)} to independent="
        )
    return sorted(chosen)


def _weights(model: Model, below: Model, parts: Collection[int]) -> list[float]:
    """How readily each joint of `below` follows."""
    driven = {joint for actuator in getattr(model, "actuators", ()) for joint, _ in actuator.joints}
    driven |= {link.mimic.joint for link in model.links if link.mimic is not None}
    return [
        PART if i in parts else DRIVEN if link.joint in driven else SPRING if link.stiffness else PLAIN
        for i, link in below.outward()
    ]


def _gain(columns: np.ndarray) -> float:
    """The smallest singular value: how well these coordinates alone move the conditions."""
    return float(ordered.singular_values(columns)[-1])


def _onto(columns: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The part of b that lies in the span of the columns."""
    return ordered.matvec(columns, ordered.fit(columns, b))
