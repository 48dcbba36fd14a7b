"""Trajectories by iLQR in one call: swing-up, obstacles, an arm, and ANYmal that stands up, steps and jumps, over seeds.

A solve begins with random controls, and with states that stay at the first one. Times are of one core, of all iterations in one
call, divided by their number.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks import standing
from benchmarks.measure import busy

SEEDS = 20
ITERATIONS = 300  # at most
TORQUE = 20.0  # of ANYmal: standard deviation of the first torques, N m
METHOD = {"tolerance": 1e-5, "regularization": 1e-3}
FEET = ("LF_FOOT", "LH_FOOT", "RF_FOOT", "RH_FOOT")


@dataclass(frozen=True)
class Task:
    """A problem, what a seed starts from, and when a plan is a success."""

    name: str
    problem: Any
    start: Callable[[np.random.Generator], np.ndarray]  # the first state
    noise: float  # of the first controls
    success: Callable[[Any], bool]
    data: dict[str, np.ndarray] = field(default_factory=dict)
    tolerance: float = 1e-6
    regularization: float = 1.0


# ---- small problems


def cart_pole(N: int = 60) -> Task:
    """A pole of 0.5 m on a cart of 1 kg swings up within N intervals of 0.05 s; |u| <= 20 N."""

    def rates(x: Any, u: Any) -> Any:
        _, angle, speed, rate = x
        s, c = np.sin(angle), np.cos(angle)
        force = (u[0] + 0.05 * rate * rate * s) / 1.1
        turn = (9.81 * s - c * force) / (0.5 * (4.0 / 3.0 - 0.1 * c * c / 1.1))
        return cd.array([speed, rate, force - 0.05 * turn * c / 1.1, turn])

    problem = cd.ocp(
        rates, N=N, x=4, u=1, dt=0.05, residual=lambda x, u: np.concatenate([x, u]), weights=[0.1, 0.1, 0.01, 0.01, 0.01],
        terminal_residual=lambda x: x, terminal_weights=[1000.0, 1000.0, 100.0, 100.0], bounds={"u": 20.0},
    )  # fmt: skip
    return Task(
        "cart-pole swing-up",
        problem,
        lambda rng: np.array([0.0, np.pi, 0.0, 0.0]) + 0.1 * rng.normal(size=4),
        1.0,
        lambda found: bool(np.abs(found.states[-1]).max() < 0.1),
    )


OBSTACLES = np.array([[1.0, 0.9, 0.4], [1.9, 2.1, 0.5], [2.6, 1.3, 0.3]])  # x, y, radius


def unicycle(N: int = 50) -> Task:
    """A unicycle drives from the origin to (3, 3) in N intervals of 0.1 s around three discs."""

    def rates(x: Any, u: Any) -> Any:
        return cd.array([u[0] * np.cos(x[2]), u[0] * np.sin(x[2]), u[1]])

    def inside(x: Any) -> Any:
        # by how much it is closer than 0.1 m to each disc
        gaps = [r + 0.1 - np.sqrt((x[0] - a) ** 2 + (x[1] - b) ** 2 + 1e-6) for a, b, r in OBSTACLES]
        return cd.array([np.maximum(g, 0.0) for g in gaps])

    problem = cd.ocp(
        rates, N=N, x=3, u=2, dt=0.1,
        residual=lambda x, u: np.concatenate([u, inside(x)]), weights=[0.1, 0.1, 1000.0, 1000.0, 1000.0],
        terminal_residual=lambda x: cd.array([x[0] - 3.0, x[1] - 3.0]), terminal_weights=[100.0, 100.0],
        bounds={"u": ([-0.5, -2.0], [1.5, 2.0])},
    )  # fmt: skip

    def success(found: Any) -> bool:
        near = np.linalg.norm(found.states[:, None, :2] - OBSTACLES[:, :2], axis=-1) - OBSTACLES[:, 2]
        return bool(near.min() > 0.0 and np.abs(found.states[-1, :2] - 3.0).max() < 0.05)

    return Task("unicycle and obstacles", problem, lambda rng: np.array([0.0, 0.0, rng.uniform(0.0, 1.5)]), 0.3, success)


def arm(N: int = 50) -> Task:
    """The UR3's tool goes to a point and rests there after N steps of 20 ms, by torques within the efforts of its joints."""
    robot = cd.load("ur3")
    world = cd.Simulation(robot, 0.02)
    target = np.array([0.3, -0.2, 0.25])
    ready = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, 0.0, 0.0])

    def tool(x: Any) -> Any:
        return robot.frame_pose(x[:6], "tool")[1] - target

    # the posture keeps the elbow away from its limits, behind which it would stay
    problem = cd.ocp(
        world, N=N, residual=lambda x, u: np.concatenate([tool(x), x[6:12], u, x[:6] - ready]),
        weights=np.repeat([1.0, 0.01, 1e-4, 0.03], [3, 6, 6, 6]),
        terminal_residual=lambda x: np.concatenate([tool(x), x[6:12]]), terminal_weights=np.repeat([1e4, 10.0], [3, 6]),
        bounds={"u": np.array([link.limits.effort for link in robot.model.links])},
    )  # fmt: skip

    def success(found: Any) -> bool:
        end = found.states[-1]
        return bool(np.linalg.norm(tool(end)) < 0.01 and np.abs(end[6:12]).max() < 0.1)

    return Task("UR3 reaching", problem, lambda rng: world.state(ready + 0.3 * rng.normal(size=6)), 1.0, success)


