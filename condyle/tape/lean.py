"""Lean loops: an iteration without what it rarely does, and once more with it where it was needed.

A loop of one iteration that exits is a condition: its body is for few states, such as joints beyond their limits inside of a
solver's iteration. On a GPU such code between what every state needs costs registers, and instructions that are fetched for
nothing. Here the iteration around it is computed without; where a state would have entered such a body, all of it is computed
again as it was.

Divisions and square roots have rare cases of this kind, too: a GPU computes them from an approximation by a few fma, rounded as
IEEE 754 wants it, but for very small, very large and invalid numbers, for which it branches. Those of a lean block are marked as
FAST: they do not branch, and where one is beyond its bounds, all is computed again. No bit changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from condyle.tape.dead_code import dead_code
from condyle.tape.ops import BOOL, LIMBS, OPS, TABLES
from condyle.tape.tape import Block, Loop, Node, limb_counts, table_size

BRANCHING = ("div", "sqrt")
FAST = "fast"  # data of a division or square root that is right within its bounds


class Bounds(NamedTuple):
    """Of numbers whose divisions and roots are right without branches: within those of the normal numbers."""

    reciprocal: float  # the least one
    numerator: float  # the least one, besides zero
    denominator: float  # the largest one
    quotient: float  # the least one, besides zero
    root: float  # the least one, besides zero


BOUNDS = {
    "f64": Bounds(2.0**-1020, 2.0**-950, 2.0**1000, 2.0**-1000, 2.0**-480),
    "f32": Bounds(2.0**-125, 2.0**-90, 2.0**100, 2.0**-100, 2.0**-50),
}


def lean(block: Block, precision: str) -> Block:
    """The block with its iterations lean, and once more as it was where that was not enough."""
    if not any(node.op == "loop" and _is_iteration(node.data) for node in block.nodes):
        nodes = [
            Node("loop", node.args, replace(node.data, body=lean(node.data.body, precision))) if node.op == "loop" else node
            for node in block.nodes
        ]
        return Block(tuple(nodes), block.params, block.results)
    try:
        return dead_code(_lean_block(block, precision))
    except _Impossible:
        return dead_code(_with_lean_loops(block, precision))


def is_condition(loop: Loop) -> bool:
    """Whether a loop is a condition: one iteration, or none."""
    return loop.exits and loop.count == 1


def _is_iteration(loop: Loop) -> bool:
    """Whether a loop is an iteration, of numbers alone, with something inside that rarely happens."""
    tables = any(loop.body.nodes[r].op in TABLES for r in loop.body.results[: loop.carries])
    return loop.exits and loop.count > 1 and not (tables or loop.tables or loop.reads or loop.writes) and _rare(loop.body)


def _rare(block: Block) -> bool:
    """Whether a block has conditions, divisions or roots, or loops with them."""
    loops = [node.data for node in block.nodes if node.op == "loop"]
    return any(node.op in BRANCHING for node in block.nodes) or any(is_condition(loop) or _rare(loop.body) for loop in loops)


class _Writer:
    """Nodes being written; `place`: where those of the old block are."""

    def __init__(self, params: int) -> None:
        self.nodes: list[Node] = []
        self.params = params
        self.place: dict[int, int] = {}
        self.constants: dict[float, int] = {}

    def put(self, op: str, args: tuple[int, ...] = (), data: Any = None) -> int:
        """Write a node."""
        self.nodes.append(Node(op, args, data))
        return len(self.nodes) - 1

    def const(self, value: float) -> int:
        """A number."""
        if value not in self.constants:
            self.constants[value] = self.put("const", (), value)
        return self.constants[value]

    def copy(self, i: int, node: Node) -> None:
        """Write a node of the old block."""
        self.place[i] = self.put(node.op, tuple([self.place[a] for a in node.args]), node.data)


class _Impossible(Exception):
    """A condition that depends on more than numbers, or gives tables that are needed."""


def _lean_block(block: Block, precision: str) -> Block:
    """A block that gives numbers alone, lean, and after it a condition: all as it was, where the lean one was not enough."""
    bools = [r for r in block.results if block.nodes[r].op in OPS and OPS[block.nodes[r].op].gives == BOOL]
    if bools or any(block.nodes[r].op in TABLES for r in block.results):
        raise _Impossible
    form, new = _Form(BOUNDS[precision], _most_limbs(block)), _Writer(block.params)
    enough = form.write(new, block, precision)
    # a number that is picked from those of limbs is picked behind the condition
    nodes = block.nodes
    given = list(dict.fromkeys([nodes[r].args[0] if nodes[r].op == "pick" else r for r in block.results]))
    outside = [i for i, node in enumerate(nodes) if node.op in ("param", "limb", "input")]
    args = (*[new.place[i] for i in given], enough, *[new.place[i] for i in outside])
    again = new.put("loop", args, _again(block, given, outside))
    ends = {i: new.put("get", (again,), k) for k, i in enumerate(given)}
    results = [ends[r] if r in ends else new.put("pick", (ends[nodes[r].args[0]],), nodes[r].data) for r in block.results]
    return Block(tuple(new.nodes), block.params, tuple(results))


def _again(block: Block, given: list[int], outside: list[int]) -> Loop:
    """A condition around a block: it is entered where its lean form was not enough, and the values `given` are taken there."""
    k, counts = len(given), limb_counts(block)
    body = _Writer(2 + k + len(outside))
    ends = [
        body.put("limb", (), (1 + j, counts[i])) if i in counts else body.put("param", (), 1 + j) for j, i in enumerate(given)
    ]
    done = body.put("lt", (body.const(0.5), body.put("param", (), 1 + k)))
    position = {i: 2 + k + j for j, i in enumerate(outside)}
    for i, node in enumerate(block.nodes):
        if i in position:
            body.place[i] = body.put(node.op, (), position[i] if node.op == "param" else (position[i], *node.data[1:]))
        else:
            body.copy(i, node)
    results = [body.put("select", (done, end, body.place[i])) for end, i in zip(ends, given, strict=True)]
    return Loop(1, Block(tuple(body.nodes), body.params, (*results, done)), k, 0, 0, 0, False, True)


def _with_lean_loops(block: Block, precision: str) -> Block:
    """The block with each of its iterations as a lean block."""
    new = _Writer(block.params)
    for i, node in enumerate(block.nodes):
        if node.op != "loop" or not _is_iteration(node.data):
            if node.op != "get" or i not in new.place:
                inside = replace(node.data, body=lean(node.data.body, precision)) if node.op == "loop" else node.data
                new.copy(i, Node(node.op, node.args, inside))
            continue
        gets = [k for k, other in enumerate(block.nodes) if other.op == "get" and other.args[0] == i]
        try:
            made = _lean_block(_alone(block, i, gets), precision)
        except _Impossible:
            new.copy(i, node)
            continue
        inlined = _Writer(0)
        inlined.nodes = new.nodes
        for k, inner in enumerate(made.nodes):
            if inner.op in ("param", "limb", "input"):
                position = inner.data if inner.op == "param" else inner.data[0]
                inlined.place[k] = new.place[node.args[position]]
            else:
                inlined.copy(k, inner)
        new.place |= {k: inlined.place[r] for k, r in zip(gets, made.results, strict=True)}
    return Block(tuple(new.nodes), block.params, tuple([new.place[r] for r in block.results]))


def _alone(block: Block, i: int, gets: list[int]) -> Block:
    """A loop as a block of its own, whose params are what the loop is given."""
    counts, body = limb_counts(block), _Writer(len(block.nodes[i].args))
    for position, a in enumerate(block.nodes[i].args):
        if block.nodes[a].op in TABLES:
            body.put("input", (), (position, *table_size(block.nodes, a)))
        elif a in counts:
            body.put("limb", (), (position, counts[a]))
        else:
            body.put("param", (), position)
    loop = body.put("loop", tuple(range(len(body.nodes))), block.nodes[i].data)
    results = [body.put("get", (loop,), block.nodes[k].data) for k in gets]
    return Block(tuple(body.nodes), body.params, tuple(results))


def _most_limbs(block: Block) -> int:
    """The largest number of limbs of a block and its loops; 0 without limbs."""
    inside = [_most_limbs(node.data.body) for node in block.nodes if node.op == "loop"]
    return max([*limb_counts(block).values(), *inside], default=0)


@dataclass(frozen=True)
class _Form:
    """The form of lean loops, whose bodies have two more carried numbers.

    `enough` is 1 while no condition would have been entered; `exact`, a number of each limb if there are limbs, is 1 while all
    divisions and roots are within their bounds.
    """

    bounds: Bounds
    limbs: int

    def spread(self, into: _Writer) -> int:
        """The number `exact` at the start."""
        return into.put("spread", (into.const(1.0),) * self.limbs) if self.limbs else into.const(1.0)

    def joined(self, into: _Writer, enough: int, exact: int) -> int:
        """1 where both are, else 0."""
        inexact = into.put("sub", (into.const(1.0), exact))
        inexact = into.put("limb_max", (inexact,)) if self.limbs else inexact
        return into.put("select", (into.put("lt", (inexact, into.const(0.5))), enough, into.const(0.0)))

    def write(self, new: _Writer, block: Block, precision: str) -> int:
        """Write the nodes of a block with lean iterations; returns 1 where they are enough, else 0."""
        enough, exact = new.const(1.0), self.spread(new)
        right: int | None = None  # whether all divisions and roots so far are
        for i, node in enumerate(block.nodes):
            if node.op == "loop" and _is_iteration(node.data):
                enough, exact = self.loop(new, i, node, enough, exact)
            elif node.op == "loop":
                new.copy(i, Node("loop", node.args, replace(node.data, body=lean(node.data.body, precision))))
            elif node.op in BRANCHING:
                right = self.fast(new, i, node, right)
            else:
                new.copy(i, node)
        return self.joined(new, enough, self.checked(new, exact, right))

    def loop(self, new: _Writer, i: int, node: Node, enough: int, exact: int) -> list[int]:
        """Write a loop of the old block in its lean form; returns `enough` and `exact` after it."""
        loop: Loop = node.data
        start, tables, captured = loop.split([new.place[a] for a in node.args])
        inner = replace(loop, body=self.body(loop.body, loop), carries=loop.carries + 2)
        new.place[i] = new.put("loop", (*start, enough, exact, *tables, *captured), inner)
        return [new.put("get", (new.place[i],), loop.carries + j) for j in range(2)]

    def body(self, block: Block, loop: Loop) -> Block:
        """The body of a loop without conditions, with fast divisions and roots."""
        own = 1 + loop.carries  # param of `enough`; the next one is `exact`

        def moved(p: int) -> int:
            return p if p < own else p + 2

        new = _Writer(block.params + 2)
        given = enough = new.put("param", (), own)
        exact = new.put("limb", (), (own + 1, self.limbs)) if self.limbs else new.put("param", (), own + 1)
        right: int | None = None
        for i, node in enumerate(block.nodes):
            op, args, data = node
            if op in ("param", "limb", "input"):
                new.copy(i, Node(op, (), moved(data) if op == "param" else (moved(data[0]), *data[1:])))
            elif op == "loop" and is_condition(data):
                done = _ending(new, data, [new.place[a] for a in args])
                enough = new.put("select", (done, enough, new.const(0.0)))
                new.place[i] = -1
            elif op in ("get", "after") and block.nodes[args[0]].op == "loop" and is_condition(block.nodes[args[0]].data):
                condition = block.nodes[args[0]]
                new.place[i] = new.place[condition.data.split(condition.args)[0][data if op == "get" else data[0]]]
            elif op == "slice" and is_condition(block.nodes[args[0]].data):
                raise _Impossible
            elif op == "loop" and _rare(data.body):
                enough, exact = self.loop(new, i, node, enough, exact)
            elif node.op in BRANCHING:
                right = self.fast(new, i, node, right)
            else:
                new.copy(i, node)
        exact = self.checked(new, exact, right)
        results = [new.place[r] for r in block.results]
        written = results[loop.carries : loop.carries + loop.writes]
        ending = []
        if loop.exits:
            left = new.put("not", (new.put("lt", (new.const(0.5), given)),))
            ending = [new.put("or", (results[-1], left))]
        return Block(tuple(new.nodes), new.params, (*results[: loop.carries], enough, exact, *written, *ending))

    def fast(self, new: _Writer, i: int, node: Node, right: int | None) -> int:
        """Write a fast division or root; returns whether it and those before it are right."""
        new.copy(i, Node(node.op, node.args, FAST))
        for check in self.within_bounds(new, new.nodes[new.place[i]], new.place[i]):
            right = check if right is None else new.put("and", (right, check))
        assert right is not None
        return right

    def checked(self, new: _Writer, exact: int, right: int | None) -> int:
        """`exact` where all divisions and roots are right, else 0."""
        return exact if right is None else new.put("select", (right, exact, new.const(0.0)))

    def within_bounds(self, new: _Writer, node: Node, i: int) -> list[int]:
        """Whether a fast division or root is right: comparisons that must hold, which NaN does not."""

        def at_least(bound: float, x: int) -> int:
            return new.put("le", (new.const(bound), x))

        def either(right: int, x: int, y: int) -> int:
            return new.put("or", (right, new.put("eq", (x, y))))

        zero = new.const(0.0)
        if node.op == "sqrt":
            return [either(at_least(self.bounds.root, i), node.args[0], zero)]
        a, b = node.args
        if new.nodes[a] == Node("const", (), 1.0):
            return [at_least(self.bounds.reciprocal, new.put("abs", (i,)))]
        size_a, size_b, size = (new.put("abs", (x,)) for x in (a, b, i))
        small = new.put("le", (size_b, new.const(self.bounds.denominator)))
        # a zero divided is zero, but for a denominator of which the approximation is no number
        return [
            small,
            either(at_least(self.bounds.numerator, size_a), a, zero),
            either(at_least(self.bounds.quotient, size), i, a),
        ]


def _ending(new: _Writer, loop: Loop, args: list[int]) -> int:
    """The comparison by which a condition is skipped, of the values that it is given."""
    body = loop.body
    assert loop.done is not None
    outside = {1 + j: a for j, a in enumerate(args[: loop.carries])}
    outside |= {1 + loop.carries + loop.reads + j: a for j, a in enumerate(args[loop.carries + loop.tables :])}
    found: dict[int, int] = {}

    def at(i: int) -> int:
        op, operands, data = body.nodes[i]
        if i not in found:
            if op == "const":
                found[i] = new.const(data) if isinstance(data, float) else new.put("const", (), data)
            elif op in ("param", "limb"):
                p = data if op == "param" else data[0]
                if p not in outside:
                    raise _Impossible
                found[i] = outside[p]
            elif op in OPS or op in LIMBS:
                found[i] = new.put(op, tuple([at(a) for a in operands]), data)
            else:
                raise _Impossible
        return found[i]

    return at(loop.done)
