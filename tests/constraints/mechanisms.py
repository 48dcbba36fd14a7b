"""Mechanisms with closed loops: each a tree, the pairs of frames that must meet, and poses in which they do.

    bars = four_bar()
    robot = bars.robot                        # the open tree
    q = bars.pose([0.3])                      # closed, from the coordinates of the joints in `independent`
    bars.loops                                # [(frame_a, frame_b, the relative displacements that are zero, in the axes of a)]

Planar ones lie in the x-z plane and turn about +y, so that a bar along x at zero points along u(q) = (cos q, -sin q); only the
squeezer lies in the x-y plane and turns about z, as published. Sizes are sums of a few powers of two wherever they are ours,
so that no rounding enters the model and a reference with 256 binary digits is one for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import acos, asin, atan2, cos, hypot, sin, sqrt

import numpy as np

import condyle as cd
from condyle.robot.description import Description, FrameSpec, JointSpec, LinkSpec
from condyle.robot.parts import X, Y, Z, body, frame, joint, link, pose
from condyle.robot.spatial import Inertia

Point = tuple[float, float]
Loop = tuple[str, str, str]


@dataclass(frozen=True)
class Mechanism:
    """A tree, the loops that close it, the joints whose coordinates say where it is, and its closed pose for those."""

    description: Description
    loops: tuple[Loop, ...]
    independent: tuple[str, ...]
    start: tuple[float, ...]  # a regular pose, in the independent coordinates
    pose_of: Callable[..., Sequence[float]]

    @property
    def name(self) -> str:
        return self.description.name

    def pose(self, y: Sequence[float] | None = None) -> np.ndarray:
        """The closed pose q of the tree, in the usual path of assembly, at these independent coordinates."""
        return np.array(self.pose_of(*(self.start if y is None else y)), dtype=float)

    @cached_property
    def robot(self) -> cd.Robot:
        """The tree, open, with the usual gravity."""
        return cd.load(self.description)

    def gap(self, q: np.ndarray) -> float:
        """The largest of the relative displacements that should be zero: m, and sines of angles."""
        return max(float(np.abs(_gap(self.robot, q, loop)).max()) for loop in self.loops)


def _gap(robot: cd.Robot, q: np.ndarray, loop: Loop) -> np.ndarray:
    (Ra, pa), (Rb, pb) = (robot.frame_pose(q, name) for name in loop[:2])
    R, p = Ra.T @ Rb, Ra.T @ (pb - pa)
    turn = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / 2.0
    straight, turns = axes_of(loop[2])
    return np.concatenate([p[straight], turn[turns]])


def axes_of(axes: str) -> tuple[list[int], list[int]]:
    """(displacements, rotations) of a text like "xz" or "xyz rx rz", as numbers of axes."""
    words = axes.split()
    straight = [c for word in words if not word.startswith("r") for c in word]
    return ["xyz".index(c) for c in straight], ["xyz".index(word[1]) for word in words if word.startswith("r")]


# -- bars in the x-z plane


@dataclass(frozen=True)
class Bar:
    """A bar from its hinge at the origin to (length, 0); mass, centre of mass (x, z), and the moment about y through it."""

    length: float
    mass: float
    com: Point
    moment: float

    def inertia(self) -> Inertia:
        flat = self.moment / 2.0  # a plate in the x-z plane: the moment about y is the sum of the others
        return body(self.mass, (self.com[0], 0.0, self.com[1]), (flat, self.moment, flat))


def hinge(name: str, parent: str, at: Point = (0.0, 0.0)) -> JointSpec:
    """A hinge about y of the link with the same name, at (x, z) of its parent."""
    return joint(name, "continuous", parent, name, pose((at[0], 0.0, at[1])), Y)


def point(name: str, on: str, at: Point) -> FrameSpec:
    return frame(name, on, (at[0], 0.0, at[1]))


def direction(angle: float) -> np.ndarray:
    """u = (cos q, -sin q): where a bar along x points after a turn by q about y, in (x, z)."""
    return np.array([cos(angle), -sin(angle)])


def angle_of(path: np.ndarray) -> float:
    """The turn about y that takes x to this path in (x, z)."""
    return atan2(-path[1], path[0])


def meet(a: np.ndarray, reach_a: float, b: np.ndarray, reach_b: float, side: float) -> np.ndarray:
    """The point at these distances from a and b, on the left of the path from a to b for side 1, on its right for -1."""
    path = b - a
    span = hypot(*path)
    along = (span**2 + reach_a**2 - reach_b**2) / (2.0 * span)
    across = sqrt(reach_a**2 - along**2)
    return a + (along * path + side * across * np.array([-path[1], path[0]])) / span


# -- a crank-rocker: Grashof, 0.25 + 1.01 < 0.875 + 0.75, so that the crank turns right round

CRANK = Bar(0.25, 1.5, (0.09375, 0.03125), 0.03125)
COUPLER = Bar(0.875, 2.25, (0.5, 0.125), 0.25)
ROCKER = Bar(0.75, 1.75, (0.3125, -0.0625), 0.125)
GROUND: Point = (1.0, -0.125)  # the rocker's hinge; the crank's is the origin


@cache
def four_bar() -> Mechanism:
    """Crank and coupler, and a rocker whose tip meets the coupler's end."""
    links = (
        link("stand"),
        link("crank", CRANK.inertia()),
        link("coupler", COUPLER.inertia()),
        link("rocker", ROCKER.inertia()),
    )
    joints = (hinge("crank", "stand"), hinge("coupler", "crank", (CRANK.length, 0.0)), hinge("rocker", "stand", GROUND))
    frames = (point("coupler_end", "coupler", (COUPLER.length, 0.0)), point("rocker_end", "rocker", (ROCKER.length, 0.0)))
    description = Description("four_bar", links, joints, frames)
    return Mechanism(description, (("coupler_end", "rocker_end", "xz"),), ("crank",), (0.5,), _four_bar_pose)


