"""Where a kernel keeps what does not stay in registers: blocks cut into runs, slots for values that cross a cut, tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from condyle.tape.ops import OPS, TABLES
from condyle.tape.tape import Block

IN_MEMORY = TABLES | {"const", "loop"}  # operations whose results need no slot


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
    """A block cut into runs of nodes, the slots of the values that are needed beyond their own run, and for each run the groups
    of results that are complete after it."""

    runs: list[range]
    slots: dict[int, int] = field(default_factory=dict)
    complete: list[list[int]] = field(default_factory=list)


def weight(block: Block) -> int:
    """Operations that LLVM sees when the block is written out, loop bodies once."""
    return sum(weight(n.data.body) if n.op == "loop" else 1 for n in block.nodes if n.op in OPS or n.op == "loop")


Groups = Sequence[Sequence[int]]  # results that leave the kernel together, by node


def cut(block: Block, scratch: Scratch, uncut: int, piece: int, groups: Groups | None = None) -> Cut:
    """The block in runs of about `piece` operations; one run and no slots when it has at most `uncut`.

    Results keep their slots to the end, unless they leave in `groups`: then only until their group is complete.
    """
    total = weight(block)
    if total <= uncut:
        return Cut([range(len(block.nodes))])
    goal = min(piece, uncut)
    runs: list[range] = []
    start, load = 0, 0
    for i, node in enumerate(block.nodes):
        cost = min(weight(node.data.body), goal) if node.op == "loop" else int(node.op in OPS)
        if load + cost > goal and load:
            runs.append(range(start, i))
            start, load = i, 0
        load += cost
    runs.append(range(start, len(block.nodes)))
    return _with_slots(block, runs, scratch, groups)


def _with_slots(block: Block, runs: list[range], scratch: Scratch, groups: Groups | None) -> Cut:
    """A slot for each param, each result, and each value read in another run than the one that computes it."""
    nodes = block.nodes
    run_of = [k for k, run in enumerate(runs) for _ in run]
    # what a loop gives is computed where the loop is
    born = [run_of[n.args[0]] if n.op == "get" else run_of[i] for i, n in enumerate(nodes)]
    last: dict[int, int] = {}
    for i, node in enumerate(nodes):
        for a in node.args:
            if nodes[a].op not in IN_MEMORY and (born[a] != run_of[i] or nodes[a].op == "param"):
                last[a] = max(last.get(a, 0), run_of[i])
    complete: list[list[int]] = [[] for _ in runs]
    for g, group in enumerate(groups or ()):
        computed = [r for r in group if nodes[r].op != "const"]
        ready = max([born[r] for r in computed], default=0)
        complete[ready].append(g)
        for r in computed:
            if born[r] != ready:
                last[r] = max(last.get(r, 0), ready)
    results = {r for r in block.results if nodes[r].op not in IN_MEMORY} if groups is None else set()
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
    return Cut(runs, slots, complete)
