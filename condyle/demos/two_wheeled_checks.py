"""Everything that is checked about the robot on two wheels, one row each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from condyle.demos.lemniscate import from_curve
from condyle.demos.row import Row, Say, silent, worst
from condyle.demos.two_wheeled import (
    DT,
    FRICTION,
    HALF_WIDTH,
    MOTORS,
    REST,
    TORQUE,
    Run,
    drive,
    rolling,
    whole,
    world,
)
from condyle.demos.wheel_formulas import GRAVITY, unstable_pole
from condyle.multibody.robot import load
from condyle.robot.library.two_wheeled import HALF_TRACK
from condyle.robot.library.wheeled_pendulum import RADIUS
from condyle.simulate.simulation import Simulation

Array = np.ndarray

MILLION, CHUNK = 1_000_000, 20_000
PASSIVE = 10.0  # s


def checks(run: Run | None = None, *, quick: bool = False, say: Say = silent) -> Iterator[Row]:
    """The rows, in order. `quick` leaves out the million steps."""
    say("driving a figure of eight", 0, 1)
    done = drive() if run is None else run
    yield from contact_rows("while it drives", done.q, done.v)
    yield from million(quick, say)
    say("energy and forces", 0, 1)
    yield from equations(done)
    yield from driven(done)


def contact_motion(q: Array, v: Array) -> tuple[Array, Array, Array]:
    """(heights of both wheels' lowest points, velocities of both wheels' matter there, yaw less what the wheels turned)."""
    robot, heights, slips = whole(), [], []
    for side in ("left", "right"):
        frame = f"{side}_center"
        moving = (robot.jacobian(q, frame) @ v[..., None])[..., 0]
        heights.append(robot.frame_pose(q, frame)[1][..., 2] - RADIUS)
        slips.append(moving[..., :3] + np.cross(moving[..., 3:], (0.0, 0.0, -RADIUS)))
    turned = RADIUS * (q[..., 7] - q[..., 6]) / (2.0 * HALF_TRACK)
    return np.stack(heights), np.stack(slips), q[..., 3] - turned


def contact_rows(group: str, q: Array, v: Array) -> Iterator[Row]:
    heights, slips, yaw = contact_motion(q, v)
    yield Row(group, "height of both wheels' centres, less their radius", worst(heights), "m", high=1e-15)
    for k, side in enumerate(("left", "right")):
        yield Row(group, f"velocity of the {side} wheel where it touches", worst(slips[k]), "m/s", high=1e-14)
    yield Row(group, "yaw, less what the wheels turned", worst(yaw - yaw[0]), "rad", high=1e-12)


@cache
def hanging() -> Simulation:
    """The same robot under gravity that points upwards: passive, it swings about upright and never lies down.

    Lying, at a pitch of a quarter turn, yaw and roll are one, and the base's height and roll cannot follow the wheels.
    """
    robot = load("two_wheeled", gravity=(0.0, 0.0, GRAVITY)).roll(MOTORS, RADIUS)
    return Simulation(robot, DT, integrator="rk4", actuated=MOTORS)


def thrown(here: Simulation) -> Array:
    return here.state([0.0, 0.0, 0.0, 0.25, 0.0, 0.0], [0.0, 20.0, 24.0])


def million(quick: bool, say: Say) -> Iterator[Row]:
    """The same during a million passive steps. The wheels' angles are integrated, so that their rounding adds up."""
    group, found = "a million steps", None
    if not quick:
        here, found = hanging(), np.zeros(3)
        x = thrown(here)
        for done in range(0, MILLION, CHUNK):
            say("a million steps", done, MILLION)
            xs = here.rollout(x, np.zeros((CHUNK, 2)))
            parts = contact_motion(*rolling().lift(*here.split(xs)))
            found = np.maximum(found, [worst(part) for part in parts])
            x = xs[-1]
    names = ("height, less radius", "velocity where they touch", "yaw, less what the wheels turned")
    for k, (name, unit, bound) in enumerate(zip(names, ("m", "m/s", "rad"), (1e-15, 1e-13, 1e-9), strict=True)):
        yield Row(group, name, None if found is None else float(found[k]), unit, high=bound)


