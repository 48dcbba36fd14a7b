"""Elementary functions of numbers, rounded correctly: the C library's change in the last bit with the processor, these do not.

Each asks the C library first, which knows the errors and the values at zeros and infinities, and then computes with decimals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from typing import Any

DIGITS = 120  # a square of a float is exact, and what cancels leaves far more than the 17 digits of a float
PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798214808651328230664709"
)


def _rounded(by_library: Callable[..., float], exact: Callable[..., Decimal]) -> Callable[..., float]:
    """The function by decimals; by the C library where its value is zero, infinite or NaN, or an argument is."""

    def function(*numbers: Any) -> float:
        first = by_library(*numbers)
        floats = [float(x) for x in numbers]
        if not all(math.isfinite(x) and x != 0.0 for x in (first, *floats)):
            return first
        with localcontext(Context(prec=DIGITS)):
            return float(exact(*[Decimal(x) for x in floats]))

    function.__name__ = by_library.__name__
    return function


def _arctangent(t: Decimal) -> Decimal:
    # atan t = 2 atan(t / (1 + sqrt(1 + t^2))), and a series for what is small
    for _ in range(6):
        t = t / (1 + (1 + t * t).sqrt())
    total, power, square, k = Decimal(0), t, t * t, 1
    while abs(power) > abs(t) * Decimal(10) ** -DIGITS:
        total += power / k
        power, k = -power * square, k + 2
    return total * 64


def _angle(y: Decimal, x: Decimal) -> Decimal:
    """The angle of the point (x, y), neither of them zero."""
    angle = _arctangent(abs(y) / abs(x))
    return (angle if x > 0 else PI - angle).copy_sign(y)


def _logarithm(x: float, *base: float) -> float:
    first = math.log(x, *base)
    if not math.isfinite(first) or first == 0.0:
        return first
    with localcontext(Context(prec=DIGITS)):
        return float(Decimal(x).ln() / Decimal(base[0]).ln() if base else Decimal(x).ln())


def _power(x: float, y: float) -> float:
    first = math.pow(x, y)
    if not math.isfinite(first) or first == 0.0 or x == 0.0 or not (math.isfinite(x) and math.isfinite(y)):
        return first
    with localcontext(Context(prec=DIGITS // 2)):
        return math.copysign(float(Decimal(abs(x)) ** Decimal(y)), first)


_logarithm.__name__, _power.__name__ = "log", "pow"
exp = _rounded(math.exp, lambda x: x.exp())
log = _logarithm
log10 = _rounded(math.log10, lambda x: x.log10())
power = _power
sinh = _rounded(math.sinh, lambda x: x if abs(x) < Decimal("1e-20") else (x.exp() - (-x).exp()) / 2)
cosh = _rounded(math.cosh, lambda x: (x.exp() + (-x).exp()) / 2)
tanh = _rounded(math.tanh, lambda x: x if abs(x) < Decimal("1e-20") else 1 - 2 / ((2 * x).exp() + 1))
atan = _rounded(math.atan, _arctangent)
atan2 = _rounded(math.atan2, _angle)
asin = _rounded(math.asin, lambda x: _angle(x, (1 - x * x).sqrt()) if abs(x) != 1 else PI.copy_sign(x) / 2)
acos = _rounded(math.acos, lambda x: _angle((1 - x * x).sqrt(), x))
