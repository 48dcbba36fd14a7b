"""From a description to a model: the base is chosen, fixed joints are merged, coordinates are numbered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from condyle.errors import RobotError
from condyle.robot.couplings import moving_loops
from condyle.robot.description import Description, JointSpec, Limits, LinkSpec, Mimic, Shape
from condyle.robot.joints import Ball, Free, Kind, Prismatic, Revolute
from condyle.robot.model import Frame, Link, Loop, Model
from condyle.robot.spatial import Inertia, Pose, length

BASES = ("fixed", "free", "planar", "euler")
X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


def build(description: Description, base: str = "fixed", gravity: Sequence[float] = (0.0, 0.0, -9.81)) -> Model:
    """The model of a checked description; links in depth-first order, children in the order of the description's joints."""
    if base not in BASES:
        raise RobotError([f"the base must be one of {', '.join(BASES)}, got {base!r}"])
    if len(gravity) != 3 or not np.all(np.isfinite(gravity)):
        raise RobotError([f"gravity must be three finite numbers, got {gravity!r}"])
    x, y, z = (float(component) for component in gravity)
    builder = _Builder(description)
    builder.walk(base)
    world, frames = builder.world, builder.named_frames()
    loops = [Loop(loop.name, loop.frame_a, loop.frame_b, tuple(loop.axes)) for loop in description.loops]
    return Model(
        description.name,
        builder.finished(),
        frames,
        (x, y, z),
        description.notes,
        tuple(world.visuals),
        tuple(world.collisions),
        moving_loops(loops, frames, description.name),
    )


@dataclass
class _Body:
    """A moving link being put together: what is fixed to it adds up."""

    link: str
    joint: str
    parent: int
    kind: Kind
    placement: Pose
    inertia: Inertia = field(default_factory=Inertia.zero)
    limits: Limits = field(default_factory=Limits)
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    mimic: Mimic | None = None
    written: tuple[float, ...] = ()
    base: str = ""
    visuals: list[Shape] = field(default_factory=list)
    collisions: list[Shape] = field(default_factory=list)


