"""`condyle serve` and `condyle watch`: a simulation that another program controls, and a look at it while it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Column, Table

from condyle.commands import completion, options
from condyle.commands.app import FAILED, INTERRUPTED, command
from condyle.commands.controllers import Plan, posed
from condyle.commands.hints import shell_command
from condyle.commands.scene import Origin, Scene
from condyle.commands.terminal import progress, report, terminal
from condyle.commands.view import wait
from condyle.errors import CondyleError, ConnectError
from condyle.robot.names import nearest
from condyle.simulate.simulation import Simulation
from condyle.workbench.connect.external import ExternalControl
from condyle.workbench.connect.served_loop import served
from condyle.workbench.connect.shared_memory import SharedMemory
from condyle.workbench.connect.transport import LOCKSTEP, MODES, REALTIME, Transport
from condyle.workbench.runs.run import Run

DT, EVERY = 0.00025, 4  # 4 kHz physics, 1 kHz control
TRANSPORTS = ("shm", "websocket")
SUFFIX = ".cdl"
STANDARD_ERROR = 2  # file descriptor
link_option = partial(typer.Option, rich_help_panel="Connection")


@dataclass(frozen=True)
class Served:
    """What is served: options of ExternalControl, signals to send, the loop, its initial state and length, options of the run."""

    external: dict[str, Any]
    signals: tuple[str, ...]
    simulation: Simulation
    loop: Any
    x0: np.ndarray
    steps: int | None
    options: dict[str, Any]


@command(
    "condyle serve ur3 --seconds 5 -o run.cdl",
    "condyle serve my.urdf --transport websocket --mode realtime --command position",
    "condyle serve ur3 --signal gravity --view",
)
def serve(
    source: Annotated[
        str,
        options.robot_argument(metavar="ROBOT|EXPERIMENT", help="A robot, or an experiment, lab.toml, with controller external."),
    ],
    transport: Annotated[
        str, link_option(help="shm (shared memory) or websocket.", autocompletion=completion.one_of(*TRANSPORTS))
    ] = "shm",
    mode: Annotated[
        str,
        link_option(
            help="lockstep: the simulation waits for every command; realtime: by the clock, late commands are counted.",
            autocompletion=completion.one_of(*MODES),
        ),
    ] = LOCKSTEP,
    name: Annotated[str, link_option(help="Name of the shared memory, or its path.")] = "robot",
    port: Annotated[int, link_option(min=0, max=65535, help="Port of the WebSocket; if taken, the next free one.")] = 8765,
    token: Annotated[str, link_option(help="A text that clients of the WebSocket must give.")] = "",
    timeout: Annotated[float, link_option(help="Seconds that a command may take in lock-step.")] = 10.0,
    connect_time: Annotated[float, link_option("--wait", help="Seconds to wait for the program to connect.")] = 600.0,
    priority: Annotated[
        int, link_option(min=0, max=99, help="Real-time priority of the loop, 1 to 99, where the system allows it.")
    ] = 0,
    commanded: Annotated[
        str,
        options.control_option("--command", help="effort or position.", autocompletion=completion.one_of("effort", "position")),
    ] = "effort",
    every: Annotated[int, options.control_option(min=1, help="Ticks of a control period.")] = EVERY,
    signals: Annotated[
        list[str] | None,
        options.control_option("--signal", help="Also send this: gravity, or any signal of the loop; may repeat."),
    ] = None,
    wrench: Annotated[str, options.control_option(help="Also take the command wrench, six numbers, at this frame.")] = "",
    seconds: Annotated[float | None, typer.Option(help="Simulated time, s; by default until the program ends it.")] = None,
    joint: options.JointValues = None,
    height: options.Height = 0.0,
    dt: Annotated[float, options.world_option(help="Length of a tick, s.")] = DT,
    ground: options.Ground = None,
    friction: options.Friction = 0.8,
    contacts: options.Contacts = None,
    base: options.Base = None,
    package_dir: options.PackageDirs = None,
    arg: options.Arguments = None,
    seed: Annotated[int, options.control_option(min=0, help="Seed of all random numbers.")] = 0,
    out: Annotated[Path | None, options.out_option(help="Record the run in this file, .cdl.")] = None,
    show_it: Annotated[
        bool, options.output_option("--view", help="Also show the run in the browser, from another process.")
    ] = False,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Simulate a robot that another program controls.

    The program connects over shared memory or a WebSocket, in C, Python or any other language: docs/software_in_the_loop.md.
    """
    _check(transport, mode, seconds, dt, timeout, out, force=force)
    if Path(source).suffix == ".toml":
        found = _experiment(source)
    else:
        scene = Scene(Origin(source, base, package_dir, arg), dt, ground, friction, contacts)
        found = _robot(scene, Plan(joints=joint, height=height, seed=seed), commanded, wrench, seconds, every)
    link = _transport(transport, name, port, token)
    external = ExternalControl(
        found.loop,
        link,
        mode=mode,
        signals=[*found.signals, *(signals or ())],
        timeout=timeout,
        connect_time=connect_time,
        priority=priority,
        urdf=_urdf(source),
        **found.external,
    )
    run, error = _serve(external, found, out, name, show_it=show_it, force=force)
    report(facts(external, run), as_json, show)
    if error is not None:
        typer.echo(f"condyle: {error}", err=True)
        raise typer.Exit(FAILED)
    if external.ended == INTERRUPT:
        raise typer.Exit(INTERRUPTED)


