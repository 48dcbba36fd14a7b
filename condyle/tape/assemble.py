"""Long straight blocks as x86-64 assembly: instructions chosen one by one, registers given by Belady's rule.

LLVM takes 100 us per operation of a long kernel, most of it to allocate registers and to reorder instructions. A straight block
needs neither: its order is given, and when a register is needed, the value that is used again last is the one that leaves, which
is optimal for straight code (Belady 1966). LLVM still encodes the instructions, and writes all that is not arithmetic.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from condyle.tape.interpret import Ieee
from condyle.tape.ir_writer import VectorType
from condyle.tape.ops import BOOL, OPS
from condyle.tape.tape import Block, Node

NEVER = 1 << 60  # the next use of a value that is used no more
NEAR = 256  # vectors, or constants, around a pointer that instructions of AVX-512 address by one byte
POINTERS = ("%rax", "%rcx", "%rdx", "%rsi", "%r8", "%r9", "%r10")  # into scratch memory, besides the base pointer in %rdi
CONSTANTS = "%r11"  # points to constants

ARITHMETIC = {"add": "vadd", "mul": "vmul", "sub": "vsub", "div": "vdiv"}
COMPARE = {"lt": 17, "le": 18, "eq": 0}  # ordered, and quiet
LOGIC = {"and": "vand", "or": "vor"}
ROUND = {"rint": 8, "floor": 9}
EXTREME = {"min": "vmin", "max": "vmax"}
UNORDERED, ORDERED = 3, 7  # comparisons
SUPPORTED = frozenset({*ARITHMETIC, *COMPARE, *LOGIC, *ROUND, *EXTREME, "fma", "neg", "abs", "sqrt", "copysign", "select", "not"})


def supported(block: Block) -> bool:
    """Whether a block is straight and made of operations that can be assembled."""
    return all(node.op in SUPPORTED or node.op in ("param", "const") for node in block.nodes)


@dataclass(frozen=True)
class Registers:
    """The vector registers of a kernel: letter, number, bytes of a vector."""

    letter: str
    count: int
    bytes: int
    masks: bool  # AVX-512: comparisons give mask registers, constants are broadcast as they are read
    scalar: bool  # one lane: an operand in memory is shorter than a register

    @staticmethod
    def of(vector: VectorType, vector_bytes: int) -> Registers | None:
        """Those that one vector of lanes fills, on a processor with vectors of so many bytes; None if there are none."""
        size = vector.bytes * vector.lanes
        if size == 64 and vector_bytes == 64:
            return Registers("z", 32, 64, True, False)
        if size in (16, 32) or vector.lanes == 1:
            return Registers("y" if size == 32 else "x", 16, size, False, vector.lanes == 1)
        return None


class Assembler:
    """Writes a function of a base pointer. Params and results lie below it and spilled values above, counted in vectors.

    `homes`: the place of each param, by node; `places`: where results go, by node.
    """

    def __init__(self, vector: VectorType, registers: Registers, homes: dict[int, int], places: dict[int, list[int]]) -> None:
        self.vector, self.registers, self.homes, self.places = vector, registers, homes, places
        double = vector.precision == "f64"
        self.packed = "pd" if double else "ps"
        self.suffix = self.packed if not registers.scalar else "sd" if double else "ss"
        self.mov = f"vmov{self.suffix}" if registers.scalar else f"vmova{self.suffix}"
        self.names = [f"%{registers.letter}mm{k}" for k in range(registers.count)]
        self.temporary = registers.count - 1  # never allocated
        self.lines: list[str] = []
        self.numbers: dict[tuple[int, ...], int] = {}  # bits of a constant, or of one for each lane -> its position
        self.spills = 0
        self.pointers: dict[int, str] = {}  # part of scratch memory, of NEAR vectors -> the register that points to it
        sign = 1 << (8 * vector.bytes - 1)
        self.sign, self.magnitude, self.ones = self.pattern(sign), self.pattern(sign - 1), self.pattern(2 * sign - 1)

    def function(self, name: str, block: Block) -> str:
        """The assembly of the block, and its constants."""
        self.block(block)
        head = [".text", ".p2align 4", f".type {name},@function", f"{name}:"]
        if self.registers.masks:
            middle = NEAR // 2
            head += [f"leaq {(NEAR * k + middle) * self.registers.bytes}(%rdi), {r}" for k, r in self.pointers.items()]
            head += [f"leaq numbers+{middle * self.vector.bytes}(%rip), {CONSTANTS}"]
        end = [
            "vzeroupper",
            "retq",
            f".size {name}, .-{name}",
            '.section .rodata,"a",@progbits',
            ".p2align 6",
            f"{name}.numbers:",
        ]
        word = ".quad" if self.vector.bytes == 8 else ".long"
        copies = 1 if self.registers.masks else max(self.registers.bytes, 16) // self.vector.bytes
        pool = [f"{word} {', '.join(map(str, bits * (copies // len(bits))))}" for bits in self.numbers]
        return "\n".join([*head, *self.lines, *end, *pool, ".text"]).replace("numbers+", f"{name}.numbers+")

    # ---- memory

    def number(self, value: float | tuple[float, ...]) -> str:
        """A constant in memory, or one for each lane."""
        double = self.vector.precision == "f64"
        numbers = [Ieee(single=not double).number(x) for x in (value if isinstance(value, tuple) else (value,))]
        real, word = ("d", "Q") if double else ("f", "I")
        return self.pattern(*struct.unpack(f"<{len(numbers)}{word}", struct.pack(f"<{len(numbers)}{real}", *numbers)))

    def pattern(self, *bits: int) -> str:
        """Bits in memory, the same for every lane, or for each lane."""
        at = self.numbers.setdefault(bits, len(self.numbers))
        if self.registers.masks:
            near = f"{(at - NEAR // 2) * self.vector.bytes}({CONSTANTS})"
            return f"{near if at < NEAR else f'numbers+{at * self.vector.bytes}(%rip)'}{{1to{self.vector.lanes}}}"
        return f"numbers+{at * max(self.registers.bytes, 16)}(%rip)"

    def slot(self, place: int) -> str:
        """A vector of scratch memory."""
        part, within = divmod(place, NEAR)
        if self.registers.masks and part not in self.pointers and len(self.pointers) < len(POINTERS):
            self.pointers[part] = POINTERS[len(self.pointers)]
        if part in self.pointers:
            # one byte in place of four: the time of a long kernel is that of fetching its instructions
            return f"{(within - NEAR // 2) * self.registers.bytes}({self.pointers[part]})"
        return f"{place * self.registers.bytes}(%rdi)"

    # ---- registers: where each value is

    def block(self, block: Block) -> None:
        """Write every operation, in order."""
        self.nodes = nodes = block.nodes
        n = len(nodes)
        self.operands, self.negated = _operands(block)
        self.following, first_use = _following(self.operands)
        self.register = [-1] * n
        self.memory: list[str | None] = [None] * n
        self.spilled = [-1] * n  # node -> its slot among the spilled values
        self.held = [-1] * self.temporary  # register -> node
        self.used = [0] * self.temporary  # register -> the next use of what it holds
        self.free = list(range(self.temporary))
        self.free_slots: list[int] = []
        for i, home in self.homes.items():
            self.memory[i] = self.slot(home)
        for i, node in enumerate(nodes):
            if node.op == "const":
                self.memory[i] = self.number(node.data)
        for i, node in enumerate(nodes):
            if node.op == "param" or node.op == "const" or self.negated[i]:
                continue
            unused: list[int] = []
            if node.op == "fma":
                r = self.fma(i, unused)
            elif node.op in EXTREME:
                r = self.extreme(i, EXTREME[node.op], unused)
            else:
                text, end = self.instruction(i, node.op)
                self.release(i, unused)
                r = self.allocate(i)
                self.lines.append(f"{text}{self.names[r]}{end}")
            # a result in its place is also found there again
            for place in self.places.get(i, ()):
                self.memory[i] = self.slot(place)
                self.lines.append(f"{self.mov} {self.names[r]}, {self.memory[i]}")
            # not before the instruction that reads it is written
            self.free_slots += unused
            self.used[r] = first_use[i]
            if first_use[i] == NEVER:
                self.free.append(r)
                self.register[i] = -1
        for i, places in self.places.items():
            if nodes[i].op in ("param", "const"):
                self.load(i, self.temporary)
                self.lines += [f"{self.mov} {self.names[self.temporary]}, {self.slot(place)}" for place in places]

    def load(self, a: int, r: int) -> None:
        """Bring a value from memory into a register."""
        place = self.memory[a] or ""
        constant, brace, _ = place.partition("{")
        move = f"vbroadcasts{self.packed[1]}" if brace else self.mov
        self.lines.append(f"{move} {constant}, {self.names[r]}")

    def furthest(self, pinned: tuple[int, ...]) -> int:
        """The register whose value is used again last."""
        used = self.used
        r = used.index(max(used))
        if r in pinned:
            r = max([k for k in range(self.temporary) if k not in pinned], key=used.__getitem__)
        return r

    def allocate(self, a: int, pinned: tuple[int, ...] = ()) -> int:
        """A register for a value; what it held goes to memory, if it is not there."""
        if self.free:
            r = self.free.pop()
        else:
            r = self.furthest(pinned)
            old = self.held[r]
            if self.memory[old] is None:
                if self.free_slots:
                    slot = self.free_slots.pop()
                else:
                    slot, self.spills = self.spills, self.spills + 1
                self.spilled[old] = slot
                self.memory[old] = place = self.slot(slot)
                self.lines.append(f"{self.mov} {self.names[r]}, {place}")
            self.register[old] = -1
        self.held[r], self.register[a] = a, r
        return r

    def fetch(self, a: int, *pinned: int) -> int:
        """The register of a value, loaded if it is in memory."""
        r = self.register[a]
        if r < 0:
            r = self.allocate(a, pinned)
            self.load(a, r)
            self.used[r] = 0  # stays until `release` says when it is used again
        return r

    def source(self, a: int, again: int, *pinned: int, full_width: bool = False) -> str:
        """A value as the last source: its register, or memory unless it pays to load it. `full_width`: all bits are read."""
        r = self.register[a]
        if r < 0:
            place = self.memory[a]
            assert place is not None
            short = full_width and self.registers.scalar and self.nodes[a].op != "const"
            if not short and (again == NEVER or (not self.free and self.used[self.furthest(pinned)] <= again)):
                return place
            r = self.fetch(a, *pinned)
        return self.names[r]

    def release(self, i: int, unused: list[int]) -> None:
        """Free the registers of what node i used for the last time; its slots are added to `unused`."""
        register, spilled = self.register, self.spilled
        for a, again in zip(self.operands[i], self.following[i], strict=True):
            r = register[a]
            if again != NEVER:
                if r >= 0:
                    self.used[r] = again
                continue
            if r >= 0:
                self.free.append(r)
                register[a] = -1
            if spilled[a] >= 0:
                unused.append(spilled[a])
                spilled[a] = -1

    # ---- instructions

    def fma(self, i: int, unused: list[int]) -> int:
        """Write a * b + c over one of its arguments; returns the register."""
        a, b, c = self.operands[i]
        x, y, z = self.following[i]
        register, names, write = self.register, self.names, self.lines.append
        minus_a, minus_b, minus_c = [self.negated[k] for k in self.nodes[i].args]
        form = f"vf{'n' if minus_a != minus_b else ''}m{'sub' if minus_c else 'add'}"
        rc = register[c]
        if register[a] < 0 or (register[b] >= 0 and y == NEVER):
            a, b, x, y = b, a, y, x
        over_c = rc >= 0 and z == NEVER
        ra = self.fetch(a, register[b], rc)
        if over_c:
            write(f"{form}231{self.suffix} {self.source(b, y, ra, rc)}, {names[ra]}, {names[rc]}")
            r, dead = rc, c
        elif x == NEVER:
            if register[b] < 0 and rc >= 0:
                write(f"{form}132{self.suffix} {self.source(b, y, ra, rc)}, {names[rc]}, {names[ra]}")
            else:
                rb = self.fetch(b, ra, rc)
                write(f"{form}213{self.suffix} {self.source(c, z, ra, rb)}, {names[rb]}, {names[ra]}")
            r, dead = ra, a
        else:
            # every argument is needed again: the sum begins as a copy
            second = self.source(b, y, ra, rc)
            rc = register[c]
            r, dead = self.allocate(i, (ra, register[b], rc)), -1
            if rc >= 0:
                write(f"vmova{self.packed} {names[rc]}, {names[r]}")
            else:
                self.load(c, r)
            write(f"{form}231{self.suffix} {second}, {names[ra]}, {names[r]}")
        if dead >= 0:
            # the register has a new owner before the others are freed
            register[dead] = -1
        self.release(i, unused)
        self.held[r], register[i] = i, r
        return r

    def extreme(self, i: int, word: str, unused: list[int]) -> int:
        """Write min or max; returns the register. The processor gives b where one is NaN, and a is wanted if only a is."""
        a, b = self.operands[i]
        names, suffix, write, temporary = self.names, self.suffix, self.lines.append, self.names[self.temporary]
        ra = self.fetch(a, self.register[b])
        rb = self.fetch(b, ra)
        # both are read after it is written
        r = self.allocate(i, (ra, rb))
        x, y, z = names[ra], names[rb], names[r]
        if self.registers.masks:
            write(f"vcmp{suffix} ${UNORDERED}, {x}, {x}, %k1")
            write(f"vcmp{suffix} ${ORDERED}, {y}, {y}, %k1{{%k1}}")
            write(f"{word}{suffix} {y}, {x}, {z}")
            write(f"vmova{self.packed} {x}, {z}{{%k1}}")
        else:
            write(f"vcmp{suffix} ${UNORDERED}, {x}, {x}, {z}")
            write(f"vcmp{suffix} ${ORDERED}, {y}, {y}, {temporary}")
            write(f"vand{self.packed} {temporary}, {z}, {z}")
            write(f"{word}{suffix} {y}, {x}, {temporary}")
            write(f"vblendv{self.packed} {z}, {x}, {temporary}, {z}")
        self.release(i, unused)
        return r

    def instruction(self, i: int, op: str) -> tuple[str, str]:
        """The instruction of any other operation, before and behind the register that it writes."""
        args, after = self.operands[i], self.following[i]
        a, b = args[0], args[-1]
        register, names, suffix, packed = self.register, self.names, self.suffix, self.packed
        end = ""
        if op in ARITHMETIC:
            again = after[1]
            if register[a] < 0 and op in ("add", "mul"):
                a, b, again = b, a, after[0]
            ra = self.fetch(a, register[b])
            text = f"{ARITHMETIC[op]}{suffix} {self.source(b, again, ra)}, {names[ra]}, "
        elif op in LOGIC:
            ra = self.fetch(a, register[b])
            text = f"{LOGIC[op]}{packed} {self.source(b, after[1], ra, full_width=True)}, {names[ra]}, "
        elif op in COMPARE:
            ra = self.fetch(a, register[b])
            text = f"vcmp{suffix} ${COMPARE[op]}, {self.source(b, after[1], ra)}, {names[ra]}, "
            if self.registers.masks:
                self.lines.append(f"{text}%k1")
                text = f"vpmovm2{'q' if packed == 'pd' else 'd'} %k1, "
        elif op == "select":
            a, b, c = args
            rm = self.fetch(a, register[b], register[c])
            rc = self.fetch(c, rm, register[b])
            chosen = self.source(b, after[1], rm, rc, full_width=True)
            if self.registers.masks:
                self.lines.append(f"vpmov{'q' if packed == 'pd' else 'd'}2m {names[rm]}, %k1")
                text, end = f"vblendm{packed} {chosen}, {names[rc]}, ", "{%k1}"
            else:
                text = f"vblendv{packed} {names[rm]}, {chosen}, {names[rc]}, "
        elif op == "copysign":
            ra = self.fetch(a, register[b])
            rb = self.fetch(b, ra)
            # the sign of b over the sign of a: a ^ ((a ^ b) & sign)
            sign = names[self.temporary]
            self.lines.append(f"vxor{packed} {names[ra]}, {names[rb]}, {sign}")
            self.lines.append(f"vand{packed} {self.sign}, {sign}, {sign}")
            text = f"vxor{packed} {sign}, {names[ra]}, "
        else:
            ra = self.fetch(a)
            merged = f"{names[ra]}, " if self.registers.scalar else ""
            if op == "sqrt":
                text = f"vsqrt{suffix} {names[ra]}, {merged}"
            elif op in ROUND:
                text = f"{'vrndscale' if self.registers.masks else 'vround'}{suffix} ${ROUND[op]}, {names[ra]}, {merged}"
            else:
                word, bits = {"neg": ("vxor", self.sign), "abs": ("vand", self.magnitude), "not": ("vxor", self.ones)}[op]
                text = f"{word}{packed} {bits}, {names[ra]}, "
        return text, end


def straight_part(
    block: Block, run: range, slots: Mapping[int, int], leave: Mapping[int, list[int]]
) -> tuple[Block, dict[int, int], dict[int, list[int]]]:
    """(a run of nodes as a block of its own, slots of its params, slots of its results, by node of that block).

    In a slot, a comparison is 1 or 0. `leave`: more slots of results, by node of the whole block.
    """
    nodes = block.nodes
    graph: list[Node] = []
    place: dict[int, int] = {}
    homes: dict[int, int] = {}

    def add(op: str, args: tuple[int, ...] = (), data: Any = None) -> int:
        graph.append(Node(op, args, data))
        return len(graph) - 1

    zero, one = add("const", (), 0.0), add("const", (), 1.0)

    def operand(a: int) -> int:
        if a not in place:
            op, _, data = nodes[a]
            if op == "const":
                place[a] = add("const", (), data)
            else:
                place[a] = add("param", (), len(homes))
                homes[place[a]] = slots[a]
                if op in OPS and OPS[op].gives == BOOL:
                    place[a] = add("lt", (zero, place[a]))
        return place[a]

    places: dict[int, list[int]] = {}
    for i in run:
        op, args, data = nodes[i]
        if op not in SUPPORTED:
            continue  # a param, a constant, or what a loop gave: found where it is used
        place[i] = add(op, tuple([operand(a) for a in args]), data)
        goes = [*([slots[i]] if i in slots else []), *leave.get(i, ())]
        if goes:
            kept = add("select", (place[i], one, zero)) if OPS[op].gives == BOOL else place[i]
            places.setdefault(kept, []).extend(goes)
    return Block(tuple(graph), len(homes), tuple(places)), homes, places


def _operands(block: Block) -> tuple[list[tuple[int, ...]], list[bool]]:
    """(arguments of every node, whether it is a `neg` that all its users, each an fma, take into their own signs)."""
    nodes = block.nodes
    negated = [node.op == "neg" for node in nodes]
    for r in block.results:
        negated[r] = False
    for node in nodes:
        if node.op != "fma":
            for a in node.args:
                negated[a] = False
    operands: list[tuple[int, ...]] = []
    for i, (op, args, _) in enumerate(nodes):
        if op == "fma":
            args = tuple([nodes[a].args[0] if negated[a] else a for a in args])
        operands.append(() if negated[i] else args)
    return operands, negated


def _following(operands: list[tuple[int, ...]]) -> tuple[list[tuple[int, ...]], list[int]]:
    """(for every node and argument the next node that uses the argument, for every node the first one that uses it)."""
    following: list[tuple[int, ...]] = [()] * len(operands)
    coming = [NEVER] * len(operands)
    for i in reversed(range(len(operands))):
        args = operands[i]
        if args:
            following[i] = tuple([coming[a] for a in args])
            for a in args:
                coming[a] = i
    return following, coming
