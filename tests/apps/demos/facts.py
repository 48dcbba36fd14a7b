"""Numbers that are published for the demo robots, typed once more: what the robots and their controllers are compared with.

Nothing here comes from the robots' own files, so that a slip in one of the two is seen. SI units unless said.
"""

from __future__ import annotations

from math import pi
from typing import ClassVar

GRAVITY = 9.81


class Birotor:
    """1. Tiltable birotor."""

    MASS, CENTRE = 1.444422, (0.0, 0.0, -0.069980)  # with the gimbals at zero; the centre from the root
    MOMENTS = (0.055430, 0.017874, 0.067852)  # about the centre
    ROTORS = ((0.0, 0.2375, 0.12098), (0.0, -0.2375, 0.12098))  # from the centre
    BASE = (0.942442, (0.0, 0.0, -0.134417), (0.015351, 0.002766, 0.013177))
    GIMBAL = (0.250950, (0.0835, 0.0, 0.0), (0.001920, 0.000249, 0.013177))
    BASE_PRODUCTS, GIMBAL_PRODUCTS = (-2e-6, -2.4e-5, 2e-6), (2e-6, -2.4e-5, 2e-6)  # ixy, ixz, iyz
    VIRTUAL, VIRTUAL_MOMENT = 1e-5, 1e-6  # of each of the eight links that only hold frames
    ARMS, AXES = ((0.0, 0.154, 0.051), (0.0, -0.154, 0.051)), ((0.0, 1.0, 0.0), (0.0, -1.0, 0.0))  # gimbals: where, about what
    REACH, EFFORT, SPEED, DAMPING = 1.57, 6.6, 3.0, 0.8  # of a gimbal
    THRUST, DRAG, SPINS = (1.0, 18.0), 0.0172, (1.0, -1.0)
    SERVO_LAG = 0.15858
    CONTROLLER_GRAVITY = 9.798
    HOVER = ((9.798, 7.0762), (9.81, 7.0848))  # m/s^2, and N of each rotor
    SPRING = (0.0036697, 3.47, 1.81)  # the known mistake: kg m^2, rad/s, s


class Arm:
    """2. Arm: UR3-class. By joint, from pan to wrist 3."""

    ORIGINS = ((0, 0, 0.1519), (0, 0.1198, 0), (0, -0.0925, 0.24365), (0, 0, 0.21325), (0, 0.08505, 0), (0, 0, 0.08535))
    PITCHES = (0.0, pi / 2, 0.0, pi / 2, 0.0, 0.0)
    AXES = ((0, 0, 1), (0, 1, 0), (0, 1, 0), (0, 1, 0), (0, 0, 1), (0, 1, 0))
    MASSES = (2.0, 3.42, 1.26, 0.8, 0.8, 0.35)
    CENTRES = (0.0, 0.121825, 0.106625, 0.0, 0.0, 0.0)  # along z
    IXX = (0.0080931634294, 0.0217284832211, 0.00654680644378, 0.002084999166, 0.002084999166, 0.000912187135125)  # and Iyy
    IZZ = (0.005625, 0.00961875, 0.00354375, 0.00225, 0.00225, 0.000984375)
    LIMITS = (2 * pi, 2 * pi, pi, 2 * pi, 2 * pi, 2 * pi)
    EFFORTS = (330.0, 330.0, 150.0, 54.0, 54.0, 54.0)
    SPEEDS = (2.16, 2.16, 3.15, 3.2, 3.2, 3.2)
    TOOL, BASE = (0.0, 0.0819, 0.0), 2.0  # the tool turned by -pi/2 about x; kg
    READY = (0.0, -pi / 2, pi / 2, -pi / 2, 0.0, 0.0)
    ACCELERATION, FRICTION, CLAMP = 2.0, 0.01, 100.0
    KP = (1.98, 2.97, 1.49, 0.726, 1.86, 1.17)
    KD = (2.36, 3.54, 0.788, 0.15, 0.0375, 0.0125)
    RECTANGLE = ((0.35, 0.0), (0.08, 0.06), 0.22)  # centre, half sizes, height


