"""Bodies with closed forms: boxes, spheres, pendulums, sliders, and the simulations that tests share.

`world(body, dt, ...)` is compiled once for equal arguments, however many tests ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import condyle as cd
from condyle.robot.description import Description, JointSpec, Limits
from condyle.robot.parts import X, Y, Z, body, box, link, pose, solid, sphere
from condyle.simulate.contacts import LawNumbers, recovery_speed
from condyle.simulate.points import point_on

G = 9.81
REST = 1e-3  # the height at which contact begins by default, m
BOX = (0.2, 0.2, 0.1)
HALF = BOX[2] / 2.0


# -- robots


@cache
def a_box(size: tuple[float, float, float] = BOX, mass: float = 1.0, base: str = "free") -> cd.Robot:
    """A uniform box with its frame in the middle."""
    shape = box(size, name="box")
    return cd.load(Description("box", (link("box", solid(mass, shape), [], [shape]),), ()), base=base)


@cache
def a_sphere(radius: float = 0.1, mass: float = 1.0) -> cd.Robot:
    """A uniform sphere on a free base."""
    shape = sphere(radius, name="ball")
    return cd.load(Description("ball", (link("ball", solid(mass, shape), [], [shape]),), ()), base="free")


@cache
def a_pendulum(
    damping: float = 0.0,
    friction: float = 0.0,
    armature: float = 0.0,
    limits: tuple[float, float] | None = None,
    effort: float | None = None,
    gravity: float = G,
) -> cd.Robot:
    """A mass of 1 kg on a massless rod of 1 m, which turns about y; at angle zero it points along x, down is +90 degrees."""
    lower, upper = limits or (None, None)
    hinge = JointSpec(
        "hinge", "revolute" if limits else "continuous", "stand", "rod", pose(), np.array(Y), Limits(lower, upper, None, effort),
        damping, friction, armature,
    )  # fmt: skip
    rod = link("rod", body(1.0, (1.0, 0.0, 0.0), (1e-9, 1e-9, 1e-9)))
    return cd.load(Description("pendulum", (link("stand"), rod), (hinge,)), gravity=(0.0, 0.0, -gravity))


@cache
def a_slider(friction: float = 0.0, damping: float = 0.0, limits: tuple[float, float] | None = None) -> cd.Robot:
    """A mass of 1 kg that slides along x."""
    lower, upper = limits or (None, None)
    rail = JointSpec(
        "rail", "prismatic", "stand", "mass", pose(), np.array(X), Limits(lower, upper), damping, friction
    )  # fmt: skip
    return cd.load(Description("slider", (link("stand"), link("mass", body(1.0, moments=(0.1, 0.1, 0.1)))), (rail,)))


@cache
def light_feet(grams: float = 1.0, limits: float = 0.02, friction: float = 0.0) -> cd.Robot:
    """A body of 10 kg on four feet, each on a vertical slide of its own: mass ratio 1e4 for feet of a gram."""
    torso = box((0.4, 0.3, 0.1), name="torso")
    links, joints = [link("torso", solid(10.0, torso), [], [torso])], []
    for k, (x, y) in enumerate([(0.2, 0.15), (0.2, -0.15), (-0.2, 0.15), (-0.2, -0.15)]):
        ball = sphere(0.01, name=f"foot{k}")
        links.append(link(f"shin{k}", solid(grams * 1e-3, ball), [], [ball]))
        place, bounds = pose((x, y, -0.2)), Limits(-limits, limits)
        joints.append(JointSpec(f"slide{k}", "prismatic", "torso", f"shin{k}", place, np.array(Z), bounds, 0.0, friction))
    return cd.load(Description("light_feet", tuple(links), tuple(joints)), base="free")


# -- simulations


@cache
def simulation(
    robot: cd.Robot, dt: float, ground: Any = None, contacts: Any = None, springs: Any = (), **options: Any
) -> cd.Simulation:
    """The simulation with these arguments, made once."""
    return cd.Simulation(robot, dt, ground, contacts, springs=dict(springs), **options)


def box_on(ground: Any, dt: float, size: tuple[float, float, float] = BOX, **options: Any) -> cd.Simulation:
    """A box of 1 kg that touches with its four lower corners."""
    return simulation(a_box(size), dt, ground, lower_corners(size), **options)


def ball_on(ground: Any, dt: float, **options: Any) -> cd.Simulation:
    """A ball of 1 kg and 0.1 m."""
    return simulation(a_sphere(), dt, ground, **options)


@cache
def lower_corners(size: tuple[float, float, float] = BOX) -> tuple[Any, ...]:
    """The four lower corners of a box as contact points."""
    a, b, c = (s / 2.0 for s in size)
    places = [(x, y, -c) for x in (-a, a) for y in (-b, b)]
    return tuple(point_on(a_box(size).model, "box", place, name=f"corner{k}") for k, place in enumerate(places))


def run(simulation: cd.Simulation, x: np.ndarray, seconds: float) -> np.ndarray:
    """The states (..., T, nx) without controls; whole calls of 64 steps."""
    steps = 64 * max(1, round(seconds / simulation.dt / 64))
    xs: np.ndarray = simulation.rollout(x, np.zeros((steps, simulation.nu)), parameters=own_numbers(simulation))
    return xs


def own_numbers(simulation: cd.Simulation) -> dict[str, Any]:
    """Its own dt, ground and smoothing as parameters of a call: one kernel for all simulations that differ in nothing else."""
    known = simulation.parameters
    names = ["dt", "ground.friction", "ground.slope", "contact.smoothing"]
    # a ground without friction is built so
    return {name: known[name].default for name in names if name in known and (name != "ground.friction" or known[name].default)}


def lift_speed(simulation: cd.Simulation, depth: Any) -> np.ndarray:
    """The speed at which contacts come up, by their depth below where contact begins, m/s."""
    out: np.ndarray = recovery_speed(simulation.world, LawNumbers.of(simulation.world), np.asarray(depth))
    return out


# -- poses


def upright(height: Any) -> np.ndarray:
    """q of a free body at this height, not turned; batches of heights give batches."""
    height = np.asarray(height, dtype=float)
    q = np.zeros((*height.shape, 7))
    q[..., 2], q[..., 6] = height, 1.0
    return q


def on_slope(degrees: float, height: float) -> np.ndarray:
    """q of a free body that stands on Slope(degrees), its middle this high over it."""
    a = np.radians(degrees)
    # the slope rises towards +x: its normal is (-sin, 0, cos), and the body is turned by -a about y
    return np.array([-np.sin(a) * height, 0.0, np.cos(a) * height, 0.0, -np.sin(a / 2.0), 0.0, np.cos(a / 2.0)])


def along_slope(q: Any, degrees: float) -> np.ndarray:
    """How far down the slope a free body is, m."""
    a = np.radians(degrees)
    out: np.ndarray = -(q[..., 0] * np.cos(a) + q[..., 2] * np.sin(a))
    return out


def over_slope(q: Any, degrees: float) -> np.ndarray:
    """How high over the slope the middle of a free body is, m."""
    a = np.radians(degrees)
    out: np.ndarray = q[..., 2] * np.cos(a) - q[..., 0] * np.sin(a)
    return out


def turned_by(angle: Any, height: float) -> np.ndarray:
    """q of a free body at this height, turned about z."""
    angle = np.asarray(angle, dtype=float)
    q = upright(np.full(angle.shape, height))
    q[..., 5], q[..., 6] = np.sin(angle / 2.0), np.cos(angle / 2.0)
    return q


def random_drops(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(q, v) of free bodies 0.12 to 0.6 m high, turned any way, at up to 2 m/s and 10 rad/s along each axis."""
    q = upright(rng.uniform(0.12, 0.6, count))
    turn = rng.standard_normal((count, 4))
    q[:, 3:] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    return q, np.hstack([rng.uniform(-2.0, 2.0, (count, 3)), rng.uniform(-10.0, 10.0, (count, 3))])


