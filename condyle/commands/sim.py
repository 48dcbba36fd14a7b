"""A robot simulated and recorded: what happens, as a run, a table and plain data."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from threading import current_thread, main_thread
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from condyle.commands.bar import bar
from condyle.commands.controllers import Plan, begin
from condyle.commands.notes import about_step, command, examined, sunk
from condyle.commands.scene import Scene, base_frame, named_joints
from condyle.errors import CondyleError, SimulationError
from condyle.runs.recorder import Recorder
from condyle.runs.run import Run

MOST_STEPS = 10_000_000
PUSH = 0.1  # seconds that a push lasts
SHOWN = 12  # contacts in the table
SUFFIX = ".cdl"
FREEZE = ", or freeze=True to leave such states as they are"  # a cure for programs, not for a command line


@dataclass(frozen=True)
class Outcome:
    """A run, the largest residual of its steps, the seconds it took, whether it was interrupted, and what is worth a word."""

    run: Run
    residual: float
    wall: float
    interrupted: bool = False
    notes: tuple[str, ...] = ()


def simulate(scene: Scene, plan: Plan, console: Console, out: Path | None = None, *, force: bool = False) -> Outcome:
    """Simulate and record, with a bar that shows how far; Ctrl-C ends the run and keeps what was recorded."""
    if out is not None and out.suffix.lower() != SUFFIX:
        raise CondyleError(f"-o writes a run, and {out.name} does not end in {SUFFIX}: try -o {out.with_suffix(SUFFIX).name}")
    if out is not None and out.exists() and not force:
        raise CondyleError(f"{out} is there already: --force writes over it, or choose another name")
    _check_numbers(scene, plan)
    name, residual, wall = scene.origin.source, 0.0, 0.0
    with bar(console) as say, _interrupts() as interrupted:
        say(f"{name}: compiling", 0, 1)
        start = begin(scene, plan)
        simulation, control = start.simulation, start.control
        steps = _steps(plan.seconds, simulation.dt)
        push = _pushing(start.wrenches, len(simulation.wrench_frames), plan, steps, simulation.dt)
        simulation.step(start.x, np.zeros(simulation.nu))  # compiled before the clock starts
        say(name, 0, steps)
        title = f"{simulation.robot.name}: {plan.named}"
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
        about = {"push": list(plan.push) if plan.push else None, "noise": plan.noise}
        named: dict[str, Any] = {"title": title, "controller": plan.named, "seed": plan.seed, "about": about, "overwrite": force}
        with Recorder(simulation, start.x, out, **named) as recorder:
            begun = perf_counter()
            try:
                for k in range(steps):
                    u, wrenches = control(k, recorder.x)
                    extras = {"measured": control.measured} if hasattr(control, "measured") else {}
                    recorder.step(u, push(k, wrenches), **extras)
                    residual = max(residual, float(simulation.status.residual) if simulation.status else 0.0)
                    if interrupted():
                        break
                    if k % 100 == 99:
                        say(name, k + 1, steps)
            except SimulationError as error:
                kept = f"; the {recorder.k:,} steps before are in {out}" if out is not None else ""
                said = str(error).replace(FREEZE, "").replace("a smaller dt", "a smaller --dt")
                raise SimulationError(f"after {recorder.k * simulation.dt:g} s: {said}{kept}") from error
            wall = perf_counter() - begun
        notes = (*examined(scene.origin).notes, *about_step(simulation.dt), *sunk(simulation, recorder.x))
        return Outcome(recorder.finish(), residual, wall, interrupted(), notes)


def _check_numbers(scene: Scene, plan: Plan) -> None:
    """Numbers that no simulation could begin with, by the names of their options."""
    dt = scene.dt if plan.dt is None else plan.dt
    numbers = {"--seconds": (plan.seconds, 2), "--dt": (dt, 0.001), "--height": (plan.height, 0.1), "--noise": (plan.noise, 1)}
    for option, (value, usual) in numbers.items():
        if not isfinite(value):
            raise CondyleError(f"{option} must be a finite number, got {value:g}: leave it out, or try {option} {usual:g}")
    if plan.push is not None and not all(map(isfinite, plan.push)):
        raise CondyleError(f"--push must be three finite numbers, got {plan.push}: try --push 10 0 0")
    if dt <= 0.0:
        raise CondyleError(f"--dt must be above zero, got {dt:g}: leave it out, or try --dt 0.001")
    if plan.seconds < 0.0:
        raise CondyleError(f"--seconds must be above zero, got {plan.seconds:g}: try --seconds 2")
    _steps(plan.seconds, dt)


def _steps(seconds: float, dt: float) -> int:
    steps = round(min(seconds / dt, 1e15))
    if not 1 <= steps <= MOST_STEPS:
        raise CondyleError(f"--seconds {seconds:g} at --dt {dt:g} are {steps:,} steps; take from 1 to {MOST_STEPS:,}")
    return steps


def _pushing(own: int, frames: int, plan: Plan, steps: int, dt: float) -> Callable[[int, np.ndarray | None], np.ndarray | None]:
    """The wrenches of a step: those of the controller, and on the last frame the push for 0.1 s after a third of the time."""
    first = steps // 3
    last = first + max(round(PUSH / dt), 1)

    def wrenches(k: int, given: np.ndarray | None) -> np.ndarray | None:
        if not frames:
            return None
        out = np.zeros((frames, 6))
        if given is not None:
            out[:own] = given
        if plan.push is not None and first <= k < last:
            out[-1, :3] = plan.push
        return out

    return wrenches


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed, asked between steps, so that none is torn; pressed again, it interrupts at once."""
    pressed = False

    def press(*_: Any) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    if current_thread() is not main_thread():  # only there can a signal be caught
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def facts(done: Outcome) -> dict[str, Any]:
    """Everything `show` prints, as plain data."""
    run = done.run
    simulation, robot = run.simulation, run.simulation.robot
    q, v = simulation.split(run.x[-1])
    rotation, position = robot.frame_pose(q, base_frame(robot))
    seconds = float(run.t[-1])
    energy = np.asarray(simulation.energy(run.x[[0, -1]]))
    forces = run.contact_forces[-1]
    return {
        "robot": robot.name,
        "controller": run.about.get("controller"),
        "file": None if run.path is None else str(run.path),
        "seconds": seconds,
        "dt": simulation.dt,
        "steps": run.steps,
        "interrupted": done.interrupted,
        "integrator": simulation.integrator,
        "base": {
            "fixed": not robot.model.base_coordinates,
            "frame": base_frame(robot),
            "position": position.tolist(),
            "roll_pitch_yaw": _angles(rotation).tolist(),
        },
        "joints": {name: float(q[i]) for name, i, _ in named_joints(robot)},
        "speed": float(np.abs(v).max()),
        "energy": {"first": float(energy[0]), "last": float(energy[1])},
        "contacts": {name: forces[k].tolist() for k, name in enumerate(simulation.contact_names)},
        "weight": simulation.weight,
        "worst_residual": done.residual,
        "real_time_factor": seconds / done.wall,
        "notes": list(done.notes),
    }


