"""The four-limbed walker of the reference task for contact: 99.9 kg, three segments a limb. Base "free", or "planar".

Published: the torso, where the hips are, the segments' lengths 0.17203, 0.2865 and 0.1925 m, the sideways offset of 0.117 m
at the two elbows, limb links of 0.4 to 4 kg, the whole of 99.9 kg, efforts up to 300 N m, and a planar version with 12 joints.

Ours: before each segment a roll joint about the limb and a pitch joint about y, with a link between them, so that a limb has
six joints, and the planar version is what remains when all joints named roll_... are eliminated; limbs hang straight down
at zero, the torso then 0.68753 m above the feet's centres; the second segment leads outward and the third back inward, so
that the feet are below the hips; masses 3.4, 4.0, 2.2, 2.8, 1.175, 1.0 and 0.4 kg (the foot) down each limb; segments are
uniform cylinders of radius 0.05 m from joint to joint, the links between are cylinders 0.12 m long, and the foot is a ball
of radius 0.05 m; every joint turns by +-180 degrees, and no speed limit is given.
"""

from __future__ import annotations

from math import pi

from condyle.robot.description import Description
from condyle.robot.parts import BLUE, DARK, STEEL, Y, body, box, cylinder, frame, joint, link, pose, rod, solid, sphere, total

TORSO, TORSO_MOMENTS = 40.0, (0.24897, 0.70323, 0.77256)
HIP = (0.29326, 0.2094, -0.0365)
LENGTHS = (0.17203, 0.2865, 0.1925)
OUTWARD = (0.0, 0.117, -0.117)  # how far each segment leads away from the torso
HOUSINGS, SEGMENTS, FOOT = (3.4, 2.2, 1.175), (4.0, 2.8, 1.0), 0.4  # kg
FOOT_RADIUS = 0.05
EFFORT = 300.0
LIMBS = {"fl": (+1, +1), "fr": (+1, -1), "hl": (-1, +1), "hr": (-1, -1)}  # (front, left)


def description() -> Description:
    """The links, joints and frames."""
    torso = box((0.62, 0.40, 0.16), color=BLUE, name="torso")
    links, joints, frames = [link("torso", body(TORSO, moments=TORSO_MOMENTS), [torso], [torso])], [], []
    for name, (front, left) in LIMBS.items():
        parent, at = "torso", pose((front * HIP[0], left * HIP[1], HIP[2]))
        for i, (length, outward, housing, mass) in enumerate(zip(LENGTHS, OUTWARD, HOUSINGS, SEGMENTS, strict=True), start=1):
            hub_name, segment, end = f"hub_{i}_{name}", f"segment_{i}_{name}", (0.0, left * outward, -length)
            hub = cylinder(0.06, 0.12, pose(rpy=(pi / 2.0, 0.0, 0.0)), DARK)
            tube = rod((0.0, 0.0, 0.0), end, 0.05, STEEL, kind="cylinder", name=segment)
            inertia, visuals, collisions = solid(mass, tube), [tube], [tube]
            if i == len(LENGTHS):
                foot = sphere(FOOT_RADIUS, end, DARK, f"foot_{name}")
                inertia, visuals, collisions = total(inertia, solid(FOOT, foot)), [tube, foot], [foot]
                frames.append(frame(f"foot_{name}", segment, end))
            links += [link(hub_name, solid(housing, hub), [hub]), link(segment, inertia, visuals, collisions)]
            joints += [
                joint(f"roll_{i}_{name}", "revolute", parent, hub_name, at, limits=pi, effort=EFFORT),
                joint(f"pitch_{i}_{name}", "revolute", hub_name, segment, axis=Y, limits=pi, effort=EFFORT),
            ]
            parent, at = segment, pose(end)
    return Description("fourlimb", tuple(links), tuple(joints), tuple(frames), source="library")
