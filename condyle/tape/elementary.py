"""Elementary functions out of exact operations: at most 2 ulp, no branches, the same bits on every backend.

`c` holds the numbers of a precision (coefficients.py); the code is the same for all. Wherever rounding matters the fma is
written out, so that later contraction finds nothing to change. sin and cos of one angle share expressions, so the pair costs
little more than one of them. Angles from 2^44 (f64) or 2^15 (f32) on carry little information, their neighbours being 1/256 or
more away: their sine, cosine and tangent are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from condyle.tape.coefficients import F32, F64, Coefficients
from condyle.tape.scalar import Bool, Scalar, emit


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


# ---- angles


def quadrant(x: Scalar, c: Coefficients) -> tuple[Scalar, Scalar]:
    """(k, q): k is x / (pi/2) as a whole number, q its remainder by 4, between -2 and 2. Beyond the limit q is NaN."""
    scaled = x * c.angle_scale
    # a zero k is +0, and so r keeps the sign of a zero x
    k = fma(scaled, c.two_over_pi, c.ones) - c.ones
    return k, k - (fma(scaled, c.two_over_pi, c.fours) - c.fours)


def sine(r: Scalar, c: Coefficients) -> tuple[Scalar, Scalar]:
    """(r^3, p) with sin r = r + r^3 p, for |r| <= pi/4."""
    z = r * r
    return r * z, polynomial(z, c.sin)


def cosine(r: Scalar, c: Coefficients) -> tuple[Scalar, Scalar]:
    """(r^2, p) with cos r = 1 + r^2 p, for |r| <= pi/4."""
    z = r * r
    return z, polynomial(z, (-0.5, *c.cos))


def sin_cos(x: Scalar, c: Coefficients) -> tuple[Scalar, Scalar]:
    """(sin x, cos x)."""
    k, q = quadrant(x, c)
    # the first step is exact: r has no more digits than the last one of pi/2 allows
    r = fma(k, -c.half_pi_cut[0], x)
    r = fma(k, -c.half_pi_cut[1], r)
    r = fma(k, -c.half_pi_cut[2], r)
    s = emit("copysign", fma(*sine(r, c), r), r)
    t = fma(*cosine(r, c), 1.0)

    # sin(r + q pi/2) = even s + odd t, cos(r + q pi/2) = even t - odd s, where one of the factors is 0 and one is 1 or -1
    even = 1.0 - abs(q)
    odd = (even == 0.0).where(q, -0.0)
    return fma(odd, t, even * s), fma(-odd, s, even * t)


def sin(x: Scalar, c: Coefficients) -> Scalar:
    """sin x."""
    return sin_cos(x, c)[0]


def cos(x: Scalar, c: Coefficients) -> Scalar:
    """cos x."""
    return sin_cos(x, c)[1]


def tan(x: Scalar, c: Coefficients) -> Scalar:
    """tan x = sin r / cos r or -cos r / sin r, all of them in two parts."""
    k, q = quadrant(x, c)
    r1 = fma(k, -c.half_pi_cut[0], x)
    w, w_low = two_product(k, c.half_pi_cut[1])
    r2, r2_low = fast_two_sum(r1, -w)
    r, r_low = fast_two_sum(r2, fma(k, -c.half_pi_cut[2], r2_low - w_low))

    cube, p = sine(r, c)
    square, q2 = cosine(r, c)
    s = fma(cube, p, r)
    t = fma(square, q2, 1.0)
    s_low = fma(r_low, t, fma(cube, p, r - s))
    t_low = fma(-r_low, s, fma(square, q2, 1.0 - t))

    odd = abs(q) == 1.0
    n, n_low = odd.where(-t, s), odd.where(-t_low, s_low)
    d, d_low = odd.where(s, t), odd.where(s_low, t_low)
    reciprocal = 1.0 / d
    y = n * reciprocal
    y = fma(fma(-y, d, n) + fma(-y, d_low, n_low), reciprocal, y)
    return (x == 0.0).where(x, y)  # type: ignore[no-any-return]


def _half_angle(x: Scalar, c: Coefficients) -> tuple[Bool, Scalar, Scalar, Scalar]:
    """(outer, root, z, p): asin s = s + s z p for s = x, z = x^2 if |x| <= 1/2, else for s = root, z = (1 - |x|) / 2."""
    a = abs(x)
    outer = a > 0.5
    half = fma(a, -0.5, 0.5)
    z = outer.where(half, x * x)
    return outer, emit("sqrt", half), z, polynomial(z, c.asin)


def _sum(base: Any, base_low: Any, s: Scalar, z: Scalar, p: Scalar) -> Scalar:
    """base + s + s z p, rounded once but for the last term, if |base| >= |s| or base = 0."""
    v, e = fast_two_sum(base, s)
    y: Scalar = v + (fma(s * z, p, base_low) + e)
    return y


def asin(x: Scalar, c: Coefficients) -> Scalar:
    """asin |x| = pi/2 - 2 asin(sqrt((1 - |x|) / 2)) beyond 1/2, and the sign of x."""
    outer, root, z, p = _half_angle(x, c)
    s = outer.where(-2.0 * root, abs(x))
    y = _sum(outer.where(c.half_pi[0], 0.0), outer.where(c.half_pi[1], 0.0), s, z, p)
    return emit("copysign", y, x)


def acos(x: Scalar, c: Coefficients) -> Scalar:
    """acos x = pi/2 - asin x within 1/2; 2 asin(sqrt((1 - |x|) / 2)) beyond, or pi minus that for a negative x."""
    outer, root, z, p = _half_angle(x, c)
    s = outer.where(emit("copysign", 2.0 * root, x), -x)
    # quarter turns: 0 beyond 1/2, 1 within, 2 beyond -1/2
    n = outer.where(1.0 - emit("copysign", 1.0, x), 1.0)
    return _sum(n * c.half_pi[0], n * c.half_pi[1], s, z, p)


def atan2(y: Scalar, x: Scalar, c: Coefficients) -> Scalar:
    """The angle of the point (x, y): n pi/2 +- atan t with t = min / max of |x| and |y|, and the sign of y."""
    ax, ay = abs(x), abs(y)
    steep = ax < ay
    n, d = steep.where(ax, ay), steep.where(ay, ax)
    # equal ones may be two zeros, which count as 0 / 1, or two infinities
    t = (n == d).where((d == 0.0).where(0.0, 1.0), n / d)

    # quarter turns, and which way t counts from there
    side = emit("copysign", 1.0, x)
    turns = steep.where(1.0, 1.0 - side)
    s = steep.where(-side, side) * t
    z = t * t
    low = fma(s * z, polynomial(z, c.atan), turns * c.half_pi[1])
    return emit("copysign", fma(turns, c.half_pi[0], s + low), y)


# ---- exponentials


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


# op -> (arguments, data, coefficients) -> the same in exact operations
_BY_NAME = (sin, cos, tan, asin, acos, atan2, exp, log, tanh)
LOWER: dict[str, Callable[..., Scalar]] = {**{function.__name__: function for function in _BY_NAME}, "pow": power}
PRECISIONS = {"f64": F64, "f32": F32}
