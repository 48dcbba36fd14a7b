"""A lowered tape as LLVM text: one function that computes a range of lane blocks, each lane one state of the batch."""

from __future__ import annotations

from condyle.tape.entry import entries
from condyle.tape.graph import Block, Loop, Node
from condyle.tape.layout import WHOLE, Cut, Scratch, cut
from condyle.tape.ops import OPS, TRUTH
from condyle.tape.tape import Tape
from condyle.tape.tiles import Rows
from condyle.tape.vectors import Format

Values = dict[int, str]  # node -> vector


def kernel_ir(tape: Tape, precision: str, lanes: int, triple: str, *, whole: int = WHOLE) -> tuple[str, int]:
    """(LLVM text, bytes of scratch memory) of `void kernel(ptr ports, i64 first, i64 last, i64 last_row, ptr scratch)`.

    It computes lane blocks first..last-1 of a batch whose final row is `last_row`; `ports` holds (address, bytes from row
    to row) of each input, then of each output.
    """
    writer = Writer(Format(precision, lanes), whole)
    writer.kernel(tape)
    text = "\n\n".join([*entries(triple), *writer.format.declarations(), *writer.functions])
    return text + "\n", writer.scratch.size * writer.format.bytes * lanes


class Writer:
    """Text being written: finished functions, and the lines of the current one."""

    def __init__(self, form: Format, whole: int) -> None:
        self.format = form
        self.whole = whole
        self.templates = form.templates()
        self.scratch = Scratch()
        self.functions: list[str] = []
        self.lines: list[str] = []
        self.label = "entry"
        self.names = 0
        self.tables: dict[int, tuple[int, int, int]] = {}  # table node of the current block -> (place, row size, columns)

    def put(self, text: str) -> str:
        """Write `%new = text` and return %new."""
        self.names += 1
        self.lines.append(f"%t{self.names} = {text}")
        return f"%t{self.names}"

    def do(self, text: str) -> None:
        """Write an instruction that gives nothing."""
        self.lines.append(text)

    def finish(self, name: str, parameters: str) -> None:
        """End the current function."""
        body = "\n  ".join([*self.lines, "ret void"])
        self.functions.append(f"define internal void @{name}({parameters}) #0 {{\nentry:\n  {body}\n}}")

    # ---- the kernel: rows in, arithmetic, rows out

    def kernel(self, tape: Tape) -> None:
        """The function over lane blocks."""
        block = tape.block
        plan = cut(block, self.scratch, self.whole)
        self.lines = ["br label %block", "block:", "%b = phi i64 [ %first, %entry ], [ %b.next, %done ]"]
        self.label = "block"
        rows = Rows(self.format, self.put, self.do)
        for port in range(len(tape.inputs)):
            rows.point(port)
        values = self.block(block, self.load_inputs(tape, rows, plan), plan)
        for port in range(len(tape.outputs)):
            rows.point(len(tape.inputs) + port)
        self.store_outputs(tape, rows, values, plan)
        self.lines += ["br label %done", "done:", "%b.next = add i64 %b, 1", "%more = icmp slt i64 %b.next, %last"]
        self.lines += ["br i1 %more, label %block, label %end", "end:"]
        self.finish("blocks", "ptr noalias %ports, i64 %first, i64 %last, i64 %last_row, ptr noalias %scratch")

    def load_inputs(self, tape: Tape, rows: Rows, plan: Cut) -> Values:
        """param -> vector for every entry that is used by itself; inputs that only feed a loop are copied row by row."""
        nodes = tape.block.nodes
        node_of = {n.data: i for i, n in enumerate(nodes) if n.op == "param"}
        whole = {i: where for i, n in enumerate(nodes) if n.op == "table" and (where := _stretch(tape, n)) is not None}
        single = {a for i, n in enumerate(nodes) if i not in whole for a in n.args} | set(tape.block.results)
        params: Values = {}
        at = 0
        for p, port in enumerate(tape.inputs):
            wanted = {k for k in range(port.size) if node_of.get(at + k) in single}
            for k, vector in rows.load(p, port.size, wanted).items():
                params[at + k] = vector
                if plan.slots:
                    self.store(vector, self.place(plan.slots[node_of[at + k]]))
            for i, (of, first) in whole.items():
                if of == p:
                    self.copy_in(nodes[i], i, p, first, rows)
            at += port.size
        return params

    def copy_in(self, node: Node, i: int, port: int, first: int, rows: Rows) -> None:
        """A table that is a stretch of an input, one row at a time."""
        count, columns = node.data
        self.tables[i] = (self.scratch.area(count * columns), columns, columns)
        row, close = self.counted(count)
        shift = self.put(f"add i64 {self.put(f'mul i64 {row}, {columns}')}, {first}")
        vectors = rows.load(port, columns, set(range(columns)), shift)
        for c, pointer in enumerate(self.row_places(i, row)):
            self.store(vectors[c], pointer)
        close()

    def store_outputs(self, tape: Tape, rows: Rows, values: Values, plan: Cut) -> None:
        at = 0
        for p, port in enumerate(tape.outputs, start=len(tape.inputs)):
            if port.table:
                row, close = self.counted(port.shape[0])
                vectors = [self.load(pointer) for pointer in self.row_places(tape.block.results[at], row)]
                rows.store(p, vectors, self.put(f"mul i64 {row}, {len(vectors)}"))
                close()
                at += 1
            else:
                results = tape.block.results[at : at + port.size]
                rows.store(p, [self.operand(tape.block, r, values, plan) for r in results])
                at += port.size

    # ---- memory

    def place(self, offset: int) -> str:
        """Pointer to a vector of scratch memory."""
        return self.put(f"getelementptr {self.format.vector}, ptr %scratch, i64 {offset}")

    def row_places(self, table: int, row: str) -> list[str]:
        """Pointers to the entries of one row of a table."""
        area, row_size, columns = self.tables[table]
        first = self.put(f"add i64 {self.put(f'mul i64 {row}, {row_size}')}, {area}")
        pointer = self.put(f"getelementptr {self.format.vector}, ptr %scratch, i64 {first}")
        return [self.put(f"getelementptr {self.format.vector}, ptr {pointer}, i64 {c}") for c in range(columns)]

    def load(self, pointer: str) -> str:
        return self.put(f"load {self.format.vector}, ptr {pointer}")

    def store(self, vector: str, pointer: str) -> None:
        self.do(f"store {self.format.vector} {vector}, ptr {pointer}")

    # ---- straight code

    def block(self, block: Block, params: Values, plan: Cut, row: str = "0") -> Values:
        """The vectors of a block's nodes. A long block becomes one function per run, and its values are in their slots."""
        if len(plan.runs) == 1:
            return self.run(block, plan.runs[0], params, plan)
        outer_lines, outer_label = self.lines, self.label
        calls = []
        for run in plan.runs:
            self.lines, self.label = [], "entry"
            self.run(block, run, {}, plan)
            name = f"run{len(self.functions)}"
            self.finish(name, "ptr noalias %scratch, i64 %row")
            calls.append(f"call void @{name}(ptr %scratch, i64 {row})")
        self.lines, self.label = outer_lines + calls, outer_label
        return {}

    def operand(self, block: Block, i: int, values: Values, plan: Cut) -> str:
        """The vector of a node: a constant, computed here, or loaded from its slot."""
        if i not in values:
            op, _, data = block.nodes[i]
            if op == "const":
                return self.format.splat(data)
            values[i] = self.load(self.place(plan.slots[i]))
            if op in OPS and OPS[op].gives == TRUTH:
                values[i] = self.put(f"fcmp une {self.format.vector} {values[i]}, zeroinitializer")
        return values[i]

    def run(self, block: Block, run: range, params: Values, plan: Cut) -> Values:
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
            elif op == "at":
                area, row_size, _ = self.tables[args[0]]
                values[i] = self.load(self.place(area + data[0] * row_size + data[1]))
            elif op == "loop":
                self.loop(block, i, values, plan)
            if i in plan.slots and i in values and op not in ("param", "get"):
                self.spill(block.nodes[i].op, values[i], plan.slots[i])
        return values

    def spill(self, op: str, value: str, slot: int) -> None:
        """Keep a value in its slot; a comparison as 1 or 0."""
        v = self.format.vector
        if op in OPS and OPS[op].gives == TRUTH:
            value = self.put(f"select <{self.format.lanes} x i1> {value}, {v} {self.format.splat(1.0)}, {v} zeroinitializer")
        self.store(value, self.place(slot))

    # ---- loops

    def counted(self, count: int, *, reverse: bool = False, carry: list[str] | None = None) -> tuple[str, Close]:
        """Open a loop: (its counter, what closes it). `carry`: start values; the closing call is given the next ones."""
        return _open_loop(self, count, reverse, carry or [])

    def loop(self, block: Block, i: int, values: Values, plan: Cut) -> None:
        """Write a loop; its `get` nodes become vectors and its `rows` nodes tables."""
        loop: Loop = block.nodes[i].data
        start, tables, captured = loop.split(block.nodes[i].args)
        begin = [self.operand(block, a, values, plan) for a in start]
        outside = [self.operand(block, a, values, plan) for a in captured]
        area = self.scratch.area(loop.count * loop.writes)
        outer_tables = self.tables
        self.tables = {-1 - k: outer_tables[t] for k, t in enumerate(tables)}
        self.tables[-1 - len(tables)] = (area, loop.writes, loop.writes)
        inner = cut(loop.body, self.scratch, self.whole)
        write = self.loop_in_registers if len(inner.runs) == 1 else self.loop_in_memory
        final = write(loop, inner, begin, outside)
        self.tables = outer_tables
        for k, node in enumerate(block.nodes):
            if node.op == "get" and node.args[0] == i:
                values[k] = final[node.data]
                if k in plan.slots:
                    self.store(values[k], self.place(plan.slots[k]))
            elif node.op == "rows" and node.args[0] == i:
                self.tables[k] = (area + node.data[0], loop.writes, node.data[1] - node.data[0])

    def loop_in_registers(self, loop: Loop, plan: Cut, begin: list[str], outside: list[str]) -> list[str]:
        """A short body: carried values are phis. Returns them as they are after the loop."""
        row, close = self.counted(loop.count, reverse=loop.reverse, carry=begin)
        params = dict(enumerate([self.iteration(loop, row), *close.carried, *self.read_rows(loop, row), *outside]))
        values = self.block(loop.body, params, plan)
        results = [self.operand(loop.body, r, values, plan) for r in loop.body.results]
        self.write_row(loop, row, results)
        close(results[: loop.carried])
        return results[: loop.carried]

    def loop_in_memory(self, loop: Loop, plan: Cut, begin: list[str], outside: list[str]) -> list[str]:
        """A long body, itself in runs: carried values are in slots. Returns them as they are after the loop."""
        slot_of = {n.data: plan.slots[i] for i, n in enumerate(loop.body.nodes) if n.op == "param"}
        carried = [slot_of.get(1 + j, -1) for j in range(loop.carried)]
        carried = [self.scratch.area(1) if slot < 0 else slot for slot in carried]
        outside_at = 1 + loop.carried + loop.reads
        for vector, slot in zip(begin, carried, strict=True):
            self.store(vector, self.place(slot))
        for j, vector in enumerate(outside):
            if outside_at + j in slot_of:
                self.store(vector, self.place(slot_of[outside_at + j]))
        row, close = self.counted(loop.count, reverse=loop.reverse)
        fresh = {0: self.iteration(loop, row), **dict(enumerate(self.read_rows(loop, row), start=1 + loop.carried))}
        for param, vector in fresh.items():
            if param in slot_of:
                self.store(vector, self.place(slot_of[param]))
        self.block(loop.body, {}, plan, row)
        values: Values = {}
        results = [self.operand(loop.body, r, values, plan) for r in loop.body.results]
        self.write_row(loop, row, results)
        for vector, slot in zip(results, carried, strict=False):
            self.store(vector, self.place(slot))
        close()
        return [self.load(self.place(slot)) for slot in carried]

    def iteration(self, loop: Loop, row: str) -> str:
        """The iteration number as a vector, if the body uses it."""
        if not any(n.op == "param" and n.data == 0 for n in loop.body.nodes):
            return "poison"
        v, e, lanes = self.format.vector, self.format.element, self.format.lanes
        first = self.put(f"insertelement {v} poison, {e} {self.put(f'sitofp i64 {row} to {e}')}, i64 0")
        return self.put(f"shufflevector {v} {first}, {v} poison, <{lanes} x i32> zeroinitializer")

    def read_rows(self, loop: Loop, row: str) -> list[str]:
        return [self.load(pointer) for k in range(loop.tables) for pointer in self.row_places(-1 - k, row)]

    def write_row(self, loop: Loop, row: str, results: list[str]) -> None:
        if loop.writes:
            for vector, pointer in zip(results[loop.carried :], self.row_places(-1 - loop.tables, row), strict=True):
                self.store(vector, pointer)


