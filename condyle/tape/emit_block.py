"""Blocks as LLVM text: straight code, spilled values, and loops in registers, in memory or across lanes.

In a kernel of one lane, a loop whose iterations do not depend on each other is written with vectors whose lanes are iterations:
what a batch is for many states, the rows of a table are for one. The operations are the same, so are the bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import MappingProxyType

from condyle.tape.affine import affine_offset, body_counters, counter_range
from condyle.tape.assemble import Assembler, Registers, straight_part
from condyle.tape.emit_limbs import LimbEmitter
from condyle.tape.emit_table import Counter, Memory, RowIndex, Values
from condyle.tape.ir_writer import OpenLoop, VectorType
from condyle.tape.layout import Cut, Scratch, WideScratch, assembled_runs, cut, start_is_last_use, weight
from condyle.tape.ops import BOOL, INT, LIMBS, OPS, TABLES
from condyle.tape.tape import RUN_TIME, Block, Loop, last_uses, subroutines
from condyle.tape.target import Target

COPIED_SLOTS = 32  # numbers that one function copies


@dataclass(frozen=True)
class Link:
    """A subroutine as a function `void name(ptr area)` of another object.

    The area has a vector of the caller's lanes for each argument, then for each result, and then the function's own memory.
    """

    name: str
    vectors: int  # of the area


class BlockEmitter(LimbEmitter):
    """Writes blocks; `scratch` grows with what they need."""

    def __init__(self, vector: VectorType, target: Target) -> None:
        super().__init__(vector, target)
        self.spill_areas: dict[int, tuple[int, int]] = {}  # of the assembled runs, by lanes: where it begins, and its size
        self.widths: set[int] = set()  # lanes of vectors whose lanes are iterations
        self.streams: dict[int, list[tuple[int, int, int]]] = {}  # loop of the kernel -> (output, first column, last) it writes
        self.links: Mapping[str, Link] = {}  # of the subroutines that are called, by the hashes of their tapes
        self.areas: dict[str, int] = {}  # where the area of each of them is

    # ---- straight code

    def block(self, block: Block, params: Values, plan: Cut, done: int | None = None, close: OpenLoop | None = None) -> Values:
        """The vectors of a block's nodes. A long block becomes one function per run, and its values are in their slots.

        `done`: the node that, once it is known, may end the loop whose body this is.
        """
        if len(plan.runs) == 1 and not plan.assembled:
            return self.run(block, plan.runs[0], params, plan, done, close)
        for run in plan.runs:
            if run.start in plan.assembled:
                self.assembled_run(block, run, plan)
            else:
                with self.piece():
                    self.run(block, run, {}, plan)
            if close is not None and done is not None and done in run:
                close.leave(self.operand(block, done, {}, plan))
        return {}

    def operand(self, block: Block, i: int, values: Values, plan: Cut) -> str:
        """The vector of a node: a constant, computed here, or loaded from its slot."""
        if i not in values:
            op, _, data = block.nodes[i]
            if op == "const":
                return self.type.splat(data)
            values[i] = self.load(self.place(plan.slots[i]))
            kind = OPS[op].gives if op in OPS else None
            if kind == INT:
                bits = self.put(f"bitcast {self.type.vector} {values[i]} to {self.type.words}")
                values[i] = self.put(f"and {self.type.words} {bits}, {self.type.word_mask}")
            elif kind == BOOL:
                values[i] = self.put(f"fcmp une {self.type.vector} {values[i]}, zeroinitializer")
        return values[i]

    def run(
        self, block: Block, run: range, params: Values, plan: Cut, done: int | None = None, close: OpenLoop | None = None
    ) -> Values:
        """Write a run of nodes into the current function."""
        values: Values = {}
        for i in run:
            op, args, data = block.nodes[i]
            if op in OPS:
                values[i] = self.operation(op, *[self.operand(block, a, values, plan) for a in args])
            elif op in LIMBS:
                values[i] = self.limb_operation(block.nodes[i], [self.operand(block, a, values, plan) for a in args])
            elif op == "param" and data in params:
                values[i] = params[data]
            elif op in TABLES and op not in ("slice", "after") and i not in self.tables:
                self.tables[i] = self.table(block, i, values, plan)
            elif op == "index":
                values[i] = self.read(block, i, values, plan)
            elif op == "loop":
                self.loop(block, i, values, plan)
            elif op == "call":
                self.call(block, i, values, plan)
            if i in plan.slots and i in values and op not in ("param", "get"):
                self.spill(block.nodes[i].op, values[i], plan.slots[i])
            if close is not None and i == done:
                close.leave(values[i])
        return values

    def read(self, block: Block, i: int, values: Values, plan: Cut) -> str:
        """The vector of an `index` node."""
        _, args, (row, column) = block.nodes[i]
        memory = self.tables[args[0]]
        at = RowIndex(row) if len(args) == 1 else self.row_of(block, row, args[1], memory.rows, values, plan)
        return self.entry(memory, at, column)

    def spill(self, op: str, value: str, slot: int) -> None:
        """Keep a value in its slot; a comparison as 1 or 0, a word as its bits."""
        v = self.type.vector
        kind = OPS[op].gives if op in OPS else None
        if kind == INT:
            value = self.put(f"bitcast {self.type.words} {value} to {v}")
        elif kind == BOOL:
            value = self.put(f"select <{self.type.lanes} x i1> {value}, {v} {self.type.splat(1.0)}, {v} zeroinitializer")
        self.store(value, self.place(slot))

    # ---- calls of linked code

    def call(self, block: Block, i: int, values: Values, plan: Cut) -> None:
        """Call a subroutine of another object: arguments into its area, results from there."""
        _, args, data = block.nodes[i]
        link = self.links[data.tape.hash]
        if link.name not in self.areas:
            self.areas[link.name] = self.scratch.area(link.vectors)
            # by the global offset table: it may be loaded anywhere in memory
            self.globals.append(f"declare void @{link.name}(ptr) nonlazybind")
        area = self.areas[link.name]
        for k, a in enumerate(args):
            self.store(self.operand(block, a, values, plan), self.place(area + k))
        self.do(f"call void @{link.name}(ptr {self.place(area)})")
        for k, node in enumerate(block.nodes):
            if node.op == "get" and node.args[0] == i:
                values[k] = self.load(self.place(area + len(args) + node.data))
                if k in plan.slots:
                    self.store(values[k], self.place(plan.slots[k]))

    # ---- long straight parts of the bodies of loops, in assembly

    @property
    def can_assemble(self) -> bool:
        """Whether there is assembly for the processor and the vectors that are computed with now."""
        target, registers = self.target, Registers.of(self.type, self.target.assembled)
        # there, constants are the same in all lanes
        limbs = target.limbs and registers is not None and registers.masks
        return bool(target.assembled) and not target.columns and registers is not None and not limbs

    def runs_to_assemble(self, loop: Loop) -> list[range]:
        """The runs of a loop's body that are written in assembly: none if it is short, or if there is no assembly for it."""
        target = self.target
        if not self.can_assemble or weight(loop.body) <= target.straight_in_loops:
            return []
        return assembled_runs(loop.body, target.assembled_run, loop.done)

    def assembled_run(self, block: Block, run: range, plan: Cut, leave: Mapping[int, list[int]] = MappingProxyType({})) -> None:
        """A run of nodes as an assembled function: operands come from their slots, and what is used later goes to its slot.

        `leave`: more slots of results, by node.
        """
        registers = Registers.of(self.type, self.target.assembled)
        assert registers is not None
        part, homes, places = straight_part(block, run, plan.slots, leave)
        self.names += 1
        name = f"straight{self.names}"
        # spilled values of all runs share one area, for none of them outlives its run
        unit = self.unit
        while True:
            base, size = self.spill_areas.get(self.type.lanes, (0, 0))
            found = Assembler(
                self.type,
                registers,
                {i: (slot - base) // unit for i, slot in homes.items()},
                {i: [(slot - base) // unit for slot in slots] for i, slots in places.items()},
            )
            text = found.function(name, part)
            if found.spills <= size:
                break
            self.spill_areas[self.type.lanes] = self.slot_memory.area(2 * found.spills), 2 * found.spills
        escaped = text.replace("\\", "\\5C").replace('"', "\\22").replace("\n", "\\0A")
        self.globals += [f'module asm "{escaped}"', f"declare void @{name}(ptr)"]
        self.do(f"call void @{name}(ptr {self.place(base)})")

    # ---- loops

    def loop(self, block: Block, i: int, values: Values, plan: Cut) -> None:
        """Write a loop; its `get` nodes become vectors, its `slice` and `after` nodes tables."""
        nodes, loop = block.nodes, block.nodes[i].data
        start, tables, captured = loop.split(nodes[i].args)
        carried_tables = {j: self.carried_table(block, i, a) for j, a in enumerate(start) if nodes[a].op in TABLES}
        numbers = {j: a for j, a in enumerate(start) if j not in carried_tables}
        first = 1 + loop.carries + loop.reads
        outside = {first + k: a for k, a in enumerate(captured) if nodes[a].op not in TABLES}
        rows = [self.tables[t] for t in tables]
        stream = Stream(self, rows, self.streams.get(i, [])) if loop.count == RUN_TIME else None
        slices = [k for k, node in enumerate(nodes) if node.op == "slice" and node.args[0] == i]
        by_columns = all(self.lies_by_columns(block, k) for k in slices)
        written = self.new_table(loop.count, loop.writes, by_columns=by_columns)
        around = self.tables, self.inputs, self.counters
        own = Counter("", -1, counter_range(loop))
        self.counters = body_counters(loop, captured, self.counters, own, lambda a: self.derived_counter(block, a, values, plan))
        self.inputs = {1 + j: memory for j, memory in carried_tables.items()}
        self.inputs |= {
            first + k: replace(self.tables[a], mutable=False) for k, a in enumerate(captured) if nodes[a].op in TABLES
        }
        self.tables = {}
        parts = LoopParts(loop, Cut([range(len(loop.body.nodes))]), {}, {}, rows, written, carried_tables, stream)
        uncut = self.target.uncut * self.target.uncut_in_loops
        width = self.lanes_across(parts) if not numbers else 1
        homes, stay = self.homes(block, i, numbers, outside, plan)
        inner = parts.plan
        if width == 1:
            straight = self.runs_to_assemble(loop)
            inner = cut(loop.body, self.slot_memory, uncut, self.target.piece, None, straight, homes, loop)
        in_memory = len(inner.runs) > 1 or bool(inner.slots)
        if in_memory:
            numbers = {j: a for j, a in numbers.items() if j not in stay}
            outside = {p: a for p, a in outside.items() if p not in homes}
        begin = {j: self.begin(block, a, values, plan, in_memory=in_memory) for j, a in numbers.items()}
        given = {p: self.operand(block, a, values, plan) for p, a in outside.items()}
        parts = replace(parts, plan=inner, begin=begin, outside=given)
        final: Mapping[int, str | int]
        if in_memory:
            final = self.loop_in_memory(parts, homes)
        else:
            final = self.loop_across(parts, width, uncut) if width > 1 else self.loop_in_registers(parts)
        self.tables, self.inputs, self.counters = around
        for k in slices:
            first, last = nodes[k].data
            self.tables[k] = replace(written, area=written.area + first * written.column_size * self.unit, columns=last - first)
        copies: list[tuple[int, int]] = []
        for k, node in enumerate(nodes):
            if node.op == "after" and node.args[0] == i:
                self.tables[k] = carried_tables[node.data[0]]
            elif node.op == "get" and node.args[0] == i:
                found = final[node.data]
                if isinstance(found, str):
                    values[k] = found
                    if k in plan.slots:
                        self.store(found, self.place(plan.slots[k]))
                elif k not in plan.slots:
                    # it stays where it was carried, and is loaded where it is used
                    plan.slots[k] = found
                elif plan.slots[k] != found:
                    copies.append((found, plan.slots[k]))
        self.copy_slots(copies)

    @property
    def unit(self) -> int:
        """Vectors of the kernel in one vector that is computed with now."""
        return self.type.lanes // self.kernel_type.lanes

    @property
    def slot_memory(self) -> Scratch | WideScratch:
        """Where slots for vectors that are computed with now are."""
        return self.scratch if self.unit == 1 else WideScratch(self.scratch, self.unit)

    def carried_table(self, block: Block, i: int, table: int) -> Memory:
        """The memory of a table that loop i carries: that of its start value, or a copy if that is used again."""
        memory = self.tables[table]
        if self.overwritable(block, i, table) and memory.lanes == self.type.lanes:
            return memory
        own = self.new_table(memory.rows, memory.columns, by_columns=self.lies_by_columns(block, table))
        self.copy(memory, own)
        return own

    def carry_tables(self, loop: Loop, carried_tables: dict[int, Memory]) -> None:
        """Bring the tables that an iteration gave into the memory of the carried ones."""
        moves = [(self.tables[loop.body.results[j]], memory) for j, memory in carried_tables.items()]
        moves = [(new, old) for new, old in moves if (new.owner, new.area) != (old.owner, old.area)]
        owners = {memory.owner for memory in carried_tables.values()}
        for k, (new, old) in enumerate(moves):
            if new.owner in owners:  # it lies where another one is about to be written
                apart = self.new_table(new.rows, new.columns)
                self.copy(new, apart)
                moves[k] = apart, old
        for new, old in moves:
            self.copy(new, old)

    def loop_in_registers(self, parts: LoopParts) -> dict[int, str]:
        """A short body: carried numbers are phis. Returns them as they are after the loop."""
        loop, plan, begin, stream = parts.loop, parts.plan, parts.begin, parts.stream
        count = self.run_time_rows() if stream else loop.count
        row, close = self.counted(count, reverse=loop.reverse, carry=list(map(str, begin.values())))
        params = {0: self.iteration(loop, RowIndex(row)), **parts.outside}
        params |= {1 + j: name for j, name in zip(begin, close.carry, strict=True)}
        entries = stream.read(row) if stream else self.read_rows(parts.rows, RowIndex(row))
        params |= dict(enumerate(entries, start=1 + loop.carries))
        values = self.block(loop.body, params, plan, loop.done, close)
        following = [self.operand(loop.body, loop.body.results[j], values, plan) for j in begin]
        self.write_row(loop, RowIndex(row), values, plan, stream or parts.written)
        self.carry_tables(loop, parts.carried_tables)
        return dict(zip(begin, close(following), strict=True))

    def homes(
        self, block: Block, i: int, numbers: dict[int, int], outside: dict[int, int], plan: Cut
    ) -> tuple[dict[int, int], set[int]]:
        """(param of the body of loop i -> the slot outside where it can stay, carried numbers that are there already).

        A captured number stays where it is; so does a start value that may be written over. Any other number is carried where
        its value after the loop is expected.
        """
        slots = plan.slots
        found = {p: slots[a] for p, a in outside.items() if a in slots}
        taken = {slots[a] for a in block.nodes[i].args if a in slots}
        after = {n.data: slots[k] for k, n in enumerate(block.nodes) if n.op == "get" and n.args[0] == i and k in slots}
        stay = {j for j, a in numbers.items() if a in slots and start_is_last_use(block, i, a)}
        found |= {1 + j: slots[numbers[j]] for j in stay}
        found |= {1 + j: slot for j, slot in after.items() if j in numbers and j not in stay and slot not in taken}
        return found, stay

    def begin(self, block: Block, a: int, values: Values, plan: Cut, *, in_memory: bool) -> str | int:
        """A start value: a vector, or for a loop in memory its slot if it is in one."""
        return plan.slots[a] if in_memory and a in plan.slots and a not in values else self.operand(block, a, values, plan)

    def copy_slots(self, pairs: list[tuple[int, int]]) -> None:
        """Copy numbers from slot to slot; many of them in functions of their own, for LLVM compares all with all."""
        for first in range(0, len(pairs), COPIED_SLOTS):
            with self.piece() if len(pairs) > COPIED_SLOTS else nullcontext():
                for source, target in pairs[first : first + COPIED_SLOTS]:
                    self.store(self.load(self.place(source)), self.place(target))

    def loop_in_memory(self, parts: LoopParts, homes: dict[int, int]) -> dict[int, int]:
        """A long body, itself in runs: carried numbers are in slots, which it returns. `homes`: slots of params."""
        loop, plan, stream = parts.loop, parts.plan, parts.stream
        slot_of = {n.data: plan.slots[i] for i, n in enumerate(loop.body.nodes) if n.op == "param"} | homes
        carried = [j for j in range(loop.carries) if j not in parts.carried_tables]
        carry = {j: slot_of[1 + j] if 1 + j in slot_of else self.slot_memory.area(1) for j in carried}
        self.copy_slots([(slot, carry[j]) for j, slot in parts.begin.items() if isinstance(slot, int)])
        for j, vector in parts.begin.items():
            if isinstance(vector, str):
                self.store(vector, self.place(carry[j]))
        for p, vector in parts.outside.items():
            if p in slot_of:
                self.store(vector, self.place(slot_of[p]))
        row, close = self.counted(self.run_time_rows() if stream else loop.count, reverse=loop.reverse)
        entries = stream.read(row) if stream else self.read_rows(parts.rows, RowIndex(row))
        fresh = {0: self.iteration(loop, RowIndex(row)), **dict(enumerate(entries, start=1 + loop.carries))}
        for p, vector in fresh.items():
            if p in slot_of:
                self.store(vector, self.place(slot_of[p]))
        self.block(loop.body, {}, plan, loop.done, close)
        self.write_row(loop, RowIndex(row), {}, plan, stream or parts.written)
        # a number that is carried to another place may be written over
        values: Values = {}
        moves = {j: loop.body.results[j] for j in carry if plan.slots.get(loop.body.results[j]) != carry[j]}
        for r in moves.values():
            if loop.body.nodes[r].op in ("param", "const"):
                values[r] = self.operand(loop.body, r, {}, plan)
        self.copy_slots([(plan.slots[r], carry[j]) for j, r in moves.items() if r not in values])
        for j, r in moves.items():
            if r in values:
                self.store(values[r], self.place(carry[j]))
        self.carry_tables(loop, parts.carried_tables)
        close()
        return carry

    # ---- loops across lanes

    def lanes_across(self, parts: LoopParts) -> int:
        """Iterations that a vector holds, if they do not depend on each other and are worth it; otherwise 1."""
        loop = parts.loop
        most = self.target.vector_bytes // self.type.bytes
        if self.kernel_type.lanes > 1 or self.type.lanes > 1 or most < 2 or loop.exits or loop.count < 2 or parts.stream:
            return 1
        if not _independent(loop, self.counters) or subroutines(loop.body):
            return 1
        width = min(most, 1 << (loop.count.bit_length() - 1))
        # an entry that does not lie beside that of the next iteration is moved lane by lane
        scattered = sum(m.columns for m in parts.rows if m.row_size != 1 or m.shared or m.port is not None)
        scattered += 0 if parts.written.row_size == 1 else loop.writes
        scattered += self._scattered_updates(parts)
        return width if weight(loop.body) * (width - 1) > 2 * width * scattered else 1

    def _scattered_updates(self, parts: LoopParts) -> int:
        """The updates of carried tables whose entries do not lie beside those of the next iteration."""
        body, ranges = parts.loop.body, {k: c.range for k, c in self.counters.items()}
        own = next((k for k, n in enumerate(body.nodes) if n.op == "param" and n.data == 0), None)
        adjacent = any(memory.row_size == 1 for memory in parts.carried_tables.values())
        count = 0
        for node in body.nodes:
            if node.op == "update" and len(node.args) == 3:
                known = affine_offset(body, node.args[2], ranges)
                count += known is None or known.terms.get(own or 0, 0) != 1 or not adjacent
        return count

    def loop_across(self, parts: LoopParts, width: int, uncut: int) -> dict[int, str]:
        """A loop whose iterations are the lanes of vectors; the last vector begins early enough to be full."""
        loop = parts.loop
        blocks = -(-loop.count // width)
        block, close = self.counted(blocks)
        first = block if width == 1 else self.put(f"mul i64 {block}, {width}")
        if loop.count % width:
            first = self.put(f"call i64 @llvm.smin.i64(i64 {first}, i64 {loop.count - width})")
        narrow = self.type, self.templates
        outside = {p: self.put(f"extractelement {self.type.vector} {vector}, i64 0") for p, vector in parts.outside.items()}
        self.type = VectorType(self.type.precision, width)
        self.templates = self.type.templates()
        self.widths.add(width)
        row = RowIndex(first, 1)
        params = {0: self.iteration(loop, row), **{p: self.broadcast(number) for p, number in outside.items()}}
        params |= dict(enumerate(self.read_rows(parts.rows, row), start=1 + loop.carries))
        plan = cut(loop.body, self.slot_memory, uncut, self.target.piece, assembled=self.runs_to_assemble(loop))
        if plan.slots:
            # a long body, in pieces: what it is given is in slots
            for i, node in enumerate(loop.body.nodes):
                if node.op == "param" and node.data in params:
                    self.store(params[node.data], self.place(plan.slots[i]))
            params = {}
        values = self.block(loop.body, params, plan)
        self.write_row(loop, row, values, plan, parts.written)
        self.type, self.templates = narrow
        close()
        return {}

    def iteration(self, loop: Loop, row: RowIndex) -> str:
        """The iteration number as a vector, if the body uses it; as an integer it becomes a counter."""
        found = [k for k, n in enumerate(loop.body.nodes) if n.op == "param" and n.data == 0]
        if not found:
            return "poison"
        counter = replace(self.counters[found[0]], name=str(row.integer), function=self.function, across=bool(row.step))
        self.counters[found[0]] = counter
        first = self.broadcast(self.put(f"sitofp i64 {row.integer} to {self.type.element}"))
        if not row.step:
            return first
        numbers = ", ".join(f"{self.type.element} {self.type.number(float(lane))}" for lane in range(self.type.lanes))
        return self.put(f"fadd {self.type.vector} {first}, <{numbers}>")

    def read_rows(self, tables: list[Memory], row: RowIndex) -> list[str]:
        """The entries of one row of every table that the loop reads."""
        return [self.entry(memory, row, c) for memory in tables for c in range(memory.columns)]

    def write_row(self, loop: Loop, row: RowIndex, values: Values, plan: Cut, target: Memory | Stream) -> None:
        """Write what the loop gives out in one iteration."""
        vectors = [self.operand(loop.body, r, values, plan) for r in loop.body.results[loop.carries : loop.carries + loop.writes]]
        if isinstance(target, Stream):
            target.write(str(row.integer), vectors)
            return
        for c, vector in enumerate(vectors):
            self.put_entry(target, row, c, vector)


@dataclass(frozen=True)
class LoopParts:
    """A loop being written: how its body is cut, start values and captured numbers by position, and its tables."""

    loop: Loop
    plan: Cut
    begin: dict[int, str | int]  # carried number -> its start value, or the slot where that is
    outside: dict[int, str]  # param -> captured number
    rows: list[Memory]
    written: Memory
    carried_tables: dict[int, Memory]
    stream: Stream | None


def _independent(loop: Loop, counters: dict[int, Counter]) -> bool:
    """Whether no iteration of a loop that carries only tables reads what another one writes.

    So it is if each carried table is updated, in one chain of updates, at rows that no other iteration updates, and never read.
    """
    nodes, last = loop.body.nodes, last_uses(loop.body)
    uses: dict[int, int] = {}
    for node in nodes:
        for a in node.args:
            uses[a] = uses.get(a, 0) + 1
    own = next((k for k, n in enumerate(nodes) if n.op == "param" and n.data == 0), None)
    ranges = {k: c.range for k, c in counters.items()}
    for j in range(loop.carries):
        at = loop.body.results[j]
        updates: list[int] = []
        while nodes[at].op == "reshape" or (nodes[at].op == "update" and len(nodes[at].args) == 3):
            updates += [at] if nodes[at].op == "update" else []
            at = nodes[at].args[0]
            if uses.get(at, 0) != 1 or last.get(at, 0) >= len(nodes):
                return False
        places = {(nodes[k].args[2], *nodes[k].data[2:]) for k in updates}  # offset and size of the table
        if nodes[at].op != "input" or nodes[at].data[0] != 1 + j or len(places) != 1 or own is None:
            return False
        offset, size, _ = places.pop()
        rows = [nodes[k].data[0] for k in updates]
        known = affine_offset(loop.body, offset, ranges)
        step = known.terms.get(own, 0) if known is not None else 0
        if known is None or max(rows) - min(rows) >= abs(step):
            return False
        if known.low + min(rows) < 0 or known.high + max(rows) >= size:
            return False
    return True


class Stream:
    """Rows of ports that a loop reads and writes as they lie in memory, one row in each iteration."""

    def __init__(self, emitter: BlockEmitter, inputs: list[Memory], outputs: list[tuple[int, int, int]]) -> None:
        self.emitter, self.inputs, self.outputs = emitter, inputs, outputs
        self.ports = emitter.ports()
        for port in {*[memory.port for memory in inputs], *[p for p, _, _ in outputs]}:
            assert port is not None
            self.ports.point(port)

    def read(self, row: str) -> list[str]:
        """The entries of one row of every input."""
        vectors: list[str] = []
        for memory in self.inputs:
            assert memory.port is not None
            shift = self.emitter.put(f"mul i64 {row}, {memory.columns}")
            found = self.ports.load(memory.port, memory.columns, set(range(memory.columns)), shift)
            vectors += [found[c] for c in range(memory.columns)]
        return vectors

    def write(self, row: str, vectors: list[str]) -> None:
        """Write one row of every output."""
        for port, first, last in self.outputs:
            self.ports.store(port, vectors[first:last], self.emitter.put(f"mul i64 {row}, {last - first}"))
