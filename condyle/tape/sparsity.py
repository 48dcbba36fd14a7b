"""Which results depend on which seeds: sets of seeds as bit masks, passed through a block forward or backward."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from condyle.tape.ops import OPS, REAL
from condyle.tape.tape import Block, Loop

FLAT = frozenset({"rint", "floor", "pow2", "logb", "stop_gradient", "to_real"})  # real results whose derivative is zero


def smooth(op: str) -> bool:
    """Whether a result can vary smoothly with its arguments."""
    return op in OPS and OPS[op].gives == REAL and op not in FLAT


def forward_masks(block: Block, params: list[int]) -> list[Any]:
    """The seeds each node depends on; a list per column for a table, (carry, written columns) for a loop."""
    masks: list[Any] = []
    for op, args, data in block.nodes:
        mask: Any = 0
        if op == "param":
            mask = params[data]
        elif op == "loop":
            mask = loop_forward(data, *data.split([masks[i] for i in args]))
        elif op == "call":
            rest = data.rule.params - len(args)
            rule = forward_masks(data.rule, [0] * rest + [masks[i] for i in args])
            mask = [rule[r] for r in data.rule.results], None
        elif op == "get":
            mask = masks[args[0]][0][data]
        elif op == "slice":
            mask = masks[args[0]][1][data[0] : data[1]]
        elif op == "index":
            mask = masks[args[0]][data[1]]
        elif op == "table":
            mask = [union([masks[i] for i in args[c :: data[1]]]) for c in range(data[1])]
        elif smooth(op):
            mask = union([masks[i] for i in (args[1:] if op == "select" else args)])
        masks.append(mask)
    return masks


def loop_forward(loop: Loop, start: list[int], tables: list[list[int]], captured: list[int]) -> tuple[list[int], list[int]]:
    """Seeds on (carried values, written columns) of a loop."""
    row = [mask for table in tables for mask in table]
    carry = start
    while True:
        masks = forward_masks(loop.body, [0, *carry, *row, *captured])
        results = [masks[r] for r in loop.body.results]
        grown = [a | b for a, b in zip(carry, results, strict=False)]
        if grown == carry:
            return carry, results[loop.carries : loop.carries + loop.writes]
        carry = grown


def backward_masks(block: Block, results: list[Any]) -> tuple[list[int], list[Any]]:
    """(seeds that reach each param, seeds that reach each node) from seeds on the results; a list per column for a table."""
    masks: list[Any] = [_nothing(block, i) for i in range(len(block.nodes))]
    params = [0] * block.params
    for i, seeds in zip(block.results, results, strict=True):
        masks[i] = _merge(masks[i], seeds)
    for i in reversed(range(len(block.nodes))):
        op, args, data = block.nodes[i]
        mask = masks[i]
        if op == "param":
            params[data] = mask
        elif op == "get":
            masks[args[0]][0][data] |= mask
        elif op == "slice":
            for c, seeds in enumerate(mask):
                masks[args[0]][1][data[0] + c] |= seeds
        elif op == "index":
            masks[args[0]][data[1]] |= mask
        elif op == "table":
            for k, a in enumerate(args):
                masks[a] |= mask[k % data[1]]
        elif op == "loop":
            carry, row, captured = loop_backward(data, *mask)
            start, tables, outside = data.split(args)
            at = 0
            for t in tables:
                masks[t] = _merge(masks[t], row[at : at + len(masks[t])])
                at += len(masks[t])
            for a, seeds in zip((*start, *outside), (*carry, *captured), strict=True):
                masks[a] |= seeds
        elif op == "call":
            into, _ = backward_masks(data.rule, mask[0])
            for a, seeds in zip(args, into[data.rule.params - len(args) :], strict=True):
                masks[a] |= seeds
        elif smooth(op):
            for a in args[1:] if op == "select" else args:
                masks[a] |= mask
    return params, masks


def loop_backward(loop: Loop, finals: list[int], written: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Seeds that reach (carried values, row entries, captured values) from seeds on what a loop gives."""
    carry = list(finals)
    while True:
        params, _ = backward_masks(loop.body, [*carry, *written, *[0] * loop.exits])
        grown = [a | b for a, b in zip(carry, params[1:], strict=False)]
        if grown == carry:
            row_at = 1 + loop.carries
            return carry, params[row_at : row_at + loop.reads], params[row_at + loop.reads :]
        carry = grown


def _nothing(block: Block, i: int) -> Any:
    op, _, data = block.nodes[i]
    if op == "loop":
        return [0] * data.carries, [0] * data.writes
    if op == "call":
        return [0] * len(data.body.results), None
    if op in ("table", "slice"):
        return [0] * (data[1] if op == "table" else data[1] - data[0])
    return 0


def _merge(a: Any, b: Any) -> Any:
    return [x | y for x, y in zip(a, b, strict=True)] if isinstance(a, list) else a | b


def union(masks: Iterable[int]) -> int:
    """All seeds of several masks."""
    return reduce(or_, masks, 0)


def seeds(mask: int) -> list[int]:
    """The seeds of a mask, in order."""
    return [k for k in range(mask.bit_length()) if mask >> k & 1]
