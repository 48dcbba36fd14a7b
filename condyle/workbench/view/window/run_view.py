"""The view of one run or two: play, pause, step, scrub, faster and slower, loop; a second run as a ghost or beside the first."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from condyle.errors import CondyleError
from condyle.simulate.simulation import Simulation
from condyle.workbench.runs.run import Run
from condyle.workbench.view.trajectory import (
    Snapshot,
    frame_positions,
    link_poses,
    mass_center,
    polyline_points,
    snapshot,
    spread,
)
from condyle.workbench.view.window.objects import GHOST, Environment, RobotNode
from condyle.workbench.view.window.panel import Panel, View, css, flatten, legend, paragraph, table
from condyle.workbench.view.window.signal_plot import Signal, SignalPlot

SPEEDS = (0.1, 4.0)
FRAMED_STATES = 16  # that the first camera sees
TRAIL_POINTS = 600
SLIDER_TIME, PLOT_TIME = 1.0 / 15.0, 1.0 / 10.0  # s between updates of the slider and of the plot
ARRANGEMENTS = ("ghost", "side by side", "hidden")
NOT_SHOWN = ("simulation_data", "robot_data", "columns", "format", "extras")
FIRST_SIGNALS = ("joint angles", "joint positions", "base position")


class Track:
    """One run in the scene."""

    def __init__(self, server: Any, run: Run, root: str, *, ghost: bool = False) -> None:
        self.run, self.robot = run, run.scene
        self.node = RobotNode(server, self.robot, root, ghost=ghost)
        self.problems = [] if run.lost is None else [run.lost]
        if run.about.get("stopped"):
            self.problems.append(f"the run was stopped: {run.about['stopped']}")
        self.simulation: Simulation | None = None
        try:
            self.simulation = run.simulation
        except CondyleError as error:
            self.problems.append(f"forces of the ground are not shown: {error}")
        self.forces: np.ndarray | None = None  # of the ground, at every step

    def state(self, time: float) -> int:
        """The index of the state at a time."""
        return int(np.clip(round(time / self.run.dt), 0, self.run.steps))

    def at(self, time: float) -> Snapshot:
        """Link poses and forces at a time."""
        k = self.state(time)
        step = min(k, self.run.steps - 1)
        if step < 0:
            return snapshot(self.robot, self.run.q[k])
        forces = None if self.forces is None else self.forces[step]
        drawn = tuple(points[0] for points in polyline_points(self.run, [k]))
        given = {"forces": forces, "wrenches": self.run.wrenches[step], "polylines": drawn}
        return snapshot(self.robot, self.run.q[k], self.simulation, **given)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """(lowest, highest) corner of the box that the run needs."""
        R, p = link_poses(self.robot, self.run.q[spread(len(self.run.x), FRAMED_STATES)])
        found = [self.node.mesh.bounds(*pose) for pose in zip(R, p, strict=True)]
        return np.min([low for low, _ in found], axis=0), np.max([high for _, high in found], axis=0)

    def trail(self) -> np.ndarray:
        """The path (n, 3) of the centre of mass, or of the last frame of a robot with a fixed base."""
        q, model = self.run.q[spread(len(self.run.x), TRAIL_POINTS)], self.robot.model
        moving = [frame for frame in model.frames if frame.link >= 0]
        if model.base_coordinates or not moving:
            return mass_center(self.robot, q)
        return frame_positions(self.robot, *link_poses(self.robot, q), moving[-1].name)

    def signal(self, group: str) -> list[Signal]:
        """The signal of this name, if the run has it."""
        found = self.run.signals().get(group)
        return [] if found is None else [Signal(self.run.t[: len(found.values)], found.values, found.unit, found.names)]

    def about(self) -> list[tuple[object, object]]:
        """Rows of facts about the run."""
        run = self.run
        known = {key: value for key, value in run.about.items() if key not in (*NOT_SHOWN, "title")}
        rows: list[tuple[object, object]] = [("title", run.title), ("file", run.path.name if run.path else "not saved")]
        rows += [("duration", f"{run.t[-1]:g} s, {run.steps} steps"), ("sha256", run.hash)]
        return [*rows, *flatten(known), *(("warning", text) for text in self.node.warnings)]


class RunView(View):
    """One run or two in a window; `time`, s, is what it shows."""

    def __init__(self, server: Any, panel: Panel, runs: Sequence[Run], *, dark: bool = False) -> None:
        self.tracks = [Track(server, run, f"/run{k}", ghost=k > 0) for k, run in enumerate(runs)]
        found = [track.bounds() for track in self.tracks]
        low, high = np.min([b[0] for b in found], axis=0), np.max([b[1] for b in found], axis=0)
        simulation = self.tracks[0].simulation
        environment = Environment(server, low, high, None if simulation is None else simulation.ground, dark=dark)
        super().__init__(server, panel, [track.node for track in self.tracks], environment)
        self._aside = np.array([0.0, 1.15 * max(0.3 * self.tracks[0].node.size, float(high[1] - low[1])), 0.0])
        self.duration = max(float(run.t[-1]) for run in runs)
        self.time, self.playing, self.speed, self.loop, self.follow = 0.0, False, 1.0, True, False
        self._center: np.ndarray | None = None
        self._slider_age = self._plot_age = 1.0
        self._build()
        for track in self.tracks:
            track.node.trail(track.trail())
        threading.Thread(target=self._compute_forces, name="condyle contact forces", daemon=True).start()

    def _build(self) -> None:
        panel, gui = self.panel, self.panel.gui
        for track in self.tracks:
            track.node.shown.add("trail")
            if track.problems:
                gui.add_html(paragraph(*track.problems, color="#d9541e", small=True))
        self.button = panel.button("play", self.toggle)
        dt = self.tracks[0].run.dt
        self.slider = panel.linked(gui.add_slider("time, s", 0.0, max(self.duration, dt), dt, 0.0), self.seek)
        moves = {"|<": lambda: self.seek(0.0), "<": lambda: self.step(-1)}
        panel.buttons("step", moves | {">": lambda: self.step(1), ">|": lambda: self.seek(self.duration)})
        panel.linked(gui.add_slider("speed", *SPEEDS, 0.1, 1.0), lambda value: setattr(self, "speed", float(value)))
        panel.linked(gui.add_checkbox("loop", self.loop), lambda on: setattr(self, "loop", on))
        if len(self.tracks) == 2:
            first, second = (track.run.title or f"run {k}" for k, track in enumerate(self.tracks, start=1))
            gui.add_html(legend([("#808896", f"1st: {first}"), (css(c / 255.0 for c in GHOST), f"2nd: {second}")]))
            self.arrangement = panel.linked(gui.add_dropdown("second run", ARRANGEMENTS), self.compare)
        tabs = gui.add_tab_group()
        with tabs.add_tab("Plot"):
            found = self.tracks[0].run.signals().items()
            groups = [name for name, signal in found if signal.names] or ["nothing"]
            first = next((name for name in FIRST_SIGNALS if name in groups), groups[0])
            self.plot = SignalPlot(panel, groups, self._signals, first, compare=len(self.tracks) == 2)
        with tabs.add_tab("Show"):
            self.add_layers(*([] if any(track.run.about.get("polylines") for track in self.tracks) else ["plan"]))
            panel.linked(gui.add_checkbox("camera follows", False), lambda on: setattr(self, "follow", on))
        with tabs.add_tab("About"):
            for name, track in zip(("run",) if len(self.tracks) == 1 else ("first run", "second run"), self.tracks, strict=True):
                with gui.add_folder(name):
                    gui.add_html(table(track.about()))

    def _signals(self, group: str) -> list[Signal]:
        return [signal for track in self.tracks for signal in track.signal(group)]

    def _compute_forces(self) -> None:
        """Evaluate the contact forces of all steps, which may take a compilation."""
        for track in self.tracks:
            try:
                if track.simulation is not None and track.simulation.contact_points:
                    track.forces = np.asarray(track.run.contact_forces)
            except Exception as error:  # shown, whatever it is
                self.panel.fail(error)
        self._changed = True

    def toggle(self) -> None:
        """Play, or pause."""
        self.play(not self.playing)

    def play(self, on: bool = True) -> None:
        """Play, from the beginning if it is at its end; or pause."""
        if on and self.time >= self.duration - 1e-9:
            self.time = 0.0
        self.playing = on
        self.button.label = "pause" if on else "play"
        self._changed = True

    def seek(self, time: float) -> None:
        """Show a time."""
        self.time = float(np.clip(time, 0.0, self.duration))
        self._slider_age = self._plot_age = 1.0
        self._changed = True

    def step(self, count: int) -> None:
        """Pause, and go so many steps on."""
        self.play(False)
        track = self.tracks[0]
        self.seek((track.state(self.time) + count) * track.run.dt)

    def compare(self, arrangement: str) -> None:
        """Show the second run as a ghost, beside the first, or not at all."""
        node = self.tracks[1].node
        node.shift(self._aside if arrangement == "side by side" else np.zeros(3))
        node.hide(arrangement == "hidden")
        self.arrangement.value = arrangement
        self._changed = True

    def draw(self, elapsed: float) -> bool:
        """Advance the time if it plays, and draw; whether more is to come."""
        if self.playing:
            self.time += elapsed * self.speed
            if self.time >= self.duration:
                self.time = self.time % self.duration if self.loop and self.duration > 0.0 else self.duration
                if not self.loop:
                    self.play(False)
        if not (self.playing or self._changed):
            return False
        self._changed = False
        self._slider_age += elapsed
        self._plot_age += elapsed
        with self._server.atomic():
            for track in self.tracks:
                track.node.draw(track.at(self.time))
        self._follow()
        if self._slider_age >= SLIDER_TIME or not self.playing:
            self._slider_age = 0.0
            self.slider.value = round(self.time, 6)
        if self._plot_age >= PLOT_TIME or not self.playing:
            self._plot_age = 0.0
            self.plot.now(self.time)
        return self.playing or self._changed

    def _follow(self) -> None:
        """Move every camera with the robot."""
        track = self.tracks[0]
        center = mass_center(track.robot, track.run.q[track.state(self.time)])
        before, self._center = self._center, center
        if self.follow and before is not None and np.any(center != before):
            for client in self._server.get_clients().values():
                client.camera.position = client.camera.position + (center - before)