class Pendulum:
    """3. Wheeled inverted pendulum."""

    BODY, BODY_MOMENTS, LENGTH = 1.0, (0.01, 0.01, 0.001), 0.2  # its centre at -L/2
    WHEEL, RADIUS = 0.5, 0.04
    POLE = 8.2867


class PiDog:
    """4. PiDog: the library's lengths, the URDF's masses. Millimetres and degrees where the library has them."""

    SIZES = ("upper leg", "lower leg", "hip forward of the middle", "hip beside the middle")
    LENGTHS, URDF = (42.0, 76.0, 58.5, 49.0), (47.0, 63.9, 53.15, 40.5)  # of these
    PARTS = 0.629  # kg, the sum of what is listed
    TORSO, TORSO_MOMENTS = 0.300, (3.8509e-4, 1.6010e-4, 3.4501e-4)  # x to the right and y backward, as in the library
    LEG, LEG_MOMENTS = 0.010, (2.5815e-7, 2.7802e-6, 3.0335e-6)
    SERVO, SERVO_MOMENTS, SERVOS = 0.0135, (6.436e-7, 1.0649e-6, 6.315e-7), 12
    FOOT, FOOT_RADIUS, FRICTION = 0.003, 0.008, 0.5
    NECK, HEAD, EYES, TAIL = 0.005, 0.025, 0.030, 0.005
    LEG_LIMIT = 90.0
    OTHER_LIMITS: ClassVar[dict[str, tuple[float, float]]] = {
        "head_yaw": (-90.0, 90.0),
        "head_roll": (-70.0, 70.0),
        "head_pitch": (-45.0, 30.0),
        "tail_wag": (-30.0, 30.0),
    }
    EFFORT, SPEED, SHEET_EFFORT = 0.216, 7.0, 0.137  # N m, rad/s, at 6 V; by the data sheet's table
    PULSES, PERIOD, COUNTS, RESOLUTION = (500.0, 2500.0), 20_000.0, 4095, 0.44  # us, us, in a period, degrees
    STAND_FEET = ((-15.0, 95.0), (5.0, 90.0))  # front and hind
    STAND: ClassVar[dict[str, tuple[float, float]]] = {"LF": (40.61, 15.54), "LH": (60.28, 5.26)}  # the right side negated
    WRONG_STAND = (27.02, -55.98)
    POSES: ClassVar[dict[str, tuple[int, ...]]] = {
        "sit": (30, 60, -30, -60, 80, -45, -80, 45),
        "half sit": (25, 25, -25, -25, 64, -45, -64, 45),
        "sit to stand": (25, 25, -25, -25, 70, -25, -70, 25),
        "lie": (45, -45, -45, 45, 45, -45, -45, 45),
        "lie, hands out": (-60, 60, 60, -60, 45, -45, -45, 45),
        "stretch": (-80, 70, 80, -70, -20, 64, 20, -64),
        "push-up A": (90, -30, -90, 30, 80, 70, -80, -70),
        "push-up B": (45, 35, -45, -35, 80, 70, -80, -70),
    }
    LIFTED = ("LF", "", "RH", "", "RF", "", "LH", "")
    WALK = (80.0, -15.0, (-10.0, -10.0, 20.0, 20.0), (0, 2, 3, 1))  # width, centre, offsets, starts
    HEIGHT, LIFT = 80.0, 20.0
    TROT = (100.0, -17.0, (-5.0, -5.0, 5.0, 5.0))
    ADVANCE: ClassVar[dict[str, float]] = {"walk": 91.4, "trot": 200.0}
    FASTEST: ClassVar[dict[str, float]] = {"legs": 428.0, "head": 300.0, "tail": 500.0}  # degrees/s


class FourLimb:
    """5. The reference task's robot."""

    MASS, TORSO, TORSO_MOMENTS = 99.9, 40.0, (0.24897, 0.70323, 0.77256)
    HIP = (0.29326, 0.2094, -0.0365)
    SEGMENTS = ((0.17203, 0.0), (0.2865, 0.117), (0.1925, -0.117))  # down, and away from the torso
    LIGHTEST, HEAVIEST = 0.4, 4.0
    EFFORT, P = 300.0, 1000.0
    STATES, CONTROLS = 30, 12  # of the planar version
