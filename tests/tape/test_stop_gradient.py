"""`stop_gradient`: a value like any other, and a constant to derivatives; what Newton's method with it gives."""

import random

import numpy as np
import pytest
from tape import random_tapes
from tape.evaluation import reference
from tape.random_tapes import inputs_from, same_bits, tape_from

import condyle as cd
from condyle.tape.array import stop_gradient
from condyle.tape.ops import OPS
from condyle.tape.passes import lower
from condyle.tape.scalar import emit

CLOSE = 1e-12  # relative; both sides in float64


def test_derivatives_are_zero():
    f = cd.function(lambda x: stop_gradient(x[0]) * x[1] + stop_gradient(x[1] * x[2]), x=3)
    x = np.array([2.0, 3.0, 5.0])
    assert f(x) == 21.0
    for mode in ("forward", "reverse", "auto"):
        assert np.array_equal(f.jacobian(mode=mode)(x), [0.0, 2.0, 0.0])
    assert f.jvp()(x, np.ones(3)) == 2.0
    assert np.array_equal(f.vjp()(x, 1.0), [0.0, 2.0, 0.0])
    assert not f.hessian()(x).any()
    entries, rows, columns = f.sparse_jacobian("out", "x")
    assert list(zip(rows, columns, strict=True)) == [(0, 1)] and np.array_equal(entries(x), [2.0])


def test_what_is_held_stays_so_in_second_derivatives():
    f = cd.function(lambda x: stop_gradient(x) * x**3, x=())
    assert f.jacobian().jacobian()(2.0) == 6.0 * 2.0 * 2.0
    assert f.hessian()(2.0) == f.vjp().jvp("x")(2.0, 1.0, 1.0) == 24.0


def test_through_loops():
    def f(x, us):
        slow = cd.loop(lambda i, y: 0.5 * y + stop_gradient(x), x, 3)
        _, rows = cd.scan(lambda i, s, u: (s + stop_gradient(u) * u, stop_gradient(s)), slow, us)
        return {"slow": slow, "rows": rows, "all": stop_gradient(slow) + rows[2]}

    g = cd.function(f, x=(), us=3)
    us = np.array([1.0, 2.0, 3.0])
    for mode in ("forward", "reverse"):
        assert g.jacobian("slow", "x", mode=mode)(1.0, us) == 0.125
        assert not g.jacobian("all", "us", mode=mode)(1.0, us).any()
    assert not any(a.any() for a in g.jacobian("rows")(1.0, us))


def test_arrays_scalars_and_numbers():
    def f(x):
        assert stop_gradient(2.0) == 2.0 and stop_gradient(np.arange(3.0)).dtype == np.float64
        assert stop_gradient(x).shape == stop_gradient(x[:, None])[:, 0].shape == (2,)
        assert stop_gradient(stop_gradient(x))[0].index == stop_gradient(x)[0].index != x[0].index
        return stop_gradient([x[0], 1.0]) + stop_gradient(x[1])

    assert np.array_equal(cd.function(f, x=2)(np.array([3.0, 4.0])), [7.0, 5.0])


def test_every_machine_gives_the_value():
    f = cd.function(lambda x: stop_gradient(x) / 3.0, x=())
    values = [f(0.1), f.on("reference")(0.1), f.on("mpfr:53")(0.1), f.on("interval")(0.1).mid(), f.casadi()(0.1)]
    assert {float(v) for v in values} == {0.1 / 3.0}
    assert "stop_gradient" in str(f.tape) and "stop_gradient" not in f.source("tape")


def test_lowering_leaves_nothing_of_it():
    def f(hold):
        def f(a, b, c):
            # a folding and an fma that stop_gradient values hide, and one value captured under two names
            inner = cd.loop(lambda i, y: y * a + y * hold(a) - hold(-b) * c, c, 4)
            return c + hold(-(a * b)), a * b + hold(a) * b, inner

        return lower(cd.trace(f, a=(), b=(), c=()), "f64")

    assert str(f(stop_gradient)) == str(f(lambda x: x))
    assert "fma" in str(f(stop_gradient))


