"""Derivatives, first and second, forward and reverse, through loops: against finite differences at 512 bits."""

import random

import numpy as np
import pytest
from markers import slow_except

import condyle as cd

# ruff: noqa: B023 (loop bodies are traced at once, before the variables they use change)

gmpy2 = pytest.importorskip("gmpy2")

BITS = 512
STEP = 2.0**-150  # central differences: truncation 2^-300, rounding 2^-362, both far below float64
CLOSE = 1e-12  # float64 evaluation of the derivative, relative to the largest entry


# ---- random smooth functions: every differentiable operation, every kind of loop


def smooth_function(seed, loops=True):
    """A random function of x (3,), us (4, 2), h () with outputs y (2,), s (), path (4, 2)."""
    pick = random.Random(seed).randrange

    def unary(a):
        return [
            lambda: np.sin(a),
            lambda: np.cos(a),
            lambda: np.tan(0.5 * np.tanh(a)),
            lambda: np.arcsin(0.5 * np.tanh(a)),
            lambda: np.arccos(0.5 * np.tanh(a)),
            lambda: np.exp(np.tanh(a)),
            lambda: np.log(1.5 + np.sin(a)),
            lambda: np.sqrt(1.0 + a * a),
            lambda: np.tanh(a),
            lambda: (1.0 + a * a) ** 0.7,
            lambda: (1.0 + a * a) ** -1.3,
            lambda: np.arctan(a),
            lambda: abs(a),
            lambda: -a,
            lambda: np.floor(a) * a,
            lambda: 1.0 / (2.0 + np.cos(a)),
        ][pick(16)]()

    def binary(a, b):
        return [
            lambda: a + b,
            lambda: a - b,
            lambda: 0.5 * a * b,
            lambda: a / (1.0 + b * b),
            lambda: np.arctan2(a, 1.0 + b * b),
            lambda: np.minimum(a, b),
            lambda: np.maximum(a, b * 0.5),
            lambda: cd.where(a < b, a * a, 3.0 * b),
            lambda: np.copysign(a, b),
            lambda: cd.fma(a, b, a),
        ][pick(10)]()

    def grow(values, steps):
        values = list(values)
        for _ in range(steps):
            a, b = values[pick(len(values))], values[-1 - pick(min(3, len(values)))]
            values.append(unary(a) if pick(2) else binary(a, b))
        return values

    def f(x, us, h):
        values = grow([*x, h], 6)
        path = us * h
        for kind in (pick(4), pick(4)) if loops else ():
            if kind == 0:
                values += list(
                    cd.loop(lambda i, s: np.array(grow([*s, *values[-2:], 0.1 * i], 4)[-2:]), np.array(values[-2:]), 3)
                )
            elif kind == 1:
                done = values[pick(len(values))]
                values.append(cd.loop(lambda i, s: grow([s, done], 3)[-1], values[-1], 4, until=lambda s: s > 1.0 + done))
            elif kind == 2:
                start = (values[-1], np.array(values[:2]))

                def body(i, state, row):
                    inner = grow([state[0], *state[1], *row, values[-1]], 5)
                    return (inner[-1], np.array(inner[-3:-1])), np.array(inner[-2:])

                (last, _), path = cd.scan(body, start, us, reverse=bool(pick(2)))
                values += [last, path[1][0], path[3][1]]
            else:

                def outer(i, s):
                    inner = cd.loop(lambda k, z: grow([z, s, values[-1]], 2)[-1], s, 2)
                    return 0.5 * inner + 0.1 * s

                values.append(cd.loop(outer, values[-1], 2))
        values = grow(values, 5)
        return {"y": np.array(values[-2:]), "s": sum(values[-4:], 0.3 * us[1, 1] * us[2, 0]), "path": path}

    return cd.function(f, x=3, us=(4, 2), h=())


def point(seed):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=3), rng.normal(size=(4, 2)), rng.uniform(0.2, 0.9)]


def outputs(function, arguments):
    result = function(*arguments)
    return {
        name: np.asarray(a) for name, a in zip(function.outputs, result if isinstance(result, tuple) else (result,), strict=True)
    }


