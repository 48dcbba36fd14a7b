"""The arm: it draws a rectangle with its tool, held by soft gains and by what its own dynamics ask for, and is pushed.

simulation = world()
control = gravity_compensation(simulation, simulation.state(READY))     # it stays, and comes back when pushed
done = run()                                                           # 17 seconds: approach, two rounds, one push
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from condyle.demos.arm_plan import SECONDS, TOOL, Way, demonstration, robot
from condyle.demos.row import Row, Say, silent
from condyle.dynamics.rnea import inverse_dynamics
from condyle.errors import ControlError
from condyle.multibody.robot import Robot
from condyle.robot.library.ur3 import FRICTION, READY
from condyle.robot.model import Model
from condyle.runs.recorder import Recorder
from condyle.runs.run import Run
from condyle.simulate.simulation import Simulation
from condyle.tape.function import Function

Array = np.ndarray

DT = 0.002  # s, of the physics and of the controller
KP = np.array([1.98, 2.97, 1.49, 0.726, 1.86, 1.17])  # N m/rad
KD = np.array([2.36, 3.54, 0.788, 0.15, 0.0375, 0.0125])  # N m s
MOST = 100.0  # N m, of the torque and of its part by the velocities
PUSH, PUSHED_AT, PUSHED_FOR = (-6.0, 0.0, 8.0), 5.8, 0.2  # N at the tool in the axes of the world, s, s


@cache
def world(dt: float = DT) -> Simulation:
    """With a motor and friction in every joint, and a wrench at the tool."""
    return Simulation(robot(), dt, integrator="rk4", wrenches=[TOOL])


def law(model: Model, q: Any, v: Any, wanted: Any) -> dict[str, Any]:
    """M a* + c + friction + kp (q* - q) + kd (v* - v), for the wanted q*, v* and a*: (3, 6)."""
    by_rate = np.minimum(np.maximum(KD * (wanted[1] - v), -MOST), MOST)
    forward = inverse_dynamics(model, q, v, wanted[2]) + FRICTION * wanted[1]
    return {"u": np.minimum(np.maximum(forward + KP * (wanted[0] - q) + by_rate, -MOST), MOST)}


@cache
def compiled(robot: Robot) -> Function:
    """The law as machine code."""
    return robot.function(law, wanted=(3, 6))


class Tracking:
    """A controller that follows (times, 3, 6): joints, velocities and accelerations, one for each step; the last one is kept."""

    def __init__(self, simulation: Simulation, wanted: Array) -> None:
        if simulation.nu != len(KP) or simulation.robot.nv != len(KP):
            raise ControlError(
                f"the arm's gains are for {len(KP)} joints with a motor each; {simulation.robot.name} has {simulation.robot.nv} "
                f"velocities and {simulation.nu} motors: take ur3, or condyle.control.simple.holding for any robot"
            )
        self.wanted = np.reshape(wanted, (-1, 3, len(KP)))
        self.law = compiled(simulation.robot)
        # a push is not the controller's: wrenches are zero unless somebody gives them
        self.wrenches = np.zeros((len(simulation.wrench_frames), 6)) if simulation.wrench_frames else None

    def __call__(self, k: int, x: Array) -> tuple[Array, Array | None]:
        wanted = self.wanted[min(k, len(self.wanted) - 1)]
        return self.law(x[:6], x[6:12], wanted), self.wrenches


def gravity_compensation(simulation: Simulation, x0: Array) -> Tracking:
    """A controller that carries the arm's weight and holds it softly where it is at `x0`."""
    return Tracking(simulation, np.stack([x0[:6], np.zeros(6), np.zeros(6)]))


def push(t: Array) -> Array:
    """(times, 1, 6): the wrench at the tool at each time."""
    on = (t >= PUSHED_AT - 1e-9) & (t < PUSHED_AT + PUSHED_FOR - 1e-9)
    return np.where(on[:, None, None], np.array([*PUSH, 0.0, 0.0, 0.0]), 0.0)


@cache
def way() -> Way:
    """Where it should be at every step."""
    return demonstration(DT * np.arange(round(SECONDS / DT)))


def run(path: str | os.PathLike[str] | None = None, *, say: Say = silent) -> Run:
    """From the ready pose to the rectangle, twice round it; somebody pushes the tool on the first round."""
    here, plan = world(), way()
    follow = Tracking(here, np.stack([plan.q, plan.v, plan.a], axis=1))
    pushes = push(plan.t)
    title = "arm: drawing a rectangle, pushed"
    with Recorder(here, here.state(READY), path, title=title, controller="track", overwrite=True) as recorder:
        for k in range(len(plan.t)):
            if k % 500 == 0:
                say("drawing", k, len(plan.t))
            u, _ = follow(k, recorder.x)
            recorder.step(u, pushes[k], reference=plan.q[k], place=plan.place[k])
        return recorder.finish()


def checks(run: Run | None = None, *, quick: bool = False, say: Say = silent) -> Iterator[Row]:
    """Everything that is checked about it, one row each: see arm_checks.py."""
    from condyle.demos.arm_checks import checks as rows

    return rows(run, quick=quick, say=say)
