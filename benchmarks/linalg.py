"""Operations, seconds to compile and nanoseconds per matrix of cd.linalg, as straight code and as loops over tables."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from condyle.tape.linalg import rolled

SIZES = (4, 6, 8, 12, 16, 24, 36)
STATES = 512
CASES: dict[str, Callable[[Any, Any], Any]] = {
    "matmul": lambda A, b: cd.linalg.matmul(A, A),
    "solve, positive": lambda A, b: cd.linalg.solve(A, b, assume="positive"),
    "solve": lambda A, b: cd.linalg.solve(A, b),
}
FORMS = {"straight": 10**9, "loops": 10}
THRESHOLDS = ("TERMS", "CHOLESKY", "LU")  # vectors are solved for by straight code in both forms


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers."""
    rows = []
    kept = {name: getattr(rolled, name) for name in THRESHOLDS}
    try:
        for name, f in CASES.items():
            for n in (4,) if tiny else SIZES:
                for form, threshold in FORMS.items():
                    for each in THRESHOLDS:
                        setattr(rolled, each, threshold)
                    with console.status(f"{name}, {n} rows, {form}"):
                        rows.append({"function": name, "rows": n, "form": form} | measure(f, n))
    finally:
        for each, threshold in kept.items():
            setattr(rolled, each, threshold)
    table = Table()
    for column in rows[0]:
        table.add_column(column, justify="left" if column in ("function", "form") else "right")
    for row in rows:
        table.add_row(*[f"{x:,.2f}" if isinstance(x, float) else f"{x:,}" if isinstance(x, int) else x for x in row.values()])
    console.print(table)
    return {"rows": rows}


def measure(f: Callable[[Any, Any], Any], n: int) -> dict[str, Any]:
    """Numbers of one function of a matrix of n rows and a vector."""
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(STATES, n, n)), rng.normal(size=(STATES, n))
    A = A @ np.swapaxes(A, 1, 2) + n * np.eye(n)
    start = perf_counter()
    function = cd.Function(cd.trace(f, A=(n, n), b=n))  # no cached trace, whose thresholds would be others
    function.lowered()
    traced = perf_counter()
    compiled = function.on("cpu", threads=1)
    compiled.kernel()
    done = perf_counter()
    compiled(A, b)
    times = []
    for _ in range(20):
        at = perf_counter()
        compiled(A, b)
        times.append(perf_counter() - at)
    return {
        "operations": function.operations,
        "trace s": traced - start,
        "compile s": done - traced,
        "ns per matrix": 1e9 * min(times) / STATES,
    }