def _four_bar_pose(crank: float) -> tuple[float, float, float]:
    knee, foot = CRANK.length * direction(crank), np.array(GROUND)
    top = meet(knee, COUPLER.length, foot, ROCKER.length, 1.0)
    return crank, angle_of(top - knee) - crank, angle_of(top - foot)


# -- a slider-crank: the slider moves along z beside the crank's hinge, and gravity pulls it down

ARM = Bar(0.25, 1.25, (0.0625, 0.015625), 0.03125)
ROD = Bar(0.75, 0.75, (0.3125, -0.03125), 0.0625)
SLIDER = 0.5
OFFSET = 0.0625


@cache
def slider_crank() -> Mechanism:
    """Crank and rod, and a slider whose pin meets the rod's end."""
    links = (link("stand"), link("crank", ARM.inertia()), link("rod", ROD.inertia()), link("slider", body(SLIDER)))
    slide = joint("slide", "prismatic", "stand", "slider", pose((OFFSET, 0.0, 0.0)), Z)
    joints = (hinge("crank", "stand"), hinge("rod", "crank", (ARM.length, 0.0)), slide)
    frames = (point("rod_end", "rod", (ROD.length, 0.0)), point("pin", "slider", (0.0, 0.0)))
    description = Description("slider_crank", links, joints, frames)
    return Mechanism(description, (("rod_end", "pin", "xz"),), ("crank",), (0.5,), _slider_crank_pose)


def _slider_crank_pose(crank: float) -> tuple[float, float, float]:
    rod = -acos((OFFSET - ARM.length * cos(crank)) / ROD.length)
    return crank, rod - crank, -ARM.length * sin(crank) - ROD.length * sin(rod)


# -- n windows in a row: the N four-bar mechanism of the IFToMM benchmarks for multibody systems


@cache
def four_bars(count: int) -> Mechanism:
    """2 n + 1 uniform rods of 1 m and 1 kg: n + 1 upright at zero on hinges 1 m apart, their tips joined by n couplers.

    The benchmark starts upright with the tips at 1 m/s towards +x, so with y = 0 and w = 1, and runs for ten seconds. All
    rods are in one line at y = +-pi/2: there the mechanism is singular.
    """
    upright, level = body(1.0, (0.0, 0.0, 0.5), (1 / 12, 1 / 12, 0.0)), body(1.0, (0.5, 0.0, 0.0), (0.0, 1 / 12, 1 / 12))
    links: list[LinkSpec] = [link("ground")]
    joints, frames, loops = [], [], []
    for i in range(count + 1):
        links.append(link(f"rod_{i}", upright))
        joints.append(hinge(f"rod_{i}", "ground", (float(i), 0.0)))
        frames.append(point(f"tip_{i}", f"rod_{i}", (0.0, 1.0)))
        if i < count:
            links.append(link(f"coupler_{i + 1}", level))
            joints.append(hinge(f"coupler_{i + 1}", f"rod_{i}", (0.0, 1.0)))
            frames.append(point(f"end_{i + 1}", f"coupler_{i + 1}", (1.0, 0.0)))
            loops.append((f"end_{i + 1}", f"tip_{i + 1}", "xz"))
    description = Description(f"four_bars_{count}", tuple(links), tuple(joints), tuple(frames))
    return Mechanism(description, tuple(loops), ("rod_0",), (0.25,), lambda y: [*([y, -y] * count), y])


