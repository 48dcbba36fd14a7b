"""How well a robot moves a frame at a configuration: manipulability with its gradient, singular values, ellipsoids.

    w = manipulability(robot, q, "tool")                       # sqrt(det(J J^T)), (...,)
    gradient = manipulability_gradient(robot, q, "tool")       # dw/dq, (..., nv)
    found = singularity(robot, q, "tool")                      # smallest singular value, condition number, distances
    axes, lengths = velocity_ellipsoid(robot, q, "tool")       # {J v : |v| <= 1}

J has the rows of `task`: "pose" (six, metres and radians together), "position" or "orientation" (three). `length`, m, scales the
angular rows, so that both have one unit; results of "pose" depend on it. Leading axes of q are the batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from condyle.constraints.reduced_dynamics import RobotFunction, System
from condyle.dynamics.solve import factor
from condyle.errors import RobotError
from condyle.multibody.compiled import check_frame
from condyle.multibody.frame_task import TASKS, log_manipulability, task_jacobian
from condyle.multibody.robot import Robot
from condyle.robot.spatial import Array
from condyle.tape.array import where

SMALLEST = 1e-150  # below this manipulability the gradient is given as zero: it has no direction at a singularity


class Singularity(NamedTuple):
    """How far from a singularity: `smallest` is the distance of J from the nearest singular matrix (Eckart and Young 1936).

    `condition`: largest / smallest singular value. `distance`: smallest / |d smallest / dq|, to first order how far the joints
    must move together, rad, until J is singular; inf where moving the joints changes nothing.
    """

    smallest: np.ndarray
    condition: np.ndarray
    distance: np.ndarray


class Ellipsoid(NamedTuple):
    """An ellipsoid about the frame's origin in world axes: `axes` (..., n, n), unit columns, and half `lengths` (..., n)."""

    axes: np.ndarray
    lengths: np.ndarray


# -- one configuration, traced


def _measure(system: System, y: Array, frame: str, task: str, length: float) -> Any:
    J = task_jacobian(system, y, frame, task, length)
    # a pivot that rounding makes negative counts as zero
    pivots = factor(J @ J.T)[1]
    determinant = np.prod([where(pivot > 0.0, 1.0 / pivot, 0.0) for pivot in pivots])
    return np.sqrt(determinant)


def _gradient(system: System, y: Array, frame: str, task: str, length: float) -> Array:
    w, gradient = log_manipulability(system, y, frame, task, length)
    return np.array([where(w > SMALLEST, w * each, 0.0) for each in gradient], dtype=object)


MEASURE = RobotFunction(("q",), _measure, ("w",))
GRADIENT = RobotFunction(("q",), _gradient, ("dw",))


# -- batches


def manipulability(robot: Robot, q: Any, frame: str, *, task: str = "pose", length: float = 1.0) -> Any:
    """w = sqrt(det(J J^T)) (Yoshikawa 1985), (...,): the volume of the velocity ellipsoid up to a factor; 0 where singular."""
    _check(robot, frame, task, length)
    return robot.compiled.run(("manipulability", frame, task, length), MEASURE, (q,), {}, (frame, task, float(length)))


def manipulability_gradient(robot: Robot, q: Any, frame: str, *, task: str = "pose", length: float = 1.0) -> Any:
    """dw/dq = w tr(J^+ dJ/dq_i), (..., nv): exact; zero at a singularity, where it has no direction."""
    _check(robot, frame, task, length)
    require_constant_map(robot.system, "the gradient of manipulability")
    return robot.compiled.run(("manipulability gradient", frame, task, length), GRADIENT, (q,), {}, (frame, task, float(length)))


def singular_values(robot: Robot, q: Any, frame: str, *, task: str = "pose", length: float = 1.0) -> np.ndarray:
    """The singular values of J, largest first, (..., rows); zeros where the robot has fewer joints than rows."""
    J = _scaled(robot, robot.jacobian(q, frame), frame, task, length)
    found: np.ndarray = np.linalg.svd(J, compute_uv=False)
    missing = J.shape[-2] - found.shape[-1]
    return np.concatenate([found, np.zeros((*found.shape[:-1], missing))], axis=-1) if missing > 0 else found


