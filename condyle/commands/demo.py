"""`condyle demo`: five robots simulated, checked and reported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from condyle.commands import completion
from condyle.commands.app import FAILED, command
from condyle.commands.options import OUTPUT, Json
from condyle.commands.terminal import print_json, terminal


@command("condyle demo", "condyle demo pidog birotor --out shown", "condyle demo --view")
def demo(
    robots: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ROBOT]...",
            help="Some of the five only, such as pidog.",
            autocompletion=completion.names_in("condyle.demos.registry", "DEMOS"),
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Folder for report.html, pictures and runs; created if missing.", rich_help_panel=OUTPUT
        ),
    ] = Path("out"),
    view: Annotated[bool, typer.Option("--view", help="Open the runs in the viewer at the end.")] = False,
    as_json: Json = False,
) -> None:
    """Five robots simulated and checked in a minute.

    Writes report.html, which needs no network, and a run of each robot. The exit code is 1 if any check fails.
    """
    from condyle.demos.registry import find
    from condyle.demos.show import run

    names = list(dict.fromkeys(find(name).name for name in robots or ()))
    found = run(out, terminal(stderr=as_json), names)
    if as_json:
        print_json(found)
    if view and found["demos"]:
        from condyle.commands.view import open_and_wait

        runs = [str(out / shown["run"]) for shown in found["demos"].values()]
        open_and_wait(runs, console=terminal(stderr=as_json))
    if not found["ok"]:
        raise typer.Exit(FAILED)
