"""The external wrench at the tool, out of the reading of a force-torque sensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.dynamics.rnea import transmitted_forces
from condyle.errors import ControlError
from condyle.methods.control.arm_controller import ArmController
from condyle.robot.spatial import product
from condyle.simulate.simulation import Simulation


class ExternalWrench(ArmController):
    """(6,) = R F - load: the force and torque of the environment on the tool, at a frame, in world axes.

    Called as `external(x, reading)` with the output of `ForceTorque(frame)`. The load is what the sensor would read without an
    environment: by Newton and Euler on the links beyond the sensor's joint, with the masses of `model`. `inertia`: with the
    motion of these links, by x.acceleration, as an accelerometer beside the sensor gives it; their weight alone otherwise.
    """

    def __init__(self, simulation: Simulation, frame: str, *, inertia: bool = True, **options: Any) -> None:
        super().__init__(simulation, **options)
        self.tool, self.inertia = self.frame(frame), bool(inertia)
        if self.robot.model.frame(frame).link < 0:
            raise ControlError(f"block '{self.name}': frame '{frame}' is fixed in the world, so no sensor carries it")

    def step(self, state: dict[str, Any], x: Any, reading: Any) -> tuple[Any, dict[str, Any]]:
        """The external wrench at the state x of the loop."""
        model, frame = self.robot.model, self.robot.model.frame(self.tool)
        zero = np.zeros(self.size)
        v, a = (x.v, x.acceleration) if self.inertia else (zero, zero)
        load = frame.pose.carry(-transmitted_forces(model, x.q, v, a)[frame.link])
        R, _ = self.robot.frame_pose(x.q, self.tool)
        force, torque = reading["force"] - load.linear, reading["torque"] - load.angular
        return np.concatenate([product(R, force), product(R, torque)]), {}
