"""Tables as LLVM text: where they lie, and how their entries are read and written, by one row for all lanes or a row for each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from condyle.tape.affine import Affine, Range, affine_offset
from condyle.tape.ir_writer import IRWriter, VectorType
from condyle.tape.layout import Cut, Scratch
from condyle.tape.tape import Block, last_uses, table_size
from condyle.tape.target import Target
from condyle.tape.transpose import ColumnPorts, LimbPorts, RowPorts, VectorPorts

Values = dict[int, str]  # node -> vector
Ports = ColumnPorts | RowPorts | LimbPorts | VectorPorts
COPIED_TOGETHER = 16  # entries that one round of a copying loop moves


@dataclass(frozen=True)
class Memory:
    """Where a table lies: vectors in scratch memory, numbers shared by all lanes behind a pointer, or rows of a port.

    Tables of one owner overlap. One that is not mutable is never written to: an update makes a copy first.
    """

    rows: int
    columns: int
    row_size: int  # entries from row to row
    owner: int
    area: int = 0
    column_size: int = 1  # entries from column to column
    lanes: int = 0  # numbers of one entry in scratch memory
    shared: str | None = None  # a global: numbers that all lanes share
    port: int | None = None  # likewise, an input; or, if the rows are known at run time, an input that is read as it lies
    mutable: bool = True

    @property
    def contiguous(self) -> bool:
        """Whether the entries lie side by side, row after row."""
        return self.column_size == 1 and self.row_size == self.columns

    @property
    def by_columns(self) -> bool:
        """Whether they lie column after column."""
        return self.row_size == 1 and self.column_size == self.rows


@dataclass(frozen=True)
class Counter:
    """The counter of a loop as an integer, valid in one function, and the range that it counts through.

    `across`: the lanes of a vector are iterations of this loop, one after the other, and the integer is the first one's.
    """

    name: str
    function: int
    range: Range
    across: bool = False


@dataclass(frozen=True)
class RowIndex:
    """A row of a table: an integer for all lanes, to which each lane adds `step` for the lane before; or a vector of rows."""

    integer: int | str = 0
    step: int = 0
    vector: str | None = None


class TableEmitter(IRWriter):
    """Writes what tables need; `scratch` grows with them.

    In a kernel of one lane, `type` can become wider for a while: its lanes are then iterations of a loop (see emit_block.py).
    """

    def __init__(self, vector: VectorType, target: Target) -> None:
        super().__init__(vector, target)
        self.kernel_type = vector
        self.templates = vector.templates()
        self.scratch = Scratch()
        self.owners = 0
        # of the current block: its tables, the tables that come in by position, and its counters, by node
        self.tables: dict[int, Memory] = {}
        self.inputs: dict[int, Memory] = {}
        self.counters: dict[int, Counter] = {}
        self.port_count = 0
        self.scalars: dict[str, str] = {}  # vector of a number that was loaded by itself -> that number

    # ---- memory

    def ports(self) -> Ports:
        """Inputs and outputs as the target lays them out, for use in the current function."""
        return self.port_layout(self)

    @property
    def port_layout(self) -> type[ColumnPorts] | type[RowPorts] | type[LimbPorts] | type[VectorPorts]:
        """How inputs and outputs lie in memory."""
        if self.target.limbs:
            return LimbPorts
        return ColumnPorts if self.target.columns else VectorPorts if self.target.vectors else RowPorts

    def shared_pointer(self, memory: Memory) -> str | None:
        """Pointer to the numbers that all lanes share; None for vectors of lanes."""
        if memory.port is None:
            return memory.shared
        words, ports = self.port_layout.WORDS, self.target.ports
        place = self.once(f"getelementptr i64, {ports} %ports, i64 {words * memory.port}")
        return self.once(f"load {self.target.data}, {ports} {place}")

    def run_time_rows(self) -> str:
        """The number of rows of the ports whose rows are known at run time: the word after those of the ports."""
        words, ports = self.port_layout.WORDS, self.target.ports
        place = self.once(f"getelementptr i64, {ports} %ports, i64 {words * self.port_count}")
        return self.once(f"load i64, {ports} {place}")

    def place(self, offset: int | str) -> str:
        """Pointer to a place of scratch memory, counted in vectors of the kernel."""
        return self.put(f"getelementptr {self.kernel_type.vector}, {self.target.scratch} %scratch, i64 {offset}")

    def load(self, pointer: str) -> str:
        """A vector of scratch memory."""
        return self.put(f"load {self.type.vector}, {self.target.scratch} {pointer}{self.alignment}")

    def store(self, vector: str, pointer: str) -> None:
        """Write a vector to scratch memory."""
        self.do(f"store {self.type.vector} {vector}, {self.target.scratch} {pointer}{self.alignment}")

    @property
    def alignment(self) -> str:
        """What to say of the place of a vector that may begin anywhere."""
        return "" if self.type is self.kernel_type else f", align {self.type.bytes}"

    def broadcast(self, number: str) -> str:
        """A number in every lane."""
        v, lanes = self.type.vector, self.type.lanes
        first = self.put(f"insertelement {v} poison, {self.type.element} {number}, i64 0")
        return self.put(f"shufflevector {v} {first}, {v} poison, <{lanes} x i32> zeroinitializer") if lanes > 1 else first

    def operation(self, op: str, *operands: str) -> str:
        """Write an arithmetic operation."""
        self.names += 1
        result = f"%t{self.names}"
        self.lines.append(self.templates[op].format(r=result, **dict(zip("abc", operands, strict=False))))
        return result

    # ---- entries

    def new_table(self, rows: int, columns: int, *, by_columns: bool = False) -> Memory:
        """Scratch memory for a table."""
        self.owners += 1
        area = self.scratch.area(rows * columns * self.type.lanes // self.kernel_type.lanes)
        row_size, column_size = (1, rows) if by_columns else (columns, 1)
        return Memory(rows, columns, row_size, self.owners, area, column_size, self.type.lanes)

    def position(self, memory: Memory, row: int | str, column: int) -> int | str:
        """Where an entry lies: in vectors of the kernel from the start of scratch memory, or in numbers that are shared."""
        unit = max(memory.lanes // self.kernel_type.lanes, 1)
        shift = memory.area + column * memory.column_size * unit
        if isinstance(row, int):
            return row * memory.row_size * unit + shift
        factor = memory.row_size * unit
        scaled = row if factor == 1 else self.put(f"mul i64 {row}, {factor}")
        return self.put(f"add i64 {scaled}, {shift}") if shift else scaled

    def entry(self, memory: Memory, row: RowIndex, column: int) -> str:
        """The vector of an entry."""
        if row.vector is not None:
            return self._lane_by_lane(memory, self._rows_by_lane(row.vector), column)
        shared = self.shared_pointer(memory)
        position = self.position(memory, row.integer, column)
        if shared is None and memory.lanes == self.type.lanes:
            if row.step and self.type.lanes > 1:
                # a table of this iteration alone, which each lane has its own of
                return self._lane_by_lane(memory, self._stepped(row), column)
            return self.load(self.place(position))
        space, pointer = self._number(shared, position)
        step = row.step * memory.row_size
        if step == 0:
            return self.broadcast(self.put(f"load {self.type.element}, {space} {pointer}, align {self.type.bytes}"))
        if step == 1:
            return self.put(f"load {self.type.vector}, {space} {pointer}, align {self.type.bytes}")
        return self._lane_by_lane(memory, self._stepped(row), column)

    def put_entry(self, memory: Memory, row: RowIndex, column: int, vector: str) -> None:
        """Write the vector of an entry."""
        step = row.step * memory.row_size
        if row.vector is not None:
            self._lane_by_lane(memory, self._rows_by_lane(row.vector), column, vector)
        elif memory.lanes == self.type.lanes and row.step and self.type.lanes > 1:
            self._lane_by_lane(memory, self._stepped(row), column, vector)
        elif memory.lanes == self.type.lanes or step == 1:
            self.store(vector, self.place(self.position(memory, row.integer, column)))
        else:
            self._lane_by_lane(memory, self._stepped(row), column, vector)

    def _number(self, shared: str | None, position: int | str) -> tuple[str, str]:
        """(address space, pointer) of a number that is shared, or of one in scratch memory of a kernel of one lane."""
        base, space = (shared, self.target.data) if shared else ("%scratch", self.target.scratch)
        return space, self.put(f"getelementptr {self.type.element}, {space} {base}, i64 {position}")

    def _rows_by_lane(self, vector: str) -> list[int | str]:
        numbers = [self.put(f"extractelement {self.type.vector} {vector}, i64 {lane}") for lane in range(self.type.lanes)]
        return [self.put(f"fptosi {self.type.element} {x} to i64") for x in numbers]

    def _stepped(self, row: RowIndex) -> list[int | str]:
        return [self.put(f"add i64 {row.integer}, {row.step * lane}") for lane in range(self.type.lanes)]

    def _lane_by_lane(self, memory: Memory, rows: list[int | str], column: int, vector: str | None = None) -> str:
        """The vector of entries whose row differs from lane to lane; with `vector`, they are written instead."""
        v, element, lanes = self.type.vector, self.type.element, self.type.lanes
        shared = self.shared_pointer(memory)
        found = "poison"
        for lane, row in enumerate(rows):
            position = self.position(memory, row, column)
            if shared is None and memory.lanes == lanes:
                first = position if self.type is not self.kernel_type else self.put(f"mul i64 {position}, {lanes}")
                position = self.put(f"add i64 {first}, {lane}")
            space, pointer = self._number(shared, position)
            if vector is None:
                one = self.put(f"load {element}, {space} {pointer}, align {self.type.bytes}")
                found = self.put(f"insertelement {v} {found}, {element} {one}, i64 {lane}")
            else:
                one = self.put(f"extractelement {v} {vector}, i64 {lane}")
                self.do(f"store {element} {one}, {space} {pointer}, align {self.type.bytes}")
        return found

    # ---- rows

    def row_of(self, block: Block, row: int, offset: int, rows: int, values: Values, plan: Cut) -> RowIndex:
        """The row `row` + the node `offset`, within the rows that there are."""
        known = affine_offset(block, offset, {k: c.range for k, c in self.counters.items()})
        if known is not None:
            step = sum(factor for node, factor in known.terms.items() if self.counters[node].across)
            inside = known.low + row >= 0 and known.high + row <= rows - 1
            if inside or not step:
                total = self.integer(block, known, row, values, plan)
                if known.low + row < 0:
                    total = self.put(f"call i64 @llvm.smax.i64(i64 {total}, i64 0)")
                if known.high + row > rows - 1:
                    total = self.put(f"call i64 @llvm.smin.i64(i64 {total}, i64 {rows - 1})")
                return RowIndex(total, step)
        vector = self.operand(block, offset, values, plan)
        nearest = self.operation("rint", vector)
        v, truths = self.type.vector, f"<{self.type.lanes} x i1>"
        number = self.put(f"fcmp ord {v} {nearest}, {nearest}")
        nearest = self.put(f"select {truths} {number}, {v} {nearest}, {v} zeroinitializer")
        shifted = self.put(f"fadd {v} {nearest}, {self.type.splat(float(row))}") if row else nearest
        for compare, bound in (("ogt", 0.0), ("olt", rows - 1.0)):
            within = self.put(f"fcmp {compare} {v} {shifted}, {self.type.splat(bound)}")
            shifted = self.put(f"select {truths} {within}, {v} {shifted}, {v} {self.type.splat(bound)}")
        return RowIndex(vector=shifted)

    def integer(self, block: Block, known: Affine, more: int, values: Values, plan: Cut) -> str:
        """A sum of multiples of counters, and `more`, as an integer of the current function."""
        total = f"{known.constant + more}"
        for node, factor in known.terms.items():
            counter = self.counter(block, node, values, plan)
            term = counter if factor == 1 else self.put(f"mul i64 {counter}, {factor}")
            total = term if total == "0" else self.put(f"add i64 {total}, {term}")
        return total

    def derived_counter(self, block: Block, node: int, values: Values, plan: Cut) -> Counter | None:
        """A sum of multiples of counters as a counter; None for anything else, and if it differs from lane to lane."""
        known = affine_offset(block, node, {k: c.range for k, c in self.counters.items()})
        if known is None or not known.terms or any(self.counters[k].across for k in known.terms):
            return None
        return Counter(self.integer(block, known, 0, values, plan), self.function, (known.low, known.high))

    def counter(self, block: Block, node: int, values: Values, plan: Cut) -> str:
        """A counter as an integer of the current function."""
        counter = self.counters[node]
        if counter.function != self.function:
            lane = self.put(f"extractelement {self.type.vector} {self.operand(block, node, values, plan)}, i64 0")
            name = self.put(f"fptosi {self.type.element} {lane} to i64")
            counter = self.counters[node] = replace(counter, name=name, function=self.function)
        return counter.name

    def operand(self, block: Block, i: int, values: Values, plan: Cut) -> str:
        """The vector of a node."""
        raise NotImplementedError

    # ---- whole tables

    def copy(self, source: Memory, target: Memory) -> None:
        """Copy a table, row after row; one whose entries lie side by side in the same order, piece after piece."""
        rows, columns = source.rows, source.columns
        if (source.contiguous and target.contiguous) or (source.by_columns and target.by_columns):
            size = rows * columns
            columns = max(k for k in range(1, COPIED_TOGETHER + 1) if size % k == 0) if size > COPIED_TOGETHER else size
            rows = size // columns
            source, target = (
                replace(table, rows=rows, columns=columns, row_size=columns, column_size=1) for table in (source, target)
            )
        row, close = self.counted(rows)
        for c in range(columns):
            self.put_entry(target, RowIndex(row), c, self.entry(source, RowIndex(row), c))
        close()

    def fill(self, value: float, target: Memory) -> None:
        """Write a number into every entry of a new table."""
        entries = replace(target, rows=target.rows * target.columns, columns=1, row_size=1, column_size=1)
        row, close = self.counted(entries.rows)
        self.put_entry(entries, RowIndex(row), 0, self.type.splat(value))
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
            memory = self.new_table(*table_size(block.nodes, i), by_columns=self.lies_by_columns(block, i))
            if data[0] is not None:
                self.fill(data[0], memory)
            return memory
        memory = self.tables[args[0]]
        if op == "reshape":
            if not memory.contiguous:
                contiguous = self.new_table(memory.rows, memory.columns)
                self.copy(memory, contiguous)
                memory = contiguous
            return replace(memory, rows=data[0], columns=data[1], row_size=data[1])
        # an update
        if not self.overwritable(block, i, args[0]):
            old, memory = memory, self.new_table(memory.rows, memory.columns, by_columns=memory.by_columns)
            self.copy(old, memory)
        row, column, rows, _ = data
        vector = self.operand(block, args[1], values, plan)
        at = RowIndex(row) if len(args) == 2 else self.row_of(block, row, args[2], rows, values, plan)
        self.put_entry(memory, at, column, vector)
        return memory

    def entries(self, block: Block, i: int, values: Values, plan: Cut) -> Memory:
        """A table of values; one of numbers alone is part of the program and shared by all lanes."""
        _, args, (rows, columns) = block.nodes[i]
        if all(block.nodes[a].op == "const" and not isinstance(block.nodes[a].data, tuple) for a in args):
            numbers = [self.type.number(block.nodes[a].data) for a in args]
            self.owners += 1
            name, kind = f"@table{self.owners}", f"[{len(args)} x {self.type.element}]"
            listed = ", ".join(f"{self.type.element} {x}" for x in numbers)
            self.globals.append(f"{name} = internal unnamed_addr constant {kind} [{listed}], align 64")
            return Memory(rows, columns, columns, self.owners, shared=name, mutable=False)
        memory = self.new_table(rows, columns, by_columns=self.lies_by_columns(block, i))
        for k, a in enumerate(args):
            row, column = divmod(k, columns)
            self.put_entry(memory, RowIndex(row), column, self.operand(block, a, values, plan))
        return memory

    def lies_by_columns(self, block: Block, i: int) -> bool:
        """Whether a new table lies column after column: in a kernel of one lane, whose vectors hold entries of several rows."""
        return self.kernel_type.lanes == 1 and self.target.vector_bytes > 0 and i not in _reshaped(block)


def _reshaped(block: Block) -> set[int]:
    """The tables of a block whose rows are given another length, here or in a loop: they lie row after row."""
    known: set[int] | None = block.__dict__.get("_reshaped")
    if known is None:
        known = set()
        for i in reversed(range(len(block.nodes))):
            op, args, data = block.nodes[i]
            if op == "reshape" or (op == "update" and i in known):
                known.add(args[0])
            elif op == "after" and i in known:
                known.add(block.nodes[args[0]].args[data[0]])
            elif op == "loop":
                start, _, captured = data.split(args)
                inside = {data.body.nodes[k].data[0] for k in _reshaped(data.body) if data.body.nodes[k].op == "input"}
                known.update([a for j, a in enumerate(start) if 1 + j in inside])
                known.update([a for j, a in enumerate(captured) if 1 + data.carries + data.reads + j in inside])
        block.__dict__["_reshaped"] = known
    return known
