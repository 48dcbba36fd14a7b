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
Lock = Annotated[list[str] | None, typer.Option(help="A joint, or how joints begin, to hold at zero; may repeat.")]
Strict = Annotated[bool, typer.Option("--strict", help="What would be repaired is an error.")]
Json = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON instead.")]
Dt = Annotated[float, typer.Option(help="The time step, s.")]
Ground = Annotated[str | None, typer.Option(help="plane, none or slope:DEGREES; a plane if the base moves, else none.")]
Friction = Annotated[float, typer.Option(help="Coulomb's coefficient of the ground.")]
Contacts = Annotated[
    list[str] | None,
    typer.Option(help="A link, collision shape or frame that touches, * for any letters; may repeat. Feet if not given."),
]
Integrator = Annotated[str, typer.Option(help="As for `condyle.Simulation`: semi_implicit_euler, rk4, ...")]


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
    lock: Lock = None,
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
    lock: Lock = None,
) -> None:
    """Write a function of a robot as C99 without dependencies: the same bits as the compiled one.

    Example: [bold]condyle export ur3 --kernel forward_dynamics --c out/ur3.c --header out/ur3.h[/]
    """
    from condyle.commands.export import export as write_c

    robot = _origin(source, base, package_dir, arg, False, lock).load()
    for line in write_c(robot, kernel, c, header, single=float32, force=force):
        typer.echo(line)


@app.command()
def sim(
    source: Source,
    base: Base = None,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    lock: Lock = None,
    dt: Dt = 0.002,
    seconds: Annotated[float, typer.Option(help="How long to simulate, s.")] = 2.0,
    ground: Ground = None,
    friction: Friction = 0.8,
    contacts: Contacts = None,
    height: Annotated[float, typer.Option(help="How high the lowest contact is over the ground at first, m.")] = 0.0,
    joint: Annotated[
        list[str] | None, typer.Option(help="Where a joint is at first, NAME=VALUE, rad or m, * for any letters; may repeat.")
    ] = None,
    integrator: Integrator = "semi_implicit_euler",
    gain: Annotated[tuple[float, float] | None, typer.Option(help="P and D of motors that hold the first pose, N m/rad.")] = None,
    push: Annotated[
        tuple[float, float, float] | None,
        typer.Option(help="A force on the base for 0.1 s after a third of the time, world axes, N."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A file for the states and controls; Simulation.load reads it.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A PNG picture of height, forces, energy and joints.")] = None,
    as_json: Json = False,
) -> None:
    """Drop, hold or push a robot, and tell what happens.

    Example: [bold]condyle sim fourlimb --height 0.05 --gain 2000 50 --plot out/fourlimb.png[/]
    """
    from condyle.commands import sim as simulating
    from condyle.commands.scene import Scene

    origin = _origin(source, base, package_dir, arg, False, lock)
    scene = Scene(origin, dt, ground, friction, tuple(contacts or ()), integrator)
    if plot is not None and plot.suffix.lower() != ".png":
        raise CondyleError(f"--plot writes PNG pictures, and {plot.name} does not end in .png: try --plot {plot.stem}.png")
    done = simulating.run(scene, simulating.Plan(seconds, height, gain, push, tuple(joint or ())), _console(130, stderr=True))
    if out is not None:
        simulating.save(done, out)
    if plot is not None:
        from condyle.commands.plot import plot as draw

        draw(done, plot)
    if as_json:
        typer.echo(json.dumps(simulating.facts(done), indent=2, ensure_ascii=False))
    else:
        simulating.show(done, _console(130))


@app.command()
def gradcheck(
    source: Source,
    base: Base = None,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    lock: Lock = None,
    dt: Dt = 0.002,
    ground: Ground = None,
    friction: Friction = 0.8,
    contacts: Contacts = None,
    integrator: Integrator = "semi_implicit_euler",
    bits: Annotated[int, typer.Option(help="Digits of the numbers that are compared with.")] = 512,
    steps: Annotated[int, typer.Option(help="Steps of the rollout whose derivatives are checked; 0 for one step only.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the state and the directions.")] = 0,
    as_json: Json = False,
) -> None:
    """Compare every derivative of a robot in its world with differences in high precision.

    Example: [bold]condyle gradcheck pendulum --steps 20[/]

    The exit code is 1 if any error is above 1e-7 of the largest entry.
    """
    from condyle.commands import gradcheck as checking
    from condyle.commands.scene import Scene

    origin = _origin(source, base, package_dir, arg, False, lock)
    scene = Scene(origin, dt, ground, friction, tuple(contacts or ()), integrator)
    simulation, rows = checking.measure(scene, _console(130, stderr=True), bits=bits, steps=steps, seed=seed)
    found = checking.facts(simulation, rows, bits)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        checking.show(simulation, rows, bits, _console(130))
    if not found["passed"]:
        raise typer.Exit(1)


@app.command()
def verify(
    machine: Annotated[str, typer.Argument(help="wheeled-pendulum or two-wheeled.")],
    mistakes: Annotated[bool, typer.Option("--mistakes", help="Show what each usual mistake in the equations does.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out the million steps.")] = False,
    animate: Annotated[Path | None, typer.Option(help="Write a film of the run, .gif or .mp4.")] = None,
    as_json: Json = False,
) -> None:
    """Check everything that is known about a machine: its constraint, energy, forces, formulas and controller.

    Example: [bold]condyle verify wheeled-pendulum --animate out/wheeled_pendulum.gif[/]

    The exit code is 1 if any check fails.
    """
    from condyle.commands import verify as verifying

    if mistakes:
        if animate is not None or quick:
            raise CondyleError("--mistakes shows a table of its own, without --animate and --quick: leave one or the other out")
        wrong = verifying.mistakes(machine, _console(130, stderr=True))
        if as_json:
            typer.echo(json.dumps(verifying.mistake_facts(wrong), indent=2))
        else:
            verifying.show_mistakes(wrong, _console(130))
        return
    rows = verifying.verify(machine, _console(130, stderr=True), quick=quick, animate=animate)
    if as_json:
        typer.echo(json.dumps(verifying.facts(machine, rows), indent=2))
    else:
        verifying.show(machine, rows, _console(130))
    if not verifying.passed(rows):
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
