"""Reverse derivatives: every value with its adjoints, one per seed, from the results back to the params.

A loop runs forward once, writing down its carried values at each iteration, and then backward through what it wrote; each
iteration is recomputed from them. So the work is a small multiple of the loop's own, and the memory one row per iteration.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from condyle.tape.forward import chosen
from condyle.tape.inline import Recorder
from condyle.tape.interpret import evaluate, evaluate_nodes
from condyle.tape.loop import columns, repeat
from condyle.tape.ops import OPS
from condyle.tape.scalar import Scalar
from condyle.tape.sparsity import loop_backward, seeds, smooth
from condyle.tape.table import Table, current, make_table
from condyle.tape.tape import Block, Call, Loop

Adjoint = dict[int, Any]  # seed -> traced scalar


@dataclass
class TableAdjoint:
    """What reaches a table: whole columns of other tables, and single entries. Their sum is its adjoint."""

    parts: list[tuple[Table, dict[tuple[int, int], int]]] = field(default_factory=list)  # (column, seed) -> column of the part
    entries: dict[tuple[int, int], Adjoint] = field(default_factory=dict)  # (row, column) -> adjoint

    def add_entry(self, row: int, column: int, adjoint: Adjoint) -> None:
        """Add to the adjoint of one entry."""
        _accumulate(self.entries.setdefault((row, column), {}), adjoint)

    def entry(self, row: int, column: int) -> Adjoint:
        """The adjoint of one entry."""
        total: Adjoint = {}
        for table, place in self.parts:
            _accumulate(total, {s: table.entry(row, k) for (c, s), k in place.items() if c == column})
        _accumulate(total, self.entries.get((row, column), {}))
        return total

    def shifted(self, by: int) -> list[tuple[Table, dict[tuple[int, int], int]]]:
        """All parts with their columns counted from a table that begins `by` columns earlier."""
        return [(table, {(c + by, s): k for (c, s), k in place.items()}) for table, place in self.parts]

    def as_part(self, rows: int) -> None:
        """Turn the single entries into one more part."""
        keys = sorted({(c, s) for (_, c), adjoint in self.entries.items() for s in adjoint})
        if keys:
            values = [self.entries.get((r, c), {}).get(s, 0.0) for r in range(rows) for c, s in keys]
            self.parts.append((make_table(current(), values, rows, len(keys)), {key: k for k, key in enumerate(keys)}))
        self.entries = {}


class _Saving(Recorder):
    """Recorder in which the outermost loops also write their carried values, as the last columns of each row."""

    def loop(self, loop: Loop, start: list[Any], tables: list[Any], captured: list[Any]) -> tuple[list[Any], Any]:
        def body(i: Scalar, carry: list[Scalar], row: list[Scalar]) -> tuple[list[Any], list[Any]]:
            results = evaluate(loop.body, [i, *carry, *row, *captured], Recorder())
            return results[: loop.carries], [*results[loop.carries : loop.carries + loop.writes], *carry]

        final, written = repeat(loop.count, start, tables, body, reverse=loop.reverse)
        if loop.exits:
            # the values come from the loop as it was, which can end early; if nothing goes back, the one that writes is dead
            final, _ = Recorder().loop(loop, start, tables, captured)
        return final, written


def reverse(block: Block, params: list[Any], results: list[Any]) -> tuple[list[Any], list[Adjoint]]:
    """(values of the results, adjoints of the params), recorded in the current graph, from adjoints of the results."""
    values = evaluate_nodes(block, params, _Saving())
    adjoints: list[Any] = [_nothing(node.op, node.data) for node in block.nodes]
    for i, adjoint in zip(block.results, results, strict=True):
        if isinstance(adjoint, TableAdjoint):
            adjoints[i].parts += adjoint.parts
        else:
            _accumulate(adjoints[i], adjoint)
    into: list[Adjoint] = [{} for _ in range(block.params)]
    for i in reversed(range(len(block.nodes))):
        op, args, data = block.nodes[i]
        here = adjoints[i]
        if op == "param":
            into[data] = here
        elif op == "call":
            _call(data, [values[a] for a in args], values[i][0], here[0], [adjoints[a] for a in args])
        elif op == "get":
            _accumulate(adjoints[args[0]][0][data], here)
        elif op == "slice":
            here.as_part(values[i].rows)
            adjoints[args[0]][1].parts += here.shifted(data[0])
        elif op == "index":
            if here:
                adjoints[args[0]].add_entry(*data, here)
        elif op == "table":
            for k, a in enumerate(args):
                _accumulate(adjoints[a], here.entry(k // data[1], k % data[1]))
        elif op == "loop":
            _loop(data, [values[a] for a in args], values[i][1], here, [adjoints[a] for a in args])
        elif here and smooth(op):
            xs = [values[a] for a in args]
            _rule(op, values[i], xs, () if data is None else (data,), here, [adjoints[a] for a in args])
    return [values[i] for i in block.results], into


def _nothing(op: str, data: Any) -> Any:
    if op == "loop":
        return [{} for _ in range(data.carries)], TableAdjoint()
    if op == "call":
        return [{} for _ in data.body.results], None
    return TableAdjoint() if op in ("table", "slice") else {}


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


def _call(call: Call, xs: list[Any], results: list[Any], here: list[Adjoint], into: list[Adjoint]) -> None:
    """The adjoints of a call's arguments: its rule, which is linear in the tangents, transposed."""
    if any(here):
        at_zero = [Recorder().number(0.0) for _ in xs]
        _, adjoints = reverse(call.rule, [*xs, *results, *at_zero], here)
        for adjoint, more in zip(into, adjoints[len(xs) + len(results) :], strict=True):
            _accumulate(adjoint, more)


