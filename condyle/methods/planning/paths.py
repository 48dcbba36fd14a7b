"""Geometric paths, functions of s in [0, 1]: line, circle, interpolating cubic spline, rotation between two orientations.

    path = circle([0.3, 0.1, 0.2], centre=[0.3, 0, 0.2], normal=[0, 0, 1], angle=np.pi)
    path.at(s)                                # position and its first and second derivative with respect to s
    Timed(path, quintic([0.0], [1.0], 2.0)).at(t)       # position, velocity and acceleration in time

s is the arc length over the total length on lines and circles, and the angle over the total angle on rotations. On splines it is
the length of the polygon through the points, so |dp/ds| varies a little. `at` takes floats, arrays and traced numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from condyle.dynamics.rotations import quaternion_log, quaternion_product
from condyle.errors import ControlError
from condyle.methods.planning.profiles import Profile, Sample, column, finite_array, is_traced, polynomial
from condyle.tape.array import select
from condyle.tape.table import table

Array = np.ndarray


class PathPoint(NamedTuple):
    """A point of a path: position, and its first and second derivative with respect to s."""

    position: Any
    first: Any
    second: Any


class Path(Protocol):
    """Anything with `at(s)`: position and two derivatives for s in [0, 1], the coordinates along the last axis."""

    def at(self, s: Any) -> PathPoint:
        """Position and its first and second derivative with respect to s."""


# -- line and circle


@dataclass(frozen=True)
class Line:
    """The line from `start` to `end`, in any number of dimensions:  p = start + s (end - start)."""

    start: Array
    end: Array
    length: float

    def at(self, s: Any) -> PathPoint:
        """The point s length after the start, and its derivatives."""
        s = column(s if is_traced(s) else np.asarray(s, dtype=float))
        d = self.end - self.start
        zero = 0.0 * s * d
        return PathPoint(self.start + s * d, d + zero, zero)


def line(start: Any, end: Any) -> Line:
    """The line between two points with the same number of coordinates."""
    start, end = finite_array(start, "the start of a line"), finite_array(end, "the end of a line")
    if start.ndim != 1 or start.shape != end.shape:
        raise ControlError(f"a line needs two points with as many coordinates each; got shapes {start.shape} and {end.shape}")
    return Line(start, end, float(np.linalg.norm(end - start)))


@dataclass(frozen=True)
class Circle:
    """An arc:  p = centre + cos(s angle) radius + sin(s angle) tangent, with vectors `radius` and `tangent` of equal length."""

    centre: Array
    radius: Array
    tangent: Array
    angle: float
    length: float

    def at(self, s: Any) -> PathPoint:
        """The point at s angle from the start, and its derivatives."""
        turn = column((s if is_traced(s) else np.asarray(s, dtype=float)) * self.angle)
        c, sn = np.cos(turn), np.sin(turn)
        out = c * self.radius + sn * self.tangent
        return PathPoint(self.centre + out, self.angle * (c * self.tangent - sn * self.radius), (-self.angle * self.angle) * out)


def circle(start: Any, *, centre: Any, normal: Any, angle: float = 2.0 * np.pi) -> Circle:
    """The arc from `start` around `centre` by `angle`, rad, by the right-hand rule about `normal`; all three of three numbers."""
    start, centre, normal = (
        finite_array(each, f"the {name} of a circle") for each, name in ((start, "start"), (centre, "centre"), (normal, "normal"))
    )
    if not start.shape == centre.shape == normal.shape == (3,):
        raise ControlError(
            f"start, centre and normal of a circle have 3 numbers each; got {start.shape}, {centre.shape}, {normal.shape}"
        )
    angle = float(finite_array(angle, "the angle of a circle"))
    radius, size = start - centre, float(np.linalg.norm(normal))
    r = float(np.linalg.norm(radius))
    if size == 0.0 or r == 0.0 or abs(radius @ normal) > 1e-9 * r * size:
        raise ControlError(
            "the normal of a circle must be perpendicular to the line from its centre to its start, and neither zero"
        )
    return Circle(centre, radius, np.cross(normal / size, radius), angle, abs(angle) * r)


# -- splines


@dataclass(frozen=True)
class PiecewisePolynomial:
    """sum_k coefficients[i, k] h^k on piece i, h = s - knots[i]; constant before the first knot and after the last."""

    knots: Array  # (pieces + 1), increasing
    coefficients: Array  # (pieces, order, coordinates)

    def at(self, s: Any) -> PathPoint:
        """Value, first and second derivative; s is clamped to the knots."""
        pieces, order, n = self.coefficients.shape
        if not is_traced(s):
            s = np.clip(np.asarray(s, dtype=float), self.knots[0], self.knots[-1])
            piece = np.clip(np.searchsorted(self.knots, s, side="right") - 1, 0, pieces - 1)
            chosen, h = self.coefficients[piece], (s - self.knots[piece])[..., None]
            return PathPoint(*polynomial([chosen[..., k, :] for k in range(order)], h))
        rows = table(np.concatenate([self.knots[:-1, None], self.coefficients.reshape(pieces, -1)], axis=1))
        s = np.minimum(np.maximum(s, self.knots[0]), self.knots[-1])
        # bisection: the last piece whose knot is not above s; an index beyond the last row reads the last row
        i: Any = 0
        for step in (2**k for k in reversed(range((pieces - 1).bit_length()))):
            ahead = i + step
            i = select(rows[ahead, 0] <= s, ahead, i)
        row = rows[i]
        return PathPoint(*polynomial([row[1 + k * n : 1 + (k + 1) * n] for k in range(order)], s - row[0]))


def spline(points: Any, knots: Any = None, *, ends: str = "natural") -> PiecewisePolynomial:
    """The cubic spline through points (count, coordinates), with continuous second derivative (de Boor 2001, chapter 4).

    knots: s of each point, from 0 to 1; by default proportional to the length of the polygon through the points. At both ends the
    second derivative is zero for ends="natural", the first for ends="clamped".
    """
    points = finite_array(points, "the points of a spline")
    if points.ndim != 2 or len(points) < 2 or points.shape[1] == 0:
        raise ControlError(f"a spline needs at least two points, an array (points, coordinates); got shape {points.shape}")
    if ends not in ("natural", "clamped"):
        raise ControlError(f"the ends of a spline are 'natural' or 'clamped'; got {ends!r:.40}")
    if knots is None:
        chord = np.linalg.norm(np.diff(points, axis=0), axis=1)
        if np.any(chord == 0.0):
            raise ControlError(
                f"points {np.argmin(chord)} and {np.argmin(chord) + 1} of a spline are equal; leave one out, or give knots"
            )
        knots = np.concatenate([[0.0], np.cumsum(chord)]) / np.sum(chord)
    knots = finite_array(knots, "the knots of a spline")
    if knots.shape != (len(points),) or np.any(np.diff(knots) <= 0.0) or knots[0] != 0.0 or abs(knots[-1] - 1.0) > 1e-12:
        raise ControlError(f"the knots of a spline increase from 0 to 1, one for each of {len(points)} points; got {knots!r:.80}")
    h, d = np.diff(knots)[:, None], np.diff(points, axis=0)
    m = _second_derivatives(h[:, 0], d / h, ends)
    coefficients = np.stack(
        [points[:-1], d / h - h * (2.0 * m[:-1] + m[1:]) / 6.0, 0.5 * m[:-1], (m[1:] - m[:-1]) / (6.0 * h)], axis=1
    )
    return PiecewisePolynomial(knots, coefficients)


def _second_derivatives(h: Array, secant: Array, ends: str) -> Array:
    """m of h[i-1] m[i-1] + 2 (h[i-1] + h[i]) m[i] + h[i] m[i+1] = 6 (secant[i] - secant[i-1]), by elimination."""
    count = len(h) + 1
    lower, diagonal, upper = np.zeros(count), np.ones(count), np.zeros(count)
    right = np.zeros((count, secant.shape[1]))
    lower[1:-1], diagonal[1:-1], upper[1:-1] = h[:-1], 2.0 * (h[:-1] + h[1:]), h[1:]
    right[1:-1] = 6.0 * np.diff(secant, axis=0)
    if ends == "clamped":
        diagonal[[0, -1]], upper[0], lower[-1] = 2.0 * h[[0, -1]], h[0], h[-1]
        right[0], right[-1] = 6.0 * secant[0], -6.0 * secant[-1]
    for i in range(1, count):
        ratio = lower[i] / diagonal[i - 1]
        diagonal[i] -= ratio * upper[i - 1]
        right[i] -= ratio * right[i - 1]
    m = right / diagonal[:, None]
    for i in reversed(range(count - 1)):
        m[i] -= upper[i] / diagonal[i] * m[i + 1]
    return m


# -- orientation, and time


@dataclass(frozen=True)
class Slerp:
    """The shortest rotation between two quaternions (Shoemake 1985):  cos(s angle / 2) start + sin(s angle / 2) side.

    `at(s)` gives the quaternion (x, y, z, w), the angular velocity per s in world axes, which is constant (and not the derivative
    of the quaternion), and its derivative, zero.
    """

    start: Array
    side: Array  # the quaternion half a turn about the axis after the start
    rotation: Array  # axis times angle, rad, in world axes

    def at(self, s: Any) -> PathPoint:
        """Quaternion, angular velocity per s, and zero."""
        s = column(s if is_traced(s) else np.asarray(s, dtype=float))
        half = s * (0.5 * float(np.linalg.norm(self.rotation)))
        zero = 0.0 * s * self.rotation
        return PathPoint(np.cos(half) * self.start + np.sin(half) * self.side, self.rotation + zero, zero)


def slerp(start: Any, end: Any) -> Slerp:
    """The rotation from one quaternion (x, y, z, w) to another, at most half a turn."""
    quaternions = [finite_array(each, "a quaternion") for each in (start, end)]
    for q in quaternions:
        if q.shape != (4,) or abs(np.linalg.norm(q) - 1.0) > 1e-6:
            raise ControlError(f"a quaternion has four numbers (x, y, z, w) of length one; got {q!r:.80}")
    a, b = (q / np.linalg.norm(q) for q in quaternions)
    b = b if a @ b >= 0.0 else -b
    inverse = a * np.array([-1.0, -1.0, -1.0, 1.0])
    rotation = np.asarray(quaternion_log(quaternion_product(b, inverse)), dtype=float)
    angle = float(np.linalg.norm(rotation))
    axis = rotation / angle if angle > 0.0 else rotation
    side = np.asarray(quaternion_product(np.append(axis, 0.0), a), dtype=float)
    return Slerp(a, side, rotation)


@dataclass(frozen=True)
class Timed:
    """A path and when to be where: p(s(t)), with  p' sd  and  p'' sd^2 + p' sdd; `profile` moves one joint, s, from 0 to 1."""

    path: Path
    profile: Profile

    @property
    def duration(self) -> float:
        """Time from one end to the other, s."""
        return float(self.profile.duration)

    def at(self, t: Any) -> Sample:
        """Position, velocity and acceleration at time t; at rest before 0 and after `duration`."""
        s, sd, sdd = (each[..., 0] for each in self.profile.at(t))
        return chain(self.path.at(s), sd, sdd)


def chain(point: Sequence[Any], sd: Any, sdd: Any) -> Sample:
    """Position, velocity and acceleration from a point of a path and the derivatives of s in time."""
    p, first, second = point
    sd, sdd = column(sd), column(sdd)
    return Sample(p, first * sd, second * (sd * sd) + first * sdd)
