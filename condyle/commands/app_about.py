"""The verbs about the program itself: version, completion."""

from __future__ import annotations

from typing import Annotated

import typer

from condyle.commands import complete
from condyle.commands.app import ABOUT, EPILOG, app, terminal, verb
from condyle.commands.options import Json, print_json
from condyle.errors import CondyleError

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_CONDYLE_COMPLETE"  # by which a shell asks what may follow


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback(epilog=EPILOG)
def condyle(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Same as the command `version`.")
    ] = False,
) -> None:
    """A robot simulator that compiles the robot: the same bits everywhere, exact derivatives of everything.

    Type first:
      [not dim bold]condyle demo[/]                              five machines, checked, in a minute
      [not dim bold]condyle view ur3[/]                          a robot in the browser
      [not dim bold]condyle sim my.urdf -c swing -o run.cdl[/]   your own robot, moving
    """


@verb(ABOUT, "condyle version", "condyle version --json")
def version(as_json: Json = False) -> None:
    """Versions, the machine, and the extras installed."""
    from condyle.commands import version as telling

    if as_json:
        print_json(telling.facts())
    else:
        telling.show(terminal())


@verb(ABOUT, "condyle completion bash >> ~/.bashrc", "condyle completion zsh >> ~/.zshrc", "condyle completion fish")
def completion(
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.", autocompletion=complete.one_of(*SHELLS))],
) -> None:
    """A script that lets Tab complete robots, files, joints.

    It goes where your shell looks when it starts.
    """
    from typer.completion import get_completion_script

    if shell not in SHELLS:
        raise CondyleError(f"there is a script for {', '.join(SHELLS)}, not for {shell!r:.40}: try condyle completion bash")
    names = {"prog_name": "condyle", "complete_var": VARIABLE, "shell": shell}
    typer.echo(get_completion_script(**names))
