"""Blocks with numbers of limbs: written out for each limb, or with more of them. No bit changes.

Written out, what is computed for each limb is computed once for each of them, and moves between limbs and the whole robot are no
operations. What needs no other limb is written for one limb after the other, so that few numbers are alive at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from condyle.errors import TraceError
from condyle.tape.dead_code import dead_code
from condyle.tape.ops import LIMBS, OPS
from condyle.tape.tape import Block, Loop, Node, limb_counts

Places = list[int]  # of a number of each limb: one for each; of anything else: one


def has_limbs(block: Block) -> bool:
    """Whether some numbers of a block, or of its loops, are those of limbs (kept)."""
    known: bool | None = block.__dict__.get("_has_limbs")
    if known is None:
        known = any(node.op in LIMBS or (node.op == "loop" and has_limbs(node.data.body)) for node in block.nodes)
        block.__dict__["_has_limbs"] = known
    return known


def lanes_of(block: Block) -> int:
    """Lanes that hold a number of each limb: a power of two; 1 without limbs."""
    loops = [lanes_of(node.data.body) for node in block.nodes if node.op == "loop"]
    most = max([*limb_counts(block).values(), *loops], default=1)
    return 1 << (most - 1).bit_length()


def unrolled(block: Block) -> Block:
    """The block with the operations of each limb written out (kept)."""
    if not has_limbs(block):
        return block
    if any(node.op == "limb" for node in block.nodes):
        raise TraceError(
            "where derivatives are taken, no number of each limb may come from outside; pick it for each limb before"
        )
    known: Block | None = block.__dict__.get("_unrolled")
    if known is None:
        known = block.__dict__["_unrolled"] = _Unroller(block, [[k] for k in range(block.params)]).block()
    return known


class _Unroller:
    """One block being written out. `params`: where each param of it is among the new ones."""

    def __init__(self, block: Block, params: list[Places]) -> None:
        self.old, self.counts, self.params = block, limb_counts(block), params
        self.nodes: list[Node] = []
        self.place: list[Places] = [[] for _ in block.nodes]
        self.waiting: list[int] = []  # operations of each limb that are not yet written, and numbers picked from them
        self.carried: dict[int, list[Places]] = {}  # loop -> where each carried value is among the new ones
        self.negative_zero: int | None = None

    def block(self) -> Block:
        """The new block, whose results are in order, those of each limb one after the other."""
        for i, node in enumerate(self.old.nodes):
            if node.op == "pick" and not self.place[node.args[0]]:
                self.waiting.append(i)
                continue
            own = node.op in OPS and i in self.counts
            if any(not self.place[a] and not (own and self.old.nodes[a].op != "pick") for a in node.args):
                self.write_limbs()
            if own:
                self.waiting.append(i)
            else:
                self.place[i] = self.node(i, node)
        self.write_limbs()
        results = [k for r in self.old.results for k in self.place[r]]
        return Block(tuple(self.nodes), sum(map(len, self.params)), tuple(results))

    def write_limbs(self) -> None:
        """Write the operations that wait, for one limb after the other."""
        operations = [i for i in self.waiting if self.old.nodes[i].op != "pick"]
        for k in range(max([self.counts[i] for i in operations], default=0)):
            for i in operations:
                op, args, data = self.old.nodes[i]
                if k < self.counts[i]:
                    self.place[i].append(self.put(op, tuple([self.of(a, k) for a in args]), data))
        for i in self.waiting:
            if self.old.nodes[i].op == "pick":
                self.place[i] = self.node(i, self.old.nodes[i])
        self.waiting = []

    def put(self, op: str, args: tuple[int, ...], data: object = None) -> int:
        """Write a node."""
        self.nodes.append(Node(op, args, data))
        return len(self.nodes) - 1

    def node(self, i: int, node: Node) -> Places:
        """Write a node for each limb, or one."""
        op, args, data = node
        if op in ("param", "limb"):
            return [self.put("param", (), k) for k in self.params[data if op == "param" else data[0]]]
        if op == "input":
            return [self.put(op, (), (self.params[data[0]][0], *data[1:]))]
        if op == "spread":
            return [self.place[a][0] for a in args]
        if op == "pick":
            return [self.of(args[0], data)]
        if op in ("limb_sum", "limb_max"):
            return [self.paired("add" if op == "limb_sum" else "max", self.place[args[0]])]
        if op == "loop":
            return [self.loop(i, node.data, args)]
        if op == "get" and args[0] in self.carried:
            return [self.put(op, (self.place[args[0]][0],), k) for k in self.carried[args[0]][data]]
        if op == "after" and args[0] in self.carried:
            return [self.put(op, (self.place[args[0]][0],), (self.carried[args[0]][data[0]][0], *data[1:]))]
        return [self.put(op, tuple([self.of(a, k) for a in args]), data) for k in range(self.counts.get(i, 1))]

    def of(self, a: int, k: int) -> int:
        """The number of a limb; of the whole robot, that number."""
        return self.place[a][k if len(self.place[a]) > 1 else 0]

    def paired(self, op: str, places: Places) -> int:
        """Sum or maximum: of pairs, then of pairs of pairs, and so on."""
        while len(places) > 1:
            pairs = [places[k : k + 2] for k in range(0, len(places), 2)]
            places = [self.put(op, tuple(pair)) if len(pair) > 1 else pair[0] for pair in pairs]
        return places[0]

    def loop(self, i: int, loop: Loop, args: tuple[int, ...]) -> int:
        """Write a loop, whose carried and captured numbers of limbs are one for each limb."""
        body, counts = loop.body, limb_counts(loop.body)
        limbs = {node.data[0]: node.data[1] for node in body.nodes if node.op == "limb"}
        for j in range(loop.carries):
            limbs[1 + j] = max(limbs.get(1 + j, 0), counts.get(body.results[j], 0))
        params: list[Places] = []
        for p in range(body.params):
            first = sum(map(len, params))
            params.append(list(range(first, first + max(limbs.get(p, 0), 1))))
        start, tables, captured = loop.split(args)
        outside = 1 + loop.carries + loop.reads
        new = [self.of(a, k) for j, a in enumerate(start) for k in range(len(params[1 + j]))]
        new += [self.place[t][0] for t in tables]
        new += [self.of(a, k) for j, a in enumerate(captured) for k in range(len(params[outside + j]))]
        inside = _Unroller(body, params)
        written = inside.block()
        # a carried number of each limb that the body makes the same for all
        carries = [inside.of(r, k) for j, r in enumerate(body.results[: loop.carries]) for k in range(len(params[1 + j]))]
        rest = [k for r in body.results[loop.carries :] for k in inside.place[r]]
        written = Block(written.nodes, written.params, (*carries, *rest))
        self.carried[i] = [[k - 1 for k in params[1 + j]] for j in range(loop.carries)]
        return self.put("loop", tuple(new), replace(loop, body=written, carries=len(carries)))


# ---- loops that carry numbers of limbs one by one


def carried_together(block: Block) -> Block:
    """The block whose loops carry as a number of each limb what their bodies make of one and pick from one."""
    if not has_limbs(block):
        return block
    nodes: list[Node] = []
    place: list[int] = []
    picked: dict[int, dict[int, tuple[int, int]]] = {}  # loop -> old carried value -> (new one, limb)

    def put(op: str, args: tuple[int, ...], data: Any = None) -> int:
        nodes.append(Node(op, args, data))
        return len(nodes) - 1

    for i, (op, args, data) in enumerate(block.nodes):
        moved = tuple([place[a] for a in args])
        if op == "loop":
            loop = replace(data, body=carried_together(data.body))
            groups = _carried_groups(loop)
            loop, order = _joined(loop, groups)
            start, rest = moved[: data.carries], moved[data.carries :]
            joined = [put("spread", tuple([start[j] for j in group])) for group in groups]
            picked[i] = {j: (len(order) + g, k) for g, group in enumerate(groups) for k, j in enumerate(group)}
            picked[i] |= {j: (n, -1) for n, j in enumerate(order)}
            place.append(put("loop", (*[start[j] for j in order], *joined, *rest), loop))
        elif op in ("get", "after") and args[0] in picked:
            new, limb = picked[args[0]][data if op == "get" else data[0]]
            got = put(op, moved, new if op == "get" else (new, *data[1:]))
            place.append(got if limb < 0 else put("pick", (got,), limb))
        else:
            place.append(put(op, moved, data))
    return dead_code(Block(tuple(nodes), block.params, tuple([place[r] for r in block.results])))


def _carried_groups(loop: Loop) -> list[tuple[int, ...]]:
    """Carried values, one for each limb in order, that the body makes a number of each limb of and picks from one."""
    nodes, results = loop.body.nodes, loop.body.results
    carried = {i: node.data - 1 for i, node in enumerate(nodes) if node.op == "param" and 1 <= node.data <= loop.carries}
    found: list[tuple[int, ...]] = []
    for op, args, _ in nodes:
        group = tuple([carried.get(a, -1) for a in args]) if op == "spread" else ()
        if not group or min(group) < 0 or len(set(group)) < len(group) or any(set(group) & set(other) for other in found):
            continue
        ends = [nodes[results[j]] for j in group]
        if all(end.op == "pick" and end.data == k and end.args == ends[0].args for k, end in enumerate(ends)):
            found.append(group)
    return found


def _joined(loop: Loop, groups: list[tuple[int, ...]]) -> tuple[Loop, list[int]]:
    """(the loop with each group carried as a number of each limb after the others, the others in order)."""
    taken = {j for group in groups for j in group}
    order = [j for j in range(loop.carries) if j not in taken]
    body, first = loop.body, 1 + loop.carries
    carries = len(order) + len(groups)
    number = {0: 0} | {1 + j: 1 + n for n, j in enumerate(order)}
    number |= {p: p - loop.carries + carries for p in range(first, body.params)}
    nodes: list[Node] = []
    place: list[int] = []
    limbs = {1 + j: (1 + len(order) + g, len(group), k) for g, group in enumerate(groups) for k, j in enumerate(group)}
    for op, args, data in body.nodes:
        if op == "param" and data in limbs:
            position, count, k = limbs[data]
            nodes += [Node("limb", (), (position, count)), Node("pick", (len(nodes),), k)]
        elif op == "param":
            nodes.append(Node(op, (), number[data]))
        elif op in ("limb", "input"):
            nodes.append(Node(op, (), (number[data[0]], *data[1:])))
        elif op == "spread" and all(body.nodes[a].op == "param" and body.nodes[a].data in limbs for a in args):
            positions = [limbs[body.nodes[a].data] for a in args]
            same = all(p == (positions[0][0], len(args), k) for k, p in enumerate(positions))
            nodes.append(Node("limb", (), positions[0][:2]) if same else Node(op, tuple([place[a] for a in args]), data))
        else:
            nodes.append(Node(op, tuple([place[a] for a in args]), data))
        place.append(len(nodes) - 1)
    ends = [place[body.results[j]] for j in order]
    ends += [place[body.nodes[body.results[group[0]]].args[0]] for group in groups]
    rest = [place[r] for r in body.results[loop.carries :]]
    made = Block(tuple(nodes), body.params - loop.carries + carries, (*ends, *rest))
    return replace(loop, body=dead_code(made), carries=carries), order
