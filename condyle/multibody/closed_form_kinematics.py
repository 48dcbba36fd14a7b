"""All solutions of the inverse kinematics of six-joint arms, up to eight, in closed form, for two kinds of arms:

    parallel      axes 2, 3, 4 are parallel and axes 5, 6 intersect: UR3, UR5, UR10, the e-series
    spherical     axes 2, 3 are parallel and axes 4, 5, 6 intersect in one point: most industrial arms

Two shoulders, two wrists, two elbows. With the axes h_i and points o_i on them at q = 0, the centre w of the wrist (where axes 5
and 6 intersect), h = h_2, R_i the rotation about h_i by q_i, and R that of the frame from its rotation at q = 0:

    h . R_1^T (p_w - o_1) = h . (w - o_1)                       shoulder: components along h do not turn with joints 2, 3 (and 4)
    |o_3 - o_2 + R_3 (b - o_3)| = |m|                           elbow: b is o_4 or w, and m its place as seen from joint 2
    k . R_5 h_6 = k . Q h_6                                     wrist: k is h or h_4, and Q = R_k R_5 R_6 the rotation it makes
    R_6^T (R_5^T k) = Q^T k,  R_k = Q R_6^T R_5^T               joint 6, and joint 4 or the sum of joints 2 to 4

Each is  A cos q + B sin q = C  or the angle between two vectors (Pieper 1968; Paden 1986; Elias and Wen 2022). A few damped
Gauss-Newton steps then remove what a file's rounded numbers leave, since no axes in it are quite parallel.
"""

from __future__ import annotations

from collections.abc import Callable
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

Turn = Callable[[Array], Array]

PARALLEL = 1e-6  # rad and m: how far axes may be from parallel, and from each other where they should intersect
DEGENERATE = 1e-22  # squared sine of joint 5 below which axes 4 and 6 count as parallel
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
class Axes:
    """The geometry at q = 0 in the world: unit axes h (6, 3) and points on them o (6, 3)."""

    columns: tuple[int, ...]  # entries of the reduced q of the six joints
    h: np.ndarray
    o: np.ndarray
    wrist: np.ndarray  # where axes 5 and 6 intersect
    spherical: bool  # whether axis 4 passes there; else it is parallel to axes 2 and 3
    R: np.ndarray  # rotation of the frame
    p: np.ndarray  # position of the frame


def geometry(system: System, frame: str) -> Axes:
    """The axes of the arm that carries a frame; an error that says why it has no solution of this kind."""
    model = system.model
    links = [model.links[i] for i in ancestors(model, model.frame(frame).link)]
    reduced = {link.joint: link for link in system.coordinate_map.reduced.links}
    if len(links) != 6 or any(not isinstance(link.kind, Revolute) for link in links):
        revolute = sum(isinstance(link.kind, Revolute) for link in links)
        raise _refused(system, f"frame '{frame}' is moved by {len(links)} joints, {revolute} of them revolute")
    if any(link.joint not in reduced for link in links):
        raise _refused(system, "one of its six joints follows another")
    X, axes, points = Pose.identity(), [], []
    for link in links:
        X = X @ link.pose(np.zeros(model.nq))
        (axis,) = link.axes
        axes.append(np.asarray(X.R @ axis.angular, dtype=float))
        points.append(np.asarray(X.p, dtype=float))
    X = X @ model.frame(frame).pose
    h, o = np.array(axes), np.array(points)
    wrist, gap = _nearest(h[4], o[4], h[5], o[5])
    spherical = _sine(h[1], h[3]) > PARALLEL and float(np.linalg.norm(np.cross(h[3], wrist - o[3]))) <= PARALLEL
    if _sine(h[1], h[2]) > PARALLEL:
        raise _refused(system, f"its axes 2 and 3 are not parallel, by {_sine(h[1], h[2]):.2g} rad")
    if gap > PARALLEL:
        raise _refused(system, f"its axes 5 and 6 do not intersect, by {gap:.2g} m")
    if not spherical and _sine(h[1], h[3]) > PARALLEL:
        raise _refused(system, "its axis 4 is neither parallel to axes 2 and 3 nor does it pass where axes 5 and 6 intersect")
    if min(_sine(h[0], h[1]), _sine(h[3], h[4]), _sine(h[4], h[5])) < 1e-3:
        raise _refused(system, "axes 1 and 2, 4 and 5, or 5 and 6 are parallel")
    columns = tuple(reduced[link.joint].q.start for link in links)
    return Axes(columns, h, o, wrist, spherical, np.asarray(X.R, dtype=float), np.asarray(X.p, dtype=float))


