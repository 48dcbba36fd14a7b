"""A robot dropped, held or pushed: what happens, as a table, a file and a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from condyle.commands.scene import Scene, base_frame, named_joints, placed, posed
from condyle.errors import CondyleError
from condyle.simulate.simulation import Simulation

MOST_STEPS = 10_000_000
PUSH = 0.1  # seconds that a push lasts
SHOWN = 12  # contacts in the table


@dataclass(frozen=True)
class Plan:
    """What is done with the robot: how long, from how high and which pose, held by which gains, pushed by which force."""

    seconds: float = 2.0
    height: float = 0.0
    gain: tuple[float, float] | None = None
    push: tuple[float, float, float] | None = None
    joints: tuple[str, ...] = ()  # NAME=VALUE, those that are not zero at first


@dataclass(frozen=True)
class Run:
    """What happened, step by step; forces on the contacts in world axes."""

    simulation: Simulation
    xs: np.ndarray
    us: np.ndarray
    forces: np.ndarray
    energy: np.ndarray
    residual: float
    wall: float

    @property
    def times(self) -> np.ndarray:
        """Of the states, s."""
        return self.simulation.dt * np.arange(len(self.xs))


def run(scene: Scene, plan: Plan, console: Console) -> Run:
    """Simulate, with a bar that shows how far."""
    steps = round(plan.seconds / scene.dt)
    if not 1 <= steps <= MOST_STEPS:
        raise CondyleError(f"--seconds {plan.seconds:g} at --dt {scene.dt:g} are {steps:,} steps; take from 1 to {MOST_STEPS:,}")
    robot = scene.origin.load()
    simulation = scene.simulation(wrenches=[base_frame(robot)] if plan.push else ())
    q = placed(simulation, posed(robot, plan.joints), plan.height)
    x = simulation.state(q)
    hold = _holding(simulation, q, plan.gain)
    wrenches = None
    if plan.push:
        wrenches = np.zeros((steps, 1, 6))
        start = steps // 3
        wrenches[start : start + max(round(PUSH / scene.dt), 1), 0, :3] = plan.push
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeRemainingColumn())
    xs, us, residual = [x], [hold(x)], 0.0
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"{simulation.robot.name}: compiling", total=steps)
        simulation.step(x, us[0])
        bar.update(task, description=simulation.robot.name)
        start_time = perf_counter()
        for k in range(steps):
            x = simulation.step(x, us[k], wrenches=None if wrenches is None else wrenches[k])
            residual = max(residual, float(simulation.status.residual) if simulation.status else 0.0)
            xs.append(x)
            us.append(hold(x))
            if k % 100 == 99:
                bar.update(task, completed=k + 1)
        wall = perf_counter() - start_time
    xs_, us_ = np.array(xs), np.array(us[:-1])
    forces = simulation.contact_forces(xs_[:-1], us_, wrenches=wrenches)
    return Run(simulation, xs_, us_, forces, np.asarray(simulation.energy(xs_)), residual, wall)


def _holding(simulation: Simulation, q0: np.ndarray, gain: tuple[float, float] | None) -> Any:
    """The control u(x) = P (q0 - q') - D v' in every motor's joint, or nothing.

    q' and v' are where the joints would be after the step without contact, so that strong gains are stable (Tan and others 2011).
    """
    P, D = gain or (0.0, 0.0)
    if min(P, D) < 0.0:
        raise CondyleError(f"--gain must not be negative, got {P:g} {D:g}: a gain of that sign pushes away from the pose")
    robot, h = simulation.robot, simulation.dt
    place = {name: (i, k) for name, i, k in named_joints(robot)}
    motors = [
        next(link.joint for link in robot.model.links if link.v.start <= k < link.v.stop) for k in simulation.world.actuated
    ]
    rows = [(column, *place[name]) for column, name in enumerate(motors) if name in place]
    columns, at_q, at_v = (np.array(x, dtype=int) for x in zip(*rows, strict=True)) if rows else (np.zeros(0, dtype=int),) * 3

    def hold(x: np.ndarray) -> np.ndarray:
        u = np.zeros(simulation.nu)
        if gain is not None:
            q, v = simulation.split(x)
            M, tau = robot.mass_matrix(q), -robot.bias_forces(q, v)
            wanted = P * (q0[at_q] - q[at_q] - h * v[at_v]) - D * v[at_v]
            M[at_v, at_v] += h * D
            tau[at_v] += wanted
            u[columns] = wanted - D * h * np.linalg.solve(M, tau)[at_v]
        return u

    return hold


def facts(done: Run) -> dict[str, Any]:
    """Everything `show` prints, as plain data."""
    simulation = done.simulation
    robot = simulation.robot
    q, v = simulation.split(done.xs[-1])
    rotation, position = robot.frame_pose(q, base_frame(robot))
    seconds = float(done.times[-1])
    return {
        "robot": robot.name,
        "seconds": seconds,
        "dt": simulation.dt,
        "steps": len(done.us),
        "integrator": simulation.integrator,
        "base": {"frame": base_frame(robot), "position": position.tolist(), "roll_pitch_yaw": _angles(rotation).tolist()},
        "joints": {name: float(q[i]) for name, i, _ in named_joints(robot)},
        "speed": float(np.abs(v).max()),
        "energy": {"first": float(done.energy[0]), "last": float(done.energy[-1])},
        "contacts": {name: done.forces[-1, k].tolist() for k, name in enumerate(simulation.contact_names)},
        "weight": robot.mass * simulation.world.gravity,
        "worst_residual": done.residual,
        "real_time_factor": seconds / done.wall,
    }


def _angles(R: np.ndarray) -> np.ndarray:
    """Roll, pitch, yaw of R = Rz(yaw) Ry(pitch) Rx(roll)."""
    return np.array([np.arctan2(R[2, 1], R[2, 2]), -np.arcsin(np.clip(R[2, 0], -1.0, 1.0)), np.arctan2(R[1, 0], R[0, 0])])


def show(done: Run, console: Console) -> None:
    """Print the table."""
    f = facts(done)
    table = Table(
        title=f"{f['robot']} after {f['seconds']:g} s: {f['steps']:,} steps of {f['dt'] * 1e3:g} ms", title_justify="left"
    )
    table.add_column("")
    table.add_column("", justify="right")
    x, y, z = f["base"]["position"]
    roll, pitch, yaw = np.degrees(f["base"]["roll_pitch_yaw"])
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
    table.add_row("times as fast as real time, called from Python", f"{f['real_time_factor']:.1f}")
    console.print(table)


def save(done: Run, path: Path) -> None:
    """Write states, controls and forces, atomically; `Simulation.load` reads them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done.simulation.save(path, xs=done.xs, us=done.us, forces=done.forces)
