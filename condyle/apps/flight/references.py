"""Trajectories to follow, with exact derivatives: minimum snap through waypoints, circle, figure eight, steps.

    path = MinimumSnap([[0, 0, 0], [1, 0, 1], [1, 1, 1]], times=[0.0, 1.5, 3.0])
    path.sample(times)                      # position with four derivatives, heading with two

Derivatives are Taylor coefficients in time (`Jet`), carried through the formulas. `state_references` makes of them what a
controller of states follows: attitude, body rate, thrusts and gimbal angles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial, pi
from typing import Any

import numpy as np

from condyle.apps.flight.allocation import Allocation
from condyle.apps.flight.quaternions import quaternion_of_angles
from condyle.errors import ControlError

ORDER = 4  # of the derivatives of a position
FLAT = 3 * (ORDER + 1) + 3  # numbers of a row of `Samples.rows`


class Jet:
    """A function of time by its Taylor coefficients c_0 + c_1 h + c_2 h^2 + ..., numbers or arrays; products are truncated."""

    __slots__ = ("c",)

    def __init__(self, coefficients: Sequence[Any]) -> None:
        self.c = list(coefficients)

    @staticmethod
    def time(t: Any) -> Jet:
        """The time itself."""
        return Jet([t, 1.0 + 0.0 * t, *[0.0 * t] * (ORDER - 1)])

    @staticmethod
    def of(derivatives: Sequence[Any]) -> Jet:
        """The function with this value and these derivatives."""
        return Jet([d / factorial(k) for k, d in enumerate(derivatives)])

    def derivatives(self) -> list[Any]:
        """The value and its derivatives."""
        return [c * factorial(k) for k, c in enumerate(self.c)]

    def rate(self) -> Jet:
        """The derivative, one coefficient shorter."""
        return Jet([(k + 1) * c for k, c in enumerate(self.c[1:])])

    def __add__(self, other: Any) -> Jet:
        if isinstance(other, Jet):
            return Jet([a + b for a, b in zip(self.c, other.c, strict=False)])
        return Jet([self.c[0] + other, *self.c[1:]])

    __radd__ = __add__

    def __neg__(self) -> Jet:
        return Jet([-a for a in self.c])

    def __sub__(self, other: Any) -> Jet:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Jet:
        return self.__neg__().__add__(other)

    def __mul__(self, other: Any) -> Jet:
        if not isinstance(other, Jet):
            return Jet([a * other for a in self.c])
        n = min(len(self.c), len(other.c))
        return Jet([sum(self.c[j] * other.c[k - j] for j in range(k + 1)) for k in range(n)])

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Jet:
        if not isinstance(other, Jet):
            return self.__mul__(1.0 / other)
        found: list[Any] = []
        for k in range(min(len(self.c), len(other.c))):
            found.append((self.c[k] - sum(found[j] * other.c[k - j] for j in range(k))) / other.c[0])
        return Jet(found)

    def sqrt(self) -> Jet:
        """The square root."""
        found = [np.sqrt(self.c[0])]
        for k in range(1, len(self.c)):
            found.append((self.c[k] - sum(found[j] * found[k - j] for j in range(1, k))) / (2.0 * found[0]))
        return Jet(found)

    def sin_cos(self) -> tuple[Jet, Jet]:
        """(sine, cosine)."""
        s, c = [np.sin(self.c[0])], [np.cos(self.c[0])]
        for k in range(1, len(self.c)):
            s.append(sum(j * self.c[j] * c[k - j] for j in range(1, k + 1)) / k)
            c.append(-sum(j * self.c[j] * s[k - j] for j in range(1, k + 1)) / k)
        return Jet(s), Jet(c)

    def chosen(self, condition: Any, other: Jet) -> Jet:
        """This one where the condition holds, else the other."""
        return Jet([np.where(condition, a, b) for a, b in zip(self.c, other.c, strict=True)])


@dataclass(frozen=True)
class Samples:
    """A trajectory at times: `position` (times, 5, 3) with four derivatives, `heading` (times, 3) with two.

    `attitude` (times, 4): quaternions w, x, y, z to follow instead of the one that the motion needs.
    """

    position: np.ndarray
    heading: np.ndarray
    attitude: np.ndarray | None = None

    def rows(self) -> np.ndarray:
        """(times, 18): position and its four derivatives, heading and its two, as the geometric controller takes them."""
        return np.concatenate([self.position.reshape(len(self.position), -1), self.heading], axis=-1)


class Trajectory:
    """A position and a heading as functions of time. Subclasses define `at`."""

    def at(self, t: Jet) -> tuple[Sequence[Any], Any]:
        """(x, y, z), heading: jets or numbers at the time t."""
        raise NotImplementedError

    def sample(self, times: Any) -> Samples:
        """The trajectory at times (n,), s."""
        t = np.atleast_1d(np.asarray(times, dtype=float))
        position, heading = self.at(Jet.time(t))
        zero = Jet([0.0 * t] * (ORDER + 1))
        columns = [np.stack((each + zero if isinstance(each, Jet) else zero + each).derivatives(), axis=-1) for each in position]
        turn = heading + zero if isinstance(heading, Jet) else zero + heading
        return Samples(np.stack(columns, axis=-1), np.stack(turn.derivatives()[:3], axis=-1))


@dataclass(frozen=True)
class Steps(Trajectory):
    """Targets (time, position, (roll, pitch, yaw)) that jump, the first at time 0; angles in rad."""

    targets: tuple[tuple[float, tuple[float, ...], tuple[float, ...]], ...]

    def sample(self, times: Any) -> Samples:
        """The targets at times."""
        t = np.atleast_1d(np.asarray(times, dtype=float))
        # a time that is a multiple of a step by arithmetic, not to the last bit
        k = np.maximum(np.searchsorted([time - 1e-9 for time, _, _ in self.targets], t, side="right") - 1, 0)
        position = np.zeros((len(t), ORDER + 1, 3))
        position[:, 0] = np.array([target[1] for target in self.targets])[k]
        angles = np.array([target[2] for target in self.targets])
        heading = np.stack([angles[k, 2], np.zeros(len(t)), np.zeros(len(t))], axis=-1)
        return Samples(position, heading, np.array([quaternion_of_angles(*each) for each in angles])[k])


def standard_scenario() -> Steps:
    """(0.3, 0.6, 1.0) level; at 2 s roll, pitch, yaw of 30, 60, 90 degrees, which two rotors cannot reach; at 6 s (1, 1, 1)."""
    tilted = tuple(np.radians([30.0, 60.0, 90.0]).tolist())
    level = (0.0, 0.0, 0.0)
    return Steps(((0.0, (0.3, 0.6, 1.0), level), (2.0, (0.3, 0.6, 1.0), tilted), (6.0, (1.0, 1.0, 1.0), level)))


@dataclass(frozen=True)
class Hover(Trajectory):
    """Staying at a position with a heading, rad."""

    position: tuple[float, float, float] = (0.0, 0.0, 1.0)
    heading: float = 0.0

    def at(self, t: Jet) -> tuple[Sequence[Any], Any]:
        """The position."""
        return self.position, self.heading


@dataclass(frozen=True)
class Circle(Trajectory):
    """A circle about `center`, begun and ended at rest: `turns` of `period` s each, with ramps of `ramp` s; from +x on."""

    center: tuple[float, float, float] = (0.0, 0.0, 1.0)
    radius: float = 1.0
    period: float = 4.0
    turns: float = 2.0
    ramp: float = 2.0
    begin: float = 0.0
    heading: float | None = 0.0  # None: along the motion

    @property
    def seconds(self) -> float:
        """How long it moves."""
        return self.turns * self.period + self.ramp

    def phase(self, t: Jet) -> Jet:
        """The angle on the circle: its rate rises over `ramp`, and falls again at the end."""
        rate = 2.0 * pi / self.period
        return rate * (_ramp(t - self.begin, self.ramp) - _ramp(t - (self.begin + self.turns * self.period), self.ramp))

    def at(self, t: Jet) -> tuple[Sequence[Any], Any]:
        """The point on the circle."""
        angle = self.phase(t)
        s, c = angle.sin_cos()
        x, y, z = self.center
        return (x + self.radius * c, y + self.radius * s, z), angle + 0.5 * pi if self.heading is None else self.heading


@dataclass(frozen=True)
class FigureEight(Circle):
    """The curve (sin 2a / 2, sin a) times `radius` about `center`, timed like the circle; begun in its middle."""

    def at(self, t: Jet) -> tuple[Sequence[Any], Any]:
        """The point on the figure."""
        angle = self.phase(t)
        s, c = angle.sin_cos()
        x, y, z = self.center
        return (x + self.radius * (s * c), y + self.radius * s, z), 0.0 if self.heading is None else self.heading


def _ramp(t: Jet, duration: float) -> Jet:
    """The integral of a rate that rises from 0 to 1 over a duration, with three continuous derivatives of the rate."""
    s = t / duration
    one = Jet([1.0 + 0.0 * c if k == 0 else 0.0 * c for k, c in enumerate(s.c)])
    power = one
    for _ in range(5):
        power = power * s
    rising = power * (7.0 + s * (-14.0 + s * (10.0 + s * -2.5)))
    value = rising.chosen(s.c[0] < 1.0, s - 0.5)
    return (value * duration).chosen(s.c[0] > 0.0, one * 0.0)


class MinimumSnap(Trajectory):
    """The path through waypoints (k, 3) at times (k,), from rest to rest, whose squared snap over time is the least.

    Polynomials of degree seven with six continuous derivatives. `headings` (k,): likewise, of the least squared snap; zero by
    default. Before the first time and after the last it rests.
    """

    def __init__(self, waypoints: Any, times: Any, headings: Any = None) -> None:
        points, t = np.asarray(waypoints, dtype=float), np.asarray(times, dtype=float)
        if points.ndim != 2 or points.shape[1] != 3 or t.shape != points.shape[:1] or len(t) < 2:
            raise ControlError(
                f"minimum snap needs waypoints (k, 3) and k times, two or more; got shapes {points.shape} and {t.shape}"
            )
        if not (np.isfinite(points).all() and np.isfinite(t).all() and (np.diff(t) > 0.0).all()):
            raise ControlError("minimum snap needs finite waypoints, and times in seconds that increase")
        turn = np.zeros(len(t)) if headings is None else np.asarray(headings, dtype=float)
        if turn.shape != t.shape or not np.isfinite(turn).all():
            raise ControlError(f"minimum snap needs one finite heading for each of the {len(t)} waypoints, got {headings!r:.60}")
        self.times = t
        self.coefficients = septic_spline(np.column_stack([points, turn]), t)

    def at(self, t: Jet) -> tuple[Sequence[Any], Any]:
        """The point of the spline."""
        inside = np.clip(t.c[0], self.times[0], self.times[-1])
        moving = (t.c[0] >= self.times[0]) & (t.c[0] <= self.times[-1])
        k = np.clip(np.searchsorted(self.times, inside, side="right") - 1, 0, len(self.times) - 2)
        length = np.diff(self.times)[k]
        s = Jet([(inside - self.times[k]) / length, np.where(moving, 1.0, 0.0) / length, *[0.0 * inside] * (ORDER - 1)])
        found = []
        for axis in range(4):
            total = Jet([self.coefficients[k, 7, axis], *[0.0 * inside] * ORDER])
            for power in range(6, -1, -1):
                total = total * s + self.coefficients[k, power, axis]
            found.append(total)
        return found[:3], found[3]


def septic_spline(points: np.ndarray, times: np.ndarray) -> np.ndarray:
    """(segments, 8, columns): powers of (t - t_k) / (t_k+1 - t_k), at rest at both ends, six continuous derivatives."""
    lengths, n = np.diff(times), len(times) - 1
    A, b = np.zeros((8 * n, 8 * n)), np.zeros((8 * n, points.shape[1]))

    def derivative(s: float, order: int) -> np.ndarray:
        return np.array([factorial(j) / factorial(j - order) * s ** (j - order) if j >= order else 0.0 for j in range(8)])

    row = 0
    for k in range(n):
        own = slice(8 * k, 8 * k + 8)
        for s in (0, 1):
            A[row, own], b[row] = derivative(float(s), 0), points[k + s]
            row += 1
        if k + 1 < n:
            for order in range(1, 7):
                scale = (lengths[k] / lengths[k + 1]) ** order
                A[row, own], A[row, 8 * k + 8 : 8 * k + 16] = derivative(1.0, order), -scale * derivative(0.0, order)
                row += 1
    for order in (1, 2, 3):
        A[row, :8], A[row + 1, -8:] = derivative(0.0, order), derivative(1.0, order)
        row += 2
    return np.linalg.solve(A, b).reshape(n, 8, -1)


# ---- what a controller of states follows


def state_references(allocation: Allocation, samples: Samples) -> np.ndarray:
    """(times, 13 + n + n_g): position, velocity, quaternion, body rate, thrusts, gimbal angles.

    An airframe that can give any wrench stays level, at the heading. Others point their z axis along the force that the motion
    needs. Thrusts and angles are those of the pseudo-inverse for the wrench of the motion; at an attitude that is given, for the
    weight alone.
    """
    body, count = allocation.body, len(samples.position)
    position, heading = samples.position, samples.heading
    up = np.array([0.0, 0.0, body.gravity])
    torques = np.zeros((count, 3))
    if samples.attitude is not None:
        quaternions, rates = samples.attitude, np.zeros((count, 3))
        force = np.broadcast_to(body.mass * up, (count, 3))
    else:
        R, rates, turning = _attitudes(position, heading, body.gravity, level=allocation.rank == 6)
        quaternions = _continuous(_quaternions(R))
        force = body.mass * (position[:, 2] + up)
        spin = rates @ body.inertia.T
        torques = turning @ body.inertia.T + np.cross(rates, spin)
    R = _rotations(quaternions)
    wrench = np.concatenate([np.einsum("tji,tj->ti", R, force), torques], axis=-1)
    parts = wrench @ allocation.inverse.T
    thrusts, angles = allocation.controls([(parts[:, 2 * i], parts[:, 2 * i + 1]) for i in range(body.n)])
    columns = [np.stack(list(thrusts), axis=-1), *([np.stack(list(angles), axis=-1)] if body.n_g else [])]
    return np.concatenate([position[:, 0], position[:, 1], quaternions, rates, *columns], axis=-1)


def with_preview(rows: np.ndarray, stages: int, every: int) -> np.ndarray:
    """(times, stages, size): each row with those to come, `every` rows apart; the last one is repeated."""
    ahead = np.arange(len(rows))[:, None] + every * np.arange(stages)[None]
    found: np.ndarray = rows[np.minimum(ahead, len(rows) - 1)]
    return found


def _attitudes(
    position: np.ndarray, heading: np.ndarray, gravity: float, *, level: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(R, body rate, its derivative) at each time."""
    s, c = Jet.of([heading[:, k] for k in range(3)]).sin_cos()
    zero, one = s * 0.0, s * 0.0 + 1.0
    if level:
        x, y, z = [c, s, zero], [-s, c, zero], [zero, zero, one]
    else:
        force = [Jet.of([position[:, k, axis] for k in (2, 3, 4)]) for axis in range(3)]
        force[2] = force[2] + gravity
        z = _unit(force)
        y = _unit(_cross(z, [c, s, zero]))
        x = _cross(y, z)
    R = [[x[i], y[i], z[i]] for i in range(3)]
    # R^T R' = [w]
    turning = [[sum((R[k][i] * R[k][j].rate() for k in range(3)), start=zero * 0.0) for j in range(3)] for i in range(3)]
    w = [turning[2][1], turning[0][2], turning[1][0]]
    matrix = np.stack([np.stack([each.c[0] for each in row], axis=-1) for row in R], axis=-2)
    return matrix, np.stack([each.c[0] for each in w], axis=-1), np.stack([each.c[1] for each in w], axis=-1)


