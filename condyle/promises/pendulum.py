"""A driven pendulum in plain NumPy. It is chaotic: one wrong bit anywhere would end in another picture."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from condyle.tape.function import Function, function
from condyle.tape.loop import loop, scan

TURN = 2.0 * np.pi
QUALITY, PUSH, DRIVE = 10.0, 1.2, 2.0 / 3.0  # damping 1/QUALITY, drive PUSH cos(DRIVE t), time in units of sqrt(l/g)
STEPS, PERIODS = 48, 10  # Runge-Kutta steps in one period of the drive; periods of the million states
LONG, SHORT, FINE = 40, 6, 240  # the single orbits: periods seen at their ends; periods seen at each of FINE steps


def slope(x: Any, phase: Any) -> Any:
    """Angle'' = PUSH cos(phase) - sin(angle) - angle' / QUALITY, for the state x = (angle, rate)."""
    angle, rate = x
    return np.array([rate, PUSH * np.cos(phase) - np.sin(angle) - rate / QUALITY])


def step(i: Any, x: Any, steps: int = STEPS) -> Any:
    """The state one step later, by the classical Runge-Kutta rule; time is the whole number i, `steps` to a period."""
    h = TURN / DRIVE / steps
    begin, middle, end = ((i + part) * (TURN / steps) for part in (0.0, 0.5, 1.0))
    k1 = slope(x, begin)
    k2 = slope(x + 0.5 * h * k1, middle)
    k3 = slope(x + 0.5 * h * k2, middle)
    k4 = slope(x + h * k3, end)
    return x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def period(x: Any) -> Any:
    """The state one period of the drive later, the angle brought back to -pi ... pi."""
    angle, rate = loop(step, x, STEPS)
    return np.array([angle - TURN * np.rint(angle / TURN), rate])


def pendulum(x: Any) -> Any:
    """The state PERIODS periods later."""
    return loop(lambda _, x: period(x), x, PERIODS)


def orbit(x: Any) -> Any:
    """The states at every step of SHORT periods, and at the beginning of each of LONG periods."""
    _, fine = scan(lambda i, x, _: (step(i, x, FINE), x), x, count=SHORT * FINE)
    _, coarse = scan(lambda i, x, _: (period(x), x), x, count=LONG)
    return {"fine": fine, "coarse": coarse}


@cache
def compiled(name: str) -> Function:
    """One of the functions above, compiled."""
    return function({"period": period, "pendulum": pendulum, "orbit": orbit}[name], x=2)


def states(count: int) -> np.ndarray:
    """`count` states spread evenly over angles -pi ... pi and rates -2.5 ... 2.5, by a rule that any backend repeats exactly."""
    n = np.arange(count, dtype=np.float64)
    # the two numbers of Roberts' low-discrepancy sequence, cut to 24 bits: products below 2^53 are exact
    spread = np.stack([n * 12664746.0, n * 9559930.0], axis=1) % 2.0**24 / 2.0**23 - 1.0
    return spread * np.array([np.pi, 2.5])
