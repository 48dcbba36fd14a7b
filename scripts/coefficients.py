"""Prints condyle/tape/coefficients.py: the numbers by which elementary functions are computed, for float64 and float32.

    python scripts/coefficients.py > condyle/tape/coefficients.py

Polynomials are minimax (Remez exchange) in 60-digit arithmetic, then rounded.
"""

from collections.abc import Callable
from itertools import pairwise

from mpmath import asin, atan, atanh, cos, exp, fadd, log, lu_solve, matrix, mp, mpf, pi, sin, sqrt

mp.dps = 60
Function = Callable[[mpf], mpf]

# field of the table: what it is
FIELDS = {
    "digits": "binary digits of the precision",
    "angle_scale": "2^e that makes an angle overflow from the limit of sin, cos and tan on",
    "two_over_pi": "2 / pi / angle_scale",
    "ones": "added and subtracted: rounds to whole numbers",
    "fours": "added and subtracted: rounds to multiples of four",
    "half_pi_cut": "pi / 2 in three parts, each cut towards zero",
    "half_pi": "pi / 2 in two parts, each rounded",
    "sin": "(sin r / r - 1) / r^2, powers of r^2, |r| < pi / 4",
    "cos": "(cos r - 1 + r^2 / 2) / r^4, powers of r^2, |r| < pi / 4",
    "asin": "(asin s / s - 1) / s^2, powers of s^2, |s| <= 1/2",
    "atan": "(atan t / t - 1) / t^2, powers of t^2, |t| <= 1",
    "log2_e": "1 / log 2",
    "log_2": "log 2 in two parts",
    "exp": "(exp r - 1 - r) / r^2, powers of r, |r| < log(2) / 2",
    "exp_range": "below the first exp is zero, above the second infinite",
    "tanh_end": "tanh(x / 2) is 1 from here on",
    "log_shift": "number of binary digits that make subnormal numbers normal",
    "log": "(log((1 + s) / (1 - s)) / s - 2) / s^2, powers of s^2, |s| < 0.172",
    "log2_first": "2 / log 2, the factor of s in log2((1 + s) / (1 - s)), in two parts",
    "log2_third": "2 / (3 log 2), the factor of s^3, in two parts",
    "log2_rest": "the factors of s^5, s^7, ...",
    "exp2": "(2^r - 1) / r, powers of r, |r| < 1/2",
    "exp2_end": "2^y is infinite from here on, and 2^-y zero",
}


def fit(target: Function, weight: Function, low: mpf, high: mpf, powers: range) -> list[mpf]:
    """Coefficients c with the least max |weight(x) (target(x) - sum_j c_j x^powers_j)| over low < x < high."""
    n = len(powers)
    count = 30 * (n + 1)
    grid = [(low + high - (high - low) * cos(pi * (i + 0.5) / count)) / 2 for i in range(count)]
    data = [(x, target(x), weight(x)) for x in grid]
    chosen = data[15::30]
    for _ in range(12):
        # the error takes the same size with alternating signs at n + 1 points ...
        rows = [[w * x**j for j in powers] + [(-1) ** i] for i, (x, _, w) in enumerate(chosen)]
        c = list(lu_solve(matrix(rows), matrix([w * y for _, y, w in chosen])))[:n]
        errors = [w * (y - sum(a * x**j for a, j in zip(c, powers, strict=True))) for x, y, w in data]
        # ... which move to the peaks between its changes of sign
        starts = [0] + [i for i in range(1, count) if errors[i] * errors[i - 1] < 0] + [count]
        peaks = [max(range(a, b), key=lambda i: abs(errors[i])) for a, b in pairwise(starts)]
        if len(peaks) != n + 1 or chosen == [data[i] for i in peaks]:
            break
        chosen = [data[i] for i in peaks]
    return c


def polynomial(target: Function, weight: Function, low: mpf, high: mpf, count: int, digits: int) -> list[float]:
    """`count` rounded coefficients, lowest first."""
    return [nearest(a, digits) for a in fit(target, weight, low, high, range(count))]


def nearest(x: mpf, digits: int, rounding: str = "n") -> float:
    """x rounded to `digits` binary digits."""
    return float(fadd(x, 0, prec=digits, rounding=rounding))


def parts(x: mpf, digits: int, count: int, rounding: str = "n") -> list[float]:
    """Floats that add up to x, each rounded from what the ones before leave."""
    out: list[float] = []
    for _ in range(count):
        out.append(nearest(x - sum(map(mpf, out)), digits, rounding))
    return out


