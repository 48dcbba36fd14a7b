"""A lowered tape as C99: one function for one state, without dependencies, allocation or memory of its own.

It follows the tape: value %12 of the listing without dead code is `x12`, and `x7_3` is value %3 in the body of the loop %7.
Constants, entries of inputs, and short values that are used once are written where they are used.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from condyle.errors import BackendError
from condyle.tape.affine import Affine, Range, affine_offset, body_counters, counter_range, used_as_numbers
from condyle.tape.dead_code import dead_code
from condyle.tape.export.c_frame import FRAME_END, frame, helper, identifier, literal
from condyle.tape.ops import BOOL, ELEMENTARY, INT, OPS, REAL
from condyle.tape.passes import operations_used
from condyle.tape.tape import RUN_TIME, Block, Loop, Node, Tape, by_port, last_uses

COPIED = 4  # entries in a row that are worth a loop
LONGEST = 200  # letters of an expression that is written where it is used
STACK = 64 * 1024  # bytes of local tables; beyond that the caller provides the memory


def c_source(tape: Tape, precision: str = "f64", name: str | None = None) -> str:
    """C99 source of `void NAME(const double *q, ..., double *out, ...)`; of float for the precision "f32".

    One pointer per port, the arrays flattened row after row. When local tables need more than 64 KiB, one more argument
    `work` points to NAME_WORK numbers of scratch memory.
    """
    kernel = CFunction(tape, precision, name)
    lines = [kernel.comment(), *frame(kernel.helpers, kernel.words), *kernel.macro()]
    for op in sorted(kernel.helpers):
        lines += helper(op, kernel.single)
    lines += [f"{kernel.prototype('restrict ')}", "{", *kernel.lines, "}", *FRAME_END]
    return "\n".join(lines) + "\n"


def c_header(tape: Tape, precision: str = "f64", name: str | None = None) -> str:
    """The header that goes with `c_source`, for C and C++."""
    kernel = CFunction(tape, precision, name)
    guard = f"{kernel.name.upper()}_H"
    lines = [kernel.comment(), f"#ifndef {guard}", f"#define {guard}", "", *kernel.macro()]
    lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", "", f"{kernel.prototype('')};", ""]
    lines += ["#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {guard} */"]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Column:
    """Where a column of a table lies: its entry of row r is `array[stride * r + offset]`."""

    array: str
    stride: int
    offset: int

    def entry(self, row: int) -> str:
        """The entry of a row."""
        return f"{self.array}[{self.stride * row + self.offset}]"

    def along(self, counter: str) -> str:
        """The entry of the row that an integer of C gives."""
        if counter.isdigit():
            return self.entry(int(counter))
        scaled = counter if self.stride == 1 else f"{self.stride} * {counter}"
        return f"{self.array}[{scaled} + {self.offset}]" if self.offset else f"{self.array}[{scaled}]"


@dataclass(frozen=True)
class CTable:
    """A table: its columns, its number of rows, and whether it may be written to."""

    columns: list[Column]
    rows: int
    mutable: bool = True

    @property
    def arrays(self) -> set[str]:
        """The arrays in which it lies."""
        return {column.array for column in self.columns}

    @property
    def contiguous(self) -> bool:
        """Whether it is one stretch of memory, row after row."""
        first = self.columns[0]
        return self.columns == [Column(first.array, len(self.columns), first.offset + c) for c in range(len(self.columns))]


class CFunction:
    """One function being written: its lines, and what has to stand around them."""

    def __init__(self, tape: Tape, precision: str, name: str | None) -> None:
        if missing := ", ".join(sorted(operations_used(tape.block).intersection(ELEMENTARY))):
            raise BackendError(f"{tape.name}: C has exact operations only; lower {missing} first (passes.lower)")
        self.tape = tape
        self.single = {"f64": False, "f32": True}[precision]
        self.real, self.suffix = ("float", "f") if self.single else ("double", "")
        self.lines: list[str] = []
        self.helpers: set[str] = set()
        self.literals: set[str] = set()
        self.words = False  # whether there are operations on words
        self.areas: list[tuple[int, str, str, int]] = []  # tables in memory: line, indent, name, entries
        self.direct: dict[tuple[str, int], Column] = {}  # (loop, column written) -> place in an output
        taken = {"work", "rows"}
        self.run_time = any(port.run_time for port in tape.inputs)
        self.name = identifier(name or tape.name, taken)
        self.inputs, self.outputs = ([identifier(p.name, taken) for p in side] for side in (tape.inputs, tape.outputs))
        self._function(dead_code(tape.block))
        self.work = self._place_areas()

    # ---- around the function

    def prototype(self, restrict: str) -> str:
        """The declaration, without its semicolon."""
        arguments = [f"const {self.real} *{restrict}{name}" for name in self.inputs]
        arguments += [f"{self.real} *{restrict}{name}" for name in self.outputs]
        arguments += ["size_t rows"] if self.run_time else []
        arguments += [f"{self.real} *{restrict}work"] if self.work else []
        return f"void {self.name}({', '.join(arguments)})"

    def macro(self) -> list[str]:
        """The size of the scratch memory, if the caller provides it."""
        return [f"#define {self.name.upper()}_WORK {self.work}", ""] if self.work else []

    def comment(self) -> str:
        """What the function computes, how to call it, and how to compile it."""
        width = max([len(name) for name in (*self.inputs, *self.outputs)], default=0)
        lines = [f"{self.name}: one state, in {self.real}. No two arrays may overlap; matrices lie row after row.", ""]
        for side, ports, names in (("in ", self.tape.inputs, self.inputs), ("out", self.tape.outputs, self.outputs)):
            for port, name in zip(ports, names, strict=True):
                axes = ["rows" if port.run_time and k == 0 else str(n) for k, n in enumerate(port.shape)]
                shape = " x ".join(axes) or "one number"
                called = "" if name == port.name else "  (" + ascii(port.name).replace("*/", "* /") + ")"
                lines.append(f"  {side}  {name:{width}}  {shape}{called}")
        if self.run_time:
            lines.append("  rows: how many there are")
        if self.work:
            lines.append(f"  work: scratch memory, {self.name.upper()}_WORK numbers, whose contents do not matter")
        lines += [
            "",
            f"Compile with  cc -std=c99 -O2 -ffp-contract=off -c {self.name}.c  and link with -lm. Any -O and -march",
            "give the same bits; -ffast-math does not, and is refused. The rounding mode must be to nearest, with",
            "subnormal numbers on, as it is when a program starts.",
            f"Tape {self.tape.hash}",
        ]
        return "\n".join(["/*", *[f" * {line}".rstrip() for line in lines], " */"])

    # ---- the function

    def _function(self, block: Block) -> None:
        entries: list[str] = []
        inputs: dict[int, CTable] = {}
        for port, name in zip(self.tape.inputs, self.inputs, strict=True):
            if port.table:
                columns = [Column(name, port.columns, c) for c in range(port.columns)]
                inputs[len(entries)] = CTable(columns, port.shape[0], mutable=False)
            entries += [""] if port.table else [f"{name}[{k}]" for k in range(port.size)]
        stored = self._outputs_of_loops(block)
        values, tables = self.block(block, entries, inputs, {}, "", "    ")
        for name, (port, results) in zip(self.outputs, by_port(self.tape.outputs, block.results), strict=True):
            if not port.table:
                self.lines += [f"    {name}[{k}] = {values[r]};" for k, r in enumerate(results)]
            elif name not in stored:
                width = port.columns
                self.copy(tables[results[0]], [Column(name, width, c) for c in range(width)], "    ")
        text = "\n".join(self.lines)
        unused = [name for name in (*self.inputs, *self.outputs) if not re.search(rf"\b{name}\b", text)]
        self.lines += [f"    (void){name};" for name in unused]

    def _outputs_of_loops(self, block: Block) -> set[str]:
        """Outputs that a loop writes as it goes: tables whose columns no other output has claimed."""
        stored = set()
        for name, (port, results) in zip(self.outputs, by_port(self.tape.outputs, block.results), strict=True):
            if not port.table or block.nodes[results[0]].op != "slice":
                continue
            _, (loop,), (first, last) = block.nodes[results[0]]
            keys = [(f"{loop}", c) for c in range(first, last)]
            if not any(key in self.direct for key in keys):
                self.direct |= {key: Column(name, last - first, k) for k, key in enumerate(keys)}
                stored.add(name)
        return stored

    def copy(self, source: CTable, target: list[Column], indent: str) -> None:
        """Copy a table, row after row."""
        self.lines.append(f"{indent}for (size_t i = 0; i < {_count(source.rows)}; ++i) {{")
        if len(target) > 1 and _side_by_side(target) and _side_by_side(source.columns):
            here, there = (f"{c.array}[{c.stride} * i + {c.offset} + j]" for c in (target[0], source.columns[0]))
            self.lines.append(f"{indent}    for (size_t j = 0; j < {len(target)}; ++j) {here} = {there};")
        else:
            for each, column in zip(target, source.columns, strict=True):
                self.lines.append(f"{indent}    {each.along('i')} = {column.along('i')};")
        self.lines.append(f"{indent}}}")

    def block(
        self,
        block: Block,
        params: list[str],
        inputs: dict[int, CTable],
        counters: dict[int, tuple[str, Range]],
        path: str,
        indent: str,
        fresh: int = 0,
        done: int | None = None,
        carries: int = 0,
    ) -> tuple[dict[int, str], dict[int, CTable]]:
        """(text of every value, every table) of a block; the first `fresh` params become variables, and `done`, once it is known,
        ends the loop around the block. `inputs`: tables by param; `counters`: integers and their ranges, by node."""
        values: dict[int, str] = {}
        tables: dict[int, CTable] = {}
        used = used_as_numbers(block, {k: bounds for k, (_, bounds) in counters.items()})
        once = used_once(block, carries) - {done}
        for i, node in enumerate(block.nodes):
            op, args, data = node
            here = f"{path}{i}"
            if op == "param":
                own = data < fresh and i in used and i not in once
                values[i] = self.variable(f"x{here}", params[data], indent) if own else params[data]
            elif op == "const":
                values[i] = literal(data, self.single)
                self.literals.add(values[i])
            elif op == "input":
                tables[i] = inputs[data[0]]
            elif op == "table":
                tables[i] = self.table([values[a] for a in args], data[1], here, indent)
            elif op == "fill":
                tables[i] = self.new_table(data[1], data[2], here, indent)
                number = literal(0.0 if data[0] is None else data[0], self.single)
                self.lines.append(f"{indent}for (size_t i = 0; i < {data[1] * data[2]}; ++i) t{here}[i] = {number};")
            elif op == "reshape":
                tables[i] = self.reshaped(tables[args[0]], data, here, indent)
            elif op == "update":
                tables[i] = self.writable(block, i, args[0], tables, here, indent)
                row = self.row(block, data[0], args[2:], data[2], values, counters)
                self.lines.append(f"{indent}{tables[i].columns[data[1]].along(row)} = {values[args[1]]};")
            elif op == "index":
                table = tables[args[0]]
                text = table.columns[data[1]].along(self.row(block, data[0], args[1:], table.rows, values, counters))
                values[i] = self.variable(f"x{here}", text, indent) if table.mutable else text
            elif op == "loop":
                start, read, captured = data.split(args)
                carry = [
                    self.writable(block, i, a, tables, f"{here}_s{j}", indent) if a in tables else values[a]
                    for j, a in enumerate(start)
                ]
                outside = [replace(tables[a], mutable=False) if a in tables else values[a] for a in captured]
                own = (f"i{here}", counter_range(data))
                known = body_counters(data, captured, counters, own, partial(self.derived_counter, block, counters))
                self.loop(data, carry, [tables[t] for t in read], outside, known, here, indent)
                for k, later in enumerate(block.nodes):
                    if later.op == "after" and later.args[0] == i:
                        tables[k] = carry[later.data[0]]
            elif op == "get":
                values[i] = f"c{path}{args[0]}_{data}"
            elif op == "slice":
                loop = block.nodes[args[0]].data
                tables[i] = CTable(self.written(loop, f"{path}{args[0]}")[data[0] : data[1]], loop.count)
            elif op in OPS and i not in used:
                values[i] = ""
            elif op in OPS:
                values[i] = self.operation(node, [values[a] for a in args], here, indent, inline=i in once)
            if i == done:
                self.lines.append(f"{indent}if ({values[i]}) break;")
        return values, tables

    def row(
        self,
        block: Block,
        row: int,
        offset: tuple[int, ...],
        rows: int,
        values: dict[int, str],
        counters: dict[int, tuple[str, Range]],
    ) -> str:
        """The row `row` + offset, as an integer of C within the rows that there are."""
        if not offset:
            return str(row)
        known = affine_offset(block, offset[0], {k: bounds for k, (_, bounds) in counters.items()})
        if known is None:
            self.helpers.add("row")
            return f"cd_row{self.suffix}({values[offset[0]]}, {row}, {rows})"
        inside = known.low + row >= 0 and known.high + row < rows
        text = self.integer(known, row, counters, signed=not inside)
        if inside:
            return text
        self.helpers.add("clamp")
        return f"cd_clamp({text}, {rows})"

    def integer(self, known: Affine, more: int, counters: dict[int, tuple[str, Range]], *, signed: bool) -> str:
        """A sum of multiples of counters, and `more`, as an integer of C."""
        shift = known.constant + more
        if not known.terms:
            return str(shift)
        if not signed and all(factor > 0 for factor in known.terms.values()) and shift >= 0:
            terms = [counters[k][0] if factor == 1 else f"{factor} * {counters[k][0]}" for k, factor in known.terms.items()]
            return f"({' + '.join([*terms, *([str(shift)] if shift else [])])})"
        terms = [f"{factor} * (ptrdiff_t){counters[k][0]}" for k, factor in known.terms.items()]
        return f"({' + '.join([*terms, str(shift)])})"

    def derived_counter(self, block: Block, counters: dict[int, tuple[str, Range]], node: int) -> tuple[str, Range] | None:
        """A sum of multiples of counters as a counter; None for anything else."""
        known = affine_offset(block, node, {k: bounds for k, (_, bounds) in counters.items()})
        if known is None or not known.terms:
            return None
        return self.integer(known, 0, counters, signed=known.low < 0), (known.low, known.high)

    def new_table(self, rows: int, columns: int, here: str, indent: str) -> CTable:
        """A table in memory of its own."""
        self.area(f"t{here}", rows * columns, indent)
        return CTable([Column(f"t{here}", columns, c) for c in range(columns)], rows)

    def reshaped(self, table: CTable, size: tuple[int, int], here: str, indent: str) -> CTable:
        """The same entries in rows of another length, copied if they do not lie side by side."""
        if not table.contiguous:
            source, table = table, self.new_table(table.rows, len(table.columns), here, indent)
            self.copy(source, table.columns, indent)
        first = table.columns[0]
        return replace(table, columns=[Column(first.array, size[1], first.offset + c) for c in range(size[1])], rows=size[0])

    def writable(self, block: Block, i: int, table: int, tables: dict[int, CTable], here: str, indent: str) -> CTable:
        """The table, or a copy of it if node i must not write into it: it is read later, or it is not ours."""
        given, last = tables[table], last_uses(block)
        overlapping = [t for t, other in tables.items() if other.arrays & given.arrays]
        uses = [a for a in block.nodes[i].args if a in overlapping]
        if given.mutable and len(uses) == 1 and all(last.get(t, -1) <= i for t in overlapping):
            return given
        own = self.new_table(given.rows, len(given.columns), here, indent)
        self.copy(given, own.columns, indent)
        return own

    def operation(self, node: Node, operands: list[str], here: str, indent: str, *, inline: bool) -> str:
        """An arithmetic operation: its variable, or if it is to be written where it is used and short enough, its text."""
        op = OPS[node.op]
        assert op.c is not None
        # a compiler may warn about arithmetic on literals alone
        if all(x in self.literals for x in operands):
            operands[0] = self.variable(f"k{here}", operands[0], indent, self.kind(op.takes[0]))
        form = re.sub(r"\b(cd_\w+)\(", r"\1{f}(", op.c)
        if form != op.c:
            self.helpers.add(node.op)
        text = form.format(f=self.suffix, real=self.real, **dict(zip("abc", operands, strict=False)))
        self.words |= INT in (op.gives, *op.takes)
        if inline and len(text) <= LONGEST:
            return text if re.fullmatch(r"[\w{}]+\([^()]*\)", form) else f"({text})"
        return self.variable(f"x{here}", text, indent, self.kind(op.gives))

    def kind(self, kind: str) -> str:
        """The type of a value of the tape."""
        return {BOOL: "int", INT: "uint32_t"}.get(kind, self.real)

    def variable(self, name: str, text: str, indent: str, kind: str | None = None) -> str:
        """Write `const double name = text;` and return the name."""
        self.lines.append(f"{indent}const {kind or self.real} {name} = {text};")
        return name

    # ---- loops and tables

    def loop(
        self,
        loop: Loop,
        start: list[Any],
        tables: list[CTable],
        captured: list[Any],
        counters: dict[int, tuple[str, Range]],
        here: str,
        indent: str,
    ) -> None:
        """Write a loop. Its carried numbers are variables that change only when all the next ones are known."""
        counter, inside = f"i{here}", indent + "    "
        numbers = {j: f"c{here}_{j}" for j, x in enumerate(start) if isinstance(x, str)}
        declared = [f"{name} = {start[j]}" for j, name in numbers.items()]
        self.lines += [f"{indent}{self.real} {line};" for line in _joined(declared, ", ")]
        written = self.written(loop, here)
        if any(column.array == f"w{here}" for column in written):
            entries = loop.count * sum(column.array == f"w{here}" for column in written)
            self.area(f"w{here}", entries, indent)
        if loop.reverse:
            self.lines.append(f"{indent}for (size_t {counter} = {_count(loop.count)}; {counter}-- > 0;) {{")
        else:
            self.lines.append(f"{indent}for (size_t {counter} = 0; {counter} < {_count(loop.count)}; ++{counter}) {{")
        rows = [column.along(counter) for table in tables for column in table.columns]
        first = 1 + loop.carries + loop.reads
        params = [f"({self.real}){counter}", *[numbers.get(j, "") for j in range(loop.carries)], *rows]
        params += [x if isinstance(x, str) else "" for x in captured]
        inputs = {1 + j: x for j, x in enumerate(start) if j not in numbers}
        inputs |= {first + j: x for j, x in enumerate(captured) if isinstance(x, CTable)}
        values, made = self.block(loop.body, params, inputs, counters, f"{here}_", inside, first, loop.done, loop.carries)
        results = loop.body.results
        # the same number in several columns is one statement
        given = [(column.along(counter), values[results[loop.carries + c]]) for c, column in enumerate(written)]
        self.lines += [inside + line for line in _assignments([pair for pair in given if pair[1] not in self.literals])]
        for number in dict.fromkeys(text for _, text in given if text in self.literals):
            places = [place for place, text in given if text == number]
            self.lines += [f"{inside}{line} = {number};" for line in _joined(places, " = ")]
        self.lines += [f"{inside}{name} = {values[results[j]]};" for j, name in numbers.items()]
        self.carry_tables([(made[results[j]], x) for j, x in enumerate(start) if j not in numbers], here, inside)
        self.lines.append(f"{indent}}}")

    def carry_tables(self, moves: list[tuple[CTable, CTable]], here: str, indent: str) -> None:
        """Bring the tables that an iteration gave into the memory of the carried ones."""
        carried = {array for _, old in moves for array in old.arrays}
        moves = [(new, old) for new, old in moves if new.columns != old.columns]
        for k, (new, old) in enumerate(moves):
            if new.arrays & carried:  # it lies where another one is about to be written
                apart = self.new_table(new.rows, len(new.columns), f"{here}_m{k}", indent)
                self.copy(new, apart.columns, indent)
                moves[k] = apart, old
        for new, old in moves:
            self.copy(new, old.columns, indent)

    def written(self, loop: Loop, here: str) -> list[Column]:
        """Where a loop writes its columns: into outputs, and what remains into a table `w` of its own."""
        own = [c for c in range(loop.writes) if (here, c) not in self.direct]
        return [self.direct.get((here, c)) or Column(f"w{here}", len(own), own.index(c)) for c in range(loop.writes)]

    def table(self, entries: list[str], columns: int, here: str, indent: str) -> CTable:
        """A table of values: a stretch of memory that exists already, constants, or a local array."""
        rows = len(entries) // columns
        first = re.fullmatch(r"(\w+)\[(\d+)\]", entries[0]) if entries else None
        if first is not None and entries == [f"{first[1]}[{int(first[2]) + k}]" for k in range(len(entries))]:
            return CTable([Column(first[1], columns, int(first[2]) + c) for c in range(columns)], rows, mutable=False)
        if all(x in self.literals for x in entries):
            self.lines.append(f"{indent}static const {self.real} t{here}[{len(entries)}] = {{")
            numbers = [entries[k : k + columns] for k in range(0, len(entries), columns)]
            self.lines += [f"{indent}    {', '.join(row)}," for row in numbers]
            self.lines.append(f"{indent}}};")
            return CTable([Column(f"t{here}", columns, c) for c in range(columns)], rows, mutable=False)
        made = self.new_table(rows, columns, here, indent)
        self.lines += [f"{indent}t{here}[{k}] = {text};" for k, text in enumerate(entries)]
        return made

    def area(self, name: str, entries: int, indent: str) -> None:
        """Leave a line for a table in memory; where it lies is known when all are."""
        self.areas.append((len(self.lines), indent, name, entries))
        self.lines.append("")

    def _place_areas(self) -> int:
        """Tables as local arrays, or all in `work` if they are large; the numbers needed there."""
        total = sum(entries for *_, entries in self.areas)
        in_work = total * (4 if self.single else 8) > STACK
        at = 0
        for line, indent, name, entries in self.areas:
            place = f"*const {name} = work + {at}" if in_work else f"{name}[{entries}]"
            self.lines[line] = f"{indent}{self.real} {place};"
            at += entries
        return total if in_work else 0


def _count(rows: int) -> str:
    return "rows" if rows == RUN_TIME else str(rows)


def _joined(parts: list[str], between: str) -> list[str]:
    """The parts, as many as fit in a line."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(between) + len(part) <= LONGEST:
            lines[-1] += between + part
        else:
            lines.append(part)
    return lines


