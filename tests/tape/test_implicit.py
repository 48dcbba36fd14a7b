"""cd.implicit and cd.fixed_point: derivatives of solutions, against closed forms and differences at 512 bits."""

import numpy as np
import pytest
from tape.evaluation import differences

import condyle as cd

CLOSE = 1e-9  # relative


def assert_close(got, wanted):
    assert np.abs(got - wanted).max() <= CLOSE * np.abs(wanted).max()


def check_derivatives(f, theta):
    """First derivatives in both modes, second ones, and one product from each side."""
    wanted = differences(f, theta)
    for mode in ("forward", "reverse"):
        assert_close(f.jacobian(mode=mode)(theta), wanted)
    weight = np.random.default_rng(0).normal(size=np.shape(f(theta)))
    gradient = f.vjp()
    assert_close(gradient(theta, weight), np.tensordot(weight, wanted, axes=weight.ndim))
    second = f.hessian()(theta, weight) if weight.ndim else weight * f.hessian()(theta)
    assert_close(second, differences(gradient, theta, weight))


# ---- one unknown, by a closed form


def kepler(E, M, e):
    return E - e * np.sin(E) - M


def newton(M, e):
    """The eccentric anomaly by Newton's method, for any precision: more iterations than float64 needs."""
    return cd.loop(lambda i, E: E - kepler(E, M, e) / (1.0 - e * np.cos(E)), M + e, 60)


anomaly = cd.implicit(newton, kepler)


def test_derivatives_of_a_root_are_those_of_the_solution():
    f = cd.function(lambda M, e: anomaly(M, e), M=(), e=())
    M, e = np.array([0.3, 1.2, 2.5]), np.array([0.1, 0.5, 0.8])
    E = f(M, e)
    np.testing.assert_allclose(kepler(E, M, e), 0.0, atol=1e-15)
    slope = 1.0 / (1.0 - e * np.cos(E))
    for mode in ("forward", "reverse"):
        dM, de = f.jacobian(mode=mode)(M, e)
        np.testing.assert_allclose(dM, slope, rtol=1e-13)
        np.testing.assert_allclose(de, np.sin(E) * slope, rtol=1e-13)
    np.testing.assert_allclose(f.hessian(wrt="M")(M, e), -e * np.sin(E) * slope**3, rtol=1e-12)
    assert np.array_equal(f.on("reference")(M, e), f.on("cpu", lanes=2)(M, e))


def test_no_derivative_goes_through_the_iteration():
    value = cd.function(newton, M=(), e=())
    f = cd.function(lambda M, e: anomaly(M, e), M=(), e=())
    # the loop once, and a few operations: neither tangents in the loop nor a second pass backward
    assert f.vjp().operations < value.operations + 200
    assert f.jacobian(mode="forward").operations < value.operations + 200


# ---- several unknowns in a nested structure


def balance(x, theta):
    """Two equations in x = {"a": ., "b": (2,)}, plus one that joins them."""
    a, b = x["a"], x["b"]
    return (a - 0.3 * np.sin(b[0]) - theta["p"][0], b - 0.2 * np.tanh(a * theta["p"]) - np.array([theta["s"], a * theta["s"]]))


def relax(theta):
    def body(i, x):
        r, s = balance(x, theta)
        return {"a": x["a"] - r, "b": x["b"] - s}

    return cd.loop(body, {"a": theta["s"], "b": np.zeros(2)}, 500)


def test_nested_unknowns_and_parameters():
    solution = cd.implicit(relax, balance)

    def f(theta):
        x = solution({"p": theta[:2], "s": theta[2]})
        return np.array([x["a"], *x["b"]])

    check_derivatives(cd.function(f, theta=3), np.array([0.4, -0.3, 0.7]))


