"""The servos and the IMU: those of PiDog through its manufacturer's Python packages, and simulated ones for dry runs.

A driver has `begin(pulses)`, `read() -> (rate, acceleration) or None`, `write(pulses)` and `release()`. Rates are in rad/s,
accelerations (specific force) in m/s^2, in the body's axes: x forward, y left, z up. Pulses are in counts of 20 ms / 4095.

NumPy only, and robot_hat and pidog on the dog itself: `condyle deploy` copies this text into dog.py.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np

# of SunFounder's package `pidog` (pidog/pidog.py, pidog/sh3001.py)
LEG_PINS = (2, 3, 7, 8, 0, 1, 10, 11)  # leg and foot of LF, RF, LH, RH
HEAD_PINS, HEAD_DEGREES = (4, 6, 5), (0.0, 0.0, 45.0)  # yaw, roll, pitch; its pitch servo is mounted 45 degrees off
TAIL_PIN = 9
CONFIG = ".config/pidog/pidog.conf"  # in the home of the user, with the offsets of the calibration
SHORTEST_PULSE, LONGEST_PULSE = 102, 512  # counts, for -90 and 90 degrees
COUNTS_PER_DEGREE = 2000.0 / 180.0 * 4095.0 / 20000.0
ACCELERATION_COUNT = 9.80665 / 16384.0  # m/s^2 per count, in the range of +-2 g
RATE_COUNT = np.pi / 180.0 / 16.4  # rad/s per count, in the range of +-2000 degrees/s
# the sensor's x points down, its y backward and its z left: body = (-y, z, -x)
AXES = ((0.0, -1.0, 0.0), (0.0, 0.0, 1.0), (-1.0, 0.0, 0.0))

FAULTS = ("silent", "nan", "stuck", "tilt", "late", "hang", "kill")


class SunFounderDog:
    """PiDog through `robot_hat.Servo` and `pidog.sh3001.Sh3001`."""

    def __init__(self, *, imu: bool = True, head: bool = True, sleep: Any = time.sleep) -> None:
        from robot_hat import Servo, fileDB

        self.sleep = sleep
        config = os.path.join(home(), CONFIG)
        settings = fileDB(config)
        self.offsets = offsets(settings, "legs_servo_offset_list", len(LEG_PINS))
        self.servos = [Servo(pin) for pin in LEG_PINS]
        self.imu: Any = None
        if head:
            shifts = offsets(settings, "head_servo_offset_list", len(HEAD_PINS))
            for k, pin in enumerate(HEAD_PINS):
                Servo(pin).angle(HEAD_DEGREES[k] + shifts[k])
            Servo(TAIL_PIN).angle(offsets(settings, "tail_servo_offset_list", 1)[0])
        if imu:
            from pidog.sh3001 import Sh3001

            self.imu = Sh3001(db=config)

    def begin(self, pulses: Any) -> None:
        """Give the servos their first pulses one after the other: all at once would draw too much current."""
        for k in (0, 2, 4, 6, 1, 3, 5, 7):
            self.servos[k].pulse_width(self._shifted(pulses, k))
            self.sleep(0.15)

    def read(self) -> Any:
        """(rate, acceleration) in the body's axes, or None if the sensor does not answer."""
        found = self.imu._sh3001_getimudata()  # ((x, y, z), (x, y, z)) in counts, or False
        if not found:
            return None
        axes = np.array(AXES)
        return RATE_COUNT * (axes @ np.array(found[1], dtype=float)), ACCELERATION_COUNT * (
            axes @ np.array(found[0], dtype=float)
        )

    def write(self, pulses: Any) -> None:
        """Give the legs' servos their pulses, shifted by the offsets of the calibration."""
        for k, servo in enumerate(self.servos):
            servo.pulse_width(self._shifted(pulses, k))

    def _shifted(self, pulses: Any, k: int) -> int:
        return int(min(max(pulses[k] + round(self.offsets[k] * COUNTS_PER_DEGREE), SHORTEST_PULSE), LONGEST_PULSE))

    def release(self) -> None:
        """No more pulses: the legs give way."""
        for servo in self.servos:
            servo.pulse_width(0)


def offsets(settings: Any, name: str, count: int) -> list[float]:
    """Degrees, from the file that the manufacturer's calibration writes."""
    text = settings.get(name, default_value=str([0] * count))
    found = [float(x) for x in str(text).strip("[]").split(",")]
    return found if len(found) == count else [0.0] * count


def home() -> str:
    """The home of the user who called, also under sudo."""
    name = os.environ.get("SUDO_USER")
    if name:
        import pwd

        return pwd.getpwnam(name).pw_dir
    return os.path.expanduser("~")


class SimulatedDog:
    """Servos that remember their pulses, and an IMU at rest with the noise of a real one; `fault` begins `at` seconds."""

    def __init__(
        self, clock: Any = time.monotonic, *, seed: int = 0, fault: str = "", at: float = 5.0, sleep: Any = time.sleep
    ) -> None:
        self.clock, self.sleep, self.fault, self.at = clock, sleep, fault, at
        self.noise = np.random.default_rng(seed)
        self.start = clock()
        self.pulses: Any = None
        self.released = False
        self.last: Any = None

    def begin(self, pulses: Any) -> None:
        """As `write`."""
        self.write(pulses)

    def read(self) -> Any:
        """(rate, acceleration), or what the fault makes of them."""
        since = self.clock() - self.start - self.at
        fault = self.fault if since >= 0.0 else ""
        if fault == "silent":
            return None
        if fault == "stuck":
            return self.last
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault in ("late", "hang"):
            self.sleep(0.1 if fault == "late" else 5.0)
        angle = min(5.0 * since, 1.2) if fault == "tilt" else 0.0  # it tips over to its right
        up = np.array([0.0, np.sin(angle), np.cos(angle)])
        rate, acceleration = 0.005 * self.noise.standard_normal(3) + 0.01, 9.81 * up + 0.05 * self.noise.standard_normal(3)
        rate[0] += 5.0 if 0.0 < angle < 1.2 else 0.0
        if fault == "nan":
            rate[1] = np.nan
        self.last = rate, acceleration
        return self.last

    def write(self, pulses: Any) -> None:
        """Remember the pulses."""
        self.pulses = list(pulses)

    def release(self) -> None:
        """Remember that there are none."""
        self.released = True
