"""The four-limbed robot, 99.9 kg: dropped with bent limbs, it lands on its feet, is pushed from the side, and stands again.

done = run()                              # 5,000 steps of 1 ms
done.x, done.u, done.contact_forces       # states, torques, forces of the ground

loop(...) is a closed loop for any simulation of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from os import PathLike
from typing import Any

import numpy as np

from condyle.apps.demos.checks import Check, Progress, largest, near, recorded, replays, silent
from condyle.blocks.disturbances import WrenchPulse
from condyle.blocks.joints import combined
from condyle.closed_loop.block import Block
from condyle.closed_loop.loop import Loop
from condyle.multibody.robot import Robot, load
from condyle.robot.library.fourlimb import EFFORT, FOOT_RADIUS, LIMBS
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Plane
from condyle.workbench.runs.loops import built_in
from condyle.workbench.runs.run import Run

Array = np.ndarray

DT, STEPS = 0.001, 5000
FRICTION = 0.7
DROP = 0.15  # m from the feet to the ground
PUSH, PUSHED_AT, PUSHED_FOR = 500.0, 2.0, 0.15  # N to the left at the torso, s, s: 75 N s
FEET = tuple(f"foot_{limb}" for limb in LIMBS)

# rad, the three pitch joints of a front limb: knees bent, the foot below its hip,
# l1 sin(q1) + l2 sin(q1 + q2) + l3 sin(q1 + q2 + q3) = 0. Hind limbs are bent the other way: a loaded limb gives way forward or
# backward too, and bent alike all four would move the robot backward, 0.1 m by the time it stands again after the push.
CROUCH = (0.5, -1.0, 0.789)

# N m/rad, and N m s/rad in the six joints of a limb. The reference task has 1000 and 1: it stands, but oscillates for long. The
# torque is that of the velocity at the beginning of a step: it is stable while the eigenvalues of dt M^-1 D are below 2, so the
# light joints at the end of a limb have the smallest damping. With these the largest eigenvalue is 1.13 at 1 ms.
P = 1000.0
D = {"roll_1": 20.0, "pitch_1": 40.0, "roll_2": 40.0, "pitch_2": 20.0, "roll_3": 5.0, "pitch_3": 8.0}
GRAVITY = 9.81


@cache
def robot() -> Robot:
    """The robot with a free base."""
    return load("fourlimb")


@cache
def planar() -> Robot:
    """Seen from the side: x, z, pitch, and the twelve pitch joints."""
    return load("fourlimb", "planar").lock(["roll_"])


@cache
def world() -> Simulation:
    """A simulation on a plane, with a wrench at the torso."""
    return Simulation(robot(), DT, Plane(FRICTION), "foot_*", wrenches=["torso"])


def crouched(robot: Robot) -> Array:
    """q with bent limbs, the base where it is at zero."""
    q = robot.neutral()
    for limb, (front, _) in LIMBS.items():
        for i, angle in enumerate(CROUCH, start=1):
            q[robot.q_slice(f"pitch_{i}_{limb}")] = front * angle
    return q


def above(simulation: Simulation, height: float = 0.0) -> Array:
    """The state at rest with bent limbs, the feet this high over the ground z = 0."""
    robot = simulation.robot
    q = crouched(robot)
    lowest = min(float(robot.frame_pose(q, foot)[1][2]) for foot in FEET)
    vertical = robot.reduced.base_link("z")
    up = 2 if vertical is None else robot.reduced.links[vertical].q.start
    q[up] += height + FOOT_RADIUS - lowest
    return simulation.state(q)


class Hold(Block):
    """A spring and a damper in every joint, within the motors' effort: the pose is that of x0, the damping that of D."""

    def __init__(self, simulation: Simulation, x0: Any, **options: Any) -> None:
        super().__init__(**options)
        owner = {link.v.start: link for link in simulation.robot.model.links if link.kind.nv == 1}
        links = [owner[k] for k in simulation.actuated]
        self.at_q, self.at_v = np.array([link.q.start for link in links]), np.array([link.v.start for link in links])
        self.pose = self.parameter("pose", np.asarray(x0, dtype=float)[self.at_q], "rad")
        self.damping = self.parameter("damping", [D.get(link.joint[:-3], 1.0) for link in links], "N m s/rad", minimum=0.0)

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """The torques at the state x of the robot."""
        (x,) = inputs
        return np.minimum(np.maximum(P * (self.pose - x.q[self.at_q]) - self.damping * x.v[self.at_v], -EFFORT), EFFORT), {}


