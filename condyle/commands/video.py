"""`condyle video`: a video of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from condyle.commands.app import command
from condyle.commands.options import OUTPUT, RunFile
from condyle.commands.terminal import progress, terminal
from condyle.runs.run import read_run


@command("condyle video run.cdl", "condyle video run.cdl -o run.mp4 --fps 30")
def video(
    run: RunFile,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The video, .gif or .mp4; by default run.gif next to the run.", rich_help_panel=OUTPUT),
    ] = None,
    fps: Annotated[float, typer.Option(help="Frames per second.")] = 20.0,
    speed: Annotated[float, typer.Option(help="Simulated seconds per second of video; 0.5 is slow motion.")] = 1.0,
    dark: Annotated[bool, typer.Option("--dark", help="Use a dark theme.")] = False,
) -> None:
    """A video of a run, with contact forces and pushes as arrows.

    Needs the extra `plot`.
    """
    from condyle.view.video import save_video

    done, target = read_run(run), out or Path(run).with_suffix(".gif")
    with progress(terminal(stderr=True)) as say:
        say(f"drawing {target.name}", 0, 1)
        update = lambda frame, frames: say(f"drawing {target.name}", frame, frames)  # noqa: E731
        save_video(done, target, fps=fps, speed=speed, dark=dark, progress=update)
    typer.echo(f"{target}: {done.t[-1] / speed:g} s of video")
