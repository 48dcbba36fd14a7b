"""The cpu backend: LLVM code for this processor's vectors, run over a batch by as many threads as pay."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

import numpy as np

from condyle.errors import BackendError
from condyle.tape.backends.interface import Backend, FastCall, Kernel, Options
from condyle.tape.backends.reference import check_golden, golden_tape
from condyle.tape.cache import shared_cache
from condyle.tape.fastcall import DATA, layout_is_known
from condyle.tape.host_info import available_threads
from condyle.tape.llvm import kernel_ir
from condyle.tape.passes import lower
from condyle.tape.tape import EXPECTED_ITERATIONS, Tape, operations, run_time_rows
from condyle.tape.target import Target, cpu_target
from condyle.tape.trace_cache import source_hash

_word_at = ctypes.c_int64.from_address
LONG = 1 << 20  # letters of LLVM text
ALIGN = 64  # bytes: scratch memory begins at a multiple of a vector's size
# how many threads pay is decided by the expected time of a batch
SECONDS_PER_OPERATION = 0.3e-9  # for one lane block, before the kernel has been timed
THREAD_PAYS = 100e-6  # s of work that each thread gets at least
PIECES = 4  # pieces per thread, which even out the load


# ---- the processor


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
        if os.environ.get("CONDYLE_VECTOR_BYTES") == "32":
            # as if there were no AVX-512: to measure and to test what other processors get
            wide = False
            found = {name: on for name, on in found.items() if not name.startswith(("avx512", "avx10", "evex", "amx"))}
        # scheduling for the family, not for one model: it compiles faster and runs no slower where it was measured
        cpu, vector = ("x86-64-v4", 64) if wide else ("x86-64-v3", 32)
    elif triple.startswith(("aarch64", "arm64")):
        cpu, vector = llvm.get_host_cpu_name(), 16
    else:
        raise BackendError(f"the cpu backend knows x86-64 and AArch64, and this is {triple}; use backend 'reference'")
    features = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(found.items()))
    return Host(triple, cpu, features, vector)


@cache
def target() -> Target:
    """This processor as the emitter sees it."""
    return cpu_target(host().triple, host().vector_bytes)


def default_lanes(precision: str) -> int:
    """Lanes that fill one vector register."""
    return host().vector_bytes // (8 if precision == "f64" else 4)


# ---- LLVM


@cache
def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm


def _target_machine(opt: int = 2) -> Any:
    found = _llvm().Target.from_triple(host().triple)
    return found.create_target_machine(cpu=host().cpu, features=host().features, opt=opt, reloc="pic", codemodel="small")


def _module(text: str) -> Any:
    module = _llvm().parse_assembly(text)
    module.verify()
    return module


def object_code(text: str) -> bytes:
    """LLVM text compiled for this processor."""
    # of long kernels the code is as fast, and ready a sixth earlier
    code: bytes = _target_machine(1 if len(text) > LONG else 2).emit_object(_module(text))
    return code


def load_object(code: bytes) -> Any:
    """Object code loaded into memory: the engine that holds its functions.

    The memory manager of llvmlite keeps code and constants together. The default one may place them more than 2 GB apart where
    other libraries have filled the address space, and LLVM then ends the process.
    """
    llvm = _llvm()
    empty = llvm.parse_assembly(f'target triple = "{host().triple}"')
    engine = llvm.create_mcjit_compiler(empty, _target_machine(), use_lmm=True)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


# ---- kernels


class CpuKernel(Kernel):
    """Loaded object code. `batch` and `single` are its functions (target.py), `scratch` the bytes that one thread needs."""

    def __init__(self, tape: Tape, code: bytes, scratch: int, lanes: int, expected_operations: int, threads: int = 1) -> None:
        self.tape, self.scratch, self.lanes, self.threads = tape, scratch, lanes, threads
        self.block_seconds = expected_operations * SECONDS_PER_OPERATION  # of one lane block, or of one row of it; measured
        self.rows_vary = any(port.run_time for port in tape.inputs)
        self._engine = self._load(code)
        number, pointer = ctypes.c_int64, ctypes.c_void_p
        batch = ctypes.CFUNCTYPE(None, pointer, number, number, number, pointer)  # other Python threads run meanwhile
        single = ctypes.PYFUNCTYPE(None, pointer)  # keeps Python's lock: for one state that is quicker
        self.batch = batch(self._address("kernel"))
        self.single = single(self._address("single"))

    def _load(self, code: bytes) -> Any:
        return load_object(code)

    def _address(self, name: str) -> int:
        address: int = self._engine.get_function_address(name)
        if not address:
            raise BackendError(f"the compiled object holds no '{name}'; delete the cache directory and try again")
        return address

    def __call__(self, arrays: list[np.ndarray], out: list[np.ndarray]) -> None:
        states = len(out[0])
        words = [word for a in (*arrays, *out) for word in (address(a), a.strides[0])]
        rows = run_time_rows(self.tape.inputs, arrays) if self.rows_vary else 0
        words.append(rows)
        ports = np.array(words, dtype=np.int64)
        blocks = -(-states // self.lanes)
        workers = paying_threads(blocks, self.block_seconds * max(rows, 1), self.threads)
        pieces = min(PIECES * workers, blocks) if workers > 1 else 1
        edges = [blocks * k // pieces for k in range(pieces + 1)]
        # whoever is free takes the next piece; how a batch is cut changes no bit
        next_piece = count().__next__

        def work() -> None:
            memory = aligned_memory(self.scratch)
            while (k := next_piece()) < pieces:
                start = time.perf_counter()
                self.batch(address(ports), edges[k], edges[k + 1], states - 1, address(memory) if self.scratch else None)
                work_done = (edges[k + 1] - edges[k]) * max(rows, 1)
                seconds, before = (time.perf_counter() - start) / work_done, self.block_seconds
                # a mean that a single interruption does not spoil
                self.block_seconds = 0.5 * (before + min(seconds, 3.0 * before + 1e-9))

        helpers = [_pool(self.threads).submit(work) for _ in range(workers - 1)]
        work()
        for helper in helpers:
            helper.result()

    def fast_call(self, result: type | None, *, guarded: bool) -> FastCall | None:
        """See Kernel.fast_call: arguments are read by machine code (fastcall.py)."""
        from condyle.tape.fastcall import fast_call

        return fast_call(self, result, guarded=guarded)


def paying_threads(blocks: int, block_seconds: float, threads: int) -> int:
    """How many of `threads` pay for a batch of lane blocks, each of which takes `block_seconds`."""
    return max(1, min(threads, blocks, int(blocks * block_seconds / THREAD_PAYS)))


def address(array: np.ndarray) -> int:
    """Where an array begins: read from the object itself, which is five times quicker than asking for it."""
    if layout_is_known():
        return _word_at(id(array) + DATA).value
    start: int = array.__array_interface__["data"][0]
    return start


def aligned_memory(size: int) -> np.ndarray:
    """Uninitialised memory whose address is a multiple of a vector's size."""
    memory = np.empty(size + ALIGN, dtype=np.uint8)
    start = -address(memory) % ALIGN
    return memory[start : start + size]


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="condyle")


