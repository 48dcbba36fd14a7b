"""Reverse mode through scans over any number of rows, in two kernels: the gradients of the scan with its number of rows."""

from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.errors import TraceError

GAIN = cd.parameter("gain", 1.5)
WRT = ["x", "us", "W", "gain"]
ROWS = 7


def drive(x: Any, us: Any, W: Any) -> dict[str, Any]:
    """A state and a sum, carried over the rows; the final values are used after the scan."""

    def body(i: Any, state: Any, u: Any) -> Any:
        x, n = state
        a = np.sin(x) * u * GAIN + W[:] @ x
        return (x + 0.1 * a, n + x[0]), {"y": a * x, "n": n}

    (x, n), out = cd.scan(body, (x, 0.0), us)
    return {"x1": x * n, **out}


def freeze(x: Any, us: Any, k: Any) -> dict[str, Any]:
    """A state that stays where it is once a value is not finite."""

    def body(i: Any, state: Any, u: Any) -> Any:
        x, bad = state
        after = x + 0.1 * np.sqrt(1.0 - u * x) * k
        bad = cd.where(cd.isfinite(after.sum()), bad, 1.0)
        after = cd.where(bad <= 0.5, after, x)
        return (after, bad), {"before": x, "after": after}

    (x, _), out = cd.scan(body, (x, 0.0), us)
    return {"x1": x, **out}


@pytest.fixture(scope="module")
def drives() -> tuple[cd.Function, cd.Function]:
    """The function of any number of rows, and that of seven."""
    shapes = {"x": 2, "W": cd.Uniform(2, 2)}
    return tuple(cd.function(drive, us=cd.Rows(n, 2), **shapes) for n in (None, ROWS))


def weights_of(rng: np.random.Generator, outputs: Any) -> dict[str, np.ndarray]:
    return {f"{name}_weight": rng.normal(size=np.shape(a)) for name, a in zip(outputs._fields, outputs, strict=True)}


def test_the_gradients_are_those_of_a_known_number_of_rows(drives: Any) -> None:
    rng = np.random.default_rng(0)
    any_rows, seven = drives
    given = {"us": rng.normal(size=(5, ROWS, 2)), "x": rng.normal(size=(5, 2)), "W": rng.normal(size=(2, 2))}
    forward, backward = any_rows.forward_and_backward(WRT)
    value = any_rows(**given)
    found = forward(**given)
    assert all(np.array_equal(a, b) for a, b in zip(value, found, strict=False))
    kept = dict(zip(found._fields[3:], found[3:], strict=True))
    # the sum is carried, and is not needed to go back
    assert {name: a.shape for name, a in kept.items()} == {"carried0": (5, ROWS, 2), "final0": (5, 3)}
    weights = weights_of(rng, value)
    gradients = backward(**given, **kept, **weights)
    expected = seven.vjp(WRT)(**given, **weights)
    assert all(np.array_equal(a, b) for a, b in zip(gradients, expected, strict=True))
    for other in (backward.on("reference"), backward.on("cpu", lanes=1), backward.on("cpu", lanes=2)):
        assert all(np.array_equal(a, b) for a, b in zip(other(**given, **kept, **weights), gradients, strict=True))


def test_no_more_is_kept_than_what_is_read(drives: Any) -> None:
    forward, backward = drives[0].forward_and_backward("us")
    assert list(forward.outputs) == ["x1", "y", "n", "carried0", "final0"] and list(backward.outputs) == ["us_gradient"]
    linear = cd.function(lambda x, us: cd.scan(lambda i, s, u: (s + u, None), x, us)[0], x=2, us=cd.Rows(None, 2))
    forward, backward = linear.forward_and_backward()
    assert list(forward.outputs) == ["out"]
    x_gradient, us_gradient = backward(x=np.zeros(2), us=np.zeros((3, 2)), out_weight=np.array([1.0, 2.0]))
    assert np.array_equal(x_gradient, [1.0, 2.0]) and np.array_equal(us_gradient, [[1.0, 2.0]] * 3)


def test_without_such_scans_it_is_the_vjp() -> None:
    f = cd.function(lambda x: np.sin(x), x=2)
    forward, backward = f.forward_and_backward()
    x, w = np.array([0.1, 0.2]), np.ones(2)
    assert np.array_equal(forward(x), f(x)) and np.array_equal(backward(x, w), f.vjp()(x, w))


def test_a_state_that_is_kept_keeps_its_adjoint() -> None:
    """Lane 1 stops in the middle, lane 2 at once: no NaN, and the derivatives of what was recorded."""
    gmpy2 = pytest.importorskip("gmpy2")
    gmpy2.get_context().precision = 200
    rng = np.random.default_rng(1)
    f = cd.function(freeze, x=2, us=cd.Rows(None, 2), k=())
    x, us = rng.uniform(0.1, 0.5, (4, 2)), rng.uniform(0.1, 0.5, (4, 6, 2))
    us[1, 3], us[2, 0, 1] = 100.0, np.nan
    forward, backward = f.forward_and_backward(["x", "us", "k"])
    found = forward(x=x, us=us, k=1.3)
    kept = dict(zip(found._fields[3:], found[3:], strict=True))
    weights = weights_of(rng, f(x=x, us=us, k=1.3))
    gradient = backward(x=x, us=us, k=1.3, **kept, **weights)
    assert all(np.all(np.isfinite(g)) for g in gradient)
    assert np.all(gradient.us_gradient[1, 3:] == 0.0) and np.all(gradient.us_gradient[2] == 0.0) and gradient.k_gradient[2] == 0.0
    exact, h = f.on("mpfr:200"), gmpy2.mpfr(2) ** -60
    for lane in range(4):
        for i in range(2):
            ends = []
            for sign in (1, -1):
                moved = np.array([gmpy2.mpfr(float(v)) for v in x[lane]], dtype=object)
                moved[i] += sign * h
                results = exact(x=moved, us=us[lane], k=1.3)
                ends.append(sum((w[lane] * np.asarray(a)).sum() for w, a in zip(weights.values(), results, strict=True)))
            assert np.isclose(gradient.x_gradient[lane, i], float((ends[0] - ends[1]) / (2 * h)), rtol=1e-12)


def test_what_reverse_mode_cannot_do() -> None:
    def twice(x: Any, us: Any) -> Any:
        _, out = cd.scan(lambda i, s, u: (s + u, s * u), x, us)
        return cd.scan(lambda i, s, u: (s + u * s, None), x, out)[0]

    with pytest.raises(TraceError, match="a scan reads rows that another scan wrote"):
        cd.function(twice, x=2, us=cd.Rows(None, 2)).forward_and_backward()

    def table(x: Any, us: Any) -> Any:
        memory, _ = cd.scan(lambda i, t, u: (t.set(0, t[0] + u), None), cd.table(np.zeros((2, 2)) + x), us)
        return memory[0]

    with pytest.raises(TraceError, match="scans that carry numbers, not tables"):
        cd.function(table, x=2, us=cd.Rows(None, 2)).forward_and_backward()
