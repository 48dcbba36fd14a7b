"""The birotor: a drone with two rotors on gimbals, hovering, tilting and travelling under a simple controller.

simulation = world()
still = cd.Loop(simulation, hover(simulation, simulation.state()))
done = run()                                            # 13 seconds: it rises, flies a circle, tilted, and stops
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from os import PathLike
from typing import Any

import numpy as np

from condyle.apps.demos import birotor_control as control
from condyle.apps.demos.birotor_control import GIMBALS, ROTORS
from condyle.apps.demos.checks import Check, Progress, energy_residual, largest, near, recorded, replays, silent
from condyle.closed_loop.block import Block
from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError
from condyle.methods.control.controllers import Control
from condyle.multibody.robot import Robot, load
from condyle.robot.library.birotor import DRAG, SPIN, THRUST
from condyle.simulate.simulation import Simulation
from condyle.workbench.runs.loops import built_in
from condyle.workbench.runs.run import Run

Array = np.ndarray

DT = 0.001  # s, of the physics
CONTROL_DT = 0.01  # s, of the controller
INITIAL_ERROR = (0.04, -0.03, -0.05), (0.06, -0.05, 0.15)  # m and rad
GRAVITY = 9.81


@cache
def robot() -> Robot:
    """The birotor: a free base and two gimbals."""
    return load("birotor")


@cache
def world(dt: float = DT) -> Simulation:
    """A simulation with servos in the gimbals and wrenches at the rotors."""
    return Simulation(robot(), dt, integrator="rk4", wrenches=ROTORS)


class Law(Block):
    """The law of birotor_control, every 10 ms: thrusts of the rotors and commands to the gimbals."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(name="law", every=max(1, round(CONTROL_DT / simulation.dt)))
        self.model = simulation.robot.model

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """{"thrusts": N, "commands": rad} for (q, v, reference)."""
        return control.law(self.model, *inputs), {}


def flight(simulation: Simulation) -> Control:
    """The function of a loop that follows a reference of 18 numbers: the law every 10 ms, rotors and servos at every step."""
    model = simulation.robot.model
    if any(name not in simulation.robot.frame_names for name in ROTORS) or simulation.nu != len(GIMBALS):
        raise ControlError(
            f"the birotor flies by wrenches at {' and '.join(ROTORS)} and by a motor in each gimbal; {simulation.robot.name} has "
            f"{simulation.nu} motors: load 'birotor'"
        )
    law = Law(simulation)

    def fly(x: Any, reference: Any) -> dict[str, Any]:
        wanted = law(x.q, x.v, reference)
        acting = control.actuated(model, x.q, wanted["thrusts"], wanted["commands"])
        return {"u": acting["u"], "wrenches": dict(zip(ROTORS, acting["wrenches"], strict=True))}

    return fly


@built_in("birotor")
def loop(simulation: Simulation, x0: Any) -> Loop:
    """It follows its references."""
    return Loop(simulation, flight(simulation), reference=18)


def hover(simulation: Simulation, x0: Array) -> Control:
    """The function of a loop that stays where the centre of mass is at `x0`, at the heading that it has there."""
    robot, (q, _) = simulation.robot, simulation.split(x0)
    R, _ = robot.frame_pose(q, "flight_controller")
    heading = float(np.arctan2(R[1, 0], R[0, 0]))
    fly, reference = flight(simulation), control.hover_reference(robot.center_of_mass(q), heading)
    return lambda x: fly(x, reference)


def initial_state(simulation: Simulation) -> Array:
    """At rest, with a small error of position and attitude."""
    robot = simulation.robot
    q = robot.integrate(robot.neutral(), np.array([0.0, 0.0, 0.0, *INITIAL_ERROR[1], 0.0, 0.0]))
    q[:3] += control.START + INITIAL_ERROR[0] - robot.center_of_mass(q)
    return simulation.state(q)


def run(path: str | PathLike[str] | None = None, *, progress: Progress = silent) -> Run:
    """It rises from the origin to (0.3, 0.6, 1.0), flies a circle at a tilt of 18 degrees, and goes to (1, 1, 1)."""
    here, x0 = loop(world(), None), initial_state(world())
    every = round(CONTROL_DT / DT)
    times = CONTROL_DT * np.arange(round(control.SECONDS / CONTROL_DT))
    references = {"reference": np.repeat(control.references(control.trajectory, times), every, axis=0)}
    named: dict[str, Any] = {"title": "birotor: hovering, tilting, travelling", "controller": "fly"}
    record = ["law.thrusts", "law.commands"]
    steps, q = round(control.SECONDS / DT), world().split(x0)[0]
    return recorded(here, here.state(q), path, steps, references, progress=progress, record=record, **named)


