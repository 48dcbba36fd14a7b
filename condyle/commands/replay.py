"""A run read again: what it holds, and whether it happens again bit for bit."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from condyle.commands.bar import bar
from condyle.commands.notes import command
from condyle.runs.json_codec import printable
from condyle.runs.replay import Replay
from condyle.runs.run import Run

AT_ONCE = 2048  # steps compared between two moves of the bar


def compare(run: Run, console: Console) -> Replay:
    """Every step computed again, with a bar that shows how far; it ends at the first block that differs."""
    with bar(console) as say:
        say("compiling", 0, 1)
        return run.check(batch=AT_ONCE, say=lambda done, steps: say("comparing", done, steps))


def facts(run: Run, compared: Replay | None) -> dict[str, Any]:
    """All that `show` prints, as plain data."""
    about = {name: value for name, value in run.about.items() if name not in ("recipe", "robot_recipe", "columns")}
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
    """Print what the run holds, what was lost, and what came of the comparison."""
    f, about = facts(run, compared), run.about
    table = Table(title=Text(run.title), title_justify="left", show_header=False)
    table.add_column("")
    table.add_column("", overflow="fold")
    seed = "" if about.get("seed") is None else f", seed {about['seed']}"
    rows = {
        "file": f["file"] or "in memory",
        "robot": about["robot"],
        "controller": f"{about['controller'] or 'not named'}{seed}",
        "length": f"{f['seconds']:g} s, {run.steps:,} steps of {run.dt * 1e3:g} ms",
        "a state has": f"{len(f['states'])} entries: {_some(f['states'])}",
        "a control has": f"{len(f['controls'])} entries: {_some(f['controls'])}" if f["controls"] else "nothing",
        "wrenches at": ", ".join(f["wrenches"]) or "no frame",
        "further signals": _some([f"{name} {tuple(shape)}" for name, shape in f["signals"].items()]) or "none",
        "recorded": f"{about['created']}, by condyle {about['versions'].get('condyle', '?')} on {_machine(about)}",
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
        console.print(
            Text(f"next: {command('replay', run.path)} --check, {command('view', run.path)}, {command('plot', run.path)}"),
            soft_wrap=True,
        )


def _some(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f", ... {names[-1]}" if len(names) > most else "")


def _machine(about: dict[str, Any]) -> str:
    machine = about.get("machine")
    return str(machine.get("cpu", "an unknown machine")) if isinstance(machine, dict) else "an unknown machine"
