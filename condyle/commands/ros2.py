"""`condyle ros2`: simulate a robot on topics of ROS 2, in real time or in lock-step with a controller."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from condyle.commands import options
from condyle.commands.app import INTERRUPTED, command
from condyle.commands.hints import shell_command
from condyle.commands.scene import Origin, Scene, initial_configuration, place_on_ground
from condyle.commands.terminal import progress, report, terminal
from condyle.errors import CondyleError

if TYPE_CHECKING:
    from condyle.workbench.connect.external import ExternalControl

SUFFIX = ".cdl"
MOST_STEPS = 10_000_000


@command(
    "condyle ros2 ur3",
    "condyle ros2 my.urdf --lockstep --rate 1000 --dt 0.001 -o run.cdl",
    "condyle ros2 panda --domain 7 --interface eth0 --seconds 60",
)
def ros2(
    source: options.Source,
    seconds: Annotated[float, typer.Option(help="Duration of the simulation, s.")] = 600.0,
    rate: Annotated[float | None, typer.Option(help="States per second of simulated time; by default one at every step.")] = None,
    lockstep: Annotated[
        bool, options.control_option("--lockstep", help="Wait for a command after every state, in place of running in real time.")
    ] = False,
    timeout: Annotated[float, options.control_option(help="Time that a command may take with --lockstep, s.")] = 10.0,
    connect_time: Annotated[float, options.control_option(help="Time until a first command with --lockstep, s.")] = 60.0,
    frame: Annotated[
        str | None, options.control_option(help="Frame of /wrench and /apply_wrench; by default the tip of an arm.")
    ] = None,
    name: Annotated[str, options.control_option(help="Name of the node.")] = "condyle",
    namespace: Annotated[
        str, options.control_option(help="Comes before all names but /clock, /tf and /tf_static, as in /left.")
    ] = "",
    domain: Annotated[int | None, options.control_option(help="DDS domain, 0 to 101; by default ROS_DOMAIN_ID, or 0.")] = None,
    interface: Annotated[
        str,
        options.control_option(
            help="Network interface; lo keeps all traffic on this computer, environment leaves it to CYCLONEDDS_URI."
        ),
    ] = "lo",
    out: Annotated[Path | None, options.out_option(help="Record the run in this file, .cdl.")] = None,
    bag: Annotated[Path | None, options.output_option(help="Also write a bag of ROS 2, this folder, at the end.")] = None,
    height: options.Height = 0.0,
    joint: options.JointValues = None,
    base: options.Base = None,
    package_dir: options.PackageDirs = None,
    arg: options.Arguments = None,
    lock: options.Lock = None,
    dt: options.Dt = None,
    ground: options.Ground = None,
    friction: options.Friction = 0.8,
    contacts: options.Contacts = None,
    integrator: options.Integrator = "semi_implicit_euler",
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Simulate a robot on topics of ROS 2, without a ROS installation.

    /joint_states, /clock, /tf, /tf_static, /robot_description and /wrench go out; /effort_controller/commands,
    /position_controller/commands, /joint_commands, /joint_trajectory_controller/joint_trajectory and /apply_wrench come in;
    services reset and pause. All are those of ROS 2 Jazzy. Until a first command the robot holds its position. Ctrl-C ends it
    and keeps what was recorded. Needs the extra `ros2`.
    """
    from condyle.workbench.connect.ros2_bridge import ros2_control
    from condyle.workbench.connect.ros2_wire import domain_of

    _check_files(out, bag, force)
    console = terminal(stderr=True)
    with progress(console) as say:
        say(f"{source}: compiling", 0, 1)
        origin = Origin(source, base, package_dir, arg, lock)
        scene = Scene(origin, dt, ground, friction, contacts, integrator)
        simulation = scene.simulation()
        every, steps = _ticks(seconds, rate, simulation.dt)
        text = Path(source).read_text(encoding="utf-8") if Path(source).suffix == ".urdf" and not lock else None
        control = ros2_control(
            simulation,
            mode="lockstep" if lockstep else "realtime",
            every=every,
            frame=frame,
            timeout=timeout,
            connect_time=connect_time,
            name=name,
            namespace=namespace,
            domain=domain,
            interface=interface,
            description=text,
        )
        q = place_on_ground(simulation, initial_configuration(simulation.robot, joint or ()), height)
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
        where = f"domain {domain_of(domain)}, interface {interface}"
        typer.echo(f"node /{name} of ROS 2 in {where}: {'waits for commands' if lockstep else 'runs'}; Ctrl-C ends it", err=True)
        begin, interrupted = perf_counter(), False
        try:
            control.run(
                control.loop.state(q),
                steps,
                out,
                title=f"{simulation.robot.name} on ROS 2",
                overwrite=force,
                progress=lambda tick: say(source, tick, steps) if tick % (64 * every) == 0 else None,
            )
        except KeyboardInterrupt:
            interrupted = True
        wall = perf_counter() - begin
    report(facts(control, wall, bag, force), as_json, show)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def facts(control: ExternalControl, wall: float, bag: Path | None, force: bool) -> dict[str, Any]:
    """What happened, for JSON; the bag is written."""
    from condyle.workbench.connect.ros2_bridge import Ros2Bridge
    from condyle.workbench.runs.bags import write_bag

    bridge = control.transport
    assert isinstance(bridge, Ros2Bridge)
    run = control.runs[-1] if control.runs else None
    if bag is not None and run is not None:
        write_bag(run, bag, description=bridge.description, overwrite=force)
    return {
        "robot": control.exchange.robot,
        "mode": control.mode,
        "steps": 0 if run is None else run.steps,
        "runs": len(control.runs),
        "file": None if run is None or run.path is None else str(run.path),
        "bag": None if bag is None or run is None else str(bag),
        "states": bridge.sent,
        "commands": bridge.received,
        "rejected": bridge.rejections,
        "reasons": bridge.rejected,
        "seconds": 0.0 if run is None else run.seconds,
        "wall_seconds": wall,
        "pacing": control.pacing.summary() if control.mode == "realtime" else None,
        "ended": control.ended,
    }


