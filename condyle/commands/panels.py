"""What a picture of a run shows: panels, each with lines of one unit over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from condyle.commands.scene import base_frame, upward
from condyle.errors import CondyleError
from condyle.robot.names import nearest
from condyle.runs.run import Run
from condyle.runs.signals import extremes

MOST_POINTS = 20_000  # of one line: more cannot be seen
STILL = 1e-12  # forces below this are none
MOSTLY = 0.5  # of the time


@dataclass(frozen=True)
class Panel:
    """Lines that share an axis, by name; `t` fits them all."""

    label: str
    t: np.ndarray
    lines: dict[str, np.ndarray]


def height(run: Run) -> Panel | None:
    up = upward(run.robot)
    return None if up is None else Panel(f"height of {base_frame(run.robot)}, m", run.t, {"": run.x[:, up]})


def forces(run: Run) -> Panel | None:
    contacts = run.simulation.contact_names
    values = run.contact_forces[:, :, 2]
    # the contacts that ever touch
    lines = {name: values[:, k] for k, name in enumerate(contacts) if np.abs(values[:, k]).max(initial=0.0) > 1e-9}
    return Panel("upward contact force, N", run.t[:-1], lines) if lines else None


def energy(run: Run) -> Panel | None:
    return Panel("energy, J", run.t, {"": np.asarray(run.simulation.energy(run.x))})


def _groups(run: Run, *wanted: str) -> Panel | None:
    """The groups of that name together, where the run has them, short of what their names have in common."""
    lines: dict[str, np.ndarray] = {}
    units: list[str] = []
    names = run.signal_names()
    for group, (values, unit) in run.signals().items():
        if group in wanted and values.shape[1]:
            lines |= {name: values[:, k] for k, name in enumerate(names[group])}
            units.append(unit)
    if not lines:
        return None
    label = " and ".join(dict.fromkeys(group for group in run.signals() if group in wanted))
    unit = " or ".join(dict.fromkeys(unit for unit in units if unit))
    count = len(next(iter(lines.values())))
    return Panel(f"{label}, {unit}" if unit else label, run.t[:count], short(lines))


def short(lines: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The lines without the ending or beginning that all their names share, such as _joint."""
    names = list(lines)
    if len(names) < 2:
        return lines
    for mark in ("_joint", "root_joint.", "root_"):
        if all(name.endswith(mark) and len(name) > len(mark) for name in names):
            return {name.removesuffix(mark): line for name, line in lines.items()}
        if all(name.startswith(mark) and len(name) > len(mark) for name in names):
            return {name.removeprefix(mark): line for name, line in lines.items()}
    return lines


def controls(run: Run) -> Panel | None:
    return _groups(run, "torques", "forces") if np.any(np.abs(run.u) > STILL) else None


def pushes(run: Run) -> Panel | None:
    found = _groups(run, "pushes")
    if found is None:
        return None
    lines = {name: line for name, line in found.lines.items() if np.any(np.abs(line) > STILL)}
    return Panel(found.label, found.t, lines) if lines else None


PANELS: dict[str, Callable[[Run], Panel | None]] = {
    "height": height,
    "forces": forces,
    "energy": energy,
    "joints": lambda run: _groups(run, "joint angles", "joint positions"),
    "velocities": lambda run: _groups(run, "joint velocities", "joint speeds"),
    "controls": controls,
    "pushes": pushes,
    "position": lambda run: _groups(run, "base position"),
    "orientation": lambda run: _groups(run, "base orientation"),
    "speed": lambda run: _groups(run, "base velocity"),
    "turning": lambda run: _groups(run, "base turning rate"),
}
USUAL = ("height", "forces", "energy", "joints", "controls", "driven")


def panels(run: Run, wanted: Sequence[str] = ()) -> list[Panel]:
    """The panels of these names, which may also be further signals of the run; the usual ones if none are given."""
    found = []
    for name in wanted or USUAL:
        if name == "driven":
            found += [] if (panel := driven(run)) is None else [_thinned(panel)]
            continue
        if name not in PANELS and name not in run.signals():
            raise CondyleError(f"--signals: a run of {run.about['robot']} has no '{name}'{nearest(name, known(run))}")
        panel = PANELS[name](run) if name in PANELS else _groups(run, name)
        if panel is None and wanted:
            raise CondyleError(f"--signals: this run has no {name}; it has {', '.join(known(run))}")
        if panel is not None:
            found.append(_thinned(panel))
    return found


def known(run: Run) -> list[str]:
    """The names that can be drawn of this run."""
    return [*[name for name, make in PANELS.items() if make(run) is not None], *run.extras]


def pushed(run: Run) -> list[tuple[float, float]]:
    """(from, to), s, of the times in which somebody pushes; a frame that is pushed most of the time is a motor, and not meant."""
    active = _active(run)
    now = np.any(active[:, active.mean(axis=0) <= MOSTLY], axis=1) if run.steps else np.zeros(0, dtype=bool)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], now.astype(np.int8), [0]])))
    return [(run.dt * a, run.dt * b) for a, b in edges.reshape(-1, 2)]


def _active(run: Run) -> np.ndarray:
    """(T, frames): whether a wrench acts there."""
    return np.asarray(np.any(np.abs(run.wrenches) > STILL, axis=2))


def driven(run: Run) -> Panel | None:
    """The pushes, where they are there most of the time, as those of rotors are."""
    return pushes(run) if run.steps and np.any(_active(run).mean(axis=0) > MOSTLY) else None


def _thinned(panel: Panel) -> Panel:
    """With fewer points, where they are more than can be seen; every line keeps its peaks."""
    if len(panel.t) <= MOST_POINTS:
        return panel
    found = [extremes(line, MOST_POINTS // 2) for line in panel.lines.values()]
    which = np.unique(np.concatenate([[0], *found, [len(panel.t) - 1]]))
    return Panel(panel.label, panel.t[which], {name: line[which] for name, line in panel.lines.items()})
