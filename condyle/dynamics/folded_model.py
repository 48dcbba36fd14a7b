"""A robot with one limb that stands for all: its joints and bodies have numbers of each limb (limbs.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from condyle.dynamics.limbs import Limbs, as_array, merged
from condyle.robot.joints import Kind, Prismatic, Revolute
from condyle.robot.model import Link, Model
from condyle.robot.spatial import Array, Inertia, Pose
from condyle.tape.limb_values import picks, spread


@dataclass(frozen=True)
class FoldedModel:
    """The robot `of`, and `model` with one limb for all, without frames; `links`: those that each link of it stands for."""

    of: Model
    model: Model
    limbs: Limbs
    links: tuple[tuple[int, ...], ...]

    def configuration(self, q: Array) -> Array:
        """A configuration, folded."""
        entries: list[object] = []
        for group in self.links:
            rows = [q[self.of.links[i].q] for i in group]
            entries += list(rows[0]) if len(group) == 1 else [spread(*column) for column in zip(*rows, strict=True)]
        return as_array(entries)

    def all_coordinates(self, q: Array) -> Array:
        """A configuration of the robot, from a folded one."""
        out = np.zeros(self.of.nq, dtype=object)
        for group, link in zip(self.links, self.model.links, strict=True):
            columns = [picks(x, len(group)) for x in q[link.q]]
            for k, i in enumerate(group):
                out[self.of.links[i].q] = [column[k] for column in columns]
        return out


def folded_model(model: Model, limbs: Limbs) -> FoldedModel | None:
    """The robot with one limb for all; None if limbs have other kinds of joints."""
    links = _link_groups(model, limbs)
    return None if links is None else FoldedModel(model, _model(model, links), limbs, links)


def _link_groups(model: Model, limbs: Limbs) -> tuple[tuple[int, ...], ...] | None:
    """Links of the whole robot one by one, and those of limbs together; None if limbs have other kinds of joints."""
    owner = {k: i for i, link in model.outward() for k in range(link.v.start, link.v.stop)}
    rows = [list(dict.fromkeys(owner[k] for k in limb)) for limb in limbs.limbs]
    taken = {i for row in rows for i in row}
    coordinates = sum(model.links[i].kind.nv for i in rows[0])
    same = all([type(model.links[i].kind) for i in row] == [type(model.links[i].kind) for i in rows[0]] for row in rows)
    if not same or coordinates != len(limbs.limbs[0]) or any(link.kind.nv == 0 for link in model.links):
        return None
    whole = [(i,) for i, _ in model.outward() if i not in taken]
    return (*whole, *zip(*rows, strict=True))


def _model(model: Model, links: tuple[tuple[int, ...], ...]) -> Model:
    """The robot with one limb for all; its frames are left out."""
    place = {i: k for k, group in enumerate(links) for i in group}
    made: list[Link] = []
    at_q = at_v = 0
    for group in links:
        own = [model.links[i] for i in group]
        first, parents = own[0], {model.links[i].parent for i in group}
        kind = _kind([link.kind for link in own])
        joins = len(group) if len(group) > 1 and len(parents) == 1 else 0
        placement = Pose(merged([link.placement.R for link in own]), merged([link.placement.p for link in own]))
        inertia = Inertia(*[merged([getattr(link.inertia, name) for link in own]) for name in ("mass", "h", "I")])
        q, v = slice(at_q, at_q + kind.nq), slice(at_v, at_v + kind.nv)
        at_q, at_v = q.stop, v.stop
        parent = -1 if first.parent < 0 else place[first.parent]
        armature = merged([link.armature for link in own])
        shape = {"parent": parent, "kind": kind, "placement": placement, "inertia": inertia}
        made.append(replace(first, **shape, q=q, v=v, armature=armature, limbs=joins))  # type: ignore[arg-type]
    return replace(model, links=tuple(made), frames=(), loops=())


def _kind(kinds: Sequence[Kind]) -> Kind:
    """The joints of all limbs as one."""
    first = kinds[0]
    if isinstance(first, Revolute | Prismatic):
        axes = [kind.axis for kind in kinds if isinstance(kind, Revolute | Prismatic)]
        return replace(first, axis=tuple(merged(list(column)) for column in zip(*axes, strict=True)))
    return first
