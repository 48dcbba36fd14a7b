"""What the compiler guarantees, checked with a driven pendulum, which is chaotic: one wrong bit gives another result."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from condyle.apps.demos.checks import Check, Progress, silent
from condyle.errors import MissingExtraError, require
from condyle.tape.function import Function, function
from condyle.tape.loop import loop

TURN = 2.0 * np.pi
QUALITY, DRIVE_TORQUE, DRIVE = 10.0, 1.2, 2.0 / 3.0  # damping 1/QUALITY, torque cos(DRIVE t), time in units of sqrt(l/g)
STEPS, PERIODS = 48, 10  # Runge-Kutta steps in one period of the drive; periods
MANY = 4099  # states: whole blocks of every lane width, and a remainder
BITS = 512  # of the mpfr backend


def derivative(x: Any, phase: Any) -> Any:
    """(angle', angle'') with  angle'' = DRIVE_TORQUE cos(phase) - sin(angle) - angle' / QUALITY."""
    angle, rate = x
    return np.array([rate, DRIVE_TORQUE * np.cos(phase) - np.sin(angle) - rate / QUALITY])


def step(i: Any, x: Any, steps: int = STEPS) -> Any:
    """The state one step later, by the classical Runge-Kutta method; time is the integer i, `steps` to a period."""
    h = TURN / DRIVE / steps
    begin, middle, end = ((i + part) * (TURN / steps) for part in (0.0, 0.5, 1.0))
    k1 = derivative(x, begin)
    k2 = derivative(x + 0.5 * h * k1, middle)
    k3 = derivative(x + 0.5 * h * k2, middle)
    k4 = derivative(x + h * k3, end)
    return x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def period(x: Any) -> Any:
    """The state one period of the drive later, the angle within -pi ... pi."""
    angle, rate = loop(step, x, STEPS)
    return np.array([angle - TURN * np.rint(angle / TURN), rate])


def pendulum(x: Any) -> Any:
    """The state PERIODS periods later."""
    return loop(lambda _, x: period(x), x, PERIODS)


@cache
def compiled(traced: Callable[[Any], Any] = pendulum) -> Function:
    """`pendulum` or `period`, compiled."""
    return function(traced, x=2)


def states(count: int) -> np.ndarray:
    """`count` states spread evenly over angles -pi ... pi and rates -2.5 ... 2.5, with the same bits everywhere."""
    n = np.arange(count, dtype=np.float64)
    # the two numbers of Roberts' low-discrepancy sequence, cut to 24 bits: products below 2^53 are exact
    spread = np.stack([n * 12664746.0, n * 9559930.0], axis=1) % 2.0**24 / 2.0**23 - 1.0
    return np.asarray(spread * np.array([np.pi, 2.5]))


def digest(outputs: np.ndarray) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the bits."""
    return hashlib.sha256(np.ascontiguousarray(outputs).tobytes()).hexdigest()[:16]


# -- checks


def run(path: object = None, *, progress: Progress = silent) -> None:
    """The compiler has no run."""


def same_bits(name: str, found: dict[str, str], what: str) -> Check:
    """A check that all digests are equal."""
    equal = len(set(found.values())) == 1
    detail = f"{what}: {next(iter(found.values()))}" if equal else ", ".join(f"{key}: {bits}" for key, bits in found.items())
    return Check("same bits", name, float(not equal), high=0.0, detail=detail)


def checks(run: object = None) -> Iterator[Check]:
    """Same bits for every lane width, batch size, thread count and backend; a derivative and an interval against 512 bits."""
    f, x = compiled(), states(MANY)
    for dtype, lanes in ((np.float64, (1, 2, 4, 8)), (np.float32, (1, 2, 4, 8, 16))):
        found = {f"{n} lanes": digest(f.on("cpu", lanes=n)(x.astype(dtype))) for n in lanes}
        yield same_bits(f"lanes {', '.join(map(str, lanes))} in {dtype.__name__}", found, f"{MANY:,} states")
    found = {f"batches of {n}": digest(np.concatenate([f(x[k : k + n]) for k in range(0, 192, n)])) for n in (1, 3, 192)}
    yield same_bits("batches of 1, 3, 192", found, "192 states")
    found = {f"{n} threads": digest(f.on("cpu", threads=n)(np.tile(x, (4, 1)))) for n in (1, 2, 3)}
    yield same_bits("1, 2, 3 threads", found, f"{4 * MANY:,} states")
    found = {backend: digest(f.on(backend)(x[:1])) for backend in ("cpu", "reference")}
    yield same_bits("cpu and reference backend", found, f"{f.operations:,} operations")
    for name, check in (("jacobian - central differences", _derivative), ("interval holds the 512-bit result", _interval)):
        try:
            yield check(name)
        except MissingExtraError as error:
            yield Check("accuracy", name, None, detail=str(error))


def _derivative(name: str) -> Check:
    """The Jacobian through the loop against central differences of the function with a step of 2^-170, in 512 bits."""
    gmpy2 = require("gmpy2", "precision", "the mpfr backend")
    f, x, h = compiled(period), np.array([0.5, -0.25]), 2.0**-170
    precise, exact = f.on(f"mpfr:{BITS}"), f.jacobian().on(f"mpfr:{BITS}")(x)
    with gmpy2.context(precision=BITS):
        start = np.array([gmpy2.mpfr(entry) for entry in x])
        columns = [(precise(start + h * d) - precise(start - h * d)) / (2.0 * h) for d in np.eye(2, dtype=int)]
        error = float(max(abs(np.stack(columns, axis=1) - exact).ravel()) / max(abs(exact).ravel()))
    return Check("accuracy", name, error, high=1e-80)


def _interval(name: str) -> Check:
    """A certified interval for one period holds the 512-bit result."""
    f, x, outside = compiled(period), np.array([0.5, -0.25]), 0
    balls = f.on("interval")(x)
    for ball, value in zip(balls, f.on(f"mpfr:{BITS}")(x), strict=True):
        low, high = (Fraction(int(m)) * Fraction(2) ** int(e) for m, e in (end.man_exp() for end in (ball.lower(), ball.upper())))
        outside += not low <= Fraction(*map(int, value.as_integer_ratio())) <= high
    return Check("accuracy", name, float(outside), high=0.0, detail=f"radius {max(float(b.rad()) for b in balls):.0e}")
