"""Rotors with propellers: thrust, drag torque, the reaction of the spin's acceleration, and the gyroscopic torque."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.blocks.discretization import decay, mean_decay
from condyle.closed_loop.block import Block
from condyle.errors import ControlError
from condyle.robot.spatial import cross
from condyle.tape.array import array


class Rotor(Block):
    """A rotor that turns at w about the z axis of a frame: w' = (command - w) / lag, and on the frame, in its own axes,

        force   k w^2 z
        torque  -s (drag k w^2 + J w') z - (rate of the frame) x (s J w z)

    `direction` s: 1 if it turns counter-clockwise seen from above (right-handed about +z), -1 if clockwise. `thrust_coefficient`
    k in N s^2, `drag`: torque per thrust, m. `lag` in s, `spin_inertia` J in kg m^2, `max_speed` in rad/s: the command is within
    0 and it. Thrust and w' are means over the tick, exactly. The command is a speed in rad/s; `speed_of` gives that of a thrust.
    """

    def __init__(
        self,
        frame: str,
        thrust_coefficient: float,
        *,
        direction: float = 1.0,
        drag: float = 0.0,
        lag: float = 0.0,
        spin_inertia: float = 0.0,
        max_speed: float | None = None,
        initial: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if direction not in (1, -1):
            raise ControlError(f"block '{self.name}': direction must be 1 (counter-clockwise) or -1, got {direction!r:.40}")
        self.frame, self.direction = frame, float(direction)
        self.thrust_coefficient = self.parameter("thrust_coefficient", thrust_coefficient, "N s^2", minimum=1e-300)
        self.drag = self.parameter("drag", drag, "m", minimum=0.0)
        self.lag = self.parameter("lag", lag, "s", minimum=0.0)
        self.spin_inertia = self.parameter("spin_inertia", spin_inertia, "kg m^2", minimum=0.0)
        self.max_speed = None if max_speed is None else self.parameter("max_speed", max_speed, "rad/s", minimum=0.0)
        self.gyroscopic = spin_inertia != 0.0
        self.state("speed", initial)

    def speed_of(self, thrust: Any) -> Any:
        """The speed with which the rotor has this thrust (N) in the long run, rad/s."""
        return np.sqrt(np.maximum(thrust, 0.0) / self.thrust_coefficient)

    def step(self, state: dict[str, Any], command: Any, x: Any) -> tuple[Any, dict[str, Any]]:
        """The wrench at the frame, with the "thrust" over the tick (N) and the "speed" at its end (rad/s)."""
        command = _number(command)
        if self.max_speed is not None:
            command = np.minimum(np.maximum(command, 0.0), self.max_speed)
        away = state["speed"] - command
        speed = command + away * decay(self.dt, self.lag)
        # the means of w and of w^2 over the tick
        mean = command + away * mean_decay(self.dt, self.lag)
        square = command * command + 2.0 * command * (mean - command) + away * away * mean_decay(2.0 * self.dt, self.lag)
        thrust = self.thrust_coefficient * square
        acceleration = (speed - state["speed"]) / self.dt
        about_z = -self.direction * (self.drag * thrust + self.spin_inertia * acceleration)
        torque = array([0.0, 0.0, about_z])
        if self.gyroscopic:
            spin = array([0.0, 0.0, self.direction * self.spin_inertia * mean])
            torque = torque - cross(x.frame_velocity(self.frame, "local").angular, spin)
        wrench = array([0.0, 0.0, thrust, *torque])
        return {"wrenches": {self.frame: (wrench, "local")}, "thrust": thrust, "speed": speed}, {"speed": speed}


def _number(command: Any) -> Any:
    """A number, also from an array with one entry."""
    return command.reshape(-1)[0] if isinstance(command, np.ndarray) and command.size == 1 else command
