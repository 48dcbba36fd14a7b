"""Microseconds per state of dynamics and contact steps on one core against libraries on JAX: frax and MJX, in the same process.

All compute the same robot, which is written for the others from our model, and results are compared before anything is timed. The
process is bound to one core before JAX starts. Competitors take turns, and the smallest time of each counts.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from benchmarks.measured import Rate

if TYPE_CHECKING:
    from rich.console import Console

BATCH = {"forward dynamics": 4096, "contact": 256}
STEPS = 8  # of a contact rollout: MJX takes up to a quarter of a millisecond for one
SECONDS = 3.0
SAME = 1e-8  # largest difference over the largest entry, as in benchmarks/robots.py
PACKAGES = {"frax": "frax", "MJX": "mujoco.mjx"}
ROBOTS = ("panda", "anymal", "talos")
ROOT = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
FLAGS = "--xla_cpu_multi_thread_eigen=false"


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers."""
    from rich.table import Table

    from benchmarks.measure import busy, in_new_process
    from benchmarks.robots import example_robots
    from condyle.errors import install_command

    found = {name for name, module in PACKAGES.items() if find_spec("jax") and find_spec("mujoco") and _installed(module)}
    for name in PACKAGES.keys() - found:
        console.print(f"{name} is not installed, so nothing is compared with it: {install_command('peers')}", markup=False)
    if tiny:
        found -= {"MJX"}  # which takes most of a minute to compile
    if not found or example_robots() is None:
        return {}
    settings = {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "XLA_FLAGS": FLAGS, "OPENBLAS_NUM_THREADS": "1"}
    code = f"from benchmarks.jax_peers import print_times; print_times({sorted(found)!r}, {tiny!r})"
    numbers = in_new_process(code, 1500, **settings, PYTHONWARNINGS="ignore")
    table = Table(title=f"microseconds per state or step, one core ({busy()})", title_justify="left")
    for head in ("", "batch", "Condyle", *sorted(found), "difference"):
        table.add_column(head, justify="right" if head else "left")
    for what, row in numbers.items():
        times = [f"{row[name]:.3g}" if name in row else "" for name in ("Condyle", *sorted(found))]
        table.add_row(what, f"{row['batch']:,}", *times, f"{row['difference']:.0e}")
    console.print(table)
    return {"times": numbers, "busy": busy()}


def rates(found: dict[str, Any]) -> list[Rate]:
    """The numbers as rates of a result file."""
    rows = []
    for what, row in found.get("times", {}).items():
        task, _, robot = what.rpartition(", ")
        for name in ("Condyle", *PACKAGES):
            if name in row:
                rows.append(Rate(task, robot, row["nv"], name, "cpu", "f64", row["batch"], 1e6 / row[name]))
    return rows


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


# ---- in a process of its own