def _angles(R: np.ndarray) -> np.ndarray:
    """Roll, pitch, yaw of R = Rz(yaw) Ry(pitch) Rx(roll)."""
    return np.array([np.arctan2(R[2, 1], R[2, 2]), -np.arcsin(np.clip(R[2, 0], -1.0, 1.0)), np.arctan2(R[1, 0], R[0, 0])])


def show(done: Outcome, console: Console) -> None:
    """Print the table, and what to type next."""
    f = facts(done)
    title = f"{f['robot']} after {f['seconds']:g} s: {f['steps']:,} steps of {f['dt'] * 1e3:g} ms, controller {f['controller']}"
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column("", overflow="fold")
    table.add_column("", justify="right")
    x, y, z = f["base"]["position"]
    roll, pitch, yaw = np.degrees(f["base"]["roll_pitch_yaw"])
    if f["base"]["fixed"]:
        table.add_row("base", "fixed")
    table.add_row(f"{f['base']['frame']}, m", f"x {x:.4f}  y {y:.4f}  z {z:.4f}")
    table.add_row("roll, pitch, yaw, degrees", f"{roll:.2f}  {pitch:.2f}  {yaw:.2f}")
    table.add_row("fastest coordinate, m/s or rad/s", f"{f['speed']:.2e}")
    table.add_row("energy, first and last, J", f"{f['energy']['first']:.4f}  {f['energy']['last']:.4f}")
    if f["contacts"]:
        total = sum(force[2] for force in f["contacts"].values())
        table.add_row("upward contact force, N, and weight", f"{total:.3f}  {f['weight']:.3f}")
    # those that carry something
    pressed = [(name, force) for name, force in f["contacts"].items() if np.linalg.norm(force) > 1e-6 * f["weight"]]
    for name, force in pressed[:SHOWN]:
        table.add_row(f"  {name}", "  ".join(f"{x:.3f}" for x in force))
    if len(pressed) > SHOWN:
        table.add_row(f"  and {len(pressed) - SHOWN} more", "--json lists all")
    table.add_row("worst residual", f"{f['worst_residual']:.1e}")
    table.add_row("times as fast as real time", f"{f['real_time_factor']:.1f}")
    console.print(table)
    if done.run.path is not None:
        name = done.run.path
        next_ = [command("view", name), command("plot", name), command("replay", name, "--check")]
        said = [f"{name} holds the run. Next:", *next_]
        console.print("\n  ".join(said), highlight=False, markup=False, soft_wrap=True)
