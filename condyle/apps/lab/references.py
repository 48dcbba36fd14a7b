"""References of experiments, as rows at the rate of the controller: of the joints, or of the tool.

A joint reference has rows of 3 n numbers. A tool reference has rows of 30: R (9, row by row), p (3), velocity (6), acceleration
(6), linear then angular at the tool in world axes, and the wrench that the tool should exert (6). Joint kinds become tool rows by
forward kinematics, tool kinds become joint rows by inverse kinematics and a cubic spline through the joints.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from condyle.apps.lab.tables import TOOL_KINDS, Reference
from condyle.errors import ControlError
from condyle.methods.planning.paths import Circle, circle, line, spline
from condyle.methods.planning.paths import Path as Curve
from condyle.methods.planning.profiles import Profile, Sample, jerk_limited, quintic, trapezoidal
from condyle.multibody.robot import Robot
from condyle.tape.function import Function, function

Array = np.ndarray
Motion = Callable[[Array], Sample]

JOINT_SPEED, JOINT_ACCELERATION = 1.0, 2.0  # rad/s, rad/s^2: limits where neither file nor robot has one
TOOL_SPEED, TOOL_ACCELERATION = 0.2, 0.5  # m/s, m/s^2
TOOL_ROW = 30
KNOTS = 50  # Hz, at which inverse kinematics follows a path step by step
BEYOND = 20  # rows after the end of a reference of the tool, which its spline takes in
MAX_TABLE_ROWS = 1_000_000


class JointRows:
    """Position, velocity and acceleration of all joints in one row of 3 n numbers."""

    def __init__(self, joints: int) -> None:
        self.size = 3 * joints
        self.joints = joints

    def sample(self, row: Any) -> Sample:
        """The row, traced or not, as a sample."""
        n = self.joints
        return Sample(row[..., :n], row[..., n : 2 * n], row[..., 2 * n :])


def joint_motion(reference: Reference, robot: Robot, q0: Array) -> Motion:
    """(times) -> Sample of the joints, for the joint kinds; it begins in q0 at time 0."""
    n = len(q0)
    kind = reference.kind
    if kind == "hold":
        return lambda t: Sample(np.broadcast_to(q0, (len(t), n)), np.zeros((len(t), n)), np.zeros((len(t), n)))
    if kind == "step":
        target, at = _joints(reference.target, "target", n), reference.at
        return lambda t: Sample(np.where((t >= at)[:, None], target, q0), np.zeros((len(t), n)), np.zeros((len(t), n)))
    if kind == "sine":
        amplitude, phase = _joints(reference.amplitude, "amplitude", n), _joints(reference.phase, "phase", n)
        frequency = _joints(reference.frequency, "frequency", n)
        return lambda t: _sine(t, q0, amplitude, frequency, phase)
    if kind == "table":
        return _table_motion(Path(str(reference.path)), robot)
    rows = [np.asarray(q0), *[_joints(list(point), "waypoints", n) for point in reference.waypoints]]
    moves = [_profile(reference, a, b, robot, None) for a, b in pairwise(rows)]
    return _sequence([(move.at, float(move.duration)) for move in moves], reference.pause)


def _sine(t: Array, q0: Array, amplitude: Array, frequency: Array, phase: Array) -> Sample:
    """q0 + a (sin(w t + p) - sin(p)), from time 0 on; its velocity begins at a w cos(p)."""
    w = 2.0 * np.pi * frequency
    s, c = sin_cos()(np.maximum(t, 0.0)[:, None] * w + phase)
    s0, _ = sin_cos()(phase + np.zeros_like(w))
    moving = (t >= 0.0)[:, None]
    zero = np.zeros_like(s)
    return Sample(
        q0 + np.where(moving, amplitude * (s - s0), zero),
        np.where(moving, amplitude * w * c, zero),
        np.where(moving, -amplitude * w * w * s, zero),
    )


@cache
def sin_cos() -> Function:
    """Compiled sine and cosine: the same bits on every processor, which NumPy's do not have."""
    return function(lambda x: (np.sin(x), np.cos(x)), x=())


def _profile(reference: Reference, start: Array, end: Array, robot: Robot | None, tool: float | None) -> Profile:
    """A move under the limits of the file, of the robot, or usual ones; `tool`: the length of a path of the tool."""
    speed, acceleration = reference.speed, reference.acceleration
    if tool is None:
        assert robot is not None
        n = len(start)
        limits = np.where(np.isfinite(robot.velocity_limits), robot.velocity_limits, JOINT_SPEED)
        speed = limits if speed is None else _joints(speed, "speed", n)
        acceleration = _joints(JOINT_ACCELERATION if acceleration is None else acceleration, "acceleration", n)
        jerk = None if reference.jerk is None else _joints(reference.jerk, "jerk", n)
    else:
        # the profile moves s from 0 to 1: limits in m per length of the path
        given = (speed, acceleration, reference.jerk)
        if any(isinstance(each, tuple) for each in given):
            raise ControlError("[reference] speed, acceleration and jerk of the tool are one number each, along its path")
        speed = (TOOL_SPEED if speed is None else speed) / tool
        acceleration = (TOOL_ACCELERATION if acceleration is None else acceleration) / tool
        jerk = None if reference.jerk is None else reference.jerk / tool
    if reference.profile == "quintic":
        return quintic(start, end, speed=speed, acceleration=acceleration)
    if reference.profile == "trapezoidal":
        return trapezoidal(start, end, speed=speed, acceleration=acceleration)
    return jerk_limited(start, end, speed=speed, acceleration=acceleration, jerk=jerk)


