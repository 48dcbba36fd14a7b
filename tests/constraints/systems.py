"""Constrained robots of every kind, with states in which they are regular, and time derivatives at 512 bits.

system = SYSTEMS["four_bar"]()            # built once
y, w, a = system.state(seed)              # coordinates, velocities, accelerations that remain
time_derivative(lambda t: robot.mass_matrix(moved(robot, y, w, t), backend=MPFR))  # d/dt along that motion, right to 80 digits
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import gmpy2
import numpy as np
from constraints import mechanisms as m
from constraints import wheel_closed_form as wheel
from dynamics.random_robots import TOOL, random_description, random_model

import condyle as cd
from condyle.dynamics.manifold import random_configuration
from condyle.robot import library
from condyle.robot.build import build
from condyle.robot.description import FrameSpec
from condyle.robot.parts import Y, Z, body, joint, link, pose
from condyle.robot.spatial import Pose

BITS, STEP = 512, 2.0**-160
MPFR = f"mpfr:{BITS}"
ANCHOR = "anchor"  # the frame that a tool is attached to


@dataclass(frozen=True)
class System:
    """A constrained robot, its robot without the constraint, and how far from `middle` its states are drawn."""

    robot: cd.Robot
    free: cd.Robot
    middle: np.ndarray
    spread: float

    def state(self, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(y, w, a), the same for the same seed."""
        rng = np.random.default_rng(seed)
        reduced = self.robot.reduced
        step = self.spread * rng.uniform(-1, 1, reduced.nv)
        y = self.middle + step if reduced.nq == reduced.nv else self.robot.integrate(self.middle, step)
        return y, rng.uniform(-1, 1, self.robot.nv), rng.uniform(-1, 1, self.robot.nv)

    @property
    def frame(self) -> str:
        """A frame that moves: one on the last link that has any."""
        return max(self.free.model.frames, key=lambda frame: frame.link).name

    def tau(self, seed: int) -> np.ndarray:
        """Joint forces of the robot without the constraint."""
        return np.random.default_rng(1000 + seed).uniform(-1, 1, self.free.nv)


# -- in more digits


def precise(x: Any) -> np.ndarray:
    """The same numbers, for a backend with more digits."""
    return np.vectorize(gmpy2.mpfr, otypes=[object])(x)


def moved(robot: cd.Robot, y: Any, w: Any, seconds: Any) -> np.ndarray:
    """y after a time so short that w is as it was: right to first order."""
    return robot.integrate(precise(y), precise(w) * seconds, backend=MPFR)


def time_derivative(function: Callable[[Any], Any]) -> list[np.ndarray]:
    """d function / dt at zero, of each of its results: by differences at 512 bits, rounded to float64."""
    with gmpy2.context(precision=BITS):
        step = gmpy2.mpfr(STEP)
        high, low = (function(sign * step) for sign in (1, -1))
        pairs = zip(high, low, strict=True) if isinstance(high, tuple) else [(high, low)]
        return [np.asarray((np.asarray(h) - l) / (2 * step)).astype(float) for h, l in pairs]


