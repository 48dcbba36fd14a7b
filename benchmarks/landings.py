"""Landings and take-offs of the birotor under NMPC in wind: touchdown speed, tilt, slide, and how many stand.

Each flight has its own wind, up to 2 m/s from any side, and its own noise of the sensors; all are one batch of one kernel.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measure import busy
from condyle.apps.flight.report import tilts, touchdown
from condyle.apps.flight.scenarios import Flight

COUNT, WIND = 100, 2.0  # m/s


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers."""
    numbers: dict[str, Any] = {"busy": busy()}
    table = Table("", "landings", "take-offs", title=f"birotor, NMPC, wind up to {WIND:g} m/s, noise of the sensors")
    found = [flown(name, 4 if tiny else COUNT) for name in ("land", "takeoff")]
    for key in dict.fromkeys([*found[0], *found[1]]):
        table.add_row(key, *[each.get(key, "") for each in found])
    console.print(table)
    for name, each in zip(("landings", "take-offs"), found, strict=True):
        numbers |= {f"{name}, {key}": value for key, value in each.items()}
    return numbers


def winds(count: int) -> np.ndarray:
    """(count, 3): of even area on a disc."""
    rng = np.random.default_rng(0)
    speed, angle = WIND * np.sqrt(rng.uniform(size=count)), rng.uniform(0.0, 2.0 * np.pi, count)
    return np.stack([speed * np.cos(angle), speed * np.sin(angle), 0.0 * speed], axis=1)


def flown(name: str, count: int) -> dict[str, str]:
    """The results of many flights of one scenario."""
    flight = Flight("birotor", name, noise=1.0, wind=(1.0, 0.0, 0.0))
    loop, rows = flight.loop, flight.references()
    x0 = np.repeat(loop.state(flight.vehicle.configuration(flight.start_state[:3]))[None], count, axis=0)
    given: dict[str, Any] = {"parameters": {"wind.velocity": winds(count)}, "seed": 1, "record": ["state", "contact_forces"]}
    loop.rollout(x0, {key: value[:2] for key, value in rows.items()}, 2, **given)
    start = time.process_time()
    out = loop.rollout(x0, rows, flight.steps, freeze=True, **given)
    spent = time.process_time() - start
    weight = flight.vehicle.simulation.weight
    ends = [touchdown(state, forces, weight) for state, forces in zip(out["state"], out["contact_forces"], strict=True)]
    tilt = tilts(out["state"]).max(axis=1)
    shown = {
        "flights, and refused": f"{count}, {int(np.sum(~np.asarray(out.status.ok)))}",
        "overturned": str(sum(each["overturned"] for each in ends)),
        "largest tilt, degrees": f"{tilt.max():.1f}",
    }
    if name == "land":
        speeds = np.array([each["touchdown_speed"] for each in ends], dtype=float)
        turned = np.array([each["touchdown_tilt_degrees"] for each in ends], dtype=float)
        slides = np.array([each["slide"] for each in ends], dtype=float)
        shown |= {
            "stand at the end": str(sum(each["stands"] for each in ends)),
            "touchdown speed, mean and largest, m/s": f"{speeds.mean():.3f}, {speeds.max():.3f}",
            "tilt after touchdown, mean and largest, degrees": f"{turned.mean():.2f}, {turned.max():.2f}",
            "slide, mean and largest, mm": f"{1e3 * slides.mean():.1f}, {1e3 * slides.max():.1f}",
        }
    else:
        away = np.linalg.norm(out["state"][:, -1, :3] - rows["reference"][-1, :3], axis=1)
        shown["distance from the target at the end, largest, mm"] = f"{1e3 * away.max():.0f}"
    return shown | {"processor time, s": f"{spent:.1f}"}