def _sequence(moves: list[tuple[Motion, float]], pause: float) -> Motion:
    """Moves one after the other, with a pause after each."""

    def at(t: Array) -> Sample:
        found = [np.array(each) for each in moves[0][0](t)]
        begin = moves[0][1] + pause
        for motion, duration in moves[1:]:
            later = t >= begin
            for row, part in zip(found, motion(t - begin), strict=True):
                row[later] = np.broadcast_to(part, row.shape)[later]
            begin += duration + pause
        return Sample(*found)

    return at


def _joints(value: Any, key: str, n: int) -> Array:
    given = np.asarray(value, dtype=float)
    if given.shape not in ((), (n,)):
        raise ControlError(f"[reference] {key} must be one number, or {n} for the joints of the robot; got {given.size}")
    return np.broadcast_to(given, (n,)).copy()


# -- tables of files


def _table_motion(path: Path, robot: Robot) -> Motion:
    """A cubic spline through the rows of a .csv (columns t and the joints by name) or .npz (arrays t and q) file."""
    t, q = read_table(path, robot.joint_names)
    span = float(t[-1] - t[0])
    curve = spline(q, (t - t[0]) / span, ends="clamped")

    def at(times: Array) -> Sample:
        inside = ((times >= 0.0) & (times <= span))[:, None]
        p, first, second = curve.at(times / span)
        return Sample(p, np.where(inside, first / span, 0.0), np.where(inside, second / span**2, 0.0))

    return at


def read_table(path: Path, joints: list[str]) -> tuple[Array, Array]:
    """(times, joint positions (rows, n)) of a file."""
    where = f"[reference] path {path}"
    try:
        if path.suffix.lower() == ".npz":
            with np.load(path, allow_pickle=False) as file:
                missing = [name for name in ("t", "q") if name not in file]
                if missing:
                    raise ControlError(f"{where} has no array '{missing[0]}': give t (rows,) and q (rows, {len(joints)})")
                t, q = np.array(file["t"], dtype=float), np.array(file["q"], dtype=float)
        elif path.suffix.lower() == ".csv":
            with path.open(newline="", encoding="utf-8") as lines:
                rows = list(csv.DictReader(lines))
            names = list(rows[0]) if rows else []
            # the columns of exported runs and of excitations are called q.NAME
            wanted = ["t", *[f"q.{name}" if f"q.{name}" in names else name for name in joints]]
            missing = [name for name in wanted if name not in names]
            if missing:
                raise ControlError(f"{where} has no column '{missing[0]}': give {', '.join(wanted)}, or q.NAME for each joint")
            both = np.array([[float(row[name]) for name in wanted] for row in rows])
            t, q = both[:, 0], both[:, 1:]
        else:
            raise ControlError(f"{where} must end in .csv or .npz")
    except ControlError:
        raise
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ControlError(f"{where} cannot be read: {error!s:.120}") from None
    good = t.ndim == 1 and len(t) >= 2 and q.shape == (len(t), len(joints)) and len(t) <= MAX_TABLE_ROWS
    if not good or not np.isfinite(t).all() or not np.isfinite(q).all() or np.any(np.diff(t) <= 0.0):
        raise ControlError(
            f"{where} must hold two or more rows with increasing finite times and {len(joints)} finite joints; got shapes "
            f"{t.shape} and {q.shape}"
        )
    return t, q


# -- paths of the tool


def tool_motion(reference: Reference, p0: Array) -> Motion:
    """(times) -> Sample of the tool's position, for the tool kinds; it begins at p0, and its rotation stays."""
    kind = reference.kind
    if kind == "circle":
        return _timed(reference, circle(p0, centre=reference.centre, normal=reference.normal, angle=reference.angle))
    points = [np.asarray(p0), *[np.asarray(point, dtype=float) for point in reference.points]]
    if len(points[1]) != 3:
        raise ControlError(f"[reference] points must have three numbers each (m), got {len(points[1])}")
    if kind == "spline":
        length = float(np.sum(np.linalg.norm(np.diff(points, axis=0), axis=1)))
        return _timed(reference, spline(points, ends="natural"), length)
    parts = [_timed_part(reference, line(a, b), None) for a, b in pairwise(points)]
    return _sequence(parts, reference.pause)


def _timed(reference: Reference, curve: Any, length: float | None = None) -> Motion:
    return _timed_part(reference, curve, length)[0]