def table(digits: int, angle_limit: int, counts: dict[str, int]) -> dict[str, int | float | list[float]]:
    """All numbers for a precision; sin, cos and tan are defined below 2^angle_limit; `counts` are numbers of coefficients."""

    def even(function: Function, start: mpf, name: str, high: mpf) -> list[float]:
        # f(x) = x (start + z g(z)) with z = x^2; the error of z g(z) is what counts
        def g(z: mpf) -> mpf:
            return (function(sqrt(z)) / sqrt(z) - start) / z

        return polynomial(g, lambda z: z, mpf(0), high**2, counts[name], digits)

    bias = {53: 1023, 24: 127}[digits]
    angle_scale = mpf(2) ** (bias + 1 - angle_limit)
    quarter = pi / 4 * mpf("1.001")  # the rounding of x * 2 / pi leaves a little more than pi / 4
    half = log(2) / 2 * mpf("1.001")
    s = (sqrt(2) - 1) / (sqrt(2) + 1)
    log2_first, log2_third = parts(2 / log(2), digits, 2), parts(2 / (3 * log(2)), digits, 2)

    def log2_rest(z: mpf) -> mpf:
        x = sqrt(z)
        return ((2 * atanh(x) / log(2) / x - sum(map(mpf, log2_first))) / z - sum(map(mpf, log2_third))) / z

    return {
        "digits": digits,
        "angle_scale": float(angle_scale),
        "two_over_pi": nearest(2 / pi / angle_scale, digits),
        "ones": 1.5 * 2.0 ** (digits - 1),
        "fours": 1.5 * 2.0 ** (digits + 1),
        "half_pi_cut": parts(pi / 2, digits, 3, "d"),
        "half_pi": parts(pi / 2, digits, 2),
        "sin": even(sin, 1, "sin", quarter),
        "cos": polynomial(lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, lambda z: z**2, mpf(0), quarter**2, counts["cos"], digits),
        "asin": even(asin, 1, "asin", mpf(0.5)),
        "atan": even(atan, 1, "atan", mpf("1.002")),  # so that atan2(1, 1) comes out as pi / 4 rounded, in both precisions
        "log2_e": nearest(1 / log(2), digits),
        "log_2": parts(log(2), digits, 2),
        "exp": polynomial(lambda r: (exp(r) - 1 - r) / r**2, lambda r: mpf(1), -half, half, counts["exp"], digits),
        "exp_range": {53: [-746.0, 710.0], 24: [-104.5, 89.0]}[digits],
        "tanh_end": {53: 40.0, 24: 20.0}[digits],
        "log_shift": float(digits + 1),
        "log": even(lambda x: 2 * atanh(x), 2, "log", s),
        "log2_first": log2_first,
        "log2_third": log2_third,
        "log2_rest": polynomial(log2_rest, lambda z: z**2, mpf(0), s**2, counts["log2"], digits),
        "exp2": polynomial(lambda r: (2**r - 1) / r, lambda r: mpf(1), mpf(-0.5), mpf(0.5), counts["exp2"], digits),
        "exp2_end": {53: 1100.0, 24: 160.0}[digits],
    }


HEAD = '''"""The numbers by which elementary functions are computed. Printed by scripts/coefficients.py, which says how."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Coefficients:
    """The numbers for one precision; every one is exact in it. Polynomials start with the lowest power."""
'''


def tables() -> dict[str, dict[str, int | float | list[float]]]:
    """The numbers of both precisions."""
    return {
        "F64": table(53, 44, {"sin": 6, "cos": 6, "asin": 12, "atan": 20, "exp": 10, "log": 7, "log2": 8, "exp2": 11}),
        "F32": table(24, 15, {"sin": 3, "cos": 3, "asin": 5, "atan": 9, "exp": 5, "log": 3, "log2": 3, "exp2": 6}),
    }


def main() -> None:
    printed = tables()
    print(HEAD)
    for field, meaning in FIELDS.items():
        value = printed["F64"][field]
        kind = "tuple[float, ...]" if isinstance(value, list) else type(value).__name__
        print(f"    {field}: {kind}  # {meaning}")
    print("\n\n# fmt: off")
    for name, numbers in printed.items():
        print(f"{name} = Coefficients(")
        for field in FIELDS:
            value = numbers[field]
            if isinstance(value, list):
                rows = [", ".join(map(repr, value[k : k + 5])) for k in range(0, len(value), 5)]
                value = "(" + (",\n" + " " * (len(field) + 6)).join(rows) + ")"
            print(f"    {field}={value},".replace("e+", "e"))
        print(")")
    print("# fmt: on")


if __name__ == "__main__":
    main()
