"""Inverse kinematics: damped least squares (Levenberg 1944, Marquardt 1963) within joint limits, as one compiled loop."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from condyle.constraints.reduced_coordinates import floats
from condyle.constraints.reduced_dynamics import RobotFunction, System
from condyle.dynamics.kinematics import frame_pose, jacobian
from condyle.dynamics.manifold import integrate, random_configuration
from condyle.dynamics.rotations import quaternion_log, quaternion_of
from condyle.dynamics.solve import cholesky_solve
from condyle.errors import RobotError
from condyle.multibody.compiled import Compiled
from condyle.robot.spatial import Array
from condyle.tape.array import where
from condyle.tape.loop import loop

DAMPING = 1e-2  # the first damping, as a part of the mean squared column of J
MORE, LESS = 8.0, 0.1  # how the damping changes after a step that is rejected, and after one that is accepted
STALLED = 1e9  # the damping at which no step makes the error smaller


class InverseKinematics(NamedTuple):
    """A solution: the configuration, the length of the error (m and rad together), and whether it is within the tolerance."""

    q: np.ndarray
    residual: np.ndarray
    ok: np.ndarray


def limits(system: System) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper) of every entry of the reduced q; -inf and inf where there is no limit, and for quaternions."""
    reduced = system.coordinate_map.reduced
    lower, upper = np.full(reduced.nq, -np.inf), np.full(reduced.nq, np.inf)
    for link in reduced.links:
        if link.kind.nq == 1:
            ends = link.limits.lower, link.limits.upper
            lower[link.q.start] = -np.inf if ends[0] is None else ends[0]
            upper[link.q.start] = np.inf if ends[1] is None else ends[1]
    return lower, upper


def solve(system: System, q0: Array, p: Array, R: Array | None, tolerance: Array, frame: str, count: int) -> tuple[Array, Any]:
    """(q, |e|) after at most `count` steps of damped least squares from q0; e = (p - p(q), log(R R(q)^T))."""
    reduced, (lower, upper) = system.coordinate_map.reduced, limits(system)
    bounded = [(link.q.start, link.v.start) for link in reduced.links if link.kind.nq == 1]

    def error(q: Array) -> Array:
        X = frame_pose(system.model, q, frame)
        turn = [] if R is None else [X.R @ quaternion_log(quaternion_of(X.R.T @ R))]
        return np.concatenate([p - X.p, *turn])

    def clipped(y: Array) -> Array:
        out = np.array(y, dtype=object)
        for k, _ in bounded:
            if np.isfinite(lower[k]) or np.isfinite(upper[k]):
                out[k] = np.minimum(np.maximum(out[k], lower[k]), upper[k])
        return out

    def body(_: Any, state: Any) -> Any:
        y = state["y"]
        at = system.at(y)
        e = error(at.q)
        J = jacobian(system.model, at.q, frame)[: len(e)]
        J = np.array(J if at.at.total is None else J @ at.dq_dy, dtype=object)
        downhill = J.T @ e
        # a joint at its limit that the error pushes outward stays there
        for k, column in bounded:
            outward = ((y[k] <= lower[k]) & (downhill[column] < 0.0)) | ((y[k] >= upper[k]) & (downhill[column] > 0.0))
            J[:, column] = [where(outward, 0.0, x) for x in J[:, column]]
        A = J @ J.T
        scale = sum((A[i, i] for i in range(len(e))), 0.0) * (1.0 / len(e)) + 1e-12
        step = J.T @ cholesky_solve(A + np.eye(len(e)) * (state["damping"] * scale), e)
        new = clipped(integrate(reduced, y, step))
        left = error(system.q(new))
        squared = left @ left
        better = squared < state["squared"]  # not where a constraint cannot be met
        return {
            "y": np.array([where(better, a, b) for a, b in zip(new, y, strict=True)], dtype=object),
            "squared": where(better, squared, state["squared"]),
            "damping": where(better, np.maximum(state["damping"] * LESS, 1e-12), state["damping"] * MORE),
        }

    start = clipped(q0)
    e = error(system.q(start))
    end = loop(
        body,
        {"y": start, "squared": e @ e, "damping": DAMPING},
        count,
        until=lambda s: (s["squared"] <= tolerance[0] * tolerance[0]) | (s["damping"] >= STALLED),
    )
    return end["y"], np.sqrt(end["squared"])


POSE = RobotFunction(("q0", "p", "R", "tolerance"), solve, ("q", "residual"))
POSITION = RobotFunction(
    ("q0", "p", "tolerance"), lambda system, q0, p, *rest: solve(system, q0, p, None, *rest), ("q", "residual")
)


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


def search(
    compiled: Compiled, frame: str, pose: Any, q0: Any, tolerance: float, iterations: int, restarts: int, options: dict[str, Any]
) -> InverseKinematics:
    """The solutions for a pose or a batch of them, from q0 and, where that does not converge, from random configurations."""
    (p, R), system = target(pose), compiled.system
    start = floats(system.model, "q0", q0)
    if start.shape[-1:] != (system.nq,):
        raise RobotError(f"robot '{system.name}': q0 must have {system.nq} entries, got the shape {start.shape}")
    nq, function = system.nq, POSITION if R is None else POSE
    lead = np.broadcast_shapes(p.shape[:-1], () if R is None else R.shape[:-2], start.shape[:-1])
    arrays: list[Any] = [np.broadcast_to(p, (*lead, 3)).reshape(-1, 3)]
    arrays += [] if R is None else [np.broadcast_to(R, (*lead, 3, 3)).reshape(-1, 3, 3)]

    def solved(q0: np.ndarray, rows: Any) -> Any:
        given = (q0, *[array[rows] for array in arrays], np.array([float(tolerance)]))
        return compiled.run(("inverse_kinematics", R is None, frame, iterations), function, given, options, (frame, iterations))

    q, residual = solved(np.broadcast_to(start, (*lead, nq)).reshape(-1, nq), slice(None))
    # the same starts for every pose: a row of a batch has the bits of a single call
    rng = np.random.default_rng(0)
    for _ in range(restarts):
        rows, again = np.flatnonzero(~(residual <= tolerance)), random_configuration(system.coordinate_map.reduced, rng)
        if not len(rows):
            break
        found, left = solved(np.tile(again, (len(rows), 1)), rows)
        better = left < residual[rows]
        q[rows[better]], residual[rows[better]] = found[better], left[better]
    return InverseKinematics(q.reshape(*lead, nq), residual.reshape(lead), (residual <= tolerance).reshape(lead))
