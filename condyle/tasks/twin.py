"""The twin of a loop in MuJoCo: hobby servos and inertial measurement unit in NumPy around MujocoWorld, many robots at once.

The laws are those of condyle.blocks.HobbyServo and condyle.blocks.IMU, written a second time without them, with the same ticks.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

import numpy as np

from condyle.blocks.hobby_servo import HobbyServo
from condyle.blocks.imu import IMU
from condyle.closed_loop.block import Block
from condyle.robot.conventions import rotate, rotate_back

Array = np.ndarray


class Line:
    """What signals (count, n) were `age` updates ago, (count, 1), interpolated; before the first one, that one."""

    def __init__(self, age: Array, longest: int) -> None:
        self.age, self.longest = np.clip(age, 0.0, longest), longest
        self.samples: list[Array] = []

    def __call__(self, signal: Array, start: Array | None = None) -> Array:
        """The delayed signal; `start`: what it was before the first one."""
        if not self.samples:
            self.samples = [signal if start is None else start] * self.longest
        self.samples = [signal, *self.samples[: self.longest]]
        whole = np.minimum(self.age.astype(int), self.longest)
        part, rows = self.age - whole, np.arange(len(signal))
        stacked = np.stack(self.samples)
        newer = stacked[whole[:, 0], rows]
        older = stacked[np.minimum(whole[:, 0] + 1, self.longest), rows]
        mixed: Array = newer * (1.0 - part) + older * part
        return mixed


class Servos:
    """HobbyServo of `count` robots: drives of the joints for target angles."""

    def __init__(self, block: HobbyServo, count: int, dt: float, given: Mapping[str, Any] | None = None) -> None:
        number = _numbers(block, count, given or {})
        names = ("effort", "speed", "kp", "kd", "dead_band", "resolution", "backlash", "supply", "source_resistance")
        self.number = {name: number(name) for name in (*names, "current_per_torque")}
        self.line = Line(number("delay") / dt, ceil(block.max_delay / dt - 1e-9))
        self.dt, self.size, self.count = dt, block.size, count
        self.shaft: Array | None = None
        self.rate = self.bound = np.zeros((count, block.size))

    def __call__(self, target: Array, q: Array, v: Array) -> dict[str, Array]:
        """Stiffness, damping, target, force and effort, each (count, joints), for targets and joint states of the same shape."""
        n, dt = self.number, self.dt
        shape = (self.count, self.size)
        step = n["resolution"]
        command = np.where(step > 0.0, np.rint(target / np.where(step > 0.0, step, 1.0)) * step, target)
        shaft = q if self.shaft is None else self.shaft
        command = self.line(np.broadcast_to(command, shape), q)
        # the voltage that the current of the last torque leaves
        half = 0.5 * n["backlash"]
        torque = n["kp"] * beyond(shaft - q, half) - np.where(np.abs(shaft - q) >= half, n["kd"], 0.0) * (v - self.rate)
        current = n["current_per_torque"][:, :1] * np.abs(np.clip(torque, -self.bound, self.bound)).sum(axis=1, keepdims=True)
        fraction = np.maximum(1.0 - n["source_resistance"] * current / n["supply"], 0.0)
        # the set point moves, not within the dead band, and not faster than the motor
        longest = n["speed"] * fraction * dt
        change = np.clip(beyond(command - shaft, n["dead_band"]), -longest, longest)
        self.shaft, self.rate = shaft + change, change / dt
        self.bound = np.broadcast_to(n["effort"] * fraction, shape)
        gap = self.shaft - q
        touches = np.abs(gap) >= half
        damping = np.where(touches, n["kd"], 0.0)
        return {
            "stiffness": np.where(touches, n["kp"], 0.0),
            "damping": damping,
            "target": self.shaft - np.clip(gap, -half, half),
            "force": damping * self.rate,
            "effort": self.bound,
        }


class Inertial:
    """IMU of `count` robots at the base: rate and specific force in the sensor's axes, with their errors."""

    def __init__(self, block: IMU, count: int, dt: float, given: Mapping[str, Any] | None = None, *, seed: int = 0) -> None:
        number = _numbers(block, count, given or {})
        self.number = {name: number(name) for name in block.parameters}
        self.dt, self.count, self.random = dt, count, np.random.default_rng(seed)
        delay = self.number.get("delay", np.zeros((count, 1)))
        longest = 0 if block.delay is None else max(1, ceil((block.delay.maximum or 0.0) / dt - 1e-9))
        self.lines = {name: Line(delay / dt, longest) for name in ("rate", "acceleration")}

    def __call__(self, orientation: Array, rate: Array, turning: Array, acceleration: Array, gravity: Array) -> dict[str, Array]:
        """{"rate", "acceleration"}, (count, 3), from quaternions (x, y, z, w), body rates and their change per s, and the
        acceleration of the base in the world."""
        f = rotate_back(orientation, acceleration - gravity)
        r, turn = self.number["position"], self.number["misalignment"]
        f = f + np.cross(turning, r) + np.cross(rate, np.cross(rate, r))
        mounted = rotation_vector(np.broadcast_to(turn, f.shape))
        true = {"rate": rotate_back(mounted, rate), "acceleration": rotate_back(mounted, f)}
        return {name: self._measured(name, value) for name, value in true.items()}

    def _measured(self, name: str, value: Array) -> Array:
        """Delay, scale, bias, noise, saturation and rounding."""
        n = self.number
        value = self.lines[name](value) * n[f"{name}_scale"] + n[f"{name}_bias"]
        value = value + self.random.normal(size=value.shape) * n[f"{name}_noise"] / np.sqrt(self.dt)
        if f"{name}_limit" in n:
            value = np.clip(value, -n[f"{name}_limit"], n[f"{name}_limit"])
        step = n[f"{name}_resolution"]
        return np.where(step > 0.0, np.rint(value / np.where(step > 0.0, step, 1.0)) * step, value)


def beyond(x: Array, width: Array) -> Array:
    """Zero within +-width, and outside x less the width."""
    outside: Array = x - np.clip(x, -width, width)
    return outside


def rotation_vector(w: Array) -> Array:
    """The unit quaternions (x, y, z, w) of rotation vectors, (..., 3)."""
    angle = np.linalg.norm(w, axis=-1, keepdims=True)
    return np.concatenate([0.5 * np.sinc(angle / (2.0 * np.pi)) * w, np.cos(0.5 * angle)], axis=-1)


def base_motion(q: Array, v: Array) -> tuple[Array, Array, Array]:
    """(quaternions x y z w, body rates, velocities in the world) of free bases, from q and v of a batch."""
    return q[:, 3:7], v[:, 3:6], rotate(q[:, 3:7], v[:, :3])


def _numbers(block: Block, count: int, given: Mapping[str, Any]) -> Any:
    """The parameters of a block for all robots: those given by name, as "servo.kp", else the block's own; (count, 1 or more)."""

    def number(name: str) -> Array:
        spec = block.parameters[name].spec
        value = np.asarray(given.get(spec.name, spec.default), dtype=float)
        if value.ndim == len(spec.shape):
            return np.broadcast_to(np.atleast_1d(value), (count, max(value.size, 1)))
        return value.reshape(count, -1)

    return number
