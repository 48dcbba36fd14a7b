"""Loops inside a trace: a body that is recorded once and repeated on the backend."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from math import inf
from typing import Any

from condyle.errors import TraceError
from condyle.tape.array import assemble, where
from condyle.tape.graph import Graph
from condyle.tape.pytree import flatten, same_shape
from condyle.tape.scalar import Bool, Scalar, caller
from condyle.tape.table import Table, current, recording, table
from condyle.tape.tape import RUN_TIME, Loop

Body = Callable[[Scalar, list[Any], list[Scalar]], tuple[list[Any], list[Any]]]


def repeat(count: int, start: list[Any], tables: list[Table], body: Body, *, reverse: bool = False) -> tuple[list[Any], Table]:
    """(carried values at the end, rows written) of `body(i, carry, row) -> (carry, row)`; it may use values from outside.

    Carried values are numbers and tables. A body that gives a single comparison as its row writes nothing: the loop `exits`
    (see Loop).
    """
    outer = current()
    for t in tables:
        t.check_scanned(count)
    inner = Graph(outer)
    reads = sum(t.columns for t in tables)
    counter = Scalar(inner, inner.param())
    inner.counters[counter.index] = (0.0, count - 1.0 if count != RUN_TIME else inf)
    carried = [_body_value(inner, x) for x in start]
    entries = [Scalar(inner, inner.param()) for _ in range(reads)]
    with recording(inner):
        carry, row = body(counter, carried, entries)
        results = [inner.place(x) for x in (*carry, *row)]
    exits = len(row) == 1 and isinstance(row[0], Bool)
    check_limbs(inner, carried, results, len(start))
    writes = 0 if exits else len(row)
    loop = Loop(count, inner.block(results), len(start), reads, writes, len(tables), reverse, exits)
    args = [outer.place(x) for x in (*start, *tables)]
    node = outer.record("loop", (*args, *inner.captured), loop)
    final: list[Any] = []
    for j, x in enumerate(start):
        if isinstance(x, Table):
            final.append(Table(outer, outer.record("after", (node,), (j, x.rows, x.columns)), x.shape))
        else:
            final.append(Scalar(outer, outer.record("get", (node,), j)))
    return final, Table(outer, outer.record("slice", (node,), (0, writes)), (count, writes))


def _body_value(inner: Graph, start: Any) -> Any:
    """What a body is given for a carried value that starts so."""
    if isinstance(start, Table):
        return Table(inner, inner.input(start.rows, start.columns), start.shape)
    limbs = start.graph.limbs.get(start.index) if isinstance(start, Scalar) else None
    return Scalar(inner, inner.limb(limbs) if limbs else inner.param())


def check_limbs(inner: Graph, given: list[Any], results: list[int], carries: int) -> None:
    """Raise if a carried number becomes one of each limb, or a row, or what ends a loop, is one of each limb."""
    for k, r in enumerate(results):
        limbs = inner.limbs.get(r)
        if limbs and (k >= carries or inner.limbs.get(given[k].index) != limbs):
            what = "what a loop writes, or ends by," if k >= carries else "a carried value that starts as a number of the robot"
            raise TraceError(f"{caller()}: {what} cannot differ by limb; pick or sum over the limbs, or start it with limbs.each")


def columns(table: Table, first: int, last: int, shape: tuple[int, ...]) -> Table:
    """Some columns of what a loop wrote, seen with the given shape per row."""
    (loop,) = table.graph.nodes[table.index].args
    base = table.graph.nodes[table.index].data[0]
    index = table.graph.record("slice", (loop,), (base + first, base + last))
    return Table(table.graph, index, (table.rows, *shape))


def loop(
    body: Callable[[Any, Any], Any],
    start: Any,
    count: int,
    *,
    until: Callable[[Any], Any] | None = None,
    body_keeps_tables: bool = False,
) -> Any:
    """The state after `count` times `state = body(i, state)`.

    `start` is an array, a number, or a tuple, list or dict of them, and the body gives back the same. Each lane for which
    `until(state)` holds, or compares NaN, keeps its state from then on. The loop ends early when no lane would change any more,
    which shows in the time it takes and in no bit. Tables are compared entry by entry for that, unless `body_keeps_tables`: the
    body itself leaves the entries of lanes that are done as they are.
    """
    if count < 1:
        raise TraceError(f"{caller()}: a loop needs at least one iteration; got count={count}")
    leaves, rebuild, shape = flatten(start)

    def step(i: Scalar, carry: list[Scalar], _: Any) -> tuple[list[Any], list[Any]]:
        # asked before the body runs, so that it can depend on nothing but the state and values from outside
        done = _or_nan(until(rebuild(carry))) if until is not None else False
        new, _, new_shape = flatten(body(i, rebuild(carry)))
        same_shape("the state", shape, new_shape)
        if done is False:
            return new, []
        kept = [b if body_keeps_tables and isinstance(a, Table) else _choose(done, a, b) for a, b in zip(carry, new, strict=True)]
        return kept, [done] if isinstance(done, Bool) else []

    final, _ = repeat(count, leaves, [], step)
    return rebuild(final)


def _or_nan(done: Any) -> Any:
    """Whether a comparison holds, or an operand of it is NaN: such a lane never converges, and would keep its vector running."""
    return Bool(done.graph, _holds_or_nan(done.graph, done.index)) if isinstance(done, Bool) else done


def _holds_or_nan(graph: Graph, index: int) -> int:
    op, args, _ = graph.nodes[index]
    if op in ("lt", "le"):
        # not (b <= a) is a < b, and true for NaN: the same instruction with another condition
        return graph.emit("not", (graph.emit("le" if op == "lt" else "lt", (args[1], args[0])),))
    if op == "or":
        return graph.emit("or", (_holds_or_nan(graph, args[0]), _holds_or_nan(graph, args[1])))
    if op == "not" and graph.nodes[args[0]].op in ("lt", "le", "eq"):
        return index
    for a, b in _compared(graph, index):
        ordered = graph.emit("or", (graph.emit("le", (a, b)), graph.emit("le", (b, a))))
        index = graph.emit("or", (index, graph.emit("not", (ordered,))))
    return index


def _compared(graph: Graph, index: int) -> list[tuple[int, int]]:
    """The operands of all comparisons that a condition combines."""
    op, args, _ = graph.nodes[index]
    if op in ("and", "or", "not"):
        return [pair for a in args for pair in _compared(graph, a)]
    return [(args[0], args[1])] if op in ("lt", "le", "eq") else []


def map_rows(function: Callable[..., Any], *tables: Any) -> Any:
    """The table, or tuple or dict of tables, of `function(row, ...)` for the rows of one or several tables, taken together."""
    _, written = scan(lambda i, state, rows: (state, function(*rows)), (), tables)
    return written


def _choose(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`: of numbers, or of tables entry by entry."""
    if not isinstance(a, Table):
        return where(condition, a, b)
    return map_rows(lambda x, y: where(condition, x, y), a, b).shaped(a.shape)


