"""Blocks as LLVM text: straight code, spilled values, tables, and loops in registers or in memory."""

from __future__ import annotations

from condyle.tape.ir_writer import IRWriter, OpenLoop, VectorType
from condyle.tape.layout import Cut, Scratch, cut
from condyle.tape.ops import BOOL, INT, OPS
from condyle.tape.tape import Block, Loop
from condyle.tape.target import Target

Values = dict[int, str]  # node -> vector


class BlockEmitter(IRWriter):
    """Writes blocks; `scratch` grows with what they need."""

    def __init__(self, vector: VectorType, target: Target) -> None:
        super().__init__(vector, target)
        self.templates = vector.templates()
        self.scratch = Scratch()
        self.tables: dict[int, tuple[int, int, int]] = {}  # table node of the current block -> (place, row size, columns)

    # ---- memory

    def place(self, offset: int) -> str:
        """Pointer to a vector of scratch memory."""
        return self.put(f"getelementptr {self.type.vector}, {self.target.scratch} %scratch, i64 {offset}")

    def row_places(self, table: int, row: str) -> list[str]:
        """Pointers to the entries of one row of a table."""
        area, row_size, columns = self.tables[table]
        first = self.put(f"add i64 {self.put(f'mul i64 {row}, {row_size}')}, {area}")
        pointer = self.put(f"getelementptr {self.type.vector}, {self.target.scratch} %scratch, i64 {first}")
        return [self.put(f"getelementptr {self.type.vector}, {self.target.scratch} {pointer}, i64 {c}") for c in range(columns)]

    def load(self, pointer: str) -> str:
        """A vector of scratch memory."""
        return self.put(f"load {self.type.vector}, {self.target.scratch} {pointer}")

    def store(self, vector: str, pointer: str) -> None:
        """Write a vector to scratch memory."""
        self.do(f"store {self.type.vector} {vector}, {self.target.scratch} {pointer}")

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
            elif op == "table" and i not in self.tables:
                area = self.scratch.area(len(args))
                self.tables[i] = (area, data[1], data[1])
                for k, a in enumerate(args):
                    self.store(self.operand(block, a, values, plan), self.place(area + k))
            elif op == "index":
                area, row_size, _ = self.tables[args[0]]
                values[i] = self.load(self.place(area + data[0] * row_size + data[1]))
            elif op == "loop":
                self.loop(block, i, values, plan)
            if i in plan.slots and i in values and op not in ("param", "get"):
                self.spill(block.nodes[i].op, values[i], plan.slots[i])
            if close is not None and i == done:
                close.leave(values[i])
        return values

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
        """Write a loop; its `get` nodes become vectors and its `slice` nodes tables."""
        loop: Loop = block.nodes[i].data
        start, tables, captured = loop.split(block.nodes[i].args)
        begin = [self.operand(block, a, values, plan) for a in start]
        outside = [self.operand(block, a, values, plan) for a in captured]
        area = self.scratch.area(loop.count * loop.writes)
        outer_tables = self.tables
        self.tables = {-1 - k: outer_tables[t] for k, t in enumerate(tables)}
        self.tables[-1 - len(tables)] = (area, loop.writes, loop.writes)
        inner = cut(loop.body, self.scratch, self.target.uncut * self.target.uncut_in_loops, self.target.piece)
        write = self.loop_in_registers if len(inner.runs) == 1 else self.loop_in_memory
        final = write(loop, inner, begin, outside)
        self.tables = outer_tables
        for k, node in enumerate(block.nodes):
            if node.op == "get" and node.args[0] == i:
                values[k] = final[node.data]
                if k in plan.slots:
                    self.store(values[k], self.place(plan.slots[k]))
            elif node.op == "slice" and node.args[0] == i:
                self.tables[k] = (area + node.data[0], loop.writes, node.data[1] - node.data[0])

    def loop_in_registers(self, loop: Loop, plan: Cut, begin: list[str], outside: list[str]) -> list[str]:
        """A short body: carried values are phis. Returns them as they are after the loop."""
        row, close = self.counted(loop.count, reverse=loop.reverse, carry=begin)
        params = dict(enumerate([self.iteration(loop, row), *close.carry, *self.read_rows(loop, row), *outside]))
        values = self.block(loop.body, params, plan, loop.done, close)
        results = [self.operand(loop.body, r, values, plan) for r in loop.body.results]
        self.write_row(loop, row, results)
        return close(results[: loop.carries])

    def loop_in_memory(self, loop: Loop, plan: Cut, begin: list[str], outside: list[str]) -> list[str]:
        """A long body, itself in runs: carried values are in slots. Returns them as they are after the loop."""
        slot_of = {n.data: plan.slots[i] for i, n in enumerate(loop.body.nodes) if n.op == "param"}
        carry = [slot_of.get(1 + j, -1) for j in range(loop.carries)]
        carry = [self.scratch.area(1) if slot < 0 else slot for slot in carry]
        outside_at = 1 + loop.carries + loop.reads
        for vector, slot in zip(begin, carry, strict=True):
            self.store(vector, self.place(slot))
        for j, vector in enumerate(outside):
            if outside_at + j in slot_of:
                self.store(vector, self.place(slot_of[outside_at + j]))
        row, close = self.counted(loop.count, reverse=loop.reverse)
        fresh = {0: self.iteration(loop, row), **dict(enumerate(self.read_rows(loop, row), start=1 + loop.carries))}
        for param, vector in fresh.items():
            if param in slot_of:
                self.store(vector, self.place(slot_of[param]))
        self.block(loop.body, {}, plan, loop.done, close)
        values: Values = {}
        results = [self.operand(loop.body, r, values, plan) for r in loop.body.results]
        self.write_row(loop, row, results)
        for vector, slot in zip(results, carry, strict=False):
            self.store(vector, self.place(slot))
        close()
        return [self.load(self.place(slot)) for slot in carry]

    def iteration(self, loop: Loop, row: str) -> str:
        """The iteration number as a vector, if the body uses it."""
        if not any(n.op == "param" and n.data == 0 for n in loop.body.nodes):
            return "poison"
        v, e, lanes = self.type.vector, self.type.element, self.type.lanes
        first = self.put(f"insertelement {v} poison, {e} {self.put(f'sitofp i64 {row} to {e}')}, i64 0")
        return self.put(f"shufflevector {v} {first}, {v} poison, <{lanes} x i32> zeroinitializer")

    def read_rows(self, loop: Loop, row: str) -> list[str]:
        """The entries of one row of every table that the loop reads."""
        return [self.load(pointer) for k in range(loop.tables) for pointer in self.row_places(-1 - k, row)]

    def write_row(self, loop: Loop, row: str, results: list[str]) -> None:
        """Write what the loop gives out in one iteration."""
        if loop.writes:
            for vector, pointer in zip(results[loop.carries :], self.row_places(-1 - loop.tables, row), strict=True):
                self.store(vector, pointer)