def equations(done: Run) -> Iterator[Row]:
    robot, here = rolling(), world()
    by_y = robot.forward_dynamics_derivatives(np.zeros(6), np.zeros(3), np.zeros(3))[0]
    # of the pitch; the wheels have no part in what pulls
    pole = float(np.sqrt(by_y[0, 3]))
    yield Row("closed form", "unstable pole, less the pendulum's", abs(pole - unstable_pole()), "rad/s", high=1e-12)
    swinging = hanging()
    x = swinging.rollout(thrown(swinging), np.zeros((round(PASSIVE / DT), 2)))
    energy, kinetic = swinging.energy(x), swinging.robot.kinetic_energy(*swinging.split(x))
    off = worst(energy - energy[0]) / float(kinetic.max())
    yield Row("energy", f"passive under gravity upwards, {PASSIVE:g} s of RK4, by the largest kinetic", off, high=1e-9)
    work = (done.torques * np.diff(done.x[:, 4:6], axis=0)).sum(axis=1)
    off = worst(np.diff(here.energy(done.x)).cumsum() - work.cumsum())
    yield Row("energy", "driving, less the work of the motors", off, "J", high=1e-9)
    yield from forces(0.05, 0.02)


def forces(left: float, right: float, seconds: float = 0.4) -> Iterator[Row]:
    """With steady torques: both wheels' forces add up to the weight and the rate of the whole momentum."""
    here, robot = world(), rolling()
    steps = round(seconds / DT)
    x = here.rollout(thrown(here), np.tile([left, right], (steps, 1)))
    y, w = here.split(x)
    momentum = whole().momentum(*robot.lift(y, w))
    rate = (momentum[:-4] - 8.0 * momentum[1:-3] + 8.0 * momentum[3:-1] - momentum[4:])[:, :3] / (12.0 * DT)
    tau = np.zeros((steps + 1, whole().nv))
    tau[:, 6:] = left, right
    found = robot.reactions(y, w, tau)
    weight = whole().mass * GRAVITY
    ahead, side = (np.stack([f(y[:, 2]), g(y[:, 2])]) for f, g in ((np.cos, np.sin), (lambda a: -np.sin(a), np.cos)))
    level = ahead * (found["left_wheel.forward"] + found["right_wheel.forward"]) + side * found["left_wheel.side"]
    total = np.stack([*level, found["left_wheel.normal"] + found["right_wheel.normal"] - weight], axis=-1)
    off = worst(total[2:-2] - rate) / weight
    yield Row("force of the ground", "both wheels', less weight and rate of momentum, by the weight", off, high=1e-8)


def driven(done: Run) -> Iterator[Row]:
    group, now = "a figure of eight, 1 m wide", done.motion
    away = from_curve(now.middle, HALF_WIDTH)
    late = np.linalg.norm(now.middle - done.plan.way.position, axis=-1)
    settled = len(done.t) - 1 - round(0.5 * REST / DT)
    normal = np.minimum(done.forces["left_wheel.normal"], done.forces["right_wheel.normal"])
    level = np.hypot(done.forces["left_wheel.forward"] + done.forces["right_wheel.forward"], done.forces["left_wheel.side"])
    both = done.forces["left_wheel.normal"] + done.forces["right_wheel.normal"]
    yield Row(group, "largest distance from the curve", 1e3 * worst(away), "mm", high=0.5, form=".3f")
    yield Row(group, "largest distance from where it should be", 1e3 * worst(late), "mm", high=15.0, form=".2f")
    yield Row(group, "the same when it stands again", 1e3 * worst(late[settled:]), "mm", high=0.1, form=".2f")
    yield Row(group, "largest pitch", worst(now.pitch), "rad", high=0.15, form=".3f")
    # a motor's limit is 0.25 N m: it is never met
    yield Row(group, "peak torque of a motor, by its limit", worst(done.torques) / TORQUE, "", high=0.5, form=".2f")
    share = whole().mass * GRAVITY / 2.0
    yield Row(group, "least normal force of a wheel, by half the weight", float(normal.min()) / share, "", 0.5, 1.0, ".2f")
    yield Row(group, "friction coefficient that both wheels need together", worst(level / both), "", high=FRICTION, form=".3f")
