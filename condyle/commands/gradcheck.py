"""`condyle gradcheck`: the derivatives of a simulation compared with finite differences in high precision."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from condyle.commands.app import FAILED, command
from condyle.commands.options import Arguments, Base, Contacts, Dt, Friction, Ground, Integrator, Json, Lock, PackageDirs, Source
from condyle.commands.scene import Origin, Scene, joint_indices, limits, place_on_ground
from condyle.commands.terminal import progress, report, terminal
from condyle.errors import CondyleError
from condyle.simulate.gradcheck import check
from condyle.simulate.simulation import Simulation

TOLERANCE = 1e-7  # largest relative error that passes
SECOND_ORDER = 8  # second derivatives are checked for robots with at most this many velocities


@command("condyle gradcheck pendulum --steps 20", "condyle gradcheck my.urdf --json")
def gradcheck(
    source: Source,
    base: Base = None,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    lock: Lock = None,
    dt: Dt = None,
    ground: Ground = None,
    friction: Friction = 0.8,
    contacts: Contacts = None,
    integrator: Integrator = "semi_implicit_euler",
    bits: Annotated[int, typer.Option(help="Precision of the reference, 128 to 1024 bits.")] = 512,
    steps: Annotated[int, typer.Option(help="Length of the rollout whose derivatives are checked; 0 for one step only.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the random state and directions.")] = 0,
    as_json: Json = False,
) -> None:
    """Every derivative of a robot, against high precision.

    Derivatives of a step and of a rollout are compared with finite differences. The exit code is 1 if any error is above
    1e-7 of the largest entry. Needs the extra `precision`.
    """
    scene = Scene(Origin(source, base, package_dir, arg, lock), dt, ground, friction, contacts, integrator)
    found = measure(scene, terminal(stderr=True), bits=bits, steps=steps, seed=seed)
    report(found, as_json, show)
    if not found["passed"]:
        raise typer.Exit(FAILED)


def random_state(simulation: Simulation, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(x, u): joints near zero or mid-range, contacts on the surface, with random velocities and controls."""
    rng, robot = np.random.default_rng(seed), simulation.robot
    q = robot.neutral()
    for name, i in joint_indices(robot).items():
        span = limits(robot.reduced.links[robot.joint_names.index(name)])
        low, high = (b if np.isfinite(b) else s for b, s in zip(span, (-np.pi, np.pi), strict=True))
        middle = 0.0 if low < 0.0 < high else np.clip(0.5 * (low + high), low, high)
        q[i] = middle + 0.05 * (high - low) * rng.uniform(-1.0, 1.0)
    q = place_on_ground(simulation, q, 0.0)
    v = 0.1 * rng.normal(size=robot.nv)
    effort = [simulation.joint_forces[k].load for k in simulation.actuated]
    return simulation.state(q, v), 0.1 * rng.normal(size=simulation.nu) * effort


def measure(scene: Scene, console: Console, *, bits: int, steps: int, seed: int) -> dict[str, Any]:
    """The errors of the derivatives, as for JSON."""
    if steps < 0:
        raise CondyleError(f"--steps must not be negative, got {steps}; 0 checks one step only")
    with progress(console) as say:
        say("compiling", 0, 1)
        simulation = scene.simulation()
        x, u = random_state(simulation, seed)
        second = simulation.robot.nv <= SECOND_ORDER and simulation.substeps == 1
        us = np.tile(u, (steps, 1)) if steps else None
        rows = check(simulation, x, u, us=us, second=second, bits=bits, seed=seed, say=say)
    found = {"robot": simulation.robot.name, "bits": bits, "tolerance": TOLERANCE}
    return {**found, "passed": all(row.error < TOLERANCE for row in rows), "rows": [asdict(row) for row in rows]}


def show(found: dict[str, Any], console: Console) -> None:
    """Print the table of errors."""
    table = Table(title=f"{found['robot']}: derivatives against differences in {found['bits']} bits", title_justify="left")
    for head in ("derivative", "relative error", "largest entry", "columns or directions"):
        table.add_column(head, justify="left" if head == "derivative" else "right")
    for row in found["rows"]:
        error = f"[green]{row['error']:.1e}[/]" if row["error"] < TOLERANCE else f"[red]{row['error']:.1e} FAILED[/]"
        table.add_row(row["what"], error, f"{row['size']:.3g}", str(row["seen"]))
    console.print(table)
    worst = max(found["rows"], key=lambda row: row["error"])
    end = f"within {TOLERANCE:.0e}; the largest error is {worst['error']:.1e}, of {worst['what']}"
    console.print(f"{'all' if found['passed'] else 'not all'} {end}", highlight=False)
