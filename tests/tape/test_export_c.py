"""Exported C gives the bits of the reference, whatever the optimisation, and compiles without a warning."""

import ctypes
import random
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from markers import slow_except
from tape.evaluation import reference
from tape.random_tapes import inputs_from, same_bits, tape_from

from condyle.errors import BackendError
from condyle.tape.array import array, where
from condyle.tape.export.c import c_header, c_source
from condyle.tape.loop import loop, scan
from condyle.tape.passes import lower
from condyle.tape.tape import Tape
from condyle.tape.trace import trace

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
pytestmark = pytest.mark.skipif(not COMPILERS, reason="no C compiler")

STRICT = ["-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wshadow", "-pedantic"]
# gnu17 is what gcc takes by default: there it contracts products and sums by default
MODES = [["-std=c99", "-O0"], ["-std=gnu17", "-O3", "-march=native"]]
PRECISIONS = {"float64": "f64", "float32": "f32"}


def build(source: str, folder: Path, flags: Sequence[str], compiler: str = COMPILERS[0] if COMPILERS else "") -> ctypes.CDLL:
    """The source compiled without warnings and loaded."""
    (folder / "kernels.c").write_text(source)
    library = folder / f"{compiler}{''.join(flags)}.so"
    command = [compiler, *STRICT, *flags, "-shared", "-fPIC", "kernels.c", "-o", str(library), "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(library))


def call(library: ctypes.CDLL, name: str, tape: Tape, inputs: list[np.ndarray], work: int = 0) -> list[np.ndarray]:
    """Outputs of shape (N, size), one call per state; numbers around each output must stay as they are."""
    dtype = inputs[0].dtype
    function = getattr(library, name)
    count = len(inputs[0])
    outputs = [np.empty((count, port.size), dtype) for port in tape.outputs]
    for lane in range(count):
        arrays = [np.ascontiguousarray(a[lane]) for a in inputs]
        fenced = [np.full(port.size + 2, 12345.0, dtype) for port in tape.outputs]
        scratch = [np.full(work, np.nan, dtype)] if work else []
        places = [a.ctypes.data for a in arrays] + [a.ctypes.data + dtype.itemsize for a in fenced]
        places += [a.ctypes.data for a in scratch]
        function(*[ctypes.c_void_p(p) for p in places])
        for out, guarded in zip(outputs, fenced, strict=True):
            assert guarded[0] == guarded[-1] == 12345.0
            out[lane] = guarded[1:-1]
    return outputs


def assert_same(got: list[np.ndarray], want: list[np.ndarray], tape: Tape) -> None:
    for a, b, port in zip(got, want, tape.outputs, strict=True):
        assert same_bits(a, b), f"{port.name}: {a} is not {b}\n{tape}"


# ---- random tapes


@pytest.mark.parametrize("dtype", slow_except(["float64"], PRECISIONS))
def test_random_tapes(dtype: str, tmp_path: Path) -> None:
    tapes = [tape_from(random.Random(seed).randrange) for seed in range(200)]
    source = "\n".join(c_source(tape, PRECISIONS[dtype], f"kernel{k}") for k, tape in enumerate(tapes))
    cases = [inputs_from(random.Random(-k).randrange, tape, dtype=dtype, most=12) for k, tape in enumerate(tapes)]
    wanted = [reference(tape, inputs) for tape, inputs in zip(tapes, cases, strict=True)]
    for compiler in COMPILERS:
        for flags in MODES:
            library = build(source, tmp_path, flags, compiler)
            for k, (tape, inputs, want) in enumerate(zip(tapes, cases, wanted, strict=True)):
                assert_same(call(library, f"kernel{k}", tape, inputs), want, tape)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_random_lowered_tapes(dtype: str, tmp_path: Path) -> None:
    """Elementary functions lowered, products contracted: still the same bits."""
    tapes = [lower(tape_from(random.Random(seed).randrange, elementary=True), PRECISIONS[dtype]) for seed in range(40)]
    source = "\n".join(c_source(tape, PRECISIONS[dtype], f"kernel{k}") for k, tape in enumerate(tapes))
    library = build(source, tmp_path, MODES[1])
    for k, tape in enumerate(tapes):
        inputs = inputs_from(random.Random(-k).randrange, tape, dtype=dtype, most=6)
        assert_same(call(library, f"kernel{k}", tape, inputs), reference(tape, inputs), tape)


# ---- long iterations, where a single wrong bit grows


def logistic(x):
    """10,000 steps of x -> 3.9 x (1 - x)."""
    return loop(lambda i, y: 3.9 * y * (1.0 - y), x, 10_000)


def lorenz(x):
    """10,000 explicit steps of Lorenz's equations, all states written."""

    def step(i, s, _):
        a, b, c = s
        return s + 0.005 * array([10.0 * (b - a), a * (28.0 - c) - b, a * b - 8.0 / 3.0 * c]), s

    final, rows = scan(step, x, count=10_000)
    return {"final": final, "states": rows}


def swinging(x):
    """A pendulum with sine, exponential and a switch, 2,000 steps."""

    def step(i, s):
        q, v = s
        v = v + 0.01 * (where(v > 0.0, 1.0, -1.0) * np.exp(-abs(v)) - 9.81 * np.sin(q))
        return array([q + 0.01 * v, v])

    return loop(step, x, 2_000)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_chaotic_iterations(dtype: str, tmp_path: Path) -> None:
    starts = {logistic: (1, [[0.1], [0.7]]), lorenz: (3, [[1.0, 1.0, 1.0]]), swinging: (2, [[1.0, 0.0]])}
    tapes = {f.__name__: (lower(trace(f, x=n), PRECISIONS[dtype]), np.array(x, dtype)) for f, (n, x) in starts.items()}
    source = "\n".join(c_source(tape, PRECISIONS[dtype]) for tape, _ in tapes.values())
    wanted = {name: reference(tape, [x]) for name, (tape, x) in tapes.items()}
    assert all(np.isfinite(out).all() for outs in wanted.values() for out in outs)
    for flags in MODES:
        library = build(source, tmp_path, flags)
        for name, (tape, x) in tapes.items():
            assert_same(call(library, name, tape, [x]), wanted[name], tape)


def converging(x):
    """A root that is found long before the last iteration."""
    return loop(lambda i, y: 0.5 * (y + x / y), x, 10**15, until=lambda y: abs(y * y - x) <= 1e-5 * x)


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_loops_end_early(dtype: str, tmp_path: Path) -> None:
    tape = lower(trace(converging, x=()), PRECISIONS[dtype])
    x = np.array([[2.0], [0.0], [1e10], [1.0]], dtype)
    for flags in MODES:
        library = build(c_source(tape, PRECISIONS[dtype]), tmp_path, flags)
        assert_same(call(library, "converging", tape, [x]), reference(tape, [x]), tape)


# ---- the text


def scratchy(x):
    """A table of 20,000 numbers written, then read backwards."""
    _, rows = scan(lambda i, s, _: (s + x[1], s), x[0], count=20_000)
    final, _ = scan(lambda i, s, row: (0.5 * s + row, ()), x[0], rows, reverse=True)
    return final


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_large_tables_lie_in_memory_of_the_caller(dtype: str, tmp_path: Path) -> None:
    tape = trace(scratchy, x=2)
    source = c_source(tape, PRECISIONS[dtype])
    found = re.search(r"#define SCRATCHY_WORK (\d+)", source)
    assert found is not None
    assert found[1] == "20000"
    assert found[0] in c_header(tape, PRECISIONS[dtype])
    x = np.array([[1.0, 0.1]], dtype)
    library = build(source, tmp_path, MODES[1])
    assert_same(call(library, "scratchy", tape, [x], work=20_000), reference(tape, [x]), tape)


def test_written_tables_that_are_outputs_need_no_copy() -> None:
    source = c_source(trace(lorenz, x=3))
    assert "work" not in source
    assert "states[3 * " in source
    assert source.count("for (") == 1


def test_names(tmp_path: Path) -> None:
    """Keywords, library functions, our own names, capitals, odd characters, and inputs that come back."""
    ports = {"x1": 2, "int": 2, "fma": 2, "NAN": 2, "i": 2, "work": 2, "θ": 2, "exp": 2}

    def sqrt(**inputs):
        total = sum(inputs.values())
        return {"x1": np.sqrt(total * total), "a b": total, "a_b": -total, "*/": total + 1.0, "sqrt": total, "exp_": total}

    tape = trace(sqrt, **ports)
    library = build(c_source(tape) + c_source(tape, name="while"), tmp_path, MODES[0])
    inputs = [np.array([[k + 0.5, -k]]) for k in range(len(ports))]
    for name in ("sqrt_", "while_"):
        assert_same(call(library, name, tape, inputs), reference(tape, inputs), tape)


def test_header_agrees_with_source(tmp_path: Path) -> None:
    tape = trace(scratchy, x=2)
    (tmp_path / "scratchy.h").write_text(c_header(tape))
    build('#include "scratchy.h"\n#include "scratchy.h"\n' + c_source(tape), tmp_path, MODES[0])
    if shutil.which("g++"):
        command = ["g++", *STRICT, "-x", "c++", "-fsyntax-only", "scratchy.h"]
        subprocess.run(command, cwd=tmp_path, check=True, timeout=60)


def test_only_what_is_used() -> None:
    source = c_source(trace(lambda x, y: x * 2.0, x=3, y=1), name="double_it")
    assert "cd_" not in source
    assert "string.h" not in source
    assert "(void)y;" in source
    assert "static" not in source
    tape = trace(lambda x: np.minimum(x[0], x[1]), x=2)
    assert "cd_min(double" in c_source(tape)
    assert "cd_minf(float" in c_source(tape, "f32")


def test_constants_are_exact() -> None:
    values = [0.1, -0.0, 1.0, 5e-324, 1.7976931348623157e308, -np.inf, 1e-40]
    source = c_source(trace(lambda x: [x + 0.0, *values], x=()))
    written = re.findall(r"out\d\[0\] = (.*);", source)[1:]
    assert [float.fromhex(t.strip("()")) if "INF" not in t else -np.inf for t in written] == values
    assert "0x1.99999ap-4f" in c_source(trace(lambda x: x + 0.1, x=()), "f32")


def test_fast_math_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kernel.c").write_text(c_source(trace(lambda x: x * 2.0, x=())))
    command = [COMPILERS[0], "-ffast-math", "-fsyntax-only", "kernel.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "IEEE 754" in done.stderr


def test_what_cannot_be_written() -> None:
    with pytest.raises(BackendError, match="lower sin first"):
        c_source(trace(lambda x: np.sin(x), x=()))
