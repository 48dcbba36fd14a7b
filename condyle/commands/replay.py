"""`condyle replay`: what a run contains, and whether computing it again gives the same bits."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from condyle.commands.app import FAILED, command
from condyle.commands.hints import shell_command
from condyle.commands.options import Json, RunFile
from condyle.commands.terminal import print_json, progress, terminal
from condyle.workbench.runs.json_codec import printable
from condyle.workbench.runs.replay import Replay
from condyle.workbench.runs.run import Run, read_run

BATCH = 2048  # steps compared at once


@command("condyle replay run.cdl", "condyle replay run.cdl --check")
def replay(
    run: RunFile,
    check: Annotated[bool, typer.Option("--check", help="Compute every step again, and compare all bits.")] = False,
    as_json: Json = False,
) -> None:
    """What a run contains, and whether it repeats bit for bit.

    The exit code of --check is 0 if all steps of the file repeat bit for bit, also those of a truncated run, and 1 if a step
    differs, which is named, or if the file was damaged or changed after it was recorded.
    """
    done, compared = read_run(run), None
    if check:
        with progress(terminal(stderr=True)) as say:
            say("compiling", 0, 1)
            compared = done.check(batch=BATCH, progress=partial(say, "comparing"))
    if as_json:
        print_json(facts(done, compared))
    else:
        show(done, compared, terminal())
    if compared is not None and not compared:
        raise typer.Exit(FAILED)


def facts(run: Run, compared: Replay | None) -> dict[str, Any]:
    """Everything that `show` prints, for JSON."""
    about = {name: value for name, value in run.about.items() if name not in ("simulation_data", "robot_data", "columns")}
    columns = run.about["columns"]
    return {
        "file": None if run.path is None else str(run.path),
        "title": run.title,
        "steps": run.steps,
        "seconds": float(run.t[-1]),
        "states": [name for name, _ in columns["x"]],
        "controls": [name for name, _ in columns["u"]],
        "wrenches": list(columns["wrenches"]),
        "signals": {name: list(array.shape[1:]) for name, array in run.extras.items()},
        "sha256": run.hash,
        "lost": run.lost,
        "changed": run.changed,
        "about": about,
        "replay": None if compared is None else asdict(compared),
    }


def show(run: Run, compared: Replay | None, console: Console) -> None:
    """Print what the run contains, what was lost, and the result of the comparison."""
    f, about = facts(run, compared), run.about
    table = Table("", Column(overflow="fold"), title=Text(run.title), title_justify="left", show_header=False)
    seed = "" if about.get("seed") is None else f", seed {about['seed']}"
    rows = {
        "file": f["file"] or "in memory",
        "robot": about["robot"],
        "controller": f"{about['controller'] or 'unnamed'}{seed}",
        "length": f"{f['seconds']:g} s, {run.steps:,} steps of {run.dt * 1e3:g} ms",
        "state": f"{len(f['states'])} entries: {_some(f['states'])}",
        "control": f"{len(f['controls'])} entries: {_some(f['controls'])}" if f["controls"] else "no entries",
        "wrenches at": ", ".join(f["wrenches"]) or "no frame",
        "further signals": _some([f"{name} {tuple(shape)}" for name, shape in f["signals"].items()]) or "none",
        "recorded": f"{about['created']}, by condyle {about['versions'].get('condyle', '?')} on {_computer(about)}",
        "sha256": str(f["sha256"])[:16],
    }
    if about.get("stopped"):
        rows["stopped by"] = str(about["stopped"])
    for name, value in rows.items():
        table.add_row(name, Text(printable(value)))
    console.print(table)
    if run.lost is not None and (compared is None or not compared.identical):
        console.print(Text(printable(run.lost), "bold yellow"), soft_wrap=True)
    if compared is not None:
        color = "bold red" if not compared else "bold green" if compared.lost is None else "bold yellow"
        console.print(Text(printable(str(compared)), color), soft_wrap=True)
    elif run.path is not None:
        again = [f"{shell_command('replay', run.path)} --check", shell_command("view", run.path), shell_command("plot", run.path)]
        console.print(Text(f"next: {', '.join(again)}"), soft_wrap=True)


def _some(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f", ... {names[-1]}" if len(names) > most else "")


def _computer(about: dict[str, Any]) -> str:
    host = about.get("computer")
    return str(host.get("cpu", "an unknown computer")) if isinstance(host, dict) else "an unknown computer"
