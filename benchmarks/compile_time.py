"""Seconds to compile straight tapes and derivatives of robots, step by step, in assembly and by LLVM alone."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import SECONDS, busy, line_fit, once, race
from benchmarks.robots import FILES, example_robots
from benchmarks.tapes import random_arithmetic, serial_chain
from condyle.commands.scene import Origin
from condyle.constraints.reduced_dynamics import forward_dynamics_derivatives

KINDS: dict[str, Callable[[int], Any]] = {"serial chain": serial_chain, "random": random_arithmetic}
SIZES = [1000, 5000, 20000, 50000]
PRECISION, LANES = "f64", 8
STATES = 512
# derivatives of the forward dynamics of these, and of Talos where example-robot-data is installed
ROBOTS = ("chain:16", "chain:64")


@dataclass
class Timing:
    """Seconds of each step for one tape, and nanoseconds per state of the kernel, as compiled and by LLVM alone."""

    kind: str
    operations: int
    trace: float
    lower: float
    text: float
    llvm: float
    cached: float
    pieces_llvm: float
    run: float
    pieces_run: float

    @property
    def total(self) -> float:
        return self.trace + self.lower + self.text + self.llvm

    @property
    def speedup(self) -> float:
        """The time of LLVM's kernel over that of the kernel as compiled."""
        return self.pieces_run / self.run


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    seconds = 0.01 if tiny else SECONDS
    rows = []
    for kind, make in KINDS.items():
        for size in [300] if tiny else SIZES:
            with console.status(f"{kind}, {size:,} operations"):
                function, shapes = make(size)
                rows.append(measure(kind, partial(cd.trace, function, **shapes), seconds))
    for name, robot in [] if tiny else robots():
        with console.status(name):
            rows.append(measure(name, partial(traced, robot), seconds))
    console.print(step_table(rows))
    console.print(pieces_table(rows))
    fits = {}
    if not tiny:
        for kind in KINDS:
            mine = [r for r in rows if r.kind == kind]
            slope, start = line_fit([r.operations for r in mine], [r.total for r in mine])
            fits[kind] = {"microseconds_per_operation": 1e6 * slope, "seconds_at_zero": start}
            console.print(f"{kind}: total = {start:+.2f} s + {1e6 * slope:.0f} us per operation")
    console.print()
    numbers = [vars(r) | {"total": r.total, "speedup": r.speedup} for r in rows]
    return {"rows": numbers, "fits": fits, "busy": busy()}


def robots() -> list[tuple[str, cd.Robot]]:
    """Robots by name."""
    found = [(name, cd.load(name)) for name in ROBOTS]
    folder = example_robots()
    if folder is not None:
        file, base, lock = FILES["talos"]
        found.append(("talos", Origin(str(folder / file), base, lock=lock).load(constraints=False)))
    return found


def traced(robot: cd.Robot) -> cd.Tape:
    """The tape of the derivatives of a robot's forward dynamics, traced now."""
    sizes = {"q": robot.nq, "v": robot.nv, "tau": robot.nv}
    return cd.trace(lambda q, v, tau: forward_dynamics_derivatives(robot.system, q, v, tau), **sizes)


def measure(kind: str, trace: Callable[[], cd.Tape], seconds: float) -> Timing:
    """Every step of one compilation, timed once; the kernels, timed often."""
    from condyle.tape.passes import lower

    found: dict[str, Any] = {}
    steps = {"trace": once(lambda: found.update(tape=trace()))}
    steps["lower"] = once(lambda: found.update(low=lower(found["tape"], PRECISION)))
    kernel, text, llvm = build(found["low"])
    pieces, _, pieces_llvm = build(found["low"], assembled=0)
    times = race({"kernel": caller(kernel, found["tape"]), "pieces": caller(pieces, found["tape"])}, seconds)
    return Timing(
        kind,
        found["low"].operations,
        **steps,
        text=text,
        llvm=llvm,
        cached=cached(found["tape"]),
        pieces_llvm=pieces_llvm,
        run=1e9 * times["kernel"] / STATES,
        pieces_run=1e9 * times["pieces"] / STATES,
    )


