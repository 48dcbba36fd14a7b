"""`python -m benchmarks [names...]`: run the benchmarks, all of them by default, and print their tables.

`python -m benchmarks NAME --results` also writes benchmarks/results/NAME.json, and `python -m benchmarks page` makes
docs/benchmarks.md, its pictures and the table of README.md from these files.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import measured
from benchmarks.measure import about

# each module has run(console, *, tiny) -> numbers, and its first line says what it measures
ALL = (
    "throughput",
    "one_lane",
    "pendulums",
    "compile_time",
    "linalg",
    "random_numbers",
    "overhead",
    "robots",
    "jax_peers",
    "distances",
    "planning",
    "safety_filter",
    "contact",
    "contact_points",
    "float32",
    "gpu",
    "gpu_bits",
    "gpu_arrays",
    "gpu_peers",
    "fourlimb",
    "closed_loop",
    "arm_lab",
    "sweep",
    "motion",
    "joint_control",
    "inverse_kinematics",
    "ros2",
    "task_control",
    "software_in_the_loop",
    "identification",
    "environments",
    "gpu_training",
    "constraints",
    "mpc",
    "flight",
    "flight_control",
    "landings",
    "sampling_mpc",
    "trajectory_optimization",
    "four_limbed_walk",
    "network",
    "imitation",
    "accuracy",
)
NAMES = [name for name in ALL if find_spec(f"benchmarks.{name}")]

app = typer.Typer(add_completion=False)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help="which ones; all of them by default")] = None,
    file: Annotated[Path | None, typer.Option("--json", help="also write the numbers to this file")] = None,
    results: Annotated[bool, typer.Option("--results", help="also write benchmarks/results/NAME.json, for the page")] = False,
    tiny: Annotated[bool, typer.Option(help="a few seconds in all; the numbers mean nothing")] = False,
    list_them: Annotated[bool, typer.Option("--list", help="say what there is")] = False,
) -> None:
    """Measure speeds. Nothing here is a test: the numbers depend on the computer and its load."""
    # a pipe has no width: tables keep theirs
    console = Console(width=None if sys.stdout.isatty() else 130)
    if names == ["page"]:
        from benchmarks.page import write_page

        for path in write_page():
            console.print(str(path), highlight=False)
        return
    unknown = [name for name in names or [] if name not in NAMES]
    if unknown:
        console.print(f"there is no benchmark {', '.join(unknown)}; there are: {', '.join(NAMES)}, and page")
        sys.exit(2)
    if list_them:
        table = Table(show_header=False, box=None)
        for name in NAMES:
            table.add_row(name, summary(name))
        console.print(table)
        return
    found: dict[str, Any] = {"computer": about()}
    console.print(", ".join(f"{key} {value}" for key, value in found["computer"].items()))
    for name in names or NAMES:
        console.rule(f"[bold]{name}")
        console.print(summary(name) + "\n")
        module, load = import_module(f"benchmarks.{name}"), measured.load_average()
        found[name] = module.run(console, tiny=tiny)
        if results and found[name] and not tiny:
            rows = module.rates(found[name]) if hasattr(module, "rates") else []
            facts = {key: value for key, value in found[name].items() if key != "rows"}
            there, command = measured.computer(measured.gpu_name(), load), f"python -m benchmarks {name}"
            measured.write(measured.RESULTS / f"{name}.json", name, command, rows, facts, there)
        # after each one: what was measured survives a later failure
        if file:
            file.write_text(json.dumps(found, indent=1, default=str) + "\n")


def summary(name: str) -> str:
    """The first line of a benchmark's docstring."""
    return (import_module(f"benchmarks.{name}").__doc__ or "").strip().partition("\n")[0]


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