def finite_differences(function, arguments, which):
    """output name -> d output / d argument `which`, by central differences at 512 bits."""
    precise = function.on(f"mpfr:{BITS}")
    base = [np.asarray(a, dtype=object) for a in arguments]
    columns = {name: [] for name in function.outputs}
    with gmpy2.context(precision=BITS):
        for place in np.ndindex(base[which].shape):
            ends = []
            for sign in (1, -1):
                moved = [a.copy() for a in base]
                moved[which][place] = gmpy2.mpfr(float(base[which][place])) + sign * gmpy2.mpfr(STEP)
                ends.append(outputs(precise, moved))
            for name in columns:
                columns[name].append((ends[0][name] - ends[1][name]) / (2 * gmpy2.mpfr(STEP)))
    shape = base[which].shape
    return {
        n: np.stack([np.asarray(c, dtype=object).astype(float) for c in cs], -1).reshape((*function.outputs[n], *shape))
        for n, cs in columns.items()
    }


def assert_close(got, wanted, what):
    scale = max(1.0, float(np.abs(wanted).max(initial=0.0)))
    assert np.all(np.isfinite(wanted)), what
    assert np.abs(np.asarray(got) - wanted).max(initial=0.0) <= CLOSE * scale, what


INPUTS = ("x", "us", "h")


@pytest.mark.parametrize("seed", slow_except(range(6), range(12)))
def test_first_derivatives(seed):
    f, at = smooth_function(seed), point(seed)
    true = {name: finite_differences(f, at, k) for k, name in enumerate(INPUTS)}
    # forward, with the path that a scan wrote; reverse, for the others
    cases = [("forward", ("y", "s", "path")), ("reverse", ("y", "s")), ("auto", ("s",))]
    for mode, names in cases:
        if mode == "reverse" and f.tape.outputs[2].table is False:
            names = ("y", "s", "path")
        got = outputs(f.jacobian(of=names, mode=mode), at)
        for of in names:
            for wrt in INPUTS:
                assert_close(got[f"d{of}_d{wrt}"], true[wrt][of], f"seed {seed}, {mode}: d{of}/d{wrt}")


@pytest.mark.parametrize("seed", slow_except(range(4), range(8)))
def test_products_with_the_jacobian(seed):
    f, at = smooth_function(seed), point(seed)
    true = {name: finite_differences(f, at, k) for k, name in enumerate(INPUTS)}
    rng = np.random.default_rng(seed)
    weights = {name: rng.normal(size=shape) for name, shape in f.outputs.items()}
    directions = {name: rng.normal(size=shape) for name, shape in f.inputs.items()}
    got = outputs(f.vjp(), [*at, *weights.values()])
    for wrt in INPUTS:
        wanted = sum(np.tensordot(w, true[wrt][of], axes=np.ndim(w)) for of, w in weights.items())
        assert_close(got[f"{wrt}_gradient"], wanted, f"vjp {wrt}")
    got = outputs(f.jvp(), [*at, *directions.values()])
    for of in f.outputs:
        wanted = sum(np.tensordot(true[wrt][of], d, axes=np.ndim(d)) for wrt, d in directions.items())
        assert_close(got[f"{of}_tangent"], wanted, f"jvp {of}")


@pytest.mark.parametrize("seed", slow_except(range(4), range(8)))
def test_second_derivatives(seed):
    f, at = smooth_function(seed), point(seed)
    hessian = outputs(f.hessian("s"), at)
    for k, a in enumerate(INPUTS):
        for mode in ("forward", "reverse"):
            # finite differences of either gradient give the same second derivatives
            derivative = finite_differences(f.jacobian(of="s", wrt=INPUTS, mode=mode), at, k)
            for b in INPUTS:
                wanted = derivative[f"ds_d{b}"]
                assert_close(hessian[f"d2s_d{b}_d{a}"], wanted, f"seed {seed}, {mode}: d2s/d{b}d{a}")
                swapped = np.moveaxis(
                    hessian[f"d2s_d{a}_d{b}"], range(np.ndim(at[k])), range(-np.ndim(at[k]), 0) if np.ndim(at[k]) else []
                )
                assert np.array_equal(swapped, hessian[f"d2s_d{b}_d{a}"])


