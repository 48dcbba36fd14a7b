"""The safety filter in random trials: its least distance from the margin, its slack, and what it costs in time and path."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import condyle as cd
from benchmarks.distances import rotations
from benchmarks.measure import best
from condyle.methods.control.safety_filter import SafetyFilter
from condyle.methods.planning.obstacles import Box, Capsule, Plane, RobotDistances, Sphere, robot_distances

MARGIN = 0.02  # m
DT, EVERY = 0.00025, 4  # s: physics at 4 kHz, control at 1 kHz
SECONDS = 3.0  # of a trial
TRAVEL = 2.0  # rad, of a joint from start to goal, at most
TRIALS, ON_THE_WAY, MOVING, CHUNK = 10_000, 2_000, 1_000, 500
REACHED = 0.02  # rad, of every joint
OBSTACLES = (
    Sphere(0.08, name="ball"),
    Capsule(0.05, 0.3, name="rod"),
    Box((0.15, 0.2, 0.25), name="box"),
    Plane(position=(0.0, 0.0, -0.02), name="floor"),
)
# links that cannot meet, but whose capsules are nearer than the margin, or as near
SKIP = (("base", "lift"), ("elbow", "wrist_2"), ("elbow", "wrist_3"), ("wrist_1", "wrist_3"))


class Towards(cd.Block):
    """Computed torque towards a goal: speeds proportional to the errors, in one proportion, at most 0.8 of the limits."""

    def __init__(self, robot: cd.Robot, **options: Any) -> None:
        super().__init__(**options)
        self.robot = robot
        self.gain, self.rate = self.parameter("gain", 4.0, "1/s"), self.parameter("rate", 40.0, "1/s")

    def step(self, state: dict[str, Any], x: Any, goal: Any) -> Any:
        """(joint forces, {})."""
        v = self.gain * (goal - x.q)
        part = np.max(np.abs(v) / (0.8 * self.robot.velocity_limits))
        v = v / np.maximum(part, 1.0)
        return self.robot.inverse_dynamics(x.q, x.v, self.rate * (v - x.v)), {}


class Motion(cd.Block):
    """Poses (obstacles, 4, 4) and velocities (obstacles, 6) of obstacles that move at constant velocity."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.poses = self.parameter("poses", np.array([each.pose for each in OBSTACLES]), "m")
        self.velocities = self.parameter("velocities", np.zeros((len(OBSTACLES), 6)), "m/s")

    def step(self, state: dict[str, Any], t: Any) -> Any:
        """((poses, velocities) at time t, {})."""
        poses = np.array(self.poses + 0.0, dtype=object)
        rates = self.velocities + 0.0
        for k in range(len(OBSTACLES)):
            poses[k, :3, 3] = poses[k, :3, 3] + rates[k, :3] * t
        return (cd.array(poses), rates), {}


class Score(cd.Block):
    """What a trial is judged by, at every tick of the physics."""

    def __init__(self, distances: RobotDistances, **options: Any) -> None:
        super().__init__(**options)
        self.distances = distances
        for name, value in {"least": 10.0, "length": 0.0, "time": SECONDS, "slack": 0.0, "brakes": 0.0, "changed": 0.0}.items():
            self.state(name, value)

    def step(self, state: dict[str, Any], x: Any, goal: Any, poses: Any, filtered: Any) -> Any:
        """(0, next state)."""
        d = self.distances.function(cd.array(x.q), poses)
        there = np.max(np.abs(goal - x.q)) < REACHED
        after = {
            "least": np.minimum(state["least"], np.min(d) - MARGIN),
            "length": state["length"] + np.sqrt(sum((v * v for v in x.v), 0.0)) * self.dt,
            "time": cd.where(there, np.minimum(state["time"], x.t), state["time"]),
        }
        if filtered is not None:
            after["slack"] = np.maximum(state["slack"], filtered["slack"])
            after["brakes"] = state["brakes"] + filtered["brakes"]
            after["changed"] = state["changed"] + cd.where(filtered["change"] > 0.0, 1.0, 0.0)
        return 0.0, after


def scored(towards: Towards, motion: Motion, score: Score, safety: SafetyFilter | None) -> Any:
    """The function of a loop with its score."""

    def control(x: Any, goal: Any) -> Any:
        poses, velocities = motion(x.t)
        u = towards(x, goal)
        filtered = None if safety is None else safety(x, u, poses, velocities)
        score(x, goal, poses, filtered)
        return u if filtered is None else filtered["u"]

    return control


