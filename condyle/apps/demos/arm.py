"""The arm: its tool follows a rectangle by inverse dynamics and soft gains, and is pushed on the way.

simulation = world()
still = cd.Loop(simulation, gravity_compensation(simulation, READY))    # it stays, and comes back when pushed
done = run()                                                            # 17 seconds: approach, two rounds, one push
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import pi
from os import PathLike
from typing import Any

import numpy as np

from condyle.apps.demos.checks import Check, Progress, energy_residual, largest, near, recorded, replays, silent
from condyle.apps.demos.profiles import smooth
from condyle.blocks.disturbances import WrenchPulse
from condyle.blocks.joints import combined
from condyle.closed_loop.loop import Loop
from condyle.dynamics import kinematics
from condyle.dynamics.rnea import inverse_dynamics
from condyle.dynamics.solve import cholesky_solve
from condyle.errors import ControlError
from condyle.methods.control.controllers import Control
from condyle.multibody.robot import Robot, load
from condyle.robot.library.ur3 import FRICTION, READY
from condyle.robot.model import Model
from condyle.simulate.simulation import Simulation
from condyle.tape.function import Function, function
from condyle.workbench.runs.loops import built_in
from condyle.workbench.runs.run import Run

Array = Any

DT = 0.002  # s, of the physics and of the controller
KP = np.array([1.98, 2.97, 1.49, 0.726, 1.86, 1.17])  # N m/rad
KD = np.array([2.36, 3.54, 0.788, 0.15, 0.0375, 0.0125])  # N m s
MAX_TORQUE = 100.0  # N m, of the torque and of its velocity part
PUSH, PUSHED_AT, PUSHED_FOR = (-6.0, 0.0, 8.0), 5.8, 0.2  # N at the tool in world axes, s, s

TOOL = "tool"
CENTER, HALF, HEIGHT = (0.35, 0.0), (0.08, 0.06), 0.22  # m, of the rectangle
DOWN = np.array([[0.0, -1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])  # the tool's rotation: z down
# the ready pose with the tool down: in the ready pose itself two wrist axes are parallel, and inverse kinematics is singular
START = (0.0, -pi / 2.0, pi / 2.0, -pi / 2.0, -pi / 2.0, 0.0)
APPROACH = (0.2, 2.8)  # s: begin and duration of the move from the ready pose
SIDES, ROUNDS = (1.95, 1.4, 1.95, 1.4), 2  # s for each side of the rectangle
DRAWS = APPROACH[0] + APPROACH[1] + 0.2  # s, when it begins to draw
SECONDS = DRAWS + ROUNDS * sum(SIDES) + 0.3
TOLERANCE = 1e-12  # of the inverse kinematics, m and rad


@cache
def robot() -> Robot:
    """The arm on its base; gravity 9.81."""
    return load("ur3")


@cache
def world(dt: float = DT) -> Simulation:
    """A simulation with a motor and friction in every joint, and a wrench at the tool."""
    return Simulation(robot(), dt, integrator="rk4", wrenches=[TOOL])


# -- the trajectory


def corners() -> np.ndarray:
    """(4, 3): the rectangle's corners in the order they are visited, m."""
    signs = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    return np.column_stack([np.array(CENTER) + signs * np.array(HALF), np.full(4, HEIGHT)])


def rectangle(t: Any) -> dict[str, Any]:
    """The tool's position at a time, resting at each corner, and the fraction of the approach that is done."""
    at = corners()
    position = at[0] + 0.0 * t
    begin = DRAWS
    for k in range(4 * ROUNDS):
        position = position + smooth(t, begin, SIDES[k % 4]) * (at[(k + 1) % 4] - at[k % 4])
        begin += SIDES[k % 4]
    return {"position": position, "approach": smooth(t, *APPROACH)}