# -- Andrews' squeezer: Hairer and Wanner, Solving Ordinary Differential Equations II, section VII.7


@dataclass(frozen=True)
class Plate:
    """A body in the x-y plane: mass, moment about z through its centre of mass, and where that is."""

    mass: float
    moment: float
    com: Point

    def inertia(self) -> Inertia:
        return body(self.mass, (*self.com, 0.0), (self.moment / 2.0, self.moment / 2.0, self.moment))


# fixed points; the crank turns about the origin
A, B, C = (-0.06934, -0.00227), (-0.03635, 0.03273), (0.014, 0.072)
# lengths from hinge to hinge; all but zt and u end in the common point
RR, D, SS, E, ZT, ZF, U = 0.007, 0.028, 0.035, 0.02, 0.04, 0.02, 0.04
# centres of mass: distances from a hinge (fa and ea from the common point)
RA, DA, SA, SB, EA, TA, TB, FA, UA, UB = 0.00092, 0.0115, 0.01874, 0.01043, 0.01421, 0.02308, 0.00916, 0.01421, 0.01228, 0.00449
# the spring: its point on body 3, stiffness, and length at rest
SC, SD, STIFFNESS, REST = 0.018, 0.02, 4530.0, 0.07785
DRIVE = 0.033  # the torque on the crank, N m

PLATES = {
    "k1": Plate(0.04325, 2.194e-6, (RA, 0.0)),
    "k2": Plate(0.00365, 4.410e-7, (-DA, 0.0)),
    "k3": Plate(0.02373, 5.255e-6, (SB, -SA)),
    "k4": Plate(0.00706, 5.667e-7, (0.0, EA - E)),
    "k5": Plate(0.07050, 1.169e-5, (TA, TB)),
    "k6": Plate(0.00706, 5.667e-7, (ZF - FA, 0.0)),
    "k7": Plate(0.05498, 1.912e-5, (-UA, -UB)),
}

# the seven angles in the order of the book, and where they are in the tree, whose children follow their parents
ANGLES = ("beta", "theta", "gamma", "phi", "delta", "omega", "epsilon")
TREE = ("beta", "theta", "gamma", "delta", "phi", "epsilon", "omega")
FROM_BOOK = [ANGLES.index(name) for name in TREE]  # q = book[FROM_BOOK]
TO_BOOK = [TREE.index(name) for name in ANGLES]  # book = q[TO_BOOK]

SQUEEZER_START = (
    -0.0617138900142764496358948458001,
    0.0,
    0.455279819163070380255912382449,
    0.222668390165885884674473185609,
    0.487364979543842550225598953530,
    -0.222668390165885884674473185609,
    1.23054744454982119249735015568,
)


@cache
def squeezer() -> Mechanism:
    """Seven bodies on hinges about z, no matter where gravity along z points; four ends meet in one point.

    The spring is no part of the tree: it pulls frame "d" towards frame "c", see `squeezer_forces` of the references.
    """
    links = (link("ground"), *(link(name, plate.inertia()) for name, plate in PLATES.items()))
    places = (
        ("beta", "ground", "k1", (0.0, 0.0)),
        ("theta", "k1", "k2", (RR, 0.0)),
        ("gamma", "ground", "k3", B),
        ("delta", "ground", "k5", A),
        ("phi", "k5", "k4", (ZT, 0.0)),
        ("epsilon", "ground", "k7", A),
        ("omega", "k7", "k6", (0.0, -U)),
    )
    joints = [joint(name, "continuous", parent, child, pose((*at, 0.0)), Z) for name, parent, child, at in places]
    ends = (("k2", (-D, 0.0)), ("k3", (0.0, -SS)), ("k4", (0.0, -E)), ("k6", (ZF, 0.0)))
    frames = [frame(f"{name}_end", name, (*at, 0.0)) for name, at in ends]
    frames += [frame("d", "k3", (SD, -SC, 0.0)), frame("c", "ground", (*C, 0.0))]
    loops = tuple(("k2_end", f"{name}_end", "xy") for name in ("k3", "k4", "k6"))
    description = Description("squeezer", links, tuple(joints), tuple(frames))
    return Mechanism(description, loops, ("beta",), SQUEEZER_START[:1], _squeezer_pose)


