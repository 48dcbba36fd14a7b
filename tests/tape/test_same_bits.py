"""The promise: one tape, the same bits for every lane width, batch size, split over threads, hash seed, fresh or cached."""

import hashlib
import os
import random
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markers import slow_except
from tape import random_tapes
from tape.evaluation import computed, reference
from tape.random_tapes import inputs_for, inputs_from, same_bits, tape_from

import condyle as cd
from condyle.tape.backends import cpu
from condyle.tape.backends.interface import Options, find_backend
from condyle.tape.backends.reference import GOLDEN, golden_digest, golden_tape
from condyle.tape.derive import jacobian
from condyle.tape.llvm import kernel_ir
from condyle.tape.passes import lower
from condyle.tape.tape import Block, Node, Tape

LANES = {"f64": (1, 2, 4, 8), "f32": (1, 2, 4, 8, 16)}
DTYPE = {"f64": "float64", "f32": "float32"}


def kernel(lowered: Tape, precision: str, lanes: int, **cuts: int) -> cpu.CpuKernel:
    """A kernel compiled now, without the cache."""
    text, scratch = kernel_ir(lowered, precision, lanes, replace(cpu.target(), **cuts))
    return cpu.CpuKernel(lowered, cpu.object_code(text), scratch, lanes, lowered.operations)


def run(compiled: cpu.CpuKernel, tape: Tape, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return computed(compiled, tape, inputs, inputs[0].dtype)


def check_all_lanes(tape: Tape, precision: str, inputs: list[np.ndarray], **cuts: int) -> None:
    lowered = lower(tape, precision)
    wanted = reference(lowered, inputs)
    for lanes in LANES[precision]:
        got = run(kernel(lowered, precision, lanes, **cuts), tape, inputs)
        for port, a, b in zip(tape.outputs, wanted, got, strict=True):
            assert same_bits(a, b), f"{precision}, {lanes} lanes, output {port.name}: {a} and {b}\n{lowered}"


@pytest.mark.parametrize("precision", slow_except(["f64"], ["f64", "f32"]))
@settings(max_examples=24)
@given(data=st.data())
def test_random_tapes_give_the_reference_bits_at_every_lane_width(precision, data):
    tape = data.draw(random_tapes.random_tapes())
    check_all_lanes(tape, precision, data.draw(inputs_for(tape, dtype=DTYPE[precision])))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["f64", "f32"])
@settings(max_examples=18)
@given(data=st.data())
def test_elementary_functions_too(precision, data):
    tape = data.draw(random_tapes.random_tapes(elementary=True))
    check_all_lanes(tape, precision, data.draw(inputs_for(tape, dtype=DTYPE[precision])))


@pytest.mark.parametrize("seed", slow_except(range(6), range(15)))
def test_cutting_a_block_into_runs_changes_no_bit(seed):
    tape = tape_from(random.Random(seed).randrange, elementary=seed % 2 == 0)
    inputs = inputs_from(random.Random(seed + 1000).randrange, tape)
    wanted = reference(lower(tape, "f64"), inputs)
    for uncut in (1, 6):
        got = run(kernel(lower(tape, "f64"), "f64", 4, uncut=uncut), tape, inputs)
        assert all(same_bits(a, b) for a, b in zip(wanted, got, strict=True)), f"uncut={uncut}\n{tape}"


def test_float32_and_float64_kernels_of_equal_operations_and_lanes_are_kept_apart():
    square = cd.function(lambda x: x * x, x=3)
    assert square.lowered("f64").hash == square.lowered("f32").hash
    x = np.arange(33.0).reshape(11, 3)
    for dtype in (np.float64, np.float32, np.float64):
        assert same_bits(square.on("cpu", lanes=4)(x.astype(dtype)), (x * x).astype(dtype))


def to_the_end(block: Block) -> Block:
    """The block with loops that run all their iterations, whatever their condition says."""
    nodes = []
    for op, args, data in block.nodes:
        if op == "loop":
            body = to_the_end(data.body)
            results = body.results[:-1] if data.exits else body.results
            data = replace(data, body=Block(body.nodes, body.params, results), exits=False)
        nodes.append(Node(op, args, data))
    return Block(tuple(nodes), block.params, block.results)


