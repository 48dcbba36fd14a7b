"""A lowered tape as LLVM text: one function that computes a range of lane blocks, each lane one state of the batch."""

from __future__ import annotations

from condyle.tape.emit_block import BlockText, Values
from condyle.tape.entry import entries
from condyle.tape.graph import Node
from condyle.tape.layout import WHOLE, Cut, cut
from condyle.tape.tape import Tape
from condyle.tape.transpose import Rows, tile_starts, tile_width
from condyle.tape.vector_type import Format

GROUP = 128  # entries of a row that one piece moves in or out


def kernel_ir(tape: Tape, precision: str, lanes: int, triple: str, *, whole: int = WHOLE) -> tuple[str, int]:
    """(LLVM text, bytes of scratch memory) of `void kernel(ptr ports, i64 first, i64 last, i64 last_row, ptr scratch)`.

    It computes lane blocks first..last-1 of a batch whose final row is `last_row`; `ports` holds (address, bytes from row
    to row) of each input, then of each output.
    """
    writer = KernelText(Format(precision, lanes), whole)
    writer.kernel(tape)
    text = "\n\n".join([*entries(triple), *writer.format.declarations(), *writer.functions])
    return text + "\n", writer.scratch.size * writer.format.bytes * lanes


class KernelText(BlockText):
    """Writes the kernel: rows in, arithmetic, rows out."""

    def kernel(self, tape: Tape) -> None:
        """Write the function over lane blocks."""
        tiles = self.tiles(tape)
        plan = cut(tape.block, self.scratch, self.whole, [group for _, _, group in tiles])
        self.lines = ["br label %block", "block:", "%b = phi i64 [ %first, %entry ], [ %b.next, %done ]"]
        self.label = "block"
        if plan.slots:
            self.load_slots(tape, plan)
            for run, complete in zip(plan.runs, plan.complete, strict=True):
                with self.piece():
                    values = self.run(tape.block, run, {}, plan)
                    self.store_tiles(tape, [tiles[g] for g in complete], values, plan)
            self.store_tables(tape)
        else:
            rows = Rows(self.format, self.put, self.do)
            values = self.block(tape.block, self.load_inputs(tape, rows), plan)
            self.store_outputs(tape, rows, values, plan)
        self.lines += ["br label %done", "done:", "%b.next = add i64 %b, 1", "%more = icmp slt i64 %b.next, %last"]
        self.lines += ["br i1 %more, label %block, label %end", "end:"]
        self.finish("blocks", "ptr noalias %ports, i64 %first, i64 %last, i64 %last_row, ptr noalias %scratch")

    # ---- a short kernel: everything in one function

    def load_inputs(self, tape: Tape, rows: Rows) -> Values:
        """param -> vector for every entry that is used by itself; inputs that only feed a loop are copied row by row."""
        params: Values = {}
        single, whole = _uses(tape)
        for p, (start, size) in enumerate(_ports(tape)):
            rows.point(p)
            params |= {
                start + k: vector
                for k, vector in rows.load(p, size, {k - start for k in single if start <= k < start + size}).items()
            }
            for i, (of, first) in whole.items():
                if of == p:
                    self.copy_in(tape.block.nodes[i], i, p, first, rows)
        return params

    def store_outputs(self, tape: Tape, rows: Rows, values: Values, plan: Cut) -> None:
        """Write the results into the rows of the outputs."""
        at = 0
        for p, port in enumerate(tape.outputs, start=len(tape.inputs)):
            rows.point(p)
            if port.table:
                self.copy_out(tape.block.results[at], p, port.shape[0], rows)
                at += 1
            else:
                rows.store(p, [self.operand(tape.block, r, values, plan) for r in tape.block.results[at : at + port.size]])
                at += port.size

    # ---- a long kernel: the same in pieces, through slots

    def load_slots(self, tape: Tape, plan: Cut) -> None:
        """Bring the inputs into the slots of the params."""
        slot = {n.data: plan.slots[i] for i, n in enumerate(tape.block.nodes) if n.op == "param"}
        single, whole = _uses(tape)
        for p, (start, size) in enumerate(_ports(tape)):
            for first in range(0, size, GROUP):
                width = min(GROUP, size - first)
                wanted = {k - start - first for k in single if start + first <= k < start + first + width}
                if not wanted:
                    continue
                with self.piece():
                    rows = Rows(self.format, self.put, self.do)
                    rows.point(p)
                    for k, vector in rows.load(p, width, wanted, str(first)).items():
                        self.store(vector, self.place(slot[start + first + k]))
            for i, (of, first) in whole.items():
                if of == p:
                    with self.piece():
                        rows = Rows(self.format, self.put, self.do)
                        rows.point(p)
                        self.copy_in(tape.block.nodes[i], i, p, first, rows)

    def tiles(self, tape: Tape) -> list[tuple[int, int, tuple[int, ...]]]:
        """(port, first entry, results) of the pieces of rows that are written at once."""
        out, at = [], 0
        for p, port in enumerate(tape.outputs, start=len(tape.inputs)):
            results = tape.block.results[at : at + (1 if port.table else port.size)]
            at += len(results)
            if not port.table:
                width = tile_width(port.size, self.format.lanes)
                out += [(p, first, results[first : first + width]) for first in tile_starts(port.size, width)]
        return out

    def store_tiles(self, tape: Tape, tiles: list[tuple[int, int, tuple[int, ...]]], values: Values, plan: Cut) -> None:
        """Write results into the outputs as soon as enough of a row is known."""
        if not tiles:
            return
        rows = Rows(self.format, self.put, self.do)
        for p in sorted({p for p, _, _ in tiles}):
            rows.point(p)
        for p, first, group in tiles:
            rows.store(p, [self.operand(tape.block, r, values, plan) for r in group], str(first))

    def store_tables(self, tape: Tape) -> None:
        """Write the tables that are outputs."""
        at = 0
        for p, port in enumerate(tape.outputs, start=len(tape.inputs)):
            if port.table:
                with self.piece():
                    rows = Rows(self.format, self.put, self.do)
                    rows.point(p)
                    self.copy_out(tape.block.results[at], p, port.shape[0], rows)
            at += 1 if port.table else port.size

    # ---- tables, row by row

    def copy_in(self, node: Node, i: int, port: int, first: int, rows: Rows) -> None:
        """A table that is a stretch of an input."""
        count, columns = node.data
        self.tables[i] = (self.scratch.area(count * columns), columns, columns)
        row, close = self.counted(count)
        shift = self.put(f"add i64 {self.put(f'mul i64 {row}, {columns}')}, {first}")
        vectors = rows.load(port, columns, set(range(columns)), shift)
        for c, pointer in enumerate(self.row_places(i, row)):
            self.store(vectors[c], pointer)
        close()

    def copy_out(self, table: int, port: int, count: int, rows: Rows) -> None:
        """A table that is an output."""
        row, close = self.counted(count)
        vectors = [self.load(pointer) for pointer in self.row_places(table, row)]
        rows.store(port, vectors, self.put(f"mul i64 {row}, {len(vectors)}"))
        close()


def _ports(tape: Tape) -> list[tuple[int, int]]:
    """(first param, size) of each input."""
    starts = [sum(p.size for p in tape.inputs[:k]) for k in range(len(tape.inputs))]
    return [(start, p.size) for start, p in zip(starts, tape.inputs, strict=True)]


def _uses(tape: Tape) -> tuple[set[int], dict[int, tuple[int, int]]]:
    """(params that are used by themselves, table -> (input, first entry) of tables that are a stretch of an input)."""
    nodes = tape.block.nodes
    whole = {i: where for i, n in enumerate(nodes) if n.op == "table" and (where := _stretch(tape, n)) is not None}
    used = {a for i, n in enumerate(nodes) if i not in whole for a in n.args} | set(tape.block.results)
    return {nodes[i].data for i in used if nodes[i].op == "param"}, whole


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
