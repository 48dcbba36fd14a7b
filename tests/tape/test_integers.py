"""Words, whole numbers of 32 bits, have the same bits on every backend, in both precisions, in loops and in exported C."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tape.evaluation import on, reference
from tape.random_tapes import same_bits
from tape.test_same_bits import DTYPE, LANES, kernel, run

import condyle as cd
from condyle.errors import BackendError, TraceError
from condyle.tape.backends import cpu
from condyle.tape.backends.interval import Interval
from condyle.tape.derive import jacobian
from condyle.tape.interpret import INTEGERS
from condyle.tape.ops import OPS
from condyle.tape.passes import lower, operations_used
from condyle.tape.scalar import Scalar, integer

EDGES = [0, 1, 2, 31, 32, 33, 0xFFFF, 0x10000, 0xFFFFFF, 0x1000001, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFF7F, 0xFFFFFFFF]
NUMBERS = [0.5, -0.5, 1.5, 2.5, -1.0, -2.5, 2.0**32, 2.0**32 + 7, -(2.0**32) - 3, 2.0**51, -(2.0**51), 2.0**51 - 0.5]
NUMBERS += [2.0**50 + 3, 1e300, np.inf, -np.inf, np.nan, 5e-324, -0.0]
OF_TWO = [name for name in INTEGERS if OPS[name].gives == "int"]


def from_halves(x):
    """The word of two traced numbers below 2^16."""
    return x[0].to_int() << 16 | x[1].to_int()


def to_halves(w):
    return [(w >> 16).to_real(), (w & 0xFFFF).to_real()]


def halves(words):
    words = np.asarray(words, np.uint64)
    return np.stack([words >> 16, words & 0xFFFF], axis=-1).astype(float)


def every_operation(a, b):
    a, b = from_halves(a), from_halves(b)
    words = [integer(op, a, b) for op in OF_TWO] + [~a, (a < b).where(a, b), (a == b).where(1, a), (a != b).where(a, 3)]
    return np.array([to_halves(w) for w in words])


def expected(a: int, b: int) -> list[int]:
    mask = 2**32 - 1
    shift = b % 32
    two = {
        "iadd": (a + b) & mask,
        "isub": (a - b) & mask,
        "imul": a * b & mask,
        "imulhi": a * b >> 32,
        "iand": a & b,
        "ior": a | b,
        "ixor": a ^ b,
        "ishl": (a << shift) & mask,
        "ishr": a >> shift,
    }
    return [two[op] for op in OF_TWO] + [mask - a, min(a, b), 1 if a == b else a, a if a != b else 3]


@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_every_operation_on_edges(precision):
    tape = cd.trace(every_operation, a=2, b=2)
    pairs = [(a, b) for a in EDGES for b in EDGES]
    inputs = [halves([p[k] for p in pairs]).astype(DTYPE[precision]) for k in (0, 1)]
    wanted = halves([expected(a, b) for a, b in pairs]).reshape(len(pairs), -1).astype(DTYPE[precision])
    lowered = lower(tape, precision)
    assert same_bits(reference(lowered, [x[:40] for x in inputs])[0], wanted[:40])
    for lanes in LANES[precision]:
        for cuts in ({}, {"uncut": 5, "piece": 5}):
            assert same_bits(run(kernel(lowered, precision, lanes, **cuts), tape, inputs)[0], wanted), (lanes, cuts)


@settings(max_examples=15)
@given(a=st.integers(0, 2**32 - 1), b=st.integers(0, 2**32 - 1))
def test_every_operation_on_any_words(a, b):
    tape = cd.trace(every_operation, a=2, b=2)
    inputs = [halves([a]), halves([b])]
    wanted = halves([expected(a, b)]).ravel().tolist()
    assert [float(x) for x in on("mpfr:30", tape, inputs)[0][0]] == wanted
    assert [float(x) for x in on("interval", tape, inputs)[0][0]] == wanted
    # the same on constants: folded while tracing
    constant = cd.trace(
        lambda x: np.ravel(every_operation(*[[Scalar(x.graph, x.graph.const(h)) for h in i[0]] for i in inputs])), x=()
    )
    assert reference(constant, [np.zeros((1, 1))])[0][0].tolist() == wanted
    assert not {"iadd", "isub", "imul", "imulhi", "ixor", "ishl"} & operations_used(constant.block)


@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_words_of_any_number(precision):
    tape = cd.trace(lambda x: np.array(to_halves(x.to_int())), x=())
    with np.errstate(over="ignore"):
        numbers = np.array(NUMBERS + EDGES, DTYPE[precision])
    wanted = [int(np.rint(np.float64(x))) % 2**32 if abs(x) < 2**51 else 0 for x in numbers]
    inputs = [numbers[:, None]]
    assert same_bits(reference(lower(tape, precision), inputs)[0], halves(wanted).astype(numbers.dtype))
    for lanes in LANES[precision]:
        assert same_bits(
            run(kernel(lower(tape, precision), precision, lanes), tape, inputs)[0], halves(wanted).astype(numbers.dtype)
        )
    if precision == "f64":
        assert (on("mpfr:80", tape, inputs)[0].astype(float) == halves(wanted)).all()


@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_a_word_as_a_number_is_rounded_once(precision):
    tape = cd.trace(lambda x: from_halves(x).to_real(), x=2)
    words = np.array([*EDGES, *range(0x1000000, 0x1000010), *range(2**32 - 400, 2**32, 7)], np.uint32)
    inputs = [halves(words).astype(DTYPE[precision])]
    wanted = words.astype(DTYPE[precision])[:, None]
    assert same_bits(reference(lower(tape, precision), inputs)[0], wanted)
    for lanes in LANES[precision]:
        assert same_bits(run(kernel(lower(tape, precision), precision, lanes), tape, inputs)[0], wanted)


@pytest.mark.skipif(not cpu.host().triple.startswith("x86_64"), reason="AVX2 is of x86-64")
@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_code_for_avx2(precision, monkeypatch):
    features = ",".join(f for f in cpu.host().features.split(",") if "avx512" not in f and "avx10" not in f)
    older = replace(cpu.host(), cpu="x86-64-v3", features=features)
    monkeypatch.setattr(cpu, "host", lambda: older)
    pairs = [(a, b) for a in EDGES for b in EDGES]
    operands = [halves([p[k] for p in pairs]).astype(DTYPE[precision]) for k in (0, 1)]
    wanted = halves([expected(a, b) for a, b in pairs]).reshape(len(pairs), -1).astype(DTYPE[precision])
    operations = lower(cd.trace(every_operation, a=2, b=2), precision)
    words = np.array([*EDGES, *range(2**32 - 400, 2**32, 7), *range(0x1000000, 0x1000010)], np.uint32)
    numbers = lower(cd.trace(lambda x: from_halves(x).to_real(), x=2), precision)
    inputs = [halves(words).astype(DTYPE[precision])]
    for lanes in (1, 4, 8):
        assert same_bits(run(kernel(operations, precision, lanes), operations, operands)[0], wanted)
        assert same_bits(run(kernel(numbers, precision, lanes), numbers, inputs)[0], words.astype(DTYPE[precision])[:, None])


def test_an_uncertain_word_gives_all_numbers_it_can_be():
    flint = pytest.importorskip("flint")
    tape = cd.trace(lambda x: (x.to_int() ^ 5).to_real(), x=())
    for ball, sure in ((flint.arb(7), True), (flint.arb(7.4), True), (flint.arb(7, 0.6), False), (flint.arb("nan"), False)):
        found = on("interval", tape, [np.array([[ball]], object)])[0][0, 0]
        assert found.contains(flint.arb(2)) and found.is_exact() == sure
    arithmetic = Interval()
    assert arithmetic.functions["to_int"](flint.arb("inf")) == 0
    assert arithmetic.functions["to_int"](flint.arb(2) ** 60) == 0


# ---- loops


def counting(x):
    w = from_halves(x)

    def outer(i, s):
        v = w ^ i.to_int()

        def inner(j, t):
            return t + ((v * 0x9E3779B1 + j.to_int()).multiply_high(w) & 0xFFF).to_real()

        return cd.loop(inner, s, 3) + (v & 1).to_real()

    return cd.loop(outer, 0.0, 4)


def counted(w: int) -> float:
    total = 0
    for i in range(4):
        v = w ^ i
        total += sum((((v * 0x9E3779B1 + j) % 2**32) * w >> 32) & 0xFFF for j in range(3)) + v % 2
    return float(total)


@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_words_cross_into_loops(precision):
    tape = cd.trace(counting, x=2)
    wanted = np.array([[counted(w)] for w in EDGES], DTYPE[precision])
    inputs = [halves(EDGES).astype(DTYPE[precision])]
    lowered = lower(tape, precision)
    assert same_bits(reference(lowered, inputs)[0], wanted)
    for lanes, uncut in ((1, 4000), (4, 4000), (4, 3)):
        assert same_bits(run(kernel(lowered, precision, lanes, uncut=uncut), tape, inputs)[0], wanted)


# ---- derivatives, errors, exports


def test_derivatives_pass_words_by():
    def f(x, y):
        return cd.loop(lambda i, s: s * y + (x.to_int() * 3 + i.to_int()).to_real(), x * y, 3)

    tape = cd.trace(f, x=(), y=())
    x, y = 5.0, 0.5
    value = lambda x, y, n: ((x * y * y + n[0]) * y + n[1]) * y + n[2]  # noqa: E731
    for mode in ("forward", "reverse"):
        found = cd.Function(jacobian(tape, mode=mode))(x, y)
        assert (
            found[0] == y**4
            and abs(found[1] - (value(x, y + 1e-6, (15, 16, 17)) - value(x, y - 1e-6, (15, 16, 17))) / 2e-6) < 1e-6
        )
    gradient = cd.Function(tape).vjp()(x, y, 1.0)
    assert gradient.x_gradient == y**4
    assert cd.function(lambda x: x.to_int().to_real(), x=()).jacobian()(3.0) == 0.0


def test_errors_say_what_to_do():
    with pytest.raises(TraceError, match="to_real"):
        cd.function(lambda x: x.to_int(), x=())
    with pytest.raises(TraceError, match="to_real"):
        cd.function(lambda x: cd.loop(lambda i, s: s, x.to_int(), 3), x=())
    with pytest.raises(TraceError, match="truth value"):
        cd.function(lambda x: 1.0 if x.to_int() else x, x=())
    with pytest.raises(TraceError, match="whole number"):
        cd.function(lambda x: integer("iadd", x.to_int(), 0.5).to_real(), x=())
    with pytest.raises(TraceError, match="to_int"):
        cd.function(lambda x: integer("iadd", x.to_int(), x).to_real(), x=())
    with pytest.raises(TypeError):
        cd.function(lambda x: x.to_int() + x, x=())


def test_casadi_has_no_words():
    pytest.importorskip("casadi")
    with pytest.raises(BackendError, match="no words of 32 bits"):
        cd.function(lambda x: x.to_int().to_real(), x=()).casadi()


@pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")
@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_exported_c(precision, tmp_path):
    from tape.test_export_c import MODES, build, call

    from condyle.tape.export.c import c_source

    pairs = [(a, b) for a in EDGES for b in EDGES[::3]]
    inputs = [halves([p[k] for p in pairs]).astype(DTYPE[precision]) for k in (0, 1)]
    wanted = halves([expected(a, b) for a, b in pairs]).reshape(len(pairs), -1).astype(DTYPE[precision])
    tape = lower(cd.trace(every_operation, a=2, b=2), precision)
    for flags in MODES:
        library = build(c_source(tape, precision, "words"), tmp_path, flags)
        assert same_bits(call(library, "words", tape, inputs)[0], wanted)