def joint_rates(model: Model, q: Array, velocity: Array, acceleration: Array) -> dict[str, Array]:
    """Joint velocities and accelerations for those of the tool, which does not rotate:  J v = V,  J a = A - Jdot v."""
    J = kinematics.jacobian(model, q, TOOL)
    v = _solve(J, np.concatenate([velocity, np.zeros(3)]))
    drift = kinematics.jacobian_rate(model, q, v, TOOL) @ v
    return {"v": v, "a": _solve(J, np.concatenate([acceleration, np.zeros(3)]) - drift)}


def _solve(J: Array, V: Array) -> Array:
    """J^-1 V."""
    return J.T @ cholesky_solve(J @ J.T, V)


@cache
def _compiled() -> tuple[Function, tuple[Function, ...]]:
    """(joint_rates, the rectangle with its first two derivatives), compiled."""
    orders = [function(rectangle, t=())]
    for _ in range(2):
        orders.append(orders[-1].jacobian())
    return robot().function(joint_rates, velocity=3, acceleration=3), tuple(orders)


def joints_for(positions: np.ndarray, start: Any = START) -> np.ndarray:
    """(..., 6): joints with the tool down at positions (..., 3), by inverse kinematics from `start`."""
    q, residual, ok = robot().inverse_kinematics(TOOL, (DOWN, positions), start, tolerance=TOLERANCE)
    if not np.all(ok):
        position = np.round(np.reshape(positions, (-1, 3))[int(np.argmax(residual))], 4)
        raise ControlError(
            f"no joints were found that put the tool down at {position.tolist()} m: the residual is {np.max(residual):.3g} m or "
            "rad; choose a position that is nearer to the arm, and not within 0.1 m of the axis of its base"
        )
    found: np.ndarray = q - 2.0 * pi * np.where(np.abs(q) > pi, np.rint(q * (0.5 / pi)), 0.0)
    return found


@dataclass(frozen=True)
class Trajectory:
    """At every time: joints, velocities, accelerations (times, 6); the tool's position (times, 3), and whether it draws."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    position: np.ndarray
    drawing: np.ndarray


@cache
def trajectory() -> Trajectory:
    """From the ready pose to the rectangle, and round it, at every step."""
    t = DT * np.arange(round(SECONDS / DT))
    rates, orders = _compiled()
    (position, approach), (velocity, approach1), (acceleration, approach2) = (order(t) for order in orders)
    drawing = t >= DRAWS
    q = np.empty((len(t), 6))
    q[drawing] = joints_for(position[drawing])
    first = joints_for(position[:1])[0]
    q[~drawing] = np.array(READY) + approach[~drawing, None] * (first - READY)
    v, a = approach1[:, None] * (first - READY), approach2[:, None] * (first - READY)
    v[drawing], a[drawing] = rates(q[drawing], velocity[drawing], acceleration[drawing])
    return Trajectory(t, q, v, a, position, drawing)


# -- the controller


def law(model: Model, q: Any, v: Any, wanted: Any) -> dict[str, Any]:
    """M a* + c + friction + kp (q* - q) + kd (v* - v), for the wanted q*, v* and a*: (3, 6)."""
    damping = np.minimum(np.maximum(KD * (wanted[1] - v), -MAX_TORQUE), MAX_TORQUE)
    forward = inverse_dynamics(model, q, v, wanted[2]) + FRICTION * wanted[1]
    return {"u": np.minimum(np.maximum(forward + KP * (wanted[0] - q) + damping, -MAX_TORQUE), MAX_TORQUE)}


@built_in("arm")
def loop(simulation: Simulation, x0: Any, *, push: bool = True) -> Loop:
    """It follows its references, joints, velocities and accelerations; `push`: and is pushed at the tool."""
    if simulation.nu != len(KP) or simulation.robot.nv != len(KP):
        raise ControlError(
            f"the arm's gains are for {len(KP)} joints with a motor each; {simulation.robot.name} has {simulation.robot.nv} "
            f"velocities and {simulation.nu} motors: take ur3, or condyle.methods.control.controllers.hold for any robot"
        )
    model = simulation.robot.model
    pulse = WrenchPulse(TOOL, [*PUSH, 0.0, 0.0, 0.0], PUSHED_AT, PUSHED_FOR, name="push")

    def follow(x: Any, reference: Any, rates: Any) -> dict[str, Any]:
        command = law(model, x.q, x.v, [reference, rates[:6], rates[6:]])
        return combined(command, pulse()) if push else command

    return Loop(simulation, follow, reference=6, rates=12)


def gravity_compensation(simulation: Simulation, x0: Any) -> Control:
    """The function of a loop that carries the arm's weight and holds it softly where it is at `x0`."""
    model, wanted = simulation.robot.model, [np.array(x0[:6], dtype=float), np.zeros(6), np.zeros(6)]
    return lambda x: law(model, x.q, x.v, wanted)


