"""From names and options to a World: contact points, frames of wrenches, actuated joints, springs and the user's force."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from condyle.dynamics.kinematics import poses
from condyle.errors import SimulationError
from condyle.multibody.robot import Robot
from condyle.robot import edit
from condyle.robot.joints import Free, Prismatic
from condyle.robot.model import Model
from condyle.simulate.config import SimulationConfig
from condyle.simulate.points import ContactPoint, Contacts, contact_points, movable
from condyle.simulate.terrain import Ground, Plane
from condyle.simulate.world import JointForces, World, joint_forces, start_of
from condyle.tape.frozen_random import watch_random
from condyle.tape.scalar import constant
from condyle.tape.trace import trace

MAX_REST_DEPTH = 1e-3  # m
LEVEL = 1e-9  # the vertical part of a unit axis up to which it is level
AXES = ("world_aligned", "local")
Wrenches = str | Iterable[str | tuple[str, str]] | Mapping[str, str]


def build_world(robot: Robot, config: SimulationConfig) -> World:
    """The world of a robot with these options; its time step is that of the physics, dt / substeps."""
    model = robot.model
    if not model.nv:
        raise SimulationError(f"robot '{model.name}' has no joint that moves, so there is nothing to simulate")
    if not robot.coordinate_map.identity and config.integrator == "backward_euler":
        raise SimulationError(
            f"robot '{model.name}' is constrained, and backward_euler is for robots without constraints; take another integrator"
        )
    points = points_that_move(robot, config)
    massless = all(constant(link.inertia.mass) == 0.0 for link in model.links)
    if massless and (points or all(constant(link.armature) == 0.0 for link in model.links)):
        raise SimulationError(
            f"robot '{model.name}' has no mass: give its links an <inertial>, or let `condyle doctor FILE --fix` estimate them"
        )
    depth = default_rest_depth(robot, points) if config.rest_depth_mm is None else config.rest_depth_mm / 1000.0
    joints = joint_forces(
        model,
        robot.coordinate_map,
        limits=config.limits,
        friction=config.joint_friction,
        damping=config.damping,
        efforts=config.torque_limits,
        depth=depth,
        limit_depth=config.limit_depth,
    )
    world = World(
        model,
        robot.coordinate_map,
        config.dt / config.substeps,
        config.ground,
        points,
        pyramid=config.pyramid,
        power=config.depth_exponent,
        depth=depth,
        on_surface=config.integrator != "backward_euler",  # whose Newton method needs the softer law
        smoothing=config.smoothing,
        recovery_time=config.recovery_time,
        joints=_with_springs(robot, joints, config),
        tendon_limits=config.limits,
        actuated=_actuated(robot, config.actuated),
        wrenches=wrench_frames(robot, config.wrenches),
        implicit=config.integrator in ("semi_implicit_euler", "backward_euler"),
        substeps=config.substeps,
    )
    if config.force is None:
        return world
    timed = len(inspect.signature(config.force).parameters) > 3
    force = config.force if timed else _without_time(config.force)
    return replace(world, force=force, force_key=_force_key(world, force), timed=timed)


def default_rest_depth(robot: Robot, points: tuple[ContactPoint, ...]) -> float:
    """A hundredth of the largest side of the box about links and contact spheres where the robot begins, at most 1 mm, m."""
    model = robot.model
    X = poses(model, start_of(model, robot.coordinate_map)[0])
    places = [X[i].point(np.asarray(link.inertia.h) / (link.inertia.mass or 1.0)) for i, link in enumerate(model.links)]
    spheres = [(X[p.link].point(np.array(p.position)), p.radius) for p in points]
    low = np.min([*places, *[c - r for c, r in spheres]], axis=0)
    high = np.max([*places, *[c + r for c, r in spheres]], axis=0)
    size = float(np.max(high - low))
    # two digits, so that the last bits of a sine do not matter
    return min(float(f"{size / 100.0:.2g}"), MAX_REST_DEPTH) if size > 0.0 else MAX_REST_DEPTH


def chosen_contacts(robot: Robot, ground: Ground | None, contacts: Contacts) -> tuple[ContactPoint, ...]:
    """The contact points that `contacts` names, "auto" by default; none without ground."""
    return () if ground is None else contact_points(robot.model, contacts)


def points_that_move(robot: Robot, config: SimulationConfig) -> tuple[ContactPoint, ...]:
    """The contact points that some joint moves; SimulationError if none of several does."""
    if config.ground is None or not config.contacts:
        return ()
    points = movable(robot.model, contact_points(robot.model, config.contacts))
    if not points:
        names = ", ".join(f"'{point.name}'" for point in config.contacts[:3])
        raise SimulationError(
            f"robot '{robot.name}': no joint moves the contact points {names}: they are on the axis of the only joint "
            "before them; take points farther out"
        )
    return tuple(points)


def ground_of_file(robot: Robot) -> Plane | None:
    """The floor of an MJCF file below a robot that moves freely or slides in the world; None for one that is bolted to it or
    cannot move up or down."""
    written = robot.model.ground
    moves = any(link.parent < 0 and isinstance(link.kind, Free | Prismatic) for link in robot.model.links)
    if written is None or not moves or not rises(robot.model):
        return None
    return Plane(written.friction, offset=written.height)


def rises(model: Model) -> bool:
    """Whether some joint moves something up or down: not where all turn about a vertical axis or slide along the level."""
    motions = [X @ axis for X, link in zip(poses(model, model.written()), model.links, strict=True) for axis in link.axes]
    return any(max(abs(m.angular[0]), abs(m.angular[1]), 0.0 if np.any(m.angular) else abs(m.linear[2])) > LEVEL for m in motions)


def wrench_frames(robot: Robot, wrenches: Wrenches) -> tuple[tuple[str, str], ...]:
    """(frame, axes) of each wrench: from a name, a pattern with *, a list of these and of (name, axes), or {name: axes}."""
    found: list[tuple[str, str]] = []
    items = wrenches.items() if isinstance(wrenches, Mapping) else wrenches
    for item in [items] if isinstance(items, str) else items:
        pair = (item, AXES[0]) if isinstance(item, str) else tuple(item) if isinstance(item, Iterable) else ()
        if len(pair) != 2 or not isinstance(pair[0], str):
            raise SimulationError(f"a wrench is named by a frame, or by (frame, axes); got {item!r:.60}")
        name, axes = pair
        if axes not in AXES:
            raise SimulationError(f"the axes of the wrench at '{name}' must be {' or '.join(AXES)}; got {axes!r:.40}")
        names = [frame for frame in robot.frame_names if fnmatchcase(frame, name)] if "*" in name else []
        found += [(frame, axes) for frame in names or [robot.model.frame(name).name]]
    return tuple(dict.fromkeys(found))


def spring_list(springs: Mapping[str, tuple[float, float]] | None) -> tuple[tuple[str, float, float], ...]:
    """(joint, stiffness, rest) of each spring in {joint: (stiffness, rest)}."""
    out = []
    for name, pair in (springs or {}).items():
        try:
            stiffness, rest = pair
        except (TypeError, ValueError):
            raise SimulationError(f"the spring of joint '{name}' must be (stiffness, rest), got {pair!r:.40}") from None
        out.append((name, stiffness, rest))
    return tuple(out)


def _actuated(robot: Robot, names: tuple[str, ...] | None) -> tuple[int, ...]:
    """The velocity indices with a motor: those of the named joints, or all but the base's and those of passive joints."""
    if names is None:
        base = robot.model.base_coordinates
        passive = robot.coordinate_map.passive
        links = [link for link in robot.model.links if link.joint not in passive]
        return tuple(k for link in links for k in range(link.v.start, link.v.stop) if k not in base)
    links = [robot.model.links[edit.only(robot.model, name)] for name in names]
    return tuple(k for link in links for k in range(link.v.start, link.v.stop))


def _with_springs(robot: Robot, given: tuple[JointForces, ...], config: SimulationConfig) -> tuple[JointForces, ...]:
    joints = list(given)
    for name, stiffness, rest in config.springs:
        link = robot.model.links[edit.only(robot.model, name)]
        if link.kind.nv != 1:
            raise SimulationError(f"joint '{name}' has {link.kind.nv} coordinates; a spring needs a joint with one")
        joints[link.v.start] = replace(joints[link.v.start], spring=stiffness, rest=rest)
    return tuple(joints)


def _without_time(force: Callable[..., Any]) -> Callable[..., Any]:
    return lambda model, q, v, t: force(model, q, v)


def _force_key(world: World, force: Callable[..., Any]) -> str:
    """The hash of the tape of a user's force."""

    def traced(q: Any, v: Any, t: Any) -> Any:
        return {"tau": np.asarray(force(world.model, q, v, t[0]), dtype=object)}

    with watch_random(force):
        tape = trace(traced, q=world.model.nq, v=world.model.nv, t=1)
    if tape.outputs[0].shape != (world.model.nv,):
        raise SimulationError(
            f"force must give {world.model.nv} joint forces, one for each entry of v; it gives the shape {tape.outputs[0].shape}"
        )
    return tape.hash
