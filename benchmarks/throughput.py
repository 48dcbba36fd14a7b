"""Nanoseconds per state of a polynomial and trigonometric kernel, against the same arithmetic in vector C compiled by gcc."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.instructions import KINDS, loop_instructions
from benchmarks.measure import SECONDS, busy, c_library, gcc, race
from benchmarks.vector_c import peaks, vector_c

DTYPES = {"f64": np.float64, "f32": np.float32}
SIZE = 12


def waves(x: np.ndarray) -> np.ndarray:
    """Twelve coupled numbers, three times through sines, cosines, polynomials, a square root and a division."""
    for _ in range(3):
        s, c = np.sin(x), np.cos(x)
        y = 0.3 + 0.0 * np.arange(SIZE)
        for degree in range(12):
            y = 0.5 * x * y + (0.1 + 0.01 * degree + 0.07 * np.arange(SIZE))
        x = s * np.roll(c, 1) - c * np.roll(s, 5) + y / np.sqrt(1.0 + y * y)
    return x


def moves(x: np.ndarray) -> np.ndarray:
    """The same rows in and out, and no arithmetic."""
    return x[::-1]


@dataclass
class Timing:
    """Times of one precision at one batch size, in seconds for the whole batch."""

    precision: str
    lanes: int
    batch: int
    call: float  # ours, as called from Python
    kernel: float  # ours, the machine code alone
    gcc: float | None
    moves: float  # rows in and out without arithmetic

    @property
    def ratio(self) -> float | None:
        """Our speed over gcc's, machine code alone."""
        return None if self.gcc is None else self.gcc / self.kernel

    def per_state(self, seconds: float | None) -> float:
        return float("nan") if seconds is None else 1e9 * seconds / self.batch


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    seconds = 0.01 if tiny else SECONDS
    batches = [64] if tiny else [4096, 65536]
    function = cd.function(waves, x=SIZE)
    rows: list[Timing] = []
    texts: dict[str, dict[str, int]] = {}
    for precision in DTYPES:
        with console.status(f"compiling for {precision}"):
            rivals = Rivals(function, precision)
        texts[f"condyle {precision}"] = loop_instructions(function.source("asm", precision))
        if rivals.assembly:
            texts[f"gcc {precision}"] = loop_instructions(rivals.assembly)
        for batch in batches:
            with console.status(f"{precision}, batch of {batch:,}"):
                rows.append(rivals.measure(batch, seconds))
    with console.status("the processor's peak"):
        peak = {precision: measured_peaks(precision, 0.05 * seconds) for precision in DTYPES} if gcc() else {}
    with console.status("two threads"):
        speedup = threads(function, batches[-1], seconds)

    counts = {precision: operation_counts(function, precision) for precision in DTYPES}
    console.print(speed_table(rows, counts, peak))
    console.print(instruction_table(texts, counts))
    if any(peak.values()):
        console.print(limit_table(rows, counts, peak))
        console.print(
            "The divider and the multiply-add pipes work side by side only in part. A sum near 100 % means that arithmetic\n"
            "is the limit; what is missing to it is time in which results wait for each other, or rows are moved in and out.\n"
        )
    console.print(f"two threads / one thread, batch of {batches[-1]:,}: {speedup:.2f} times as fast ({busy()})\n")
    return {
        "rows": [vars(r) | {"ratio": r.ratio} for r in rows],
        "instructions": texts,
        "operations": counts,
        "peaks_per_ns": peak,
        "two_threads": speedup,
        "busy": busy(),
    }