def _loop(loop: Loop, args: list[Any], written: Table, here: tuple[list[Adjoint], TableAdjoint], into: list[Any]) -> None:
    """The loop backward, iteration by iteration, from the adjoints of what it gave."""
    finals, rows = here
    _, tables, captured = loop.split(args)
    into_start, into_tables, into_captured = loop.split(into)
    written_masks = [0] * loop.writes
    for _, place in rows.parts:
        for c, s in place:
            written_masks[c] |= 1 << s
    carried_masks, row_masks, captured_masks = loop_backward(loop, [sum(1 << s for s in a) for a in finals], written_masks)
    if not any((*carried_masks, *row_masks, *captured_masks)):
        return
    carried_keys = [(j, s) for j, m in enumerate(carried_masks) for s in seeds(m)]
    row_keys = [(c, s) for c, m in enumerate(row_masks) for s in seeds(m)]
    captured_keys = [(c, s) for c, m in enumerate(captured_masks) for s in seeds(m)]
    saved = columns(written, loop.writes, loop.writes + loop.carries, (loop.carries,)) if loop.carries else None
    sources = [*([saved] if saved is not None else []), *tables, *[table for table, _ in rows.parts]]

    def body(i: Scalar, state: list[Scalar], row: list[Scalar]) -> tuple[list[Any], list[Any]]:
        results: list[Adjoint] = [{} for _ in loop.body.results]
        for (j, s), g in zip(carried_keys, state, strict=False):
            results[j][s] = g
        at = loop.carries + loop.reads
        for table, place in rows.parts:
            for (c, s), k in place.items():
                _accumulate(results[loop.carries + c], {s: row[at + k]})
            at += table.columns
        _, adjoints = reverse(loop.body, [i, *row[: loop.carries + loop.reads], *captured], results)
        outside = adjoints[1 + loop.carries + loop.reads :]
        sums = state[len(carried_keys) :]
        following = [adjoints[1 + j].get(s, 0.0) for j, s in carried_keys]
        following += [x + outside[c][s] if s in outside[c] else x for x, (c, s) in zip(sums, captured_keys, strict=True)]
        return following, [adjoints[1 + loop.carries + c].get(s, 0.0) for c, s in row_keys]

    begin = [*[finals[j].get(s, 0.0) for j, s in carried_keys], *[0.0 for _ in captured_keys]]
    final, out = repeat(loop.count, begin, sources, body, reverse=not loop.reverse)
    for (j, s), g in zip(carried_keys, final, strict=False):
        _accumulate(into_start[j], {s: g})
    for (c, s), g in zip(captured_keys, final[len(carried_keys) :], strict=True):
        _accumulate(into_captured[c], {s: g})
    first = 0
    for table, adjoint in zip(tables, into_tables, strict=True):
        place = {(c - first, s): k for k, (c, s) in enumerate(row_keys) if first <= c < first + table.columns}
        if place:
            adjoint.parts.append((out, place))
        first += table.columns
