"""Reference checks of the robot on two wheels: constraints, energy, forces, and the figure of eight."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from apps.demos.wheeled_pendulum_formulas import GRAVITY, unstable_pole

from condyle.apps.demos.checks import Check, largest
from condyle.apps.demos.profiles import lemniscate_distance
from condyle.apps.demos.two_wheeled import (
    DT,
    FRICTION,
    HALF_WIDTH,
    MOTORS,
    REST,
    TORQUE,
    State,
    contact_motion,
    ground_forces,
    plan,
    rolling,
    unconstrained,
    world,
)
from condyle.multibody.robot import load
from condyle.robot.library.wheeled_pendulum import RADIUS
from condyle.simulate.simulation import Simulation
from condyle.workbench.runs.run import Run

Array = np.ndarray

MILLION, CHUNK = 1_000_000, 20_000
PASSIVE = 10.0  # s


def checks(run: Run) -> Iterator[Check]:
    """All checks of a run."""
    yield from contact_checks("driving", *rolling().lift(*run.simulation.split(run.x)))
    yield from million()
    yield from equations(run)
    yield from driven(run)


def contact_checks(group: str, q: Array, v: Array) -> Iterator[Check]:
    heights, slips, yaw = contact_motion(q, v)
    yield Check(group, "height of both wheels' centres, less their radius", largest(heights), "m", high=1e-15)
    for k, side in enumerate(("left", "right")):
        yield Check(group, f"velocity of the {side} wheel where it touches", largest(slips[k]), "m/s", high=1e-14)
    yield Check(group, "yaw, less what the wheels turned", largest(yaw - yaw[0]), "rad", high=1e-12)


@cache
def hanging() -> Simulation:
    """The same robot under gravity that points upwards: passive, it swings about upright and never lies down.

    Lying, at a pitch of a quarter turn, yaw and roll are one, and the base's height and roll cannot follow the wheels.
    """
    robot = load("two_wheeled", gravity=(0.0, 0.0, GRAVITY)).roll(MOTORS, RADIUS)
    return Simulation(robot, DT, integrator="rk4", actuated=MOTORS)


def thrown(here: Simulation) -> Array:
    return here.state([0.0, 0.0, 0.0, 0.25, 0.0, 0.0], [0.0, 20.0, 24.0])


def million() -> Iterator[Check]:
    """The same during a million passive steps. The wheels' angles are integrated, so their rounding errors accumulate."""
    here, found = hanging(), np.zeros(3)
    x = thrown(here)
    for _ in range(0, MILLION, CHUNK):
        xs = here.rollout(x, np.zeros((CHUNK, 2)))
        parts = contact_motion(*rolling().lift(*here.split(xs)))
        found = np.maximum(found, [largest(part) for part in parts])
        x = xs[-1]
    names = ("height - radius", "velocity at the contact points", "yaw - that of the wheels' angles")
    for name, value, unit, bound in zip(names, found, ("m", "m/s", "rad"), (1e-15, 1e-13, 1e-9), strict=True):
        yield Check("a million steps", name, float(value), unit, high=bound)


def equations(run: Run) -> Iterator[Check]:
    robot, here = rolling(), world()
    by_y = robot.forward_dynamics_derivatives(np.zeros(6), np.zeros(3), np.zeros(3))[0]
    # of the pitch; the wheels have no part in what pulls
    pole = float(np.sqrt(by_y[0, 3]))
    yield Check("closed form", "unstable pole, less the pendulum's", abs(pole - unstable_pole()), "rad/s", high=1e-12)
    swinging = hanging()
    x = swinging.rollout(thrown(swinging), np.zeros((round(PASSIVE / DT), 2)))
    energy, kinetic = swinging.energy(x), swinging.robot.kinetic_energy(*swinging.split(x))
    off = largest(energy - energy[0]) / float(kinetic.max())
    yield Check("energy", f"passive under gravity upwards, {PASSIVE:g} s of RK4, by the largest kinetic", off, high=1e-9)
    work = (run.u * np.diff(run.x[:, 4:6], axis=0)).sum(axis=1)
    off = largest(np.diff(here.energy(run.x)).cumsum() - work.cumsum())
    yield Check("energy", "driving, less the work of the motors", off, "J", high=1e-9)
    yield from forces(0.05, 0.02)


def forces(left: float, right: float, seconds: float = 0.4) -> Iterator[Check]:
    """With steady torques: both wheels' forces add up to the weight and the rate of the whole momentum."""
    here, robot = world(), rolling()
    steps = round(seconds / DT)
    x = here.rollout(thrown(here), np.tile([left, right], (steps, 1)))
    y, w = here.split(x)
    momentum = unconstrained().momentum(*robot.lift(y, w))
    rate = (momentum[:-4] - 8.0 * momentum[1:-3] + 8.0 * momentum[3:-1] - momentum[4:])[:, :3] / (12.0 * DT)
    tau = np.zeros((steps + 1, unconstrained().nv))
    tau[:, 6:] = left, right
    found = robot.reactions(y, w, tau)
    weight = unconstrained().mass * GRAVITY
    ahead, side = (np.stack([f(y[:, 2]), g(y[:, 2])]) for f, g in ((np.cos, np.sin), (lambda a: -np.sin(a), np.cos)))
    level = ahead * (found["left_wheel.forward"] + found["right_wheel.forward"]) + side * found["left_wheel.side"]
    total = np.stack([*level, found["left_wheel.normal"] + found["right_wheel.normal"] - weight], axis=-1)
    off = largest(total[2:-2] - rate) / weight
    yield Check("force of the ground", "both wheels', less weight and rate of momentum, by the weight", off, high=1e-8)


def driven(run: Run) -> Iterator[Check]:
    group, now, forces = "a figure of eight, 1 m wide", State.of(run.x), ground_forces(run)
    away = lemniscate_distance(now.middle, HALF_WIDTH)
    late = np.linalg.norm(now.middle - plan().path.position, axis=-1)
    settled = run.steps - round(0.5 * REST / DT)
    normal = np.minimum(forces["left_wheel.normal"], forces["right_wheel.normal"])
    level = np.hypot(forces["left_wheel.forward"] + forces["right_wheel.forward"], forces["left_wheel.side"])
    both = forces["left_wheel.normal"] + forces["right_wheel.normal"]
    yield Check(group, "largest distance from the curve", 1e3 * largest(away), "mm", high=0.5, form=".3f")
    yield Check(group, "largest distance from where it should be", 1e3 * largest(late), "mm", high=15.0, form=".2f")
    yield Check(group, "the same when it stands again", 1e3 * largest(late[settled:]), "mm", high=0.1, form=".2f")
    yield Check(group, "largest pitch", largest(now.pitch), "rad", high=0.15, form=".3f")
    # a motor's limit is 0.25 N m: it is never met
    yield Check(group, "peak torque of a motor, by its limit", largest(run.u) / TORQUE, "", high=0.5, form=".2f")
    half = unconstrained().mass * GRAVITY / 2.0
    yield Check(group, "least normal force of a wheel, by half the weight", float(normal.min()) / half, "", 0.5, 1.0, ".2f")
    yield Check(
        group, "friction coefficient that both wheels need together", largest(level / both), "", high=FRICTION, form=".3f"
    )
