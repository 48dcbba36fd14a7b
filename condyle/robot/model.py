"""A Model: the robot as the physics sees it. Moving links in order, parents first, each with the joint that moves it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from condyle.errors import RobotError
from condyle.robot.actuator import ActuatorSpec
from condyle.robot.description import Keyframe, Limits, LinkSpec, Mimic, Note, Shape, TendonSpec, WrittenGround, moved
from condyle.robot.joints import Kind
from condyle.robot.names import nearest
from condyle.robot.rotor import RotorData
from condyle.robot.spatial import Inertia, Motion, Pose

# motions that place a robot in the world, which no motor drives: of a free joint, and of a planar or euler base
BASE_MOTIONS = ("free", "x", "y", "z", "yaw", "pitch", "roll")

NOT_COMPENSATED = (0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Link:
    """A moving link: its joint takes it from `parent` (-1 is the world) by `placement` and the joint's own motion."""

    name: str
    joint: str
    parent: int
    kind: Kind
    placement: Pose  # the joint's frame in the parent, at zero
    inertia: Inertia  # about the joint's frame, fixed children included
    q: slice
    v: slice
    limits: Limits = field(default_factory=Limits)
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    mimic: Mimic | None = None
    visuals: tuple[Shape, ...] = ()
    collisions: tuple[Shape, ...] = ()
    written: tuple[float, ...] = ()  # its coordinates in the pose in which the robot is written; zero where nothing is said
    actuator_range: tuple[float, float] | None = None  # of the sum of its actuators' forces, N m or N
    base: str = ""  # the motion of the base that this joint is, one of BASE_MOTIONS; "" for a joint of the robot itself
    stiffness: float = 0.0  # of a spring about the coordinate `rest`
    rest: float = 0.0
    compensated: tuple[float, float, float, float] = NOT_COMPENSATED  # (mass, mass * position) whose weight a force carries
    limbs: int = 0  # of a link that stands for the first one of each limb (condyle/dynamics/limbs.py): how many there are

    def pose(self, q: Any) -> Pose:
        """X_pi: this link in its parent."""
        pose: Pose = self.placement @ self.kind.pose(q[self.q])
        return pose

    @property
    def axes(self) -> tuple[Motion, ...]:
        """The motions that unit joint velocities give, in the link's own frame."""
        return tuple(self.kind.velocity(e) for e in np.eye(self.kind.nv))

    def velocity(self, v: Any) -> Motion:
        """The joint's motion in the link's own frame."""
        return self.kind.velocity(v[self.v])

    def carrying(self, part: Link | LinkSpec, X: Pose) -> Link:
        """This link with a part fixed to it at the pose X: its inertia and shapes are added."""
        inertia = self.inertia if part.inertia is None else self.inertia + part.inertia.seen_from(X)
        visuals, collisions = (*self.visuals, *moved(part.visuals, X)), (*self.collisions, *moved(part.collisions, X))
        compensated = _compensated(part, X)
        if compensated != NOT_COMPENSATED:
            a, b = self.compensated, compensated
            compensated = (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3])
        else:
            compensated = self.compensated
        return replace(self, inertia=inertia, visuals=visuals, collisions=collisions, compensated=compensated)


def _compensated(part: Link | LinkSpec, X: Pose) -> tuple[float, float, float, float]:
    """(mass, mass * position) of a part whose weight is compensated, as seen from where it is fixed at the pose X."""
    if isinstance(part, Link):
        mass, h = part.compensated[0], np.array(part.compensated[1:])
    elif part.inertia is None or not part.gravity_compensation:
        return NOT_COMPENSATED
    else:
        mass, h = part.gravity_compensation * part.inertia.mass, part.gravity_compensation * np.asarray(part.inertia.h)
    x, y, z = X.R @ h + mass * X.p
    return float(mass), float(x), float(y), float(z)


@dataclass(frozen=True)
class Frame:
    """A named frame fixed to a moving link (-1: to the world)."""

    name: str
    link: int
    pose: Pose


@dataclass(frozen=True)
class Loop:
    """frame_b stays on frame_a in these relative displacements ("x", "y", "z", "rx", "ry", "rz"), in the axes of frame_a."""

    name: str
    frame_a: str
    frame_b: str
    axes: tuple[str, ...]


