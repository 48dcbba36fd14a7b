"""A lowered tape as PTX: one kernel of an NVIDIA GPU, in which each thread computes one state of the batch, or one limb of it.

    .entry kernel(ports, states, rows)      ports: address, bytes from state to state, bytes from entry to entry, of each port

The instructions are those of the operation table (ops.py): IEEE 754, never contracted, so the bits are those of every other
backend. Numbers live in registers, tables in local memory, tables of constants in global memory. A loop stays a loop; a thread
leaves it when its own state is done.

Of a tape with limbs (limbs.py), as many neighbouring threads as there are limbs compute a state: each the numbers of its limb,
and all of them those of the whole robot. Numbers of other limbs are exchanged between the threads of a warp, which stay together:
a warp leaves a loop when all its states are done. The warps of a block begin each step of a rollout together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial

from condyle.errors import BackendError
from condyle.tape.affine import Affine, Range, affine_offset, body_counters, counter_range, used_as_numbers
from condyle.tape.captured import Captured, CapturedMemory, is_iteration
from condyle.tape.dead_code import dead_code
from condyle.tape.lane_stores import LaneStore, lane_stores
from condyle.tape.lean import FAST, is_condition
from condyle.tape.limbs import lanes_of
from condyle.tape.ops import ELEMENTARY, OPS
from condyle.tape.passes import operations_used
from condyle.tape.ptx_writer import ALL, REGISTERS, Column, PtxTable, PtxWriter
from condyle.tape.staging import SYNC, Stage
from condyle.tape.tape import RUN_TIME, Block, Loop, Tape, by_port, last_uses, limb_counts

VERSION, ENTRY = "7.8", "kernel"
THREADS, LIMB_THREADS = 128, 256  # of a block, at most; with limbs all that a multiprocessor has registers for are of one block
WORDS = 3  # of each port: address, bytes from state to state, bytes from entry to entry
MOST_REGISTERS = 255  # of a thread
TOGETHER = 32  # sums over limbs that are made at once, at most
LOCAL = 480 * 1024  # bytes of local memory that a thread can have, about

Value = str | Callable[[], str]  # a register or constant, or what loads it when it is first used


def ptx_source(
    tape: Tape,
    precision: str,
    *,
    sm: int = 70,
    strided: Collection[int] = (),
    staged: Collection[int] = (),
) -> str:
    """PTX text of a lowered tape, for GPUs of compute capability `sm` / 10 and newer.

    `strided`: the ports, inputs before outputs, whose entries lie at equal distances, such as states side by side; those of the
    others lie one after the other. `staged`: those of them whose rows pass through shared memory (staging.py).
    """
    return PtxKernel(tape, precision, sm, strided=strided, staged=staged).source()


def block_threads(lanes: int) -> int:
    """Threads of a block of a kernel with so many threads for each state, at most."""
    return LIMB_THREADS if lanes > 1 else THREADS


def in_order(block: Block, done: int | None) -> list[int]:
    """The nodes of a block, with what decides whether a loop has ended before the rest of its body."""
    if done is None:
        return list(range(len(block.nodes)))
    first, waiting = {done}, [done]
    while waiting:
        for a in block.nodes[waiting.pop()].args:
            if a not in first:
                first.add(a)
                waiting.append(a)
    return [*sorted(first), *[i for i in range(len(block.nodes)) if i not in first]]


@dataclass(frozen=True)
class PortEntry:
    """An entry of an input, loaded when it is first used."""

    kernel: PtxKernel
    column: Column
    entry: int

    def __call__(self) -> str:
        return self.kernel.load(self.column, self.entry)


class PtxKernel(PtxWriter):
    """One kernel being written: the blocks and loops of a tape."""

    def __init__(
        self, tape: Tape, precision: str, sm: int, *, strided: Collection[int] = (), staged: Collection[int] = ()
    ) -> None:
        if missing := ", ".join(sorted(operations_used(tape.block).intersection(ELEMENTARY))):
            raise BackendError(f"{tape.name}: PTX has exact operations only; lower {missing} first (passes.lower)")
        super().__init__(precision, lanes_of(tape.block))
        self.tape, self.strided = tape, strided
        self.written: dict[str, list[Column]] = {}  # where each loop writes its columns, by its place in the tape
        self.direct: dict[tuple[str, int], Column] = {}  # (loop, column written) -> place in an output
        self.state, self.sm, self.threads = "", sm, block_threads(self.lanes)
        self.captured, self.rare = CapturedMemory(self, sm) if self.lanes > 1 else None, False  # rare: inside of a condition
        self.together = self.lanes > 1  # whether all warps of a block repeat what is being written equally often
        self.stage, self.finish = Stage(self, staged) if staged else None, ""
        self._function(dead_code(tape.block))
        if self.local > LOCAL:
            raise BackendError(
                f"{tape.name}: its tables need {self.local // 1024} kB of memory for each state, and a GPU gives a thread about "
                f"{LOCAL // 1024} kB; use backend 'cpu', or fewer rows"
            )

    def source(self) -> str:
        """The whole module."""
        words = WORDS * (len(self.tape.inputs) + len(self.tape.outputs))
        head = [f".version {VERSION}", f".target sm_{self.sm}", ".address_size 64", *self.globals]
        if self.constants:
            head.append(f".const .align 8 .f64 numbers[{len(self.constants)}] = {{{', '.join(self.constants)}}};")
        if self.stage is not None:
            head.append(".extern .shared .align 16 .b8 stage[];")
        if self.captured is not None:
            head += self.captured.finish()
            numbers = [x for row in self.limb_constants for x in row] or [self.number(0.0)]
            head.append(f".global .align 8 .{self.type} limbs[{len(numbers)}] = {{{', '.join(numbers)}}};")
        entry = f".visible .entry {ENTRY}(.param .align 8 .b8 ports[{8 * words}], .param .u64 states, .param .u64 rows)"
        registers = [f".reg .{kind} {REGISTERS[kind]}<{n + 1}>;" for kind, n in self.counts.items()]
        limits = [f".maxntid {self.threads}"]
        if self.type == "f64" and self.lanes == 1:
            # the compiler may choose much fewer, and spill far more
            limits.append(f".maxnreg {MOST_REGISTERS}")
        return "\n".join([*head, entry, *limits, "{", *registers, *self.areas, *self.lines, "ret;", "}"]) + "\n"

    # ---- the kernel

    def _function(self, block: Block) -> None:
        self._begin()
        ports = [self.port(p, output=p >= len(self.tape.inputs)) for p in range(len(self.tape.inputs) + len(self.tape.outputs))]
        entries: list[Value] = []
        inputs: dict[int, PtxTable] = {}
        for column, port in zip(ports, self.tape.inputs, strict=False):
            if port.table:
                columns = [replace(column, stride=port.columns, offset=c) for c in range(port.columns)]
                inputs[len(entries)] = PtxTable(columns, port.shape[0], mutable=False)
                entries.append("")
            else:
                entries += [PortEntry(self, replace(column, stride=1), k) for k in range(port.size)]
        outputs = ports[len(self.tape.inputs) :]
        numbers: list[tuple[int, int, int]] = []  # (output, entry, node)
        stored: set[int] = set()
        for p, (port, results) in enumerate(by_port(self.tape.outputs, block.results)):
            if not port.table:
                numbers += [(p, k, r) for k, r in enumerate(results)]
            elif block.nodes[results[0]].op == "slice":
                _, (loop,), (first, last) = block.nodes[results[0]]
                keys = [(str(loop), c) for c in range(first, last)]
                if not any(key in self.direct for key in keys):
                    self.direct |= {key: replace(outputs[p], stride=last - first, offset=k) for k, key in enumerate(keys)}
                    stored.add(p)
        stores = lane_stores(block, numbers, self.lanes)
        for threads in [store.threads for own in stores.values() for store in own]:
            self.stores(threads)
        written = {i: [(outputs[store.port], store) for store in own] for i, own in stores.items()}
        _, tables = self.block(block, entries, inputs, {}, "", stores=written)
        for p, (port, results) in enumerate(by_port(self.tape.outputs, block.results)):
            if port.table and p not in stored:
                width = port.columns
                self.copy(tables[results[0]], [replace(outputs[p], stride=width, offset=c) for c in range(width)])
        if self.stage is not None and self.finish:
            self.do(f"{self.finish}:")
            self.do(SYNC)
            self.stage.copy(range(len(self.tape.inputs), len(ports)), back=True)

    def _begin(self) -> None:
        """The number of the thread's state; threads beyond the last state end here."""
        ids = [self.put(f"mov.u32 {{r}}, {name};", "b32") for name in ("%ctaid.x", "%ntid.x", "%tid.x")]
        wide = self.put(f"mul.wide.u32 {{r}}, {ids[0]}, {ids[1]};", "b64")
        own = self.put(f"cvt.u64.u32 {{r}}, {ids[2]};", "b64")
        self.state = self.put(f"add.u64 {{r}}, {wide}, {own};", "b64")
        states = self.put("ld.param.u64 {r}, [states];", "b64")
        self.rows = self.put("ld.param.u64 {r}, [rows];", "b64")
        if self.stage is not None:
            self.stage.begin(states)
            self.stage.copy(range(len(self.tape.inputs)), back=False)
            self.do(SYNC)
            # all threads of a warp take part in the copies
            beyond = self.put(f"setp.ge.u64 {{r}}, {self.state}, {states};", "pred")
            self.finish = self.label() if any(p >= len(self.tape.inputs) for p in self.stage.regions) else ""
            self.do(f"@{beyond} bra {self.finish};" if self.finish else f"@{beyond} ret;")
            return
        if self.lanes == 1:
            beyond = self.put(f"setp.ge.u64 {{r}}, {self.state}, {states};", "pred")
            self.do(f"@{beyond} ret;")
            return
        # a warp stays together, so threads beyond the last state compute that one again, and write nothing
        self.lane = self.put(f"and.b32 {{r}}, {ids[2]}, {self.lanes - 1};", "b32")
        self.state = self.put(f"shr.u64 {{r}}, {self.state}, {self.lanes.bit_length() - 1};", "b64")
        within = self.put(f"setp.lt.u64 {{r}}, {self.state}, {states};", "pred")
        last = self.put(f"sub.s64 {{r}}, {states}, 1;", "b64")
        self.state = self.put(f"min.u64 {{r}}, {self.state}, {last};", "b64")
        self.lane_bit, self.within = self.put(f"shl.b32 {{r}}, 1, {self.lane};", "b32"), within
        for lane in range(self.lanes):
            self.stores((lane,))
        for bit in range(self.lanes.bit_length() - 1):
            masked = self.put(f"and.b32 {{r}}, {self.lane}, {1 << bit};", "b32")
            self.lane_bits.append(self.put(f"setp.gt.u32 {{r}}, {masked}, 0;", "pred"))
        table = self.put("mov.u64 {r}, limbs;", "b64")
        self.wide_lane = self.put(f"cvt.u64.u32 {{r}}, {self.lane};", "b64")
        self.limb_base = self.put(f"mad.lo.s64 {{r}}, {self.wide_lane}, {self.bytes}, {table};", "b64")
        if self.captured is not None:
            self.captured.begin()

    def port(self, p: int, *, output: bool) -> Column:
        """Where the entries of a port lie for the thread's state."""
        if self.stage is not None and p in self.stage.regions:
            return Column(self.stage.row(p), "shared", 1, 0)
        words = [
            self.put(f"ld.param.u64 {{r}}, [ports+{8 * (WORDS * p + k)}];", "b64")
            for k in range(WORDS if p in self.strided else 2)
        ]
        address = self.put(f"cvta.to.global.u64 {{r}}, {words[0]};", "b64")
        base = self.put(f"mad.lo.s64 {{r}}, {self.state}, {words[1]}, {address};", "b64")
        return Column(base, "global" if output else "global.nc", 1, 0, words[2] if p in self.strided else None)

    def block(
        self,
        block: Block,
        params: list[Value],
        inputs: dict[int, PtxTable],
        counters: dict[int, tuple[str, Range]],
        path: str,
        *,
        done: int | None = None,
        end: str = "",
        stores: dict[int, list[tuple[Column, LaneStore]]] | None = None,
    ) -> tuple[dict[int, Value], dict[int, PtxTable]]:
        """(every value, every table) of a block; `done`, once it is known, leaves the loop around it for the label `end`.

        `inputs`: tables by param; `counters`: registers with integers and their ranges, by node; `stores`: outputs, by node.
        """
        values: dict[int, Value] = {}
        tables: dict[int, PtxTable] = {}
        used = used_as_numbers(block, {k: bounds for k, (_, bounds) in counters.items()})
        sums = [k for k, node in enumerate(block.nodes) if node.op in ("limb_sum", "limb_max")]
        for i in in_order(block, done):
            op, args, data = block.nodes[i]
            if op == "param":
                values[i] = params[data]
            elif op == "limb":
                values[i] = params[data[0]]
            elif op == "spread":
                values[i] = self.lane_entry([values[a] for a in args]) or self.spread([self.value(values, a) for a in args])
            elif op == "pick":
                # what is only written to outputs is written by its own thread
                values[i] = partial(self.picked, self.value(values, args[0]), data)
            elif op in ("limb_sum", "limb_max") and i not in values:
                self.over_limbs(block, [k for k in sums if k >= i and block.nodes[k].args[0] in values], values)
            elif op == "const":
                values[i] = self.number(data)
            elif op == "input":
                tables[i] = inputs[data[0]]
            elif op == "table":
                tables[i] = self.table([self.value(values, a) for a in args], data[1])
            elif op == "fill":
                tables[i] = self.filled(0.0 if data[0] is None else data[0], data[1], data[2])
            elif op == "reshape":
                tables[i] = self.reshaped(tables[args[0]], data)
            elif op == "update":
                tables[i] = self.writable(block, i, args[0], tables)
                row = self.row(block, data[0], args[2:], data[2], values, counters)
                self.store(tables[i].columns[data[1]], row, self.value(values, args[1]))
            elif op == "index":
                table = tables[args[0]]
                values[i] = self.load(table.columns[data[1]], self.row(block, data[0], args[1:], table.rows, values, counters))
            elif op == "loop":
                carry = self.loop_node(block, i, values, tables, counters, used, path)
                for k, later in enumerate(block.nodes):
                    if later.op == "after" and later.args[0] == i:
                        tables[k] = carry[later.data[0]]
                    elif later.op == "get" and later.args[0] == i:
                        values[k] = carry[later.data]
            elif op == "slice":
                loop = block.nodes[args[0]].data
                tables[i] = PtxTable(self.written[f"{path}{args[0]}"][data[0] : data[1]], loop.count)
            elif op in OPS:
                operands = [self.value(values, a) for a in args] if i in used else []
                values[i] = self.operation(op, operands, fast=data == FAST) if i in used else ""
            if i == done:
                self.leave(self.value(values, i), end)
            for column, store in (stores or {}).get(i, ()):
                self.store_output(column, store, values)
        return values, tables

    def store_output(self, column: Column, store: LaneStore, values: dict[int, Value]) -> None:
        """Write entries of an output."""
        numbers = [self.value(values, a) for a in store.nodes]
        number = self.spread(numbers) if len(numbers) > 1 else numbers[0]
        base = self.lane_base(column, store.step) if store.step else column.base
        self.store(replace(column, base=base, stride=1), store.first, number, store.threads)

    def store_result(self, block: Block, i: int, column: Column, row: int | str, values: dict[int, Value]) -> None:
        """Write the value of a node; of a number that was picked from a limb, by the thread of that limb."""
        op, args, data = block.nodes[i]
        if op == "pick" and column.space == "global":
            self.store(column, row, self.value(values, args[0]), (data,))
        else:
            self.store(column, row, self.value(values, i))

    def leave(self, done: str, end: str) -> None:
        """Leave a loop where its state is done; of a state with limbs, when all states of the warp are."""
        if self.lanes > 1:
            done = self.put(f"vote.sync.all.pred {{r}}, {done}, {ALL};", "pred")
        self.do(f"@{done} bra {end};")

    def value(self, values: dict[int, Value], i: int) -> str:
        """The register or constant of a node; an input is loaded when it is first used."""
        found = values[i]
        if isinstance(found, str):
            return found
        register = found()
        if not isinstance(found, Captured):
            values[i] = register
        return register

    # ---- limbs

    def lane_entry(self, values: list[Value]) -> str | None:
        """The entry of the thread's limb, of entries of one input at equal distances that nothing has loaded yet; else None."""
        if len(values) != self.lanes or not all(isinstance(x, PortEntry) for x in values):
            return None
        entries = [x for x in values if isinstance(x, PortEntry)]
        places, column = [x.entry for x in entries], entries[0].column
        step = places[1] - places[0]
        if any(x.column != column for x in entries) or places != [places[0] + k * step for k in range(self.lanes)]:
            return None
        return self.load(replace(column, stride=step, offset=places[0]), self.wide_lane)

    def over_limbs(self, block: Block, nodes: list[int], values: dict[int, Value]) -> None:
        """Sums and maxima over the limbs, for all threads of the state: of pairs, then of pairs of pairs, and so on.

        Threads wait for an exchange: those that are known by now are made together.
        """
        nodes = [k for k in nodes if k not in values][:TOGETHER]
        found = {k: self.value(values, block.nodes[k].args[0]) for k in nodes}
        for k in nodes:
            limbs = limb_counts(block)[block.nodes[k].args[0]]
            if block.nodes[k].op == "limb_sum" and limbs < self.lanes:
                own = self.put(f"setp.lt.u32 {{r}}, {self.lane}, {limbs};", "pred")
                found[k] = self.put(f"selp.{self.type} {{r}}, {found[k]}, {self.number(-0.0)}, {own};", self.type)
        for stage, bit in enumerate(self.lane_bits):
            others = {k: self.exchanged("bfly", found[k], 1 << stage, 31) for k in nodes}
            for k in nodes:
                x, other = found[k], others[k]
                if block.nodes[k].op == "limb_sum":
                    found[k] = self.operation("add", [x, other])
                    continue
                # of equal numbers the one of the later limb, as without limbs: zeros have signs
                pair = [self.put(f"selp.{self.type} {{r}}, {a}, {b}, {bit};", self.type) for a, b in ((other, x), (x, other))]
                found[k] = self.operation("max", pair)
        values |= found

    # ---- rows of tables

    def row(
        self,
        block: Block,
        row: int,
        offset: tuple[int, ...],
        rows: int,
        values: dict[int, Value],
        counters: dict[int, tuple[str, Range]],
    ) -> int | str:
        """The row `row` + offset within the rows that there are: a number, or a register."""
        if not offset:
            return row
        known = affine_offset(block, offset[0], {k: bounds for k, (_, bounds) in counters.items()})
        if known is None:
            return self.nearest_row(self.value(values, offset[0]), row, rows)
        total = self.integer(known, row, counters)
        if isinstance(total, int):
            return min(max(total, 0), rows - 1) if rows != RUN_TIME else total
        if known.low + row < 0:
            total = self.put(f"max.s64 {{r}}, {total}, 0;", "b64")
        if rows == RUN_TIME or known.high + row > rows - 1:
            total = self.put(f"min.s64 {{r}}, {total}, {self.last_row(rows)};", "b64")
        return total

    def last_row(self, rows: int) -> int | str:
        """The number of the last row."""
        return rows - 1 if rows != RUN_TIME else self.put(f"sub.s64 {{r}}, {self.rows}, 1;", "b64")

    def nearest_row(self, offset: str, row: int, rows: int) -> str:
        """row + the whole number nearest to a number, clamped; zero for NaN."""
        kind, zero = self.type, self.number(0.0)
        nearest = self.operation("rint", [offset])
        valid = self.put(f"setp.num.{kind} {{r}}, {nearest}, {nearest};", "pred")
        nearest = self.put(f"selp.{kind} {{r}}, {nearest}, {zero}, {valid};", kind)
        if row:
            nearest = self.operation("add", [nearest, self.number(float(row))])
        last = self.number(rows - 1.0)
        for compare, bound in (("gt", zero), ("lt", last)):
            within = self.put(f"setp.{compare}.{kind} {{r}}, {nearest}, {bound};", "pred")
            nearest = self.put(f"selp.{kind} {{r}}, {nearest}, {bound}, {within};", kind)
        return self.put(f"cvt.rzi.s64.{kind} {{r}}, {nearest};", "b64")

    def integer(self, known: Affine, more: int, counters: dict[int, tuple[str, Range]]) -> int | str:
        """A sum of multiples of counters, and `more`."""
        total: int | str = known.constant + more
        for node, factor in known.terms.items():
            total = self.put(f"mad.lo.s64 {{r}}, {counters[node][0]}, {factor}, {total};", "b64")
        return total

    def derived_counter(self, block: Block, counters: dict[int, tuple[str, Range]], node: int) -> tuple[str, Range] | None:
        """A sum of multiples of counters as a counter; None for anything else."""
        known = affine_offset(block, node, {k: bounds for k, (_, bounds) in counters.items()})
        if known is None or not known.terms:
            return None
        return str(self.integer(known, 0, counters)), (known.low, known.high)

    # ---- tables

    def writable(self, block: Block, i: int, table: int, tables: dict[int, PtxTable]) -> PtxTable:
        """The table, or a copy of it if node i must not write into it: it is read later, or it is not ours."""
        given, last = tables[table], last_uses(block)
        overlapping = [t for t, other in tables.items() if other.bases & given.bases]
        uses = [a for a in block.nodes[i].args if a in overlapping]
        if given.mutable and len(uses) == 1 and all(last.get(t, -1) <= i for t in overlapping):
            return given
        own = self.new_table(given.rows, len(given.columns))
        self.copy(given, own.columns)
        return own

    # ---- loops

    def loop_node(
        self,
        block: Block,
        i: int,
        values: dict[int, Value],
        tables: dict[int, PtxTable],
        counters: dict[int, tuple[str, Range]],
        used: set[int],
        path: str,
    ) -> list[str | PtxTable]:
        """Write a loop; returns the carried values after it, numbers in registers and tables."""
        loop: Loop = block.nodes[i].data
        start, read, captured = loop.split(block.nodes[i].args)
        carry: list[str | PtxTable] = []
        for a in start:
            if a in tables:
                carry.append(self.writable(block, i, a, tables))
            else:
                carry.append(self.put(f"mov.{self.type} {{r}}, {self.value(values, a)};", self.type))
        if self.captured is not None and not self.rare:
            self.captured.keep(block, loop, captured, values)
        outside: list[Value | PtxTable] = []
        for a in captured:
            if a in tables:
                outside.append(replace(tables[a], mutable=False))
            elif isinstance(kept := values.get(a), Captured):
                outside.append(kept.elsewhere())
            else:
                # loaded and computed before the loop, whatever happens inside
                outside.append(self.value(values, a) if a in used else "")
        count, counter = self.count(loop.count), self.register("b64")
        known = body_counters(
            loop, captured, counters, (counter, counter_range(loop)), partial(self.derived_counter, block, counters)
        )
        before = self.rare, self.together
        self.rare, self.together = self.rare or is_condition(loop), self.together and not loop.exits
        self._loop(loop, carry, [tables[t] for t in read], outside, known, (count, counter), f"{path}{i}")
        self.rare, self.together = before
        return carry

    def _loop(
        self,
        loop: Loop,
        carry: list[str | PtxTable],
        read: list[PtxTable],
        outside: list[Value | PtxTable],
        counters: dict[int, tuple[str, Range]],
        counting: tuple[int | str, str],
        here: str,
    ) -> None:
        (count, counter), body = counting, loop.body
        written = self.written[here] = self.columns_written(loop, here)
        first_row = f"mov.u64 {counter}, 0;"
        if loop.reverse:
            first_row = f"sub.s64 {counter}, {count}, 1;" if isinstance(count, str) else f"mov.u64 {counter}, {count - 1};"
        self.do(first_row)
        begin, end = self.label(), self.label()
        self.do(f"{begin}:")
        if self.together and any(node.op == "loop" and is_iteration(node.data) for node in body.nodes):
            # warps that are at the same place share the instructions that are fetched
            self.do("bar.sync 0;")
        needed = {n.data for n in body.nodes if n.op == "param"}
        first = 1 + loop.carries + loop.reads
        entries = [column for table in read for column in table.columns]
        params: list[Value] = [""] * (first + len(outside))
        if 0 in needed:
            params[0] = partial(self.put, f"cvt.rn.{self.type}.s64 {{r}}, {counter};", self.type)
        for j, x in enumerate(carry):
            params[1 + j] = x if isinstance(x, str) else ""
        for k, column in enumerate(entries):
            if 1 + loop.carries + k in needed:
                params[1 + loop.carries + k] = self.load(column, counter)
        for j, value in enumerate(outside):
            params[first + j] = "" if isinstance(value, PtxTable) else value
        inputs = {1 + j: x for j, x in enumerate(carry) if isinstance(x, PtxTable)}
        inputs |= {first + j: x for j, x in enumerate(outside) if isinstance(x, PtxTable)}
        values, made = self.block(body, params, inputs, counters, f"{here}_", done=loop.done, end=end)
        for c, column in enumerate(written):
            self.store_result(body, body.results[loop.carries + c], column, counter, values)
        self.move({x: self.value(values, body.results[j]) for j, x in enumerate(carry) if isinstance(x, str)})
        self.carry_tables([(made[body.results[j]], x) for j, x in enumerate(carry) if isinstance(x, PtxTable)])
        if count == 1:
            self.do(f"{end}:")
            return
        self.do(f"add.s64 {counter}, {counter}, {-1 if loop.reverse else 1};")
        more = f"setp.ge.s64 {{r}}, {counter}, 0;" if loop.reverse else f"setp.lt.s64 {{r}}, {counter}, {count};"
        self.do(f"@{self.put(more, 'pred')} bra {begin};")
        self.do(f"{end}:")

    def columns_written(self, loop: Loop, here: str) -> list[Column]:
        """Outputs that a loop writes as it goes, and for what remains a table of its own."""
        own = [c for c in range(loop.writes) if (here, c) not in self.direct]
        if own and loop.count == RUN_TIME:
            raise BackendError(f"{self.tape.name}: rows whose number is known at run time are written to outputs only")
        base = self.area(loop.count * len(own)) if own else ""
        return [self.direct.get((here, c)) or Column(base, "local", len(own), own.index(c)) for c in range(loop.writes)]

    def move(self, pairs: dict[str, str]) -> None:
        """Give registers their next values, all at once."""
        late = {target: source for target, source in pairs.items() if source in pairs and source != target}
        saved = {source: self.put(f"mov.{self.type} {{r}}, {source};", self.type) for source in dict.fromkeys(late.values())}
        for target, source in pairs.items():
            if source != target:
                self.do(f"mov.{self.type} {target}, {saved.get(source, source)};")

    def carry_tables(self, moves: list[tuple[PtxTable, PtxTable]]) -> None:
        """Bring the tables that an iteration gave into the memory of the carried ones."""
        carried = {base for _, old in moves for base in old.bases}
        moves = [(new, old) for new, old in moves if new.columns != old.columns]
        for k, (new, old) in enumerate(moves):
            if new.bases & carried:  # it lies where another one is about to be written
                apart = self.new_table(new.rows, len(new.columns))
                self.copy(new, apart.columns)
                moves[k] = apart, old
        for new, old in moves:
            self.copy(new, old.columns)
