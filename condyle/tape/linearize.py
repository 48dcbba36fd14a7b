"""Value and Jacobians of a function together, in the middle of a trace or on numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from condyle.tape.array import _objects, assemble
from condyle.tape.compose import any_traced, traced_array
from condyle.tape.dead_code import dead_code
from condyle.tape.fingerprint import fingerprint
from condyle.tape.forward import TableTangent, forward
from condyle.tape.function import Function
from condyle.tape.graph import Graph
from condyle.tape.limbs import unrolled
from condyle.tape.ops import TABLES
from condyle.tape.scalar import Scalar, constant
from condyle.tape.table import Table, current, recording
from condyle.tape.tape import table_size
from condyle.tape.trace import trace

Rebuild = Callable[[list[Any]], Any]


def linearize(function: Callable[..., Any], /, *args: Any) -> tuple[Any, ...]:
    """(value, one Jacobian per argument) of function(*args); a Jacobian has the shape (*value, *argument).

    Inside a trace the entries are traced values, and plain numbers where the structure fixes them: products with its zeros
    vanish. Outside, arguments are numbers; those of a compiled function may have batch axes. If the function returns a tuple
    or dict, the value and each Jacobian are such a tuple or dict.
    """
    if any_traced(args):
        rebuild, parts = _parts_and_jacobians(function, [_own_shape(k, x) for k, x in enumerate(args)])
        return tuple(rebuild(list(each)) for each in parts)
    return _on_numbers(function, args)


def _own_shape(k: int, value: Any) -> Any:
    return traced_array(f"argument {k}", value, value.shape if isinstance(value, Table) else _objects(value).shape)


def _parts_and_jacobians(function: Callable[..., Any], args: list[Any]) -> tuple[Rebuild, list[list[Any]]]:
    """(how arrays become what the function returns, [arrays of the value, of the Jacobian by each argument])."""
    around = current()
    graph = Graph(parent=around)
    arrays = [_objects(a) for a in args]
    with recording(graph):
        inside = [assemble([Scalar(graph, graph.param()) for _ in range(a.size)], a.shape) for a in arrays]
        rebuild, parts = _parts(function(*inside))
        places = [graph.place(x) for part in parts for x in part.ravel().tolist()]
    flat = [x for a in arrays for x in a.ravel().tolist()]
    captured = [_outside(around, place) for place in graph.captured]
    one = Scalar(around, around.const(1.0))
    tangents: list[Any] = [{k: one} for k in range(len(flat))]
    tangents += [TableTangent(None, {}) if isinstance(x, Table) else {} for x in captured]
    values, moves = forward(dead_code(unrolled(graph.block(places))), [*flat, *captured], tangents)
    rest, rest_moves = iter(values), iter(moves)
    found: list[list[Any]] = [[] for _ in range(1 + len(args))]
    for part in parts:
        found[0].append(assemble([*islice(rest, part.size)], part.shape))
        rows, start = [*islice(rest_moves, part.size)], 0
        for mine, a in zip(found[1:], arrays, strict=True):
            entries = [_known(row.get(c, 0.0)) for row in rows for c in range(start, start + a.size)]
            mine.append(assemble(entries, (*part.shape, *a.shape)))
            start += a.size
    return rebuild, found


def _outside(around: Graph, place: int) -> Any:
    """A value that the function uses from around it: a constant to the derivative."""
    table = around.nodes[place].op in TABLES
    return Table(around, place, table_size(around.nodes, place)) if table else Scalar(around, place)


def _parts(returned: Any) -> tuple[Rebuild, list[np.ndarray]]:
    """(how arrays become what a function returned, the arrays)."""
    if isinstance(returned, dict):
        names = list(returned)
        return lambda xs: dict(zip(names, xs, strict=True)), [_part(x) for x in returned.values()]
    if isinstance(returned, (tuple, list)):
        kind = type(returned)
        return (lambda xs: kind(*xs)) if hasattr(returned, "_fields") else kind, [_part(x) for x in returned]
    return lambda xs: xs[0], [_part(returned)]


def _part(value: Any) -> np.ndarray:
    return _objects(_own_shape(0, value))


def _known(x: Any) -> Any:
    """A number where a traced value is a constant."""
    number = constant(x)
    return x if number is None else number


def _on_numbers(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    compiled, rebuild, parts = _compiled(function, args)
    results = compiled(*args)
    flat = iter(results if isinstance(results, tuple) else (results,))
    return tuple(rebuild([*islice(flat, parts)]) for _ in range(1 + len(args)))


@lru_cache(maxsize=64)
def _remembered(digest: str) -> dict[Any, Any]:
    """What is kept for the Python function of this fingerprint."""
    return {}


def _compiled(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Function, Rebuild, int]:
    """(the compiled value and Jacobians, how to rebuild what the function returns, how many arrays that is)."""
    own = isinstance(function, Function)
    shapes = list(function.inputs.values()) if isinstance(function, Function) else [np.shape(a) for a in args]
    known = None if own else fingerprint(function, shapes)
    # a Python function is known by what it does, because what it uses may change between calls
    kept: dict[Any, Any] = function.__dict__ if own else {} if known is None else _remembered(known.digest)
    if "linearized" not in kept:
        found: dict[str, Any] = {}

        def linearized(**arrays: Any) -> dict[str, Any]:
            found["rebuild"], columns = _parts_and_jacobians(function, list(arrays.values()))
            found["parts"] = len(columns[0])
            return {f"out{i}_{j}": x for j, column in enumerate(columns) for i, x in enumerate(column)}

        tape = trace(linearized, **{f"argument{k}": shape for k, shape in enumerate(shapes)})
        kept["linearized"] = (Function(tape), found["rebuild"], found["parts"])
    result: tuple[Function, Rebuild, int] = kept["linearized"]
    return result