@built_in("fourlimb")
def loop(
    simulation: Simulation,
    x0: Any,
    *,
    push: Sequence[float] | None = None,
    pushed_at: float = PUSHED_AT,
    pushed_for: float = PUSHED_FOR,
) -> Loop:
    """It holds its joints where they are in x0. `push`: N at the torso, for `pushed_for` seconds from `pushed_at` on."""
    hold = Hold(simulation, x0, name="hold")
    if push is None:
        return Loop(simulation, hold)
    pulse = WrenchPulse("torso", [*push, 0.0, 0.0, 0.0], pushed_at, pushed_for, name="push")
    return Loop(simulation, lambda x: combined(hold(x), pulse()))


def run(path: str | PathLike[str] | None = None, *, progress: Progress = silent) -> Run:
    """Dropped by 0.15 m, pushed to the left with 500 N for 0.15 s after 2 s: 5 s."""
    x0 = above(world(), DROP)
    here = loop(world(), x0, push=[0.0, PUSH, 0.0])
    about = {"dropped": DROP, "push": PUSH, "pushed_at": PUSHED_AT, "pushed_for": PUSHED_FOR}
    named: dict[str, Any] = {"title": "The four-limbed robot dropped and pushed", "controller": "hold", "about": about}
    return recorded(here, here.state(world().split(x0)[0]), path, STEPS, progress=progress, **named)


# -- checks


def tilt(x: Any) -> Array:
    """Angle of the torso's z axis from the vertical, rad, of states of the robot with a free base."""
    x = np.asarray(x, dtype=float)
    size: Array = 2.0 * np.arcsin(np.minimum(np.hypot(x[..., 3], x[..., 4]), 1.0))
    return size


def static_residual(run: Run, k: int) -> float:
    """max |tau - g(q) + J^T f| / max |tau| in step k, zero at rest; J of the contact points, not of the feet's centres."""
    robot, q = run.robot, run.q[k]
    needed = np.asarray(robot.gravity_forces(q), dtype=float)
    for i, foot in enumerate(FEET):
        J = robot.jacobian(q, foot)
        contact = J[:3] + np.cross(J[3:], (0.0, 0.0, -FOOT_RADIUS), axis=0)
        needed -= np.sum(contact * run.contact_forces[k, i][:, None], axis=0)
    given = np.concatenate([np.zeros(6), run.u[k]])
    return largest(given - needed) / largest(given)


def checks(run: Run) -> Iterator[Check]:
    """Published mass, the fall, the landing, the push, and momentum."""
    yield near("model", "mass", robot().mass, 99.9, 1e-9, "kg", ".4f")
    falling = int(0.95 * np.sqrt(2.0 * DROP / GRAVITY) / DT)
    t = DT * np.arange(falling)
    # semi-implicit Euler falls by g h t / 2 more
    fall = run.x[0, 2] - 0.5 * GRAVITY * t * (t + DT)
    yield Check("landing", "height - that of free fall", largest(run.x[:falling, 2] - fall), "m", high=1e-12)
    forces, weight = run.contact_forces, run.robot.mass * GRAVITY
    peak = float(forces[..., 2].sum(axis=1).max()) / weight
    yield near("landing", "largest force of the ground / weight", peak, 23.5, 0.05 * 23.5, "", ".1f")
    k = round(PUSHED_AT / DT) - 1
    yield Check("standing", "torques - statics, by the largest", static_residual(run, k), "", high=1e-4)
    mean = float(forces[k - 400 : k + 1, :, 2].sum(axis=1).mean()) / weight
    yield near("standing", "mean force of the ground / weight", mean, 1.0, 1e-4, "", ".5f")
    yield Check("standing", "largest velocity", largest(run.v[k]), "m/s, rad/s", high=1e-4)
    slip = np.hypot(forces[..., 0], forces[..., 1]) - FRICTION * forces[..., 2]
    yield Check("contact", "friction beyond the cone, by the weight", float(slip.max()) / weight, "", high=1e-9)
    momentum = run.robot.momentum(run.q, run.v)[:, :3]
    force = forces.sum(axis=1) + run.wrenches[:, 0, :3]
    force[:, 2] -= weight
    # a step weighs velocities with the masses of its beginning: the residual is in proportion to dt
    residual = momentum[1:] - momentum[0] - np.cumsum(force, axis=0) * DT
    yield Check("contact", "momentum - impulses, by the largest", largest(residual) / largest(momentum), "", high=2e-3)
    tilted = np.degrees(tilt(run.x))
    yield near("pushed", "largest tilt", tilted[k:].max(), 7.2, 0.05 * 7.2, "deg", ".2f")
    yield Check("pushed", "tilt at the end", float(tilted[-1]), "deg", high=0.05, form=".3f")
    moved = 1e3 * (run.x[-1, :2] - run.x[k, :2])
    yield Check("pushed", "moved forward or backward", abs(float(moved[0])), "mm", high=1e-6)
    yield Check("pushed", "moved to the left", float(moved[1]), "mm", 0.0, 12.0, ".1f")
    yield Check("pushed", "largest torque / effort limit", largest(run.u) / EFFORT, "", high=0.6, form=".2f")
    yield replays("run", run)
