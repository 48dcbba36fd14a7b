"""The robot on two wheels, in space: it balances and drives a figure of eight.

robot = rolling()       # y = (x, y, yaw, pitch, both wheels' angles), w = (pitch rate, both wheels' rates): 6 and 3 numbers
done = drive()          # once around
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from condyle.control.lqr import dlqr
from condyle.demos.lemniscate import AROUND, Trip, Way, figure_of_eight
from condyle.multibody.robot import Robot, load
from condyle.robot.library.two_wheeled import HALF_TRACK
from condyle.robot.library.wheeled_pendulum import LENGTH, RADIUS
from condyle.simulate.simulation import Simulation

Array = np.ndarray

DT = 0.001  # s, of the physics and of the controller
HALF_WIDTH, SPEED, RAMP, REST = 0.5, 0.5, 1.5, 2.0  # m, m/s, s, s: the figure of eight
LEAN = 0.05  # rad, how far it leans back or ahead at first
TORQUE = 0.25  # N m, the most that each motor gives
AHEAD_COSTS = (200.0, 1.0, 10.0, 0.1), 10.0  # of way, pitch, speed, pitch rate, and of the torques' sum
SIDE_COSTS = (10000.0, 10.0, 1.0), 1.0  # of distance to the side, heading, turning rate, and of the torques' difference
FRICTION = 0.8
MOTORS = ("left_wheel", "right_wheel")


@cache
def whole() -> Robot:
    """All eight coordinates."""
    return load("two_wheeled")


@cache
def rolling() -> Robot:
    """The robot on its wheels."""
    return whole().roll(MOTORS, RADIUS)


@cache
def world() -> Simulation:
    return Simulation(rolling(), DT, integrator="rk4", actuated=MOTORS)


@dataclass(frozen=True)
class Motion:
    """What the controller looks at: the axle's middle (..., 2), heading, pitch, speed ahead, turning rate and pitch rate."""

    middle: Array
    heading: Array
    pitch: Array
    speed: Array
    turning: Array
    pitching: Array

    @staticmethod
    def of(x: Array) -> Motion:
        """From states of the simulation."""
        along = np.stack([np.cos(x[..., 2]), np.sin(x[..., 2])], axis=-1)
        middle = x[..., :2] - LENGTH * np.sin(x[..., 3])[..., None] * along
        # the wheels' angles are counted from the body
        speed = RADIUS * ((x[..., 7] + x[..., 8]) / 2.0 + x[..., 6])
        turning = RADIUS * (x[..., 8] - x[..., 7]) / (2.0 * HALF_TRACK)
        return Motion(middle, x[..., 2], x[..., 3], speed, turning, x[..., 6])


@dataclass(frozen=True)
class Controller:
    """Feedback of the errors ahead (way, pitch, speed, pitch rate) and to the side (distance, heading, turning rate).

    Near upright  speed' = a pitch + b torque  and  pitch'' = c pitch + d torque, so that way - (b/d) pitch, a point of the body,
    accelerates with the pitch alone: when that point is planned, everything else follows. `A`, `B` are [a, c] and [b, d], with
    the torque the sum of both; `twist` is the difference of torques for 1 rad/s^2.
    """

    ahead: Array
    side: Array
    A: Array
    B: Array
    twist: float

    @property
    def arm(self) -> float:
        """How far the planned point is above the axle, m."""
        return float(-self.B[0] / self.B[1])

    @property
    def lean(self) -> float:
        """The pitch for which that point accelerates at 1 m/s^2."""
        return float(1.0 / (self.A[0] + self.arm * self.A[1]))

    def torques(self, x: Array, plan: Plan, k: int) -> Array:
        """Left and right, N m."""
        now, heading = Motion.of(x), plan.way.heading[k]
        c, s = np.cos(heading), np.sin(heading)
        dx, dy = now.middle - plan.way.position[k]
        ahead = [c * dx + s * dy, now.pitch - plan.pitch[k], now.speed - plan.speed[k], now.pitching - plan.pitching[k]]
        side = [c * dy - s * dx, now.heading - heading, now.turning - plan.way.turning[k]]
        both = plan.push[k] - self.ahead @ ahead
        apart = self.twist * (plan.way.turning[k + 1] - plan.way.turning[k]) / DT - self.side @ side
        return np.asarray(np.clip([(both - apart) / 2.0, (both + apart) / 2.0], -TORQUE, TORQUE))


