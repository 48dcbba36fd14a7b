"""The verbs that check and measure: doctor, verify, gradcheck, bench."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from condyle.commands import complete, options
from condyle.commands.app import CHECK, DIFFERENT, MEASURE, Stop, terminal, verb
from condyle.commands.options import (
    Arguments,
    Base,
    Contacts,
    Dt,
    Friction,
    Ground,
    Integrator,
    Json,
    Lock,
    PackageDirs,
    Source,
    Strict,
    origin,
    print_json,
)
from condyle.errors import CondyleError


@verb(CHECK, "condyle doctor my.urdf", "condyle doctor my.urdf --fix", "condyle doctor arm.urdf.xacro --arg hand:=true --json")
def doctor(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A URDF, xacro or MJCF file.", autocompletion=complete.robots)],
    fix: Annotated[bool, typer.Option("--fix", help="Write a corrected file next to it, my.fixed.urdf.")] = False,
    force: Annotated[bool, typer.Option("--force", help="With --fix, write over a file that is there.")] = False,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """What is wrong with a robot file, and how to cure it.

    Exit codes: 0 healthy; 1 doubts, or errors that --fix cured; 2 errors remain, or there is no such file.
    """
    from condyle.commands import doctor as healing
    from condyle.commands.source import arguments

    found = healing.examine(file, package_dir or (), dict(arguments(arg or [])), fix=fix, force=force, strict=strict)
    if as_json:
        print_json(healing.facts(found))
    else:
        healing.show(found, terminal())
    code = healing.exit_code(found)
    if code:
        raise Stop(code)


@verb(
    CHECK,
    "condyle verify wheeled-pendulum",
    "condyle verify pidog --quick --json",
    "condyle verify wheeled-pendulum --mistakes",
    "condyle verify two-wheeled --animate out/two_wheeled.gif",
)
def verify(
    machine: Annotated[str, typer.Argument(help="birotor, arm, wheeled-pendulum, ...", autocompletion=complete.machines)],
    mistakes: Annotated[bool, typer.Option("--mistakes", help="Show what each usual mistake in the equations does.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out what takes long.")] = False,
    animate: Annotated[Path | None, typer.Option(help="Write a video of the run, .gif or .mp4.")] = None,
    as_json: Json = False,
) -> None:
    """Everything known about a machine, checked.

    Its numbers, energy, forces, formulas and controller. The exit code is 1 if any check fails.
    """
    from condyle.commands import verify as verifying

    if mistakes:
        if animate is not None or quick:
            raise CondyleError("--mistakes shows a table of its own, without --animate and --quick: leave one or the other out")
        wrong = verifying.mistakes(machine, terminal(stderr=True))
        if as_json:
            print_json(verifying.mistake_facts(wrong))
        else:
            verifying.show_mistakes(wrong, terminal())
        return
    rows = verifying.verify(machine, terminal(stderr=True), quick=quick, animate=animate)
    if as_json:
        print_json(verifying.facts(machine, rows))
    else:
        verifying.show(machine, rows, terminal())
    if not verifying.passed(rows):
        raise Stop(DIFFERENT)


@verb(CHECK, "condyle gradcheck pendulum --steps 20", "condyle gradcheck my.urdf --json")
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
    """Every derivative of a robot, against high precision.

    Those of a step and a rollout, compared with differences. The exit code is 1 if any error is above 1e-7 of the
    largest entry. Needs the extra `precision`.
    """
    from condyle.commands import gradcheck as checking

    robot = origin(source, base, package_dir, arg, False, lock)
    scene = options.scene(robot, dt, ground, friction, contacts, integrator)
    simulation, rows = checking.measure(scene, terminal(stderr=True), bits=bits, steps=steps, seed=seed)
    found = checking.facts(simulation, rows, bits)
    if as_json:
        print_json(found)
    else:
        checking.show(simulation, rows, bits, terminal())
    if not found["passed"]:
        raise Stop(DIFFERENT)


@verb(MEASURE, "condyle bench ur3", "condyle bench --markdown", "condyle bench my.urdf --batch 1024 --json")
def bench(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[ROBOT]", help="As for `info`; without it, three robots people know.", autocompletion=complete.robots
        ),
    ] = None,
    base: Base = None,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    lock: Lock = None,
    batch: Annotated[int, typer.Option(min=1, help="States in a batch.")] = 4096,
    seconds: Annotated[float, typer.Option(min=0.0, help="Seconds for each competitor in each race.")] = 1.0,
    as_json: Json = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables of the documentation instead.")] = False,
) -> None:
    """The dynamics timed, against Pinocchio and MuJoCo.

    On one thread, with those that are installed. Results are compared before they are timed, and the smallest of several
    times counts.
    """
    from condyle.commands import bench as measuring
    from condyle.commands import tables

    origins = measuring.standard() if source is None else [origin(source, base, package_dir, arg, False, lock)]
    setting = measuring.Setting(batch, seconds, 1000 if seconds >= 0.1 else 20)
    numbers = measuring.measure(origins, setting, terminal(stderr=as_json or as_markdown))
    if as_json:
        print_json(numbers)
    elif as_markdown:
        typer.echo(tables.markdown(numbers))