class Close:
    """What ends a loop that was opened; `carried` are its values inside."""

    def __init__(self, writer: Writer, label: str, end: int, step: int, phis: list[tuple[int, str, str]]) -> None:
        self.writer, self.label, self.end, self.step, self.phis = writer, label, end, step, phis
        self.carried = [name for _, name, _ in phis]

    def __call__(self, following: list[str] | None = None) -> None:
        lines, label = self.writer.lines, self.label
        # the phis were left open until the next values were known
        for (at, name, begin), vector in zip(self.phis, following or [], strict=True):
            lines[at] = f"{name} = phi {self.writer.format.vector} {begin}, [ {vector}, %{label}.latch ]"
        lines += [
            f"br label %{label}.latch",
            f"{label}.latch:",
            f"%{label}.next = add i64 %{label}.i, {self.step}",
            f"%{label}.stop = icmp eq i64 %{label}.next, {self.end}",
            f"br i1 %{label}.stop, label %{label}.exit, label %{label}",
            f"{label}.exit:",
        ]
        self.writer.label = f"{label}.exit"


def _open_loop(writer: Writer, count: int, reverse: bool, carry: list[str]) -> tuple[str, Close]:
    writer.names += 1
    label, before = f"loop{writer.names}", writer.label
    first, end, step = (count - 1, -1, -1) if reverse else (0, count, 1)
    writer.lines += [f"br label %{label}", f"{label}:"]
    writer.lines.append(f"%{label}.i = phi i64 [ {first}, %{before} ], [ %{label}.next, %{label}.latch ]")
    phis = []
    for j, vector in enumerate(carry):
        phis.append((len(writer.lines), f"%{label}.c{j}", f"[ {vector}, %{before} ]"))
        writer.lines.append("")
    writer.label = label
    return f"%{label}.i", Close(writer, label, end, step, phis)


def _stretch(tape: Tape, table: Node) -> tuple[int, int] | None:
    """(input, first entry) of a table that is a stretch of one input as it lies in memory; None for any other table."""
    nodes = tape.block.nodes
    params = [nodes[a].data if nodes[a].op == "param" else None for a in table.args]
    if params[0] is None or params != list(range(params[0], params[0] + len(params))):
        return None
    first: int = params[0]
    for p, port in enumerate(tape.inputs):
        if first < port.size:
            return (p, first) if first + len(params) <= port.size else None
        first -= port.size
    return None
