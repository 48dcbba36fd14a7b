"""Dead code: a block with only what its results need, down to single columns of the tables that loops write and read."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

from condyle.tape.ops import OPS
from condyle.tape.tape import RUN_TIME, Block, Loop, Node, table_size


def dead_code(block: Block) -> Block:
    """Only what the results need: unused operations, carried values, tables, written columns and captured values are gone."""
    nodes = block.nodes
    needed = bytearray(len(nodes))
    for i in block.results:
        needed[i] = 1
    finals: dict[int, set[int]] = {}  # loop -> carried values used after it
    written: dict[int, set[int]] = {}  # loop -> columns used after it
    wanted = {i: set(range(table_size(nodes, i)[1])) for i in block.results if nodes[i].op == "slice"}  # slice -> columns used
    slim: dict[int, _SlimLoop] = {}
    for i in reversed(range(len(nodes))):
        if not needed[i]:
            continue
        op, args, data = nodes[i]
        columns: dict[int, set[int]] = {}  # table -> columns used here; all of them if it is not here
        if op in ("get", "after") and nodes[args[0]].op == "loop":
            finals.setdefault(args[0], set()).add(data if op == "get" else data[0])
        elif op == "slice":
            written.setdefault(args[0], set()).update([data[0] + c for c in wanted[i]])
        elif op == "index":
            columns[args[0]] = {data[1]}
        elif op == "loop":
            slim[i] = _slim_loop(nodes, data, args, finals.get(i, set()), sorted(written.get(i, set())))
            args = slim[i].args
            for table, used in (*slim[i].tables, *slim[i].captured_tables):
                columns[table] = columns.get(table, set()) | used
            columns = {a: used for a, used in columns.items() if a not in slim[i].start}
        for a in args:
            needed[a] = 1
            if nodes[a].op == "slice":
                wanted.setdefault(a, set()).update(columns.get(a, range(table_size(nodes, a)[1])))

    place = [0] * len(nodes)
    kept: list[Node] = []
    columns_kept: dict[int, list[int]] = {}  # slice -> its columns that are still written
    for i, node in enumerate(nodes):
        if not needed[i]:
            continue
        place[i] = len(kept)
        op, args, data = node
        if op in OPS:
            moved = tuple([place[a] for a in args])
            kept.append(node if moved == args else Node(op, moved, data))
            continue
        if op == "loop":
            data, args = slim[i].finished(columns_kept), slim[i].args
        elif op == "get" and args[0] in slim:
            data = slim[args[0]].carry.index(data)
        elif op == "after":
            data = (slim[args[0]].carry.index(data[0]), *data[1:])
        elif op == "slice":
            still = slim[args[0]].written
            columns_kept[i] = [c - data[0] for c in still if data[0] <= c < data[1]]
            start = bisect_left(still, data[0])
            data = (start, start + len(columns_kept[i]))
        elif op == "index" and args[0] in columns_kept:
            data = (data[0], columns_kept[args[0]].index(data[1]))
        kept.append(Node(op, tuple([place[a] for a in args]), data))
    return Block(tuple(kept), block.params, tuple([place[i] for i in block.results]))


@dataclass(frozen=True)
class _SlimLoop:
    """A loop without what is not used; its body's params are renumbered when it is known which columns its tables still have."""

    loop: Loop
    body: Block
    carry: list[int]  # carried values and columns written that stay, by their old positions
    written: list[int]
    tables: list[tuple[int, set[int]]]  # tables read row by row that stay, and their columns that are used
    first: list[int]  # param of the first entry of each of them
    captured: list[tuple[int, int]]  # (param, node) of captured values that stay
    captured_tables: list[tuple[int, set[int]]]  # tables among them, and their columns that are used
    size: dict[int, int]  # table -> columns it had
    start: set[int]  # start values
    args: tuple[int, ...]

    def finished(self, columns_kept: dict[int, list[int]]) -> Loop:
        """The loop, given the columns that tables still have; all of them if they are not given."""
        params = [0, *[1 + j for j in self.carry]]
        for (table, _), first in zip(self.tables, self.first, strict=True):
            params += [first + c for c in columns_kept.get(table, range(self.size[table]))]
        reads = len(params) - 1 - len(self.carry)
        params += [p for p, _ in self.captured]
        narrower = {p: columns_kept[a] for p, a in self.captured if a in columns_kept}
        body = _renumbered(_narrowed(self.body, narrower), params)
        carries, writes, tables = len(self.carry), len(self.written), len(self.tables)
        return replace(self.loop, body=body, carries=carries, reads=reads, writes=writes, tables=tables)


