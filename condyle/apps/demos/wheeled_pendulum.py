"""The wheeled pendulum: it rolls without slipping, and the motor in its axle keeps it upright.

robot = rolling()                # y = (x, phi) instead of q = (x, z, phi, theta)
done = run()                     # it starts leaning, is brought upright and pushed: 8 s
ground_forces(done)              # normal force and friction, N
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from os import PathLike
from typing import Any

import numpy as np

from condyle.apps.demos.checks import Check, Progress, largest, near, recorded, replays, silent
from condyle.blocks.disturbances import WrenchPulse
from condyle.blocks.joints import combined
from condyle.closed_loop.loop import Loop
from condyle.multibody.robot import Robot, load
from condyle.robot.library.wheeled_pendulum import LENGTH, RADIUS
from condyle.simulate.simulation import Simulation
from condyle.workbench.runs.loops import built_in
from condyle.workbench.runs.run import Run

Array = np.ndarray

DT = 0.001  # s, of the physics and of the controller
LEAN = 0.25  # rad, initial angle
TORQUE = 0.5  # N m, the motor's limit
COSTS = (10.0, 10.0, 1.0, 0.1), 10.0  # Q of (x, phi, x', phi') and R of the torque
# K of torque = -K (x, phi, x', phi'): cd.dlqr of one step linearised upright, to nine digits, so that runs do
# not depend on the processor's linear algebra; tests/apps/demos/test_wheeled_pendulum.py computes it again
GAIN = (-0.984293637, -1.98738131, -0.798160747, -0.137398761)
PUSH, PUSHED_AT, PUSHED_FOR = 3.0, 4.0, 0.1  # N at the upper end, s, s
SECONDS = 8.0
FRICTION = 0.8  # of a dry floor: rolling must need less
MOTOR = "axle"
GRAVITY = 9.81


@cache
def unconstrained() -> Robot:
    """The robot in all four coordinates, free to leave the ground."""
    return load("wheeled_pendulum")


@cache
def rolling() -> Robot:
    """The robot on its wheel, y = (x, phi)."""
    return unconstrained().roll(MOTOR, RADIUS)


@cache
def world(dt: float = DT, push: bool = False) -> Simulation:
    """A simulation with one motor, in the axle; `push`: and a wrench at the upper end."""
    return Simulation(rolling(), dt, integrator="rk4", actuated=[MOTOR], wrenches=["top"] if push else ())


def leaning(phi: float = LEAN) -> Array:
    """y with the wheel's centre at x = 0."""
    return np.array([LENGTH * np.sin(phi), phi])


def balance(x: Any) -> dict[str, Any]:
    """The function of a loop: u = -K x within the motor's limit."""
    wanted = -(GAIN[0] * x.q[0] + GAIN[1] * x.q[1] + GAIN[2] * x.v[0] + GAIN[3] * x.v[1])
    return {"u": [np.minimum(np.maximum(wanted, -TORQUE), TORQUE)]}


@built_in("wheeled_pendulum")
def loop(simulation: Simulation, x0: Any) -> Loop:
    """It balances, and is pushed at its upper end."""
    push = WrenchPulse("top", [PUSH, 0.0, 0.0, 0.0, 0.0, 0.0], PUSHED_AT, PUSHED_FOR, name="push")
    return Loop(simulation, lambda x: combined(balance(x), push()))


def run(path: str | PathLike[str] | None = None, *, progress: Progress = silent) -> Run:
    """From rest at 0.25 rad the motor brings it upright; after 4 s it is pushed: 8 s."""
    here = loop(world(push=True), leaning())
    about = {"lean": LEAN, "push": PUSH, "pushed_at": PUSHED_AT, "pushed_for": PUSHED_FOR}
    named: dict[str, Any] = {"title": "The wheeled pendulum balances", "controller": "balance", "about": about}
    return recorded(here, here.state(leaning()), path, round(SECONDS / DT), progress=progress, **named)


def all_coordinates(run: Run) -> tuple[Array, Array]:
    """(q, v) of the unconstrained robot at every step."""
    q, v = rolling().lift(*run.simulation.split(run.x))
    return q, v


def joint_torques(motor: Array) -> Array:
    """Generalized forces of the unconstrained robot, (..., 4), for torques of its motor."""
    tau = np.zeros((*np.shape(motor), unconstrained().nv))
    tau[..., unconstrained().v_slice(MOTOR).start] = motor
    return tau