def _refused(system: System, why: str) -> RobotError:
    return RobotError(
        f"robot '{system.name}' has no analytic inverse kinematics: {why}; it is for six revolute joints with axes 2, 3, 4 "
        "parallel and 5, 6 intersecting, as a UR has them, or axes 2, 3 parallel and a spherical wrist: use method='numeric'"
    )


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


def turned(h: Array, angle: Any, x: Array) -> Array:
    """x turned about the unit vector h by an angle (Rodrigues)."""
    along = h * (h @ x)
    return along + (x - along) * np.cos(angle) + cross(h, x) * np.sin(angle)


def branch(axes: Axes, p: Array, R: Array, q6: Any, signs: Array) -> Array:
    """The six angles of one branch; where it has no solution, those that come nearest in each equation."""
    h, o, w = axes.h, axes.o, axes.wrist
    R06 = R @ axes.R.T
    r = p - R06 @ (axes.p - w) - o[0]
    q1 = _shoulder(h[0], h[1], h[1] @ (w - o[0]), r, signs[0])
    m = turned(h[0], -q1, r) - (o[1] - o[0])
    s3, s4 = (np.sign(h[1] @ h[k]) for k in (2, 3))
    if axes.spherical:
        q2, q3 = _elbow(h[1], o[2] - o[1], w - o[2], m, signs[2])

        def ahead(x: Array) -> Array:
            return turned(h[1], -(q2 + q3), turned(h[0], -q1, R06 @ x))

        def back(x: Array) -> Array:
            return R06.T @ turned(h[0], q1, turned(h[1], q2 + q3, x))

        q4, q5, q6 = _wrist(h[3], h[4], h[5], ahead, back, q6, signs[1])
    else:
        total, q5, q6 = _wrist(
            h[1],
            h[4],
            h[5],
            lambda x: turned(h[0], -q1, R06 @ x),
            lambda x: R06.T @ turned(h[0], q1, x),
            q6,
            signs[1],
        )
        q2, q3 = _elbow(h[1], o[2] - o[1], o[3] - o[2], m - turned(h[1], total, w - o[3]), signs[2])
        q4 = s4 * (total - q2 - q3)
    return np.array([_wrapped(each) for each in (q1, q2, s3 * q3, q4, q5, q6)], dtype=object)


def _shoulder(h1: Array, h: Array, d: Any, r: Array, sign: Any) -> Any:
    """q1 of  h . R_1^T r = d."""
    away = r - h1 * (h1 @ r)
    A, B, C = h @ away, -(h @ cross(h1, r)), d - (h @ h1) * (h1 @ r)
    return _circle(A, B, C, A * A + B * B - C * C, sign)


def _elbow(h: Array, upper: Array, lower: Array, m: Array, sign: Any) -> tuple[Any, Any]:
    """(q2, q3), both about h, of  R_2 (upper + R_3 lower) = m  in the plane across h."""
    upper, lower, m = (x - h * (h @ x) for x in (upper, lower, m))
    A, B = float(upper @ lower), float(upper @ np.cross(h, lower))
    C = 0.5 * (m @ m - (upper @ upper + lower @ lower))
    q3 = _circle(A, B, C, A * A + B * B - C * C, sign)
    return _angle(h, upper + turned(h, q3, lower), m), q3


def _wrist(k: Array, h5: Array, h6: Array, ahead: Turn, back: Turn, q6: Any, sign: Any) -> tuple[Any, Any, Any]:
    """(angle about k, q5, q6) of  R_k R_5 R_6 = Q, given as  ahead(x) = Q x  and  back(x) = Q^T x.

    q6: taken where k and axis 6 are parallel, and only the sum of two angles is known.
    """
    # 1 - (k . x)^2 = |k x x|^2 keeps its digits where the wrist is straight
    x = ahead(h6)
    along = float((k @ h5) * (h5 @ h6))
    A, B = float(k @ (h6 - h5 * (h5 @ h6))), float(k @ np.cross(h5, h6))
    side, c = cross(k, x), k @ x
    q5 = _circle(A, B, c - along, side @ side + (A * A + B * B - 1.0 - along * along) + 2.0 * c * along, sign)
    a = turned(h5, -q5, k)
    across = a - h6 * (h6 @ a)
    q6 = where(across @ across < DEGENERATE, q6, -_angle(h6, a, back(k)))
    # from a vector across k
    u = np.cross(k, np.eye(3)[int(np.argmin(np.abs(k)))])
    return _angle(k, u, ahead(turned(h6, -q6, turned(h5, -q5, u)))), q5, q6


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
    """All configurations that bring a frame to a pose, up to eight, for arms like a UR or with a spherical wrist.

    `pose`: (R, p) or a 4 x 4 matrix, with leading axes for batches. `q0`: whole turns are added to joints so that they
    are near to it, within the limits, and it has joint 6 where axes 4 and 6 are parallel; `robot.neutral()` by default.
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
