"""Noisy sensors: the state that a controller sees, with noise that is a function of seed and step."""

from __future__ import annotations

import numpy as np

from condyle.control.controllers import Controller
from condyle.errors import ControlError
from condyle.multibody.robot import Robot
from condyle.robot.joints import Free, Prismatic
from condyle.runs.noise import normal
from condyle.simulate.simulation import Simulation

Array = np.ndarray

# standard deviations at level 1: of joints, and of the base
JOINT = {"angle": 0.01, "rate": 0.1, "place": 1e-3, "speed": 5e-3}  # rad, rad/s, m, m/s
BASE = {"angle": 1e-3, "rate": 5e-3, "place": 1e-3, "speed": 5e-3}


class NoisySensors:
    """A controller that sees the state through noisy sensors; `measured` is the last measured state."""

    def __init__(self, controller: Controller, simulation: Simulation, level: float, seed: int = 0) -> None:
        if not (np.isfinite(level) and level >= 0.0):
            raise ControlError(
                f"the level of noise must be zero or a positive number, got {level:g}; 1 is that of common sensors"
            )
        self.controller, self.simulation, self.level, self.seed = controller, simulation, level, seed
        self.deviations = np.concatenate(standard_deviations(simulation))
        self._reduced = Robot(simulation.robot.reduced)
        self.measured = np.zeros(simulation.nx)

    def __call__(self, k: int, x: Array) -> tuple[Array, Array | None]:
        """(u, wrenches) of the controller for the measured state."""
        q, v = self.simulation.split(x)
        error = self.level * self.deviations * normal(self.seed, k, len(self.deviations))
        n = len(error) - len(v)
        measured = np.array(x, dtype=float)
        measured[: len(q)], measured[len(q) : len(q) + len(v)] = self._reduced.integrate(q, error[:n]), v + error[n:]
        self.measured = measured
        return self.controller(k, measured)


def standard_deviations(simulation: Simulation) -> tuple[Array, Array]:
    """Standard deviations at level 1 of the small change of q that the sensors add, and of v."""
    reduced = simulation.robot.reduced
    places, speeds = np.empty(reduced.nv), np.empty(reduced.nv)
    for link in reduced.links:
        of = BASE if link.base else JOINT
        slides = [isinstance(link.kind, Prismatic)] * link.kind.nv
        if isinstance(link.kind, Free):
            slides = [True] * 3 + [False] * 3
        places[link.v] = [of["place"] if slide else of["angle"] for slide in slides]
        speeds[link.v] = [of["speed"] if slide else of["rate"] for slide in slides]
    # where only velocities are constrained, they are no longer those of the coordinates
    return places, speeds if simulation.holonomic else np.full(simulation.robot.nv, BASE["speed"])
