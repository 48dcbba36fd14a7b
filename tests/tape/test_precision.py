"""The interpreting backends: the reference, MPFR against closed forms, and intervals that hold what MPFR computes."""

import math
import threading

import flint
import gmpy2
import numpy as np
import pytest
from flint import arb
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from markers import slow_except
from tape.evaluation import interpreted, on, reference
from tape.random_tapes import inputs_for, random_tapes, same_bits

from condyle.errors import BackendError, ShapeError
from condyle.tape.array import array, fma, where
from condyle.tape.backends.interface import find_backend
from condyle.tape.backends.interval import Interval
from condyle.tape.backends.mpfr import Mpfr
from condyle.tape.interpret import Ieee
from condyle.tape.loop import loop, scan
from condyle.tape.ops import INT, OPS
from condyle.tape.scalar import emit
from condyle.tape.trace import trace

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e300, -1e-300, 5e-324, math.inf, -math.inf, math.nan]


def mpfr(tape, *inputs, bits=256):
    """The outputs of one state, as lists."""
    return [out[0].tolist() for out in on(f"mpfr:{bits}", tape, [np.array([x], dtype=object) for x in inputs])]


# ---- any arithmetic


def test_ports_are_flattened_row_after_row() -> None:
    def f(A, s):
        _, rows = scan(lambda i, c, row: (c + row[0], array([[c, row[1]], [i, s]])), s, A)
        return {"B": A.T, "rows": rows}

    tape = trace(f, A=(3, 2), s=())
    A = np.arange(12.0).reshape(2, 6)
    s = np.array([[10.0], [20.0]])
    B, rows = reference(tape, [A, s])
    assert tape.outputs[1].table
    assert tape.outputs[1].shape == (3, 2, 2)
    np.testing.assert_array_equal(B[1].reshape(2, 3), A[1].reshape(3, 2).T)
    np.testing.assert_array_equal(rows[0], [10, 1, 0, 10, 10, 3, 1, 10, 12, 5, 2, 10])
    assert [out.shape for out in (B, rows)] == [(2, 6), (2, 12)]


def test_the_reference_takes_its_precision_from_the_arrays() -> None:
    tape = trace(lambda x: x / 3.0, x=2)
    x = np.array([[1.0, 2.0]])
    for dtype in (np.float64, np.float32):
        (out,) = reference(tape, [x.astype(dtype)])
        assert same_bits(out, x.astype(dtype) / dtype(3.0))
    assert reference(tape, [np.empty((0, 2))])[0].shape == (0, 2)


def test_wrong_inputs_are_named() -> None:
    tape = trace(lambda x, y: x + y, x=2, y=2)
    good = np.zeros((3, 2))
    for bad in ([good], [good, np.zeros((3, 3))], [good, np.zeros((2, 2))], [good, np.zeros(2)]):
        for backend in ("reference", "mpfr:100", "interval"):
            with pytest.raises(ShapeError, match=r"x \(N, 2\), y \(N, 2\)"):
                on(backend, tape, bad)
    for backend in ("mpfr:1", "interval:1"):
        with pytest.raises(BackendError, match="bits"):
            on(backend, tape, [good, good])


@pytest.mark.parametrize(
    "name", ["", "gpu", "mpfr", "mpfr:", "mpfr:many", "mpfr:0", "interval:0", "interval:", "cpu:64", "reference:53"]
)
def test_names_of_no_backend(name: str) -> None:
    with pytest.raises(BackendError, match="there are 'cpu', 'cuda', 'reference', 'mpfr:BITS'"):
        find_backend(name)


# ---- MPFR


@pytest.mark.parametrize("bits", [256, 512])
def test_closed_forms(bits: int) -> None:
    c = gmpy2.context(precision=bits)
    tiny = gmpy2.mpfr(2) ** (3 - bits)

    def identities(x):
        half = np.sin(x) ** 2 + np.cos(x) ** 2
        return array(
            [
                half - 1.0,
                np.exp(np.log(x)) / x - 1.0,
                4.0 * np.arctan2(x, x),
                np.arcsin(1.0 / x) + np.arccos(1.0 / x),
                np.tanh(x) - (1.0 - 2.0 / (np.exp(2.0 * x) + 1.0)),
                np.tan(x) * np.cos(x) / np.sin(x) - 1.0,
                x**1.7 / np.exp(1.7 * np.log(x)) - 1.0,
                np.sqrt(x) ** 2 / x - 1.0,
            ]
        )

    ((a, b, pi, half_pi, d, e, f, g),) = mpfr(trace(identities, x=()), [3.75], bits=bits)
    assert all(x.precision == bits for x in (a, b, pi, half_pi, d, e, f, g))
    assert all(abs(x) < tiny for x in (a, b, d, e, f, g))
    assert abs(c.sub(pi, c.const_pi())) < 4 * tiny
    assert abs(c.sub(c.mul(2, half_pi), c.const_pi())) < 4 * tiny


