"""A run as one table: a row for each state, a column for each number; and the run of such a table, compared with its hash."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from condyle.atomic_write import PathLike
from condyle.runs import file, json_codec
from condyle.runs.run import Run, checked_about
from condyle.runs.signals import extra_names

WRENCH = ("fx", "fy", "fz", "tx", "ty", "tz")
CHANGED = (
    "the numbers are not those that were exported, somebody changed them: check() says from which step on the states are no "
    "simulation"
)


def told(run: Run) -> dict[str, Any]:
    """What a table cannot hold, as plain data: `about`, the shapes of further signals, what was lost, and the hash of all."""
    extras = [[name, list(array.shape[1:])] for name, array in run.extras.items()]
    return {**run.about, "extras": extras, "lost": run.lost, "changed": run.changed, "sha256": run.hash}


def headings(run: Run) -> tuple[list[str], list[str]]:
    """(names of the columns of states, names of all other columns)."""
    columns = run.about["columns"]
    others = [str(row[0]) for row in columns["u"]]
    others += [f"wrench.{frame}.{axis}" for frame in columns["wrenches"] for axis in WRENCH]
    for name, array in run.extras.items():
        others += extra_names(f"extra.{name}", array.shape[1:])
    return run.names, others


def others(run: Run) -> np.ndarray:
    """All that happens between states, one row for each step: controls, wrenches, further signals."""
    parts = [run.u, run.wrenches, *run.extras.values()]
    return np.concatenate([part.reshape(run.steps, math.prod(part.shape[1:])) for part in parts], axis=1)


def layout_in(about: Any) -> file.Layout:
    """The sizes of a table of which `told` was written; Wrong if that is not what it is."""
    layout = file.with_extras(file.layout_of(about), json_codec.entry(about, "extras", "about"))
    checked_about(about, layout.nx)
    return layout


def run_of(
    about: dict[str, Any], layout: file.Layout, x: np.ndarray, between: np.ndarray, path: PathLike, t: np.ndarray | None = None
) -> Run:
    """The run of states x, (T + 1, nx), and of all between them, (T, columns); `lost` says if numbers were changed.

    `t`: the times as they are in the table, if they are to be compared.
    """
    if len(x) != len(between) + 1:
        raise json_codec.Wrong(f"it has {len(x)} states and {len(between)} steps between them, not one less")
    parts, at = [], 0
    for shape in layout.shapes[1:]:
        size = math.prod(shape)
        parts.append(np.ascontiguousarray(between[:, at : at + size]).reshape(len(between), *shape))
        at += size
    about = dict(about)
    lost, hash, changed = about.pop("lost", None), about.pop("sha256", None), about.pop("changed", False) is True
    about.pop("extras")
    about["steps"] = len(between)
    u, wrenches, *extras = parts
    named = dict(zip(layout.extras, extras, strict=True))
    lost = None if lost is None else json_codec.printable(json_codec.text(lost, "about.lost"))
    run = Run(about, x, u, wrenches, named, lost, Path(path), changed)
    same = run.hash == hash and (t is None or t.tobytes() == run.t.tobytes())
    return run if same else replace(run, lost=CHANGED, changed=True)
