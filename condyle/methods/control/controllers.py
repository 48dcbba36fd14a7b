"""Controllers for any robot: zero torque, PD control to a pose, gravity compensation, sine motion and random torque.

loop = cd.Loop(simulation, hold(simulation, x0))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import pi
from typing import Any

import numpy as np

from condyle.blocks.frame_sensors import StateSensor, common_deviations
from condyle.closed_loop.block import Block
from condyle.closed_loop.plant import Plant
from condyle.errors import ControlError
from condyle.multibody.robot import Robot
from condyle.robot.joints import Revolute
from condyle.simulate.simulation import Simulation
from condyle.simulate.world import EARTH, STANDING
from condyle.tape.array import array

Array = np.ndarray
Control = Callable[..., dict[str, Any]]  # the function of a loop: (state of the robot, references) -> {"u": joint forces}
Reference = Callable[[Any], tuple[Any, Any]]  # time, s -> (positions, velocities) of the motors' joints

SAG = 0.02  # rad or m: the deflection under gravity that the default gains allow, about
AMPLITUDE = {True: 0.3, False: 0.05}  # rad, m: of a sine motion, if the limits allow
STANDING_AMPLITUDE = 0.3  # of that, for a robot that stands on its joints
RANGE_FRACTION, SPEED_FRACTION = 0.25, 0.5  # of a joint's range and speed that a sine motion uses at most
FREQUENCY = 0.5  # Hz
PHASE = 2.399963  # rad between one joint and the next: the golden angle
RAMP = 1.0  # s until a motion has its full amplitude
RANDOM_TORQUE, RANDOM_PERIOD = 0.3, 0.05  # of the largest torque of gravity; s that a random torque lasts


# -- motors


@dataclass(frozen=True)
class Motors:
    """One entry for each motor: its joint's name, its indices in u, q and v, the inertia it moves and the load of gravity.

    A robot whose base moves stands on its joints, so each of them is taken to carry a leg's part of the weight.
    """

    names: tuple[str, ...]
    at_u: Array
    at_q: Array
    at_v: Array
    revolute: Array  # False where the joint is prismatic
    inertia: Array  # kg m^2 or kg
    load: Array  # N m or N
    friction: Array  # N m or N, to be overcome before it moves
    damping: Array  # N m s/rad or N s/m
    lower: Array  # -inf where there is no limit
    upper: Array
    speed: Array
    standing: bool  # whether the base moves

    def gains(self) -> tuple[Array, Array]:
        """(P, D) that hold each joint against gravity and friction within SAG, critically damped."""
        P = (self.load + self.friction) / SAG
        return P, 2.0 * np.sqrt(P * self.inertia)


def motors(simulation: Simulation) -> Motors:
    """The motors in joints with one coordinate each; ControlError if there are none."""
    robot = simulation.robot
    names = robot.velocity_names
    places = {
        link.joint: (link.q.start, link.v.start if simulation.holonomic else names.index(link.joint))
        for link in robot.reduced.links
        if link.kind.nv == 1 and (simulation.holonomic or link.joint in names)
    }
    owners = [next(link for link in robot.model.links if link.v.start <= k < link.v.stop) for k in simulation.actuated]
    found = [
        (column, k, link)
        for column, (k, link) in enumerate(zip(simulation.actuated, owners, strict=True))
        if link.joint in places
    ]
    if not found:
        raise ControlError(
            f"robot '{robot.name}' has no motor in a joint with one coordinate, so there is nothing to control; "
            "leave the controller out, or give the robot joints that move"
        )
    forces = [simulation.joint_forces[k] for _, k, _ in found]
    g = float(np.linalg.norm(robot.model.gravity)) or EARTH
    inertia, load = np.array([f.inertia for f in forces]), np.array([f.load for f in forces])
    standing = bool(robot.model.base_coordinates)
    if standing:
        # load = g sqrt(inertia mass): the mass beyond a joint, and the square of its arm
        mass = (load / g) ** 2 / inertia
        arm2 = inertia / mass
        supported = np.maximum(mass, robot.mass / STANDING)
        inertia, load = supported * arm2, g * supported * np.sqrt(arm2)
    speeds = [link.limits.velocity for _, _, link in found]
    return Motors(
        tuple(link.joint for _, _, link in found),
        np.array([column for column, _, _ in found]),
        np.array([places[link.joint][0] for _, _, link in found]),
        np.array([places[link.joint][1] for _, _, link in found]),
        np.array([isinstance(link.kind, Revolute) for _, _, link in found]),
        inertia,
        load,
        np.array([f.friction for f in forces]),
        np.array([f.damping for f in forces]),
        np.array([-np.inf if f.lower is None else f.lower for f in forces]),
        np.array([np.inf if f.upper is None else f.upper for f in forces]),
        np.array([speed or np.inf for speed in speeds]),
        standing,
    )


# -- controllers


def zero_torque(simulation: Simulation) -> Control:
    """A controller with u = 0."""
    return lambda x: {"u": np.zeros(simulation.nu)}


class PDController:
    """u = P (r - q') + D (r' - v') + g in every motor's joint: it follows the reference r with the velocity r'.

    q' = q + h v' and v' = v + h a are predicted for the end of the step without contact, so that any gains are stable (Tan and
    others 2011, with q' of the same step). g are the gravity forces, if `gravity`.
    """

    def __init__(
        self, simulation: Simulation, at: Motors, P: Any, D: Any, reference: Reference, *, gravity: bool = False
    ) -> None:
        self.simulation, self.motors, self.reference, self.gravity = simulation, at, reference, gravity
        self.P, self.D = np.broadcast_to(P, at.load.shape), np.broadcast_to(D, at.load.shape)
        for name, gain in (("P", self.P), ("D", self.D)):
            if not np.all(np.isfinite(gain)) or np.any(gain < 0.0):
                raise ControlError(f"the gain {name} must not be negative, got {gain.min():g}: it would push away from the pose")
        # (M + h D + h^2 P + h b) a = tau - c, b the joints' damping: that of a robot whose joints have so much more inertia
        h = simulation.dt
        self._implicit = h * self.D + h * h * self.P
        stiff = dict(zip(at.names, self._implicit + h * at.damping, strict=True))
        robot = simulation.robot
        links = [replace(link, armature=link.armature + float(stiff.get(link.joint, 0.0))) for link in robot.model.links]
        self._augmented = Robot(replace(robot.model, links=tuple(links)), robot.locked, robot.coordinate_map)

    def trace_data(self) -> tuple[Any, ...]:
        """All that a trace of it depends on."""
        return self.simulation, self._augmented, self.P, self.D, self.reference, self.gravity

    def __call__(self, x: Plant) -> dict[str, Any]:
        """{"u": joint forces}."""
        at, h, robot = self.motors, self.simulation.dt, self.simulation.robot
        q, v = x.q, x.v
        r, rate = self.reference(x.t)
        wanted = self.P * (r - q[at.at_q] - h * v[at.at_v]) + self.D * (rate - v[at.at_v])
        if self.gravity:
            wanted = wanted + robot.gravity_forces(q)[at.at_v]
        tau = scattered(robot.nv, at.at_v, wanted - at.damping * v[at.at_v])
        a = self._augmented.forward_dynamics(q, v, tau)
        return {"u": scattered(self.simulation.nu, at.at_u, wanted - self._implicit * a[at.at_v])}


def scattered(size: int, places: Array, values: Any) -> Any:
    """A vector with these values at these places, and zeros."""
    found = [0.0 * values[0]] * size
    for k, value in zip(places, values, strict=True):
        found[k] = value
    return array(found)


def hold(simulation: Simulation, x0: Array, gain: tuple[float, float] | None = None) -> PDController:
    """PD control of every joint to its position in x0, with the gains (P, D), or with those of `Motors.gains`."""
    at = motors(simulation)
    P, D = at.gains() if gain is None else gain
    return PDController(simulation, at, P, D, _constant(simulation, at, x0))


def gravity_compensation(simulation: Simulation, x0: Array) -> PDController:
    """Gravity compensation with damping: the robot stays where it is put, and yields to a push."""
    at = motors(simulation)
    return PDController(simulation, at, 0.0, 0.3 * at.gains()[1], _constant(simulation, at, x0), gravity=True)


def _constant(simulation: Simulation, at: Motors, x0: Array) -> Reference:
    pose, zero = simulation.split(x0)[0][at.at_q], np.zeros(len(at.names))
    return lambda t: (pose, zero)


def sine_motion(simulation: Simulation, x0: Array) -> PDController:
    """Every joint follows a sine about its position in x0, within its limits, each with its own phase."""
    at = motors(simulation)
    pose = simulation.split(x0)[0][at.at_q]
    size = np.where(at.revolute, AMPLITUDE[True], AMPLITUDE[False]) * (STANDING_AMPLITUDE if at.standing else 1.0)
    omega = 2.0 * pi * FREQUENCY
    size = np.minimum(size, SPEED_FRACTION * at.speed / omega)
    bounded = np.isfinite(at.lower) & np.isfinite(at.upper)
    size = np.where(bounded, np.minimum(size, RANGE_FRACTION * np.where(bounded, at.upper - at.lower, 0.0)), size)
    if not np.any(size > 0.0):
        raise ControlError(
            f"no joint of robot '{simulation.robot.name}' can move: their limits allow no range or no speed; "
            "correct the limits, or use another controller"
        )
    middle = np.minimum(np.maximum(pose, at.lower + size), at.upper - size)
    phase = PHASE * np.arange(len(at.names))

    def reference(t: Any) -> tuple[Any, Any]:
        s = np.minimum(t * (1.0 / RAMP), 1.0)
        ramp, growth = s * s * (3.0 - 2.0 * s), 6.0 * s * (1.0 - s) / RAMP
        angle = omega * t + phase
        offset, speed = middle - pose + size * np.sin(angle), size * omega * np.cos(angle)
        return pose + ramp * offset, growth * offset + ramp * speed

    P, D = at.gains()
    return PDController(simulation, at, P, D, reference, gravity=not at.standing)


class RandomTorque(Block):
    """Normal random torques in every motor, RANDOM_TORQUE of the load of gravity, held for RANDOM_PERIOD."""

    def __init__(self, simulation: Simulation, **options: Any) -> None:
        super().__init__(every=max(round(RANDOM_PERIOD / simulation.dt), 1), **options)
        self.motors, self.nu = motors(simulation), simulation.nu

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """The torques."""
        at = self.motors
        return scattered(self.nu, at.at_u, RANDOM_TORQUE * at.load * self.normal(len(at.names))), {}


def random_torque(simulation: Simulation) -> Control:
    """Random torques, new ones twenty times a second: the same for the same seed of the loop."""
    torque = RandomTorque(simulation)
    return lambda x: {"u": torque()}


def with_noise(control: Control, simulation: Simulation, level: float) -> Control:
    """The controller, which sees the state as noisy sensors do, "measured.q" and "measured.v"; level 1 is that of common ones."""
    if not (np.isfinite(level) and level >= 0.0):
        raise ControlError(f"the level of noise must be zero or a positive number, got {level:g}; 1 is that of common sensors")
    noise = {name: level * np.array(size) for name, size in common_deviations(simulation).items()}
    sensor = StateSensor(simulation, name="measured", **noise)

    def noisy(x: Plant, **references: Any) -> dict[str, Any]:
        seen = sensor(x)
        return control(x.with_state(seen["q"], seen["v"]), **references)

    return noisy
