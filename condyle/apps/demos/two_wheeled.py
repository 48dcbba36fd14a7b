"""The robot on two wheels: it balances and drives a figure of eight without slipping.

robot = rolling()       # y = (x, y, yaw, pitch, both wheels' angles), w = (pitch rate, both wheels' rates): 6 and 3 numbers
done = run()            # once around
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from os import PathLike
from typing import Any

import numpy as np

from condyle.apps.demos.checks import Check, Progress, largest, near, recorded, replays, silent
from condyle.apps.demos.profiles import LEMNISCATE_LENGTH, Path, SpeedProfile, figure_of_eight, lemniscate_distance
from condyle.apps.demos.wheeled_pendulum import closed_form_pole
from condyle.closed_loop.loop import Loop
from condyle.multibody.robot import Robot, load
from condyle.robot.library.two_wheeled import HALF_TRACK
from condyle.robot.library.wheeled_pendulum import LENGTH, RADIUS
from condyle.simulate.simulation import Simulation
from condyle.tape.array import array
from condyle.workbench.runs.loops import built_in
from condyle.workbench.runs.run import Run

Array = np.ndarray

DT = 0.001  # s, of the physics and of the controller
HALF_WIDTH, SPEED, RAMP, REST = 0.5, 0.5, 1.5, 2.0  # m, m/s, s, s: the figure of eight
LEAN = 0.05  # rad, initial pitch
TORQUE = 0.25  # N m, limit of each motor
FRICTION = 0.8
MOTORS = ("left_wheel", "right_wheel")

# Straight ahead the two motions do not mix: gains of dlqr for one step linearised there, of the errors (distance, pitch, speed,
# pitch rate) and (lateral distance, heading, yaw rate). tests/apps/demos/test_two_wheeled.py computes all of these numbers again.
FORWARD_COSTS = (200.0, 1.0, 10.0, 0.1), 10.0  # R: of the sum of both torques
LATERAL_COSTS = (10000.0, 10.0, 1.0), 1.0  # R: of their difference
FORWARD_GAIN = (-4.37119373855, -4.14076644941, -2.57227958234, -0.627450311079)
LATERAL_GAIN = (86.2066309221, 9.21305286917, 0.898408383748)
YAW_INERTIA = 0.00348  # N m of difference for a yaw acceleration of 1 rad/s^2
# near upright  speed' = a pitch + b torque  and  pitch'' = c pitch + d torque  with the sum of both torques
A, B = (-3.92404491018, 68.6707859282), (24.00011118, -170.00194565)  # (a, c), (b, d)
# so distance - (b/d) pitch, a point HEIGHT above the axle, accelerates with the pitch alone, by pitch / PITCH_GAIN: where that
# point is planned, everything else follows
HEIGHT = -B[0] / B[1]
PITCH_GAIN = 1.0 / (A[0] + HEIGHT * A[1])


@cache
def unconstrained() -> Robot:
    """The robot in all eight coordinates."""
    return load("two_wheeled")


@cache
def rolling() -> Robot:
    """The robot on its wheels."""
    return unconstrained().roll(MOTORS, RADIUS)


@cache
def world() -> Simulation:
    """A simulation with a motor in each wheel."""
    return Simulation(rolling(), DT, integrator="rk4", actuated=MOTORS)


@dataclass(frozen=True)
class State:
    """What the controller uses: the axle's middle (..., 2), heading, pitch, forward speed, yaw rate and pitch rate."""

    middle: Array
    heading: Array
    pitch: Array
    speed: Array
    yaw_rate: Array
    pitch_rate: Array

    @staticmethod
    def of(x: Array) -> State:
        """From states of the simulation."""
        along = np.stack([np.cos(x[..., 2]), np.sin(x[..., 2])], axis=-1)
        middle = x[..., :2] - LENGTH * np.sin(x[..., 3:4]) * along
        # the wheels' angles are relative to the body
        speed = RADIUS * ((x[..., 7] + x[..., 8]) / 2.0 + x[..., 6])
        yaw_rate = RADIUS * (x[..., 8] - x[..., 7]) / (2.0 * HALF_TRACK)
        return State(middle, x[..., 2], x[..., 3], speed, yaw_rate, x[..., 6])


@dataclass(frozen=True)
class Plan:
    """At each time: the axle's path and speed, the pitch and its rate, and the sum of the torques."""

    t: Array
    path: Path
    speed: Array
    pitch: Array
    pitch_rate: Array
    torque: Array


@cache
def plan() -> Plan:
    """Once around the figure of eight, from rest to rest."""
    profile = SpeedProfile(LEMNISCATE_LENGTH * HALF_WIDTH, SPEED, RAMP)
    t = DT * np.arange(round((profile.seconds + REST) / DT) + 1)
    pitch = PITCH_GAIN * profile.derivative(t, 2)
    torque = (PITCH_GAIN * profile.derivative(t, 4) - A[1] * pitch) / B[1]

    def speed(t: Any) -> Any:
        return profile.derivative(t, 1) - PITCH_GAIN * HEIGHT * profile.derivative(t, 3)

    path = figure_of_eight(HALF_WIDTH, t, speed)
    return Plan(t, path, speed(t), pitch, PITCH_GAIN * profile.derivative(t, 3), torque)