def build(low: cd.Tape, **options: int) -> tuple[Any, float, float]:
    """(kernel, seconds to write the LLVM text, seconds LLVM takes to compile and load it)."""
    from condyle.tape.backends import cpu
    from condyle.tape.llvm import kernel_ir

    made: dict[str, Any] = {}

    def write() -> None:
        made["text"], made["scratch"] = kernel_ir(low, PRECISION, LANES, replace(cpu.target(), **options))

    def translate() -> None:
        made["kernel"] = cpu.CpuKernel(low, cpu.object_code(made["text"]), made["scratch"], LANES, low.operations)

    cpu.host()
    text = once(write)
    llvm = once(translate)
    return made["kernel"], text, llvm


def caller(kernel: Any, tape: cd.Tape) -> Callable[[], object]:
    """A call of the kernel on a batch, one thread."""
    random = np.random.default_rng(1)
    inputs = [random.uniform(-1.0, 1.0, (STATES, p.size)) for p in tape.inputs]
    outputs = [np.empty((STATES, p.size)) for p in tape.outputs]
    return lambda: kernel(inputs, outputs)


def cached(tape: cd.Tape) -> float:
    """Seconds to find a kernel in the cache on disk: hash the tape, read, verify and load; nothing of it kept in memory."""
    from condyle.tape.backends import cpu
    from condyle.tape.cache import shared_cache

    before = os.environ.get("CONDYLE_CACHE")
    with tempfile.TemporaryDirectory(prefix="condyle-bench-") as folder:
        os.chmod(folder, 0o700)
        os.environ["CONDYLE_CACHE"] = folder
        shared_cache.cache_clear()
        try:
            cpu.cached_kernel(tape, PRECISION, LANES, 1)
            times = []
            for _ in range(5):
                cpu._code_generator.cache_clear()
                fresh = replace(tape)  # a copy knows no hash
                times.append(once(lambda fresh=fresh: cpu.cached_kernel(fresh, PRECISION, LANES, 1)))
            return min(times)
        finally:
            os.environ.pop("CONDYLE_CACHE")
            if before is not None:
                os.environ["CONDYLE_CACHE"] = before
            shared_cache.cache_clear()


# ---- tables


def step_table(rows: list[Timing]) -> Table:
    table = Table(title=f"seconds to compile, {LANES} lanes of {PRECISION} ({busy()})", title_justify="left")
    for head in ("tape", "operations", "trace", "lower", "LLVM text", "LLVM", "total", "us/operation", "from the cache"):
        table.add_column(head, justify="left" if head == "tape" else "right")
    for r in rows:
        times = [f"{t:.3f}" for t in (r.trace, r.lower, r.text, r.llvm, r.total)]
        table.add_row(r.kind, f"{r.operations:,}", *times, f"{1e6 * r.total / r.operations:.0f}", f"{r.cached:.4f}")
    return table


def pieces_table(rows: list[Timing]) -> Table:
    table = Table(
        title="as compiled (long straight tapes in assembly) against LLVM alone (long tapes in pieces)", title_justify="left"
    )
    for head in ("tape", "operations", "LLVM s", "LLVM alone s", "ns/state", "ns/state alone", "ns/operation", "times as fast"):
        table.add_column(head, justify="left" if head == "tape" else "right")
    for r in rows:
        table.add_row(
            r.kind,
            f"{r.operations:,}",
            f"{r.llvm:.2f}",
            f"{r.pieces_llvm:.2f}",
            f"{r.run:.0f}",
            f"{r.pieces_run:.0f}",
            f"{r.run / r.operations:.4f}",
            f"{r.speedup:.2f}",
        )
    return table
