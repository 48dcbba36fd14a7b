"""States per second of a million driven pendulums, 122,430 operations each, and seconds to compile or load their kernel."""

from __future__ import annotations

import json
import tempfile
from time import perf_counter, process_time
from typing import Any

from rich.console import Console

from benchmarks.measure import in_new_process
from condyle.apps.demos.compiler import compiled, digest, states

MILLION = 1_000_000


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the numbers and return them."""
    f, x = compiled(), states(1000 if tiny else MILLION)
    f(x[:1])  # compiled before the clock starts
    start, busy = perf_counter(), process_time()
    y = f(x)
    seconds, cores = perf_counter() - start, process_time() - busy
    cores /= seconds  # fewer than the threads when other programs use the processor too
    rate = len(x) / seconds
    console.print(
        f"{rate:,.0f} states/s, {rate * f.operations / 1e9:.1f} billion operations/s on {cores:.2f} cores: {digest(y)}",
        highlight=False,
    )
    with tempfile.TemporaryDirectory(prefix="condyle-bench-") as cache:
        code = "from benchmarks.pendulums import load_seconds; load_seconds()"
        fresh, cached = (in_new_process(code, CONDYLE_CACHE=cache)["seconds"] for _ in range(2))
    console.print(f"compiled in {fresh:.2f} s, loaded from the cache in {cached:.3f} s\n", highlight=False)
    rates = {"states_per_second": rate, "operations_per_second": rate * f.operations, "cores": cores, "threads": f.threads}
    return {**rates, "digest": digest(y), "fresh_seconds": fresh, "cached_seconds": cached}


def load_seconds() -> None:
    """Print the seconds until the kernel is ready, as JSON."""
    f = compiled()
    start = perf_counter()
    f.kernel()
    print(json.dumps({"seconds": perf_counter() - start}))