def _squeezer_pose(beta: float) -> np.ndarray:
    """The closed pose assembled as at the start; every angle but beta is within half a turn of where it starts."""
    # theta from |B - end| = ss, then the others from the point where all meet
    knee, b, a = RR * np.array([cos(beta), sin(beta)]), np.array(B), np.array(A)
    end = meet(knee, D, b, SS, 1.0)
    theta = atan2(*(knee - end)[::-1]) - beta
    gamma = atan2(*(end - b)[::-1]) + np.pi / 2.0
    middle5, middle7 = meet(a, ZT, end, E, 1.0), meet(a, U, end, ZF, -1.0)
    delta, epsilon = atan2(*(middle5 - a)[::-1]), atan2(*(middle7 - a)[::-1]) + np.pi / 2.0
    phi = atan2(*(end - middle5)[::-1]) + np.pi / 2.0 - delta
    omega = atan2(*(end - middle7)[::-1]) - epsilon
    book = np.array([beta, theta, gamma, phi, delta, omega, epsilon])
    turns = np.round((book - np.array(SQUEEZER_START)) / (2.0 * np.pi))
    turns[0] = 0.0
    return (book - 2.0 * np.pi * turns)[FROM_BOOK]


# -- a leg of five bars: two cranks on the ground, two shins that share the foot

HIPS = 0.25  # from one to the other
THIGH = Bar(0.25, 0.5, (0.109375, 0.015625), 0.00390625)
SHIN = Bar(0.5, 0.375, (0.21875, -0.015625), 0.0078125)


@cache
def five_bar() -> Mechanism:
    """Two thighs driven from the ground; the foot is below."""
    sides = (("left", -HIPS / 2.0), ("right", HIPS / 2.0))
    links: list[LinkSpec] = [link("hip")]
    joints, frames = [], []
    for side, x in sides:
        links += [link(f"{side}_thigh", THIGH.inertia()), link(f"{side}_shin", SHIN.inertia())]
        joints += [hinge(f"{side}_thigh", "hip", (x, 0.0)), hinge(f"{side}_shin", f"{side}_thigh", (THIGH.length, 0.0))]
        frames.append(point(f"{side}_foot", f"{side}_shin", (SHIN.length, 0.0)))
    description = Description("five_bar", tuple(links), tuple(joints), tuple(frames))
    independent = ("left_thigh", "right_thigh")
    return Mechanism(description, (("left_foot", "right_foot", "xz"),), independent, (2.5, 0.5), _five_bar_pose)


def _five_bar_pose(left: float, right: float) -> tuple[float, float, float, float]:
    knees = [np.array([x, 0.0]) + THIGH.length * direction(a) for x, a in ((-HIPS / 2.0, left), (HIPS / 2.0, right))]
    foot = meet(knees[0], SHIN.length, knees[1], SHIN.length, -1.0)
    return left, angle_of(foot - knees[0]) - left, right, angle_of(foot - knees[1]) - right


# -- a spatial loop: crank about y, universal joint, rod, ball joint, rocker about x (R-U-S-R)

HANDLE, STAFF, SWAY = 0.25, 1.0, 0.5  # lengths of crank, rod and rocker
PIVOT = (0.125, 1.0, -0.5)  # the rocker's hinge
HANDLE_BODY = body(1.0, (0.125, 0.03125, 0.0), (0.0078125, 0.0234375, 0.01953125))
CROSS_BODY = body(0.125, (0.0, 0.0, 0.0), (0.001953125, 0.001953125, 0.001953125))
STAFF_BODY = body(0.75, (0.015625, 0.5625, -0.03125), (0.0625, 0.0078125, 0.0625))
SWAY_MASS, SWAY_MOMENTS = 1.5, (0.0625, 0.046875, 0.03125)
SWAY_COM = (0.03125, 0.0625, 0.21875)  # from the hinge; the tip is at (0, 0, 0.5)


