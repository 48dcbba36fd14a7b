"""Friction of joints: viscous, Coulomb and Stribeck, by the dry friction of the contact solver, so that a joint really sticks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condyle.blocks.joints import JointBlock


class JointFriction(JointBlock):
    """|tau| <= coulomb + (static - coulomb) exp(-(v / stribeck_speed)^2) against the motion, plus viscous v; at rest it sticks.

    `coulomb` and `static` (default: `coulomb`) in N m, `viscous` in N m s/rad, `stribeck_speed` in rad/s; v is the velocity at
    the start of the tick. They take the place of the friction and damping that the robot's file gives these joints.
    """

    def __init__(
        self,
        joints: str | Sequence[str],
        coulomb: Any = 0.0,
        viscous: Any = 0.0,
        *,
        static: Any = None,
        stribeck_speed: Any = 0.1,
        **options: Any,
    ) -> None:
        super().__init__(joints, **options)
        self.coulomb = self.number("coulomb", coulomb, "N m", minimum=0.0)
        self.viscous = self.number("viscous", viscous, "N m s/rad", minimum=0.0)
        self.static = None if static is None else self.number("static", static, "N m", minimum=0.0)
        if static is not None:
            self.stribeck_speed = self.number("stribeck_speed", stribeck_speed, "rad/s", minimum=1e-9)

    def step(self, state: dict[str, Any], x: Any) -> tuple[Any, dict[str, Any]]:
        """Friction and damping of the joints at the state x of the robot."""
        return self.joint_parameters(friction=self.limit(self.velocities(x)), damping=self.viscous), {}

    def limit(self, v: Any) -> Any:
        """The largest dry friction at a velocity, N m."""
        if self.static is None:
            return self.coulomb + v * 0.0
        ratio = v / self.stribeck_speed
        return self.coulomb + (self.static - self.coulomb) * np.exp(-(ratio * ratio))
