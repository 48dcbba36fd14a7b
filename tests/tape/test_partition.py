"""Rows through shared memory, and tapes as several kernels: the bits of one plain kernel, by the interpreter of PTX."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from markers import slow_except
from tape.ptx_interpreter import Buffer, Code, Device
from tape.random_tapes import same_bits

import condyle as cd
from condyle.tape import partition
from condyle.tape.backends import cuda
from condyle.tape.loop import loop
from condyle.tape.passes import lower
from condyle.tape.ptx import ptx_source
from condyle.tape.staging import staged_ports, warp_bytes
from condyle.tape.table import zeros_table

TYPES = {"f64": np.float64, "f32": np.float32}


# ---- rows through shared memory


def mixed(x: Any, y: Any, z: Any) -> Any:
    """Ports of sizes that need other distances from row to row, and one of a single entry."""
    return {"a": np.outer(x, y[:2])[:4].reshape(8) - z, "b": x * z + y[3], "c": np.sqrt(np.abs(y[0] * x[4]))}


def padded(rng: np.random.Generator, states: int, size: int, dtype: Any, gap: int, first: int) -> np.ndarray:
    """(states, size), with `gap` numbers between rows, beginning `first` numbers behind a multiple of 16 bytes."""
    memory = rng.normal(size=states * (size + gap) + first + 32).astype(dtype)
    start = -(memory.ctypes.data // memory.itemsize) % (16 // memory.itemsize) + first
    return memory[start : start + states * (size + gap)].reshape(states, size + gap)[:, :size]


@pytest.mark.parametrize("precision", ["f64", "f32"])
@pytest.mark.parametrize("states", slow_except([1, 75], [1, 31, 64, 75]))
@pytest.mark.parametrize(("gap", "first"), [(0, 0), (0, 1), (3, 0)])
def test_rows_through_shared_memory(precision: str, states: int, gap: int, first: int) -> None:
    function = cd.function(mixed, cache=False, x=5, y=4, z=())
    dtype, rng = TYPES[precision], np.random.default_rng(states + gap)
    arrays = [padded(rng, states, n, dtype, gap, first) for n in (5, 4, 1)]
    expected = function(arrays[0], arrays[1], arrays[2][:, 0])
    low = lower(function.tape, precision)
    ports = (*low.inputs, *low.outputs)
    size = arrays[0].itemsize
    for chosen in ([0, 1], [3, 4], [0, 1, 3, 4]):
        outputs = [padded(rng, states, port.size, dtype, gap, first) for port in low.outputs]
        whole = [a.base for a in outputs]
        before = [np.array(memory) for memory in whole]
        words = [word for a in (*arrays, *outputs) for word in (a.ctypes.data, a.strides[0], size)]
        shared = warp_bytes([ports[p].size for p in chosen], size)
        code = Code(None, ptx_source(low, precision, staged=chosen).encode(), "kernel")
        code.launch(-(-states // 64), 64, struct.pack(f"<{len(words)}q", *words), (states, 0), 0, 2 * shared)
        for found, wanted, memory, old in zip(outputs, expected, whole, before, strict=True):
            assert same_bits(np.ascontiguousarray(found), np.asarray(wanted).reshape(found.shape))
            # nothing else was written
            found[...] = 0.0
            mask = memory == 0.0
            assert np.array_equal(memory[~mask], old[~mask]) and mask.sum() == found.size


def test_a_row_for_all_states() -> None:
    function = cd.function(mixed, cache=False, x=5, y=4, z=())
    low, rng = lower(function.tape, "f64"), np.random.default_rng(0)
    x, y, z = rng.normal(size=(40, 5)), rng.normal(size=4), rng.normal(size=40)
    outputs = [np.zeros((40, port.size)) for port in low.outputs]
    steps = (40, 0, 8, *[8 * port.size for port in low.outputs])
    words = [w for a, step in zip((x, y, z, *outputs), steps, strict=True) for w in (a.ctypes.data, step, 8)]
    code = Code(None, ptx_source(low, "f64", staged=(0, 1, 3)).encode(), "kernel")
    code.launch(1, 64, struct.pack(f"<{len(words)}q", *words), (40, 0), 0, 2 * warp_bytes((5, 4, 8), 8))
    assert all(same_bits(a, np.asarray(b).reshape(a.shape)) for a, b in zip(outputs, function(x, y, z), strict=True))


def test_which_ports_pass_through_shared_memory() -> None:
    function = cd.function(mixed, cache=False, x=5, y=4, z=())
    (part,) = partition.partition(function.tape, "f64")
    # outputs first
    assert part.rows() == [(3, 8), (4, 5), (0, 5), (1, 4)]
    assert staged_ports(part.rows(), (1,), 8) == {3: 8, 4: 5, 0: 5}
    # no more than leaves room for all warps
    assert staged_ports([(0, 60), (1, 60), (2, 5)], (), 8) == {0: 60, 2: 5}
    long = cd.function(lambda x: loop(lambda i, s: np.sin(s) + x, x, 1000), cache=False, x=2)
    assert partition.partition(long.tape, "f64")[0].rows() == []


# ---- the solver apart


def solved(x: Any, y: Any) -> Any:
    """A solver that is most of the work, then a matrix that depends on where it ended."""
    end = loop(lambda i, s: s - 0.1 * (np.sin(s) * s[0] - x), x, 50)
    return {"root": end, "matrix": np.outer(np.exp(end), np.sin(y * end[0])), "vector": y + end[1]}


class NoCache:
    """Everything is made anew."""

    def found(self, key: str, make: Any) -> bytes:
        made: bytes = make()
        return made


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_a_solver_is_a_kernel_of_its_own(monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    function, rng = cd.function(solved, cache=False, x=3, y=4), np.random.default_rng(1)
    assert len(partition.partition(function.tape, precision)) == 1  # there is little else
    monkeypatch.setattr(partition, "LARGE", 20)
    monkeypatch.setattr(cuda, "shared_cache", NoCache)
    monkeypatch.setattr(cuda, "Code", Code)
    monkeypatch.setattr(cuda, "Buffer", Buffer)
    kernel = cuda.CudaKernel(function.tape, precision, Device())  # type: ignore[arg-type]
    assert [part["passed"] for part in kernel.described] == [3, 0]
    # the memory between both kernels is used again, and grows
    for states in (3, 2, 40):
        x, y = (rng.normal(size=(states, n)).astype(TYPES[precision]) for n in (3, 4))
        outputs = [np.full((states, port.size), 7.5, x.dtype) for port in function.tape.outputs]
        kernel([x, y], outputs)
        for found, wanted in zip(outputs, function(x, y), strict=True):
            assert same_bits(found, np.asarray(wanted).reshape(found.shape))


def test_a_table_that_is_used_whole_keeps_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "LARGE", 20)

    def far(x: Any) -> Any:
        end = loop(lambda i, t: t.set((i, 0), np.sin(x[0] * i)), zeros_table((9, 1)), 9)
        return np.outer(np.exp(x), np.sin(x)) * end[x[1], 0]

    assert len(partition.partition(cd.function(far, cache=False, x=6).tape, "f64")) == 1
