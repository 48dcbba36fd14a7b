"""Position servos with a first- or second-order response: kinematic (an angle comes out), and in torque form (a joint follows).

The kinematic forms are exact for a target that is constant within a tick. The torque forms give a joint, whatever it carries, the
motion of the same equation: the velocity that leads to the next angle of the response is the set point of a stiff implicit
velocity drive, so the torque is the one that the motion takes, within the effort limit. A torque (I / lag) (target - q) would be
an undamped spring, not a lag.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condyle.blocks.discretization import decay, second_order
from condyle.blocks.joints import JointBlock
from condyle.closed_loop.block import Block

RIGID = 1e9  # the damping of a velocity drive in one step, relative to the inertia of its joint: its relative velocity error


class FirstOrderServo(Block):
    """An angle that follows its target with a lag: angle' = (target - angle) / lag, exactly. `lag` in s.

    `size`: number of angles; `initial`: the angles at the start, rad.
    """

    def __init__(self, size: int | tuple[int, ...], lag: Any, *, initial: Any = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.lag = self.parameter("lag", lag, "s", minimum=0.0)
        self.state("angle", np.full(size, initial, dtype=float))

    def step(self, state: dict[str, Any], target: Any) -> tuple[Any, dict[str, Any]]:
        """The angle at the end of the tick, rad."""
        angle = target + (state["angle"] - target) * decay(self.dt, self.lag)
        return angle, {"angle": angle}


class SecondOrderServo(Block):
    """An angle with a second-order response: angle'' = omega^2 (target - angle) - 2 zeta omega angle', exactly.

    `frequency`: omega / (2 pi) in Hz. `damping_ratio`: zeta; below 1 it overshoots, from 1 on it does not.
    """

    def __init__(
        self, size: int | tuple[int, ...], frequency: Any, damping_ratio: Any = 1.0, *, initial: Any = 0.0, **options: Any
    ) -> None:
        super().__init__(**options)
        self.frequency = self.parameter("frequency", frequency, "Hz", minimum=0.0)
        self.damping_ratio = self.parameter("damping_ratio", damping_ratio, "1", minimum=0.0)
        self.state("angle", np.full(size, initial, dtype=float))
        self.state("rate", np.zeros(size))

    def step(self, state: dict[str, Any], target: Any) -> tuple[Any, dict[str, Any]]:
        """The angle at the end of the tick, rad; its rate is the state "rate", rad/s."""
        by = second_order(self.frequency * (2.0 * np.pi), +self.damping_ratio, self.dt)
        e, rate = by.applied(state["angle"] - target, state["rate"])
        return target + e, {"angle": target + e, "rate": rate}


class VelocityServo(JointBlock):
    """Joints that move at the commanded velocity, as far as the effort limit (N m; None: no limit) lets them."""

    def __init__(self, joints: str | Sequence[str], effort: Any = None, **options: Any) -> None:
        super().__init__(joints, **options)
        self.effort = None if effort is None else self.number("effort", effort, "N m", minimum=0.0)

    def step(self, state: dict[str, Any], velocity: Any, x: Any) -> tuple[Any, dict[str, Any]]:
        """The drive of the joints for velocities in rad/s."""
        return self.at_velocity(velocity, x), {}

    def at_velocity(self, velocity: Any, x: Any) -> dict[str, Any]:
        """The velocity drive: damping B and force B v with a large B, relative to the inertia of each joint."""
        damping = self.inertias(x) * (RIGID / x.world.h)
        return self.drive(force=damping * velocity, damping=damping, effort=self.effort)


class FirstOrderTorqueServo(VelocityServo):
    """Joints that follow their targets with a lag, q' = (target - q) / lag, by the torque that this takes. `lag` in s.

    At its effort limit (N m) a joint falls behind, and follows the lag from where it is.
    """

    def __init__(self, joints: str | Sequence[str], lag: Any, effort: Any = None, **options: Any) -> None:
        super().__init__(joints, effort, **options)
        self.lag = self.number("lag", lag, "s", minimum=0.0)

    def step(self, state: dict[str, Any], target: Any, x: Any) -> tuple[Any, dict[str, Any]]:
        """The drive of the joints toward targets in rad."""
        velocity = (target - self.positions(x)) * ((1.0 - decay(self.dt, self.lag)) / self.dt)
        return self.at_velocity(velocity, x), {}


class SecondOrderTorqueServo(VelocityServo):
    """Joints with the response q'' = omega^2 (target - q) - 2 zeta omega q', by the torque that this takes.

    `frequency`: omega / (2 pi) in Hz; `damping_ratio`: zeta; `effort` in N m. The state "rate" is the velocity of the response at
    the end of a tick; what the joint's velocity lacks or exceeds (effort limit, contact) corrects it.
    """

    def __init__(
        self, joints: str | Sequence[str], frequency: Any, damping_ratio: Any = 1.0, effort: Any = None, **options: Any
    ) -> None:
        super().__init__(joints, effort, **options)
        self.frequency = self.number("frequency", frequency, "Hz", minimum=0.0)
        self.damping_ratio = self.number("damping_ratio", damping_ratio, "1", minimum=0.0)
        self.state("rate", np.zeros(self.size))
        self.state("commanded", np.zeros(self.size))

    def step(self, state: dict[str, Any], target: Any, x: Any) -> tuple[Any, dict[str, Any]]:
        """The drive of the joints toward targets in rad."""
        by = second_order(self.frequency * (2.0 * np.pi), +self.damping_ratio, self.dt)
        e = self.positions(x) - target
        after, rate = by.applied(e, state["rate"] + (self.velocities(x) - state["commanded"]))
        velocity = (after - e) / self.dt
        return self.at_velocity(velocity, x), {"rate": rate, "commanded": velocity}
