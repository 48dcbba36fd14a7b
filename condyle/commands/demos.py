"""`condyle demo` and `condyle verify`: the demo robots simulated and reported, and the checks of one as a table."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from condyle.apps.demos.checks import Check
from condyle.apps.demos.registry import Demo, find
from condyle.commands import completion
from condyle.commands.app import FAILED, command
from condyle.commands.options import Json, out_option
from condyle.commands.terminal import print_json, progress, terminal
from condyle.errors import CondyleError

VERDICT = {True: "[green]ok[/]", False: "[bold red]FAILED[/]", None: "[yellow]skipped[/]"}
REGISTRY = "condyle.apps.demos.registry"


@command("condyle demo", "condyle demo pidog birotor --out shown", "condyle demo --view")
def demo(
    robots: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ROBOT]...",
            help="Some of the five only, such as pidog.",
            autocompletion=completion.names_in(REGISTRY, "DEMOS"),
        ),
    ] = None,
    out: Annotated[Path, out_option(help="Folder for report.html, pictures and runs; created if missing.")] = Path("out"),
    view: Annotated[bool, typer.Option("--view", help="Open the runs in the viewer at the end.")] = False,
    as_json: Json = False,
) -> None:
    """Five robots simulated and checked in a minute.

    Writes report.html, which needs no network, and a run of each robot. The exit code is 1 if any check fails.
    """
    from condyle.apps.demos.show import run

    names = list(dict.fromkeys(find(name).name for name in robots or ()))
    found = run(out, terminal(stderr=as_json), names)
    if as_json:
        print_json(found)
    if view and found["demos"]:
        from condyle.commands.view import open_and_wait

        open_and_wait([str(out / shown["run"]) for shown in found["demos"].values()], stderr=as_json)
    if not found["ok"]:
        raise typer.Exit(FAILED)


@command("condyle verify wheeled-pendulum", "condyle verify pidog --json", "condyle verify arm --video out/arm.gif")
def verify(
    name: Annotated[
        str,
        typer.Argument(
            help="birotor, arm, wheeled-pendulum, ...", autocompletion=completion.names_in(REGISTRY, "DEMOS", "OTHERS")
        ),
    ],
    video: Annotated[Path | None, typer.Option(help="Also write a video of the run, .gif or .mp4.")] = None,
    as_json: Json = False,
) -> None:
    """The checks of a demo robot, or of the compiler.

    Closed forms, energy, forces, published numbers and its controller. The exit code is 1 if any check fails.
    """
    robot = find(name, verified=True)
    if video is not None:
        from condyle.workbench.view.video import check_suffix, save_video

        if robot.name == "compiler":
            raise CondyleError("--video: the compiler has no run to show; leave --video out")
        check_suffix(video)
    with progress(terminal(stderr=True)) as say:
        say("simulating", 0, 1)
        run = robot.run(progress=say)
        if video is not None:
            save_video(run, video, progress=partial(say, f"drawing {video.name}"))
        say("checking", 0, 1)
        found = list(robot.checks(run))
    ok = all(check.ok is not False for check in found)
    if as_json:
        print_json({"name": robot.name, "ok": ok, "checks": [check.data() for check in found]})
    else:
        show(robot, found, terminal())
    if not ok:
        raise typer.Exit(FAILED)


def show(robot: Demo, found: list[Check], console: Console) -> None:
    """Print the table and how many checks passed."""
    out = Table(title=f"{robot.name}: {robot.title}", title_justify="left")
    for head in ("check", "value", "bound", "verdict"):
        out.add_column(head, justify="right" if head == "value" else "left")
    last = ""
    for check in found:
        if check.group != last:
            out.add_section()
            out.add_row(Text(check.group, "bold"))
        last = check.group
        value = Text(check.shown, justify="left" if check.detail else "right")
        out.add_row(Text(f"  {check.name}"), value, check.bound, VERDICT[check.ok])
    console.print(out)
    failed = [check.name for check in found if check.ok is False]
    skipped = sum(check.ok is None for check in found)
    count = len(found) - skipped
    text = f"[green]all {count} passed[/]"
    if failed:
        text = f"[bold red]{len(failed)} of {count} failed:[/] {escape('; '.join(failed))}"
    console.print(text + (f"; {skipped} skipped" if skipped else ""), highlight=False)
