"""Numbers of limbs: written out, side by side on a GPU (by the interpreter of PTX), in the lanes of a vector: the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markers import slow_except
from tape.evaluation import computed, reference
from tape.ptx_interpreter import Code, Device
from tape.random_tapes import same_bits

import condyle as cd
from condyle.errors import TraceError
from condyle.tape.backends import cpu
from condyle.tape.backends.reference import golden_tape
from condyle.tape.captured import BYTES
from condyle.tape.function import Function
from condyle.tape.lean import lean
from condyle.tape.limb_values import each, limb_count, limb_max, limb_sum, pick, picks, spread, sum_of_all
from condyle.tape.limbs import carried_together, has_limbs, lanes_of, unrolled
from condyle.tape.llvm import kernel_ir
from condyle.tape.loop import loop, scan
from condyle.tape.passes import lower
from condyle.tape.ptx import ptx_source
from condyle.tape.tape import Tape
from condyle.tape.trace import Rows, trace, trace_values


def solver_like(limbs: int, seed: int = 0) -> Tape:
    """A tape with what a solver has: numbers of limbs, sums over them, carried and captured ones, nested loops, tables."""
    c = np.random.default_rng(seed).normal(size=(3, limbs))
    c[1] = np.abs(c[1]) + 0.5

    def f(x: Any, y: Any, t: Any) -> Any:
        a, b = spread(*x[:limbs]), spread(*x[limbs:])
        z = a * spread(*c[0]) + y[0] / spread(*c[1])
        total = limb_sum(z) + limb_max(a * b)

        def body(i: Any, state: Any) -> Any:
            p, q = state

            def inner(k: Any, inside: Any) -> Any:
                r, s = inside
                return r * 0.5 + b * (s * 0.1) + k, s + 0.01 * limb_sum(r * a)

            r, s = loop(inner, (p, q), 3, until=lambda inside: inside[1] > 2.5)
            # a condition that few states enter
            r = loop(lambda _, r: r * r + b, r, 1, until=lambda _: limb_max(a) < 1.5)
            chosen = cd.where(r > limb_max(b) * 0.25, r, -p)
            return chosen + np.sin(b) * total, s * 0.9 + pick(chosen, limbs - 1) * 0.05

        p, q = loop(body, (each(0.25, limbs), y[1]), 6, until=lambda state: state[1] > 3.0)
        _, rows = scan(lambda i, state, row: (state, row[0] * pick(p, 0) + row[1]), np.zeros(1), t)
        return {
            "sums": np.array([total, q, sum_of_all([p, q, a], [limbs, 0, limbs])]),
            "each": np.array(picks(p, limbs)),
            "rows": rows,
        }

    return trace_values(f, x=2 * limbs, y=2, t=Rows(4, 2))


def inputs(limbs: int, states: int, precision: str, seed: int = 1) -> list[np.ndarray]:
    """Random inputs of `solver_like`, with zeros of both signs, an infinity and NaN among them."""
    rng = np.random.default_rng(seed)
    x, y, t = rng.normal(size=(states, 2 * limbs)), rng.normal(size=(states, 2)), rng.normal(size=(states, 8))
    x[0, :2] = 0.0, -0.0
    x[-1, 0], y[-2, 0] = np.nan, np.inf
    dtype = np.float64 if precision == "f64" else np.float32
    return [a.astype(dtype) for a in (x, y, t)]


def on_gpu(tape: Tape, precision: str, arrays: list[np.ndarray], *, lean_loops: bool) -> list[np.ndarray]:
    """The outputs by the PTX with limbs side by side."""
    low = lower(tape, precision, limbs=True)
    if lean_loops:
        low = replace(low, block=lean(carried_together(low.block), precision))
        assert sum(node.op == "loop" for node in low.block.nodes) > sum(node.op == "loop" for node in tape.block.nodes)
    out = [np.full((len(arrays[0]), port.size), 7.5, arrays[0].dtype) for port in tape.outputs]
    ports = [(a.ctypes.data, a.strides[0], a.itemsize) for a in (*arrays, *out)]
    words = np.array([word for port in ports for word in port], np.int64).tobytes()
    lanes = lanes_of(low.block)
    assert lanes > 1
    code = Code(Device(), ptx_source(low, precision).encode(), "kernel")
    code.launch(-(-len(arrays[0]) * lanes // 32), 32, words, (len(arrays[0]), 0), shared=code.number(BYTES))
    return out


@pytest.mark.parametrize("limbs", slow_except([3], [2, 3, 4, 6, 8]))
@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_the_same_bits_on_every_backend(limbs: int, precision: str) -> None:
    tape, arrays = solver_like(limbs), inputs(limbs, 11, precision)
    expected = reference(lower(tape, precision), arrays)
    assert has_limbs(lower(tape, precision, limbs=True).block)
    assert not has_limbs(lower(tape, precision).block)
    shaped = [arrays[0], arrays[1], arrays[2].reshape(-1, 4, 2)]
    for lanes in (1, 4):
        found = Function(tape, lanes=lanes)(*shaped)
        assert all(same_bits(np.reshape(a, b.shape), b) for a, b in zip(found, expected, strict=True))
    for lean_loops in (False, True):
        found = on_gpu(tape, precision, arrays, lean_loops=lean_loops)
        assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))


# ---- limbs in the lanes of a vector, on the cpu


@pytest.fixture(params=[64, 32])
def vector_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The processor as it is, and as if it had no vectors of 64 bytes."""
    caches = (cpu.host, cpu.target, cpu._code_generator, cpu._check_processor)
    if request.param == 32:
        monkeypatch.setenv("CONDYLE_VECTOR_BYTES", "32")
        for each in caches:
            each.cache_clear()
    if cpu.host().vector_bytes != request.param:
        pytest.skip(f"the vectors of this processor have {cpu.host().vector_bytes} bytes")
    yield request.param
    monkeypatch.undo()
    for each in caches:
        each.cache_clear()