def ground_forces(run: Run) -> tuple[Array, Array]:
    """(normal, friction) of the ground on the wheel in every step, N."""
    y, w = run.simulation.split(run.x)
    tau = joint_torques(run.u[:, 0])
    # the push acts on the coordinates of the upper end
    tau[:, unconstrained().v_slice("root_x").start] += run.wrenches[:, 0, 0]
    forces = rolling().reactions(y[:-1], w[:-1], tau)
    return forces[f"{MOTOR}.normal"], forces[f"{MOTOR}.forward"]


def friction_needed(run: Run) -> Array:
    """|friction| / normal force: below that coefficient it slips; infinite where the ground would have to pull."""
    normal, friction = ground_forces(run)
    return np.where(normal > 0.0, np.abs(friction) / np.maximum(normal, 1e-300), np.inf)


# -- checks


def contact_motion(q: Array, v: Array) -> tuple[Array, Array, Array, Array]:
    """(height of the wheel's centre, its vertical velocity, velocity of the wheel at the ground, distance not rolled).

    From the unconstrained robot: the contact point is r below the centre, and moves at  v + omega x (0, 0, -r).
    """
    robot = unconstrained()
    center = robot.frame_pose(q, "center")[1]
    V = (robot.jacobian(q, "center") @ v[..., None])[..., 0]
    contact = V[..., :3] + np.cross(V[..., 3:], (0.0, 0.0, -RADIUS))
    return center[..., 2], V[..., 2], contact[..., [0, 2]], center[..., 0] - RADIUS * (q[..., 2] + q[..., 3])


def closed_form_pole() -> float:
    """The unstable pole, rad/s:  sqrt(m_b g L/2 (m_b + mu) / det M)  with mu = m_w + I_w / r^2, derived by hand."""
    mu = 0.5 + 0.5 / 2.0  # kg: a wheel of 0.5 kg, a disc
    swing = 1.0 * LENGTH / 2.0 + mu * LENGTH
    det = (1.0 + mu) * (0.01 + 1.0 * LENGTH**2 / 4.0 + mu * LENGTH**2) - swing**2
    return float(np.sqrt(1.0 * GRAVITY * LENGTH / 2.0 * (1.0 + mu) / det))


def checks(run: Run) -> Iterator[Check]:
    """Rolling, the closed form, energy, forces of the ground, and the controller."""
    q, v = all_coordinates(run)
    height, _, slip, distance = contact_motion(q, v)
    yield Check("rolling", "height of the wheel's centre - radius", largest(height - RADIUS), "m", high=1e-15)
    yield Check("rolling", "velocity of the wheel at the contact point", largest(slip), "m/s", high=1e-14)
    yield Check("rolling", "distance of the centre - distance rolled", largest(distance), "m", high=1e-14)
    by_y = rolling().forward_dynamics_derivatives(np.zeros(2), np.zeros(2), np.zeros(2))[0]
    pole = float(np.sqrt(np.linalg.eigvals(by_y).astype(complex)).real.max())
    yield near("closed form", "unstable pole", pole, closed_form_pole(), 1e-11, "rad/s", ".6f")
    work = run.u[:, 0] * np.diff(q[:, 3]) + run.wrenches[:, 0, 0] * np.diff(q[:, 0])
    residual = np.diff(run.simulation.energy(run.x)).cumsum() - work.cumsum()
    yield Check("energy", "energy - work of motor and push", largest(residual), "J", high=1e-9)
    normal, _ = ground_forces(run)
    weight = unconstrained().mass * GRAVITY
    yield near("ground", "mean normal force / weight", normal.mean() / weight, 1.0, 1e-5, "", ".6f")
    yield Check("ground", "smallest normal force / weight", float(normal.min()) / weight, "", 0.9, 1.0, ".3f")
    yield Check("ground", "friction coefficient needed", largest(friction_needed(run)), "", high=FRICTION, form=".3f")
    pushed = round(PUSHED_AT / run.dt)
    yield Check("controller", "largest angle after the push", largest(run.x[pushed:, 1]), "rad", 0.2, 0.215, ".3f")
    for what, k in (("4 s after the start", pushed), ("4 s after the push", -1)):
        yield Check("controller", f"|x|, {what}", 1e3 * abs(run.x[k, 0]), "mm", high=0.3, form=".3f")
        yield Check("controller", f"|phi|, {what}", 1e3 * abs(run.x[k, 1]), "mrad", high=0.6, form=".3f")
    yield replays("run", run)
