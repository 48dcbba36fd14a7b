"""A load on a cable below a vehicle, and servos' joints with damping: changes of the robot's model."""

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
    links, at, parent, placement = list(model.links), (model.nq, model.nv), 0, pose(load.at)
    for k, (name, kind) in enumerate(kinds):
        last = k == len(kinds) - 1
        link = Link(
            "load" if last else "cable",
            name,
            parent,
            kind,
            placement,
            body if last else Inertia.zero(),
            slice(at[0], at[0] + kind.nq),
            slice(at[1], at[1] + kind.nv),
            damping=load.damping,
            visuals=shapes if last else (),
            collisions=touch if last else (),
        )
        links.append(link)
        at, parent, placement = (at[0] + kind.nq, at[1] + kind.nv), len(links) - 1, Pose.identity()
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
