"""`condyle sim`: simulate a robot, record the run, and print its result."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Column, Table

from condyle.apps.demos.checks import next_rows
from condyle.commands import options
from condyle.commands.app import INTERRUPTED, command
from condyle.commands.controllers import CONTROLLERS, Plan, loop_of, start
from condyle.commands.hints import contact_hints, file_hints, ground_hints, shell_command
from condyle.commands.scene import Origin, Scene, base_frames, joint_indices
from condyle.commands.terminal import interrupts, progress, report, terminal
from condyle.errors import CondyleError, ControlError, SimulationError
from condyle.methods.control.stance import stance
from condyle.robot.report import not_simulated
from condyle.simulate.simulation_warnings import long_step
from condyle.workbench.runs.file import BLOCK
from condyle.workbench.runs.recorder import Recorder
from condyle.workbench.runs.run import Run

MOST_STEPS = 10_000_000
SHOWN = 12  # contacts, and bodies, in the table
SUFFIX = ".cdl"
FREEZE = ", or pass freeze=True to leave such robots as they are"  # advice for programs, not for a command line


def complete_controllers(incomplete: str) -> list[tuple[str, str]]:
    """The controllers, for the shell."""
    return [(name, choice.summary) for name, choice in CONTROLLERS.items() if name.startswith(incomplete)]


@command(
    "condyle sim my.urdf --controller swing -o run.cdl",
    "condyle sim pidog --controller walk --seconds 5 -o walk.cdl",
    "condyle sim fourlimb --height 0.05 --controller hold --push 300 0 0 --plot fall.png",
    "condyle sim ur3 --controller gravity --noise 1 --seed 7 --json",
)
def sim(
    source: options.Source,
    controller: Annotated[
        str | None,
        options.control_option(
            "--controller",
            "-c",
            help="stance (the default of a robot file with motors), none, hold, gravity, swing, noise; pidog: stand, walk, trot; "
            "birotor: hover; wheeled_pendulum: balance.",
            autocompletion=complete_controllers,
        ),
    ] = None,
    passive: Annotated[bool, options.control_option("--passive", help="No torques: the same as --controller none.")] = False,
    keyframe: Annotated[
        str | None,
        options.control_option(help="Begin with this pose of the robot's file; by default home, stand or the first one."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Duration of the simulation, s.")] = 2.0,
    out: Annotated[
        Path | None, options.out_option(help="Record the run in this file, .cdl; missing folders are created.")
    ] = None,
    height: options.Height = 0.0,
    joint: options.JointValues = None,
    push: Annotated[
        tuple[float, float, float] | None,
        options.control_option(
            metavar="X Y Z",
            help="Apply a force to the base, or to an arm's tip, for 0.1 s after a third of the time; world axes, N.",
        ),
    ] = None,
    gain: Annotated[
        tuple[float, float] | None,
        options.control_option(
            metavar="P D",
            help="Gains of --controller hold, N m/rad and N m s/rad; by default computed from the robot's inertia.",
        ),
    ] = None,
    noise: Annotated[float, options.control_option(help="Noise of the state that the controller measures; 1 is typical.")] = 0.0,
    seed: Annotated[int, options.control_option(min=0, help="Seed of all random numbers.")] = 0,
    base: options.Base = None,
    package_dir: options.PackageDirs = None,
    arg: options.Arguments = None,
    lock: options.Lock = None,
    dt: Annotated[
        float | None, options.world_option(help="Time step, s; by default that of the file or the controller, else 0.002.")
    ] = None,
    ground: options.Ground = None,
    friction: options.Friction = 0.8,
    contacts: options.Contacts = None,
    integrator: options.Integrator = "semi_implicit_euler",
    plot: Annotated[Path | None, options.output_option(help="Also plot the run: .png, .svg or .pdf.")] = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Simulate a robot, record the run, and print its result.

    Ctrl-C ends a run early and keeps what was recorded. For a controller of your own see condyle.Recorder.
    """
    of = Origin(source, base, package_dir, arg, lock)
    scene = Scene(of, dt, ground, friction, contacts, integrator)
    if passive and (controller not in (None, "none") or gain is not None):
        raise CondyleError("--passive lets the robot fall, without a controller: leave --controller and --gain out")
    plan = Plan(seconds, height, "none" if passive else controller, gain, push, joint, noise, seed, dt, keyframe)
    if plot is not None:
        from condyle.workbench.runs.plot import check_suffix

        check_suffix(plot)
    done = simulate(scene, plan, terminal(stderr=True), out, force=force)
    if plot is not None:
        done.run.plot(plot)
    report(facts(done), as_json, show)
    for hint in done.hints:
        typer.echo(f"note: {hint}", err=True)
    if done.interrupted:
        kept = "nothing was recorded: -o run.cdl keeps a run" if out is None else "which are kept"
        typer.echo(f"condyle: interrupted after {done.run.steps:,} steps, {kept}", err=True)
        raise typer.Exit(INTERRUPTED)


