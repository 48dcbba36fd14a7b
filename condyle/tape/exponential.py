"""exp, log, tanh and powers out of exact operations: at most 2 ulp, no branches, the same bits on every backend.

`c` holds the numbers of a precision (coefficients.py). The code is the same for all precisions. Wherever rounding matters
the fma is written out, so that later contraction finds nothing to change.
"""

from __future__ import annotations

import math
from typing import Any

from condyle.tape.coefficients import Coefficients
from condyle.tape.scalar import Scalar, emit


def fma(a: Any, b: Any, c: Any) -> Scalar:
    """a * b + c, rounded once."""
    y: Scalar = emit("fma", a, b, c)
    return y


def polynomial(x: Scalar, coefficients: tuple[float, ...]) -> Scalar:
    """coefficients[0] + coefficients[1] x + ..., by Horner's rule."""
    *rest, y = coefficients
    value: Any = y
    for a in reversed(rest):
        value = fma(value, x, a)
    return value  # type: ignore[no-any-return]


def fast_two_sum(a: Any, b: Any) -> tuple[Scalar, Scalar]:
    """(s, e) with s = a + b rounded and s + e = a + b exactly, if |a| >= |b| or a is a multiple of the last digit of b."""
    s = a + b
    return s, b - (s - a)


def two_product(a: Any, b: Any) -> tuple[Scalar, Scalar]:
    """(p, e) with p = a b rounded and p + e = a b exactly."""
    p = a * b
    return p, fma(a, b, -p)


def scale(x: Scalar, k: Scalar) -> Scalar:
    """x 2^k for a whole number k, rounded once; in two steps, because 2^k alone may over- or underflow."""
    half = emit("floor", k * 0.5)
    y: Scalar = x * emit("pow2", half) * emit("pow2", k - half)
    return y


def exp(x: Scalar, c: Coefficients) -> Scalar:
    """e^x = 2^k e^r with r = x - k log 2."""
    low, high = c.exp_range
    x = emit("min", emit("max", x, low), high)
    k = fma(x, c.log2_e, c.ones) - c.ones
    # the first step is exact: r has no more digits than the last one of log 2 allows
    r = fma(k, -c.log_2[1], fma(k, -c.log_2[0], x))
    return scale(polynomial(r, (1.0, 1.0, *c.exp)), k)


def tanh(x: Scalar, c: Coefficients) -> Scalar:
    """tanh x = e / (e + 2) with e = exp(2 |x|) - 1, and the sign of x."""
    y = emit("min", abs(x) * 2.0, c.tanh_end)
    k = fma(y, c.log2_e, c.ones) - c.ones
    r1 = fma(k, -c.log_2[0], y)
    r = fma(k, -c.log_2[1], r1)
    r_low = fma(k, -c.log_2[1], r1 - r)

    # e = 2^k (1 + r + r^2 q(r)) - 1, and what rounding left of it
    power = emit("pow2", k)
    e, e_low = fast_two_sum(power - 1.0, power * r)
    e, e_low = fast_two_sum(e, fma(power, fma(r * r, polynomial(r, c.exp), r_low), e_low))
    d, d_low = fast_two_sum(2.0, e)

    # e / d, to first order in the low parts with 1 / d = (1 - e / d) / 2; or 1 - 2 / d, where they do not count
    large = e > 2.0
    t = large.where(-2.0, e) / d
    t = t + large.where(1.0, fma(-t, d_low, e_low) * fma(t, -0.5, 0.5))
    return emit("copysign", t, x)


def split(x: Scalar, c: Coefficients) -> tuple[Scalar, Scalar]:
    """(m, k) with x = m 2^k, k a whole number and m between 1 / sqrt 2 and sqrt 2, for any positive finite x."""
    # a shift towards the middle of the exponents: subnormal numbers become normal, and 2^-k stays within range
    small = x < 1.0
    x = x * small.where(2.0**c.log_shift, 2.0**-c.log_shift)
    k = emit("logb", x * math.sqrt(2.0))
    return x * emit("pow2", -k), k + small.where(-c.log_shift, c.log_shift)


