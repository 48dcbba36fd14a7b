"""What a vehicle's robot is given besides its file: a load on a cable, arms that bend, damping for servos in torque form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from condyle.dynamics.crba import mass_matrix
from condyle.errors import ControlError
from condyle.multibody.robot import Robot
from condyle.robot.joints import Ball, Kind, Revolute
from condyle.robot.model import Frame, Link, Model
from condyle.robot.parts import DARK, RED, pose, rod, solid, sphere
from condyle.robot.spatial import Inertia, Pose

JOINTS = ("ball", "universal")
FAST = 30.0  # the lag of a servo over I / D, for joints without damping of their own


@dataclass(frozen=True)
class Load:
    """A sphere of `mass` (kg) and `radius` (m) at the end of a cable of `length` (m) that stays taut: a rod without mass.

    It hangs at the point `at` of the base, m, by a "ball" joint, or by a "universal" one, about x and then y, which does not
    twist. `damping` in N m s/rad.
    """

    mass: float
    length: float
    at: tuple[float, float, float] = (0.0, 0.0, 0.0)
    joint: str = "universal"
    radius: float = 0.03
    damping: float = 0.0

    def __post_init__(self) -> None:
        for name in ("mass", "length", "radius"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not isfinite(value) or value <= 0.0:
                raise ControlError(f"Load: {name} must be greater than 0, got {value!r:.40}")
        if self.joint not in JOINTS:
            raise ControlError(f"Load: joint must be 'ball' or 'universal', got {self.joint!r:.40}")
        if np.shape(self.at) != (3,) or not np.all(np.isfinite(self.at)):
            raise ControlError(f"Load: at must be three numbers from the origin of the base, m; got {self.at!r:.60}")


def with_load(robot: Robot, load: Load) -> Robot:
    """The robot with a load on its base: a link "load", and a frame "load" at its centre."""
    model = robot.model
    body = solid(load.mass, sphere(load.radius, (0.0, 0.0, -load.length)))
    shapes = (rod((0.0, 0.0, 0.0), (0.0, 0.0, -load.length), 0.002, DARK), sphere(load.radius, (0.0, 0.0, -load.length), RED))
    touch = (sphere(load.radius, (0.0, 0.0, -load.length), name="load_sphere"),)
    kinds: list[tuple[str, Kind]] = [("load_joint", Ball())]
    if load.joint == "universal":
        kinds = [("load_x", Revolute((1.0, 0.0, 0.0))), ("load_y", Revolute((0.0, 1.0, 0.0)))]
    links, parent, placement = list(model.links), 0, pose(load.at)
    for k, (name, kind) in enumerate(kinds):
        last = k == len(kinds) - 1
        body_of = body if last else Inertia.zero()
        link = Link("load" if last else "cable", name, parent, kind, placement, body_of, slice(0), slice(0), damping=load.damping)
        links.append(_appended(links, replace(link, visuals=shapes, collisions=touch) if last else link))
        parent, placement = len(links) - 1, Pose.identity()
    frame = Frame("load", len(links) - 1, pose((0.0, 0.0, -load.length)))
    return Robot(_checked(replace(model, links=tuple(links), frames=(*model.frames, frame))))


def _checked(model: Model) -> Model:
    names = [frame.name for frame in model.frames]
    if len(set(names)) < len(names):
        raise ControlError(f"robot '{model.name}' has a frame 'load' already; give it another name")
    return model


def with_damping(robot: Robot, joints: Sequence[str], lags: Any) -> Robot:
    """The robot with damping in the joints that have none: so much that a servo against it follows its lag."""
    M = np.array(mass_matrix(robot.model, robot.model.neutral()), dtype=float)
    inverse, links = np.linalg.inv(M), list(robot.model.links)
    for i, link in robot.model.outward():
        if link.joint in joints and not link.damping:
            j = link.v.start
            links[i] = replace(link, damping=FAST / inverse[j, j] / float(lags[list(joints).index(link.joint)]))
    return Robot(replace(robot.model, links=tuple(links)))


@dataclass(frozen=True)
class ElasticArms:
    """Arms that bend: each gimbal is carried by a spring hinge about the horizontal axis across its arm.

    `stiffness` in N m/rad, `damping` in N m s/rad. `root`: where the hinge is on the line from the vertical axis of the base to
    the gimbal, 0 to 1. The joints are called GIMBAL_arm; up is positive.
    """

    stiffness: float
    damping: float = 0.0
    root: float = 0.25

    def __post_init__(self) -> None:
        for name, least in (("stiffness", 1e-9), ("damping", 0.0), ("root", 0.0)):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not isfinite(value) or value < least:
                raise ControlError(f"ElasticArms: {name} must be a number of at least {least:g}, got {value!r:.40}")
        if self.root >= 1.0:
            raise ControlError(f"ElasticArms: root is a part of the arm, below 1; got {self.root!r:.40}")


def with_elastic_arms(robot: Robot, gimbals: Sequence[str], arms: ElasticArms) -> Robot:
    """The robot with a spring hinge before each gimbal that sits on the base."""
    model = robot.model
    links: list[Link] = []
    number: list[int] = []  # old link -> new link
    for _, link in model.outward():
        parent = number[link.parent] if link.parent >= 0 else -1
        placement = link.placement
        if link.joint in gimbals and link.parent == 0:
            p = np.asarray(link.placement.p, dtype=float)
            reach = float(np.hypot(p[0], p[1]))
            if reach == 0.0:
                raise ControlError(f"ElasticArms: gimbal '{link.joint}' is on the vertical axis of its base and has no arm")
            hinge = Pose(np.eye(3), p * np.array([arms.root, arms.root, 1.0]))
            # up is positive: about the axis across that points to the right, seen along the arm
            kind = Revolute((float(p[1]) / reach, float(-p[0]) / reach, 0.0))
            name = f"{link.joint}_arm"
            links.append(_appended(links, Link(name, name, parent, kind, hinge, Inertia.zero(), slice(0), slice(0))))
            links[-1] = replace(links[-1], stiffness=float(arms.stiffness), damping=float(arms.damping))
            parent, placement = len(links) - 1, Pose(link.placement.R, p - hinge.p)
        links.append(_appended(links, replace(link, parent=parent, placement=placement)))
        number.append(len(links) - 1)
    frames = tuple(replace(frame, link=number[frame.link] if frame.link >= 0 else -1) for frame in model.frames)
    return Robot(replace(model, links=tuple(links), frames=frames, keyframes={}))


def _appended(links: Sequence[Link], link: Link) -> Link:
    """The link with coordinates that follow those of the links before."""
    q, v = (links[-1].q.stop, links[-1].v.stop) if links else (0, 0)
    return replace(link, q=slice(q, q + link.kind.nq), v=slice(v, v + link.kind.nv))
