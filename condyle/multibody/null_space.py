"""Secondary objectives of inverse kinematics: what a redundant arm does with the joints that a pose leaves free.

    minimise h(q)  subject to  e(q) = 0

by steps in the null space of J, d = -W^-1 (grad h - J^T m) with (J W^-1 J^T) m = J W^-1 grad h, each followed by two Gauss-Newton
corrections of the pose. A step is kept if h decreases and the pose is within the tolerance. W is the Hessian of h where h is
quadratic (posture, centre), else the identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from condyle.constraints.reduced_dynamics import System
from condyle.dynamics.manifold import difference, integrate
from condyle.dynamics.solve import cholesky_solve
from condyle.errors import RobotError
from condyle.multibody.frame_task import SINGULAR, FrameTask, damped_step, joint_limits, log_manipulability
from condyle.robot.spatial import Array
from condyle.tape.array import where
from condyle.tape.loop import loop

OBJECTIVES = ("posture", "centre", "manipulability")
ITERATIONS = 60  # steps in the null space, at most
LONGER, SHORTER = 2.0, 0.25  # how the length of a step changes after one that is kept, and after one that is not
SMALLEST = 1e-9  # the length, as a part of the full step, at which none decreases h
CONVERGED = 1e-14  # of the decrease of h that a full step predicts


class Objective(NamedTuple):
    """h(y), its gradient by the reduced velocities, and the diagonal of W^-1."""

    value: Callable[[Array], Any]
    gradient: Callable[[Array], Array]
    inverse_weights: np.ndarray
    first_length: float


def objective(system: System, name: str, posture: Array | None, frame: str, rows: int) -> Objective:
    """The objective of this name.

    posture: 1/2 |q - posture|^2. centre: 1/2 sum ((q - middle) / half range)^2 over joints with limits. manipulability: -log(w).
    """
    reduced, nv = system.coordinate_map.reduced, system.nv
    if name == "posture":
        assert posture is not None
        there = posture

        def away(y: Array) -> Array:
            return difference(reduced, there, y)

        return Objective(lambda y: 0.5 * (away(y) @ away(y)), away, np.ones(nv), 1.0)
    if name == "centre":
        lower, upper = joint_limits(system)
        limited = [(link.q.start, link.v.start) for link in reduced.links if np.all(np.isfinite(upper[link.q] - lower[link.q]))]
        middle, half, inverse = np.zeros(nv), np.ones(nv), np.zeros(nv)
        for k, column in limited:
            middle[column], half[column] = 0.5 * (lower[k] + upper[k]), max(0.5 * (upper[k] - lower[k]), 1e-9)
            inverse[column] = half[column] ** 2

        def scaled(y: Array) -> Array:
            out = np.zeros(nv, dtype=object)
            for k, column in limited:
                out[column] = (y[k] - middle[column]) * (1.0 / half[column])
            return out

        # joints without limits move freely: as far as the widest of the others
        inverse = np.where(inverse > 0.0, inverse, max(np.max(inverse, initial=0.0), 1.0))
        return Objective(lambda y: 0.5 * (scaled(y) @ scaled(y)), lambda y: scaled(y) * (1.0 / half), inverse, 1.0)
    task = "pose" if rows == 6 else "position"
    return Objective(
        lambda y: -np.log(log_manipulability(system, y, frame, task)[0]),
        lambda y: -log_manipulability(system, y, frame, task)[1],
        np.ones(nv),
        0.05,
    )


def refined(task: FrameTask, y: Array, goal: Objective, tolerance: Any) -> tuple[Array, Any]:
    """(y, squared error): y moved in the null space of the task until h is least there; where it is not reached, y as it is."""
    reduced = task.system.coordinate_map.reduced

    def squared_error(y: Array) -> Any:
        e = task.error(task.system.q(y))
        return e @ e

    def body(_: Any, state: Any) -> Any:
        y = state["y"]
        J, g = task.jacobian(task.system.at(y)), goal.gradient(y)
        # a joint at its limit that h pushes outward stays there
        W = np.array(goal.inverse_weights, dtype=object)
        for column, out in task.outward(y, -g):
            W[column] = where(out, 0.0, W[column])
        A = (J * W) @ J.T
        scale = sum((A[i, i] for i in range(task.rows)), 0.0) * (SINGULAR / task.rows) + 1e-300
        d = -W * (g - J.T @ cholesky_solve(A + np.eye(task.rows) * scale, J @ (W * g)))
        new = task.clipped(integrate(reduced, y, d * state["length"]))
        for _again in range(2):
            at = task.system.at(new)
            new = task.clipped(integrate(reduced, new, damped_step(task.jacobian(at), task.error(at.q), SINGULAR)))
        squared, h = squared_error(new), goal.value(new)
        better = (squared <= tolerance * tolerance) & (h < state["h"])
        return {
            "y": np.array([where(better, a, b) for a, b in zip(new, y, strict=True)], dtype=object),
            "squared": where(better, squared, state["squared"]),
            "h": where(better, h, state["h"]),
            "length": where(better, np.minimum(state["length"] * LONGER, 1.0), state["length"] * SHORTER),
            "predicted": -(d @ g),
        }

    start = {"y": y, "squared": squared_error(y), "h": goal.value(y), "length": goal.first_length, "predicted": 1.0}

    def done(state: Any) -> Any:
        return (state["length"] < SMALLEST) | (state["predicted"] < CONVERGED) | (state["squared"] > tolerance * tolerance)

    end = loop(body, start, ITERATIONS, until=done)
    return end["y"], end["squared"]


def require_objective(system: System, name: Any, rows: int) -> None:
    """None; an error if there is no such objective, or nothing is left for it."""
    if name not in OBJECTIVES:
        raise RobotError(f"null_space is 'posture', 'centre' or 'manipulability'; got {name!r:.40}")
    if system.nv <= rows:
        raise RobotError(
            f"robot '{system.name}' has {system.nv} joints and the {'pose' if rows == 6 else 'position'} takes {rows}: none is "
            "left for null_space; leave it out, or give a position alone"
        )
