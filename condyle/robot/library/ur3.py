"""A six-joint arm of the UR3 class, each link a uniform cylinder of radius 0.075 m about its z axis.

Where the published data are silent: the base is a cylinder of 0.038 m, as high as it looks; the three wrist joints share
limits, effort and speed; collision shapes are slimmer than the cylinders of the inertias, as the robot is.
"""

from __future__ import annotations

from math import pi
from typing import NamedTuple

from condyle.robot.description import Description
from condyle.robot.parts import BLUE, STEEL, Y, Z, body, cylinder, frame, joint, link, pose, rod

READY = (0.0, -pi / 2.0, pi / 2.0, -pi / 2.0, 0.0, 0.0)
MAX_ACCELERATION = 2.0  # rad/s^2, of every joint
FRICTION = 0.01  # N m s, viscous, of every joint


class LinkData(NamedTuple):
    """One joint and the link it moves."""

    name: str
    xyz: tuple[float, float, float]
    pitch: float
    axis: tuple[float, float, float]
    mass: float
    com: float  # along z
    Ixx: float  # and Iyy
    Izz: float
    limit: float
    effort: float
    speed: float


ROWS = (
    LinkData("pan", (0.0, 0.0, 0.1519), 0.0, Z, 2.0, 0.0, 0.0080931634294, 0.005625, 2 * pi, 330.0, 2.16),
    LinkData("lift", (0.0, 0.1198, 0.0), pi / 2, Y, 3.42, 0.121825, 0.0217284832211, 0.00961875, 2 * pi, 330.0, 2.16),
    LinkData("elbow", (0.0, -0.0925, 0.24365), 0.0, Y, 1.26, 0.106625, 0.00654680644378, 0.00354375, pi, 150.0, 3.15),
    LinkData("wrist_1", (0.0, 0.0, 0.21325), pi / 2, Y, 0.8, 0.0, 0.002084999166, 0.00225, 2 * pi, 54.0, 3.2),
    LinkData("wrist_2", (0.0, 0.08505, 0.0), 0.0, Z, 0.8, 0.0, 0.002084999166, 0.00225, 2 * pi, 54.0, 3.2),
    LinkData("wrist_3", (0.0, 0.0, 0.08535), 0.0, Y, 0.35, 0.0, 0.000912187135125, 0.000984375, 2 * pi, 54.0, 3.2),
)  # fmt: skip
TOOL = (0.0, 0.0819, 0.0)
SLIM = {"pan": 0.05, "lift": 0.045, "elbow": 0.035}  # radius of what is seen and touched; 0.03 for the wrist


def description() -> Description:
    """The links, joints and frames."""
    foot = cylinder(0.064, 0.038, pose((0.0, 0.0, 0.019)), STEEL)
    column = rod((0.0, 0.0, 0.038), (0.0, 0.0, 0.1519), 0.05, BLUE, kind="cylinder")
    h, r = 0.038, 0.075
    base = body(2.0, (0.0, 0.0, 0.0), ((3 * (r * r) + h * h) / 6.0, (3 * (r * r) + h * h) / 6.0, r * r))
    links, joints = [link("base", base, [foot, column], [foot, column])], []
    ends = [row.xyz for row in ROWS[1:]] + [TOOL]
    for row, end in zip(ROWS, ends, strict=True):
        arm = rod((0.0, 0.0, 0.0), end, SLIM.get(row.name, 0.03), STEEL)
        links.append(link(row.name, body(row.mass, (0.0, 0.0, row.com), (row.Ixx, row.Ixx, row.Izz)), [arm], [arm]))
        joints.append(
            joint(
                f"{row.name}_joint", "revolute", links[-2].name, row.name, pose(row.xyz, (0.0, row.pitch, 0.0)), row.axis,
                limits=row.limit, effort=row.effort, speed=row.speed, damping=FRICTION,
            )
        )  # fmt: skip
    tool = frame("tool", "wrist_3", TOOL, (-pi / 2.0, 0.0, 0.0))
    return Description("ur3", tuple(links), tuple(joints), (tool,), source="library")