@dataclass(frozen=True)
class Outcome:
    """A run, the largest residual of its steps, the seconds it took, whether it was interrupted, and hints."""

    run: Run
    residual: float
    wall: float
    interrupted: bool = False
    hints: tuple[str, ...] = ()


def simulate(scene: Scene, plan: Plan, console: Console, out: Path | None = None, *, force: bool = False) -> Outcome:
    """The recorded run; Ctrl-C ends it early and keeps what was recorded."""
    if out is not None and out.suffix.lower() != SUFFIX:
        raise CondyleError(f"-o writes a run, and {out.name} does not end in {SUFFIX}: try -o {out.with_suffix(SUFFIX).name}")
    if out is not None and out.exists() and not force:
        raise CondyleError(f"{out} exists already: --force overwrites it, or choose another name")
    _check_numbers(scene, plan)
    name, residual = scene.origin.source, 0.0
    with progress(console) as say, interrupts() as interrupted:
        say(f"{name}: compiling", 0, 1)
        plan = plan.with_controller(scene.origin)
        begun = start(scene, plan)
        simulation, references = begun.simulation, begun.references
        steps = _steps(plan.seconds, simulation.dt)
        loop = loop_of(begun, plan, steps)
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
        about: dict[str, Any] = {"push": list(plan.push) if plan.push else None, "noise": plan.noise}
        if plan.named == "stance":
            about["stance"] = stance(simulation, q=begun.q).summary
        named: dict[str, Any] = {"title": f"{simulation.robot.name}: {plan.named}", "controller": plan.named, "about": about}
        record = ["measured.q", "measured.v"] if plan.noise else []
        with Recorder(loop, loop.state(begun.q), out, seed=plan.seed, record=record, overwrite=force, **named) as recorder:
            recorder.compile({name: np.zeros(size) for name, size in loop.inputs.items()})
            say(name, 0, steps)
            clock = perf_counter()
            try:
                while recorder.k < steps and not interrupted():
                    count = min(BLOCK, steps - recorder.k)
                    recorder.rollout(next_rows(references, count), count)
                    residual = max(residual, float(loop.status.residual) if loop.status else 0.0)
                    say(name, recorder.k, steps)
            except ControlError as error:
                kept = f"; the {recorder.k:,} steps before are in {out}" if out is not None else ""
                text = str(error).replace(FREEZE, "").replace("gains and dt", "gains and --dt")
                raise SimulationError(f"after {recorder.k * simulation.dt:g} s: {text}{kept}") from error
            wall = perf_counter() - clock
        run = recorder.finish()
        hints = (*file_hints(scene.origin).sentences, *contact_hints(simulation), *ground_hints(run.simulation, run.x[-1]))
        return Outcome(run, residual, wall, interrupted(), hints)


def _check_numbers(scene: Scene, plan: Plan) -> None:
    """CondyleError for numbers that are not finite or out of range."""
    dt = scene.dt if plan.dt is None else plan.dt
    numbers = {"--seconds": (plan.seconds, 2), "--height": (plan.height, 0.1), "--noise": (plan.noise, 1)}
    if dt is not None:
        numbers["--dt"] = dt, 0.001
    for option, (value, usual) in numbers.items():
        if not isfinite(value):
            raise CondyleError(f"{option} must be a finite number, got {value:g}: leave it out, or try {option} {usual:g}")
    if plan.push is not None and not all(map(isfinite, plan.push)):
        raise CondyleError(f"--push must be three finite numbers, got {plan.push}: try --push 10 0 0")
    if dt is not None and dt <= 0.0:
        raise CondyleError(f"--dt must be above zero, got {dt:g}: leave it out, or try --dt 0.001")
    if plan.seconds < 0.0:
        raise CondyleError(f"--seconds must be above zero, got {plan.seconds:g}: try --seconds 2")
    if dt is not None:
        _steps(plan.seconds, dt)


def _steps(seconds: float, dt: float) -> int:
    steps = round(min(seconds / dt, 1e15))
    if not 1 <= steps <= MOST_STEPS:
        raise CondyleError(f"--seconds {seconds:g} at --dt {dt:g} are {steps:,} steps; give from 1 to {MOST_STEPS:,}")
    return steps


