"""Why a constraint cannot be met: sentences about loops that do not close, and about poses at which they are singular."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.constraints.assembly import Mechanism, rank_of
from condyle.constraints.coordinate_map import CoordinateMap
from condyle.constraints.explicit_map import Explicit
from condyle.constraints.loop_residuals import labels
from condyle.constraints.loops import Loops
from condyle.constraints.rolling import Rolling
from condyle.robot import ordered
from condyle.robot.model import Model
from condyle.robot.spatial import Array
from condyle.tape.function import Function
from condyle.tape.trace import trace

SINGULAR = 1e-6  # a pose with a weaker condition than this part of the strongest is called singular
SHOWN = 8  # coordinates in a sentence


def why_not(model: Model, coordinate_map: CoordinateMap, y: np.ndarray) -> str | None:
    """What is wrong with the constraints at y, or at the first row of y where they are not met; None if nothing is."""
    if coordinate_map.identity:
        return None
    rows = y.reshape(-1, y.shape[-1])

    def everything(y: Array) -> dict[str, Any]:
        c = coordinate_map.configurations(model, y)
        return {f"c{i}": x for i, x in enumerate(c)} | {"T": coordinate_map.evaluate(model, c).T}

    # the configurations of all constraints, q first, and the map of velocities
    *found, T = Function(trace(everything, y=coordinate_map.reduced.nq), "reference")(rows)
    bad = np.flatnonzero(~(np.all(np.isfinite(found[0]), axis=1) & np.all(np.isfinite(T), axis=(1, 2))))
    if not len(bad):
        return None
    row = int(bad[0])
    for i, constraint in reversed(list(enumerate(coordinate_map.constraints))):
        # the first constraint from above whose result is not finite
        if np.all(np.isfinite(found[i][row])):
            continue
        if isinstance(constraint, Loops):
            lower = coordinate_map.first(i)
            mechanism = Mechanism.of(model, lower, constraint.conditions)
            mechanism = mechanism.solving(constraint.rows, constraint.offsets, constraint.first)
            return _problem_at(mechanism, constraint, found[i + 1][row])
        return f"{_where(model, constraint.reduced, found[i + 1][row])} gamma is not finite; keep away from it"
    top = coordinate_map.constraints[-1]
    trouble = "the velocities are not finite"
    if isinstance(top, Explicit) and top.trouble:
        trouble = top.trouble
    elif isinstance(top, Rolling):
        trouble = f"the velocities of {', '.join(top.velocity_names)} do not fix the others: the pose is singular for this choice"
    return (
        f"{_where(model, coordinate_map.reduced, rows[row])} {trouble}; keep away from it, or pass mask=True to flag such states"
    )


def _where(model: Model, reduced: Model, y: np.ndarray) -> str:
    """The robot and its coordinates: the beginning of a sentence."""
    numbers = [f"{link.joint} = {', '.join(f'{a:.6g}' for a in y[link.q])}" for link in reduced.links]
    return f"robot '{model.name}': at {'; '.join(numbers[:SHOWN])}"


def _problem_at(mechanism: Mechanism, loops: Loops, y: np.ndarray) -> str:
    """What is wrong at y, where the loops were not found closed."""
    below = mechanism.below
    dependent, columns = loops.following
    x = loops.first.copy()
    x[loops.kept[0]], x[dependent] = y, np.asarray(loops.guess.at(loops, y), dtype=float)
    x, left = mechanism.closed(x, columns)
    phi, J = mechanism.at(x)
    where = _where(mechanism.model, loops.reduced, y)
    if not np.isfinite(left):
        return f"{where} the conditions of the loops are not finite: the coordinates are too large; keep away from it"
    n, rank = len(loops.rows), rank_of(J)
    if not mechanism.is_closed(left):
        worst = labels(loops.conditions)[int(np.argmax(np.abs(phi)))]
        return (
            f"{where} the loops do not close: {left:.3g} is left of '{worst}' (m or rad), and the rank is {rank} of {n}; "
            "stay within what the lengths allow, or pass mask=True to flag such states"
        )
    strengths = ordered.singular_values(J[list(loops.rows)][:, columns])
    if strengths[-1] <= SINGULAR * strengths[0]:
        followers = ", ".join([below.links[i].joint for i in loops.dependent][:SHOWN])
        count = int(np.sum(strengths > SINGULAR * strengths[0]))
        return (
            f"{where} the pose is singular: {followers} follow from {n} conditions that have the rank {count} there "
            f"(all joints: {rank}); keep away from it, or let others follow with independent=..."
        )
    return (
        f"{where} the loops close, but not on the branch that is followed from the first pose, or beyond a singular pose "
        f"(the rank is {rank} of {n}); start from another pose with q=..."
    )