@cache
def spatial_loop() -> Mechanism:
    """R-U-S-R, cut at its ball joint: the rod's end meets the rocker's tip."""
    links = (*_spatial_links(), link("rocker", body(SWAY_MASS, SWAY_COM, SWAY_MOMENTS)))
    joints = (*_spatial_joints(), joint("rocker", "continuous", "stand", "rocker", pose(PIVOT), X))
    frames = (frame("rod_end", "rod", (0.0, STAFF, 0.0)), frame("rocker_end", "rocker", (0.0, 0.0, SWAY)))
    description = Description("spatial_loop", links, joints, frames)
    return Mechanism(description, (("rod_end", "rocker_end", "xyz"),), ("crank",), (0.5,), _spatial_pose)


@cache
def ball_loop() -> Mechanism:
    """The same mechanism, cut at the rocker's hinge: the rod carries the rocker on a ball joint, its foot stays on the hinge."""
    low = (SWAY_COM[0], SWAY_COM[1], SWAY_COM[2] - SWAY)
    links = (*_spatial_links(), link("rocker", body(SWAY_MASS, low, SWAY_MOMENTS)))
    joints = (*_spatial_joints(), joint("ball", "ball", "rod", "rocker", pose((0.0, STAFF, 0.0))))
    frames = (frame("pivot", "stand", PIVOT), frame("rocker_foot", "rocker", (0.0, 0.0, -SWAY)))
    description = Description("ball_loop", links, joints, frames)
    return Mechanism(description, (("pivot", "rocker_foot", "xyz ry rz"),), ("crank",), (0.5,), _ball_pose)


def _spatial_links() -> tuple[LinkSpec, ...]:
    return link("stand"), link("crank", HANDLE_BODY), link("cross", CROSS_BODY), link("rod", STAFF_BODY)


def _spatial_joints() -> tuple[JointSpec, ...]:
    return (
        joint("crank", "continuous", "stand", "crank", axis=Y),
        joint("lift", "continuous", "crank", "cross", pose((HANDLE, 0.0, 0.0)), X),
        joint("swing", "continuous", "cross", "rod", axis=Z),
    )


def _spatial_pose(crank: float) -> tuple[float, float, float, float]:
    knee = HANDLE * np.array([cos(crank), 0.0, -sin(crank)])
    # |PIVOT - knee + SWAY (0, -sin r, cos r)| = STAFF is  a cos r + b sin r = k
    path = np.array(PIVOT) - knee
    a, b, k = 2.0 * SWAY * path[2], -2.0 * SWAY * path[1], STAFF**2 - SWAY**2 - path @ path
    rocker = atan2(b, a) + acos(k / hypot(a, b))
    # the rod in the crank's axes is  STAFF (-sin swing, cos swing cos lift, cos swing sin lift)
    rod = (path + SWAY * np.array([0.0, -sin(rocker), cos(rocker)])) / STAFF
    x, y, z = cos(crank) * rod[0] - sin(crank) * rod[2], rod[1], sin(crank) * rod[0] + cos(crank) * rod[2]
    return crank, atan2(z, y), -asin(x), rocker


def _ball_pose(crank: float) -> list[float]:
    *arm, rocker = _spatial_pose(crank)
    crank_q, lift_q, swing_q = (_turn(axis, angle) for axis, angle in zip((Y, X, Z), arm, strict=True))
    rod = _times(_times(crank_q, lift_q), swing_q)
    back = [-rod[0], -rod[1], -rod[2], rod[3]]
    return [*arm, *_times(back, _turn(X, rocker))]


def _turn(axis: Sequence[float], angle: float) -> list[float]:
    """The quaternion (x, y, z, w) of a turn about a unit axis."""
    return [*(sin(angle / 2.0) * x for x in axis), cos(angle / 2.0)]


def _times(p: Sequence[float], q: Sequence[float]) -> list[float]:
    """The product of two quaternions (x, y, z, w)."""
    (a, b, c, s), (x, y, z, w) = p, q
    return [
        s * x + w * a + b * z - c * y,
        s * y + w * b + c * x - a * z,
        s * z + w * c + a * y - b * x,
        s * w - a * x - b * y - c * z,
    ]


ALL: tuple[Callable[[], Mechanism], ...] = (four_bar, slider_crank, squeezer, five_bar, spatial_loop, ball_loop)
