"""Motion plans of a UR3 in 100 random scenes: success, path lengths, times, beside OMPL's RRT-Connect on the same distances."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import condyle as cd
from benchmarks.distances import rotations
from condyle.errors import require
from condyle.methods.planning import Clearance, plan_motion
from condyle.methods.planning.obstacles import Box, Capsule, Plane, RobotDistances, Sphere, robot_distances
from condyle.methods.planning.shortcut import length

SCENES = 100
CLEARANCE = 0.01  # m
LIMIT = 3.0  # s, of a search
# rad, of starts and goals: the upper arm above the floor on one side of its turn, which the floor separates from the other
MOST = np.array([np.pi, 0.0, 2.6, np.pi, np.pi, np.pi])
LEAST = np.array([-np.pi, -np.pi, -2.6, -np.pi, -np.pi, -np.pi])
STEP = 0.05  # rad: OMPL checks configurations as far apart
OBSTACLES = (
    Plane(position=(0.0, 0.0, -0.02), name="floor"),
    Box((0.2, 0.25, 0.3), name="crate"),
    Box((0.1, 0.4, 0.1), name="beam"),
    Box((0.3, 0.05, 0.4), name="wall"),
    Sphere(0.1, name="ball"),
    Sphere(0.06, name="knob"),
    Capsule(0.04, 0.4, name="post"),
    Capsule(0.03, 0.6, name="rail"),
)
SKIP = (("base", "lift"), ("elbow", "wrist_2"), ("elbow", "wrist_3"), ("wrist_1", "wrist_3"))
AWAY = 20.0  # m, of obstacles that a scene does not have

Scene = tuple[np.ndarray, np.ndarray, np.ndarray]  # poses, start, goal


def scenes(distances: RobotDistances, rng: np.random.Generator, count: int) -> list[Scene]:
    """Floor and two to six obstacles each, start and goal free, and no straight line between them."""
    found: list[Scene] = []
    while len(found) < count:
        poses = np.array([each.pose for each in OBSTACLES])
        chosen = rng.permutation(np.arange(1, len(OBSTACLES)))[: rng.integers(2, 7)]
        poses[1:, 2, 3] = AWAY
        for k in chosen:
            angle, radius = rng.uniform(-np.pi, np.pi), rng.uniform(0.2, 0.5)
            poses[k, :3, :3] = rotations(rng, 1)[0]
            poses[k, :3, 3] = radius * np.cos(angle), radius * np.sin(angle), rng.uniform(0.05, 0.6)
        space = Clearance(distances, CLEARANCE + 0.002, poses=poses)
        q = rng.uniform(LEAST, MOST, (200, distances.robot.nv))
        q = q[space.free(q)]
        if len(q) >= 2 and not space.edges_free(q[:1], q[1:2])[0]:
            found.append((poses, q[0], q[1]))
    return found


def ours(distances: RobotDistances, scene: Scene, limit: float) -> dict[str, Any]:
    """Result of plan_motion."""
    poses, start, goal = scene
    begin = perf_counter()
    plan = plan_motion(
        distances.robot, distances, start, goal, poses=poses, clearance=CLEARANCE, iterations=100_000, seconds=limit
    )
    found = {"ok": plan.ok, "time": perf_counter() - begin, "checks": plan.evaluations, "reason": plan.reason}
    if plan.path is not None:
        found |= dict(zip(("searched", "shortened", "smoothed"), plan.lengths, strict=True))
        found["certified"] = True
        found["lowest"] = lowest(distances, poses, plan.path.at(np.linspace(0.0, 1.0, 400)).position)
    return found


def theirs(distances: RobotDistances, scene: Scene, limit: float) -> dict[str, Any]:
    """Result of OMPL's RRTConnect and PathSimplifier, which ask for one state at a time by the same compiled distances."""
    base, geometric = (require(f"ompl.{name}", "peers", "a planner to compare with") for name in ("base", "geometric"))
    robot, n = distances.robot, distances.robot.nv
    poses, start, goal = scene
    space, bounds, checks = base.RealVectorStateSpace(n), base.RealVectorBounds(n), 0
    for j in range(n):
        bounds.setLow(j, float(robot.lower[j]))
        bounds.setHigh(j, float(robot.upper[j]))
    space.setBounds(bounds)
    setup = geometric.SimpleSetup(space)

    def valid(state: Any) -> bool:
        nonlocal checks
        checks += 1
        q = np.array([state[j] for j in range(n)])
        return bool(distances.function(q, poses).min() >= CLEARANCE)

    setup.setStateValidityChecker(valid)
    information = setup.getSpaceInformation()
    information.setStateValidityCheckingResolution(STEP / float(space.getMaximumExtent()))
    ends = []
    for q in (start, goal):
        state = space.allocState()
        for j in range(n):
            state[j] = float(q[j])
        ends.append(state)
    setup.setStartAndGoalStates(*ends)
    setup.setPlanner(geometric.RRTConnect(information))
    begin = perf_counter()
    setup.solve(limit)
    found: dict[str, Any] = {"ok": bool(setup.haveExactSolutionPath())}
    if found["ok"]:
        found["searched"] = _length(setup.getSolutionPath(), n)
        # shortens, and rounds corners with a B-spline
        setup.simplifySolution()
        found["smoothed"] = _length(setup.getSolutionPath(), n)
    found |= {"time": perf_counter() - begin, "checks": checks}
    if found["ok"]:
        points = _points(setup.getSolutionPath(), n)
        found["certified"] = Clearance(distances, CLEARANCE, poses=poses).path_free(points)
        found["lowest"] = lowest(distances, poses, points)
    return found


