"""Microseconds per call from Python on one state and where they go, the time of `import condyle`, and the size installed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import SECONDS, busy, per_call

CORE = ("numpy", "llvmlite", "typer", "rich")


def one_one(x: Any) -> Any:
    return 0.5 * x * x + 1.0


def three_one(x: Any, y: Any, z: Any) -> Any:
    return x + 0.5 * y * z


def three_two(x: Any, y: Any, z: Any) -> Any:
    return x + 0.5 * y * z, x - 0.5 * y * z


CASES: dict[str, tuple[Callable[..., Any], int]] = {
    "1 in, 1 out": (one_one, 1),
    "3 in, 1 out": (three_one, 3),
    "3 in, 2 out": (three_two, 3),
}


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    seconds = 0.01 if tiny else 0.3 * SECONDS
    rows = {}
    for name, (function, count) in CASES.items():
        with console.status(f"calls with {name}"):
            rows[name] = measure(function, count, seconds, 20 if tiny else 1000)
    with console.status("import"):
        imports = {name: import_time(name, 1 if tiny else 5) for name in ("numpy", "condyle")}
    sizes = installed_sizes(CORE)
    console.print(call_table(rows))
    console.print(
        f"import condyle: {1e3 * imports['condyle']:.0f} ms in a fresh process, of which NumPy {1e3 * imports['numpy']:.0f} ms\n"
    )
    console.print(size_table(sizes))
    return {"calls": rows, "import_seconds": imports, "installed_bytes": sizes, "busy": busy()}


def measure(function: Callable[..., Any], count: int, seconds: float, batch: int) -> dict[str, float]:
    """Microseconds of a call on vectors of three, and of its parts."""
    names = ("x", "y", "z")[:count]
    compiled = cd.function(function, **dict.fromkeys(names, 3))
    values = [np.arange(3.0) + k for k in range(count)]
    eight = [np.tile(v, (8, 1)) for v in values]
    compiled(*values)
    compiled(*values)  # from the second call on the fast path is ready
    calls: dict[str, Callable[[], object]] = {
        "numpy": lambda: function(*values),
        "condyle": lambda: compiled(*values),
        "batch of 8": lambda: compiled(*eight),
        "machine code": machine_code(compiled, values),
    }
    found = {name: 1e6 * per_call(call, seconds, batch) for name, call in calls.items()}
    found["checks, results and Python"] = found["condyle"] - found["machine code"]
    return found


def machine_code(compiled: cd.Function, values: list[np.ndarray]) -> Callable[[], object]:
    """A call of the kernel on one state, by itself."""
    from condyle.tape.fastcall import frame

    kernel = compiled.kernel("f64")
    words, outputs, keep = frame(kernel)
    words[1 : 1 + 2 * len(values) : 2] = [value.ctypes.data for value in values]
    address = words.ctypes.data
    return lambda: (kernel.single(address), keep, words, outputs)[0]  # which must outlive the calls


def import_time(module: str, times: int) -> float:
    """Seconds of an import in a fresh process, the best of several."""
    text = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    command, root = [sys.executable, "-c", text], Path(__file__).parents[1]
    runs = [subprocess.run(command, cwd=root, capture_output=True, text=True, check=True) for _ in range(times)]
    return min(float(done.stdout) for done in runs)


def installed_sizes(roots: tuple[str, ...]) -> dict[str, int]:
    """Bytes on disk of distributions and of all that they require."""
    sizes: dict[str, int] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop(0).lower().replace("_", "-")
        if name in sizes:
            continue
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # wanted on another platform only
        files = [found.locate_file(file) for file in found.files or []]
        sizes[name] = sum(file.stat().st_size for file in files if file.is_file())
        waiting += [re.split(r"[^\w.-]", r)[0] for r in found.requires or [] if "extra ==" not in r]
    return sizes


# ---- tables


def call_table(rows: dict[str, dict[str, float]]) -> Table:
    table = Table(title=f"microseconds per call, vectors of three, float64 ({busy()})", title_justify="left")
    heads = ["condyle", "numpy", "machine code", "checks, results and Python", "batch of 8"]
    for head in ("one state", *heads):
        table.add_column(head, justify="left" if head == "one state" else "right")
    for name, row in rows.items():
        table.add_row(name, *[f"{row[head]:.2f}" for head in heads])
    return table


def size_table(sizes: dict[str, int]) -> Table:
    table = Table(title="installed size of what the core needs", title_justify="left", show_footer=True)
    table.add_column("distribution", "all")
    table.add_column("version")
    table.add_column("MB", f"{sum(sizes.values()) / 1e6:.1f}", justify="right")
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        table.add_row(name, metadata.version(name), f"{size / 1e6:.1f}")
    return table
