"""`condyle demo`: five robots simulated, checked, drawn and reported, each in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from condyle.apps.demos.checks import Check
from condyle.apps.demos.pictures import draw, montage
from condyle.apps.demos.registry import DEMOS
from condyle.apps.demos.report import page, section
from condyle.atomic_write import write_bytes
from condyle.errors import FileError, MissingExtraError
from condyle.tape.host_info import available_threads, program, versions

MAX_PROCESSES = 3  # each holds its own compiler
WRITTEN = PICTURE, REPORT, NUMBERS = "demo.png", "report.html", "demo.json"


@dataclass(frozen=True)
class Result:
    """What came of one robot, in data that another process can hand over; paths are inside the demo's folder."""

    name: str
    checks: list[Check] = field(default_factory=list)
    seconds: float = 0.0
    steps: int = 0
    simulated: float = 0.0
    run: str = ""
    picture: str = ""
    hashes: dict[str, str] = field(default_factory=dict)
    html: str = ""
    error: str = ""  # why it could not be simulated

    @property
    def failed(self) -> list[str]:
        """Names of the checks that failed."""
        return [check.name for check in self.checks if check.ok is False]

    def data(self) -> dict[str, Any]:
        """As JSON data."""
        names = ("seconds", "steps", "simulated", "run", "picture", "hashes")
        return {**{name: getattr(self, name) for name in names}, "checks": [check.data() for check in self.checks]}


def simulate(name: str, out: Path) -> Result:
    """One robot: its run in out/runs, its picture, and its section of the report; an error becomes a sentence."""
    demo, begin = DEMOS[name], perf_counter()
    path, image = Path("runs") / f"{name}.cdl", Path(f"{name}.png")
    try:
        (out / "runs").mkdir(parents=True, exist_ok=True)
        run = demo.run(out / path)
        checks = list(demo.checks(run))
        draw(demo, run, out / image)
        html = section(demo, run, checks, out / path)
    except MissingExtraError:
        raise
    except Exception as error:
        return Result(name, error=f"{type(error).__name__}: {error}")
    hashes = {"robot": str(run.about["robot_hash"]), "world": str(run.about["world_hash"]), "states": run.hash}
    seconds = perf_counter() - begin
    return Result(name, checks, seconds, run.steps, float(run.t[-1]), str(path), str(image), hashes, html)


def simulate_all(names: Sequence[str], out: Path) -> Iterator[Result]:
    """Results as they are done."""
    pool = ProcessPoolExecutor(max(1, min(MAX_PROCESSES, len(names), available_threads())), mp_context=get_context("spawn"))
    try:
        # the table ends with those that take longest: they start first
        for future in as_completed([pool.submit(simulate, name, out) for name in reversed(names)]):
            yield future.result()
    except BaseException:
        for process in list(pool._processes.values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def run(out: Path, console: Console, names: Sequence[str] = ()) -> dict[str, Any]:
    """All results as JSON data. Writes a report, a picture of each robot, and their runs into `out`."""
    begin = perf_counter()
    names = list(names) or list(DEMOS)
    _make_folder(out)
    done: dict[str, Result] = {}
    with console.status("compiling and simulating") as status:
        for result in simulate_all(names, out):
            done[result.name] = result
            status.update(f"done: {', '.join(DEMOS[name].title for name in done)}")
    results = [done[name] for name in names if not done[name].error]
    errors = {name: done[name].error for name in names if done[name].error}
    found: dict[str, Any] = {
        "ok": not errors and not any(result.failed for result in results),
        "seconds": perf_counter() - begin,
        "versions": versions(),
        "demos": {result.name: result.data() for result in results},
        "errors": errors,
    }
    if results:
        montage([(DEMOS[result.name].title, out / result.picture) for result in results], out / PICTURE)
    write_bytes(out / REPORT, page(results, errors, found["versions"], found["seconds"]).encode())
    write_bytes(out / NUMBERS, (json.dumps(found, indent=2, ensure_ascii=False) + "\n").encode())
    _print(done, found, out, console)
    return found


def _make_folder(out: Path) -> None:
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


def _print(done: dict[str, Result], found: dict[str, Any], out: Path, console: Console) -> None:
    """The table of robots, what failed, where the report is, and what to type next."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for head in ("robot", "what it does", "checks", "simulated", "took"):
        number = head in ("simulated", "took")
        table.add_column(head, justify="right" if number else "left", no_wrap=number)
    for name, demo in DEMOS.items():
        result = done.get(name)
        if result is not None and result.error:
            table.add_row(f"[bold]{demo.title}", escape(result.error), "[bold red]failed", "", "")
        elif result is not None:
            made = len(result.checks)
            verdict = f"[bold red]{len(result.failed)} of {made} failed" if result.failed else f"[bold green]✓ {made}"
            summary, simulated, took = f"[dim]{escape(demo.summary)}", f"{result.simulated:.1f} s", f"{result.seconds:.1f} s"
            table.add_row(f"[bold]{demo.title}", summary, verdict, simulated, took)
            table.add_section()
    console.print(table)
    for name, result in done.items():
        for failed in result.failed:
            console.print(f"[bold red]failed[/] {escape(name)}: {escape(failed)}", highlight=False)
    made = sum(len(result.checks) for result in done.values())
    verdict = f"[bold green]all {made} checks passed" if found["ok"] else "[bold red]some checks failed"
    console.print(f"\n{verdict}[/] in {found['seconds']:.1f} s", highlight=False)
    grid = Table.grid(padding=(0, 3))
    for command, what in (
        (f"{out / REPORT}", "open it in a browser: players, charts, checks, hashes; it needs no network"),
        (f"{program()} view {quote(str(out / 'runs' / 'pidog.cdl'))}", "the recorded walk of PiDog in the viewer"),
        (f"{program()} view ur3", "move a robot's joints; or a URDF of your own"),
        (f"{program()} sim my.urdf --controller swing -o run.cdl", "simulate a robot of your own"),
        (f"{program()} --help", "all commands"),
    ):
        grid.add_row(f"[bold]{escape(command)}", f"[dim]{escape(what)}")
    console.print(grid, highlight=False)