INTERRUPT = "Ctrl-C was pressed in the simulation"


def _check(transport: str, mode: str, seconds: float | None, dt: float, timeout: float, out: Path | None, *, force: bool) -> None:
    """CondyleError for options that no run can have."""
    for option, value, known in (("--transport", transport, TRANSPORTS), ("--mode", mode, MODES)):
        if value not in known:
            raise CondyleError(f"{option} must be {' or '.join(known)}, got {value!r:.40}{nearest(value, list(known))}")
    for option, number in (("--seconds", 1.0 if seconds is None else seconds), ("--dt", dt), ("--timeout", timeout)):
        if not (isfinite(number) and number > 0.0):
            raise CondyleError(f"{option} must be above zero, got {number:g}: leave it out")
    if out is not None and out.suffix.lower() != SUFFIX:
        raise CondyleError(f"-o writes a run, and {out.name} does not end in {SUFFIX}: try -o {out.with_suffix(SUFFIX).name}")
    if out is not None and out.exists() and not force:
        raise CondyleError(f"{out} exists already: --force overwrites it, or choose another name")


def _robot(scene: Scene, plan: Plan, commanded: str, wrench: str, seconds: float | None, every: int) -> Served:
    """A robot whose joint forces or positions the program commands."""
    begun = posed(scene, plan)
    simulation = begun.simulation
    loop = served(simulation, simulation.state(begun.q), command=commanded, frame=wrench)
    steps = None if seconds is None else max(round(seconds / (every * simulation.dt)), 1) * every
    about = {"title": f"{simulation.robot.name}, external", "seed": plan.seed}
    return Served({"every": every}, (), simulation, loop, loop.state(begun.q), steps, about)


def _experiment(source: str) -> Served:
    """An experiment of the lab whose controller is external: the program gets its reference and what its sensors measure."""
    experiment = import_module("condyle.apps.lab.experiment").Experiment.read(source)
    setup = experiment.setup()
    if "u_external" not in setup.loop.inputs:
        raise CondyleError(f'{source}: its controller is {experiment.controller.name!r:.40}: write name = "external" to serve it')
    every = int(experiment.rates.control_ticks)
    # its rows are those of control periods
    rows = {"reference": np.repeat(setup.rows, every, axis=0)}
    measured = [name for name in ("sensors.position", "sensors.velocity") if name in setup.loop.plan.signals]
    options = {"seed": experiment.seed, "parameters": experiment.parameters, "about": {"experiment": experiment.data()}}
    options |= {"title": experiment.title or f"{experiment.arm.name}: external", "record": list(experiment.record)}
    given = {"command": "u_external", "references": rows, "every": every}
    return Served(given, ("reference", *measured), setup.simulation, setup.loop, setup.x0, setup.ticks, options)


def _transport(kind: str, name: str, port: int, token: str) -> Transport:
    if kind == "shm":
        return SharedMemory(name)
    from condyle.workbench.connect.websocket import WebSocket

    return WebSocket(port, token=token)


def _urdf(source: str) -> str | None:
    """The text of a URDF file; None for other robots."""
    path = Path(source)
    if path.suffix.lower() != ".urdf" or not path.is_file():
        return None
    return path.read_text(encoding="utf-8", errors="replace")


