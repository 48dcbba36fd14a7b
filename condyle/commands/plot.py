"""`condyle plot`: the signals of a run over time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from condyle.commands import completion
from condyle.commands.app import command
from condyle.commands.options import OUTPUT, RunFile
from condyle.runs.run import read_run


@command(
    "condyle plot run.cdl",
    "condyle plot run.cdl -o picture.svg --signals height --signals contact_forces",
    "condyle plot run.cdl --compare other.cdl",
)
def plot(
    run: RunFile,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The file: .png, .svg or .pdf; by default run.png next to the run.", rich_help_panel=OUTPUT
        ),
    ] = None,
    signals: Annotated[
        list[str] | None,
        typer.Option(
            help="A signal to plot, such as joints; may repeat; by default all.",
            autocompletion=completion.names_in("condyle.runs.plot", "SUBPLOTS"),
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
