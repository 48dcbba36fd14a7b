"""Builders of coordinate maps: each adds a constraint to a map, and gives the new map."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import numpy as np

from condyle.constraints.assembly import Names, assembled
from condyle.constraints.continuation import misfit, with_guess
from condyle.constraints.coordinate_map import CoordinateMap
from condyle.constraints.couplings import Coupled, coupling_of
from condyle.constraints.loop_residuals import Condition, Conditions, closure_of
from condyle.constraints.loops import Loops
from condyle.constraints.reduced_coordinates import floats, remaining_joint
from condyle.constraints.rolling import Wheel, planar_roll, rolling
from condyle.dynamics.kinematics import frame_pose
from condyle.errors import RobotError
from condyle.robot.couplings import linear_couplings
from condyle.robot.edit import matching
from condyle.robot.model import Model


class ClosingOptions(TypedDict, total=False):
    """Options of constraints that are closed from a pose."""

    q: Any  # a pose near a closed one; zero, or the last closed pose, by default
    independent: Names  # the joints that remain, of those in loops
    dependent: Names  # the joints that follow; by default they are chosen by pivoting at the closed pose
    through: bool  # go straight on beyond singular poses, where the mechanism could go on in two ways


def from_description(model: Model) -> CoordinateMap:
    """The constraints that a description states: mimic joints follow, and loops close from a keyframe or the written pose."""
    out = CoordinateMap(model)
    if couplings := linear_couplings(model):
        out = couple(out, couplings)
    if model.loops:
        loops = [(loop.frame_a, loop.frame_b, loop.axes, loop.name) for loop in model.loops]
        conditions = tuple(closure_of(model, loop) for loop in loops)
        *before, last = _first_poses(model, out.reduced)
        for q in before:
            with suppress(RobotError):
                return closed(out, conditions, q, within_limits=True)
        out = closed(out, conditions, last, within_limits=True)
    return out


def _first_poses(model: Model, reduced: Model) -> list[np.ndarray]:
    """Poses from which described loops may be closed: the keyframe that is called home, or the first, and the written one."""
    keyframe = model.keyframes.get("home", next(iter(model.keyframes.values()), None))
    poses = [reduced.written()]
    if keyframe is not None:
        number = {link.joint: link for link in model.links}
        poses.insert(0, np.concatenate([np.asarray(keyframe.q)[number[link.joint].q] for link in reduced.links]))
    return poses


def couple(lower: CoordinateMap, couplings: Mapping[str, Any]) -> CoordinateMap:
    """Joints that follow others in proportion: {joint: (other joint, ratio, offset)}."""
    if not couplings:
        raise RobotError(f"robot '{lower.full.name}': name the joints that follow, as {{'joint': ('other', ratio, offset)}}")
    rows, below = tuple(coupling_of(name, row) for name, row in couplings.items()), holonomic(lower)
    for name in [name for c in rows for name in (c.joint, *c.ratios)]:
        remaining_joint(lower.full, below, name)
    return lower.extended(Coupled(below, rows))


def close_loops(lower: CoordinateMap, loops: Sequence[tuple[Any, ...]], **options: Unpack[ClosingOptions]) -> CoordinateMap:
    """Frames that stay on each other, each loop (frame_a, frame_b, axes) with a name or without."""
    new = tuple(closure_of(lower.full, loop) for loop in loops)
    if not new:
        raise RobotError(f"robot '{lower.full.name}': name the loops to close, as [(frame_a, frame_b, axes), ...]")
    return closed(lower, new, **options)


def on_surface(model: Model, frame: str, surface: Callable[..., Any]) -> Condition:
    """The condition surface(p) = 0 for the origin p of a frame in the world."""
    model.frame(frame)
    if not callable(surface):
        raise RobotError(f"the surface must be a function of a position (x, y, z) that is zero on it; got {surface!r:.40}")
    return Condition.of(model, f"{frame} on surface", lambda model, q: surface(frame_pose(model, q, frame).p))


def roll(
    lower: CoordinateMap,
    wheels: str | Sequence[str],
    radius: float,
    ground: Callable[[Any], Any] | None,
    independent: str | Names,
) -> CoordinateMap:
    """Wheels that roll on the ground z = 0 without slipping; in the plane, the ground may be a function of x."""
    model = lower.full
    hinges = listed_names(wheels) if isinstance(wheels, Iterable) else None
    if not hinges:
        raise RobotError(f"robot '{model.name}': name the hinges of the wheels that roll")
    found = tuple(Wheel.of(model, name, radius) for name in hinges)
    below = holonomic(lower)
    if model.base_link("free") is not None:
        raise RobotError(f"robot '{model.name}': in space wheels roll under the base 'euler': load it with base='euler'")
    if model.base_link("y") is None:
        if len(found) > 1 or not lower.identity:
            raise RobotError(
                f"robot '{model.name}': in the plane one wheel rolls, under a robot without other constraints; "
                "two wheels side by side are one there"
            )
        return lower.extended(planar_roll(below, found[0], ground))
    if ground is not None:
        raise RobotError(f"robot '{model.name}': in space wheels roll on flat ground only; leave ground= out")
    return lower.extended(*rolling(model, lower, found, listed_names(independent)))


def listed_names(names: str | Iterable[str] | None) -> list[str] | None:
    """One name or several, as a list."""
    return [names] if isinstance(names, str) else None if names is None else list(names)


def closed(
    lower: CoordinateMap,
    new: Conditions,
    q: Any = None,
    independent: Names = None,
    dependent: Names = None,
    through: bool = False,
    within_limits: bool = False,
) -> CoordinateMap:
    """With more conditions; those of closed loops on top are solved together with them."""
    holonomic(lower)
    model, reduced = lower.full, lower.reduced
    conditions, begin, below = new, lower.start, reduced
    top = None if lower.identity else lower.constraints[-1]
    if isinstance(top, Loops):
        lower, conditions, begin, below = lower.first(-1), (*top.conditions, *new), top.first.copy(), top.below
        through = through or top.through
    if q is not None:
        given = floats(model, "q", q)
        if given.shape not in ((reduced.nq,), (below.nq,)) or not np.all(np.isfinite(given)):
            got = f"the shape {given.shape}" if given.ndim != 1 or np.all(np.isfinite(given)) else f"{given}"
            raise RobotError(f"robot '{model.name}': q, a pose near a closed one, must be {reduced.nq} finite numbers; got {got}")
        # the coordinates that follow in loops closed before begin where they are
        if isinstance(top, Loops) and given.shape == (reduced.nq,):
            begin[top.kept[0]] = given
        else:
            begin = given
    remain, follow = listed_names(independent), listed_names(dependent)
    for joint in (*(remain or ()), *(follow or ())):
        remaining_joint(model, below, joint)
    mechanism, loops = assembled(model, lower, conditions, begin, remain, follow, within_limits)
    loops = replace(loops, through=through, misfit=misfit(mechanism, loops))
    return mechanism.lower.extended(with_guess(mechanism, loops))


def holonomic(lower: CoordinateMap) -> Model:
    """The reduced coordinates; an error where the velocities are not their rates."""
    if not lower.holonomic or (lower.constraints and getattr(lower.constraints[-1], "map", None) is not None):
        raise RobotError(
            f"robot '{lower.full.name}' rolls already: its velocities are others than its coordinates have; "
            "put other constraints before that"
        )
    return lower.reduced


def with_coupled(model: Model, names: str | Sequence[str]) -> list[str]:
    """The joints of these names or prefixes, with those they follow and those that follow them."""
    joints = {model.links[i].joint for i in matching(model, names)}
    couplings = linear_couplings(model)
    leaders = {couplings[joint][0] if joint in couplings else joint for joint in joints}
    return sorted(joints | leaders | {joint for joint, (leader, _, _) in couplings.items() if leader in leaders})
