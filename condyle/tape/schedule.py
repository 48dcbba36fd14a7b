"""The order of operations: long chains first, so that results do not wait for each other, while few values are alive at once."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush

from condyle.tape.ops import TABLES
from condyle.tape.tape import Block, Node
from condyle.tape.target import Target


def schedule(block: Block, target: Target, early: int | None = None) -> Block:
    """The block, if it is short, in another order, and its loop bodies likewise; `early` comes first, with all it needs."""
    order = _order(block, target) if len(block.nodes) <= target.longest_scheduled else list(range(len(block.nodes)))
    if early is not None:
        needed = _needed(block, early)
        order.sort(key=lambda i: i not in needed)
    return _reordered(block, order, target)


def _needed(block: Block, node: int) -> set[int]:
    """A node and all that must come before it."""
    needed = {node}
    before = _memory_order(block)
    for i in reversed(range(node + 1)):
        if i in needed:
            needed.update(block.nodes[i].args, before.get(i, ()))
    return needed


def _memory_order(block: Block) -> dict[int, list[int]]:
    """node -> nodes that it must not overtake: what may write into a table comes after all that was read from it before."""
    nodes = block.nodes
    before: dict[int, list[int]] = {}
    root: dict[int, int] = {}  # table -> the first table whose memory it may lie in
    reads: dict[int, list[int]] = {}  # root -> what used it since it was last written
    for i, (op, args, data) in enumerate(nodes):
        tables = [a for a in args if a in root]
        writes = tables[:1] if op == "update" else [a for a in args[: data.carries] if a in root] if op == "loop" else []
        for a in writes:
            before.setdefault(i, []).extend(reads.get(root[a], ()))
        for a in tables:
            reads[root[a]] = [i] if a in writes else [*reads.get(root[a], ()), i]
        if op in ("update", "reshape"):
            root[i] = root[args[0]]
        elif op == "after":
            root[i] = root[nodes[args[0]].args[data[0]]]
        elif op == "slice":
            root[i] = args[0]
        elif op in TABLES:
            root[i] = i
    return before


def _order(block: Block, target: Target) -> list[int]:
    """Nodes by critical path, or, when many values are alive, by how many lives an operation ends."""
    nodes = block.nodes
    n = len(nodes)
    free = [node.op in ("param", "const") for node in nodes]
    before = _memory_order(block)
    args = [sorted({a for a in (*node.args, *before.get(i, ())) if not free[a]}) for i, node in enumerate(nodes)]
    users: list[list[int]] = [[] for _ in nodes]
    for i, needed in enumerate(args):
        for a in needed:
            users[a].append(i)
    left = [len(u) for u in users]
    for r in block.results:
        left[r] += 1
    height = [0] * n
    for i in reversed(range(n)):
        height[i] = target.latency.get(nodes[i].op, 1) + max([height[u] for u in users[i]], default=0)
    missing = [len(a) for a in args]
    ends = [sum(left[a] == 1 for a in needed) for needed in args]
    placed = [False] * n
    order: list[int] = []
    critical: list[tuple[int, int]] = []
    ending: list[list[tuple[int, int]]] = [[], [], []]  # by how many lives an operation ends: 1, 2, 3 or more

    def ready(i: int) -> None:
        heappush(critical, (-height[i], i))
        if ends[i]:
            heappush(ending[min(ends[i], 3) - 1], (-height[i], i))

    def take(heap: list[tuple[int, int]]) -> int:
        while heap:
            _, i = heappop(heap)
            if not placed[i]:
                return i
        return -1

    for i in range(n):
        if free[i]:
            placed[i] = True
            order.append(i)
        elif not missing[i]:
            ready(i)
    alive = 0
    while len(order) < n:
        i = -1
        if alive >= target.registers:
            for heap in reversed(ending):
                i = take(heap)
                if i >= 0:
                    break
        if i < 0:
            i = take(critical)
        placed[i] = True
        order.append(i)
        alive += 1 - ends[i]
        for a in args[i]:
            left[a] -= 1
            if left[a] == 1:
                for u in users[a]:
                    if not placed[u]:
                        ends[u] += 1
                        if not missing[u]:
                            heappush(ending[min(ends[u], 3) - 1], (-height[u], u))
        for u in users[i]:
            missing[u] -= 1
            if not missing[u]:
                ready(u)
    return order


def _reordered(block: Block, order: list[int], target: Target) -> Block:
    place = [0] * len(order)
    for k, i in enumerate(order):
        place[i] = k
    nodes = []
    for i in order:
        op, args, data = block.nodes[i]
        if op == "loop":
            # whether a loop may end is known before the rest of the iteration is computed
            data = replace(data, body=schedule(data.body, target, data.done))
        nodes.append(Node(op, tuple([place[a] for a in args]), data))
    return Block(tuple(nodes), block.params, tuple([place[r] for r in block.results]))
