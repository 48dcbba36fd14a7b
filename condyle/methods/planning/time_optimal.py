"""The fastest motion along a joint path under limits of speed, acceleration and torque, by reachability analysis (TOPP-RA).

    motion = time_optimal(waypoints, robot=robot, acceleration=2.0)
    motion.duration, motion.at(t)

With x = sd^2 and u = sdd every limit is a row  |a u + b x + c| <= 1  at each s (Pham and Pham 2018, "A new approach to
time-optimal path parameterization based on reachability analysis"). On a grid of s, x[i+1] = x[i] + 2 ds u[i]; the rows hold at
both ends of an interval. A backward pass finds the sets of x from which the end can be reached, a forward pass takes the largest
x in them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from condyle.errors import ControlError
from condyle.methods.planning.paths import Path, PathPoint, PiecewisePolynomial, chain, spline
from condyle.methods.planning.profiles import Sample, finite_array, is_traced, positive
from condyle.multibody.robot import Robot
from condyle.tape.array import select

Array = np.ndarray

LARGEST = 1e12  # of x: where no limit bounds it
BLOCK = 256  # intervals of the grid whose pairs of rows are in memory at once
NEGLIGIBLE = 1e-9  # of a limit: a row to which the largest possible u adds less does not bound u


@dataclass(frozen=True)
class TimeOptimal:
    """A path with its fastest timing: s, sd^2 and times at the points of the grid; constant sdd between them."""

    path: Path
    s: Array
    x: Array  # sd^2, 1/s^2
    times: Array  # s
    law: PiecewisePolynomial  # s of the time

    @property
    def duration(self) -> float:
        """Time from one end to the other, s."""
        return float(self.times[-1])

    def at(self, t: Any) -> Sample:
        """Positions, velocities and accelerations at time t (float, array or traced); at rest before 0 and after `duration`."""
        t = t if is_traced(t) else np.asarray(t, dtype=float)
        s, sd, sdd = (each[..., 0] for each in self.law.at(t))
        inside = (t >= 0.0) & (t <= self.duration)
        return chain(self.path.at(s), select(inside, sd, 0.0), select(inside, sdd, 0.0))


class Rows(NamedTuple):
    """|a u + b x + c| <= 1 with a >= 0, arrays (points of the grid, rows), and x <= limit (points of the grid)."""

    a: Array
    b: Array
    c: Array
    limit: Array


def time_optimal(
    path: Path | Callable[[float], Any] | Any,
    *,
    speed: Any = None,
    acceleration: Any = None,
    torque: Any = None,
    robot: Robot | None = None,
    grid: int = 1000,
) -> TimeOptimal:
    """The fastest motion from rest to rest along a joint path.

    path: waypoints (points, joints), a function s -> q, or an object with `at(s)` such as a spline; s from 0 to 1. Limits hold in
    both directions, one number or one for each joint: rad/s, rad/s^2, N m. With a robot, speed and torque are by default those of
    its joints, where they have any. `grid` intervals of equal size in s.
    """
    if not isinstance(grid, int) or grid < 2:
        raise ControlError(f"the grid of a time-optimal path has at least 2 intervals; got {grid!r:.40}")
    if torque is not None and robot is None:
        raise ControlError("limits of torque need the robot that produces it: time_optimal(path, torque=..., robot=robot)")
    s = np.linspace(0.0, 1.0, grid + 1)
    path = _as_path(path, s)
    points = PathPoint(*(finite_array(each, "a point or derivative of the path") for each in path.at(s)))
    if points.position.ndim != 2 or not points.position.shape == points.first.shape == points.second.shape:
        raise ControlError(f"a path has q(s), q'(s) and q''(s) of the same number of joints; got {[x.shape for x in points]}")
    if not np.any(points.first):
        raise ControlError("the path does not move: all its points are equal")
    if robot is not None:
        speed = robot.velocity_limits if speed is None else speed
        torque = robot.effort_limits if torque is None else torque
    rows = _rows(points, s[1] - s[0], speed, acceleration, torque, robot)
    x = _fastest(rows, s)
    times = np.concatenate([[0.0], np.cumsum(2.0 * np.diff(s) / (np.sqrt(x[1:]) + np.sqrt(x[:-1])))])
    u = np.diff(x) / (2.0 * np.diff(s))
    law = PiecewisePolynomial(times, np.stack([s[:-1], np.sqrt(x[:-1]), 0.5 * u], axis=1)[..., None])
    return TimeOptimal(path, s, x, times, law)


def _as_path(path: Any, s: Array) -> Path:
    """An object with `at`: itself, a spline through waypoints, or one through the values of a function on the grid."""
    if hasattr(path, "at"):
        found: Path = path
        return found
    if callable(path):
        return spline(np.array([np.asarray(path(float(each)), dtype=float) for each in s]), s)
    return spline(path)


# -- limits as rows


def _rows(points: PathPoint, ds: float, speed: Any, acceleration: Any, torque: Any, robot: Robot | None) -> Rows:
    """All limits at the beginning and at the end of each interval, and the largest x at each point."""
    q, first, second = points
    n = q.shape[1]
    limit = np.full(len(q), LARGEST)
    if speed is not None:
        with np.errstate(divide="ignore"):
            limit = np.minimum(limit, np.min((_limit(speed, "speed", n) / np.abs(first)) ** 2, axis=1))
    parts = []
    if acceleration is not None:
        parts.append((first, second, np.zeros_like(q), _limit(acceleration, "acceleration", n)))
    if torque is not None and robot is not None:
        parts.append((*_torques(robot, points), _limit(torque, "torque", n)))
    parts = [tuple(x[..., np.isfinite(size)] for x in (*row, size)) for *row, size in parts]
    if not any(part[0].shape[1] for part in parts):
        raise ControlError(
            "a time-optimal path needs a finite limit of acceleration or torque; give acceleration=, or torque= and robot="
        )
    a, b, c = (np.concatenate([part[k] / part[3] for part in parts], axis=1) for k in range(3))
    # the end of an interval, in u and x of its beginning: x + 2 ds u
    a, b, c = (
        np.concatenate([here, there], axis=1)
        for here, there in ((a[:-1], a[1:] + 2.0 * ds * b[1:]), (b[:-1], b[1:]), (c[:-1], c[1:]))
    )
    sign = np.where(a < 0.0, -1.0, 1.0)
    return Rows(sign * a, sign * b, sign * c, limit)


def _torques(robot: Robot, points: PathPoint) -> tuple[Array, Array, Array]:
    """(a, b, c) of tau = a u + b x + c:  M q',  M q'' + c(q, q'),  g(q)."""
    q, first, second = points
    if q.shape[1] != robot.reduced.nv or robot.reduced.nq != robot.reduced.nv:
        raise ControlError(
            f"limits of torque need a path of all {robot.reduced.nv} joints, none with a quaternion; got {q.shape[1]} joints"
        )
    rest = np.zeros_like(q)
    g = np.asarray(robot.inverse_dynamics(q, rest, rest))
    # the mean over both directions of motion is without friction
    forth, back = (np.asarray(robot.inverse_dynamics(q, v, second)) for v in (first, -first))
    return np.asarray(robot.inverse_dynamics(q, rest, first)) - g, 0.5 * (forth + back) - g, g


def _limit(values: Any, name: str, n: int) -> Array:
    """One positive limit for each joint."""
    given = positive(values, f"the limit of {name}", unlimited=True)
    if given.shape not in ((), (1,), (n,)):
        raise ControlError(f"the limit of {name} is one number, or one for each of {n} joints; got shape {given.shape}")
    return np.broadcast_to(given, n)


# -- reachability


def _fastest(rows: Rows, s: Array) -> Array:
    """The largest x at each point that starts and ends at rest and keeps all rows."""
    low, high = _controllable(rows, s)
    N, ds = len(rows.a), float(s[1] - s[0])
    if low[0] > 0.0:
        raise ControlError("the path cannot start at rest within the limits; raise them, or slow the path down at its start")
    x = np.zeros(N + 1)
    for i in range(N):
        a, room = rows.a[i], 1.0 - rows.c[i] - rows.b[i] * x[i]
        bounds = a * (high[i] + high[i + 1]) > NEGLIGIBLE * 2.0 * ds
        u = np.min(room[bounds] / a[bounds], initial=np.inf)
        x[i + 1] = min(max(x[i] + 2.0 * ds * u, low[i + 1]), high[i + 1])
    stuck = np.flatnonzero((x[1:] == 0.0) & (x[:-1] == 0.0))
    if len(stuck):
        raise _infeasible(s[stuck[0]])
    return x


def _controllable(rows: Rows, s: Array) -> tuple[Array, Array]:
    """(low, high) of x at each point from which the end can be reached at rest."""
    N, ds = len(rows.a), float(s[1] - s[0])
    a, b, c, limit = rows
    blocks = [_without_u(*(each[i : i + BLOCK] for each in (a, b, c))) for i in range(0, N, BLOCK)]
    low, high = (np.concatenate(ends) for ends in zip(*blocks, strict=True))
    low, high = np.append(np.maximum(low, 0.0), 0.0), np.append(np.minimum(high, limit[:-1]), 0.0)
    # and with the rows  low[i+1] <= x + 2 ds u <= high[i+1]
    slope = a - 2.0 * ds * b
    factors = np.concatenate([slope, -slope], axis=1)
    for i in reversed(range(N)):
        right = np.concatenate([high[i + 1] * a[i] + 2.0 * ds * (1.0 + c[i]), 2.0 * ds * (1.0 - c[i]) - low[i + 1] * a[i]])
        least, most = _interval(factors[i], right)
        low[i], high[i] = max(low[i], float(least)), min(high[i], float(most))
        if not low[i] <= high[i]:
            raise _infeasible(s[i])
    return low, high


def _without_u(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """(low, high) of the x for which some u keeps all rows: the lower bound of u by any row j is below the upper by any row k,

    x (b_k a_j - b_j a_k) <= (1 - c_k) a_j + (1 + c_j) a_k.
    """
    factor = b[:, None, :] * a[:, :, None] - b[:, :, None] * a[:, None, :]
    right = (1.0 - c)[:, None, :] * a[:, :, None] + (1.0 + c)[:, :, None] * a[:, None, :]
    return _interval(factor.reshape(len(a), -1), right.reshape(len(a), -1))


def _interval(factor: Array, right: Array) -> tuple[Array, Array]:
    """(low, high) of the x with factor x <= right, along the last axis; empty where 0 x <= right < 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = right / factor
    high = np.min(np.where(factor > 0.0, ratio, np.inf), axis=-1)
    low = np.max(np.where(factor < 0.0, ratio, -np.inf), axis=-1)
    never = np.any((factor == 0.0) & (right < 0.0), axis=-1)
    return np.where(never, np.inf, low), high


def _infeasible(s: float) -> ControlError:
    return ControlError(
        f"the path cannot be followed within the limits at s = {s:.4g}; raise the limits of torque or acceleration, "
        "or change the path there"
    )
