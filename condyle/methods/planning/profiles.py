"""Moves from rest to rest along a straight line in joint space, all joints synchronised: quintic, trapezoidal, jerk-limited.

    move = trapezoidal(q0, q1, speed=2.0, acceleration=2.0)
    move.duration                     # s
    move.at(t)                        # position, velocity, acceleration; t a float, an array, or traced

Every joint is at  q0 + x(t) d  with d = (q1 - q0) / max |q1 - q0|, so one scalar profile x(t) serves all joints, under the limits
min over the joints of limit / |d|. The profiles are symmetric in time, x(T - t) = D - x(t), so only the first half is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from condyle.errors import ControlError
from condyle.tape.array import select

Array = np.ndarray

QUINTIC_SPEED = 15 / 8  # the largest speed of the quintic, times distance / time
QUINTIC_ACCELERATION = 10 / sqrt(3)  # its largest acceleration, times distance / time squared


class Sample(NamedTuple):
    """A motion at a time: position, velocity and acceleration, each with the joints (or x, y, z) along the last axis."""

    position: Any
    velocity: Any
    acceleration: Any


@dataclass(frozen=True)
class Profile:
    """A synchronised move from rest at `start` to rest at `end`, both (..., joints); leading axes are moves."""

    start: Array
    end: Array
    direction: Array  # (end - start) / max |end - start|, zero for a move of length zero
    duration: Any  # s: a float, or one for each move
    begins: tuple[Array, ...]  # s: when the phases of the first half begin, the first at zero
    coefficients: tuple[tuple[Array, ...], ...]  # of each phase: x = c0 + c1 h + c2 h^2 + ... at a time h after its begin

    def at(self, t: Any) -> Sample:
        """Position, velocity and acceleration at time t, s; at rest before 0 and after `duration`.

        t: a float, an array or a traced number for one move, each result (*t.shape, joints); for many moves the last axes of t
        are those of the moves, or t is a float.
        """
        t = t if is_traced(t) else np.asarray(t, dtype=float)
        T = self.duration
        u = np.maximum(np.minimum(t, T - t), 0.0)
        begin, chosen = self.begins[0], self.coefficients[0]
        for after, coefficients in zip(self.begins[1:], self.coefficients[1:], strict=True):
            reached = u >= after
            begin = select(reached, after, begin)
            chosen = tuple(select(reached, new, old) for new, old in zip(coefficients, chosen, strict=True))
        x, v, a = polynomial(chosen, u - begin)
        late = t + t > T
        a = select((t >= 0.0) & (t <= T), select(late, -a, a), 0.0)
        x, v, a, late = (column(each) for each in (x, v, a, late))
        # from the nearer end, so that both ends are exact
        position = select(late, self.end - x * self.direction, self.start + x * self.direction)
        return Sample(position, v * self.direction, a * self.direction)


def quintic(start: Any, end: Any, duration: Any = None, *, speed: Any = None, acceleration: Any = None) -> Profile:
    """The polynomial of degree five, with zero acceleration at both ends:  x = D (10 u^3 - 15 u^4 + 6 u^5), u = t / T.

    T is `duration`, or the shortest that keeps `speed` and `acceleration`:  max(15 D / (8 V), sqrt(10 D / (sqrt(3) A))).
    start, end: (..., joints); limits: a number or one for each joint, rad/s and rad/s^2 (m/s and m/s^2 of prismatic joints).
    """
    if (duration is None) == (speed is None and acceleration is None):
        raise ControlError("a quintic needs either a duration, or a limit of speed or acceleration; give one of the two")
    start, end, direction, D = _line(start, end)
    if duration is None:
        V = _along(direction, speed, "speed", unlimited=acceleration is not None)
        A = _along(direction, acceleration, "acceleration", unlimited=speed is not None)
        T = np.maximum(QUINTIC_SPEED * D / V, np.sqrt(QUINTIC_ACCELERATION * D / A))
    else:
        T = positive(duration, "the duration of a quintic") + np.zeros_like(D)
    rate = np.divide(1.0, T, out=np.zeros_like(D), where=T > 0.0)
    zero = np.zeros_like(D)
    cubic = D * rate**3
    c = (zero, zero, zero, 10.0 * cubic, -15.0 * cubic * rate, 6.0 * cubic * rate**2)
    return Profile(start, end, direction, T[()], (zero,), (c,))


def trapezoidal(start: Any, end: Any, *, speed: Any, acceleration: Any) -> Profile:
    """The fastest move under limits of speed V and acceleration A:  T = D / V + V / A, or 2 sqrt(D / A) where V is not reached.

    start, end: (..., joints); limits: a number or one for each joint; the speed may be infinite.
    """
    start, end, direction, D = _line(start, end)
    V = _along(direction, speed, "speed", unlimited=True)
    A = _along(direction, acceleration, "acceleration")
    v = np.minimum(V, np.sqrt(D * A))
    ramp = v / A
    cruise = _cruise(D, v, ramp)
    zero = np.zeros_like(D)
    phases = ((zero, zero, 0.5 * A * (D > 0.0)), (0.5 * v * ramp, v, zero))
    return Profile(start, end, direction, (2.0 * ramp + cruise)[()], (zero, ramp), phases)


def jerk_limited(start: Any, end: Any, *, speed: Any, acceleration: Any, jerk: Any) -> Profile:
    """The fastest move under limits of speed V, acceleration A and jerk J: seven phases, of which some may have length zero.

    A ramp from rest to speed v takes  r(v) = v / A + A / J, or 2 sqrt(v / J) where A is not reached (v J < A^2), and both ramps
    cover v r(v). The speed is V if V r(V) <= D, else the solution of v r(v) = D, and  T = r(v) + D / v.
    start, end: (..., joints); limits: a number or one for each joint; speed and acceleration may be infinite.
    """
    start, end, direction, D = _line(start, end)
    V = _along(direction, speed, "speed", unlimited=True)
    A = _along(direction, acceleration, "acceleration", unlimited=True)
    J = _along(direction, jerk, "jerk")
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        # v^2 / A + v A / J = D with the acceleration reached, 2 v sqrt(v / J) = D without
        with_plateau = 2.0 * D / (A / J + np.sqrt((A / J) ** 2 + 4.0 * D / A))
        without = np.cbrt(0.25 * D * D * J)
        v = np.minimum(V, np.where(without * J < A * A, without, with_plateau))
        reached = v * J > A * A
        t_jerk = np.where(reached, A / J, np.sqrt(v / J))
        plateau = np.where(reached, np.maximum(v / A - A / J, 0.0), 0.0)
    a = J * t_jerk
    ramp = 2.0 * t_jerk + plateau
    cruise = _cruise(D, v, ramp)
    zero = np.zeros_like(D)
    v1, x1 = 0.5 * a * t_jerk, a * t_jerk**2 / 6.0
    v2, x2 = v1 + a * plateau, x1 + v1 * plateau + 0.5 * a * plateau**2
    phases = (
        (zero, zero, zero, J / 6.0 * (D > 0.0)),
        (x1, v1, 0.5 * a, zero),
        (x2, v2, 0.5 * a, -J / 6.0 * (D > 0.0)),
        (0.5 * v * ramp, v, zero, zero),
    )
    begins = (zero, t_jerk, t_jerk + plateau, ramp)
    return Profile(start, end, direction, (2.0 * ramp + cruise)[()], begins, phases)


# -- values that may be traced


def is_traced(x: Any) -> bool:
    """Whether x is a traced number, or an array of them."""
    return not isinstance(x, (float, int, np.generic)) and np.asarray(x).dtype.kind == "O"


def column(x: Any) -> Any:
    """x with an axis of joints behind its own; a traced number serves all joints as it is."""
    return x[..., None] if isinstance(x, np.ndarray) and x.ndim else x


def polynomial(coefficients: Sequence[Any], h: Any) -> tuple[Any, Any, Any]:
    """c0 + c1 h + c2 h^2 + ... and its first and second derivative, by Horner's rule."""
    c = [*coefficients]
    first = [k * each for k, each in enumerate(c)][1:]
    second = [k * each for k, each in enumerate(first)][1:]
    return _horner(c, h), _horner(first, h), _horner(second, h)