def filtered_by(towards: Towards, safety: SafetyFilter | None) -> Any:
    """The function of a loop alone."""
    return lambda x, goal: towards(x, goal) if safety is None else safety(x, towards(x, goal))


def loops(robot: cd.Robot, distances: RobotDistances) -> dict[bool, cd.Loop]:
    """{whether with the filter: loop}, with the score as states."""
    world = cd.Simulation(robot, dt=DT)
    found = {}
    for with_filter in (False, True):
        towards, motion, score = Towards(robot, every=EVERY), Motion(), Score(distances)
        safety = SafetyFilter(world, distances, margin=MARGIN, every=EVERY) if with_filter else None

        control = scored(towards, motion, score, safety)
        found[with_filter] = cd.Loop(world, control, goal=robot.nv)
    return found


def random_trials(
    distances: RobotDistances, rng: np.random.Generator, count: int, speed: float, on_the_way: bool = False
) -> dict[str, np.ndarray]:
    """Starts, goals and obstacles; both ends keep the margin, 5 mm more, and what the ball moves in 0.1 s.

    `on_the_way`: obstacles are near points of the arm between start and goal, not anywhere within its reach.
    """
    robot = distances.robot
    parts: list[dict[str, np.ndarray]] = []
    while sum(len(part["q"]) for part in parts) < count:
        n = 2 * count + 64
        poses = np.tile([each.pose for each in OBSTACLES], (n, 1, 1, 1))
        for k in range(3):
            angle, radius = rng.uniform(-np.pi, np.pi, n), rng.uniform(0.2, 0.5, n)
            poses[:, k, :3, :3] = rotations(rng, n)
            poses[:, k, :3, 3] = np.stack([radius * np.cos(angle), radius * np.sin(angle), rng.uniform(0.05, 0.6, n)], axis=1)
        velocities = np.zeros((n, len(OBSTACLES), 6))
        direction = rng.normal(size=(n, 3))
        velocities[:, 0, :3] = speed * direction / np.linalg.norm(direction, axis=1, keepdims=True)
        q = rng.uniform(-np.pi, np.pi, (n, robot.nv))
        goal = np.clip(q + rng.uniform(-TRAVEL, TRAVEL, q.shape), -np.pi, np.pi)
        for k, frame in enumerate(("elbow", "wrist_1", "tool") if on_the_way else ()):
            part = rng.uniform(0.3, 0.7, (n, 1))
            poses[:, k, :3, 3] = robot.frame_pose(q + part * (goal - q), frame)[1] + 0.05 * rng.normal(size=(n, 3))
        ok = np.ones(n, dtype=bool)
        for each in (q, goal):
            ok &= np.min(distances(each, poses), axis=1) > MARGIN + 0.005 + speed * 0.1
        parts.append({"q": q[ok], "goal": goal[ok], "poses": poses[ok], "velocities": velocities[ok]})
    return {name: np.concatenate([part[name] for part in parts])[:count] for name in parts[0]}


def judged(loop: cd.Loop, trials: dict[str, np.ndarray], seconds: float, progress: Progress, task: Any) -> dict[str, np.ndarray]:
    """The states of the score at the end of each trial."""
    found: list[dict[str, np.ndarray]] = []
    for k in range(0, len(trials["q"]), CHUNK):
        part = {name: value[k : k + CHUNK] for name, value in trials.items()}
        parameters = {f"motion.{name}": part[name] for name in ("poses", "velocities")}
        steps = round(seconds / DT)
        out = loop.rollout(
            loop.state(part["q"]), part["goal"][:, None], steps, parameters=parameters, record=["tick"], every=steps, freeze=True
        )
        end = loop.unpacked(out.x)
        found.append({name[6:]: value for name, value in end.items() if name.startswith("score.")} | {"ok": out.status.ok})
        progress.advance(task, len(part["q"]))
    return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


