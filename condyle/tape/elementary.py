"""sin, cos, tan, asin, acos and atan2 out of exact operations, and the table of all elementary functions.

At most 2 ulp, no branches, the same bits on every backend. `c` holds the numbers of a precision (coefficients.py); the
code is the same for all. sin and cos of one angle are written over shared expressions, so the pair costs little more than
one of them. Angles from 2^44 (f64) or 2^15 (f32) on carry little information, their neighbours being 1/256 or more away:
their sine, cosine and tangent are NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from condyle.tape.coefficients import F32, F64, Coefficients
from condyle.tape.exponential import exp, fast_two_sum, fma, log, polynomial, power, tanh, two_product
from condyle.tape.scalar import Bool, Scalar, emit


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


# op -> (arguments, data, coefficients) -> the same in exact operations
LOWER: dict[str, Callable[..., Scalar]] = {
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "asin": asin,
    "acos": acos,
    "atan2": atan2,
    "exp": exp,
    "log": log,
    "tanh": tanh,
    "pow": power,
}
PRECISIONS = {"f64": F64, "f32": F32}
