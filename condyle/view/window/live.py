"""A simulation as it happens: in real time or slower, held or let go, pushed with the mouse or a button, and saved as a run.

The clock on the wall only says how many steps are due; a step itself never asks it.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from condyle.control.controller import Controller
from condyle.control.simple import floating, holding, nothing, swaying
from condyle.errors import ControlError
from condyle.runs.recorder import Recorder
from condyle.simulate.simulation import Simulation
from condyle.view.geometry import bounds
from condyle.view.trajectory import contact_positions, link_poses, mass_center
from condyle.view.window.body import Body
from condyle.view.window.marks import Marks, Moment
from condyle.view.window.panel import MOVING, Panel, Show
from condyle.view.window.play import acting
from condyle.view.window.plots import Plot, Signal
from condyle.view.window.pose import about
from condyle.view.window.push import Pushes
from condyle.view.window.stage import Stage, nice
from condyle.view.window.text import paragraph, paragraphs, short, table

OWN, HOLD, FLOAT, SWAY, NONE = "own controller", "hold the pose", "carry the weight", "sway", "none"
BUDGET = 0.030  # s of one beat that steps may take
RECORDED = 120.0  # s of simulated time that are kept
SHOWN = 5.0  # s of the plot
SAMPLE = 0.02  # s of simulated time between points of the plot
SPEEDS = (0.05, 1.0)
PLOTS = ("height of the centre of mass", "joint coordinates", "push", "upward contact force")
UNITS = {PLOTS[0]: "m", PLOTS[1]: "rad or m", PLOTS[2]: "N", PLOTS[3]: "N"}


class LiveView:
    """A window on a simulation; `x` is its state, `time` in s."""

    def __init__(
        self,
        server: Any,
        panel: Panel,
        simulation: Simulation,
        *,
        q: Any = None,
        control: Controller | None = None,
        dark: bool = False,
        folder: Path | None = None,
    ) -> None:
        self.simulation, self.robot, self.panel, self._server = simulation, simulation.robot, panel, server
        self.folder = Path.cwd() if folder is None else folder
        self._start = simulation.state(q)
        self.x, self.k = self._start, 0
        q0, _ = simulation.split(self._start)
        self.body = Body(server, self.robot, "/robot")
        self.pushes = Pushes(simulation, self.body.size)
        self.marks = Marks(server, "/robot", self.body.size, self.pushes.weight)
        R, p = link_poses(self.robot, q0)
        low, high = bounds(self.body.looks, R, p)
        self.stage = Stage(server, low - 0.1 * (high - low), high + 0.1 * (high - low), simulation.ground, dark=dark)
        self._own, self._controls = control, dict[str, Controller]()
        self.choose(HOLD if control is None else OWN)
        self.playing, self.speed, self.pace = True, 1.0, 1.0
        self._lock = threading.RLock()
        self._debt, self._said = 0.0, ""
        self._dirty = True
        self._wrenches: np.ndarray | None = None
        self._u = np.zeros(simulation.nu)
        self._history: deque[tuple[float, dict[str, np.ndarray]]] = deque(maxlen=int(SHOWN / SAMPLE))
        self._plot_age = 1.0
        self._record()
        self._build()
        self.body.on_grip(self._on_grip)
        # compile what a step needs before the clock starts
        simulation.step(self.x, self._u, wrenches=self.pushes.wrenches(self._poses, simulation.dt))

    # ---- the panel

    def _build(self) -> None:
        gui, does = self.panel.gui, self.panel.does
        self.status = gui.add_html("")
        self.button = gui.add_button("pause")
        self.button.on_click(does(self.toggle))
        more = self.more = gui.add_button_group("run", ("reset", "step", "save"))
        acts = {"reset": self.reset, "step": self.one, "save": self.save}
        more.on_click(does(lambda: acts[more.value]()))
        rate = gui.add_slider("speed", *SPEEDS, 0.05, 1.0)
        rate.on_update(does(lambda: setattr(self, "speed", float(rate.value))))
        ways = (HOLD, FLOAT, SWAY, NONE) if self._own is None else (OWN, HOLD, FLOAT, SWAY, NONE)
        motors = gui.add_dropdown("motors", ways, initial_value=self.control)
        motors.on_update(does(lambda: self.choose(motors.value)))
        tabs = gui.add_tab_group()
        with tabs.add_tab("Push"):
            self._build_push()
        with tabs.add_tab("Plot"):
            plots = [name for name in PLOTS if name != PLOTS[3] or self.simulation.contact_points]
            self.plot = Plot(self.panel, plots, self._lines, PLOTS[0], cursor=False)
            self.plot.draw()
        with tabs.add_tab("Show"):
            self.show = Show(self.panel, self.stage, [self.body], [self.marks], [name for name in MOVING if name != "trail"])
        with tabs.add_tab("About"):
            rows = [*about(self.robot), ("step", f"{self.simulation.dt * 1e3:g} ms"), ("integrator", self.simulation.integrator)]
            ground = self.simulation.ground
            gui.add_html(table([*rows, ("ground", "none" if ground is None else short(repr(ground), 120))]))
            notes = [*self.robot.report, *self.body.notes]
            if notes:
                with gui.add_folder(f"notes ({len(notes)})"):
                    gui.add_html(paragraphs(notes[:50], small=True))

    def _build_push(self) -> None:
        gui, does = self.panel.gui, self.panel.does
        if not self.pushes.frames:
            gui.add_html(paragraph("this simulation takes no pushes: make it with wrenches=pushable(robot)"))
            return
        gui.add_html(paragraph("drag a link with the mouse to pull it, or push it for a moment:", small=True))
        labels = {f"{k + 1}. {short(frame.name, 50)}": k for k, frame in enumerate(self.pushes.frames)}
        # a base is pushed, and the far end of what is fixed
        first_place = list(labels)[0 if self.robot.model.base_coordinates else -1]
        where = gui.add_dropdown("where", tuple(labels), initial_value=first_place)
        step = nice(self.pushes.weight / 20.0)
        most = round(3.0 * self.pushes.weight / step) * step
        first = (round(0.8 * self.pushes.weight / step) * step, 0.0, 0.0)
        force = [gui.add_slider(f"{axis}, N", -most, most, step, value) for axis, value in zip("xyz", first, strict=True)]
        seconds = gui.add_slider("for, s", 0.02, 1.0, 0.02, 0.1)
        button = self.push_button = gui.add_button("push")

        def push() -> None:
            self.pushes.shove(labels[where.value], np.array([float(s.value) for s in force]), seconds.value)

        button.on_click(does(push))

    def _on_grip(self, link: int, mesh: Any) -> None:
        """Let the mouse pull this mesh."""
        if link not in self.pushes.by_link:
            return
        grip: list[np.ndarray] = []

        # the order of events is kept only by functions of this kind
        async def dragged(event: Any) -> None:
            try:
                if event.phase == "end":
                    grip.clear()
                    self.pushes.release()
                    return
                if not grip:
                    R, p = self._poses()
                    grip.append(R[link].T @ (np.array(event.start_position) - p[link]))
                self.pushes.hold(link, grip[0], np.array(event.end_position))
            except Exception as error:  # shown, whatever it is
                self.panel.fail(error)

        mesh.on_drag("left")(dragged)

    # ---- time

    @property
    def time(self) -> float:
        return self.k * self.simulation.dt

    def toggle(self) -> None:
        """Pause, or go on."""
        self.playing = not self.playing
        self.button.label = "pause" if self.playing else "go on"

    def reset(self) -> None:
        """Back to the beginning."""
        with self._lock:
            self.pushes.release()
            self.x, self.k, self._debt = self._start, 0, 0.0
            self._u, self._wrenches = np.zeros(self.simulation.nu), None
            self._history.clear()
            self._record()
            self._dirty = True

    def choose(self, way: str) -> None:
        """Let the motors hold the pose, carry the weight, sway or do nothing, from where the robot began."""
        if way not in self._controls:
            here, x = self.simulation, self._start
            make = {HOLD: lambda: holding(here, x), FLOAT: lambda: floating(here, x), SWAY: lambda: swaying(here, x)}
            try:
                found = self._own if way == OWN and self._own is not None else make[way]() if way in make else nothing(here)
                # compiled before the clock goes on
                found(0, x)
                self._controls[way] = found
            except ControlError:
                # a robot without motors
                self._controls[way] = nothing(here)
        self.control = way

    def one(self) -> None:
        """Pause, and make one step."""
        if self.playing:
            self.toggle()
        with self._lock:
            self._step()

    def save(self) -> None:
        """Write what happened since the beginning, or the last time it was saved, to a new file in the working folder."""
        with self._lock:
            if self._recorder is None or not self._recorder.k:
                self._say("nothing to save yet")
                return
            run = self._recorder.finish()
            path = self._free_name()
            run.save(path)
            self._record()
            self._say(f"saved {path.name}: {run.steps} steps; it goes on in a new one")

    def _free_name(self) -> Path:
        word = re.sub(r"[^A-Za-z0-9_-]+", "_", self.robot.name)[:40].strip("_") or "robot"
        return next(path for k in range(1, 100_000) if not (path := self.folder / f"live-{word}-{k}.cdl").exists())

    def _record(self) -> None:
        title = f"{self.robot.name}, live"
        self._recorder: Recorder | None = Recorder(self.simulation, self.x, title=title, controller=self.control)

    def beat(self, elapsed: float) -> bool:
        """Make the steps that are due, and draw."""
        if self.playing:
            self._debt += min(elapsed, 0.1) * self.speed
            begin, made, due = time.perf_counter(), 0, int(self._debt / self.simulation.dt)
            with self._lock:
                while made < due and time.perf_counter() - begin < BUDGET:
                    self._step()
                    made += 1
            # what cannot be made in time is not made up for
            self._debt = self._debt - made * self.simulation.dt if made == due else 0.0
            if elapsed > 0.0:
                self.pace += 0.05 * (made * self.simulation.dt / max(elapsed, 1e-3) - self.pace)
        elif not self._dirty:
            return False
        self._dirty = False
        self._draw()
        self._plot_age += elapsed
        if self._plot_age > 0.1:
            self._plot_age = 0.0
            self.plot.draw()
            self._tell()
        return self.playing

    def _step(self) -> None:
        dt = self.simulation.dt
        try:
            self._u, own = self._controls[self.control](self.k, self.x)
            self._wrenches = _sum(self.pushes.wrenches(self._poses, dt), own)
            if self._recorder is not None and self._recorder.k * dt < RECORDED:
                self.x = self._recorder.step(self._u, self._wrenches)
            else:
                self.x = self.simulation.step(self.x, self._u, wrenches=self._wrenches)
        except Exception:
            # it stands still where it was; the panel says why
            self.playing = False
            self.button.label = "go on"
            raise
        self.k += 1
        if self.k % max(round(SAMPLE / dt), 1) == 0:
            self._history.append((self.time, self._sampled()))

    # ---- what is seen

    def _poses(self) -> tuple[np.ndarray, np.ndarray]:
        return link_poses(self.robot, self.simulation.split(self.x)[0])

    def _forces(self) -> np.ndarray:
        if not self.simulation.contact_points:
            return np.zeros((0, 3))
        return np.asarray(self.simulation.contact_forces(self.x, self._u, wrenches=self._wrenches))

    def _sampled(self) -> dict[str, np.ndarray]:
        q, _ = self.simulation.split(self.x)
        joints = [q[link.q.start] for link in self.robot.reduced.links if link.kind.nv == 1]
        pushed = 0.0 if self._wrenches is None else float(np.linalg.norm(self._wrenches[:, :3], axis=1).max(initial=0.0))
        found = {PLOTS[0]: np.array([mass_center(self.robot, q)[2]]), PLOTS[1]: np.array(joints), PLOTS[2]: np.array([pushed])}
        if self.simulation.contact_points:
            found[PLOTS[3]] = self._forces()[:, 2]
        return found

    def _lines(self, name: str) -> list[Signal]:
        rows = list(self._history)
        if len(rows) < 2:
            return []
        joints = [link.joint for link in self.robot.reduced.links if link.kind.nv == 1]
        names = {PLOTS[1]: joints, PLOTS[3]: self.simulation.contact_names}.get(name, [name])
        return [Signal(np.array([t for t, _ in rows]), np.array([row[name] for _, row in rows]), UNITS[name], names)]

    def _draw(self) -> None:
        with self._lock:
            q, _ = self.simulation.split(self.x)
            wrenches, forces = self._wrenches, self._forces()
        R, p = link_poses(self.robot, q)
        contacts = contact_positions(self.simulation, R, p) if len(forces) else forces
        points = pushes = np.zeros((0, 3))
        if wrenches is not None:
            points, pushes = acting(self.simulation, R, p, wrenches)
        with self._server.atomic():
            self.body.place(R, p)
            self.marks.draw(Moment(R, p, mass_center(self.robot, q), contacts, forces, points, pushes))

    def _say(self, text: str) -> None:
        self._said = text
        self._tell()

    def _tell(self) -> None:
        """Time and pace, and what was said last."""
        words = f"{self.time:.2f} s" + (f", {self.pace:.2f} times real time" if self.playing else ", paused")
        kept = 0.0 if self._recorder is None else self._recorder.k * self.simulation.dt
        if kept >= RECORDED - 1e-9:
            words += f"; the first {RECORDED:g} s are kept"
        self.status.content = paragraph(words, small=True) + (paragraph(self._said, small=True) if self._said else "")


def _sum(one: np.ndarray | None, two: np.ndarray | None) -> np.ndarray | None:
    return two if one is None else one if two is None else one + two
