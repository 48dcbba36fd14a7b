"""Reverse mode through scans over any number of rows, by two kernels: the first one writes down what the scans carry, the second
one reads it from the last row to the first.

    forward:   inputs                            ->  outputs, and for each scan the values that it carried at every row
    backward:  inputs, carried values, weights   ->  gradient = J^T weight

The vjp of the body of a scan is recorded once, inside of the backward scan; its values are recomputed from what was carried. So
neither kernel depends on the number of rows, and the memory is one row of carried values per row. A scan whose rows hold n steps
of a loop each keeps one row per n steps (checkpoints), and runs each n steps again when it goes back through them.
"""

from __future__ import annotations

from typing import Any

from condyle.errors import TraceError
from condyle.tape.array import assemble
from condyle.tape.dead_code import columns_used
from condyle.tape.derive import Names, _build, _chosen, _gradient, _params, vjp
from condyle.tape.graph import Graph
from condyle.tape.inline import Recorder
from condyle.tape.interpret import evaluate, evaluate_nodes
from condyle.tape.loop import columns, repeat
from condyle.tape.reverse import Saved, TableAdjoint, reverse
from condyle.tape.scalar import Scalar
from condyle.tape.table import Table
from condyle.tape.tape import RUN_TIME, Loop, Port, Tape, by_port


def forward_pass(tape: Tape, wrt: Names = None, value: Tape | None = None) -> Tape:
    """The tape with more outputs, which the backward pass needs; `value`: the same function in another form, to compute them."""
    kept, last, _ = _passes(tape, wrt)
    return _forward(tape if value is None else value, kept, last)


def backward_pass(tape: Tape, wrt: Names = None) -> Tape:
    """The tape of <input>_gradient = sum over outputs of J^T <output>_weight.

    Its inputs are those of the tape, the additional outputs of the forward pass, and the weights.
    """
    return _passes(tape, wrt)[2]


def _passes(tape: Tape, wrt: Names) -> tuple[list[list[int]], list[bool], Tape]:
    """(carried numbers that are kept of each scan, whether its final values are, the backward pass)."""
    loops = _scans(tape)
    if not loops:
        return [], [], vjp(tape, wrt)
    # what the backward pass does not read need not be written
    everything = [list(range(loop.carries)) for loop in loops]
    _, kept, last = _backward(tape, wrt, loops, everything, [True] * len(loops))
    return kept, last, _backward(tape, wrt, loops, kept, last)[0]


def _scans(tape: Tape) -> list[Loop]:
    """The scans over any number of rows."""
    loops = [node.data for node in tape.block.nodes if node.op == "loop" and node.data.count == RUN_TIME]
    for loop in loops:
        if any(node.op == "input" and node.data[0] <= loop.carries for node in loop.body.nodes):
            raise TraceError(
                f"{tape.name}: reverse mode through rows whose number is known at run time needs scans that carry numbers, not "
                "tables; carry the entries of the table as an array"
            )
    return loops


def _residual_ports(tape: Tape, loops: list[Loop], kept: list[list[int]], last: list[bool]) -> list[Port]:
    """What the forward pass gives to the backward pass."""
    taken = {p.name for p in (*tape.inputs, *tape.outputs)}
    ports = []
    for k, loop in enumerate(loops):
        sizes = {f"carried{k}": (RUN_TIME, len(kept[k])), f"final{k}": (loop.carries,)}
        for name, shape in sizes.items():
            while name in taken:
                name += "_"
            wanted = bool(kept[k]) if len(shape) == 2 else last[k]
            ports += [Port(name, shape, len(shape) == 2)] if wanted else []
    return ports


class _Keeping(Recorder):
    """Recorder in which scans over any number of rows also write some of the numbers that they carry."""

    def __init__(self, kept: list[list[int]]) -> None:
        super().__init__()
        self.kept = iter(kept)
        self.found: list[tuple[list[Any], Table | None]] = []

    def loop(self, loop: Loop, start: list[Any], tables: list[Any], captured: list[Any]) -> tuple[list[Any], Any]:
        if loop.count != RUN_TIME:
            return super().loop(loop, start, tables, captured)
        kept = next(self.kept)

        def body(i: Scalar, carry: list[Scalar], row: list[Scalar]) -> tuple[list[Any], list[Any]]:
            results = evaluate(loop.body, [i, *carry, *row, *captured], self)
            return results[: loop.carries], [*results[loop.carries :], *[carry[j] for j in kept]]

        final, written = repeat(loop.count, start, tables, body, reverse=loop.reverse)
        table = columns(written, loop.writes, loop.writes + len(kept), (len(kept),)) if kept else None
        self.found.append((final, table))
        return final, written