def test_series_in_a_loop() -> None:
    """e as a sum of 120 terms agrees with exp(1) to 512 bits, and so does a table of its partial sums."""

    def e(one):
        def term(i, state, _):
            total, t = state
            return (total + t, t / (i + 1.0)), total

        (total, _), sums = scan(term, (0.0 * one, one), count=120)
        return total, sums

    (total,), sums = mpfr(trace(e, one=()), [1.0], bits=512)
    exact = gmpy2.context(precision=512).exp(gmpy2.mpfr(1))
    assert abs(total - exact) < gmpy2.mpfr(2) ** -505
    assert len(sums) == 120
    assert sums[2] == 2


def test_exact_operations_at_53_bits_are_those_of_ieee() -> None:
    """Without overflow and subnormal numbers the two arithmetics are one; signs of zeros and NaN included."""
    ieee, ours = Ieee(), Mpfr(53)
    values = [x for x in SPECIAL if x not in (1e300, 5e-324)] + [1.0 / 3.0, -1e10, 0.1, 7.5]
    for name, function in ieee.functions.items():
        if name in ("pow2", "logb", "and", "or", "not", "select") or INT in OPS[name].takes:
            continue
        arity = len(OPS[name].takes)
        for args in np.stack(np.meshgrid(*[values] * arity), axis=-1).reshape(-1, arity).tolist():
            want, got = function(*args), ours.functions[name](*[ours.number(x) for x in args])
            if isinstance(want, bool):
                assert got == want
            elif not (name == "copysign" and args[1] != args[1]):
                assert same_bits(float(got), float(want)), (name, args, got, want)


def test_powers_of_two() -> None:
    a = Mpfr(100)
    for x, want in ((3.0, 8.0), (-4.0, 0.0625), (0.5, math.sqrt(2.0)), (math.inf, math.inf), (-math.inf, 0.0)):
        assert float(a.functions["pow2"](a.number(x))) == want
    for x, want in ((10.0, 3), (-0.75, -1), (5e-324, -1074), (0.0, -math.inf), (-math.inf, math.inf), (8.0, 3)):
        assert float(a.functions["logb"](a.number(x))) == want
    assert math.isnan(a.functions["logb"](a.number(math.nan)))
    # far outside of float64, nothing is clamped
    big = a.functions["pow2"](a.number(1e6))
    assert a.functions["logb"](big) == 1_000_000


def test_inputs_may_be_exact() -> None:
    tape = trace(lambda x: x * 3.0, x=())
    third = gmpy2.context(precision=400).div(gmpy2.mpfr(1), gmpy2.mpfr(3))
    ((got,),) = mpfr(tape, [third], bits=300)
    assert got == 1
    assert mpfr(tape, [2])[0][0] == 6
    assert mpfr(tape, [np.float32(0.5)])[0][0] == 1.5


def test_the_callers_context_is_left_alone() -> None:
    tape = trace(lambda x: np.exp(x) / 3.0, x=())
    with gmpy2.context(precision=17, round=gmpy2.RoundUp, trap_divzero=True) as context:
        (a,) = mpfr(tape, [1.0])[0]
        mpfr(trace(lambda x: 1.0 / x, x=()), [0.0])
        assert gmpy2.get_context() is context
        assert (context.precision, context.round, context.divzero, context.inexact) == (17, gmpy2.RoundUp, False, False)
    assert a == mpfr(tape, [1.0])[0][0]


def test_threads_with_different_precisions() -> None:
    tape = trace(lambda x: loop(lambda i, y: np.sin(y) + x, x, 200), x=())
    x = [np.array([[1.0]])]
    backends = ["mpfr:60", "mpfr:300", "interval:60", "interval:300"]
    alone = [str(on(b, tape, x)[0][0, 0]) for b in backends]
    before = flint.ctx.prec
    found: list[list[str]] = [[] for _ in backends]

    def work(k: int) -> None:
        found[k] += [str(on(backends[k], tape, x)[0][0, 0]) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(backends))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[one] * 5 for one in alone]
    assert flint.ctx.prec == before


