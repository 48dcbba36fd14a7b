"""A lowered tape as LLVM text for any target: one function that computes lane blocks, each lane one state of the batch.

For a target with `limbs`, a lane block is one state, and each lane one limb of it (emit_limbs.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from condyle.tape.assemble import SUPPORTED, Assembler, Registers, supported
from condyle.tape.emit_block import BlockEmitter, Link
from condyle.tape.emit_limbs import in_lanes
from condyle.tape.emit_table import Memory, Ports, RowIndex, Values
from condyle.tape.graph import collection_paused
from condyle.tape.ir_writer import VectorType
from condyle.tape.layout import Cut, assembled_runs, cut, weight
from condyle.tape.schedule import schedule
from condyle.tape.tape import Block, Node, Port, Tape, by_port
from condyle.tape.target import Target
from condyle.tape.transpose import ColumnPorts, LimbPorts, RowPorts, VectorPorts, tile_starts

PREFETCH = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
COPIED = 16  # entries that one lane copies at once


AREA_ALIGN = 64  # bytes: the own memory of a subroutine begins at a multiple of a vector's size


def kernel_ir(
    tape: Tape, precision: str, lanes: int, target: Target, links: Mapping[str, Link] = MappingProxyType({})
) -> tuple[str, int]:
    """(LLVM text, bytes of scratch memory that one lane block needs) of a lowered tape for a target.

    `links`: the subroutines that it calls, by the hashes of their tapes.
    """
    emitter = KernelEmitter(VectorType(precision, lanes), target)
    emitter.links = links
    if target.limbs:
        tape = in_lanes(tape, lanes)
    with collection_paused():
        emitter.kernel(replace(tape, block=schedule(tape.block, target)))
    scratch = emitter.scratch.size * emitter.type.bytes * lanes
    head = [
        f'target triple = "{target.triple}"',
        f"attributes #0 = {{ {target.attributes} }}",
        "declare i64 @llvm.smin.i64(i64, i64)",
        "declare i64 @llvm.smax.i64(i64, i64)",
        target.entry(scratch),
    ]
    return "\n\n".join([*head, *emitter.globals, *emitter.declarations(), *emitter.functions]) + "\n", scratch


def subroutine_ir(tape: Tape, precision: str, lanes: int, target: Target, name: str) -> tuple[str, Link]:
    """(LLVM text of `void name(ptr area)`, how it is called) of a lowered tape without tables; see Link.

    It is the kernel of a lane block whose only input and only output are in the area. With limbs in the lanes of the target, the
    caller has one lane.
    """
    bytes_ = VectorType(precision, 1 if target.limbs else lanes).bytes * (1 if target.limbs else lanes)
    count, results = tape.block.params, len(tape.block.results)
    end = bytes_ * (count + results)

    def entry(scratch: int) -> str:
        lines = [
            "%ports = alloca [4 x i64]",
            f"%out = getelementptr i8, ptr %area, i64 {bytes_ * count}",
            f"%end = getelementptr i8, ptr %area, i64 {end + AREA_ALIGN - 1}",
            "%number = ptrtoint ptr %end to i64",
            f"%aligned = and i64 %number, -{AREA_ALIGN}",
            "%scratch = inttoptr i64 %aligned to ptr",
            *[f"%word{k} = getelementptr i64, ptr %ports, i64 {k}" for k in range(1, 4)],
            "store ptr %area, ptr %ports",
            "store i64 0, ptr %word1",
            "store ptr %out, ptr %word2",
            "store i64 0, ptr %word3",
            "call void @blocks(ptr %ports, i64 0, i64 1, i64 0, ptr %scratch)",
            "ret void",
        ]
        return "\n  ".join([f"define void @{name}(ptr %area) #0 {{", *lines]) + "\n}"

    alone = Tape(tape.name, tape.block, (Port("in", (count,)),), (Port("out", (results,)),))
    text, scratch = kernel_ir(alone, precision, lanes, replace(target, entry=entry, vectors=True))
    return text, Link(name, -(-(end + AREA_ALIGN + scratch) // bytes_))


class KernelEmitter(BlockEmitter):
    """Writes the kernel: ports in, arithmetic, ports out."""

    def kernel(self, tape: Tape) -> None:
        """Write the internal function that the target's entry code calls (see Target)."""
        self.port_count = len(tape.inputs) + len(tape.outputs)
        assembler = self.assembler(tape)
        if assembler is not None:
            self.open_blocks()
            self.straight(tape, assembler)
            self.close_blocks()
            return
        for p, (port, results) in self.outputs(tape):
            if port.run_time:
                _, (loop,), (first, last) = tape.block.nodes[results[0]]
                self.streams.setdefault(loop, []).append((p, first, last))
        runs = self.straight_runs(tape)
        if runs:
            self.open_blocks()
            self.in_runs(tape, runs)
            self.close_blocks()
            return
        tiles = self.tiles(tape)
        plan = cut(tape.block, self.scratch, self.target.uncut, self.target.piece, [group for _, _, group in tiles])
        self.open_blocks()
        if plan.slots:
            self.load_slots(tape, plan)
            for run, complete in zip(plan.runs, plan.complete, strict=True):
                with self.piece():
                    values = self.run(tape.block, run, {}, plan)
                    self.store_tiles(tape, [tiles[g] for g in complete], values, plan)
            self.store_tables(tape)
        else:
            ports = self.ports()
            values = self.block(tape.block, self.load_inputs(tape, ports), plan)
            self.store_outputs(tape, ports, values, plan)
        self.close_blocks()

    def open_blocks(self) -> None:
        """Begin the loop over lane blocks, where the target has one."""
        if self.target.loops:
            self.lines = ["br label %block", "block:", "%b = phi i64 [ %first, %entry ], [ %b.next, %done ]"]
            self.label = "block"

    def close_blocks(self) -> None:
        """End the loop over lane blocks, and the function."""
        if self.target.loops:
            self.lines += ["br label %done", "done:", "%b.next = add i64 %b, 1", "%more = icmp slt i64 %b.next, %last"]
            self.lines += ["br i1 %more, label %block, label %end", "end:"]
        self.finish("blocks" if self.target.loops else "block", self.target.parameters())

    def declarations(self) -> list[str]:
        """The intrinsics that are called, for every width of vectors."""
        types = [self.type, *[VectorType(self.type.precision, width) for width in sorted(self.widths - {self.type.lanes})]]
        return [line for each in types for line in each.declarations()]

    def outputs(self, tape: Tape) -> Iterable[tuple[int, tuple[Port, list[int]]]]:
        """(number of the port, (port, results)) of every output."""
        return enumerate(by_port(tape.outputs, tape.block.results), start=len(tape.inputs))

    # ---- a long kernel without loops, on a processor that can be assembled for

    def assembler(self, tape: Tape) -> Assembler | None:
        """What writes the whole block as assembly; None if LLVM has to."""
        results = len(tape.block.results)
        shortest = self.target.straight_one_lane if self.type.lanes == 1 else self.target.straight
        enough = max(shortest, self.target.straight_per_result * results)
        if not self.can_assemble or weight(tape.block) <= enough or not supported(tape.block):
            return None
        registers = Registers.of(self.type, self.target.assembled)
        if registers is None or any(port.table for port in (*tape.inputs, *tape.outputs)):
            return None
        below = sum(p.size for p in tape.inputs) + results
        self.scratch.area(below)
        homes = {i: node.data - below for i, node in enumerate(tape.block.nodes) if node.op == "param"}
        places: dict[int, list[int]] = {}
        for k, r in enumerate(tape.block.results):
            places.setdefault(r, []).append(k - results)
        return Assembler(self.type, registers, homes, places)

    def straight(self, tape: Tape, assembler: Assembler) -> None:
        """Inputs into scratch memory, the block, outputs from scratch memory; entries lie there one after the other."""
        text = assembler.function("straight", tape.block).replace("\\", "\\5C").replace('"', "\\22").replace("\n", "\\0A")
        self.globals += [f'module asm "{text}"', "declare void @straight(ptr)", PREFETCH]
        at = 0
        for p, (start, size) in enumerate(_ports(tape)):
            self.copy_port(p, start, size, store=False)
            at = start + size
        self.do(f"call void @straight(ptr {self.place(self.scratch.size)})")
        for p, (port, _) in self.outputs(tape):
            self.copy_port(p, at, port.size, store=True)
            at += port.size
        self.scratch.area(assembler.spills)

    # ---- a long kernel with loops, whose straight parts are assembled

    def straight_runs(self, tape: Tape) -> list[range]:
        """The runs of a kernel's nodes outside of loops that are written in assembly; none if all of them are short."""
        target = self.target
        if not self.can_assemble:
            return []
        runs = assembled_runs(tape.block, target.assembled_run, None)
        enough = max(target.uncut, target.straight_per_result * len(tape.block.results))
        return runs if sum(map(len, runs)) > enough else []

    def in_runs(self, tape: Tape, runs: list[range]) -> None:
        """Inputs into slots, the runs in order, outputs from scratch memory, where the entries of a port lie in a row."""
        block = tape.block
        self.globals.append(PREFETCH)
        areas: dict[int, int] = {}
        places: dict[int, list[int]] = {}
        for p, (port, results) in self.outputs(tape):
            if not port.table:
                areas[p] = self.scratch.area(port.size)
                for k, r in enumerate(results):
                    places.setdefault(r, []).append(areas[p] + k)
        assembled = {i for run in runs for i in run if block.nodes[i].op in SUPPORTED}
        others = [r for r in places if r not in assembled]
        plan = cut(block, self.scratch, self.target.uncut, self.target.piece, [[r] for r in others], runs)
        self.load_slots(tape, plan)
        for run, complete in zip(plan.runs, plan.complete, strict=True):
            if run.start in plan.assembled:
                self.assembled_run(block, run, plan, places)
                if not complete:
                    continue
            with self.piece():
                values = {} if run.start in plan.assembled else self.run(block, run, {}, plan)
                for r in [others[g] for g in complete]:
                    for place in places[r]:
                        self.store(self.operand(block, r, values, plan), self.place(place))
        for p, area in areas.items():
            self.copy_port(p, area, tape.outputs[p - len(tape.inputs)].size, store=True)
        self.store_tables(tape)

    def copy_port(self, p: int, area: int, size: int, *, store: bool) -> None:
        """An input into scratch memory, or an output from there, tile by tile."""
        with self.piece():
            ports = self.ports()
            assert not isinstance(ports, ColumnPorts)
            ports.point(p)
            if isinstance(ports, RowPorts) and self.type.lanes == 1:
                ends = ports.start(p), self.place(area)
                self.copy_row(*(ends if store else ends[::-1]), size)
                return
            width = ports.tile_width(size, self.type.lanes)
            tile, close = self.counted(size // width)
            self.copy_tile(ports, p, area, self.put(f"mul i64 {tile}, {width}"), width, store=store)
            close()
            if size % width:
                self.copy_tile(ports, p, area, str(size - width), width, store=store)

    def copy_row(self, to: str, of: str, size: int) -> None:
        """Numbers in a row, for one lane; not by memcpy, because a kernel calls nothing from outside."""

        def copy(first: str, width: int) -> None:
            at, source = (self.put(f"getelementptr {self.type.element}, ptr {end}, i64 {first}") for end in (to, of))
            vector, align = f"<{width} x {self.type.element}>", f"align {self.type.bytes}"
            self.do(f"store {vector} {self.put(f'load {vector}, ptr {source}, {align}')}, ptr {at}, {align}")

        many, rest = divmod(size, COPIED)
        if many:
            part, close = self.counted(many)
            copy(self.put(f"mul i64 {part}, {COPIED}"), COPIED)
            close()
        if rest:
            copy(str(many * COPIED), rest)

    def copy_tile(
        self, ports: RowPorts | LimbPorts | VectorPorts, p: int, area: int, shift: str, width: int, *, store: bool
    ) -> None:
        """`width` entries of a port."""
        first = self.place(self.put(f"add i64 {shift}, {area}"))
        places = [self.put(f"getelementptr {self.type.vector}, ptr {first}, i64 {k}") for k in range(width)]
        if store:
            # the rows are far apart, and nobody has read them: ask for what the tile after the next one is written to
            for pointer in ports.places(p, 2 * width, shift):
                self.do(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 1, i32 3, i32 1)")
            ports.store(p, [self.load(place) for place in places], shift)
            return
        vectors = ports.load(p, width, set(range(width)), shift)
        for k, place in enumerate(places):
            self.store(vectors[k], place)

    # ---- a short kernel: everything in one function

    def load_inputs(self, tape: Tape, ports: Ports) -> Values:
        """param -> vector for every entry that is used by itself; inputs that only feed a loop are copied row by row."""
        params: Values = {}
        single, stretches = _uses(tape)
        for p, (start, size) in enumerate(_ports(tape)):
            if tape.inputs[p].table:
                self.inputs[start] = self.input_table(tape.inputs[p], p, ports)
                continue
            ports.point(p)
            params |= {
                start + k: vector
                for k, vector in ports.load(p, size, {k - start for k in single if start <= k < start + size}).items()
            }
            for i, (of, first) in stretches.items():
                if of == p:
                    self.tables[i] = self.copy_in(
                        tape.block.nodes[i].data, p, first, ports, by_columns=self.lies_by_columns(tape.block, i)
                    )
        return params

    def input_table(self, port: Port, p: int, ports: Ports) -> Memory:
        """An input that is a table: shared by all lanes, read as it lies, or copied."""
        if port.uniform or port.run_time:
            self.owners += 1
            return Memory(port.shape[0], port.columns, port.columns, self.owners, port=p, mutable=False)
        ports.point(p)
        return self.copy_in((port.shape[0], port.columns), p, 0, ports, by_columns=False)

    def store_outputs(self, tape: Tape, ports: Ports, values: Values, plan: Cut) -> None:
        """Write the results into the rows of the outputs."""
        for p, (port, results) in self.outputs(tape):
            if port.run_time:
                continue
            ports.point(p)
            if port.table:
                self.copy_out(results[0], p, port.shape[0], ports)
            else:
                ports.store(p, [self.operand(tape.block, r, values, plan) for r in results])

    # ---- a long kernel: the same in pieces, through slots

    def load_slots(self, tape: Tape, plan: Cut) -> None:
        """Bring the inputs into the slots of the params."""
        slot = {n.data: plan.slots[i] for i, n in enumerate(tape.block.nodes) if n.op == "param"}
        single, stretches = _uses(tape)
        for p, (start, size) in enumerate(_ports(tape)):
            if tape.inputs[p].table:
                with self.piece():
                    self.inputs[start] = self.input_table(tape.inputs[p], p, self.ports())
                continue
            for first in range(0, size, self.target.group):
                width = min(self.target.group, size - first)
                wanted = {k - start - first for k in single if start + first <= k < start + first + width}
                if not wanted:
                    continue
                with self.piece():
                    ports = self.ports()
                    ports.point(p)
                    for k, vector in ports.load(p, width, wanted, str(first)).items():
                        self.store(vector, self.place(slot[start + first + k]))
            for i, (of, first) in stretches.items():
                if of == p:
                    with self.piece():
                        ports = self.ports()
                        ports.point(p)
                        self.tables[i] = self.copy_in(
                            tape.block.nodes[i].data, p, first, ports, by_columns=self.lies_by_columns(tape.block, i)
                        )

    def tiles(self, tape: Tape) -> list[tuple[int, int, list[int]]]:
        """(port, first entry, results) of the pieces of rows that are written at once."""
        out = []
        for p, (port, results) in self.outputs(tape):
            if not port.table:
                width = self.port_layout.tile_width(port.size, self.type.lanes)
                out += [(p, first, results[first : first + width]) for first in tile_starts(port.size, width)]
        return out

    def store_tiles(self, tape: Tape, tiles: list[tuple[int, int, list[int]]], values: Values, plan: Cut) -> None:
        """Write results into the outputs as soon as enough of a row is known."""
        if not tiles:
            return
        ports = self.ports()
        for p in sorted({p for p, _, _ in tiles}):
            ports.point(p)
        for p, first, group in tiles:
            ports.store(p, [self.operand(tape.block, r, values, plan) for r in group], str(first))

    def store_tables(self, tape: Tape) -> None:
        """Write the tables that are outputs."""
        for p, (port, results) in self.outputs(tape):
            if port.table and not port.run_time:
                with self.piece():
                    ports = self.ports()
                    ports.point(p)
                    self.copy_out(results[0], p, port.shape[0], ports)

    # ---- tables, row by row

    def copy_in_node(self, block: Block, i: int, port: int, first: int, ports: Ports) -> Memory:
        """The table of a node that is a stretch of an input."""
        return self.copy_in(block.nodes[i].data, port, first, ports, by_columns=self.lies_by_columns(block, i))

    def copy_in(self, size: tuple[int, int], port: int, first: int, ports: Ports, *, by_columns: bool) -> Memory:
        """A table that is a stretch of an input, copied so that the lanes of an entry lie side by side."""
        rows, columns = size
        memory = self.new_table(rows, columns, by_columns=by_columns)
        row, close = self.counted(rows)
        shift = self.put(f"add i64 {self.put(f'mul i64 {row}, {columns}')}, {first}")
        vectors = ports.load(port, columns, set(range(columns)), shift)
        for c in range(columns):
            self.put_entry(memory, RowIndex(row), c, vectors[c])
        close()
        return memory

    def copy_out(self, table: int, port: int, count: int, ports: Ports) -> None:
        """A table that is an output."""
        row, close = self.counted(count)
        vectors = self.read_rows([self.tables[table]], RowIndex(row))
        ports.store(port, vectors, self.put(f"mul i64 {row}, {len(vectors)}"))
        close()


def _ports(tape: Tape) -> list[tuple[int, int]]:
    """(first param, size) of each input."""
    starts = [sum(p.params for p in tape.inputs[:k]) for k in range(len(tape.inputs))]
    return [(start, p.size) for start, p in zip(starts, tape.inputs, strict=True)]


def _uses(tape: Tape) -> tuple[set[int], dict[int, tuple[int, int]]]:
    """(params that are used by themselves, table -> (input, first entry) of tables that are a stretch of an input)."""
    nodes = tape.block.nodes
    stretches = {i: where for i, n in enumerate(nodes) if n.op == "table" and (where := _stretch(tape, n)) is not None}
    used = {a for i, n in enumerate(nodes) if i not in stretches for a in n.args} | set(tape.block.results)
    return {nodes[i].data for i in used if nodes[i].op == "param"}, stretches


def _stretch(tape: Tape, table: Node) -> tuple[int, int] | None:
    """(input, first entry) of a table that is a stretch of one input as it lies in memory; None for any other table."""
    nodes = tape.block.nodes
    params = [nodes[a].data if nodes[a].op == "param" else None for a in table.args]
    if params[0] is None or params != list(range(params[0], params[0] + len(params))):
        return None
    first: int = params[0]
    for p, port in enumerate(tape.inputs):
        if first < port.params:
            return (p, first) if first + len(params) <= port.params else None
        first -= port.params
    return None
