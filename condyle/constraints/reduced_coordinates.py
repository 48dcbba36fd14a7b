"""Reduced coordinates as joints without mass, so that all of dynamics/manifold.py works on them, and texts about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.errors import RobotError
from condyle.robot.description import Keyframe
from condyle.robot.edit import only
from condyle.robot.joints import Prismatic
from condyle.robot.model import Link, Model
from condyle.robot.spatial import Inertia, Pose

if TYPE_CHECKING:
    from condyle.constraints.coordinate_map import CoordinateMap


def reduced_model(name: str, joints: Sequence[Link]) -> Model:
    """The coordinates of these joints, one after the other, each joint fixed to the world and without mass."""
    links, q, v = [], 0, 0
    for joint in joints:
        nq, nv = joint.kind.nq, joint.kind.nv
        bare = replace(joint, parent=-1, inertia=Inertia.zero(), placement=Pose.identity(), armature=0.0, mimic=None)
        links.append(replace(bare, visuals=(), collisions=(), q=slice(q, q + nq), v=slice(v, v + nv)))
        q, v = q + nq, v + nv
    return Model(name, tuple(links), (), (0.0, 0.0, 0.0))


def scalar_coordinates(name: str, names: Sequence[str]) -> Model:
    """Reduced coordinates that are just numbers, with these names."""
    if not names or len(set(names)) != len(names):
        raise RobotError(f"robot '{name}': coordinates need names that differ, at least one; got {', '.join(names) or 'none'}")
    number = Prismatic((1.0, 0.0, 0.0))
    zero = slice(0, 1)
    return reduced_model(name, [Link(n, n, -1, number, Pose.identity(), Inertia.zero(), zero, zero) for n in names])


def entries(model: Model, links: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """(entries of q, entries of v) of these joints of a model."""
    q = [n for i in links for n in range(model.links[i].q.start, model.links[i].q.stop)]
    v = [n for i in links for n in range(model.links[i].v.start, model.links[i].v.stop)]
    return np.array(q, dtype=int), np.array(v, dtype=int)


def floats(model: Model, what: str, given: Any) -> np.ndarray:
    """A user's numbers as an array of floats."""
    try:
        if np.asarray(given).dtype.kind not in "fiuO" or given is None:
            raise TypeError
        return np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise RobotError(f"robot '{model.name}': {what} must be numbers, got {given!r:.60}") from None


def remaining_joint(model: Model, reduced: Model, joint: str) -> Link:
    """The joint of this name among the reduced coordinates; an error that says so for one that follows others."""
    names = [link.joint for link in reduced.links]
    if isinstance(joint, str) and joint not in names and joint in [link.joint for link in model.links]:
        raise RobotError(f"robot '{model.name}': joint '{joint}' follows others; those that remain are {', '.join(names[:12])}")
    return reduced.links[only(reduced, joint)]


def keyframe_along(model: Model, coordinate_map: CoordinateMap, key: Keyframe) -> Keyframe:
    """A state of all coordinates in the reduced ones: those of joints that remain, elsewhere as the constraint begins."""
    if coordinate_map.identity:
        return key
    full = {link.joint: link for link in model.links}
    q, names = coordinate_map.start, velocity_names(model)
    for link in coordinate_map.reduced.links:
        if (known := full.get(link.joint)) is not None and known.kind.nq == link.kind.nq:
            q[link.q] = key.q[known.q]
    speeds = dict(zip(names, key.v, strict=True))
    return Keyframe(q, np.array([speeds.get(name, 0.0) for name in coordinate_map.velocity_names]), key.u)


def velocity_names(model: Model) -> list[str]:
    """The name of each entry of v: its joint's, numbered where a joint has several."""
    out = []
    for link in model.links:
        out += [link.joint] if link.kind.nv == 1 else [f"{link.joint}[{k}]" for k in range(link.kind.nv)]
    return out


def listed(names: Sequence[str], most: int = 8) -> str:
    """The names in one line, the first ones of many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def following(names: Sequence[str]) -> str:
    """The subject of a sentence, and its verb."""
    return f"{listed(names)} follow{'s' * (len(names) == 1)}"


def key_text(value: Any) -> str:
    """A value with all its digits, for keys; dataclasses by their fields. Models and functions are in other parts of a key."""
    if isinstance(value, Model) or callable(value):
        return ""
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    if isinstance(value, tuple | list):
        return f"[{' '.join(map(key_text, value))}]"
    if is_dataclass(value):
        return " ".join(f"{field.name}={key_text(getattr(value, field.name))}" for field in fields(value))
    return repr(value)
