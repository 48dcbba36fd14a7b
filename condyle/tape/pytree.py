"""Nested values: tuples, lists and dicts of arrays, taken apart into a flat list of scalars and tables and put together again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from condyle.errors import TraceError
from condyle.tape.array import assemble
from condyle.tape.scalar import Lazy, Scalar, caller, number
from condyle.tape.table import Table

Rebuild = Callable[[list[Any]], Any]


def flatten(value: Any) -> tuple[list[Any], Rebuild, Any]:
    """(scalars and tables, how to rebuild the value from others like them, a comparable description of the shape).

    A string is no number: it stays as it is. `rebuild` keeps no traced value: derivative rules hold it for as long as the tape
    lives, and a cycle through an array of objects is never collected.
    """
    if isinstance(value, dict):
        names = list(value)
        leaves, rebuild, shape = flatten([value[name] for name in names])
        return leaves, lambda xs: dict(zip(names, rebuild(xs), strict=True)), ("dict", tuple(names), shape)
    if isinstance(value, (tuple, list)):
        parts = [flatten(item) for item in value]
        kind, makers = type(value), [(len(leaves), make) for leaves, make, _ in parts]

        def rebuild_items(xs: list[Any]) -> Any:
            entries = iter(xs)
            items = [make([*islice(entries, size)]) for size, make in makers]
            return kind(*items) if hasattr(kind, "_fields") else kind(items)

        leaves = [leaf for part, _, _ in parts for leaf in part]
        return leaves, rebuild_items, (kind.__name__, tuple(shape for _, _, shape in parts))
    if isinstance(value, Scalar):
        return [value], lambda xs: xs[0], ()
    if isinstance(value, Lazy):
        return flatten(value.resolve())
    if isinstance(value, Table):
        shape = value.shape
        return [value], lambda xs: xs[0].shaped(shape), ("table", shape)
    if isinstance(value, np.ndarray):
        shape = value.shape
        leaves = [x if isinstance(x, Scalar) else number(x) for x in value.ravel().tolist()]
        return leaves, lambda xs: assemble(xs, shape), shape
    if isinstance(value, str):
        return [], lambda xs: value, ("str", value)
    return [number(value)], lambda xs: xs[0], ()


def same_shape(what: str, wanted: Any, given: Any) -> None:
    """Raise unless a loop body returned what it was given."""
    if wanted != given:
        raise TraceError(
            f"{caller()}: {what} must keep its shape from one iteration to the next: it had {wanted}, and came back as {given}"
        )
