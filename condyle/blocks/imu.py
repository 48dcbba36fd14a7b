"""An inertial measurement unit: specific force and angular rate at a frame, with mounting errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.blocks.measurement import Quantity, Sensor
from condyle.dynamics.rotations import quaternion_exp
from condyle.robot.joints import rotation_of
from condyle.robot.spatial import cross, product


class IMU(Sensor):
    """Specific force f = R^T (a - g), m/s^2, and angular rate w, rad/s, in the axes of the sensor s.

    a is the classical acceleration of the sensor's origin in the world, the mean over the last tick: with the acceleration a_f of
    the frame and r from the frame to the sensor,  a = a_f + w' x r + w x (w x r).  At rest f is -g, upwards; in free fall 0.

    `frame`: where it is mounted. `position`: r in the frame, m. `misalignment`: the rotation vector from the frame's axes to the
    sensor's, rad. Quantities "rate" and "acceleration" with the errors of every sensor (measurement.py), as in rate_noise=1e-3:
    their noise is a density, in rad/s/sqrt(Hz) and m/s^2/sqrt(Hz), so the standard deviation of a sample is noise / sqrt(dt), and
    their walk is in rad/s/sqrt(s) and m/s^2/sqrt(s). Output: {"rate": (3,), "acceleration": (3,), "valid": 1 or 0}.
    """

    def __init__(
        self, frame: str, *, position: Any = (0.0, 0.0, 0.0), misalignment: Any = (0.0, 0.0, 0.0), **options: Any
    ) -> None:
        quantities = [Quantity("rate", (3,), "rad/s", density=True), Quantity("acceleration", (3,), "m/s^2", density=True)]
        super().__init__(quantities, {"name": "imu", **options})
        self.frame = frame
        self.position = self.three("position", position, "m")
        self.misalignment = self.three("misalignment", misalignment, "rad")

    def step(self, state: dict[str, Any], x: Any) -> tuple[Any, dict[str, Any]]:
        """The measured rate and acceleration at the state x of the loop."""
        motion = x.frame_acceleration(self.frame, "local")
        w = x.frame_velocity(self.frame, "local").angular
        g = product(x.frame_pose(self.frame).R.T, np.array(x.model.gravity))
        f = motion.linear - g
        if (r := self.given(self.position)) is not None:
            f = f + cross(motion.angular, r) + cross(w, cross(w, r))
        if (turn := self.given(self.misalignment)) is not None:
            R_fs = rotation_of(quaternion_exp(turn))
            f, w = product(R_fs.T, f), product(R_fs.T, w)
        return self.measure(state, {"rate": w, "acceleration": f})
