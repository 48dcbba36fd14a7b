"""The derivatives of a robot in its world against high precision, as a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from condyle.commands.scene import Scene, named_joints, placed
from condyle.errors import CondyleError
from condyle.simulate.gradcheck import Row, check
from condyle.simulate.simulation import Simulation

CLOSE = 1e-7  # the largest relative error that passes
SMALL = 8  # robots with at most so many coordinates have their second derivatives looked at, too


def state(simulation: Simulation, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A state and a control worth looking at: joints near zero or mid-range, contacts at their depth at rest, in motion."""
    rng, robot = np.random.default_rng(seed), simulation.robot
    q = robot.neutral()
    for name, i, _ in named_joints(robot):
        limits = robot.reduced.links[robot.joint_names.index(name)].limits
        low, high = (b if b is not None and np.isfinite(b) else s for b, s in ((limits.lower, -np.pi), (limits.upper, np.pi)))
        q[i] = np.clip(0.5 * (low + high) if not low < 0.0 < high else 0.0, low, high) + 0.05 * (high - low) * rng.uniform(
            -1.0, 1.0
        )
    q = placed(simulation, q, -simulation.rest_depth)
    v = 0.1 * rng.normal(size=robot.nv)
    effort = [simulation.joint_forces[k].load for k in simulation.actuated]
    return simulation.state(q, v), 0.1 * rng.normal(size=simulation.nu) * effort


def measure(scene: Scene, console: Console, *, bits: int, steps: int, seed: int) -> tuple[Simulation, list[Row]]:
    """The errors, with a bar that shows how far."""
    if steps < 0:
        raise CondyleError(f"--steps must not be negative, got {steps}; 0 looks at one step only")
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("compiling", total=None)
        simulation = scene.simulation()
        x, u = state(simulation, seed)

        def say(what: str, done: int, of: int) -> None:
            bar.update(task, description=f"{simulation.robot.name}: {what}", completed=done, total=of)

        second = simulation.robot.nv <= SMALL and simulation.substeps == 1
        us = np.tile(u, (steps, 1)) if steps else None
        rows = check(simulation, x, u, us=us, second=second, bits=bits, seed=seed, say=say)
    return simulation, rows


def facts(simulation: Simulation, rows: list[Row], bits: int) -> dict[str, Any]:
    """The numbers of the table, as plain data."""
    passed = all(row.error < CLOSE for row in rows)
    return {"robot": simulation.robot.name, "bits": bits, "close": CLOSE, "passed": passed, "rows": [asdict(row) for row in rows]}


def show(simulation: Simulation, rows: list[Row], bits: int, console: Console) -> None:
    """Print the table, green where the error is small."""
    table = Table(title=f"{simulation.robot.name}: derivatives against differences in {bits} bits", title_justify="left")
    for head in ("derivative", "relative error", "largest entry", "columns or directions"):
        table.add_column(head, justify="left" if head == "derivative" else "right")
    for row in rows:
        good = row.error < CLOSE
        color = "green" if good else "red"
        table.add_row(row.what, f"[{color}]{row.error:.1e}{'' if good else ' FAILED'}[/]", f"{row.size:.3g}", str(row.seen))
    console.print(table)
    worst = max(rows, key=lambda row: row.error)
    verdict = "all" if worst.error < CLOSE else "not all"
    console.print(f"{verdict} within {CLOSE:.0e}; the worst is {worst.what}, {worst.error:.1e}", highlight=False)
