"""`condyle bench`: the time of a robot's dynamics on one thread; `python -m benchmarks robots` compares with other libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from math import inf
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table

from condyle.commands.app import command
from condyle.commands.options import Arguments, Base, Json, Lock, PackageDirs, robot_argument
from condyle.commands.scene import Origin
from condyle.commands.terminal import report, terminal
from condyle.errors import CondyleError
from condyle.multibody.robot import load
from condyle.tape.host_info import processor
from condyle.tape.progress import shown_by

BUILT_IN = ("ur3", "pidog", "fourlimb")
KERNELS = ("forward_dynamics", "inverse_dynamics", "mass_matrix", "forward_dynamics_derivatives")


@command("condyle bench ur3", "condyle bench my.urdf --batch 1024 --json")
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
    as_json: Json = False,
) -> None:
    """Time the dynamics of a robot on one thread.

    The smallest of several times counts. `python -m benchmarks robots`, in a checkout, compares with Pinocchio and MuJoCo.
    """
    names = BUILT_IN if source is None else (source,)
    robots = []
    for name in names:
        doing = f"measuring {name}"
        with terminal(stderr=True).status(doing) as status, shown_by(partial(_say, status, doing)):
            robots.append(measure(Origin(name, base, package_dir, arg, lock), batch, seconds))
    found = {"processor": processor(), "load": load_average(), "batch": batch, "robots": robots}
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


def shortest(call: Callable[[], object], seconds: float, repeat: int = 1) -> float:
    """The smallest mean time of `repeat` calls, s."""
    best, end = inf, perf_counter() + seconds
    while best == inf or perf_counter() < end:
        start = perf_counter()
        for _ in range(repeat):
            call()
        best = min(best, (perf_counter() - start) / repeat)
    return best


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


def load_average() -> str:
    """The load average of the last minute, and the number of cores."""
    average = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return f"load {average:.1f} on {os.cpu_count()} cores"
