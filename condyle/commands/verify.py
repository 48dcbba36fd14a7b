"""`condyle verify`: the checks of a demo robot or of the compiler, as one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from condyle.commands.app import FAILED, command
from condyle.commands.options import Json
from condyle.commands.terminal import Say, print_json, progress, terminal
from condyle.demos.row import Row
from condyle.errors import CondyleError
from condyle.robot.names import nearest

INFO = "[dim]info[/]"  # a number without a bound
VERDICT = {True: "[green]ok[/]", False: "[bold red]FAILED[/]", None: "[yellow]skipped[/]"}
TITLES = {"two-wheeled": "the robot on two wheels, rolling", "compiler": "the compiler"}  # not part of the demo


def complete_names(incomplete: str) -> list[str]:
    """What can be verified, for the shell."""
    return [name for name in names() if name.startswith(incomplete)]


@command("condyle verify wheeled-pendulum", "condyle verify pidog --quick --json", "condyle verify arm --video out/arm.gif")
def verify(
    name: Annotated[str, typer.Argument(help="birotor, arm, wheeled-pendulum, ...", autocompletion=complete_names)],
    quick: Annotated[bool, typer.Option("--quick", help="Skip checks that take long.")] = False,
    video: Annotated[Path | None, typer.Option(help="Also write a video of the run, .gif or .mp4.")] = None,
    as_json: Json = False,
) -> None:
    """All checks of a demo robot, or of the compiler.

    Its parameters, energy, forces, equations and controller. The exit code is 1 if any check fails.
    """
    name = known_name(name)
    with progress(terminal(stderr=True)) as say:
        rows = checks(name, say, quick=quick, video=video)
    if as_json:
        print_json(facts(name, rows))
    else:
        show(name, rows, terminal())
    if not facts(name, rows)["passed"]:
        raise typer.Exit(FAILED)


def names() -> list[str]:
    """All that can be verified."""
    from condyle.demos.table import MACHINES

    return [*MACHINES, *TITLES]


def known_name(name: str) -> str:
    """The name as `names` lists it, whatever its spelling; CondyleError if there is none."""
    from condyle.demos.table import ALSO

    spelled = name.lower().replace("_", "-")
    spelled = ALSO.get(spelled, spelled)
    if spelled not in names():
        raise CondyleError(f"there is no robot '{name}' to verify{nearest(name, names())}")
    return spelled


def checks(name: str, say: Say, *, quick: bool = False, video: Path | None = None) -> list[Row]:
    """The checks of a run, which is simulated first; its video is written to `video`."""
    from condyle.demos.table import MACHINES

    if video is not None and name not in MACHINES:
        raise CondyleError(f"--video: there is no run of {name} to show; leave --video out")
    say("simulating", 0, 1)
    if name == "compiler":
        from condyle.promises.checks import checks as compiler_checks

        return list(compiler_checks(None, quick=quick, say=say))
    if name == "two-wheeled":
        from condyle.demos.two_wheeled import drive
        from condyle.demos.two_wheeled_checks import checks as driving_checks

        return list(driving_checks(drive(), quick=quick, say=say))
    found = MACHINES[name]
    if video is not None:
        from condyle.view.video import check_suffix

        check_suffix(video)
    run = found.run(say=say)
    if video is not None:
        from condyle.view.video import save_video

        save_video(run, video, progress=lambda done, frames: say(f"drawing {video.name}", done, frames))
    return list(found.checks(run, quick=quick, say=say))


def facts(name: str, rows: list[Row]) -> dict[str, Any]:
    """The table, for JSON."""
    return {"name": name, "passed": all(row.passed is not False for row in rows), "rows": [row.facts() for row in rows]}


def show(name: str, rows: list[Row], console: Console) -> None:
    """Print the table and how many checks passed."""
    from condyle.demos.table import MACHINES

    out = Table(title=f"{name}: {MACHINES[name].title if name in MACHINES else TITLES[name]}", title_justify="left")
    for head in ("check", "value", "bound", "verdict"):
        out.add_column(head, justify="right" if head == "value" else "left")
    last = ""
    for row in rows:
        if row.group != last:
            out.add_section()
            out.add_row(Text(row.group, "bold"))
        last = row.group
        value = Text(row.shown, justify="left" if row.said else "right")
        verdict = INFO if row.told and row.value is not None else VERDICT[row.passed]
        out.add_row(Text(f"  {row.check}"), value, row.bound, verdict)
    console.print(out)
    failed = [row.check for row in rows if row.passed is False]
    skipped, count = sum(row.passed is None for row in rows), sum(row.counts for row in rows)
    text = (
        f"[bold red]{len(failed)} of {count} failed:[/] {escape('; '.join(failed))}"
        if failed
        else f"[green]all {count} passed[/]"
    )
    console.print(text + (f"; {skipped} skipped" if skipped else ""), highlight=False)
