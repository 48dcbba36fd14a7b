"""The view of a simulation that another program runs: it draws the newest state that it is given, and changes nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.simulate.simulation import Simulation
from condyle.workbench.view.trajectory import link_poses, snapshot
from condyle.workbench.view.window.objects import Environment, RobotNode
from condyle.workbench.view.window.panel import Panel, View, paragraph, short
from condyle.workbench.view.window.signal_plot import Signal, SignalPlot

PLOTTED = 5.0  # s of simulated time in the plot
SAMPLE_TIME = 0.02  # s of simulated time between samples of the plot
PLOT_TIME = 0.1  # s between two drawings of it
POSITION, VELOCITY, EFFORT = "joint coordinates", "joint velocities", "joint forces"
UNITS = {POSITION: "rad or m", VELOCITY: "rad/s or m/s", EFFORT: "N m or N"}


@dataclass(frozen=True, eq=False)
class Watched:
    """A state of the simulation, at the time t in s; u and wrenches (frames, 6) are those of the last tick."""

    t: float
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray
    wrenches: np.ndarray | None = None


class WatchView(View):
    """A simulation in a window; `source()` gives its newest state, None if it has not changed, or a sentence when it is over."""

    def __init__(
        self,
        server: Any,
        panel: Panel,
        simulation: Simulation,
        source: Callable[[], Watched | str | None],
        *,
        title: str = "",
        dark: bool = False,
    ) -> None:
        self.simulation, self.robot, self._source = simulation, simulation.robot, source
        self.node = RobotNode(server, self.robot, "/robot")
        low, high = self.node.mesh.bounds(*link_poses(self.robot, self.robot.neutral()))
        margin = 0.1 * (high - low)
        environment = Environment(server, low - margin, high + margin, simulation.ground, dark=dark)
        super().__init__(server, panel, [self.node], environment)
        self.now: Watched | None = None
        self.over, self.pace, self.states = "", 0.0, 0
        self._title, self._age = title, 0.0
        self._marks: deque[tuple[float, float]] = deque(maxlen=60)  # (clock, simulated time)
        self._clock = 0.0
        self._history: deque[Watched] = deque(maxlen=int(PLOTTED / SAMPLE_TIME))
        self._build()

    def _build(self) -> None:
        panel, gui = self.panel, self.panel.gui
        self.status = gui.add_html(paragraph("waiting for the first state", small=True))
        tabs = gui.add_tab_group()
        with tabs.add_tab("Plot"):
            self.plot = SignalPlot(panel, list(UNITS), self._signals, POSITION, cursor=False)
        with tabs.add_tab("Show"):
            self.add_layers("contacts", "plan", "trail")
        with tabs.add_tab("About"):
            rows = [("watches", short(self._title, 60)), ("tick", f"{self.simulation.dt * 1e3:g} ms")]
            panel.about_robot(self.robot, self.node.warnings, rows)

    def draw(self, elapsed: float) -> bool:
        """Draw the newest state; whether more is to come."""
        self._clock += elapsed
        self._age += elapsed
        found = None if self.over else self._source()
        if isinstance(found, str):
            self.over, self._age = found, PLOT_TIME
        elif found is not None:
            self._take(found)
            self._changed = True
        if self._changed and self.now is not None:
            self._changed = False
            now = snapshot(self.robot, self.now.q, self.simulation, wrenches=self.now.wrenches)
            with self._server.atomic():
                self.node.draw(now)
        if self._age >= PLOT_TIME:
            self._age = 0.0
            self.plot.draw()
            self._update_status()
        return not self.over

    def _take(self, found: Watched) -> None:
        if self.now is not None and found.t < self.now.t:
            # the simulation began again
            self._history.clear()
            self._marks.clear()
        self.now, self.states = found, self.states + 1
        self._marks.append((self._clock, found.t))
        (first, begun), (last, ended) = self._marks[0], self._marks[-1]
        self.pace = (ended - begun) / (last - first) if last > first else 0.0
        if not self._history or found.t - self._history[-1].t >= SAMPLE_TIME:
            self._history.append(found)

    def _signals(self, name: str) -> list[Signal]:
        rows = list(self._history)
        if len(rows) < 2:
            return []
        part = {POSITION: "q", VELOCITY: "v", EFFORT: "u"}[name]
        values = np.array([getattr(row, part) for row in rows])
        names = {"u": list(self.simulation.control_names), "v": list(self.robot.velocity_names)}.get(part)
        names = names if names is not None and len(names) == values.shape[1] else [f"{part}[{k}]" for k in range(values.shape[1])]
        if part == "q" and values.shape[1] == self.robot.nv:
            names = list(self.robot.velocity_names)
        return [Signal(np.array([row.t for row in rows]), values, UNITS[name], names)]

    def _update_status(self) -> None:
        time = "waiting for the first state" if self.now is None else f"{self.now.t:.2f} s, {self.pace:.2f} times real time"
        self.status.content = paragraph(*filter(None, (time, self.over and f"over: {self.over}")), small=True)
