"""`condyle bench`: times of a robot's dynamics and contact step, rates by batch, and which backend to use for which batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table

from condyle.commands.app import command
from condyle.commands.bench_batches import DTYPES, measure_batches
from condyle.commands.bench_batches import plot as plot_batches
from condyle.commands.options import Arguments, Base, Json, Lock, PackageDirs, output_option, robot_argument
from condyle.commands.scene import Origin
from condyle.commands.terminal import report, terminal
from condyle.errors import CondyleError
from condyle.multibody.robot import load
from condyle.tape.host_info import processor
from condyle.tape.progress import shown_by
from condyle.tape.timing import shortest

BUILT_IN = ("ur3", "pidog", "fourlimb")
KERNELS = ("forward_dynamics", "inverse_dynamics", "mass_matrix", "forward_dynamics_derivatives")


@command(
    "condyle bench ur3", "condyle bench my.urdf --precision f32 --plot rates.png", "condyle bench my.urdf --batch 1024 --json"
)
def bench(
    source: Annotated[
        str | None, robot_argument(metavar="[ROBOT]", help="As for `info`; by default ur3, pidog and fourlimb.")
    ] = None,
    base: Base = None,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    lock: Lock = None,
    batch: Annotated[int, typer.Option(min=1, help="Number of states in a batch.")] = 4096,
    seconds: Annotated[float, typer.Option(min=0.0, help="Time spent on each measurement, s.")] = 0.5,
    precision: Annotated[str, typer.Option(help="Of the rates by batch: f64 or f32.")] = "f64",
    plot: Annotated[
        Path | None, output_option(metavar="FILE", help="Also draw the rates by batch; needs the extra `plot`.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Time a robot, and say which backend to use for which batch.

    Functions on one thread, then states per second by the size of the batch: on one thread, on all, and on a GPU where there is
    one. The smallest of several times counts. `python -m benchmarks robots`, in a checkout, compares with Pinocchio and MuJoCo.
    """
    if precision not in DTYPES:
        raise CondyleError(f"--precision must be f64 or f32, got {precision!r:.20}")
    names = BUILT_IN if source is None else (source,)
    robots = []
    for name in names:
        doing = f"measuring {name}"
        with terminal(stderr=True).status(doing) as status, shown_by(partial(_say, status, doing)):
            origin = Origin(name, base, package_dir, arg, lock)
            robots.append(measure(origin, batch, seconds) | {"batches": measure_batches(origin, precision, seconds)})
    found = {"processor": processor(), "load": load_average(), "batch": batch, "robots": robots}
    if plot is not None:
        plot_batches(found, plot)
    report(found, as_json, show)


def _say(status: Status, doing: str, text: str) -> None:
    """Show what is compiled, or what is done."""
    status.update(text or doing)


def measure(of: Origin, batch: int, seconds: float) -> dict[str, Any]:
    """Nanoseconds per state of a batch, microseconds per call with one state, operations, and seconds to the first result."""
    robot = of.load(constraints=False)
    if not robot.nv:
        raise CondyleError(f"{robot.name} has no moving joint: there is nothing to measure; --base free lets it move")
    rng = np.random.default_rng(0)
    q = robot.random_configuration(rng, batch)
    states = (q, rng.normal(size=(batch, robot.nv)), rng.normal(size=(batch, robot.nv)))
    functions = {}
    for name in KERNELS:
        function = robot.function(name).on("cpu", threads=1)
        arrays = states[: len(function.inputs)]
        out, first = function(*arrays), [a[0] for a in arrays]
        per_state = shortest(partial(function, *arrays, out=out), seconds) / batch
        per_call = shortest(partial(function, *first), seconds, 100)
        functions[name] = {"operations": function.operations, "batch_ns": 1e9 * per_state, "call_us": 1e6 * per_call}
    return {"robot": robot.name, "nv": robot.nv, "functions": functions, "first_result_s": first_results(of)}


def first_results(of: Origin) -> dict[str, float]:
    """Seconds from a loaded robot to its first result, in a process with an empty cache, then in one with that cache."""
    code = f"from condyle.commands.bench import Origin, print_first_result; print_first_result({of!r})"
    with tempfile.TemporaryDirectory(prefix="condyle-bench-") as cache:
        environment = {**os.environ, "CONDYLE_CACHE": cache, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        words = [sys.executable, "-c", code]
        runs = [subprocess.run(words, env=environment, capture_output=True, text=True, check=True) for _ in range(2)]
    return {"compiled": json.loads(runs[0].stdout), "cached": json.loads(runs[1].stdout)}


def print_first_result(of: Origin) -> None:
    """Print the seconds that the first call of forward dynamics takes: trace, compile, compute."""
    robot = of.load(constraints=False)
    load("pendulum").forward_dynamics(np.zeros(1), np.zeros(1), np.zeros(1))  # start LLVM
    q, v = robot.neutral(), np.zeros(robot.nv)
    start = perf_counter()
    robot.forward_dynamics(q, v, v)
    print(perf_counter() - start)


def show(found: dict[str, Any], console: Console) -> None:
    """Print the times as a table."""
    title = f"{found['processor']}, one thread, batches of {found['batch']:,} ({found['load']})"
    table = Table(title=title, title_justify="left", caption="first result: trace and compile, or load from the cache")
    for head in ("robot", "nv", "function", "operations", "ns per state", "us per call", "first result, s", "from the cache, s"):
        table.add_column(head, justify="left" if head in ("robot", "function") else "right")
    for robot in found["robots"]:
        first = robot["first_result_s"]
        for k, (name, row) in enumerate(robot["functions"].items()):
            cells = (f"{row['operations']:,}", f"{row['batch_ns']:,.0f}", f"{row['call_us']:.2f}")
            ends = ("", "") if k else (f"{first['compiled']:.2f}", f"{first['cached']:.3f}")
            table.add_row(*(("", "") if k else (robot["robot"], str(robot["nv"]))), name.replace("_", " "), *cells, *ends)
        table.add_section()
    console.print(table)
    for robot in found["robots"]:
        show_batches(robot, console)


def show_batches(robot: dict[str, Any], console: Console) -> None:
    """Print the rates by batch as a table, and which backend to use."""
    batches = robot["batches"]
    where = f" and {batches['gpu']}" if batches["gpu"] else ""
    table = Table(
        title=f"{robot['robot']}, {batches['precision']}: million states per second by batch, processor{where}",
        title_justify="left",
    )
    heads = sorted({n for rates in batches["tasks"].values() for line in rates.values() for n in line})
    for head in ("", "", *[f"{n:,}" for n in heads]):
        table.add_column(head, justify="right" if head else "left")
    for task, rates in batches["tasks"].items():
        for k, (name, line) in enumerate(rates.items()):
            table.add_row("" if k else task, name, *[f"{line[n] / 1e6:,.3g}" if n in line else "" for n in heads])
        table.add_section()
    console.print(table)
    for text in batches["advice"]:
        console.print(text, highlight=False, markup=False, soft_wrap=True)


def load_average() -> str:
    """The load average of the last minute, and the number of cores."""
    average = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return f"load {average:.1f} on {os.cpu_count()} cores"
