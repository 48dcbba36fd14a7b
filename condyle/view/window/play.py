"""Runs in time: play, pause, step, scrub, faster and slower, over and over; two runs beside or through each other."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from condyle.errors import CondyleError
from condyle.runs.run import Run
from condyle.simulate.simulation import Simulation
from condyle.view.geometry import bounds
from condyle.view.trajectory import contact_positions, frame_positions, link_poses, mass_center
from condyle.view.window.body import Body
from condyle.view.window.marks import Marks, Moment
from condyle.view.window.panel import MOVING, Panel, Show
from condyle.view.window.plots import Plot, Signal, groups_of
from condyle.view.window.stage import Stage
from condyle.view.window.text import facts, paragraph, paragraphs, table

SPEEDS = (0.1, 4.0)
FRAMED = 16  # states that the first camera sees
TRAILED = 600  # points of a trail
SLIDER_BEAT, PLOT_BEAT = 1.0 / 15.0, 1.0 / 10.0  # s between updates of the slider and of the plot
WAYS = ("ghost", "side by side", "hidden")
SKIPPED = ("simulation_data", "robot_data", "columns", "format", "extras")
FIRST = ("joint angles", "joint positions", "base position")


class Track:
    """One run on the stage."""

    def __init__(self, server: Any, run: Run, root: str, *, ghost: bool = False) -> None:
        self.run, self.robot = run, run.robot
        self.body = Body(server, self.robot, root, ghost=ghost)
        self.problems = [] if run.lost is None else [run.lost]
        if run.about.get("stopped"):
            self.problems.append(f"the run was stopped: {run.about['stopped']}")
        try:
            self.simulation = run.simulation
        except CondyleError as error:
            self.simulation = None  # type: ignore[assignment]
            self.problems.append(f"forces of the ground are not shown: {error}")
        gravity = float(np.linalg.norm(self.robot.model.gravity)) or 9.81
        self.marks = Marks(server, root, self.body.size, self.robot.mass * gravity, faint=ghost)
        self._forces: np.ndarray | None = None
        self._lock = threading.Lock()

    @property
    def ground(self) -> Any:
        return None if self.simulation is None else self.simulation.ground

    def compute(self) -> None:
        """Work out the forces of the ground, which may take a compilation."""
        if self.simulation is not None and self.simulation.contact_points:
            self._forces = np.asarray(self.run.contact_forces)

    def state(self, time: float) -> int:
        """The number of the state at a time."""
        return int(np.clip(round(time / self.run.dt), 0, self.run.steps))

    def at(self, time: float) -> Moment:
        """Where the robot is at a time, and what acts on it."""
        k = self.state(time)
        q = np.asarray(self.run.q[k])
        R, p = link_poses(self.robot, q)
        none = np.zeros((0, 3))
        contacts = forces = points = pushes = none
        step = min(k, self.run.steps - 1)
        if self.simulation is not None and step >= 0:
            if self.simulation.contact_points:
                contacts = contact_positions(self.simulation, R, p)
                forces = self._forces[step] if self._forces is not None else np.zeros_like(contacts)
            if self.simulation.wrench_frames:
                points, pushes = acting(self.simulation, R, p, self.run.wrenches[step])
        return Moment(R, p, mass_center(self.robot, q), contacts, forces, points, pushes)

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """The corners of the box that the run needs."""
        which = np.unique(np.linspace(0, self.run.steps, FRAMED).astype(int))
        R, p = link_poses(self.robot, np.asarray(self.run.q[which]))
        boxes = [bounds(self.body.looks, R[k], p[k]) for k in range(len(which))]
        return np.min([low for low, _ in boxes], axis=0), np.max([high for _, high in boxes], axis=0)

    def trail(self) -> np.ndarray:
        """The way of the centre of mass, or of the last frame of a robot that is fixed."""
        which = np.unique(np.linspace(0, self.run.steps, TRAILED).astype(int))
        q, model = np.asarray(self.run.q[which]), self.robot.model
        moving = [frame for frame in model.frames if frame.link >= 0]
        if model.base_coordinates or not moving:
            return mass_center(self.robot, q)
        return frame_positions(self.robot, *link_poses(self.robot, q), moving[-1].name)

    def signal(self, group: str) -> Signal | None:
        """The signal of this name."""
        found = self.run.signals().get(group)
        if found is None:
            return None
        values, unit = found
        return Signal(self.run.t[: len(values)], np.asarray(values), unit, self.run.signal_names()[group])


class RunView:
    """A window on one run or two; `time` is what it shows, in s."""

    def __init__(self, server: Any, panel: Panel, runs: Sequence[Run], *, dark: bool = False) -> None:
        self.panel, self._server = panel, server
        self.tracks = [Track(server, run, f"/run{k}", ghost=k > 0) for k, run in enumerate(runs)]
        boxes = [track.box() for track in self.tracks]
        low, high = np.min([b[0] for b in boxes], axis=0), np.max([b[1] for b in boxes], axis=0)
        self.stage = Stage(server, low, high, self.tracks[0].ground, dark=dark)
        self._aside = np.array([0.0, 1.15 * max(0.3 * self.tracks[0].body.size, float(high[1] - low[1])), 0.0])
        self.duration = max(float(run.t[-1]) for run in runs)
        self.time, self.playing, self.speed, self.loop, self.follow = 0.0, False, 1.0, True, False
        self._dirty = True
        self._eye: np.ndarray | None = None
        self._slider_age = self._plot_age = 1.0
        self._build()
        for track in self.tracks:
            track.marks.shown.add("trail")
            track.marks.trail(track.trail())
        threading.Thread(target=self._compute, name="condyle contact forces", daemon=True).start()

    # ---- the panel

    def _build(self) -> None:
        gui, does = self.panel.gui, self.panel.does
        for track in self.tracks:
            if track.problems:
                gui.add_html(paragraphs(track.problems, color="#d9541e", small=True))
        self.button = gui.add_button("play")
        self.button.on_click(does(self.toggle))
        dt = self.tracks[0].run.dt
        self.slider = gui.add_slider("time, s", 0.0, max(self.duration, dt), dt, 0.0)
        self.slider.on_update(does(lambda: self.seek(self.slider.value)))
        steps = self.steps = gui.add_button_group("step", ("|<", "<", ">", ">|"))
        moves = {"|<": lambda: self.seek(0.0), ">|": lambda: self.seek(self.duration)}
        moves |= {"<": lambda: self.step(-1), ">": lambda: self.step(1)}
        steps.on_click(does(lambda: moves[steps.value]()))
        self.rate = gui.add_slider("speed", *SPEEDS, 0.1, 1.0)
        self.rate.on_update(does(lambda: setattr(self, "speed", float(self.rate.value))))
        again = gui.add_checkbox("loop", self.loop)
        again.on_update(does(lambda: setattr(self, "loop", again.value)))
        if len(self.tracks) == 2:
            gui.add_html(paragraph(f"2nd: {self.tracks[1].run.title}", small=True))
            self.way = gui.add_dropdown("second run", WAYS)
            self.way.on_update(does(lambda: self.compare(self.way.value)))
        tabs = gui.add_tab_group()
        groups = groups_of(self.tracks[0].run.signals())
        with tabs.add_tab("Plot"):
            first = next((group for group in FIRST if group in groups), groups[0] if groups else "")
            self.plot = Plot(self.panel, groups or ["nothing"], self._lines, first or "nothing", compare=len(self.tracks) == 2)
            self.plot.draw()
        with tabs.add_tab("Show"):
            signs = [track.marks for track in self.tracks]
            self.show = Show(self.panel, self.stage, [track.body for track in self.tracks], signs, MOVING)
            follow = gui.add_checkbox("camera follows", False)
            follow.on_update(does(lambda: setattr(self, "follow", follow.value)))
        with tabs.add_tab("About"):
            for k, track in enumerate(self.tracks):
                with gui.add_folder("run" if len(self.tracks) == 1 else ("first run", "second run")[k]):
                    gui.add_html(table(self._about(track)))

    def _about(self, track: Track) -> list[tuple[object, object]]:
        run = track.run
        known = {key: value for key, value in run.about.items() if key not in SKIPPED}
        rows: list[tuple[object, object]] = [("title", run.title), ("file", run.path.name if run.path else "not saved")]
        rows += [("duration", f"{run.t[-1]:g} s, {run.steps} steps"), ("sha256", run.hash)]
        return rows + [row for row in facts(known) if row[0] != "title"] + [("note", note) for note in track.body.notes]

    def _lines(self, group: str) -> list[Signal]:
        return [signal for track in self.tracks if (signal := track.signal(group)) is not None]

    def _compute(self) -> None:
        for track in self.tracks:
            try:
                track.compute()
            except Exception as error:  # shown, whatever it is
                self.panel.fail(error)
        self._dirty = True

    # ---- time

    def toggle(self) -> None:
        """Play, or pause."""
        self.play(not self.playing)

    def play(self, on: bool = True) -> None:
        if on and self.time >= self.duration - 1e-9:
            self.time = 0.0
        self.playing = on
        self.button.label = "pause" if on else "play"
        self._dirty = True

    def seek(self, time: float) -> None:
        """Show a time."""
        self.time = float(np.clip(time, 0.0, self.duration))
        self._slider_age = self._plot_age = 1.0
        self._dirty = True

    def step(self, count: int) -> None:
        """Pause, and go so many steps on."""
        self.play(False)
        track = self.tracks[0]
        self.seek((track.state(self.time) + count) * track.run.dt)

    def compare(self, way: str) -> None:
        """Show the second run as a ghost, beside the first, or not at all."""
        second = self.tracks[1]
        second.body.shift(self._aside if way == "side by side" else np.zeros(3))
        second.body.hide(way == "hidden")
        self.way.value = way
        self._dirty = True

    def beat(self, elapsed: float) -> bool:
        """Let time pass, and draw."""
        if self.playing:
            self.time += elapsed * self.speed
            if self.time >= self.duration:
                self.time = self.time % self.duration if self.loop and self.duration > 0.0 else self.duration
                if not self.loop:
                    self.play(False)
        if not (self.playing or self._dirty):
            return False
        self._dirty = False
        self._slider_age += elapsed
        self._plot_age += elapsed
        with self._server.atomic():
            for track in self.tracks:
                moment = track.at(self.time)
                track.body.place(moment.R, moment.p)
                track.marks.draw(moment)
        self._follow()
        if self._slider_age >= SLIDER_BEAT or not self.playing:
            self._slider_age = 0.0
            self.slider.value = round(self.time, 6)
        if self._plot_age >= PLOT_BEAT or not self.playing:
            self._plot_age = 0.0
            self.plot.now(self.time)
        return self.playing or self._dirty

    def _follow(self) -> None:
        """Move every camera with the robot."""
        centre = mass_center(self.tracks[0].robot, self.tracks[0].run.q[self.tracks[0].state(self.time)])
        before, self._eye = self._eye, centre
        if self.follow and before is not None and np.any(centre != before):
            for client in self._server.get_clients().values():
                client.camera.position = client.camera.position + (centre - before)


def acting(simulation: Simulation, R: np.ndarray, p: np.ndarray, wrenches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(points, forces), (n, 3) each: where wrenches (n, 6) at frames act, world axes; a torque moves the point aside."""
    points, forces = np.zeros((len(wrenches), 3)), np.zeros((len(wrenches), 3))
    for k, (name, axes) in enumerate(zip(simulation.wrench_frames, simulation.wrench_axes, strict=True)):
        frame = simulation.robot.model.frame(name)
        force, torque = wrenches[k, :3], wrenches[k, 3:]
        if axes == "local":
            R_0f = np.asarray(frame.pose.R, dtype=float)
            R_0f = R[frame.link] @ R_0f if frame.link >= 0 else R_0f
            force, torque = R_0f @ force, R_0f @ torque
        points[k], forces[k] = frame_positions(simulation.robot, R, p, name), force
        squared = float(force @ force)
        if squared > 0.0:
            # the point of the line of action that is nearest to the frame
            points[k] += np.cross(force, torque) / squared
    return points, forces
