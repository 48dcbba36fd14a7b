"""Recorder: a block interpreted with traced scalars, which records it again. Rewriting a tape is interpreting it differently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from condyle.tape.graph import Graph
from condyle.tape.interpret import Arithmetic, evaluate
from condyle.tape.limb_values import limb_max, limb_sum, pick, spread_again
from condyle.tape.loop import columns, repeat
from condyle.tape.ops import BOOL, INT, OPS
from condyle.tape.scalar import Int, Scalar, compare, emit, integer
from condyle.tape.table import Table, current, empty_table, fill_table, make_table, recording
from condyle.tape.tape import RUN_TIME, Block, Call, Loop, Subroutine, Tape, by_port


class Recorder(Arithmetic):
    """Arithmetic that records operations in the current graph; subclasses change what some operations become."""

    def __init__(self) -> None:
        self.functions: dict[str, Callable[..., Any]] = {
            name: partial({BOOL: compare, INT: integer}.get(op.gives, emit), name) for name, op in OPS.items()
        }
        self.functions["pow"] = lambda a, p: emit("pow", a, data=p)
        self.functions |= {"spread": spread_again, "pick": pick, "limb_sum": limb_sum, "limb_max": limb_max}

    def number(self, value: float) -> Scalar:
        """A constant of the current graph."""
        graph = current()
        return Scalar(graph, graph.const(value))

    def word(self, value: int) -> Int:
        """A constant word of the current graph."""
        graph = current()
        return Int(graph, graph.const(value))

    def loop(self, loop: Loop, start: list[Any], tables: list[Any], captured: list[Any]) -> tuple[list[Any], Any]:
        """The loop recorded again, its body in this arithmetic."""

        def body(i: Scalar, carry: list[Scalar], row: list[Scalar]) -> tuple[list[Any], list[Any]]:
            # what a condition needs is computed inside of it, not by every state before it
            given = [_inside(x) for x in captured] if loop.exits and loop.count == 1 else captured
            results = evaluate(loop.body, [i, *carry, *row, *given], self)
            return results[: loop.carries], results[loop.carries :]

        # rows known at run time may be known here
        count = loop.count if loop.count != RUN_TIME else tables[0].rows
        return repeat(count, start, tables, body, reverse=loop.reverse)

    def call(self, call: Call | Subroutine, args: list[Any]) -> tuple[list[Any], Any]:
        """The call recorded again."""
        graph = current()
        return record_call(graph, call, [graph.place(x) for x in args]), None

    def table(self, entries: list[Any], rows: int, columns: int) -> Table:
        """A table of the current graph."""
        return make_table(current(), entries, rows, columns)

    def slice(self, written: Table, first: int, last: int) -> Table:
        """Columns of what a loop wrote."""
        return columns(written, first, last, (last - first,))

    def fill(self, value: float | None, rows: int, columns: int) -> Table:
        """A table of the current graph with one number in every entry."""
        return fill_table(value, (rows, columns)) if value is not None else empty_table((rows, columns))

    def reshape(self, table: Table, rows: int, columns: int) -> Table:
        """The same entries in another shape."""
        return table.reshape(rows, columns)

    def index(self, table: Table, row: int, column: int, offset: Any = None) -> Scalar:
        """One entry of a table."""
        return table.entry(row, column, offset)

    def update(self, table: Table, value: Any, row: int, column: int, offset: Any = None) -> Table:
        """The table with one other entry."""
        return table.with_entry(value, row, column, offset)


def _inside(x: Any) -> Any:
    """A number from outside as one of the graph being recorded."""
    graph = current()
    return Scalar(graph, graph.place(x)) if type(x) is Scalar else x


def record_call(graph: Graph, call: Call | Subroutine, args: list[int]) -> list[Any]:
    """The results of a call recorded in a graph: numbers, and tables where a tape has tables as outputs."""
    node = graph.record("call", tuple(args), call)
    if isinstance(call, Call):
        return [Scalar(graph, graph.record("get", (node,), j)) for j in range(len(call.body.results))]
    results: list[Any] = []
    for port in call.tape.outputs:
        if port.table:
            size = (port.shape[0], port.columns)
            results.append(Table(graph, graph.record("after", (node,), (len(results), *size)), size))
        else:
            results += [Scalar(graph, graph.record("get", (node,), len(results) + k)) for k in range(port.size)]
    return results


def record_again(block: Block, arithmetic: Arithmetic) -> Block:
    """The block recorded again, in another arithmetic."""
    graph = Graph()
    params = block_params(graph, block)
    with recording(graph):
        results = evaluate(block, params, arithmetic)
    return graph.block([graph.place(x) for x in results])


def block_params(graph: Graph, block: Block) -> list[Any]:
    """New params of a graph, like those of a block: numbers, and tables where the block has tables."""
    sizes = {data[0]: data[1:] for op, _, data in block.nodes if op == "input"}
    return [
        Table(graph, graph.input(*sizes[p]), sizes[p]) if p in sizes else Scalar(graph, graph.param())
        for p in range(block.params)
    ]


def inline(tape: Tape, flat: Sequence[Any]) -> dict[str, np.ndarray]:
    """The results of a tape on traced scalars and numbers, flat and by name, recorded where the caller records.

    Parameters are not given: they are those of the function being traced.
    """
    recorder = Recorder()
    if any(port.parameter is not None for port in tape.inputs):
        rest = iter(flat)
        given = [[next(rest) for _ in range(p.size)] if p.parameter is None else np.ravel(p.parameter) for p in tape.inputs]
        flat = [x for part in given for x in part]
    values = evaluate(tape.block, [x if isinstance(x, Scalar) else recorder.number(float(x)) for x in flat], recorder)
    return {port.name: np.array([*_entries(mine), None], dtype=object)[:-1] for port, mine in by_port(tape.outputs, values)}


def _entries(values: list[Any]) -> list[Any]:
    """The scalars of an output, which may be one table."""
    return [x for value in values for x in (value[:].ravel() if isinstance(value, Table) else [value])]
