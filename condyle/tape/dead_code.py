"""Dead code: a block with only what its results need, down to single columns of the tables that loops write and read.

What is needed only grows, so it is found by one walk over the operations, from the results backwards and through the bodies of
loops; each operation is visited once however deep loops are nested. Then every block is written once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from condyle.tape.ops import OPS
from condyle.tape.tape import RUN_TIME, Block, Loop, Node, table_size

Columns = dict[int, list[int]]  # table -> its columns that are still there


def dead_code(block: Block) -> Block:
    """Only what the results need: unused operations, carried values, tables, written columns and captured values are gone."""
    live = _live(block)
    # the rows of a table that nothing reads are still how often a loop runs
    while (counted := _last_without_rows(live)) is not None:
        counted.read_column(0)
        _propagate(live.waiting)
    return live.written(block.results, block.params)


def columns_used(block: Block, table: int) -> set[int]:
    """The columns that the results of a block need of a table from outside; none if it only says how often a loop runs."""
    return _live(block).columns.get(table, set())


def _live(block: Block) -> _Live:
    """What the results of a block need."""
    waiting: Waiting = []
    live = _Live(block, waiting)
    live.need(block.results)
    _propagate(waiting)
    return live


def _propagate(waiting: Waiting) -> None:
    while waiting:
        live, i = waiting.pop()
        live.visit(i)


def _last_without_rows(live: _Live) -> _LiveLoop | None:
    """The last loop that runs once for each row of tables of which it reads nothing."""
    for i in sorted(live.loops, reverse=True):
        loop = live.loops[i]
        if loop.loop.count == RUN_TIME and not any(loop.read):
            return loop
        if (inside := _last_without_rows(loop.body)) is not None:
            return inside
    return None


class _Live:
    """What is needed of a block; `waiting` are the nodes whose arguments have not been looked at."""

    def __init__(self, block: Block, waiting: Waiting, owner: _LiveLoop | None = None) -> None:
        self.nodes, self.waiting, self.owner = block.nodes, waiting, owner
        self.needed = bytearray(len(block.nodes))
        self.columns: dict[int, set[int]] = {}  # slice or input -> columns used
        self.loops: dict[int, _LiveLoop] = {}

    def need(self, args: Iterable[int], column: int | None = None) -> None:
        """Nodes that are needed, of tables this column or all of them."""
        needed = self.needed
        for a in args:
            if not needed[a]:
                needed[a] = 1
                self.waiting.append((self, a))
            if self.nodes[a].op in ("slice", "input"):
                self._need_columns(a, column)

    def _need_columns(self, table: int, column: int | None) -> None:
        used = self.columns.setdefault(table, set())
        every = range(table_size(self.nodes, table)[1]) if column is None else (column,)
        new = [c for c in every if c not in used]
        used.update(new)
        op, args, data = self.nodes[table]
        if op == "slice":
            loop = self.loop(args[0])
            for c in new:
                loop.write(data[0] + c)
        elif self.owner is not None:
            for c in new:
                self.owner.use_table(data[0], c)

    def loop(self, i: int) -> _LiveLoop:
        """What is needed of a loop."""
        if i not in self.loops:
            self.loops[i] = _LiveLoop(self, self.nodes[i])
        return self.loops[i]

    def visit(self, i: int) -> None:
        """Need what a node needs."""
        op, args, data = self.nodes[i]
        if op in OPS:
            needed, waiting = self.needed, self.waiting
            for a in args:
                if not needed[a]:
                    needed[a] = 1
                    waiting.append((self, a))
        elif op in ("param", "limb"):
            if self.owner is not None:
                self.owner.use(data if op == "param" else data[0])
        elif op in ("get", "after") and self.nodes[args[0]].op == "loop":
            self.need(args)
            self.loop(args[0]).carry(data if op == "get" else data[0])
        elif op == "index":
            self.need(args[:1], data[1])
            self.need(args[1:])
        elif op == "loop":
            self.loop(i)
        elif op != "input":
            self.need(args)

    def written(
        self,
        results: Sequence[int],
        params: int,
        number: Mapping[int, int] | None = None,
        inputs: Mapping[int, list[int]] = MappingProxyType({}),
    ) -> Block:
        """The block with only what is needed; params renumbered, and tables from outside, by param, with only these columns."""
        nodes, needed, loops = self.nodes, self.needed, self.loops
        place = [0] * len(nodes)
        kept: list[Node] = []
        there: Columns = {}
        for i, node in enumerate(nodes):
            if not needed[i]:
                continue
            place[i] = len(kept)
            op, args, data = node
            if op in OPS:
                moved = tuple([place[a] for a in args])
                kept.append(node if moved == args else Node(op, moved, data))
                continue
            if op == "param":
                kept.append(node if number is None else Node(op, args, number[data]))
                continue
            if op == "limb":
                kept.append(node if number is None else Node(op, args, (number[data[0]], data[1])))
                continue
            if op == "loop":
                data, args = loops[i].written(there), loops[i].args
            elif op == "get" and args[0] in loops:
                data = loops[args[0]].place[data]
            elif op == "after" and args[0] in loops:
                data = (loops[args[0]].place[data[0]], *data[1:])
            elif op == "slice":
                still = loops[args[0]].columns
                there[i] = [c - data[0] for c in still if data[0] <= c < data[1]]
                start = bisect_left(still, data[0])
                data = (start, start + len(there[i]))
            elif op == "index" and args[0] in there:
                data = (data[0], there[args[0]].index(data[1]))
            elif op == "input":
                if data[0] in inputs:
                    there[i] = inputs[data[0]]
                    data = (*data[:2], len(there[i]))
                data = data if number is None else (number[data[0]], *data[1:])
            kept.append(Node(op, tuple([place[a] for a in args]), data))
        return Block(tuple(kept), params, tuple([place[i] for i in results]))


class _LiveLoop:
    """What is needed of a loop: carried values, columns that it writes, and what it reads from outside."""

    def __init__(self, outside: _Live, node: Node) -> None:
        self.outside = outside
        self.loop: Loop = node.data
        self.start, self.tables, self.captured = self.loop.split(node.args)
        self.body = _Live(self.loop.body, outside.waiting, self)
        self.carried: set[int] = set()
        self.writes: set[int] = set()
        self.widths = [table_size(outside.nodes, t)[1] for t in self.tables]
        self.read: list[set[int]] = [set() for _ in self.tables]  # columns of each table that are used
        self.used: set[int] = set()  # captured values
        if self.loop.done is not None:
            self.body.need([self.loop.done])

    def carry(self, j: int) -> None:
        """A carried value is needed, in the body or after the loop."""
        if j not in self.carried:
            self.carried.add(j)
            self.body.need([self.loop.body.results[j]])
            self.outside.need([self.start[j]])

    def write(self, column: int) -> None:
        """A column of what the loop writes is needed."""
        if column not in self.writes:
            self.writes.add(column)
            self.body.need([self.loop.body.results[self.loop.carries + column]])

    def use(self, param: int) -> None:
        """A number from outside is needed in the body."""
        at = param - 1
        if at < self.loop.carries:
            if at >= 0:
                self.carry(at)
            return
        at -= self.loop.carries
        if at >= self.loop.reads:
            self.used.add(at - self.loop.reads)
            self.outside.need([self.captured[at - self.loop.reads]])
            return
        for t, width in enumerate(self.widths):
            if at < width:
                self.read[t].add(at)
                self.outside.need([self.tables[t]], at)
                return
            at -= width

    def read_column(self, column: int) -> None:
        """A column of the first table is needed."""
        self.read[0].add(column)
        self.outside.need(self.tables[:1], column)

    def use_table(self, param: int, column: int) -> None:
        """A column of a table from outside is needed in the body."""
        if param <= self.loop.carries:
            self.carry(param - 1)
            return
        k = param - 1 - self.loop.carries - self.loop.reads
        self.used.add(k)
        self.outside.need([self.captured[k]], column)

    def written(self, there: Columns) -> Loop:
        """The loop with only what is needed, given the columns that tables outside still have; all of them if not given."""
        loop = self.loop
        carry, tables, captured = sorted(self.carried), [t for t, used in enumerate(self.read) if used], sorted(self.used)
        self.columns = sorted(self.writes)
        self.place = {j: k for k, j in enumerate(carry)}
        self.args = (
            *[self.start[j] for j in carry],
            *[self.tables[t] for t in tables],
            *[self.captured[k] for k in captured],
        )
        params = [0, *[1 + j for j in carry]]
        for t in tables:
            first = 1 + loop.carries + sum(self.widths[:t])
            params += [first + c for c in there.get(self.tables[t], range(self.widths[t]))]
        reads = len(params) - 1 - len(carry)
        outside = {1 + loop.carries + loop.reads + k: self.captured[k] for k in captured}
        params += outside
        results = [loop.body.results[j] for j in carry] + [loop.body.results[loop.carries + c] for c in self.columns]
        results += [] if loop.done is None else [loop.done]
        number = {p: k for k, p in enumerate(params)}
        narrower = {p: there[a] for p, a in outside.items() if a in there}
        body = self.body.written(results, len(params), number, narrower)
        return replace(loop, body=body, carries=len(carry), reads=reads, writes=len(self.columns), tables=len(tables))


Waiting = list[tuple[_Live, int]]
