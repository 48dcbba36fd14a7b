"""A balancing robot on two wheels, in space. Meant for the base "euler": x, y, z, then yaw, pitch and roll.

Numbers: those of the wheeled pendulum, with its wheel as two of half the mass: body 1.0 kg with the centre of mass half-way
down, and on the axle, 0.2 m below the body's frame, two uniform discs of 0.25 kg and radius 0.04 m. Driven straight ahead it
is the wheeled pendulum. Ours: the wheels are 0.2 m apart and 0.02 m wide, and turn without limits or friction. The body's
frame is at its upper end, x forward, y to the left; both wheels turn about +y, so both angles grow on the way ahead.
"""

from __future__ import annotations

from math import pi

from condyle.robot.description import Description
from condyle.robot.library.wheeled_pendulum import BODY, LENGTH, RADIUS
from condyle.robot.library.wheeled_pendulum import WHEEL as BOTH_WHEELS
from condyle.robot.parts import BLUE, DARK, RED, Y, body, cylinder, frame, joint, link, pose, rod

WHEEL = BOTH_WHEELS / 2.0  # the mass of one
HALF_TRACK = 0.1  # from the middle to a wheel
WIDTH = 0.02
SIDES = {"left": +1.0, "right": -1.0}


def description() -> Description:
    """The links, joints and frames."""
    disc = WHEEL * (RADIUS * RADIUS)
    lying = pose(rpy=(pi / 2.0, 0.0, 0.0))  # a cylinder stands along z; so turned, it lies along the axle
    axle = rod((0.0, 0.0, 0.0), (0.0, 0.0, -LENGTH), 0.01, BLUE)
    reach = HALF_TRACK - WIDTH / 2.0
    shaft = rod((0.0, -reach, -LENGTH), (0.0, reach, -LENGTH), 0.006, DARK, "cylinder")
    links = [link("body", body(BODY, (0.0, 0.0, -LENGTH / 2.0), (0.01, 0.01, 0.001)), [axle, shaft], [axle])]
    joints, frames = [], [frame("top", "body"), frame("axle", "body", (0.0, 0.0, -LENGTH))]
    for side, left in SIDES.items():
        name, tread = f"{side}_disc", cylinder(RADIUS, WIDTH, lying, RED, f"{side}_tread")
        inertia = body(WHEEL, (0.0, 0.0, 0.0), (disc / 4.0, disc / 2.0, disc / 4.0))
        links.append(link(name, inertia, [tread], [tread]))
        joints.append(joint(f"{side}_wheel", "continuous", "body", name, pose((0.0, left * HALF_TRACK, -LENGTH)), Y))
        frames.append(frame(f"{side}_center", name))
    return Description("two_wheeled", tuple(links), tuple(joints), tuple(frames), source="library")
