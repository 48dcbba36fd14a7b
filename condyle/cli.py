"""The command `condyle`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from condyle.errors import CondyleError, MachineError

WIDTHS = (1, 2, 4, 8)


class Commands(TyperGroup):
    """The commands; what Condyle refuses to do is said in one sentence, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CondyleError as error:
            typer.echo(f"condyle: {error}", err=True)
            raise typer.Exit(2) from None


app = typer.Typer(
    name="condyle",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def condyle(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Same as the command `version`.")
    ] = False,
) -> None:
    """Compile Python functions over NumPy arrays: the same bits everywhere.

    Example: [bold]condyle demo[/]
    """


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for demo.png and demo.json.")] = Path("out"),
    lanes: Annotated[
        list[int] | None, typer.Option(help="A lane width to compare, once for each; all of 1, 2, 4, 8 if not given.")
    ] = None,
) -> None:
    """Compile a chaotic pendulum, run a million of them, check the promises, and draw a picture, in a minute.

    Example: [bold]condyle demo --out out --lanes 1 --lanes 8[/]

    The exit code is 1 if any check fails.
    """
    from condyle.demo.show import run

    lanes = lanes or list(WIDTHS)
    wrong = [n for n in lanes if n not in WIDTHS]
    if wrong:
        raise MachineError(f"--lanes must be 1, 2, 4 or 8, got {wrong[0]}: try condyle demo --lanes 1 --lanes 8")
    if out.exists() and not out.is_dir():
        raise CondyleError(f"--out must be a folder, and {out} is a file: try condyle demo --out out")
    if not run(out, lanes, Console()):
        raise typer.Exit(1)


@app.command()
def version() -> None:
    """Print the versions, the processor and its lanes, the threads and the cache directory.

    Example: [bold]condyle version[/]
    """
    from condyle.demo.show import versions

    for name, value in versions().items():
        text = ", ".join(f"{n} of {kind}" for kind, n in value.items()) if isinstance(value, dict) else value
        typer.echo(f"{name:9} {text}")


def main() -> None:
    """The entry point of the command."""
    app()


if __name__ == "__main__":
    main()
