"""Reverse derivatives: every value with its adjoints, one per seed, from the results back to the params.

A loop runs forward once, writing down its carried values at each iteration, and then backward through what it wrote; each
iteration is recomputed from them. So the work is a small multiple of the loop's own, and the memory one row per iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from condyle.errors import TraceError
from condyle.tape.forward import Layout, chosen, place_of, rearranged, reshaped
from condyle.tape.inline import Recorder
from condyle.tape.interpret import evaluate, evaluate_nodes
from condyle.tape.limbs import unrolled
from condyle.tape.loop import _choose, columns, repeat
from condyle.tape.ops import OPS, TABLES
from condyle.tape.scalar import Scalar
from condyle.tape.sparsity import loop_backward, seeds, smooth, union
from condyle.tape.table import Table, fill_table
from condyle.tape.tape import RUN_TIME, Block, Call, Loop, Subroutine, table_size

Adjoint = dict[int, Any]  # seed -> traced scalar


@dataclass
class TableAdjoint:
    """What reaches a table: columns of other tables, which have as many rows, and single entries. Their sum is its adjoint."""

    parts: list[tuple[Table, Layout]] = field(default_factory=list)
    entries: dict[tuple[int, int], Adjoint] = field(default_factory=dict)  # (row, column) -> adjoint

    def __bool__(self) -> bool:
        return bool(self.parts or self.entries)

    def masks(self, columns: int) -> list[int]:
        """The seeds of each column."""
        keys = {key for _, place in self.parts for key in place} | {(c, s) for (_, c), each in self.entries.items() for s in each}
        return [sum(1 << s for k, s in keys if k == c) for c in range(columns)]

    def add_entry(self, adjoint: Adjoint, size: tuple[int, int], row: int, column: int, offset: Any = None) -> None:
        """Add to the adjoint of one entry of a table (rows, columns)."""
        if offset is None:
            _accumulate(self.entries.setdefault((row, column), {}), adjoint)
        elif adjoint:
            table, place = self.sum(size, [1 << s for s in adjoint], column)
            for s, g in adjoint.items():
                k = place[column, s]
                table = table.with_entry(table.entry(row, k, offset) + g, row, k, offset)
            self.parts = [(table, place)]

    def entry(self, size: tuple[int, int], row: int, column: int, offset: Any = None) -> Adjoint:
        """The adjoint of one entry of a table (rows, columns)."""
        total: Adjoint = {}
        if offset is not None and self.entries:
            self.sum(size)
        for table, place in self.parts:
            _accumulate(total, {s: table.entry(row, k, offset) for (c, s), k in place.items() if c == column})
        if offset is None:
            _accumulate(total, self.entries.get((row, column), {}))
        return total

    def sum(self, size: tuple[int, int], more: Sequence[int] = (), column: int = 0) -> tuple[Table, Layout]:
        """All parts and entries as one part, with places for more seeds of a column."""
        masks = self.masks(size[1])
        masks[column] |= union(more)
        place = place_of(masks)
        self.parts = [(self.as_table(size, place), place)]
        self.entries = {}
        return self.parts[0]

    def as_table(self, size: tuple[int, int], place: Layout) -> Table:
        """The adjoint as one table with the columns of `place`, of which there is at least one."""
        if len(self.parts) > 1:
            given = self.parts

            def body(i: Scalar, carry: list[Any], row: list[Scalar]) -> tuple[list[Any], list[Any]]:
                total: Adjoint = {}
                at = 0
                for table, columns_of in given:
                    _accumulate(total, {place[key]: row[at + k] for key, k in columns_of.items()})
                    at += table.columns
                return [], [total.get(k, 0.0) for k in range(len(place))]

            table = repeat(size[0], [], [t for t, _ in given], body)[1]
        else:
            given_table, given_place = self.parts[0] if self.parts else (None, {})
            table = rearranged(given_table, given_place, place, size[0])
        for (row, column), adjoint in self.entries.items():
            for s, g in adjoint.items():
                k = place[column, s]
                table = table.with_entry(table.entry(row, k) + g, row, k)
        return table

    def absorb(self, other: TableAdjoint) -> None:
        """Add another adjoint of the same table."""
        self.parts += other.parts
        for key, adjoint in other.entries.items():
            _accumulate(self.entries.setdefault(key, {}), adjoint)

    def shifted(self, by: int) -> list[tuple[Table, Layout]]:
        """All parts with their columns counted from a table that begins `by` columns earlier."""
        return [(table, {(c + by, s): k for (c, s), k in place.items()}) for table, place in self.parts]


@dataclass(frozen=True)
class Saved:
    """What a loop carried at the start of each iteration: numbers in a table, by position, and tables below each other."""

    table: Table | None
    numbers: list[int]
    tables: dict[int, Table] = field(default_factory=dict)


class _Saving(Recorder):
    """Recorder in which the outermost loops also write what they carry: numbers as the last columns of each row, and tables
    into larger ones, below each other. A loop gives (final values, rows written, what was saved)."""

    def loop(self, loop: Loop, start: list[Any], tables: list[Any], captured: list[Any]) -> Any:
        held = [j for j, x in enumerate(start) if isinstance(x, Table)]

        def body(i: Scalar, carry: list[Any], row: list[Scalar]) -> tuple[list[Any], list[Any]]:
            values, saved = carry[: loop.carries], carry[loop.carries :]
            kept = [_copy_rows(values[j], into, i) for j, into in zip(held, saved, strict=True)]
            results = evaluate(loop.body, [i, *values, *row, *captured], Recorder())
            numbers = [x for x in values if not isinstance(x, Table)]
            return [*results[: loop.carries], *kept], [*results[loop.carries : loop.carries + loop.writes], *numbers]

        below = [fill_table(0.0, (loop.count * start[j].rows, start[j].columns)) for j in held]
        final, written = repeat(loop.count, [*start, *below], tables, body, reverse=loop.reverse)
        numbers = [j for j in range(loop.carries) if j not in held]
        kept = columns(written, loop.writes, loop.writes + len(numbers), (len(numbers),)) if numbers else None
        saved = Saved(kept, numbers, dict(zip(held, final[loop.carries :], strict=True)))
        final = final[: loop.carries]
        if loop.exits:
            # the values come from the loop as it was, which can end early; if nothing goes back, the one that writes is dead
            final, _ = Recorder().loop(loop, start, tables, captured)
        return final, written, saved

    def call(self, call: Call | Subroutine, args: list[Any]) -> tuple[list[Any], Any]:
        """The results; of a subroutine also the values of all its operations, which are recorded here."""
        if not isinstance(call, Subroutine):
            return super().call(call, args)
        body = unrolled(call.body)
        values = evaluate_nodes(body, args, self)
        return [values[r] for r in body.results], values


class _Restoring(_Saving):
    """Recorder in which loops over rows whose number is known at run time do not run: what they gave and carried is given."""

    def __init__(self, given: Iterator[tuple[list[Any], Saved]]) -> None:
        super().__init__()
        self.given = given

    def loop(self, loop: Loop, start: list[Any], tables: list[Any], captured: list[Any]) -> Any:
        if loop.count != RUN_TIME:
            return super().loop(loop, start, tables, captured)
        if any(t is None for t in tables):
            raise TraceError(
                "a scan reads rows that another scan wrote, whose number is known at run time: reverse mode needs one scan that "
                "does both"
            )
        final, saved = next(self.given)
        return final, None, saved

    def slice(self, written: Any, first: int, last: int) -> Any:
        return None if written is None else super().slice(written, first, last)


def _copy_rows(source: Table, target: Table, i: Scalar) -> Table:
    """The target with its rows from i times the number of rows of the source on replaced by those of the source."""

    def body(r: Scalar, carry: list[Any], row: list[Scalar]) -> tuple[list[Any], list[Any]]:
        (table,) = carry
        for c, x in enumerate(row):
            table = table.with_entry(x, 0, c, source.rows * i + r)
        return [table], []

    return repeat(source.rows, [target], [source], body)[0][0]  # type: ignore[no-any-return]


def _saved_rows(saved: Table, rows: int, i: Scalar) -> Table:
    """The rows that `_copy_rows` copied in iteration i."""

    def body(r: Scalar, carry: list[Any], row: list[Scalar]) -> tuple[list[Any], list[Any]]:
        return [], [saved.entry(0, c, rows * i + r) for c in range(saved.columns)]

    return repeat(rows, [], [], body)[1]


def reverse(
    block: Block,
    params: list[Any],
    results: list[Any],
    tables: dict[int, TableAdjoint] | None = None,
    given: Iterator[tuple[list[Any], Saved]] | None = None,
) -> tuple[list[Any], list[Any]]:
    """(values of the results, adjoints of the params), recorded in the current graph, from adjoints of the results.

    `tables`: adjoints that tables among the params have already, by position. `given`: for each loop over rows whose number is
    known at run time, in order, its final values and what it carried.
    """
    values = evaluate_nodes(block, params, _Saving() if given is None else _Restoring(given))
    return [values[i] for i in block.results], _backward(block, values, results, tables or {})


def _backward(block: Block, values: list[Any], results: list[Any], tables: dict[int, TableAdjoint]) -> list[Any]:
    """Adjoints of the params, from the values of all nodes and adjoints of the results."""
    adjoints: list[Any] = [_nothing(block, i) for i in range(len(block.nodes))]
    into: list[Any] = [{} for _ in range(block.params)]
    for p, adjoint in tables.items():
        into[p] = adjoint
    for i, (op, _, data) in enumerate(block.nodes):
        if op == "input" and into[data[0]]:
            adjoints[i] = into[data[0]]
    for i, adjoint in zip(block.results, results, strict=True):
        if isinstance(adjoints[i], TableAdjoint):
            adjoints[i].absorb(adjoint or TableAdjoint())
        else:
            _accumulate(adjoints[i], adjoint)
    for i in reversed(range(len(block.nodes))):
        op, args, data = block.nodes[i]
        here = adjoints[i]
        size = table_size(block.nodes, args[0]) if args and block.nodes[args[0]].op in TABLES else (0, 0)
        if op == "param":
            into[data] = here
        elif op == "input":
            into[data[0]] = here
        elif op == "call":
            into_args = [adjoints[a] for a in args]
            if isinstance(data, Subroutine):
                _subroutine(data, values[i][1], here[0], into_args)
            else:
                _call(data, [values[a] for a in args], values[i][0], here[0], into_args)
        elif op == "get":
            _accumulate(adjoints[args[0]][0][data], here)
        elif op == "after":
            adjoints[args[0]][0][data[0]].absorb(here)
        elif op == "slice":
            if here.entries:
                here.sum(table_size(block.nodes, i))
            adjoints[args[0]][1].parts += here.shifted(data[0])
        elif op == "index":
            if here:
                adjoints[args[0]].add_entry(here, size, *data, *[values[a] for a in args[1:]])
        elif op == "table":
            for k, a in enumerate(args):
                _accumulate(adjoints[a], here.entry(data, *divmod(k, data[1])))
        elif op == "update":
            if here:
                _update(here, data, [values[a] for a in args[2:]], adjoints[args[0]], adjoints[args[1]])
        elif op == "reshape":
            if here:
                table, place = here.sum(data)
                adjoints[args[0]].parts.append(reshaped(table, place, data, size))
        elif op == "loop":
            _loop(data, [values[a] for a in args], values[i][2], here, [adjoints[a] for a in args])
        elif here and smooth(op):
            xs = [values[a] for a in args]
            _rule(op, values[i], xs, () if data is None else (data,), here, [adjoints[a] for a in args])
    return into


def _nothing(block: Block, i: int) -> Any:
    op, args, data = block.nodes[i]
    if op == "loop":
        return [TableAdjoint() if block.nodes[a].op in TABLES else {} for a in args[: data.carries]], TableAdjoint()
    if op == "call":
        body = unrolled(data.body)
        return [_nothing(body, r) if body.nodes[r].op in TABLES else {} for r in body.results], None
    return TableAdjoint() if op in TABLES else {}


def _update(here: TableAdjoint, data: tuple[int, ...], offset: list[Any], table: TableAdjoint, value: Adjoint) -> None:
    """The adjoint of an updated table goes to the new entry there, and to the old table everywhere else."""
    row, column, *size = data
    rows, columns_ = size
    _accumulate(value, here.entry((rows, columns_), row, column, *offset))
    all_of_it, place = here.sum((rows, columns_))
    for (c, _), k in place.items():
        if c == column:
            all_of_it = all_of_it.with_entry(0.0, row, k, *offset)
    table.parts.append((all_of_it, place))


def _accumulate(total: Adjoint, more: Adjoint) -> None:
    for s, g in more.items():
        total[s] = total[s] + g if s in total else g


def _rule(op: str, y: Scalar, xs: list[Any], extra: tuple[Any, ...], here: Adjoint, into: list[Adjoint]) -> None:
    if (choice := chosen(op, xs)) is not None:
        _accumulate(into[-2], {s: choice.where(g, 0.0) for s, g in here.items()})
        _accumulate(into[-1], {s: choice.where(0.0, g) for s, g in here.items()})
        return
    rule = OPS[op].partials
    assert rule is not None
    for factor, adjoint in zip(rule(y, *xs, *extra), into, strict=True):
        if factor is not None:
            _accumulate(adjoint, {s: factor * g for s, g in here.items()})


def _subroutine(call: Subroutine, values: list[Any], here: list[Any], into: list[Any]) -> None:
    """The adjoints of a subroutine's arguments: back through its operations, whose values were recorded here."""
    for adjoint, more in zip(into, _backward(unrolled(call.body), values, here, {}), strict=True):
        if isinstance(adjoint, TableAdjoint):
            adjoint.absorb(more or TableAdjoint())
        else:
            _accumulate(adjoint, more)


