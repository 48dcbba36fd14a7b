"""The birotor's model-predictive controller of the examples: compile times, exported C, time of a solve and in a batch."""

from __future__ import annotations

import importlib.util
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import SECONDS, best, busy, gcc

EXAMPLE = Path(__file__).parents[1] / "examples" / "16_birotor_mpc.py"


def example() -> Any:
    """The module of the example."""
    spec = importlib.util.spec_from_file_location("birotor_mpc", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers."""
    m = example()
    m.N = 3 if tiny else m.N
    n, batch, seconds = m.N, 16 if tiny else 256, 0.01 if tiny else SECONDS
    shapes = m.SHAPES | {"path": (n + 1, 15), "controls": (n, 4), "duals": (n, 2 * m.NB), "references": (n + 1, 11)}
    start = time.process_time()
    function = cd.function(m.solve, **shapes)
    function.lowered()
    numbers: dict[str, Any] = {"busy": busy(), "trace and lower, s": time.process_time() - start}
    x = np.array([0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0.0])
    references = np.tile([0.3, 0.6, 1.0, 0, 0, 0, 1, 0, 0, 0, m.HOVER], (n + 1, 1))
    controls = np.tile([m.HOVER, m.HOVER, 0.0, 0.0], (n, 1))
    one = (x, np.tile(x, (n + 1, 1)), controls, np.ones((n, 2 * m.NB)), references, m.WEIGHTS)
    many = [np.broadcast_to(a, (batch, *a.shape)).copy() for a in one]
    for name, lanes, arguments, count in (("one lane", 1, one, 1), ("full vector", None, many, batch)):
        kernel = function.on("cpu", lanes=lanes, threads=1)
        start = time.process_time()
        kernel.kernel()
        numbers[f"compile, {name}, s"] = time.process_time() - start
        numbers[f"{name}, us a solve"] = 1e6 * best(lambda k=kernel, a=arguments: k(*a), seconds) / count
    source = function.source("c")
    numbers["lines of C"] = source.count("\n")
    if gcc() is not None and not tiny:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "mpc.c").write_text(source)
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            subprocess.run([gcc() or "gcc", "-std=c99", "-O2", "-ffp-contract=off", "-c", "mpc.c"], cwd=folder, check=True)
            numbers["gcc -O2, s"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    table = Table("birotor MPC", "", title=f"{n} stages, 15 states, 4 controls, 6 interior-point iterations")
    for name, value in numbers.items():
        table.add_row(name, value if isinstance(value, str) else f"{value:.4g}")
    console.print(table)
    return numbers
