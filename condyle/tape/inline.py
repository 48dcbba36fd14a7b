"""Replay: a block interpreted with traced scalars, which records it again. Rewriting a tape is interpreting it differently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from condyle.tape.graph import Block, Graph, Loop
from condyle.tape.interpret import Arithmetic, evaluate
from condyle.tape.loop import Table, columns, current, make_table, recording, repeat
from condyle.tape.ops import BOOL, OPS
from condyle.tape.scalar import Scalar, compare, emit
from condyle.tape.tape import Tape


class Replay(Arithmetic):
    """Arithmetic that records; subclasses change what some operations become."""

    def __init__(self) -> None:
        self.functions: dict[str, Callable[..., Any]] = {
            name: partial(compare if op.gives == BOOL else emit, name) for name, op in OPS.items()
        }
        self.functions["pow"] = lambda a, p: emit("pow", a, data=p)

    def number(self, value: float) -> Scalar:
        graph = current()
        return Scalar(graph, graph.const(value))

    def loop(self, loop: Loop, start: list[Any], tables: list[Any], captured: list[Any]) -> tuple[list[Any], Any]:
        def body(i: Scalar, carried: list[Scalar], row: list[Scalar]) -> tuple[list[Any], list[Any]]:
            results = evaluate(loop.body, [i, *carried, *row, *captured], self)
            return results[: loop.carried], results[loop.carried :]

        return repeat(loop.count, start, tables, body, reverse=loop.reverse)

    def table(self, entries: list[Any], rows: int, columns: int) -> Table:
        return make_table(current(), entries, rows, columns)

    def columns(self, written: Table, first: int, last: int) -> Table:
        return columns(written, first, last, (last - first,))

    def entry(self, table: Table, row: int, column: int) -> Scalar:
        return table.entry(row, column)


def replay(block: Block, arithmetic: Arithmetic) -> Block:
    """The block recorded again, in another arithmetic."""
    graph = Graph()
    params = [Scalar(graph, graph.param()) for _ in range(block.params)]
    with recording(graph):
        results = evaluate(block, params, arithmetic)
    return graph.block(positions(graph, results))


def positions(graph: Graph, values: Sequence[Any]) -> list[int]:
    """Where traced values, tables and numbers stand in a graph."""
    out = []
    for x in values:
        if isinstance(x, Table):
            out.append(x.index)
        else:
            out.append(graph.const(x) if isinstance(x, float) else graph.adopt(x.graph, x.index))
    return out


def inline(tape: Tape, flat: Sequence[Any]) -> dict[str, np.ndarray]:
    """The results of a tape on traced scalars and numbers, flat and by name, recorded where the caller records."""
    recorder = Replay()
    values = evaluate(tape.block, [x if isinstance(x, Scalar) else recorder.number(float(x)) for x in flat], recorder)
    out, at = {}, 0
    for port in tape.outputs:
        out[port.name] = np.array([*values[at : at + port.size], None], dtype=object)[:-1]
        at += port.size
    return out