# ---- intervals


def interval(tape, *inputs, bits=53):
    return [out[0].tolist() for out in on(f"interval:{bits}", tape, [np.array([x], dtype=object) for x in inputs])]


def one(f, ball):
    """The ball of a function of one number."""
    return interval(trace(lambda x: f(x), x=()), [ball])[0][0]


def point(x) -> arb:
    """A finite mpfr as an exact ball."""
    mantissa, exponent = x.as_mantissa_exp()
    return arb(int(mantissa)) * arb(2) ** int(exponent) if abs(exponent) < 10**9 else arb((int(mantissa), int(exponent)))


def holds(ball, x) -> bool:
    """Whether a ball contains a number, which may be infinite or NaN."""
    if ball.is_nan():
        return True
    if gmpy2.is_nan(x):
        return False
    if gmpy2.is_infinite(x):
        return ball.is_exact() and ball == arb("inf" if x > 0 else "-inf")
    with flint.ctx.workprec(2000):
        return bool(ball.contains(point(x)))


@pytest.mark.parametrize("elementary", slow_except([True], [False, True]), ids=["exact", "elementary"])
@pytest.mark.parametrize("special", slow_except([False], [False, True]), ids=["tame", "special"])
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(data=st.data())
def test_balls_hold_what_mpfr_computes(data, elementary: bool, special: bool) -> None:
    tape = data.draw(random_tapes(elementary=elementary))
    inputs = data.draw(inputs_for(tape, special=special, most=1))
    true = Mpfr(300)
    want = interpreted(tape, inputs, true)
    # beyond MPFR's exponents its results are no longer those of real numbers
    assume(not true.context.overflow and not true.context.underflow)
    for bits in (53, 20):
        balls = on(f"interval:{bits}", tape, inputs)
        for port, a, b in zip(tape.outputs, balls, want, strict=True):
            for ball, x in zip(a[0], b[0], strict=True):
                assert holds(ball, x), f"{port.name}: {x} is not in {ball}\n{tape}"


def test_every_operation_on_special_values() -> None:
    true, ours = Mpfr(300), Interval(53)
    with ours.working():
        for name, function in ours.functions.items():
            if name in ("and", "or", "not", "select") or INT in OPS[name].takes:
                continue
            arity = len(OPS[name].takes)
            for args in np.stack(np.meshgrid(*[SPECIAL] * arity), axis=-1).reshape(-1, arity).tolist():
                for data in (1.7, -0.3, 5.0, -4.0, 0.0) if name == "pow" else (None,):
                    extra = () if data is None else (data,)
                    ball = function(*[ours.number(x) for x in args], *extra)
                    x = true.functions[name](*[true.number(x) for x in args], *extra)
                    if isinstance(x, (bool, int)):
                        assert ball in (x, None), (name, args, ball)
                    else:
                        assert holds(ball, x), (name, args, data, ball, x)


def test_balls_are_tight() -> None:
    """A few hundred roundings cost a few digits, not all of them; more bits, more digits."""

    def f(x):
        y = loop(lambda i, y: y + 0.01 * (np.sin(y) - np.exp(-y * y)), x, 100)
        return y * y / (1.0 + y**4)

    tape = trace(f, x=())
    for bits in (53, 100, 400):
        ((ball,),) = interval(tape, [0.3], bits=bits)
        assert ball.rel_accuracy_bits() > bits - 15
    # what is exact stays a point
    tape = trace(lambda x: array([x * 3.0 + 1.0, np.floor(x), np.rint(x), np.minimum(x, 2.0), abs(-x), x**3]), x=())
    assert all(ball.is_exact() for ball in interval(tape, [2.5])[0])


