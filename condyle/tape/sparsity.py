"""Which results depend on which seeds: sets of seeds as bit masks, passed through a block forward or backward."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from condyle.tape.limbs import unrolled
from condyle.tape.ops import OPS, REAL, TABLES
from condyle.tape.tape import Block, Loop, Subroutine, table_size

FLAT = frozenset({"rint", "floor", "pow2", "logb", "stop_gradient", "to_real"})  # real results whose derivative is zero


def smooth(op: str) -> bool:
    """Whether a result can vary smoothly with its arguments."""
    return op in OPS and OPS[op].gives == REAL and op not in FLAT


def forward_masks(block: Block, params: list[Any]) -> list[Any]:
    """The seeds each node depends on; a list per column for a table, (carry, written columns) for a loop."""
    masks: list[Any] = []
    for op, args, data in block.nodes:
        mask: Any = 0
        if op == "param":
            mask = params[data]
        elif op == "loop":
            mask = loop_forward(data, *data.split([masks[i] for i in args]))
        elif op == "call" and isinstance(data, Subroutine):
            body = unrolled(data.body)
            inner = forward_masks(body, [masks[i] for i in args])
            mask = [inner[r] for r in body.results], None
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
        elif op == "input":
            mask = params[data[0]] or [0] * data[2]
        elif op == "fill":
            mask = [0] * data[2]
        elif op == "after":
            mask = masks[args[0]][0][data[0]]
        elif op == "update":
            mask = [m | masks[args[1]] if c == data[1] else m for c, m in enumerate(masks[args[0]])]
        elif op == "reshape":
            mask = [union(masks[args[0]])] * data[1]
        elif op == "table":
            mask = [union([masks[i] for i in args[c :: data[1]]]) for c in range(data[1])]
        elif smooth(op):
            mask = union([masks[i] for i in (args[1:] if op == "select" else args)])
        masks.append(mask)
    return masks


def loop_forward(loop: Loop, start: list[Any], tables: list[list[int]], captured: list[Any]) -> tuple[list[Any], list[int]]:
    """Seeds on (carried values, written columns) of a loop; a list per column for a carried table."""
    row = [mask for table in tables for mask in table]
    carry = start
    while True:
        masks = forward_masks(loop.body, [0, *carry, *row, *captured])
        results = [masks[r] for r in loop.body.results]
        grown = [_merge(a, b) for a, b in zip(carry, results, strict=False)]
        if grown == carry:
            return carry, results[loop.carries : loop.carries + loop.writes]
        carry = grown


def backward_masks(block: Block, results: list[Any]) -> tuple[list[Any], list[Any]]:
    """(seeds that reach each param, seeds that reach each node) from seeds on the results; a list per column for a table."""
    masks: list[Any] = [_nothing(block, i) for i in range(len(block.nodes))]
    params: list[Any] = [0] * block.params
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
        elif op == "input":
            params[data[0]] = mask
        elif op == "after":
            finals = masks[args[0]][0]
            finals[data[0]] = _merge(finals[data[0]], mask)
        elif op == "update":
            masks[args[0]] = _merge(masks[args[0]], mask)
            masks[args[1]] |= mask[data[1]]
        elif op == "reshape":
            masks[args[0]] = _merge(masks[args[0]], [union(mask)] * len(masks[args[0]]))
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
                masks[a] = _merge(masks[a], seeds)
        elif op == "call":
            into, _ = backward_masks(unrolled(data.body) if isinstance(data, Subroutine) else data.rule, mask[0])
            for a, seeds in zip(args, into[len(into) - len(args) :], strict=True):
                masks[a] = _merge(masks[a], seeds)
        elif smooth(op):
            for a in args[1:] if op == "select" else args:
                masks[a] |= mask
    return params, masks


def loop_backward(loop: Loop, finals: list[Any], written: list[int]) -> tuple[list[Any], list[int], list[Any]]:
    """Seeds that reach (carried values, row entries, captured values) from seeds on what a loop gives; lists for tables."""
    carry = list(finals)
    while True:
        params, _ = backward_masks(loop.body, [*carry, *written, *[0] * loop.exits])
        grown = [_merge(a, b) for a, b in zip(carry, params[1:], strict=False)]
        if grown == carry:
            row_at = 1 + loop.carries
            return carry, params[row_at : row_at + loop.reads], params[row_at + loop.reads :]
        carry = grown


def _nothing(block: Block, i: int) -> Any:
    op, args, data = block.nodes[i]
    if op == "loop":
        return [_nothing(block, a) for a in args[: data.carries]], [0] * data.writes
    if op == "call":
        body = unrolled(data.body)
        return [_nothing(body, r) for r in body.results], None
    return [0] * table_size(block.nodes, i)[1] if op in TABLES else 0


def _merge(a: Any, b: Any) -> Any:
    # a table that nothing reads has no list of its own
    if isinstance(a, list):
        return [x | y for x, y in zip(a, b, strict=True)] if isinstance(b, list) else a
    return a | b


def union(masks: Iterable[int]) -> int:
    """All seeds of several masks."""
    return reduce(or_, masks, 0)


def seeds(mask: int) -> list[int]:
    """The seeds of a mask, in order."""
    return [k for k in range(mask.bit_length()) if mask >> k & 1]
