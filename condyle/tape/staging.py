"""Rows of a port in shared memory: arrays (states, entries) are read and written 16 bytes at a time, by all threads of a warp.

A thread that reads the entries of its own row leaves gaps between neighbouring threads. So a warp copies the rows of its 32
states to shared memory, side by side, before any is used, and those of its outputs back at the end:

    warp of 32 threads | region of a port | 32 rows, of `pitch` entries

Rows without gaps are copied in vectors; the last rows of a batch, rows with gaps and a row that all states share, entry by entry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from condyle.tape.ptx import PtxKernel

WARP, VECTOR = 32, 16  # threads, bytes
SHARED = 48 * 1024  # bytes of shared memory that any block can have
MOST = 24 * 1024  # of them for a warp: eight warps, as many as 255 registers for each thread allow, still run side by side
SYNC = "bar.warp.sync 0xffffffff;"


def pitch(entries: int) -> int:
    """Entries from row to row: neighbouring threads then read from different banks of the memory, or at most two from one."""
    return entries if entries % 4 else entries + 1


def warp_bytes(entries: Iterable[int], size: int) -> int:
    """Bytes of shared memory of a warp for ports with as many entries."""
    return sum([WARP * pitch(n) * size for n in entries])


def staged_ports(rows: Iterable[tuple[int, int]], strided: Collection[int], size: int) -> dict[int, int]:
    """port -> entries, of those whose rows pass through shared memory; `rows`: (port, entries) of those that may."""
    found: dict[int, int] = {}
    for port, entries in rows:
        if port not in strided and warp_bytes([*found.values(), entries], size) <= MOST:
            found[port] = entries
    return found


@dataclass(frozen=True)
class Region:
    """Shared memory of a warp for the rows of one port."""

    port: int
    entries: int
    offset: int  # bytes from the beginning of the warp's memory


class Stage:
    """The copies of one kernel between the rows of its ports and shared memory."""

    def __init__(self, kernel: PtxKernel, staged: Collection[int]) -> None:
        self.kernel, self.size = kernel, kernel.bytes
        ports = (*kernel.tape.inputs, *kernel.tape.outputs)
        self.regions: dict[int, Region] = {}
        self.bytes = 0
        for p in sorted(staged):
            self.regions[p] = Region(p, ports[p].size, self.bytes)
            self.bytes += warp_bytes((ports[p].size,), self.size)
        self.lane = self.memory = self.first = self.count = ""

    def begin(self, states: str) -> None:
        """The thread's place in its warp, the warp's memory, its first state and the number of its states."""
        k = self.kernel
        thread = k.put("mov.u32 {r}, %tid.x;", "b32")
        self.lane = k.put(f"and.b32 {{r}}, {thread}, {WARP - 1};", "b32")
        warp = k.put(f"shr.u32 {{r}}, {thread}, 5;", "b32")
        start = k.put("mov.u32 {r}, stage;", "b32")
        self.memory = k.put(f"mad.lo.u32 {{r}}, {warp}, {self.bytes}, {start};", "b32")
        lane = k.put(f"cvt.u64.u32 {{r}}, {self.lane};", "b64")
        self.first = k.put(f"sub.s64 {{r}}, {k.state}, {lane};", "b64")
        left = k.put(f"sub.s64 {{r}}, {states}, {self.first};", "b64")
        few = k.put(f"min.s64 {{r}}, {left}, {WARP};", "b64")
        self.count = k.put(f"cvt.u32.u64 {{r}}, {few};", "b32")
        # a warp without a state
        none = k.put(f"setp.le.s64 {{r}}, {left}, 0;", "pred")
        k.do(f"@{none} ret;")

    def row(self, p: int) -> str:
        """The register with the address of the thread's row of a port."""
        region = self.regions[p]
        start = self.kernel.put(f"add.u32 {{r}}, {self.memory}, {region.offset};", "b32")
        return self.kernel.put(f"mad.lo.u32 {{r}}, {self.lane}, {pitch(region.entries) * self.size}, {start};", "b32")

    def copy(self, ports: Sequence[int], *, back: bool) -> None:
        """Copy the rows of ports to shared memory, or back from it: all vectors are read before the first one is written."""
        copies = [_Copy(self, self.regions[p], back=back) for p in ports if p in self.regions]
        for each in copies:
            each.read_vectors()
        for each in copies:
            each.write_vectors()
        for each in copies:
            each.entries()


