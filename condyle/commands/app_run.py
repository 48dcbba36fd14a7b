"""The verbs of runs: sim, replay, export, import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from condyle.commands import complete, options
from condyle.commands.app import DIFFERENT, INTERRUPTED, RUN, Stop, terminal, verb
from condyle.commands.options import (
    OUTPUT,
    WORLD,
    Arguments,
    Base,
    Contacts,
    Friction,
    Ground,
    Integrator,
    Json,
    Lock,
    PackageDirs,
    RunFile,
    Source,
    origin,
    print_json,
)
from condyle.commands.scene import Scene
from condyle.errors import CondyleError

CONTROL = "Control"
CODE = "C code of a robot"


@verb(
    RUN,
    "condyle sim my.urdf --controller swing -o run.cdl",
    "condyle sim pidog --controller walk --seconds 5 -o walk.cdl",
    "condyle sim fourlimb --height 0.05 --controller hold --push 300 0 0 --plot fall.png",
    "condyle sim ur3 --controller gravity --noise 1 --seed 7 --json",
)
def sim(
    source: Source,
    controller: Annotated[
        str | None,
        typer.Option(
            "--controller",
            "-c",
            help="none, hold, gravity, swing, noise; pidog: stand, walk, trot; birotor: hover; wheeled_pendulum: balance.",
            autocompletion=complete.controllers,
            rich_help_panel=CONTROL,
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long to simulate, s.")] = 2.0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Record the run in this file, .cdl; a folder that is missing is made.", rich_help_panel=OUTPUT
        ),
    ] = None,
    height: Annotated[float, typer.Option(help="How high the lowest contact is over the ground at first, m.")] = 0.0,
    joint: Annotated[
        list[str] | None,
        typer.Option(
            help="Where a joint is at first, NAME=VALUE, rad or m, * for any letters; may repeat.",
            autocompletion=complete.joint_values,
        ),
    ] = None,
    push: Annotated[
        tuple[float, float, float] | None,
        typer.Option(
            metavar="X Y Z",
            help="A force on the base, or an arm's tip, for 0.1 s after a third of the time, world axes, N.",
        ),
    ] = None,
    gain: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="P D",
            help="Of --controller hold, N m/rad and N m s/rad; from the robot if not given.",
            rich_help_panel=CONTROL,
        ),
    ] = None,
    noise: Annotated[
        float, typer.Option(help="Of what the controller sees; 1 is that of common sensors.", rich_help_panel=CONTROL)
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of all that is random.", rich_help_panel=CONTROL)] = 0,
    base: Base = None,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    lock: Lock = None,
    dt: Annotated[
        float | None, typer.Option(help="The time step, s; 0.002, or that of the controller.", rich_help_panel=WORLD)
    ] = None,
    ground: Ground = None,
    friction: Friction = 0.8,
    contacts: Contacts = None,
    integrator: Integrator = "semi_implicit_euler",
    plot: Annotated[Path | None, typer.Option(help="A picture of the run: .png, .svg or .pdf.", rich_help_panel=OUTPUT)] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.", rich_help_panel=OUTPUT)] = False,
    as_json: Json = False,
) -> None:
    """Simulate a robot, record the run, and tell what happens.

    Ctrl-C ends a run early and keeps what was recorded. A controller of your own: see condyle.Recorder.
    """
    from condyle.commands import sim as simulating
    from condyle.commands.controllers import Plan

    robot = origin(source, base, package_dir, arg, False, lock)
    scene = options.scene(robot, Scene.dt if dt is None else dt, ground, friction, contacts, integrator)
    plan = Plan(seconds, height, controller, gain, push, tuple(joint or ()), noise, seed, dt)
    if plot is not None:
        from condyle.runs.plot import check_suffix

        check_suffix(plot)
    done = simulating.simulate(scene, plan, terminal(stderr=True), out, force=force)
    if plot is not None:
        done.run.plot(plot)
    if as_json:
        print_json(simulating.facts(done))
    else:
        simulating.show(done, terminal())
    for note in done.notes:
        typer.echo(f"note: {note}", err=True)
    if done.interrupted:
        kept = "nothing was recorded: -o run.cdl keeps a run" if out is None else "which are kept"
        typer.echo(f"condyle: interrupted after {done.run.steps:,} steps, {kept}", err=True)
        raise Stop(INTERRUPTED)


@verb(RUN, "condyle replay run.cdl", "condyle replay run.cdl --check")
def replay(
    run: RunFile,
    check: Annotated[bool, typer.Option("--check", help="Compute every step again, and compare all bits.")] = False,
    as_json: Json = False,
) -> None:
    """What a run holds, and whether it repeats bit for bit.

    The exit code of --check is 0 if all steps of the file repeat bit for bit, also those of a run that was cut short, and 1 if
    one differs, which is named, or if the file was damaged or changed after it was recorded.
    """
    from condyle.commands import replay as replaying
    from condyle.runs.run import read_run

    done = read_run(run)
    compared = replaying.compare(done, terminal(stderr=True)) if check else None
    if as_json:
        print_json(replaying.facts(done, compared))
    else:
        replaying.show(done, compared, terminal())
    if compared is not None and not compared:
        raise Stop(DIFFERENT)


@verb(
    RUN,
    "condyle export run.cdl --csv",
    "condyle export run.cdl --csv --parquet --mcap",
    "condyle export run.cdl --csv -o table.csv",
    "condyle export ur3 --c ur3.c --header ur3.h --kernel forward_dynamics",
)
def export(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RUN|ROBOT", help="A run, or a robot for --c, as for `info`.", autocompletion=complete.robots_and_runs
        ),
    ],
    csv: Annotated[bool, typer.Option("--csv", help="A table as text, run.csv beside the run.")] = False,
    parquet: Annotated[bool, typer.Option("--parquet", help="A table as Parquet, run.parquet.")] = False,
    mcap: Annotated[bool, typer.Option("--mcap", help="A log for Foxglove and ROS tools, run.mcap.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file to write, where there is only one.")] = None,
    c: Annotated[Path | None, typer.Option("--c", help="The C file to write.", rich_help_panel=CODE)] = None,
    kernel: Annotated[
        str,
        typer.Option(help="The function, as in condyle.dynamics.kernels.", autocompletion=complete.kernels, rich_help_panel=CODE),
    ] = "forward_dynamics",
    header: Annotated[Path | None, typer.Option(help="A header to write, too.", rich_help_panel=CODE)] = None,
    float32: Annotated[bool, typer.Option("--float32", help="In single precision.", rich_help_panel=CODE)] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,
    base: Base = None,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    lock: Lock = None,
) -> None:
    """A run as CSV, Parquet or MCAP; a robot's function as C.

    Tables keep every bit, and `condyle import` makes them runs again. C is C99 without dependencies, with the same bits as
    the compiled function. Parquet and MCAP need the extra `export`.
    """
    from condyle.commands import export as exporting

    wanted = [kind for kind, asked in (("csv", csv), ("parquet", parquet), ("mcap", mcap)) if asked]
    if c is not None and (wanted or out is not None):
        raise CondyleError("--c is for robots, and --csv, --parquet, --mcap and -o are for runs: leave one or the other out")
    if c is not None:
        robot = origin(source, base, package_dir, arg, False, lock).load()
        lines = exporting.export(robot, kernel, c, header, single=float32, force=force)
    else:
        lines = exporting.export_run(source, wanted, out, force=force)
    for line in lines:
        typer.echo(line)


@verb(RUN, "condyle import run.csv -o again.cdl", "condyle import run.parquet -o again.cdl", name="import")
def import_(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="A .csv, .parquet or .mcap that `condyle export` wrote.", autocompletion=complete.tables
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The run to write, .cdl; beside the table if not given.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """An exported table made a run again, bit for bit.

    condyle replay --check tells whether it is.
    """
    from condyle.commands import export as exporting

    for line in exporting.import_run(Path(table), out, force=force):
        typer.echo(line)