class _Builder:
    def __init__(self, description: Description) -> None:
        self.description = description
        self.links = {link.name: link for link in description.links}
        self.children: dict[str, list[JointSpec]] = {}
        for joint in description.joints:
            self.children.setdefault(joint.parent, []).append(joint)
        self.bodies: list[_Body] = []
        self.world = _Body("world", "", -1, Free(), Pose.identity())
        self.link_frames: dict[str, Frame] = {}
        self.other_frames: list[Frame] = []

    def walk(self, base: str) -> None:
        """Visit every link, depth first, without recursion."""
        moved = {joint.child for joint in self.description.joints}
        roots = [name for name in self.links if name not in moved]
        if len(roots) != 1:
            raise RobotError([f"robot '{self.description.name}' needs exactly one root link, has {', '.join(roots) or 'none'}"])
        root = roots[0]
        at, pose = self.base(base, root)
        self.attach(self.links[root], at, pose)
        stack = [(joint, at, pose) for joint in reversed(self.children.get(root, []))]
        while stack:
            joint, at, pose = stack.pop()
            here, where = self.move(joint, at, pose @ joint.pose)
            self.attach(self.links[joint.child], here, where)
            stack += [(child, here, where) for child in reversed(self.children.get(joint.child, []))]
        for frame in self.description.frames:
            holder = self.link_frames[frame.link]
            self.other_frames.append(Frame(frame.name, holder.link, holder.pose @ frame.pose))

    def named_frames(self) -> tuple[Frame, ...]:
        """Frames of links, then of joints and others; one that shares its name with a link is called `joint:NAME`."""
        frames = dict(self.link_frames)
        for frame in self.other_frames:
            name = f"joint:{frame.name}" if frame.name in frames else frame.name
            frames.setdefault(name, replace(frame, name=name))
        return tuple(frames.values())

    def base(self, base: str, root: str) -> tuple[int, Pose]:
        """(moving link, pose in it) of the root: the world, or the last of the joints that carry it."""
        slides: list[tuple[str, Kind]] = [("x", Prismatic(X)), ("y", Prismatic(Y)), ("z", Prismatic(Z))]
        turns: list[tuple[str, Kind]] = [("yaw", Revolute(Z)), ("pitch", Revolute(Y)), ("roll", Revolute(X))]
        chains: dict[str, list[tuple[str, Kind]]] = {
            "fixed": [],
            "free": [("", Free())],
            "planar": [slides[0], slides[2], turns[1]],
            "euler": [*slides, *turns],
        }
        at = -1
        taken = {joint.name for joint in self.description.joints}
        for suffix, kind in chains[base]:
            name = f"root_{suffix or 'joint'}"
            while name in taken:
                name += "_"
            link = f"{root}_{suffix}" if suffix else root
            self.bodies.append(_Body(link, name, at, kind, Pose.identity(), base=suffix or "free"))
            at = len(self.bodies) - 1
        return at, Pose.identity()

    def move(self, joint: JointSpec, at: int, placement: Pose) -> tuple[int, Pose]:
        """(moving link, pose in it) of a joint's child; a fixed joint leaves it where it is."""
        if joint.kind == "fixed":
            self.other_frames.append(Frame(joint.name, at, placement))
            return at, placement
        parts = _motions(joint)
        for number, (name, kind) in enumerate(parts):
            last = number == len(parts) - 1
            body = _Body(joint.child if last else f"{joint.child}_{number}", name, at, kind, placement)
            body.base = "free" if joint.kind == "free" else ""
            self.bodies.append(body)
            body.damping, body.friction, body.armature = joint.damping, joint.friction, joint.armature
            if len(parts) == 1:
                body.limits, body.mimic, body.written = joint.limits, joint.mimic, joint.written
            at, placement = len(self.bodies) - 1, Pose.identity()
        # the joint's frame moves with its child
        self.other_frames.append(Frame(joint.name, at, Pose.identity()))
        return at, Pose.identity()

    def attach(self, link: LinkSpec, at: int, pose: Pose) -> None:
        """Add a link's mass and shapes to the moving link that carries it."""
        self.link_frames[link.name] = Frame(link.name, at, pose)
        body = self.bodies[at] if at >= 0 else self.world
        if link.inertia is not None and at >= 0:
            body.inertia = body.inertia + link.inertia.seen_from(pose)
        body.visuals += [replace(shape, pose=pose @ shape.pose) for shape in link.visuals]
        body.collisions += [replace(shape, pose=pose @ shape.pose) for shape in link.collisions]

    def finished(self) -> tuple[Link, ...]:
        links, q, v = [], 0, 0
        for b in self.bodies:
            nq, nv = b.kind.nq, b.kind.nv
            links.append(
                Link(
                    b.link, b.joint, b.parent, b.kind, b.placement, b.inertia, slice(q, q + nq), slice(v, v + nv), b.limits,
                    b.damping, b.friction, b.armature, b.mimic, tuple(b.visuals), tuple(b.collisions), b.written, b.base,
                )
            )  # fmt: skip
            q, v = q + nq, v + nv
        return tuple(links)


def _motions(joint: JointSpec) -> list[tuple[str, Kind]]:
    """The simple joints that a joint is made of, with their names."""
    axis = np.asarray(joint.axis, dtype=float)
    unit = (float(axis[0]), float(axis[1]), float(axis[2]))
    if joint.kind in ("revolute", "continuous"):
        return [(joint.name, Revolute(unit))]
    if joint.kind == "prismatic":
        return [(joint.name, Prismatic(unit))]
    if joint.kind == "ball":
        return [(joint.name, Ball())]
    if joint.kind == "free":
        return [(joint.name, Free())]
    # planar: two slides in the plane and a turn about its normal
    a, b = _plane(axis)
    return [(f"{joint.name}_1", Prismatic(a)), (f"{joint.name}_2", Prismatic(b)), (f"{joint.name}_3", Revolute(unit))]


def _plane(normal: np.ndarray) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Two axes of the plane with this normal, right-handed, from the axis of the frame that is farthest from the normal."""
    start = np.eye(3)[int(np.argmin(np.abs(normal)))]
    b = np.cross(normal, start)
    b /= length(b)
    a = np.cross(b, normal)
    return (float(a[0]), float(a[1]), float(a[2])), (float(b[0]), float(b[1]), float(b[2]))
