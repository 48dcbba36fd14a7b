"""Parameters: values from closures that are inputs with defaults, in any function that uses them."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulate.bodies import a_pendulum

import condyle as cd

X = np.array([1.0, -2.0])


@pytest.fixture(scope="module")
def mass():
    return cd.parameter("mass", 2.0)


@pytest.fixture(scope="module")
def gains():
    return cd.parameter("gains", [1.0, 3.0])


@pytest.fixture(scope="module")
def f(mass, gains):
    return cd.function(lambda x: {"a": -gains * x / mass, "e": 0.5 * gains @ (x * x)}, x=2)


def test_a_function_lists_its_parameters(f, mass, gains):
    assert f.parameters == {"gains": gains, "mass": mass} and f.inputs == {"x": (2,)}
    assert f.parameters["gains"].shape == (2,) and np.array_equal(f.parameters["gains"].default, [1.0, 3.0])
    assert f.parameters["mass"].default == 2.0 and repr(mass) == "parameter('mass', 2.0)"


def test_defaults_and_values_of_one_state(f):
    for _ in range(2):  # the second call is the fast one
        assert np.array_equal(f(X).a, [-0.5, 3.0]) and f(X).e == 6.5
        assert np.array_equal(f(X, mass=4.0).a, [-0.25, 1.5])
        assert np.array_equal(f(x=X, gains=[2.0, 0.0], mass=1.0).a, [-2.0, 0.0])
    assert f(X.astype(np.float32)).a.dtype == np.float32 and f(X.astype(np.float32), mass=4.0).a.dtype == np.float64


def test_batches_of_states_and_of_parameters(f):
    masses, gains = np.array([1.0, 2.0, 4.0]), np.arange(6.0).reshape(3, 2)
    assert np.array_equal(f(X, mass=masses).a, [f(X, mass=m).a for m in masses])
    many = np.stack([X, 2 * X, 3 * X])
    assert np.array_equal(f(many).a, [f(x).a for x in many])
    assert np.array_equal(
        f(many, mass=masses, gains=gains).a, [f(x, mass=m, gains=g).a for x, m, g in zip(many, masses, gains, strict=True)]
    )


def test_another_value_does_not_compile(f):
    kernel = f.kernel()
    f(X, mass=17.0)
    assert f.kernel() is kernel
    assert (
        cd.function(lambda x: x * cd.parameter("p", 1.0), x=2).tape.hash
        == cd.function(lambda x: x * cd.parameter("p", 5.0), x=2).tape.hash
    )


@pytest.mark.parametrize("backend", ["reference", "mpfr:64", "interval"])
def test_every_backend_has_them(f, backend):
    pytest.importorskip("gmpy2" if backend == "mpfr:64" else "flint" if backend == "interval" else "numpy")
    other = f.on(backend)
    assert other.parameters == f.parameters
    assert [float(v) for v in other(X, mass=4.0).a] == [-0.25, 1.5] and [float(v) for v in other(X).a] == [-0.5, 3.0]
    assert "mass" in f.source("c") and "gains" in f.source("c")


def test_derivatives_by_them(f):
    assert np.array_equal(f.jacobian("a", "mass")(X, mass=4.0), [0.0625, -0.375])
    assert np.array_equal(f.jacobian("a", "gains", mode="reverse")(X), [[-0.5, 0.0], [0.0, 1.0]])
    # without a name, the derivatives are those by the inputs
    assert list(f.jacobian("a").outputs) == ["da_dx"] and list(f.vjp().outputs) == ["x_gradient"]
    weight = np.array([1.0, 1.0])
    for _ in range(2):
        assert np.array_equal(f.vjp(["x", "mass"])(X, weight, 0.0, mass=1.0).mass_gradient, 1.0 * 1 + 3.0 * -2.0)
        assert np.array_equal(f.vjp("gains")(X, weight, 0.0), [-0.5, 1.0])
        assert np.array_equal(f.jvp("mass")(X, 1.0).a_tangent, [0.25, -1.5])
    assert np.array_equal(f.hessian("a", "mass")(X, weight), 2.0 * (-1.0 + 6.0) / 8.0)
    entries, rows, columns = f.sparse_jacobian("a", "gains")
    assert list(zip(rows, columns, strict=True)) == [(0, 0), (1, 1)] and np.array_equal(entries(X, mass=1.0), [-1.0, 2.0])


def test_functions_in_functions_pass_them_on(f, mass, gains):
    def outer(x):
        rows = cd.table(np.array([[1.0, 2.0], [3.0, 4.0]]) * mass)
        return cd.loop(lambda i, s: s + f(s).a * mass * rows[i] + f([1.0, 1.0]).a, x, 2)

    g = cd.function(outer, x=2)
    assert g.parameters.keys() == {"mass", "gains"} and g.parameters["mass"] is mass and g.parameters["gains"] is gains
    m, k = 1.5, np.array([0.5, 2.0])
    s = X
    for row in ([1.0, 2.0], [3.0, 4.0]):
        s = s - k * s * np.array(row) * m - k / m
    assert np.allclose(g(X, mass=m, gains=k), s, rtol=1e-14)
    assert g.on("reference")(X, mass=m, gains=k).tobytes() == g(X, mass=m, gains=k).tobytes()
    # a value given inside is not passed on
    h = cd.function(lambda x: f(x, mass=x[0]).a, x=2)
    assert h.parameters == {"gains": gains} and np.array_equal(h(X), f(X, mass=1.0).a)
    value, A = cd.linearize(lambda x: f(x).a, X)
    assert np.array_equal(A, np.diag([-0.5, -1.5])) and np.array_equal(value, f(X).a)
    assert np.array_equal(cd.linearize(f, X)[1].a, A)


def test_outside_of_a_trace_it_is_its_default(mass, gains):
    assert float(mass) == 2.0 and mass * 3.0 == 6.0 and 1.0 / mass == 0.5 and mass > 1.0 and -mass == -2.0
    assert np.array_equal(np.asarray(gains), [1.0, 3.0]) and gains @ gains == 10.0 and len(gains) == 2
    assert np.array_equal(np.sqrt(gains), np.sqrt([1.0, 3.0])) and gains[1] == 3.0 and gains.sum() == 4.0
    assert np.array_equal(X * gains, [1.0, -6.0]) and np.float64(2.0) * mass == 4.0
    assert copy.deepcopy([mass])[0] is mass


def test_all_uses_in_a_trace(mass, gains):
    def uses(x):
        return {
            "list": np.array([mass, x[0]]),
            "alone": mass,
            "carried": cd.loop(lambda i, s: s * mass, mass, 3),
            "where": cd.where(x[0] > mass, x[0], mass),
            "method": (x[0] > 0.0).where(mass, 1.0),
            "joined": np.concatenate([gains, x]),
            "stacked": np.stack([gains, x]),
            "rows": [list(gains), list(x)],
            "largest": np.maximum(gains, x),
            "sine": np.sin(mass),
            "power": mass**2 - abs(-mass) + np.float64(2.0) * mass,
            "table": cd.table([mass, x[1]])[0],
            "product": gains @ np.array([[1.0, 0.0], [0.0, 2.0]]) @ x,
        }

    def wanted(x, mass, gains):
        return {
            "list": [mass, x[0]],
            "alone": mass,
            "carried": mass**4,
            "where": max(x[0], mass),
            "method": mass,
            "joined": [*gains, *x],
            "stacked": [gains, x],
            "rows": [gains, x],
            "largest": np.maximum(gains, x),
            "sine": np.sin(mass),
            "power": mass**2 + mass,
            "table": mass,
            "product": gains[0] * x[0] + 2 * gains[1] * x[1],
        }

    found = cd.function(uses, x=2)(X, mass=7.0, gains=[5.0, -4.0])._asdict()
    for name, value in wanted(X, 7.0, np.array([5.0, -4.0])).items():
        assert np.allclose(found[name], value, rtol=1e-15), name


def test_a_parameter_of_a_users_force_is_one_of_the_step():
    drag = cd.parameter("drag", 0.5)
    world = cd.Simulation(a_pendulum(), 0.01, force=lambda model, q, v: -drag * v)
    x, u = np.array([0.3, 2.0]), np.zeros(1)
    step = cd.function(lambda x: world.step(x, u), x=2)
    assert step.parameters == {"drag": drag} and np.allclose(step(x), world.step(x, u), rtol=1e-14)
    fixed = cd.Simulation(a_pendulum(), 0.01, force=lambda model, q, v: -2.0 * v)
    assert np.allclose(step(x, drag=2.0), fixed.step(x, u), rtol=1e-13)
    by_drag = (step(x, drag=0.5 + 1e-5) - step(x, drag=0.5 - 1e-5)) / 2e-5
    assert np.allclose(step.jacobian("out", "drag")(x), by_drag, rtol=1e-8)
    _, A, _ = world.step(x, u, derivatives=True)
    assert np.allclose(step.jacobian("out", "x")(x), A, rtol=1e-10)


@settings(max_examples=25)
@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=5), st.integers(0, 2**32))
def test_a_parameter_is_an_argument_with_a_default(names, seed):
    values = {n: float(v) for n, v in zip("abc", np.random.default_rng(seed).normal(size=3), strict=True)}
    parameters = {n: cd.parameter(n, 1.0) for n in "abc"}

    def mixed(x, p):
        for n in names:
            x = np.sin(x * p[n]) + p[n]
        return x

    # traced now: looking for what they depend on takes longer than these few operations
    with_parameters = cd.function(lambda x: mixed(x, parameters), cache=False, x=()).on("reference")
    shapes = dict.fromkeys("xabc", ())
    with_inputs = cd.function(lambda x, a, b, c: mixed(x, {"a": a, "b": b, "c": c}), cache=False, **shapes).on("reference")
    used = {n: values[n] for n in names}
    assert set(with_parameters.parameters) == set(names)
    assert with_parameters(0.3, **used) == with_inputs(0.3, **values)
    for n in used:
        assert with_parameters.jacobian("out", n)(0.3, **used) == with_inputs.jacobian("out", n)(0.3, **values)


def test_mistakes_are_sentences(f, mass):
    with pytest.raises(cd.ShapeError, match=r"takes 1 arrays \(x\), got 2"):
        f(X, 2.0)
    with pytest.raises(cd.ShapeError, match="no input 'weight'; its inputs are x, gains, mass"):
        f(X, weight=2.0)
    with pytest.raises(cd.ShapeError, match=r"input 'gains' has shape \(3,\)"):
        f(X, gains=[1.0, 2.0, 3.0])
    with pytest.raises(cd.TraceError, match=r"test_parameter.py:\d+: .* has an input called 'mass' already"):
        cd.function(lambda **arrays: arrays["mass"] * mass, mass=())
    with pytest.raises(cd.TraceError, match="has another parameter called 'mass' already"):
        cd.function(lambda x: f(x).a * cd.parameter("mass", 2.0), x=2)
    with pytest.raises(cd.TraceError, match="a derivative rule of its own"):
        cd.function(lambda x: cd.custom_jvp(lambda x: x * mass, lambda a, y, t: t[0])(x), x=())
    with pytest.raises(cd.TraceError, match="has a name like 'mass'"):
        cd.parameter("two words", 1.0)
    with pytest.raises(cd.TraceError, match="must be an array of numbers, got 'heavy'"):
        cd.parameter("mass", "heavy")
    with pytest.raises(cd.TraceError, match="no truth value"):
        cd.function(lambda x: x if mass else -x, x=())