def facts(done: Outcome) -> dict[str, Any]:
    """Everything that `show` prints, for JSON."""
    run = done.run
    simulation, robot = run.simulation, run.simulation.robot
    q, v = simulation.split(run.x[-1])
    frames = base_frames(robot)
    poses = {frame: robot.frame_pose(q, frame) for frame in frames}
    seconds = float(run.t[-1])
    energy = np.asarray(simulation.energy(run.x[[0, -1]]))
    forces = run.contact_forces[-1]
    return {
        "robot": robot.name,
        "controller": run.about.get("controller"),
        "stance": run.about.get("stance"),
        "file": None if run.path is None else str(run.path),
        "seconds": seconds,
        "dt": simulation.dt,
        "steps": run.steps,
        "interrupted": done.interrupted,
        "integrator": simulation.integrator,
        "base": {
            "fixed": not robot.model.base_coordinates,
            **_place(frames[0], *poses[frames[0]]),
        },
        "other_bodies": [_place(frame, *poses[frame]) for frame in frames[1:]],
        "joints": {name: float(q[i]) for name, i in joint_indices(robot).items()},
        "speed": float(np.abs(v).max()),
        "energy": {"first": float(energy[0]), "last": float(energy[1])},
        "contacts": {name: forces[k].tolist() for k, name in enumerate(simulation.contact_names)},
        "weight": simulation.weight,
        "largest_residual": done.residual,
        "real_time_factor": seconds / done.wall,
        "notes": [*done.hints, *long_step(simulation.dt), *not_simulated(robot.model.notes)],
    }


def _place(frame: str, R: np.ndarray, p: np.ndarray) -> dict[str, Any]:
    """Where a body is."""
    return {"frame": frame, "position": p.tolist(), "roll_pitch_yaw": _angles(R).tolist()}


def _angles(R: np.ndarray) -> np.ndarray:
    """Roll, pitch, yaw of R = Rz(yaw) Ry(pitch) Rx(roll)."""
    return np.array([np.arctan2(R[2, 1], R[2, 2]), -np.arcsin(np.clip(R[2, 0], -1.0, 1.0)), np.arctan2(R[1, 0], R[0, 0])])


def show(f: dict[str, Any], console: Console) -> None:
    """Print the result as a table, and commands to type next."""
    title = f"{f['robot']} after {f['seconds']:g} s: {f['steps']:,} steps of {f['dt'] * 1e3:g} ms, controller {f['controller']}"
    columns = Column(overflow="fold"), Column(justify="right")
    table = Table(*columns, title=title, title_justify="left", show_header=False)
    if f["stance"]:
        table.add_row("stance", f["stance"])
    if f["base"]["fixed"]:
        table.add_row("base", "fixed")
    bodies = [f["base"], *f["other_bodies"]]
    for body in bodies[:SHOWN]:
        x, y, z = body["position"]
        roll, pitch, yaw = np.degrees(body["roll_pitch_yaw"])
        table.add_row(f"{body['frame']}, m", f"x {x:.4f}  y {y:.4f}  z {z:.4f}")
        table.add_row("roll, pitch, yaw, degrees", f"{roll:.2f}  {pitch:.2f}  {yaw:.2f}")
    if len(bodies) > SHOWN:
        table.add_row(f"and {len(bodies) - SHOWN} more bodies", "--json lists all")
    table.add_row("largest velocity, m/s or rad/s", f"{f['speed']:.2e}")
    table.add_row("energy, first and last, J", f"{f['energy']['first']:.4f}  {f['energy']['last']:.4f}")
    if f["contacts"]:
        total = sum(force[2] for force in f["contacts"].values())
        table.add_row("upward contact force, N, and weight", f"{total:.3f}  {f['weight']:.3f}")
    # contacts with a force
    pressed = [(name, force) for name, force in f["contacts"].items() if np.linalg.norm(force) > 1e-6 * f["weight"]]
    for name, force in pressed[:SHOWN]:
        table.add_row(f"  {name}", "  ".join(f"{x:.3f}" for x in force))
    if len(pressed) > SHOWN:
        table.add_row(f"  and {len(pressed) - SHOWN} more", "--json lists all")
    table.add_row("largest residual", f"{f['largest_residual']:.1e}")
    table.add_row("times as fast as real time", f"{f['real_time_factor']:.1f}")
    console.print(table)
    if (name := f["file"]) is not None:
        next_ = [shell_command("view", name), shell_command("plot", name), shell_command("replay", name, "--check")]
        lines = [f"{name} contains the run. Next:", *next_]
        console.print("\n  ".join(lines), highlight=False, markup=False, soft_wrap=True)