# ---- ANYmal


@cache
def quadruped(N: int = 100) -> tuple[Any, Any, np.ndarray]:
    """(problem, world, the state in which it stands): ANYmal with steps of 10 ms and |u| <= 80 N m.

    Its residual: base position and orientation, joint angles, velocities, torques, positions of the feet, less the reference of
    the stage (33: position, orientation, angles, feet, velocity of the base). Three tasks are one kernel with other weights and
    references.
    """
    robot = standing.anymal()
    if robot is None:
        return None, None, np.zeros(0)
    world = cd.Simulation(robot, 0.01, cd.Plane(friction=standing.FRICTION), standing.FEET, smoothing=1e-2, rest_depth_mm=10.0)
    stand = world.stand(np.concatenate([[0.0, 0.0, standing.HEIGHT, 0.0, 0.0, 0.0, 1.0], standing.POSE]))

    def errors(x: Any, r: Any) -> Any:
        feet = np.concatenate([robot.frame_pose(x[:19], name)[1] for name in FEET])
        v = np.concatenate([x[19:22] - r[30:33], x[22:37]])
        return np.concatenate([x[:3] - r[:3], x[3:6] - r[3:6], x[7:19] - r[6:18], v, feet - r[18:30]])

    problem = cd.ocp(
        world, N=N, residual=lambda x, u, r: np.concatenate([errors(x, r), u]), weights=_weights(feet=0.0),
        terminal_residual=errors, terminal_weights=10.0 * _weights(feet=0.0)[:48], reference=_reference(robot, stand, N),
        bounds={"u": standing.EFFORT},
    )  # fmt: skip
    return problem, world, stand


def _weights(*, feet: float, speed: float = 0.1, rates: float = 0.01) -> np.ndarray:
    """Of the residual of ANYmal; `speed`: of the base, `rates`: of the joints; heights of feet count ten times as much."""
    before = np.repeat([10.0, 30.0, 10.0, 1.0, speed, 0.1, rates], [2, 1, 3, 12, 3, 3, 12])
    return np.concatenate([before, np.tile([feet, feet, 10.0 * feet], 4), np.full(12, 1e-3)])


def _reference(robot: Any, stand: np.ndarray, N: int) -> np.ndarray:
    """Standing all the time (N + 1, 33)."""
    feet = np.concatenate([robot.frame_pose(stand[:19], name)[1] for name in FEET])
    return np.tile(np.concatenate([stand[:6], stand[7:19], feet, np.zeros(3)]), (N + 1, 1))


