"""Milliseconds of a trajectory of 181 knots of the four-limbed robot, with A and B of every step, in space and in the plane."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import SECONDS, busy, once, race

FEET = ("foot_fl", "foot_fr", "foot_hl", "foot_hr")
BENT = (0.5, -1.0, 0.789)  # pitch joints of a limb with the foot below the hip
HEIGHT = 0.659  # of the torso, m: the feet just above the ground
KP, KD, EFFORT = 1000.0, 10.0, 300.0
KNOTS = 181


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers."""
    knots, seconds = (3, 0.01) if tiny else (KNOTS, 3.0 * SECONDS)
    found = {}
    for name in ("planar",) if tiny else ("planar", "free"):
        with console.status(name):
            found[name] = measure(name, knots, seconds, second=not tiny)
    console.print(table(found, knots))
    return {"knots": knots, "bases": found, "busy": busy()}


def world_of(base: str) -> tuple[cd.Simulation, np.ndarray, np.ndarray]:
    """(simulation, state just above the ground with bent knees, pose of its joints)."""
    robot = cd.load("fourlimb", base)
    pose = np.tile(np.ravel([(0.0, bend) for bend in BENT]), 4)
    if base == "planar":
        robot, pose = robot.lock(["roll_"]), pose[1::2]
    world = cd.Simulation(robot, 0.002, cd.Plane(friction=0.8), FEET)
    q = robot.neutral()
    q[1 if base == "planar" else 2], q[-len(pose) :] = HEIGHT, pose
    return world, world.state(q), pose


def trajectory(world: cd.Simulation, x: np.ndarray, pose: np.ndarray, knots: int) -> np.ndarray:
    """Controls of a robot that lands and bends its knees."""
    n, nq = len(pose), world.robot.nq
    us = np.empty((knots, n))
    for k in range(knots):
        target = pose * (1.0 + 0.2 * np.sin(0.05 * k))
        us[k] = np.clip(KP * (target - x[nq - n : nq]) - KD * x[-n:], -EFFORT, EFFORT)
        x = world.step(x, us[k])
    return us


def measure(base: str, knots: int, seconds: float, *, second: bool) -> dict[str, float]:
    """Milliseconds of each part, two threads and one, on request also of second derivatives."""
    world, x, pose = world_of(base)
    us = trajectory(world, x, pose, knots)
    compiling = once(lambda: world.rollout(x, us, derivatives=True))
    xs = world.rollout(x, us)[:-1]
    weight = np.ones((knots, world.ndx))
    calls = {
        "rollout": lambda: world.rollout(x, us),
        "rollout, A and B": lambda: world.rollout(x, us, derivatives=True),
        "rollout, A and B, one thread": lambda: world.rollout(x, us, derivatives=True, threads=1),
        "steps and A, B at given knots": lambda: world.step(xs, us, derivatives=True),
    }
    found = {name: 1e3 * time for name, time in race(calls, seconds).items()}
    found |= {"nv": world.robot.nv, "nu": world.nu, "first call, s, cache as found": compiling}
    if second:
        first = once(lambda: world.step_hessian(xs, us, weight))
        found["second derivatives"] = 1e3 * race({"": lambda: world.step_hessian(xs, us, weight)}, seconds)[""]
        found["their first call, s, cache as found"] = first
    return found


def table(found: dict[str, dict[str, float]], knots: int) -> Table:
    made = Table(title=f"milliseconds for {knots} knots, two threads where not said ({busy()})", title_justify="left")
    made.add_column("")
    for base, row in found.items():
        made.add_column(f"{base}, {row['nv']:.0f} velocities, {row['nu']:.0f} motors", justify="right")
    for name in [name for name in next(iter(found.values())) if name not in ("nv", "nu")]:
        made.add_row(name, *[f"{row[name]:.2f}" for row in found.values()])
    return made
