"""How far elementary functions are from the truth, which is MPFR with 200 digits.

Run as a script it prints the table: function, precision, range, largest error in ulp, operations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import gmpy2
import numpy as np

import condyle as cd

Points = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Format:
    """A floating-point format: digits, exponent of the smallest number, exponent of the overflow, limit of angles."""

    dtype: Any
    digits: int
    lowest: int
    highest: int
    angle: int


FORMATS = {"f64": Format(np.float64, 53, -1074, 1024, 44), "f32": Format(np.float32, 24, -149, 128, 15)}
BOOL = gmpy2.context(precision=200, emin=gmpy2.get_emin_min(), emax=gmpy2.get_emax_max())
ONE_ARGUMENT = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
}
POWERS = [1 / 3, -2 / 3, 2.5, 5.0, -7.0, 0.1, 100.0, -33.3, 1000.5, 1e-3]
NAMES = [*ONE_ARGUMENT, "atan2", *(f"pow {p:.4g}" for p in POWERS)]
RANGES = {
    "sin": "|x| < {angle}",
    "cos": "|x| < {angle}",
    "tan": "|x| < {angle}",
    "asin": "|x| <= 1",
    "acos": "|x| <= 1",
    "atan2": "all",
    "exp": "all",
    "log": "all",
    "tanh": "all",
    "pow": "normal results",
}


@cache
def function(name: str) -> cd.Function:
    """The compiled function; powers are called "pow 0.3333"."""
    if name == "atan2":
        return cd.function(lambda y, x: np.arctan2(y, x), y=(), x=())
    if name.startswith("pow"):
        return cd.function(lambda x: x ** power(name), x=())
    return cd.function(lambda x: ONE_ARGUMENT[name](x), x=())


def power(name: str) -> float:
    """The power in a name such as "pow 0.3333"."""
    return POWERS[NAMES.index(name) - NAMES.index("atan2") - 1]


def ulp_error(computed: float, exact: Any, form: Format) -> float:
    """|computed - exact| in units of the last place that the exact value has in the format."""
    if math.isnan(computed) or gmpy2.is_nan(exact):
        return 0.0 if math.isnan(computed) and gmpy2.is_nan(exact) else math.inf
    # an infinite result stands for the number at which the format overflows, and so does a larger truth
    end = BOOL.exp2(form.highest)
    value = math.copysign(1, computed) * end if math.isinf(computed) else gmpy2.mpfr(computed)
    exact = BOOL.minus(end) if exact < -end else min(exact, end)
    exponent = gmpy2.frexp(exact)[0] if exact else form.lowest
    unit = BOOL.exp2(max(exponent - form.digits, form.lowest))
    return float(abs(BOOL.sub(value, exact)) / unit)


class Worst(NamedTuple):
    """The largest error, and where it is."""

    ulp: float
    at: tuple[float, ...]
    computed: float


def measure(name: str, precision: str, points: Points) -> Worst:
    """The largest error of a function over some points."""
    form = FORMATS[precision]
    computed = function(name)(*points)
    assert computed.dtype == form.dtype
    exact = getattr(BOOL, name.split()[0])
    extra = (gmpy2.mpfr(power(name)),) if name.startswith("pow") else ()
    worst = Worst(-1.0, (), math.nan)
    for value, *x in zip(computed.tolist(), *(p.tolist() for p in points), strict=True):
        error = ulp_error(value, exact(*map(gmpy2.mpfr, x), *extra), form)
        if error > worst.ulp:
            worst = Worst(error, tuple(x), value)
    return worst


def points(name: str, precision: str, count: int, seed: int = 0) -> Points:
    """About `count` points over the useful range, random ones and hard ones."""
    form, rng, n = FORMATS[precision], np.random.default_rng(seed), count // 4

    def spread(low: float, high: float) -> np.ndarray:
        return np.exp2(rng.uniform(low, high, n)) * rng.choice([-1.0, 1.0], n)

    def around(values: Any) -> np.ndarray:
        near = np.asarray(values).astype(form.dtype)
        return np.concatenate([near, *(np.nextafter(near, form.dtype(way)) for way in (-np.inf, np.inf))])

    whole = np.arange(form.lowest, form.highest - 1.0)
    anything = spread(form.lowest, form.highest - 1e-3)
    parts: Any
    match name.split()[0]:
        case "sin" | "cos" | "tan":
            quarters = np.concatenate([np.arange(1.0, 200.0), np.rint(np.exp2(rng.uniform(8, form.angle - 1, n)))])
            parts = [rng.uniform(-7, 7, n), spread(-30, form.angle), around(quarters * (np.pi / 4)), next_to_quarter_turns(form)]
            parts += [anything[abs(anything) < 1], [0.0, -0.0]]
        case "asin" | "acos":
            parts = [rng.uniform(-1, 1, n), np.sign(anything) - spread(-form.digits, -1), anything[abs(anything) < 1]]
            parts += [around([0.5, -0.5]), [1.0, -1.0, 0.0, -0.0]]
            parts = [np.clip(np.concatenate(parts), -1, 1)]
        case "exp":
            low, high = form.lowest * math.log(2) - 1, form.highest * math.log(2) + 1
            parts = [rng.uniform(low, high, n), rng.uniform(-1, 1, n), rng.uniform(low, low + 20, n), anything]
            parts += [around((whole + 0.5) * math.log(2)), around(whole * math.log(2)), around([low + 1, high - 1])]
        case "log":
            parts = [abs(anything), 1 + spread(-form.digits, -1), rng.uniform(0.5, 2, n)]
            parts += [around(np.exp2(whole)), around(np.exp2(whole + 0.5))]
        case "tanh":
            parts = [rng.uniform(-1, 1, n), rng.uniform(-25, 25, n), anything, spread(-5, 2)]
        case "atan2":
            angle = rng.uniform(-np.pi, np.pi, n)
            ratio = np.exp2(rng.uniform(-3, 0, n))
            y = np.concatenate([np.sin(angle), anything, ratio * anything, 1 - spread(-20, -1)]).astype(form.dtype)
            x = np.concatenate([np.cos(angle), rng.permutation(anything), anything, np.ones(n)]).astype(form.dtype)
            return y, x
        case _:
            p = power(name)
            # the result is a normal number
            ends = sorted([(form.lowest + form.digits) / p, (form.highest - 0.01) / p])
            low, high = max(ends[0], form.lowest), min(ends[1], form.highest - 0.01)
            near = np.exp2(np.clip(spread(-form.digits, 0), low, high))
            parts = [np.exp2(rng.uniform(low, high, n)), np.exp2(rng.uniform(max(low, -1.0), min(high, 1.0), n)), near]
    return (np.concatenate(parts).astype(form.dtype),)


def next_to_quarter_turns(form: Format) -> np.ndarray:
    """The numbers of each binade below the limit that come closest to a multiple of pi / 2, by continued fractions."""
    half_pi = Fraction(*map(int, BOOL.div_2exp(BOOL.const_pi(), 1).as_integer_ratio()))
    found = set()
    for exponent in range(1 - form.digits, form.angle - form.digits + 1):
        x = half_pi / Fraction(2) ** exponent
        (p0, q0), (p1, q1) = (1, 0), (math.floor(x), 1)
        while p1 < 2**form.digits:
            found.add(math.ldexp(p1, exponent))
            x = 1 / (x - math.floor(x))
            (p0, q0), (p1, q1) = (p1, q1), (math.floor(x) * p1 + p0, math.floor(x) * q1 + q0)
    numbers = [x for x in sorted(found) if x < 2.0**form.angle]
    return np.array(numbers + [-x for x in numbers])


def main(count: int = 100_000) -> None:
    """Print the table."""
    print(f"{'function':12} {'':4} {'range':18} {'max ulp':>7} {'operations':>10}")
    for name in NAMES:
        for precision, form in FORMATS.items():
            worst = measure(name, precision, points(name, precision, count))
            where = RANGES[name.split()[0]].format(angle=f"2^{form.angle}")
            operations = function(name).lowered(precision).operations
            print(f"{name:12} {precision:4} {where:18} {worst.ulp:7.3f} {operations:10}")
    pair = cd.function(lambda x: (np.sin(x), np.cos(x)), x=())
    print("sin and cos of one angle:", *(f"{pair.lowered(p).operations} operations ({p})" for p in FORMATS))


if __name__ == "__main__":
    main()