@pytest.mark.parametrize("seed", range(4))
def test_hessian_of_a_weighted_vector(seed):
    f, at = smooth_function(seed), point(seed)
    weight = np.random.default_rng(seed).normal(size=(4, 2))
    got = outputs(f.hessian("path", "x"), [*at, weight])["d2path_dx_dx"]
    gradient = cd.Function(f.vjp("x").tape)
    zero = [np.zeros(2), np.zeros(()), weight]
    assert_close(got, finite_differences(gradient, [*at, *zero], 0)["x_gradient"], "weighted hessian")


def test_derivatives_at_512_bits_agree_with_differences_far_beyond_float64():
    f, at = smooth_function(3), point(3)
    exact = f.jacobian(of="y", wrt="x").on(f"mpfr:{BITS}")(*at)
    precise = f.on(f"mpfr:{BITS}")
    with gmpy2.context(precision=BITS):
        moved = [np.asarray(a, dtype=object) for a in at]
        low, high = moved[0].copy(), moved[0].copy()
        low[1] = gmpy2.mpfr(float(low[1])) - gmpy2.mpfr(STEP)
        high[1] = gmpy2.mpfr(float(high[1])) + gmpy2.mpfr(STEP)
        derivative = (precise(high, *moved[1:]).y - precise(low, *moved[1:]).y) / (2 * gmpy2.mpfr(STEP))
        error = max(abs(a - b) for a, b in zip(derivative, exact[:, 1], strict=True))
    assert error < 1e-80


# ---- structure


def test_sparse_jacobian_finds_the_structure():
    n = 30
    f = cd.function(lambda x: x[1:] * np.sin(x[:-1]), x=n)
    entries, rows, columns = f.sparse_jacobian("out", "x")
    assert len(rows) == 2 * (n - 1)
    x = np.linspace(0.1, 2.0, n)
    dense = np.zeros((n - 1, n))
    dense[rows, columns] = entries(x)
    assert np.array_equal(dense, f.jacobian()(x))
    # banded: the cost grows with the number of entries, not with their square
    assert f.jacobian().operations < 12 * f.operations


def test_one_row_goes_backward_and_one_column_forward():
    wide = cd.function(lambda x: x @ x + np.sin(x[0]), x=200)
    tall = cd.function(lambda t: np.array([np.sin(k * t) for k in range(200)]), t=())
    assert wide.jacobian().operations < 2 * wide.operations
    assert wide.jacobian(mode="forward").operations <= wide.jacobian(mode="reverse").operations * 3
    assert tall.jacobian().operations < 3 * tall.operations


def test_reverse_through_a_long_loop_costs_a_few_loops():
    f = cd.function(lambda x: cd.loop(lambda i, s: s + 0.01 * np.sin(s[::-1]), x, 500) @ x, x=6)
    assert f.vjp().operations < 6 * f.operations


def test_gradient_of_rows_is_written_as_rows():
    def cost(x, us):
        final, states = cd.scan(lambda i, s, u: (s + 0.1 * np.array([s[1], u[0] - s[0]]), s @ s + u @ u), x, us)
        return final @ final + cd.scan(lambda i, s, row: (s + row, ()), 0.0, states)[0]

    f = cd.function(cost, x=2, us=(400, 1))
    gradient = f.vjp()
    table = {p.name: p.table for p in gradient.tape.outputs}
    assert table["us_gradient"], "400 rows should not become 400 separate operations"
    assert len(gradient.tape.block.nodes) < 1500
    x, us = np.array([1.0, -0.5]), np.random.default_rng(0).normal(size=(400, 1))
    step = 1e-6 * np.random.default_rng(1).normal(size=us.shape)
    change = (f(x, us + step) - f(x, us - step)) / 2
    assert np.isclose(change, np.sum(gradient(x, us, 1.0).us_gradient * step), rtol=1e-7)


def test_names_that_do_not_exist_are_listed():
    f = cd.function(lambda x, u: x + u, x=2, u=2)
    with pytest.raises(cd.TraceError, match="no input 'v'; there are x, u"):
        f.jacobian(wrt="v")
    with pytest.raises(cd.TraceError, match="no output 'y'; there are out"):
        f.jacobian(of="y")
    with pytest.raises(cd.TraceError, match="mode must be"):
        f.jacobian(mode="sideways")