def _call(call: Call, xs: list[Any], results: list[Any], here: list[Adjoint], into: list[Adjoint]) -> None:
    """The adjoints of a call's arguments: its rule, which is linear in the tangents, transposed."""
    if any(here):
        at_zero = [Recorder().number(0.0) for _ in xs]
        _, adjoints = reverse(call.rule, [*xs, *results, *at_zero], here)
        for adjoint, more in zip(into, adjoints[len(xs) + len(results) :], strict=True):
            _accumulate(adjoint, more)


def _loop(loop: Loop, args: list[Any], saved: Saved, here: tuple[list[Any], TableAdjoint], into: list[Any]) -> None:
    """The loop backward, iteration by iteration, from the adjoints of what it gave.

    It carries the adjoints of carried and of captured values: numbers by seed, and for a table a table of its adjoints.
    """
    finals, rows = here
    start, tables, captured = loop.split(args)
    into_start, into_tables, into_captured = loop.split(into)
    carried_masks, row_masks, captured_masks = loop_backward(
        loop, [_masks(x, a) for x, a in zip(start, finals, strict=True)], rows.masks(loop.writes)
    )
    if not any(union(m) if isinstance(m, list) else m for m in (*carried_masks, *row_masks, *captured_masks)):
        return
    if loop.count == RUN_TIME:  # their gradient goes out row by row as it is, so that zeros are written, too
        every = union(union(m) if isinstance(m, list) else m for m in (*carried_masks, *row_masks, *captured_masks))
        row_masks = [every] * len(row_masks)
    carried_keys = [(j, s) for j, m in enumerate(carried_masks) if not isinstance(m, list) for s in seeds(m)]
    row_keys = [(c, s) for c, m in enumerate(row_masks) for s in seeds(m)]
    captured_keys = [(c, s) for c, m in enumerate(captured_masks) if not isinstance(m, list) for s in seeds(m)]
    carried_places = {j: place_of(m) for j, m in enumerate(carried_masks) if isinstance(m, list) and any(m)}
    captured_places = {c: place_of(m) for c, m in enumerate(captured_masks) if isinstance(m, list) and any(m)}
    numbers = saved.numbers
    sources = [*([saved.table] if saved.table is not None else []), *tables, *[table for table, _ in rows.parts]]
    outside_at = 1 + loop.carries + loop.reads
    moves = _kept_state(loop)

    def body(i: Scalar, state: list[Any], row: list[Scalar]) -> tuple[list[Any], list[Any]]:
        each = iter(state)
        results: list[Any] = [{} for _ in loop.body.results]
        for j, s in carried_keys:
            results[j][s] = next(each)
        sums = [next(each) for _ in captured_keys]
        for j, place in carried_places.items():
            results[j] = TableAdjoint([(next(each), place)])
        already = {outside_at + c: TableAdjoint([(next(each), place)]) for c, place in captured_places.items()}
        at = len(numbers) + loop.reads
        for table, place in rows.parts:
            for (c, s), k in place.items():
                _accumulate(results[loop.carries + c], {s: row[at + k]})
            at += table.columns
        values = dict(zip(numbers, row, strict=False)) | {j: _saved_rows(t, start[j].rows, i) for j, t in saved.tables.items()}
        unused = Recorder().number(0.0)
        params = [
            i,
            *[values.get(j, unused) for j in range(loop.carries)],
            *row[len(numbers) : len(numbers) + loop.reads],
            *captured,
        ]
        block = loop.body if moves is None else Block(loop.body.nodes, loop.body.params, (*loop.body.results, moves.condition))
        values_after, adjoints = reverse(block, params, results if moves is None else [*results, {}], already)
        outside = adjoints[outside_at:]
        following = [adjoints[1 + j].get(s, 0.0) for j, s in carried_keys]
        following += [x + outside[c][s] if s in outside[c] else x for x, (c, s) in zip(sums, captured_keys, strict=True)]
        tables_after = [_as_table(adjoints[1 + j], start[j], place) for j, place in carried_places.items()]
        tables_after += [_as_table(outside[c], captured[c], place) for c, place in captured_places.items()]
        of_row = [adjoints[1 + loop.carries + c].get(s, 0.0) for c, s in row_keys]
        if moves is not None:
            # where the state is kept its adjoint is, too, and the rest of the body has none: also if it is not finite
            on = values_after[-1] if moves.holds else ~values_after[-1]
            before = [moves.adjoint(j, s, results, loop.carries) for j, s in carried_keys] + sums
            following = [on.where(x, old) for x, old in zip(following, before, strict=True)]
            tables_after = [_choose(on, x, old) for x, old in zip(tables_after, state[len(before) :], strict=True)]
            of_row = [on.where(x, 0.0) for x in of_row]
        return [*following, *tables_after], of_row

    begin = [*[finals[j].get(s, 0.0) for j, s in carried_keys], *[0.0 for _ in captured_keys]]
    begin += [_as_table(finals[j], start[j], place) for j, place in carried_places.items()]
    begin += [fill_table(0.0, (captured[c].rows, len(place))) for c, place in captured_places.items()]
    final, out = repeat(loop.count, begin, sources, body, reverse=not loop.reverse)
    last = iter(final)
    for j, s in carried_keys:
        _accumulate(into_start[j], {s: next(last)})
    for c, s in captured_keys:
        _accumulate(into_captured[c], {s: next(last)})
    for j, place in carried_places.items():
        into_start[j].parts.append((next(last), place))
    for c, place in captured_places.items():
        into_captured[c].parts.append((next(last), place))
    first = 0
    for table, adjoint in zip(tables, into_tables, strict=True):
        place = {(c - first, s): k for k, (c, s) in enumerate(row_keys) if first <= c < first + table.columns}
        if place:
            adjoint.parts.append((out, place))
        first += table.columns


