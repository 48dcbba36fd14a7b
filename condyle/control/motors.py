"""The motors of a simulation that turn one joint each: where they are in u, q and v, and what they have to move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.errors import ControlError
from condyle.robot.joints import Revolute
from condyle.simulate.simulation import Simulation
from condyle.simulate.world import EARTH, STANDING

Array = np.ndarray

SAG = 0.02  # rad or m that gravity may pull a joint from where it is held, about
DAMPED = 1.0  # of what brings a joint back without overshoot


@dataclass(frozen=True)
class Motors:
    """One entry for each motor: its joint's name, its places in u, q and v, the inertia it feels and the force gravity can exert.

    A robot whose base moves stands on its joints, so that each of them is taken to carry a leg's share of the whole.
    """

    names: tuple[str, ...]
    at_u: Array
    at_q: Array
    at_v: Array
    turns: Array  # True where the joint turns, False where it slides
    inertia: Array  # kg m^2 or kg
    load: Array  # N m or N
    friction: Array  # N m or N, to be overcome before it moves
    damping: Array  # N m s/rad or N s/m
    lower: Array  # -inf where there is no limit
    upper: Array
    speed: Array
    standing: bool  # whether the base moves

    def gains(self) -> tuple[Array, Array]:
        """(P, D) that hold each joint against gravity and friction within two hundredths of a radian, without overshoot."""
        P = (self.load + self.friction) / SAG
        return P, 2.0 * DAMPED * np.sqrt(P * self.inertia)


def motors(simulation: Simulation, purpose: str) -> Motors:
    """The motors in joints with one coordinate each; ControlError if there are none for the `purpose`."""
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
            f"robot '{robot.name}' has no motor in a joint with one coordinate, so there is nothing to {purpose}; "
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
        carried = np.maximum(mass, robot.mass / STANDING)
        inertia, load = carried * arm2, g * carried * np.sqrt(arm2)
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