def _horner(coefficients: Sequence[Any], h: Any) -> Any:
    value = coefficients[-1] + 0.0 * h
    for each in coefficients[-2::-1]:
        value = value * h + each
    return value


# -- checks


def _line(start: Any, end: Any) -> tuple[Array, Array, Array, Array]:
    """(start, end, direction, largest distance of a joint) of moves; ControlError if they are not finite or do not match."""
    start, end = finite_array(start, "the start of a move"), finite_array(end, "the end of a move")
    if start.ndim == 0 or end.ndim == 0 or start.shape[-1] != end.shape[-1] or start.shape[-1] == 0:
        raise ControlError(
            f"a move needs as many joints at its start as at its end (last axis); got shapes {start.shape} and {end.shape}"
        )
    try:
        start, end = np.broadcast_arrays(start, end)
    except ValueError:
        raise ControlError(
            f"a start of shape {start.shape} and an end of shape {end.shape} are not the same number of moves"
        ) from None
    d = end - start
    D = np.max(np.abs(d), axis=-1)
    return start, end, d / np.where(D > 0.0, D, 1.0)[..., None], D


def _along(direction: Array, limit: Any, name: str, unlimited: bool = False) -> Array:
    """The limit of x: the least of limit / |direction| over the joints; 1 for a move of length zero."""
    given = positive(np.inf if limit is None and unlimited else limit, f"the limit of {name}", unlimited)
    if given.shape not in ((), (1,), direction.shape[-1:]):
        raise ControlError(
            f"the limit of {name} is one number, or one for each of {direction.shape[-1]} joints; got shape {given.shape}"
        )
    size = np.abs(direction)
    each = np.divide(given, size, out=np.full(size.shape, np.inf), where=size > 0.0)
    return np.where(np.any(size > 0.0, axis=-1), np.min(each, axis=-1), 1.0)


def _cruise(D: Array, v: Array, ramp: Array) -> Array:
    """The time at the full speed v between two ramps that cover v ramp."""
    time: Array = np.maximum(np.divide(D, v, out=np.zeros_like(D), where=v > 0.0) - ramp, 0.0)
    return time


def finite_array(values: Any, name: str) -> Array:
    """The values as an array of finite floats; ControlError otherwise."""
    try:
        given = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ControlError(f"{name} must be an array of numbers; got {values!r:.80}") from None
    if not np.all(np.isfinite(given)):
        raise ControlError(f"{name} must be finite; got {values!r:.80}")
    return given


def positive(values: Any, name: str, unlimited: bool = False) -> Array:
    """The values as an array of positive floats, infinite ones only if `unlimited`."""
    try:
        given = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        given = np.asarray(np.nan)
    if not np.all(given > 0.0) or (not unlimited and not np.all(np.isfinite(given))):
        kind = "positive" if unlimited else "positive and finite"
        raise ControlError(f"{name} must be {kind}; got {values!r:.80}")
    return given
