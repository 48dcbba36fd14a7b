"""CasADi functions compute what their tapes mean, in CasADi's own shapes, and CasADi can differentiate them."""

import math
import random

import casadi
import numpy as np
import pytest
from tape import random_tapes
from tape.evaluation import interpreted, on
from tape.random_tapes import inputs_from, tape_from

from condyle.tape.array import array, fma, where
from condyle.tape.backends.mpfr import Mpfr
from condyle.tape.export import casadi as export_casadi
from condyle.tape.export.casadi import casadi_function
from condyle.tape.loop import loop, scan
from condyle.tape.ops import INT
from condyle.tape.scalar import emit
from condyle.tape.tape import Tape
from condyle.tape.trace import trace

ROUNDING = 1e-10  # relative: a few hundred operations in float64, well conditioned


def call(function: casadi.Function, tape: Tape, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Outputs of one state, flattened row after row."""
    given = [x.reshape(port.shape) if len(port.shape) == 2 else x for port, x in zip(tape.inputs, inputs, strict=True)]
    return [np.array(out).ravel() for out in function.call([casadi.DM(x) for x in given])]


class Watchful(Mpfr):
    """MPFR arithmetic that notices NaN, infinity, and a zero whose sign is asked for."""

    def __init__(self, bits: int) -> None:
        super().__init__(bits)
        self.strange = False
        for name, function in self.functions.items():
            self.functions[name] = lambda *args, function=function: self.watch(function(*args))
        copysign = self.functions["copysign"]
        self.functions["copysign"] = lambda a, b: copysign(a, b if b else self.number(math.inf))

    def number(self, value):
        return self.watch(super().number(value))

    def watch(self, value):
        self.strange |= not isinstance(value, bool) and not math.isfinite(value)
        return value


def tame(tape: Tape, inputs: list[np.ndarray]) -> list[np.ndarray] | None:
    """The true values, or None where CasADi may differ: at a NaN, an infinity, the sign of a zero, or amplified rounding."""
    watchful = Watchful(300)
    true = interpreted(tape, inputs, watchful, "float64")
    rounded = interpreted(tape, inputs, Mpfr(53), "float64")
    close = all(np.allclose(a, b, rtol=1e-13, atol=0) for a, b in zip(true, rounded, strict=True))
    return true if close and not watchful.strange else None


@pytest.mark.peers
@pytest.mark.parametrize("unroll", [10_000, 0], ids=["unrolled", "loops"])
def test_random_tapes(monkeypatch: pytest.MonkeyPatch, unroll: int) -> None:
    monkeypatch.setattr(export_casadi, "UNROLL", unroll)
    real = [op for op in random_tapes.EXACT if INT not in (op.gives, *op.takes)]
    monkeypatch.setattr(random_tapes, "EXACT", real)
    compared = 0
    for seed in range(300):
        pick = random.Random(seed).randrange
        tape = tape_from(pick, elementary=seed % 2 == 1)
        inputs = inputs_from(pick, tape, special=False, most=1)
        want = tame(tape, inputs)
        if want is None:
            continue
        got = call(casadi_function(tape), tape, [x[0] for x in inputs])
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b[0], rtol=ROUNDING, atol=1e-300, err_msg=f"seed {seed}\n{tape}")
        compared += 1
    assert compared > 60


def test_every_operation() -> None:
    def f(x):
        a, b = x
        exact = [a + b, a - b, a * b, a / b, -a, fma(a, b, a), np.sqrt(abs(a)), np.copysign(a, b), np.rint(a), np.floor(a)]
        exact += [np.minimum(a, b), np.maximum(a, b), emit("pow2", np.rint(b)), emit("logb", a), where(a < b, a, b)]
        exact += [where((a <= b) & ~(a == b) | (b > 3.0), 1.0, 2.0)]
        true = [np.sin(a), np.cos(a), np.tan(a), np.arctan2(a, b), np.arcsin(b / 100.0), np.arccos(b / 100.0), np.exp(b)]
        true += [np.log(abs(a)), np.tanh(a), abs(a) ** 1.7]
        return array(exact + true)

    tape = trace(f, x=2)
    function = casadi_function(tape)
    for point in ([2.5, -1.5], [-3.5, 8.0], [0.5, 0.5], [1023.0, 2.0], [2.0**-40, 7.0], [2.0**40 - 2.0**-12, -3.0]):
        want = on("mpfr:100", tape, [np.array([point])])[0][0].astype(float)
        np.testing.assert_allclose(call(function, tape, [np.array(point)])[0], want, rtol=1e-14, err_msg=str(point))


def test_shapes_and_names() -> None:
    def step(q, A, s, T):
        return {"q": A @ q * s, "B": A.T @ A, "deep": T * 2.0, "one": s, "two words": q}

    tape = trace(step, q=3, A=(3, 3), s=(), T=(2, 1, 2))
    f = casadi_function(tape, "step_1")
    assert f.name() == "step_1"
    assert [f.name_in(k) for k in range(4)] == ["q", "A", "s", "T"]
    assert [f.name_out(k) for k in range(5)] == ["q_out", "B", "deep", "one", "two_words"]
    assert [f.size_in(k) for k in range(4)] == [(3, 1), (3, 3), (1, 1), (4, 1)]
    assert [f.size_out(k) for k in range(5)] == [(3, 1), (3, 3), (4, 1), (1, 1), (3, 1)]
    q, A, T = np.arange(1.0, 4.0), np.arange(9.0).reshape(3, 3), np.arange(4.0)
    out = f(q=q, A=A, s=2.0, T=T)
    np.testing.assert_array_equal(np.array(out["q_out"]).ravel(), A @ q * 2.0)
    np.testing.assert_array_equal(np.array(out["B"]), A.T @ A)
    np.testing.assert_array_equal(np.array(out["deep"]).ravel(), 2.0 * T)


def pendulum(x, u):
    """A rollout of a damped pendulum: rows of controls in, states out."""

    def step(i, state, row):
        q, v = state
        v = v + 0.01 * (row[0] - np.sin(q) - 0.1 * v)
        return array([q + 0.01 * v, v]), {"q": q, "state": array([q, v])}

    final, rows = scan(step, x, u)
    return {"final": final, **rows}


def test_a_long_loop_stays_a_loop_and_is_differentiated() -> None:
    tape = trace(pendulum, x=2, u=(2000, 1))
    f = casadi_function(tape)
    assert f.is_a("MXFunction")
    assert f.n_instructions() < 10_000
    x, u = np.array([1.0, 0.0]), np.sin(np.arange(2000.0)).reshape(-1, 1)
    final, q, states = (np.array(out) for out in f(x, u))
    want = on("mpfr:100", tape, [x[None], u.reshape(1, -1)])
    np.testing.assert_allclose(final.ravel(), want[0][0].astype(float), rtol=1e-12)
    np.testing.assert_allclose(q.ravel(), want[1][0].astype(float), rtol=1e-10)
    np.testing.assert_allclose(states, want[2][0].astype(float).reshape(2000, 2), rtol=1e-10)
    # the derivative of the final state by the first one, against a central difference
    symbol = casadi.MX.sym("x", 2)
    jacobian = casadi.Function("J", [symbol], [casadi.jacobian(f(symbol, u)[0], symbol)])
    h = 1e-6
    derivative = [(np.array(f(x + h * e, u)[0]) - np.array(f(x - h * e, u)[0])) / (2 * h) for e in np.eye(2)]
    np.testing.assert_allclose(np.array(jacobian(x)), np.hstack(derivative), rtol=1e-6)


def test_a_short_loop_is_scalar_code() -> None:
    newton = trace(lambda a: loop(lambda i, x: 0.5 * (x + a / x), a, 6), a=())
    f = casadi_function(newton)
    assert f.is_a("SXFunction")
    assert float(f(2.0)) == pytest.approx(math.sqrt(2.0), rel=1e-15)
