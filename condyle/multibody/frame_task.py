"""The task of inverse kinematics: the error of a frame's pose, its Jacobian, and the limits of joints, for any scalar type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.constraints.coordinate_map import EvaluatedMap
from condyle.constraints.reduced_dynamics import System
from condyle.dynamics.kinematics import frame_pose, jacobian, jacobian_rate
from condyle.dynamics.rotations import quaternion_log, quaternion_of
from condyle.dynamics.solve import cholesky_solve, factor
from condyle.errors import RobotError
from condyle.robot.spatial import Array

TASKS = {"pose": slice(0, 6), "position": slice(0, 3), "orientation": slice(3, 6)}  # rows of J
SINGULAR = 1e-12  # added to J J^T, as a part of its mean diagonal: the pseudo-inverse stays finite at a singularity


def joint_limits(system: System) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper) of every entry of the reduced q; -inf and inf where there is no limit, and for quaternions."""
    reduced = system.coordinate_map.reduced
    lower, upper = np.full(reduced.nq, -np.inf), np.full(reduced.nq, np.inf)
    for link in reduced.links:
        if link.kind.nq == 1:
            ends = link.limits.lower, link.limits.upper
            lower[link.q.start] = -np.inf if ends[0] is None else ends[0]
            upper[link.q.start] = np.inf if ends[1] is None else ends[1]
    return lower, upper


@dataclass(frozen=True)
class FrameTask:
    """A frame that should be at position p with rotation R in the world; R None leaves its orientation free."""

    system: System
    frame: str
    p: Array
    R: Array | None

    @property
    def rows(self) -> int:
        """The number of entries of the error."""
        return 3 if self.R is None else 6

    def error(self, q: Array) -> Array:
        """e = (p - p(q), log(R R(q)^T)) in world axes, for all coordinates q."""
        X = frame_pose(self.system.model, q, self.frame)
        turn = [] if self.R is None else [X.R @ quaternion_log(quaternion_of(X.R.T @ self.R))]
        return np.concatenate([self.p - X.p, *turn])

    def jacobian(self, at: EvaluatedMap) -> Array:
        """J of the frame by the reduced velocities, as many rows as the error has."""
        J = jacobian(self.system.model, at.q, self.frame)[: self.rows]
        return np.array(J if at.at.total is None else J @ at.dq_dy, dtype=object)

    def bounded(self) -> list[tuple[int, int]]:
        """(entry of q, entry of v) of every joint with one coordinate."""
        return [(link.q.start, link.v.start) for link in self.system.coordinate_map.reduced.links if link.kind.nq == 1]

    def clipped(self, y: Array) -> Array:
        """y with joints within their limits."""
        lower, upper = joint_limits(self.system)
        out = np.array(y, dtype=object)
        for k, _ in self.bounded():
            if np.isfinite(lower[k]) or np.isfinite(upper[k]):
                out[k] = np.minimum(np.maximum(out[k], lower[k]), upper[k])
        return out

    def outward(self, y: Array, direction: Array) -> list[tuple[int, Any]]:
        """(entry of v, whether the joint is at a limit and the direction points beyond it) of every joint with limits."""
        lower, upper = joint_limits(self.system)
        return [
            (column, ((y[k] <= lower[k]) & (direction[column] < 0.0)) | ((y[k] >= upper[k]) & (direction[column] > 0.0)))
            for k, column in self.bounded()
        ]


def damped_step(J: Array, e: Array, damping: Any) -> Array:
    """J^T (J J^T + damping s I)^-1 e, s the mean diagonal entry of J J^T."""
    A = J @ J.T
    scale = sum((A[i, i] for i in range(len(e))), 0.0) * (1.0 / len(e)) + 1e-12
    return J.T @ cholesky_solve(A + np.eye(len(e)) * (damping * scale), e)


def task_jacobian(system: System, y: Array, frame: str, task: str, length: float) -> Array:
    """The rows of J of a task by the reduced velocities, angular ones times `length`."""
    at = system.at(y)
    J = jacobian(system.model, at.q, frame)
    return _rows(J if at.at.total is None else J @ at.dq_dy, task, length)


def log_manipulability(system: System, y: Array, frame: str, task: str = "pose", length: float = 1.0) -> tuple[Array, Array]:
    """(w, d log(w) / dq) with  d log(w) / dq_i = tr(J^+ dJ/dq_i),  J^+ = J^T (J J^T)^-1."""
    at, J = system.at(y), task_jacobian(system, y, frame, task, length)
    A = J @ J.T
    pivots = factor(A)[1]
    w = np.sqrt(1.0 / np.prod(pivots))
    pseudo = cholesky_solve(A, J)  # (J^+)^T
    gradient = np.zeros(system.nv, dtype=object)
    for i in range(system.nv):
        v = np.array([float(i == k) for k in range(system.nv)])
        rate = jacobian_rate(system.model, at.q, v if at.at.total is None else at.dq_dy @ v, frame)
        rate = _rows(rate if at.at.total is None else rate @ at.dq_dy, task, length)
        gradient[i] = np.sum(pseudo * rate)
    return w, gradient


def _rows(J: Any, task: str, length: float) -> Array:
    if length == 1.0:
        return np.array(J[TASKS[task]], dtype=object)
    return np.array([J[k] * (length if k >= 3 else 1.0) for k in range(6)], dtype=object)[TASKS[task]]


def target(pose: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """(p, R) of a pose given as (R, p), as a 4 x 4 matrix or as a position alone, R None; batches have leading axes."""
    try:
        if isinstance(pose, tuple) and len(pose) == 2:
            R, p = (np.asarray(part, dtype=float) for part in pose)
        else:
            given = np.asarray(pose, dtype=float)
            if given.shape[-1:] == (3,):
                return given, None
            if given.shape[-2:] != (4, 4):
                raise ValueError
            R, p = given[..., :3, :3], given[..., :3, 3]
        if R.shape[-2:] != (3, 3) or p.shape[-1:] != (3,):
            raise ValueError
    except (TypeError, ValueError):
        raise RobotError(f"a pose is (R, p), a 4 x 4 matrix, or a position of 3 numbers alone; got {pose!r:.80}") from None
    off = np.max(np.abs(R @ np.swapaxes(R, -1, -2) - np.eye(3)), initial=0.0)
    if not off < 1e-6 or np.any(np.linalg.det(R) < 0.0):
        raise RobotError("the R of a pose must be a rotation matrix: orthonormal, with the determinant 1")
    return p, R
