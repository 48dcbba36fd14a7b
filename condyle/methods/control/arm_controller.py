"""Controllers of arms as blocks: `controller(x, reference)` gives the joint forces of every motor.

    controller = ComputedTorque(world, kp=400.0, kd=40.0, every=4)
    loop = cd.Loop(world, lambda x: controller(x, move.at(x.t)))

x is the state of the robot, or a measured one (`x.with_state(q, v)`). Joint references are a `Sample` (position, velocity,
acceleration), as motions give it; a reference of the tool is a `ToolSample`.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from condyle.closed_loop.block import Block, BlockParameter
from condyle.errors import ControlError
from condyle.multibody.robot import Robot
from condyle.robot.names import nearest
from condyle.simulate.simulation import Simulation


class ToolSample(NamedTuple):
    """Where the tool should be: its rotation and position in the world, and what it should exert on what it touches.

    Velocity and acceleration are linear, then angular, the wrench is force, then torque: all at the tool, in world axes.
    """

    R: Any  # (3, 3)
    p: Any  # (3,)
    velocity: Any = 0.0  # (6,)
    acceleration: Any = 0.0  # (6,)
    wrench: Any = 0.0  # (6,)


class ArmController(Block):
    """A controller of a robot on a fixed base, with a motor in every joint and one coordinate in each.

    `model`: the robot as the controller knows it, by default that of the simulation; another one shows what wrong masses do.
    `underactuated`: whether joints without a motor are allowed; a class attribute.
    """

    underactuated: ClassVar[bool] = False

    def __init__(self, simulation: Simulation, *, model: Robot | None = None, **options: Any) -> None:
        super().__init__(**options)
        if not isinstance(simulation, Simulation):
            raise ControlError(
                f"controller '{self.name}' needs the condyle.Simulation it controls, got {type(simulation).__name__}"
            )
        robot = simulation.robot
        motors = 1 <= simulation.nu <= robot.nv if self.underactuated else simulation.nu == robot.nv
        if robot.nq != robot.nv or not motors or not robot.coordinate_map.identity:
            raise ControlError(
                f"controller '{self.name}' is for arms, with a motor in every joint and one coordinate in each; robot "
                f"'{robot.name}' has {simulation.nu} motors, nq {robot.nq} and nv {robot.nv}; robot.lock([...]) fixes a gripper"
            )
        self.simulation, self.robot = simulation, robot if model is None else model
        if self.robot.joint_names != robot.joint_names:
            raise ControlError(f"controller '{self.name}': the joints of model= are not those of robot '{robot.name}'")
        self.size = robot.nv

    def gain(self, name: str, value: Any, unit: str = "", *, minimum: float | None = 0.0) -> BlockParameter:
        """A parameter with one value for all joints, or one for each."""
        if np.shape(value) not in ((), (self.size,)):
            raise ControlError(
                f"controller '{self.name}': {name} must be one number, or {self.size} for the joints; got shape {np.shape(value)}"
            )
        return self.parameter(name, value, unit, minimum=minimum)

    def frame(self, name: str) -> str:
        """A frame's name that the robot has."""
        known = self.robot.frame_names
        if name not in known:
            raise ControlError(f"controller '{self.name}': the robot has no frame '{name!s:.60}'{nearest(name, known)}")
        return name
