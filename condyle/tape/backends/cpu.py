"""The cpu backend: LLVM code for this processor's vectors, run over a batch by as many threads as pay."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from condyle.errors import BackendError
from condyle.tape import link
from condyle.tape.backends.interface import Backend, FastCall, Kernel, Options
from condyle.tape.backends.reference import check_golden, golden_tape
from condyle.tape.cache import shared_cache
from condyle.tape.emit_block import Link
from condyle.tape.emit_limbs import gains
from condyle.tape.fastcall import DATA, layout_is_known
from condyle.tape.host_info import available_threads
from condyle.tape.limbs import has_limbs, lanes_of
from condyle.tape.link import alone, lower_linked
from condyle.tape.llvm import kernel_ir, subroutine_ir
from condyle.tape.passes import lower
from condyle.tape.tape import EXPECTED_ITERATIONS, Subroutine, Tape, operations, run_time_rows, subroutines
from condyle.tape.target import Target, cpu_target
from condyle.tape.threads import in_turn, made_once, share
from condyle.tape.trace_cache import source_hash

_word_at = ctypes.c_int64.from_address
LONG = 1 << 20  # letters of LLVM text
ALIGN = 64  # bytes: scratch memory begins at a multiple of a vector's size
# how many threads pay is decided by the expected time of a batch
SECONDS_PER_OPERATION = 0.3e-9  # for one lane block, before the kernel has been timed
THREAD_PAYS = 100e-6  # s of work that each thread gets at least
PIECES = 4  # pieces per thread, which even out the load
LONG_PIECE = 0.05  # s: between pieces signals are handled, such as that of Ctrl-C
FEW_PAY = 1.5  # times fewer operations from which on several states are computed one after the other, limbs side by side


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
    # a fork waits for other threads' calls of LLVM: in the new process nobody would end them, or release their lock
    if hasattr(os, "register_at_fork"):
        lock = getattr(llvm.ffi.lib, "_lock", nullcontext())
        release = partial(lock.__exit__, None, None, None)
        os.register_at_fork(before=lock.__enter__, after_in_parent=release, after_in_child=release)
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
    """Loaded object code. `batch` and `single` are its functions (target.py), `scratch` the bytes that one thread needs.

    `lanes`: the states of one lane block. `linked`: the subroutines that it calls.
    """

    def __init__(
        self,
        tape: Tape,
        code: bytes,
        scratch: int,
        lanes: int,
        expected_operations: int,
        threads: int = 1,
        linked: Sequence[LoadedSubroutine] = (),
    ) -> None:
        self.tape, self.scratch, self.lanes, self.threads = tape, scratch, lanes, threads
        self.block_seconds = expected_operations * SECONDS_PER_OPERATION  # of one lane block, or of one row of it; measured
        self.rows_vary = any(port.run_time for port in tape.inputs)
        self._linked = linked
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
        rows = run_time_rows(self.tape.inputs, arrays) if self.rows_vary else 0
        blocks = -(-len(out[0]) // self.lanes)
        seconds = self.block_seconds * max(rows, 1)
        workers = paying_threads(blocks, seconds, self.threads)
        pieces = max(PIECES * workers if workers > 1 else 1, int(blocks * seconds / LONG_PIECE))
        batch = Batch(self, arrays, out, rows, min(pieces, blocks))
        if workers > 1:
            share(batch, workers - 1)
        else:
            batch.run()

    def fast_call(self, result: type | None, *, guarded: bool) -> FastCall | None:
        """See Kernel.fast_call: arguments are read by machine code (fastcall.py)."""
        from condyle.tape.fastcall import fast_call

        return fast_call(self, result, guarded=guarded)


class Batch:
    """A call of a kernel, cut into pieces; how it is cut changes no bit. It holds all arrays, and so does whoever works on it."""

    def __init__(self, kernel: CpuKernel, arrays: list[np.ndarray], out: list[np.ndarray], rows: int, pieces: int) -> None:
        self.kernel, self.arrays, self.rows, self.pieces = kernel, (*arrays, *out), rows, pieces
        self.ports = np.array([*[n for a in self.arrays for n in (address(a), a.strides[0])], rows], dtype=np.int64)
        self.states = len(out[0])
        blocks = -(-self.states // kernel.lanes)
        self.edges = [blocks * k // pieces for k in range(pieces + 1)]
        self.next_piece = count().__next__

    def run(self) -> None:
        """Compute pieces until there are none; whoever is free takes the next one."""
        kernel = self.kernel
        memory = aligned_memory(kernel.scratch)
        scratch = address(memory) if kernel.scratch else None
        while (k := self.next_piece()) < self.pieces:
            start = time.perf_counter()
            kernel.batch(address(self.ports), self.edges[k], self.edges[k + 1], self.states - 1, scratch)
            work_done = (self.edges[k + 1] - self.edges[k]) * max(self.rows, 1)
            seconds, before = (time.perf_counter() - start) / work_done, kernel.block_seconds
            # a mean that a single interruption does not spoil
            kernel.block_seconds = 0.5 * (before + min(seconds, 3.0 * before + 1e-9))


class LimbKernels(Kernel):
    """Two kernels of a tape with limbs, each compiled when it is first needed.

    `one` computes a state with its limbs side by side (emit_limbs.py), or links subroutines that do, and is used for up to `few`
    states. `many` has a state in each lane.
    """

    def __init__(self, few: int, one: Callable[[], CpuKernel], many: Callable[[], CpuKernel]) -> None:
        self.few, self._one, self._many = few, one, many
        self._made: dict[str, CpuKernel] = {}

    @property
    def one(self) -> CpuKernel:
        """The kernel for few states."""
        return made_once(self._made, "one", self._one)

    @property
    def many(self) -> CpuKernel:
        """The kernel for batches."""
        return made_once(self._made, "many", self._many)

    def chosen(self, states: int) -> CpuKernel:
        """The kernel for so many states."""
        return self.one if states <= self.few else self.many

    def __call__(self, arrays: list[np.ndarray], out: list[np.ndarray]) -> None:
        self.chosen(len(out[0]))(arrays, out)

    def compile_for(self, states: int) -> None:
        """See Kernel.compile_for."""
        self.chosen(states)

    def fast_call(self, result: type | None, *, guarded: bool) -> FastCall | None:
        """See Kernel.fast_call."""
        return self.one.fast_call(result, guarded=guarded)


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


# ---- the backend


class CpuBackend(Backend):
    """This processor, its vectors and its threads."""

    def compile(self, tape: Tape, precision: str, options: Options) -> Kernel:
        """The kernel for this processor, after the golden vector. One with so many lanes has a state in each of them."""
        limbs, few = (1, 0) if options.lanes else limb_lanes(tape, precision)
        many = partial(checked_kernel, tape, precision, self.lanes(precision, options), self.threads(options))
        one = partial(checked_kernel, tape, precision, limbs, self.threads(options), limbs > 1)
        return LimbKernels(few, one, many) if few else many()

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


def limb_lanes(tape: Tape, precision: str) -> tuple[int, int]:
    """(lanes of the kernel that computes limbs side by side, the most states that it pays for); (1, 0) if it pays for none.

    Where subroutines that are linked do so, the kernel that calls them has one lane.
    """

    def made() -> bytes:
        low = lower_linked(tape, precision, limbs=True)
        if not has_limbs(low.block):
            return struct.pack("<qq", 1, max([limb_lanes(call.tape, precision)[1] for call in subroutines(low.block)], default=0))
        lanes = lanes_of(low.block)
        registers = -(-lanes * (8 if precision == "f64" else 4) // host().vector_bytes)
        expected, once = gains(low.block, lanes, registers)
        few = min(int(once), default_lanes(precision)) if expected >= FEW_PAY else 1
        return struct.pack("<qq", *((lanes, max(few, 1)) if expected > 1.0 else (1, 0)))

    source = f"{source_hash('condyle.tape.link', 'condyle.tape.emit_limbs')} {link.LINKED}"
    lanes, few = struct.unpack("<qq", shared_cache().found(f"limbs {source} {tape.hash} {precision} {host()}", made))
    return lanes, few


def checked_kernel(tape: Tape, precision: str, lanes: int, threads: int, limbs: bool = False) -> CpuKernel:
    """The kernel of a tape, after the golden vector."""
    _check_processor(precision, lanes, limbs)
    return cached_kernel(tape, precision, lanes, threads, limbs)


@cache
def _check_processor(precision: str, lanes: int, limbs: bool) -> None:
    what = f"cpu, {'limbs in ' if limbs else ''}{lanes} lanes,"
    check_golden(cached_kernel(golden_tape(), precision, lanes, 1, limbs), precision, what)


def cached_kernel(tape: Tape, precision: str, lanes: int, threads: int, limbs: bool = False) -> CpuKernel:
    """The kernel of a tape, from the cache if the same operations were compiled before.

    `limbs`: the lanes are limbs of one state, rather than states.
    """
    # the tape need not be lowered, nor traced, if it is known what it is lowered to
    form = f"{precision}{' limbs' if limbs else ''}"
    lowering = f"lowered {source_hash('condyle.tape.link')} {link.LINKED} {tape.hash} {form}"
    lowered = shared_cache().found(lowering, lambda: lower_linked(tape, precision, limbs=limbs).hash.encode()).decode()
    key = f"{_code_generator()} {lowered} {form} {lanes}"
    linked: dict[str, LoadedSubroutine] = {}

    def make() -> bytes:
        low = lower_linked(tape, precision, limbs=limbs)
        linked.update(linked_subroutines(low, precision, lanes))
        return _compiled(low, precision, lanes, limbs, linked)

    stored = shared_cache().found(key, make)
    scratch, expected, length = struct.unpack_from("<qqq", stored)
    if not linked:
        try:
            linked = {key: loaded_subroutine(key, _no_code) for key in json.loads(stored[24 : 24 + length])}
        except LookupError:
            linked = linked_subroutines(lower_linked(tape, precision, limbs=limbs), precision, lanes)
    return CpuKernel(tape, stored[24 + length :], scratch, 1 if limbs else lanes, expected, threads, tuple(linked.values()))


@cache
def _code_generator() -> str:
    """Everything besides the lowered tape and the options that decides what machine code comes out."""
    import llvmlite

    source = source_hash("condyle.tape.llvm", "condyle.tape.target")
    return f"{source} {llvmlite.__version__} {_llvm().llvm_version_info} {host()}"


def _compiled(low: Tape, precision: str, lanes: int, limbs: bool, linked: dict[str, LoadedSubroutine]) -> bytes:
    """Bytes of scratch memory, expected operations, keys of the subroutines that are linked, object code."""
    calls = dict(zip(subroutines(low.block), linked.values(), strict=True))
    links = {call.tape.hash: found.link for call, found in calls.items()}
    text, scratch = kernel_ir(low, precision, lanes, replace(target(), limbs=limbs), links)
    called = {call: found.operations for call, found in calls.items()}
    keys = json.dumps(list(linked)).encode()
    head = struct.pack("<qqq", scratch, operations(low.block, until=EXPECTED_ITERATIONS, called=called), len(keys))
    return head + keys + object_code(text)


# ---- subroutines that are linked


class LoadedSubroutine:
    """A subroutine in memory, for as long as the object lives: kernels that are loaded meanwhile find it by its name."""

    def __init__(self, stored: bytes) -> None:
        vectors, self.operations, length = struct.unpack_from("<qqq", stored)  # operations: as expected
        self.link = Link(stored[24 : 24 + length].decode(), vectors)
        self._engine = load_object(stored[24 + length :])
        _llvm().add_symbol(self.link.name, self._engine.get_function_address(self.link.name))


_loaded: WeakValueDictionary[str, LoadedSubroutine] = WeakValueDictionary()


def loaded_subroutine(key: str, make: Callable[[], bytes]) -> LoadedSubroutine:
    """The subroutine stored under a key, loaded once for all kernels that call it."""

    def find() -> LoadedSubroutine:
        found = _loaded.get(key)
        if found is None:
            found = _loaded[key] = LoadedSubroutine(shared_cache().found(key, make))
        return found

    return in_turn(f"load {key}", find)


def _no_code() -> bytes:
    raise LookupError("the code of a subroutine is no longer cached")


def linked_subroutines(low: Tape, precision: str, lanes: int) -> dict[str, LoadedSubroutine]:
    """The subroutines that a lowered tape calls, by key, in order, for kernels of so many lanes."""
    found = {}
    for call in subroutines(low.block):
        # one state has its limbs side by side, where that pays
        limbs = limb_lanes(call.tape, precision)[0] if lanes == 1 else 1
        lowering = f"lowered alone {source_hash('condyle.tape.link')} {call.tape.hash} {precision} {limbs}"
        lowered = shared_cache().found(lowering, partial(_lowered_hash, call, precision, limbs)).decode()
        key = f"{_code_generator()} subroutine {lowered} {precision} {lanes} {limbs}"
        found[key] = loaded_subroutine(key, partial(_compiled_subroutine, call, precision, lanes, limbs, key))
    return found


def _lowered_hash(call: Subroutine, precision: str, limbs: int) -> bytes:
    return lower(alone(call), precision, limbs=limbs > 1).hash.encode()


def _compiled_subroutine(call: Subroutine, precision: str, lanes: int, limbs: int, key: str) -> bytes:
    """Vectors of its area, expected operations, name, object code."""
    name = f"subroutine_{hashlib.sha256(key.encode()).hexdigest()}"
    low = lower(alone(call), precision, limbs=limbs > 1)
    text, called = subroutine_ir(low, precision, max(lanes, limbs), replace(target(), limbs=limbs > 1), name)
    head = struct.pack("<qqq", called.vectors, operations(low.block, until=EXPECTED_ITERATIONS), len(name))
    return head + name.encode() + object_code(text)
