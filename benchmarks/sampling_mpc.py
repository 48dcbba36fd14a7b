"""Milliseconds of an MPPI update of ANYmal: 1,024 rollouts of 50 steps with contact, beside mujoco.rollout of such controls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from time import perf_counter, process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks import standing
from benchmarks.contact import mujoco_rollout
from benchmarks.measure import SECONDS, busy

HOW = (
    "An update: rollouts with their noise and costs in one kernel, then the weighted mean; only costs leave the rollouts.\n"
    "mujoco.rollout is given the controls and returns the states; noise and costs would come on top. Competitors take turns on\n"
    "two threads; the smallest time counts, on the wall and of the processor (both threads together). NaN: in one sample.\n"
)
KNOTS, NOISE = 10, 5.0
SMOOTHING = (
    1e-3  # of the contact law: in float32 the default takes more iterations, and one sample in a hundred does not converge
)


def problem(world: cd.Simulation, stance: standing.Stance, N: int) -> Any:
    """Hold the stance: height, attitude, joints and speeds, with torques near those of standing."""
    nq = world.robot.nq
    goal = stance.x[:nq]

    def residual(x: Any, u: Any) -> Any:
        return np.concatenate([x[2:6] - goal[2:6], x[7:nq] - goal[7:], 0.1 * x[nq:], 0.01 * (u - stance.u)])

    return cd.ocp(world, N=N, residual=residual, weights=10.0, bounds={"u": standing.EFFORT})


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers."""
    robot = standing.anymal()
    if robot is None:
        console.print("needs example-robot-data: pip install 'condyle[peers]'")
        return {}
    samples, N, seconds = (16, 4, 0.01) if tiny else (1024, 50, 3.0 * SECONDS)
    world = standing.simulation(robot)
    stance = standing.settled(world, 10 if tiny else 500)
    found: dict[str, Any] = {"samples": samples, "steps": N}
    calls: dict[str, Callable[[], object]] = {}
    smooth = standing.simulation(robot, smoothing=SMOOTHING)
    settings = {"float64": world, "float32": world, f"float32, smoothing {SMOOTHING:g}": smooth}
    # one of them is enough to see that it runs
    for word, chosen in list(settings.items())[: 1 if tiny else 3]:
        precision = word.partition(",")[0]
        task = problem(chosen, stance, N)
        solver = task.mppi(samples=samples, knots=min(KNOTS, N), noise=NOISE, precision=precision, threads=2)
        plan = solver.start(stance.x, stance.u)
        start = process_time()
        solved = solver(stance.x, plan)
        found |= {f"compile {word}, s": process_time() - start, f"finite {word}": float(solved.finite)}
        calls[f"MPPI update, rollouts in {word}"] = partial(solver, stance.x, plan)
        calls |= rollouts(solver, stance.x.astype(precision), {name: a.astype(precision) for name, a in plan.items()}, word)
    controls = np.ascontiguousarray(sampled(solver, stance))
    calls["rollout of given controls, float64"] = lambda: world.rollout(stance.x, controls, freeze=True, threads=2)
    if find_spec("mujoco") and find_spec("pinocchio"):
        other = standing.twin(world)
        first = np.tile(stance.x, (samples, 1))
        calls["mujoco.rollout"] = mujoco_rollout(world, other, first, controls, threads=2)
    found["times"] = race(calls, seconds)
    table = Table("", "wall, ms", "processor, ms", title=f"{samples} rollouts of {N} steps of ANYmal, two threads ({busy()})")
    for name, (wall, spent) in found["times"].items():
        table.add_row(name, f"{1e3 * wall:.1f}", f"{1e3 * spent:.1f}")
    console.print(table)
    console.print(HOW, highlight=False)
    return found | {"busy": busy()}


def rollouts(solver: Any, x: np.ndarray, plan: dict[str, np.ndarray], word: str) -> dict[str, Callable[[], object]]:
    """The rollouts alone, and again with one sample at NaN."""
    samples = np.arange(solver.samples, dtype=x.dtype)
    finite = np.tile(x, (solver.samples, 1))
    broken = finite.copy()
    broken[solver.samples // 2] = np.nan
    rest = (plan["controls"], plan["tick"], samples)
    return {
        f"its rollouts, {word}": lambda: solver.rollout(finite, *rest),
        f"its rollouts, {word}, one NaN": lambda: solver.rollout(broken, *rest),
    }


def sampled(solver: Any, stance: standing.Stance) -> np.ndarray:
    """Controls of as many samples, with noise of the same kind."""
    basis, rng = solver.basis, np.random.default_rng(0)
    z = rng.normal(0.0, NOISE, (solver.samples, basis.knots, solver.problem.nu))
    if basis.first is None:
        return np.clip(stance.u + z, -standing.EFFORT, standing.EFFORT)
    first = basis.first.astype(int)
    e: np.ndarray = sum(basis.weights[:, a, None] * z[:, first + a] for a in range(basis.weights.shape[1]))
    found: np.ndarray = np.clip(stance.u + e, -standing.EFFORT, standing.EFFORT)
    return found


def race(calls: dict[str, Callable[[], object]], seconds: float) -> dict[str, tuple[float, float]]:
    """The smallest (wall, processor) time of each call; they take turns."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    end = perf_counter() + seconds * len(calls)
    while True:
        for name, call in calls.items():
            wall, spent = perf_counter(), process_time()
            call()
            times[name].append((perf_counter() - wall, process_time() - spent))
        if perf_counter() > end:
            return {name: (min(t[0] for t in each), min(t[1] for t in each)) for name, each in times.items()}
