"""Elementary functions against MPFR: at most 2 ulp, exact symmetries, every special value, the same bits on all backends."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
from pathlib import Path

import gmpy2
import numpy as np
import pytest
from accuracy import FORMATS, NAMES, ONE_ARGUMENT, function, measure, points, ulp_error
from hypothesis import given
from hypothesis import strategies as st

import condyle as cd
from condyle.tape.elementary import LOWER, PRECISIONS
from condyle.tape.ops import OPS
from condyle.tape.scalar import emit

LIMIT = 2.0  # ulp
INF, NAN, PI = math.inf, math.nan, math.pi

each_precision = pytest.mark.parametrize("precision", FORMATS)


def call(name: str, precision: str, *args: float) -> float:
    """A function of numbers, computed in a precision."""
    return float(function(name)(*(np.array(x, FORMATS[precision].dtype) for x in args)))


def same(a: float, b: float) -> bool:
    """The same number, sign of zero included, or both NaN."""
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


# -- the measure itself


@pytest.mark.parametrize(
    ("computed", "exact", "error"),
    [
        (1.0, "1", 0.0),
        (1.0 + 2**-52, "1", 1.0),
        (1.0, "0.99999999999999988897769753748434595763683319091796875", 1.0),  # 1 - 2^-53: the last place below 1 is 2^-53
        (1.0 - 2**-53, "1", 0.5),
        (5e-324, "0", 1.0),
        (0.0, "1e-324", 0.2024022533073106),
        (1e-310, "1e-310", 0.0618),
        (INF, "1e400", 0.0),
        (-INF, "-1e400", 0.0),
        (INF, "1.7976931348623157081e308", 1.0),  # the largest number, and a little
        (INF, "1", INF),
        (NAN, "1", INF),
        (1.0, "nan", INF),
        (NAN, "nan", 0.0),
    ],
)
def test_ulp_error(computed: float, exact: str, error: float) -> None:
    found = ulp_error(computed, gmpy2.mpfr(exact, 200), FORMATS["f64"])
    assert found == error or abs(found - error) < 1e-3 or (error == INF and found > 1e15)


# -- accuracy


def test_every_elementary_operation_is_lowered() -> None:
    assert set(LOWER) == {name for name, op in OPS.items() if not op.exact}
    assert set(PRECISIONS) == set(FORMATS)


@each_precision
@pytest.mark.parametrize("name", NAMES)
def test_at_most_two_ulp(name: str, precision: str) -> None:
    worst = measure(name, precision, points(name, precision, 12_000))
    assert 0.3 < worst.ulp <= LIMIT, f"{name}{worst.at} = {worst.computed!r} in {precision} is {worst.ulp:.3f} ulp off"


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_sweep_through_all_of_float32(name: str) -> None:
    # an odd stride meets every exponent and all kinds of last digits; NumPy's float64 functions are exact enough
    x = np.arange(0, 2**32, 4093, dtype=np.uint32).view(np.float32)
    if name in ("sin", "cos", "tan"):
        x = x[abs(x) < 2.0 ** FORMATS["f32"].angle]
    with np.errstate(all="ignore"):
        exact = ONE_ARGUMENT[name](x.astype(np.float64))
    computed = function(name)(x).astype(np.float64)
    assert np.array_equal(np.isnan(exact), np.isnan(computed))
    finite = np.isfinite(exact)
    assert np.array_equal(computed[np.isinf(exact)], exact[np.isinf(exact)])
    assert np.array_equal(np.signbit(computed[finite]), np.signbit(exact[finite]))
    end = 2.0 ** FORMATS["f32"].highest
    exact, computed = np.clip(exact[finite], -end, end), np.clip(computed[finite], -end, end)
    unit = np.ldexp(1.0, np.maximum(np.frexp(exact)[1] - 24, -149))
    assert (abs(computed - exact) <= LIMIT * unit).all()


# -- cost


@pytest.mark.parametrize(("precision", "most"), [("f64", 34), ("f32", 28)])
def test_sin_and_cos_of_one_angle_cost_one(precision: str, most: int) -> None:
    pair = cd.function(lambda x: (np.sin(x), np.cos(x)), x=()).lowered(precision).operations
    assert pair <= most
    assert pair - function("sin").lowered(precision).operations <= 3


# -- symmetry: exact to the last digit

numbers = st.floats(allow_nan=False)
singles = st.floats(allow_nan=False, width=32)


@pytest.mark.parametrize("name", ["sin", "tan", "asin", "tanh"])
@given(x=numbers, y=singles)
def test_odd(name: str, x: float, y: float) -> None:
    assert same(call(name, "f64", -x), -call(name, "f64", x))
    assert same(call(name, "f32", -y), -call(name, "f32", y))


@given(x=numbers, y=singles)
def test_cosine_is_even(x: float, y: float) -> None:
    assert same(call("cos", "f64", -x), call("cos", "f64", x))
    assert same(call("cos", "f32", -y), call("cos", "f32", y))


@given(y=numbers, x=numbers)
def test_the_angle_below_is_that_above(y: float, x: float) -> None:
    assert same(call("atan2", "f64", -y, x), -call("atan2", "f64", y, x))


@given(x=numbers, y=singles)
def test_odd_and_even_powers(x: float, y: float) -> None:
    for precision, value in (("f64", x), ("f32", y)):
        assert same(call("pow -7", precision, -value), -call("pow -7", precision, value))
        assert same(call("pow 100", precision, -value), call("pow 100", precision, value))


@each_precision
def test_results_stay_within_their_range(precision: str) -> None:
    for name, bound in (("sin", 1.0), ("cos", 1.0), ("tanh", 1.0), ("asin", PI / 2), ("acos", PI), ("atan2", PI)):
        y = function(name)(*points(name, precision, 40_000))
        assert abs(y).max() <= np.dtype(y.dtype).type(bound), name


# -- special values

# fmt: off
SPECIAL: dict[str, list[tuple[float, ...]]] = {  # (arguments, result)
    "sin":  [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cos":  [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "tan":  [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1.0, PI / 2), (-1.0, -PI / 2), (1.001, NAN), (-1.001, NAN), (INF, NAN), (NAN, NAN)],
    "acos": [(0.0, PI / 2), (-0.0, PI / 2), (1.0, 0.0), (-1.0, PI), (1.001, NAN), (-1.001, NAN), (-INF, NAN), (NAN, NAN)],
    "exp":  [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (1e30, INF), (-1e30, 0.0), (NAN, NAN)],
    "log":  [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-INF, NAN), (-1.0, NAN), (-1e-40, NAN), (NAN, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (1e30, 1.0), (-30.0, -1.0), (NAN, NAN)],
    "pow 0.3333":  [(0.0, 0.0), (-0.0, 0.0), (1.0, 1.0), (INF, INF), (-INF, INF), (-1.0, NAN), (-1e-40, NAN), (NAN, NAN)],
    "pow -0.6667": [(0.0, INF), (-0.0, INF), (1.0, 1.0), (INF, 0.0), (-INF, 0.0), (-1.0, NAN), (NAN, NAN)],
    "pow 5":       [(0.0, 0.0), (-0.0, -0.0), (1.0, 1.0), (-1.0, -1.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "pow -7":      [(0.0, INF), (-0.0, -INF), (1.0, 1.0), (-1.0, -1.0), (INF, 0.0), (-INF, -0.0), (NAN, NAN)],
    "pow 100":     [(0.0, 0.0), (-0.0, 0.0), (1.0, 1.0), (-1.0, 1.0), (INF, INF), (-INF, INF), (1e30, INF), (1e-30, 0.0)],
    "atan2": [
        (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -0.0, PI), (-0.0, -0.0, -PI),
        (0.0, 2.0, 0.0), (-0.0, 2.0, -0.0), (0.0, -2.0, PI), (-0.0, -2.0, -PI),
        (2.0, 0.0, PI / 2), (2.0, -0.0, PI / 2), (-2.0, 0.0, -PI / 2), (-2.0, -0.0, -PI / 2),
        (2.0, INF, 0.0), (-2.0, INF, -0.0), (2.0, -INF, PI), (-2.0, -INF, -PI),
        (INF, 2.0, PI / 2), (INF, -2.0, PI / 2), (-INF, 2.0, -PI / 2), (-INF, -2.0, -PI / 2),
        (INF, INF, PI / 4), (-INF, INF, -PI / 4), (INF, -INF, 3 * PI / 4), (-INF, -INF, -3 * PI / 4),
        (0.0, INF, 0.0), (-0.0, -INF, -PI), (INF, 0.0, PI / 2), (-INF, -0.0, -PI / 2),
        (NAN, 1.0, NAN), (1.0, NAN, NAN), (NAN, NAN, NAN), (NAN, INF, NAN), (INF, NAN, NAN),
        (0.0, NAN, NAN), (NAN, 0.0, NAN), (NAN, -INF, NAN), (1.0, 1.0, PI / 4), (-1.0, -1.0, -3 * PI / 4),
        (1e38, 1e-38, PI / 2), (-1e-38, -1e38, -PI), (1e-40, 1e-40, PI / 4), (3e38, -3e38, 3 * PI / 4),
    ],
}
# fmt: on


@each_precision
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str, precision: str) -> None:
    for *args, wanted in SPECIAL[name]:
        found = call(name, precision, *args)
        rounded = float(FORMATS[precision].dtype(wanted))
        assert same(found, rounded), f"{name}{tuple(args)} is {found!r} in {precision}, not {rounded!r}"


@each_precision
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_an_angle_without_information_has_no_sine(name: str, precision: str) -> None:
    form = FORMATS[precision]
    limit = form.dtype(2.0**form.angle)
    assert not math.isnan(call(name, precision, np.nextafter(limit, form.dtype(0))))
    for x in (limit, -limit, np.nextafter(limit, form.dtype(np.inf)), 2.0 * limit, np.finfo(form.dtype).max):
        assert math.isnan(call(name, precision, x))


@each_precision
def test_the_ends_of_exp(precision: str) -> None:
    form = FORMATS[precision]
    overflow, underflow = form.highest * math.log(2), (form.lowest - 1) * math.log(2)
    last, first = form.dtype(overflow * (1 - 2e-7)), form.dtype(underflow * (1 - 2e-7))
    assert math.isfinite(call("exp", precision, last)) and call("exp", precision, overflow * (1 + 2e-7)) == INF
    assert call("exp", precision, first) == 2.0**form.lowest and call("exp", precision, underflow * (1 + 2e-7)) == 0.0


@each_precision
def test_subnormal_numbers_keep_their_last_digit(precision: str) -> None:
    form = FORMATS[precision]
    tiny = (2.0**form.lowest * np.arange(1, 1000)).astype(form.dtype)
    for name in ("sin", "tan", "asin", "tanh"):
        assert np.array_equal(function(name)(tiny), tiny), name
    assert np.array_equal(function("atan2")(tiny, np.ones_like(tiny)), tiny)
    # a ratio that underflows
    assert same(call("atan2", precision, -(2.0**form.lowest), 3.0), -0.0)


# a power may be any number, as in C
ENDS = {0.0: [(NAN, 1.0), (INF, 1.0), (2.0, 1.0)], NAN: [(1.0, 1.0), (2.0, NAN), (-1.0, NAN), (NAN, NAN)]}
ENDS[INF] = [(0.5, 0.0), (-0.5, 0.0), (2.0, INF), (-2.0, INF), (1.0, 1.0), (-1.0, 1.0), (INF, INF), (NAN, NAN)]
ENDS[-INF] = [(0.5, INF), (0.0, INF), (2.0, 0.0), (-2.0, 0.0), (1.0, 1.0), (-1.0, 1.0), (-INF, 0.0), (NAN, NAN)]
ENDS[1e300] = [(0.5, 0.0), (2.0, INF), (-2.0, INF), (1.0, 1.0), (-1.0, 1.0), (1.0000002, INF), (0.9999998, 0.0), (NAN, NAN)]
ENDS[-1e-300] = [(0.5, 1.0), (1e30, 1.0), (1e-40, 1.0), (0.0, INF), (INF, 0.0), (-1.0, NAN), (NAN, NAN)]


@each_precision
@pytest.mark.parametrize("p", ENDS)
def test_extreme_powers(p: float, precision: str) -> None:
    f = cd.function(lambda x: emit("pow", x, data=p), x=())
    for x, wanted in ENDS[p]:
        found = float(f(np.array(x, FORMATS[precision].dtype)))
        assert same(found, wanted), f"{x}^{p} is {found!r} in {precision}, not {wanted!r}"


# -- the same bits everywhere


@each_precision
@pytest.mark.parametrize("name", NAMES)
def test_reference_gives_the_same_bits(name: str, precision: str) -> None:
    some = tuple(x[:: len(x) // 25] for x in points(name, precision, 400, seed=1))
    f = function(name)
    assert f(*some).tobytes() == f.on("reference")(*some).tobytes()


@pytest.mark.slow
def test_coefficients_are_those_the_script_prints() -> None:
    pytest.importorskip("mpmath")
    path = Path(__file__).resolve().parents[2] / "scripts" / "coefficients.py"
    if not path.exists():
        pytest.skip("scripts/ is not part of an installed source archive")
    spec = importlib.util.spec_from_file_location("coefficients_script", path)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for printed, ours in zip(script.tables().values(), (PRECISIONS["f64"], PRECISIONS["f32"]), strict=True):
        for field, value in dataclasses.asdict(ours).items():
            wanted = printed[field]
            assert value == (tuple(wanted) if isinstance(wanted, list) else wanted), field
