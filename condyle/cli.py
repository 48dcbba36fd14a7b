"""The command `condyle`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from condyle.errors import CondyleError, MachineError, RobotError

WIDTHS = (1, 2, 4, 8)


class Commands(TyperGroup):
    """The commands; what Condyle refuses to do is said in one sentence each, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CondyleError as error:
            problems = error.problems if isinstance(error, RobotError) else ()
            many = len(problems) > 1
            typer.echo("\n  ".join([f"condyle: {len(problems)} problems", *problems]) if many else f"condyle: {error}", err=True)
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
    """Compile robots, and any Python function over NumPy arrays: the same bits everywhere.

    Example: [bold]condyle info ur3[/]
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


Source = Annotated[str, typer.Argument(help="A URDF, xacro or MJCF file, or a built-in name such as ur3 or pidog.")]
Base = Annotated[str | None, typer.Option(help="fixed, free, planar or euler; files are fixed unless told.")]
PackageDirs = Annotated[list[str] | None, typer.Option("--package-dir", help="A folder of packages, for package://; may repeat.")]
Arguments = Annotated[list[str] | None, typer.Option("--arg", help="A xacro argument, name:=value; may repeat.")]
Strict = Annotated[bool, typer.Option("--strict", help="What would be repaired is an error.")]
Json = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON instead.")]


def _console(wide: int, *, stderr: bool = False) -> Console:
    """The terminal as it is; a pipe has no width, and lines keep theirs."""
    return Console(stderr=stderr, width=None if (sys.stderr if stderr else sys.stdout).isatty() else wide)


def _origin(
    source: str, base: str | None, package_dirs: list[str] | None, arguments: list[str] | None, strict: bool, lock: Any = ()
) -> Any:
    from condyle.commands import source as sources

    pairs = sources.arguments(arguments or [])
    return sources.Origin(source, base, tuple(package_dirs or ()), pairs, strict, tuple(lock or ()))


@app.command()
def info(
    source: Source,
    base: Base = None,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Show a robot: its tree of joints and links, its totals and frames, and what its file left doubtful.

    Example: [bold]condyle info ur3[/]

    A file that cannot be loaded gives the list of its problems and exit code 2.
    """
    from condyle.commands import info as telling

    robot = _origin(source, base, package_dir, arg, strict).load()
    if as_json:
        typer.echo(json.dumps(telling.facts(robot), indent=2, ensure_ascii=False))
    else:
        telling.show(robot, _console(1000))


@app.command()
def bench(
    source: Annotated[str | None, typer.Argument(help="As for `info`; without it, three robots people know.")] = None,
    base: Base = None,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    lock: Annotated[list[str] | None, typer.Option(help="A joint, or how joints begin, to hold at zero; may repeat.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="States in a batch.")] = 4096,
    seconds: Annotated[float, typer.Option(min=0.0, help="Seconds for each competitor in each race.")] = 1.0,
    as_json: Json = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables of the documentation instead.")] = False,
) -> None:
    """Measure the dynamics of a robot on one thread, against Pinocchio and MuJoCo where they are installed.

    Example: [bold]condyle bench ur3[/]

    Results are compared before they are timed, and the smallest of several times counts.
    """
    from condyle.commands import bench as measuring
    from condyle.commands import tables

    origins = measuring.standard() if source is None else [_origin(source, base, package_dir, arg, False, lock)]
    setting = measuring.Setting(batch, seconds, 1000 if seconds >= 0.1 else 20)
    numbers = measuring.measure(origins, setting, _console(130, stderr=as_json or as_markdown))
    if as_json or as_markdown:
        typer.echo(json.dumps(numbers, indent=2) if as_json else tables.markdown(numbers))


@app.command()
def export(
    source: Source,
    c: Annotated[Path, typer.Option("--c", help="The C file to write.")],
    kernel: Annotated[str, typer.Option(help="The function to export, as in condyle.dynamics.kernels.")] = "forward_dynamics",
    header: Annotated[Path | None, typer.Option(help="A header to write, too.")] = None,
    float32: Annotated[bool, typer.Option("--float32", help="In single precision.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,
    base: Base = None,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    lock: Annotated[list[str] | None, typer.Option(help="A joint, or how joints begin, to hold at zero; may repeat.")] = None,
) -> None:
    """Write a function of a robot as C99 without dependencies: the same bits as the compiled one.

    Example: [bold]condyle export ur3 --kernel forward_dynamics --c out/ur3.c --header out/ur3.h[/]
    """
    from condyle.commands.export import export as write_c

    robot = _origin(source, base, package_dir, arg, False, lock).load()
    for line in write_c(robot, kernel, c, header, single=float32, force=force):
        typer.echo(line)


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
