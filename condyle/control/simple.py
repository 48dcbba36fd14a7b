"""Controllers for any robot: nothing, holding a pose, floating in its own weight, swaying, and shaking.

control = holding(simulation, x0)
u, wrenches = control(k, x)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import pi
from typing import Any

import numpy as np

from condyle.control.controller import Controller
from condyle.control.motors import Motors, motors
from condyle.errors import ControlError
from condyle.multibody.robot import Robot
from condyle.runs.noise import normal
from condyle.simulate.simulation import Simulation
from condyle.tape.function import Function, function

Array = np.ndarray
Reference = Callable[[int], tuple[Array, Array]]  # step -> (positions, velocities) of the motors' joints

SWAY = {True: 0.3, False: 0.05}  # rad, m: how far a joint sways to each side, if its limits allow
STANDING_SWAY = 0.3  # of that, for a robot that stands on its joints
OF_RANGE, OF_SPEED = 0.25, 0.5  # it uses at most these parts of a joint's range and speed
BEAT = 0.5  # Hz
APART = 2.399963  # rad between the phases of one joint and the next: the golden angle, so that no two go together
BEGIN = 1.0  # s until a motion has its full size
TORQUES = 1 << 64  # added to the seed of torques, so that they have nothing to do with the noise of sensors
SHAKE, SHAKE_FOR = 0.3, 0.05  # of what gravity can exert; s that a random torque lasts


def nothing(simulation: Simulation) -> Controller:
    """No motor does anything."""
    u = np.zeros(simulation.nu)
    return lambda k, x: (u, None)


class Following:
    """u = P (r - q') + D (r' - v') + g in every motor's joint: it follows the reference r, which has the velocity r'.

    q' = q + h v' and v' = v + h a are where the joints would be after the step without contact, so that any gains are stable
    (Tan and others 2011, with q' of the same step). g is what holds the robot still, if `carry`. Everything is computed by
    compiled functions: the same bits everywhere.
    """

    def __init__(self, simulation: Simulation, at: Motors, P: Any, D: Any, reference: Reference, *, carry: bool = False) -> None:
        self.simulation, self.motors, self.reference, self.carry = simulation, at, reference, carry
        self.P, self.D = np.broadcast_to(P, at.load.shape), np.broadcast_to(D, at.load.shape)
        for name, gain in (("P", self.P), ("D", self.D)):
            if not np.all(np.isfinite(gain)) or np.any(gain < 0.0):
                raise ControlError(f"the gain {name} must not be negative, got {gain.min():g}: it would push away from the pose")
        # (M + h D + h^2 P + h b) a = tau - c, b the joints' damping: that of a robot whose joints have so much more inertia
        h = simulation.dt
        self._late = h * self.D + h * h * self.P
        stiff = dict(zip(at.names, self._late + h * at.damping, strict=True))
        robot = simulation.robot
        links = [replace(link, armature=link.armature + float(stiff.get(link.joint, 0.0))) for link in robot.model.links]
        self._felt = Robot(replace(robot.model, links=tuple(links)), robot.locked, robot.coordinate_map)

    def __call__(self, k: int, x: Array) -> tuple[Array, Array | None]:
        at, h, robot = self.motors, self.simulation.dt, self.simulation.robot
        q, v = self.simulation.split(x)
        r, rate = self.reference(k)
        wanted = self.P * (r - q[at.at_q] - h * v[at.at_v]) + self.D * (rate - v[at.at_v])
        if self.carry:
            wanted = wanted + robot.gravity_forces(q)[at.at_v]
        tau = np.zeros(robot.nv)
        tau[at.at_v] = wanted - at.damping * v[at.at_v]
        a = self._felt.forward_dynamics(q, v, tau)
        u = np.zeros(self.simulation.nu)
        u[at.at_u] = wanted - self._late * a[at.at_v]
        return u, None


def holding(simulation: Simulation, x0: Array, gain: tuple[float, float] | None = None) -> Following:
    """Every joint is held where it is at first, by the gains (P, D), or by gains that the robot's own inertias ask for."""
    at = motors(simulation, "hold")
    P, D = at.gains() if gain is None else gain
    pose, still = simulation.split(x0)[0][at.at_q], np.zeros(len(at.names))
    return Following(simulation, at, P, D, lambda k: (pose, still))


def floating(simulation: Simulation, x0: Array) -> Following:
    """Gravity is compensated and motion is damped: the robot stays where it is put, and gives way to a push."""
    at = motors(simulation, "carry")
    pose, still = simulation.split(x0)[0][at.at_q], np.zeros(len(at.names))
    return Following(simulation, at, 0.0, 0.3 * at.gains()[1], lambda k: (pose, still), carry=True)


def swaying(simulation: Simulation, x0: Array) -> Following:
    """Every joint goes to and fro about where it is at first, by a sine within its limits, each with a phase of its own."""
    at = motors(simulation, "sway")
    pose = simulation.split(x0)[0][at.at_q]
    far = np.where(at.turns, SWAY[True], SWAY[False]) * (STANDING_SWAY if at.standing else 1.0)
    omega = 2.0 * pi * BEAT
    far = np.minimum(far, OF_SPEED * at.speed / omega)
    bounded = np.isfinite(at.lower) & np.isfinite(at.upper)
    far = np.where(bounded, np.minimum(far, OF_RANGE * np.where(bounded, at.upper - at.lower, 0.0)), far)
    if not np.any(far > 0.0):
        raise ControlError(
            f"no joint of robot '{simulation.robot.name}' has room to sway: their limits allow no way or no speed; "
            "write limits that do, or take another controller"
        )
    middle = np.minimum(np.maximum(pose, at.lower + far), at.upper - far)
    phase, wave, h = APART * np.arange(len(at.names)), _wave(), simulation.dt

    def reference(k: int) -> tuple[Array, Array]:
        s = min(k * h / BEGIN, 1.0)
        size, growth = s * s * (3.0 - 2.0 * s), 6.0 * s * (1.0 - s) / BEGIN
        sine, cosine = wave(omega * (k * h) + phase)
        way, speed = middle - pose + far * sine, far * omega * cosine
        return pose + size * way, growth * way + size * speed

    P, D = at.gains()
    return Following(simulation, at, P, D, reference, carry=not at.standing)


def shaking(simulation: Simulation, seed: int = 0) -> Controller:
    """Random torques, new ones twenty times a second: the same for the same seed."""
    at = motors(simulation, "shake")
    lasts = max(round(SHAKE_FOR / simulation.dt), 1)

    def shake(k: int, x: Array) -> tuple[Array, Array | None]:
        u = np.zeros(simulation.nu)
        u[at.at_u] = SHAKE * at.load * normal(seed + TORQUES, k // lasts, len(at.names))
        return u, None

    return shake


def _wave() -> Function:
    """(sin, cos) of angles, with the same bits on every processor."""
    return function(lambda angle: {"sine": np.sin(angle), "cosine": np.cos(angle)}, angle=()).on("cpu", threads=1)
