"""A robot in its world, as given on a command line: which ground, which contacts, and where the robot stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from math import inf
from typing import Any

import numpy as np

from condyle.commands.source import Origin
from condyle.dynamics.kinematics import poses
from condyle.errors import SimulationError
from condyle.multibody.robot import Robot
from condyle.robot.joints import Free, Prismatic
from condyle.robot.model import Link, Model
from condyle.robot.names import nearest
from condyle.simulate.numbers import finite
from condyle.simulate.points import ContactPoint, contact_points
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Ground, Plane, Slope


@dataclass(frozen=True)
class Scene:
    """What a command line says about a world."""

    origin: Origin
    dt: float = 0.002
    ground: str | None = None
    friction: float = 0.8
    contacts: tuple[str, ...] = ()
    integrator: str = "semi_implicit_euler"

    def simulation(self, **options: Any) -> Simulation:
        """The robot in its world; a base that moves stands on a plane unless told otherwise."""
        robot = self.origin.load()
        text = self.ground or ("plane" if robot.model.base_coordinates else "none")
        under = ground(text, self.friction)
        if under is None and self.contacts:
            raise SimulationError("there are --contacts but no ground to touch: add --ground plane")
        points = (list(self.contacts) or feet(robot.model) or None) if under is not None else None
        return Simulation(robot, self.dt, under, points, integrator=self.integrator, **options)


def ground(text: str, friction: float = 0.8) -> Ground | None:
    """The ground that `text` names: plane, none, or slope:DEGREES."""
    kind, _, number = text.partition(":")
    if text == "none":
        return None
    if text == "plane":
        return Plane(friction)
    try:
        if kind == "slope":
            return Slope(float(number), friction=friction)
    except ValueError as error:
        if isinstance(error, SimulationError):
            raise
    raise SimulationError(f"--ground must be plane, none or slope:DEGREES, as in slope:10; got {text!r:.40}")


def feet(model: Model) -> list[ContactPoint]:
    """The contact points of what is called a foot: shapes of that name, else the spheres about frames of that name."""
    from condyle.doctor.stance import is_foot

    known = [link.name for link in model.links if link.collisions]
    known += [shape.name for link in model.links for shape in link.collisions if shape.name]
    shapes = [name for name in dict.fromkeys(known) if is_foot(name)]
    if shapes:
        try:
            return list(contact_points(model, shapes))
        except SimulationError:  # only meshes
            pass
    named = [frame.name for frame in model.frames if frame.link >= 0 and is_foot(frame.name)]
    found: list[ContactPoint] = []
    for point in contact_points(model, named) if named else ():
        if not any(p.link == point.link and np.allclose(p.position, point.position, atol=1e-9) for p in found):
            found.append(point)
    return [_rounded(model, point) for point in found]


def _rounded(model: Model, point: ContactPoint) -> ContactPoint:
    """The point with the radius of the collision sphere that it is the centre of."""
    for shape in model.links[point.link].collisions:
        if shape.kind == "sphere" and np.allclose(shape.pose.p, point.position, atol=1e-3):
            return replace(point, position=shape.pose.p, radius=shape.size[0])
    return point


def posed(robot: Robot, texts: Sequence[str]) -> np.ndarray:
    """q with joints, or all joints whose names match, where NAME=VALUE says, else at zero or, beyond their limits, at the nearer.

    * stands for any letters.
    """
    q, joints = robot.neutral(), named_joints(robot)
    spans = {link.joint: limits(link) for link in robot.reduced.links}
    for joint, i, _ in joints:
        low, high = spans[joint]
        q[i] = min(max(q[i], low), high)
    for text in texts:
        name, _, value = text.partition("=")
        found = [i for joint, i, _ in joints if fnmatchcase(joint, name)]
        if not found:
            raise SimulationError(
                f"--joint {text}: robot '{robot.name}' has no joint '{name}'{nearest(name, [j for j, _, _ in joints])}"
            )
        try:
            q[found] = finite("--joint", name, float(value))
        except ValueError:
            raise SimulationError(f"--joint {text}: write NAME=VALUE with a number, as in --joint {name}=0.5") from None
        for joint, i, _ in joints:
            low, high = spans[joint]
            if i in found and not low <= q[i] <= high:
                raise SimulationError(
                    f"--joint {text}: {q[i]:g} is beyond the limits of '{joint}': give a value from {low:.6g} to {high:.6g}"
                )
    return q


def limits(link: Link) -> tuple[float, float]:
    """Between which values a joint may be, infinite where the file says nothing."""
    low, high = link.limits.lower, link.limits.upper
    return -inf if low is None else low, inf if high is None else high


def placed(simulation: Simulation, q: np.ndarray, height: float) -> np.ndarray:
    """q with its base moved up or down until the lowest contact is `height` above the ground, where there are both."""
    up, under = upward(simulation.robot), simulation.ground
    if up is None or under is None:
        return q
    gap, rise = min(
        (float(distance) - point.radius, float(normal[2]))
        for point, (distance, normal) in zip(simulation.contact_points, map(under.distance, places(simulation, q)), strict=True)
    )
    q = q.copy()
    q[up] += (height - gap) / rise
    return q


def places(simulation: Simulation, q: np.ndarray) -> list[np.ndarray]:
    """Where the centres of the contact points are in the world."""
    robot = simulation.robot
    X = poses(robot.model, q if robot.coordinate_map is None else robot.lift(q, np.zeros(robot.nv))[0])
    return [np.asarray(X[p.link].point(p.position), dtype=float) for p in simulation.contact_points]


def upward(robot: Robot) -> int | None:
    """The entry of q that lifts the base; None if it cannot be lifted."""
    first = robot.reduced.links[0]
    if isinstance(first.kind, Free):
        return int(first.q.start) + 2
    vertical = robot.reduced.base_link("z")
    return None if vertical is None else int(robot.reduced.links[vertical].q.start)


def base_frame(robot: Robot) -> str:
    """The frame of the link that the base moves, or of the first link that moves at all."""
    last = max((i for i, link in robot.model.outward() if link.base), default=0)
    return next(frame.name for frame in robot.model.frames if frame.link == last)


def push_frame(robot: Robot) -> str | None:
    """The frame that a push acts on: the base, or the tip of an arm; None if no push on either would move anything."""
    links = robot.model.links
    if robot.model.base_coordinates or isinstance(links[0].kind, Prismatic):
        return base_frame(robot)
    if any(link.parent != i - 1 for i, link in enumerate(links)):
        return None
    frames = [frame for frame in robot.model.frames if frame.link == len(links) - 1]
    tip = max(frames, key=lambda frame: float(np.linalg.norm(frame.pose.p)))
    return tip.name if len(links) > 1 or np.linalg.norm(tip.pose.p) > 0.0 else None


def named_joints(robot: Robot) -> Sequence[tuple[str, int, int]]:
    """(name, place in q, place in v) of every joint with one coordinate that is not part of the base and follows nothing."""
    links = [link for link in robot.reduced.links if link.kind.nv == 1 and not link.base]
    return [(link.joint, link.q.start, link.v.start) for link in links]
