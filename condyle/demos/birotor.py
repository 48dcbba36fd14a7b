"""The birotor: a drone with two rotors on gimbals, hovering, tilting and travelling under a simple controller.

simulation = world()
fly = hover(simulation, simulation.state())      # a controller: (step, state) -> (torques of the servos, wrenches of the rotors)
done = run()                                     # 13 seconds: it rises, flies a circle, tilted, and goes on
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from condyle.demos import birotor_plan
from condyle.demos.birotor_control import GIMBALS, ROTORS, compiled
from condyle.demos.row import Row, Say, silent
from condyle.errors import ControlError
from condyle.multibody.robot import Robot, load
from condyle.runs.recorder import Recorder
from condyle.runs.run import Run
from condyle.simulate.simulation import Simulation

Array = np.ndarray

DT = 0.001  # s, of the physics
CONTROL_DT = 0.01  # s, of the controller
OFF = (0.04, -0.03, -0.05), (0.06, -0.05, 0.15)  # m and rad: where it begins, from where it should be


@cache
def robot() -> Robot:
    """The whole machine: a free base and two gimbals; gravity 9.81."""
    return load("birotor")


@cache
def world(dt: float = DT) -> Simulation:
    """With servos in the gimbals, which have their damping, and wrenches at the rotors."""
    return Simulation(robot(), dt, integrator="rk4", wrenches=ROTORS)


class Flight:
    """A controller that follows references, see birotor_plan.py: a new law every 10 ms; rotors and servos at every step."""

    def __init__(self, simulation: Simulation, references: Array) -> None:
        """`references`: (18,) to stay, or (times, 18), one for each call of the law; the last one is kept."""
        frames = simulation.wrench_frames
        if frames != ROTORS or simulation.nu != len(GIMBALS):
            raise ControlError(
                f"the birotor flies by wrenches at {' and '.join(ROTORS)} and by a motor in each gimbal; this simulation of "
                f"{simulation.robot.name} has wrenches at {' and '.join(frames) or 'no frame'} and {simulation.nu} motors: load "
                f"'birotor' and make the simulation with wrenches={list(ROTORS)}"
            )
        self.simulation, self.references = simulation, np.atleast_2d(references)
        self.every = max(1, round(CONTROL_DT / simulation.dt))
        self.thrusts = self.commands = self.wanted = np.zeros(0)
        self._law, self._actuated = compiled(simulation.robot)
        self._nq, self._end = simulation.robot.nq, simulation.robot.nq + simulation.robot.nv

    def __call__(self, k: int, x: Array) -> tuple[Array, Array]:
        q = x[: self._nq]
        if k % self.every == 0:
            self.wanted = self.references[min(k // self.every, len(self.references) - 1)]
            self.thrusts, self.commands = self._law(q, x[self._nq : self._end], self.wanted)
        u, wrenches = self._actuated(q, self.thrusts, self.commands)
        return u, wrenches


def hover(simulation: Simulation, x0: Array) -> Flight:
    """A controller that stays where the centre of mass is at `x0`, at the heading that it has there."""
    robot, (q, _) = simulation.robot, simulation.split(x0)
    R, _ = robot.frame_pose(q, "flight_controller")
    heading = float(np.arctan2(R[1, 0], R[0, 0]))
    return Flight(simulation, birotor_plan.staying(robot.center_of_mass(q), heading))


def planned(plan: Callable[[Any], dict[str, Any]], seconds: float) -> Array:
    """(times, 18): the references for each call of the law."""
    return birotor_plan.references(plan, CONTROL_DT * np.arange(round(seconds / CONTROL_DT)))


def beginning(simulation: Simulation) -> Array:
    """At rest, with the centre of mass a little off the start, and turned a little."""
    robot = simulation.robot
    q = robot.integrate(robot.neutral(), np.array([0.0, 0.0, 0.0, *OFF[1], 0.0, 0.0]))
    q[:3] += birotor_plan.START + OFF[0] - robot.center_of_mass(q)
    return simulation.state(q)


def run(path: str | os.PathLike[str] | None = None, *, say: Say = silent) -> Run:
    """It rises from the origin to (0.3, 0.6, 1.0), flies a circle at a tilt of 18 degrees, turning, and goes to (1, 1, 1)."""
    here = world()
    fly = Flight(here, planned(birotor_plan.demonstration, birotor_plan.SECONDS))
    steps = round(birotor_plan.SECONDS / here.dt)
    title = "birotor: hovering, tilting, travelling"
    with Recorder(here, beginning(here), path, title=title, controller="fly", overwrite=True) as recorder:
        for k in range(steps):
            if k % 500 == 0:
                say("flying", k, steps)
            u, wrenches = fly(k, recorder.x)
            recorder.step(u, wrenches, reference=fly.wanted, thrusts=fly.thrusts, commands=fly.commands)
        return recorder.finish()


def checks(run: Run | None = None, *, quick: bool = False, say: Say = silent) -> Iterator[Row]:
    """Everything that is checked about it, one row each: see birotor_checks.py."""
    from condyle.demos.birotor_checks import checks as rows

    return rows(run, quick=quick, say=say)
