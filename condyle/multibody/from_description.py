"""The constraints that a robot's own description states: mimic joints and closed loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condyle.errors import RobotError
from condyle.multibody.robot import Robot
from condyle.robot.couplings import linear_couplings
from condyle.robot.edit import matching


def as_described(robot: Robot) -> Robot:
    """The robot whose mimic joints follow and whose loops close, from the pose in which they are written."""
    if couplings := linear_couplings(robot.model):
        robot = robot.couple(couplings)
    if loops := robot.model.loops:
        robot = robot.close_loops([(k.frame_a, k.frame_b, k.axes, k.name) for k in loops], q=robot.reduced.written())
    robot.described = True
    return robot


def locked_as_described(robot: Robot, names: str | Sequence[str], q: Any) -> Robot:
    """A constrained robot with joints locked, and with each of them those it follows and those that follow it."""
    if not robot.described:
        raise RobotError(
            [
                f"robot '{robot.name}' is constrained, and its joints must be locked before: lock what was loaded, and then "
                "constrain what is left"
            ]
        )
    joints = {robot.model.links[i].joint for i in matching(robot.model, names)}
    couplings = linear_couplings(robot.model)
    leaders = {couplings[joint][0] if joint in couplings else joint for joint in joints}
    joints |= leaders | {joint for joint, (leader, _, _) in couplings.items() if leader in leaders}
    pose = np.asarray(robot.neutral() if q is None else q, dtype=float)
    if pose.shape == (robot.nq,):
        pose = robot.lift(pose, np.zeros(robot.nv))[0]
    return as_described(Robot(robot.model, robot.locked).lock(sorted(joints), pose))
