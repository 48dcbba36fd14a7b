"""Servos of gimbals: a first-order lag of the angle, as a motion that is prescribed or as a torque.

Kinematic form: angle and rate at the end of a tick are those of  a' = (target - a) / T,  exactly, and the acceleration within
the tick is the one that leads there from the present angle and rate, linear in time. The joint has it because a large inertia is
added to it, and the torque is that inertia times the acceleration; the torque of the servo itself follows from inverse dynamics.

Torque form: a spring P (target - a) within the effort, against the damping D of the joint, D / P = T. A torque
(I / T) (target - a) without damping would be an undamped spring.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.blocks.discretization import decay
from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.kinematics import wrench_forces
from condyle.dynamics.rnea import inverse_dynamics
from condyle.dynamics.solve import cholesky_solve
from condyle.robot.model import Model
from condyle.robot.spatial import Array
from condyle.tape.array import array, where

RIGID = 1e12  # inertia added to a joint whose motion is prescribed, over its own: 1 / RIGID is the error of its acceleration


def lagged(angle: Any, target: Any, lag: Any, dt: Any, speed: Any = None) -> tuple[Any, Any]:
    """(angle, rate) after dt of  a' = (target - a) / lag,  at most at `speed`: exact."""
    error = target - angle
    if speed is None:
        error = error * decay(dt, lag)
        return target - error, error / lag
    # at the largest speed until the error is lag * speed
    slow = lag * speed
    fast = np.minimum(np.maximum(abs(error) - slow, 0.0) / speed, dt)
    error = error - where(error < 0.0, -1.0, 1.0) * (speed * fast)
    error = error * decay(dt - fast, lag)
    rate = error / lag
    return target - error, np.minimum(np.maximum(rate, -speed), speed)


def smooth_motion(angle: Any, rate: Any, after: Any, rate_after: Any, dt: Any, steps: int | None = None) -> tuple[Any, Any]:
    """(c0, c1): the acceleration c0 + c1 t over the tick that leads from (angle, rate) to (after, rate_after): a cubic.

    `steps`: for so many semi-implicit Euler steps; a single one reaches the angle, at the mean rate.
    """
    mean, change = (after - angle) / dt, rate_after - rate
    if steps is None:
        return (6.0 * mean - 4.0 * rate - 2.0 * rate_after) / dt, (6.0 * (rate + rate_after) - 12.0 * mean) / (dt * dt)
    if steps == 1:
        return (mean - rate) / dt, mean * 0.0
    # v_i = rate + sum of h (c0 + c1 h (k - 1)) for k up to i, and the angle moves by h v_i
    n, h = float(steps), dt / float(steps)
    curve = (0.5 * (n + 1.0) * change - n * (mean - rate)) * (12.0 / ((n - 1.0) * n * (n + 1.0)))
    return (change / n - 0.5 * (n - 1.0) * curve) / h, curve / (h * h)


def inverse_dynamics_torques(
    model: Model, q: Array, v: Array, joints: list[int], accelerations: Any, frames: Any, wrenches: Any, base: Any = None
) -> Any:
    """The joint torques with which the coordinates `joints` have these accelerations, under wrenches at frames.

    The other coordinates accelerate freely; or, where given, as `base` says: (nv,).
    """
    n = model.nv
    outside = np.array(wrench_forces(model, q, frames, wrenches), dtype=object) if len(frames) else np.zeros(n, dtype=object)
    for link in model.links:
        if link.kind.nv == 1 and link.v.start not in joints and (link.stiffness or link.damping):
            j = link.v.start
            outside[j] = outside[j] + (link.rest - q[link.q.start]) * link.stiffness - v[j] * link.damping
    a = np.zeros(n, dtype=object)
    for k, j in enumerate(joints):
        a[j] = accelerations[k]
    free = [k for k in range(n) if k not in joints]
    if base is not None:
        a[free] = base[free]
    else:
        push = (outside - inverse_dynamics(model, q, v, a))[free]
        a[free] = cholesky_solve(mass_matrix(model, q)[np.ix_(free, free)], push)
    tau = inverse_dynamics(model, q, v, a) - outside
    return array([tau[j] for j in joints])