def singularity(robot: Robot, q: Any, frame: str, *, task: str = "pose", length: float = 1.0) -> Singularity:
    """Smallest singular value s, condition number and first-order distance s / |ds/dq| in joint space, each (...,).

    ds/dq_i = u^T (dJ/dq_i) x  with the singular vectors u and x of s.
    """
    q = np.asarray(q, dtype=float)
    J = _scaled(robot, robot.jacobian(q, frame), frame, task, length)
    U, s, V = np.linalg.svd(J, full_matrices=False)
    if J.shape[-1] < J.shape[-2]:
        zero = np.zeros(s.shape[:-1])
        return Singularity(zero, zero + np.inf, zero)
    u, x = U[..., :, -1], V[..., -1, :]
    slope = np.empty((*s.shape[:-1], robot.nv))
    for i, v in enumerate(np.eye(robot.nv)):
        rate = _scaled(robot, robot.jacobian_rate(q, np.broadcast_to(v, (*q.shape[:-1], robot.nv)), frame), frame, task, length)
        slope[..., i] = np.sum(u[..., :, None] * rate * x[..., None, :], axis=(-2, -1))
    size = np.linalg.norm(slope, axis=-1)
    with np.errstate(divide="ignore"):
        return Singularity(
            s[..., -1],
            s[..., 0] / s[..., -1],
            np.divide(s[..., -1], size, out=np.full(size.shape, np.inf), where=size > 0.0),
        )


def velocity_ellipsoid(robot: Robot, q: Any, frame: str, *, task: str = "position", weights: Any = 1.0) -> Ellipsoid:
    """{J v : sum (v_i / weights_i)^2 <= 1}: velocities of the frame; weights such as robot.velocity_limits, rad/s."""
    U, s = _weighted(robot, q, frame, task, weights)
    return Ellipsoid(U, s)


def force_ellipsoid(robot: Robot, q: Any, frame: str, *, task: str = "position", weights: Any = 1.0) -> Ellipsoid:
    """{f : sum ((J^T f)_i / weights_i)^2 <= 1}: forces at the frame; weights such as robot.effort_limits, N m.

    Half lengths are 1 / s of J W^-1, infinite in a singular direction: there the bearings carry the force.
    """
    U, s = _weighted(robot, q, frame, task, 1.0 / np.asarray(weights, dtype=float))
    with np.errstate(divide="ignore"):
        return Ellipsoid(U[..., ::-1], 1.0 / s[..., ::-1])


def _weighted(robot: Robot, q: Any, frame: str, task: str, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """(U, s) of J diag(weights) = U s V^T, with as many s as there are rows."""
    W = np.asarray(weights, dtype=float)
    if W.shape not in ((), (robot.nv,)) or not np.all(np.isfinite(W) & (W > 0.0)):
        raise RobotError(
            f"the weights of an ellipsoid are one positive number, or one for each of {robot.nv} joints; got {weights!r:.60}"
        )
    J = _scaled(robot, robot.jacobian(q, frame), frame, task, 1.0) * W
    U, s, _ = np.linalg.svd(J, full_matrices=True)
    missing = U.shape[-1] - s.shape[-1]
    return U, np.concatenate([s, np.zeros((*s.shape[:-1], missing))], axis=-1) if missing else s


def _scaled(robot: Robot, J: np.ndarray, frame: str, task: str, length: float) -> np.ndarray:
    _check(robot, frame, task, length)
    rows: np.ndarray = np.asarray(J, dtype=float) * np.array([1.0] * 3 + [float(length)] * 3)[:, None]
    return rows[..., TASKS[task], :]


def _check(robot: Robot, frame: str, task: str, length: float) -> None:
    check_frame(robot.model, frame)
    if task not in TASKS:
        raise RobotError(f"the task of a Jacobian is 'pose', 'position' or 'orientation'; got {task!r:.40}")
    if not isinstance(length, (int, float, np.floating)) or not 0.0 < float(length) < np.inf:
        raise RobotError(f"the length that scales angular rows is a positive number of metres; got {length!r:.40}")


def require_constant_map(system: System, what: str) -> None:
    """None; an error for a robot whose reduced velocities are no constant combination of all of them."""
    if system.may_not_converge:
        raise RobotError(f"robot '{system.name}' has closed loops or rolling wheels, for which there is no {what}")
