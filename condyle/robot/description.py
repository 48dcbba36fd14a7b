"""A robot as written down: links and joints by name, before base, gravity and order are chosen. What every loader produces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from condyle.robot.actuator import ActuatorSpec
from condyle.robot.names import nearest
from condyle.robot.rotor import RotorData
from condyle.robot.spatial import Inertia, Pose

KINDS = ("revolute", "continuous", "prismatic", "fixed", "free", "ball", "planar")

# relative displacements of two frames: along the axes of the first, and about them
LOOP_AXES = ("x", "y", "z", "rx", "ry", "rz")


@dataclass(frozen=True)
class Shape:
    """A visual or collision shape in a link: size is (x, y, z) of a box, (r,) of a sphere, (r, length) of a cylinder or capsule
    about z, the three radii of an ellipsoid, the scale (x, y, z) of a mesh."""

    kind: str  # "box", "sphere", "cylinder", "capsule", "ellipsoid", "mesh"
    size: tuple[float, ...]
    pose: Pose = field(default_factory=Pose.identity)
    name: str = ""
    mesh: Path | None = None
    color: tuple[float, float, float, float] | None = None
    sha256: str | None = None  # of the mesh, where a run names it: a file with another content is not opened for anybody
    friction: float | None = None  # of its surface; None where nothing is written
    contact: bool = True  # False: it cannot touch the ground, by the contact bits of its file


def moved(shapes: Iterable[Shape], X_ab: Pose) -> tuple[Shape, ...]:
    """Shapes given in b, as seen from a."""
    return tuple(replace(shape, pose=X_ab @ shape.pose) for shape in shapes)


@dataclass(frozen=True)
class LinkSpec:
    """A link as written: the inertia is about the link's own frame; None when nothing was written."""

    name: str
    inertia: Inertia | None = None
    visuals: tuple[Shape, ...] = ()
    collisions: tuple[Shape, ...] = ()
    where: str = ""  # "arm.urdf:12"
    gravity_compensation: float = 0.0  # part of its weight that a force at its centre of mass carries; 1: all of it


@dataclass(frozen=True)
class Limits:
    """Joint limits; None where nothing was written."""

    lower: float | None = None
    upper: float | None = None
    velocity: float | None = None
    effort: float | None = None


@dataclass(frozen=True)
class Mimic:
    """q = multiplier * q_of_joint + offset."""

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class JointSpec:
    """A joint as written: the child's frame in the parent at zero, and how it moves from there."""

    name: str
    kind: str
    parent: str
    child: str
    pose: Pose = field(default_factory=Pose.identity)
    axis: np.ndarray = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    limits: Limits = Limits()
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    mimic: Mimic | None = None
    where: str = ""
    written: tuple[float, ...] = ()  # its coordinates in the pose in which the robot is written; zero where nothing is said
    stiffness: float = 0.0  # of a spring, N m/rad or N/m
    rest: float = 0.0  # the coordinate at which the spring is at rest
    actuator_range: tuple[float, float] | None = None  # of the sum of its actuators' forces, N m or N


@dataclass(frozen=True)
class FrameSpec:
    """A named frame fixed to a link (a site, a tool point)."""

    name: str
    link: str
    pose: Pose
    where: str = ""


@dataclass(frozen=True)
class LoopSpec:
    """A closed loop: frame_b stays on frame_a in these relative displacements (of LOOP_AXES), in the axes of frame_a.

    ("x", "y", "z") is a ball joint, all six are a weld. A frame is that of a link, of a joint, or one of `Description.frames`.
    """

    name: str
    frame_a: str
    frame_b: str
    axes: tuple[str, ...]
    where: str = ""


@dataclass(frozen=True)
class TendonSpec:
    """A linear combination of joints with limits:  lower <= offset + sum of coefficient times position <= upper."""

    name: str
    joints: tuple[tuple[str, float], ...]  # (joint, coefficient)
    lower: float
    upper: float
    offset: float = 0.0

    def locked(self, positions: Mapping[str, float]) -> TendonSpec:
        """The tendon with some of its joints fixed at these positions."""
        fixed = sum(coefficient * positions[joint] for joint, coefficient in self.joints if joint in positions)
        rest = tuple((joint, coefficient) for joint, coefficient in self.joints if joint not in positions)
        return replace(self, joints=rest, offset=self.offset + float(fixed))


def tendon_problems(tendons: Iterable[TendonSpec], joints: Sequence[str]) -> list[str]:
    """Sentences about tendons that name a joint which does not exist, or whose numbers make no sense."""
    problems = []
    for tendon in tendons:
        about = f"tendon '{tendon.name!s:.60}'"
        for joint, _ in tendon.joints:
            if joint not in joints:
                problems.append(f"{about}: there is no joint '{joint!s:.60}' with one coordinate{nearest(joint, joints)}")
        numbers = [*[coefficient for _, coefficient in tendon.joints], tendon.offset, tendon.lower, tendon.upper]
        if not np.all(np.isfinite(numbers)) or not tendon.lower <= tendon.upper:
            problems.append(f"{about}: coefficients and limits must be finite, and limits in order")
        if len({joint for joint, _ in tendon.joints}) < len(tendon.joints):
            problems.append(f"{about}: each joint has one coefficient")
    return problems


@dataclass(frozen=True)
class Note:
    """One thing that was repaired or ignored while loading."""

    where: str
    what: str


@dataclass(frozen=True)
class Keyframe:
    """A state that a file names: q and v of the model, base included, and the controls u of the file's actuators."""

    q: np.ndarray
    v: np.ndarray
    u: np.ndarray


@dataclass(frozen=True)
class WrittenGround:
    """The ground that a file puts under its robot: a horizontal plane at this height."""

    height: float = 0.0
    friction: float = 1.0


@dataclass(frozen=True)
class Description:
    """A whole robot as written. Children of a link are visited in the order of `joints`."""

    name: str
    links: tuple[LinkSpec, ...]
    joints: tuple[JointSpec, ...]
    frames: tuple[FrameSpec, ...] = ()
    notes: tuple[Note, ...] = ()
    source: str = ""
    loops: tuple[LoopSpec, ...] = ()
    keyframes: Mapping[str, Keyframe] = field(default_factory=dict)
    ground: WrittenGround | None = None
    gravity: tuple[float, float, float] | None = None  # None where the file has no word on it
    timestep: float | None = None
    actuators: tuple[ActuatorSpec, ...] = ()
    rotors: tuple[RotorData, ...] = ()
    tendons: tuple[TendonSpec, ...] = ()
