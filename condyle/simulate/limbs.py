"""Constraints of limbs: one that stands for those of all limbs (condyle/dynamics/limbs.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from condyle.dynamics.limbs import Limbs, merged
from condyle.simulate.constraint_list import Constraint


def grouped(limbs: Limbs, constraints: Sequence[Constraint]) -> list[list[int]] | None:
    """Constraints that are one for each limb, in order, and those of the whole robot by themselves; None if some are neither."""
    own: list[dict[Any, list[int]]] = [{} for _ in limbs.limbs]
    out: list[list[int]] = []
    for k, b in enumerate(constraints):
        limb = limbs.owner(b.path)
        if limb is None:
            return None
        if limb < 0:
            out.append([k])
        else:
            own[limb].setdefault(_kind(b, limbs.path(b.path, limb)), []).append(k)
    if any({kind: len(found) for kind, found in o.items()} != {kind: len(found) for kind, found in own[0].items()} for o in own):
        return None
    out += [[o[kind][n] for o in own] for kind, found in own[0].items() for n in range(len(found))]
    return out


def fold_constraints(limbs: Limbs, constraints: Sequence[Constraint]) -> Constraint:
    """One constraint for all limbs, or the one of the whole robot."""
    if len(constraints) == 1:
        return replace(constraints[0], path=limbs.path(constraints[0].path, 0), trunk=len(limbs.trunk))
    first = constraints[0]
    laws = [b.law for b in constraints]
    law = replace(first.law, **{f.name: merged([getattr(law, f.name) for law in laws]) for f in fields(first.law)})
    numbers = {
        name: merged([getattr(b, name) for b in constraints])
        for name in ("J", "C", "max_speed", "mass", "velocity_scale", "idle")
    }
    return replace(first, law=law, path=limbs.path(first.path, 0), trunk=len(limbs.trunk), limbs=limbs.count, **numbers)


def _kind(b: Constraint, path: tuple[int, ...]) -> Any:
    """What constraints of different limbs must share to be one."""
    shapes = [np.shape(getattr(b.law, f.name)) for f in fields(b.law)]
    return type(b.law), path, b.J is None, b.C is None, tuple(shapes)
