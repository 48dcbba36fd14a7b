"""Blocks as LLVM text: straight code, spilled values, tables, and loops in registers or in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from condyle.tape.affine import Range, affine_offset, body_counters, counter_range
from condyle.tape.ir_writer import IRWriter, OpenLoop, VectorType
from condyle.tape.layout import Cut, Scratch, cut
from condyle.tape.ops import BOOL, INT, OPS, TABLES
from condyle.tape.tape import RUN_TIME, Block, Loop, last_uses, table_size
from condyle.tape.target import Target
from condyle.tape.transpose import ColumnPorts, RowPorts

Values = dict[int, str]  # node -> vector
Ports = ColumnPorts | RowPorts
COPIED_TOGETHER = 16  # entries that one round of a copying loop moves


@dataclass(frozen=True)
class Memory:
    """Where a table lies: vectors of lanes in scratch memory, numbers shared by all lanes behind a pointer, or rows of a port.

    Tables of one owner overlap. One that is not mutable is never written to: an update makes a copy first.
    """

    rows: int
    columns: int
    row_size: int
    owner: int
    area: int = 0
    shared: str | None = None  # a global: numbers that all lanes share
    port: int | None = None  # likewise, an input; or, if the rows are known at run time, an input that is read as it lies
    mutable: bool = True


@dataclass(frozen=True)
class Counter:
    """The counter of a loop as an integer, valid in one function, and the range that it counts through."""

    name: str
    function: int
    range: Range


class BlockEmitter(IRWriter):
    """Writes blocks; `scratch` grows with what they need."""

    def __init__(self, vector: VectorType, target: Target) -> None:
        super().__init__(vector, target)
        self.templates = vector.templates()
        self.scratch = Scratch()
        self.owners = 0
        # of the current block: its tables, the tables that come in by position, and its counters, by node
        self.tables: dict[int, Memory] = {}
        self.inputs: dict[int, Memory] = {}
        self.counters: dict[int, Counter] = {}
        self.port_count = 0
        self.streams: dict[int, list[tuple[int, int, int]]] = {}  # loop of the kernel -> (output, first column, last) it writes

    # ---- memory

    def ports(self) -> Ports:
        """Inputs and outputs as the target lays them out, for use in the current function."""
        return ColumnPorts(self) if self.target.columns else RowPorts(self)

    def shared_pointer(self, memory: Memory) -> str | None:
        """Pointer to the numbers that all lanes share; None for vectors of lanes."""
        if memory.port is None:
            return memory.shared
        words, ports = (ColumnPorts if self.target.columns else RowPorts).WORDS, self.target.ports
        place = self.once(f"getelementptr i64, {ports} %ports, i64 {words * memory.port}")
        return self.once(f"load {self.target.data}, {ports} {place}")

    def run_time_rows(self) -> str:
        """The number of rows of the ports whose rows are known at run time: the word after those of the ports."""
        words, ports = (ColumnPorts if self.target.columns else RowPorts).WORDS, self.target.ports
        place = self.once(f"getelementptr i64, {ports} %ports, i64 {words * self.port_count}")
        return self.once(f"load i64, {ports} {place}")

    def place(self, offset: int | str) -> str:
        """Pointer to a vector of scratch memory."""
        return self.put(f"getelementptr {self.type.vector}, {self.target.scratch} %scratch, i64 {offset}")

    def load(self, pointer: str) -> str:
        """A vector of scratch memory."""
        return self.put(f"load {self.type.vector}, {self.target.scratch} {pointer}")

    def store(self, vector: str, pointer: str) -> None:
        """Write a vector to scratch memory."""
        self.do(f"store {self.type.vector} {vector}, {self.target.scratch} {pointer}")

    def broadcast(self, number: str) -> str:
        """A number in every lane."""
        v, lanes = self.type.vector, self.type.lanes
        first = self.put(f"insertelement {v} poison, {self.type.element} {number}, i64 0")
        return self.put(f"shufflevector {v} {first}, {v} poison, <{lanes} x i32> zeroinitializer") if lanes > 1 else first

    # ---- tables

    def new_table(self, rows: int, columns: int) -> Memory:
        """Scratch memory for a table."""
        self.owners += 1
        return Memory(rows, columns, columns, self.owners, self.scratch.area(rows * columns))

    def position(self, memory: Memory, row: int | str, column: int) -> int | str:
        """Where an entry lies, counted in entries."""
        if isinstance(row, int):
            return memory.area + row * memory.row_size + column
        scaled = row if memory.row_size == 1 else self.put(f"mul i64 {row}, {memory.row_size}")
        shift = memory.area + column
        return self.put(f"add i64 {scaled}, {shift}") if shift else scaled

    def entry(self, memory: Memory, row: int | str, column: int) -> str:
        """The vector of an entry of a row, which is a number or an integer of LLVM."""
        position = self.position(memory, row, column)
        if (shared := self.shared_pointer(memory)) is None:
            return self.load(self.place(position))
        element = self.type.element
        pointer = self.put(f"getelementptr {element}, {self.target.data} {shared}, i64 {position}")
        return self.broadcast(self.put(f"load {element}, {self.target.data} {pointer}, align {self.type.bytes}"))

    def lane_entries(self, memory: Memory, rows: str, column: int, vector: str | None = None) -> str:
        """The vector of entries whose row differs from lane to lane; with `vector`, they are written instead."""
        v, element, lanes = self.type.vector, self.type.element, self.type.lanes
        shared = self.shared_pointer(memory)
        base, space = (shared, self.target.data) if shared else ("%scratch", self.target.scratch)
        found = "poison"
        for lane in range(lanes):
            row = self.put(f"fptosi {element} {self.put(f'extractelement {v} {rows}, i64 {lane}')} to i64")
            position = self.position(memory, row, column)
            if not shared:
                position = self.put(f"add i64 {self.put(f'mul i64 {position}, {lanes}')}, {lane}")
            pointer = self.put(f"getelementptr {element}, {space} {base}, i64 {position}")
            if vector is None:
                one = self.put(f"load {element}, {space} {pointer}, align {self.type.bytes}")
                found = self.put(f"insertelement {v} {found}, {element} {one}, i64 {lane}")
            else:
                one = self.put(f"extractelement {v} {vector}, i64 {lane}")
                self.do(f"store {element} {one}, {space} {pointer}, align {self.type.bytes}")
        return found

    def row_of(self, block: Block, row: int, offset: int, rows: int, values: Values, plan: Cut) -> tuple[str, bool]:
        """(the row `row` + the node `offset`, whether it differs from lane to lane): an integer, or a vector of whole numbers."""
        known = affine_offset(block, offset, {k: c.range for k, c in self.counters.items()})
        if known is not None:
            total = f"{known.constant + row}"
            for node, factor in known.terms.items():
                counter = self.counter(block, node, values, plan)
                term = counter if factor == 1 else self.put(f"mul i64 {counter}, {factor}")
                total = term if total == "0" else self.put(f"add i64 {total}, {term}")
            if known.low + row < 0:
                total = self.put(f"call i64 @llvm.smax.i64(i64 {total}, i64 0)")
            if known.high + row > rows - 1:
                total = self.put(f"call i64 @llvm.smin.i64(i64 {total}, i64 {rows - 1})")
            return total, False
        vector = self.operand(block, offset, values, plan)
        self.names += 1
        whole = f"%t{self.names}"
        self.lines.append(self.templates["rint"].format(r=whole, a=vector))
        v, truths = self.type.vector, f"<{self.type.lanes} x i1>"
        number = self.put(f"fcmp ord {v} {whole}, {whole}")
        whole = self.put(f"select {truths} {number}, {v} {whole}, {v} zeroinitializer")
        shifted = self.put(f"fadd {v} {whole}, {self.type.splat(float(row))}") if row else whole
        for compare, bound in (("ogt", 0.0), ("olt", rows - 1.0)):
            inside = self.put(f"fcmp {compare} {v} {shifted}, {self.type.splat(bound)}")
            shifted = self.put(f"select {truths} {inside}, {v} {shifted}, {v} {self.type.splat(bound)}")
        return shifted, True

    def counter(self, block: Block, node: int, values: Values, plan: Cut) -> str:
        """A counter as an integer of the current function."""
        counter = self.counters[node]
        if counter.function != self.function:
            lane = self.put(f"extractelement {self.type.vector} {self.operand(block, node, values, plan)}, i64 0")
            name = self.put(f"fptosi {self.type.element} {lane} to i64")
            counter = self.counters[node] = replace(counter, name=name, function=self.function)
        return counter.name

    def copy(self, source: Memory, target: Memory) -> None:
        """Copy a table, row after row."""
        rows, columns = source.rows, source.columns
        if source.columns == source.row_size and target.columns == target.row_size:
            size = rows * columns
            columns = max(k for k in range(1, COPIED_TOGETHER + 1) if size % k == 0) if size > COPIED_TOGETHER else size
            rows = size // columns
            source, target = (replace(m, columns=columns, row_size=columns) for m in (source, target))
        row, close = self.counted(rows)
        for c in range(columns):
            self.store(self.entry(source, row, c), self.place(self.position(target, row, c)))
        close()

    def fill(self, value: float, target: Memory) -> None:
        """Write a number into every entry."""
        row, close = self.counted(target.rows * target.columns)
        self.store(self.type.splat(value), self.place(self.position(replace(target, columns=1, row_size=1), row, 0)))
        close()

    def overwritable(self, block: Block, i: int, table: int) -> bool:
        """Whether node i may write into the memory of a table: nothing after it reads what is there now."""
        memory, last = self.tables[table], last_uses(block)
        overlapping = [t for t, m in self.tables.items() if m.owner == memory.owner]
        uses = [a for a in block.nodes[i].args if a in overlapping]
        return memory.mutable and len(uses) == 1 and all(last.get(t, -1) <= i for t in overlapping)

    def table(self, block: Block, i: int, values: Values, plan: Cut) -> Memory:
        """The memory of the table that a node gives, written now if there is something to write."""
        op, args, data = block.nodes[i]
        if op == "input":
            return self.inputs[data[0]]
        if op == "table":
            return self.entries(block, i, values, plan)
        if op == "fill":
            memory = self.new_table(*table_size(block.nodes, i))
            self.fill(data[0], memory)
            return memory
        memory = self.tables[args[0]]
        if op == "reshape":
            if memory.row_size != memory.columns:
                contiguous = self.new_table(memory.rows, memory.columns)
                self.copy(memory, contiguous)
                memory = contiguous
            return replace(memory, rows=data[0], columns=data[1], row_size=data[1])
        # an update
        if not self.overwritable(block, i, args[0]):
            old, memory = memory, self.new_table(memory.rows, memory.columns)
            self.copy(old, memory)
        row, column, rows, _ = data
        vector = self.operand(block, args[1], values, plan)
        if len(args) == 2:
            self.store(vector, self.place(self.position(memory, row, column)))
            return memory
        at, by_lane = self.row_of(block, row, args[2], rows, values, plan)
        if by_lane:
            self.lane_entries(memory, at, column, vector)
        else:
            self.store(vector, self.place(self.position(memory, at, column)))
        return memory

    def entries(self, block: Block, i: int, values: Values, plan: Cut) -> Memory:
        """A table of values; one of numbers alone is part of the program and shared by all lanes."""
        _, args, (rows, columns) = block.nodes[i]
        if all(block.nodes[a].op == "const" for a in args):
            numbers = [self.type.number(block.nodes[a].data) for a in args]
            self.owners += 1
            name, kind = f"@table{self.owners}", f"[{len(args)} x {self.type.element}]"
            listed = ", ".join(f"{self.type.element} {x}" for x in numbers)
            self.globals.append(f"{name} = internal unnamed_addr constant {kind} [{listed}], align 64")
            return Memory(rows, columns, columns, self.owners, shared=name, mutable=False)
        memory = self.new_table(rows, columns)
        for k, a in enumerate(args):
            self.store(self.operand(block, a, values, plan), self.place(memory.area + k))
        return memory

    # ---- straight code

    def block(self, block: Block, params: Values, plan: Cut, done: int | None = None, close: OpenLoop | None = None) -> Values:
        """The vectors of a block's nodes. A long block becomes one function per run, and its values are in their slots.

        `done`: the node that, once it is known, may end the loop whose body this is.
        """
        if len(plan.runs) == 1:
            return self.run(block, plan.runs[0], params, plan, done, close)
        for run in plan.runs:
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
                operands = [self.operand(block, a, values, plan) for a in args]
                self.names += 1
                values[i] = f"%t{self.names}"
                self.lines.append(self.templates[op].format(r=values[i], **dict(zip("abc", operands, strict=False))))
            elif op == "param" and data in params:
                values[i] = params[data]
            elif op in TABLES and op not in ("slice", "after") and i not in self.tables:
                self.tables[i] = self.table(block, i, values, plan)
            elif op == "index":
                values[i] = self.read(block, i, values, plan)
            elif op == "loop":
                self.loop(block, i, values, plan)
            if i in plan.slots and i in values and op not in ("param", "get"):
                self.spill(block.nodes[i].op, values[i], plan.slots[i])
            if close is not None and i == done:
                close.leave(values[i])
        return values

    def read(self, block: Block, i: int, values: Values, plan: Cut) -> str:
        """The vector of an `index` node."""
        _, args, (row, column) = block.nodes[i]
        memory = self.tables[args[0]]
        if len(args) == 1:
            return self.entry(memory, row, column)
        at, by_lane = self.row_of(block, row, args[1], memory.rows, values, plan)
        return self.lane_entries(memory, at, column) if by_lane else self.entry(memory, at, column)

    def spill(self, op: str, value: str, slot: int) -> None:
        """Keep a value in its slot; a comparison as 1 or 0, a word as its bits."""
        v = self.type.vector
        kind = OPS[op].gives if op in OPS else None
        if kind == INT:
            value = self.put(f"bitcast {self.type.words} {value} to {v}")
        elif kind == BOOL:
            value = self.put(f"select <{self.type.lanes} x i1> {value}, {v} {self.type.splat(1.0)}, {v} zeroinitializer")
        self.store(value, self.place(slot))

    # ---- loops

    def loop(self, block: Block, i: int, values: Values, plan: Cut) -> None:
        """Write a loop; its `get` nodes become vectors, its `slice` and `after` nodes tables."""
        nodes, loop = block.nodes, block.nodes[i].data
        start, tables, captured = loop.split(nodes[i].args)
        carried_tables = {j: self.carried_table(block, i, a) for j, a in enumerate(start) if nodes[a].op in TABLES}
        begin = {j: self.operand(block, a, values, plan) for j, a in enumerate(start) if j not in carried_tables}
        first = 1 + loop.carries + loop.reads
        outside = {first + k: self.operand(block, a, values, plan) for k, a in enumerate(captured) if nodes[a].op not in TABLES}
        rows = [self.tables[t] for t in tables]
        stream = Stream(self, rows, self.streams.get(i, [])) if loop.count == RUN_TIME else None
        written = self.new_table(loop.count, loop.writes)
        around = self.tables, self.inputs, self.counters
        self.counters = body_counters(loop, captured, self.counters, Counter("", -1, counter_range(loop)))
        self.inputs = {1 + j: memory for j, memory in carried_tables.items()}
        self.inputs |= {
            first + k: replace(self.tables[a], mutable=False) for k, a in enumerate(captured) if nodes[a].op in TABLES
        }
        self.tables = {}
        inner = cut(loop.body, self.scratch, self.target.uncut * self.target.uncut_in_loops, self.target.piece)
        write = self.loop_in_registers if len(inner.runs) == 1 else self.loop_in_memory
        final = write(loop, inner, begin, outside, rows, written, carried_tables, stream)
        self.tables, self.inputs, self.counters = around
        for k, node in enumerate(nodes):
            if node.op not in ("get", "after", "slice") or node.args[0] != i:
                continue
            if node.op == "slice":
                first, last = node.data
                self.tables[k] = replace(written, area=written.area + first, columns=last - first)
            elif node.op == "after":
                self.tables[k] = carried_tables[node.data[0]]
            else:
                values[k] = final[node.data]
                if k in plan.slots:
                    self.store(values[k], self.place(plan.slots[k]))

    def carried_table(self, block: Block, i: int, table: int) -> Memory:
        """The memory of a table that loop i carries: that of its start value, or a copy if that is used again."""
        memory = self.tables[table]
        if self.overwritable(block, i, table) and memory.row_size == memory.columns:
            return memory
        own = self.new_table(memory.rows, memory.columns)
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

    def loop_in_registers(
        self,
        loop: Loop,
        plan: Cut,
        begin: dict[int, str],
        outside: dict[int, str],
        rows: list[Memory],
        written: Memory,
        carried_tables: dict[int, Memory],
        stream: Stream | None,
    ) -> dict[int, str]:
        """A short body: carried numbers are phis. Returns them as they are after the loop."""
        count = self.run_time_rows() if stream else loop.count
        row, close = self.counted(count, reverse=loop.reverse, carry=list(begin.values()))
        params = {0: self.iteration(loop, row), **outside}
        params |= {1 + j: name for j, name in zip(begin, close.carry, strict=True)}
        params |= dict(enumerate(stream.read(row) if stream else self.read_rows(rows, row), start=1 + loop.carries))
        values = self.block(loop.body, params, plan, loop.done, close)
        following = [self.operand(loop.body, loop.body.results[j], values, plan) for j in begin]
        self.write_row(loop, row, values, plan, stream or written)
        self.carry_tables(loop, carried_tables)
        return dict(zip(begin, close(following), strict=True))

    def loop_in_memory(
        self,
        loop: Loop,
        plan: Cut,
        begin: dict[int, str],
        outside: dict[int, str],
        rows: list[Memory],
        written: Memory,
        carried_tables: dict[int, Memory],
        stream: Stream | None,
    ) -> dict[int, str]:
        """A long body, itself in runs: carried numbers are in slots. Returns them as they are after the loop."""
        slot_of = {n.data: plan.slots[i] for i, n in enumerate(loop.body.nodes) if n.op == "param"}
        carry = {j: slot_of[1 + j] if 1 + j in slot_of else self.scratch.area(1) for j in begin}
        for j, vector in begin.items():
            self.store(vector, self.place(carry[j]))
        for p, vector in outside.items():
            if p in slot_of:
                self.store(vector, self.place(slot_of[p]))
        row, close = self.counted(self.run_time_rows() if stream else loop.count, reverse=loop.reverse)
        entries = stream.read(row) if stream else self.read_rows(rows, row)
        fresh = {0: self.iteration(loop, row), **dict(enumerate(entries, start=1 + loop.carries))}
        for p, vector in fresh.items():
            if p in slot_of:
                self.store(vector, self.place(slot_of[p]))
        self.block(loop.body, {}, plan, loop.done, close)
        values: Values = {}
        following = {j: self.operand(loop.body, loop.body.results[j], values, plan) for j in begin}
        self.write_row(loop, row, values, plan, stream or written)
        for j, vector in following.items():
            self.store(vector, self.place(carry[j]))
        self.carry_tables(loop, carried_tables)
        close()
        return {j: self.load(self.place(slot)) for j, slot in carry.items()}

    def iteration(self, loop: Loop, row: str) -> str:
        """The iteration number as a vector, if the body uses it; as an integer it becomes a counter."""
        found = [k for k, n in enumerate(loop.body.nodes) if n.op == "param" and n.data == 0]
        if not found:
            return "poison"
        self.counters[found[0]] = replace(self.counters[found[0]], name=row, function=self.function)
        return self.broadcast(self.put(f"sitofp i64 {row} to {self.type.element}"))

    def read_rows(self, tables: list[Memory], row: str) -> list[str]:
        """The entries of one row of every table that the loop reads."""
        return [self.entry(memory, row, c) for memory in tables for c in range(memory.columns)]

    def write_row(self, loop: Loop, row: str, values: Values, plan: Cut, target: Memory | Stream) -> None:
        """Write what the loop gives out in one iteration."""
        vectors = [self.operand(loop.body, r, values, plan) for r in loop.body.results[loop.carries : loop.carries + loop.writes]]
        if isinstance(target, Stream):
            target.write(row, vectors)
            return
        for c, vector in enumerate(vectors):
            self.store(vector, self.place(self.position(target, row, c)))


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
