"""The accounts of a run: the work of motors, wrenches and damping against the energy of the robot, and that it repeats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from condyle.demos.row import Row
from condyle.runs.run import Run
from condyle.simulate.simulation import Simulation

Array = np.ndarray


def power(simulation: Simulation, x: Array, u: Array, wrenches: Array) -> Array:
    """What motors and wrenches put in, less what the joints' damping takes, W: (...,) for batches of states."""
    robot = simulation.robot
    q, v = simulation.split(x)
    total = np.zeros(x.shape[:-1])
    for k, (coordinate, effort) in enumerate(zip(simulation.actuated, simulation.effort_limits, strict=True)):
        total += np.clip(u[..., k], -effort, effort) * v[..., coordinate]
    for k, joint in enumerate(simulation.joint_forces):
        total -= joint.damping * v[..., k] ** 2
    for k, frame in enumerate(simulation.wrench_frames):
        moving = np.sum(robot.jacobian(q, frame) * v[..., None, :], axis=-1)
        total += np.sum(moving * wrenches[..., k, :], axis=-1)
    return total


def unaccounted(simulation: Simulation, half: Simulation, x: Array, u: Array, wrenches: Array) -> Array:
    """Energy less the work done on it since the start, J, at every step: zero but for the error of the integration.

    Controls and wrenches are constant within a step; its middle is found by `half`, the same simulation with half the step,
    and Simpson's rule gives the work.
    """
    begin, end = x[:-1], x[1:]
    middle = half.step(begin, u, wrenches=wrenches)
    parts = [weight * power(simulation, at, u, wrenches) for weight, at in ((1.0, begin), (4.0, middle), (1.0, end))]
    work = simulation.dt / 6.0 * np.cumsum(parts[0] + parts[1] + parts[2])
    energy = np.asarray(simulation.energy(x))
    left: Array = energy[1:] - energy[0] - work
    return left


def slid(done: Run, feet: Sequence[str], radius: float, loaded: float = 0.05) -> Array:
    """(steps, feet): the way, m, that the matter of each foot slides on level ground in a step, where it carries at least this
    part of the weight. The centre of a ball that rolls moves, the point that touches does not:  v + omega x (0, 0, -r)."""
    weight = done.robot.mass * float(np.linalg.norm(done.robot.model.gravity))
    out = np.zeros((done.steps, len(feet)))
    for i, foot in enumerate(feet):
        moving = np.sum(done.robot.jacobian(done.q[1:], foot) * done.v[1:, None, :], axis=-1)
        point = moving[:, :3] + np.cross(moving[:, 3:], (0.0, 0.0, -radius))
        out[:, i] = done.dt * np.hypot(point[:, 0], point[:, 1]) * (done.contact_forces[:, i, 2] >= loaded * weight)
    return out


def repeated(group: str, done: Run) -> Row:
    """Whether every step of a run comes out again bit for bit."""
    again = done.check()
    return Row(group, "repeats bit for bit", float(again.identical), "", 1.0, 1.0, ".0f", str(again))
