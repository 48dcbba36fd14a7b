"""Steps of one robot by three kernels; nanoseconds per state of kernels of one lane, against the exported C compiled by gcc -O2.

A robot has its limbs in the lanes of a vector, or is the only state of a batch, or the state of a kernel of one lane.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks import standing
from benchmarks.measure import SECONDS, busy, c_library, gcc, race
from condyle.tape.backends.cpu import LimbKernels, aligned_memory
from condyle.tape.fastcall import frame

FLAGS = ("-O2", "-march=native", "-ffp-contract=off")
OPERATIONS = 400_000  # of a batch, so that calling it costs nothing
CALLS = 100  # of one step, so that the clock can measure them


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
    """Print the tables and return their numbers."""
    steps = [measure_step(name, world, 0.01 if tiny else SECONDS) for name, world in worlds(tiny).items()]
    console.print(step_table(steps))
    if not gcc():
        console.print("gcc is not installed, so there is nothing to compare with")
        return {"rows": [], "steps": steps, "busy": busy()}
    rows = [measure(name, function, 0.01 if tiny else SECONDS) for name, function in cases(tiny).items()]
    table = Table(title=f"one lane, one thread ({busy()})", title_justify="left")
    for head in ("function", "operations", "ns/state", "ns/state gcc -O2", "time over gcc's"):
        table.add_column(head, justify="left" if head == "function" else "right")
    for row in rows:
        times = f"{row['condyle']:.0f}", f"{row['gcc']:.0f}", f"{row['condyle'] / row['gcc']:.2f}"
        table.add_row(row["function"], f"{row['operations']:,}", *times)
    console.print(table)
    return {"rows": rows, "steps": steps, "busy": busy()}


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


# ---- one step of one robot


def worlds(tiny: bool) -> dict[str, cd.Simulation]:
    """Robots on four feet by name; ANYmal where example-robot-data is installed."""
    ground = cd.Plane(friction=standing.FRICTION)
    found = {"fourlimb": cd.Simulation(cd.load("fourlimb", "free"), standing.DT, ground, "foot_*")}
    anymal = None if tiny else standing.anymal()
    if not tiny:
        found["pidog"] = cd.Simulation(cd.load("pidog"), standing.DT, ground, "*_foot")
    return found | ({} if anymal is None else {"anymal": standing.simulation(anymal)})


def on_its_feet(name: str, world: cd.Simulation) -> tuple[np.ndarray, np.ndarray]:
    """(state, controls of one step) in which all feet touch the ground."""
    if name == "anymal":
        stance = standing.settled(world)
        return stance.x, stance.u[None]
    return world.stand(), np.zeros((1, world.nu))


def measure_step(name: str, world: cd.Simulation, seconds: float) -> dict[str, Any]:
    """Microseconds of one step by each kernel, after checking that all give the same bits."""
    function = world._function("rollout", ("x", "us"), ("cpu", None, 1))
    x, us = on_its_feet(name, world)
    kernels, chosen = {}, function.kernel()
    if isinstance(chosen, LimbKernels):
        kernels["limbs in lanes"] = chosen.one
    kernels["one state of a batch"] = chosen.many if isinstance(chosen, LimbKernels) else chosen
    kernels["one lane"] = function.on("cpu", lanes=1, threads=1).kernel()
    calls, results = {}, {}
    for label, kernel in kernels.items():
        calls[label], results[label] = single_call(kernel, [x, us])
    times = race(calls, seconds)
    if len({b"".join(a.tobytes() for a in arrays) for arrays in results.values()}) > 1:
        raise AssertionError(f"{name}: the bits of the kernels differ")
    u = us[0]
    world.step(x, u)
    calls = {"world.step": lambda: [world.step(x, u) for _ in range(CALLS)]}
    return {"robot": name, **{k: 1e6 * t / CALLS for k, t in (times | race(calls, seconds)).items()}}


def single_call(kernel: Any, inputs: list[np.ndarray]) -> tuple[Callable[[], object], list[np.ndarray]]:
    """(some calls of the machine code for one state, where it writes the outputs)."""
    words, outputs, scratch = frame(kernel)
    words[1 : 1 + 2 * len(inputs) : 2] = [a.ctypes.data for a in inputs]
    alive, address = (words, outputs, scratch, inputs), words.ctypes.data
    return lambda: ([kernel.single(address) for _ in range(CALLS)], alive)[0], outputs


def step_table(steps: list[dict[str, Any]]) -> Table:
    """Microseconds of a step."""
    table = Table(title=f"one step of one robot with contact, us ({busy()})", title_justify="left")
    heads = ("limbs in lanes", "one state of a batch", "one lane", "world.step")
    for head in ("robot", *heads):
        table.add_column(head, justify="left" if head == "robot" else "right")
    for row in steps:
        table.add_row(row["robot"], *[f"{row[head]:.2f}" if head in row else "" for head in heads])
    return table


# ---- one lane


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
