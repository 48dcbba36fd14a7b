"""Microseconds per step with contact in float32 and float64: PiDog on its feet, standing and disturbed, one thread."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import busy
from condyle.apps.pidog.poses import pose_angles

DT, FRICTION, HEIGHT, ROBOTS = 0.004, 0.8, 0.12, 1024
KP, KD = 4.0, 0.05  # N m/rad, N m s/rad
SPEEDS = {"standing": 0.01, "disturbed": 0.3}  # random speeds of all coordinates, m/s and rad/s


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers."""
    robot = cd.load("wheeled_pendulum") if tiny else cd.load("pidog").lock(["head", "tail"])
    world = cd.Simulation(robot, DT, threads=1) if tiny else cd.Simulation(robot, DT, cd.Plane(FRICTION), "*_foot", threads=1)
    x, u = rest(world, 2 if tiny else 250)
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {"robots": 16 if tiny else ROBOTS}
    for name, speed in SPEEDS.items():
        states = np.tile(x, (found["robots"], 1))
        states[:, robot.nq :] += speed * rng.standard_normal((len(states), robot.nv))
        found[name] = times(world, states, np.tile(u, (len(states), 1)), 2 if tiny else 60)
    table = Table(title=f"{robot.name}, {found['robots']} robots, µs of processor per step and robot")
    for column in ("", "float64", "float32", "ratio", "largest difference of velocities, m/s or rad/s"):
        table.add_column(column, justify="right")
    for name in SPEEDS:
        f64, f32, difference = found[name]
        table.add_row(name, f"{f64:.2f}", f"{f32:.2f}", f"{f64 / f32:.2f}", f"{difference:.1e}")
    console.print(table)
    return found | {"busy": busy()}


def rest(world: cd.Simulation, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """A state after some steps of PD control of the standing pose, and the last control."""
    x, u = world.state(), np.zeros(world.nu)
    if world.contact_points:
        target = np.deg2rad(pose_angles("stand"))
        q = world.robot.neutral()
        q[2], q[7:] = HEIGHT, target
        x = world.state(q)
        for _ in range(steps):
            q, v = world.split(x)
            u = KP * (target - q[7:]) - KD * v[6:]
            x = world.step(x, u)
    return x, u


def times(world: cd.Simulation, x: np.ndarray, u: np.ndarray, repeats: int) -> tuple[float, float, float]:
    """(float64, float32) in µs, the shortest of calls in turn, and the largest difference of velocities."""
    arrays = {dtype: (x.astype(dtype), u.astype(dtype)) for dtype in (np.float64, np.float32)}
    ends = {dtype: world.step(*both) for dtype, both in arrays.items()}
    best = dict.fromkeys(arrays, np.inf)
    for _ in range(repeats):
        for dtype, both in arrays.items():
            start = process_time()
            world.step(*both)
            best[dtype] = min(best[dtype], process_time() - start)
    nq = world.robot.nq
    difference = float(np.max(np.abs(ends[np.float64] - ends[np.float32])[:, nq:]))
    return best[np.float64] * 1e6 / len(x), best[np.float32] * 1e6 / len(x), difference