def _points(path: Any, n: int) -> np.ndarray:
    return np.array([[state[j] for j in range(n)] for state in path.getStates()])


def _length(path: Any, n: int) -> float:
    return length(_points(path, n))


def lowest(distances: RobotDistances, poses: np.ndarray, points: np.ndarray) -> float:
    """The least distance on a polygon, of 20 samples on each line, m."""
    s = np.linspace(0.0, 1.0, 20)[:, None]
    q = np.concatenate([a + s * (b - a) for a, b in pairwise(points)])
    return float(np.min(distances(q, np.broadcast_to(poses, (len(q), *poses.shape)))))


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers."""
    robot = cd.load("ur3")
    distances = robot_distances(robot, OBSTACLES, moving=True, skip=SKIP)
    todo = scenes(distances, np.random.default_rng(0), 2 if tiny else SCENES)
    # compiled before the clock starts
    plan_motion(robot, distances, todo[0][1], todo[0][1] + 1e-3, poses=todo[0][0], seconds=0.1)
    planners: dict[str, Any] = {"condyle": ours}
    if find_spec("ompl"):
        planners["ompl"] = theirs
        util = require("ompl.util", "peers", "a planner to compare with")
        util.setLogLevel(util.LogLevel.LOG_NONE)
        util.RNG.setSeed(1)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in planners}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("scenes", total=len(todo))
        for scene in todo:
            for name, planner in planners.items():
                results[name].append(planner(distances, scene, 0.2 if tiny else LIMIT))
            progress.advance(task)
    solved = np.all([[each["ok"] for each in rows] for rows in results.values()], axis=0)
    any_solved = np.any([[each["ok"] for each in rows] for rows in results.values()], axis=0)
    table = Table("", *results)
    summary: dict[str, dict[str, Any]] = {name: _summary(rows, solved) for name, rows in results.items()}
    for row in next(iter(summary.values())):
        table.add_row(row, *(f"{each[row]:.4g}" if row in each else "" for each in summary.values()))
    console.print(table)
    console.print(f"{len(todo)} scenes, {int(any_solved.sum())} solved by at least one, {int(solved.sum())} by all")
    return {"summary": summary, "scenes": len(todo), "solved by one": int(any_solved.sum()), "by all": int(solved.sum())}


def _summary(rows: list[dict[str, Any]], solved: np.ndarray) -> dict[str, Any]:
    """Of one planner: success in all scenes, the rest in the scenes that all planners solve."""
    chosen = [row for row, ok in zip(rows, solved, strict=True) if ok]

    def of(name: str, function: Any) -> float:
        values = [row[name] for row in chosen if name in row]
        return float(function(values)) if values else float("nan")

    return {
        "solved": sum(row["ok"] for row in rows),
        "time, median, ms": 1e3 * of("time", np.median),
        "time, mean, ms": 1e3 * of("time", np.mean),
        "time, largest, ms": 1e3 * of("time", np.max),
        "distance evaluations, mean": of("checks", np.mean),
        "length of the search, mean, rad": of("searched", np.mean),
        "shortened": of("shortened", np.mean),
        "smoothed": of("smoothed", np.mean),
        "paths certified to keep the clearance": of("certified", np.mean),
        "least distance - clearance, mm": 1e3 * (of("lowest", np.min) - CLEARANCE),
    }
