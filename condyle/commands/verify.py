"""Whole machines verified: one table of what was measured, what it may be, and whether it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from condyle.commands.bar import bar
from condyle.demos.mistakes import SECONDS, Mistake, table
from condyle.demos.row import Row, Say
from condyle.errors import CondyleError
from condyle.robot.names import nearest
from condyle.view.video import check_suffix, save_video

TOLD = "[dim]told[/]"  # a number without a bound: no check
VERDICT = {True: "[green]ok[/]", False: "[bold red]FAILED[/]", None: "[yellow]skipped[/]"}


@dataclass(frozen=True)
class Machine:
    """What it is, what it does, how that is checked, and how a video shows it."""

    title: str
    run: Callable[[Say], Any]
    checks: Callable[..., Iterator[Row]]
    trajectory: Callable[[Any], Any] = lambda run: run
    video: Mapping[str, Any] = field(default_factory=dict)


def _wheeled_pendulum() -> Machine:
    from condyle.demos.wheel_run import checks, run

    return Machine("the wheeled pendulum, rolling", lambda say: run(say=say), checks, video={"azimuth": -90.0, "elevation": 5.0})


def _two_wheeled() -> Machine:
    from condyle.demos.two_wheeled import drive
    from condyle.demos.two_wheeled_checks import checks
    from condyle.view.trajectory import trajectory

    def shown(run: Any) -> Any:
        return trajectory(run.world.robot, run.t, run.world.split(run.x)[0])

    video = {"trace": "axle", "azimuth": -90.0, "elevation": 50.0}
    return Machine("the robot on two wheels, rolling", lambda say: drive(), checks, shown, video)


def _compiler() -> Machine:
    from condyle.promises.checks import checks

    return Machine("what the compiler promises", lambda say: None, checks)


# those that are no part of the demo, or are shown in their own way; the others are in condyle/machines/table.py
OWN = {"wheeled-pendulum": _wheeled_pendulum, "two-wheeled": _two_wheeled, "compiler": _compiler}


def names() -> list[str]:
    """All that can be verified."""
    from condyle.demos.table import MACHINES

    return [*MACHINES, *[name for name in OWN if name not in MACHINES]]


def machine(name: str) -> Machine:
    """The machine of this name, ready to be verified."""
    from condyle.demos.table import ALSO, MACHINES

    name = name.lower().replace("_", "-")
    name = ALSO.get(name, name)
    if name in OWN:
        return OWN[name]()
    if name not in MACHINES:
        raise CondyleError(f"there is no machine '{name}' to verify{nearest(name, names())}")
    found = MACHINES[name]
    return Machine(found.title, lambda say: found.run(say=say), found.checks)


def verify(name: str, console: Console, *, quick: bool = False, animate: Path | None = None) -> list[Row]:
    """All rows, and the video if one is wanted, with a bar that shows how far."""
    found = machine(name)
    if animate is not None:
        check_suffix(animate)
    if animate is not None and name == "compiler":
        raise CondyleError("--animate: the compiler does not move, so there is no video of it; leave --animate out")
    with bar(console) as say:
        say("simulating", 0, 1)
        run = found.run(say)
        if animate is not None:
            save_video(found.trajectory(run), animate, **found.video, progress=lambda k, n: say(f"writing {animate.name}", k, n))
        return list(found.checks(run, quick=quick, say=say))


def passed(rows: list[Row]) -> bool:
    return all(row.passed is not False for row in rows)


def facts(name: str, rows: list[Row]) -> dict[str, Any]:
    """The table as plain data."""
    return {"machine": name, "passed": passed(rows), "rows": [row.facts() for row in rows]}


def show(name: str, rows: list[Row], console: Console) -> None:
    out = Table(title=f"{name}: {machine(name).title}", title_justify="left")
    for head in ("check", "value", "bound", "verdict"):
        out.add_column(head, justify="right" if head == "value" else "left")
    last = ""
    for row in rows:
        if row.group != last:
            out.add_section()
            out.add_row(Text(row.group, "bold"))
        last = row.group
        value = Text(row.shown, justify="left" if row.said else "right")
        verdict = TOLD if row.told and row.value is not None else VERDICT[row.passed]
        out.add_row(Text(f"  {row.check}"), value, row.bound, verdict)
    console.print(out)
    failed = [row.check for row in rows if row.passed is False]
    skipped = sum(row.passed is None for row in rows)
    made = sum(row.counts for row in rows)
    end = f"; {skipped} skipped" if skipped else ""
    said = (
        f"[bold red]{len(failed)} of {made} failed:[/] {escape('; '.join(failed))}" if failed else f"[green]all {made} passed[/]"
    )
    console.print(f"{said}{end}", highlight=False)


# -- the mistakes


def mistakes(name: str, console: Console) -> list[Mistake]:
    if name.replace("_", "-") != "wheeled-pendulum":
        machine(name)
        raise CondyleError(f"--mistakes are those of the wheeled-pendulum; for {name} none are known")
    with bar(console) as say:
        say("falling", 0, 1)
        return table()


def mistake_facts(rows: list[Mistake]) -> dict[str, Any]:
    def plain(row: Mistake) -> dict[str, Any]:
        pole = {"real": row.pole.real, "imag": row.pole.imag}
        return {"mistake": row.name, "pole": pole, "falls": [vars(fall) for fall in row.falls]}

    return {"machine": "wheeled-pendulum", "seconds": SECONDS, "rows": [plain(row) for row in rows]}


def mistake_lines(rows: list[Mistake]) -> list[list[str]]:
    """The cells of the table, with its heads; all that is printed about the mistakes, here and in the documentation."""
    heads = ["mistake", "pole, rad/s"]
    for fall in rows[0].falls:
        heads += [f"from {fall.released:g} rad, J", "share"]
    lines = [heads]
    for row in rows:
        pole = f"{row.pole.real:.4f}" if abs(row.pole.real) > abs(row.pole.imag) else f"{row.pole.imag:.4f} i"
        cells = [row.name, pole]
        for fall in row.falls:
            cells += [f"{fall.gained:z.4f}", f"{100.0 * fall.share:z.1f} %"]
        lines.append(cells)
    return lines


def show_mistakes(rows: list[Mistake], console: Console) -> None:
    title = f"wheeled-pendulum: mistakes, and the energy they give to {SECONDS:g} s of passive fall from rest"
    out = Table(title=title, title_justify="left", caption="share: of what the body could fall, m_b g L/2 cos(phi)")
    heads, *lines = mistake_lines(rows)
    for k, head in enumerate(heads):
        out.add_column(head, justify="right" if k else "left")
    for cells in lines:
        out.add_row(*cells)
    console.print(out)
