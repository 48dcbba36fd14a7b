"""All solutions of the inverse kinematics of six-joint arms whose axes 2, 3, 4 are parallel and whose axes 5, 6 intersect.

UR3, UR5, UR10, their e-series and arms of that shape have up to eight solutions: two shoulders, two wrists, two elbows. With the
axes h_i and points o_i on them at q = 0, the intersection w of axes 5 and 6, h = h_2, and R_i the rotation about h_i by q_i:

    h . R_1^T (p_w - o_1) = h . (w - o_1)                       shoulder: the components along h do not turn with joints 2 to 4
    h . R_5 h_6 = h . R_1^T R h_6                               wrist
    R_6^T (R_5^T h) = R^T R_1 h                                 joint 6
    R_2 R_3 R_4 = R_1^T R R_6^T R_5^T                           the sum of joints 2 to 4
    |o_3 - o_2 + R_3 (o_4 - o_3)| = |m|                         elbow, m the place of axis 4 as seen from joint 2

Each is  A cos q + B sin q = C  or the angle between two vectors (Paden 1986; Elias and Wen 2022). A few damped Gauss-Newton steps
then remove what a file's rounded numbers leave, since no axes in it are quite parallel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from condyle.constraints.reduced_dynamics import RobotFunction, System
from condyle.dynamics.kinematics import ancestors
from condyle.errors import RobotError
from condyle.multibody.compiled import Compiled, check_frame
from condyle.multibody.frame_task import FrameTask, damped_step, joint_limits, target
from condyle.robot.joints import Revolute
from condyle.robot.spatial import Array, Pose, cross
from condyle.tape.array import where
from condyle.tape.loop import loop, scan

if TYPE_CHECKING:
    from condyle.multibody.robot import Robot

PARALLEL = 1e-6  # rad and m: how far axes 2, 3, 4 may be from parallel, and axes 5 and 6 from each other
DEGENERATE = 1e-22  # squared sine of joint 5 below which joints 4 and 6 turn about one line
POLISH, NEAR = 1e-6, 1e-12  # damping of the last steps; the squared error above which a branch has no solution
SIGNS = np.array([[a, b, c] for a in (1.0, -1.0) for b in (1.0, -1.0) for c in (1.0, -1.0)])  # shoulder, wrist, elbow


class Solutions(NamedTuple):
    """Up to eight configurations (..., 8, nq), their residuals (..., 8), and which of them reach the pose within the limits.

    Where a branch has no solution, its row of q is NaN and its residual infinite. One with a residual within the tolerance that
    is not ok is outside of the limits. At a singularity branches coincide.
    """

    q: np.ndarray
    residual: np.ndarray
    ok: np.ndarray


@dataclass(frozen=True)
class ParallelAxes:
    """The geometry at q = 0 in the world: unit axes h (6, 3), points on them o (6, 3), signs of axes 2, 3, 4 along axis 2."""

    columns: tuple[int, ...]  # entries of the reduced q of the six joints
    h: np.ndarray
    o: np.ndarray
    signs: tuple[float, float]  # of axes 3 and 4
    wrist: np.ndarray  # where axes 5 and 6 intersect
    R: np.ndarray  # rotation of the frame
    p: np.ndarray  # position of the frame


def geometry(system: System, frame: str) -> ParallelAxes:
    """The axes of the arm that carries a frame; an error that says why it has no solution of this kind."""
    model = system.model
    links = [model.links[i] for i in ancestors(model, model.frame(frame).link)]
    reduced = {link.joint: link for link in system.coordinate_map.reduced.links}
    why = None
    if len(links) != 6 or any(not isinstance(link.kind, Revolute) for link in links):
        revolute = sum(isinstance(link.kind, Revolute) for link in links)
        why = f"frame '{frame}' is moved by {len(links)} joints, {revolute} of them revolute"
    elif any(link.joint not in reduced for link in links):
        why = "one of its six joints follows another"
    if why is None:
        X, h, o = Pose.identity(), [], []
        for link in links:
            X = X @ link.pose(np.zeros(model.nq))
            (axis,) = link.axes
            h.append(np.asarray(X.R @ axis.angular, dtype=float))
            o.append(np.asarray(X.p, dtype=float))
        X = X @ model.frame(frame).pose
        wrist, gap = _nearest(h[4], o[4], h[5], o[5])
        parallel = max(_sine(h[1], h[2]), _sine(h[1], h[3]))
        if parallel > PARALLEL:
            why = f"its axes 2, 3 and 4 are not parallel, by {parallel:.2g} rad"
        elif gap > PARALLEL:
            why = f"its axes 5 and 6 do not intersect, by {gap:.2g} m"
        elif min(_sine(h[0], h[1]), _sine(h[3], h[4]), _sine(h[4], h[5])) < 1e-3:
            why = "neighbouring axes other than 2, 3 and 4 are parallel"
    if why is not None:
        raise RobotError(
            f"robot '{system.name}' has no analytic inverse kinematics: {why}; it is for six revolute joints with axes 2, 3, 4 "
            "parallel and axes 5, 6 intersecting, as a UR has them: use method='numeric'"
        )
    signs = tuple(float(np.sign(h[1] @ h[k])) for k in (2, 3))
    columns = tuple(reduced[link.joint].q.start for link in links)
    place = np.asarray(X.R, dtype=float), np.asarray(X.p, dtype=float)
    return ParallelAxes(columns, np.array(h), np.array(o), (signs[0], signs[1]), wrist, *place)


def _sine(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(np.cross(a, b)))


def _nearest(h: np.ndarray, o: np.ndarray, k: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, float]:
    """(the point between two lines where they are nearest, their distance)."""
    normal = np.cross(h, k)
    if np.linalg.norm(normal) < 1e-9:
        return o, np.inf
    s, t, _ = np.linalg.solve(np.column_stack([h, -k, normal]), r - o)
    a, b = o + s * h, r + t * k
    return 0.5 * (a + b), float(np.linalg.norm(a - b))


# -- traced


def rotated(h: Array, c: Any, s: Any, x: Array) -> Array:
    """x turned about the unit vector h by the angle with cosine c and sine s (Rodrigues)."""
    along = h * (h @ x)
    return along + (x - along) * c + cross(h, x) * s


def branch(axes: ParallelAxes, p: Array, R: Array, q6: Any, signs: Array) -> Array:
    """The six angles of one branch; where it has no solution, those that come nearest in each equation."""
    h1, h, h5, h6 = axes.h[0], axes.h[1], axes.h[4], axes.h[5]
    o, w = axes.o, axes.wrist
    R06 = R @ axes.R.T
    r = p - R06 @ (axes.p - w) - o[0]

    def turn(axis: Array, angle: Any, x: Array) -> Array:
        return rotated(axis, np.cos(angle), np.sin(angle), x)

    # joint 1
    away = r - h1 * (h1 @ r)
    A, B, C = h @ away, -(h @ cross(h1, r)), h @ (w - o[0]) - (h @ h1) * (h1 @ r)
    q1 = _circle(A, B, C, A * A + B * B - C * C, signs[0])

    def back(x: Array) -> Array:
        return turn(h1, -q1, x)

    # joint 5: 1 - (h . x)^2 = |h x x|^2 keeps its digits where the wrist is straight
    x = back(R06 @ h6)
    k = (h @ h5) * (h5 @ h6)
    A5, B5 = float(h @ (h6 - h5 * (h5 @ h6))), float(h @ np.cross(h5, h6))
    side, c = cross(h, x), h @ x
    q5 = _circle(A5, B5, c - k, side @ side + (A5 * A5 + B5 * B5 - 1.0 - k * k) + 2.0 * c * k, signs[1])
    # joint 6, free where axes 4 and 6 are one line
    a, b = turn(h5, -q5, h), R06.T @ turn(h1, q1, h)
    across = a - h6 * (h6 @ a)
    q6 = where(across @ across < DEGENERATE, q6, -_angle(h6, a, b))
    # the sum of joints 2, 3 and 4, from a vector across their axis
    u = np.cross(h, np.eye(3)[int(np.argmin(np.abs(h)))])

    def all_three(x: Array) -> Array:
        return back(R06 @ turn(h6, -q6, turn(h5, -q5, x)))

    total = _angle(h, u, all_three(u))
    # joints 3 and 2, in the plane across h
    m = back(r) - (o[1] - o[0]) - turn(h, total, w - o[3])
    m = m - h * (h @ m)
    upper, lower = ((x - h * (h @ x)) for x in (o[2] - o[1], o[3] - o[2]))
    A3, B3 = float(upper @ lower), float(upper @ np.cross(h, lower))
    C3 = 0.5 * (m @ m - (upper @ upper + lower @ lower))
    q3 = _circle(A3, B3, C3, A3 * A3 + B3 * B3 - C3 * C3, signs[2])
    q2 = _angle(h, upper + turn(h, q3, lower), m)
    q4 = total - q2 - q3
    return np.array([_wrapped(each) for each in (q1, q2, axes.signs[0] * q3, axes.signs[1] * q4, q5, q6)], dtype=object)


def _circle(A: Any, B: Any, C: Any, discriminant: Any, sign: Any) -> Any:
    """q of A cos q + B sin q = C, with A^2 + B^2 - C^2 given; below zero, where the left side is nearest to C."""
    return np.arctan2(B, A) + sign * np.arctan2(np.sqrt(np.maximum(discriminant, 0.0)), C)


def _angle(h: Array, a: Array, b: Array) -> Any:
    """The angle about h from a to b, of their parts across h, which keep their digits where they are small."""
    a, b = a - h * (h @ a), b - h * (h @ b)
    return np.arctan2(h @ cross(a, b), a @ b)


def _wrapped(q: Any) -> Any:
    """q between -pi and pi."""
    return q - (2.0 * np.pi) * np.rint(q * (0.5 / np.pi))


def _solutions(system: System, q0: Array, p: Array, R: Array, frame: str) -> tuple[Array, Array]:
    """(q, |e|) of the eight branches, (8, nq) and (8,)."""
    axes, task = geometry(system, frame), FrameTask(system, frame, p, R)
    columns = list(axes.columns)

    def body(_: Any, state: Any, signs: Any) -> Any:
        y = np.array(q0, dtype=object)
        y[columns] = branch(axes, p, R, q0[columns[5]], signs)
        y, squared = _polished(task, y)
        return state, {"q": y, "residual": np.sqrt(squared)}

    _, found = scan(body, (), SIGNS)
    rows = range(len(SIGNS))
    return np.array([found["q"][i] for i in rows], dtype=object), np.array([found["residual"][i] for i in rows], dtype=object)


def _polished(task: FrameTask, y: Array) -> tuple[Array, Any]:
    """(y, |e|^2) after a few damped Gauss-Newton steps, of which none makes the error larger."""

    def body(_: Any, state: Any) -> Any:
        at = task.system.at(state["y"])
        new = state["y"] + damped_step(task.jacobian(at), task.error(at.q), POLISH)
        e = task.error(task.system.q(new))
        better = e @ e < state["squared"]
        return {
            "y": np.array([where(better, a, b) for a, b in zip(new, state["y"], strict=True)], dtype=object),
            "squared": where(better, e @ e, state["squared"]),
            "better": where(better, 1.0, 0.0),
        }

    e = task.error(task.system.q(y))
    start = {"y": y, "squared": e @ e, "better": 1.0}
    end = loop(body, start, 4, until=lambda s: (s["squared"] < 1e-29) | (s["squared"] > NEAR) | (s["better"] < 0.5))
    return end["y"], end["squared"]


FUNCTION = RobotFunction(("q0", "p", "R"), _solutions, ("q", "residual"))


# -- batches


def analytic_solutions(
    compiled: Compiled, frame: str, p: np.ndarray, R: np.ndarray, q0: np.ndarray, tolerance: float, options: dict[str, Any]
) -> Solutions:
    """The eight branches for poses (rows, ...), each joint turned to be as near to q0 as its limits allow."""
    system = compiled.system
    columns = list(geometry(system, frame).columns)
    q, residual = compiled.run(("analytic inverse kinematics", frame), FUNCTION, (q0, p, R), options, (frame,))
    q[..., columns] = nearer_turns(system, q, q0[..., None, :])[..., columns]
    lower, upper = joint_limits(system)
    there = residual <= tolerance
    q[~there] = np.nan
    inside = np.all((q[..., columns] >= lower[columns]) & (q[..., columns] <= upper[columns]), axis=-1)
    return Solutions(q, np.where(there, residual, np.inf), there & inside)


def nearer_turns(system: System, q: np.ndarray, q0: np.ndarray) -> np.ndarray:
    """q with whole turns of revolute joints added, so that each is as near to q0 as its limits allow."""
    lower, upper = joint_limits(system)
    out, turn = np.array(q), 2.0 * np.pi
    for link in system.coordinate_map.reduced.links:
        k = link.q.start
        if isinstance(link.kind, Revolute):
            turns = np.rint((q0[..., k] - q[..., k]) / turn)
            least, most = np.ceil((lower[k] - q[..., k]) / turn), np.floor((upper[k] - q[..., k]) / turn)
            moved = q[..., k] + turn * np.minimum(np.maximum(turns, least), most)
            # none where no whole turn leads into the limits
            out[..., k] = np.where(least <= most, np.clip(moved, lower[k], upper[k]), q[..., k])
    return out


def inverse_kinematics_solutions(
    robot: Robot, frame: str, pose: Any, q0: Any = None, *, tolerance: float = 1e-9, threads: int | None = None
) -> Solutions:
    """All configurations that bring a frame to a pose, up to eight, for arms with the axes of a UR; see `Solutions`.

    `pose`: (R, p) or a 4 x 4 matrix, with leading axes for batches. `q0`: whole turns are added to joints so that they
    are near to it, within the limits, and it has joint 6 where axes 4 and 6 are one line; `robot.neutral()` by default.
    """
    check_frame(robot.model, frame)
    p, R = target(pose)
    if R is None:
        raise RobotError("all solutions need a whole pose, (R, p): a position alone leaves infinitely many")
    q0 = np.asarray(robot.neutral() if q0 is None else q0, dtype=float)
    if q0.shape[-1:] != (robot.nq,):
        raise RobotError(f"robot '{robot.name}': q0 must have {robot.nq} entries, got the shape {q0.shape}")
    lead = np.broadcast_shapes(p.shape[:-1], R.shape[:-2], q0.shape[:-1])
    rows = [np.broadcast_to(a, (*lead, *tail)).reshape(-1, *tail) for a, tail in ((p, (3,)), (R, (3, 3)), (q0, (robot.nq,)))]
    options: dict[str, Any] = {"threads": threads}
    q, residual, ok = analytic_solutions(robot.compiled, frame, rows[0], rows[1], rows[2], tolerance, options)
    return Solutions(q.reshape(*lead, 8, -1), residual.reshape(*lead, 8), ok.reshape(*lead, 8))
