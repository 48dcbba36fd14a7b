"""The twin of PiDog's loop in MuJoCo: servos, IMU, pushes, controller and policy in NumPy, many dogs at once.

The laws are those of condyle.blocks.HobbyServo and condyle.blocks.IMU, written a second time without them, with the same ticks;
the controller is condyle/apps/pidog/controller.py, as it runs on the dog. The physics is MujocoWorld.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

import numpy as np

from condyle.apps.pidog import controller
from condyle.apps.pidog.training_robot import PUSH_TIME
from condyle.blocks.hobby_servo import HobbyServo
from condyle.blocks.imu import IMU
from condyle.closed_loop.block import Block
from condyle.closed_loop.loop import Loop
from condyle.methods.learn.lstm import LSTMPolicy
from condyle.methods.learn.policy_file import PolicyFile
from condyle.robot.conventions import rotate, rotate_back
from condyle.workbench.compare.mujoco_world import MujocoWorld

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


class Dogs:
    """PiDogs under a policy: the loop `loop` of `training_robot.py` in MuJoCo, each dog with its own `parameters`."""

    def __init__(
        self, file: PolicyFile, loop: Loop, q: Array, phase: Array, parameters: Mapping[str, Array], *, seed: int = 0
    ) -> None:
        assert loop.world is not None
        blocks, count = loop.plan.blocks, len(q)
        servo, imu, push = blocks["servo"], blocks["imu"], blocks["push"]
        assert isinstance(servo, HobbyServo) and isinstance(imu, IMU)
        own = {f"{joint}.damping": np.zeros(()) for joint in servo.joints}
        own |= {name: value for name, value in parameters.items() if name.partition(".")[0] not in blocks}
        self.every, self.dt, self.count = imu.every, loop.dt, count
        self.world = MujocoWorld(loop.world, servo.joints, count, own)
        self.servos = Servos(servo, count, loop.dt, parameters)
        self.imu = Inertial(imu, count, loop.dt * imu.every, parameters, seed=seed)
        self.push, self.random = _numbers(push, count, parameters)("force"), np.random.default_rng([seed, 1])
        self.push_rate = float(_numbers(push, count, parameters)("rate")[0, 0])
        self.offset = _numbers(blocks["horn"], count, parameters)("offset")
        command = _numbers(blocks["command"], count, parameters)
        self.command = np.stack([command("speed")[:, 0], command("turn")[:, 0]])
        self.gravity = np.array([np.asarray(each.model.gravity, dtype=float) for each in self.world.worlds])
        self.policy = walking_policy(file, count)
        self.numbers = dict(file.controller)
        # the controller's arrays have the dogs in their last axis
        self.state = {name: np.repeat(value[:, None], count, axis=1) for name, value in controller.initial().items()}
        self.state["phase"] = phase[None]
        self.seen = np.repeat(blocks["controller"].states["seen"][:, None], count, axis=1)
        self.world.place(q, np.zeros((count, self.world.model.nv)))
        self.velocity, self.rate = np.zeros((count, 3)), np.zeros((count, 3))  # before the last tick
        self.force, self.remaining = np.zeros((count, 3)), np.zeros((count, 1))
        self.tick, self.target, self.action = 0, np.zeros((count, servo.size)), np.zeros((count, len(controller.ACTION)))

    def step(self) -> None:
        """One tick; at the start of a frame the policy acts."""
        world = self.world
        orientation, rate, velocity = base_motion(world.q, world.v)
        if self.tick % self.every == 0:
            turning, acceleration = (rate - self.rate) / self.dt, (velocity - self.velocity) / self.dt
            measured = self.imu(orientation, rate, turning, acceleration, self.gravity)
            self.action = self.policy(self.seen.T)
            angles, state = controller.act(self.numbers, self.state, np.asarray(self.action, dtype=float).T)
            self.seen, self.state = controller.observe(
                self.numbers, state, measured["rate"].T, measured["acceleration"].T, self.command
            )
            self.target = angles.T + self.offset
            self._push()
        self.velocity, self.rate = velocity, rate
        joints = len(self.servos.rate[0])
        drives = self.servos(self.target, world.q[:, -joints:], world.v[:, -joints:])
        world.step(drives, np.concatenate([self.force, np.zeros((self.count, 3))], axis=1))
        self.tick += 1

    def _push(self) -> None:
        """Start pushes at random times, and end those that have lasted."""
        dt = self.dt * self.every
        drawn = self.random.uniform(size=(self.count, 4))
        starts = drawn[:, 3:] < self.push_rate * dt
        direction = np.stack([2.0 * drawn[:, 0] - 1.0, 2.0 * drawn[:, 1] - 1.0, drawn[:, 2] - 0.5], axis=1)
        self.remaining = np.where(starts, PUSH_TIME, np.maximum(self.remaining - dt, 0.0))
        self.force = np.where(starts, direction * self.push, np.where(self.remaining > 0.5 * dt, self.force, 0.0))


def walking_policy(file: PolicyFile, count: int) -> Callable[[Array], Array]:
    """Observations (count, n) -> mean actions, with the memory of a recurrent policy."""
    policy = file.policy
    if not isinstance(policy, LSTMPolicy):
        return lambda seen: np.asarray(policy(seen))
    memory = [policy.initial(count)]

    def remembering(seen: Array) -> Array:
        action, memory[0] = policy(seen, memory[0])
        return np.asarray(action)

    return remembering


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
