"""A graph under construction, and the finished block: lists of operations in the order they are computed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from condyle.errors import TraceError
from condyle.tape.fold import FOLD
from condyle.tape.ops import BOOL, OPS


class Node(NamedTuple):
    """One operation: its name, the positions of its arguments in the block, and what else it needs to know."""

    op: str
    args: tuple[int, ...]
    data: Any = None


@dataclass(frozen=True, eq=False)
class Block:
    """Operations in order; `params` values go in, the values at `results` come out."""

    nodes: tuple[Node, ...]
    params: int
    results: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Loop:
    """A body repeated `count` times.

    The body's params are (iteration number, carried values, one row of each table, captured values); its results are
    (next carried values, the row to write). A reversed loop counts down: rows are read and written from the last.

    A loop that `exits` writes no rows, and its body has one more result, a comparison: where it holds, this iteration and all
    later ones leave the carried values as they are. A backend may stop when it holds for all states it computes together.
    """

    count: int
    body: Block
    carried: int
    reads: int  # entries of a row read, over all tables
    writes: int  # entries of a row written
    tables: int = 0
    reverse: bool = False
    exits: bool = False

    @property
    def done(self) -> int | None:
        """The node of the body that says whether the carried values are final; None for a loop that runs to its end."""
        return self.body.results[-1] if self.exits else None

    def split(self, args: tuple[Any, ...] | list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """(start values, tables, captured values) of a loop node's arguments."""
        k, t = self.carried, self.carried + self.tables
        return list(args[:k]), list(args[k:t]), list(args[t:])


class Graph:
    """Operations being recorded; equal operations are one node, and only exact foldings are made."""

    def __init__(self, parent: Graph | None = None) -> None:
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.nodes: list[Node] = []
        self.params = 0
        self.captured: dict[int, int] = {}  # node of the parent -> param here
        self._known: dict[Any, int] = {}

    def emit(self, op: str, args: tuple[int, ...] = (), data: Any = None) -> int:
        """Position of the operation, recorded now or found again."""
        fold = FOLD.get(op)
        if fold is not None:
            folded = fold(self, args)
            if folded is not None:
                return folded
        return self.record(op, args, data)

    def record(self, op: str, args: tuple[int, ...], data: Any) -> int:
        """Position of the operation exactly as written, without folding."""
        key = (op, args, data)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.nodes)
            self.nodes.append(Node(op, args, data))
        return found

    def const(self, value: float) -> int:
        """Position of a number; the two zeros are different numbers, all NaNs are one."""
        key = ("const", value if value == value else "nan", math.copysign(1.0, value) if value == value else 0.0)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.nodes)
            self.nodes.append(Node("const", (), float(value)))
        return found

    def param(self) -> int:
        """Position of a new value from outside."""
        self.nodes.append(Node("param", (), self.params))
        self.params += 1
        return len(self.nodes) - 1

    def adopt(self, graph: Graph, index: int) -> int:
        """Position here of a value of this graph or of a graph around it, captured as a param when it comes from outside."""
        if graph is self:
            return index
        if self.parent is None or graph.depth >= self.depth:
            raise TraceError("a traced value was used outside of the function or loop body it belongs to; return it instead")
        node = graph.nodes[index]
        if node.op == "const":
            return self.const(node.data)
        if node.op in OPS and OPS[node.op].gives == BOOL:
            # only numbers cross into a body: a comparison crosses as 1 or 0
            flag = graph.emit("select", (index, graph.const(1.0), graph.const(0.0)))
            return self.emit("lt", (self.const(0.0), self.adopt(graph, flag)))
        outer = self.parent.adopt(graph, index)
        if outer not in self.captured:
            self.captured[outer] = self.param()
        return self.captured[outer]

    def value(self, index: int) -> float | None:
        """The number at a position, or None when it is not a constant."""
        node = self.nodes[index]
        return node.data if node.op == "const" else None

    def block(self, results: list[int] | tuple[int, ...]) -> Block:
        """The finished block with these results."""
        return Block(tuple(self.nodes), self.params, tuple(results))