class _Moves(NamedTuple):
    """The condition of a loop's body under which its state moves; else these carried numbers stay as they are."""

    condition: int
    holds: bool  # the state moves where the condition holds, or where it does not
    numbers: frozenset[int]
    rows: dict[int, int]  # column of the row written -> the carried number that it is where the state is kept

    def adjoint(self, j: int, s: int, results: list[Any], carries: int) -> Any:
        """The adjoint of a carried number where the state is kept."""
        total = results[j].get(s, 0.0) if j in self.numbers else 0.0
        for c, number in self.rows.items():
            if number == j and s in results[carries + c]:
                total = total + results[carries + c][s]
        return total


def _kept_state(loop: Loop) -> _Moves | None:
    """The condition by which most of the carried numbers stay as they are; None if there is none, and for loops that exit."""
    if loop.exits:
        return None
    nodes, results = loop.body.nodes, loop.body.results
    carried = {i: node.data - 1 for i, node in enumerate(nodes) if node.op == "param" and 0 < node.data <= loop.carries}
    found: dict[tuple[int, bool], dict[int, int]] = {}
    for r in {*results}:
        op, args, _ = nodes[r]
        if op == "select":
            for holds, kept in ((True, args[2]), (False, args[1])):
                if kept in carried:
                    found.setdefault((args[0], holds), {})[r] = carried[kept]
    best: _Moves | None = None
    for (condition, holds), kept_by in sorted(found.items()):
        numbers = frozenset(j for j, r in enumerate(results[: loop.carries]) if kept_by.get(r, carried.get(r)) == j)
        written = enumerate(results[loop.carries : loop.carries + loop.writes])
        rows = {c: number for c, r in written if (number := kept_by.get(r, carried.get(r))) is not None}
        if any(results[j] in kept_by for j in numbers) and (best is None or len(numbers) > len(best.numbers)):
            best = _Moves(condition, holds, numbers, rows)
    return best


def _as_table(adjoint: Any, table: Table, place: Layout) -> Table:
    return (adjoint or TableAdjoint()).as_table((table.rows, table.columns), place)


def _masks(value: Any, adjoint: Any) -> Any:
    return adjoint.masks(value.columns) if isinstance(value, Table) else sum(1 << s for s in adjoint)
