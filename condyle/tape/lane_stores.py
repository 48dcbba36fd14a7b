"""Outputs of a state with limbs, written by its threads together: one instruction for several entries at equal distances.

A number of each limb is written by the threads of the limbs it was picked for, each its own. Numbers of the whole robot, which
all threads have, are written one by each thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from condyle.tape.tape import Block


@dataclass(frozen=True)
class LaneStore:
    """Entry first + step * k, written by thread k of `threads`: a number of each limb, or one of the whole robot for each."""

    port: int
    nodes: tuple[int, ...]
    threads: tuple[int, ...]
    first: int
    step: int


def lane_stores(block: Block, results: Sequence[tuple[int, int, int]], lanes: int) -> dict[int, list[LaneStore]]:
    """node after which it is written -> stores; `results`: (port, entry, node)."""
    picks: dict[tuple[int, int], dict[int, list[int]]] = {}  # (port, number of each limb) -> limb -> entries
    common: dict[tuple[int, int], int] = {}
    for port, entry, node in results:
        op, args, limb = block.nodes[node]
        if op == "pick":
            picks.setdefault((port, args[0]), {}).setdefault(limb, []).append(entry)
        else:
            common[port, entry] = node
    out: dict[int, list[LaneStore]] = {}
    for store in (*_of_limbs(picks), *_of_robot(common, lanes)):
        out.setdefault(max(store.nodes), []).append(store)
    return out


def _of_limbs(picks: dict[tuple[int, int], dict[int, list[int]]]) -> Iterable[LaneStore]:
    for (port, node), entries in picks.items():
        for turn in range(max(map(len, entries.values()))):
            found = {limb: own[turn] for limb, own in sorted(entries.items()) if turn < len(own)}
            threads = tuple(found)
            a, b = threads[0], threads[-1]
            step = (found[b] - found[a]) // (b - a) if b > a else 0
            first = found[a] - step * a
            if all(found[k] == first + step * k for k in threads):
                yield LaneStore(port, (node,), threads, first, step)
            else:
                yield from [LaneStore(port, (node,), (k,), found[k], 0) for k in threads]


def _of_robot(common: dict[tuple[int, int], int], lanes: int) -> Iterable[LaneStore]:
    """Entries one after the other."""
    run: list[int] = []
    for port, entry in sorted(common):
        run.append(common[port, entry])
        if len(run) == lanes or (port, entry + 1) not in common:
            yield LaneStore(port, tuple(run), tuple(range(len(run))), entry + 1 - len(run), 1 if len(run) > 1 else 0)
            run = []
