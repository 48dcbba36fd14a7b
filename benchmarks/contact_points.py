"""Microseconds per step over the number of contact points, from Python, in rollouts and in batches, against MuJoCo.

The robots stand on their feet; the other points are spheres about their bodies that touch nothing, as most points of most robots
do most of the time. MuJoCo has the same spheres. Each row is measured in a process of its own, in vectors of AVX2 and of AVX-512.
"""

from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec
from time import perf_counter, process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks import standing
from benchmarks.contact import Calls, mujoco_rollout, timed
from benchmarks.measure import busy, in_new_process
from benchmarks.robots import FILES, example_robots
from condyle.simulate.points import ContactPoint, contact_points
from condyle.tape.backends.cpu import host

COUNTS = (4, 8, 16, 32, 64)
VECTORS = {"AVX2": "32", "AVX-512": "64"}
KINDS = ("step", "rollout", "256", "4096")
STEPS, FEW = 32, 32  # of a single robot; robots of MuJoCo, whose time per robot does not depend on how many there are
LIMIT = 240  # s for one row, compiling included
RADIUS = 0.02  # m
# of Talos: two diagonal corners of each sole, then the other two
SOLES = [
    (f"leg_{side}_6_joint", (x * 0.1, y * 0.06, -0.087))
    for turn in (1.0, -1.0)
    for side in ("left", "right")
    for x, y in ((1.0, turn), (-1.0, -turn))
]
HOW = (
    "One thread. step: a call from Python for one robot, world.step and mj_step; rollout: one robot, 32 steps; 256 and 4,096: a\n"
    "batch, world.rollout and mujoco.rollout. first: seconds until the first step is done, with an empty cache. In brackets,\n"
    "MuJoCo's time over ours.\n"
)


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers."""
    missing = [name for name in ("mujoco", "pinocchio") if find_spec(name) is None]
    if missing or example_robots() is None:
        console.print(f"needs {', '.join(missing) or 'example-robot-data'}: pip install 'condyle[peers]'")
        return {}
    if tiny:
        return {"rows": [measured("anymal", 4, tiny=True)], "busy": busy()}
    wide = [name for name, size in VECTORS.items() if int(size) <= host().vector_bytes]
    rows = []
    for robot in ("anymal", "talos"):
        for count in COUNTS:
            for vectors in wide:
                with console.status(f"{robot}, {count} points, {vectors}"):
                    rows.append({"vectors": vectors} | in_fresh_process(robot, count, VECTORS[vectors]))
    console.print(table(rows))
    console.print(HOW, highlight=False)
    return {"rows": rows, "busy": busy()}


def in_fresh_process(robot: str, count: int, vector_bytes: str) -> dict[str, Any]:
    """The row of a robot with so many points; its numbers are missing if it takes too long, or is refused."""
    code = f"import json; from benchmarks.contact_points import measured; print(json.dumps(measured({robot!r}, {count})))"
    try:
        return in_new_process(code, LIMIT, CONDYLE_VECTOR_BYTES=vector_bytes, CONDYLE_CACHE="off")
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return {"robot": robot, "points": count, "error": str(error)[-200:]}


def measured(name: str, count: int, tiny: bool = False) -> dict[str, Any]:
    """Microseconds per step of ours and of MuJoCo, and seconds to the first step."""
    robot = load(name)
    begin = perf_counter()
    world = cd.Simulation(robot, standing.DT, cd.Plane(friction=standing.FRICTION), points_of(robot, name, count), threads=1)
    x, u = stance(world, name)
    world.step(x, u)
    first = perf_counter() - begin
    other = standing.twin(world)
    seconds = 0.01 if tiny else 1.0
    found = {kind: timed(calls, seconds, process_time) for kind, calls in competitors(world, other, x, u, tiny).items()}
    return {"robot": name, "points": count, "touching": touching(world, x, u), "first": first, **found}


def competitors(world: cd.Simulation, other: Any, x: np.ndarray, u: np.ndarray, tiny: bool) -> dict[str, Calls]:
    """What is timed, by kind: (call, steps in it) of both."""
    steps = 2 if tiny else STEPS
    us = np.tile(u, (steps, 1))
    found: dict[str, Calls] = {
        "step": {"Condyle": (by_step(world, x, u, steps), steps), "MuJoCo": (by_mj_step(world, other, x, u, steps), steps)},
        "rollout": {
            "Condyle": (lambda: world.rollout(x, us, lanes=None), steps),
            "MuJoCo": (mujoco_rollout(world, other, x[None], us[None]), steps),
        },
    }
    for batch, horizon in ((8, 2),) if tiny else ((256, STEPS), (4096, 4)):
        X, US = nearby(world, x, batch), np.tile(u, (batch, horizon, 1))
        few = min(FEW, batch)
        found[str(batch)] = {
            "Condyle": (lambda X=X, US=US: world.rollout(X, US), batch * horizon),
            "MuJoCo": (mujoco_rollout(world, other, X[:few], US[:few]), few * horizon),
        }
    return found


def by_step(world: cd.Simulation, x: np.ndarray, u: np.ndarray, steps: int) -> Any:
    """Our steps from Python."""

    def call() -> None:
        now = x
        for _ in range(steps):
            now = world.step(now, u)

    return call


def by_mj_step(world: cd.Simulation, other: Any, x: np.ndarray, u: np.ndarray, steps: int) -> Any:
    """MuJoCo's steps from Python."""
    import mujoco

    data, full = mujoco.MjData(other), mujoco.mjtState.mjSTATE_FULLPHYSICS
    (state,) = standing.mujoco_states(world, other, x)

    def call() -> None:
        mujoco.mj_setState(other, data, state, full)
        data.ctrl = u
        for _ in range(steps):
            mujoco.mj_step(other, data)

    return call


