"""Exact steps of linear equations over one tick, for inputs that are constant within it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from condyle.tape.array import where

SERIES = 0.25  # below this |x|, cos(sqrt(x)) and sin(sqrt(x)) / sqrt(x) are series with an error below rounding
SHORTEST = 1e-30  # s: a lag of zero acts like this one, at once


def decay(dt: Any, lag: Any) -> Any:
    """exp(-dt / lag): the fraction of an initial value that a first-order lag keeps over dt; 0 for a lag of 0."""
    return np.exp(-(dt / np.maximum(lag, SHORTEST)))


def mean_decay(dt: Any, lag: Any) -> Any:
    """The mean of exp(-t / lag) over 0 <= t <= dt:  (1 - exp(-a)) / a  with a = dt / lag."""
    a = dt / np.maximum(lag, SHORTEST)
    small = where(a < 1e-3, a, 0.0)
    large = where(a < 1e-3, 1.0, a)
    series = 1.0 - small * (0.5 - small * (1.0 / 6.0 - small * (1.0 / 24.0 - small * (1.0 / 120.0))))
    return where(a < 1e-3, series, (1.0 - np.exp(-large)) / large)


class Transition(NamedTuple):
    """exp(A dt) of  e'' + 2 zeta omega e' + omega^2 e = 0  on (e, e')."""

    ee: Any
    er: Any
    re: Any
    rr: Any

    def applied(self, e: Any, rate: Any) -> tuple[Any, Any]:
        """(e, e') one tick later."""
        return self.ee * e + self.er * rate, self.re * e + self.rr * rate


def second_order(omega: Any, zeta: Any, dt: Any) -> Transition:
    """The matrix exponential for any damping ratio zeta >= 0, without loss of digits near the critical one.

    With  a = zeta omega  and  D = omega^2 - a^2:
    exp(A t) = exp(-a t) [[C + a S, S], [-omega^2 S, C - a S]],  C = cos(sqrt(D) t),  S = sin(sqrt(D) t) / sqrt(D).
    """
    a = zeta * omega
    x = omega * omega * (1.0 - zeta) * (1.0 + zeta) * (dt * dt)
    # oscillation
    angle = np.sqrt(np.maximum(x, SERIES))
    fading = np.exp(-(a * dt))
    cosine, sine = fading * np.cos(angle), fading * np.sin(angle) / angle
    # two real poles, -a -+ b: the slow one is omega^2 / (a + b), which has no difference of large numbers
    b_t = np.sqrt(np.maximum(-x, SERIES))
    fast = a * dt + b_t
    slow = np.exp(-(omega * omega * (dt * dt) / np.maximum(fast, SHORTEST)))
    quick = np.exp(-fast)
    # between them
    near = np.minimum(np.maximum(x, -SERIES), SERIES)
    even, odd = _series(near)
    C = where(x > SERIES, cosine, where(x < -SERIES, 0.5 * (slow + quick), fading * even))
    S = where(x > SERIES, sine, where(x < -SERIES, 0.5 * (slow - quick) / b_t, fading * odd)) * dt
    return Transition(C + a * S, S, -(omega * omega) * S, C - a * S)


def _series(x: Any) -> tuple[Any, Any]:
    """(cos(sqrt(x)), sin(sqrt(x)) / sqrt(x)) for |x| <= SERIES, negative x included."""
    even: Any = 0.0
    odd: Any = 0.0
    for k in range(8, 0, -1):
        even = (1.0 + even) * (x * (-1.0 / ((2 * k - 1) * (2 * k))))
        odd = (1.0 + odd) * (x * (-1.0 / ((2 * k) * (2 * k + 1))))
    return 1.0 + even, 1.0 + odd
