"""The wheeled pendulum against published numbers: what can be said without a simulation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from apps.demos import wheeled_pendulum_formulas
from apps.demos.comparison import difference
from apps.demos.facts import GRAVITY
from apps.demos.facts import Pendulum as F

from condyle.apps.demos import wheeled_pendulum
from condyle.apps.demos.checks import Check, near
from condyle.dynamics.energy import total_mass
from condyle.dynamics.kinematics import frame_pose
from condyle.robot.library import wheeled_pendulum as library
from condyle.robot.model import Model


def model_checks(model: Model | None = None) -> Iterator[Check]:
    """Rows for this model of the robot with all its coordinates, or for the library's."""
    model = wheeled_pendulum.unconstrained().model if model is None else model
    group = "masses and lengths"
    body, wheel = model.links[-2].inertia, model.links[-1].inertia
    yield near(group, "mass", total_mass(model), F.BODY + F.WHEEL, 0.0, "kg", ".1f")
    yield near(group, "mass of the body", body.mass, F.BODY, 0.0, "kg", ".1f")
    yield near(group, "mass of the wheel", wheel.mass, F.WHEEL, 0.0, "kg", ".1f")
    yield difference(group, "centre of the body, off half its length", body.com, (0.0, 0.0, -F.LENGTH / 2.0), "m")
    yield difference(group, "moments of the body, off the published ones", body.I_com, np.diag(F.BODY_MOMENTS), "kg m^2", 1e-16)
    disc = F.WHEEL * F.RADIUS**2
    moments = np.diag([disc / 4.0, disc / 2.0, disc / 4.0])
    yield difference(group, "moments of the wheel, off those of a disc", wheel.I_com, moments, "kg m^2", 1e-16)
    yield difference(group, "centre of the wheel, off its axle", wheel.com, np.zeros(3), "m")
    yield difference(group, "axle in the body, off its lower end", model.links[-1].placement.p, (0.0, 0.0, -F.LENGTH), "m")
    # its centre at (x - L sin phi, z - L cos phi), whatever theta is
    q = np.array([0.3, 0.1, 0.4, 0.7])
    at = np.asarray(frame_pose(model, q, "center").p, dtype=float)
    wanted = (q[0] - F.LENGTH * np.sin(q[2]), 0.0, q[1] - F.LENGTH * np.cos(q[2]))
    yield difference(group, "centre of the wheel, leaning by 0.4 rad, by hand", at, wanted, "m")
    yield near(group, "radius that it rolls on", library.RADIUS, F.RADIUS, 0.0, "m", ".3f")
    yield near(group, "gravity", -model.gravity[2], GRAVITY, 0.0, "m/s^2", ".2f")
    pole = wheeled_pendulum_formulas.unstable_pole()
    yield near(group, "unstable pole of the formulas by hand", pole, F.POLE, 5e-5, "rad/s", ".4f")