def log(x: Scalar, c: Coefficients) -> Scalar:
    """log x = k log 2 + log(1 + f), by s = f / (2 + f):  log(1 + f) = f - (f^2/2 - s (f^2/2 + R(s)))  (fdlibm)."""
    m, k = split(x, c)
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    h = 0.5 * f * f
    y = fma(k, c.log_2[0], f - (h - fma(s, fma(z, polynomial(z, c.log), h), k * c.log_2[1])))
    y = (x < math.inf).where(y, x)
    return (x > 0.0).where(y, (x == 0.0).where(-math.inf, math.nan))  # type: ignore[no-any-return]


def log2_pair(x: Scalar, c: Coefficients) -> tuple[Scalar, Scalar]:
    """log2 x as an unevaluated sum of two numbers, for positive finite x."""
    m, k = split(x, c)
    f = m - 1.0
    d, d_low = fast_two_sum(1.0, m)

    # s = (m - 1) / (m + 1) and its square
    reciprocal = 1.0 / d
    s = f * reciprocal
    s_low = fma(-s, d_low, fma(-s, d, f)) * reciprocal
    z, z_low = two_product(s, s)
    z_low = fma(s + s, s_low, z_low)

    # log2 m = s (first + z (third + z rest(z)))
    g, g_low = fast_two_sum(c.log2_third[0], z * polynomial(z, c.log2_rest))
    g_low = g_low + c.log2_third[1]
    v, v_low = two_product(z, g)
    v_low = fma(z, g_low, fma(z_low, g, v_low))
    g, g_low = fast_two_sum(c.log2_first[0], v)
    g_low = g_low + (v_low + c.log2_first[1])
    y, y_low = two_product(s, g)
    y_low = fma(s, g_low, fma(s_low, g, y_low))

    y, e = fast_two_sum(k, y)
    return y, e + y_low


def power(x: Scalar, p: float, c: Coefficients) -> Scalar:
    """x^p = 2^(p log2 |x|) with the special cases of C99's pow, among them the sign of x for odd p."""
    if p == 0.0 or not math.isfinite(p):
        return _power_end(x, p)
    a = abs(x)
    y, y_low = log2_pair(a, c)

    # p may have more digits than the precision; a larger one than 2^64 overflows or underflows like 2^64
    q = math.copysign(min(abs(p), 2.0**64), p)
    mantissa, exponent = math.frexp(q)
    p1 = math.ldexp(round(math.ldexp(mantissa, c.digits)), exponent - c.digits)
    t, t_low = two_product(y, p1)
    t_low = fma(y, q - p1, fma(y_low, p1, t_low))

    # 2^t = 2^k 2^r
    t_low = (abs(t) < c.exp2_end).where(t_low, 0.0)
    t = emit("min", emit("max", t, -c.exp2_end), c.exp2_end)
    k = emit("rint", t)
    r = (t - k) + t_low
    result = scale(polynomial(r, (1.0, *c.exp2)), k)

    at_zero, at_infinity = (0.0, math.inf) if p > 0.0 else (math.inf, 0.0)
    result = (a == 0.0).where(at_zero, (a == math.inf).where(at_infinity, result))
    if p == math.floor(p):
        return result if p % 2.0 == 0.0 else emit("copysign", result, x)
    return ((x < 0.0) & (-math.inf < x)).where(math.nan, result)  # type: ignore[no-any-return]


def _power_end(x: Scalar, p: float) -> Scalar:
    """x^p for the powers 0, infinity and NaN."""
    if p == 0.0:
        return Scalar(x.graph, x.graph.const(1.0))
    a = abs(x)
    if math.isnan(p):
        return (x == 1.0).where(1.0, math.nan)  # type: ignore[no-any-return]
    below, above = (0.0, math.inf) if p > 0.0 else (math.inf, 0.0)
    return (a == 1.0).where(1.0, (a < 1.0).where(below, (a > 1.0).where(above, x)))  # type: ignore[no-any-return]
