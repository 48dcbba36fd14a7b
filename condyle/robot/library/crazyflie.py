"""A nano quadrotor, the Crazyflie 2: one body and four rotors, fixed to it, in X configuration. Meant for the base "free".

Mass, inertia and arm length are those measured by Foerster, "System Identification of the Crazyflie 2.0 Nano Quadrocopter"
(ETH Zurich, 2015); thrust and drag coefficients, largest speed and lag of the rotors those of the Crazyflie 2 of the simulator
RotorS (Silano et al., 2018). x points forward, y left, z up; the origin is the centre of mass. Rotors in the maker's order:
front right, back right, back left, front left. Ours: their height above the centre of mass, and the shapes. Hover: 0.0687 N each.
"""

from __future__ import annotations

from math import sqrt

from condyle.robot.description import Description
from condyle.robot.parts import BLUE, DARK, RED, STEEL, body, box, cylinder, frame, link, pose, rod
from condyle.robot.rotor import RotorData

MASS = 0.028  # kg
MOMENTS = (16.571710e-6, 16.655602e-6, 29.261652e-6, 0.830806e-6, 0.718277e-6, 1.800197e-6)  # kg m^2
ARM = 0.046  # m, from the centre to a rotor
HEIGHT = 0.012  # m, of the rotors above the centre
DISC = 0.0231  # m, radius of a propeller
SPIN = (+1.0, -1.0, +1.0, -1.0)  # about z, seen from above counter-clockwise
THRUST_COEFFICIENT = 1.28192e-8  # N s^2, thrust per squared speed
DRAG = 0.005964552  # m, torque about z per thrust
MAX_SPEED = 2618.0  # rad/s
LAG = 0.0125  # s, of a rotor's speed


def description() -> Description:
    """The body with its frames rotor_1 to rotor_4, whose z axes are those of the thrusts."""
    reach = ARM / sqrt(2.0)
    places = [(x * reach, y * reach, HEIGHT) for x, y in ((1, -1), (-1, -1), (-1, 1), (1, 1))]
    hull = box((0.036, 0.028, 0.012), color=DARK, name="hull")
    battery = box((0.030, 0.018, 0.006), pose((0.0, 0.0, 0.009)), BLUE)
    visuals, guards = [hull, battery], [hull]
    for k, (x, y, z) in enumerate(places, start=1):
        visuals += [
            rod((0.0, 0.0, 0.0), (x, y, 0.0), 0.0022, STEEL),
            rod((x, y, -0.010), (x, y, z), 0.0035, STEEL),
            cylinder(DISC, 0.0012, pose((x, y, z)), RED if x > 0.0 else STEEL),
        ]
        guards.append(cylinder(DISC, 0.022, pose((x, y, 0.001)), name=f"guard_{k}"))
    frames = [frame(f"rotor_{k}", "base", place) for k, place in enumerate(places, start=1)]
    most = THRUST_COEFFICIENT * MAX_SPEED * MAX_SPEED
    rotors = tuple(
        RotorData(f"rotor_{k}", None, spin, DRAG, (0.0, most), LAG, thrust_coefficient=THRUST_COEFFICIENT, radius=DISC)
        for k, spin in enumerate(SPIN, start=1)
    )
    base = link("base", body(MASS, moments=MOMENTS), visuals, guards)
    return Description("crazyflie", (base,), (), tuple(frames), source="library", rotors=rotors)
