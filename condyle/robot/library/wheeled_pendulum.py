"""A wheeled inverted pendulum: a body on one wheel, in the x-z plane. Meant for the base "planar": x, z, and the body angle phi.

Numbers: body 1.0 kg with the centre of mass half-way down, wheel 0.5 kg of radius 0.04 m as a uniform disc, 0.2 m apart.
The body's frame is at its upper end, and the wheel's angle is relative to the body; both turn about +y. Ours: the wheel is
0.02 m wide, and turns without limits or friction. Rolling is a constraint, and ties x, z and the wheel's angle to phi.
"""

from __future__ import annotations

from math import pi

from condyle.robot.description import Description
from condyle.robot.parts import BLUE, RED, Y, body, cylinder, frame, joint, link, pose, rod

LENGTH = 0.2  # from the body's frame to the axle
RADIUS = 0.04
BODY, WHEEL = 1.0, 0.5


def description() -> Description:
    """The links, joints and frames."""
    disc = WHEEL * (RADIUS * RADIUS)
    axle = (0.0, 0.0, -LENGTH)
    # a cylinder lies along z; turned about x, it lies along the axle
    tread = cylinder(RADIUS, 0.02, pose(rpy=(pi / 2.0, 0.0, 0.0)), RED, "tread")
    pole = rod((0.0, 0.0, 0.0), axle, 0.01, BLUE)
    links = (
        link("body", body(BODY, (0.0, 0.0, -LENGTH / 2.0), (0.01, 0.01, 0.001)), [pole], [pole]),
        link("wheel", body(WHEEL, (0.0, 0.0, 0.0), (disc / 4.0, disc / 2.0, disc / 4.0)), [tread], [tread]),
    )
    joints = (joint("axle", "continuous", "body", "wheel", pose(axle), Y),)
    frames = (frame("top", "body"), frame("center", "wheel"))
    return Description("wheeled_pendulum", links, joints, frames, source="library")