CUTS: dict[str, dict[str, int]] = {
    "whole": {},
    "in pieces": {"uncut": 10, "piece": 5},
    "assembled": {"uncut": 10, "straight_in_loops": 10, "assembled_run": 2, "straight_per_result": 0},
}


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("limbs", slow_except([3, 4], [2, 3, 4, 6, 8]))
@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_limbs_in_lanes_have_the_bits_of_the_reference(
    limbs: int, precision: str, cuts: dict[str, int], vector_bytes: int
) -> None:
    tape, arrays = solver_like(limbs), inputs(limbs, 11, precision)
    expected = reference(lower(tape, precision), arrays)
    low = lower(tape, precision, limbs=True)
    text, scratch = kernel_ir(low, precision, lanes_of(low.block), replace(cpu.target(), limbs=True, **cuts))
    kernel = cpu.CpuKernel(low, cpu.object_code(text), scratch, 1, low.operations)
    found = computed(kernel, tape, arrays, arrays[0].dtype)
    assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_rows_whose_number_is_known_at_run_time(precision: str) -> None:
    def f(x: Any, us: Any) -> Any:
        def body(i: Any, state: Any, u: Any) -> Any:
            each_limb = np.sin(spread(*state[:3])) * 0.5 + spread(*u)
            state = np.array([*picks(each_limb, 3), state[3] + limb_sum(each_limb * each_limb)])
            return state, np.array([limb_max(each_limb), state[3]])

        return scan(body, x, us)

    function = Function(trace_values(f, x=4, us=Rows(None, 3)))
    dtype = np.float64 if precision == "f64" else np.float32
    rng = np.random.default_rng(0)
    x, us = rng.normal(size=(9, 4)).astype(dtype), rng.normal(size=(9, 7, 3)).astype(dtype)
    kernels = function.kernel(precision)
    assert isinstance(kernels, cpu.LimbKernels)
    together, expected = function(x, us), function.on("reference")(x, us)
    alone = [function(x[k], us[k]) for k in range(9)]
    for port, wanted in enumerate(expected):
        assert same_bits(together[port], wanted)
        assert same_bits(np.array([found[port] for found in alone]), wanted)


