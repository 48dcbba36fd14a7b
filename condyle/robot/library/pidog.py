"""PiDog, a desktop quadruped with twelve servos: two for each leg, three for the head, one for the tail. Base "free".

Our axes are x forward, y left, z up, with the origin amid the four hips; the joint angles are the servo angles of the robot's
own library, in radians: leg = alpha, foot = beta - 90 degrees, both negated on the right. Legs in the library's order LF, RF,
LH, RH. Lengths and mounts are the library's (it has x to the right and y backward, so its mounts (+-49, +-58.5) mm are
y = +-49 and x = +-58.5 mm here), masses and moments those of the common URDF, its torso's x and y exchanged likewise.

Ours, where the sources are silent: legs have their mass half-way, the smallest moment along and the largest across their
plane; every servo sits at its joint, in the link before it; the foot is a ball of rubber, its centre where the library has
the tip; neck links are 15 mm; head and eyes are boxes. The parts add up to 0.629 kg, against about 0.637 for the whole robot.
"""

from __future__ import annotations

from math import pi, radians

from condyle.robot.description import Description, JointSpec, LinkSpec
from condyle.robot.parts import BLUE, DARK, RUBBER, STEEL, X, Y, Z, body, box, frame, joint, link, pose, rod, solid, sphere, total
from condyle.robot.spatial import Inertia, Pose

UPPER, LOWER = 0.042, 0.076
HIP_X, HIP_Y = 0.0585, 0.049
FOOT_RADIUS = 0.008
FOOT_FRICTION = 0.5
EFFORT, SPEED = 0.216, 7.0  # of the servo at 6 V, taken for an MG90S; the data sheet's table says 0.137 N m
DAMPING = EFFORT / SPEED  # N m s/rad: what its motor gives falls to nothing at full speed
LEGS = {"lf": (+1, +1), "rf": (+1, -1), "lh": (-1, +1), "rh": (-1, -1)}  # (front, left)

TORSO = (1.6010e-4, 3.8509e-4, 3.4501e-4)
LEG = (2.7802e-6, 3.0335e-6, 2.5815e-7)
SERVO = (6.436e-7, 1.0649e-6, 6.315e-7)
NECK = pose((0.075, 0.0, 0.025))
TAIL = pose((-0.075, 0.0, 0.02))


def servo(at: Pose) -> Inertia:
    """One servo, 13.5 g, in a link."""
    return body(0.0135, moments=SERVO, at=at)


def description() -> Description:
    """The links, joints and frames."""
    hips = [pose((front * HIP_X, left * HIP_Y, 0.0)) for front, left in LEGS.values()]
    torso = box((0.15, 0.08, 0.05), color=STEEL, name="torso")
    inertia = total(body(0.300, moments=TORSO), *(servo(at) for at in (*hips, NECK, TAIL)))
    links, joints, frames = [link("torso", inertia, [torso], [torso])], [], []
    for (name, (_, left)), hip in zip(LEGS.items(), hips, strict=True):
        more_links, more_joints = _leg(name, float(left), hip)
        links += more_links
        joints += more_joints
        frames.append(frame(f"{name}_foot", f"{name}_lower", (0.0, 0.0, -LOWER)))
    for part in (_head(), _tail()):
        links += part[0]
        joints += part[1]
    frames.append(frame("nose", "neck_3", (0.075, 0.0, 0.02)))
    return Description("pidog", tuple(links), tuple(joints), tuple(frames), source="library")


def _leg(name: str, left: float, hip: Pose) -> tuple[list[LinkSpec], list[JointSpec]]:
    """The upper leg hangs down at zero; the lower leg points forward then, at right angles to it."""
    knee, tip = (0.0, 0.0, -UPPER), (0.0, 0.0, -LOWER)
    axis, bend = (0.0, left, 0.0), pose(knee, (0.0, -pi / 2.0, 0.0))
    thigh, shin = rod((0.0, 0.0, 0.0), knee, 0.008, STEEL), rod((0.0, 0.0, 0.0), tip, 0.006, DARK)
    foot = sphere(FOOT_RADIUS, tip, RUBBER, f"{name}_foot")
    upper = total(body(0.010, (0.0, 0.0, -UPPER / 2.0), LEG), servo(pose(knee)))
    lower = total(body(0.010, (0.0, 0.0, -LOWER / 2.0), LEG), solid(0.003, foot))
    links = [link(f"{name}_upper", upper, [thigh], [thigh]), link(f"{name}_lower", lower, [shin, foot], [foot])]
    joints = [
        _servo_joint(f"{name}_hip", "torso", f"{name}_upper", hip, axis, pi / 2.0),
        _servo_joint(f"{name}_knee", f"{name}_upper", f"{name}_lower", bend, axis, pi / 2.0),
    ]
    return links, joints


def _head() -> tuple[list[LinkSpec], list[JointSpec]]:
    """Yaw, roll, pitch; the head and its eyes on the last neck link."""
    head = box((0.06, 0.05, 0.04), pose((0.04, 0.0, 0.02)), STEEL, "head")
    eyes = box((0.012, 0.045, 0.02), pose((0.07, 0.0, 0.03)), BLUE)
    neck = box((0.015, 0.02, 0.015), pose((0.0, 0.0, 0.0075)), DARK)
    up = pose((0.0, 0.0, 0.015))
    links = [
        link("neck_1", total(solid(0.005, neck), servo(up)), [neck]),
        link("neck_2", total(solid(0.005, neck), servo(up)), [neck]),
        link("neck_3", total(solid(0.005, neck), solid(0.025, head), solid(0.030, eyes)), [neck, head, eyes], [head]),
    ]
    joints = [
        _servo_joint("head_yaw", "torso", "neck_1", NECK, Z, radians(90.0)),
        _servo_joint("head_roll", "neck_1", "neck_2", up, X, radians(70.0)),
        _servo_joint("head_pitch", "neck_2", "neck_3", up, Y, (radians(-45.0), radians(30.0))),
    ]
    return links, joints


def _tail() -> tuple[list[LinkSpec], list[JointSpec]]:
    """A rod that points backward and up, and wags about z."""
    wag = rod((0.0, 0.0, 0.0), (-0.06, 0.0, 0.03), 0.004, DARK)
    return [link("tail", solid(0.005, wag), [wag])], [_servo_joint("tail_wag", "torso", "tail", TAIL, Z, radians(30.0))]


def _servo_joint(
    name: str, parent: str, child: str, at: Pose, axis: tuple[float, float, float], limits: float | tuple[float, float]
) -> JointSpec:
    return joint(name, "revolute", parent, child, at, axis, limits=limits, effort=EFFORT, speed=SPEED, damping=DAMPING)
