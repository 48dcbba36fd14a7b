"""Balance by IMU: a block that keeps PiDog's body level while it stands on a slope, or is pushed.

    imu, balance = IMU("torso", every=10), Balance(every=10)                  # 50 Hz, as the dog's pulses
    def control(x):
        measured = imu(x)
        return servos(x, np.concatenate([balance(measured["rate"], measured["acceleration"]), np.zeros(4)]))

A complementary filter of gyroscope and accelerometer estimates which way is down; the legs of the lower side extend and those of
the higher side shorten, by the integral of the tilt. Proportional and rate parts exist, and are zero: with pulses of 50 Hz a rate
part of 0.03 s oscillates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.apps.pidog.controller import clipped, leg_angles
from condyle.closed_loop.block import Block
from condyle.robot.library.pidog import HIP_X, HIP_Y, LEGS


class Balance(Block):
    """Eight servo angles, rad, from the body's angular rate (rad/s) and specific force (m/s^2); axes x forward, y left, z up.

    `integral` 1/s, `proportional` and `damping` s: gains of the legs' lean by the tilt; `limit` rad: of the lean. `height` m: of
    the hips above the feet; `forward` m: of the feet before the hips; `weight`: of a measurement of the accelerometer.
    """

    def __init__(
        self,
        *,
        integral: float = 2.0,
        proportional: float = 0.0,
        damping: float = 0.0,
        limit: float = 0.35,
        height: float = 0.092,
        forward: float = 0.010,
        weight: float = 0.05,
        **options: Any,
    ) -> None:
        super().__init__(**{"name": "balance", **options})
        self.integral = self.parameter("integral", integral, "1/s", minimum=0.0)
        self.proportional = self.parameter("proportional", proportional, "", minimum=0.0)
        self.damping = self.parameter("damping", damping, "s", minimum=0.0)
        self.limit = self.parameter("limit", limit, "rad", minimum=0.0)
        self.height = self.parameter("height", height, "m", minimum=0.035)
        self.forward = self.parameter("forward", forward, "m")
        self.weight = self.parameter("weight", weight, "", minimum=0.0)
        self.state("down", np.array([0.0, 0.0, -1.0]))
        self.state("lean", np.zeros(2))  # rad: integral part, of roll and pitch

    def step(self, state: dict[str, Any], rate: Any, acceleration: Any) -> tuple[Any, dict[str, Any]]:
        """The leg angles, and the next estimate."""
        d, w, dt = state["down"], rate, self.dt
        turned = [
            d[0] + dt * (d[1] * w[2] - d[2] * w[1]),
            d[1] + dt * (d[2] * w[0] - d[0] * w[2]),
            d[2] + dt * (d[0] * w[1] - d[1] * w[0]),
        ]
        size = np.sqrt(acceleration[0] ** 2 + acceleration[1] ** 2 + acceleration[2] ** 2) + 1e-3
        mixed = [turned[k] - self.weight * (turned[k] + acceleration[k] / size) for k in range(3)]
        length = np.sqrt(mixed[0] ** 2 + mixed[1] ** 2 + mixed[2] ** 2) + 1e-6
        down = [each / length for each in mixed]
        # small angles: roll (left side up) and pitch (nose down)
        tilt = [-1.0 * down[1], down[0]]
        lean = [clipped(state["lean"][k] + dt * self.integral * tilt[k], -1.0 * self.limit, +self.limit) for k in range(2)]
        roll, pitch = (
            clipped(lean[k] + self.proportional * tilt[k] + self.damping * w[k], -1.0 * self.limit, +self.limit) for k in range(2)
        )
        angles: list[Any] = []
        for front, left in LEGS.values():
            depth = self.height + front * HIP_X * pitch - left * HIP_Y * roll
            angles += [float(left) * each for each in leg_angles(self.forward + 0.0 * depth, depth)]
        return np.array(angles), {"down": np.array(down), "lean": np.array(lean)}
