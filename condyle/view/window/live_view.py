"""The view of a simulation as it runs: in real time or slower, paused, pushed with the mouse or a button, and saved as a run.

The clock only says how many steps are due; a step itself never reads it.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from condyle.control.controllers import Controller, gravity_compensation, hold, sine_motion, zero_torque
from condyle.errors import ControlError
from condyle.multibody.robot import Robot
from condyle.robot.model import Frame
from condyle.runs.recorder import Recorder
from condyle.simulate.simulation import Simulation
from condyle.view.plots import round_up
from condyle.view.trajectory import frame_positions, link_poses, mass_center, snapshot
from condyle.view.window.objects import Environment, RobotNode
from condyle.view.window.panel import Panel, View, paragraph, short
from condyle.view.window.signal_plot import Signal, SignalPlot

OWN = "own controller"
CONTROLS: dict[str, Callable[[Simulation, np.ndarray], Controller]] = {
    "hold the pose": hold,
    "gravity compensation": gravity_compensation,
    "sine motion": sine_motion,
    "none": lambda simulation, _: zero_torque(simulation),
}
FRAME_BUDGET = 0.030  # s of one frame that steps may take
MAX_RECORDED = 120.0  # s of simulated time that are kept
PLOTTED = 5.0  # s of simulated time in the plot
SAMPLE_TIME = 0.02  # s of simulated time between samples of the plot
SPEEDS = (0.05, 1.0)
SIGNALS = {"height of the centre of mass": "m", "joint coordinates": "rad or m", "push": "N", "upward contact force": "N"}
HEIGHT, JOINTS, PUSH, CONTACT = SIGNALS
MAX_FRAMES = 48  # that a simulation takes wrenches at, one for each link
MAX_PULL = 3.0  # the force of the mouse, in weights of the robot
DAMPING_RATIO = 0.5  # of the mouse's spring


def pushable(robot: Robot) -> list[str]:
    """A frame of each link with a mass, for `Simulation(..., wrenches=pushable(robot))`; of many links, of the heaviest."""
    frames: dict[int, str] = {}
    for frame in robot.model.frames:
        if frame.link >= 0 and robot.model.links[frame.link].inertia.mass > 0.0:
            frames.setdefault(frame.link, frame.name)
    heavy = sorted(frames, key=lambda link: -float(robot.model.links[link].inertia.mass))[:MAX_FRAMES]
    return [frames[link] for link in sorted(heavy)]


@dataclass
class Pull:
    """A damped spring from the point `grip` of a link, in its frame, to a `target` in the world."""

    link: int
    grip: np.ndarray
    target: np.ndarray
    last: np.ndarray | None = None  # where the point was a step ago


class Pushes:
    """The wrenches of each step, (frames, 6), by a button or by the mouse; safe to use from several threads."""

    def __init__(self, simulation: Simulation, size: float) -> None:
        self.simulation, self.robot = simulation, simulation.robot
        self.frames: list[Frame] = [self.robot.model.frame(name) for name in simulation.wrench_frames]
        self.by_link = {frame.link: k for k, frame in reversed(list(enumerate(self.frames)))}
        self.weight = simulation.weight
        # a pull over half the robot's size is as strong as its weight
        self.stiffness = self.weight / (0.5 * size)
        self._lock = threading.Lock()
        self._pull: Pull | None = None
        self._push: tuple[int, np.ndarray, float] | None = None  # frame, force, seconds left

    def push(self, frame: int, force: np.ndarray, seconds: float) -> None:
        """Push at a frame, by its index, with a force for some time."""
        with self._lock:
            self._push = (frame, np.asarray(force, dtype=float), float(seconds))

    def pull(self, link: int, grip: np.ndarray, target: np.ndarray) -> None:
        """Pull a point of a link, given in its frame, towards a target in the world."""
        with self._lock:
            if self._pull is not None and self._pull.link == link and np.array_equal(self._pull.grip, grip):
                self._pull.target = np.asarray(target, dtype=float)
            else:
                self._pull = Pull(link, np.asarray(grip, dtype=float), np.asarray(target, dtype=float))

    def release(self) -> None:
        """End both."""
        with self._lock:
            self._pull = self._push = None

    @property
    def active(self) -> bool:
        """Whether anything acts."""
        return self._pull is not None or self._push is not None

    def wrenches(self, poses: Callable[[], tuple[np.ndarray, np.ndarray]], dt: float) -> np.ndarray | None:
        """The wrenches of the next step of dt seconds; `poses()` gives (R, p) of the links and is called only if needed."""
        if not self.frames:
            return None
        out = np.zeros((len(self.frames), 6))
        with self._lock:
            pull, push = self._pull, self._push
            if push is not None:
                frame, force, left = push
                out[frame, :3] = force
                self._push = (frame, force, left - dt) if left - dt > 0.5 * dt else None
        if pull is not None and pull.link in self.by_link:
            k = self.by_link[pull.link]
            R, p = poses()
            point = R[pull.link] @ pull.grip + p[pull.link]
            force = self._spring(pull, point, dt)
            out[k, :3] += force
            out[k, 3:] += np.cross(point - frame_positions(self.robot, R, p, self.frames[k].name), force)
        return out

    def _spring(self, pull: Pull, point: np.ndarray, dt: float) -> np.ndarray:
        """k (target - point) - d velocity, at most MAX_PULL weights."""
        velocity = np.zeros(3) if pull.last is None else (point - pull.last) / dt
        pull.last = point
        mass = float(self.robot.model.links[pull.link].inertia.mass)
        # the damping of a heavy robot would be unstable on a light link
        damping = min(2.0 * DAMPING_RATIO * np.sqrt(self.stiffness * self.robot.mass), 0.2 * mass / dt)
        force = self.stiffness * (pull.target - point) - damping * velocity
        size, most = float(np.linalg.norm(force)), MAX_PULL * self.weight
        return np.asarray(force if size <= most else force * (most / size))


class LiveView(View):
    """A simulation in a window; `x` is its state, `time` in s."""

    def __init__(
        self, server: Any, panel: Panel, simulation: Simulation, *, q: Any, control: Controller | None, dark: bool
    ) -> None:
        self.simulation, self.robot, self.folder = simulation, simulation.robot, Path.cwd()
        self.x = self._start = simulation.state(q)
        self.k = 0
        self.node = RobotNode(server, self.robot, "/robot")
        self.pushes = Pushes(simulation, self.node.size)
        low, high = self.node.mesh.bounds(*self._poses())
        margin = 0.1 * (high - low)
        environment = Environment(server, low - margin, high + margin, simulation.ground, dark=dark)
        super().__init__(server, panel, [self.node], environment)
        self._controls = {} if control is None else {OWN: control}
        self._choices = (*self._controls, *CONTROLS)
        self.choose(self._choices[0])
        self.playing, self.speed, self.pace = True, 1.0, 1.0
        self._lock = threading.RLock()
        self._due, self._message, self._plot_age = 0.0, "", 1.0
        self._u = np.zeros(simulation.nu)
        self._wrenches: np.ndarray | None = None
        self._grip: np.ndarray | None = None
        self._joints = [link for link in self.robot.reduced.links if link.kind.nv == 1]
        self._history: deque[tuple[float, dict[str, np.ndarray]]] = deque(maxlen=int(PLOTTED / SAMPLE_TIME))
        self._record()
        self._build()
        self.node.on_drag(self._dragged)
        # compile what a step needs before the clock starts
        simulation.step(self.x, self._u, wrenches=self.pushes.wrenches(self._poses, simulation.dt))

    def _build(self) -> None:
        panel, gui = self.panel, self.panel.gui
        self.status = gui.add_html("")
        self.button = panel.button("pause", self.toggle)
        panel.buttons("run", {"reset": self.reset, "step": self.step, "save": self.save})
        panel.linked(gui.add_slider("speed", *SPEEDS, 0.05, 1.0), lambda value: setattr(self, "speed", float(value)))
        panel.linked(gui.add_dropdown("motors", self._choices, initial_value=self.control), self.choose)
        tabs = gui.add_tab_group()
        with tabs.add_tab("Push"):
            self._build_push()
        with tabs.add_tab("Plot"):
            groups = [name for name in SIGNALS if name != CONTACT or self.simulation.contact_points]
            self.plot = SignalPlot(panel, groups, self._signals, HEIGHT, cursor=False)
        with tabs.add_tab("Show"):
            self.add_layers("trail")
        with tabs.add_tab("About"):
            ground = "none" if self.simulation.ground is None else short(repr(self.simulation.ground), 120)
            rows = [("step", f"{self.simulation.dt * 1e3:g} ms"), ("integrator", self.simulation.integrator), ("ground", ground)]
            panel.about_robot(self.robot, self.node.warnings, rows)

    def _build_push(self) -> None:
        gui, pushes = self.panel.gui, self.pushes
        if not pushes.frames:
            gui.add_html(paragraph("this simulation takes no pushes: make it with wrenches=pushable(robot)"))
            return
        gui.add_html(paragraph("drag a link with the mouse to pull it, or push it for a moment:", small=True))
        labels = {f"{k + 1}. {short(frame.name, 50)}": k for k, frame in enumerate(pushes.frames)}
        # a base is pushed, or the far end of a robot with a fixed base
        first_frame = list(labels)[0 if self.robot.model.base_coordinates else -1]
        where = gui.add_dropdown("where", tuple(labels), initial_value=first_frame)
        step = round_up(pushes.weight / 30.0)
        most, first = (round(factor * pushes.weight / step) * step for factor in (3.0, 0.8))
        force = [gui.add_slider(f"{axis}, N", -most, most, step, first if axis == "x" else 0.0) for axis in "xyz"]
        seconds = gui.add_slider("for, s", 0.02, 1.0, 0.02, 0.1)
        self.panel.button("push", lambda: pushes.push(labels[where.value], np.array([s.value for s in force]), seconds.value))

    def _dragged(self, link: int, event: Any) -> None:
        """The mouse pulls a link, or lets it go."""
        if link not in self.pushes.by_link:
            return
        try:
            if event.phase == "end":
                self._grip = None
                self.pushes.release()
            else:
                if self._grip is None:
                    R, p = self._poses()
                    self._grip = R[link].T @ (np.array(event.start_position) - p[link])
                self.pushes.pull(link, self._grip, np.array(event.end_position))
        except Exception as error:  # shown, whatever it is
            self.panel.fail(error)

    @property
    def time(self) -> float:
        """Simulated time, s."""
        return self.k * self.simulation.dt

    def toggle(self) -> None:
        """Pause, or go on."""
        self.playing = not self.playing
        self.button.label = "pause" if self.playing else "go on"

    def reset(self) -> None:
        """Return to the initial state."""
        with self._lock:
            self.pushes.release()
            self.x, self.k, self._due = self._start, 0, 0.0
            self._u, self._wrenches = np.zeros(self.simulation.nu), None
            self._history.clear()
            self._record()
            self._changed = True

    def choose(self, control: str) -> None:
        """Let a controller drive the motors, about the initial pose."""
        if control not in self._controls:
            try:
                self._controls[control] = CONTROLS[control](self.simulation, self._start)
            except ControlError:
                # a robot without motors
                self._controls[control] = zero_torque(self.simulation)
        # compile before the clock goes on
        self._controls[control](0, self._start)
        self.control = control

    def step(self) -> None:
        """Pause, and make one step."""
        if self.playing:
            self.toggle()
        with self._lock:
            self._advance()
        self._changed = True

    def save(self) -> None:
        """Write what happened since the beginning, or the last time it was saved, to a new file in the working folder."""
        with self._lock:
            self._message = "nothing to save yet"
            if self._recorder.k:
                word = re.sub(r"[^A-Za-z0-9_-]+", "_", self.robot.name)[:40].strip("_") or "robot"
                path = next(p for k in range(1, 100_000) if not (p := self.folder / f"live-{word}-{k}.cdl").exists())
                run = self._recorder.finish()
                run.save(path)
                self._record()
                self._message = f"saved {path.name}: {run.steps} steps; it goes on in a new one"
        self._update_status()

    def _record(self) -> None:
        self._recorder = Recorder(self.simulation, self.x, title=f"{self.robot.name}, live", controller=self.control)

    def draw(self, elapsed: float) -> bool:
        """Make the steps that are due, and draw; whether more is to come."""
        if self.playing:
            dt = self.simulation.dt
            self._due += min(elapsed, 0.1) * self.speed
            begin, made, due = time.perf_counter(), 0, int(self._due / dt)
            with self._lock:
                while made < due and time.perf_counter() - begin < FRAME_BUDGET:
                    self._advance()
                    made += 1
            # steps that do not fit into the budget are dropped: the simulation is slower than real time
            self._due = self._due - made * dt if made == due else 0.0
            if elapsed > 0.0:
                self.pace += 0.05 * (made * dt / max(elapsed, 1e-3) - self.pace)
        elif not self._changed:
            return False
        self._changed = False
        with self._lock:
            q, wrenches, forces = self.simulation.split(self.x)[0], self._wrenches, self._forces()
        now = snapshot(self.robot, q, self.simulation, forces=forces, wrenches=wrenches)
        with self._server.atomic():
            self.node.draw(now)
        self._plot_age += elapsed
        if self._plot_age > 0.1:
            self._plot_age = 0.0
            self.plot.draw()
            self._update_status()
        return self.playing

    def _advance(self) -> None:
        dt = self.simulation.dt
        try:
            self._u, own = self._controls[self.control](self.k, self.x)
            pushed = self.pushes.wrenches(self._poses, dt)
            self._wrenches = own if pushed is None else pushed if own is None else pushed + own
            if self._recorder.k * dt < MAX_RECORDED:
                self.x = self._recorder.step(self._u, self._wrenches)
            else:
                self.x = self.simulation.step(self.x, self._u, wrenches=self._wrenches)
        except Exception:
            # it stops at the last state; the panel shows the error
            self.playing = False
            self.button.label = "go on"
            raise
        self.k += 1
        if self.k % max(round(SAMPLE_TIME / dt), 1) == 0:
            self._history.append((self.time, self._sample()))

    def _poses(self) -> tuple[np.ndarray, np.ndarray]:
        return link_poses(self.robot, self.simulation.split(self.x)[0])

    def _forces(self) -> np.ndarray | None:
        if not self.simulation.contact_points:
            return None
        return np.asarray(self.simulation.contact_forces(self.x, self._u, wrenches=self._wrenches))

    def _sample(self) -> dict[str, np.ndarray]:
        q, forces = self.simulation.split(self.x)[0], self._forces()
        pushed = 0.0 if self._wrenches is None else float(np.linalg.norm(self._wrenches[:, :3], axis=1).max(initial=0.0))
        return {
            HEIGHT: mass_center(self.robot, q)[2:],
            JOINTS: np.array([q[link.q.start] for link in self._joints]),
            PUSH: np.array([pushed]),
            CONTACT: np.zeros(0) if forces is None else forces[:, 2],
        }

    def _signals(self, name: str) -> list[Signal]:
        rows = list(self._history)
        if len(rows) < 2:
            return []
        names = {JOINTS: [link.joint for link in self._joints], CONTACT: self.simulation.contact_names}.get(name, [name])
        return [Signal(np.array([t for t, _ in rows]), np.array([row[name] for _, row in rows]), SIGNALS[name], names)]

    def _update_status(self) -> None:
        """Time, pace, and the last message."""
        text = f"{self.time:.2f} s" + (f", {self.pace:.2f} times real time" if self.playing else ", paused")
        if self._recorder.k * self.simulation.dt >= MAX_RECORDED - 1e-9:
            text += f"; the first {MAX_RECORDED:g} s are kept"
        self.status.content = paragraph(*filter(None, (text, self._message)), small=True)
