"""The checks of correctness, and the measurements of speed."""

from __future__ import annotations

import json
from fractions import Fraction
from time import perf_counter, process_time
from typing import Any

import numpy as np

from condyle.errors import require
from condyle.promises.bits import digest, elsewhere
from condyle.promises.pendulum import compiled, states
from condyle.promises.result import Result
from condyle.tape.array import fma
from condyle.tape.function import Function, function

MILLION = 1_000_000
DIGITS = 512  # bits of the precise backend
EXACT = 1e-80  # a derivative and a central difference with a step of 2^-170, both in 512 bits, agree to about step^2
ROUNDING = 1e-12  # the same algorithm in float64, relative to the largest entry


def derivative() -> Result:
    """The Jacobian through the loop, against central differences of the function itself in 512 bits."""
    gmpy2 = require("gmpy2", "precision", "the mpfr backend")
    f = compiled("period")
    x, h = np.array([0.5, -0.25]), 2.0**-170
    precise, true = f.on(f"mpfr:{DIGITS}"), f.jacobian().on(f"mpfr:{DIGITS}")(x)
    # sums and quotients of MPFR numbers are rounded by the context around them
    with gmpy2.context(precision=DIGITS):
        start = np.array([gmpy2.mpfr(entry) for entry in x])
        columns = [(precise(start + h * d) - precise(start - h * d)) / (2.0 * h) for d in np.eye(2, dtype=int)]
        size = max(abs(true).ravel())
        exact = float(max(abs(np.stack(columns, axis=1) - true).ravel()) / size)
        rounded = float(max(abs(f.jacobian()(x) - true).ravel()) / size)
    detail = f"off by {rounded:.0e} in float64, by {exact:.0e} in {DIGITS} bits"
    return Result(exact < EXACT and rounded < ROUNDING, detail, {"difference_512_bits": exact, "difference_float64": rounded})


def enclosure() -> Result:
    """A certified interval for one period of the pendulum holds the 512-bit result."""
    f = compiled("period")
    x = np.array([0.5, -0.25])
    balls, true = f.on("interval")(x), f.on(f"mpfr:{DIGITS}")(x)
    held = all(_holds(ball, y) for ball, y in zip(balls, true, strict=True))
    width = max(float(ball.rad()) for ball in balls)
    word = "holds" if held else "misses"
    return Result(held, f"radius {width:.0e}, {word} the {DIGITS}-bit result", {"radius": width})


def _holds(ball: Any, value: Any) -> bool:
    """Whether a ball holds an MPFR number: the number is an exact fraction."""
    numerator, denominator = value.as_integer_ratio()
    low, high = (Fraction(int(m)) * Fraction(2) ** int(e) for m, e in (end.man_exp() for end in (ball.lower(), ball.upper())))
    return bool(low <= Fraction(int(numerator), int(denominator)) <= high)


def compile_times(sizes: tuple[int, ...]) -> Result:
    """Seconds to trace and compile straight tapes, in a process without a cache."""
    found = elsewhere(f"from condyle.promises.numbers import compile_child; compile_child({sizes})", CONDYLE_CACHE="off")
    detail = ", ".join(f"{int(n):,} operations in {traced + made:.1f} s" for n, (traced, made) in found.items())
    return Result(True, detail, {"seconds_trace_and_compile": found})


def compile_child(sizes: tuple[int, ...]) -> None:
    """Print {operations: [seconds to trace, seconds to compile]} as JSON."""
    function(lambda x: x, x=1).kernel()  # start LLVM
    found = {}
    for size in sizes:
        start = perf_counter()
        f = straight(size)
        traced = perf_counter()
        f.kernel()
        found[f.operations] = [traced - start, perf_counter() - traced]
    print(json.dumps(found))


def straight(size: int) -> Function:
    """A function of `size` operations without a loop, each using recent and older results."""

    def lines(x: Any) -> Any:
        values = list(x)
        for k in range(size):
            a, b, c = values[-1], values[-7], values[(k * 7919) % len(values)]
            values.append(fma(a, 0.25, b) if k % 2 else a - c)
        return np.array(values[-8:])

    return function(lines, x=8)


def million() -> tuple[Result, np.ndarray]:
    """(result, final states) of a million pendulums."""
    f, x = compiled("pendulum"), states(MILLION)
    f(x[:1])  # compiled before the clock starts
    start, busy = perf_counter(), process_time()
    y = f(x)
    seconds, cores = perf_counter() - start, process_time() - busy
    cores /= seconds  # fewer than the threads when other programs want the processor too
    rate, operations = MILLION / seconds, MILLION * f.operations / seconds
    detail = f"{rate:,.0f} states/s, {operations / 1e9:.1f} billion operations/s on {cores:.2f} cores: {digest(y)}"
    numbers = {
        "states_per_second": rate,
        "operations_per_second": operations,
        "operations_per_state": f.operations,
        "seconds": seconds,
        "cores": cores,
        "states_per_core_second": rate / cores,
        "threads": f.threads,
        "lanes": f.lanes(),
        "digest": digest(y),
    }
    return Result(bool(np.isfinite(y).all()), detail, numbers), y


def call_overhead() -> Result:
    """Seconds for one call on one small state, copies in and out included."""
    f = function(lambda x, u: x + 0.5 * u, x=3, u=3)
    x, u = np.ones(3), np.ones(3)
    f(x, u)
    f(x, u)
    best = min(_seconds(f, x, u) for _ in range(20))
    return Result(True, f"{1e6 * best:.2f} microseconds on one state", {"seconds_per_call": best})


def _seconds(f: Function, x: np.ndarray, u: np.ndarray, calls: int = 1000) -> float:
    start = perf_counter()
    for _ in range(calls):
        f(x, u)
    return (perf_counter() - start) / calls