@pytest.mark.parametrize("precision, dtype", [("f64", "float64"), ("f32", "float32")])
def test_random_tapes_have_the_bits_they_have_without(monkeypatch, precision, dtype):
    # every fourth operation holds
    monkeypatch.setattr(random_tapes, "EXACT", [*random_tapes.EXACT, *[OPS["stop_gradient"]] * 7])
    for seed in range(60):
        tape = tape_from(random.Random(seed).randrange, elementary=seed % 2 == 0)
        with monkeypatch.context() as patch:
            patch.setattr(
                random_tapes, "emit", lambda op, *xs, data=None: xs[0] if op == "stop_gradient" else emit(op, *xs, data=data)
            )
            unstopped = tape_from(random.Random(seed).randrange, elementary=seed % 2 == 0)
        inputs = inputs_from(random.Random(-seed).randrange, tape, dtype=dtype)
        got, wanted = (reference(lower(t, precision), inputs) for t in (tape, unstopped))
        assert all(same_bits(a, b) for a, b in zip(got, wanted, strict=True)), f"seed {seed}\n{tape}"


# ---- converge with stop_gradient values, then differentiate Newton steps


def kepler(steps, count=50):
    """E of Kepler's equation E - e sin E = M, as a function of (M, e): converged, then `steps` more."""

    def newton(E, M, e):
        return E - (E - e * np.sin(E) - M) / (1.0 - e * np.cos(E))

    def anomaly(p):
        M, e = p

        def done(s):
            return abs(s[0] - s[1]) <= 1e-12

        E, _ = cd.loop(lambda i, s: (newton(s[0], M, e), s[0]), (M + e, M), count, until=done)
        E = stop_gradient(E)
        for _ in range(steps):
            E = newton(E, M, e)
        return E

    return cd.function(anomaly, p=2)


def derivatives(E, e):
    """(first, second) derivatives of E by M and e, from E - e sin E = M."""
    s, c = np.sin(E), np.cos(E)
    d = 1.0 - e * c
    M, e_ = 1.0 / d, s / d  # dE/dM, dE/de
    second = [[-e * s * M * M, c * M - e * s * M * e_], [0.0, 2.0 * c * e_ - e * s * e_ * e_]]
    second[1][0] = second[0][1]
    return np.array([M, e_]), np.array(second) / d


POINTS = np.array([[0.3, 0.1], [1.2, 0.5], [2.9, 0.8], [-0.7, 0.3]])


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_one_newton_step_has_the_derivative_of_the_root(mode):
    f = kepler(1)
    first = f.jacobian(mode=mode)
    for p in POINTS:
        E = f(p)
        assert abs(E - p[1] * np.sin(E) - p[0]) < 1e-15 * 4
        np.testing.assert_allclose(first(p), derivatives(E, p[1])[0], rtol=CLOSE)


def test_two_newton_steps_have_its_second_derivatives():
    f = kepler(2)
    for p in POINTS:
        wanted = derivatives(f(p), p[1])[1]
        np.testing.assert_allclose(f.hessian()(p), wanted, rtol=CLOSE, atol=CLOSE)
        np.testing.assert_allclose(f.jacobian(mode="forward").jacobian(mode="forward")(p), wanted, rtol=CLOSE, atol=CLOSE)
    once = kepler(1).hessian()(POINTS[1])
    assert np.abs(once - derivatives(f(POINTS[1]), POINTS[1][1])[1]).max() > 0.1, "one step is not enough"


def test_all_of_these_end_when_they_have_converged():
    f = kepler(2, count=10**15)
    for g in (f, f.jacobian(mode="forward"), f.jacobian(mode="reverse"), f.hessian(), f.jacobian(mode="forward").jacobian()):
        assert np.isfinite(g(POINTS)).all()
