"""Hobby servos: small geared motors whose electronics follow the angle of a pulse signal, with all their faults.

A tick passes these stages:

1. the command is rounded to `resolution` (the counter that makes the pulses), and `delay` seconds old;
2. the electronics move the shaft's set point toward it, not at all within the `dead_band`, at most at the `speed`;
3. the gear transmits torque only outside of its `backlash`:  kp (set point -+ backlash / 2 - q') - kd (v' - rate), implicit;
4. the torque is at most `effort`. Speed and effort fall with the voltage, which sags under the current of all joints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from condyle.blocks.delay import delayed, line_length
from condyle.blocks.joints import JointBlock
from condyle.blocks.limiters import dead_band, quantized, saturated
from condyle.errors import ControlError
from condyle.tape.array import array, where

STIFF = 0.05  # rad of error at which the default gain gives the full effort


class HobbyServo(JointBlock):
    """Servos on joints, command: angles in rad. The defaults are those of SunFounder's PiDog at 6 V.

    `effort` N m and `speed` rad/s at the voltage `supply` (V) without load; `kp` N m/rad (default: full effort at 0.05 rad),
    `kd` N m s/rad (default: effort / speed, the back EMF). `dead_band`, `resolution`, `backlash` in rad. `delay` in s, up to
    `max_delay`. `source_resistance` in ohm, `current_per_torque` in A/(N m): the voltage is supply - source_resistance * current.
    """

    # rounding has no slope, and a set point within the dead band or teeth within their gap do not answer small changes
    smooth: ClassVar[Mapping[str, float]] = {"dead_band": 0.0, "resolution": 0.0, "backlash": 0.0}

    def __init__(
        self,
        joints: str | Sequence[str],
        *,
        effort: Any = 0.137,
        speed: Any = 7.0,
        kp: Any = None,
        kd: Any = None,
        dead_band: Any = 0.008,
        resolution: Any = 0.00767,
        delay: float = 0.0,
        max_delay: float | None = None,
        backlash: Any = 0.0,
        supply: float = 6.0,
        source_resistance: float = 0.0,
        current_per_torque: float = 6.0,
        **options: Any,
    ) -> None:
        super().__init__(joints, **options)
        effort_array, speed_array = np.asarray(effort, dtype=float), np.asarray(speed, dtype=float)
        self.effort = self.number("effort", effort, "N m", minimum=0.0)
        self.speed = self.number("speed", speed, "rad/s", minimum=1e-9)
        self.kp = self.number("kp", effort_array / STIFF if kp is None else kp, "N m/rad", minimum=0.0)
        self.kd = self.number("kd", effort_array / speed_array if kd is None else kd, "N m s/rad", minimum=0.0)
        self.dead_band = self.number("dead_band", dead_band, "rad", minimum=0.0)
        self.resolution = self.number("resolution", resolution, "rad", minimum=0.0)
        self.backlash = self.number("backlash", backlash, "rad", minimum=0.0)
        self.supply = self.parameter("supply", supply, "V", minimum=1e-9)
        self.source_resistance = self.parameter("source_resistance", source_resistance, "ohm", minimum=0.0)
        self.current_per_torque = self.parameter("current_per_torque", current_per_torque, "A/(N m)", minimum=0.0)
        longest = delay if max_delay is None else max_delay
        if not np.isfinite(longest) or longest < 0.0:
            raise ControlError(f"block '{self.name}': max_delay must be a time from 0 s up, got {longest!r:.40}")
        self.delay = self.parameter("delay", delay, "s", minimum=0.0, maximum=float(longest))
        self.max_delay = float(longest)
        self.state("shaft", np.zeros(self.size))  # the set point of the shaft at the end of the last tick
        self.state("torque_bound", np.zeros(self.size))  # of the last tick
        self.state("rate", np.zeros(self.size))  # of the set point in the last tick
        self.state("started", 0.0)

    def prepare(self, dt: float | None) -> None:
        """Make the delay line as long as updates of every dt seconds need."""
        if dt is None:
            raise ControlError(f"block '{self.name}': the length of its delay line needs a loop whose dt is a number")
        self.states.pop("line", None)
        if count := line_length(self.name, self.max_delay, dt):
            self.state("line", np.zeros((count, self.size)))

    def step(self, state: dict[str, Any], target: Any, x: Any) -> tuple[Any, dict[str, Any]]:
        """The drive of the joints for target angles, with the "shaft" angle (rad), "voltage" and "torque" of the last tick."""
        q, v = self.positions(x), self.velocities(x)
        first = state["started"] <= 0.0
        after: dict[str, Any] = {}
        command = quantized(target + np.zeros(self.size), self.resolution.resolve())
        if "line" in state:
            line = where(first, np.array([q] * len(state["line"])), state["line"])
            after["line"] = np.array([command, *line[:-1]])
            command = delayed([command, *line], self.delay / self.dt)
        # the torque of the last tick, from the angle and velocity it led to, and the voltage that its current leaves
        shaft = where(first, q, state["shaft"])
        half = 0.5 * self.backlash
        damping = where(abs(shaft - q) >= half, +self.kd, 0.0)
        torque = self.kp * dead_band(shaft - q, half) - damping * (v - state["rate"])
        torque = saturated(torque, -state["torque_bound"], state["torque_bound"])
        current = self.current_per_torque * sum(abs(torque)[1:], abs(torque)[0])
        fraction = np.maximum(1.0 - self.source_resistance * current / self.supply, 0.0)
        # the set point moves
        longest = self.speed * fraction * self.dt
        change = saturated(dead_band(command - shaft, self.dead_band), -longest, longest)
        shaft, rate = shaft + change, change / self.dt
        # the side of the gap that the teeth touch, or none
        touches = abs(shaft - q) >= half
        damping, effort = where(touches, +self.kd, 0.0), self.effort * fraction
        drive = self.drive(
            stiffness=where(touches, +self.kp, 0.0),
            target=shaft - saturated(shaft - q, -half, half),
            damping=damping,
            force=damping * rate,
            effort=effort,
        )
        after |= {"shaft": shaft, "rate": rate, "torque_bound": effort + np.zeros(self.size), "started": 1.0}
        return {**drive, "shaft": shaft, "voltage": self.supply * fraction, "torque": array(torque)}, after
