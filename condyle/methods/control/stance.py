"""Holding a pose: by the actuators of the robot's file, and by PD control of joints that have a motor alone.

    stance = cd.stance(world, keyframe="home")
    loop = cd.Loop(world, stance)
    out = loop.rollout(loop.state(stance.q), steps=2500)

The pose is a keyframe of the file, the one called "home" or "stand" or the first one by default. A robot without keyframes has
its written pose, with joints that are beyond their limits in the middle of their range. A free base stands on the ground.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.blocks.actuators import ImplicitPD
from condyle.blocks.joints import combined
from condyle.blocks.robot_actuators import RobotActuators
from condyle.closed_loop.plant import Plant
from condyle.errors import ControlError
from condyle.methods.control.controllers import motors
from condyle.multibody.robot import Robot
from condyle.robot.actuator import ActuatorSpec, clipped
from condyle.robot.names import nearest
from condyle.simulate.simulation import Simulation
from condyle.simulate.standing import base_translations

BEYOND = 1e3  # rad or m: the error of position at which a joint without an effort limit would reach one
PREFERRED = ("home", "stand", "standing")  # keyframes that are a robot's stance


class Stance:
    """A pose `q` of the robot, the controls `u` of its actuators that hold it (None: it has none), and the function of a loop.

    An actuator with position feedback gets the keyframe's control; if the keyframe has none, the one with which it gives no force
    at q. Joints that only motors drive, and those of a robot without actuators, are held by PD control within their effort, an
    implicit drive: it sags by about 0.02 rad under gravity, critically damped (`controllers.Motors.gains`).
    """

    def __init__(self, world: Simulation, q: np.ndarray, u: np.ndarray | None = None, source: str = "the given pose") -> None:
        robot = world.robot
        self.world, self.source = world, source
        self.q = np.array(q, dtype=float)
        full = robot.lift(self.q, np.zeros(robot.nv))[0]
        positions = {link.joint: float(full[link.q.start]) for link in robot.model.links if link.kind.nv == 1}
        self.u: np.ndarray | None = None
        self.actuators: RobotActuators | None = None
        if any(not actuator.unsupported for actuator in robot.actuators):
            rest = [resting_input(actuator, positions) for actuator in robot.actuators]
            controls = [0.0 if spec.dynamics == "integrator" else a for spec, a in zip(robot.actuators, rest, strict=True)]
            self.u = np.array(controls if u is None else u, dtype=float)
            # activations begin where their controls lead
            act = [
                clipped(a if spec.dynamics == "integrator" else clipped(c, spec.ctrlrange), spec.actrange)
                for spec, a, c in zip(robot.actuators, rest, self.u, strict=True)
                if spec.stateful
            ]
            self.actuators = RobotActuators(robot, act=act) if act else RobotActuators(robot)
        self.servo = self._servo(positions)
        if self.actuators is None and self.servo is None:
            raise ControlError(f"robot '{robot.name}' has neither actuators nor joints with a motor, so nothing can hold it")

    def _servo(self, positions: dict[str, float]) -> ImplicitPD | None:
        """PD control of the joints that have a motor, and nothing in the file that holds them."""
        try:
            at = motors(self.world)
        except ControlError:
            return None
        own = self.world.robot.actuators
        held = {joint for actuator in own if not actuator.is_motor for joint, _ in actuator.joints}
        driven = {joint for actuator in own if len(actuator.joints) == 1 for joint, _ in actuator.joints}
        chosen = [k for k, name in enumerate(at.names) if name not in held and (name in driven or not own)]
        if not chosen:
            return None
        P, D = at.gains()
        names, effort = [at.names[k] for k in chosen], self.world.effort_limits[at.at_u[chosen]]
        self.target = np.array([positions[name] for name in names])
        # a drive with an effort has one unknown more; where only some joints have one, the others get what they never need
        limited = np.where(np.isfinite(effort), effort, BEYOND * P[chosen])
        return ImplicitPD(names, P[chosen], D[chosen], limited if np.any(np.isfinite(effort)) else None, name="stance")

    @property
    def summary(self) -> str:
        """What holds which pose, in half a sentence."""
        parts = []
        if self.actuators is not None:
            parts.append(f"the {self.actuators.nu} actuator{'s' * (self.actuators.nu != 1)} of its file")
        if self.servo is not None:
            parts.append(f"PD control of {self.servo.size} joint{'s' * (self.servo.size != 1)}")
        return f"{' and '.join(parts)} hold{'s' * (self.actuators is None)} {self.source}"

    def trace_data(self) -> tuple[Any, ...]:
        """All that a trace of it depends on."""
        return self.world, self.u, self.actuators, self.servo, getattr(self, "target", None)

    def __call__(self, x: Plant) -> dict[str, Any]:
        """The command of the robot."""
        found = []
        if self.actuators is not None:
            assert self.u is not None
            found.append(self.actuators(self.u, x))
        if self.servo is not None:
            found.append(self.servo(self.target, x))
        return combined(*found)


def stance(world: Simulation, keyframe: str | None = None, *, q: Any = None) -> Stance:
    """The stance of a robot: at a keyframe of its file, at q, or at its neutral pose; a free base is put on the ground."""
    robot = world.robot
    if q is not None:
        return _at(world, on_ground(world, np.asarray(q, dtype=float)))
    pose, name = stance_pose(robot, keyframe), chosen_keyframe(robot, keyframe)
    source = "its neutral pose" if name is None else f"the keyframe '{name}'"
    return Stance(world, on_ground(world, pose), None if name is None else controls(robot, name), source)


def stance_pose(robot: Robot, keyframe: str | None = None) -> np.ndarray:
    """q of a keyframe, or of the neutral pose of a robot without keyframes; a base is where the file has it."""
    name = chosen_keyframe(robot, keyframe)
    return neutral_pose(robot) if name is None else np.array(robot.keyframes[name].q, dtype=float)


def chosen_keyframe(robot: Robot, name: str | None = None) -> str | None:
    """The keyframe of this name, or by default the one that is the robot's stance; None of a robot without keyframes."""
    keyframes = list(robot.model.keyframes)
    if name is not None and name not in keyframes:
        known = f"; it has {', '.join(keyframes[:8])}" if keyframes else ", and no others: leave it out for the neutral pose"
        raise ControlError(f"robot '{robot.name}' has no keyframe '{name!s:.60}'{nearest(name, keyframes)}{known}")
    return name or next((each for each in PREFERRED if each in keyframes), next(iter(keyframes), None))