def test_the_linear_solve_can_be_given():
    H = np.array([[4.0, 1.0], [1.0, 3.0]])
    seen = []

    def quadratic(g):
        return cd.linalg.solve(H, g)

    def by_cholesky(J, r):
        seen.append(np.shape(J))
        return cd.linalg.solve(J, r, assume="positive")

    f = cd.function(cd.implicit(quadratic, lambda x, g: H @ x - g, linear_solve=by_cholesky), g=2)
    np.testing.assert_allclose(f.jacobian()(np.ones(2)), np.linalg.inv(H), rtol=1e-14)
    assert seen and set(seen) == {(2, 2)}


def test_inside_a_loop_and_a_scan():
    root = cd.implicit(lambda a: np.sqrt(a), lambda x, a: x * x - a)

    def f(a):
        return cd.scan(lambda i, s, row: (root(s + row), ()), a[0], a)[0]

    def plain(a):
        return cd.scan(lambda i, s, row: (np.sqrt(s + row), ()), a[0], a)[0]

    a = np.array([0.5, 1.5, 2.5])
    ours, theirs = cd.function(f, a=3), cd.function(plain, a=3)
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(ours.jacobian(mode=mode)(a), theirs.jacobian(mode=mode)(a), rtol=1e-13)
    np.testing.assert_allclose(ours.hessian()(a), theirs.hessian()(a), rtol=1e-12)


def test_errors():
    with pytest.raises(cd.TraceError, match="as many entries as the solution, 2; it has 1"):
        cd.function(cd.implicit(lambda a: a, lambda x, a: x[0] - a[0]), a=2)
    with pytest.raises(cd.TraceError, match="pass it in"):
        cd.function(lambda a, b: cd.implicit(lambda a: a * b, lambda x, a: x - a * b)(a), a=(), b=())
    with pytest.raises(cd.TraceError, match="must keep its shape"):
        cd.function(lambda a: cd.fixed_point(lambda x: x[:1], a), a=2)


# ---- fixed points


def contraction(x, A, b):
    return 0.5 * np.tanh(A @ x) + b


def test_fixed_points_against_differences():
    def f(theta):
        A, b = theta[:4].reshape(2, 2), theta[4:]
        return cd.fixed_point(contraction, b, A, b, tolerance=0.0, limit=600)

    check_derivatives(cd.function(f, theta=6), np.array([0.3, -0.5, 0.7, 0.2, 0.4, -1.0]))


def test_fixed_point_of_a_linear_map_and_of_the_start():
    f = cd.function(lambda x0, A, b: cd.fixed_point(lambda x, A, b: A @ x + b, x0, A, b), x0=2, A=(2, 2), b=2)
    A, b = np.array([[0.2, 0.3], [-0.4, 0.1]]), np.array([1.0, 2.0])
    inverse = np.linalg.inv(np.eye(2) - A)
    np.testing.assert_allclose(f(np.zeros(2), A, b), inverse @ b, rtol=1e-11)
    d0, dA, db = f.jacobian()(np.zeros(2), A, b)
    np.testing.assert_allclose(db, inverse, rtol=1e-14)
    np.testing.assert_allclose(dA, np.einsum("ij,k->ijk", inverse, f(np.zeros(2), A, b)), rtol=1e-13)
    assert not d0.any()


def test_lanes_stop_on_their_own_and_nan_stops_at_once():
    forever = 10**12
    f = cd.function(lambda a: cd.fixed_point(lambda x, a: np.cos(a * x), 0.5, a, limit=forever), a=())
    a = np.array([0.1, 0.9, np.nan, 0.5, np.inf])
    x = f(a)
    good = np.isfinite(a)
    np.testing.assert_allclose(x[good], np.cos(a[good] * x[good]), atol=1e-12)
    assert np.isnan(x[~good]).all()
    for each, wanted in zip(a[good], x[good], strict=True):
        assert f(each) == wanted == f.on("reference")(each)


def test_nested_fixed_points():
    f = cd.function(
        lambda a: cd.fixed_point(
            lambda s, a: (0.3 * np.cos(s[1]) + a, 0.4 * np.sin(s[0])), (0.0, a), a, tolerance=0.0, limit=400
        )[1],
        a=(),
    )
    check_derivatives(f, 0.7)
