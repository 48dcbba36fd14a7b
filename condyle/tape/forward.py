"""Forward derivatives: every value with its tangents, one per seed that reaches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from condyle.tape.inline import Recorder
from condyle.tape.interpret import evaluate
from condyle.tape.loop import columns, repeat
from condyle.tape.ops import OPS
from condyle.tape.scalar import Scalar, constant
from condyle.tape.sparsity import loop_forward, seeds, smooth
from condyle.tape.table import Table, current, make_table
from condyle.tape.tape import Block, Call, Loop

Tangent = dict[int, Any]  # seed -> traced scalar


@dataclass(frozen=True)
class TableTangent:
    """Tangents of a table as columns of another: (column, seed) -> column of `table`."""

    table: Table | None
    place: dict[tuple[int, int], int]

    def entry(self, row: int, column: int, offset: Any = None) -> Tangent:
        """The tangent of one entry."""
        assert self.table is not None or not self.place
        return {s: self.table.entry(row, k, offset) for (c, s), k in self.place.items() if c == column and self.table}


_recorder = Recorder()


def forward(block: Block, params: list[Any], tangents: list[Tangent]) -> tuple[list[Any], list[Any]]:
    """(results, their tangents) of a block, recorded in the current graph, from params and their tangents."""
    values: list[Any] = []
    moves: list[Any] = []
    for op, args, data in block.nodes:
        xs = [values[i] for i in args]
        ts = [moves[i] for i in args]
        move: Any = {}
        if op == "param":
            value, move = params[data], tangents[data]
        elif op == "const":
            value = _recorder.word(data) if isinstance(data, int) else _recorder.number(data)
        elif op == "loop":
            value, move = _loop(data, *data.split(xs), *data.split(ts))
        elif op == "call":
            results = _recorder.call(data, xs)
            value, move = (results, None), (_call(data, xs, results, ts), None)
        elif op == "get":
            value, move = xs[0][0][data], ts[0][0][data]
        elif op == "slice":
            first, last = data
            value = columns(xs[0][1], first, last, (last - first,))
            table: TableTangent = ts[0][1]
            move = TableTangent(table.table, {(c - first, s): k for (c, s), k in table.place.items() if first <= c < last})
        elif op == "table":
            value, move = make_table(current(), xs, *data), _table(ts, *data)
        elif op == "index":
            value, move = xs[0].entry(*data, *xs[1:]), ts[0].entry(*data, *xs[1:])
        else:
            extra = () if data is None else (data,)
            value = _recorder.functions[op](*xs, *extra)
            if smooth(op) and any(ts):
                move = _rule(op, value, xs, ts, extra)
        values.append(value)
        moves.append(move)
    return [values[i] for i in block.results], [moves[i] for i in block.results]


def _rule(op: str, y: Scalar, xs: list[Any], ts: list[Tangent], extra: tuple[Any, ...]) -> Tangent:
    if (choice := chosen(op, xs)) is not None:
        a, b = ts[-2:]
        return {s: choice.where(a.get(s, 0.0), b.get(s, 0.0)) for s in sorted(a.keys() | b.keys())}
    rule = OPS[op].partials
    assert rule is not None
    move: Tangent = {}
    for factor, t in zip(rule(y, *xs, *extra), ts, strict=True):
        if factor is not None:
            for s, dx in t.items():
                move[s] = move[s] + factor * dx if s in move else factor * dx
    return move


def _call(call: Call, xs: list[Any], results: list[Any], ts: list[Tangent]) -> list[Tangent]:
    """The tangents of a call's results by its rule, seed by seed."""
    moves: list[Tangent] = [{} for _ in results]
    zero = _recorder.number(0.0)
    for s in sorted({s for t in ts for s in t}):
        tangents = evaluate(call.rule, [*xs, *results, *[t.get(s, zero) for t in ts]], _recorder)
        for move, tangent in zip(moves, tangents, strict=True):
            if constant(tangent) != 0.0:
                move[s] = tangent
    return moves


