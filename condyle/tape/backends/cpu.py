"""The CPU backend: LLVM code for this processor's vectors, run over a batch by several threads."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from condyle.errors import BackendError
from condyle.tape.cache import shared_cache
from condyle.tape.llvm import kernel_ir
from condyle.tape.passes import lower
from condyle.tape.tape import Tape
from condyle.tape.trace_cache import source_hash

ALIGN = 64
PARALLEL = 2_000_000  # operations in a batch below which waking a thread costs more than it saves


@dataclass(frozen=True)
class Host:
    """This processor as LLVM names it."""

    triple: str
    cpu: str
    features: str
    vector_bytes: int


@cache
def host() -> Host:
    """This processor, or an error when it has no hardware fma."""
    llvm = _llvm()
    triple = llvm.get_process_triple()
    found = llvm.get_host_cpu_features()
    if triple.startswith("x86_64"):
        if not (found.get("fma") and found.get("avx2")):
            raise BackendError(
                "this processor lacks AVX2 and fma (x86-64-v3), which the cpu backend needs; use backend 'reference'"
            )
        wide = all(found.get(f) for f in ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"))
        # scheduling for the family, not for one model: it compiles faster and runs no slower where it was measured
        cpu, vector = ("x86-64-v4", 64) if wide else ("x86-64-v3", 32)
    elif triple.startswith(("aarch64", "arm64")):
        cpu, vector = llvm.get_host_cpu_name(), 16
    else:
        raise BackendError(f"the cpu backend knows x86-64 and AArch64, and this is {triple}; use backend 'reference'")
    return Host(triple, cpu, found.flatten(), vector)


@cache
def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def _target_machine() -> Any:
    here = host()
    target = _llvm().Target.from_triple(here.triple)
    return target.create_target_machine(cpu=here.cpu, features=here.features, opt=2, reloc="pic", codemodel="small")


def default_lanes(precision: str) -> int:
    """Lanes that fill one vector register."""
    return host().vector_bytes // (8 if precision == "f64" else 4)


@cache
def _code_generator() -> str:
    """A hash of everything besides the lowered tape and the options that decides what machine code comes out."""
    import llvmlite

    source = source_hash("condyle.tape.llvm", "condyle.tape.schedule")
    return f"{source} {llvmlite.__version__} {_llvm().llvm_version_info} {host()}"


class Kernel:
    """A loaded kernel: `run` computes a batch; `single` computes one state from a prepared frame (see single.py)."""

    def __init__(self, code: bytes, scratch: int, lanes: int, operations: int) -> None:
        self.scratch, self.lanes, self.operations = scratch, lanes, operations
        self._engine = _load(code)
        number, pointer = ctypes.c_int64, ctypes.c_void_p
        batch = ctypes.CFUNCTYPE(None, pointer, number, number, number, pointer)  # other Python threads run meanwhile
        single = ctypes.PYFUNCTYPE(None, pointer)  # keeps Python's lock: for one state that is quicker
        self.batch = batch(self._address("kernel"))
        self.single = single(self._address("single"))

    def _address(self, name: str) -> int:
        address: int = self._engine.get_function_address(name)
        if not address:
            raise BackendError(f"the compiled object holds no '{name}'; delete the cache directory and try again")
        return address

    def run(self, inputs: list[np.ndarray], outputs: list[np.ndarray], threads: int) -> None:
        """Compute a batch: arrays of shape (rows, size), entries of a row side by side; a row stride of 0 repeats one row."""
        rows = len(outputs[0])
        words = [word for a in (*inputs, *outputs) for word in (a.ctypes.data, a.strides[0])]
        ports = (ctypes.c_int64 * len(words))(*words)
        blocks = -(-rows // self.lanes)
        workers = min(threads, blocks) if rows * self.operations >= PARALLEL else 1

        def work(first: int, last: int) -> None:
            memory = aligned(self.scratch)
            self.batch(ctypes.addressof(ports), first, last, rows - 1, memory.ctypes.data if self.scratch else None)

        if workers == 1:
            work(0, blocks)
            return
        # a few pieces per thread even out the load; how the batch is cut changes no bit
        edges = np.linspace(0, blocks, min(4 * workers, blocks) + 1).astype(int).tolist()
        jobs = [_pool(workers).submit(work, a, b) for a, b in pairwise(edges)]
        for job in jobs:
            job.result()


def aligned(size: int) -> np.ndarray:
    """Uninitialised memory whose address is a multiple of a vector's size."""
    memory = np.empty(size + ALIGN, dtype=np.uint8)
    start = -memory.ctypes.data % ALIGN
    return memory[start : start + size]


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="condyle")


def available_threads() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compiled(tape: Tape, precision: str, lanes: int, *, lowered: Callable[[], Tape] | None = None) -> Kernel:
    """The kernel of a tape, from the cache if the same operations were compiled before."""
    low = lowered or cache(lambda: lower(tape, precision))
    operations = shared_cache().found(
        f"lowered {source_hash('condyle.tape.passes')} {tape.hash} {precision}", lambda: low().hash.encode()
    )
    stored = shared_cache().found(f"{_code_generator()} {operations!r} {lanes}", lambda: _object(low(), precision, lanes))
    scratch, count = struct.unpack_from("<qq", stored)
    return Kernel(stored[16:], scratch, lanes, count)


def _object(low: Tape, precision: str, lanes: int) -> bytes:
    """Bytes of scratch memory, number of operations, object code."""
    text, scratch = kernel_ir(low, precision, lanes, host().triple)
    code: bytes = _target_machine().emit_object(_module(text))
    return struct.pack("<qq", scratch, low.operations) + code


def assembly(text: str) -> str:
    """LLVM text as the assembly of this processor."""
    return str(_target_machine().emit_assembly(_module(text)))


def _module(text: str) -> Any:
    module = _llvm().parse_assembly(text)
    module.verify()
    return module


def loaded_text(text: str) -> Any:
    """LLVM text compiled and loaded for this processor: the engine that holds its functions."""
    return _load(_target_machine().emit_object(_module(f'target triple = "{host().triple}"\n{text}')))


def _load(code: bytes) -> Any:
    llvm = _llvm()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(f'target triple = "{host().triple}"'), _target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine
