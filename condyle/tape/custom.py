"""Functions with a derivative rule of their own, for use inside a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from condyle.errors import TraceError
from condyle.tape.dead_code import dead_code
from condyle.tape.graph import Graph
from condyle.tape.inline import record_call
from condyle.tape.pytree import Rebuild, flatten
from condyle.tape.scalar import Scalar, caller
from condyle.tape.table import current, recording
from condyle.tape.tape import Block, Call, ValueCall

Rule = Callable[[tuple[Any, ...], Any, tuple[Any, ...]], Any]


def custom_jvp(function: Callable[..., Any], rule: Rule) -> Callable[..., Any]:
    """`function` with the derivative that `rule(args, result, tangents)` gives: the tangents of the result.

    Arguments and results are arrays, numbers, or tuples, lists and dicts of them; `args` and `tangents` are tuples of the same
    shapes. The rule is linear in the tangents. Forward and reverse derivatives use it, seed by seed, and differentiate it again
    for higher orders. Neither function nor rule may use traced values other than their arguments.

        sqrt = custom_jvp(np.sqrt, lambda args, y, tangents: 0.5 * tangents[0] / y)
    """

    def call(*args: Any) -> Any:
        leaves, rebuild, _ = flatten(args)
        if not any(isinstance(x, Scalar) for x in leaves):
            return function(*args)
        graph = current()
        body, make, shape = _block(function, [rebuild], [len(leaves)], values_only=graph.values_only)

        def ruled(arguments: Any, result: Any, tangents: Any) -> Any:
            moved = rule(arguments, result, tangents)
            if (given := flatten(moved)[2]) != shape:
                raise TraceError(
                    f"{caller()}: the derivative rule must give tangents shaped like the result, {shape}; got {given}"
                )
            return moved

        def derivative() -> Block:
            groups, sizes = [rebuild, make, rebuild], [len(leaves), len(body.results), len(leaves)]
            return _block(ruled, groups, sizes, packed=True, values_only=graph.values_only)[0]

        found = ValueCall(body, derivative) if graph.values_only else Call(body, derivative())
        return make(record_call(graph, found, [graph.place(x) for x in leaves]))

    return call


def _block(
    function: Callable[..., Any], rebuilds: list[Rebuild], sizes: list[int], *, packed: bool = False, values_only: bool = False
) -> tuple[Block, Rebuild, Any]:
    """(block, how to rebuild the result, its shape) of a function traced by itself, on groups of params."""
    graph = Graph()
    graph.values_only = values_only
    groups = [rebuild([Scalar(graph, graph.param()) for _ in range(n)]) for rebuild, n in zip(rebuilds, sizes, strict=True)]
    with recording(graph):
        result = function(*groups) if packed else function(*groups[0])
    leaves, rebuild, shape = flatten(result)
    return dead_code(graph.block([graph.place(x) for x in leaves])), rebuild, shape
