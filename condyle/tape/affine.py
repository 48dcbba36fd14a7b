"""Offsets into tables that backends compute with integers: sums of whole multiples of the counters of loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from condyle.tape.ops import OPS
from condyle.tape.tape import RUN_TIME, Block, Loop

Range = tuple[int, int]  # of a counter, both ends included
DEEPEST = 12  # operations on top of each other that make an offset


@dataclass(frozen=True)
class Affine:
    """constant + the sum of factor * counter, and the range of its values."""

    constant: int
    terms: dict[int, int]  # counter, by node -> factor
    low: int
    high: int


def affine_offset(block: Block, node: int, counters: dict[int, Range]) -> Affine | None:
    """A number as a sum of whole multiples of counters, or None if it is anything else."""
    found = _terms(block, node, counters, DEEPEST)
    if found is None or not all(float(x).is_integer() for x in found.values()):
        return None
    constant = int(found.pop(None, 0.0))
    terms = {k: int(factor) for k, factor in found.items() if k is not None and factor}
    ends = [sorted((factor * counters[k][0], factor * counters[k][1])) for k, factor in terms.items()]
    return Affine(constant, terms, constant + sum(low for low, _ in ends), constant + sum(high for _, high in ends))


def counter_range(loop: Loop) -> Range:
    """The range of a loop's counter."""
    return (0, loop.count - 1) if loop.count != RUN_TIME else (0, 2**62)


def body_counters(
    loop: Loop, captured: list[int], counters: dict[int, Any], own: Any, derived: Callable[[int], Any]
) -> dict[int, Any]:
    """The counters of a loop's body by node: `own` for the loop's counter, those of `counters` that it captures, and what
    `derived` makes of other captured nodes: sums of counters count as counters, for anything else it gives None."""
    at = {n.data: k for k, n in enumerate(loop.body.nodes) if n.op == "param"}
    first = 1 + loop.carries + loop.reads
    found = {at[0]: own} if 0 in at else {}
    for j, a in enumerate(captured):
        if first + j in at and (counter := counters[a] if a in counters else derived(a)) is not None:
            found[at[first + j]] = counter
    return found


def used_as_numbers(block: Block, counters: dict[int, Range]) -> set[int]:
    """The nodes whose value is used as a number, rather than only as an offset that is computed with integers."""
    used = set(block.results)

    def derived(a: int) -> Range | None:
        known = affine_offset(block, a, counters)
        return None if known is None else (known.low, known.high)

    for i in reversed(range(len(block.nodes))):
        op, args, data = block.nodes[i]
        if op == "loop":
            start, tables, captured = data.split(args)
            inner = used_as_numbers(data.body, body_counters(data, captured, counters, counter_range(data), derived))
            nodes = [data.body.nodes[k] for k in inner]
            params = {n.data if n.op == "param" else n.data[0] for n in nodes if n.op in ("param", "limb")}
            first = 1 + data.carries + data.reads
            used.update(start, tables, [a for j, a in enumerate(captured) if first + j in params])
        elif op in ("index", "update"):
            keep = 1 if op == "index" else 2
            used.update(args[:keep], [a for a in args[keep:] if affine_offset(block, a, counters) is None])
        elif i in used or op not in OPS:
            used.update(args)
    return used


def _terms(block: Block, i: int, counters: dict[int, Range], depth: int) -> dict[int | None, float] | None:
    """{counter, or None for the constant: factor}."""
    op, args, data = block.nodes[i]
    if op == "const":
        return {None: data} if not isinstance(data, tuple) and abs(data) < 2.0**31 else None
    if i in counters:
        return {i: 1.0}
    if op not in ("add", "sub", "mul", "neg", "fma") or not depth:
        return None
    parts: list[Any] = []
    for a in args:
        parts.append(_terms(block, a, counters, depth - 1))
        if parts[-1] is None:
            return None
    if op == "neg":
        return _scaled(parts[0], -1.0)
    if op in ("mul", "fma"):
        number = next((p for p in parts[:2] if p.keys() <= {None}), None)
        if number is None:
            return None
        product = _scaled(parts[1] if number is parts[0] else parts[0], number.get(None, 0.0))
        return product if op == "mul" else _sum(product, parts[2])
    return _sum(parts[0], parts[1] if op == "add" else _scaled(parts[1], -1.0))


def _scaled(terms: dict[int | None, float], by: float) -> dict[int | None, float]:
    return {k: factor * by for k, factor in terms.items()}


def _sum(a: dict[int | None, float], b: dict[int | None, float]) -> dict[int | None, float]:
    return {k: a.get(k, 0.0) + b.get(k, 0.0) for k in [*a, *[k for k in b if k not in a]]}