def run(path: str | PathLike[str] | None = None, *, progress: Progress = silent) -> Run:
    """From the ready pose to the rectangle, twice round it; the tool is pushed in the first round."""
    here, to = loop(world(), READY), trajectory()
    references = {"reference": to.q, "rates": np.concatenate([to.v, to.a], axis=-1)}
    named: dict[str, Any] = {"title": "arm: drawing a rectangle, pushed", "controller": "track"}
    return recorded(here, here.state(READY), path, len(to.t), references, progress=progress, **named)


# -- checks


def tool_errors(run: Run) -> np.ndarray:
    """Distance of the tool from where the planned joints put it, m, at every step."""
    error = robot().frame_pose(run.q[:-1], TOOL)[1] - robot().frame_pose(run.extras["reference"], TOOL)[1]
    distance: np.ndarray = np.linalg.norm(error, axis=-1)
    return distance


def checks(run: Run) -> Iterator[Check]:
    """Published lengths and weights, the trajectory, tracking, and energy."""
    q, still, model = np.array(READY), np.zeros(6), robot()
    tool = (0.21325 + 0.08535, 0.1198 - 0.0925 + 0.08505 + 0.0819, 0.1519 + 0.24365)  # sums of the published lengths
    error = largest(model.frame_pose(q, TOOL)[1] - tool)
    yield Check("ready pose", "tool - sum of the published lengths", error, "m", high=1e-9)
    lever = 1.26 * 0.106625 + (0.8 + 0.8 + 0.35) * 0.21325 + 0.35 * 0.08535  # kg m, about the elbow
    lift = model.inverse_dynamics(q, still, still)[1]
    yield near("ready pose", "torque that holds the lift joint", lift, -9.81 * lever, 1e-12, "N m", ".4f")
    to = trajectory()
    R, p = model.frame_pose(to.q[to.drawing], TOOL)
    yield Check("trajectory", "tool - rectangle", largest(p - to.position[to.drawing]), "m", high=1e-11)
    yield Check("trajectory", "rotation of the tool from down", largest(R - DOWN), "", high=1e-11)
    yield Check("trajectory", "largest acceleration", largest(to.a), "rad/s^2", high=2.0, form=".2f")
    errors, before = 1e3 * tool_errors(run), run.t[:-1] < PUSHED_AT
    yield Check("tracking", "largest tool error before the push", float(errors[before].max()), "mm", high=0.8, form=".2f")
    yield near("tracking", "largest tool error after the push", errors.max(), 174.0, 9.0, "mm", ".0f")
    yield Check("tracking", "tool error at the end", float(errors[-1]), "mm", high=0.1, form=".2f")
    speeds = [link.limits.velocity for link in model.model.links]
    yield Check("tracking", "largest speed / the joint's limit", largest(run.v / np.array(speeds)), "", high=0.75, form=".2f")
    residual = energy_residual(world(), world(DT / 2.0), run.x, run.u, run.wrenches)
    kinetic = float(model.kinetic_energy(run.q, run.v).max())
    yield Check("energy", "energy - work, by the largest kinetic energy", largest(residual) / kinetic, "", high=5e-9)
    yield replays("run", run)
