"""From a description to a model: the base is chosen, fixed joints are merged, coordinates are numbered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from condyle.errors import RobotError
from condyle.robot.actuator import actuator_problems
from condyle.robot.couplings import moving_loops
from condyle.robot.description import Description, JointSpec, Keyframe, LinkSpec, Shape, moved, tendon_problems
from condyle.robot.joints import Ball, Free, Kind, Prismatic, Revolute
from condyle.robot.model import Frame, Link, Loop, Model
from condyle.robot.spatial import Inertia, Pose, length

BASES = ("fixed", "free", "planar", "euler")
X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


def build(description: Description, base: str = "fixed", gravity: Sequence[float] = (0.0, 0.0, -9.81)) -> Model:
    """The model of a checked description; links in depth-first order, children in the order of the description's joints."""
    if base not in BASES:
        raise RobotError([f"the base must be one of {', '.join(BASES)} or, for files, auto; got {base!r}"])
    if len(gravity) != 3 or not np.all(np.isfinite(gravity)):
        raise RobotError([f"gravity must be three finite numbers, got {gravity!r}"])
    x, y, z = (float(component) for component in gravity)
    builder = _Builder(description)
    builder.walk(base)
    frames = builder.named_frames()
    joints = [link.joint for link in builder.bodies if link.kind.nv == 1]
    problems = actuator_problems(description.actuators, joints, [frame.name for frame in frames])
    if problems := [*problems, *tendon_problems(description.tendons, joints)]:
        raise RobotError(problems)
    loops = [Loop(loop.name, loop.frame_a, loop.frame_b, tuple(loop.axes)) for loop in description.loops]
    links = tuple(builder.bodies)
    return Model(
        description.name,
        links,
        frames,
        (x, y, z),
        description.notes,
        tuple(builder.visuals),
        tuple(builder.collisions),
        moving_loops(loops, frames, description.name),
        {name: _with_base(links, key) for name, key in description.keyframes.items()},
        description.ground,
        description.timestep,
        description.actuators,
        description.rotors,
        description.tendons,
    )


def _with_base(links: Sequence[Link], key: Keyframe) -> Keyframe:
    """A keyframe of the description, with the coordinates of a base that was put before them: zero, and no rotation."""
    nq = sum(link.kind.nq for link in links) - len(key.q)
    nv = sum(link.kind.nv for link in links) - len(key.v)
    if nq == 0:
        return key
    front = Model("", tuple(links), (), (0.0, 0.0, 0.0)).neutral()[:nq]
    return replace(key, q=np.array([*front, *key.q]), v=np.array([*np.zeros(nv), *key.v]))


class _Builder:
    def __init__(self, description: Description) -> None:
        self.description = description
        self.links = {link.name: link for link in description.links}
        self.children: dict[str, list[JointSpec]] = {}
        for joint in description.joints:
            self.children.setdefault(joint.parent, []).append(joint)
        self.bodies: list[Link] = []
        self.visuals: list[Shape] = []  # fixed in the world
        self.collisions: list[Shape] = []
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
            at = self.append(link, name, at, kind, Pose.identity(), base=suffix or "free")
        return at, Pose.identity()

    def move(self, joint: JointSpec, at: int, placement: Pose) -> tuple[int, Pose]:
        """(moving link, pose in it) of a joint's child; a fixed joint leaves it where it is."""
        if joint.kind == "fixed":
            self.other_frames.append(Frame(joint.name, at, placement))
            return at, placement
        parts = _motions(joint)
        losses = {"damping": joint.damping, "friction": joint.friction, "armature": joint.armature}
        one = ("limits", "mimic", "written", "stiffness", "rest", "actuator_range") if len(parts) == 1 else ()
        own = {name: getattr(joint, name) for name in one}
        for number, (name, kind) in enumerate(parts, start=1):
            link = joint.child if number == len(parts) else f"{joint.child}_{number - 1}"
            base = "free" if joint.kind == "free" else ""
            at, placement = self.append(link, name, at, kind, placement, base=base, **losses, **own), Pose.identity()
        # the joint's frame moves with its child
        self.other_frames.append(Frame(joint.name, at, Pose.identity()))
        return at, Pose.identity()

    def append(self, link: str, joint: str, at: int, kind: Kind, placement: Pose, **more: Any) -> int:
        """The number of a new moving link, whose coordinates follow those before."""
        q, v = (self.bodies[-1].q.stop, self.bodies[-1].v.stop) if self.bodies else (0, 0)
        q_slice, v_slice = slice(q, q + kind.nq), slice(v, v + kind.nv)
        self.bodies.append(Link(link, joint, at, kind, placement, Inertia.zero(), q_slice, v_slice, **more))
        return len(self.bodies) - 1

    def attach(self, link: LinkSpec, at: int, pose: Pose) -> None:
        """Add a link's mass and shapes to the moving link that it is fixed to."""
        self.link_frames[link.name] = Frame(link.name, at, pose)
        if at < 0:
            self.visuals += moved(link.visuals, pose)
            self.collisions += moved(link.collisions, pose)
        else:
            self.bodies[at] = self.bodies[at].carrying(link, pose)


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
