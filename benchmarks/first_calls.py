"""Processor seconds of the first calls of a world, cache empty: which of them compile the physics, and which find it compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from rich.console import Console
from rich.table import Table

# robot -> how its world is made; ANYmal and Talos are those of example-robot-data
WORLDS = {
    "anymal": "simulation(anymal())",
    "pidog": "cd.Simulation(cd.load('pidog'), 0.002, cd.Plane(friction=0.5), '*_foot')",
    "talos": "cd.Simulation(cd.load(str(example_robots() / FILES['talos'][0]), 'free'), 0.002, cd.Plane(), '*_sole_link')",
}
CHILD = """
import json, time
import numpy as np
import condyle as cd
import llvmlite.binding
from benchmarks.robots import FILES, example_robots
from benchmarks.standing import anymal, simulation
world = {world}
x, u, us = world.state(), np.zeros(world.nu), np.zeros((16, world.nu))
loop = cd.Loop(world, lambda x, u: {{"u": u, "qq": x.q[:4] * x.q[1:5]}}, u=world.nu)
calls = {{
    "step": lambda: world.step(x, u),
    "rollout": lambda: world.rollout(x, us),
    "loop.step": lambda: loop.rollout(loop.state(*world.split(x)), us, 16),
    "another record": lambda: loop.rollout(loop.state(*world.split(x)), us, 16, record=["qq"]),
    "derivatives": lambda: world.step(x, u, derivatives=True),
    "gradient of a loop": lambda: loop.vjp(loop.state(*world.split(x)), us, 16)[1](x1=np.ones(loop.nx)),
}}
seconds = {{}}
for name, call in calls.items():
    start = time.process_time()
    call()
    seconds[name] = time.process_time() - start
print(json.dumps(seconds))
"""


def first_calls(world: str) -> dict[str, float]:
    """Seconds of each first call, in this order, in a process of its own."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "CONDYLE_CACHE": cache}
        done = subprocess.run(
            [sys.executable, "-c", CHILD.format(world=world)], env=environment, capture_output=True, text=True, check=True
        )
    seconds: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers."""
    names = ["pidog"] if tiny else list(WORLDS)
    results = {name: first_calls(WORLDS[name]) for name in names}
    table = Table("first call, s of one processor", *names)
    for call in results[names[0]]:
        table.add_row(call, *[f"{results[name][call]:.2f}" for name in names])
    table.add_row("sum", *[f"{sum(results[name].values()):.2f}" for name in names])
    console.print(table)
    return results