# ---- the backend


class CpuBackend(Backend):
    """This processor, its vectors and its threads."""

    def compile(self, tape: Tape, precision: str, options: Options) -> Kernel:
        """The kernel for this processor, after the golden vector."""
        lanes = self.lanes(precision, options)
        _check_processor(precision, lanes)
        return cached_kernel(tape, precision, lanes, self.threads(options))

    def lanes(self, precision: str, options: Options) -> int:
        """As many as fill a vector register, by default."""
        return options.lanes or default_lanes(precision)

    def threads(self, options: Options) -> int:
        """As many as the process may use, by default."""
        return options.threads or available_threads()

    def source(self, tape: Tape, language: str, precision: str, options: Options) -> str:
        """The kernel as "llvm" or "asm"."""
        if language not in ("llvm", "asm"):
            return super().source(tape, language, precision, options)
        text, _ = kernel_ir(lower(tape, precision), precision, self.lanes(precision, options), target())
        return text if language == "llvm" else str(_target_machine().emit_assembly(_module(text)))


@cache
def _check_processor(precision: str, lanes: int) -> None:
    check_golden(cached_kernel(golden_tape(), precision, lanes, 1), precision, f"cpu, {lanes} lanes,")


def cached_kernel(tape: Tape, precision: str, lanes: int, threads: int) -> CpuKernel:
    """The kernel of a tape, from the cache if the same operations were compiled before."""
    # the tape need not be lowered, nor traced, if it is known what it is lowered to
    lowering = f"lowered {source_hash('condyle.tape.passes')} {tape.hash} {precision}"
    lowered = shared_cache().found(lowering, lambda: lower(tape, precision).hash.encode()).decode()
    stored = shared_cache().found(f"{_code_generator()} {lowered} {precision} {lanes}", lambda: _compiled(tape, precision, lanes))
    scratch, expected = struct.unpack_from("<qq", stored)
    return CpuKernel(tape, stored[16:], scratch, lanes, expected, threads)


@cache
def _code_generator() -> str:
    """Everything besides the lowered tape and the options that decides what machine code comes out."""
    import llvmlite

    source = source_hash("condyle.tape.llvm", "condyle.tape.target")
    return f"{source} {llvmlite.__version__} {_llvm().llvm_version_info} {host()}"


def _compiled(tape: Tape, precision: str, lanes: int) -> bytes:
    """Bytes of scratch memory, expected operations, object code."""
    low = lower(tape, precision)
    text, scratch = kernel_ir(low, precision, lanes, target())
    return struct.pack("<qq", scratch, operations(low.block, until=EXPECTED_ITERATIONS)) + object_code(text)