@pytest.mark.parametrize("seed", slow_except(range(8), range(24)))
def test_ending_a_loop_early_changes_no_bit(monkeypatch, seed):
    monkeypatch.setattr(random_tapes, "LOOPS", [random_tapes.plain_loop, *[random_tapes.freezing_loop] * 3])
    tape = tape_from(random.Random(seed).randrange)
    inputs = inputs_from(random.Random(-seed).randrange, tape)
    tapes = [tape, jacobian(tape, mode="forward")]
    for each in [lower(t, "f64") for t in tapes]:
        wanted = reference(Tape(each.name, to_the_end(each.block), each.inputs, each.outputs), inputs)
        found = [reference(each, inputs)]
        found += [run(kernel(each, "f64", lanes, **cuts), each, inputs) for lanes, cuts in ((1, {}), (4, {}), (2, {"uncut": 4}))]
        for got in found:
            assert all(same_bits(a, b) for a, b in zip(wanted, got, strict=True)), f"{each}"


@pytest.mark.parametrize("uncut", [4000, 8, 1])
@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_lanes_that_end_at_different_iterations(precision, uncut):
    def roots(a):
        def body(i, s):
            y, n = s
            return 0.5 * (y + a / y), n + 1.0

        return cd.loop(body, (a, 0.0), 90, until=lambda s: abs(s[0] * s[0] - a) <= 1e-5 * abs(a))

    # done at once, soon, late, never (no root, or NaN)
    a = [1.0, 2.0, -3.0, 1e12, 1e-9, 0.0, np.nan, 1e30, np.inf, -8.0, 1.0, 1.0, 5e-20, 27.0, np.nan, 1.0, 1e3, -1.0, 2.5]
    inputs = [np.array(a, DTYPE[precision])[:, None]]
    tape = cd.trace(roots, a=())
    check_all_lanes(tape, precision, inputs, uncut=uncut)
    lowered = lower(tape, precision)
    full = Tape("full", to_the_end(lowered.block), tape.inputs, tape.outputs)
    got, wanted = reference(lowered, inputs), reference(full, inputs)
    assert all(same_bits(x, y) for x, y in zip(got, wanted, strict=True))
    assert len(np.unique(got[1])) > 8 and got[1].min() == 0 and got[1].max() == 90, "lanes stop at different counts"


def chaos(x, k):
    """A thousand steps of a bounded map that triples small differences at every step."""

    def step(i, s):
        bent = 1.8 * np.sin(3.0 * s) + k * np.cos(2.0 * s[::-1] + i * 1e-3)
        return cd.where(s > 0.0, bent, bent + np.exp(-s * s)) / (1.0 + 0.01 * (s @ s))

    return cd.loop(step, x, 1000)


@pytest.fixture(scope="module")
def states():
    return np.random.default_rng(5).normal(size=(512, 3))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_long_chaotic_iterations(states, dtype):
    f = cd.function(chaos, x=3, k=())
    x = states.astype(dtype)
    k = np.asarray(0.1, dtype)
    all_at_once = f(x, k)
    # chaotic: neighbours end far apart, so a wrong last bit anywhere would show
    assert np.abs(f(np.nextafter(x, x + 1), k) - all_at_once).max() > 0.01
    assert same_bits(all_at_once[:1], f.on("reference")(x[:1], k))
    for lanes in LANES["f64" if dtype == "float64" else "f32"]:
        g = f.on("cpu", lanes=lanes)
        for count in (1, 3, 512):
            assert same_bits(g(x[:count], k), all_at_once[:count]), f"{lanes} lanes, batch of {count}"


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_any_split_over_threads(monkeypatch, states, threads):
    f = cd.function(chaos, x=3, k=())
    monkeypatch.setattr(cpu, "THREAD_PAYS", 1e-9)
    assert same_bits(f.on("cpu", threads=threads)(states, 0.1), f.on("cpu", threads=1)(states, 0.1))


def test_position_in_the_batch_does_not_matter(states):
    f = cd.function(chaos, x=3, k=())
    order = np.random.default_rng(0).permutation(len(states))
    assert same_bits(f(states[order], 0.1), f(states, 0.1)[order])
    assert same_bits(np.array([f(x, 0.1) for x in states[:20]]), f(states, 0.1)[:20])


def test_a_lane_of_nan_leaves_its_neighbours_alone(states):
    f = cd.function(chaos, x=3, k=())
    spoiled = states[:16].copy()
    spoiled[5] = np.nan
    spoiled[11] = np.inf
    clean = np.delete(np.arange(16), [5, 11])
    assert same_bits(f(spoiled, 0.1)[clean], f(states[:16], 0.1)[clean])