def lifted(robot: cd.Robot, y: Any, w: Any, a: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(q, v, dv/dt) of all coordinates; the last by differences of the lifted velocity along the motion."""
    q, v = robot.lift(y, w)

    def velocity(t: Any) -> np.ndarray:
        return robot.lift(moved(robot, y, w, t), precise(w) + precise(a) * t, backend=MPFR)[1]

    return q, v, time_derivative(velocity)[0]


def map_of(robot: cd.Robot, y: Any) -> np.ndarray:
    """T, column by column from lifted unit velocities."""
    return np.column_stack([robot.lift(y, e)[1] for e in np.eye(robot.nv)])


def near(a: Any, b: Any, tolerance: float, scale: float | None = None) -> bool:
    """Whether the largest difference is within tolerance of the largest entry (or of a scale, where zero is expected)."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    assert a.shape == b.shape, f"shapes {a.shape} and {b.shape}"
    return bool(np.abs(a - b).max() <= tolerance * (max(np.abs(b).max(), 1e-300) if scale is None else scale))


# -- closed mechanisms


@cache
def closed(make: Callable[..., m.Mechanism], *sizes: int, through: bool = False) -> cd.Robot:
    """A mechanism of `mechanisms`, closed in its usual pose, with its usual independent joints."""
    mechanism = make(*sizes)
    return mechanism.robot.close_loops(mechanism.loops, q=mechanism.pose(), independent=mechanism.independent, through=through)


def _mechanism(make: Callable[..., m.Mechanism], *sizes: int) -> System:
    mechanism = make(*sizes)
    return System(closed(make, *sizes), mechanism.robot, np.array(mechanism.start), 0.3)


@cache
def parallel_leg() -> System:
    """The leg of five bars, its right thigh geared to the left one before the loop is closed."""
    leg = m.five_bar()
    lower = leg.robot.couple("right_thigh", "left_thigh", -1.0, 3.0)
    y = leg.pose()[[leg.robot.joint_names.index(name) for name in lower.joint_names]]
    robot = lower.close_loops(leg.loops, q=y, independent=["left_thigh"])
    return System(robot, leg.robot, robot.neutral(), 0.3)


# -- wheels


def wheel_gamma(y: Any) -> Any:
    """q = (x, z, phi, theta) by (x, phi), the wheel's angle zero with its centre at x = 0."""
    x, phi = y
    centre = x - wheel.LENGTH * np.sin(phi)
    return np.array([x, wheel.RADIUS + wheel.LENGTH * np.cos(phi), phi, centre / wheel.RADIUS - phi])


def wheel_place(y: Any) -> Any:
    """q by (x, phi, theta): rolling ties only the rate of theta."""
    return np.array([y[0], wheel.RADIUS + wheel.LENGTH * np.cos(y[1]), y[1], y[2]])


def wheel_map(y: Any) -> Any:
    """v = T (x', phi')."""
    s, c = np.sin(y[1]), np.cos(y[1])
    return np.array(
        [
            [1.0, 0.0],
            [0.0, -wheel.LENGTH * s],
            [0.0, 1.0],
            [1.0 / wheel.RADIUS, -wheel.LENGTH * c / wheel.RADIUS - 1.0],
        ]
    )


@cache
def wheeled(how: str = "roll") -> cd.Robot:
    """The wheeled pendulum: its own kind of rolling, q = gamma(y), or v = T(y) w."""
    pendulum = cd.load("wheeled_pendulum")
    if how == "roll":
        return pendulum.roll("axle", wheel.RADIUS)
    if how == "gamma":
        return pendulum.embed(wheel_gamma, names=["x", "phi"])
    return pendulum.embed(wheel_place, wheel_map, names=["x", "phi", "theta"], velocities=["x", "phi"])


def hills(x: Any) -> Any:
    """Hollows with a radius of 0.5 m and more, so that the wheel of 0.04 m touches them at one point."""
    return 0.125 * np.sin(4.0 * x) + 0.25 * x


@cache
def on_hills() -> cd.Robot:
    return cd.load("wheeled_pendulum").roll("axle", wheel.RADIUS, ground=hills)


@cache
def two_wheeled() -> cd.Robot:
    return cd.load("two_wheeled").roll(["left_wheel", "right_wheel"], wheel.RADIUS)


def _wheel(make: Callable[[], cd.Robot], base: str = "wheeled_pendulum") -> System:
    robot = make()
    return System(robot, cd.load(base), robot.neutral(), 0.5)


# -- random robots with random constraints

SINGLE = ("revolute", "continuous", "prismatic")
MIXED = ("continuous", "prismatic", "ball", "revolute", "continuous", "revolute")


def random_couplings(robot: cd.Robot, rng: np.random.Generator) -> dict[str, tuple[dict[str, float], float]]:
    """Some joints with one coordinate follow one or two others: {follower: ({other: ratio}, offset)}."""
    names = [link.joint for link in robot.model.links if link.kind.nv == 1]
    rng.shuffle(names)
    followers, others = names[: len(names) // 3 + 1], names[len(names) // 3 + 1 :]
    return {
        name: (
            {
                str(o): float(rng.uniform(-2, 2))
                for o in rng.choice(others, min(len(others), int(rng.integers(1, 3))), replace=False)
            },
            float(rng.uniform(-1, 1)),
        )
        for name in followers
    }


def coupling_rows(robot: cd.Robot, couplings: dict[str, tuple[dict[str, float], float]]) -> np.ndarray:
    """A with A v = 0 for the couplings."""
    A = np.zeros((len(couplings), robot.nv))
    for row, (name, (ratios, _)) in zip(A, couplings.items(), strict=True):
        row[robot.v_slice(name)] = 1.0
        for other, ratio in ratios.items():
            row[robot.v_slice(other)] = -ratio
    return A


@cache
def coupled(seed: int, base: str) -> tuple[System, dict[str, tuple[dict[str, float], float]]]:
    """A random tree of every kind of joint with random linear couplings."""
    free = cd.Robot(random_model(seed, joints=4, kinds=MIXED[:4], base=base))
    couplings = random_couplings(free, np.random.default_rng(seed))
    robot = free.couple(couplings)
    return System(robot, free, robot.random_configuration(np.random.default_rng(seed)), 1.0), couplings


@dataclass(frozen=True)
class Wave:
    """A curved surface, x = shift + A y + B sin(C y): x are all coordinates; a free base turns about a fixed axis by x[3]."""

    free: cd.Robot
    shift: np.ndarray
    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    axis: np.ndarray

    @staticmethod
    def of(free: cd.Robot, rng: np.random.Generator, count: int = 2) -> Wave:
        axis = rng.standard_normal(3)
        n = free.nv
        return Wave(
            free,
            rng.uniform(-1, 1, n),
            rng.uniform(-1, 1, (n, count)),
            rng.uniform(-0.5, 0.5, (n, 3)),
            rng.uniform(-1, 1, (3, count)),
            axis / np.linalg.norm(axis),
        )

    @property
    def with_base(self) -> bool:
        return self.free.nq > self.free.nv

    def gamma(self, y: Any) -> Any:
        """All coordinates; of a free base, the position and the quaternion of one turn."""
        explicit = self.shift + self.A @ y + self.B @ np.sin(self.C @ y)
        if not self.with_base:
            return explicit
        half = explicit[3] * 0.5
        return np.array([*explicit[:3], *(self.axis * np.sin(half)), np.cos(half), *explicit[6:]], dtype=object)

    def motion(self, y: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(T, Tdot w) by hand. A base with velocity u in the world has R^T u in its own axes, and R turns at axis * rate."""
        slow = self.C @ y
        T = self.A + self.B @ (np.cos(slow)[:, None] * self.C)
        second = -self.B @ (np.sin(slow) * (self.C @ w) ** 2)
        if not self.with_base:
            return T, second
        angle, rate = (self.shift + self.A @ y + self.B @ np.sin(slow))[3], T[3] @ w
        K = np.cross(self.axis, np.eye(3)).T
        R = np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * K @ K
        full, drift = T.copy(), second.copy()
        full[:3], full[3:6] = R.T @ T[:3], np.outer(self.axis, T[3])
        drift[:3] = R.T @ second[:3] - rate * np.cross(self.axis, R.T @ (T[:3] @ w))
        drift[3:6] = self.axis * second[3]
        return full, drift


@cache
def waved(seed: int, base: str) -> tuple[System, Wave]:
    """A random tree on a random curved surface of two dimensions."""
    free = cd.Robot(random_model(seed, joints=3, kinds=SINGLE, base=base))
    wave = Wave.of(free, np.random.default_rng(seed))
    robot = free.embed(wave.gamma, names=["a", "b"])
    return System(robot, free, np.zeros(2), 0.5), wave


@cache
def anchored(seed: int, base: str, axes: str = "xyz", couple: bool = True) -> tuple[System, dict[str, Any]]:
    """A random tree whose tool is attached to its first link where it happens to be, after some couplings."""
    rng = np.random.default_rng(seed)
    description = random_description(rng, joints=5, kinds=("revolute", "continuous", "prismatic", "continuous"))
    # a chain, so that all joints are in the loop
    joints = [replace(joint, parent=f"link{k}") for k, joint in enumerate(description.joints)]
    description = replace(description, joints=tuple(joints))
    alone = cd.Robot(build(description))
    couplings: dict[str, Any] = {}
    if couple:
        names = alone.joint_names
        couplings = {names[1]: ({names[0]: 0.5, names[2]: -0.25}, 0.25)}
    lower = alone.couple(couplings) if couple else alone
    y = random_configuration(lower.reduced, rng)
    q = lower.lift(y, np.zeros(lower.nv))[0] if couple else y
    R, p = alone.frame_pose(q, TOOL)
    description = replace(description, frames=(*description.frames, FrameSpec(ANCHOR, "link0", Pose(R, p))))
    free = cd.Robot(build(description, base))
    lower = free.couple(couplings) if couple else free
    start = lower.neutral()
    start[lower.nq - len(y) :] = y
    robot = lower.close_loop(ANCHOR, TOOL, axes, q=start)
    return System(robot, free, robot.neutral(), 0.05), couplings


def sphere(p: Any) -> Any:
    return (p - 0.25) @ (p - 0.25)


def sphere_slopes(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return 2.0 * (p - 0.25), 2.0 * np.eye(3)


def waves(p: Any) -> Any:
    return p[2] - 0.25 * np.sin(3.0 * p[0]) * np.cos(2.0 * p[1])


def waves_slopes(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    (s, c), (t, d) = (np.sin(3 * p[0]), np.cos(3 * p[0])), (np.sin(2 * p[1]), np.cos(2 * p[1]))
    rates = np.array([-0.75 * c * d, 0.5 * s * t, 1.0])
    return rates, np.array([[2.25 * s * d, 1.5 * c * t, 0.0], [1.5 * c * t, s * d, 0.0], [0.0, 0.0, 0.0]])


SURFACES = {"sphere": (sphere, sphere_slopes), "waves": (waves, waves_slopes)}


@cache
def touching(seed: int, base: str, surface: str) -> System:
    """A random tree whose tool stays on a surface, at the level where it happens to be."""
    free = cd.Robot(random_model(seed, joints=3, kinds=MIXED[:3], base=base))
    q = free.random_configuration(np.random.default_rng(seed))
    law = SURFACES[surface][0]
    level = float(law(free.frame_pose(q, TOOL)[1]))
    robot = free.point_on(TOOL, lambda p: law(p) - level, q=q)
    return System(robot, free, robot.neutral(), 0.05)


SYSTEMS: dict[str, Callable[[], System]] = {
    **{make.__name__: partial(_mechanism, make) for make in m.ALL if make is not m.ball_loop},
    "four_bars": partial(_mechanism, m.four_bars, 3),
    "rolling": partial(_wheel, wheeled),
    "wheel by gamma": partial(_wheel, partial(wheeled, "gamma")),
    "wheel by velocity": partial(_wheel, partial(wheeled, "velocity")),
    "on hills": partial(_wheel, on_hills),
    "two_wheeled": partial(_wheel, two_wheeled, "two_wheeled"),
    "coupled": lambda: coupled(1, "free")[0],
    "on a curved surface": lambda: waved(1, "planar")[0],
    "coupled and closed": parallel_leg,
    "tool on a sphere": lambda: touching(8, "fixed", "sphere"),
}


# -- constraints upon constraints, and other large ones


@cache
def closed_then_geared() -> System:
    """The leg of five bars closed first, and then geared."""
    return System(closed(m.five_bar).couple("right_thigh", "left_thigh", -1.0, 3.0), m.five_bar().robot, np.array([2.5]), 0.3)


@cache
def geared_on_a_surface() -> System:
    """A random tree with one joint that follows, on a curved surface of two dimensions."""
    free = cd.Robot(random_model(8, joints=3, kinds=SINGLE, base="planar"))
    lower, rng = free.couple("joint2", "joint0", 0.5, 0.25), np.random.default_rng(8)
    A, B = rng.uniform(-1, 1, (2, lower.nq, 2))
    robot = lower.embed(lambda y: A @ y + 0.25 * np.sin(B @ y), names=["a", "b"])
    return System(robot, free, robot.neutral(), 0.5)


@cache
def tool_on_a_sphere_on_a_surface() -> System:
    """A random tree on a curved surface of two dimensions, of which its tool leaves one."""
    free = cd.Robot(random_model(8, joints=3, kinds=SINGLE))
    lower = free.embed(Wave.of(free, np.random.default_rng(8)).gamma, names=["a", "b"])
    level = float(sphere(lower.frame_pose(np.zeros(2), TOOL)[1]))
    robot = lower.point_on(TOOL, lambda p: sphere(p) - level)
    return System(robot, free, robot.neutral(), 0.05)


def with_arm(name: str, base: str) -> cd.Robot:
    """A built-in robot with an arm on its body: a shoulder about y and a slide."""
    description = library.description(name)
    arm = body(0.25, (0.0, 0.0, 0.125), (0.0078125, 0.0078125, 0.001953125))
    joints = (
        joint("shoulder", "continuous", "body", "upper", pose((0.0, 0.03125, 0.0)), Y),
        joint("reach", "prismatic", "upper", "lower", pose((0.0, 0.0, 0.25)), Z),
    )
    links = (*description.links, link("upper", arm), link("lower", arm))
    return cd.load(replace(description, links=links, joints=(*description.joints, *joints)), base=base)


@cache
def rolling_with_an_arm() -> System:
    """Two wheels in space under an arm whose slide is geared to its shoulder."""
    free = with_arm("two_wheeled", "euler")
    robot = free.couple("reach", "shoulder", 0.125, 0.0625).roll(["left_wheel", "right_wheel"], wheel.RADIUS)
    return System(robot, free, robot.neutral(), 0.4)


@cache
def arm_on_hills() -> System:
    free = with_arm("wheeled_pendulum", "planar")
    robot = free.roll("axle", wheel.RADIUS, ground=hills)
    return System(robot, free, robot.neutral(), 0.4)


@cache
def leaning_wheel() -> System:
    """The balancing robot on one of its wheels, which leans with it."""
    free = cd.load("two_wheeled")
    robot = free.roll("left_wheel", wheel.RADIUS)
    return System(robot, free, robot.neutral(), 0.4)


# these take long to compile: for tests of all that matters at once
LARGE: dict[str, Callable[[], System]] = {
    "ball_loop": partial(_mechanism, m.ball_loop),
    "closed, then geared": closed_then_geared,
    "geared, on a surface": geared_on_a_surface,
    "on a surface, tool on a sphere": tool_on_a_sphere_on_a_surface,
    "geared, rolling": rolling_with_an_arm,
    "arm on hills": arm_on_hills,
    "leaning wheel": leaning_wheel,
}