def show(f: dict[str, Any], console: Console) -> None:
    """Print the result as a table, and commands to type next."""
    table = Table(
        title=f"{f['robot']} on ROS 2, {f['mode']}: {f['ended'] or 'interrupted'}", title_justify="left", show_header=False
    )
    table.add_row("simulated, s", f"{f['seconds']:g}, in {f['wall_seconds']:.2f} s")
    table.add_row("states sent, commands received", f"{f['states']:,}, {f['commands']:,}")
    if f["rejected"]:
        table.add_row("messages ignored", f"{f['rejected']:,}: {f['reasons'][-1]}")
    if f["runs"] > 1:
        table.add_row("runs, one more after each reset", f"{f['runs']}")
    if f["pacing"]:
        table.add_row("periods left out, of all", f"{f['pacing']['slips']:,} of {f['pacing']['periods']:,}")
    console.print(table)
    next_ = [] if f["file"] is None else [shell_command("view", f["file"]), shell_command("replay", f["file"], "--check")]
    next_ += [] if f["bag"] is None else [f"ros2 bag play {f['bag']}"]
    if next_:
        console.print("\n  ".join(["Next:", *next_]), highlight=False, markup=False, soft_wrap=True)


def _ticks(seconds: float, rate: float | None, dt: float) -> tuple[int, int]:
    """(steps from one state to the next, steps of the run); a CondyleError for numbers that are out of range."""
    if rate is not None and not (isfinite(rate) and 0.0 < rate <= 1.000001 / dt):
        raise CondyleError(
            f"--rate must be above zero and at most {1.0 / dt:g} Hz, one state at each step of {dt:g} s; got {rate:g}"
        )
    every = 1 if rate is None else round(1.0 / (rate * dt))
    periods = round(min(seconds / (dt * every), 1e15)) if isfinite(seconds) else 0
    if not 1 <= periods * every <= MOST_STEPS:
        raise CondyleError(f"--seconds {seconds:g} at --dt {dt:g} are {periods * every:,} steps; give from 1 to {MOST_STEPS:,}")
    return every, periods * every


def _check_files(out: Path | None, bag: Path | None, force: bool) -> None:
    if out is not None and out.suffix.lower() != SUFFIX:
        raise CondyleError(f"-o writes a run, and {out.name} does not end in {SUFFIX}: try -o {out.with_suffix(SUFFIX).name}")
    for path in (out, bag):
        if path is not None and path.exists() and not force:
            raise CondyleError(f"{path} exists already: --force overwrites it, or choose another name")
