"""Random robots: trees of every kind of joint, with valid inertias, and the same robots for Pinocchio.

model = random_model(seed)                   # the same for every run
twin = pinocchio_model(model)                # joints, coordinates and velocities in the same order
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.dynamics.manifold import random_configuration
from condyle.robot.build import build
from condyle.robot.description import Description, FrameSpec, JointSpec, LinkSpec
from condyle.robot.joints import Ball, Free, Prismatic, Revolute, rotation_of
from condyle.robot.model import Model
from condyle.robot.spatial import Inertia, Pose

KINDS = ("revolute", "continuous", "prismatic", "ball", "free", "planar", "fixed")
TOOL = "tool"  # a frame on the last link


def random_pose(rng: np.random.Generator, reach: float = 0.5) -> Pose:
    """A pose turned any way, its origin within `reach` on each axis."""
    quaternion = rng.standard_normal(4)
    return Pose(rotation_of(quaternion / np.linalg.norm(quaternion)), rng.uniform(-reach, reach, 3))


def random_axis(rng: np.random.Generator) -> np.ndarray:
    """A unit vector: half of them are axes of the frame, so that their zeros are used."""
    if rng.random() < 0.5:
        return np.eye(3)[rng.integers(3)] * rng.choice([-1.0, 1.0])
    axis = rng.standard_normal(3)
    return axis / np.linalg.norm(axis)


def random_inertia(rng: np.random.Generator) -> Inertia:
    """The inertia of particles somewhere near the origin, so it is one that a body can have."""
    particles = rng.uniform(-0.3, 0.3, (6, 3)) + rng.uniform(-0.2, 0.2, 3)
    masses = rng.uniform(0.1, 1.0, 6)
    mass, com = masses.sum(), masses @ particles / masses.sum()
    second = sum(m * (r @ r * np.eye(3) - np.outer(r, r)) for m, r in zip(masses, particles - com, strict=True))
    return Inertia.about_com(float(mass), com, second)


def random_description(rng: np.random.Generator, joints: int = 7, kinds: tuple[str, ...] = KINDS) -> Description:
    """A tree that branches anywhere; it holds every kind at least once when there are enough joints."""
    drawn = [*kinds, *rng.choice(kinds, max(0, joints - len(kinds)))][:joints]
    rng.shuffle(drawn)
    links = [LinkSpec("link0", random_inertia(rng))]
    specs = []
    for k, kind in enumerate(drawn):
        # near the last link as often as anywhere, so that chains are long
        parent = k if rng.random() < 0.5 else int(rng.integers(k + 1))
        armature = float(rng.uniform(0.0, 0.3)) if rng.random() < 0.5 else 0.0
        specs.append(
            JointSpec(
                f"joint{k}", str(kind), f"link{parent}", f"link{k + 1}", random_pose(rng), random_axis(rng), armature=armature
            )
        )
        links.append(LinkSpec(f"link{k + 1}", random_inertia(rng)))
    tool = FrameSpec(TOOL, links[-1].name, random_pose(rng))
    return Description("random", tuple(links), tuple(specs), (tool,))


def random_model(
    seed: int,
    joints: int = 7,
    kinds: tuple[str, ...] = KINDS,
    base: str = "fixed",
    gravity: tuple[float, ...] = (1.0, -2.0, -9.0),
) -> Model:
    """A random robot; the same for the same arguments."""
    return build(random_description(np.random.default_rng(seed), joints, kinds), base, gravity)


def random_state(model: Model, rng: np.random.Generator, count: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(q, v, a), or `count` of each in rows."""
    shape = (model.nv,) if count is None else (count, model.nv)
    return random_configuration(model, rng, count), rng.uniform(-1, 1, shape), rng.uniform(-1, 1, shape)


def pinocchio_model(model: Model) -> Any:
    """The same robot in Pinocchio, joint by joint, with all its frames that move."""
    import pinocchio as pin

    twin = pin.Model()
    twin.gravity = pin.Motion(np.array(model.gravity), np.zeros(3))
    for _, link in model.outward():
        kinds = {
            Revolute: lambda axis: pin.JointModelRevoluteUnaligned(axis),
            Prismatic: lambda axis: pin.JointModelPrismaticUnaligned(axis),
            Ball: lambda _: pin.JointModelSpherical(),
            Free: lambda _: pin.JointModelFreeFlyer(),
        }
        axis = np.array(getattr(link.kind, "axis", (0.0, 0.0, 0.0)))
        place = pin.SE3(link.placement.R, link.placement.p)
        joint = twin.addJoint(link.parent + 1, kinds[type(link.kind)](axis), place, link.joint)
        I = link.inertia
        body = pin.Inertia(I.mass, I.com, I.I_com) if I.mass > 0.0 else pin.Inertia.Zero()
        twin.appendBodyToJoint(joint, body, pin.SE3.Identity())
    for frame in model.frames:
        if frame.link >= 0 and not twin.existFrame(frame.name):
            place = pin.SE3(frame.pose.R, frame.pose.p)
            twin.addFrame(pin.Frame(frame.name, frame.link + 1, 0, place, pin.FrameType.OP_FRAME))
    twin.armature = np.concatenate([np.full(link.kind.nv, link.armature) for link in model.links])
    return twin


def limbed_model(
    seed: int, limbs: int = 4, joints: tuple[str, ...] = ("revolute", "revolute", "prismatic"), base: str = "free"
) -> Model:
    """A body with limbs of the same joints, whose numbers differ, and a neck."""
    rng = np.random.default_rng(seed)
    links, specs = [LinkSpec("body", random_inertia(rng)), LinkSpec("head", random_inertia(rng))], []
    specs.append(JointSpec("neck", "revolute", "body", "head", random_pose(rng), random_axis(rng), armature=0.1))
    for k in range(limbs):
        parent = "body"
        for i, kind in enumerate(joints):
            name = f"limb{k}_{i}"
            links.append(LinkSpec(name, random_inertia(rng)))
            specs.append(JointSpec(f"joint{k}_{i}", kind, parent, name, random_pose(rng), random_axis(rng), armature=0.05 * k))
            parent = name
    return build(Description("limbed", tuple(links), tuple(specs), ()), base, (1.0, -2.0, -9.0))