def _renumbered(block: Block, params: list[int]) -> Block:
    """The block with only these params, in this order."""
    number = {p: k for k, p in enumerate(params)}
    nodes = [
        Node(op, args, number[data] if op == "param" else (number[data[0]], *data[1:]) if op == "input" else data)
        for op, args, data in block.nodes
    ]
    return Block(tuple(nodes), len(params), block.results)


def _columns_used(block: Block, table: int) -> set[int]:
    """The columns of a table that a block uses."""
    width = table_size(block.nodes, table)[1]
    if table in block.results:
        return set(range(width))
    used: set[int] = set()
    for op, args, data in block.nodes:
        if table not in args:
            continue
        if op == "index":
            used.add(data[1])
        elif op == "loop" and table not in args[: data.carries]:
            inside = data.body.nodes
            _, tables, captured = data.split(args)
            numbers = {n.data for n in inside if n.op == "param"}
            at = 1 + data.carries
            for t in tables:
                size = table_size(block.nodes, t)[1]
                used |= {c for c in range(size) if at + c in numbers} if t == table else set()
                at += size
            places = {n.data[0]: k for k, n in enumerate(inside) if n.op == "input"}
            for j, a in enumerate(captured):
                if a == table and at + j in places:
                    used |= _columns_used(data.body, places[at + j])
        else:
            return set(range(width))
    return used


def _narrowed(block: Block, columns_kept: dict[int, list[int]]) -> Block:
    """The block whose tables from outside, by param, have only these of their columns."""
    if not columns_kept:
        return block
    kept: dict[int, list[int]] = {}  # node -> columns that it still has
    nodes: list[Node] = []
    for i, (op, args, data) in enumerate(block.nodes):
        if op == "input" and data[0] in columns_kept:
            kept[i] = columns_kept[data[0]]
            data = (data[0], data[1], len(kept[i]))
        elif op == "index" and args[0] in kept:
            data = (data[0], kept[args[0]].index(data[1]))
        elif op == "loop":
            _, tables, captured = data.split(args)
            params, at = list(range(1 + data.carries)), 1 + data.carries
            for t in tables:
                width = table_size(block.nodes, t)[1]
                params += [at + c for c in kept.get(t, range(width))]
                at += width
            reads = len(params) - 1 - data.carries
            params += range(at, at + len(captured))
            body = _narrowed(data.body, {at + j: kept[a] for j, a in enumerate(captured) if a in kept})
            data = replace(data, body=_renumbered(body, params), reads=reads)
        nodes.append(Node(op, args, data))
    return Block(tuple(nodes), block.params, block.results)


def _slim_loop(nodes: tuple[Node, ...], loop: Loop, args: tuple[int, ...], finals: set[int], written: list[int]) -> _SlimLoop:
    """The loop with only what is used, given the carried values and the columns that are used after it."""
    body = loop.body
    start, tables, captured = loop.split(args)
    alive = set(finals)
    while True:
        # a carried value is also alive when the next round of another living one reads it
        results = [body.results[j] for j in sorted(alive)] + [body.results[loop.carries + c] for c in written]
        results += [] if loop.done is None else [loop.done]
        slim = dead_code(Block(body.nodes, body.params, tuple(results)))
        used: set[int] = {n.data if n.op == "param" else n.data[0] for n in slim.nodes if n.op in ("param", "input")}
        grown = alive | {j for j in range(loop.carries) if 1 + j in used}
        if grown == alive:
            break
        alive = grown
    carry = sorted(alive)
    at, first, read = 1 + loop.carries, [], []
    for table in tables:
        width = table_size(nodes, table)[1]
        columns = {c for c in range(width) if at + c in used}
        if columns:
            first.append(at)
            read.append((table, columns))
        at += width
    if loop.count == RUN_TIME and not read:
        # the rows of a table that nothing reads are still how often it runs
        first, read = [1 + loop.carries], [(tables[0], {0})]
    outside = [(at + j, a) for j, a in enumerate(captured) if at + j in used]
    places = {n.data[0]: k for k, n in enumerate(slim.nodes) if n.op == "input"}
    captured_tables = [(a, _columns_used(slim, places[p])) for p, a in outside if p in places]
    begin = [start[j] for j in carry]
    kept = (*begin, *[table for table, _ in read], *[a for _, a in outside])
    size = {table: table_size(nodes, table)[1] for table in tables}
    return _SlimLoop(loop, slim, carry, written, read, first, outside, captured_tables, size, set(begin), kept)
