"""Models with joints locked at a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from condyle.errors import RobotError
from condyle.robot.couplings import moving_loops
from condyle.robot.description import Keyframe, moved
from condyle.robot.model import Frame, Link, Model
from condyle.robot.names import nearest
from condyle.robot.spatial import Pose


@dataclass(frozen=True)
class Locked:
    """A model with joints locked, and how its coordinates sit in those of the full one: q_full[q] = q, the rest is `standing`."""

    model: Model
    q: np.ndarray
    v: np.ndarray
    standing: np.ndarray
    full_nv: int


def matching(model: Model, names: str | Sequence[str]) -> list[int]:
    """The links whose joints have one of these names, or begin with one of them when no joint has that very name."""
    joints = [link.joint for link in model.links]
    found: set[int] = set()
    chosen = [names] if isinstance(names, str) else list(names) if isinstance(names, Sequence) else [None]
    if not all(isinstance(name, str) for name in chosen):
        raise RobotError([f"robot '{model.name}': joints are given by their names, or by how these begin, got {names!r:.60}"])
    for name in chosen:
        exact = [i for i, joint in enumerate(joints) if joint == name]
        some = exact or [i for i, joint in enumerate(joints) if joint.startswith(name)]
        if not some or not name:
            raise RobotError([f"robot '{model.name}' has no joint '{name}', and none that begins so{nearest(name, joints)}"])
        found.update(some)
    return sorted(found)


def only(model: Model, joint: str) -> int:
    """The link that the joint of this name moves."""
    joints = [link.joint for link in model.links]
    if not isinstance(joint, str) or joint not in joints:
        raise RobotError([f"robot '{model.name}' has no joint '{joint!s:.60}'{nearest(joint, joints)}"])
    return joints.index(joint)


def lock(model: Model, names: str | Sequence[str], q: np.ndarray | None = None) -> Locked:
    """The model with these joints fixed where `q` has them (default: zero, or the pose of an MJCF file).

    Their links become part of what carries them.

    A loop that nothing moves any more is dropped when `q` closes it; when not, a RobotError says how far it is open.
    """
    try:
        standing = model.written() if q is None else np.asarray(q, dtype=float)
    except (TypeError, ValueError):
        raise RobotError([f"lock needs a finite configuration of {model.nq} numbers, got {q!r:.60}"]) from None
    if standing.shape != (model.nq,) or not np.all(np.isfinite(standing)):
        raise RobotError([f"lock needs a finite configuration of {model.nq} numbers, got shape {standing.shape}"])
    fixed = set(matching(model, names))
    home: list[tuple[int, Pose]] = []  # old link -> (new link or -1, pose in it)
    links: list[Link] = []
    visuals, collisions = list(model.visuals), list(model.collisions)
    for i, link in model.outward():
        at, X = home[link.parent] if link.parent >= 0 else (-1, Pose.identity())
        if i not in fixed:
            q_at, v_at = (links[-1].q.stop, links[-1].v.stop) if links else (0, 0)
            home.append((len(links), Pose.identity()))
            q_slice, v_slice = slice(q_at, q_at + link.kind.nq), slice(v_at, v_at + link.kind.nv)
            links.append(replace(link, parent=at, placement=X @ link.placement, q=q_slice, v=v_slice))
            continue
        pose = X @ link.pose(standing)
        X = Pose(np.asarray(pose.R, dtype=float), np.asarray(pose.p, dtype=float))
        home.append((at, X))
        if at >= 0:
            links[at] = links[at].carrying(link, X)
        else:
            visuals += moved(link.visuals, X)
            collisions += moved(link.collisions, X)
    frames = []
    for frame in model.frames:
        at, X = home[frame.link] if frame.link >= 0 else (-1, Pose.identity())
        frames.append(Frame(frame.name, at, X @ frame.pose))
    kept = [link for i, link in model.outward() if i not in fixed]
    q_map = np.array([n for link in kept for n in range(link.q.start, link.q.stop)], dtype=int)
    v_map = np.array([n for link in kept for n in range(link.v.start, link.v.stop)], dtype=int)
    positions = {link.joint: float(standing[link.q.start]) for i, link in model.outward() if i in fixed and link.kind.nv == 1}
    slim = replace(
        model,
        links=tuple(links),
        frames=tuple(frames),
        visuals=tuple(visuals),
        collisions=tuple(collisions),
        loops=moving_loops(model.loops, frames, model.name),
        keyframes={name: Keyframe(key.q[q_map], key.v[v_map], key.u) for name, key in model.keyframes.items()},
        actuators=tuple(actuator.locked(positions) for actuator in model.actuators),
        tendons=tuple(tendon for each in model.tendons if (tendon := each.locked(positions)).joints),
    )
    return Locked(slim, q_map, v_map, standing, model.nv)