def summary(with_filter: dict[str, np.ndarray], without: dict[str, np.ndarray], seconds: float) -> dict[str, Any]:
    """The numbers of the table."""
    ticks = seconds / DT
    both = (with_filter["time"] < seconds) & (without["time"] < seconds)
    clean = both & (without["least"] >= 0.0)
    met = both & (without["least"] < 0.0)

    def mean(values: np.ndarray, chosen: np.ndarray) -> float:
        return float(np.mean(values[chosen])) if np.any(chosen) else float("nan")

    def ratio(name: str, chosen: np.ndarray) -> float:
        return mean(with_filter[name] / np.maximum(without[name], 1e-12), chosen)

    return {
        "trials": len(without["least"]),
        "simulated to the end": int(np.sum(with_filter["ok"])),
        "least distance - margin, mm": 1e3 * float(np.min(with_filter["least"])),
        "closer than the margin": int(np.sum(with_filter["least"] < 0.0)),
        "the same without the filter": int(np.sum(without["least"] < 0.0)),
        "in contact without the filter": int(np.sum(without["least"] < -MARGIN)),
        "trials with slack": int(np.sum(with_filter["slack"] > 0.0)),
        "largest slack, mm": 1e3 * float(np.max(with_filter["slack"])),
        "ticks in which it brakes": float(np.sum(with_filter["brakes"]) / (ticks * len(without["least"]))),
        "ticks in which it changes the torque": float(np.sum(with_filter["changed"]) / (ticks * len(without["least"]))),
        "goals reached where the path is free without": mean(with_filter["time"] < seconds, without["least"] >= 0.0),
        "goals reached": float(np.mean(with_filter["time"] < seconds)),
        "goals reached without": float(np.mean(without["time"] < seconds)),
        "time to goal over that without, path free": ratio("time", clean),
        "path over that without, path free": ratio("length", clean),
        "time to goal over that without, path not free": ratio("time", met),
        "path over that without, path not free": ratio("length", met),
    }


def cost(robot: cd.Robot, distances: RobotDistances, seconds: float, tiny: bool) -> dict[str, float]:
    """Microseconds per tick of the controller, physics included, with and without the filter."""
    world, found = cd.Simulation(robot, dt=DT), {}
    trials = random_trials(distances, np.random.default_rng(1), 16 if tiny else 1024, 0.0)
    steps = 40 if tiny else 4000
    for with_filter in (False, True):
        towards = Towards(robot, every=EVERY)
        safety = SafetyFilter(world, distances, margin=MARGIN, every=EVERY) if with_filter else None

        control = filtered_by(towards, safety)
        loop = cd.Loop(world, control, goal=robot.nv)
        for name, count in (("one arm", 1), (f"{len(trials['q'])} arms, one thread", len(trials["q"]))):
            x, goal = loop.state(trials["q"][:count]), trials["goal"][:count, None]
            given = {"safety_filter.poses": trials["poses"][:count]} if with_filter else {}
            call = _call(loop, x, goal, steps, given)
            call()
            found[f"{name}, {'with' if with_filter else 'without'}"] = 1e6 * best(call, seconds) * EVERY / (steps * count)
    return found


def _call(loop: cd.Loop, x: Any, goal: Any, steps: int, parameters: Any) -> Any:
    return lambda: loop.rollout(x, goal, steps, parameters=parameters, record=["tick"], every=steps, threads=1)


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    robot = cd.load("ur3")
    shapes = OBSTACLES
    distances = robot_distances(robot, shapes, moving=True, skip=SKIP)
    both, seconds, results = loops(robot, distances), 0.05 if tiny else SECONDS, {}
    kinds = {"at random": (TRIALS, 0.0), "on the way": (ON_THE_WAY, 0.0), "a ball at 0.1 m/s": (MOVING, 0.1)}
    with Progress(console=console, transient=True) as progress:
        for name, (count, speed) in kinds.items():
            trials = random_trials(distances, np.random.default_rng(0), 8 if tiny else count, speed, name == "on the way")
            found = {}
            for with_filter, loop in both.items():
                label = f"obstacles {name}, {'with' if with_filter else 'without'} the filter"
                task = progress.add_task(label, total=len(trials["q"]))
                found[with_filter] = judged(loop, trials, seconds, progress, task)
            results[name] = summary(found[True], found[False], seconds)
    table = Table("", *kinds)
    for row in results["at random"]:
        table.add_row(row, *(f"{each[row]:,}" if isinstance(each[row], int) else f"{each[row]:.4g}" for each in results.values()))
    console.print(table)
    times = cost(robot, distances, 0.01 if tiny else 2.0, tiny)
    table = Table("tick of the controller, 4 of the physics included", "us")
    for what, time in times.items():
        table.add_row(what, f"{time:.2f}")
    console.print(table)
    return {"trials": results, "microseconds": times, "pairs": len(distances)}
