"""Default gains of joint controllers for any arm, from the inertia and the load of its joints, and joint references."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.control.arm_controller import ArmController
from condyle.control.controllers import motors
from condyle.control.profiles import Sample
from condyle.errors import ControlError

Array = np.ndarray

CONFIGURATIONS = 64  # over which inertias are averaged
SAMPLING = 0.1  # largest natural frequency of default gains, in radians per update of the controller
YIELD = 0.1  # rad or m: the deflection under the load of gravity that default gains of compliant controllers allow
FREQUENCY = 20.0  # rad/s: the default of controllers that cancel the dynamics, if the rate of updates allows
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
    """(P, D): P lets a joint sag by `sag` (rad or m) under its load, D = 2 sqrt(P I) is critical damping; slower if sampled slowly.

    The load is  g sqrt(I m)  with the inertia I of `joint_inertia` and the mass m beyond the joint (`Motors.gains`).
    """
    inertia, at = joint_inertia(controller), motors(controller.simulation)
    load = at.load * np.sqrt(inertia / at.inertia)
    omega = np.minimum(np.sqrt((load + at.friction) / (sag * inertia)), SAMPLING / update_time(controller))
    return rounded(inertia * omega**2, DIGITS), rounded(2.0 * inertia * omega, DIGITS)


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
