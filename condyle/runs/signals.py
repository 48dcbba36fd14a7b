"""What can be seen in a run, in groups of one unit each: for plots, tables and logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from condyle.runs import json_codec

if TYPE_CHECKING:
    from condyle.runs.run import Run

Signal = tuple[np.ndarray, str, list[str]]  # values (rows, columns), unit, a name for each column

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


def signals(run: Run) -> dict[str, Signal]:
    """Group -> values, unit and names, states first; groups without columns are left out."""
    columns = run.about["columns"]
    base = set(columns["base"])
    members: dict[tuple[str, str], list[int]] = {}
    for i, (name, unit) in enumerate(columns["x"]):
        letter, _, rest = name.partition(".")
        group = GROUPS.get((letter, rest in base or rest.rpartition(".")[0] in base, unit), "other states")
        members.setdefault((group, unit), []).append(i)
    found: dict[str, Signal] = {}
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
    for name, array in run.extras.items():
        group = f"signal {name}" if name in found else name
        found[group] = array.reshape(run.steps, int(np.prod(array.shape[1:]))), "", extra_names(name, array.shape[1:])
    shown = json_codec.printable
    return {shown(group): (values, unit, [*map(shown, names)]) for group, (values, unit, names) in found.items()}


def extra_names(name: str, shape: tuple[int, ...]) -> list[str]:
    """A name for each entry of a further signal: "error", or "error.0", "error.1", ..."""
    return [".".join([name, *map(str, index)]) for index in np.ndindex(*shape)]


def extremes(values: np.ndarray, spans: int) -> np.ndarray:
    """Places in `values` (n,) that a drawing needs: in each of so many spans the least and the greatest, in the order of time, so
    that no peak is lost; all places if they are no more than that."""
    if len(values) <= 2 * spans:
        return np.arange(len(values))
    parts = np.array_split(np.arange(len(values)), spans)
    return np.array([i for part in parts for i in sorted((part[np.argmin(values[part])], part[np.argmax(values[part])]))])
