"""Tables inside a trace: matrices in memory, read and updated by rows that a loop counts through."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import local
from typing import Any

import numpy as np

from condyle.errors import TraceError
from condyle.tape.array import assemble
from condyle.tape.graph import Graph
from condyle.tape.scalar import Scalar, caller, number
from condyle.tape.tape import RUN_TIME, table_size, whole_table

_threads = local()


@contextmanager
def recording(graph: Graph) -> Iterator[Graph]:
    """Make `graph` the one that loops, tables and constants are recorded in."""
    graphs = _threads.__dict__.setdefault("graphs", [])
    graphs.append(graph)
    try:
        yield graph
    finally:
        graphs.pop()


def current() -> Graph:
    """The graph being recorded."""
    graph = recorded()
    if graph is None:
        raise TraceError(
            f"{caller()}: loops and tables exist only while a function is being traced; compile it with condyle.function"
        )
    return graph


def recorded() -> Graph | None:
    """The graph being recorded; None outside of a trace."""
    graphs: list[Graph] | None = _threads.__dict__.get("graphs")
    return graphs[-1] if graphs else None


def is_recording() -> bool:
    """Whether this thread is tracing a function."""
    return bool(_threads.__dict__.get("graphs"))


@dataclass(frozen=True)
class Table:
    """An array in memory. The first axis is the row; entries are traced numbers.

    `table[i]`, `table[i, j]`, ... give one entry, or an array of the entries of the remaining axes. An index is a whole number, a
    slice of whole numbers, or a traced number such as the counter of a loop: it is rounded, and clamped to what there is.
    """

    graph: Graph
    index: int
    shape: tuple[int, ...]

    @property
    def rows(self) -> int:
        """Length of the first axis."""
        return self.shape[0]

    @property
    def columns(self) -> int:
        """Entries of one row."""
        return math.prod(self.shape[1:])

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        table, entries, shape = self._select(key)
        return assemble([table.entry(*entry) for entry in entries], shape)

    def set(self, key: Any, value: Any) -> Table:
        """The table with other entries at `key`, an index as in `table[key]`; compiled in place if this one is not used again."""
        table, entries, shape = self._select(key)
        given = np.asarray(value, dtype=object)
        try:
            leaves = np.broadcast_to(given, shape).ravel().tolist()
        except ValueError:
            raise TraceError(f"{caller()}: entries of shape {shape} cannot be set to a value of shape {given.shape}") from None
        for entry, leaf in zip(entries, leaves, strict=True):
            table = table.with_entry(leaf, *entry)
        return table if table.shape == self.shape else table.reshape(*_two_axes(self.shape)).shaped(self.shape)

    # ---- one entry

    def constant(self, column: int) -> float | None:
        """The number that a loop wrote into every row of a column; None if rows may differ, and for tables of other origin."""
        op, args, data = self.graph.nodes[self.index]
        if op != "slice":
            return None
        loop = self.graph.nodes[args[0]].data
        op, _, number = loop.body.nodes[loop.body.results[loop.carries + data[0] + column]]
        return number if op == "const" else None

    def _require_rows(self) -> None:
        if self.rows == RUN_TIME:
            raise TraceError(
                f"{caller()}: a table whose number of rows is known at run time can be scanned, and returned, and nothing else; "
                "give its number of rows to index or update it, or to use it inside of another loop"
            )

    def entry(self, row: int, column: int, offset: Any = None) -> Scalar:
        """The entry of a row, counted from `offset`, and a column; a constant where a loop wrote one number into all rows."""
        if (known := self.constant(column)) is not None:
            graph = current()
            return Scalar(graph, graph.const(known))
        self._require_rows()
        if offset is None:
            return Scalar(self.graph, self.graph.record("index", (self.index,), (row, column)))
        graph, args = self._placed(offset)
        return Scalar(graph, graph.record("index", args, (row, column)))

    def with_entry(self, value: Any, row: int, column: int, offset: Any = None) -> Table:
        """The table with one other entry."""
        self._require_rows()
        graph, (table, *rest) = self._placed(offset)
        args = (table, graph.place(value if isinstance(value, Scalar) else number(value)), *rest)
        return Table(graph, graph.record("update", args, (row, column, *_two_axes(self.shape))), self.shape)

    def reshape(self, rows: int, columns: int) -> Table:
        """The same entries in rows of another length."""
        self._require_rows()
        place = self.index
        if (rows, columns) != table_size(self.graph.nodes, place):
            place = self.graph.record("reshape", (place,), (rows, columns))
        return Table(self.graph, place, (rows, columns))

    def shaped(self, shape: tuple[int, ...]) -> Table:
        """The same table, seen with other axes within its rows."""
        return Table(self.graph, self.index, shape)

    def _placed(self, offset: Any) -> tuple[Graph, tuple[int, ...]]:
        """(the graph being recorded, positions of the table and of the offset in it)."""
        graph = current()
        return graph, (graph.place(self), *([] if offset is None else [graph.place(offset)]))

    def check_scanned(self, count: int) -> None:
        """Raise unless a loop with this number of iterations may read the rows of this table where it is recorded."""
        if self.rows == RUN_TIME and self.graph is not current():
            self._require_rows()
        if self.rows != count:
            raise TraceError(f"{caller()}: a loop of {_rows(count)} cannot read a table of {_rows(self.rows)}")

    def _select(self, key: Any) -> tuple[Table, list[tuple[int, int, Any]], tuple[int, ...]]:
        """(table, (row, column, offset) of each entry that a key selects, their shape); with a traced column, all are one."""
        self._require_rows()
        keys = list(key) if isinstance(key, tuple) else [key]
        if len(keys) > self.ndim:
            raise TraceError(
                f"{caller()}: a table of shape {self.shape} has {self.ndim} axes, and {len(keys)} indices were given"
            )
        axes: list[Any] = [_axis(k, n, self.shape) for k, n in zip(keys, self.shape, strict=False)]
        axes += [range(n) for n in self.shape[len(keys) :]]
        shape = tuple(len(a) for a in axes if isinstance(a, range))
        strides = [math.prod(self.shape[k + 1 :]) for k in range(self.ndim)]
        static = np.zeros((), dtype=int)
        for a, stride in zip(axes, strides, strict=True):
            if not isinstance(a, Scalar):
                static = np.add.outer(static, np.asarray(a) * stride)
        positions = [int(p) for p in static.reshape(-1)]
        if not any(isinstance(a, Scalar) for a in axes[1:]):
            offset = axes[0] if isinstance(axes[0], Scalar) else None
            return self, [(*divmod(p, self.columns), offset) for p in positions], shape
        moving = sum((a * float(s) for a, s in zip(axes, strides, strict=True) if isinstance(a, Scalar)), 0.0)
        flat = self.reshape(math.prod(self.shape), 1)
        return flat, [(p, 0, moving) for p in positions], shape


def _axis(key: Any, size: int, shape: tuple[int, ...]) -> Any:
    """One index as a traced number, a whole number, or a range."""
    if isinstance(key, slice):
        return range(size)[key]
    if isinstance(key, Scalar):
        known = key.graph.range(key.index)
        if known is None or (known[0] < size and known[1] > -1):
            return key
        key = f"from {known[0]:g} to {known[1]:g}"
    elif isinstance(key, (int, np.integer)):
        if -size <= key < size:
            return int(key) % size
    else:
        raise TraceError(
            f"{caller()}: an index of a table is a whole number, a slice of whole numbers or a traced number; got {key!r:.40}"
        )
    raise IndexError(f"{caller()}: index {key} of an axis of length {size}, in a table of shape {shape}")


def _rows(count: int) -> str:
    return "rows known at run time" if count == RUN_TIME else f"{count} rows"


def _two_axes(shape: tuple[int, ...]) -> tuple[int, int]:
    return shape[0], math.prod(shape[1:])


def make_table(graph: Graph, entries: list[Any], rows: int, columns: int) -> Table:
    """A table of scalars and numbers, given row after row."""
    args = tuple([graph.place(x) for x in entries])
    if (whole := whole_table(graph.nodes, args, rows, columns)) is not None:
        return Table(graph, whole, (rows, columns))
    return Table(graph, graph.record("table", args, (rows, columns)), (rows, columns))


def table(values: Any) -> Table:
    """A table of the entries of an array of traced values and numbers, or of nested lists of them."""
    if isinstance(values, Table):
        return values
    entries = np.asarray(values, dtype=object)
    if entries.ndim == 0 or entries.size == 0:
        raise TraceError(f"{caller()}: a table needs at least one axis and one entry; got an array of shape {entries.shape}")
    leaves = [x if isinstance(x, Scalar) else number(x) for x in entries.ravel().tolist()]
    return make_table(current(), leaves, *_two_axes(entries.shape)).shaped(entries.shape)


def fill_table(value: float, shape: int | tuple[int, ...]) -> Table:
    """A table with the same number in every entry."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    graph = current()
    return Table(graph, graph.record("fill", (), (float(value), *_two_axes(sizes))), sizes)


def empty_table(shape: int | tuple[int, ...]) -> Table:
    """A table in which every entry is written before it is read: what it holds until then is unknown, and costs nothing."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    graph = current()
    return Table(graph, graph.record("fill", (), (None, *_two_axes(sizes))), sizes)


def zeros_table(shape: int | tuple[int, ...]) -> Table:
    """A table of zeros, to be filled in by a loop."""
    return fill_table(0.0, shape)
