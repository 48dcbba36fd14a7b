"""Where a kernel keeps what does not stay in registers: blocks cut into runs, slots for values that cross a cut, tables."""

from __future__ import annotations

from dataclasses import dataclass, field

from condyle.tape.graph import Block
from condyle.tape.ops import OPS

# LLVM's time per operation grows with the length of a function: up to WHOLE operations stay together, for speed, and
# longer blocks are cut into functions of about PIECE, which compile several times faster and run within a few percent
WHOLE = 4000
PIECE = 250


class Scratch:
    """Memory of one lane block, counted in vectors."""

    def __init__(self) -> None:
        self.size = 0

    def area(self, vectors: int) -> int:
        """A place for several vectors in a row."""
        self.size += vectors
        return self.size - vectors


@dataclass
class Cut:
    """A block cut into runs of nodes, and the slots of the values that are needed beyond their own run."""

    runs: list[range]
    slots: dict[int, int] = field(default_factory=dict)


def weight(block: Block) -> int:
    """Operations that LLVM sees when the block is written out, loop bodies once."""
    return sum(weight(n.data.body) if n.op == "loop" else 1 for n in block.nodes if n.op in OPS or n.op == "loop")


def cut(block: Block, scratch: Scratch, whole: int = WHOLE) -> Cut:
    """The block in runs of about PIECE operations; one run and no slots when it has at most `whole`."""
    total = weight(block)
    if total <= whole:
        return Cut([range(len(block.nodes))])
    goal = min(PIECE, whole)
    runs: list[range] = []
    start, load = 0, 0
    for i, node in enumerate(block.nodes):
        cost = min(weight(node.data.body), goal) if node.op == "loop" else int(node.op in OPS)
        if load + cost > goal and load:
            runs.append(range(start, i))
            start, load = i, 0
        load += cost
    runs.append(range(start, len(block.nodes)))
    return Cut(runs, _slots(block, runs, scratch))


def _slots(block: Block, runs: list[range], scratch: Scratch) -> dict[int, int]:
    """A slot for each param, each result, and each value read in another run than the one that computes it."""
    nodes = block.nodes
    run_of = [k for k, run in enumerate(runs) for _ in run]
    # what a loop gives is computed where the loop is
    born = [run_of[n.args[0]] if n.op == "get" else run_of[i] for i, n in enumerate(nodes)]
    last: dict[int, int] = {}
    for i, node in enumerate(nodes):
        if node.op not in ("get", "rows", "at"):
            for a in node.args:
                if nodes[a].op not in ("const", "table", "rows") and (born[a] != run_of[i] or nodes[a].op == "param"):
                    last[a] = max(last.get(a, 0), run_of[i])
    results = {r for r in block.results if nodes[r].op not in ("const", "table", "rows")}
    forever = results | {i for i, n in enumerate(nodes) if n.op == "param"}
    slots = {i: scratch.area(1) for i in sorted(forever)}
    births: list[list[int]] = [[] for _ in runs]
    deaths: list[list[int]] = [[] for _ in runs]
    for i in sorted(last.keys() - forever):
        births[born[i]].append(i)
        deaths[last[i]].append(i)
    free: list[int] = []
    for born_here, dead_here in zip(births, deaths, strict=True):
        for i in born_here:
            slots[i] = free.pop() if free else scratch.area(1)
        free += [slots[i] for i in dead_here]
    return slots