CHILD = """
    import hashlib, random, sys
    sys.path.insert(0, {tests!r})
    import numpy as np
    import condyle as cd
    from tape.random_tapes import inputs_from, tape_from
    digest = hashlib.sha256()
    for seed in range(6):
        tape = tape_from(random.Random(seed).randrange, elementary=True)
        f = cd.Function(tape)
        inputs = inputs_from(random.Random(seed + 1).randrange, tape, special=False)
        arrays = [a.reshape(len(a), *p.shape) for a, p in zip(inputs, tape.inputs)]
        outputs = f(*arrays)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        # processors may differ in the sign and payload of NaN
        digest.update(tape.hash.encode() + f.source("llvm").encode() + f.source("c").encode())
        digest.update(b"".join(np.nan_to_num(o, nan=0.125).tobytes() for o in outputs))
    print(digest.hexdigest())
"""


@pytest.mark.slow
def test_hash_seeds_and_the_cache_change_nothing(tmp_path):
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = {}
    for name, seed, cache in [
        ("fresh", "1", "one"),
        ("cached", "1", "one"),
        ("other seed, no cache", "77", "off"),
    ]:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "CONDYLE_CACHE": "off" if cache == "off" else str(tmp_path / cache)}
        code = textwrap.dedent(CHILD).format(tests=tests)
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
        assert result.returncode == 0, result.stderr
        found[name] = result.stdout
    assert len(set(found.values())) == 1, found
    assert len(list((tmp_path / "one").glob("*.cdo"))) >= 6


def test_the_golden_bits_are_those_of_the_reference():
    for precision, bits in GOLDEN.items():
        kernel = find_backend("reference").compile(golden_tape(), precision, Options())
        assert golden_digest(kernel, precision) == bits


def test_a_processor_with_other_bits_is_refused(monkeypatch):
    monkeypatch.setitem(GOLDEN, "f64", hashlib.sha256(b"other").hexdigest())
    cpu._check_processor.cache_clear()
    with pytest.raises(cd.BackendError, match="golden bits"):
        cd.function(lambda x: x + 1.0, x=2)(np.zeros(2))
    cpu._check_processor.cache_clear()


def test_rounding_mode_and_flush_to_zero_of_the_caller_are_set_aside_and_restored():
    # a library that sets flush-to-zero (as -ffast-math start-up code does) must not change our bits
    tiny = np.array([5e-310, 1e-320, -3e-309])
    f = cd.function(lambda x: x * 0.5 + x, x=3)
    wanted = f(tiny)
    mxcsr = _Mxcsr()
    before = mxcsr.read()
    try:
        mxcsr.write(before | 0x8040 | 0x2000)  # flush to zero, denormals are zero, round down
        got = f(tiny)
        inside = mxcsr.read()
    finally:
        mxcsr.write(before)
    assert same_bits(wanted, got)
    assert inside & 0xFFC0 == (before | 0x8040 | 0x2000) & 0xFFC0


class _Mxcsr:
    """Reads and writes the x86 control register through two compiled functions."""

    def __init__(self):
        if not cpu.host().triple.startswith("x86_64"):
            pytest.skip("the control register is read with x86 instructions")
        import ctypes

        text = """
            declare void @llvm.x86.sse.stmxcsr(ptr)
            declare void @llvm.x86.sse.ldmxcsr(ptr)
            define i32 @read() { %a = alloca i32 call void @llvm.x86.sse.stmxcsr(ptr %a) %v = load i32, ptr %a ret i32 %v }
            define void @write(i32 %v) { %a = alloca i32 store i32 %v, ptr %a call void @llvm.x86.sse.ldmxcsr(ptr %a) ret void }
        """
        self.engine = cpu.load_object(cpu.object_code(text))
        self.read = ctypes.PYFUNCTYPE(ctypes.c_uint32)(self.engine.get_function_address("read"))
        self.write = ctypes.PYFUNCTYPE(None, ctypes.c_uint32)(self.engine.get_function_address("write"))


def test_one_tape_in_two_precisions_is_two_kernels():
    # nothing in this tape depends on the precision, so that it is lowered to the same operations for both
    f = cd.function(lambda x: x + 1.0, x=())
    for dtype in (np.float32, np.float64, np.float32):
        for lanes in (1, 4, 8):
            assert f.on("cpu", lanes=lanes)(dtype(0.5)) == 1.5