def _timed_part(reference: Reference, curve: Any, length: float | None) -> tuple[Motion, float]:
    size = curve.length if length is None else length
    if size == 0.0:
        raise ControlError("[reference] the tool's path has no length: its first point is where the tool starts already")
    profile = _profile(reference, np.zeros(1), np.ones(1), None, size)

    def at(t: Array) -> Sample:
        s, sd, sdd = (each[:, 0] for each in profile.at(t))
        p, first, second = _points(curve, s)
        return Sample(p, first * sd[:, None], second * (sd * sd)[:, None] + first * sdd[:, None])

    return at, float(profile.duration)


def _points(curve: Curve, s: Array) -> Any:
    if not isinstance(curve, Circle):
        return curve.at(s)
    sine, cosine = (each[:, None] for each in sin_cos()(s * curve.angle))
    out = cosine * curve.radius + sine * curve.tangent
    first = curve.angle * (cosine * curve.tangent - sine * curve.radius)
    return curve.centre + out, first, -(curve.angle**2) * out


# -- rows


def control_times(reference: Reference, count: int, control: int, planner: int, begin: float) -> Array:
    """The times (count,) of rows at the rate of the controller, s after the reference begins; or those of the planner."""
    k = np.arange(count)
    if reference.sampled == "planner":
        k = (k // (control // planner)) * (control // planner)
    t: Array = k / control - (begin + reference.start)
    return t


def joint_rows(reference: Reference, robot: Robot, q0: Array, tool: str, t: Array) -> Array:
    """(times, 3 n): positions, velocities and accelerations of the joints."""
    if reference.kind not in TOOL_KINDS:
        return np.concatenate(joint_motion(reference, robot, q0)(t), axis=1)
    R0, p0 = robot.frame_pose(q0, tool)
    motion = tool_motion(reference, p0)
    # the spline is at rest at its ends: some rows more, so that a reference that is cut while it moves keeps its velocity
    spacing = max(float(np.max(np.diff(t), initial=0.0)), 1e-4)
    span = max(float(t[-1]), 0.0) + BEYOND * spacing
    count = max(int(np.ceil(span * KNOTS)) + 1, 4)
    knots = np.linspace(0.0, span, count)
    q = followed(robot, tool, R0, motion(knots).position, q0)
    curve = spline(q, knots / span, ends="clamped")
    # the joints of every row, from the nearest knots on, then their derivatives by the spline through all of them
    inside = np.clip(t, 0.0, span)
    unique = np.unique(np.concatenate([[0.0], inside, inside[-1] + spacing * np.arange(1, BEYOND + 1)]))
    unique[-1] = span
    back = np.searchsorted(unique, inside)
    exact = _solved(robot, tool, R0, motion(unique).position, curve.at(unique / span).position)
    fine = spline(exact, unique / span, ends="clamped") if len(unique) > 3 else curve
    p, first, second = (each[back] for each in fine.at(unique / span))
    moving = ((t > 0.0) & (t < span))[:, None]
    return np.concatenate([p, np.where(moving, first / span, 0.0), np.where(moving, second / span**2, 0.0)], axis=1)


def followed(robot: Robot, tool: str, R: Array, positions: Array, q0: Array) -> Array:
    """Joints (rows, n) for positions of the tool, each solved from the one before, so that the branch stays the same."""
    q = [q0]
    for p in positions[1:]:
        q.append(_solved(robot, tool, R, p[None], q[-1][None])[0])
    return np.array(q)


def _solved(robot: Robot, tool: str, R: Array, positions: Array, guess: Array) -> Array:
    q, residual, ok = robot.inverse_kinematics(tool, (R, positions), guess, restarts=0)
    if not np.all(ok):
        bad = int(np.argmax(residual))
        raise ControlError(
            f"[reference] the tool '{tool}' cannot reach {np.round(positions[bad], 4).tolist()} m with its first rotation "
            f"(residual {float(np.max(residual)):.2g}): choose another path, or another [robot] q"
        )
    found: Array = q
    return found


def tool_rows(reference: Reference, robot: Robot, q0: Array, tool: str, t: Array) -> Array:
    """(times, 30): rotation, position, velocity, acceleration and wrench of the tool."""
    rows = np.zeros((len(t), TOOL_ROW))
    if reference.kind in TOOL_KINDS:
        R0, p0 = robot.frame_pose(q0, tool)
        p, v, a = tool_motion(reference, p0)(t)
        rows[:, :9], rows[:, 9:12], rows[:, 12:15], rows[:, 18:21] = R0.ravel(), p, v, a
    else:
        q, v, a = (np.ascontiguousarray(each) for each in joint_motion(reference, robot, q0)(t))
        R, p = robot.frame_pose(q, tool)
        rows[:, :9], rows[:, 9:12] = R.reshape(len(t), 9), p
        rows[:, 12:18] = _six(robot.frame_velocity(q, v, tool))
        rows[:, 18:24] = _six(robot.frame_acceleration(q, v, a, tool))
    if reference.wrench is not None:
        rows[:, 24:] = np.asarray(reference.wrench)
    return rows


def _six(motion: Any) -> Array:
    return np.concatenate(motion, axis=-1) if isinstance(motion, tuple) else np.asarray(motion)
