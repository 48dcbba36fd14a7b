"""Derivatives in the middle of a trace: of a function written on the spot, which may use any value traced before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condyle.tape.derive import jacobian
from condyle.tape.graph import Graph
from condyle.tape.inline import inline
from condyle.tape.loop import current, recording
from condyle.tape.passes import dead_code
from condyle.tape.pytree import assemble
from condyle.tape.scalar import Scalar
from condyle.tape.tape import Port, Tape
from condyle.tape.trace import outputs_of


def jacobian_at_zero(function: Callable[[Any], dict[str, Any]], n: int) -> dict[str, np.ndarray]:
    """{name: d(result)/dd, of shape (*result, n)} of function(d) at d = 0, recorded where the caller records.

    `function` takes n traced numbers and gives named arrays. Values of the traces around it are constants to it.
    """
    around = current()
    graph = Graph(parent=around)
    d = assemble([Scalar(graph, graph.param()) for _ in range(n)], (n,))
    with recording(graph):
        outputs, results = outputs_of(graph, function(d))
    block = dead_code(graph.block(results))
    inputs = (Port("d", (n,)), *([Port("around", (len(graph.captured),))] if graph.captured else []))
    tape = jacobian(Tape("inner", block, inputs, tuple(outputs)), None, "d", mode="forward")
    found = inline(tape, [*[0.0] * n, *[Scalar(around, place) for place in graph.captured]])
    return {port.name: found[f"d{port.name}_dd"].reshape(*port.shape, n) for port in outputs}


def derivative_at_zero(function: Callable[[Any], dict[str, Any]]) -> dict[str, np.ndarray]:
    """{name: d(result)/dt} of function(t) at t = 0, likewise."""
    return {name: derivative[..., 0] for name, derivative in jacobian_at_zero(lambda d: function(d[0]), 1).items()}