def _unit(v: list[Jet]) -> list[Jet]:
    length = (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt()
    return [each / length for each in v]


def _cross(a: list[Jet], b: list[Jet]) -> list[Jet]:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def _quaternions(R: np.ndarray) -> np.ndarray:
    """(..., 4): w, x, y, z of rotation matrices."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = (R[..., i, :].transpose(1, 0) for i in range(3))
    four = np.stack(
        [
            np.stack([1.0 + xx + yy + zz, zy - yz, xz - zx, yx - xy], axis=-1),
            np.stack([zy - yz, 1.0 + xx - yy - zz, xy + yx, xz + zx], axis=-1),
            np.stack([xz - zx, xy + yx, 1.0 - xx + yy - zz, yz + zy], axis=-1),
            np.stack([yx - xy, xz + zx, yz + zy, 1.0 - xx - yy + zz], axis=-1),
        ],
        axis=-2,
    )
    best = np.argmax(np.diagonal(four, axis1=-2, axis2=-1), axis=-1)
    q = np.take_along_axis(four, best[..., None, None], axis=-2)[..., 0, :]
    found: np.ndarray = q / np.linalg.norm(q, axis=-1, keepdims=True)
    return found


def _continuous(q: np.ndarray) -> np.ndarray:
    """Of the two quaternions of each rotation the one that is closer to the one before; the first with w >= 0."""
    signs = np.where(np.sum(q[1:] * q[:-1], axis=-1) < 0.0, -1.0, 1.0)
    first = 1.0 if q[0, 0] >= 0.0 else -1.0
    return q * (first * np.cumprod(np.concatenate([[1.0], signs])))[:, None]


def _rotations(q: np.ndarray) -> np.ndarray:
    """(..., 3, 3) of quaternions w, x, y, z."""
    w, x, y, z = np.moveaxis(q, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