class Rivals:
    """Our kernel and gcc's for one precision."""

    def __init__(self, function: cd.Function, precision: str) -> None:
        from condyle.tape.backends.cpu import host

        self.precision, self.dtype = precision, DTYPES[precision]
        self.ours = function.on("cpu", threads=1)
        self.moves = cd.function(moves, x=SIZE).on("cpu", threads=1)
        self.lanes = self.ours.lanes(precision)
        self.assembly, self.c_kernel = "", None
        source = vector_c(function.lowered(precision), precision, host().vector_bytes) if gcc() else None
        if source:
            library, self.assembly = c_library(source)
            self.c_kernel = library.kernel
            self.c_kernel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long]
            self.c_kernel.restype = None

    def measure(self, batch: int, seconds: float) -> Timing:
        """Times of a batch, after checking that both give the same bits."""
        x = np.random.default_rng(1).uniform(-3.0, 3.0, (batch, SIZE)).astype(self.dtype)
        y, moved = np.empty_like(x), np.empty_like(x)
        self.ours(x, out=y)
        calls: dict[str, Callable[[], object]] = {
            "call": lambda: self.ours(x, out=y),
            "kernel": kernel_alone(self.ours, self.precision, x, y),
            "moves": kernel_alone(self.moves, self.precision, x, moved),
        }
        if self.c_kernel:
            # a few vectors more than the batch from entry to entry, or else all entries would meet in one set of the cache
            stride = batch + 5 * 64 // x.itemsize
            columns, results = np.zeros((SIZE, stride), self.dtype), np.zeros((SIZE, stride), self.dtype)
            columns[:, :batch] = x.T
            arguments = (columns.ctypes.data, results.ctypes.data, batch // self.lanes, stride)
            calls["gcc"] = lambda: self.c_kernel(*arguments)
            calls["gcc"]()
            if results[:, :batch].T.tobytes() != y.tobytes():
                raise AssertionError(f"gcc's bits differ from ours in {self.precision}")
        times = race(calls, seconds)
        return Timing(self.precision, self.lanes, batch, times["call"], times["kernel"], times.get("gcc"), times["moves"])


def kernel_alone(function: cd.Function, precision: str, x: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    """A call of the machine code with everything prepared."""
    from condyle.tape.backends.cpu import aligned_memory

    kernel = function.kernel(precision)
    ports = np.array([(a.ctypes.data, a.strides[0]) for a in (x, y)], dtype=np.int64)
    scratch = aligned_memory(kernel.scratch)
    arguments = (ports.ctypes.data, 0, -(-len(x) // kernel.lanes), len(x) - 1, scratch.ctypes.data)
    keep = (ports, scratch)
    return lambda: (kernel.batch(*arguments), keep)


def threads(function: cd.Function, batch: int, seconds: float) -> float:
    """How many times as fast two threads are."""
    x = np.random.default_rng(1).uniform(-3.0, 3.0, (batch, SIZE))
    one, two = (function.on("cpu", threads=n) for n in (1, 2))
    y = one(x)
    times = race({"one": lambda: one(x, out=y), "two": lambda: two(x, out=y)}, 3.0 * seconds)
    return times["one"] / times["two"]


def operation_counts(function: cd.Function, precision: str) -> dict[str, int]:
    """How often each operation occurs in the lowered tape, and their sum."""
    from condyle.tape.ops import OPS

    nodes = [node.op for node in function.lowered(precision).block.nodes if node.op in OPS]
    return {op: nodes.count(op) for op in dict.fromkeys(nodes)} | {"all": len(nodes)}


def measured_peaks(precision: str, seconds: float) -> dict[str, float]:
    """Independent fma, div and sqrt of full vectors per nanosecond, and clock cycles per nanosecond."""
    from condyle.tape.backends.cpu import host

    source = peaks(precision, host().vector_bytes)
    if source is None:
        return {}
    library, _ = c_library(source)
    rounds = 200_000
    found = {}
    for name in ("fma", "div", "sqrt", "cycle"):
        call = getattr(library, f"peak_{name}")
        call.argtypes, call.restype = [ctypes.c_long], None
        count = ctypes.c_long.in_dll(library, f"count_{name}").value
        n = rounds if name in ("fma", "cycle") else rounds // 10
        found[name] = n * count / race({name: lambda call=call, n=n: call(n)}, seconds)[name] * 1e-9
    return found


# ---- tables


def speed_table(rows: list[Timing], counts: dict[str, dict[str, int]], peak: dict[str, dict[str, float]]) -> Table:
    table = Table(title=f"one thread ({busy()})", title_justify="left")
    heads = ["", "batch", "operations", "ns/state\nas called", "ns/state\nkernel", "ns/state\ngcc", "speed of\nkernel/gcc"]
    heads += ["operations\nper ns", "vectors\nper cycle", "share of rows\nin and out"]
    for head in heads:
        table.add_column(head, justify="right")
    for row in rows:
        operations = counts[row.precision]["all"]
        per_ns = operations / row.per_state(row.kernel)
        cycles = peak.get(row.precision, {}).get("cycle", float("nan"))
        table.add_row(
            row.precision,
            f"{row.batch:,}",
            f"{operations:,}",
            *[f"{row.per_state(t):.1f}" for t in (row.call, row.kernel, row.gcc)],
            "-" if row.ratio is None else f"{100 * row.ratio:.0f} %",
            f"{per_ns:.1f}",
            f"{per_ns / row.lanes / cycles:.2f}",
            f"{100 * row.moves / row.kernel:.0f} %",
        )
    return table


def instruction_table(texts: dict[str, dict[str, int]], counts: dict[str, dict[str, int]]) -> Table:
    table = Table(title="instructions of the loop over lane blocks", title_justify="left")
    table.add_column("")
    for name in ("tape f64", *texts):
        table.add_column(name, justify="right")
    tape = counts["f64"]
    of_tape = {"fma": ["fma"], "mul": ["mul"], "add, sub": ["add", "sub"], "div": ["div"], "sqrt": ["sqrt"]}
    of_tape |= {"compare, select": ["lt", "le", "eq", "select"], "bitwise": ["neg", "abs", "copysign"]}
    for kind in KINDS:
        wanted = [tape.get(op, 0) for op in of_tape.get(kind, [])]
        table.add_row(kind, str(sum(wanted)) if wanted else "", *[str(text.get(kind, 0)) for text in texts.values()])
    return table


def limit_table(rows: list[Timing], counts: dict[str, dict[str, int]], peak: dict[str, dict[str, float]]) -> Table:
    """How busy the two scarce units of the processor are: what is not busy time is waiting for results, or moving data."""
    table = Table(title="what limits: time the scarce units need alone, over the time taken", title_justify="left")
    heads = ["", "batch", "multiply-add\ncondyle", "multiply-add\ngcc", "divider\ncondyle", "divider\ngcc"]
    heads += ["clock GHz", "fma/cycle", "cycles/div", "cycles/sqrt"]
    for head in heads:
        table.add_column(head, justify="right")
    for row in rows:
        top, tape = peak[row.precision], counts[row.precision]
        if not top or row.gcc is None:
            continue
        blocks = row.batch / row.lanes
        multiply = (tape["fma"] + tape["mul"]) / top["fma"] * blocks * 1e-9
        divide = (tape["div"] / top["div"] + tape["sqrt"] / top["sqrt"]) * blocks * 1e-9
        shares = [100 * need / time for need in (multiply, divide) for time in (row.kernel, row.gcc)]
        table.add_row(
            row.precision,
            f"{row.batch:,}",
            *[f"{share:.0f} %" for share in shares],
            f"{top['cycle']:.2f}",
            f"{top['fma'] / top['cycle']:.2f}",
            f"{top['cycle'] / top['div']:.1f}",
            f"{top['cycle'] / top['sqrt']:.1f}",
        )
    return table
