"""Which bodies of a compiled MJCF model MuJoCo lets touch, and which of them begin inside each other.

Two geoms are tested where their contact bits allow it; not those of one rigid body, of a body and the one that it hangs on,
of an excluded pair of bodies; a <pair> is tested whatever its bits say (mj_collision).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

WORLD = 0
LEVEL = 1e-9  # the vertical part of a unit axis up to which it is level
OVERLAP = 1e-4  # m: links that begin so deep in each other are pushed apart


@dataclass
class Collisions:
    """Pairs of rigid bodies, by the number of the body that each is welded to; `fixed`: geoms of the world and what they meet."""

    itself: set[tuple[int, int]] = field(default_factory=set)  # of one tree of bodies
    others: set[tuple[int, int]] = field(default_factory=set)  # of two trees
    fixed: set[int] = field(default_factory=set)  # geoms fixed in the world, but for the floor
    floor: bool = False  # whether something that moves can touch the floor


def collisions(mujoco: ModuleType, model: Any, floor: int) -> Collisions:
    """All that can touch; `floor`: the geom that is the ground, -1 for none."""
    out, weld = Collisions(), model.body_weldid[model.geom_bodyid]
    for a, b in geom_pairs(mujoco, model):
        one, two = sorted((int(weld[a]), int(weld[b])))
        if one != WORLD:
            trees = (out.itself, out.others)[int(model.body_treeid[one] != model.body_treeid[two])]
            trees.add((one, two))
        elif floor in (a, b):
            out.floor = True
        else:
            out.fixed.add(a if weld[a] == WORLD else b)
    return out


def geom_pairs(mujoco: ModuleType, model: Any) -> Iterator[tuple[int, int]]:
    """(geom, geom) of every contact that MuJoCo looks for."""
    flags = mujoco.mjtDisableBit
    if model.opt.disableflags & (flags.mjDSBL_CONTACT | flags.mjDSBL_CONSTRAINT):
        return
    body, contype, affinity = model.geom_bodyid, model.geom_contype, model.geom_conaffinity
    weld = model.body_weldid[body]
    parent = model.body_weldid[model.body_parentid[weld]]
    related = not model.opt.disableflags & flags.mjDSBL_FILTERPARENT
    excluded = {int(signature) for signature in model.exclude_signature}
    for a in range(model.ngeom - 1):
        b = np.arange(a + 1, model.ngeom)
        meet = (contype[a] & affinity[b]) | (contype[b] & affinity[a]) != 0
        meet &= weld[a] != weld[b]
        if related:
            hangs = (weld[a] == parent[b]) | (weld[b] == parent[a])
            meet &= ~(hangs & (weld[a] != WORLD) & (weld[b] != WORLD))
        for other in b[meet]:
            low, high = sorted((int(body[a]), int(body[other])))
            if (low << 16) + high not in excluded:
                yield a, int(other)
    for one, two in zip(model.pair_geom1, model.pair_geom2, strict=True):
        if weld[one] != weld[two]:
            yield int(one), int(two)


def overlapping(mujoco: ModuleType, model: Any, floor: int) -> dict[tuple[int, int], int]:
    """The bodies that are inside each other where the model is written, the deepest first, and then those that are so in a
    keyframe alone, with its number, else -1; not those in the floor."""
    if model.nflex or not any(True for _ in geom_pairs(mujoco, model)):
        return {}
    data, found = mujoco.MjData(model), dict[tuple[int, int], int]()
    for key in range(-1, model.nkey):
        if key >= 0:
            mujoco.mj_resetDataKeyframe(model, data, key)
        for pair in _inside_each_other(mujoco, model, data, floor):
            found.setdefault(pair, key)
    return found


def _inside_each_other(mujoco: ModuleType, model: Any, data: Any, floor: int) -> list[tuple[int, int]]:
    """The bodies that are inside each other in one configuration, the deepest first."""
    mujoco.mj_kinematics(model, data)
    mujoco.mj_collision(model, data)
    depth: dict[tuple[int, int], float] = {}
    for contact in data.contact[: data.ncon]:
        one, two = (int(geom) for geom in contact.geom)
        if contact.dist < -OVERLAP and floor not in (one, two):
            low, high = sorted((int(model.body_weldid[model.geom_bodyid[one]]), int(model.body_weldid[model.geom_bodyid[two]])))
            depth[low, high] = max(depth.get((low, high), 0.0), -float(contact.dist))
    return sorted(depth, key=lambda pair: -depth[pair])


def rests_on_world(mujoco: ModuleType, model: Any) -> bool:
    """Whether no body leaves the ground: none has a free joint or slide to the world, or no joint moves anything up or down."""
    data, kinds = mujoco.MjData(model), mujoco.mjtJoint
    mujoco.mj_kinematics(model, data)
    first = [int(model.body_jntadr[b]) for b in range(1, model.nbody) if model.body_jntnum[b]]
    carried = [j for j in first if model.body_weldid[model.body_parentid[model.jnt_bodyid[j]]] == WORLD]
    if not any(model.jnt_type[j] in (int(kinds.mjJNT_FREE), int(kinds.mjJNT_SLIDE)) for j in carried):
        return True
    along = {int(kinds.mjJNT_SLIDE): (2,), int(kinds.mjJNT_HINGE): (0, 1)}
    return not any(
        np.max(np.abs(data.xaxis[j][list(along.get(int(model.jnt_type[j]), (0, 1, 2)))])) > LEVEL for j in range(model.njnt)
    )
