"""Throw robots on the floor at random, within and beyond their limits: refused steps, depth of shapes in it, speed, energy."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import condyle as cd
from condyle.commands.terminal import Say, progress, terminal
from condyle.dynamics.kinematics import root_poses
from condyle.errors import CondyleError
from condyle.simulate.shape_reach import link_shapes, shape_reach

CHUNK = 64  # steps of one call, so that one kernel does
RESTING = 0.01  # m/s: the speed of a resting robot's mass, sqrt(2 T / m), at most


@dataclass(frozen=True)
class Throws:
    """What became of the throws of one robot at one dt."""

    robot: str
    dt: float
    points: int
    runs: int
    steps: int
    refused: int
    residual: float
    below: float  # the lowest part of a shape under the floor at the end, m
    deepest: float  # on the way, at the ends of calls
    speed: float  # sqrt(2 T / m) of the fastest robot at the end, m/s
    resting: int
    gained: float  # the largest rise of energy over that at the start, J
    microseconds: float  # of one step of one robot


def heights(world: cd.Simulation) -> Callable[[np.ndarray], np.ndarray]:
    """A function of configurations (n, nq) -> the height of the lowest part of the robot's own shapes over z = 0, m: (n,).

    Every vertex of a mesh counts, also between the contact points; of a robot without shapes the contact points do.
    """
    model = world.robot.model

    def lifted(q: Any) -> Any:
        X_0F, X = root_poses(model, world.world.at(q).q)
        found = [X_0F @ X_i for X_i in X]
        return {"up": np.array([x.R[2] for x in found]), "z": np.array([x.p[2] for x in found])}

    poses = cd.function(lifted, q=world.robot.nq)
    shapes = [(i, shape) for i, link in enumerate(model.links) for shape in link_shapes(link)]

    def lowest(q: np.ndarray) -> np.ndarray:
        up, z = poses(q)
        low = np.full(len(q), np.inf)
        for i, shape in shapes:
            for rows in np.array_split(np.arange(len(q)), -(-len(q) // CHUNK)):
                low[rows] = np.minimum(low[rows], z[rows, i] - shape_reach(shape, -up[rows, i], every=True))
        for p in world.contact_points if np.any(np.isinf(low)) else ():
            low = np.minimum(low, z[:, p.link] + up[:, p.link] @ np.array(p.position) - p.radius)
        return low

    return lowest


def thrown_states(world: cd.Simulation, lowest: Any, runs: int, beyond: float, speed: float, seed: int) -> np.ndarray:
    """Random states up to `beyond` outside the limits (rad; a tenth of it in m), at up to `speed` m/s and twice that in rad/s."""
    rng, robot = np.random.default_rng(seed), world.robot
    q = robot.random_configuration(rng, runs)
    v = rng.uniform(-1.0, 1.0, (runs, robot.nv)) * 10.0 ** rng.uniform(-1.0, 0.0, (runs, 1)) * speed
    for link in world.world.reduced.links:
        if link.kind.nv == 1:
            unit = 1.0 if link.kind.__class__.__name__ == "Revolute" else 0.1
            # half of the robots within their limits
            q[runs // 2 :, link.q] += rng.uniform(-beyond, beyond, (runs - runs // 2, 1)) * unit
            v[:, link.v] *= 2.0 * unit
    # over the floor, as the joints are
    for link in world.world.reduced.links:
        if link.kind.nv == 6:
            v[:, link.v.start + 3 : link.v.stop] *= 2.0
            q[:, link.q.start : link.q.start + 2] = 0.0
            q[:, link.q.start + 2] -= lowest(q) - rng.uniform(0.01, 0.5, runs)
    return world.state(q, v)


def throw(
    robot: cd.Robot, dt: float, contacts: Any, limp: bool, runs: int, steps: int, beyond: float, speed: float, seed: int, say: Say
) -> Throws:
    """Throw `runs` copies of a robot for `steps` steps."""
    joints = {"limits": not limp, "joint_friction": not limp, "damping": not limp}
    world = cd.Simulation(robot, dt, cd.Plane(friction=0.8), contacts, **joints)
    lowest = heights(world)
    x = thrown_states(world, lowest, runs, beyond, speed, seed)
    energy = first = world.energy(x)
    deepest, worst, spent = 0.0, np.zeros(runs), 0.0
    us = np.zeros((CHUNK, world.nu))
    calls = max(1, steps // CHUNK)
    for k in range(calls):
        start = time.perf_counter()
        xs = world.rollout(x, us, freeze=True)
        spent += time.perf_counter() - start if k else 0.0
        assert world.status is not None
        worst = np.maximum(worst, world.status.residual)
        x = xs[:, -1]
        energy = np.maximum(energy, world.energy(x))
        deepest = max(deepest, -float(np.min(lowest(world.split(x)[0]))))
        say(f"{robot.name} at {1000 * dt:g} ms", k + 1, calls)
    q, v = world.split(x)
    ok = worst <= 1e-10
    kinetic = np.array([0.5 * b @ robot.mass_matrix(a) @ b for a, b in zip(q, v, strict=True)])
    speeds = np.sqrt(2.0 * kinetic / robot.mass)
    return Throws(
        robot.name,
        dt,
        len(world.contact_points),
        runs,
        calls * CHUNK * runs,
        int(np.sum(~ok)),
        float(np.max(worst)),
        -float(np.min(lowest(q))),
        deepest,
        float(np.max(speeds)),
        int(np.sum(speeds < RESTING)),
        float(np.max(energy - first)),
        1e6 * spent / max((calls - 1) * CHUNK * runs, 1),
    )


def table(found: list[Throws]) -> Table:
    """The throws as a table."""
    out = Table()
    for head in ("robot", "dt, ms", "points", "robots", "steps", "refused", "residual", "below, mm", "deepest, mm", "resting",
                 "speed, m/s", "energy gained, J", "us/step"):  # fmt: skip
        out.add_column(head, justify="left" if head == "robot" else "right")
    for t in found:
        out.add_row(
            t.robot, f"{1000 * t.dt:g}", str(t.points), str(t.runs), f"{t.steps:,}", str(t.refused), f"{t.residual:.0e}",
            f"{1000 * t.below:.1f}", f"{1000 * t.deepest:.1f}", str(t.resting), f"{t.speed:.3f}", f"{t.gained:.2g}",
            f"{t.microseconds:.1f}",
        )  # fmt: skip
    return out


def main(
    robots: Annotated[list[str], typer.Argument(help="built-in names, or files of robots")],
    runs: Annotated[int, typer.Option(help="robots that are thrown, each its own way")] = 1000,
    steps: Annotated[int, typer.Option(help="steps of each")] = 2048,
    dt: Annotated[list[float] | None, typer.Option(help="time steps, s")] = None,
    contacts: Annotated[str, typer.Option(help="contact points, as cd.Simulation takes them")] = "auto",
    limp: Annotated[bool, typer.Option(help="joints without limits, friction and damping")] = False,
    beyond: Annotated[float, typer.Option(help="how far beyond its limits a joint may start, rad")] = 1.0,
    speed: Annotated[float, typer.Option(help="largest speed, m/s")] = 3.0,
    seed: Annotated[int, typer.Option(help="of the random numbers")] = 0,
    base: Annotated[str | None, typer.Option(help="of robots in files: free, fixed, ...; as in the file by default")] = None,
) -> None:
    """Throw robots on the floor at random and count the steps that are refused."""
    console: Console = terminal(width=170)
    found = []
    with progress(console) as say:
        for name in robots:
            for step in dt or [0.002]:
                try:
                    robot = cd.load(name) if base is None else cd.load(name, base)
                    found.append(throw(robot, step, contacts, limp, runs, steps, beyond, speed, seed, say))
                except CondyleError as error:
                    console.print(f"{name}: {error}", markup=False)
    console.print(table(found))
    total, refused = sum(t.steps for t in found), sum(t.refused for t in found)
    console.print(f"{refused} robots refused in {total:,} steps")


if __name__ == "__main__":
    typer.run(main)
