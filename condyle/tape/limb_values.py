"""Numbers of each limb inside a trace: made of one number for each limb, and made numbers of the whole robot again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condyle.errors import TraceError
from condyle.tape.scalar import Scalar, caller, constant
from condyle.tape.table import current

MOST = 8  # limbs


def limb_count(x: Any) -> int:
    """How many limbs a value has a number of; 0 for a number of the whole robot."""
    return x.graph.limbs.get(x.index, 0) if isinstance(x, Scalar) else 0


def spread(*numbers: Any) -> Any:
    """The number of each limb, of one for each."""
    if not 2 <= len(numbers) <= MOST or any(limb_count(x) for x in numbers):
        raise TraceError(f"{caller()}: a number of each limb is made of 2 to {MOST} numbers of the whole robot")
    graph = current()
    index = graph.emit("spread", tuple([graph.place(_number(x)) for x in numbers]))
    return Scalar(graph, index)


def each(x: Any, limbs: int) -> Any:
    """The same number for each limb, which may differ from now on: where a loop starts whose body makes it differ."""
    if limb_count(x):
        return x
    graph = current()
    return Scalar(graph, graph.record("spread", (graph.place(_number(x)),) * limbs, None))


def spread_again(*numbers: Any) -> Any:
    """`spread` recorded again: a number of each limb, also where all are the same by now."""
    found = spread(*numbers)
    return found if limb_count(found) else each(found, len(numbers))


def pick(x: Any, k: int) -> Any:
    """The number of one limb; a number of the whole robot is that of all."""
    if not limb_count(x):
        return x
    graph = current()
    index = graph.place(x)
    node = graph.nodes[index]
    return Scalar(graph, node.args[k] if node.op == "spread" else graph.record("pick", (index,), k))


def picks(x: Any, limbs: int) -> list[Any]:
    """The numbers of all limbs."""
    return [pick(x, k) for k in range(limbs)]


def limb_sum(x: Any) -> Any:
    """The sum over all limbs: of pairs, then of pairs of pairs, and so on."""
    return _over_limbs("limb_sum", x)


def limb_max(x: Any) -> Any:
    """The maximum over all limbs; NaN if one is."""
    return _over_limbs("limb_max", x)


def _over_limbs(op: str, x: Any) -> Any:
    if not limb_count(x):
        raise TraceError(f"{caller()}: {op} needs a number of each limb")
    graph = current()
    return Scalar(graph, graph.record(op, (graph.place(x),), None))


def _number(x: Any) -> Any:
    return x if isinstance(x, Scalar) else float(x)


def sum_over(x: Any, limbs: int) -> Any:
    """The sum over all limbs of a number of each limb, which may be the same for all."""
    if not limb_count(x) and constant(x) == 0.0:
        return 0.0
    return limb_sum(each(x, limbs))


def sum_of_all(values: Any, limbs: Sequence[int]) -> Any:
    """The sum of numbers; `limbs`: 0 for one of the whole robot, or how many limbs have such a number."""
    count = max(limbs, default=0)
    own, others = [x for x, n in zip(values, limbs, strict=True) if n], [x for x, n in zip(values, limbs, strict=True) if not n]
    sums = [sum(others[1:], others[0])] if others else []
    sums += [sum_over(sum(own[1:], own[0]), count)] if own else []
    return sum(sums[1:], sums[0]) if sums else 0.0


def largest_of_all(values: Any) -> Any:
    """The maximum of numbers of the whole robot and of numbers of limbs, the latter over all limbs."""
    own, others = [x for x in values if limb_count(x)], [x for x in values if not limb_count(x)]
    tops = [*others, *([limb_max(_maximum(own))] if own else [])]
    return _maximum(tops)


def _maximum(values: list[Any]) -> Any:
    top = values[0]
    for x in values[1:]:
        top = np.maximum(top, x)
    return top


class LimbSum:
    """own + the sum of `partial` over the limbs, which is made once, when all terms are there."""

    __slots__ = ("limbs", "own", "partial")

    def __init__(self, own: Any, partial: Any, limbs: int) -> None:
        self.own, self.partial, self.limbs = own, partial, limbs


def with_term(entry: Any, term: Any, limbs: int) -> Any:
    """A number of the whole robot with a further term; `limbs`: 0, or how many limbs have such a term: their sum is added."""
    own, partial = (entry.own, entry.partial) if isinstance(entry, LimbSum) else (entry, None)
    if not limbs:
        return LimbSum(own + term, partial, entry.limbs) if isinstance(entry, LimbSum) else own + term
    return LimbSum(own, term if partial is None else partial + term, limbs)


def summed(entry: Any) -> Any:
    """The number with its sum over the limbs."""
    return entry.own + sum_over(entry.partial, entry.limbs) if isinstance(entry, LimbSum) else entry


def all_summed(entries: Any) -> Any:
    """The array with all sums over limbs made."""
    out = np.empty(entries.shape, dtype=object)
    out.ravel()[:] = [summed(x) for x in entries.ravel().tolist()]
    return out
