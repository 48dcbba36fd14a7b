"""Limbs written out: a block without numbers of limbs, with the same bits.

What is computed for each limb is computed once for each of them, and moves between limbs and the whole robot are no operations.
"""

from __future__ import annotations

from dataclasses import replace

from condyle.tape.ops import LIMBS
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
    known: Block | None = block.__dict__.get("_unrolled")
    if known is None:
        known = block.__dict__["_unrolled"] = _Unroller(block, [[k] for k in range(block.params)]).block()
    return known


class _Unroller:
    """One block being written out. `params`: where each param of it is among the new ones."""

    def __init__(self, block: Block, params: list[Places]) -> None:
        self.old, self.counts, self.params = block, limb_counts(block), params
        self.nodes: list[Node] = []
        self.place: list[Places] = []
        self.carried: dict[int, list[Places]] = {}  # loop -> where each carried value is among the new ones
        self.negative_zero: int | None = None

    def block(self) -> Block:
        """The new block, whose results are in order, those of each limb one after the other."""
        for i, node in enumerate(self.old.nodes):
            self.place.append(self.node(i, node))
        results = [k for r in self.old.results for k in self.place[r]]
        return Block(tuple(self.nodes), sum(map(len, self.params)), tuple(results))

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
        if op == "after":
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
