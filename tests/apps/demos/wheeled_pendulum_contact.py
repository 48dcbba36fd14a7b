"""The wheeled pendulum without its constraint: the wheel is a sphere that touches a plane, and friction makes it roll.

Both worlds have the same feedback, traced with the step, so that they differ only by how the wheel is held.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from condyle.apps.demos.wheeled_pendulum import FRICTION, GAIN, LEAN, leaning, rolling, unconstrained
from condyle.robot.library.wheeled_pendulum import RADIUS
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Plane

Array = np.ndarray

SECONDS = 1.0
COARSE, FINE = 1e-3, 1.25e-4  # s: eight times as many steps


def feedback(model: Any, q: Any, v: Any) -> Any:
    """The balancing torque in the axle, without a limit; q = (x, z, phi, theta)."""
    K = GAIN
    return np.array([0.0, 0.0, 0.0, -(K[0] * q[0] + K[1] * q[2] + K[2] * v[0] + K[3] * v[2])])


@cache
def constrained(lean: float = LEAN) -> Array:
    """(x, phi) of the robot that rolls, every millisecond, by the method of fourth order at a tenth of that."""
    world = Simulation(rolling(), COARSE / 10.0, integrator="rk4", actuated=[], force=feedback)
    x = world.rollout(world.state(leaning(lean)), np.zeros((round(SECONDS / world.dt), 0)))
    y: Array = world.split(x[::10])[0]
    return y


def touching(dt: float, lean: float = LEAN) -> Array:
    """(x, phi) of the robot on the plane, every millisecond."""
    world = Simulation(unconstrained(), dt, Plane(FRICTION), {"center": RADIUS}, actuated=[], force=feedback)
    q = np.array(rolling().lift(leaning(lean), np.zeros(2))[0])
    x = world.rollout(world.state(q), np.zeros((round(SECONDS / dt), 0)))
    return np.asarray(world.split(x[:: round(COARSE / dt)])[0][:, [0, 2]])


def apart(dt: float, lean: float = LEAN) -> tuple[float, float]:
    """How far the two are apart at most: m, rad."""
    x, phi = np.abs(touching(dt, lean) - constrained(lean)).max(axis=0)
    return float(x), float(phi)
