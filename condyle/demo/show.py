"""The demo itself: run the checks one after the other, show them as a table, write the picture and the numbers."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from condyle import __version__
from condyle.demo import bits, numbers, picture
from condyle.demo.pendulum import compiled
from condyle.demo.result import Check, Result, Skip, write
from condyle.errors import CondyleError, MachineError, MissingExtraError
from condyle.tape.cache import default_cache

MARK = {True: "[bold green]ok", False: "[bold red]FAILED", None: "[yellow]skipped"}


def versions() -> dict[str, Any]:
    """What computes here: versions, processor, lanes, threads and the directory of compiled objects."""
    import llvmlite
    import llvmlite.binding as llvm

    from condyle.tape.cpu import available_threads, default_lanes, host

    found: dict[str, Any] = {
        "condyle": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "llvmlite": llvmlite.__version__,
        "llvm": ".".join(map(str, llvm.llvm_version_info)),
    }
    try:
        found |= {"cpu": host().cpu, "lanes": {"float64": default_lanes("f64"), "float32": default_lanes("f32")}}
    except MachineError as error:
        found |= {"cpu": str(error), "lanes": {}}
    directory = default_cache().directory
    return found | {"threads": available_threads(), "cache": "off" if directory is None else str(directory)}


def checks(lanes: Sequence[int]) -> list[Check]:
    """The rows of the table, in order; the million states come apart, because the picture needs them."""
    wide = [n for n in lanes if n < 16]
    everywhere, right, fast = "same bits", "right", "fast"
    return [
        Check(everywhere, f"lanes {_list(wide)}", partial(bits.lane_widths, wide, np.float64)),
        Check(everywhere, f"lanes {_list([*wide, 16])}; f32", partial(bits.lane_widths, [*wide, 16], np.float32)),
        Check(everywhere, "batches of 1, 3, 4096", partial(bits.batch_sizes, (1, 3, 4096))),
        Check(everywhere, "threads 1, 2", partial(bits.thread_counts, (1, 2))),
        Check(everywhere, "plain Python", bits.reference),
        Check(everywhere, "exported C, -O0, -O3", partial(bits.exported_c, ("-O0", "-O3"))),
        Check(everywhere, "compiled, and cached", bits.fresh_and_cached),
        Check(everywhere, "other hash seeds", partial(bits.hash_seeds, (1, 2))),
        Check(right, "derivative of the loop", numbers.derivative),
        Check(right, "certified enclosure", numbers.enclosure),
        Check(fast, "compile, no cache", partial(numbers.compile_times, (5_000, 50_000))),
        Check(fast, "one call", numbers.call_overhead),
    ]


def run(out: Path, lanes: Sequence[int], console: Console) -> bool:
    """Whether every check passed. Writes out/demo.png and out/demo.json."""
    begin = perf_counter()
    compiled("pendulum").on("cpu", lanes=max(lanes)).kernel()  # a machine that cannot run says so before anything starts
    final: list[np.ndarray] = []

    def million() -> Result:
        result, states = numbers.million()
        final.append(states)
        return result

    def draw() -> Result:
        picture.draw(final[0], out / "demo.png")
        return Result(True, str(out / "demo.png"))

    rows = [*checks(lanes), Check("fast", "a million lanes", million), Check("seen", "the picture", draw)]
    done = _show(rows, console)
    seconds = perf_counter() - begin
    report = {
        "versions": versions(),
        "tapes": {name: compiled(name).tape.hash for name in ("period", "pendulum", "orbit")},
        "checks": [_entry(check, result, took) for check, result, took in done],
        "seconds": seconds,
    }
    write(out / "demo.json", (json.dumps(report, indent=2, ensure_ascii=False) + "\n").encode())
    failed = [check.name for check, result, _ in done if result.passed is False]
    console.print()
    verdict = f"[bold red]{len(failed)} failed: {', '.join(failed)}" if failed else "[bold green]all checks passed"
    console.print(f"{verdict}[/] in {seconds:.1f} s; the numbers are in {out / 'demo.json'}", highlight=False)
    return not failed


def _show(rows: list[Check], console: Console) -> list[tuple[Check, Result, float]]:
    """The rows with their results and seconds; the table grows on the console meanwhile."""
    done: list[tuple[Check, Result, float]] = []
    progress = Progress(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console)
    task = progress.add_task("", total=len(rows))
    with Live(console=console, refresh_per_second=8) as live:
        for check in rows:
            progress.update(task, description=check.name)
            live.update(Group(_table(done), progress))
            start = perf_counter()
            done.append((check, _result(check), perf_counter() - start))
            progress.advance(task)
        live.update(_table(done))
    return done


def _result(check: Check) -> Result:
    try:
        return check.run()
    except (Skip, MissingExtraError) as reason:
        return Result(None, str(reason))
    except (CondyleError, OSError, RuntimeError, ArithmeticError) as error:
        return Result(False, f"{type(error).__name__}: {error}")


def _table(done: list[tuple[Check, Result, float]]) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("", "check", "", "result"):
        table.add_column(name)
    table.add_column("s", justify="right")
    last = ""
    for check, result, seconds in done:
        group = "" if check.group == last else check.group
        last = check.group
        table.add_row(f"[dim]{group}", check.name, MARK[result.passed], result.detail, f"[dim]{seconds:.1f}")
    return table


def _entry(check: Check, result: Result, seconds: float) -> dict[str, Any]:
    entry = {"group": check.group, "name": check.name, "passed": result.passed, "detail": result.detail}
    return {**entry, "seconds": seconds, "numbers": result.numbers}


def _list(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
