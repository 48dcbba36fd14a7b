"""A drone with two rotors, each on a gimbal that tilts it about the line to the body. Meant for the base "free".

The published description has eight links of 1e-5 kg that only hold frames. They are merged into the link that carries them:
root, flight controller (at the root, ours) and the two arms into the base; rotor and thrust frame into each gimbal. The
rotors' spin has no coordinate. The gimbals' moments are kept as published, though no body has them: 0.013177 is larger than
the sum of the other two. Ours: its feet. Whole vehicle, gimbals at zero: 1.444422 kg, centre of mass (0, 0, -0.069980).
"""

from __future__ import annotations

from math import pi

from condyle.robot.description import Description
from condyle.robot.parts import (
    BLUE,
    DARK,
    RED,
    RUBBER,
    STEEL,
    X,
    body,
    box,
    cylinder,
    frame,
    joint,
    link,
    pose,
    rod,
    sphere,
    total,
)
from condyle.robot.rotor import RotorData

ARM = (0.154, 0.051)  # to the side and up from the root
REACH = 0.0835  # from the gimbal's axis point to the rotor
SPIN = (+1.0, -1.0)  # about z of the thrust frames
THRUST = (1.0, 18.0)  # N, of each rotor
DRAG = 0.0172  # m, torque about the spin axis per thrust
SERVO_LAG = 0.15858  # s, from the data sheet; 0.0442 measured in flight
CONTROLLER_GRAVITY = 9.798  # m/s^2, in the flight controller's model

BASE_MOMENTS = (0.015351, 0.002766, 0.013177, -2e-6, -2.4e-5, 2e-6)
GIMBAL_MOMENTS = (0.001920, 0.000249, 0.013177, 2e-6, -2.4e-5, 2e-6)


def description() -> Description:
    """The links, joints and frames."""
    arms = [pose((0.0, side * ARM[0], ARM[1]), (0.0, 0.0, side * pi / 2.0)) for side in (+1.0, -1.0)]
    root, controller = pose(), pose()
    payload = [body(1e-5, moments=(1e-6,) * 3, at=place) for place in (root, controller, *arms)]
    hull = box((0.1, 0.3, 0.21), pose((0.0, 0.0, -0.105)), BLUE, "hull")
    struts = [rod((0.0, 0.0, 0.0), tuple(arm.p), 0.008, STEEL) for arm in arms]
    feet = [(x * 0.12, y * 0.15, -0.248) for x, y in ((1, -1), (1, 1), (-1, 1), (-1, -1))]
    pads = [sphere(0.012, foot, RUBBER, f"foot_{k}") for k, foot in enumerate(feet, start=1)]
    legs = [rod((0.25 * x, 0.8 * y, -0.19), (x, y, z), 0.005, DARK) for x, y, z in feet]
    links = [
        link(
            "base",
            total(body(0.942442, (0.0, 0.0, -0.134417), BASE_MOMENTS), *payload),
            [hull, *struts, *legs, *pads],
            [hull, *pads],
        )
    ]
    joints, frames = [], [frame("flight_controller", "base")]
    for i, arm in enumerate(arms, start=1):
        thrust = pose((REACH, 0.0, 0.0))
        inertia = total(
            body(0.250950, (REACH, 0.0, 0.0), GIMBAL_MOMENTS),
            body(1e-5, moments=(1e-6,) * 3, at=thrust),
            body(1e-5, moments=(1e-6,) * 3, at=thrust),
        )
        visuals = [
            rod((0.0, 0.0, 0.0), (REACH, 0.0, 0.0), 0.01, DARK),
            cylinder(0.1, 0.006, pose((REACH, 0.0, 0.02)), RED if i == 1 else STEEL),
        ]
        guard = cylinder(0.1, 0.1, thrust, name=f"guard_{i}")
        links.append(link(f"gimbal_{i}", inertia, visuals, [guard]))
        joints.append(
            joint(f"tilt_{i}", "revolute", "base", f"gimbal_{i}", arm, X, limits=1.57, effort=6.6, speed=3.0, damping=0.8)
        )
        frames.append(frame(f"thrust_{i}", f"gimbal_{i}", (REACH, 0.0, 0.0)))
    rotors = tuple(
        RotorData(f"thrust_{i}", f"tilt_{i}", spin, DRAG, THRUST, servo_lag=SERVO_LAG, radius=0.1)
        for i, spin in enumerate(SPIN, start=1)
    )
    return Description("birotor", tuple(links), tuple(joints), tuple(frames), source="library", rotors=rotors)
