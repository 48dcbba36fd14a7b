"""PiDog in simulation: the robot on a plane, standing, and the closed loop of its servos."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from condyle.apps.pidog.kinematics import FEET, JOINTS
from condyle.apps.pidog.poses import pose_angles
from condyle.apps.pidog.servos import SERVOS, servo_torque
from condyle.closed_loop.loop import Loop
from condyle.errors import CondyleError
from condyle.methods.control.controllers import Control, scattered
from condyle.multibody.robot import Robot, load
from condyle.robot.library.pidog import EFFORT, FOOT_FRICTION, FOOT_RADIUS
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Plane
from condyle.workbench.runs.loops import built_in

Array = np.ndarray

DT = 0.002  # s


@cache
def robot() -> Robot:
    """PiDog with a free base."""
    return load("pidog")


@cache
def world(contacts: str = "*_foot") -> Simulation:
    """A simulation on a plane with the friction of its feet, on which it stands; with contacts="auto" all of its body touches."""
    return Simulation(robot(), DT, Plane(FOOT_FRICTION), contacts)


def standing_state(simulation: Simulation, pose: str = "stand") -> Array:
    """The state at rest in a pose, pitched so that front and hind feet touch the ground z = 0."""
    robot = simulation.robot
    q = robot.neutral()
    for name, angle in zip(JOINTS, np.radians(pose_angles(pose)), strict=True):
        q[robot.q_slice(name)] = angle
    return simulation.state(on_feet(robot, q))


def on_feet(robot: Robot, q: Array) -> Array:
    """q with the torso pitched and raised so that front and hind feet touch the ground z = 0."""
    q = np.array(q, dtype=float)
    q[3:7] = robot.neutral()[3:7]
    front, hind = (robot.frame_pose(q, foot)[1] for foot in FEET[::2])
    # the half angle by square roots: sines of NumPy depend on the processor
    ahead, up = front[0] - hind[0], front[2] - hind[2]
    far = np.sqrt(ahead * ahead + up * up)
    q[6] = np.sqrt(0.5 * (1.0 + ahead / far))
    q[4] = up / (2.0 * far * q[6])
    q[2] = 0.0
    q[2] = FOOT_RADIUS - min(float(robot.frame_pose(q, foot)[1][2]) for foot in FEET)
    return q


def servos(simulation: Simulation) -> Control:
    """The function of a loop: servos whose torque follows the reference, twelve angles, rad; those of head and tail are last."""
    robot, motors = simulation.robot, servo_controls(simulation)
    joints = np.array([robot.q_slice(name).start for name in SERVOS])
    efforts = [simulation.joint_forces[robot.v_slice(name).start].effort for name in SERVOS]
    effort = np.array([EFFORT if each is None else each for each in efforts])

    def torques(x: Any, reference: Any) -> dict[str, Any]:
        return {"u": scattered(simulation.nu, motors, servo_torque(reference, x.q[joints], effort))}

    return torques


@built_in("pidog")
def loop(simulation: Simulation, x0: Any) -> Loop:
    """The servos of all joints, which follow the reference."""
    return Loop(simulation, servos(simulation), reference=len(SERVOS))


def servo_controls(simulation: Simulation) -> Array:
    """Which control moves each servo's joint."""
    robot, actuated = simulation.robot, list(simulation.actuated)
    try:
        return np.array([actuated.index(robot.v_slice(name).start) for name in SERVOS])
    except (CondyleError, ValueError):
        raise CondyleError(
            f"PiDog's controllers need motors in all of its twelve joints, and this simulation of '{robot.name}' lacks some; "
            'make it of condyle.load("pidog") without actuated=...'
        ) from None


def leg_positions(simulation: Simulation, x0: Any) -> Array:
    """The angles of the eight leg joints in a state, degrees."""
    servo_controls(simulation)
    q = simulation.split(x0)[0]
    return np.degrees([float(q[simulation.robot.q_slice(name)][0]) for name in JOINTS])


def attitude(x: Any) -> Array:
    """Roll, pitch and yaw of the torso, rad, (..., 3): R = Rz(yaw) Ry(pitch) Rx(roll); nose down is positive."""
    x = np.asarray(x, dtype=float)
    a, b, c, w = (x[..., k] for k in range(3, 7))
    roll = np.arctan2(2.0 * (w * a + b * c), 1.0 - 2.0 * (a * a + b * b))
    pitch = np.arcsin(np.clip(2.0 * (w * b - c * a), -1.0, 1.0))
    yaw = np.arctan2(2.0 * (w * c + a * b), 1.0 - 2.0 * (b * b + c * c))
    return np.stack([roll, pitch, yaw], axis=-1)
