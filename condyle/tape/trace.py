"""Tracing: a Python function is run once on traced scalars, and what it did is the tape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.errors import TraceError
from condyle.tape.array import assemble
from condyle.tape.dead_code import dead_code
from condyle.tape.graph import Graph, collection_paused
from condyle.tape.limbs import unrolled
from condyle.tape.ops import OPS, REAL
from condyle.tape.pytree import flatten
from condyle.tape.scalar import Scalar
from condyle.tape.table import Table, recording
from condyle.tape.tape import RUN_TIME, Port, Tape


@dataclass(frozen=True)
class Rows:
    """An argument that is traced as a table rather than as scalars: Rows(20, 4), or Rows(None, 4) for any number of rows.

    Scan it, or index it by counters and traced numbers. With None the number of rows is known when the function is called, and
    what a scan over it writes has as many.
    """

    shape: tuple[int, ...]
    uniform: bool = False

    def __init__(self, *shape: int | None) -> None:
        object.__setattr__(self, "shape", tuple([RUN_TIME if k == 0 and n is None else n for k, n in enumerate(shape)]))


@dataclass(frozen=True, init=False)
class Uniform(Rows):
    """A table that all states of a batch share, such as the weights of a network or a height map: no batch axes, no copy."""

    uniform: bool = True


Shape = int | tuple[int, ...] | Rows


def trace(function: Callable[..., Any], /, **shapes: Shape) -> Tape:
    """The tape of `function`, called with one array of traced scalars per named shape.

    A shape is a whole number (a vector), a tuple, or () for a single scalar; Rows(...) and Uniform(...) give tables. The function
    returns an array, table or scalar, or a tuple or dict of them; a dict's keys name the outputs, otherwise they are `out`, or
    `out0`, `out1`, ... Parameters that it uses (condyle.parameter) are inputs after the named ones.
    """
    return _trace(function, shapes, Graph())


def trace_values(function: Callable[..., Any], /, **shapes: Shape) -> Tape:
    """The tape of `function` as `trace` gives it, for its values alone: derivative rules are not traced unless it is derived.

    They are no part of the tape's hash: a function whose derivatives are kept by that hash needs `trace`.
    """
    graph = Graph()
    graph.values_only = True
    return _trace(function, shapes, graph)


def _trace(function: Callable[..., Any], shapes: dict[str, Shape], graph: Graph) -> Tape:
    """The tape of a function recorded in a new graph."""
    name = getattr(function, "__name__", "function")
    inputs = tuple(_port(name, key, shape) for key, shape in shapes.items())
    graph.parameters = dict.fromkeys(shapes, (None, []))
    arguments = {p.name: port_value(p, port_params(graph, p)) for p in inputs}
    # operations on constants are IEEE's, as in a kernel: an infinity is found by whoever checks the result
    with recording(graph), collection_paused(), np.errstate(all="ignore"):
        outputs, results = outputs_of(graph, function(**arguments))
    if not outputs:
        raise TraceError(f"{name} returned nothing to compute; return an array, or a tuple or dict of arrays")
    ports = (*inputs, *[Port(p.name, p.shape, parameter=p) for p, _ in graph.parameters.values() if p is not None])
    block = dead_code(graph.block(results))
    # derivatives are taken of limbs written out
    block = block if graph.values_only else dead_code(unrolled(block))
    return Tape(name if name.isidentifier() else "function", block, ports, tuple(outputs))


def port_params(graph: Graph, port: Port) -> list[Any]:
    """New params of a graph for an input: a table, or one scalar per entry."""
    if port.table:
        return [Table(graph, graph.input(port.shape[0], port.columns), port.shape)]
    return [Scalar(graph, graph.param()) for _ in range(port.size)]


def port_value(port: Port, params: list[Any]) -> Any:
    """What the traced function is given for an input."""
    return params[0] if port.table else assemble(params, port.shape)


def with_finite_check(
    function: Callable[..., dict[str, Any]],
    *,
    name: str,
    matrices: bool,
    also: Callable[[dict[str, Any]], list[Any]] = lambda inputs: [],
) -> Callable[..., dict[str, Any]]:
    """`function` with one more output `check`: zero if all inputs and outputs are finite, NaN otherwise.

    `also`: further numbers to look at, of the inputs. Without `matrices`, the many entries of outputs of two axes and more are
    not looked at one by one: they are polynomials of the inputs and of quotients, roots and elementary functions, so it suffices
    that those are finite and that no product of four inputs overflows.
    """

    def checked(**arrays: Any) -> dict[str, Any]:
        result = dict(function(**arrays))
        inputs = [x for array in arrays.values() for x in np.ravel(array)]
        large = [] if matrices else [x for value in result.values() if np.ndim(value) > 1 for x in np.ravel(value)]
        looked_at = [x for value in result.values() if matrices or np.ndim(value) < 2 for x in np.ravel(value)]
        if large and (factors := not_polynomial(large)) is not None:
            square = sum((x * x for x in inputs), 0.0)
            looked_at += [square * square, *factors]
        else:
            looked_at += [*inputs, *large]
        # a sum is finite only if its terms are, and it overflows far beyond numbers that mean anything
        total = sum((*looked_at, *also(arrays)), 0.0)
        result["check"] = total - total
        return result

    checked.__name__ = name
    return checked


POLYNOMIAL = frozenset({"param", "const", "add", "sub", "mul", "neg", "fma", "abs", "select", "min", "max", "stop_gradient"})


def not_polynomial(values: list[Any]) -> list[Any] | None:
    """Quotients, roots and elementary functions in these values, of sine and cosine one; None if there are loops in them."""
    traced = [x for x in values if isinstance(x, Scalar)]
    numbers = [x for x in values if not isinstance(x, Scalar) and not np.isfinite(x)]
    if not traced:
        return numbers
    graph = traced[0].graph
    waiting, needed = [x.index for x in traced], set[int]()
    while waiting:
        i = waiting.pop()
        if i not in needed:
            needed.add(i)
            waiting += graph.nodes[i].args
    nodes = {i: graph.nodes[i] for i in sorted(needed)}
    if any(node.op not in OPS and node.op not in POLYNOMIAL for node in nodes.values()):
        return None
    sines = {node.args for node in nodes.values() if node.op == "sin"}
    found = [i for i, node in nodes.items() if node.op not in POLYNOMIAL and OPS[node.op].gives == REAL]
    found += [i for i, node in nodes.items() if node.op == "const" and not np.isfinite(node.data)]
    return numbers + [Scalar(graph, i) for i in found if nodes[i].op != "cos" or nodes[i].args not in sines]


def outputs_of(graph: Graph, returned: Any) -> tuple[list[Port], list[int]]:
    """(ports, positions) of what a traced function returned."""
    if isinstance(returned, dict):
        named = list(returned.items())
    elif isinstance(returned, (tuple, list)):
        fields = getattr(returned, "_fields", [f"out{i}" for i in range(len(returned))])
        named = list(zip(fields, returned, strict=True))
    else:
        named = [("out", returned)]
    ports: list[Port] = []
    results: list[int] = []
    for name, value in named:
        if isinstance(value, Table):
            ports.append(Port(name, value.shape, table=True))
            results.append(value.index)
            continue
        entries, shape = np.asarray(value, dtype=object), np.shape(value)
        leaves, _, _ = flatten(entries)
        places = [graph.place(x) for x in leaves]
        found = _as_slice(graph, places, shape)
        ports.append(Port(name, shape, table=found is not None))
        results += places if found is None else [found]
    return ports, results


def _as_slice(graph: Graph, places: list[int], shape: tuple[int, ...]) -> int | None:
    """The table whose entries these are, all rows in order, so that they can be written row by row; None for anything else."""
    if not shape or not places or graph.nodes[places[0]].op != "index" or len(graph.nodes[places[0]].args) > 1:
        return None
    (written,), (_, first) = graph.nodes[places[0]].args, graph.nodes[places[0]].data
    op, args, data = graph.nodes[written]
    if op != "slice" or graph.nodes[args[0]].data.count != shape[0]:
        return None
    width = len(places) // shape[0]
    for k, place in enumerate(places):
        if graph.nodes[place] != ("index", (written,), (k // width, first + k % width)):
            return None
    return graph.record("slice", args, (data[0] + first, data[0] + first + width))


def _port(function: str, name: str, shape: Shape) -> Port:
    given = shape.shape if isinstance(shape, Rows) else shape
    sizes = (given,) if isinstance(given, (int, np.integer)) else given
    run_time = isinstance(shape, Rows) and not shape.uniform and sizes[:1] == (RUN_TIME,)
    counted = sizes[1:] if run_time else sizes
    if not isinstance(sizes, tuple) or not all(isinstance(n, (int, np.integer)) and n > 0 for n in counted):
        raise TraceError(
            f"{function}: the shape of '{name}' must be a positive whole number or a tuple of them, got {given!r:.60}"
        )
    if isinstance(shape, Rows) and not sizes:
        raise TraceError(f"{function}: '{name}' is a table, which needs at least one axis")
    table = isinstance(shape, Rows)
    return Port(name, tuple(int(n) for n in sizes), table, table and shape.uniform)  # type: ignore[union-attr]