def _serve(
    external: ExternalControl, found: Served, out: Path | None, name: str, *, show_it: bool, force: bool
) -> tuple[Run | None, ConnectError | None]:
    """The run, and the error that ended it, if one did."""
    link, console = external.transport, terminal(stderr=True)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
    steps, total = found.steps, found.steps or 0
    with progress(console) as say, _interrupts(external), _shown(external, name, show_it=show_it) as monitors:
        say(f"{found.simulation.robot.name}: compiling", 0, 1)
        where = str(link.path) if isinstance(link, SharedMemory) else str(getattr(link, "url", ""))
        console.print(f"{found.simulation.robot.name} serves at {where}, {external.mode}; Ctrl-C ends it", highlight=False)
        every = max(round(0.1 / external.exchange.dt / external.every), 1) * external.every

        def moved(k: int) -> None:
            if k % every == 0:
                say(found.simulation.robot.name, k, total)

        try:
            run = external.run(found.x0, steps, out, overwrite=force, progress=moved, monitors=monitors, **found.options)
            return run, None
        except ConnectError as error:
            return external.runs[-1] if external.runs else None, error


@contextmanager
def _interrupts(external: ExternalControl) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the run after the present period."""

    def stop(number: int, _: Any) -> None:
        if external.requests.stopped:
            raise KeyboardInterrupt
        external.requests.stop(INTERRUPT)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _shown(external: ExternalControl, name: str, *, show_it: bool) -> Iterator[list[Any]]:
    """What publishes states for viewers; the viewer is a process that reads shared memory, so that nobody waits for it."""
    if not show_it:
        yield []
        return
    link = external.transport
    memory = link if isinstance(link, SharedMemory) else SharedMemory(f"{name}-watch-{os.getpid()}")
    arguments = [sys.executable, "-m", "condyle", "watch", str(memory.path), "--wait", "600"]
    # its address goes to the standard error, so that --json stays alone on the other
    viewer = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=STANDARD_ERROR)
    try:
        if memory is link:
            yield []
        else:
            memory.open(external.exchange, external.requests)
            yield [memory.publish]
    finally:
        if memory is not link:
            memory.close(external.ended or "the run is over")
        viewer.terminate()
        viewer.wait()


def facts(external: ExternalControl, run: Run | None) -> dict[str, Any]:
    """Everything that `show` prints, for JSON."""
    paced = external.mode == REALTIME
    found: dict[str, Any] = {"robot": external.exchange.robot, "mode": external.mode, "ended": external.ended}
    found |= {"period": external.exchange.period, "commands": {k: list(v) for k, v in external.exchange.commands.items()}}
    found |= {"signals": {k: list(v) for k, v in external.exchange.signals.items()}}
    found |= {"steps": 0 if run is None else run.steps, "seconds": 0.0 if run is None else float(run.t[-1])}
    found |= {"files": [str(each.path) for each in external.runs if each.path is not None]}
    return {**found, "pacing": external.pacing.summary() if paced else None}


def show(f: Mapping[str, Any], console: Console) -> None:
    """Print the result as a table, and commands to type next."""
    title = f"{f['robot']}, {f['mode']}: {f['steps']:,} steps, {f['seconds']:g} s"
    table = Table(Column(overflow="fold"), Column(justify="right"), title=title, title_justify="left", show_header=False)
    table.add_row("ended", f["ended"])
    table.add_row("control period", f"{1e3 * f['period']:g} ms")
    if (pacing := f["pacing"]) is not None:
        late = pacing["late"]
        table.add_row("late commands, the last one was held", f"{pacing['overruns']:,} of {pacing['periods']:,}")
        table.add_row("periods left out", f"{pacing['slips']:,}")
        table.add_row(
            "begin of a period, median, 99 %, latest, us", "  ".join(f"{1e6 * late[k]:.0f}" for k in ("median", "p99", "max"))
        )
    console.print(table)
    for file in f["files"]:
        console.print(
            f"{file} contains the run. Next:\n  {shell_command('replay', file, '--check')}", highlight=False, markup=False
        )


@command("condyle watch", "condyle watch robot --browser")
def watch(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Name or path of the shared memory that is served.")] = "robot",
    patience: Annotated[float, typer.Option("--wait", help="Seconds to wait for the simulation to begin.")] = 10.0,
    dark: options.Dark = False,
    browser: Annotated[bool, typer.Option("--browser", help="Also open the page in the browser.")] = False,
    seconds: Annotated[float | None, typer.Option(help="Exit after so many seconds; by default at Ctrl-C.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; if taken, the next free one is used.")] = 8080,
) -> None:
    """Watch a simulation that `condyle serve` runs, in the browser.

    It reads the shared memory of the simulation, which does not notice. Needs the extra `viewer`.
    """
    from time import monotonic, sleep

    from condyle.workbench.connect.watch import open_watch

    end = monotonic() + patience
    while True:
        try:
            window = open_watch(name, dark=dark, port=port)
            break
        except ConnectError:
            if monotonic() > end:
                raise
            sleep(0.1)
    wait(window, browser=browser, seconds=seconds)