def chosen(op: str, xs: list[Any]) -> Any:
    """The condition under which an operation that picks one of its last two arguments picks the first; None for others."""
    if op == "select":
        return xs[0]
    if op == "min":
        return xs[0] < xs[1]
    return xs[0] > xs[1] if op == "max" else None


def _table(ts: list[Tangent], rows: int, width: int) -> TableTangent:
    place: dict[tuple[int, int], int] = {}
    for c in range(width):
        for s in sorted({s for t in ts[c::width] for s in t}):
            place[c, s] = len(place)
    if not place:
        return TableTangent(None, {})
    entries = [ts[r * width + c].get(s, 0.0) for r in range(rows) for c, s in place]
    return TableTangent(make_table(current(), entries, rows, len(place)), place)


def _loop(
    loop: Loop,
    start: list[Any],
    tables: list[Table],
    captured: list[Any],
    start_moves: list[Tangent],
    table_moves: list[TableTangent],
    captured_moves: list[Tangent],
) -> tuple[tuple[list[Any], Table], tuple[list[Tangent], TableTangent]]:
    """One loop that carries values and tangents together."""
    carried_seeds, written_seeds = _loop_seeds(loop, start_moves, tables, table_moves, captured_moves)
    carried_keys = [(j, s) for j, each in enumerate(carried_seeds) for s in each]
    written_keys = [(c, s) for c, each in enumerate(written_seeds) for s in each]
    moving = [t for t in table_moves if t.table is not None]

    def body(i: Scalar, carry: list[Scalar], row: list[Scalar]) -> tuple[list[Any], list[Any]]:
        tangents: list[Tangent] = [{} for _ in range(loop.body.params)]
        for (j, s), x in zip(carried_keys, carry[loop.carries :], strict=True):
            tangents[1 + j][s] = x
        at, column = loop.reads, 0
        for table, move in zip(tables, table_moves, strict=True):
            for (c, s), k in move.place.items():
                tangents[1 + loop.carries + column + c][s] = row[at + k]
            at += move.table.columns if move.table is not None else 0
            column += table.columns
        tangents[1 + loop.carries + loop.reads :] = captured_moves
        values = [i, *carry[: loop.carries], *row[: loop.reads], *captured]
        results, moves = forward(loop.body, values, tangents)
        k = loop.carries
        # where a loop that exits leaves the values as they are, the same select leaves the tangents
        following = [*results[:k], *[moves[j].get(s, 0.0) for j, s in carried_keys]]
        return following, [*results[k:], *[moves[k + c].get(s, 0.0) for c, s in written_keys]]

    begin = [*start, *[start_moves[j].get(s, 0.0) for j, s in carried_keys]]
    all_tables = [*tables, *[t.table for t in moving if t.table is not None]]
    final, written = repeat(loop.count, begin, all_tables, body, reverse=loop.reverse)
    final_moves: list[Tangent] = [{} for _ in range(loop.carries)]
    for (j, s), x in zip(carried_keys, final[loop.carries :], strict=True):
        final_moves[j][s] = x
    width = len(written_keys)
    tangent_tables = columns(written, loop.writes, loop.writes + width, (width,)) if width else None
    place = {key: k for k, key in enumerate(written_keys)}
    return (final[: loop.carries], written), (final_moves, TableTangent(tangent_tables, place))


def _loop_seeds(
    loop: Loop, start: list[Tangent], tables: list[Table], table_moves: list[TableTangent], captured: list[Tangent]
) -> tuple[list[list[int]], list[list[int]]]:
    """(seeds of each carried value, seeds of each written column)."""
    table_masks = []
    for table, move in zip(tables, table_moves, strict=True):
        table_masks.append([sum(1 << s for (c, s) in move.place if c == column) for column in range(table.columns)])
    carry, written = loop_forward(loop, [_mask(t) for t in start], table_masks, [_mask(t) for t in captured])
    return [seeds(m) for m in carry], [seeds(m) for m in written]


def _mask(tangent: Tangent) -> int:
    return sum(1 << s for s in tangent)
