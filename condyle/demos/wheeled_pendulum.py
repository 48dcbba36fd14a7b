"""The wheeled pendulum: it rolls without slipping, and its wheel's motor keeps it upright.

robot = rolling()                         # y = (x, phi) instead of q = (x, z, phi, theta)
done = balance()                          # leaning, then pushed: what happens in eight seconds
done.q, done.torque, done.normal, done.friction
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from condyle.control.lqr import dlqr
from condyle.multibody.robot import Robot, load
from condyle.robot.library.wheeled_pendulum import LENGTH, RADIUS
from condyle.simulate.simulation import Simulation

Array = np.ndarray

DT = 0.001  # s, of the physics and of the controller
LEAN = 0.25  # rad, how far it leans at first
TORQUE = 0.5  # N m, the most that its motor gives
COSTS = (10.0, 10.0, 1.0, 0.1), 10.0  # of x, phi, x', phi' squared, and of the torque squared
PUSH, PUSHED_AT, PUSHED_FOR = 3.0, 4.0, 0.1  # N at the upper end, s, s
SECONDS = 8.0
FRICTION = 0.8  # of a dry floor: what rolling needs must be less
MOTOR = "axle"


@cache
def whole() -> Robot:
    """All four coordinates, free to leave the ground."""
    return load("wheeled_pendulum")


@cache
def rolling() -> Robot:
    """The robot on its wheel."""
    return whole().roll(MOTOR, RADIUS)


@cache
def world(dt: float = DT, push: bool = False) -> Simulation:
    """With one motor, in the axle, and no friction but that which keeps it from slipping."""
    return Simulation(rolling(), dt, integrator="rk4", actuated=[MOTOR], wrenches=["top"] if push else ())


def leaning(phi: float = LEAN) -> Array:
    """y with the wheel's centre at x = 0."""
    return np.array([LENGTH * np.sin(phi), phi])


@cache
def gain() -> Array:
    """K of  torque = -K (x, phi, x', phi'): the best for one step of the simulation as it is when upright."""
    here = world()
    _, A, B = here.step(here.state(), [0.0], derivatives=True)
    costs, cost = COSTS
    K: Array = dlqr(A, B, np.diag(costs), [[cost]])[0][0]
    # nine digits, as one would write it down: the last ones depend on the processor's linear algebra
    return np.array([float(f"{k:.9g}") for k in K])


def full_torque(motor: Array) -> Array:
    """Joint forces of the whole robot, for the torques of its motor."""
    tau = np.zeros((*np.shape(motor), whole().nv))
    tau[..., whole().v_slice(MOTOR).start] = motor
    return tau


@dataclass(frozen=True)
class Run:
    """What happened, step by step: times, states, all coordinates; forces between the times, in N and N m.

    `normal` and `friction` are those of the ground on the wheel, `pushed` is the force on the upper end.
    """

    world: Simulation
    t: Array
    x: Array
    q: Array
    v: Array
    torque: Array
    pushed: Array
    normal: Array
    friction: Array

    @property
    def needed(self) -> Array:
        """The coefficient of friction below which it would slip; endless where the ground would have to pull."""
        return np.where(self.normal > 0.0, np.abs(self.friction) / np.maximum(self.normal, 1e-300), np.inf)


def balance(
    control: Callable[[Array], float] | None = None, *, lean: float = LEAN, push: float = PUSH, seconds: float = SECONDS
) -> Run:
    """It begins at rest, leaning; its motor brings it upright; half-way it is pushed. `control` gives the torque for a state."""
    here, K = world(push=True), gain()
    steps = round(seconds / DT)
    begin, end = round(PUSHED_AT / DT), round((PUSHED_AT + PUSHED_FOR) / DT)
    pushed = np.where((np.arange(steps) >= begin) & (np.arange(steps) < end), push, 0.0)
    x = np.empty((steps + 1, here.nx))
    torque = np.empty(steps)
    x[0] = here.state(leaning(lean))
    for k in range(steps):
        wanted = -K @ x[k] if control is None else control(x[k])
        torque[k] = np.clip(wanted, -TORQUE, TORQUE)
        x[k + 1] = here.step(x[k], torque[k : k + 1], wrenches=[[pushed[k], 0.0, 0.0, 0.0, 0.0, 0.0]])
    return told(here, x, torque, pushed)


def told(here: Simulation, x: Array, torque: Array, pushed: Array) -> Run:
    """A run with everything that can be computed from its states."""
    robot = rolling()
    y, w = here.split(x)
    q, v = robot.lift(y, w)
    # a push is not a joint force, but the ground feels it as one: that of the upper end's own coordinates
    tau = full_torque(torque)
    tau[:, whole().v_slice("root_x").start] += pushed
    forces: dict[str, Any] = robot.reactions(y[:-1], w[:-1], tau)
    t = here.dt * np.arange(len(x))
    return Run(here, t, x, q, v, torque, pushed, forces[f"{MOTOR}.normal"], forces[f"{MOTOR}.forward"])
