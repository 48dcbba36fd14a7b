"""Time of 10,000 point-to-point moves, of a time-optimal path of the UR3, and of a tick of a loop that follows them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import best
from condyle.methods.planning.profiles import jerk_limited, quintic, trapezoidal
from condyle.methods.planning.time_optimal import time_optimal

SPEED = np.array([2.16, 2.16, 3.15, 3.2, 3.2, 3.2])  # rad/s
TORQUE = np.array([3.0, 16.0, 8.0, 1.5, 1.0, 0.5])  # N m: little more than gravity takes
WAYPOINTS = np.array(
    [
        [0.0, -1.57, 1.57, -1.57, 0.0, 0.0],
        [0.8, -1.0, 1.2, -1.2, 0.5, 0.3],
        [1.2, -1.4, 1.8, -2.0, 0.2, 1.0],
        [0.3, -1.9, 1.0, -1.0, -0.5, 0.5],
    ]
)


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers, in seconds."""
    seconds, count, grid = (0.01, 100, 100) if tiny else (1.0, 10_000, 1000)
    start, end = np.random.default_rng(0).uniform(-3.0, 3.0, (2, count, 6))
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "quintic": (quintic, {}),
        "trapezoidal": (trapezoidal, {}),
        "jerk-limited": (jerk_limited, {"jerk": 20.0}),
    }
    rows: dict[str, float] = {}
    for name, (make, more) in kinds.items():
        moves = make(start, end, speed=SPEED, acceleration=2.0, **more)
        call = partial(make, start, end, speed=SPEED, acceleration=2.0, **more)
        rows[f"{count:,} moves, {name}"] = best(call, seconds)
        rows[f"{count:,} moves, {name}, at one time each"] = best(partial(moves.at, 0.3 * moves.duration), seconds)
    robot = cd.load("ur3")
    limits: dict[str, dict[str, Any]] = {
        "acceleration": {"speed": SPEED, "acceleration": 2.0},
        "torque": {"robot": robot, "torque": TORQUE},
        "acceleration and torque": {"robot": robot, "torque": TORQUE, "acceleration": 2.0},
    }
    for name, given in limits.items():
        rows[f"time-optimal, {grid:,} intervals, {name}"] = best(partial(time_optimal, WAYPOINTS, grid=grid, **given), seconds)
    move = jerk_limited(WAYPOINTS[0], WAYPOINTS[-1], speed=SPEED, acceleration=2.0, jerk=20.0)
    path = time_optimal(WAYPOINTS, robot=robot, acceleration=2.0, grid=grid)
    steps = 100 if tiny else 1000
    for name, reference in (("jerk-limited", move), ("time-optimal", path), ("a fixed pose", None)):
        rows[f"tick of computed torque to {name}"] = tick(robot, reference, steps, seconds)
    table = Table("what", "time")
    for what, time in rows.items():
        table.add_row(what, f"{1e3 * time:,.2f} ms" if time > 1e-4 else f"{1e6 * time:,.2f} us")
    console.print(table)
    grids = {size: use_of_limits(robot, size) for size in ((100,) if tiny else (100, 300, 1000, 3000))}
    table = Table(
        "intervals", "duration, s", "largest part of a limit", "least of these largest parts", "time with a part above 0.99"
    )
    for size, (duration, largest, least, near) in grids.items():
        table.add_row(f"{size:,}", f"{duration:.5f}", f"{largest:.6f}", f"{least:.4f}", f"{near:.1%}")
    console.print(table)
    return {"seconds": rows, "grids": {str(size): values for size, values in grids.items()}}


def use_of_limits(robot: Any, grid: int) -> tuple[float, float, float, float]:
    """Duration of the path, and how much of its most used limit (speed or torque) is used: at most, at least, how often."""
    path = time_optimal(WAYPOINTS, robot=robot, torque=TORQUE, grid=grid)
    q, v, a = path.at(np.linspace(0.0, path.duration, 10_001))
    parts = np.concatenate([np.abs(robot.inverse_dynamics(q, v, a)) / TORQUE, np.abs(v) / SPEED], axis=1)
    used = np.max(parts, axis=1)
    return path.duration, float(np.max(used)), float(np.min(used)), float(np.mean(used > 0.99))


def tick(robot: Any, reference: Any, steps: int, seconds: float) -> float:
    """Seconds per tick of one arm, physics included, in one kernel."""
    simulation = cd.Simulation(robot, dt=0.001)

    def control(x: Any) -> Any:
        q, v, a = (WAYPOINTS[0], 0.0, 0.0) if reference is None else reference.at(x.tick * simulation.dt)
        return robot.inverse_dynamics(x.q, x.v, a + 400.0 * (q - x.q) + 40.0 * (v - x.v))

    loop = cd.Loop(simulation, control)
    x0 = loop.state(WAYPOINTS[0])
    return best(lambda: loop.rollout(x0, steps=steps, record=["q"], every=steps), seconds) / steps
