"""Microseconds of one tick of each airframe in a batch: in still air, with torque servos, in turbulence, on the ground."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import SECONDS, busy

CASES: dict[str, Any] = {
    "kinematic servos": dict,
    "torque servos": lambda: {"servo": "torque"},
    "turbulence, drag": lambda: {"air": cd.flight.Air(0.1, 0.02), "wind": cd.flight.Dryden(4.0)},
    "on the ground": lambda: {"ground": cd.Plane()},
}
HOW = "Ticks of 5 ms, open loop, one thread; the smallest processor time counts. First: from the airframe to the first rollout.\n"


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Microseconds per tick of one robot, and the seconds of the first call."""
    robots, ticks = (16, 10) if tiny else (1024, 200)
    names = ("birotor",) if tiny else ("birotor", "trirotor", "quadrotor", "hexarotor")
    found: dict[str, dict[str, float]] = {}
    table = Table("", *CASES, "first, s", title=f"us per tick, {robots} robots ({busy()})")
    for name in names:
        row: dict[str, float] = {}
        for case, options in list(CASES.items())[: 1 if tiny else None]:
            start = process_time()
            vehicle = cd.flight.Vehicle(name, **options())
            loop, stands = vehicle.loop(), vehicle.simulation.ground is not None
            x = loop.state(vehicle.simulation.stand()[: loop.nq] if stands else vehicle.configuration())
            X, command = np.repeat(x[None], robots, axis=0), vehicle.hover * (0.2 if stands else 1.0)
            loop.rollout(X, command, ticks, threads=1)
            row.setdefault("first", process_time() - start)
            times, end = [], process_time() + (0.0 if tiny else SECONDS)
            while not times or process_time() < end:
                start = process_time()
                loop.rollout(X, command, ticks, threads=1)
                times.append(process_time() - start)
            row[case] = 1e6 * min(times) / robots / ticks
        found[name] = row
        table.add_row(name, *[f"{row[case]:.2f}" if case in row else "" for case in CASES], f"{row['first']:.1f}")
    console.print(table)
    console.print(HOW, highlight=False)
    return {**found, "busy": busy()}