@dataclass(frozen=True)
class Plan:
    """Where to be at each time: the axle's way and speed, the pitch and its rate, and the sum of the torques."""

    t: Array
    way: Way
    speed: Array
    pitch: Array
    pitching: Array
    push: Array

    @staticmethod
    def of(act: Controller, trip: Trip) -> Plan:
        t = DT * np.arange(round((trip.seconds + REST) / DT) + 1)
        lean, lift = act.lean, act.lean * act.arm
        pitch = lean * trip.rate(t, 2)
        push = (lean * trip.rate(t, 4) - act.A[1] * pitch) / act.B[1]

        def speed(t: Any) -> Any:
            return trip.rate(t, 1) - lift * trip.rate(t, 3)

        return Plan(t, figure_of_eight(HALF_WIDTH, t, speed), speed(t), pitch, lean * trip.rate(t, 3), push)


@cache
def controller() -> Controller:
    """Two regulators for one step of the simulation while it drives straight ahead: there the two motions do not mix."""
    here = world()
    _, A, B = here.step(here.state(None, [0.0, SPEED / RADIUS, SPEED / RADIUS]), np.zeros(2), derivatives=True)
    x, y, yaw, pitch, *_, pitching, left, right = range(9)
    # what the controller looks at, by a small change of state, and a change of state that gives it
    see, make = np.zeros((4, 9)), np.zeros((9, 4))
    see[[0, 0, 1, 2, 2, 2, 3], [x, pitch, pitch, pitching, left, right, pitching]] = [
        1.0,
        -LENGTH,
        1.0,
        RADIUS,
        RADIUS / 2.0,
        RADIUS / 2.0,
        1.0,
    ]
    make[[x, x, pitch, left, right, left, right, pitching], [0, 1, 1, 2, 2, 3, 3, 3]] = [
        1.0,
        LENGTH,
        1.0,
        1.0 / RADIUS,
        1.0 / RADIUS,
        -1.0,
        -1.0,
        1.0,
    ]
    A_ahead, B_ahead = see @ A @ make, see @ B @ np.array([[0.5], [0.5]])
    see, make = np.zeros((3, 9)), np.zeros((9, 3))
    see[[0, 1, 2, 2], [y, yaw, left, right]] = [1.0, 1.0, -RADIUS / (2.0 * HALF_TRACK), RADIUS / (2.0 * HALF_TRACK)]
    make[[y, yaw, left, right], [0, 1, 2, 2]] = [1.0, 1.0, -HALF_TRACK / RADIUS, HALF_TRACK / RADIUS]
    A_side, B_side = see @ A @ make, see @ B @ np.array([[-0.5], [0.5]])
    ahead = dlqr(A_ahead, B_ahead, np.diag(AHEAD_COSTS[0]), [[AHEAD_COSTS[1]]])[0][0]
    side = dlqr(A_side, B_side, np.diag(SIDE_COSTS[0]), [[SIDE_COSTS[1]]])[0][0]
    return Controller(ahead, side, A_ahead[2:, 1] / DT, B_ahead[2:, 0] / DT, float(DT / B_side[2, 0]))


@dataclass(frozen=True)
class Run:
    """What happened: times, states, all coordinates; torques and the wheels' forces between the times."""

    world: Simulation
    plan: Plan
    t: Array
    x: Array
    q: Array
    v: Array
    torques: Array
    forces: dict[str, Array]

    @property
    def motion(self) -> Motion:
        return Motion.of(self.x)


def drive(lean: float = LEAN) -> Run:
    """Once around the figure of eight, from rest."""
    here, act = world(), controller()
    plan = Plan.of(act, Trip(AROUND * HALF_WIDTH, SPEED, RAMP))
    steps, heading = len(plan.t) - 1, plan.way.heading[0]
    top = LENGTH * np.sin(lean)
    x = np.empty((steps + 1, here.nx))
    torques = np.empty((steps, 2))
    x[0] = here.state([top * np.cos(heading), top * np.sin(heading), heading, lean, 0.0, 0.0])
    for k in range(steps):
        torques[k] = act.torques(x[k], plan, k)
        x[k + 1] = here.step(x[k], torques[k])
    y, w = here.split(x)
    q, v = rolling().lift(y, w)
    tau = np.zeros((steps, whole().nv))
    tau[:, [whole().v_slice(name).start for name in MOTORS]] = torques
    forces: dict[str, Any] = rolling().reactions(y[:-1], w[:-1], tau)
    return Run(here, plan, plan.t, x, q, v, torques, forces)