@dataclass(frozen=True)
class Model:
    """A robot with base, gravity and coordinates chosen. It never changes.

    `visuals` and `collisions` are the shapes fixed in the world. The links are a tree; `loops` close it. `keyframes`, `ground`,
    `timestep`, `actuators`, `rotors` and `tendons` are what the file has of them; condyle.blocks.RobotActuators simulates
    actuators, condyle.apps.flight.Vehicle rotors, and a Simulation the limits of tendons.
    """

    name: str
    links: tuple[Link, ...]
    frames: tuple[Frame, ...]
    gravity: tuple[float, float, float]
    notes: tuple[Note, ...] = ()
    visuals: tuple[Shape, ...] = ()
    collisions: tuple[Shape, ...] = ()
    loops: tuple[Loop, ...] = ()
    keyframes: Mapping[str, Keyframe] = field(default_factory=dict)
    ground: WrittenGround | None = None
    timestep: float | None = None
    actuators: tuple[ActuatorSpec, ...] = ()
    rotors: tuple[RotorData, ...] = ()
    tendons: tuple[TendonSpec, ...] = ()

    @property
    def nq(self) -> int:
        """How many coordinates it has."""
        return self.links[-1].q.stop if self.links else 0

    @property
    def nv(self) -> int:
        """How many velocities it has."""
        return self.links[-1].v.stop if self.links else 0

    def outward(self) -> Iterator[tuple[int, Link]]:
        """Links from the base to the tips."""
        return iter(enumerate(self.links))

    def inward(self) -> Iterator[tuple[int, Link]]:
        """Links from the tips to the base."""
        return iter([(i, self.links[i]) for i in reversed(range(len(self.links)))])

    def frame(self, name: str) -> Frame:
        """The frame of this name."""
        for frame in self.frames if isinstance(name, str) else ():
            if frame.name == name:
                return frame
        raise RobotError([f"robot '{self.name}' has no frame '{name!s:.60}'{nearest(name, [f.name for f in self.frames])}"])

    @property
    def base_coordinates(self) -> frozenset[int]:
        """The entries of v that place the robot in the world and have no motor; empty for a fixed base."""
        return frozenset(k for link in self.links if link.base for k in range(link.v.start, link.v.stop))

    def base_link(self, motion: str) -> int | None:
        """The first link that the base moves so, `motion` one of BASE_MOTIONS; None if the base does not move so."""
        return next((i for i, link in self.outward() if link.base == motion), None)

    def neutral(self) -> np.ndarray:
        """The configuration with every joint at zero; a quaternion (nq = nv + 1) ends with w = 1."""
        q = np.zeros(self.nq)
        for link in self.links:
            q[link.q.stop - 1] = link.kind.nq - link.kind.nv
        return q

    def written(self) -> np.ndarray:
        """The configuration in which the robot is written: where its loops are closed first. Zero, but for some MJCF files."""
        q = self.neutral()
        for link in self.links:
            q[link.q] = link.written or q[link.q]
        return q


def digest(model: Model) -> str:
    """A hash of all that physics can depend on in a model: its tree, joints, couplings, inertias, frames, loops and gravity.

    Damping, dry friction, limits and springs of joints with one coordinate are options of a world, which has them in its own key.
    """
    number = {link.joint: i for i, link in model.outward()}
    found = hashlib.sha256(repr(model.gravity).encode())
    for link in model.links:
        found.update(f"{link.parent} {link.kind!r} {link.q} {link.v} {link.armature!r} {link.inertia.mass!r}\n".encode())
        for array in (link.placement.R, link.placement.p, link.inertia.h, link.inertia.I):
            found.update(np.ascontiguousarray(array, dtype=float).tobytes())
        if link.compensated != NOT_COMPENSATED:
            found.update(f"compensated {link.compensated!r}\n".encode())
        if link.kind.nv > 1 and link.stiffness:
            found.update(f"ball spring {link.stiffness!r}\n".encode())
        if (mimic := link.mimic) is not None:
            leader = number.get(mimic.joint, mimic.joint)
            found.update(f"follows {leader!r} {float(mimic.multiplier)!r} {float(mimic.offset)!r}\n".encode())
    for frame in model.frames:
        found.update(f"{frame.name!r} {frame.link}\n".encode())
        found.update(np.ascontiguousarray(frame.pose.R, dtype=float).tobytes())
        found.update(np.ascontiguousarray(frame.pose.p, dtype=float).tobytes())
    for loop in model.loops:
        found.update(f"{loop!r}\n".encode())
    return found.hexdigest()