def follow(x: Any, reference: Any, plan: Any) -> dict[str, Any]:
    """The function of a loop: (left, right) torques, N m, feedforward of the plan and feedback of its errors.

    `reference`: the wanted position of the axle's middle; `plan`: heading, yaw rate and acceleration, speed, pitch and its rate,
    and the sum of the torques.
    """
    heading, yaw_rate, yaw_acceleration, speed, pitch, pitch_rate, torque = plan
    now = State.of(np.concatenate([x.q, x.v]))
    c, s = np.cos(heading), np.sin(heading)
    dx, dy = now.middle - reference
    forward = [c * dx + s * dy, now.pitch - pitch, now.speed - speed, now.pitch_rate - pitch_rate]
    lateral = [c * dy - s * dx, now.heading - heading, now.yaw_rate - yaw_rate]
    total = torque - np.dot(FORWARD_GAIN, forward)
    difference = YAW_INERTIA * yaw_acceleration - np.dot(LATERAL_GAIN, lateral)
    wanted = array([(total - difference) / 2.0, (total + difference) / 2.0])
    return {"u": np.minimum(np.maximum(wanted, -TORQUE), TORQUE)}


def references() -> dict[str, Array]:
    """The references of `follow`, one row for each step."""
    to = plan()
    turning = np.diff(to.path.yaw_rate) / DT
    rows = [to.path.heading, to.path.yaw_rate, turning, to.speed, to.pitch, to.pitch_rate, to.torque]
    steps = len(to.t) - 1
    return {"reference": to.path.position[:steps], "plan": np.stack([row[:steps] for row in rows], axis=-1)}


@built_in("two_wheeled")
def loop(simulation: Simulation, x0: Any) -> Loop:
    """It follows its references."""
    return Loop(simulation, follow, reference=2, plan=7)


def run(path: str | PathLike[str] | None = None, *, progress: Progress = silent) -> Run:
    """Once around the figure of eight, from rest, leaning a little."""
    heading, top = plan().path.heading[0], LENGTH * np.sin(LEAN)
    here = loop(world(), None)
    x0 = here.state([top * np.cos(heading), top * np.sin(heading), heading, LEAN, 0.0, 0.0])
    named: dict[str, Any] = {"title": "The robot on two wheels drives a figure of eight", "controller": "follow"}
    return recorded(here, x0, path, len(plan().t) - 1, references(), progress=progress, **named)


def ground_forces(run: Run) -> dict[str, Array]:
    """Forces of the ground on both wheels in every step, N: left_wheel.normal, .forward, .side, ..."""
    y, w = run.simulation.split(run.x)
    tau = np.zeros((run.steps, unconstrained().nv))
    tau[:, [unconstrained().v_slice(name).start for name in MOTORS]] = run.u
    forces: dict[str, Array] = rolling().reactions(y[:-1], w[:-1], tau)
    return forces


# -- checks


def contact_motion(q: Array, v: Array) -> tuple[Array, Array, Array]:
    """(heights of both wheels' lowest points, velocities of both wheels there, yaw - that of the wheels' angles)."""
    robot, heights, slips = unconstrained(), [], []
    for side in ("left", "right"):
        V = (robot.jacobian(q, f"{side}_center") @ v[..., None])[..., 0]
        heights.append(robot.frame_pose(q, f"{side}_center")[1][..., 2] - RADIUS)
        slips.append(V[..., :3] + np.cross(V[..., 3:], (0.0, 0.0, -RADIUS)))
    rolled = RADIUS * (q[..., 7] - q[..., 6]) / (2.0 * HALF_TRACK)
    return np.stack(heights), np.stack(slips), q[..., 3] - rolled


def checks(run: Run) -> Iterator[Check]:
    """Rolling, the closed form, energy, forces of the ground, and how it follows the curve."""
    heights, slips, yaw = contact_motion(*rolling().lift(*run.simulation.split(run.x)))
    yield Check("rolling", "height of the wheels' centres - radius", largest(heights), "m", high=1e-15)
    yield Check("rolling", "velocity of the wheels at the contact points", largest(slips), "m/s", high=1e-14)
    yield Check("rolling", "yaw - that of the wheels' angles", largest(yaw - yaw[0]), "rad", high=1e-12)
    by_y = rolling().forward_dynamics_derivatives(np.zeros(6), np.zeros(3), np.zeros(3))[0]
    pole = float(np.sqrt(by_y[0, 3]))
    yield near("closed form", "unstable pole: the wheeled pendulum's", pole, closed_form_pole(), 1e-11, "rad/s", ".6f")
    work = (run.u * np.diff(run.x[:, 4:6], axis=0)).sum(axis=1)
    residual = np.diff(run.simulation.energy(run.x)).cumsum() - work.cumsum()
    yield Check("energy", "energy - work of the motors", largest(residual), "J", high=1e-9)
    forces, weight = ground_forces(run), unconstrained().mass * 9.81
    left, right = (forces[f"{motor}.normal"] for motor in MOTORS)
    smallest = float(np.minimum(left, right).min()) / (weight / 2.0)
    yield Check("ground", "smallest normal force of a wheel / half the weight", smallest, "", 0.5, 1.0, ".2f")
    level = np.hypot(forces["left_wheel.forward"] + forces["right_wheel.forward"], forces["left_wheel.side"])
    yield Check("ground", "friction coefficient needed", largest(level / (left + right)), "", high=FRICTION, form=".3f")
    now, group = State.of(run.x), "figure of eight, 1 m wide"
    distance = 1e3 * largest(lemniscate_distance(now.middle, HALF_WIDTH))
    yield Check(group, "largest distance from the curve", distance, "mm", high=0.5, form=".3f")
    error = 1e3 * np.linalg.norm(now.middle - plan().path.position, axis=-1)
    yield Check(group, "largest position error", largest(error), "mm", high=15.0, form=".2f")
    yield Check(group, "position error at rest", largest(error[-round(0.5 * REST / DT) - 1 :]), "mm", high=0.1, form=".2f")
    yield Check(group, "largest torque / the motor's limit", largest(run.u) / TORQUE, "", high=0.5, form=".2f")
    yield replays("run", run)