class _Copy:
    """One port being copied: `back` from shared memory."""

    def __init__(self, stage: Stage, region: Region, *, back: bool) -> None:
        self.stage, self.region, self.back, k = stage, region, back, stage.kernel
        self.kernel, self.kind = k, f"b{8 * stage.size}"
        words = [k.put(f"ld.param.u64 {{r}}, [ports+{8 * (3 * region.port + w)}];", "b64") for w in range(2)]
        address, self.state_bytes = k.put(f"cvta.to.global.u64 {{r}}, {words[0]};", "b64"), words[1]
        self.rows = k.put(f"mad.lo.s64 {{r}}, {stage.first}, {self.state_bytes}, {address};", "b64")
        self.memory = k.put(f"add.u32 {{r}}, {stage.memory}, {region.offset};", "b32")
        # 32 rows without gaps, where vectors may begin
        without_gaps = k.put(f"setp.eq.s64 {{r}}, {self.state_bytes}, {region.entries * stage.size};", "pred")
        odd = k.put(f"and.b64 {{r}}, {address}, {VECTOR - 1};", "b64")
        aligned = k.put(f"setp.eq.s64 {{r}}, {odd}, 0;", "pred")
        full = k.put(f"setp.eq.u32 {{r}}, {stage.count}, {WARP};", "pred")
        some = k.put(f"and.pred {{r}}, {without_gaps}, {aligned};", "pred")
        self.dense = k.put(f"and.pred {{r}}, {some}, {full};", "pred")
        # vectors: (guard, registers, address outside, addresses in shared memory)
        self.vectors: list[tuple[str, list[str], str, list[str]]] = []
        lane_bytes = k.put(f"mul.lo.u32 {{r}}, {stage.lane}, {VECTOR};", "b32")
        wide = k.put(f"cvt.u64.u32 {{r}}, {lane_bytes};", "b64")
        outside = k.put(f"add.s64 {{r}}, {self.rows}, {wide};", "b64")
        inside = k.put(f"add.u32 {{r}}, {self.memory}, {lane_bytes};", "b32")
        total, each = WARP * region.entries * stage.size // VECTOR, VECTOR // stage.size
        for start in range(0, total, WARP):
            guard = self.dense
            if total - start < WARP:
                within = k.put(f"setp.lt.u32 {{r}}, {stage.lane}, {total - start};", "pred")
                guard = k.put(f"and.pred {{r}}, {self.dense}, {within};", "pred")
            places = [f"[{inside}+{start * VECTOR}]"]
            if pitch(region.entries) != region.entries:
                # a vector lies within one row, whose number moves it
                vector = k.put(f"add.u32 {{r}}, {stage.lane}, {start};", "b32")
                row = k.put(f"div.u32 {{r}}, {vector}, {region.entries // each};", "b32")
                moved = k.put(f"mad.lo.u32 {{r}}, {row}, {stage.size}, {inside};", "b32")
                places = [f"[{moved}+{start * VECTOR + j * stage.size}]" for j in range(each)]
            self.vectors.append((guard, [k.register(self.kind) for _ in range(each)], f"[{outside}+{start * VECTOR}]", places))

    def read_vectors(self) -> None:
        """From where they are to registers."""
        for guard, registers, outside, inside in self.vectors:
            if self.back:
                self._shared("ld", guard, registers, inside)
            else:
                self.kernel.do(f"@{guard} ld.global.nc.v{len(registers)}.{self.kind} {{{', '.join(registers)}}}, {outside};")

    def write_vectors(self) -> None:
        """From registers to where they go."""
        for guard, registers, outside, inside in self.vectors:
            if self.back:
                self.kernel.do(f"@{guard} st.global.v{len(registers)}.{self.kind} {outside}, {{{', '.join(registers)}}};")
            else:
                self._shared("st", guard, registers, inside)

    def _shared(self, op: str, guard: str, registers: list[str], places: list[str]) -> None:
        """Load or store a vector of shared memory, at once or entry by entry."""
        kind, values = self.kind, registers
        if len(places) == 1:
            kind, values = f"v{len(registers)}.{kind}", [f"{{{', '.join(registers)}}}"]
        for value, place in zip(values, places, strict=True):
            operands = f"{value}, {place}" if op == "ld" else f"{place}, {value}"
            self.kernel.do(f"@{guard} {op}.shared.{kind} {operands};")

    def entries(self) -> None:
        """Entry by entry, neighbouring threads neighbouring entries, unless vectors did it."""
        k, n, size = self.kernel, self.region.entries, self.stage.size
        again, end = k.label(), k.label()
        k.do(f"@{self.dense} bra {end};")
        limit = k.put(f"mul.lo.u32 {{r}}, {self.stage.count}, {n};", "b32")
        entry = k.put(f"mov.u32 {{r}}, {self.stage.lane};", "b32")
        k.do(f"{again}:")
        beyond = k.put(f"setp.ge.u32 {{r}}, {entry}, {limit};", "pred")
        k.do(f"@{beyond} bra {end};")
        row = k.put(f"div.u32 {{r}}, {entry}, {n};", "b32")
        column = k.put(f"mad.lo.s32 {{r}}, {row}, {-n}, {entry};", "b32")
        wide = k.put(f"cvt.u64.u32 {{r}}, {row};", "b64")
        start = k.put(f"mad.lo.s64 {{r}}, {wide}, {self.state_bytes}, {self.rows};", "b64")
        across = k.put(f"mul.wide.u32 {{r}}, {column}, {size};", "b64")
        outside = k.put(f"add.s64 {{r}}, {start}, {across};", "b64")
        moved = k.put(f"mad.lo.u32 {{r}}, {row}, {pitch(n) - n}, {entry};", "b32")
        inside = k.put(f"mad.lo.u32 {{r}}, {moved}, {size}, {self.memory};", "b32")
        pair = [("global", outside), ("shared", inside)]
        (source, here), (target, there) = pair[::-1] if self.back else pair
        value = k.put(f"ld.{source}.{self.kind} {{r}}, [{here}];", self.kind)
        k.do(f"st.{target}.{self.kind} [{there}], {value};")
        k.do(f"add.u32 {entry}, {entry}, {WARP};")
        k.do(f"bra {again};")
        k.do(f"{end}:")
