"""Numbers that a solver's loops take from outside, in shared memory: an iteration loads them there, and its registers are free.

An iteration of a contact solver takes about a hundred numbers from outside (mass matrix, Jacobians, force laws) and computes with
as many of its own. A thread has 255 registers, 127 numbers of f64; what does not fit goes to local memory, which is too large for
the fast memory of a multiprocessor. So these numbers are stored in shared memory before the loop, and loaded where they are used.
A number of the whole robot is there once for all threads of its state:

    warp | of a number of each limb: 32 entries | of a number of the whole robot: 32 / lanes entries

A thread loads what it has stored itself, or what another thread of its state has stored with the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from condyle.tape.ptx_writer import Column
from condyle.tape.staging import WARP
from condyle.tape.tape import Block, Loop, limb_counts

if TYPE_CHECKING:
    from condyle.tape.ptx import PtxKernel

NEAR = 40  # instructions within which a loaded number is used again without another load
BYTES = "captured_bytes_of_a_warp"  # a number of the module, which a launch asks for
# kB of a multiprocessor, by capability
SHARED = {70: 96, 75: 64, 80: 164, 86: 100, 87: 164, 89: 100, 90: 228, 120: 100}
# kB that a block may have, on all GPUs that run code for this capability
BLOCK = {70: 63, 80: 98, 90: 226, 120: 98}
RESERVED = 1024  # bytes that the driver takes of each block
RESIDENT = 256  # threads of a multiprocessor that run side by side with 255 registers each


@dataclass
class Captured:
    """A number in shared memory; called, it gives a register."""

    kernel: PtxKernel
    column: Column
    register: str = ""
    line: int = 0  # at which it was loaded into the register

    def __call__(self) -> str:
        if not self.register or len(self.kernel.lines) - self.line > NEAR:
            self.register = self.kernel.load(self.column, 0)
            self.line = len(self.kernel.lines)
        return self.register

    def elsewhere(self) -> Captured:
        """The same number for another block, which may run without what was loaded here."""
        return Captured(self.kernel, self.column)


class CapturedMemory:
    """The shared memory of a warp for such numbers."""

    def __init__(self, kernel: PtxKernel, sm: int) -> None:
        self.kernel, self.limit, self.bytes = kernel, memory_of_warp(sm, kernel.threads), 0
        self.own = self.whole = ""  # registers: where entries of the thread, and of its state, begin

    def begin(self) -> None:
        """The addresses of the thread and of its state in the memory of the warp."""
        k = self.kernel
        thread = k.put("mov.u32 {r}, %tid.x;", "b32")
        warp = k.put(f"shr.u32 {{r}}, {thread}, 5;", "b32")
        start = k.put("mov.u32 {r}, captured;", "b32")
        memory = k.put(f"mad.lo.u32 {{r}}, {warp}, {BYTES}, {start};", "b32")
        lane = k.put(f"and.b32 {{r}}, {thread}, {WARP - 1};", "b32")
        state = k.put(f"shr.u32 {{r}}, {lane}, {k.lanes.bit_length() - 1};", "b32")
        self.own, self.whole = (k.put(f"mad.lo.u32 {{r}}, {x}, {k.bytes}, {memory};", "b32") for x in (lane, state))

    def finish(self) -> list[str]:
        """Write how much memory there is; returns declarations."""
        self.kernel.lines = [line.replace(BYTES, str(self.bytes)) for line in self.kernel.lines]
        return [".extern .shared .align 16 .b8 captured[];", f".visible .global .align 4 .u32 {BYTES} = {self.bytes};"]

    def keep(self, block: Block, loop: Loop, captured: Sequence[int], values: dict[int, Any]) -> None:
        """Store what the innermost iterations of a loop take from outside of it, as far as there is memory."""
        if not is_iteration(loop):
            return
        inside, first, counts = _used_in_iterations(loop), 1 + loop.carries + loop.reads, limb_counts(block)
        for j, a in enumerate(captured):
            if first + j in inside and a in values and not isinstance(values[a], Captured):
                register = self.kernel.value(values, a)
                if register.startswith(("%d", "%f")):
                    values[a] = self._stored(register, limb=a in counts) or register

    def _stored(self, register: str, *, limb: bool) -> Captured | None:
        """The number of a register; None if no memory is left."""
        k = self.kernel
        width = (WARP if limb else WARP // k.lanes) * k.bytes
        if self.bytes + width > self.limit:
            return None
        column = Column(self.own if limb else self.whole, "shared", 1, self.bytes // k.bytes)
        self.bytes += width
        k.store(column, 0, register)
        return Captured(k, column)


def memory_of_warp(sm: int, threads: int) -> int:
    """Bytes of shared memory for each warp of blocks with so many threads, which run side by side as registers allow."""
    of_sm, most = (
        1024 * next(size for known, size in sorted(sizes.items(), reverse=True) if known <= sm) for sizes in (SHARED, BLOCK)
    )
    of_block = min(of_sm // max(RESIDENT // threads, 1) - RESERVED, most)
    return of_block * WARP // threads // 16 * 16


def is_iteration(loop: Loop) -> bool:
    """Whether a loop is repeated until its state is done."""
    return loop.exits and loop.count != 1


def _used_in_iterations(loop: Loop) -> set[int]:
    """The params of a loop's body that its innermost iterations use."""
    nodes = loop.body.nodes
    position = {i: node.data for i, node in enumerate(nodes) if node.op == "param"}
    position |= {i: node.data[0] for i, node in enumerate(nodes) if node.op == "limb"}
    inner = [node for node in nodes if node.op == "loop" and is_iteration(node.data)]
    found: set[int] = set() if inner else set(position.values())
    for _, args, data in inner:
        own, first = _used_in_iterations(data), 1 + data.carries + data.reads
        found |= {position[a] for j, a in enumerate(data.split(args)[2]) if first + j in own and a in position}
    return found
