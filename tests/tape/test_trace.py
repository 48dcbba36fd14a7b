"""Tracing: plain NumPy becomes a tape; what cannot be traced says where and what to write instead."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import condyle as cd
from condyle.tape.interpret import Ieee, evaluate
from condyle.tape.passes import lower

X = np.array([0.7, -1.3, 2.1])


def value(function, *arrays):
    shapes = {f"x{i}": np.shape(a) for i, a in enumerate(arrays)}
    return cd.function(lambda **xs: function(*xs.values()), **shapes).on("reference")(*arrays)


# ruff: noqa: E501, B002, RUF005
# fmt: off
PLAIN = [
    lambda x: x + 1, lambda x: 2 - x, lambda x: x * x[::-1], lambda x: 1 / x, lambda x: -x, lambda x: +x, lambda x: abs(x),
    lambda x: x ** 2, lambda x: x ** -1, lambda x: np.abs(x) ** 0.5, lambda x: np.abs(x) ** 1.7, lambda x: x ** 7, lambda x: x ** 0,
    lambda x: np.sin(x) + np.cos(x) * np.tan(x), lambda x: np.arcsin(x / 3) - np.arccos(x / 3), lambda x: np.arctan(x),
    lambda x: np.arctan2(x, x[::-1]), lambda x: np.exp(x) * np.log(np.abs(x)), lambda x: np.sqrt(x * x), lambda x: np.tanh(x),
    lambda x: np.minimum(x, 0.5), lambda x: np.maximum(x, x[::-1]), lambda x: np.clip(x, -1, 1), lambda x: np.sign(x),
    lambda x: np.floor(x) + np.ceil(x) + np.rint(x), lambda x: np.copysign(2.0, x), lambda x: np.hypot(x, 1.0), lambda x: np.square(x),
    lambda x: np.where(x > 0, x, -3 * x), lambda x: np.where((x > 0) & ~(x > 1), 1.0, 2.0), lambda x: np.where(x == x, x, 0.0),
    lambda x: np.where((x < 0) | (x >= 2), x, 0.0), lambda x: np.where(x != 0.7, x, 0.0), lambda x: np.logical_and(x > 0, x < 1) * 1.0
    if x.dtype == float else np.where(np.logical_and(x > 0, x < 1), 1.0, 0.0),
    lambda x: x @ x, lambda x: np.outer(x, x) @ x, lambda x: np.cross(x, [1.0, 2.0, 3.0]), lambda x: np.dot(x, x) * x,
    lambda x: np.sum(x), lambda x: x.sum() + x.mean() + np.prod(x), lambda x: np.max(x) - x.min(), lambda x: np.linalg.norm(x),
    lambda x: np.concatenate([x, x[:1]]), lambda x: np.stack([x, 2 * x]), lambda x: np.vstack([x, x]).T, lambda x: x[[2, 0]],
    lambda x: np.einsum("i,j->ij", x, x), lambda x: np.cumsum(x), lambda x: np.diag(x) @ x, lambda x: np.roll(x, 1), lambda x: np.trace(np.outer(x, x)),
    lambda x: np.array([x[0], x[1] * 2, 3.0]), lambda x: np.array([[x[0], 0], [1, x[1]]]) @ x[:2], lambda x: np.deg2rad(x) + np.rad2deg(x),
    lambda x: np.float64(2.0) * x[0] + np.int64(3) * x[1], lambda x: x[0] * np.ones(3), lambda x: np.kron(x, x), lambda x: np.tensordot(x, x, 1),
]
# fmt: on


@pytest.mark.parametrize("function", PLAIN)
def test_numpy_means_the_same_when_traced(function):
    wanted = np.asarray(function(X), dtype=float)
    got = np.asarray(value(function, X))
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=4e-15, atol=1e-15)


def test_truth_has_no_value_and_the_error_names_the_line():
    def branch(x):
        if x > 0:  # the line in question
            return x
        return -x

    line = branch.__code__.co_firstlineno + 1
    with pytest.raises(cd.TraceError, match=rf"test_trace\.py:{line}: .*condyle\.where"):
        cd.trace(branch, x=())


@pytest.mark.parametrize(
    "function, words",
    [
        (lambda x: x and 1, "truth value"),
        (lambda x: not (x > 0), "condyle.where"),
        (lambda x: max(x, 2.0), "condyle.where"),
        (lambda x: math.sin(x), "NumPy's functions"),
        (lambda x: float(x), "no value yet"),
        (lambda x: [1, 2, 3][x], "no value yet"),
        (lambda x: round(x), "no value yet"),
        (lambda x: np.zeros(3).__setitem__(0, x), "assign into an array made by condyle.array"),
        (lambda x: np.zeros(3).__setitem__(slice(2), np.array([x, x])), "assign into an array made by condyle.array"),
        (lambda x: x**x, "must be a number"),
        (lambda x: 2.0**x, "must be a number"),
        (lambda x: np.sinh(x), "np.sinh has no traced meaning; there are: .*tanh"),
        (lambda x: np.linalg.eig(cd.array([[x, 0.0], [0.0, x]])), "np.linalg.eig has no traced meaning"),
        (lambda x: {"y": "text"}, "expected a traced value or a number"),
        (lambda x: None, "expected a traced value or a number"),
        (lambda x: (), "returned nothing"),
    ],
)
def test_what_cannot_be_traced_is_explained(function, words):
    with pytest.raises(cd.TraceError, match=words):
        cd.trace(function, x=())


@pytest.mark.parametrize("shape", [0, -1, 2.5, (3, 0), "3", None])
def test_bad_shapes_are_refused(shape):
    with pytest.raises(cd.TraceError, match="positive whole number"):
        cd.trace(lambda x: x, x=shape)


def test_a_value_cannot_leave_the_loop_it_belongs_to():
    kept = []

    def body(i, s):
        kept.append(s * 2.0)
        return s + 1.0

    with pytest.raises(cd.TraceError, match="outside of the function or loop body"):
        cd.trace(lambda x: cd.loop(body, x, 3) + kept[0], x=())


# ---- folding


def nodes(function, **shapes):
    return [n.op for n in cd.trace(function, **shapes).block.nodes if n.op not in ("param", "const")]


@pytest.mark.parametrize(
    "function",
    [lambda x: x + 0, lambda x: 0 + x, lambda x: x - 0, lambda x: x * 1, lambda x: x / 1, lambda x: -(-x), lambda x: x**1]
    + [lambda x: cd.where(x > 0, x, x), lambda x: 0 * np.exp(x) + x, lambda x: x + 0 * x],
)
def test_exact_foldings_leave_the_value_itself(function):
    assert nodes(function, x=()) == []


def test_equal_operations_are_one():
    assert nodes(lambda x, y: (x * y + 1) * (y * x + 1), x=(), y=()) == ["mul", "add", "mul"]
    assert nodes(lambda x: np.sin(x) + np.sin(x) * np.cos(x), x=()).count("sin") == 1


def test_signs_are_gathered():
    assert nodes(lambda x, y: (-x) * (-y), x=(), y=()) == ["mul"]
    assert nodes(lambda x, y: x + (-y), x=(), y=()) == ["sub"]
    assert nodes(lambda x, y: x - (-y), x=(), y=()) == ["add"]


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_constants_are_combined_only_when_exact(a, b):
    from fractions import Fraction

    for op, exact in (("add", lambda: Fraction(a) + Fraction(b)), ("mul", lambda: Fraction(a) * Fraction(b))):
        graph = cd.trace(lambda x: x, x=())
        from condyle.tape.graph import Graph

        graph = Graph()
        at = graph.emit(op, (graph.const(a), graph.const(b)))
        if graph.nodes[at].op == "const":
            assert Fraction(graph.nodes[at].data) == exact()


def test_the_two_zeros_stay_apart():
    tape = cd.trace(lambda x: (np.copysign(x, 0.0), np.copysign(x, -0.0)), x=())
    out = evaluate(lower(tape, "f64").block, [3.0], Ieee())
    assert out == [3.0, -3.0]


# ---- the tape as data


def test_the_listing_is_readable():
    tape = cd.trace(lambda x, h: cd.loop(lambda i, s: s + h * np.sin(s), x, 5), x=1, h=())
    text = str(tape)
    assert text.splitlines()[0] == "<lambda>(x[1], h[])" or text.splitlines()[0] == "function(x[1], h[])"
    assert "loop 5 times, carry 1" in text and "sin %" in text and "next %" in text


def test_the_hash_depends_on_everything_that_matters():
    variants = [
        cd.trace(lambda x: x * 2.0, x=2),
        cd.trace(lambda x: x * 3.0, x=2),
        cd.trace(lambda y: y * 2.0, y=2),
        cd.trace(lambda x: x * 2.0, x=3),
        cd.trace(lambda x: x + 2.0, x=2),
        cd.trace(lambda x: {"z": x * 2.0}, x=2),
        cd.trace(lambda x: cd.loop(lambda i, s: s * 2.0, x, 1), x=2),
        cd.trace(lambda x: cd.loop(lambda i, s: s * 2.0, x, 2), x=2),
        cd.trace(lambda x: np.copysign(x, 0.0), x=2),
        cd.trace(lambda x: np.copysign(x, -0.0), x=2),
    ]
    assert len({t.hash for t in variants}) == len(variants)
    assert cd.trace(lambda x: x * 2.0, x=2).hash == variants[0].hash


@pytest.mark.parametrize("zeros", [lambda x: cd.array(np.zeros(3)), lambda x: np.zeros(3, dtype=object), np.zeros_like])
def test_the_cures_for_assignments(zeros):
    def scattered(x):
        out = zeros(x)
        out[0] = x[2]
        out[1:] = out[1:] + x[:2]
        return out

    assert np.array_equal(cd.function(scattered, x=3)(np.array([1.0, 2.0, 3.0])), [3.0, 1.0, 2.0])


def test_a_tape_takes_no_number_from_the_c_library():
    # an entry of an array that is not traced: recorded as a function of a number, in the precision of the backend
    f = cd.function(lambda x: np.sin(cd.array([x, 0.3, 0.0])) + np.exp(cd.array([0.0, 1.25, x])), x=())
    assert str(f.tape).count("sin") == 2 and str(f.tape).count("exp") == 2, "sin 0 and exp 0 are exact"
    pytest.importorskip("gmpy2")
    exact = f.on("mpfr:200")(0.5)
    np.testing.assert_allclose(f(0.5), exact.astype(float), rtol=1e-15)
    assert abs(float(exact[1]) - (math.sin(0.3) + math.exp(1.25))) < 1e-15
    assert cd.array([0.3]).astype(float) == [0.3] and np.sin(cd.array([0.3]))[0] == np.sin(0.3), "numbers outside of a trace"


TRUTHS = {
    "1.0 * (x > 0)": lambda x: 1.0 * (x[0] > 0.0),
    "(x > 0) * y": lambda x: (x[0] > 0.0) * x[1],
    "(x > 0) * (y > 0) * 3": lambda x: (x[0] > 0.0) * (x[1] > 0.0) * 3.0,
    "x * (x > 0)": lambda x: x * (x > 0.0),
    "2 - (x > 0)": lambda x: 2 - (x > 0.0),
    "(x > 0) - 2": lambda x: (x > 0.0) - 2.0,
    "1 / (1 + (x > 0))": lambda x: 1.0 / (1.0 + (x > 0.0)),
    "(x > 0) / 2": lambda x: (x[2] > 0.0) / 2.0,
    "(x > 0) ** 2": lambda x: (x[2] > 0.0) ** 2,
    "np.float64(2) * (x > 0)": lambda x: np.float64(2.0) * (x[0] > 0.0),
    "np.ones(3) * (x > 0)": lambda x: np.ones(3) * (x > 0.0),
    "np.sum(x > 0)": lambda x: np.sum(x > 0.0),
    "np.mean(x > 0)": lambda x: np.mean(x > 0.0),
    "np.cumsum(x > 0)": lambda x: np.cumsum(x > 0.0),
    "np.prod(x > 0)": lambda x: 1.0 * np.prod(x > 0.0),
    "sum(x > 0)": lambda x: sum(x > 0.0),
    "(x > 0) @ x": lambda x: (x > 0.0) @ x,
    "np.maximum(x > 0, 0.5)": lambda x: np.maximum(x > 0.0, 0.5),
    "np.clip(x > 0, 0.2, 0.7)": lambda x: np.clip(x > 0.0, 0.2, 0.7),
    "np.sqrt(x > 0)": lambda x: np.sqrt(x > 0.0) * 1.0,
    "(x > 0) == 1": lambda x: np.where((x[0] > 0.0) == 1, x[1], x[2]),
    "(x > 0) == False": lambda x: np.where((x[0] > 0.0) == np.bool_(False), x[1], x[2]),
    "(x > 0) ^ True": lambda x: np.where((x[0] > 0.0) ^ True, x[1], x[2]),
    "(x > 0) == (y > 0)": lambda x: np.where((x[0] > 0.0) == (x[1] > 0.0), x[1], x[2]),
    "(x > 0) != 0.0": lambda x: np.where((x[0] > 0.0) != 0.0, x[1], x[2]),
    "(x > 0) > 0.5": lambda x: np.where((x[0] > 0.0) > 0.5, x[1], x[2]),
    "(x > 0) <= 0.5": lambda x: np.where((x[0] > 0.0) <= 0.5, x[1], x[2]),
    "parameter * (x > 0)": lambda x: HALF * (x > 0.0),
}
HALF = cd.parameter("half", 0.5)


@pytest.mark.parametrize("name", TRUTHS)
def test_comparisons_in_arithmetic_are_those_of_numpy(name: str) -> None:
    function = cd.function(lambda x: TRUTHS[name](x), x=3).on("reference")
    for x in np.random.default_rng(0).normal(size=(5, 3)):
        assert np.array_equal(function(x), np.asarray(TRUTHS[name](x), dtype=float))


@pytest.mark.parametrize(
    ("use", "sentence"),
    [
        (lambda x: (x[0] > 0.0) + (x[1] > 0.0), r"write a \| b, a & b, ~a or 1.0 \* a for the number that it is"),
        (lambda x: -(x[0] > 0.0), "is a truth and no number"),
        (lambda x: np.sum(np.array([x[0] > 0.0, x[1] > 0.0])), "np.sum counts those of an array that is made by condyle.array"),
        (lambda x: float(x[0] > 0.0), r"write 1.0 \* \(x > 0\), or condyle.where"),
        (lambda x: (x > 0.0).astype(float), r"so float\(\), int\(\) and astype\(\) cannot use it"),
        (lambda x: x > 0.0, "returned, and this is a traced comparison"),
        (lambda x: 2.0 ** (x[0] > 0.0), "the power of a number must be a number"),
    ],
)
def test_what_a_comparison_cannot_be_is_said(use, sentence: str) -> None:
    with pytest.raises(cd.TraceError, match=rf"test_trace.py:\d+: .*{sentence}"):
        cd.function(use, x=3)
