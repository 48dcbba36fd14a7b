"""Where a kernel keeps what does not stay in registers: blocks cut into runs, slots for values that cross a cut, tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from condyle.tape.assemble import SUPPORTED
from condyle.tape.ops import OPS, TABLES
from condyle.tape.tape import Block, Loop, last_uses

FREE = ("param", "const", "get")  # no operations
SHORT = 100  # operations of a stretch before the end of a loop is known, which is worth a function of its own
IN_MEMORY = TABLES | {"const", "loop", "call"}  # operations whose results need no slot


class Scratch:
    """Memory of one lane block, counted in vectors."""

    def __init__(self) -> None:
        self.size = 0

    def area(self, vectors: int) -> int:
        """A place for several vectors in a row."""
        self.size += vectors
        return self.size - vectors


@dataclass
class WideScratch:
    """The same memory for vectors of `unit` vectors of the kernel, which begin at multiples of their size."""

    scratch: Scratch
    unit: int

    def area(self, vectors: int) -> int:
        """A place for several wide vectors in a row, counted in vectors of the kernel."""
        self.scratch.area(-self.scratch.size % self.unit)
        return self.scratch.area(vectors * self.unit)


@dataclass
class Cut:
    """A block cut into runs of nodes, the slots of the values that are needed beyond their own run, and for each run the groups
    of results that are complete after it."""

    runs: list[range]
    slots: dict[int, int] = field(default_factory=dict)
    complete: list[list[int]] = field(default_factory=list)
    assembled: frozenset[int] = frozenset()  # the runs that are written in assembly, by their first node


def weight(block: Block) -> int:
    """Operations that LLVM sees when the block is written out, loop bodies once."""
    return sum(weight(n.data.body) if n.op == "loop" else 1 for n in block.nodes if n.op in OPS or n.op in ("loop", "call"))


def assembled_runs(block: Block, least: int, done: int | None) -> list[range]:
    """The stretches of at least so many operations in a row that can be assembled; one ends at `done`, where a loop may end."""
    runs: list[range] = []
    start, load = 0, 0
    for i, node in enumerate(block.nodes):
        if node.op in SUPPORTED:
            load += 1
        elif node.op not in FREE:
            if load >= least:
                runs.append(range(start, i))
            start, load = i + 1, 0
        if i == done and load >= min(least, SHORT):
            runs.append(range(start, i + 1))
            start, load = i + 1, 0
    if load >= least:
        runs.append(range(start, len(block.nodes)))
    return runs


Groups = Sequence[Sequence[int]]  # results that leave the kernel together, by node


def cut(
    block: Block,
    scratch: Scratch | WideScratch,
    uncut: int,
    piece: int,
    groups: Groups | None = None,
    assembled: Sequence[range] = (),
    params: Mapping[int, int] = MappingProxyType({}),
    loop: Loop | None = None,
) -> Cut:
    """The block in runs of about `piece` operations, and those to be `assembled`; one run and no slots if it has none of these,
    and at most `uncut` operations.

    Results keep their slots to the end, unless they leave in `groups`: then only until their group is complete. `params`: slots
    of params that are somewhere already. `loop`: the one whose body it is; the next value of a carried number goes to the slot of
    the old one where nothing reads that any more.
    """
    if weight(block) <= uncut and not assembled:
        return Cut([range(len(block.nodes))])
    goal = min(piece, uncut)
    runs: list[range] = []
    at = 0
    for run in [*assembled, range(len(block.nodes), len(block.nodes))]:
        runs += _pieces(block, range(at, run.start), goal)
        if run:
            runs.append(run)
        at = run.stop
    plan = _with_slots(block, runs, scratch, groups, params, loop)
    plan.assembled = frozenset(run.start for run in assembled)
    return plan


def _pieces(block: Block, nodes: range, goal: int) -> list[range]:
    """Some nodes in a row, in runs of about `goal` operations."""
    runs: list[range] = []
    start, load = nodes.start, 0
    for i in nodes:
        node = block.nodes[i]
        cost = min(weight(node.data.body), goal) if node.op == "loop" else int(node.op in OPS)
        if load + cost > goal and load:
            runs.append(range(start, i))
            start, load = i, 0
        load += cost
    return [*runs, range(start, nodes.stop)] if start < nodes.stop else runs


def _with_slots(
    block: Block,
    runs: list[range],
    scratch: Scratch | WideScratch,
    groups: Groups | None,
    params: Mapping[int, int],
    loop: Loop | None,
) -> Cut:
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
    there = {i: params[n.data] for i, n in enumerate(nodes) if n.op == "param" and n.data in params}
    over = {} if loop is None else _overwritten(loop, runs, born)
    slots = {i: there[i] if i in there else scratch.area(1) for i in sorted(forever - over.keys())}
    slots |= {i: slots[param] for i, param in over.items()}
    births: list[list[int]] = [[] for _ in runs]
    deaths: list[list[int]] = [[] for _ in runs]
    for i in sorted(last.keys() - forever):
        births[born[i]].append(i)
        deaths[last[i]].append(i)
    final = _final_values(block)
    stays = {a: g for a, g in final.items() if a in last and a not in forever and g not in over and (g in last or g in forever)}
    free: list[int] = []
    for born_here, dead_here in zip(births, deaths, strict=True):
        for i in born_here:
            end = i
            while end in stays:
                end = stays[end]
            if end not in slots:
                slots[end] = free.pop() if free else scratch.area(1)
            slots[i] = slots[end]
        free += [slots[i] for i in dead_here if i not in stays]
    return Cut(runs, slots, complete)


def start_is_last_use(block: Block, i: int, a: int) -> bool:
    """Whether loop i may write over the number that it starts with: a value of its own, which nothing else reads any more."""
    node = block.nodes[a]
    return node.op not in ("param", "const") and last_uses(block)[a] == i and block.nodes[i].args.count(a) == 1


def _final_values(block: Block) -> dict[int, int]:
    """The start value of a carried number -> its value after the loop, where both may have one slot."""
    gets = {(n.args[0], n.data): k for k, n in enumerate(block.nodes) if n.op == "get"}
    found: dict[int, int] = {}
    for i, node in enumerate(block.nodes):
        if node.op == "loop":
            for j, a in enumerate(node.args[: node.data.carries]):
                if (i, j) in gets and start_is_last_use(block, i, a):
                    found[a] = gets[i, j]
    return found


def _overwritten(loop: Loop, runs: list[range], born: list[int]) -> dict[int, int]:
    """Result -> the param that it is carried to, if the param is read no more once the result is known."""
    body, last = loop.body, last_uses(loop.body)
    place = {n.data: i for i, n in enumerate(body.nodes) if n.op == "param"}
    found: dict[int, int] = {}
    for j, r in enumerate(body.results[: loop.carries]):
        param, node = place.get(1 + j), body.nodes[r]
        if param is None or r in found or node.op in IN_MEMORY or node.op == "param":
            continue
        known = node.args[0] if node.op == "get" else r
        # whether a loop ends is looked at after the run in which that is known
        done = loop.done
        early = done is not None and (known <= done if len(runs) == 1 else born[r] <= born[done])
        if last.get(param, -1) <= known and not early:
            found[r] = param
    return found
