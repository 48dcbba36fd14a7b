"""Names and units of the numbers of a run, and the groups in which they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from condyle.constraints.reduced_coordinates import velocity_names
from condyle.robot.joints import Ball, Free, Prismatic
from condyle.robot.model import Link
from condyle.workbench.runs.json_codec import printable

if TYPE_CHECKING:
    from condyle.simulate.simulation import Simulation
    from condyle.workbench.runs.run import Run


class Signal(NamedTuple):
    """A group of numbers over time that have one unit: values (T + 1, n) of states or (T, n) of all else."""

    values: np.ndarray
    unit: str
    names: list[str]  # of the columns


# (letter, whether of the base, unit) -> the name of the group
GROUPS = {
    ("q", True, "m"): "base position",
    ("q", True, ""): "base orientation",
    ("q", True, "rad"): "base angles",
    ("q", False, "rad"): "joint angles",
    ("q", False, "m"): "joint positions",
    ("q", False, ""): "joint orientations",
    ("v", True, "m/s"): "base velocity",
    ("v", True, "rad/s"): "base angular velocity",
    ("v", False, "rad/s"): "joint velocities",
    ("v", False, "m/s"): "joint linear velocities",
}


def columns_of(simulation: Simulation) -> dict[str, Any]:
    """{"x": [[name, unit], ...], "u": [[name, unit], ...], "wrenches": [frame, ...], "contacts": [name, ...],
    "base": [joint, ...]} as JSON data; "base" are the joints that place the robot in the world."""
    robot = simulation.robot
    x, velocities = ([row for link in robot.reduced.links for row in _columns(letter, link)] for letter in "qv")
    if robot.velocity_names != velocity_names(robot.reduced):
        units = dict(velocities)
        velocities = [(f"v.{name}", units.get(f"v.{name}", "")) for name in robot.velocity_names]
    x += velocities + [("ticks", "")] * simulation.timed
    u = []
    for k, name in zip(simulation.actuated, simulation.control_names, strict=True):
        link = next(link for link in robot.model.links if link.v.start <= k < link.v.stop)
        slides = isinstance(link.kind, Prismatic) or (isinstance(link.kind, Free) and k - link.v.start < 3)
        u.append([f"u.{name}", "N" if slides else "N m"])
    frames, contacts = list(simulation.wrench_frames), simulation.contact_names
    base = [link.joint for link in robot.model.links if link.base]
    return {"x": [list(row) for row in x], "u": u, "wrenches": frames, "contacts": contacts, "base": base}


# letter -> units of a linear and an angular coordinate; of free and ball joints: names of linear and of angular ones, their unit
COORDINATES = {"q": ("m", "rad", "x y z", "qx qy qz qw", ""), "v": ("m/s", "rad/s", "vx vy vz", "wx wy wz", "rad/s")}


def _columns(letter: str, link: Link) -> list[tuple[str, str]]:
    """(name, unit) of each position "q" or velocity "v" of a joint."""
    linear, angular, along, around, turns = COORDINATES[letter]
    joint = f"{letter}.{link.joint}"
    if isinstance(link.kind, Free | Ball):
        axes = [(f"{joint}.{axis}", linear) for axis in along.split()] if isinstance(link.kind, Free) else []
        return [*axes, *[(f"{joint}.{axis}", turns) for axis in around.split()]]
    return [(joint, linear if isinstance(link.kind, Prismatic) else angular)]


def signals(run: Run) -> dict[str, Signal]:
    """Group -> values, unit and names, states first; groups without columns are left out."""
    columns = run.about["columns"]
    base = set(columns["base"])
    members: dict[tuple[str, str], list[int]] = {}
    for i, (name, unit) in enumerate(columns["x"][: run.x.shape[1]]):
        letter, _, rest = name.partition(".")
        group = GROUPS.get((letter, rest in base or rest.rpartition(".")[0] in base, unit), "other states")
        members.setdefault((group, unit), []).append(i)
    found: dict[str, tuple[np.ndarray, str, list[str]]] = {}
    for (group, unit), where in members.items():
        found[group] = run.x[:, where], unit, [columns["x"][i][0].partition(".")[2] or columns["x"][i][0] for i in where]
    for unit, group in (("N m", "torques"), ("N", "forces")):
        where = [i for i, row in enumerate(columns["u"]) if row[1] == unit]
        if where:
            found[group] = run.u[:, where], unit, [columns["u"][i][0].partition(".")[2] for i in where]
    if columns["wrenches"]:
        for part, unit, group in ((slice(0, 3), "N", "external forces"), (slice(3, 6), "N m", "external torques")):
            names = [f"{frame}.{axis}" for frame in columns["wrenches"] for axis in "xyz"]
            found[group] = run.wrenches[:, :, part].reshape(run.steps, len(names)), unit, names
    for name, array in {**{n: a for n, a in run.states.items() if n != "tick"}, **run.extras}.items():
        group = f"signal {name}" if name in found else name
        found[group] = array.reshape(len(array), int(np.prod(array.shape[1:]))), "", extra_names(name, array.shape[1:])
    return {printable(group): Signal(values, unit, [*map(printable, names)]) for group, (values, unit, names) in found.items()}


def extra_names(name: str, shape: tuple[int, ...]) -> list[str]:
    """A name for each entry of a further signal: "error", or "error.0", "error.1", ..."""
    return [".".join([name, *map(str, index)]) for index in np.ndindex(*shape)]


def extremes(values: np.ndarray, spans: int) -> np.ndarray:
    """Indices into `values` (n,) for drawing: the least and the greatest of each of so many spans, in the order of time; all
    indices if they are no more than that."""
    if len(values) <= 2 * spans:
        return np.arange(len(values))
    parts = np.array_split(np.arange(len(values)), spans)
    return np.array([i for part in parts for i in sorted((part[np.argmin(values[part])], part[np.argmax(values[part])]))])
