"""A graph: operations being recorded, in the order they are computed."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from condyle.errors import TraceError
from condyle.tape.fold import FOLD
from condyle.tape.ops import BOOL, INT, OPS, REAL, TABLES
from condyle.tape.tape import Block, Node, limbs_of, table_size


@contextmanager
def collection_paused() -> Iterator[None]:
    """No search for reference cycles meanwhile: nodes are many and make no cycles, and searching takes half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Graph:
    """Operations being recorded; equal operations are one node, and only exact foldings are made."""

    def __init__(self, parent: Graph | None = None) -> None:
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.values_only: bool = parent is not None and parent.values_only  # derivative rules are traced when they are asked for
        self.nodes: list[Node] = []
        self.params = 0
        self.captured: dict[int, int] = {}  # node of the parent -> param here
        self.counters: dict[int, tuple[float, float]] = {}  # param -> the range of the whole numbers that it counts through
        self.parameters: dict[str, tuple[Any, list[int]]] | None = None  # of a traced function: name -> parameter, its params
        self.limbs: dict[int, int] = {}  # value of each limb -> the number of limbs
        self.one_limb = False  # numbers of limbs from outside are those of one limb here
        self._known: dict[Any, int] = {}

    def emit(self, op: str, args: tuple[int, ...] = (), data: Any = None) -> int:
        """Position of the operation, recorded now or found again."""
        if self.limbs and op in OPS and (folded := self._of_constant_limbs(op, args, data)) is not None:
            return folded
        fold = FOLD.get(op)
        if fold is not None:
            folded = fold(self, args)
            if folded is not None:
                return folded
        return self.record(op, args, data)

    def record(self, op: str, args: tuple[int, ...], data: Any) -> int:
        """Position of the operation exactly as written, without folding."""
        node = Node(op, args, data)
        count = len(self.nodes)
        found = self._known.setdefault(node, count)
        if found == count:
            self.nodes.append(node)
            if (self.limbs or op in ("spread", "get")) and (limbs := limbs_of(node, self.nodes, self.limbs)):
                self.limbs[count] = limbs
        return found

    def _of_constant_limbs(self, op: str, args: tuple[int, ...], data: Any) -> int | None:
        """The result of an operation on constants that differ by limb, if every limb's folds to a constant; else None."""
        given = [self.nodes[a] for a in args]
        limbs = max([len(node.args) for node in given if node.op == "spread"], default=0)
        if not limbs or any(node.op not in ("const", "spread") for node in given) or OPS[op].gives != REAL:
            return None
        found = []
        for k in range(limbs):
            own = tuple([a if node.op == "const" else node.args[k] for a, node in zip(args, given, strict=True)])
            if any(self.nodes[a].op != "const" for a in own):
                return None
            found.append(self.emit(op, own, data))
        return self.emit("spread", tuple(found)) if all(self.nodes[i].op == "const" for i in found) else None

    def copy(self, node: Node, args: tuple[int, ...]) -> int:
        """Position of a node of another graph, with its arguments here."""
        if args != node.args:
            node = Node(node.op, args, node.data)
        count = len(self.nodes)
        found = self._known.setdefault(node, count)
        if found == count:
            self.nodes.append(node)
            if (self.limbs or node.op in ("spread", "get")) and (limbs := limbs_of(node, self.nodes, self.limbs)):
                self.limbs[count] = limbs
        return found

    def const(self, value: float | int) -> int:
        """Position of a number, or of a word if it is an int; the two zeros are different numbers, all NaNs are one."""
        if isinstance(value, int):
            return self.record("const", (), value)
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

    def limb(self, limbs: int) -> int:
        """Position of a new number of each limb from outside."""
        self.limbs[len(self.nodes)] = limbs
        self.nodes.append(Node("limb", (), (self.params, limbs)))
        self.params += 1
        return len(self.nodes) - 1

    def input(self, rows: int, columns: int) -> int:
        """Position of a new table from outside."""
        self.nodes.append(Node("input", (), (self.params, rows, columns)))
        self.params += 1
        return len(self.nodes) - 1

    def adopt(self, graph: Graph, index: int) -> int:
        """Position here of a value of this graph or of a graph around it, captured as a param when it comes from outside."""
        if graph is self:
            return index
        if self.parent is None or graph.depth >= self.depth:
            raise TraceError(
                "a traced value was used outside of the function or loop body it belongs to; return it, or pass it in"
            )
        node = graph.nodes[index]
        if node.op == "const":
            return self.const(node.data)
        kind = OPS[node.op].gives if node.op in OPS else None
        if kind == INT:
            # only numbers cross into a body: a word crosses in two halves, which are exact in every precision
            halves = [graph.emit(op, (index, graph.const(k))) for op, k in (("ishr", 16), ("iand", 0xFFFF))]
            high, low = [self.emit("to_int", (self.adopt(graph, graph.emit("to_real", (half,))),)) for half in halves]
            return self.emit("ior", (self.emit("ishl", (high, self.const(16))), low))
        if kind == BOOL:
            # and a comparison as 1 or 0
            flag = graph.emit("select", (index, graph.const(1.0), graph.const(0.0)))
            return self.emit("lt", (self.const(0.0), self.adopt(graph, flag)))
        outer = self.parent.adopt(graph, index)
        if outer not in self.captured:
            if self.parent.nodes[outer].op in TABLES:
                self.captured[outer] = self.input(*table_size(self.parent.nodes, outer))
            else:
                limbs = 0 if self.one_limb else self.parent.limbs.get(outer)
                self.captured[outer] = self.limb(limbs) if limbs else self.param()
            if outer in self.parent.counters:
                self.counters[self.captured[outer]] = self.parent.counters[outer]
        return self.captured[outer]

    def range(self, index: int, depth: int = 12) -> tuple[float, float] | None:
        """The range of a number that is made of constants and counters by sums and products; None for any other."""
        op, args, data = self.nodes[index]
        if op == "const":
            return data, data
        if index in self.counters or op not in ("add", "sub", "mul", "neg"):
            return self.counters.get(index)
        if not depth or (first_part := self.range(args[0], depth - 1)) is None:
            return None
        last_part = self.range(args[-1], depth - 1)
        if last_part is None:
            return None
        (low, high), (first, last) = first_part, last_part
        if op == "neg":
            return -high, -low
        if op == "add":
            return low + first, high + last
        if op == "sub":
            return low - last, high - first
        products = (low * first, low * last, high * first, high * last)
        return min(products), max(products)

    def place(self, x: Any) -> int:
        """Position here of a number, or of a traced value or table of this graph or of one around it."""
        return self.const(x) if isinstance(x, float) else self.adopt(x.graph, x.index)

    def value(self, index: int) -> float | None:
        """The number or word at a position, or None when it is not a constant."""
        node = self.nodes[index]
        return node.data if node.op == "const" else None

    def block(self, results: list[int] | tuple[int, ...]) -> Block:
        """The finished block with these results."""
        return Block(tuple(self.nodes), self.params, tuple(results))
