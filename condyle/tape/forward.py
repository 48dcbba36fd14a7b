"""Forward derivatives: every value with its tangents, one per seed that reaches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from condyle.tape.dead_code import dead_code
from condyle.tape.inline import Recorder
from condyle.tape.interpret import evaluate
from condyle.tape.limbs import unrolled
from condyle.tape.loop import columns, repeat
from condyle.tape.ops import OPS
from condyle.tape.scalar import Scalar, constant
from condyle.tape.sparsity import loop_forward, seeds, smooth, union
from condyle.tape.table import Table, current, fill_table, make_table
from condyle.tape.tape import RUN_TIME, Block, Call, Loop, Node, Subroutine, table_size

Tangent = dict[int, Any]  # seed -> traced scalar


Layout = dict[tuple[int, int], int]  # (column of a table, seed) -> column of the table of its derivatives


@dataclass(frozen=True)
class TableTangent:
    """Tangents of a table as the columns of another, which has as many rows; None if there are none."""

    table: Table | None
    place: Layout

    def entry(self, row: int, column: int, offset: Any = None) -> Tangent:
        """The tangent of one entry."""
        assert self.table is not None or not self.place
        return {s: self.table.entry(row, k, offset) for (c, s), k in self.place.items() if c == column and self.table}


def place_of(masks: list[int]) -> Layout:
    """The columns of a table of derivatives, given the seeds of each column."""
    keys = [(c, s) for c, mask in enumerate(masks) for s in seeds(mask)]
    return {key: k for k, key in enumerate(keys)}


def rearranged(table: Table | None, place: Layout, wanted: Layout, rows: int) -> Table:
    """The columns of derivatives in another order, zeros for those that are not there; at least one is wanted."""
    if table is None:
        return fill_table(0.0, (rows, len(wanted)))
    if place == wanted and table.columns == len(place):
        return table

    def body(i: Scalar, carry: list[Any], row: list[Scalar]) -> tuple[list[Any], list[Any]]:
        return [], [row[place[key]] if key in place else 0.0 for key in wanted]

    return repeat(rows, [], [table], body)[1]


def reshaped(table: Table | None, place: Layout, old: tuple[int, int], new: tuple[int, int]) -> tuple[Table | None, Layout]:
    """The derivatives of a table (rows, columns) that is seen with another size."""
    if table is None:
        return None, {}
    all_seeds = sorted({s for _, s in place})
    dense = {(c, s): c * len(all_seeds) + k for c in range(old[1]) for k, s in enumerate(all_seeds)}
    flat = rearranged(table, place, dense, old[0]).reshape(new[0], new[1] * len(all_seeds))
    return flat, {(c, s): c * len(all_seeds) + k for c in range(new[1]) for k, s in enumerate(all_seeds)}


_recorder = Recorder()


def forward(block: Block, params: list[Any], tangents: list[Any]) -> tuple[list[Any], list[Any]]:
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
            value, move = _subroutine(data, xs, ts) if isinstance(data, Subroutine) else _call(data, xs, ts)
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
        elif op == "input":
            value, move = params[data[0]], tangents[data[0]] or TableTangent(None, {})
        elif op == "fill":
            value, move = _recorder.fill(*data), TableTangent(None, {})
        elif op == "after":
            value, move = xs[0][0][data[0]], ts[0][0][data[0]]
        elif op == "update":
            value = xs[0].with_entry(xs[1], *data[:2], *xs[2:])
            move = _update(ts[0], ts[1], data, *xs[2:])
        elif op == "reshape":
            size = table_size(block.nodes, args[0])
            value, move = xs[0].reshape(*data), TableTangent(*reshaped(ts[0].table, ts[0].place, size, data))
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


def _subroutine(call: Subroutine, xs: list[Any], ts: list[Any]) -> tuple[Any, Any]:
    """The results of a subroutine and their tangents: of its operations, which are recorded here."""
    results, moves = forward(unrolled(call.body), xs, ts)
    return (results, None), (moves, None)


def _call(call: Call, xs: list[Any], ts: list[Tangent]) -> tuple[Any, Any]:
    """The results of a call and their tangents, by its rule: what does not depend on tangents once, the rest seed by seed."""
    value = results, _ = _recorder.call(call, xs)
    moves: list[Tangent] = [{} for _ in results]
    zero = _recorder.number(0.0)
    seeded = sorted({s for t in ts for s in t})
    if not seeded:
        return value, (moves, None)
    fixed, linear = _split(call, len(xs) + len(results))
    known = evaluate(fixed, [*xs, *results], _recorder)
    for s in seeded:
        tangents = evaluate(linear, [*known, *[t.get(s, zero) for t in ts]], _recorder)
        for move, tangent in zip(moves, tangents, strict=True):
            if constant(tangent) != 0.0:
                move[s] = tangent
    return value, (moves, None)


def _split(call: Call, first: int) -> tuple[Block, Block]:
    """(the part of a rule that its tangents, params from `first` on, do not enter; the rest, which takes its results first)."""
    kept: tuple[Block, Block] | None = call.__dict__.get("_split")
    if kept is not None:
        return kept
    nodes = call.rule.nodes
    moving: set[int] = set()
    for i, (op, args, data) in enumerate(nodes):
        if (op == "param" and data >= first) or not moving.isdisjoint(args):
            moving.add(i)
    used = {a for i in moving for a in nodes[i].args} | set(call.rule.results)
    # numbers alone are written again, so that products with zeros and ones fold
    shared = sorted(a for a in used if a not in moving and nodes[a].op != "const")
    number = {a: k for k, a in enumerate(shared)}
    again: list[Node] = []
    place: dict[int, int] = {}
    for i, (op, args, data) in enumerate(nodes):
        if i in number:
            node = Node("param", (), number[i])
        elif i in moving:
            node = Node(op, tuple([place[a] for a in args]), data if op != "param" else data - first + len(shared))
        elif op == "const" and i in used:
            node = nodes[i]
        else:
            continue
        place[i] = len(again)
        again.append(node)
    fixed = Block(nodes, first, tuple(shared))
    linear = Block(tuple(again), len(shared) + call.rule.params - first, tuple([place[i] for i in call.rule.results]))
    found = call.__dict__["_split"] = (dead_code(fixed), linear)
    return found


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


def _update(table: TableTangent, value: Tangent, data: tuple[int, ...], offset: Any = None) -> TableTangent:
    """The tangents of a table with another entry."""
    row, column, rows, _ = data
    keys = sorted({*table.place, *[(column, s) for s in value]})
    if not keys:
        return table
    place = {key: k for k, key in enumerate(keys)}
    moved = rearranged(table.table, table.place, place, rows)
    for (c, s), k in place.items():
        if c == column:
            moved = moved.with_entry(value.get(s, 0.0), row, k, offset)
    return TableTangent(moved, place)


def _loop(
    loop: Loop,
    start: list[Any],
    tables: list[Table],
    captured: list[Any],
    start_moves: list[Any],
    table_moves: list[TableTangent],
    captured_moves: list[Any],
) -> tuple[tuple[list[Any], Table], tuple[list[Any], TableTangent]]:
    """One loop that carries values and tangents together: for a carried table, a table of its tangents."""
    carried_masks, written_masks = loop_forward(
        loop,
        [_masks(x, t) for x, t in zip(start, start_moves, strict=True)],
        [_masks(x, t) for x, t in zip(tables, table_moves, strict=True)],
        [_masks(x, t) for x, t in zip(captured, captured_moves, strict=True)],
    )
    places = {j: place_of(m) for j, m in enumerate(carried_masks) if isinstance(m, list) and any(m)}
    carried_keys = [(j, s) for j, m in enumerate(carried_masks) if not isinstance(m, list) for s in seeds(m)]
    if loop.count == RUN_TIME:  # its rows go out as they are, so that zeros are written, too
        written_masks = [union(written_masks)] * loop.writes
    written_keys = [(c, s) for c, m in enumerate(written_masks) for s in seeds(m)]
    moving = [t for t in table_moves if t.table is not None]

    def body(i: Scalar, carry: list[Any], row: list[Scalar]) -> tuple[list[Any], list[Any]]:
        tangents: list[Any] = [{} for _ in range(loop.body.params)]
        for (j, s), x in zip(carried_keys, carry[loop.carries :], strict=False):
            tangents[1 + j][s] = x
        for (j, place), table in zip(places.items(), carry[loop.carries + len(carried_keys) :], strict=True):
            tangents[1 + j] = TableTangent(table, place)
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
        following += [rearranged(moves[j].table, moves[j].place, place, start[j].rows) for j, place in places.items()]
        return following, [*results[k:], *[moves[k + c].get(s, 0.0) for c, s in written_keys]]

    begin = [*start, *[start_moves[j].get(s, 0.0) for j, s in carried_keys]]
    begin += [rearranged(start_moves[j].table, start_moves[j].place, place, start[j].rows) for j, place in places.items()]
    all_tables = [*tables, *[t.table for t in moving if t.table is not None]]
    final, written = repeat(loop.count, begin, all_tables, body, reverse=loop.reverse)
    final_moves: list[Any] = [TableTangent(None, {}) if isinstance(x, Table) else {} for x in start]
    for (j, s), x in zip(carried_keys, final[loop.carries :], strict=False):
        final_moves[j][s] = x
    for (j, place), table in zip(places.items(), final[loop.carries + len(carried_keys) :], strict=True):
        final_moves[j] = TableTangent(table, place)
    width = len(written_keys)
    tangent_table = columns(written, loop.writes, loop.writes + width, (width,)) if width else None
    place = {key: k for k, key in enumerate(written_keys)}
    return (final[: loop.carries], written), (final_moves, TableTangent(tangent_table, place))


def _masks(value: Any, move: Any) -> Any:
    """The seeds of a number, or of each column of a table."""
    if not isinstance(value, Table):
        return sum(1 << s for s in move)
    place = move.place if move else {}
    return [sum(1 << s for c, s in place if c == column) for column in range(value.columns)]
