"""Inverse kinematics along a path of the tool: each point starts at the solution of the last, in one compiled scan.

    found = inverse_kinematics_path(robot, "tool", R, p, q0)        # R (3, 3) or (T, 3, 3), p (T, 3)
    found.q                                                         # (T, nq)
    found.ok & ~found.jump                                          # where the tool is on the path, and the joints move on

A spline through the points of q is a path for `condyle.methods.planning.time_optimal`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from condyle.constraints.reduced_dynamics import ROBOT_FUNCTIONS, System
from condyle.errors import RobotError
from condyle.multibody.compiled import check_frame
from condyle.multibody.frame_task import FrameTask, target
from condyle.multibody.inverse_kinematics import configurations, damped_least_squares, objective_name
from condyle.multibody.null_space import objective, refined
from condyle.multibody.robot import Robot
from condyle.robot.spatial import Array
from condyle.tape.array import where
from condyle.tape.function import Function, function
from condyle.tape.loop import scan
from condyle.tape.trace import Rows


class PathSolution(NamedTuple):
    """Configurations (..., T, nq) along a path, residuals, m and rad together, and two flags for every point, (..., T).

    `ok`: the residual is within the tolerance; where it is not, q is the best found, and the next point starts at the last one
    that was. `jump`: a joint moved by more than the limit since the point before (the first point: since q0).
    """

    q: np.ndarray
    residual: np.ndarray
    ok: np.ndarray
    jump: np.ndarray


def inverse_kinematics_path(
    robot: Robot,
    frame: str,
    R: Any,
    p: Any,
    q0: Any,
    *,
    tolerance: float = 1e-9,
    iterations: int = 50,
    jump: float = 0.3,
    null_space: str | None = None,
    posture: Any = None,
    threads: int | None = None,
) -> PathSolution:
    """Configurations that bring a frame to every point of a path, continued from point to point by damped least squares.

    R: rotations (..., T, 3, 3), one (3, 3) for all points, or None, which leaves the orientation free. p: positions (..., T, 3),
    m. q0: the configuration before the first point, (nq,) or (..., nq); leading axes are paths. `jump`: the change of a joint,
    rad or m, above which a point is flagged. `null_space`, `posture`: as in `robot.inverse_kinematics`, for every point.
    """
    check_frame(robot.model, frame)
    system = robot.system
    points, rotations = target(np.asarray(p, dtype=float) if R is None else (np.asarray(R), np.asarray(p)))
    if points.ndim < 2 or points.shape[-2] == 0:
        raise RobotError(f"the positions of a path are an array (..., points, 3) with at least one point; got {points.shape}")
    name = objective_name(system, null_space, posture, 3 if rotations is None else 6)
    if not isinstance(jump, (int, float, np.floating)) or not float(jump) > 0.0:
        raise RobotError(f"jump is the largest change of a joint between two points, above zero; got {jump!r:.40}")
    start = configurations(system, "q0", q0)
    T = points.shape[-2]
    around = () if rotations is None else rotations.shape[:-3]
    lead = np.broadcast_shapes(points.shape[:-2], around, start.shape[:-1])
    rows = [np.broadcast_to(points, (*lead, T, 3))]
    if rotations is not None:
        rows.append(np.broadcast_to(rotations, (*lead, T, 3, 3)).reshape(*lead, T, 9))
    start = np.broadcast_to(start, (*lead, system.nq))
    arrays = [start, np.concatenate(rows, axis=-1), np.array([float(tolerance)])]
    if name == "posture":
        rest = start if posture is None else configurations(system, "posture", posture)
        arrays.append(np.broadcast_to(rest, (*lead, system.nq)))
    for what, given in zip(("q0", "p", "tolerance", "posture"), arrays, strict=False):
        if not np.all(np.isfinite(given)):
            raise RobotError(f"robot '{robot.name}': {what} of a path must be finite numbers")
    key = ("inverse kinematics path", frame, rotations is None, int(iterations), name)
    compiled = robot.compiled.kept(key, partial(_compiled, system, frame, rotations is None, int(iterations), name))
    q, residual = (compiled if threads is None else compiled.on("cpu", threads=threads))(*arrays)
    before = np.concatenate([start[..., None, :], q[..., :-1, :]], axis=-2)
    dv = robot.compiled.run("difference", ROBOT_FUNCTIONS["difference"], (before, q), {})
    return PathSolution(q, residual, residual <= tolerance, np.max(np.abs(dv), axis=-1, initial=0.0) > jump)


def _compiled(system: System, frame: str, free: bool, count: int, name: str | None) -> Function:
    """A function (q0, points, tolerance[, posture]) -> (q, residual) of any number of points, rows (p) or (p, nine of R)."""

    def along(q0: Array, points: Any, tolerance: Array, posture: Array | None = None) -> dict[str, Any]:
        def body(_: Any, y: Array, row: Array) -> Any:
            task = FrameTask(system, frame, row[:3], None if free else row[3:].reshape(3, 3))
            found, squared = damped_least_squares(task, y, tolerance[0], count)
            if name is not None:
                found, squared = refined(task, found, objective(system, name, posture, frame, task.rows), tolerance[0])
            ok = squared <= tolerance[0] * tolerance[0]
            after = np.array([where(ok, a, b) for a, b in zip(found, y, strict=True)], dtype=object)
            return after, {"q": found, "residual": np.sqrt(squared)}

        _, found = scan(body, np.array(q0, dtype=object), points)
        return {"q": found["q"], "residual": found["residual"]}

    shapes: dict[str, Any] = {"q0": system.nq, "points": Rows(None, 3 if free else 12), "tolerance": 1}
    shapes |= {"posture": system.nq} if name == "posture" else {}
    return function(along, **shapes)
