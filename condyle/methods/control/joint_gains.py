"""What controllers of joints share: default gains for any arm, forces that make up for those in its joints, references."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.control.arm_controller import ArmController
from condyle.methods.control.controllers import motors
from condyle.methods.planning.profiles import Sample
from condyle.multibody.robot import Robot

Array = np.ndarray

CONFIGURATIONS = 64  # over which inertias are averaged
SAMPLING = 0.1  # largest natural frequency of default gains, in radians per update of the controller
YIELD = 0.1  # rad or m: the deflection under the load of gravity that default gains of compliant controllers allow
FREQUENCY = 20.0  # rad/s: the default of controllers that cancel the dynamics, if the rate of updates allows
FRICTION_SPEED = 0.01  # rad/s or m/s: below it the dry friction that is fed forward is smooth
DIGITS = 3  # of default gains: the last bits of a mean depend on the processor


def rounded(values: Any, digits: int) -> Array:
    """The values rounded to so many significant decimal digits."""
    flat = [float(f"{x:.{digits - 1}e}") for x in np.asarray(values, dtype=float).ravel()]
    return np.array(flat).reshape(np.shape(values))


def update_time(controller: ArmController) -> float:
    """The time between two updates of a controller, s."""
    return controller.simulation.dt * controller.every


def joint_inertia(controller: ArmController) -> Array:
    """The mean of M_jj over random configurations within the limits, (nv,), kg m^2 or kg."""
    q = controller.robot.random_configuration(np.random.default_rng(0), CONFIGURATIONS)
    return rounded(np.diagonal(controller.robot.mass_matrix(q), axis1=-2, axis2=-1).mean(axis=0), DIGITS)


def default_frequency(controller: ArmController, most: float = FREQUENCY) -> float:
    """A natural frequency that sampling allows, rad/s."""
    return float(rounded(min(most, SAMPLING / update_time(controller)), DIGITS))


def default_gains(controller: ArmController, sag: float) -> tuple[Array, Array]:
    """(P, D): P = load / sag lets a joint yield by `sag` (rad or m) to its load, D = 2 sqrt(P I) is critical damping.

    The load is  g sqrt(I m)  with the inertia I of `joint_inertia` and the mass m beyond the joint (`Motors.gains`). Where the
    controller is updated slowly, P is less: the natural frequency is at most SAMPLING per update.
    """
    inertia, at = joint_inertia(controller), motors(controller.simulation)
    load = at.load * np.sqrt(inertia / at.inertia)
    omega = np.minimum(np.sqrt((load + at.friction) / (sag * inertia)), SAMPLING / update_time(controller))
    return rounded(inertia * omega**2, DIGITS), rounded(2.0 * inertia * omega, DIGITS)


class PassiveForces:
    """Joint forces that make up for damping, dry friction and springs of the joints of a controller's model.

    Only those that act in its simulation: without `damping` or `joint_friction` there, they are none here. Dry friction needs the
    velocity that is wanted, not the measured one, which is zero while a joint sticks.
    """

    def __init__(self, controller: ArmController) -> None:
        config, model = controller.simulation.config, controller.robot.model
        springs = {joint: (stiffness, rest) for joint, stiffness, rest in config.springs}
        links = []
        for link in model.links:
            stiffness, rest = springs.get(link.joint, (link.stiffness, link.rest))
            damping, friction = link.damping * config.damping, link.friction * config.joint_friction
            links.append(replace(link, damping=damping, friction=friction, stiffness=stiffness, rest=rest))
        self.robot = Robot(replace(model, links=tuple(links)))
        self.damping = np.array([link.damping for link in links], dtype=float)

    def __call__(self, q: Any, v: Any) -> Any:
        """Their negative at q and the wanted velocity v, (..., nv)."""
        return -self.robot.passive_forces(q, v, FRICTION_SPEED)


def joint_sample(controller: ArmController, reference: Any) -> Sample:
    """Position, velocity and acceleration of a reference, each (nv,); numbers serve all joints."""
    try:
        parts = tuple(reference)
    except TypeError:
        parts = ()
    if len(parts) != 3 or any(np.shape(part) not in ((), (controller.size,)) for part in parts):
        raise ControlError(
            f"controller '{controller.name}' follows a Sample (position, velocity, acceleration), each of {controller.size} "
            f"joints, as motion.at(x.t) gives it; got {type(reference).__name__} with shapes {[np.shape(p) for p in parts]!s:.60}"
        )
    return Sample(*(np.zeros(controller.size) + part for part in parts))
