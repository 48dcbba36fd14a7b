"""`condyle plot` and `condyle video`: the signals of a run over time, and a video of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from condyle.commands import completion
from condyle.commands.app import command
from condyle.commands.options import Dark, RunFile, out_option
from condyle.commands.terminal import progress, terminal
from condyle.workbench.runs.run import read_run


@command(
    "condyle plot run.cdl",
    "condyle plot run.cdl -o picture.svg --signals height --signals contact_forces",
    "condyle plot run.cdl --compare other.cdl",
)
def plot(
    run: RunFile,
    out: Annotated[Path | None, out_option(help="The file: .png, .svg or .pdf; by default run.png next to the run.")] = None,
    signals: Annotated[
        list[str] | None,
        typer.Option(
            help="A signal to plot, such as joints; may repeat; by default all.",
            autocompletion=completion.names_in("condyle.workbench.runs.plot", "SUBPLOTS"),
        ),
    ] = None,
    compare: Annotated[
        str | None, typer.Option(metavar="RUN", help="Another run, drawn dotted over the first.", autocompletion=completion.runs)
    ] = None,
) -> None:
    """A run plotted over time.

    Heights, contact forces, energy, joints and controls; pushes are shaded. Needs the extra `plot`.
    """
    target = out or Path(run).with_suffix(".png")
    read_run(run).plot(target, signals=signals or (), compare=None if compare is None else read_run(compare))
    typer.echo(str(target))


@command("condyle video run.cdl", "condyle video run.cdl -o run.mp4 --fps 30")
def video(
    run: RunFile,
    out: Annotated[Path | None, out_option(help="The video, .gif or .mp4; by default run.gif next to the run.")] = None,
    fps: Annotated[float, typer.Option(help="Frames per second.")] = 20.0,
    speed: Annotated[float, typer.Option(help="Simulated seconds per second of video; 0.5 is slow motion.")] = 1.0,
    dark: Dark = False,
) -> None:
    """A video of a run, with contact forces and pushes as arrows.

    Needs the extra `plot`.
    """
    from condyle.workbench.view.video import save_video

    done, target = read_run(run), out or Path(run).with_suffix(".gif")
    with progress(terminal(stderr=True)) as say:
        say(f"drawing {target.name}", 0, 1)
        save_video(done, target, fps=fps, speed=speed, dark=dark, progress=partial(say, f"drawing {target.name}"))
    typer.echo(f"{target}: {done.t[-1] / speed:g} s of video")
