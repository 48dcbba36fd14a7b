"""The cuda backend: PTX written from the tape, compiled by the driver of an NVIDIA GPU, one thread for each state.

Given NumPy arrays it copies them to the GPU and the results back. Arrays that are on the GPU already need no copy: a function
that is called with them runs there, whatever its backend (condyle/tape/device.py).
"""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import cache

import numpy as np

from condyle.tape.backends.interface import Backend, Kernel, Options
from condyle.tape.backends.reference import check_golden, golden_tape
from condyle.tape.cache import shared_cache
from condyle.tape.cuda_driver import Buffer, Code, Device, device
from condyle.tape.lean import is_condition, lean
from condyle.tape.limbs import carried_together, lanes_of
from condyle.tape.ops import OPS
from condyle.tape.passes import lower
from condyle.tape.ptx import ENTRY, THREADS, ptx_source
from condyle.tape.tape import Block, Tape, run_time_rows
from condyle.tape.trace_cache import source_hash

LEVEL = 1  # of the compiler: as fast as the highest one or faster for a thread for each state, in half of the time
LIMB_LEVEL = 3  # with a thread for each limb
WORTH = 2.0  # operations of all threads of a state, relative to those of one: less memory for each is worth more of them
ITERATIONS, FEW_ITERATIONS = 8, 10  # of a loop that exits: as many are usual, or one if it has so few at most
FEW, SMALL = 132 * THREADS, 32  # states below which blocks are small, to occupy all multiprocessors


def usual_operations(block: Block) -> int:
    """Operations of a state that solves without rare conditions, retries and refinements; each row of a run counts once."""
    total = sum(node.op in OPS for node in block.nodes)
    for loop in [node.data for node in block.nodes if node.op == "loop" and not is_condition(node.data)]:
        times = max(loop.count, 1) if not loop.exits else 1 if loop.count <= FEW_ITERATIONS else min(loop.count, ITERATIONS)
        total += times * usual_operations(loop.body)
    return total


def level_of(lanes: int) -> int:
    """The level of the compiler for a kernel with so many threads for each state."""
    return LIMB_LEVEL if lanes > 1 else LEVEL


def device_form(tape: Tape, precision: str) -> Tape:
    """The lowered tape with lean loops, and with limbs side by side where that is less work, otherwise written out (kept)."""
    known: dict[str, Tape] = tape.__dict__.setdefault("_device_form", {})
    if precision not in known:
        low, plain = lower(tape, precision, limbs=True), lower(tape, precision)
        if low is not plain and lanes_of(low.block) * usual_operations(low.block) > WORTH * usual_operations(plain.block):
            low = plain
        block = carried_together(low.block) if low is not plain else low.block
        known[precision] = replace(low, block=lean(block))
    return known[precision]


class CudaKernel(Kernel):
    """A tape as code of a GPU, for each set of ports whose entries do not lie one after the other."""

    def __init__(self, tape: Tape, precision: str, on: Device, any_layout: Code | None = None, lanes: int = 0) -> None:
        self.tape, self.precision, self.device, self.any_layout = tape, precision, on, any_layout
        self.lanes = lanes or lanes_of(device_form(tape, precision).block)  # threads that compute one state
        self._code: dict[tuple[int, ...], Code] = {}

    def code(self, strided: tuple[int, ...] = ()) -> Code:
        """The loaded kernel, compiled now if it was never needed before; `any_layout` serves all layouts, where it is given."""
        if self.any_layout is not None:
            return self.any_layout
        if strided not in self._code:
            self._code[strided] = Code(self.device, cubin(self.tape, self.precision, self.device, strided), ENTRY)
        return self._code[strided]

    def launch(self, ports: list[tuple[int, int, int]], states: int, rows: int = 0, stream: int = 0) -> None:
        """Queue the computation: address, bytes from state to state and from entry to entry of each input and output."""
        size = 8 if self.precision == "f64" else 4
        strided = tuple([p for p, (_, _, entry) in enumerate(ports) if entry != size])
        lanes = self.lanes
        threads = SMALL if states * lanes < FEW else THREADS
        words = struct.pack(f"<{3 * len(ports)}q", *[word for port in ports for word in port])
        self.code(strided).launch(-(-states * lanes // threads), threads, words, (states, rows), stream)

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


def cubin(tape: Tape, precision: str, on: Device, strided: tuple[int, ...]) -> bytes:
    """Code of a GPU for a tape, from the cache if it was compiled before."""
    lowering = f"lowered for cuda {source_hash('condyle.tape.passes')} {tape.hash} {precision}"
    lowered = shared_cache().found(lowering, lambda: device_form(tape, precision).hash.encode()).decode()
    key = f"cuda {source_hash('condyle.tape.ptx')} {lowered} {precision} {strided} {on.capability}"

    def compiled() -> bytes:
        form = device_form(tape, precision)
        source = ptx_source(form, precision, sm=on.capability, strided=strided)
        return on.compiled(source, level_of(lanes_of(form.block)))

    return shared_cache().found(key, compiled)


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
