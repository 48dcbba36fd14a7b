"""The demo: five machines simulated, checked, drawn and reported, in a minute."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from condyle.atomic_write import write_bytes
from condyle.demo.performance import Performance
from condyle.demo.together import Failure, Word, together
from condyle.demos.table import MACHINES
from condyle.errors import FileError
from condyle.tape.host_info import program

Done = dict[str, Performance | Failure]
WRITTEN = PICTURE, REPORT, NUMBERS = "demo.png", "report.html", "demo.json"


def run(out: Path, console: Console, names: Sequence[str] = ()) -> dict[str, Any]:
    """Everything that was found, as plain data. Writes a report, a picture of each machine, and their runs into `out`."""
    begin = perf_counter()
    names = list(names) or list(MACHINES)
    _make(out)
    done = _perform(names, out, console)
    performances = [p for name in names if isinstance(p := done[name], Performance)]
    failures = {name: p.why for name in names if isinstance(p := done[name], Failure)}
    seconds = perf_counter() - begin
    found = _facts(performances, failures, seconds)
    _write(out, performances, failures, found)
    _end(found, out, console)
    return found


def _make(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise FileError(f"--out must be a folder, and {out} is a file: try condyle demo --out out")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in WRITTEN:  # those of an earlier demo, should this one be interrupted
            (out / name).unlink(missing_ok=True)
    except OSError as error:
        raise FileError(
            f"the folder {out} cannot be made ({error.strerror}): try condyle demo --out FOLDER with another one"
        ) from None


def _perform(names: Sequence[str], out: Path, console: Console) -> Done:
    """Each machine's part; the table grows on the console meanwhile."""
    done: Done = {}
    progress = Progress(
        SpinnerColumn(), TextColumn("{task.fields[title]:20}"), TextColumn("{task.description}"), TimeElapsedColumn()
    )
    tasks = {name: progress.add_task("waiting", title=MACHINES[name].title, total=1, start=False) for name in names}
    with Live(console=console, refresh_per_second=8, transient=False) as live:
        live.update(Group(_table(done), progress))
        for event in together(names, out):
            if isinstance(event, Word):
                progress.start_task(tasks[event.name])
                progress.update(tasks[event.name], description=f"[dim]{escape(event.what)}")
            else:
                progress.remove_task(tasks[event.name])
                done[event.name] = event
            live.update(Group(_table(done), progress))
        live.update(_table(done))
    return done


def _table(done: Done) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("machine", "what is shown", "checks"):
        table.add_column(name)
    table.add_column("simulated", justify="right", no_wrap=True)
    table.add_column("took", justify="right", no_wrap=True)
    for name in MACHINES:
        performance = done.get(name)
        if isinstance(performance, Failure):
            table.add_row(f"[bold]{MACHINES[name].title}", escape(performance.why), "[bold red]failed", "", "")
        elif performance is not None:
            p = performance
            made = sum(row.counts for row in p.rows)
            verdict = f"[bold red]{len(p.failed)} of {made} failed" if p.failed else f"[bold green]✓ {made}"
            story = f"[dim]{escape(MACHINES[name].story)}"
            table.add_row(f"[bold]{MACHINES[name].title}", story, verdict, f"{p.simulated:.1f} s", f"{p.seconds:.1f} s")
            table.add_section()
    return table


def _facts(performances: list[Performance], failures: dict[str, str], seconds: float) -> dict[str, Any]:
    from condyle.tape.host_info import versions

    def plain(p: Performance) -> dict[str, Any]:
        numbers = {"seconds": p.seconds, "steps": p.steps, "simulated": p.simulated}
        return {**numbers, "run": p.run, "picture": p.picture, "hashes": p.hashes, "checks": [row.facts() for row in p.rows]}

    return {
        "passed": not failures and not any(p.failed for p in performances),
        "seconds": seconds,
        "versions": versions(),
        "machines": {p.name: plain(p) for p in performances},
        "failures": failures,
    }


def _write(out: Path, performances: list[Performance], failures: dict[str, str], found: dict[str, Any]) -> None:
    from condyle.demo.pictures import together as banner
    from condyle.demo.report import page

    if performances:
        banner([(MACHINES[p.name].title, out / p.picture) for p in performances], out / PICTURE)
    write_bytes(out / REPORT, page(performances, failures, found["versions"], found["seconds"]).encode())
    write_bytes(out / NUMBERS, (json.dumps(found, indent=2, ensure_ascii=False) + "\n").encode())


def _end(found: dict[str, Any], out: Path, console: Console) -> None:
    """What failed, where the report is, and what to type next."""
    rows = [(name, row) for name, m in found["machines"].items() for row in m["checks"]]
    for name, row in rows:
        if row["passed"] is False:
            console.print(
                f"[bold red]failed[/] {escape(name)}: {escape(row['check'])}: {row['value']:.6g} {row['unit']}", highlight=False
            )
    made = sum(row["value"] is not None and not row["told"] for _, row in rows)
    console.print()
    verdict = f"[bold green]all {made} checks passed" if found["passed"] else "[bold red]not all is well"
    console.print(f"{verdict}[/] in {found['seconds']:.1f} s", highlight=False)
    next_ = [
        (f"{out / REPORT}", "open it in a browser: films, charts, checks, hashes; it needs no network"),
        (f"{program()} view {quote(str(out / 'runs' / 'pidog.cdl'))}", "walk around the dog while it walks"),
        (f"{program()} view ur3", "move a robot's joints; or a URDF of your own"),
        (f"{program()} sim my.urdf --controller swing -o run.cdl", "a robot of your own in motion"),
        (f"{program()} --help", "everything else"),
    ]
    table = Table.grid(padding=(0, 3))
    for command, what in next_:
        table.add_row(f"[bold]{escape(command)}", f"[dim]{escape(what)}")
    console.print(table, highlight=False)
