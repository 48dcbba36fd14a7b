"""`condyle pidog`: one of PiDog's actions in simulation, with gait metrics, a picture, a run and a video."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from condyle.commands import completion, options
from condyle.commands.app import INTERRUPTED, command
from condyle.commands.hints import shell_command
from condyle.commands.terminal import interrupts, progress, report, terminal
from condyle.errors import CondyleError

if TYPE_CHECKING:
    from condyle.apps.pidog.player import Played

SUFFIX = ".cdl"


@command(
    "condyle pidog",
    "condyle pidog walk --cycles 3 -o walk.cdl --plot walk.png",
    "condyle pidog trot --cycles 10 --friction 0.3",
    "condyle pidog handshake --video handshake.gif",
)
def pidog(
    action: Annotated[
        str | None,
        typer.Argument(
            metavar="[ACTION]",
            help="walk, trot, sit, handshake, ...; without it all actions are listed.",
            autocompletion=completion.names_in("condyle.apps.pidog.actions", "ACTIONS"),
        ),
    ] = None,
    speed: Annotated[
        float | None,
        options.control_option(help="0 to 100: a frame takes 1000 - 9.9 speed ms, or longer; by default that of the action."),
    ] = None,
    cycles: Annotated[
        int | None, options.control_option(min=1, help="How often it is repeated; by default as the action says.")
    ] = None,
    friction: Annotated[float, options.world_option(help="Coulomb friction coefficient of the ground.")] = 0.5,
    out: Annotated[Path | None, options.out_option(help="Record the run in this file, .cdl.")] = None,
    plot: Annotated[
        Path | None, options.output_option(help="Draw footfall diagram, path and metrics: .png, .svg or .pdf.")
    ] = None,
    video: Annotated[Path | None, options.output_option(help="Also write a video, .gif or .mp4.")] = None,
    view: Annotated[bool, options.output_option("--view", help="Open the run in the viewer; needs -o.")] = False,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Play one of PiDog's actions on the ground and measure it.

    The manufacturer's walk, turns and poses, and actions of ours, with servos, contact of the whole body and gait metrics.
    """
    from condyle.apps.pidog.actions import ACTIONS
    from condyle.apps.pidog.actions import action as named

    if action is None:
        found = [named(name) for name in ACTIONS]
        rows = [{"action": each.name, "summary": each.summary, "source": each.source} for each in found]
        report(rows, as_json, show_list)
        return
    chosen = named(action)
    _check_files(out, plot, video, view, force)
    from condyle.apps.pidog.footfall import save_footfall
    from condyle.apps.pidog.player import play

    with progress(terminal(stderr=True)) as say, interrupts() as interrupted:
        say(f"{chosen.name}: compiling", 0, 1)
        for each in (out, plot, video):
            if each is not None:
                each.parent.mkdir(parents=True, exist_ok=True)
        played = play(
            chosen, speed=speed, cycles=cycles, friction=friction, path=out, overwrite=force, progress=say, stopped=interrupted
        )
        if interrupted():
            typer.echo("condyle: interrupted" + (f"; {out} has what was played" if out else ""), err=True)
            raise typer.Exit(INTERRUPTED)
        if plot is not None:
            save_footfall(played, plot)
        if video is not None:
            from condyle.workbench.view.video import save_video

            save_video(played.run, video, progress=partial(say, f"drawing {video.name}"))
    report(facts(played, out, plot, video), as_json, partial(show, played))
    if view:
        from condyle.commands.view import open_and_wait

        open_and_wait([str(out)], stderr=as_json)


def _check_files(out: Path | None, plot: Path | None, video: Path | None, view: bool, force: bool) -> None:
    if out is not None and out.suffix.lower() != SUFFIX:
        raise CondyleError(f"-o writes a run, and {out.name} does not end in {SUFFIX}: try -o {out.with_suffix(SUFFIX).name}")
    if out is not None and out.exists() and not force:
        raise CondyleError(f"{out} exists already: --force overwrites it, or choose another name")
    if view and out is None:
        raise CondyleError("--view opens a recorded run, and none is written: add -o run.cdl")
    if plot is not None:
        from condyle.workbench.runs.plot import check_suffix as check_plot

        check_plot(plot)
    if video is not None:
        from condyle.workbench.view.video import check_suffix as check_video

        check_video(video)


def facts(played: Played, out: Path | None, plot: Path | None, video: Path | None) -> dict[str, Any]:
    """Everything about what was played, for JSON."""
    return {
        "action": played.action.name,
        "source": played.action.source,
        "seconds": played.run.seconds,
        "friction": played.friction,
        "fell": played.fell,
        "first_fall": played.first_fall,
        "advances": played.advances.tolist(),
        "turns": played.turns.tolist(),
        "metrics": played.metrics.data(),
        **{name: None if path is None else str(path) for name, path in (("file", out), ("plot", plot), ("video", video))},
    }


def show(played: Played, f: dict[str, Any], console: Console) -> None:
    """Print the metrics as a table, and commands to type next."""
    from condyle.apps.pidog.footfall import metric_lines

    cycles = len(played.cycle_times) - 1
    played_for = f"{cycles} cycle{'s' * (cycles != 1)}, {f['seconds']:.1f} s, friction {f['friction']:g}"
    title = f"{f['action']}: {played.action.summary}; {played_for}"
    table = Table(Column(overflow="fold"), Column(justify="right"), title=title, title_justify="left", show_header=False)
    for name, value in metric_lines(played):
        table.add_row(name, Text(value, "bold red" if name == "falls" and value != "none" else ""))
    console.print(table)
    for name in ("plot", "video"):
        if f[name]:
            console.print(f[name], highlight=False, markup=False, soft_wrap=True)
    if f["file"]:
        lines = [
            f"{f['file']} contains the run. Next:",
            shell_command("view", f["file"]),
            shell_command("replay", f["file"], "--check"),
        ]
        console.print("\n  ".join(lines), highlight=False, markup=False, soft_wrap=True)


def show_list(rows: list[dict[str, str]], console: Console) -> None:
    """Print all actions."""
    table = Table("action", "what it does", "frames", title="PiDog's actions", title_justify="left")
    for row in rows:
        table.add_row(row["action"], row["summary"], {"table": "manufacturer's", "ours": "ours"}[row["source"]])
    console.print(table)
