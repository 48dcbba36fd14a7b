"""Friction of joints as a smooth torque: it creeps instead of sticking, and needs no solver."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.blocks.joints import JointBlock
from condyle.closed_loop.block import BlockParameter


class SmoothFriction(JointBlock):
    """u = -viscous v - coulomb tanh(v / smooth_speed): N m for the joints in the order of the motors.

    `coulomb` in N m, `viscous` in N m s/rad, `smooth_speed` in rad/s. The torque is explicit, so a tick must be short against
    smooth_speed times the inertia over coulomb. It acts beside the damping that the robot's file gives its joints.
    """

    def __init__(self, joints: Any, coulomb: Any, viscous: Any, smooth_speed: Any, **options: Any) -> None:
        super().__init__(joints, **options)
        self.coulomb: BlockParameter = self.number("coulomb", coulomb, "N m", minimum=0.0)
        self.viscous: BlockParameter = self.number("viscous", viscous, "N m s/rad", minimum=0.0)
        self.smooth_speed: BlockParameter = self.number("smooth_speed", smooth_speed, "rad/s", minimum=1e-9)

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """The torques at the state x of the robot."""
        v = self.velocities(inputs[0])
        return {"u": -(self.viscous * v) - self.coulomb * np.tanh(v / self.smooth_speed)}, {}
