"""Subroutines: functions inside a trace that are lowered alone, so that their bits depend on their arguments and on nothing else.

A trace is one program: equal operations are one, and a product whose uses are all sums is rounded together with them (fma, see
passes.contract). So one more reader of a product that a function computes, such as an output that someone records, would change
the last bits of all that the function gives. A subroutine is an edge that no such decision crosses:

    trace     one `call` node with the tape of the function; unused results stay, for dropping one would be such a decision
    lower     its tape is expanded, folded and contracted alone, once for all calls; then its operations take the call's place
    after     only what leaves every bit as it is: equal operations are one, unused ones are gone, order and registers

How a backend computes it is a matter of cost and changes no bit: in the place of the call, or on a processor, if it is long, as
code of its own that all its clients link (link.py). Derivatives are those of its operations, recorded where they are taken. A
loop of one iteration is no substitute: columns that nothing reads are dropped from its body before it is lowered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from condyle.errors import TraceError
from condyle.tape.dead_code import dead_code
from condyle.tape.graph import Graph
from condyle.tape.inline import record_call
from condyle.tape.ops import TABLES
from condyle.tape.pytree import flatten
from condyle.tape.scalar import Scalar, caller
from condyle.tape.table import Table, current, recording
from condyle.tape.tape import Port, Subroutine, Tape, table_size

OF_ROBOT = "numbers of the whole robot; pick those of each limb"


def subroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` as a subroutine of the trace that calls it; outside of traces, `function` itself.

    Arguments and results are arrays, numbers, tables, or tuples, lists and dicts of them. Values of traces around it are further
    arguments.

        step = subroutine(lambda x, u: x + 0.01 * np.sin(u))
    """

    @wraps(function)
    def call(*args: Any) -> Any:
        leaves, rebuild, _ = flatten(args)
        if not any(isinstance(x, Scalar | Table) for x in leaves):
            return function(*args)
        graph = Graph(current())
        params = [_param(graph, x) for x in leaves]
        with recording(graph):
            results, rebuild_results, _ = flatten(function(*rebuild(params)))
            places = [graph.place(x) for x in results]
        if any(graph.limbs.get(i) for i in places):
            raise TraceError(f"{caller()}: a subroutine gives {OF_ROBOT}")
        known = [graph.value(k) for k in places]
        outside = [_outside(current(), outer) for outer in graph.captured]
        inputs = [_port(f"in{k}", x) for k, x in enumerate([*leaves, *outside])]
        free = [k for k, number in enumerate(known) if number is None]
        name = getattr(function, "__name__", "")
        name = name if name.isidentifier() else "subroutine"
        block = dead_code(graph.block([places[k] for k in free]))
        tape = Tape(name, block, tuple(inputs), tuple([_port(f"out{k}", results[k]) for k in free]))
        # what is a number in every call is one outside, too
        values = iter(call_subroutine(tape, [*leaves, *outside]))
        return rebuild_results([next(values) if number is None else number for number in known])

    return call


def call_subroutine(tape: Tape, params: list[Any]) -> list[Any]:
    """The results of a tape as a subroutine of the trace that is recorded: numbers and tables, from one value for each param."""
    graph = current()
    if any(port.run_time for port in (*tape.inputs, *tape.outputs)):
        raise TraceError(f"{caller()}: rows whose number is known at run time cannot enter a subroutine; scan them around it")
    places = [graph.place(x) for x in params]
    if any(graph.limbs.get(i) for i in places):
        raise TraceError(f"{caller()}: a subroutine takes {OF_ROBOT}")
    return record_call(graph, Subroutine(tape), places)


def _param(graph: Graph, value: Any) -> Any:
    """A new param of a graph for an argument."""
    if isinstance(value, Table):
        return Table(graph, graph.input(value.rows, value.columns), value.shape)
    return Scalar(graph, graph.param())


def _outside(graph: Graph, index: int) -> Any:
    """A value of a graph that a function uses without taking it as an argument."""
    if graph.nodes[index].op in TABLES:
        return Table(graph, index, table_size(graph.nodes, index))
    return Scalar(graph, index)


def _port(name: str, value: Any) -> Port:
    return Port(name, value.shape, table=True) if isinstance(value, Table) else Port(name, ())