ENTRY = re.compile(r"(\w+)\[(\d+ \* )?(\w+)(?: \+ (\d+))?\]")


def _assignments(pairs: list[tuple[str, str]]) -> list[str]:
    """`place = text;` for each pair; entries that lie side by side on both sides are copied by a loop."""
    lines: list[str] = []
    k = 0
    while k < len(pairs):
        first = [ENTRY.fullmatch(x) for x in pairs[k]]
        length = 1
        if all(first):
            while k + length < len(pairs) and all(
                (at := ENTRY.fullmatch(x)) is not None
                and f is not None
                and at.groups()[:3] == f.groups()[:3]
                and int(at[4] or 0) == int(f[4] or 0) + length
                for f, x in zip(first, pairs[k + length], strict=True)
            ):
                length += 1
        if length >= COPIED:
            place, text = (f"{f[1]}[{f[2] or ''}{f[3]} + {f[4] or 0} + j]" for f in first if f is not None)
            lines.append(f"for (size_t j = 0; j < {length}; ++j) {place} = {text};")
        else:
            lines += [f"{place} = {text};" for place, text in pairs[k : k + length]]
        k += length
    return lines


def _side_by_side(columns: list[Column]) -> bool:
    first = columns[0]
    return all(c == Column(first.array, first.stride, first.offset + k) for k, c in enumerate(columns))


def used_once(block: Block, carries: int) -> set[int]:
    """The params and numbers computed in a block whose only use is in an operation, in an update, or as a result.

    The first `carries` results do not count: they are assigned to variables that the text of others may still read.
    """
    uses = Counter(block.results)
    users: dict[int, str] = dict.fromkeys(block.results[carries:], "update")
    users |= dict.fromkeys(block.results[:carries], "carry")
    for op, args, _ in block.nodes:
        uses.update(args)
        users |= dict.fromkeys(args, op)
    single = {i for i, user in users.items() if uses[i] == 1 and (user in OPS or user == "update")}
    return {i for i in single if (op := block.nodes[i].op) == "param" or (op in OPS and OPS[op].gives == REAL)}
