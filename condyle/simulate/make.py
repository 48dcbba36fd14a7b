"""From what people write to a World: names, options and functions checked, each with one sentence if it cannot be."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from condyle.errors import SimulationError
from condyle.multibody.robot import Robot
from condyle.robot import edit
from condyle.simulate.numbers import finite, not_negative, positive, whole
from condyle.simulate.points import ContactPoint, Contacts, contact_points
from condyle.simulate.terrain import Ground
from condyle.simulate.world import JointForces, World, joint_forces
from condyle.tape.trace import trace

MANY = 64  # contact points that are taken without being asked for


def make_world(
    robot: Robot,
    h: float,
    ground: Ground | None,
    contacts: Contacts,
    *,
    integrator: str,
    cone: str | int,
    rest_depth_mm: float,
    smoothing: float,
    limits: bool,
    limit_depth: float,
    joint_friction: bool,
    damping: bool,
    torque_limits: bool,
    springs: Mapping[str, tuple[float, float]] | None,
    actuated: Sequence[str] | None,
    wrenches: Sequence[str],
    force: Callable[..., Any] | None,
    depth_exponent: int,
) -> World:
    """The world of a simulation whose physics makes steps of h."""
    model = robot.model
    if not model.nv:
        raise SimulationError(f"robot '{model.name}' has no joint that moves, so there is nothing to simulate")
    if robot.coordinate_map is not None and integrator == "backward_euler":
        raise SimulationError(
            f"robot '{model.name}' is constrained, and backward_euler is for robots without constraints; take another integrator"
        )
    depth = positive("Simulation", "rest_depth_mm", rest_depth_mm) / 1000.0
    for name in wrenches:
        model.frame(name)
    joints = joint_forces(
        model,
        limits=limits,
        friction=joint_friction,
        damping=damping,
        efforts=torque_limits,
        depth=depth,
        limit_depth=positive("Simulation", "limit_depth", limit_depth),
        coordinate_map=robot.coordinate_map,
    )
    world = World(
        model,
        h,
        ground,
        _points(robot, ground, contacts),
        pyramid=_directions(cone),
        power=whole("Simulation", "depth_exponent", depth_exponent, 1),
        depth=depth,
        smoothing=positive("Simulation", "smoothing", smoothing),
        joints=_with_springs(robot, joints, springs or {}),
        actuated=_actuated(robot, actuated),
        wrenches=tuple((name, "world_aligned") for name in wrenches),
        implicit=integrator in ("semi_implicit_euler", "backward_euler"),
        coordinate_map=robot.coordinate_map,
    )
    if force is None:
        return world
    if not callable(force):
        raise SimulationError(f"force must be a function (model, q, v) or (model, q, v, t) -> joint forces, got {force!r:.40}")
    return replace(world, force=_with_time(force), force_key=_force_key(world, force), timed=_takes_time(force))


def _points(robot: Robot, ground: Any, contacts: Contacts) -> tuple[ContactPoint, ...]:
    if ground is None:
        return ()
    if not all(hasattr(ground, name) for name in ("distance", "friction", "key")):
        raise SimulationError(f"the ground must be a Plane, Slope, Stairs, HeightField or Terrain, or None; got {ground!r:.40}")
    points = contact_points(robot.model, contacts)
    if contacts is None and len(points) > MANY:
        raise SimulationError(
            f"the collision shapes of robot '{robot.name}' have {len(points)} contact points, which is slow; name those that "
            'matter, for example its feet, with contacts=..., or write contacts="collisions" for all'
        )
    return points


def _directions(cone: str | int) -> int:
    if cone == "round":
        return 0
    if isinstance(cone, (str, bool)) or cone not in range(3, 33):
        raise SimulationError(f'the cone must be "round" or the number of directions of a pyramid, 3 to 32; got {cone!r:.40}')
    return int(cone)


def _actuated(robot: Robot, names: Sequence[str] | None) -> tuple[int, ...]:
    if names is None:
        base = robot.model.base_coordinates
        passive = set() if robot.coordinate_map is None else robot.coordinate_map.passive
        links = [link for link in robot.model.links if link.joint not in passive]
        return tuple(k for link in links for k in range(link.v.start, link.v.stop) if k not in base)
    links = [robot.model.links[edit.only(robot.model, name)] for name in names]
    return tuple(k for link in links for k in range(link.v.start, link.v.stop))


def _with_springs(robot: Robot, given: Sequence[JointForces], springs: Mapping[str, Any]) -> tuple[JointForces, ...]:
    joints = list(given)
    for name, pair in springs.items():
        try:
            stiffness, rest = pair
        except (TypeError, ValueError):
            raise SimulationError(f"the spring of joint '{name}' must be (stiffness, rest), got {pair!r:.40}") from None
        link = robot.model.links[edit.only(robot.model, name)]
        if link.kind.nv != 1:
            raise SimulationError(f"joint '{name}' has {link.kind.nv} coordinates; a spring needs a joint with one")
        stiffness = not_negative("Simulation", f"the spring of joint '{name}'", stiffness)
        joints[link.v.start] = replace(
            joints[link.v.start], spring=stiffness, rest=finite("Simulation", f"the rest of the spring of joint '{name}'", rest)
        )
    return tuple(joints)


def _takes_time(force: Callable[..., Any]) -> bool:
    return len(inspect.signature(force).parameters) > 3


def _with_time(force: Callable[..., Any]) -> Callable[..., Any]:
    """The function with four arguments, time the last."""
    return force if _takes_time(force) else lambda model, q, v, t: force(model, q, v)


def _force_key(world: World, force: Callable[..., Any]) -> str:
    """What a user's force computes, as a hash of its tape."""
    full = _with_time(force)

    def traced(q: Any, v: Any, t: Any) -> Any:
        return {"tau": np.asarray(full(world.model, q, v, t[0]), dtype=object)}

    tape = trace(traced, q=world.model.nq, v=world.model.nv, t=1)
    if tape.outputs[0].shape != (world.model.nv,):
        raise SimulationError(
            f"force must give {world.model.nv} joint forces, one for each entry of v; it gives the shape {tape.outputs[0].shape}"
        )
    return tape.hash