def test_what_is_called_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[bool] = []
    original = cpu.cached_kernel

    def counted(tape: Tape, precision: str, lanes: int, threads: int, limbs: bool = False) -> cpu.CpuKernel:
        if tape.name != golden_tape().name:
            compiled.append(limbs)
        return original(tape, precision, lanes, threads, limbs)

    monkeypatch.setattr(cpu, "cached_kernel", counted)
    tape, (x, y, t) = solver_like(4), inputs(4, 11, "f64")
    t = t.reshape(-1, 4, 2)
    function = Function(tape)
    for _ in range(3):
        function(x[0], y[0], t[0])
    assert compiled == [True]
    function(x, y, t)
    assert compiled == [True, False]
    other = Function(tape)
    other(x, y, t)
    assert compiled == [True, False, False]
    # so many lanes: a state in each of them
    Function(tape, lanes=4)(x[0], y[0], t[0])
    assert compiled == [True, False, False, False]


def test_limbs_are_written_out_where_moves_between_lanes_cost_more_than_they_save() -> None:
    def moves(x: Any) -> Any:
        a = spread(*x)
        return np.array([limb_sum(a), limb_max(a), *picks(a * 2.0, 4)])

    tape = trace_values(moves, x=4)
    assert has_limbs(tape.block)
    assert cpu.limb_lanes(tape, "f64") == (1, 0)
    assert isinstance(Function(tape).kernel(), cpu.CpuKernel)
    lanes, few = cpu.limb_lanes(solver_like(4), "f64")
    assert lanes == 4 and few >= 1


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 8), st.integers(0, 10**6))
def test_written_out_limbs_have_the_values_of_numpy(limbs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(5, limbs)), rng.normal(size=5)

    def f(x: Any, y: Any) -> Any:
        a = spread(*x)
        b = a * y[0] + a * a
        return np.array([limb_sum(b), limb_max(b), *picks(b * limb_sum(a), limbs)])

    found = cd.function(f, x=limbs, y=1, cache=False)(x, y[:, None])
    b = x * y[:, None] + x * x
    expected = np.column_stack([b.sum(1), b.max(1), b * x.sum(1, keepdims=True)])
    assert np.allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_constants_of_limbs_fold_limb_by_limb() -> None:
    def f(x: Any) -> Any:
        sign = spread(1.0, -1.0, 1.0, -1.0)
        square = sign * sign
        assert limb_count(square) == 0  # one for all
        same = spread(x[0], x[0], x[0], x[0])
        assert limb_count(same) == 0
        a = spread(*x)
        assert spread(*picks(a, 4)).index == a.index
        return np.array(picks(a * square, 4))

    tape = trace(f, x=4)
    assert tape.operations == 0


def test_a_loop_says_what_is_missing_where_numbers_begin_to_differ_by_limb() -> None:
    def f(x: Any) -> Any:
        return limb_sum(loop(lambda i, p: p + spread(*x), x[0], 3))

    with pytest.raises(TraceError, match=r"start it with limbs\.each"):
        trace(f, x=4)
    with pytest.raises(TraceError, match="2 to 8 numbers"):
        trace(lambda x: spread(*x), x=9)
    with pytest.raises(TraceError, match="needs a number of each limb"):
        trace(lambda x: limb_sum(x[0]), x=2)


def test_blocks_without_limbs_stay_as_they_are() -> None:
    tape = trace(lambda x: x * 2.0, x=3)
    assert unrolled(tape.block) is tape.block


def test_a_loop_carries_numbers_of_limbs_together() -> None:
    def f(x: Any, u: Any) -> Any:
        def body(i: Any, state: Any, row: Any) -> Any:
            a = spread(*state[:4])
            moved = a * 0.5 + limb_sum(a) * row[0]
            new = np.array([*picks(moved, 4), state[4] + pick(a, 2)], dtype=object)
            return new, new

        _, rows = scan(body, x, u)
        return rows

    tape = trace_values(f, x=5, u=Rows(None, 1))
    (loop_node,) = [node for node in tape.block.nodes if node.op == "loop"]
    joined = carried_together(tape.block)
    (together,) = [node for node in joined.nodes if node.op == "loop"]
    assert (loop_node.data.carries, together.data.carries) == (5, 2)
    x, u = np.random.default_rng(0).normal(size=(3, 5)), np.random.default_rng(1).normal(size=(3, 4, 1))
    assert np.array_equal(Function(tape)(x, u), Function(replace(tape, block=joined))(x, u))
