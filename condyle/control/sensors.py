"""Noisy sensors: the state that a controller sees, with noise that is a function of seed and step."""

from __future__ import annotations

import numpy as np

from condyle.blocks.frame_sensors import common_deviations
from condyle.control.controllers import Controller
from condyle.errors import ControlError
from condyle.multibody.robot import Robot
from condyle.runs.noise import normal
from condyle.simulate.simulation import Simulation

Array = np.ndarray


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
    places, speeds = common_deviations(simulation).values()
    return np.array(places), np.array(speeds)