# ---- robots, points and states


def load(name: str) -> cd.Robot:
    """A robot of example-robot-data on a free base."""
    folder = example_robots()
    assert folder is not None
    return cd.load(str(folder / FILES[name][0]), "free")


def points_of(robot: cd.Robot, name: str, count: int) -> list[ContactPoint]:
    """`count` spheres: the feet, and then spheres about the bodies, one round after the other."""
    model = robot.model
    if name == "anymal":
        points = list(contact_points(model, standing.FEET))
    else:
        links = {link.joint: k for k, link in enumerate(model.links)}
        points = [ContactPoint(f"sole{k}", links[joint], at, RADIUS) for k, (joint, at) in enumerate(SOLES)]
    feet = {point.link for point in points}
    bodies = [k for k, link in enumerate(model.links) if link.inertia.mass and k not in feet]
    for k in range(count):
        link = model.links[bodies[k % len(bodies)]]
        around = 0.05 * np.array([np.cos(k), np.sin(k), 0.0])
        at = np.asarray(link.inertia.h) / link.inertia.mass + around
        points.append(ContactPoint(f"body{k}", bodies[k % len(bodies)], tuple(at), RADIUS))
    return points[:count]


def stance(world: cd.Simulation, name: str) -> tuple[np.ndarray, np.ndarray]:
    """(state, control): the lowest point on the ground, torques that carry the joints' weight."""
    robot = world.robot
    q = robot.neutral()
    if name == "anymal":
        q[7:] = standing.POSE
    else:
        bend = {"3": -0.4, "4": 0.8, "5": -0.4}
        for side in ("left", "right"):
            for joint, angle in bend.items():
                q[robot.q_slice(f"leg_{side}_{joint}_joint")] = angle
    frames = {frame.link: frame for frame in reversed(robot.model.frames) if frame.link >= 0}
    places, jacobians = [], []
    for point in world.contact_points:
        frame = frames[point.link]
        R, p = robot.frame_pose(q, frame.name)
        arm = R @ frame.pose.inv().point(np.array(point.position))
        J = robot.jacobian(q, frame.name)
        places.append((p + arm)[2] - point.radius)
        jacobians.append(J[:3] + np.cross(J[3:].T, arm).T)
    q[2] -= min(places)
    # static balance: forces of the points on the ground that carry the base, and the torques that go with them
    J = np.concatenate([J for J, height in zip(jacobians, places, strict=True) if height - min(places) < 1e-3])
    gravity = robot.gravity_forces(q)
    forces = np.linalg.lstsq(J[:, :6].T, gravity[:6], rcond=None)[0]
    return world.state(q), (gravity - J.T @ forces)[6:]


def nearby(world: cd.Simulation, x: np.ndarray, batch: int) -> np.ndarray:
    """States that differ a little."""
    rng, nq = np.random.default_rng(0), world.robot.nq
    X = np.tile(x, (batch, 1))
    X[:, 7:nq] += 1e-2 * rng.normal(size=(batch, nq - 7))
    X[:, nq:] += 1e-1 * rng.normal(size=(batch, world.robot.nv))
    return X


def touching(world: cd.Simulation, x: np.ndarray, u: np.ndarray) -> int:
    """How many points carry something after a while."""
    end = world.rollout(x, np.tile(u, (STEPS, 1)))[-1]
    return int(np.sum(world.contact_forces(end, u)[:, 2] > 1e-3 * world.weight))


def table(rows: list[dict[str, Any]]) -> Table:
    """One row for each robot, number of points and width of vectors."""
    shown = Table(title=f"microseconds per step and robot ({busy()})", title_justify="left")
    for head in ("robot", "points", "touching", "vectors", "first, s", *KINDS):
        shown.add_column(head, justify="left" if head in ("robot", "vectors") else "right")
    for row in rows:
        if "error" in row:
            shown.add_row(row["robot"], str(row["points"]), "", row["vectors"], row["error"].strip().splitlines()[-1][:60])
            continue
        cells = []
        for kind in KINDS:
            ours, theirs = row[kind]["Condyle"], row[kind]["MuJoCo"]
            cells.append(f"{ours:.1f} ({theirs / ours:.1f})")
        facts = (row["robot"], str(row["points"]), str(row["touching"]), row["vectors"], f"{row['first']:.1f}")
        shown.add_row(*facts, *cells)
    return shown


if __name__ == "__main__":
    print(json.dumps(measured("anymal", 4), indent=1))
