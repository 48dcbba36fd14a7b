"""Functions with derivative rules of their own."""

import numpy as np
import pytest

import condyle as cd
from condyle.tape.custom import custom_jvp
from condyle.tape.derive import jacobian
from condyle.tape.tape import Tape
from condyle.tape.tape_codec import decode_block, encode_block
from condyle.tape.trace import trace_values


def cube_root(x: object) -> object:
    """x^(1/3) by Newton's iteration, which derivatives must not go through."""
    return cd.loop(lambda i, y: cd.stop_gradient((2.0 * y + x / (y * y)) / 3.0), cd.stop_gradient(x), 60)


root = custom_jvp(cube_root, lambda args, y, tangents: tangents[0] / (3.0 * y * y))
product = custom_jvp(lambda x, y: (x * y, x + y), lambda args, z, t: (t[0] * args[1] + args[0] * t[1], t[0] + t[1]))


def test_value_and_derivatives_of_all_orders() -> None:
    """The value is the function's, the first and second derivative are the rule's, in forward and reverse mode."""
    f = cd.function(lambda x: root(x) + 0.0 * x, x=())
    x = np.array([0.3, 1.0, 8.0])
    np.testing.assert_allclose(f(x), np.cbrt(x), rtol=1e-15)
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(f.jacobian(mode=mode)(x), np.cbrt(x) / (3 * x), rtol=1e-14)
    np.testing.assert_allclose(f.hessian()(x), -2 / 9 * np.cbrt(x) / x**2, rtol=1e-14)
    np.testing.assert_allclose(f.on("reference")(x), f(x), rtol=0)


def test_several_arguments_inside_a_loop() -> None:
    """A call in the body of a loop, with several arguments and results; structural zeros stay."""

    def f(x: np.ndarray) -> object:
        return cd.loop(lambda i, s: product(s[0], s[1])[::-1], (x[0], x[1]), 3)

    def plain(x: np.ndarray) -> object:
        return cd.loop(lambda i, s: (s[0] + s[1], s[0] * s[1]), (x[0], x[1]), 3)

    x = np.array([0.3, 0.7])
    ours, theirs = cd.function(f, x=2), cd.function(plain, x=2)
    assert ours(x) == theirs(x)
    for mode in ("forward", "reverse"):
        for a, b in zip(ours.jacobian(mode=mode)(x), theirs.jacobian(mode=mode)(x), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-14)
    f2 = cd.function(lambda x: product(x[0], x[1])[1] + x[2], x=3)
    _, _, columns = f2.sparse_jacobian("out", "x")
    assert list(columns) == [0, 1, 2]


def test_errors() -> None:
    """A captured traced value and a rule of the wrong shape are sentences."""
    with pytest.raises(cd.TraceError, match="pass it in"):
        cd.function(lambda x: custom_jvp(lambda y: y * x[1], lambda a, y, t: t[0])(x[0]), x=2)
    with pytest.raises(cd.TraceError, match="tangents shaped like the result"):
        cd.function(lambda x: custom_jvp(lambda y: y, lambda a, y, t: (t[0], t[0]))(x[0]), x=2)
    assert product(2.0, 3.0) == (6.0, 5.0)


def test_what_a_rule_computes_without_tangents_is_computed_once():
    def rule(args, y, tangents):
        # the derivative by an iteration, which needs no tangent
        slope = cd.loop(lambda i, s: 0.5 * (s + args[0][0] / s), args[0][0], 6)
        return tangents[0] * slope

    def f(x):
        return cd.custom_jvp(lambda x: x * 3.0, rule)(x)

    tape = cd.function(f, x=3).jacobian(mode="forward").tape
    assert [node.op for node in tape.block.nodes].count("loop") == 1
    found = cd.function(f, x=3).jacobian(mode="forward")(np.array([2.0, 1.0, 4.0]))
    assert np.allclose(found, np.sqrt(2.0) * np.eye(3), rtol=1e-12)
    assert np.array_equal(found, cd.function(f, x=3).jacobian(mode="reverse")(np.array([2.0, 1.0, 4.0])))


def test_rules_of_a_trace_of_values_are_traced_when_a_derivative_is_taken():
    asked = []

    def rule(args, y, tangents):
        asked.append(1)
        return tangents[0] / (3.0 * y * y)

    def f(x):
        return 2.0 * custom_jvp(cube_root, rule)(x)

    values = cd.Function(trace_values(f, x=()))
    x = np.array([0.3, 8.0])
    assert np.array_equal(values(x), cd.function(f, cache=False, x=())(x)) and len(asked) == 1, "the second one traced its rule"
    # what a derivative inside of such a trace needs is there, too
    slope = cd.Function(trace_values(lambda x: cd.linearize(f, x)[1], x=()))
    assert np.array_equal(slope(x), cd.function(f, cache=False, x=()).jacobian()(x))
    assert np.array_equal(values.jacobian()(x), slope(x))
    stored = decode_block(encode_block(values.tape.block))
    again = cd.Function(Tape("f", stored, values.tape.inputs, values.tape.outputs))
    assert again.tape.hash == values.tape.hash and np.array_equal(again(x), values(x))
    with pytest.raises(cd.TraceError, match="trace it anew"):
        jacobian(again.tape)
