"""What holds for sums of products although they are contracted to fma, and whether a number is finite, on every backend."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tape.random_tapes import SPECIAL32, SPECIAL64, same_bits
from tape.test_export_c import COMPILERS, build, call

import condyle as cd
from condyle.tape.export.c import c_source

ANY = {np.float64: st.floats() | st.sampled_from(SPECIAL64), np.float32: st.floats(width=32) | st.sampled_from(SPECIAL32)}


def identities(x, y):
    """Each must hold for all numbers: a value against itself, and signs of differences of two products."""
    p = x * y
    same, twice = p - p, p + p
    return {
        "same": same,
        "kept": cd.where(p - p == 0.0, 1.0, -1.0),
        "twice": twice,
        "squares": cd.where(x * x - y * y == 0.0, 1.0, 0.0),
        "not_less": cd.where(x * x - y * y < 0.0, 0.0, 1.0),
        "root": np.sqrt(x * x - y * y),
        "largest": np.maximum(x * 3.0 - y * 3.0, 0.0),
    }


def test_the_rule_still_contracts():
    f = cd.function(lambda x, y, z: x * y + z, x=(), y=(), z=())
    g = cd.function(lambda x, y, z: np.cross(cd.array([x, y, z]), cd.array([y, z, x])), x=(), y=(), z=())
    assert f.operations == 1 and "fma" in f.source("tape")
    assert str(g.lowered()).count("fma") == 3, "differences of products whose sign decides nothing"


def test_a_product_less_itself_is_zero_where_it_is_a_number():
    # the product is only subtracted, as it is in a gradient, where its value is not needed
    f = cd.function(lambda x, y: cd.where(x * y - x * y == 0.0, x, -1.0), x=(), y=())
    x = np.random.default_rng(0).normal(size=64)
    for g in (f, f.on("reference"), f.on("mpfr:53"), f.on("interval")):
        assert np.array_equal(g(x, 0.1).astype(float), x)
    assert f(np.inf, 0.1) == f(np.nan, 0.1) == f(1e300, 1e300) == -1.0
    assert np.array_equal(f.vjp("x")(x, 0.1, 1.0), np.ones(64)), "nor does the gradient take it for the other choice"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@settings(max_examples=150)
@given(data=st.data())
def test_identities(dtype, data):
    x = data.draw(ANY[dtype])
    y = data.draw(st.one_of(st.just(x), st.just(-x), ANY[dtype]))
    with np.errstate(all="ignore"):
        a, b = dtype(x), dtype(y)
        p, squares = a * b, (a * a, b * b)
    out = FUNCTION(a, b)
    for other in OTHERS:
        assert all(same_bits(u, v) for u, v in zip(out, other(a, b), strict=True)), other
    assert (out.same == 0.0 and out.kept == 1.0) if np.isfinite(p) else (np.isnan(out.same) and out.kept == -1.0)
    with np.errstate(all="ignore"):
        assert same_bits(out.twice, dtype(2.0) * p)
    if np.isfinite(squares).all():
        assert out.squares == float(squares[0] == squares[1])
        assert out.not_less == float(squares[0] >= squares[1])
        if abs(x) >= abs(y):
            assert out.root >= 0.0, "a root of a difference that is not negative is a number"
        if x <= y:
            assert out.largest == 0.0


FUNCTION = cd.function(identities, x=(), y=())
OTHERS = [*[FUNCTION.on("cpu", lanes=lanes) for lanes in (1, 2, 4, 8)], FUNCTION.on("reference")]


@pytest.mark.skipif(not COMPILERS, reason="no C compiler")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_identities_in_c(dtype, tmp_path):
    precision = "f64" if dtype is np.float64 else "f32"
    special = np.array(SPECIAL64 if dtype is np.float64 else SPECIAL32, dtype)
    x, y = (a.reshape(-1, 1) for a in np.meshgrid(special, special))
    functions = {"identities": FUNCTION, "kinds": FINITE}
    source = "\n".join(c_source(f.lowered(precision), precision, name) for name, f in functions.items())
    library = build(source, tmp_path, ["-std=gnu17", "-O3", "-march=native"])
    for name, f in functions.items():
        got, want = call(library, name, f.lowered(precision), [x, y]), f.on("reference")(x[:, 0], y[:, 0])
        assert all(same_bits(a[:, 0], b) for a, b in zip(got, want, strict=True))


# ---- isfinite


def kinds(x, y):
    """One where finite, NaN or infinite, and the same of a product."""
    both = cd.array([x, x * y])
    found = {"finite": cd.isfinite(both), "numpy": np.isfinite(both), "nan": np.isnan(both), "inf": np.isinf(both)}
    return {f"{name}{k}": cd.where(is_so[k], 1.0, 0.0) for name, is_so in found.items() for k in range(2)}


FINITE = cd.function(kinds, x=(), y=())
FINITE_ON = [FINITE.on(backend) for backend in ("cpu", "reference", "mpfr:24")]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@settings(max_examples=100)
@given(data=st.data())
def test_isfinite_is_exact(dtype, data):
    x, y = (dtype(data.draw(ANY[dtype])) for _ in range(2))
    with np.errstate(all="ignore"):
        both = x, x * y
    for f in FINITE_ON[: 3 if dtype is np.float32 else 2]:
        out = f(x, y)
        # MPFR has no largest exponent: its products are as finite as their factors
        for k, value in enumerate(both[: 1 if f.backend.startswith("mpfr") else 2]):
            finite, numpy, nan, inf = [float(getattr(out, f"{name}{k}")) for name in ("finite", "numpy", "nan", "inf")]
            assert (finite, numpy, nan, inf) == (np.isfinite(value), np.isfinite(value), np.isnan(value), np.isinf(value))


def test_isfinite_of_enclosures():
    out = FINITE.on("interval")(np.array([1.5, np.inf, -np.inf]), 1.0)
    assert [float(x) for x in out.finite0] == [1.0, 0.0, 0.0] and [float(x) for x in out.inf0] == [0.0, 1.0, 1.0]
    unknown = FINITE.on("interval")(np.nan, 1.0).finite0
    assert unknown.contains(0) and unknown.contains(1), "NaN is a ball that may be anything"


def test_isfinite_in_casadi():
    pytest.importorskip("casadi")
    exported = FINITE.casadi()
    for x in (1.0, -0.0, 1e308, math.inf, -math.inf, math.nan):
        out = dict(zip(exported.name_out(), exported(x, 1.0), strict=True))
        assert [float(out[n]) for n in ("finite0", "nan0", "inf0")] == [math.isfinite(x), math.isnan(x), math.isinf(x)]


def test_isfinite_of_numbers_and_arrays():
    assert cd.isfinite(1.0) and not cd.isfinite(np.nan) and not cd.isfinite(np.float32(np.inf))
    assert np.array_equal(cd.isfinite([[1.0, np.inf], [np.nan, 3]]), [[True, False], [False, True]])
    mixed = cd.function(lambda x: cd.where(cd.isfinite(cd.array([x, np.inf, 2.0])), 1.0, 0.0), x=())
    assert np.array_equal(mixed(np.nan), [0.0, 0.0, 1.0])
    # a plain array of traced values, and one of them
    plain = cd.function(lambda x: cd.where(cd.isfinite(np.array([x[0], x[1]])), x, 0.0), x=2)
    assert np.array_equal(plain(np.array([np.inf, 3.0])), [0.0, 3.0])
    assert cd.function(lambda x: cd.where(np.isfinite(x), x, 0.0), x=())(np.nan) == 0.0


def test_isfinite_has_the_derivative_of_the_choice():
    f = cd.function(lambda x, y: cd.where(cd.isfinite(x * y), x * y, 0.0), x=(), y=())
    assert f.vjp("x")(1.5, 0.1, 1.0) == 0.1 and f.jacobian(wrt="x", mode="forward")(1.5, 0.1) == 0.1
    assert f.vjp("x")(1e300, 1e300, 1.0) == 0.0