def stand_up(N: int = 100) -> Task:
    """From lying with folded legs, the base at 0.16 m; the reference rises within 0.7 s."""
    problem, world, stand = quadruped(N)
    lying = world.stand(np.concatenate([stand[:7], np.tile([0.0, 1.15, -2.3, 0.0, -1.15, 2.3], 2)]))
    r, t = _reference(world.robot, stand, N), np.clip(np.linspace(0.0, 1.0 / 0.7, N + 1), 0.0, 1.0)
    left = 1.0 - t * t * (3.0 - 2.0 * t)
    r[:, 2] += left * (lying[2] - stand[2])
    r[:, 6:18] += left[:, None] * (lying[7:19] - stand[7:19])
    r[:, 32] = 6.0 * t * (1.0 - t) / 0.7 * (stand[2] - lying[2])

    def start(rng: np.random.Generator) -> np.ndarray:
        return world.stand(lying[:19] + np.concatenate([np.zeros(7), 0.05 * rng.normal(size=12)]))

    def success(found: Any) -> bool:
        return bool(abs(found.states[-1, 2] - stand[2]) < 0.05 and np.abs(found.states[-1, 3:6]).max() < 0.1)

    w = _weights(feet=10.0, rates=0.03)
    data = {"reference": r, "weights": w, "terminal_weights": 10.0 * w[:48]}
    return Task("ANYmal stands up", problem, start, TORQUE, success, data, **METHOD)


def _near(world: Any, stand: np.ndarray) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: world.stand(stand[:19] + np.concatenate([np.zeros(7), 0.02 * rng.normal(size=12)]))


def step_forward(N: int = 100) -> Task:
    """Two diagonal pairs of feet step forward by 15 cm and are lifted by 8 cm, one pair after the other."""
    problem, world, stand = quadruped(N)
    r, t = _reference(world.robot, stand, N), np.linspace(0.0, 1.0, N + 1)
    r[:, 0] += 0.15 * np.clip((t - 0.1) / 0.8, 0.0, 1.0)
    r[:, 30] = np.where((t > 0.1) & (t < 0.9), 0.15 / 0.8, 0.0)
    for foot, begin in ((0, 0.1), (3, 0.1), (1, 0.5), (2, 0.5)):
        phase = np.clip((t - begin) / 0.35, 0.0, 1.0)
        r[:, 18 + 3 * foot] += 0.15 * phase
        r[:, 20 + 3 * foot] += 0.08 * np.sin(np.pi * phase)

    def success(found: Any) -> bool:
        feet = np.array([[world.robot.frame_pose(x[:19], name)[1] for name in FEET] for x in found.states])
        lifted = feet[:, :, 2].max(axis=0) - feet[0, :, 2]
        moved = feet[-1, :, 0] - feet[0, :, 0]
        return bool(lifted.min() > 0.03 and moved.min() > 0.1 and found.states[-1, 2] > stand[2] - 0.1)

    return Task("ANYmal steps forward", problem, _near(world, stand), TORQUE, success, {
        "reference": r, "weights": _weights(feet=30.0), "terminal_weights": 10.0 * _weights(feet=30.0)[:48],
    }, **METHOD)  # fmt: skip


def _jump_height(t: np.ndarray, crouch: float = 0.12, begin: float = 0.2, push: float = 0.15) -> tuple[np.ndarray, np.ndarray]:
    """(height of the base above its stance, its speed): a crouch, a push of constant force, a flight, and the same backwards."""
    v = 2.0 * crouch / push
    flight = 2.0 * v / 9.81
    ends = begin + np.cumsum([push, flight, push])
    dt = t - begin
    pieces = [
        (-0.5 * crouch * (1.0 - np.cos(np.pi * t / begin)), -0.5 * crouch * np.pi / begin * np.sin(np.pi * t / begin)),
        (-crouch + 0.5 * v / push * dt**2, v / push * dt),
        (v * (t - ends[0]) - 0.5 * 9.81 * (t - ends[0]) ** 2, v - 9.81 * (t - ends[0])),
        (-crouch + 0.5 * v / push * (ends[2] - t) ** 2, v / push * (t - ends[2])),
    ]
    rest = np.clip((t - ends[2]) / (1.0 - ends[2]), 0.0, 1.0)
    pieces.append((-0.5 * crouch * (1.0 + np.cos(np.pi * rest)), 0.5 * crouch * np.pi / (1.0 - ends[2]) * np.sin(np.pi * rest)))
    which = np.searchsorted([begin, *ends], t, side="right")
    return np.choose(which, [p[0] for p in pieces]), np.choose(which, [p[1] for p in pieces])


