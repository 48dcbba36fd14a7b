"""RRT-Connect: two trees of collision-free lines from start and goal, which grow towards random configurations and each other.

Kuffner and LaValle (2000). Each iteration draws `batch` configurations: one tree makes a step towards each of them, the other
goes towards each new node as far as it is free. The lines of a batch are certified together by the compiled distances. The
result is a function of the generator alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from condyle.methods.planning.certify import Clearance

Array = np.ndarray
Progress = Callable[[str], None]

STEP = 0.25  # m, of motion in one step of a tree
BATCH = 8


class Tree:
    """Configurations with their parents, -1 for a root."""

    def __init__(self, roots: Array) -> None:
        self.count = len(roots)
        self.q = np.zeros((max(256, 2 * self.count), roots.shape[1]))
        self.parent = np.full(len(self.q), -1)
        self.q[: self.count] = roots

    def add(self, q: Array, parent: int) -> int:
        """The number of the new node."""
        if self.count == len(self.q):
            self.q = np.concatenate([self.q, np.zeros_like(self.q)])
            self.parent = np.concatenate([self.parent, np.full(self.count, -1)])
        self.q[self.count], self.parent[self.count] = q, parent
        self.count += 1
        return self.count - 1

    def nearest(self, q: Array, weights: Array) -> Array:
        """The number of the nearest node of each q (k, nv), in the metric of the weights."""
        nodes, wanted = self.q[: self.count] * weights, q * weights
        squared = np.sum(nodes * nodes, axis=1) - 2.0 * wanted @ nodes.T
        found: Array = np.argmin(squared, axis=1)
        return found

    def to_root(self, node: int) -> list[Array]:
        """The configurations from a node to its root."""
        path = []
        while node >= 0:
            path.append(self.q[node].copy())
            node = int(self.parent[node])
        return path


@dataclass(frozen=True)
class Search:
    """`path` (k, nv) from the start to one of the goals, or None and the `reason` why there is none."""

    path: Array | None
    reason: str
    iterations: int
    nodes: int


def rrt_connect(
    space: Clearance,
    start: Array,
    goals: Array,
    rng: np.random.Generator,
    *,
    lower: Array,
    upper: Array,
    step: float = STEP,
    batch: int = BATCH,
    iterations: int = 5000,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Search:
    """A path of certified lines from `start` (nv,) to one of `goals` (k, nv), both free.

    `lower`, `upper`: the box in which configurations are drawn. `step`: m, of motion (`Clearance.motion`). With `seconds` the
    result depends on the speed of the computer; without, on the generator alone.
    """
    trees = [Tree(start[None]), Tree(goals)]
    begin = perf_counter()
    # the straight line to each goal first
    straight = space.edges_free(np.repeat(start[None], len(goals), axis=0), goals)
    if np.any(straight):
        chosen = goals[straight]
        length = np.linalg.norm((chosen - start) * space.weights, axis=1)
        return Search(np.stack([start, chosen[int(np.argmin(length))]]), "", 0, 1 + len(goals))
    for k in range(iterations):
        if seconds is not None and perf_counter() - begin > seconds:
            return _failed(f"the limit of {seconds:g} s", k, trees)
        if progress is not None and k % 20 == 0:
            progress(f"iteration {k}, {trees[0].count + trees[1].count} nodes")
        here, there = trees[k % 2], trees[1 - k % 2]
        new = _extended(space, here, rng.uniform(lower, upper, (batch, len(start))), step)
        joined = _connected(space, here, there, new, step)
        if joined is not None:
            a, b = here.to_root(joined[0])[::-1], there.to_root(joined[1])
            path = np.array([*a, *b[1:]])
            return Search(path if k % 2 == 0 else path[::-1].copy(), "", k + 1, here.count + there.count)
    return _failed(f"the limit of {iterations} iterations", iterations, trees)


def _extended(space: Clearance, tree: Tree, drawn: Array, step: float) -> list[int]:
    """The new nodes of a tree: one step towards each configuration, where that is free."""
    near = tree.nearest(drawn, space.weights)
    towards = drawn - tree.q[near]
    ends = tree.q[near] + towards * np.minimum(1.0, step / np.maximum(space.motion(towards), 1e-12))[:, None]
    free = space.edges_free(tree.q[near], ends)
    return [tree.add(ends[i], int(near[i])) for i in np.flatnonzero(free)]


def _connected(space: Clearance, here: Tree, there: Tree, new: list[int], step: float) -> tuple[int, int] | None:
    """(node of `here`, node of `there`) at the same configuration, if the other tree reaches one of the new nodes."""
    if not new:
        return None
    goals = here.q[new]
    near = there.nearest(goals, space.weights)
    towards = goals - there.q[near]
    counts = np.maximum(np.ceil(space.motion(towards) / step).astype(int), 1)
    line = np.repeat(np.arange(len(new)), counts)
    begin = np.concatenate([[0], np.cumsum(counts)[:-1]])
    k = np.arange(len(line)) - begin[line]
    a, b = (there.q[near[line]] + ((k + more) / counts[line])[:, None] * towards[line] for more in (0, 1))
    b = np.where((k + 1 == counts[line])[:, None], goals[line], b)
    free = space.edges_free(a, b)
    for i, node in enumerate(new):
        parent, part = int(near[i]), slice(int(begin[i]), int(begin[i] + counts[i]))
        for q, ok in zip(b[part], free[part], strict=True):
            if not ok:
                break
            parent = there.add(q, parent)
        else:
            return node, parent
    return None


def _failed(limit: str, iterations: int, trees: list[Tree]) -> Search:
    sizes = " and ".join(str(tree.count) for tree in trees)
    reason = (
        f"{limit} was reached before the trees of start and goal met ({sizes} nodes): raise it, take another seed, or lower the "
        "clearance"
    )
    return Search(None, reason, iterations, trees[0].count + trees[1].count)
