"""Loops inside a trace: a body that is recorded once and repeated on the backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from threading import local
from typing import Any

import numpy as np

from condyle.errors import TraceError
from condyle.tape.array import where
from condyle.tape.graph import Graph
from condyle.tape.pytree import assemble, flatten, same_shape
from condyle.tape.scalar import Bool, Scalar, caller
from condyle.tape.tape import Loop

_threads = local()


@contextmanager
def recording(graph: Graph) -> Iterator[Graph]:
    """Make `graph` the one that loops and constants are recorded in."""
    graphs = _threads.__dict__.setdefault("graphs", [])
    graphs.append(graph)
    try:
        yield graph
    finally:
        graphs.pop()


def current() -> Graph:
    """The graph being recorded."""
    graphs: list[Graph] | None = _threads.__dict__.get("graphs")
    if not graphs:
        raise TraceError(f"{caller()}: loops exist only while a function is being traced; compile it with condyle.function")
    return graphs[-1]


@dataclass(frozen=True)
class Table:
    """A table of a graph: rows along time, one entry per column; `shape` is how a user sees it, rows first."""

    graph: Graph
    index: int
    rows: int
    columns: int
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.rows

    def entry(self, row: int, column: int) -> Scalar:
        """One entry as a traced scalar."""
        return Scalar(self.graph, self.graph.record("index", (self.index,), (row, column)))

    def __getitem__(self, row: int) -> Any:
        if not isinstance(row, (int, np.integer)):
            raise TraceError(f"{caller()}: what a scan wrote can be indexed by one whole number, the row; got {row!r:.40}")
        if not -self.rows <= row < self.rows:
            raise IndexError(f"{caller()}: row {row} of a table of {self.rows} rows")
        return assemble([self.entry(int(row) % self.rows, c) for c in range(self.columns)], self.shape[1:])


def make_table(graph: Graph, entries: list[Any], rows: int, columns: int) -> Table:
    """A table of scalars and numbers, given row after row."""
    args = tuple([graph.place(x) for x in entries])
    return Table(graph, graph.record("table", args, (rows, columns)), rows, columns, (rows, columns))


Body = Callable[[Scalar, list[Scalar], list[Scalar]], tuple[list[Any], list[Any]]]


def repeat(count: int, start: list[Any], tables: list[Table], body: Body, *, reverse: bool = False) -> tuple[list[Scalar], Table]:
    """(carried values at the end, rows written) of `body(i, carry, row) -> (carry, row)`; it may use values from outside.

    A body that gives a single comparison as its row writes nothing: the loop `exits` (see Loop).
    """
    outer = current()
    if any(t.graph is not outer for t in tables):
        raise TraceError(
            f"{caller()}: a loop inside a loop cannot read what a scan outside of it wrote; carry it or pass its rows on"
        )
    inner = Graph(outer)
    reads = sum(t.columns for t in tables)
    params = [Scalar(inner, inner.param()) for _ in range(1 + len(start) + reads)]
    with recording(inner):
        carry, row = body(params[0], params[1 : 1 + len(start)], params[1 + len(start) :])
    results = [inner.place(x) for x in (*carry, *row)]
    exits = len(row) == 1 and isinstance(row[0], Bool)
    writes = 0 if exits else len(row)
    loop = Loop(count, inner.block(results), len(start), reads, writes, len(tables), reverse, exits)
    args = [outer.place(x) for x in start]
    node = outer.record("loop", (*args, *[t.index for t in tables], *inner.captured), loop)
    final = [Scalar(outer, outer.record("get", (node,), j)) for j in range(len(start))]
    return final, Table(outer, outer.record("slice", (node,), (0, writes)), count, writes, (count, writes))


def columns(table: Table, first: int, last: int, shape: tuple[int, ...]) -> Table:
    """Some columns of what a loop wrote, seen with the given shape per row."""
    (loop,) = table.graph.nodes[table.index].args
    base = table.graph.nodes[table.index].data[0]
    index = table.graph.record("slice", (loop,), (base + first, base + last))
    return Table(table.graph, index, table.rows, last - first, (table.rows, *shape))


def loop(body: Callable[[Any, Any], Any], start: Any, count: int, *, until: Callable[[Any], Any] | None = None) -> Any:
    """The state after `count` times `state = body(i, state)`.

    `start` is an array, a number, or a tuple, list or dict of them, and the body gives back the same. Each lane for which
    `until(state)` holds keeps its state from then on. The loop ends early when no lane would change any more, which shows in
    the time it takes and in no bit.
    """
    if count < 1:
        raise TraceError(f"{caller()}: a loop needs at least one iteration; got count={count}")
    leaves, rebuild, shape = flatten(start)

    def step(i: Scalar, carry: list[Scalar], _: Any) -> tuple[list[Any], list[Any]]:
        # asked before the body runs, so that it can depend on nothing but the state and values from outside
        done = until(rebuild(carry)) if until is not None else False
        new, _, new_shape = flatten(body(i, rebuild(carry)))
        same_shape("the state", shape, new_shape)
        if done is False:
            return new, []
        return [where(done, a, b) for a, b in zip(carry, new, strict=True)], [done] if isinstance(done, Bool) else []

    final, _ = repeat(count, leaves, [], step)
    return rebuild(final)


def scan(
    body: Callable[[Any, Any, Any], tuple[Any, Any]],
    start: Any,
    rows: Any = None,
    *,
    count: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """(final state, written rows) of `state, out = body(i, state, row)` for each row of `slice`, or `count` times without rows.

    `slice` is an array with the iterations along its first axis, or a tuple or dict of such arrays. What the body gives out is
    stacked the same way: index it by row, or return it from the traced function as an output of shape (count, ...).
    """
    graph = current()
    leaves, rebuild, state_shape = flatten(start)
    tables, rebuild_row, length = _row_tables(graph, rows)
    n = length if length is not None else count
    if n is None or (length is not None and count not in (None, length)) or n < 1:
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
    # the arrays a body writes: one, or a flat tuple, list or dict of them
    if isinstance(out, dict):
        return list(out.items())
    return list(enumerate(out)) if isinstance(out, (tuple, list)) else [(0, out)]


def _like(kind: Any, stacked: dict[Any, Any]) -> Any:
    if isinstance(kind, dict):
        return stacked
    return tuple(stacked.values()) if isinstance(kind, (tuple, list)) else stacked[0]


def _row_tables(graph: Graph, rows: Any) -> tuple[list[Table], Callable[[list[Any]], Any], int | None]:
    if rows is None:
        return [], lambda _: None, None
    if isinstance(rows, Table):
        shape = rows.shape[1:]
        return [rows], lambda xs: assemble(xs, shape), rows.rows
    arrays = {key: np.asarray(a, dtype=object) for key, a in _items(rows)}
    shapes = [a.shape for a in arrays.values()]
    if () in shapes or len({shape[0] for shape in shapes}) != 1:
        raise TraceError(f"{caller()}: all rows of a scan need the same first axis; got shapes {shapes}")
    n = shapes[0][0]
    tables = [make_table(graph, flatten(a.reshape(-1))[0], n, a.size // n) for a in arrays.values()]

    def rebuild(xs: list[Any]) -> Any:
        entries = iter(xs)
        return _like(rows, {k: assemble([*islice(entries, a.size // n)], a.shape[1:]) for k, a in arrays.items()})

    return tables, rebuild, n
