"""Nanoseconds per state of kernels of one lane, against the exported C compiled by gcc -O2."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import SECONDS, busy, c_library, gcc, race
from condyle.tape.backends.cpu import aligned_memory

FLAGS = ("-O2", "-march=native", "-ffp-contract=off")
OPERATIONS = 400_000  # of a batch, so that calling it costs nothing


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A product of matrices, written out."""
    return a @ b


def cases(tiny: bool) -> dict[str, cd.Function]:
    """Functions by name."""
    found = {"pendulum, forward dynamics": cd.load("pendulum").function("forward_dynamics")}
    if not tiny:
        arm = cd.load("ur3")
        names = ("forward_dynamics", "inverse_dynamics", "mass_matrix", "forward_dynamics_derivatives")
        found |= {f"ur3, {name.replace('_', ' ')}": arm.function(name) for name in names}
        found |= {f"{n} x {n} product": cd.function(product, a=(n, n), b=(n, n)) for n in (6, 12)}
    return found


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers."""
    if not gcc():
        console.print("gcc is not installed, so there is nothing to compare with")
        return {"rows": []}
    rows = [measure(name, function, 0.01 if tiny else SECONDS) for name, function in cases(tiny).items()]
    table = Table(title=f"one lane, one thread ({busy()})", title_justify="left")
    for head in ("function", "operations", "ns/state", "ns/state gcc -O2", "time over gcc's"):
        table.add_column(head, justify="left" if head == "function" else "right")
    for row in rows:
        times = f"{row['condyle']:.0f}", f"{row['gcc']:.0f}", f"{row['condyle'] / row['gcc']:.2f}"
        table.add_row(row["function"], f"{row['operations']:,}", *times)
    console.print(table)
    return {"rows": rows, "busy": busy()}


def measure(name: str, function: cd.Function, seconds: float) -> dict[str, Any]:
    """Times per state, after checking that both give the same bits."""
    kernel = function.on("cpu", lanes=1, threads=1).kernel()
    tape = function.lowered("f64")
    n = max(16, OPERATIONS // tape.operations)
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(n, p.size)) for p in tape.inputs]
    ours, theirs = ([np.zeros((n, p.size)) for p in tape.outputs] for _ in range(2))
    calls = {"condyle": batch_call(kernel, [*inputs, *ours]), "gcc": c_call(function, [*inputs, *theirs])}
    times = race(calls, seconds)
    if any(a.tobytes() != b.tobytes() for a, b in zip(ours, theirs, strict=True)):
        raise AssertionError(f"{name}: gcc's bits differ from ours")
    return {"function": name, "operations": tape.operations, **{who: 1e9 * t / n for who, t in times.items()}}


def batch_call(kernel: Any, arrays: list[np.ndarray]) -> Callable[[], object]:
    """A call of the machine code for all states."""
    words = [word for a in arrays for word in (a.ctypes.data, a.strides[0])]
    ports, scratch, n = (ctypes.c_int64 * len(words))(*words), aligned_memory(kernel.scratch + 64), len(arrays[0])
    return lambda: kernel.batch(ctypes.addressof(ports), 0, n, n - 1, scratch.ctypes.data)


def c_call(function: cd.Function, arrays: list[np.ndarray]) -> Callable[[], object]:
    """A call of gcc's code for all states, one after the other."""
    source = function.source("c")
    name = re.findall(r"^void (\w+)\(", source, re.MULTILINE)[-1]
    rows = ", ".join(f"p[{k}] + s * {a.shape[1]}" for k, a in enumerate(arrays))
    driver = f"\nvoid all_states(long n, double **p) {{ for (long s = 0; s < n; s++) {name}({rows}); }}\n"
    library, _ = c_library(source + driver, FLAGS)
    call = library.all_states
    call.argtypes = [ctypes.c_long, ctypes.c_void_p]
    pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    return lambda: call(len(arrays[0]), pointers)
