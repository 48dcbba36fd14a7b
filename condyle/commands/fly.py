"""`condyle fly`: an airframe in a scenario under a controller, as one body or as a multibody, with a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from condyle.atomic_write import write_bytes
from condyle.commands import completion, options
from condyle.commands.app import FAILED, INTERRUPTED, command
from condyle.commands.hints import shell_command
from condyle.commands.terminal import interrupts, progress, report, terminal
from condyle.errors import CondyleError, ControlError

if TYPE_CHECKING:
    from condyle.apps.flight.report import Flown

SCENARIOS = "condyle.apps.flight.scenarios"
SUFFIX = ".cdl"


@command(
    "condyle fly birotor --scenario circle -o run.cdl",
    "condyle fly birotor --scenario attitude --compare --report flight.html",
    "condyle fly quadrotor --scenario gust --controller indi --noise 1 --seed 7 --json",
    "condyle fly birotor --scenario land --wind 2 0 0 --realtime",
)
def fly(
    airframe: Annotated[
        str,
        options.robot_argument(
            metavar="AIRFRAME", help="birotor, trirotor, quadrotor, hexarotor, or a URDF or xacro file with thrust frames."
        ),
    ],
    scenario: Annotated[
        str,
        typer.Option(
            "--scenario",
            "-s",
            help="hover, circle, attitude, aggressive, gust, land or takeoff.",
            autocompletion=completion.names_in(SCENARIOS, "SCENARIOS"),
        ),
    ] = "hover",
    model: Annotated[
        str, typer.Option(help="multibody, or single: one body whose thrusts tilt, as the controller sees it.")
    ] = "multibody",
    controller: Annotated[str, options.control_option("--controller", "-c", help="nmpc, geometric or indi.")] = "nmpc",
    compare: Annotated[bool, typer.Option("--compare", help="Fly both models, and report them side by side.")] = False,
    seconds: Annotated[float | None, typer.Option(help="Duration, s; by default that of the scenario.")] = None,
    noise: Annotated[float, options.control_option(help="Noise of the measured state; 1 is that of usual sensors.")] = 0.0,
    seed: Annotated[int, options.control_option(min=0, help="Seed of all random numbers.")] = 0,
    wind: Annotated[tuple[float, float, float], options.world_option(metavar="X Y Z", help="Constant wind, world axes, m/s.")] = (
        0.0,
        0.0,
        0.0,
    ),
    gust: Annotated[
        float | None, options.world_option(help="Gusts along x with this peak, m/s; by default those of the scenario.")
    ] = None,
    weak_rotor: Annotated[
        float, options.world_option(min=0.0, max=1.0, help="The first rotor gives this part of its thrust, such as 0.7.")
    ] = 1.0,
    dt: Annotated[float, options.world_option(help="Time step, s; 0.01 by a whole number.")] = 0.005,
    realtime: Annotated[
        bool, typer.Option("--realtime", help="Pace by the wall clock, and count commands that are late.")
    ] = False,
    out: Annotated[
        Path | None, options.out_option(help="Record the run in this file, .cdl; with --compare also NAME-single.cdl.")
    ] = None,
    page: Annotated[Path | None, options.output_option("--report", help="Write a report page, .html.")] = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Fly an airframe in a scenario, and report how.

    The report has joint torques and velocities, energies, power, centre of mass, thrusts, gimbals, tracking error, solver times.
    """
    from condyle.apps.flight.report import Flown
    from condyle.apps.flight.report import page as report_page
    from condyle.apps.flight.scenarios import Flight

    _check_files(out, page, force)
    models = ("multibody", "single") if compare else (model,)
    named: dict[str, Any] = {"scenario": scenario, "controller": controller, "dt": dt, "seconds": seconds, "noise": noise}
    flights = [Flight(airframe, model=each, wind=wind, gust=gust, seed=seed, **named) for each in models]
    if weak_rotor < 1.0:
        factors = (weak_rotor, *[1.0] * (flights[0].airframe.n - 1))
        flights = [replace(each, thrust_factor=factors) for each in flights]
    flown: list[Flown] = []
    with progress(terminal(stderr=True)) as say, interrupts() as interrupted:
        for flight in flights:
            say(f"{flight.airframe.name}, {flight.model}: compiling", 0, 1)
            file = out if out is None or flight is flights[0] else out.with_name(f"{out.stem}-{flight.model}{SUFFIX}")
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
            try:
                run, pace = flight.record(file, overwrite=force, realtime=realtime, progress=say, stopped=interrupted)
            except ControlError as error:
                text = str(error).replace(", or pass freeze=True to leave such robots as they are", "")
                raise ControlError(f"{flight.airframe.name}, {flight.model}: {text}") from error
            if interrupted():
                break
            flown.append(Flown.of(flight, run, pace))
        if page is not None and flown and not interrupted():
            say("writing the report", 0, 1)
            page.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(page, report_page(flown).encode())
        if interrupted():
            typer.echo("condyle: interrupted" + (f"; {out} has what was flown" if out else ""), err=True)
            raise typer.Exit(INTERRUPTED)
    report(facts(flown, page, realtime), as_json, show)
    lost = {each.flight.model: each.diverged for each in flown if each.diverged}
    for name, how in lost.items():
        advice = "try another controller, less wind, or a scenario that asks for less"
        typer.echo(f"condyle: {flights[0].airframe.name}, {name}: the flight diverged: {how}; {advice}", err=True)
    if lost:
        raise typer.Exit(FAILED)


