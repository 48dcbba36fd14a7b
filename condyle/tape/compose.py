"""Compiled functions inside a trace: a call with traced arguments records the function's tape in its place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from condyle.errors import ShapeError
from condyle.tape.array import _objects, assemble
from condyle.tape.inline import Recorder
from condyle.tape.interpret import evaluate
from condyle.tape.scalar import Lazy, Scalar, _Traced, caller, number
from condyle.tape.subroutine import call_subroutine
from condyle.tape.table import Table, current, is_recording, table
from condyle.tape.tape import RUN_TIME, Port, Tape, by_port


def any_traced(values: Iterable[Any]) -> bool:
    """Whether a function is being traced and one of these arguments holds a traced value."""
    return is_recording() and any(map(_holds_traced, values))


def _holds_traced(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(isinstance(x, _Traced) for x in value.flat)
    if isinstance(value, (tuple, list)):
        return any(map(_holds_traced, value))
    return isinstance(value, (_Traced, Lazy, Table))


def traced_array(what: str, value: Any, shape: tuple[int, ...]) -> Any:
    """An argument of a call inside a trace as an array of traced values of this shape; a single one for shape ().

    Numbers become constants of the trace, so that no arithmetic on them is done by NumPy.
    """
    entries = _objects(value[:] if isinstance(value, Table) else value)
    if entries.shape != shape:
        axes = entries.ndim - len(shape)
        batch = axes > 0 and entries.shape[axes:] == shape
        advice = "; a trace is of one state, without batch axes: give the batch to the function that is traced" if batch else ""
        raise ShapeError(f"{caller()}: {what} has shape {entries.shape}, expected {shape}{advice}")
    graph = current()
    flat = [x if isinstance(x, Scalar) else Scalar(graph, graph.const(number(x))) for x in entries.ravel().tolist()]
    return assemble(flat, shape)


def traced_table(what: str, value: Any, port: Port) -> Table:
    """An argument of a call inside a trace as a table, with as many rows as there are if the input takes any number."""
    given = table(value)
    rows = given.shape[0] if port.run_time else port.shape[0]
    if given.shape != (rows, *port.shape[1:]):
        raise ShapeError(f"{caller()}: {what} has shape {given.shape}, expected {port.shape}")
    return given


def call_tape(tape: Tape, arrays: Iterable[Any], *, alone: bool = False) -> list[Any]:
    """The outputs of a tape on arrays and tables of traced values, recorded where the caller records.

    They are arrays of traced values; tables if their number of rows is known at run time only. `alone`: as a subroutine.
    """
    params: list[Any] = []
    for port, array in zip(tape.inputs, arrays, strict=True):
        params += [array] if port.table else _objects(array).ravel().tolist()
    values = call_subroutine(tape, params) if alone else evaluate(tape.block, params, Recorder())
    return [_output(port, mine) for port, mine in by_port(tape.outputs, values)]


def _output(port: Port, values: list[Any]) -> Any:
    if not port.table:
        return assemble(values, port.shape)
    found: Table = values[0].shaped((values[0].rows, *port.shape[1:]))
    return found if found.rows == RUN_TIME else found[:]