def _forward(tape: Tape, kept: list[list[int]], last: list[bool]) -> Tape:
    names = iter([p.name for p in _residual_ports(tape, _scans(tape), kept, last)])

    def build(graph: Graph, params: list[Any]) -> dict[str, Any]:
        keeping = _Keeping(kept)
        nodes = evaluate_nodes(tape.block, params, keeping)
        result: dict[str, Any] = {}
        for port, mine in by_port(tape.outputs, [nodes[i] for i in tape.block.results]):
            result[port.name] = mine[0].shaped(port.shape) if port.table else assemble(mine, port.shape)
        for k, (final, table) in enumerate(keeping.found):
            result |= {next(names): table} if table is not None else {}
            result |= {next(names): assemble(final, (len(final),))} if last[k] else {}
        return result

    return _build(tape, f"{tape.name}_forward", (), build)


def _backward(
    tape: Tape, wrt: Names, loops: list[Loop], kept: list[list[int]], last: list[bool]
) -> tuple[Tape, list[list[int]], list[bool]]:
    """(tape, carried values that it reads, whether it reads final values) for each scan."""
    inputs = _chosen(tape.inputs, wrt, "input")
    residuals = _residual_ports(tape, loops, kept, last)
    weights = [Port(f"{p.name}_weight", p.shape, p.table) for p in tape.outputs]

    def build(graph: Graph, params: list[Any]) -> dict[str, Any]:
        own, rest = params[: tape.block.params], iter(params[tape.block.params :])
        zero = Recorder().number(0.0)
        given = []
        for k, loop in enumerate(loops):
            table = next(rest) if kept[k] else None
            final = [next(rest) for _ in range(loop.carries)] if last[k] else [zero] * loop.carries
            given.append((final, Saved(table, kept[k])))
        adjoints: list[Any] = []
        for w in rest:
            adjoints.append(TableAdjoint([(w, {(c, 0): c for c in range(w.columns)})]) if isinstance(w, Table) else {0: w})
        _, into = reverse(tape.block, own, adjoints, given=iter(given))
        rows = next(p for p in own if isinstance(p, Table) and p.rows == RUN_TIME)
        found = {}
        for p in inputs:
            mine = [into[c] for c in _params(tape.inputs, p)]
            found[f"{p.name}_gradient"] = _row_gradient(tape, p, mine[0], rows) if p.run_time else _gradient(p, mine)
        return found

    made = _build(tape, f"{tape.name}_backward", (*residuals, *weights), build)
    used = {n.data if n.op == "param" else n.data[0]: i for i, n in enumerate(made.block.nodes) if n.op in ("param", "input")}
    read: list[list[int]] = []
    finals: list[bool] = []
    at = tape.block.params
    for k, loop in enumerate(loops):
        table = used.get(at) if kept[k] else None
        read.append([kept[k][c] for c in sorted(columns_used(made.block, table))] if table is not None else [])
        at += bool(kept[k])
        finals.append(last[k] and any(at + j in used for j in range(loop.carries)))
        at += loop.carries if last[k] else 0
    return made, read, finals


def _row_gradient(tape: Tape, port: Port, adjoint: TableAdjoint, rows: Table) -> Table:
    """The gradient by an input of any number of rows: columns that the backward scan writes, or zeros."""
    if not adjoint:
        _, zeros = repeat(RUN_TIME, [], [rows], lambda i, carry, row: ([], [0.0] * port.columns))
        return zeros.shaped(port.shape)
    (table, place), *more = adjoint.parts
    if more:
        raise TraceError(f"{tape.name}: '{port.name}' is scanned twice, and its gradient is not available; scan it once")
    return columns(table, place[0, 0], place[0, 0] + port.columns, port.shape[1:])