def _check_files(out: Path | None, page: Path | None, force: bool) -> None:
    for option, path, suffix in (("-o", out, SUFFIX), ("--report", page, ".html")):
        if path is not None and path.suffix.lower() != suffix:
            raise CondyleError(
                f"{option} writes a file that ends in {suffix}, got {path.name}: try {path.with_suffix(suffix).name}"
            )
        if path is not None and path.exists() and not force:
            raise CondyleError(f"{path} exists already: --force overwrites it, or choose another name")


def facts(flown: list[Flown], page: Path | None, realtime: bool) -> dict[str, Any]:
    """Everything that `show` prints, for JSON."""
    flight = flown[0].flight
    return {
        "airframe": flight.airframe.name,
        "scenario": flight.scenario,
        "controller": flight.controller,
        "seconds": flown[0].run.seconds,
        "dt": flight.dt,
        "steps": flown[0].run.steps,
        "noise": flight.noise,
        "seed": flight.seed,
        "report": None if page is None else str(page),
        "models": {
            each.flight.model: {
                **each.results(),
                "diverged": each.diverged or None,
                "file": None if each.run.path is None else str(each.run.path),
                "sha256": each.run.hash,
                "real_time_factor": each.run.seconds / each.pace.wall,
                "overruns": each.pace.overruns if realtime else None,
                "latest": each.pace.latest if realtime else None,
            }
            for each in flown
        },
    }


def show(f: dict[str, Any], console: Console) -> None:
    """Print the results as a table, and commands to type next."""
    from condyle.apps.flight.report import LABELS, shown

    models = f["models"]
    title = f"{f['airframe']}, {f['scenario']}, {f['controller']}: {f['seconds']:g} s in {f['steps']:,} steps"
    table = Table(
        Column("", overflow="fold"), *[Column(name, justify="right") for name in models], title=title, title_justify="left"
    )
    for name, (label, _, _) in LABELS.items():
        if all(name in each for each in models.values()) and any(each[name] is not None for each in models.values()):
            table.add_row(label, *[shown(name, each[name]) for each in models.values()])
    table.add_row("times as fast as real time", *[f"{each['real_time_factor']:.1f}" for each in models.values()])
    if all(each["overruns"] is not None for each in models.values()):
        late = [f"{each['overruns']}, at most {1e3 * each['latest']:.1f} ms" for each in models.values()]
        table.add_row("commands that were late", *late)
    console.print(table)
    files = [each["file"] for each in models.values() if each["file"]]
    lines = [shell_command("view", *files), shell_command("replay", files[0], "--check")] if files else []
    if f["report"]:
        lines.append(f"open {f['report']} in a browser")
    if lines:
        console.print("\n  ".join(["Next:", *lines]), highlight=False, markup=False, soft_wrap=True)