def test_jumps_and_corners() -> None:
    def ends(ball):
        return float(ball.lower()), float(ball.upper())

    close = {"abs": 1e-8}
    for f, ball, low, high in [
        (np.floor, arb(2.0, 0.5), 1, 2),
        (np.floor, arb(2.5, 0.25), 2, 2),
        (np.floor, arb(-1e-30), -1, -1),
        (np.rint, arb(2.5), 2, 2),
        (np.rint, arb(3.5, 0.1), 3, 4),
        (np.rint, arb(-0.5, 1e-20), -1, 0),
        (np.rint, arb(2) ** -100000, 0, 0),
        (abs, arb(1.0, 2.0), 0, 3),
        (lambda x: np.minimum(x, 0.5), arb(1.0, 1.0), 0, 0.5),
        (lambda x: np.maximum(x, 0.5), arb(1.0, 1.0), 0.5, 2),
        (lambda x: np.copysign(2.0, x), arb(0.0, 1.0), -2, 2),
        (lambda x: np.copysign(2.0, x), arb(0.0), -2, 2),
        (lambda x: np.copysign(x, -3.0), arb(1.0, 0.5), -1.5, -0.5),
        (lambda x: np.copysign(0.125, x), arb(5.0, 1.0), 0.125, 0.125),
        (lambda x: where(x <= x, where(x < x, -1.0, 5.0), -1.0), arb(0.0, 1.0), 5, 5),
        (lambda x: where(x < 0.0, -1.0, 5.0), arb(0.0, 1.0), -1, 5),
        (lambda x: where((x < 0.0) & (x > 9.0), -1.0, 5.0), arb(0.0, 1.0), 5, 5),
        (lambda x: where((x < 0.0) | (x < 9.0), -1.0, 5.0), arb(0.0, 1.0), -1, -1),
        (lambda x: where(~(x <= 2.0), -1.0, 5.0), arb(0.0, 1.0), 5, 5),
        (lambda x: where(x == 0.0, 1.0, 2.0), arb(0.0), 1, 1),
        (lambda x: where(x == 3.0, 1.0, 2.0), arb(0.0, 1.0), 2, 2),
        (lambda x: emit("logb", x), arb(4.0, 1.0), 1, 2),
        (lambda x: np.arctan2(x, -1.0), arb(0.0), -math.pi, math.pi),
        (lambda x: np.arctan2(x, 1.0), arb(0.0), 0, 0),
    ]:
        assert ends(one(f, ball)) == (pytest.approx(low, **close), pytest.approx(high, **close)), (f, ball)


def test_two_numbers_in_one_ball_are_two_numbers() -> None:
    ball = arb(0.0, 1.0)
    ((chosen, difference),) = interval(trace(lambda x: array([where(x[0] == x[1], 1.0, 2.0), x[0] - x[1]]), x=2), [ball, ball])
    assert chosen.contains(1)
    assert chosen.contains(2)
    assert difference.contains(1.5)


def test_what_is_undefined_says_so() -> None:
    for f, ball in [
        (lambda x: 1.0 / x, arb(0.0)),
        (lambda x: 1.0 / x, arb(0.0, 1e-9)),
        (np.sqrt, arb(1.0, 2.0)),
        (np.log, arb(0.0)),
        (np.arcsin, arb(1.0, 0.1)),
        (np.cos, arb("inf")),
        (lambda x: x - x, arb("inf")),
        (lambda x: np.minimum(x, 1.0), arb("nan")),
        (lambda x: where(x < 1.0, 2.0, x), arb("nan")),
        (lambda x: x * 0.5, arb(0.0, math.inf)),
    ]:
        assert one(f, ball).is_nan(), (f, ball)


def test_flints_precision_is_restored() -> None:
    tape = trace(lambda x: x / 3.0, x=())
    with flint.ctx.workprec(71):
        assert interval(tape, [1.0], bits=200)[0][0].rel_accuracy_bits() > 195
        assert flint.ctx.prec == 71
        with pytest.raises(TypeError):
            interval(tape, [object()])
        assert flint.ctx.prec == 71


def test_an_enclosure_of_a_cancellation() -> None:
    """Where float64 is wrong in every digit, the ball says so, and more bits settle it (Rump 1988)."""

    def rump(a, b):
        b2 = b * b
        b4 = b2 * b2
        b6 = b4 * b2
        return 333.75 * b6 + a * a * (11.0 * a * a * b2 - b6 - 121.0 * b4 - 2.0) + 5.5 * b4 * b4 + a / (2.0 * b)

    tape = trace(rump, a=(), b=())
    exact = -54767 / 66192
    assert abs(interval(tape, [77617.0], [33096.0])[0][0].rad()) > 1e10
    with flint.ctx.workprec(400):
        assert interval(tape, [77617.0], [33096.0], bits=200)[0][0].contains(arb(-54767) / 66192)
    assert float(mpfr(tape, [77617.0], [33096.0], bits=200)[0][0]) == pytest.approx(exact, rel=1e-15)
    assert float(mpfr(trace(lambda x: fma(x, x, -1.0), x=()), [1.0 + 2.0**-52], bits=53)[0][0]) == 2.0**-51 + 2.0**-104