# -- robots that stand


@dataclass(frozen=True)
class Standing:
    """A robot dropped from a few centimetres with a controller that holds its joints."""

    simulation: cd.Simulation
    target: np.ndarray
    kp: np.ndarray
    kd: np.ndarray

    @staticmethod
    def of(name: str, dt: float = 1e-3) -> Standing:
        robot = cd.load(name)
        s = simulation(robot, dt, cd.Plane(0.8), "*foot*")
        q = robot.neutral()
        if name == "pidog":
            for leg, side in (("lf", 1.0), ("lh", 1.0), ("rf", -1.0), ("rh", -1.0)):
                q[robot.q_slice(f"{leg}_hip")], q[robot.q_slice(f"{leg}_knee")] = 0.2 * side, 1.2 * side
        feet = [f for f in robot.frame_names if "foot" in f]
        q[2] = 0.03 + s._world.points[0].radius - min(robot.frame_pose(q, f)[1][2] for f in feet)
        # what one step of explicit damping bears, joint by joint
        kd = 0.8 / (np.diag(np.linalg.inv(robot.mass_matrix(q)))[6:] * dt)
        return Standing(s, q, 100.0 * kd, kd)

    def control(self, x: np.ndarray) -> np.ndarray:
        """PD about the first pose."""
        q, v = self.simulation.split(x)
        out: np.ndarray = self.kp * (self.target[7:] - q[7:]) - self.kd * v[6:]
        return out

    def run(self, seconds: float) -> tuple[np.ndarray, float]:
        """(the states, the largest residual)."""
        s, worst = self.simulation, 0.0
        xs = [s.state(self.target)]
        for _ in range(round(seconds / s.dt)):
            xs.append(s.step(xs[-1], self.control(xs[-1])))
            assert s.status is not None
            worst = max(worst, float(s.status.residual))
        return np.array(xs), worst
