"""The cuda backend: PTX written from the tape, compiled by the driver of an NVIDIA GPU, one thread for each state.

A large tape is several kernels (partition.py), compiled at the same time and queued one after the other.

Given NumPy arrays it copies them to the GPU and the results back. Arrays that are on the GPU already need no copy: a function
that is called with them runs there, whatever its backend (condyle/tape/device.py).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, cached_property, partial
from threading import Lock, get_ident
from typing import Any

import numpy as np

from condyle.tape.backends.interface import Backend, Kernel, Options
from condyle.tape.backends.reference import check_golden, golden_tape
from condyle.tape.cache import shared_cache
from condyle.tape.captured import BYTES
from condyle.tape.cuda_driver import Buffer, Code, Device, device
from condyle.tape.host_info import available_threads
from condyle.tape.partition import KernelTape, partition
from condyle.tape.ptx import ENTRY, THREADS, block_threads, ptx_source
from condyle.tape.staging import SHARED, WARP, staged_ports, warp_bytes
from condyle.tape.tape import Tape, run_time_rows
from condyle.tape.threads import made_once
from condyle.tape.trace_cache import source_hash

LEVEL = 1  # of the compiler: as fast as the highest one or faster for large kernels, in half of the time
HIGH_LEVEL = 3  # with a thread for each limb, and for short kernels
STREAM_OF_THREAD = 2  # the handle of a stream that each thread has of its own
FEW, SMALL = 132 * THREADS, 32  # states below which blocks are small, to occupy all multiprocessors


def level_of(lanes: int, *, short: bool = False) -> int:
    """The level of the compiler for a kernel with so many threads for each state."""
    return HIGH_LEVEL if lanes > 1 or short else LEVEL


@dataclass(frozen=True)
class Launch:
    """A loaded kernel of a part of a tape, and what a launch of it needs to know."""

    code: Code
    ports: Sequence[int]  # its inputs and outputs: numbers of the ports of the whole tape; one more is what parts pass on
    lanes: int = 1  # threads of a state
    shared: int = 0  # bytes of shared memory of a warp
    threads: int = THREADS  # of a block, at most


class CudaKernel(Kernel):
    """A tape as code of a GPU: one kernel or several, for each set of ports whose entries do not lie one after the other."""

    def __init__(self, tape: Tape, precision: str, on: Device, any_layout: Code | None = None, lanes: int = 1) -> None:
        self.tape, self.precision, self.device, self.any_layout, self.any_lanes = tape, precision, on, any_layout, lanes
        self.size, self.ports = 8 if precision == "f64" else 4, len(tape.inputs) + len(tape.outputs)
        self._launches: dict[tuple[int, ...], list[Launch]] = {}
        self._passed: dict[tuple[int, int], Buffer] = {}
        self._lock = Lock()

    @cached_property
    def parts(self) -> list[KernelTape]:
        """The tape as the kernels compute it."""
        return partition(self.tape, self.precision)

    @cached_property
    def described(self) -> list[dict[str, Any]]:
        """What a launch needs to know of each part, without lowering the tape again."""
        key = f"parts for cuda {source_hash('condyle.tape.partition')} {self.tape.hash} {self.precision}"
        found = shared_cache().found(key, lambda: json.dumps([part.described() for part in self.parts]).encode())
        parts: list[dict[str, Any]] = json.loads(found)
        return parts

    def launches(self, strided: tuple[int, ...] = ()) -> list[Launch]:
        """The loaded kernels, compiled now if they were never needed before; `any_layout` serves all layouts, if it is given."""
        any_layout = self.any_layout
        if any_layout is not None:
            return made_once(self._launches, (), lambda: [self._launch(any_layout, range(self.ports), self.any_lanes)])

        def load() -> list[Launch]:
            with ThreadPoolExecutor(available_threads()) as pool:
                return list(pool.map(partial(self._loaded, strided), range(len(self.described))))

        return made_once(self._launches, strided, load)

    def _loaded(self, strided: tuple[int, ...], k: int) -> Launch:
        part, sm = self.described[k], self.device.capability
        # what parts pass on lies side by side
        own = tuple([i for i, p in enumerate(part["ports"]) if p in strided or p == self.ports])
        staged = staged_ports(part["rows"], own, self.size)
        key = f"cuda {source_hash('condyle.tape.ptx')} {part['hash']} {self.precision} {own} {tuple(staged)} {sm}"

        def compiled() -> bytes:
            with self._lock:
                made = self.parts[k]
                text = ptx_source(made.tape, self.precision, sm=sm, strided=own, staged=staged)
            return self.device.compiled(text, level_of(part["lanes"], short=bool(part["rows"])))

        code = Code(self.device, shared_cache().found(key, compiled), ENTRY)
        return self._launch(code, part["ports"], part["lanes"], warp_bytes(staged.values(), self.size))

    def _launch(self, code: Code, ports: Sequence[int], lanes: int, staged: int = 0) -> Launch:
        """`staged`: bytes of shared memory of a warp for rows of ports; without them it has those that the code asks for."""
        threads, shared = block_threads(lanes), staged or code.number(BYTES)
        if staged:
            threads = min(threads, SHARED // staged * WARP)
        elif shared:
            code.allow_shared(threads // WARP * shared)
        return Launch(code, ports, lanes, shared, threads)

    def launch(self, ports: list[tuple[int, int, int]], states: int, rows: int = 0, stream: int = 0) -> None:
        """Queue the computation: address, bytes from state to state and from entry to entry of each input and output."""
        launches = self.launches(tuple([p for p, (_, _, entry) in enumerate(ports) if entry != self.size]))
        passed = 0 if self.any_layout is not None else max([part["passed"] for part in self.described])
        # kernels of one call must not be queued between those of another that uses the same memory
        with self._lock if passed else nullcontext():
            if passed:
                ports = [*ports, (self._memory(stream, states * passed * self.size), self.size, states * self.size)]
            for each in launches:
                threads = SMALL if states * each.lanes < FEW else each.threads
                words = struct.pack(f"<{3 * len(each.ports)}q", *[word for p in each.ports for word in ports[p]])
                blocks, shared = -(-states * each.lanes // threads), threads // WARP * each.shared
                each.code.launch(blocks, threads, words, (states, rows), stream, shared)

    def _memory(self, stream: int, size: int) -> int:
        """The address of memory for what parts pass on; kernels of a stream run in turn, and share it."""
        place = stream, get_ident() if stream == STREAM_OF_THREAD else 0
        if place not in self._passed or self._passed[place].size < size:
            self._passed[place] = Buffer(self.device, size)
        return self._passed[place].address

    def __call__(self, arrays: list[np.ndarray], out: list[np.ndarray]) -> None:
        ports: list[tuple[int, int, int]] = []
        buffers: list[Buffer] = []
        for array in (*arrays, *out):
            repeated = array.strides[0] == 0 and len(array) > 1
            given = np.ascontiguousarray(array[:1] if repeated else array)
            buffer = Buffer(self.device, given.nbytes)
            if len(buffers) < len(arrays):
                buffer.fill(given)
            buffers.append(buffer)
            ports.append((buffer.address, 0 if repeated else given.strides[0], given.itemsize))
        self.launch(ports, len(out[0]), run_time_rows(self.tape.inputs, arrays))
        for array, buffer in zip(out, buffers[len(arrays) :], strict=True):
            found = np.empty(array.shape, array.dtype)
            buffer.read(found)
            array[...] = found


class CudaBackend(Backend):
    """The first GPU; kernels for others are made where arrays lie on them."""

    def compile(self, tape: Tape, precision: str, options: Options) -> Kernel:
        """The kernel for this GPU, after the golden vector."""
        return cuda_kernel(tape, precision, 0)


def cuda_kernel(tape: Tape, precision: str, number: int) -> CudaKernel:
    """The kernel of a tape on a GPU, which must have given the golden bits."""
    _check_device(precision, number)
    return CudaKernel(tape, precision, device(number))


@cache
def _check_device(precision: str, number: int) -> None:
    check_golden(CudaKernel(golden_tape(), precision, device(number)), precision, f"cuda ({device(number).name})")