def controls(robot: Robot, keyframe: str) -> np.ndarray | None:
    """The controls of a keyframe; None if it has none, or zeros, which is what MuJoCo gives where nothing is written."""
    u = robot.model.keyframes[keyframe].u
    return np.array(u, dtype=float) if len(u) == len(robot.actuators) and np.any(u) else None


def _at(world: Simulation, q: np.ndarray) -> Stance:
    """The stance at q: with the controls of the keyframe whose joints are there, if one's are."""
    base = {k for link in world.robot.reduced.links if link.base for k in range(link.q.start, link.q.stop)}
    joints = [k for k in range(world.robot.nq) if k not in base]
    for name, key in world.robot.keyframes.items():
        if np.allclose(key.q[joints], q[joints], rtol=0.0, atol=1e-9):
            return Stance(world, q, controls(world.robot, name), f"the keyframe '{name}'")
    return Stance(world, q)


def neutral_pose(robot: Robot) -> np.ndarray:
    """The pose in which the robot is written, but joints beyond their limits in the middle of their range."""
    q = robot.model.written() if robot.coordinate_map.identity else robot.neutral()
    for link in robot.reduced.links:
        low, high = link.limits.lower, link.limits.upper
        if link.kind.nv == 1 and not link.base and low is not None and high is not None:
            (place,) = q[link.q]
            q[link.q] = place if low <= place <= high else 0.5 * (low + high)
    return q


def on_ground(world: Simulation, q: np.ndarray) -> np.ndarray:
    """q with a base that can move put on the ground, where there is one."""
    movable = world.ground is not None and world.contact_points and base_translations(world.robot)
    return np.array(world.split(world.stand(q))[0] if movable else q, dtype=float)


def resting_input(actuator: ActuatorSpec, positions: dict[str, float]) -> float:
    """The control or activation with which an actuator at rest gives no force; zero for one without position feedback."""
    at = actuator.offset + sum(gear * positions[joint] for joint, gear in actuator.joints)
    gain, bias = actuator.gain[0] + actuator.gain[1] * at, actuator.bias[0] + actuator.bias[1] * at
    found = 0.0 if gain == 0.0 else -bias / gain
    return float(clipped(found, actuator.actrange if actuator.dynamics == "integrator" else actuator.ctrlrange))