def scan(
    body: Callable[[Any, Any, Any], tuple[Any, Any]],
    start: Any,
    rows: Any = None,
    *,
    count: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """(final state, written rows) of `state, out = body(i, state, row)` for each row of `rows`, or `count` times.

    `rows` is an array or a table with the iterations along its first axis, or a tuple or dict of them. What the body gives out
    becomes tables: index them by row, scan them, or return them from the traced function as outputs of shape (count, ...). A
    body that gives None as `out` writes nothing. States may hold tables, and bodies may read tables from outside.
    """
    leaves, rebuild, state_shape = flatten(start)
    tables, rebuild_row, length = _row_tables(rows)
    n = length if length is not None else count
    if n is None or (length is not None and count not in (None, length)) or (n < 1 and length != RUN_TIME):
        raise TraceError(
            f"{caller()}: a scan needs at least one iteration, from `count` or from the rows; got count={count}, rows={length}"
        )
    written: dict[str, Any] = {}

    def record(i: Scalar, carry: list[Scalar], row: list[Scalar]) -> tuple[list[Any], list[Any]]:
        new, out = body(i, rebuild(carry), rebuild_row(row))
        new_leaves, _, new_shape = flatten(new)
        same_shape("the state", state_shape, new_shape)
        written["parts"] = {k: flatten(v) for k, v in _items(out)}
        written["kind"] = out
        return new_leaves, [leaf for part, _, _ in written["parts"].values() for leaf in part]

    final, table = repeat(n, leaves, tables, record, reverse=reverse)
    stacked, at = {}, 0
    for key, (part, _, shape) in written["parts"].items():
        stacked[key] = columns(table, at, at + len(part), shape)
        at += len(part)
    return rebuild(final), _like(written["kind"], stacked)


def _items(out: Any) -> list[tuple[Any, Any]]:
    # the arrays a body writes: one, or a flat tuple, list or dict of them, or none
    if out is None:
        return []
    if isinstance(out, dict):
        return list(out.items())
    return list(enumerate(out)) if isinstance(out, (tuple, list)) else [(0, out)]


def _like(kind: Any, stacked: dict[Any, Any]) -> Any:
    if kind is None:
        return None
    if isinstance(kind, dict):
        return stacked
    return tuple(stacked.values()) if isinstance(kind, (tuple, list)) else stacked[0]


def _row_tables(rows: Any) -> tuple[list[Table], Callable[[list[Any]], Any], int | None]:
    """(tables to read row by row, how to rebuild what the body is given from the entries of a row, number of rows)."""
    if rows is None:
        return [], lambda _: None, None
    tables = {key: table(a) for key, a in _items(rows)}
    lengths = {key: len(t) for key, t in tables.items()}
    if len(set(lengths.values())) != 1:
        raise TraceError(
            f"{caller()}: all rows of a scan need the same first axis; got shapes {[t.shape for t in tables.values()]}"
        )

    # a structural zero that a scan wrote is one that the next scan reads
    known = [t.constant(c) for t in tables.values() for c in range(t.columns)]

    def rebuild(xs: list[Any]) -> Any:
        entries = iter([x if number is None else number for x, number in zip(xs, known, strict=True)])
        return _like(rows, {key: assemble([*islice(entries, t.columns)], t.shape[1:]) for key, t in tables.items()})

    return list(tables.values()), rebuild, next(iter(lengths.values()))
