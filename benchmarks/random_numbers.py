"""Nanoseconds and operations per random number of a kernel, one thread, against NumPy's generators."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import SECONDS, busy, race

KINDS = {"uniform": cd.random.uniform, "normal": cd.random.normal}
PER_STATE = 8


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers."""
    states = 100 if tiny else 4096
    numbers: dict[str, Any] = {"busy": busy()}
    table = Table("ns a number", "operations", "float64", "float32", "float64, one lane", "NumPy Philox", "NumPy PCG64")
    for kind, make in KINDS.items():
        function = cd.function(lambda robot, tick, make=make: make(0, robot, tick, 1, shape=PER_STATE), robot=(), tick=())
        calls: dict[str, Any] = {}
        for name, dtype, lanes in (("f64", np.float64, None), ("f32", np.float32, None), ("one lane", np.float64, 1)):
            arrays = [np.arange(states).astype(dtype), np.full(states, 5, dtype)]
            out, compiled = np.empty((states, PER_STATE), dtype), function.on("cpu", lanes=lanes, threads=1)
            calls[name] = lambda f=compiled, a=arrays, out=out: f(*a, out=out)
        for name, generator in (("Philox", np.random.Philox(0)), ("PCG64", np.random.PCG64(0))):
            theirs = np.random.Generator(generator)
            draw = theirs.random if kind == "uniform" else theirs.standard_normal
            calls[name] = lambda draw=draw: draw(states * PER_STATE)
        times = race(calls, 0.01 if tiny else SECONDS)
        each = {name: 1e9 * seconds / (states * PER_STATE) for name, seconds in times.items()}
        operations = function.operations / PER_STATE
        table.add_row(kind, f"{operations:.0f}", *[f"{each[name]:.2f}" for name in calls])
        numbers[kind] = each | {"operations": operations}
    console.print(table)
    return numbers
