"""Composition: compiled functions and their derivatives called with traced values, in traces and loop bodies; linearize."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condyle as cd

SAME = 1e-13
X, U = np.array([0.7, -1.2]), np.array([0.4])


def motion(x, u):
    x1 = np.array([x[0] + 0.1 * x[1], x[1] - 0.1 * np.sin(x[0]) + u[0] * x[0]])
    return {"x1": x1, "energy": 0.5 * x[1] * x[1] - np.cos(x[0])}


@pytest.fixture(scope="module")
def f():
    return cd.function(motion, x=2, u=1)


def bits(function, *args):
    """The results on the reference backend and on one and more lanes, which must be the same bits; the first of them."""
    results = [function.on("reference")(*args), *[function.on("cpu", lanes=n)(*args) for n in (1, 4)]]
    flat = [np.concatenate([np.ravel(x) for x in (r if isinstance(r, tuple) else (r,))]) for r in results]
    assert flat[0].tobytes() == flat[1].tobytes() == flat[2].tobytes()
    return results[0]


def test_a_function_called_in_a_trace_is_its_tape(f):
    g = cd.function(lambda x, u: f(x, u).x1, x=2, u=1)
    assert g.tape.hash == cd.function(lambda x, u: motion(x, u)["x1"], x=2, u=1).tape.hash
    assert np.array_equal(bits(g, X, U), f(X, U).x1)


def test_results_have_the_names_and_shapes_they_have_outside(f):
    def look(x, u):
        result = f(x, u)
        assert result._fields == ("x1", "energy") and result.x1.shape == (2,) and np.shape(result.energy) == ()
        J = f.jacobian("x1", "x")(x, u)
        assert J.shape == (2, 2)
        H = f.hessian("energy", "x")(x, u)
        return {"x1": result.x1 * result.energy, "J": J, "H": H, "g": f.vjp("x")(x, u, np.array([1.0, 2.0]), 0.5)}

    result = bits(cd.function(look, x=2, u=1), X, U)
    assert np.allclose(result.x1, f(X, U).x1 * f(X, U).energy, rtol=SAME)
    assert np.allclose(result.J, f.jacobian("x1", "x")(X, U), rtol=SAME)
    assert np.allclose(result.H, f.hessian("energy", "x")(X, U), rtol=SAME)
    assert np.allclose(result.g, f.vjp("x")(X, U, np.array([1.0, 2.0]), 0.5), rtol=SAME)


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x, u: f(x, u),
        lambda f, x, u: f(u=u, x=x),
        lambda f, x, u: f(x, u=[u[0]]),
        lambda f, x, u: f([x[0], x[1]], np.array([u[0]], dtype=object)),
        lambda f, x, u: f(np.array([x[0], x[1]]), (u[0],)),
        lambda f, x, u: f(x, [0.4]),
        lambda f, x, u: f(x, np.array([0.4])),
        lambda f, x, u: f((x[0], -1.2), u),
    ],
)
def test_arguments_may_be_named_lists_numbers_and_traced(f, call):
    assert np.allclose(cd.function(lambda x, u: call(f, x, u).x1, x=2, u=1)(X, U), f(X, U).x1, rtol=SAME)


def test_numbers_alone_are_computed_at_once(f):
    def outer(x):
        result = f(X, U)
        assert isinstance(result.energy, float)
        return x * result.energy

    assert cd.function(outer, x=())(2.0) == 2.0 * f(X, U).energy


def test_derivatives_go_through_a_call(f):
    def direct(x, u):
        x1 = motion(x, u)["x1"]
        return x1 * motion(x1, u)["energy"]

    def composed(x, u):
        first = f(x, u)
        return first.x1 * f(first.x1, u).energy

    wanted, found = cd.function(direct, x=2, u=1), cd.function(composed, x=2, u=1)
    assert np.allclose(found(X, U), wanted(X, U), rtol=SAME)
    for mode in ("forward", "reverse"):
        assert np.allclose(found.jacobian("out", "x", mode=mode)(X, U), wanted.jacobian("out", "x")(X, U), rtol=SAME)
    weight = np.array([1.0, -2.0])
    assert np.allclose(found.hessian("out", "x")(X, U, weight), wanted.hessian("out", "x")(X, U, weight), rtol=1e-12)


def test_calls_in_loops_and_scans_and_of_functions_with_loops(f):
    inner = cd.function(lambda x: cd.loop(lambda i, s: f(s, [0.1]).x1, x, 3), x=2)

    def outer(x, us):
        end = cd.loop(lambda i, s: inner(s) * 0.9, x, 4)
        final, path = cd.scan(lambda i, s, row: (f(s, row).x1, f(s, row).x1), end, us)
        return {"final": final, "path": path}

    us = np.linspace(-1.0, 1.0, 5).reshape(5, 1)
    found = cd.function(outer, x=2, us=(5, 1))
    x = X
    for _ in range(4):
        for _ in range(3):
            x = f(x, [0.1]).x1
        x = x * 0.9
    for row in us:
        x = f(x, row).x1
    result = bits(found, X, us)
    assert np.allclose(result.final, x, rtol=1e-12) and np.allclose(result.path[-1], x, rtol=1e-12)
    forward, reverse = (found.jacobian("final", "x", mode=m)(X, us) for m in ("forward", "reverse"))
    assert np.allclose(forward, reverse, rtol=1e-12)


def test_what_a_scan_wrote_comes_out_as_an_array(f):
    def step(i, s, _):
        after = f(s, [0.0]).x1
        return after, after

    rows = cd.function(lambda x: cd.scan(step, x, count=4)[1], x=2)
    g = cd.function(lambda x: rows(x)[-1] + rows(x).sum(axis=0), x=2)
    assert np.allclose(bits(g, X), rows(X)[-1] + rows(X).sum(axis=0), rtol=SAME)
    # all of it, given back, is what the scan wrote again
    assert cd.function(lambda x: rows(x), x=2).tape.outputs[0].table


def test_a_batch_and_out_are_sentences(f):
    with pytest.raises(cd.ShapeError, match=r"test_compose.py:\d+: .*'x' has shape \(3, 2\).*without batch axes"):
        cd.function(lambda x, u: f(np.stack([x, x, x]), u).x1, x=2, u=1)
    with pytest.raises(cd.ShapeError, match=r"'x' has shape \(3,\), expected \(2,\)$"):
        cd.function(lambda x, u: f(x, u).x1, x=3, u=1)
    with pytest.raises(cd.ShapeError, match="`out` has no meaning inside a trace"):
        cd.function(lambda x, u: f(x, u, out=np.zeros(2)).x1, x=2, u=1)
    with pytest.raises(cd.ShapeError, match="needs the input 'u'"):
        cd.function(lambda x: f(x).x1, x=2)


def test_a_traced_value_that_left_its_trace_is_an_error(f):
    kept = []
    cd.function(lambda x: kept.append(x) or x, x=2)
    with pytest.raises(cd.TraceError):
        f(kept[0], U)


# ---- linearize


def test_linearize_keeps_structural_zeros():
    def chain(x, u):
        return np.array([2.0 * x[0], x[1] * x[1], x[2] + u[0]])

    def check(x, u):
        value, A, B = cd.linearize(chain, x, u)
        assert value.shape == (3,) and A.shape == (3, 3) and B.shape == (3, 1)
        zero = [(i, j) for i in range(3) for j in range(3) if i != j]
        assert all(type(A[i, j]) is float and A[i, j] == 0.0 for i, j in zero)
        assert (A[0, 0], A[2, 2], B[2, 0], B[0, 0]) == (2.0, 1.0, 1.0, 0.0)
        return {"Ax": A @ x, "value": value}

    f = cd.function(check, x=3, u=1)
    # the products with zeros and ones are gone: 2 x0, x1^2, (2 x1) x1, x2 + u
    assert f.operations <= 6
    result = f(np.array([1.0, 3.0, 5.0]), [2.0])
    assert np.array_equal(result.Ax, [2.0, 18.0, 5.0]) and np.array_equal(result.value, [2.0, 9.0, 7.0])


@pytest.mark.parametrize("kind", ["python", "function", "method"])
def test_linearize_on_numbers_and_inside_a_trace(f, kind):
    arm = cd.load("pendulum")
    functions = {
        "python": (lambda x, u: motion(x, u)["x1"], (X, U)),
        "function": (cd.function(lambda x, u: motion(x, u)["x1"], x=2, u=1), (X, U)),
        "method": (arm.forward_dynamics, (np.array([0.3]), np.array([0.1]), np.array([0.2]))),
    }
    function, args = functions[kind]
    shapes = {f"a{k}": len(a) for k, a in enumerate(args)}
    compiled = cd.function(lambda *given, **named: function(*given, *named.values()), **shapes)
    value, *jacobians = cd.linearize(function, *args)
    assert np.allclose(value, function(*args), rtol=SAME)
    for k, J in enumerate(jacobians):
        assert np.allclose(J, compiled.jacobian("out", f"a{k}")(*args), rtol=SAME)
    inside = cd.function(lambda **named: cd.linearize(function, *named.values()), **shapes)
    for a, b in zip(bits(inside, *args), (value, *jacobians), strict=True):
        assert np.allclose(a, b, rtol=SAME)
    assert cd.linearize(function, *args)[0].tobytes() == value.tobytes()


def test_linearize_several_results_batches_and_outer_values(f):
    value, by_x, by_u = cd.linearize(f, np.stack([X, 2 * X]), U)
    assert value._fields == by_x._fields == ("x1", "energy")
    assert by_x.x1.shape == (2, 2, 2) and by_x.energy.shape == (2, 2) and by_u.x1.shape == (2, 2, 1)
    assert np.allclose(by_x.x1[1], f.jacobian("x1", "x")(2 * X, U), rtol=SAME)

    def body(x, u):
        def step(i, s):
            # x and u come from outside of the loop, and are constants to the derivative
            values, J = cd.linearize(lambda s: {"a": s * x[0], "b": s @ (u[0] * s)}, s)
            return values["a"] + J["b"] + J["a"] @ s * 0.1

        return cd.loop(step, x, 3)

    def with_table(x):
        rows = cd.table(np.array([[1.0, 2.0], [3.0, 4.0]]) * x)
        return cd.loop(lambda i, s: cd.linearize(lambda s: s * rows[i], s)[1] @ s, x, 2)

    assert np.allclose(bits(cd.function(with_table, x=2), X), X * X * [1.0, 2.0] * X * [3.0, 4.0], rtol=1e-12)
    s = X
    for _ in range(3):
        s = s * X[0] + 2 * U[0] * s + X[0] * s * 0.1
    assert np.allclose(bits(cd.function(body, x=2, u=1), X, U), s, rtol=1e-12)


@settings(max_examples=20)
@given(st.lists(st.sampled_from(["sin", "mul", "loop", "call"]), min_size=1, max_size=6), st.integers(0, 2**32))
def test_linearize_agrees_with_the_jacobian(names, seed):
    weights = np.round(np.random.default_rng(seed).normal(size=(len(names), 2, 2)), 2)
    call = cd.function(lambda s: np.array([s[1], np.tanh(s[0])]), s=2)
    parts = {
        "sin": lambda s, w: np.sin(w @ s),
        "mul": lambda s, w: np.array([s[0] * s[1], s[1] * w[0, 0]]),
        "loop": lambda s, w: cd.loop(lambda i, s: 0.5 * (s + np.cos(s)), s, 2),
        "call": lambda s, w: call(s),
    }

    def f(s):
        for name, w in zip(names, weights, strict=True):
            s = parts[name](s, w)
        return s

    compiled = cd.function(f, s=2).on("reference")
    both = cd.function(lambda s: cd.linearize(f, s), s=2).on("reference")(X)
    assert np.allclose(both.out0, compiled(X), rtol=1e-12, atol=1e-14)
    assert np.allclose(both.out1, compiled.jacobian(mode="reverse")(X), rtol=1e-11, atol=1e-14)


def test_functions_of_tables():
    f = cd.function(lambda x, rows: cd.scan(lambda i, s, row: (s * row[0] + row[1], s), x, rows), x=(), rows=cd.Rows(None, 2))
    fixed = cd.function(lambda x, w: x @ np.array([w[k, 0] for k in range(3)]), x=3, w=cd.Uniform(3, 2))
    rows = np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.25]])

    def outer(x, rows):
        end, path = f(x, rows)
        assert path.shape == (3,)
        return {"end": end + path.sum(), "fixed": fixed([x, end, 1.0], cd.table(rows))}

    found = bits(cd.function(outer, x=(), rows=(3, 2)), 2.0, rows)
    end, path = f(2.0, rows)
    assert np.isclose(found.end, end + path.sum(), rtol=SAME)
    assert np.isclose(found.fixed, fixed([2.0, end, 1.0], rows), rtol=SAME)
    # any number of rows stays any number
    again = cd.function(lambda x, rows: f(x, rows), x=(), rows=cd.Rows(None, 2))
    assert np.array_equal(bits(again, 2.0, rows).out1, path) and again(2.0, rows[:2]).out1.shape == (2,)
    with pytest.raises(cd.ShapeError, match="'rows' has shape"):
        cd.function(lambda x: f(x, np.zeros((3, 3))).out0, x=())
