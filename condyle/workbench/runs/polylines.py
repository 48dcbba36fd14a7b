"""Polylines of a run: signals or states of blocks that hold a row of points at every tick, such as the plan of a solver.

cd.Recorder(loop, x0, polylines={"mpc.states": "tool"})         # the frame 'tool' at the planned configurations
cd.Recorder(loop, x0, polylines={"mpc.states": (0, 1, 2)})      # three of the planned numbers are a position
cd.Recorder(loop, x0, polylines=["path"])                       # an output (n, 3) of the loop's function: points in the world
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.errors import SimulationError
from condyle.multibody.robot import Robot
from condyle.robot.names import nearest
from condyle.workbench.runs.json_codec import DecodeError, decode

if TYPE_CHECKING:
    from condyle.workbench.runs.run import Run

CENTER = "center_of_mass"
Source = str | tuple[int, int, int] | None  # a frame, or the centre of mass, of planned q; three columns; all three columns
Polylines = Mapping[str, Any] | Sequence[str]


def sources_of(given: Polylines) -> dict[str, Source]:
    """{name of a signal: what of it is drawn}, checked as far as it can be without the shapes of the signals."""
    named = dict(given) if isinstance(given, Mapping) else dict.fromkeys((given,) if isinstance(given, str) else given)
    found: dict[str, Source] = {}
    for name, source in named.items():
        if not isinstance(name, str):
            raise SimulationError(f"polylines are named by signals of the run, got {name!r:.40}")
        if source is None or isinstance(source, str):
            found[name] = source
            continue
        try:
            x, y, z = (int(column) for column in source)
        except (TypeError, ValueError):
            raise SimulationError(
                f"polyline '{name:.60}' is drawn by the name of a frame, 'center_of_mass', or three columns like (0, 1, 2); "
                f"got {source!r:.40}"
            ) from None
        found[name] = x, y, z
    return found


def check_source(name: str, source: Source, shape: tuple[int, ...], robot: Robot) -> None:
    """None; a SimulationError if points cannot be made of a signal (n, m) in this way."""
    if len(shape) != 2:
        raise SimulationError(f"polyline '{name:.60}' needs a signal of shape (points, numbers of each), and it has {shape}")
    if source is None and shape[1] != 3:
        raise SimulationError(
            f"polyline '{name:.60}' has {shape[1]} numbers for each point and needs x, y and z: say which are drawn, "
            f"{{'{name:.60}': (0, 1, 2)}}, or the frame that is, {{'{name:.60}': 'tool'}}"
        )
    if isinstance(source, tuple) and not all(0 <= column < shape[1] for column in source):
        raise SimulationError(f"polyline '{name:.60}' has the columns 0 to {shape[1] - 1}, got {source}")
    if isinstance(source, str):
        if shape[1] < robot.nq:
            raise SimulationError(
                f"polyline '{name:.60}' needs planned configurations, {robot.nq} numbers of '{robot.name:.60}', and has "
                f"{shape[1]}: name three columns that are a position, (0, 1, 2)"
            )
        if source != CENTER and source not in robot.frame_names:
            hint = nearest(source, [*robot.frame_names, CENTER])
            raise SimulationError(f"polyline '{name:.60}': '{robot.name:.60}' has no frame '{source:.60}'{hint}")


def encoded(sources: Mapping[str, Source]) -> dict[str, Any]:
    """As JSON data."""
    return {name: list(source) if isinstance(source, tuple) else source for name, source in sources.items()}


def decoded(about: Mapping[str, Any]) -> dict[str, Source]:
    """The polylines of a run's header; a DecodeError for what no recorder writes."""
    data = about.get("polylines", {})
    if not isinstance(data, dict):
        raise DecodeError("about.polylines is not an object with names and values")
    found: dict[str, Source] = {}
    for name, source in data.items():
        text = source is None or isinstance(source, str)
        found[name] = source if text else decode(tuple[int, int, int], source, f"about.polylines.{name:.60}")
    return found


def rows_at(run: Run, name: str, states: np.ndarray) -> np.ndarray:
    """The signal in the tick that begins at each of these states, (k, n, m); the last state has that of the last tick."""
    known = run.states
    if name in known:  # a state of a block is what its tick left behind
        return np.asarray(known[name][np.minimum(states + 1, run.steps)])
    return np.asarray(run.extras[name][np.minimum(states, run.steps - 1)])