def print_times(names: list[str], tiny: bool = False) -> None:
    """Print as JSON microseconds per state by task and library."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    found: dict[str, dict[str, float]] = {}
    seconds, count, robots = (0.01, 16, ROBOTS[:1]) if tiny else (SECONDS, BATCH["forward dynamics"], ROBOTS)
    if "frax" in names:
        found |= {f"forward dynamics, {robot}": against_frax(robot, count, seconds) for robot in robots}
    if "MJX" in names:
        found |= {f"{task}, anymal": against_mjx(task) for task in ("step, standing", "step, treading")}
    print(json.dumps(found))


def against_frax(name: str, count: int, seconds: float) -> dict[str, float]:
    """Forward dynamics of random states."""
    import frax
    import jax

    from benchmarks.gpu_cases import robot_of
    from condyle.robot.conventions import a_from_mujoco, q_to_mujoco, v_to_mujoco

    robot, rng = robot_of(name), np.random.default_rng(0)
    model = robot.model
    q, v, tau = robot.random_configuration(rng, count), rng.normal(size=(count, robot.nv)), rng.normal(size=(count, robot.nv))
    free = model.nq != model.nv
    with tempfile.TemporaryDirectory(prefix="condyle-bench-") as folder:
        path = Path(folder) / "robot.urdf"
        path.write_text(urdf_for_frax(model))
        order = [link.joint for link in model.links if link.kind.nv == 1]
        other = frax.Robot(str(path), joint_ordering=order, floating_base="quaternion" if free else None)
    # the conventions of a free base are those of MuJoCo
    states = (q_to_mujoco(model, q), v_to_mujoco(model, q, v), v_to_mujoco(model, q, tau)) if free else (q, v, tau)
    theirs = jax.jit(jax.vmap(lambda q, v, tau: other.forward_dynamics(q, v, tau, None)))
    arrays = [jax.device_put(a) for a in states]
    function = robot.function("forward_dynamics").on("cpu", threads=1)
    out, first = function(q, v, tau), np.asarray(theirs(*arrays))
    apart = difference(out, a_from_mujoco(model, q, v, first) if free else first)
    calls = {"Condyle": lambda: function(q, v, tau, out=out), "frax": lambda: theirs(*arrays).block_until_ready()}
    return {"nv": robot.nv, "batch": count, "difference": apart, **timed(calls, count, seconds)}


def urdf_for_frax(model: Any) -> str:
    """A model as URDF that frax reads: without massless frames and shapes, and with some inertia of a root that does not move."""
    from condyle.robot.to_urdf import to_urdf

    tree = ElementTree.fromstring(to_urdf(model))
    fixed = {joint.find("child").get("link"): joint for joint in tree.findall("joint") if joint.get("type") == "fixed"}  # type: ignore[union-attr]
    for link in tree.findall("link"):
        for shape in (*link.findall("visual"), *link.findall("collision")):
            link.remove(shape)
        if link.get("name") in fixed:
            tree.remove(link)
            tree.remove(fixed[link.get("name")])
        elif link.find("inertial") is None:
            link.append(ElementTree.fromstring(ROOT))
    return ElementTree.tostring(tree, encoding="unicode")


def against_mjx(task: str) -> dict[str, float]:
    """Steps of ANYmal in contact, standing or treading, as in benchmarks/contact.py."""
    import mujoco

    from benchmarks import standing
    from benchmarks.gpu_cases import robot_of
    from benchmarks.mjx_steps import Scenes, stepper

    count = BATCH["contact"]
    world = standing.simulation(robot_of("anymal"), threads=1)
    twin, stance = standing.twin(world), standing.settled(world)
    rest, data = standing.settled_mujoco(world, twin)
    first, us, _ = standing.moving(world, stance, count, STEPS)
    start = standing.mujoco_states(world, twin, first)[:, 1:]
    scenes = Scenes(twin, np.concatenate([data.qpos, data.qvel]), rest.u, start, us)
    theirs = stepper(scenes, task, count, STEPS)
    # MuJoCo itself is the judge of its JAX version; ours has another contact law
    qpos, qvel, torques = scenes.batch(task, count, STEPS)
    data = mujoco.MjData(twin)
    data.qpos, data.qvel = qpos[0], qvel[0]
    for u in torques[:, 0]:
        data.ctrl = u
        mujoco.mj_step(twin, data)
    apart = difference(np.asarray(theirs())[0], data.qpos)
    if task == "step, standing":
        first, us = standing.nearby(stance, count)[0], np.tile(stance.u, (count, STEPS, 1))
    calls = {"Condyle": lambda: world.rollout(first, us), "MJX": theirs}
    return {"nv": world.robot.nv, "batch": count, "difference": apart, **timed(calls, count * STEPS, SECONDS)}


def difference(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference over the largest entry; more than rounding explains is an error."""
    apart = float(np.abs(found - wanted).max() / np.abs(wanted).max())
    if not apart < SAME:
        raise ValueError(f"the results differ by {apart:.1e} of the largest entry, so their times say nothing")
    return apart


def timed(calls: dict[str, Callable[[], Any]], evaluations: int, seconds: float) -> dict[str, float]:
    """Microseconds per evaluation of each."""
    from benchmarks.measure import race

    return {name: 1e6 * time / evaluations for name, time in race(calls, seconds).items()}
