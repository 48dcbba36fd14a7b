"""Lean loops: an iteration without what it rarely does, and once more with it where it was needed.

A loop of one iteration that exits is a condition: its body is for few states, such as joints beyond their limits inside of a
solver's iteration. On a GPU such code between what every state needs costs registers, and instructions that are fetched for
nothing. Here the iteration around it is computed without; where a state would have entered such a body, all of it is computed
again as it was. No bit changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from condyle.tape.dead_code import dead_code
from condyle.tape.ops import LIMBS, OPS, TABLES
from condyle.tape.tape import Block, Loop, Node, limb_counts


def lean(block: Block) -> Block:
    """The block with lean copies of its iterations before them, each of which is skipped where the lean one was enough."""
    changed = _Writer(block.params)
    for i, node in enumerate(block.nodes):
        made = None
        if node.op == "loop":
            loop: Loop = node.data
            inside = replace(loop, body=lean(loop.body)) if not _is_iteration(loop) else loop
            made = _LeanLoop(changed, block, i).write() if _is_iteration(loop) else None
            if made is None:
                changed.copy(i, Node("loop", node.args, inside))
        else:
            changed.copy(i, node)
    return dead_code(Block(tuple(changed.nodes), block.params, tuple([changed.place[r] for r in block.results])))


def is_condition(loop: Loop) -> bool:
    """Whether a loop is a condition: one iteration, or none."""
    return loop.exits and loop.count == 1


def _is_iteration(loop: Loop) -> bool:
    """Whether a loop is an iteration with conditions inside, of numbers alone."""
    tables = any(loop.body.nodes[r].op in TABLES for r in loop.body.results[: loop.carries])
    return loop.exits and loop.count > 1 and not (tables or loop.tables or loop.reads or loop.writes) and _conditions(loop.body)


def _conditions(block: Block) -> bool:
    loops = [node.data for node in block.nodes if node.op == "loop"]
    return any(is_condition(loop) or _conditions(loop.body) for loop in loops)


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


class _LeanLoop:
    """An iteration of the old block, to be written into the new one."""

    def __init__(self, into: _Writer, block: Block, i: int) -> None:
        self.into, self.block, self.i, self.loop = into, block, i, block.nodes[i].data
        self.gets = [(k, n.data) for k, n in enumerate(block.nodes) if n.op == "get" and n.args[0] == i]

    def write(self) -> bool | None:
        """Write the lean loop, and the old one where that was not enough; None if it cannot be done."""
        try:
            body = _without_conditions(self.loop.body, self.loop)
        except _Impossible:
            return None
        into, loop, k = self.into, self.loop, self.loop.carries
        args = [into.place[a] for a in self.block.nodes[self.i].args]
        start, _, captured = loop.split(args)
        first = into.put("loop", (*start, into.const(1.0), *captured), replace(loop, body=body, carries=k + 1))
        ends = [into.put("get", (first,), j) for j in range(k)]
        enough = into.put("get", (first,), k)
        again = self.again([*start, *captured])
        self.into.place[self.i] = into.put("loop", (*ends, *start, enough, *captured), again)
        return True

    def again(self, outside: list[int]) -> Loop:
        """A condition around the old loop: it is entered where the lean one was not enough, and its results are taken there."""
        loop, k = self.loop, self.loop.carries
        body = _Writer(1 + 2 * k + 1 + len(outside) - k)
        counts, nodes = limb_counts(loop.body), loop.body.nodes
        kinds = {n.data if n.op == "param" else n.data[0]: n for n in nodes if n.op in ("param", "limb", "input")}

        def param(position: int, like: int) -> int:
            node = kinds.get(like)
            limbs = counts.get(loop.body.results[like - 1], 0) if 1 <= like <= k else 0
            if node is not None and node.op == "input":
                return body.put("input", (), (position, *node.data[1:]))
            limbs = max(limbs, node.data[1] if node is not None and node.op == "limb" else 0)
            return body.put("limb", (), (position, limbs)) if limbs else body.put("param", (), position)

        ends = [param(1 + j, 1 + j) for j in range(k)]
        enough = body.put("param", (), 1 + 2 * k)
        done = body.put("lt", (body.const(0.5), enough))
        start = [param(1 + k + j, 1 + j) for j in range(k)]
        captured = [param(2 + 2 * k + j, 1 + k + j) for j in range(len(outside) - k)]
        again = body.put("loop", (*start, *captured), loop)
        results = [body.put("select", (done, end, body.put("get", (again,), j))) for j, end in enumerate(ends)]
        made = Block(tuple(body.nodes), body.params, (*results, done))
        return Loop(1, made, k, 0, 0, 0, False, True)


def _without_conditions(block: Block, loop: Loop) -> Block:
    """The body of a loop without conditions, and with one more carried number: 1 while none of them would have been entered."""
    own = 1 + loop.carries  # param of that number

    def moved(p: int) -> int:
        return p if p < own else p + 1

    new = _Writer(block.params + 1)
    enough = new.put("param", (), own)
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
        elif op == "loop" and _conditions(data.body):
            start, tables, captured = data.split([new.place[a] for a in args])
            inner = replace(data, body=_without_conditions(data.body, data), carries=data.carries + 1)
            new.place[i] = new.put("loop", (*start, enough, *tables, *captured), inner)
            enough = new.put("get", (new.place[i],), data.carries)
        else:
            new.copy(i, node)
    results = [new.place[r] for r in block.results]
    written = results[loop.carries : loop.carries + loop.writes]
    ending = []
    if loop.exits:
        given = new.put("lt", (new.const(0.5), next(k for k, n in enumerate(new.nodes) if n.op == "param" and n.data == own)))
        ending = [new.put("or", (results[-1], new.put("not", (given,))))]
    return Block(tuple(new.nodes), new.params, (*results[: loop.carries], enough, *written, *ending))


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
