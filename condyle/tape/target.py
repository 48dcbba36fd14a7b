"""What a processor needs of LLVM code besides the arithmetic: entry code, memory layout, address spaces, order and cuts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

# cycles until a result can be used, roughly, on current processors; 1 for what is not listed
LATENCY = dict.fromkeys(("add", "sub", "lt", "le", "eq"), 3)
LATENCY |= {"fma": 4, "mul": 4, "div": 13, "sqrt": 20, "rint": 6, "floor": 6, "loop": 100}


@dataclass(frozen=True)
class Target:
    """A processor as the emitter (llvm.py) sees it.

    The emitter writes one internal function, around which `entry` puts the functions that are called from outside. It computes
    lane blocks, each of which is as many states as there are lanes:

        void @blocks(ports, i64 first, i64 last, i64 last_row, scratch)    blocks first..last-1, if `loops`
        void @block(ports, i64 b, i64 last_row, scratch)                   block b alone, if not

    `ports` holds the words of every input, then of every output, as the memory layout reads them (transpose.py); `last_row` is
    the number of states less one; `scratch` is memory for the values of one lane block that find no place in registers.
    """

    triple: str
    entry: Callable[[int], str]  # exported functions, given the bytes of scratch memory that a lane block needs
    attributes: str = "nounwind noinline"  # of every function
    loops: bool = True
    # memory
    limbs: bool = False  # lanes are the limbs of one state (emit_limbs.py), and a lane block is one state
    columns: bool = False  # a state is a row, tiles are transposed; if True a port is one column per entry (structure of arrays)
    vectors: bool = False  # a port is one vector of lanes per entry, those of the arguments and results of a subroutine
    data: str = "ptr"  # pointer type of inputs and outputs, with its address space
    ports: str = "ptr"
    scratch: str = "ptr"
    vector_bytes: int = 0  # of a register, for loops across lanes; 0 if a lane has no vectors of its own
    # order (schedule.py)
    latency: Mapping[str, int] = field(default_factory=lambda: MappingProxyType(LATENCY))
    registers: int = 16  # values alive above which operations that end the life of others come first
    longest_scheduled: int = 2500  # nodes; a longer block keeps the order of the program, for locality matters more there
    # cuts (layout.py): LLVM's time per operation grows with the length of a function
    uncut: int = 4000  # operations that stay together, for speed
    uncut_in_loops: int = 3  # a loop's body may be this many times longer: cuts bring all that is carried through memory
    piece: int = 250  # operations of the functions that longer blocks are cut into
    group: int = 128  # entries of a port that one function loads
    assembled: int = 0  # bytes of the vectors that long straight blocks are written in assembly for (assemble.py); 0: for none
    straight: int = 2500  # operations above which they are; shorter ones are ordered by us and by LLVM, which pays there
    straight_one_lane: int = 1000  # the same for one lane, for which LLVM's order needs more registers than there are
    straight_per_result: int = 4  # and operations for each result, or else moving results takes longer than computing them
    straight_in_loops: int = 12000  # operations of a loop with all inside, above which its straight parts are assembled, too
    assembled_run: int = 250  # operations of the shortest such part

    def parameters(self) -> str:
        """The parameters of the internal function."""
        blocks = "i64 %first, i64 %last" if self.loops else "i64 %b"
        return f"{self.ports} noalias %ports, {blocks}, i64 %last_row, {self.scratch} noalias %scratch"


_X86 = (
    "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)",
    "  %was = alloca i32\n  %ours = alloca i32\n  call void @llvm.x86.sse.stmxcsr(ptr %was)\n"
    "  store i32 8064, ptr %ours\n  call void @llvm.x86.sse.ldmxcsr(ptr %ours)",
    "  call void @llvm.x86.sse.ldmxcsr(ptr %was)",
)
_AARCH64 = (
    "declare i64 @llvm.aarch64.get.fpcr()\ndeclare void @llvm.aarch64.set.fpcr(i64)",
    "  %was = call i64 @llvm.aarch64.get.fpcr()\n  call void @llvm.aarch64.set.fpcr(i64 0)",
    "  call void @llvm.aarch64.set.fpcr(i64 %was)",
)


def cpu_target(triple: str, vector_bytes: int = 0) -> Target:
    """An x86-64 or AArch64 processor: rows in memory, a loop over lane blocks, rounding to nearest with subnormal numbers on.

    Exported are `kernel(ports, first, last, last_row, scratch)` and `single(frame)`, which computes one state from one pointer to
    (scratch, ports ...). Both restore the rounding mode they found.
    """
    declare, enter, leave = _X86 if triple.startswith("x86_64") else _AARCH64
    arguments = "ptr %ports, i64 %first, i64 %last, i64 %last_row, ptr %scratch"
    text = "\n\n".join(
        [
            declare,
            f"define void @kernel({arguments}) #0 {{\n{enter}\n  call void @blocks({arguments})\n{leave}\n  ret void\n}}",
            "define void @single(ptr %frame) #0 {\n  %scratch = load ptr, ptr %frame\n"
            "  %ports = getelementptr i64, ptr %frame, i64 1\n"
            "  call void @kernel(ptr %ports, i64 0, i64 1, i64 0, ptr %scratch)\n  ret void\n}",
        ]
    )
    attributes = 'nounwind noinline "stackrealign" "prefer-vector-width"="512" "min-legal-vector-width"="512"'
    # the calling convention and the directives are those of ELF systems
    assembled = vector_bytes if triple.startswith("x86_64") and "linux" in triple else 0
    return Target(triple, lambda scratch: text, attributes, assembled=assembled, vector_bytes=vector_bytes)
