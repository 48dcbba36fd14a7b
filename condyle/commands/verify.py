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
from condyle.demos.checks import Check
from condyle.demos.registry import DEMOS, OTHERS, find
from condyle.errors import CondyleError

VERDICT = {True: "[green]ok[/]", False: "[bold red]FAILED[/]", None: "[yellow]skipped[/]"}


def complete_names(incomplete: str) -> list[str]:
    """What can be verified, for the shell."""
    return [name for name in names() if name.startswith(incomplete)]


@command("condyle verify wheeled-pendulum", "condyle verify pidog --json", "condyle verify arm --video out/arm.gif")
def verify(
    name: Annotated[str, typer.Argument(help="birotor, arm, wheeled-pendulum, ...", autocompletion=complete_names)],
    video: Annotated[Path | None, typer.Option(help="Also write a video of the run, .gif or .mp4.")] = None,
    as_json: Json = False,
) -> None:
    """The checks of a demo robot, or of the compiler.

    Closed forms, energy, forces, published numbers and its controller. The exit code is 1 if any check fails.
    """
    name = find(name, verified=True).name
    with progress(terminal(stderr=True)) as say:
        found = checks(name, say, video=video)
    if as_json:
        print_json(data(name, found))
    else:
        show(name, found, terminal())
    if not data(name, found)["ok"]:
        raise typer.Exit(FAILED)


def names() -> list[str]:
    """All that can be verified."""
    return [*DEMOS, *OTHERS]


def checks(name: str, say: Say, *, video: Path | None = None) -> list[Check]:
    """The checks of a run, which is simulated first; its video is written to `video`."""
    demo = find(name, verified=True)
    if video is not None and name == "compiler":
        raise CondyleError("--video: the compiler has no run to show; leave --video out")
    if video is not None:
        from condyle.view.video import check_suffix

        check_suffix(video)
    say("simulating", 0, 1)
    run = demo.run(progress=say)
    if video is not None:
        from condyle.view.video import save_video

        save_video(run, video, progress=lambda done, frames: say(f"drawing {video.name}", done, frames))
    say("checking", 0, 1)
    return list(demo.checks(run))


def data(name: str, found: list[Check]) -> dict[str, Any]:
    """The table, for JSON."""
    return {"name": name, "ok": all(check.ok is not False for check in found), "checks": [check.data() for check in found]}


def show(name: str, found: list[Check], console: Console) -> None:
    """Print the table and how many checks passed."""
    out = Table(title=f"{name}: {find(name, verified=True).title}", title_justify="left")
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
    text = (
        f"[bold red]{len(failed)} of {count} failed:[/] {escape('; '.join(failed))}"
        if failed
        else f"[green]all {count} passed[/]"
    )
    console.print(text + (f"; {skipped} skipped" if skipped else ""), highlight=False)