# -- checks


def tilt_and_heading(q: Array) -> tuple[Array, Array]:
    """(tilt of the body's z axis, heading of its x axis), rad."""
    R = robot().frame_pose(q, "flight_controller")[0]
    return np.arctan2(np.hypot(R[..., 0, 2], R[..., 1, 2]), R[..., 2, 2]), np.arctan2(R[..., 1, 0], R[..., 0, 0])


def tracking_errors(run: Run) -> tuple[Array, Array, Array]:
    """(times, distance of the centre of mass from its reference, heading error) whenever the law was called."""
    every = round(CONTROL_DT / run.dt)
    wanted = run.extras["reference"][::every]
    q = run.q[:-1:every]
    heading = tilt_and_heading(q)[1] - wanted[:, 15]
    distance = np.linalg.norm(robot().center_of_mass(q) - wanted[:, :3], axis=-1)
    return run.t[:-1:every], distance, np.arctan2(np.sin(heading), np.cos(heading))


def checks(run: Run) -> Iterator[Check]:
    """Published mass and hover thrust, how it follows its trajectory, its rotors, energy and momentum."""
    model, q = robot(), robot().neutral()
    yield near("model", "mass", model.mass, 1.444422, 5e-7, "kg", ".6f")
    com = model.center_of_mass(q)[2]
    yield near("model", "centre of mass above the root", com, -0.069980, 1e-6, "m", ".6f")
    yield near("model", "thrust that hovers", model.mass * GRAVITY / 2.0, 7.0848, 1e-4, "N", ".4f")
    t, distance, heading = tracking_errors(run)
    tilt = tilt_and_heading(run.q)[0]
    begin, end = control.CIRCLE[0] + control.RAMP, control.CIRCLE[0] + control.CIRCLE[1]
    hovering = int(np.searchsorted(t, control.CIRCLE[0] - CONTROL_DT))
    circling, in_circle = (t >= begin) & (t <= end), (run.t >= begin) & (run.t <= end)
    yield Check("flight", "position error, hovering", 1e3 * distance[hovering], "mm", high=2.0, form=".2f")
    yield Check("flight", "position error, in the circle", 1e3 * float(distance[circling].max()), "mm", high=25.0, form=".1f")
    wanted = np.degrees(np.arctan2(control.RADIUS * control.RATE**2, GRAVITY))  # tan(tilt) = a / g
    yield near("flight", "mean tilt in the circle", np.degrees(tilt[in_circle].mean()), wanted, 1.0, "deg", ".2f")
    yield Check("flight", "position error at the end", 1e3 * distance[-1], "mm", high=0.5, form=".2f")
    yield Check("flight", "heading error at the end", 1e3 * abs(heading[-1]), "mrad", high=0.02, form=".3f")
    thrusts = run.extras["law.thrusts"]
    expected = model.mass * GRAVITY / 2.0 / np.cos(np.radians(wanted))
    mean = thrusts[in_circle[:-1]].mean()
    yield near("rotors", "mean thrust in the circle: weight / (2 cos tilt)", mean, expected, 0.02 * expected, "N", ".3f")
    saturated = float(run.dt * np.sum((thrusts <= THRUST[0]) | (thrusts >= THRUST[1])))
    yield Check("rotors", "time at a thrust limit", saturated, "s", high=0.0, form=".3f")
    for k, (name, spin) in enumerate(zip(ROTORS, SPIN, strict=True)):
        axis = model.frame_pose(run.q[:-1], name)[0][..., 2]
        drag = run.wrenches[:, k, 3:] + axis * (spin * DRAG) * thrusts[:, k, None]
        force = run.wrenches[:, k, :3] - axis * thrusts[:, k, None]
        error = max(largest(force), largest(drag))
        yield Check("rotors", f"rotor {k + 1}: force - thrust, torque - drag", error, "N, N m", high=1e-12)
    residual = energy_residual(world(), world(DT / 2.0), run.x, run.u, run.wrenches)
    kinetic = float(model.kinetic_energy(run.q, run.v).max())
    yield Check("balance", "energy - work, by the largest kinetic energy", largest(residual) / kinetic, "", high=5e-6)
    momentum = model.momentum(run.q, run.v)[:, :3]
    force = run.wrenches[:, :, :3].sum(axis=1) + model.mass * np.array([0.0, 0.0, -GRAVITY])
    residual = momentum[1:] - momentum[0] - run.dt * np.cumsum(force, axis=0)
    yield Check("balance", "momentum - impulses, by the largest", largest(residual) / largest(momentum), "", high=1e-9)
    yield replays("run", run)
