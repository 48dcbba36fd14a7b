"""Torque actuators and implicit PD control of joints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condyle.blocks.joints import JointBlock
from condyle.errors import ControlError
from condyle.tape.array import where


class TorqueActuator(JointBlock):
    """A motor that gives the commanded torque within its limits: tau = clip(command, lower(v), upper(v)).

    upper(v) = min(effort, stall (1 - v / speed)) and lower(v) = max(-effort, -stall (1 + v / speed)): the torque-speed line from
    the `stall` torque (N m) at rest to zero at the no-load `speed` (rad/s), cut off at `effort` (N m). It limits motoring; torque
    against the motion is limited by `effort` alone, and beyond the no-load speed the motor brakes. Without `speed` there is no
    line. On the line the torque is an implicit function of the velocity after the step, so a steep line is stable.
    """

    def __init__(
        self,
        joints: str | Sequence[str],
        effort: Any,
        *,
        stall: Any = None,
        speed: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(joints, **options)
        if stall is not None and speed is None:
            raise ControlError(f"block '{self.name}': a stall torque needs the no-load speed of the line, speed=... in rad/s")
        self.effort = self.number("effort", effort, "N m", minimum=0.0)
        self.lined = speed is not None
        if self.lined:
            self.stall = self.number("stall", effort if stall is None else stall, "N m", minimum=0.0)
            self.speed = self.number("speed", speed, "rad/s", minimum=1e-9)

    def step(self, state: dict[str, Any], command: Any, x: Any) -> tuple[Any, dict[str, Any]]:
        """The drive of the joints for torques (N m), one for each joint, at the state x of the robot."""
        command = np.minimum(np.maximum(command, -self.effort), self.effort)
        if not self.lined:
            return self.drive(force=command), {}
        v = self.velocities(x)
        lower, upper = torque_bounds(v, np.inf, self.stall.resolve(), self.speed.resolve())
        # on a line: an implicit damper, whose force is bounded by the effort
        above, below = command > upper, command < lower
        damping = where(above | below, self.stall / self.speed, 0.0)
        force = where(above, self.stall, where(below, -self.stall, command))
        return self.drive(force=force, damping=damping, effort=self.effort), {}


def torque_bounds(v: Any, effort: Any, stall: Any, speed: Any) -> tuple[Any, Any]:
    """(lower, upper): the torques that a motor can give at the velocity v, see TorqueActuator."""
    upper = np.minimum(np.maximum(stall * (1.0 - v / speed), -effort), effort)
    lower = np.minimum(np.maximum(-stall * (1.0 + v / speed), -effort), effort)
    return lower, upper


class ImplicitPD(JointBlock):
    """PD control inside of the physics step: tau = clip(kp (target - q') + kd (rate - v') + feedforward, -effort, effort).

    q' = q + h v' and v' are those after the step, found together with contact, so it is stable at any gain. kp in N m/rad, kd in
    N m s/rad, `effort` in N m (None: no limit).
    """

    def __init__(self, joints: str | Sequence[str], kp: Any, kd: Any = 0.0, effort: Any = None, **options: Any) -> None:
        super().__init__(joints, **options)
        self.kp = self.number("kp", kp, "N m/rad", minimum=0.0)
        self.kd = self.number("kd", kd, "N m s/rad", minimum=0.0)
        self.effort = None if effort is None else self.number("effort", effort, "N m", minimum=0.0)

    def step(
        self, state: dict[str, Any], target: Any, x: Any = None, rate: Any = None, feedforward: Any = None
    ) -> tuple[Any, dict[str, Any]]:
        """The drive of the joints toward target angles (rad), with optional target rates (rad/s) and torques (N m)."""
        force = None if rate is None else self.kd * rate
        if feedforward is not None:
            force = feedforward if force is None else force + feedforward
        return self.drive(stiffness=self.kp, damping=self.kd, target=target, force=force, effort=self.effort), {}