def jump(N: int = 100) -> Task:
    """All feet leave the ground by 25 cm and land again."""
    problem, world, stand = quadruped(N)
    r, t = _reference(world.robot, stand, N), np.linspace(0.0, 1.0, N + 1)
    height, r[:, 32] = _jump_height(t)
    r[:, 2] += height
    r[:, 20:30:3] += np.maximum(height, 0.0)[:, None]

    def success(found: Any) -> bool:
        feet = np.array([[world.robot.frame_pose(x[:19], name)[1][2] for name in FEET] for x in found.states])
        air = (feet - feet[0]).min(axis=1).max()
        return bool(air > 0.08 and abs(found.states[-1, 2] - stand[2]) < 0.1 and np.abs(found.states[-1, 3:6]).max() < 0.15)

    return Task("ANYmal jumps", problem, _near(world, stand), TORQUE, success, {
        "reference": r, "weights": _weights(feet=10.0, speed=10.0), "terminal_weights": 10.0 * _weights(feet=10.0)[:48],
    }, **METHOD)  # fmt: skip


# ---- measured


def measured(task: Task, seeds: int, iterations: int = ITERATIONS) -> dict[str, Any]:
    """Iterations, milliseconds per iteration, how many converged and how many are a success over the seeds."""
    start = time.process_time()
    solver = solver_of(task, iterations)
    solver.function.on("cpu", lanes=1).kernel()
    compiled = time.process_time() - start
    rows = []
    for seed in range(seeds):
        x, plan = first_plan(task, solver, seed)
        before = time.process_time()
        found = solver(x, plan, **task.data)
        spent = time.process_time() - before
        good = task.success(found) and found.residuals["dynamics"] == 0.0
        rows.append((float(found.iterations), 1e3 * spent / float(found.iterations), found.status == 0, good, float(found.cost)))
    count, each, converged, good, cost = (np.array(column) for column in zip(*rows, strict=True))
    return {
        "task": task.name, "seeds": seeds, "success": int(good.sum()), "converged": int(converged.sum()),
        "iterations": float(np.median(count)), "most iterations": float(count.max()), "ms per iteration": float(each.min()),
        "median ms per iteration": float(np.median(each)), "cost": float(np.median(cost)), "compile, s": compiled,
    }  # fmt: skip


def first_plan(task: Task, solver: Any, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(first state, plan of random controls that stays there)."""
    rng = np.random.default_rng(seed)
    x = task.start(rng)
    plan = solver.start(x)
    plan["controls"] = plan["controls"] + task.noise * rng.normal(size=plan["controls"].shape)
    return x, plan


_solvers: dict[int, Any] = {}  # by the identity of their problems, which live as long


def solver_of(task: Task, iterations: int = ITERATIONS) -> Any:
    """The solver of a task; tasks of one problem share it."""
    made = task.problem.ilqr(iterations=iterations, tolerance=task.tolerance, regularization=task.regularization)
    return _solvers.setdefault(id(task.problem), made)


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers."""
    tasks: list[Callable[[], Task]] = [cart_pole, unicycle, arm]
    if tiny:
        tasks = [lambda: cart_pole(5)]
    elif standing.anymal() is not None:
        tasks += [stand_up, step_forward, jump]
    rows = []
    columns = ("task", "success", "converged", "iterations", "most", "ms per iteration", "compile, s")
    table = Table(*columns, title="iLQR from random controls, one core")
    for make in tasks:
        rows.append(row := measured(make(), 2 if tiny else SEEDS, 3 if tiny else ITERATIONS))
        table.add_row(
            row["task"], f"{row['success']} of {row['seeds']}", str(row["converged"]), f"{row['iterations']:.0f}",
            f"{row['most iterations']:.0f}", f"{row['ms per iteration']:.3f}", f"{row['compile, s']:.0f}",
        )  # fmt: skip
    console.print(table)
    return {"rows": rows, "busy": busy()}
